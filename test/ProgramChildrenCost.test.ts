// Children of one run with the same tools send the same tools and system prompt, so that each reads from the provider's
// cache what the first has written. Over the wire, through the settings of the program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { goals, recordChildren } from "./support/childSessions.ts"
import * as PromptCache from "./support/promptCache.ts"
import { endpoints, judge } from "./support/promptSessions.ts"

const readHead = (body: string) => {
  const { input, instructions, messages, system, toolConfig, tools } = JSON.parse(body)
  return { tools: tools ?? toolConfig, system: system ?? instructions ?? messages[0], conversation: input ?? messages }
}

describe("children of one kind", () => {
  for (const name of ["anthropic", "bedrock", "responses", "chat", "Claude behind a gateway"] as const) {
    it.effect(`${name}: have the same tools and system prompt, to the byte, and find them in the cache`, () =>
      Effect.gen(function* () {
        const endpoint = endpoints[name]
        const { children } = yield* recordChildren(endpoint)
        assert.deepStrictEqual([...children.keys()].toSorted(), goals.toSorted())
        const bodies = [...children.values()].flatMap((all) => all.map(({ body }) => body))
        const heads = bodies.map(readHead).map(({ system, tools }) => JSON.stringify({ system, tools }))
        assert.strictEqual(new Set(heads).size, 1)
        assert.strictEqual(new Set(bodies.map((body) => endpoint.key?.(body))).size, 1)
        for (const goal of goals) assert.notInclude(heads[0], goal)
        assert.notMatch(heads[0] ?? "", /hermes-test-|\d{8}_\d{6}_/u)
        const all = [...children.values()].flat()
        if (endpoint.price === PromptCache.byMarks) {
          // The last block of the head has a mark in each request.
          for (const body of bodies) assert.isTrue(endpoint.blocks(body)[headLength(name, body) - 1]?.isMarked)
        }
        assert.isAtMost(judge(endpoint, all).ratio, 1.05)
      })
    )
  }

  it.effect("have other tools and another key if their tasks ask for other toolsets", () =>
    Effect.gen(function* () {
      const endpoint = endpoints.responses
      const { children } = yield* recordChildren(endpoint, { toolsets: ["file"] })
      const keys = goals.map((goal) => new Set(children.get(goal)?.map(({ body }) => endpoint.key?.(body))))
      assert.deepStrictEqual(
        keys.map(({ size }) => size),
        [1, 1, 1]
      )
      assert.deepStrictEqual(keys[0], keys[1])
      assert.notDeepEqual(keys[0], keys[2])
    })
  )
})

/** Number of blocks of the tools and the system prompt. */
const headLength = (name: string, body: string): number => {
  const { messages, system, toolConfig, tools } = JSON.parse(body)
  return name === "Claude behind a gateway"
    ? tools.length + 1
    : (tools ?? toolConfig.tools).length + system.length - (messages.length > 0 && name === "bedrock" ? 1 : 0)
}
