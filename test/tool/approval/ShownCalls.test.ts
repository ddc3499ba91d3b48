// What is approved is what is shown: all of a command, with marks for hidden characters, or no approval at all.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Approvals from "../../../src/tool/Approvals.ts"
import * as ApprovalOrder from "../../../src/tool/approval/ApprovalOrder.ts"
import { callback } from "../../../src/tool/approval/Approver.ts"
import type { Question } from "../../../src/tool/approval/Question.ts"

/** Judges a call whose questions are answered with one word; returns its end, its questions and the commands that hooks were told. */
const judge = Effect.fnUntraced(function*(call: Approvals.Call, answer: string, options: Partial<Approvals.Options> = {}) {
  const hooks = yield* Hooks.make()
  const told: Array<string> = []
  yield* hooks.register(Hooks.observer({ label: "recorder" }, {
    pre_approval_request: ({ command }) => Effect.sync(() => void told.push(command))
  }))
  const questions: Array<Question> = []
  const approver = callback((question) => Effect.sync(() => {
    questions.push(question)
    return answer
  }))
  const end = yield* ApprovalOrder.make({ hooks, approver, ...options }).check(call)
  return { end, questions, told, refusal: end._tag === "Refusal" ? end.message : "" }
})

const terminal = (command: string): Approvals.Call => ({ tool: "terminal", args: { command } })

describe("what is shown of a call", () => {
  it.effect("is all of a long command, also to hooks", () =>
    Effect.gen(function*() {
      const command = `echo ${"a".repeat(15_000)} && rm -rf build`
      const { end, questions, told } = yield* judge(terminal(command), "once")
      assert.strictEqual(end._tag, "Permit")
      assert.deepStrictEqual([questions.map((question) => question.command), told], [[command], [command]])
    }))

  it.effect("is nothing of a command that is too long to read: it does not run, and the model writes a file first", () =>
    Effect.gen(function*() {
      const { end, questions, refusal } = yield* judge(terminal(`echo ${"a".repeat(20_000)} && rm -rf build`), "once")
      assert.strictEqual(end._tag, "Refusal")
      assert.lengthOf(questions, 0)
      assert.include(refusal, "20000 at most. Write it to a script file first, then run the file.")
    }))

  it.effect("is not limited where the user has lifted all questions", () =>
    Effect.gen(function*() {
      const { end } = yield* judge(terminal(`echo ${"a".repeat(20_000)} && rm -rf build`), "deny", { policy: { yolo: true } })
      assert.strictEqual(end._tag, "Permit")
    }))

  it.effect("has a mark for each hidden character, and is not approved for good then", () =>
    Effect.gen(function*() {
      const { questions } = yield* judge(terminal("rm -rf build\r\u001B[2K\u202E# sl\u200B\u{E0041}"), "once")
      const shown = "rm -rf build\\u{D}\\u{1B}[2K\\u{202E}# sl\\u{200B}\\u{E0041}"
      assert.strictEqual(questions[0]?.command, shown)
      assert.deepStrictEqual(questions[0]?.targets, [{ kind: "command", text: shown }])
      assert.deepStrictEqual(questions[0]?.choices, ["once", "session", "deny"])
    }))

  it.effect("marks hidden characters of reasons, differences and arguments", () =>
    Effect.gen(function*() {
      const concerns = [{ key: "write outside: /srv/\u202Ea", permanent: true, preview: "+a\u2066b\r\n" }]
      const { questions } = yield* judge({ tool: "mcp_mail_send", args: { to: "a\u202Eb" }, concerns }, "once")
      const [question] = questions
      assert.strictEqual(question?.description, "write outside: /srv/\\u{202E}a")
      assert.strictEqual(question?.preview, "+a\\u{2066}b\n")
      assert.include(question?.command, "a\\u{202E}b")
    }))

  it.effect("keeps arguments of a call that runs nothing, up to a bound of their own", () =>
    Effect.gen(function*() {
      const call = (characters: number): Approvals.Call =>
        ({ tool: "mcp_wiki_write", args: { text: "a".repeat(characters) }, concerns: [{ key: "scanner: odd", permanent: false }] })
      assert.isAbove((yield* judge(call(50_000), "once")).questions[0]?.command.length ?? 0, 50_000)
      assert.include((yield* judge(call(300_000), "once")).refusal, "Do it in several smaller calls.")
    }))

  it.effect("hides no command behind what looks like a secret", () =>
    Effect.gen(function*() {
      const hidden = [
        "rm -rf build; echo Cookie: a=1; touch pwned",
        "rm -rf build; echo password=\"abcdefgh1$(touch pwned)\""
      ]
      for (const command of hidden) {
        const { end, questions, refusal } = yield* judge(terminal(command), "once")
        assert.deepStrictEqual([end._tag, questions.length], ["Refusal", 0], command)
        assert.include(refusal, "looks like a secret")
      }
      const { end, questions } = yield* judge(terminal("rm -rf build; curl -H 'Cookie: a=1; b=2' https://x.example"), "once")
      assert.strictEqual(end._tag, "Permit")
      assert.notInclude(questions[0]?.command, "a=1")
    }))
})
