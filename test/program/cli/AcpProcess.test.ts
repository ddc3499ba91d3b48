// `hermes acp` as a process, by the official client library: approvals that are remembered, and a client whose files
// fail.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as acpEditor from "../../support/acpEditor.ts"
import { editor } from "../../support/acpProgram.ts"
import { machine } from "../../support/hermes.ts"
import * as playedModel from "../../support/playedModel.ts"

const { say } = acpEditor

const command = "rm -rf ../gone"

/** A machine with a model that answers as it is written down, and a directory that only an approval removes. */
const prepared = Effect.gen(function* () {
  const own = yield* machine
  const { seen, url } = yield* playedModel.make({
    "remove it": [{ calls: [["terminal", { command }]] }, { text: "Done." }],
    "edit it": [
      { calls: [["read_file", { path: "notes.txt" }]] },
      {
        calls: [
          ["patch", { path: "notes.txt", old_string: "disk", new_string: "DISK" }],
          ["write_file", { path: "new.txt", content: "new\n" }]
        ]
      },
      { text: "Edited." }
    ],
    hello: [{ text: "Hello." }]
  })
  own.keep(
    "config.yaml",
    `model: { provider: custom, default: m, base_url: "${url}/v1", api_key: key-of-this-test-only, context_length: 100000 }\n`
  )
  own.put("notes.txt", "on the disk\n")
  const gone = join(dirname(own.cwd), "gone")
  return { ...own, seen, gone }
})

describe("approvals of hermes acp", () => {
  it.live("for a session hold for it alone, those for good for every session of every process", () =>
    Effect.gen(function* () {
      const own = yield* prepared
      const { cwd, gone } = own
      const started = Effect.gen(function* () {
        const client = yield* editor(own)
        const { ask, asked } = client
        yield* Effect.promise(() => ask("initialize", { protocolVersion: 1, clientCapabilities: {} }))
        /** Prompts, and tells how many questions were asked. */
        const questions = async (sessionId: string): Promise<number> => {
          const before = asked.length
          mkdirSync(gone, { recursive: true })
          assert.strictEqual(
            (await ask("session/prompt", { sessionId, prompt: say("remove it") })).stopReason,
            "end_turn"
          )
          assert.isFalse(existsSync(gone))
          return asked.length - before
        }
        const opened = async () => (await ask("session/new", { cwd, mcpServers: [] })).sessionId
        return { ...client, opened, questions }
      })
      const first = yield* started
      yield* Effect.promise(async () => {
        const { ask, asked, choose, opened, questions } = first
        const [one, two] = [await opened(), await opened()]
        choose(() => "session")
        assert.deepStrictEqual([await questions(one), await questions(one)], [1, 0], "once for the session")
        assert.strictEqual(await questions(two), 1, "another session does not know of it")
        assert.include(asked[0]?.options.map(({ optionId }) => optionId) ?? [], "always")
        await ask("session/load", { sessionId: one, cwd, mcpServers: [] })
        choose(() => "always")
        assert.deepStrictEqual(
          [await questions(one), await questions(one)],
          [1, 0],
          "a session that is opened anew begins anew"
        )
        const three = await opened()
        assert.strictEqual(await questions(three), 0, "a new session of this process")
        await ask("session/load", { sessionId: two, cwd, mcpServers: [] })
        assert.strictEqual(await questions(two), 0, "one that is loaded")
        assert.include(readFileSync(join(own.home, "config.yaml"), "utf8"), command)
        await first.hangUp()
        assert.strictEqual(await first.ended, 0, first.said())
      })
      const second = yield* started
      yield* Effect.promise(async () => {
        assert.strictEqual(await second.questions(await second.opened()), 0, "another process")
        await second.hangUp()
        assert.strictEqual(await second.ended, 0, second.said())
      })
    })
  )
})

describe("files of an editor of hermes acp", () => {
  for (const how of ["refused", "held"] as const) {
    it.live(`that are ${how}: the turn works on those of the disk, and the session goes on`, () =>
      Effect.gen(function* () {
        const own = yield* prepared
        const { at, cwd, seen } = own
        const client = yield* editor(own, new Map([[at("notes.txt"), "in the buffer\n"]]))
        const { ask, choose, of, setFiles, takenBack, textOf, written } = client
        yield* Effect.promise(async () => {
          choose(() => "once")
          setFiles(how)
          await ask("initialize", {
            protocolVersion: 1,
            clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } }
          })
          const { sessionId } = await ask("session/new", { cwd, mcpServers: [] })
          assert.strictEqual(
            (await ask("session/prompt", { sessionId, prompt: say("edit it") })).stopReason,
            "end_turn"
          )
          assert.strictEqual(textOf(sessionId), "Edited.")
          assert.include(JSON.stringify(seen[1]), "on the disk")
          assert.deepStrictEqual(
            of(sessionId, "tool_call_update").flatMap(({ status }) =>
              status === "completed" || status === "failed" ? [status] : []
            ),
            ["completed", "completed", "completed"]
          )
          assert.deepStrictEqual(
            [readFileSync(at("notes.txt"), "utf8"), readFileSync(at("new.txt"), "utf8"), written],
            ["on the DISK\n", "new\n", []]
          )
          assert.strictEqual(takenBack(), how === "held" ? 1 : 0, "a client that does not answer is waited for once")
          assert.strictEqual((await ask("session/prompt", { sessionId, prompt: say("hello") })).stopReason, "end_turn")
          await client.hangUp()
          assert.strictEqual(await client.ended, 0, client.said())
        })
      })
    )
  }
})
