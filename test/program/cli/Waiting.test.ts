// A run that waits for an answer: what the command line says, how it is answered and continued, in separate runs of the
// program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { machine } from "../../support/hermesInProcess.ts"

const call = (name: string, args: unknown) => ({ tool_calls: [{ name, arguments: args }] })

const asking = "approvals: { unknown_commands: ask }\nquestions: { unanswered: suspend, expires_after: 86400 }\n"

const command = "rm -rf kept"

/** A machine on which a run waits for the approval of a command. */
const suspended = Effect.fnUntraced(function* (format: ReadonlyArray<string> = []) {
  const made = yield* machine
  made.keep("config.yaml", asking)
  made.put("kept/a.txt", "x")
  made.put("ask.yaml", JSON.stringify({ turns: [call("terminal", { command })] }))
  made.put("rest.yaml", JSON.stringify({ turns: [{ text: "kept is gone" }] }))
  const first = yield* made.hermes(["-q", "tidy up", "--script", "ask.yaml", ...format])
  return { ...made, first }
})

const open = (json: string) =>
  JSON.parse(json) as ReadonlyArray<{ readonly id: string; readonly sessionId: string; readonly tool: string }> // printed by the program

describe("a run that waits", () => {
  it.live("says what it waits for and how to answer, and continues with the answer in another process", () =>
    Effect.gen(function* () {
      const { at, first, hermes } = yield* suspended()
      assert.strictEqual(first.code, 1, first.stderr)
      const [asked] = open((yield* hermes(["sessions", "waiting", "--json"])).stdout)
      const { id = "", sessionId = "", tool } = asked ?? {}
      assert.strictEqual(tool, "terminal")
      assert.include(first.stderr, `answer with \`hermes sessions answer ${sessionId} ${id} yes|no\``)
      assert.include(first.stderr, `hermes chat --resume ${sessionId} --answered`)
      const list = (yield* hermes(["sessions", "waiting"])).stdout
      for (const part of [sessionId, id, "terminal", command, "since 0 min", "expires in 23 h"])
        assert.include(list, part)
      // Nothing is answered yet: the run is suspended again.
      const again = yield* hermes(["chat", "--resume", sessionId, "--answered", "--script", "rest.yaml"])
      assert.strictEqual(again.code, 1, again.stderr)
      assert.isTrue(existsSync(at("kept/a.txt")))

      const answered = yield* hermes(["sessions", "answer", sessionId, id, "yes", "--by", "Ada"])
      assert.deepInclude(answered, {
        code: 0,
        stdout: `Answered. Continue with: hermes chat --resume ${sessionId} --answered\n`
      })
      assert.isTrue(existsSync(at("kept/a.txt")))
      const twice = yield* hermes(["sessions", "answer", sessionId, id, "no"])
      assert.strictEqual(twice.code, 1)
      assert.include(twice.stderr, "was answered before by Ada")

      const rest = yield* hermes(["chat", "--resume", sessionId, "--answered", "--script", "rest.yaml", "--quiet"])
      assert.deepInclude(rest, { code: 0, stdout: "kept is gone\n" }, rest.stderr)
      assert.isFalse(existsSync(at("kept")))
      assert.strictEqual((yield* hermes(["sessions", "waiting"])).stdout, "No session waits for an answer\n")
      const over = yield* hermes(["chat", "--resume", sessionId, "--answered", "--script", "rest.yaml"])
      assert.strictEqual(over.code, 2)
      assert.include(over.stderr, "waits for no answer")
    })
  )

  it.live("is told as lines of JSON, and a denial reaches the model", () =>
    Effect.gen(function* () {
      const { at, first, hermes } = yield* suspended(["--format", "stream-json"])
      const lines = first.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
      const question = lines.find(({ type }) => type === "question")
      const { exit, exit_code, questions, session_id } = lines.at(-1)
      assert.deepStrictEqual([exit, exit_code, questions.length], ["suspended", 1, 1])
      assert.strictEqual(questions[0].id, question.id)
      assert.strictEqual(question.prompt, command)
      const answered = yield* hermes(["sessions", "answer", session_id, question.id.slice(0, -2), "keep it"])
      assert.strictEqual(answered.code, 0, answered.stderr)
      const rest = yield* hermes([
        "chat",
        "--resume",
        session_id,
        "--answered",
        "--script",
        "rest.yaml",
        "--format",
        "stream-json"
      ])
      assert.strictEqual(rest.code, 0, rest.stderr)
      assert.include(rest.stdout, "keep it")
      assert.isTrue(existsSync(at("kept/a.txt")))
    })
  )

  it.live("needs its session, and an answer of its form", () =>
    Effect.gen(function* () {
      const { hermes } = yield* suspended()
      const [asked] = open((yield* hermes(["sessions", "waiting", "--json"])).stdout)
      const { id = "", sessionId = "" } = asked ?? {}
      const wrong = yield* hermes(["sessions", "answer", sessionId, id, '{"choice":"maybe"}'])
      assert.strictEqual(wrong.code, 2)
      assert.include(wrong.stderr, "does not fit its schema")
      const unknown = yield* hermes(["sessions", "answer", sessionId, "none", "yes"])
      assert.strictEqual(unknown.code, 2)
      assert.include(unknown.stderr, 'has no question "none"')
      const nowhere = yield* hermes(["chat", "--answered"])
      assert.deepInclude(nowhere, { code: 2, stderr: "Error: --answered needs the session: add --resume SESSION\n" })
    })
  )
})
