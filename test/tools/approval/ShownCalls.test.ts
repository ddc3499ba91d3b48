// What is approved is what is shown: all of a command, with marks for hidden characters, or no approval at all.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import * as ApprovalOrder from "../../../src/tools/approval/ApprovalOrder.ts"
import { makeCallbackApprover } from "../../../src/tools/approval/Approver.ts"
import type { Question } from "../../../src/tools/approval/ApprovalRequest.ts"

/**
 * Judges a call whose questions are answered with one word; returns its end, its questions and the commands that hooks
 * were told.
 */
const judge = Effect.fnUntraced(function* (
  call: Approvals.Call,
  answer: string,
  options: Partial<Approvals.Options> = {}
) {
  const hooks = yield* Hooks.make()
  const told: Array<string> = []
  yield* hooks.register(
    Hooks.observer(
      { label: "recorder" },
      { pre_approval_request: ({ command }) => Effect.sync(() => void told.push(command)) }
    )
  )
  const questions: Array<Question> = []
  const approver = makeCallbackApprover((question) =>
    Effect.sync(() => {
      questions.push(question)
      return answer
    })
  )
  const end = yield* ApprovalOrder.make({ hooks, approver, ...options }).check(call)
  return { end, questions, told, refusal: end._tag === "Refusal" ? end.message : "" }
})

const terminal = (command: string): Approvals.Call => ({ tool: "terminal", args: { command } })

describe("what is shown of a call", () => {
  it.effect("is all of a long command, also to hooks", () =>
    Effect.gen(function* () {
      const command = `echo ${"a".repeat(15_000)} && rm -rf build`
      const { end, questions, told } = yield* judge(terminal(command), "once")
      assert.strictEqual(end._tag, "Permit")
      assert.deepStrictEqual([questions.map((question) => question.command), told], [[command], [command]])
    })
  )

  it.effect(
    "is nothing of a command that is too long to read: it does not run, and the model writes a file first",
    () =>
      Effect.gen(function* () {
        const { end, questions, refusal } = yield* judge(terminal(`echo ${"a".repeat(20_000)} && rm -rf build`), "once")
        assert.strictEqual(end._tag, "Refusal")
        assert.lengthOf(questions, 0)
        assert.include(refusal, "20000 at most. Write it to a script file first, then run the file.")
      })
  )

  it.effect("is not limited where the user has lifted all questions", () =>
    Effect.gen(function* () {
      const { end } = yield* judge(terminal(`echo ${"a".repeat(20_000)} && rm -rf build`), "deny", {
        policy: { yolo: true }
      })
      assert.strictEqual(end._tag, "Permit")
    })
  )

  it.effect("has a mark for each hidden character, and is not approved for good then", () =>
    Effect.gen(function* () {
      const { questions } = yield* judge(terminal("rm -rf build\r\u001B[2K\u202E# sl\u200B\u{E0041}"), "once")
      const shown = "rm -rf build\\u{D}\\u{1B}[2K\\u{202E}# sl\\u{200B}\\u{E0041}"
      assert.strictEqual(questions[0]?.command, shown)
      assert.deepStrictEqual(questions[0]?.targets, [{ kind: "command", text: shown }])
      assert.deepStrictEqual(questions[0]?.choices, ["once", "session", "deny"])
    })
  )

  it.effect("marks hidden characters of reasons, differences and arguments", () =>
    Effect.gen(function* () {
      const concerns = [{ key: "write outside: /srv/\u202Ea", permanent: true, preview: "+a\u2066b\r\n" }]
      const { questions } = yield* judge({ tool: "mcp_mail_send", args: { to: "a\u202Eb" }, concerns }, "once")
      const [question] = questions
      assert.strictEqual(question?.description, "write outside: /srv/\\u{202E}a")
      assert.strictEqual(question?.preview, "+a\\u{2066}b\n")
      assert.include(question?.command, "a\\u{202E}b")
    })
  )

  it.effect("keeps arguments of a call that runs nothing, up to a bound of their own", () =>
    Effect.gen(function* () {
      const call = (characters: number): Approvals.Call => ({
        tool: "mcp_wiki_write",
        args: { text: "a".repeat(characters) },
        concerns: [{ key: "scanner: odd", permanent: false }]
      })
      assert.isAbove((yield* judge(call(50_000), "once")).questions[0]?.command.length ?? 0, 50_000)
      assert.include((yield* judge(call(300_000), "once")).refusal, "Do it in several smaller calls.")
    })
  )

  it.effect("hides no command behind what looks like a secret", () =>
    Effect.gen(function* () {
      const hidden = [
        "rm -rf build; echo Cookie: a=1; touch pwned",
        'rm -rf build; echo password="abcdefgh1$(touch pwned)"'
      ]
      for (const command of hidden) {
        const { end, questions, refusal } = yield* judge(terminal(command), "once")
        assert.deepStrictEqual([end._tag, questions.length], ["Refusal", 0], command)
        assert.include(refusal, "looks like a secret")
      }
      const { end, questions } = yield* judge(
        terminal("rm -rf build; curl -H 'Cookie: a=1; b=2' https://x.example"),
        "once"
      )
      assert.strictEqual(end._tag, "Permit")
      assert.notInclude(questions[0]?.command, "a=1")
    })
  )

  it.effect("hides no word that a command acts on", () =>
    Effect.gen(function* () {
      const hidden = [
        "rm -rf build --token /home/ada/photos-2024",
        "rm -rf build --token photos-2024",
        "rm -rf build Cookie: a=1 /home/ada/photos",
        "rm -rf build -- --secret /home/ada/photos2024",
        "rm -rf build password: /home/ada/p99",
        "rm -rf build bearer /home/ada/photos-2024-all",
        "rm -rf build TOKEN=../../home/ada/photos",
        "rm -rf build TOKEN=photos",
        "rm -rf build 'Cookie: a=photos'",
        "rm -rf build; rm a --token photos-2024",
        "rm -rf build; mv --token photos-2024 b",
        "rm -rf build; TOKEN=../../home/ada ./run.sh",
        "rm -rf build; TOKEN=photos-2024 && rm -rf $TOKEN",
        "rm -rf build; echo a >TOKEN=photos",
        "sudo rm -rf -H 'Cookie: a=photos'",
        "bash -c 'rm -rf build --token photos-2024'",
        "git push --force origin password: main12345",
        "rm -rf build; python3 - <<'END'\nfrom shutil import *\npassword = '/home/ada/photos'\nrmtree(password)\nEND"
      ]
      for (const command of hidden) {
        const { end, questions, refusal } = yield* judge(terminal(command), "once")
        assert.deepStrictEqual([end._tag, questions.length], ["Refusal", 0], command)
        assert.include(refusal, "looks like a secret")
      }
    })
  )

  it.effect("hides no path in code", () =>
    Effect.gen(function* () {
      const concerns = [{ key: "scanner: odd", permanent: false }]
      const run = (code: string): Approvals.Call => ({ tool: "execute_code", args: { code }, concerns })
      for (const code of ["password = '/home/ada/photos'\nrmtree(password)", "rmtree('--secret photos-2024')"]) {
        assert.include((yield* judge(run(code), "once")).refusal, "looks like a secret", code)
      }
      const { end, questions } = yield* judge(run("connect(password='abcdefgh1', token='ijklmnop2')"), "once")
      assert.strictEqual(end._tag, "Permit")
      assert.notInclude(questions[0]?.command, "abcdefgh1")
    })
  )

  it.effect("masks values of headers, of addresses and of variables, and keys of vendors everywhere", () =>
    Effect.gen(function* () {
      const key = `ghp_${"a1B2".repeat(9)}`
      const masked: ReadonlyArray<readonly [command: string, secret: string]> = [
        ["rm -rf build; curl -H 'Authorization: Basic abc/defgh1234==' https://x.example", "abc/defgh"],
        ["sudo curl -H 'Cookie: a=1; b=2' https://x.example -o /etc/x", "a=1"],
        ["git push --force https://ada:hunter2@x.example/a.git", "hunter2"],
        ["rm -rf build; DB_PASSWORD=hunter2 npm start", "hunter2"],
        ["rm -rf build; npm login --token abcdefgh-1234", "abcdefgh-1234"],
        ["rm -rf build; cat > .env <<'END'\nDB_PASSWORD=ab/cd\nEND", "ab/cd"],
        [`rm -rf build ${key}`, key]
      ]
      for (const [command, secret] of masked) {
        const { end, questions } = yield* judge(terminal(command), "once")
        assert.strictEqual(end._tag, "Permit", command)
        assert.notInclude(questions[0]?.command, secret, command)
      }
    })
  )
})
