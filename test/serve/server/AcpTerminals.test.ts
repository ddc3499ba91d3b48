// Terminals that a client only shows, by the official client library of ACP: what a command wrote is appended piece by
// piece.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as AcpTerminals from "../../../src/serve/server/acp/AcpTerminals.ts"
import * as acpEditor from "../../support/acpEditor.ts"
import { until } from "../../support/servedAgent.ts"
import { held, usable, world, type World } from "../../support/servedEditor.ts"

const { say } = acpEditor

const run = (command: string) => [{ calls: [["terminal", { command }, "c1"]] as const }, { text: "It ran." }]

const plays = {
  wait: run("echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended; exit 3"),
  quiet: run("true"),
  secret: run(`echo it is ${held}`),
  much: run("seq 1 200000"),
  "remove it": run("rm -rf ../elsewhere"),
  "read it": [{ calls: [["read_file", { path: "missing" }, "c2"]] as const }, { text: "It is read." }],
  hello: [{ text: "Hello." }]
}

const shown = { _meta: { terminal_output: true } }

const callsOf = ({ updates }: World) =>
  updates.flatMap(([, update]) =>
    update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update" ? [update] : []
  )

/** What a terminal of the client has, and how its command ended. */
const terminalOf = (world: World, id: string) => {
  let data = ""
  let exit: unknown
  for (const { _meta } of callsOf(world)) {
    const { terminal_exit, terminal_output } = (_meta ?? {}) as Readonly<
      Record<string, { readonly terminal_id: string; readonly data: string } | undefined>
    >
    if (terminal_output?.terminal_id === id) data += terminal_output.data
    if (terminal_exit?.terminal_id === id) exit = terminal_exit
  }
  return { data, exit }
}

const contentsOf = (world: World) => callsOf(world).flatMap(({ content }) => content ?? [])

const exited = (code: number | null) => ({ terminal_id: "c1", exit_code: code, signal: null })

const inTerminal = { type: "terminal" as const, terminalId: "c1" }

describe("a client that shows terminals", () => {
  it.live("is sent the output of a command while it runs, and its exit code", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays, shown, "yolo")
      const { ask, cwd, sessionId } = editor
      yield* Effect.promise(async () => {
        const answer = ask("session/prompt", { sessionId, prompt: say("wait") })
        await until(() => terminalOf(editor, "c1").data !== "")
        assert.deepStrictEqual(terminalOf(editor, "c1"), { data: "begun\n", exit: undefined })
        const [first] = callsOf(editor)
        assert.deepInclude(first, {
          sessionUpdate: "tool_call",
          toolCallId: "c1",
          kind: "execute",
          content: [inTerminal]
        })
        assert.deepStrictEqual(first?._meta, { terminal_info: { terminal_id: "c1", cwd } })
        writeFileSync(join(cwd, "go"), "")
        await answer
        assert.deepStrictEqual(terminalOf(editor, "c1"), { data: "begun\nended", exit: exited(3) })
        assert.isTrue(
          contentsOf(editor).every(({ type }) => type === "terminal"),
          "and no text beside"
        )
        await usable(editor)
      })
    })
  )

  it.live("has no secret in it, and not more than it can show", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays, shown, "yolo")
      const { ask, sessionId, updates, wire } = editor
      yield* Effect.promise(async () => {
        await ask("session/prompt", { sessionId, prompt: say("secret") })
        assert.deepStrictEqual(terminalOf(editor, "c1"), { data: "it is corr…le", exit: exited(0) })
        assert.notInclude(wire(), held.slice(5, -5))
        updates.length = 0
        await ask("session/prompt", { sessionId, prompt: say("much") })
        const { data } = terminalOf(editor, "c1")
        assert.isBelow(data.length, 300_000)
        assert.isTrue(data.trimEnd().endsWith("199999\n200000"))
        updates.length = 0
        await ask("session/prompt", { sessionId, prompt: say("quiet") })
        assert.deepStrictEqual(terminalOf(editor, "c1"), { data: "", exit: exited(0) })
      })
    })
  )

  it.live("sees the reason of a command that did not run, behind the question", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays, shown)
      const { answers, ask, sessionId, updates } = editor
      yield* Effect.promise(async () => {
        answers.push("deny", "once")
        await ask("session/prompt", { sessionId, prompt: say("remove it") })
        assert.deepStrictEqual(terminalOf(editor, "c1"), { data: "", exit: exited(null) })
        assert.strictEqual(contentsOf(editor).at(-1)?.type, "content")
        updates.length = 0
        await ask("session/prompt", { sessionId, prompt: say("remove it") })
        assert.deepStrictEqual(terminalOf(editor, "c1").exit, exited(0))
        assert.deepStrictEqual(contentsOf(editor), [inTerminal, inTerminal, inTerminal])
      })
    })
  )

  it.live("sees that a command was cut", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays, shown, "yolo")
      const { ask, connection, sessionId } = editor
      yield* Effect.promise(async () => {
        const answer = ask("session/prompt", { sessionId, prompt: say("wait") })
        await until(() => terminalOf(editor, "c1").data !== "")
        await connection.agent.notify("session/cancel", { sessionId })
        assert.strictEqual((await answer).stopReason, "cancelled")
        assert.strictEqual(callsOf(editor).at(-1)?.status, "failed")
        // Its own last words are waited for a moment only.
        const { data, exit } = terminalOf(editor, "c1")
        assert.deepInclude(
          [
            { data: "begun\n", exit: exited(null) },
            { data: "begun\n[Command interrupted]", exit: exited(130) }
          ],
          { data, exit }
        )
        await usable(editor)
      })
    })
  )

  it.live("has one for commands only, and a client that announces none has none", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays, shown, "yolo")
      yield* Effect.promise(async () => {
        await editor.ask("session/prompt", { sessionId: editor.sessionId, prompt: say("read it") })
        assert.notInclude(JSON.stringify(callsOf(editor)), "terminal")
      })
      for (const capabilities of [{}, { terminal: true }, { _meta: { terminal_output: "yes" } }]) {
        const other = yield* world(plays, capabilities, "yolo")
        yield* Effect.promise(async () => {
          await other.ask("session/prompt", { sessionId: other.sessionId, prompt: say("secret") })
          assert.isTrue(
            callsOf(other).every(({ _meta }) => Object.keys(_meta ?? {}).every((key) => key.endsWith("view")))
          )
          assert.deepStrictEqual(
            contentsOf(other).map(({ type }) => type),
            ["content"]
          )
        })
      }
    })
  )
})

describe("a terminal of a call", () => {
  const dataOf = (meta: Readonly<Record<string, unknown>> | undefined): string | undefined =>
    (meta?.["terminal_output"] as { readonly data: string } | undefined)?.data
  const lines = (from: number, to: number): string =>
    Array.from({ length: to - from + 1 }, (_, at) => `line ${from + at}\n`).join("")

  it("appends what is new of an end that moves on, with a mark where something is missing", () => {
    const terminal = AcpTerminals.make("c1")
    assert.strictEqual(dataOf(terminal.goesOn(lines(1, 10))), lines(1, 10))
    assert.isUndefined(terminal.goesOn(lines(1, 10)))
    assert.strictEqual(dataOf(terminal.goesOn(lines(5, 20))), lines(11, 20))
    assert.strictEqual(dataOf(terminal.goesOn(lines(50, 60))), `\n[...]\n${lines(50, 60)}`)
    assert.strictEqual(dataOf(terminal.ended({ output: lines(1, 70), exitCode: 0 })), lines(61, 70))
  })

  it("sends no more while a command runs than can be shown, and its end then", () => {
    const terminal = AcpTerminals.make("c1")
    let sent = 0
    for (let at = 0; at < 1_000; at++) sent += dataOf(terminal.goesOn(lines(at * 1_000, at * 1_000 + 100)))?.length ?? 0
    assert.isBelow(sent, 300_000)
    assert.strictEqual(dataOf(terminal.ended({ output: "the end", exitCode: 0 })), "\n[...]\nthe end")
  })
})
