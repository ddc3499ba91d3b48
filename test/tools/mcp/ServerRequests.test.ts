// Questions of MCP servers as the user is asked them: an address whole, and a mark for each hidden character.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { CurrentTenant } from "../../../src/store/TenantScope.ts"
import * as Clarifier from "../../../src/tools/builtin/Clarifier.ts"
import * as ServerRequests from "../../../src/tools/mcp/ServerRequests.ts"

type Request = Parameters<ServerRequests.Questions["elicit"]>[0]

/** Asks a user who takes the first choice of each question, or answers with a word. */
const ask = Effect.fnUntraced(function* (request: Request) {
  const asked: Array<Clarifier.Question> = []
  const user: Clarifier.Ask = (question) =>
    Effect.sync(() => {
      asked.push(question)
      return [question.choices[0] ?? "word"]
    })
  const questions = ServerRequests.make({ name: "shop" })
  const call = Effect.promise((signal) => questions.elicit(request, signal))
  const answer = yield* Effect.provideService(questions.during(call), Clarifier.Clarifier, user)
  return { answer, asked }
})

describe("a question of a server", () => {
  it.effect("shows all of a long address", () =>
    Effect.gen(function* () {
      const url = `https://good.example/${"a".repeat(3_000)}?next=https://evil.example`
      const { answer, asked } = yield* ask({ message: "Log in", url })
      assert.strictEqual(answer.action, "accept")
      assert.include(asked[0]?.question, url)
    })
  )

  it.effect("marks hidden characters of an address and of its message", () =>
    Effect.gen(function* () {
      const { asked } = yield* ask({ message: "Log\u202E in", url: "https://good.example\u2028\u202E/a\u200B" })
      assert.include(asked[0]?.question, "https://good.example\\u{2028}\\u{202E}/a\\u{200B}")
      assert.include(asked[0]?.question, "Log\\u{202E} in")
    })
  )

  it.effect("is declined where its address is too long to be shown", () =>
    Effect.gen(function* () {
      const { answer, asked } = yield* ask({ message: "Log in", url: `https://good.example/${"a".repeat(20_000)}` })
      assert.deepStrictEqual([answer.action, asked.length], ["decline", 0])
    })
  )

  it.effect("marks hidden characters of titles and choices, whose values stay as they are", () =>
    Effect.gen(function* () {
      const { answer, asked } = yield* ask({
        message: "Which?",
        requestedSchema: {
          type: "object",
          required: ["a\u200B", "title", "names"],
          properties: {
            "a\u200B": { type: "string", enum: ["x\u202Ey"] },
            title: {
              type: "string",
              title: "T\u200B",
              description: "D\u200B",
              oneOf: [{ const: "1", title: "o\u200Bne" }]
            },
            names: { type: "string", enum: ["2\u200B"], enumNames: ["tw\u200Bo"] },
            rest: { type: "string", default: "d\u202E" }
          }
        }
      })
      assert.deepStrictEqual(answer, {
        action: "accept",
        content: { "a\u200B": "x\u202Ey", title: "1", names: "2\u200B", rest: "d\u202E" }
      })
      assert.deepStrictEqual(
        asked.slice(1).map(({ choices, question }) => [question, choices]),
        [
          ["a\\u{200B}", ["x\\u{202E}y"]],
          ["T\\u{200B}: D\\u{200B}", ["o\\u{200B}ne"]],
          ["names", ["tw\\u{200B}o"]],
          ["rest", ["Use the default: d\\u{202E}"]]
        ]
      )
    })
  )
})

describe("requests of a server during calls for several tenants", () => {
  it.effect("are refused, and answered when one tenant's calls are left", () =>
    Effect.gen(function* () {
      const questions = ServerRequests.make({ name: "shop" })
      const request = { message: "Pay?", requestedSchema: { type: "object", properties: {} } }
      const asked: Array<string> = []
      const callFor = <A>(tenant: string, call: Effect.Effect<A>) =>
        questions.during(call).pipe(
          Effect.provideService(Clarifier.Clarifier, ({ choices }) =>
            Effect.sync(() => {
              asked.push(tenant)
              return [choices[0] ?? ""]
            })
          ),
          Effect.provideService(CurrentTenant, tenant)
        )
      const elicit = Effect.promise((signal) =>
        questions.elicit(request, signal).then(
          ({ action }) => action,
          (error: unknown) => String(error)
        )
      )
      const both = yield* callFor("acme", callFor("zeta", elicit))
      assert.include(both, "several tenants")
      assert.deepStrictEqual(asked, [])
      yield* callFor("acme", callFor("acme", elicit))
      assert.deepStrictEqual(asked, ["acme"])
    })
  )
})
