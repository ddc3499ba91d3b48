// The system prompt and the tools of a session are the same bytes in each of its requests, whatever changes beside it:
// through the runtime of the program, over the wire.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../src/agent/Agent.ts"
import * as HttpServer from "./models/provider/HttpServer.ts"
import * as Program from "./support/configuredProgram.ts"
import { protocols, type WireTurn } from "./support/wireModel.ts"

const turns = 100

/** Turns of each of the three programs that go on with the session. */
const lives = [
  [1, 40],
  [41, 70],
  [71, turns]
] as const

const config = (url: string): string => `
model: { provider: custom, default: gpt-test, base_url: "${url}/v1", api_key: k, context_length: 400000 }
plugins: { enabled: [weather] }
memory: { nudge_interval: 0 }
skills: { creation_nudge_interval: 0 }
`

/** Says something else before each turn. */
const weather = `export default {
  register(ctx) {
    ctx.registerHook("pre_llm_call", ({ user_message }) => ({ context: "it rains at " + user_message }))
  }
}
`

interface Message {
  readonly role: string
  readonly content: unknown
}

interface Parts {
  readonly system: string
  readonly tools: string
  /** Texts of the user's messages. */
  readonly users: ReadonlyArray<string>
  readonly lastRole: string
}

/** The parts of a request, system prompt and tools as they stand in the body. */
const partsOf = (body: string): Parts => {
  const { messages, tools }: { readonly messages: ReadonlyArray<Message>; readonly tools: ReadonlyArray<unknown> } =
    JSON.parse(body)
  const parts = { system: JSON.stringify(messages[0]), tools: JSON.stringify(tools) }
  assert.isTrue(body.includes(parts.system) && body.includes(parts.tools))
  return {
    ...parts,
    users: messages.flatMap(({ content, role }) => (role === "user" ? [JSON.stringify(content)] : [])),
    lastRole: messages.at(-1)?.role ?? ""
  }
}

/** A model that saves a fact in every fifth turn, in one memory and in the other. */
const answerTo = ({ lastRole, users }: Parts): WireTurn => {
  const turn = Number(users.at(-1)?.match(/\d+/gu)?.at(-1))
  return turn % 5 === 0 && lastRole === "user"
    ? {
        calls: [
          {
            id: `m${turn}`,
            name: "memory",
            args: JSON.stringify({ action: "add", target: turn % 2 === 0 ? "memory" : "user", content: `fact ${turn}` })
          }
        ]
      }
    : { text: `answer ${turn}` }
}

describe("a session of a hundred turns", () => {
  it.effect(
    "has one system prompt and one list of tools: with memory writes, plugin context, and other programs in other folders days later",
    () =>
      Effect.gen(function* () {
        const home = yield* Program.home
        const folders = [yield* Program.home, yield* Program.home, yield* Program.home]
        Program.keep(join(home, "plugins/weather/plugin.yaml"), "name: weather\n")
        Program.keep(join(home, "plugins/weather/index.mjs"), weather)
        Program.keep(join(home, "memories/MEMORY.md"), "fact 0 was known before\n")
        const server = yield* HttpServer.make(({ body, url }, response) => {
          if (!url.endsWith("/chat/completions")) return HttpServer.json(response, 404, {})
          HttpServer.json(response, 200, protocols.chat_completions.whole(answerTo(partsOf(body))))
        })
        /** Changes everything that a system prompt is made of. */
        const change = (turn: number) =>
          Effect.sync(() => {
            Program.keep(join(home, "SOUL.md"), `You are number ${turn}.`)
            Program.keep(
              join(home, `skills/skill-${turn}/SKILL.md`),
              `---\nname: skill-${turn}\ndescription: Does thing ${turn}.\n---\nDo it.\n`
            )
            for (const folder of folders) Program.keep(join(folder, "AGENTS.md"), `Rule ${turn} of ${folder}.`)
          })
        yield* change(0)
        for (const [life, [first, last]] of lives.entries()) {
          const layer = Program.layer({ home, config: config(server.url) })
          yield* Effect.gen(function* () {
            for (let turn = first; turn <= last; turn++) {
              const { text } = yield* Agent.run({ prompt: `question ${turn}`, sessionId: "long", cwd: folders[life] })
              assert.strictEqual(text, `answer ${turn}`)
              yield* change(turn)
            }
          }).pipe(Effect.provide(layer))
          yield* TestClock.adjust("2 days")
        }
        const requests = server.requests
          .filter(({ url }) => url.endsWith("/chat/completions"))
          .map(({ body }) => partsOf(body))
        assert.strictEqual(requests.length, turns + turns / 5)
        const others = (part: "system" | "tools") =>
          requests.flatMap((request, at) => (request[part] === requests[0]?.[part] ? [] : [at]))
        assert.deepStrictEqual([others("system"), others("tools")], [[], []])
        for (const part of ["You are number 0.", "skill-0", "Rule 0 of", "fact 0 was known before"])
          assert.include(requests[0]?.system, part)
        // The plugin's text stands before the question of the turn, and before no other.
        for (const { users } of requests) {
          assert.deepStrictEqual(
            users.map((text) => text.includes("<plugin-context>it rains at question")),
            users.map((_, at) => at === users.length - 1)
          )
        }
        // All of it did change: the next session begins with it.
        assert.strictEqual(readFileSync(join(home, "memories/MEMORY.md"), "utf8").match(/fact \d+/gu)?.length, 11)
        yield* Effect.provide(
          Agent.run({ prompt: "question 101", sessionId: "next", cwd: folders[2] }),
          Program.layer({ home, config: config(server.url) })
        )
        const next = partsOf(server.requests.at(-1)?.body ?? "{}")
        for (const part of [
          `You are number ${turns}.`,
          `skill-${turns}`,
          `Rule ${turns} of ${folders[2]}`,
          "fact 0",
          "fact 90",
          "fact 95"
        ])
          assert.include(next.system, part)
      })
  )
})
