// Numbered cases of the usage document's contract, part H: delegation.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { isChild, say, setup } from "../support/delegation.ts"
import * as Fake from "../support/fakeModel.ts"
import { machine } from "../support/hermes.ts"
import * as Ask from "../models/provider/Ask.ts"

describe("hermes-llm: delegation", () => {
  for (const [cap, kept] of [
    [3, ["g1", "g2", "g3"]],
    [undefined, ["g1"]]
  ] as const) {
    it.effect(
      `T97 of five delegations and another call ${cap ?? "one (ARCHITECTURE §7)"} and the other call are kept, in order`,
      () => {
        const goals: Array<string> = []
        const calls = [1, 2].map((n) => Fake.call(`d${n}`, "delegate_task", { goal: `g${n}` }))
        const others = [3, 4, 5].map((n) => Fake.call(`d${n}`, "delegate_task", { goal: `g${n}` }))
        const { layer, ran } = setup(
          ({ prompt, results }) => {
            if (isChild(prompt)) {
              goals.push(prompt.slice(0, 2))
              return say("ok")
            }
            return results === 0
              ? Effect.succeed(Fake.callsAnswer(...calls, Fake.call("e", "echo", { text: "hello" }), ...others))
              : say("done")
          },
          { settings: { delegation: { maxCallsPerStep: cap } } }
        )
        return Effect.gen(function* () {
          const { sessionId } = yield* Agent.run({ prompt: "go" })
          assert.deepStrictEqual(goals, [...kept])
          assert.deepStrictEqual(ran, ["hello"])
          const stored = (yield* (yield* SessionStore).messages(sessionId)).flatMap((message) =>
            message.role === "assistant"
              ? message.content.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))
              : []
          )
          assert.deepStrictEqual(stored, cap === 3 ? ["d1", "d2", "e", "d3"] : ["d1", "e"])
        }).pipe(Effect.provide(layer))
      }
    )
  }

  it.live("a child asks the model, provider, address and key of the delegation section, within its limits", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const parent = yield* Ask.mock
      const child = yield* Ask.mock
      parent.on(
        { userMessage: "begin", hasToolResult: false },
        { toolCalls: [{ id: "d1", name: "delegate_task", arguments: '{"goal":"count the sheep"}' }] }
      )
      parent.on({ userMessage: "begin", hasToolResult: true }, { content: "done" })
      child.on({ userMessage: "count the sheep" }, { content: "seven, says the other endpoint" })
      const route = (url: string, model: string) =>
        `provider: custom\n  base_url: ${url}/v1\n  api_key: k\n  ${model}\n`
      keep(
        "config.yaml",
        `model:\n  ${route(parent.url, "default: parent-model")}delegation:\n  max_spawn_depth: 2\n` +
          `  max_concurrent_children: 2\n  child_timeout_seconds: 180\n  ${route(child.url, "model: child-model")}`
      )
      const { stderr, stdout } = yield* hermes(["-q", "begin", "--format", "stream-json"])
      const line = stdout.split("\n").find((line) => line.includes('"tool_result"')) ?? ""
      assert.include(line, "seven, says the other endpoint", stderr)
      assert.include(line, '\\"model\\":\\"child-model')
      assert.match(stdout, /"text":"done"/)
    })
  )
})
