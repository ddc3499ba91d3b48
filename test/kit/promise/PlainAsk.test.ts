// Questions of plain functions, and the resumption of their runs, by the runtime for code without Effect.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as z from "zod"
import { afterEach, assert, beforeEach, describe, it } from "vitest"
import * as Schema from "effect/Schema"
import { createHermes, HermesError, tool, type ToolCall } from "../../../src/kit/entry/promise.ts"
import { Scripted } from "../../../src/index.ts"

let folder = ""
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "plain-ask-"))))
afterEach(() => rmSync(folder, { recursive: true }))

type Turns = ReadonlyArray<Parameters<typeof Scripted.complete>[0]>
type Execute = (call: ToolCall) => unknown

/** A runtime as another process has it: nothing but the store is the same. */
const open = (execute: Execute, turns: Turns) =>
  createHermes({
    model: Scripted.layer(turns.map((turn) => Scripted.complete(turn))),
    store: { sqlite: join(folder, "state.db") },
    questions: { unanswered: "suspend" },
    tools: [tool({ name: "work", description: "Works", input: z.object({}), execute: (_, call) => execute(call) })]
  })

const call: Turns[number] = { toolCalls: [{ name: "work", params: {}, id: "c" }] }
const Order = z.object({ euros: z.number().int().min(1), on: z.string().transform((on) => new Date(on)) })

describe("a plain function", () => {
  it("asks one question after another, and does not repeat what it did before", async () => {
    const effects: Array<string> = []
    const execute: Execute = async ({ ask }) => {
      const invoice = await ask.once("invoice", async () => (effects.push("invoice"), 7))
      const { euros, on } = await ask.form(Order, { title: "How much, and when?" })
      const name = await ask.text({ title: "Who?" })
      const { isApproved, reason } = await ask.approval({ title: `Pay ${name}?` })
      effects.push(`decided ${isApproved} ${reason}`)
      return { invoice, euros, year: on.getUTCFullYear(), name }
    }
    const sessionId = "s"
    const step = async (turns: Turns, answer?: unknown) => {
      await using hermes = open(execute, turns)
      if (answer === undefined) return await hermes.run({ prompt: "go", sessionId })
      const [question] = await hermes.questions({ sessionId })
      assert.isDefined(question)
      return await hermes.resume({ sessionId, answers: [{ questionId: question.id, answer }] })
    }
    const first = await step([call])
    assert.deepStrictEqual(
      [first.exit, first.questions?.map(({ kind, title }) => [kind, title])],
      ["suspended", [["form", "How much, and when?"]]]
    )
    const wrong = await step([], { euros: "many", on: "2030-01-01" }).catch((error: unknown) => error)
    assert.deepStrictEqual(wrong instanceof HermesError && wrong.tag, "AnswerInvalid")
    const second = await step([], { euros: 5, on: "2030-01-01" })
    assert.deepStrictEqual(
      second.questions?.map(({ title }) => title),
      ["Who?"]
    )
    const third = await step([], "Bob")
    assert.deepStrictEqual(
      third.questions?.map(({ title }) => title),
      ["Pay Bob?"]
    )
    const last = await step(["Done."], { choice: "deny", reason: "too much" })
    assert.deepStrictEqual([last.exit, last.text], ["text_response", "Done."])
    assert.deepStrictEqual(effects, ["invoice", "decided false too much"])
    assert.deepStrictEqual(last.calls.at(-1)?.result, { invoice: 7, euros: 5, year: 2030, name: "Bob" })
  })

  it("is abandoned where it asks: nothing behind the question runs, and questions at one time are asked together", async () => {
    const seen: Array<string> = []
    const execute: Execute = async ({ ask, signal }) => {
      signal.addEventListener("abort", () => seen.push("aborted"))
      try {
        const [one, two] = await Promise.all([
          ask.event("paid", Schema.Struct({ by: Schema.String })),
          ask.form({ type: "integer" }, { title: "How many?" })
        ])
        await ask.until(0)
        seen.push("after")
        return `${one.by} ${String(two)}`
      } catch {
        seen.push("caught")
        return "never"
      }
    }
    {
      await using hermes = open(execute, [call])
      const { exit, questions } = await hermes.run({ prompt: "go", sessionId: "s" })
      assert.deepStrictEqual(
        [exit, questions?.map(({ kind, event }) => [kind, event])],
        [
          "suspended",
          [
            ["event", "paid"],
            ["form", undefined]
          ]
        ]
      )
    }
    assert.deepStrictEqual(seen, ["aborted"])
    await using hermes = open(execute, ["Done."])
    const questions = await hermes.questions()
    const events = []
    for await (const event of hermes.resumeStream({
      sessionId: "s",
      answers: questions.map(({ id, kind }) => ({ questionId: id, answer: kind === "event" ? { by: "Ada" } : 3 }))
    }))
      events.push(event)
    const last = events.at(-1)
    assert.isTrue(events.some((event) => event._tag === "ToolFinished" && event.output === "Ada 3"))
    assert.strictEqual(last?._tag === "RunFinished" ? last.text : "", "Done.")
    assert.deepStrictEqual(
      seen.filter((one) => one === "after" || one === "caught"),
      ["after"]
    )
  })

  it("receives the failures of its questions and of its steps", async () => {
    const seen: Array<unknown> = []
    const note = async (work: Promise<unknown>) => {
      await work.catch((error: unknown) => seen.push(error instanceof HermesError ? error.tag : error))
    }
    const execute: Execute = async ({ ask }) => {
      await note(ask.once("fails", () => Promise.reject(new TypeError("no"))))
      await note(ask.text({ title: "Who?" }))
      seen.push(await ask.approval({ title: "May I?" }))
      await note(ask.form(z.object({ at: z.custom<Date>((value) => value instanceof Date) }), { title: "At?" }))
      return "ok"
    }
    await using hermes = open(execute, [call, "Done."])
    const { exit } = await hermes.run({ prompt: "go", questions: { unanswered: "deny" } })
    assert.strictEqual(exit, "text_response")
    const [failed, text, approval, form] = seen
    assert.instanceOf(failed, TypeError)
    assert.strictEqual(text, "QuestionUnanswered")
    assert.deepStrictEqual(Reflect.get(Object(approval), "isApproved"), false)
    assert.include(["ConfigError", "QuestionUnanswered"], form)
  })

  it("is checked by its own schema when the answer arrives", async () => {
    const even = z.number().refine((n) => n % 2 === 0, "must be even")
    const execute: Execute = async ({ ask }) => await ask.form(even, { title: "An even number?" })
    {
      await using hermes = open(execute, [call])
      await hermes.run({ prompt: "go", sessionId: "s" })
    }
    await using hermes = open(execute, ["Done."])
    const [question] = await hermes.questions({ kind: "form" })
    const { calls } = await hermes.resume({ sessionId: "s", answers: [{ questionId: question?.id ?? "", answer: 3 }] })
    assert.match(JSON.stringify(calls.at(-1)), /must be even/)
  })
})

describe("resume, resumeStream and questions", () => {
  it("reject what is wrong with a tag", async () => {
    await using hermes = open(({ ask }) => ask.text({ title: "Who?" }), [call, "Done."])
    const tagOf = (work: Promise<unknown>) =>
      work.then(
        () => "none",
        (error: unknown) => (error instanceof HermesError ? error.tag : String(error))
      )
    assert.strictEqual(await tagOf(hermes.resume({ sessionId: "none" })), "SessionNotFound")
    assert.strictEqual(await tagOf(hermes.resume({} as never)), "InvalidInput")
    assert.strictEqual(await tagOf(hermes.questions({ kinds: "form" } as never)), "InvalidInput")
    const { questions = [] } = await hermes.run({ prompt: "go", sessionId: "s" })
    const answers = questions.map(({ id }) => ({ questionId: id, answer: "Bob" }))
    assert.strictEqual(
      await tagOf(hermes.resume({ sessionId: "s", answers: [{ questionId: "q_none", answer: 1 }] })),
      "QuestionUnknown"
    )
    assert.strictEqual(await tagOf(hermes.resume({ sessionId: "s", answers, audience: "others" })), "QuestionUnknown")
    assert.lengthOf(await hermes.questions({ audience: "others" }), 0)
    assert.lengthOf(await hermes.questions({ sessionId: "s", kind: "text", limit: 1 }), 1)
    assert.strictEqual((await hermes.resume({ sessionId: "s", answers })).text, "Done.")
    const again = hermes.resumeStream({ sessionId: "s", answers })
    assert.strictEqual(await tagOf(again.next()), "QuestionAnswered")
    assert.deepStrictEqual(await hermes.questions(), [])
  })
})
