// An editor that loads a session whose turn a server runs: the turn follows, and the editor steers, answers and stops it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { say } from "../../support/acpEditor.ts"
import * as servedAgent from "../../support/servedAgent.ts"
import { readEvents, until } from "../../support/servedAgent.ts"
import * as servedEditor from "../../support/servedEditor.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const plays = {
  hello: [{ text: "Hello." }],
  wait: [{ text: "I wait.", calls: [["terminal", { command: "until [ -e never ]; do sleep 0.1; done" }]] }],
  "remove it": [{ calls: [["terminal", { command: "rm -rf x" }]] }, { text: "Removed." }],
  slowly: [
    { text: "I look.", calls: [["terminal", { command: "until [ -e go ]; do sleep 0.1; done" }]] },
    { text: "Seen." }
  ]
} as const

/** A server and an editor over one store, and a session with one turn. */
const both = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const owner = yield* servedAgent.world(plays, {}, undefined, directory)
  const editor = yield* servedEditor.world(plays, {}, "ask", directory)
  const { fetched } = owner
  const id: string = yield* Effect.promise(async () => (await fetched("/v1/sessions", { json: {} })).body.id)
  const there = readEvents(`${owner.url}/v1/sessions/${id}/events`, owner.authorized)
  const send = (prompt: string) => fetched(`/v1/sessions/${id}/messages`, { json: { prompt } })
  const count = (type: string) => there.types().filter((one) => one === type).length
  const load = () => editor.ask("session/load", { sessionId: id, cwd: owner.cwd, mcpServers: [] })
  yield* Effect.promise(async () => {
    await send("hello")
    await until(() => count("turn_ended") === 1)
  })
  return { owner, editor, id, there, send, count, load }
})

describe("a session that a server works on", () => {
  it.live("is loaded with its messages and its running turn, each once, and a prompt steers it", () =>
    Effect.flatMap(both, ({ count, editor, id, load, owner, send, there }) =>
      Effect.promise(async () => {
        await send("slowly")
        await until(() => count("ToolStarted") === 1)
        await load()
        await until(() => editor.textOf(id).includes("I look."))
        assert.strictEqual(editor.textOf(id), "Hello.I look.")
        assert.strictEqual(editor.textOf(id, "user_message_chunk"), "helloslowly")
        const prompted = editor.ask("session/prompt", { sessionId: id, prompt: say("Use tabs") })
        await until(() => JSON.stringify(there.events).includes('"steering":["Use tabs"]'))
        writeFileSync(join(owner.cwd, "go"), "")
        assert.strictEqual((await prompted).stopReason, "end_turn")
        assert.strictEqual(count("steered"), 1)
        assert.strictEqual(editor.textOf(id), "Hello.I look.\n\nSeen.")
        assert.deepStrictEqual(editor.of(id, "tool_call").length, 1)
        // A turn that begins later is followed, and cancelled here.
        await send("wait")
        await until(() => editor.textOf(id).includes("I wait."))
        await editor.connection.agent.notify("session/cancel", { sessionId: id })
        await until(() => count("turn_ended") === 3)
        await there.stop()
      })
    )
  )

  it.live("asks the editor, whose dismissal is no answer and whose choice is the answer", () =>
    Effect.flatMap(both, ({ count, editor, id, load, send, there }) =>
      Effect.promise(async () => {
        await send("remove it")
        await until(() => count("approval_asked") === 1)
        await load()
        await until(() => editor.asked.length === 1)
        // The editor dismissed the question.
        assert.strictEqual(count("question_closed"), 0)
        editor.answers.push("deny")
        await load()
        await until(() => count("turn_ended") === 2)
        assert.strictEqual(editor.asked.length, 2)
        await until(() => editor.textOf(id).endsWith("Removed."))
        await there.stop()
      })
    )
  )
})
