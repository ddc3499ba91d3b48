// A scheduled job that waits for an answer, on the command line: what lists say, and how it continues.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { machine } from "../../support/hermesInProcess.ts"

describe("a scheduled job that waits", () => {
  it.live("is listed with the way to answer, and continues at the next check", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      keep("config.yaml", "approvals: { unknown_commands: ask }\nquestions: { unanswered: suspend }\n")
      put("kept/a.txt", "x")
      const call = { name: "terminal", arguments: { command: "rm -rf kept" } }
      put("ask.yaml", JSON.stringify({ turns: [{ tool_calls: [call] }] }))
      put("rest.yaml", JSON.stringify({ turns: [{ text: "kept is gone" }] }))
      const made = yield* hermes(["cron", "create", "every 2h", "tidy up", "--name", "tidy", "--workdir", at(".")])
      assert.strictEqual(made.code, 0, made.stderr)
      const first = yield* hermes(["cron", "run", "tidy", "--script", "ask.yaml"])
      assert.strictEqual(first.code, 0, first.stderr)

      const [job] = JSON.parse((yield* hermes(["cron", "list", "--json"])).stdout)
      const sessionId = job.waiting.session_id as string // printed by the program
      assert.deepStrictEqual([job.state, job.last_status], ["waiting", "waiting"])
      assert.strictEqual(job.waiting.answer_with, `hermes sessions answer ${sessionId} QUESTION yes|no|JSON`)
      assert.include(first.stdout, job.waiting.answer_with)
      const listed = (yield* hermes(["cron", "list"])).stdout
      assert.include(listed, `waits for an answer in session ${sessionId} since`)
      const status = (yield* hermes(["cron", "status"])).stdout
      assert.include(status, "1 waiting")
      assert.include(status, sessionId)
      const again = yield* hermes(["cron", "run", "tidy", "--script", "rest.yaml"])
      assert.strictEqual(again.code, 2)
      assert.include(again.stderr, `tidy waits for an answer in session ${sessionId}`)

      const [asked] = JSON.parse((yield* hermes(["sessions", "waiting", "--json"])).stdout)
      const answered = yield* hermes(["sessions", "answer", sessionId, asked.id, "yes"])
      assert.include(answered.stdout, "Continue with: hermes cron tick")
      assert.isTrue(existsSync(at("kept/a.txt")))
      const rest = yield* hermes(["cron", "tick", "--script", "rest.yaml"])
      assert.deepInclude(rest, { code: 0 }, rest.stderr)
      assert.include(rest.stdout, "kept is gone")
      assert.isFalse(existsSync(at("kept")))
      const [done] = JSON.parse((yield* hermes(["cron", "list", "--json"])).stdout)
      assert.deepStrictEqual([done.state, done.last_status, done.waiting], ["scheduled", "ok", undefined])
    })
  )
})
