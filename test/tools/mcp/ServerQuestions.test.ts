// Questions of MCP servers without a user who is present: the run waits, and the call is made again with the answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as QuestionAnswer from "../../../src/base/domain/QuestionAnswer.ts"
import { Agent, Runtime, Scripted, SessionStore, Toolset } from "../../../src/index.ts"
import type { QuestionPolicy } from "../../../src/tools/CallQuestions.ts"
import * as ClientQuestions from "../../../src/tools/mcp/ClientQuestions.ts"
import * as QuestionText from "../../../src/program/cli/render/QuestionText.ts"
import * as ServerRequests from "../../../src/tools/mcp/ServerRequests.ts"

type Request = Parameters<ServerRequests.Questions["elicit"]>[0]

const toolkit = Toolkit.make(Tool.make("shop", { parameters: Schema.Struct({}), success: Schema.Unknown }))
const sessionId = "waits"

/** A server whose tool sends requests to the user, one after another, and the calls that it saw. */
const makeServer = (...requests: ReadonlyArray<Request>) => {
  const seen = { calls: 0, open: 0 }
  const questions = ServerRequests.make({ name: "shop" })
  const call = questions.during(
    Effect.promise(async (signal) => {
      seen.calls++
      const answers: Array<unknown> = []
      for (const request of requests) {
        seen.open++
        answers.push(await questions.elicit(request, signal).finally(() => seen.open--))
      }
      return answers
    })
  )
  return { seen, tools: Toolset.make("shop", toolkit, toolkit.toLayer({ shop: () => call })) }
}

/** Waits until no request of the server is open. */
const closed = (seen: { readonly open: number }) =>
  Effect.repeat(
    Effect.andThen(
      Effect.sleep("1 millis"),
      Effect.sync(() => seen.open)
    ),
    { until: (open) => open === 0 }
  )

const makeRuntime = (tools: ReturnType<typeof makeServer>["tools"], questions: QuestionPolicy) =>
  Effect.map(Layer.build(SessionStore.layerMemory), (context) => {
    const store = Layer.succeedContext(context)
    return <A, E>(turns: ReadonlyArray<Scripted.Turn>, effect: Effect.Effect<A, E, Agent.Agent>) =>
      Effect.provide(effect, Runtime.layer({ provider: Scripted.layer(turns), tools: [tools], questions, store }), {
        local: true
      })
  })

const call = Scripted.complete({ toolCalls: [{ name: "shop", params: {}, id: "c" }] })
const start = Agent.run({ prompt: "go", sessionId })
const answerWith = (answer: unknown) =>
  Effect.flatMap(Agent.questions(sessionId), ([question]) =>
    Agent.resume({ sessionId, answers: [{ questionId: question?.id ?? "none", answer }] })
  )
const form: Request = {
  message: "Which\u202E size?",
  requestedSchema: {
    type: "object",
    properties: { size: { type: "string", title: "Si\u200Bze", enum: ["S", "L"] }, count: { type: "integer" } },
    required: ["size"]
  }
}

describe("a question of a server, without a user", () => {
  it.live("suspends the run, and the server gets the answers when it asks again", () =>
    Effect.gen(function* () {
      const { seen, tools } = makeServer(form, { message: "Log in", url: "https://shop.example/login" })
      const inProcess = yield* makeRuntime(tools, { unanswered: "suspend" })
      const asked = yield* inProcess([call], start)
      const [question] = asked.questions ?? []
      assert.deepStrictEqual(
        [asked.exit, question?.kind, question?.title],
        ["suspended", "form", 'The MCP server "shop" asks: Which\\u{202E} size?']
      )
      assert.include(JSON.stringify(question?.schema), '"title":"Si\\\\u{200B}ze"')
      yield* closed(seen)
      assert.strictEqual(seen.calls, 1)
      const invalid = yield* Effect.flip(inProcess([], answerWith({ size: "XXL" })))
      assert.strictEqual(invalid._tag, "AnswerInvalid")
      const next = yield* inProcess([], answerWith({ size: "L", count: 2 }))
      assert.include(next.questions?.[0]?.prompt, "https://shop.example/login")
      const done = yield* inProcess([Scripted.complete("Done.")], answerWith({ choice: "once" }))
      assert.deepStrictEqual(done.calls.at(-1)?.result, [
        { action: "accept", content: { size: "L", count: 2 } },
        { action: "accept" }
      ])
      yield* closed(seen)
      assert.strictEqual(seen.calls, 3)
    })
  )

  it.live("is declined if the run may not wait, or the form is too long", () =>
    Effect.gen(function* () {
      const long: Request = { ...form, message: "x", requestedSchema: { type: "object", note: "x".repeat(30_000) } }
      const { tools } = makeServer(form, long)
      const inProcess = yield* makeRuntime(tools, { unanswered: "deny" })
      const done = yield* inProcess([call, Scripted.complete("Done.")], start)
      assert.deepStrictEqual(done.calls.at(-1)?.result, [{ action: "decline" }, { action: "decline" }])
    })
  )

  it.live("can be declined", () =>
    Effect.gen(function* () {
      const { tools } = makeServer(form)
      const inProcess = yield* makeRuntime(tools, { unanswered: "suspend" })
      const asked = yield* inProcess([call], start)
      const [question] = asked.questions ?? []
      if (question === undefined) return assert.fail("nothing was asked")
      assert.include(question.prompt, "decline")
      assert.include(QuestionText.formatAnswerCommand(question), "JSON|decline")
      const typed = QuestionAnswer.readTyped(question, "decline")
      const done = yield* inProcess([Scripted.complete("Done.")], answerWith(typed))
      assert.deepStrictEqual(done.calls.at(-1)?.result, [{ action: "decline" }])
    })
  )

  it.live("is declined if its schema cannot be read", () =>
    Effect.gen(function* () {
      const unusable = { type: "object", properties: { size: { type: "no such type" } } }
      const { tools } = makeServer({ message: "Which size?", requestedSchema: unusable })
      const inProcess = yield* makeRuntime(tools, { unanswered: "suspend" })
      const done = yield* inProcess([call, Scripted.complete("Done.")], start)
      assert.deepStrictEqual(done.calls.at(-1)?.result, [{ action: "decline" }])
    })
  )

  it.live("has no regular expression of the server, which could block the process", () =>
    Effect.gen(function* () {
      const slow = { type: "string", pattern: "^(.*)*(.*)*(.*)*x$" }
      const { tools } = makeServer({
        message: "Which size?",
        requestedSchema: {
          type: "object",
          properties: { pattern: { ...slow, anyOf: [slow] }, list: { type: "array", items: slow } },
          patternProperties: { "^(.*)*(.*)*x$": slow },
          allOf: [{ properties: { pattern: slow } }]
        }
      })
      const inProcess = yield* makeRuntime(tools, { unanswered: "suspend" })
      const asked = yield* inProcess([call], start)
      assert.notInclude(JSON.stringify(asked.questions?.[0]?.schema), "(.*)*")
      const done = yield* inProcess([Scripted.complete("Done.")], answerWith({ pattern: "a".repeat(60) }))
      assert.deepStrictEqual(done.calls.at(-1)?.result, [{ action: "accept", content: { pattern: "a".repeat(60) } }])
    })
  )

  for (const [action, wanted] of [
    ["accept", { size: "L" }],
    ["decline", "decline"],
    ["cancel", undefined]
  ] as const)
    it.effect(`is a form for a client that is asked in turn: ${action}`, () =>
      Effect.gen(function* () {
        const properties = { size: { type: "string" } }
        const schema = QuestionAnswer.addDeclined({ type: "object", properties, required: ["size"] })
        const live = ClientQuestions.makeLiveAnswers((asked) => {
          assert.deepStrictEqual(asked.properties, properties)
          return Effect.succeed({ action, content: action === "accept" ? { size: "L" } : {} })
        })
        assert.deepStrictEqual(yield* live.answer({ kind: "form", title: "Size?", schema, tool: "shop" }), wanted)
      })
    )
})
