// A session that is loaded looks as it did when it was live: its calls, their terminals, places and differences.
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as AcpReplay from "../../../src/serve/server/acp/AcpReplay.ts"
import * as acpEditor from "../../support/acpEditor.ts"
import { held, usable, world, type World } from "../../support/servedEditor.ts"

const { say } = acpEditor

const plays = {
  work: [
    {
      calls: [
        ["terminal", { command: "echo one; echo two >&2; exit 3" }, "c1"],
        ["read_file", { path: "old.txt", offset: 2 }, "c2"]
      ] as const
    },
    {
      calls: [
        ["write_file", { path: "new.txt", content: `one\n${held}\n` }, "c3"],
        ["patch", { path: "old.txt", old_string: "b", new_string: "B" }, "c4"]
      ] as const
    },
    {
      calls: [
        ["patch", { path: "old.txt", old_string: "nowhere", new_string: "x" }, "c5"],
        ["read_file", { path: "missing" }, "c6"]
      ] as const
    },
    {
      calls: [
        ["terminal", { command: "sed -i s/c/C/ old.txt; true" }, "c7"],
        ["terminal", { command: "true" }, "c8"]
      ] as const
    },
    {
      calls: [
        ["terminal", { command: "rm -rf ../elsewhere" }, "c9"],
        ["terminal", { command: `echo it is ${held}` }, "c10"]
      ] as const
    },
    { text: "Done." }
  ],
  // The same id once more, as some models give it.
  again: [
    { calls: [["patch", { path: "old.txt", old_string: "a", new_string: "A" }, "c4"]] as const },
    { text: "Again." }
  ],
  hello: [{ text: "Hello." }]
}

/** Each call of each turn as a client has it in the end, with what its terminal shows. */
const callsOf = (updates: ReadonlyArray<SessionUpdate>): ReadonlyArray<Readonly<Record<string, unknown>>> => {
  const calls: Array<Record<string, unknown>> = []
  for (const { sessionUpdate, _meta, ...update } of updates) {
    if (sessionUpdate !== "tool_call" && sessionUpdate !== "tool_call_update") continue
    const { toolCallId } = update as { readonly toolCallId: string }
    if (sessionUpdate === "tool_call") calls.push({ toolCallId, terminal: "" })
    const call = calls.findLast((one) => one["toolCallId"] === toolCallId)
    if (call === undefined) throw new Error(`${toolCallId} was not begun`)
    Object.assign(call, update)
    const { terminal_exit, terminal_info, terminal_output } = (_meta ?? {}) as Readonly<
      Record<string, { readonly data: string }>
    >
    Object.assign(
      call,
      terminal_info && { terminal_info },
      terminal_exit && { terminal_exit },
      terminal_output && { terminal: `${call["terminal"]}${terminal_output.data}` }
    )
  }
  return calls
}

const callsIn = ({ updates }: World) => callsOf(updates.map(([, update]) => update))

describe("a session that is loaded", () => {
  for (const [name, capabilities] of Object.entries({
    "that shows terminals": { _meta: { terminal_output: true } },
    "without terminals": {}
  })) {
    it.live(`looks in a client ${name} as it did live`, () =>
      Effect.gen(function* () {
        const editor = yield* world(plays, capabilities)
        const { ask, choose, cwd, sessionId, textOf, updates, wire } = editor
        yield* Effect.promise(async () => {
          writeFileSync(join(cwd, "old.txt"), "a\nb\nc\n")
          choose(({ toolCall }) => (toolCall.toolCallId === "c9" ? "deny" : "once"))
          await ask("session/prompt", { sessionId, prompt: say("work") })
          await ask("session/prompt", { sessionId, prompt: say("again") })
          const live = callsIn(editor)
          const said = textOf(sessionId)
          assert.deepStrictEqual(
            live.map(({ status, toolCallId }) => [toolCallId, status]),
            [
              // Its command ended with exit code 3.
              ["c1", "failed"],
              ["c2", "completed"],
              ["c3", "completed"],
              ["c4", "completed"],
              ["c5", "failed"],
              ["c6", "failed"],
              ["c7", "completed"],
              ["c8", "completed"],
              ["c9", "failed"],
              ["c10", "completed"],
              ["c4", "completed"]
            ]
          )
          updates.length = 0
          await ask("session/load", { sessionId, cwd, mcpServers: [] })
          assert.deepStrictEqual(callsIn(editor), live)
          assert.strictEqual(textOf(sessionId), said)
          assert.strictEqual(textOf(sessionId, "user_message_chunk"), "workagain")
          assert.notInclude(wire(), held.slice(5, -5))
          await usable(editor)
        })
      })
    )
  }

  const context = { resolve: (path: string) => `/w/${path}`, hasTerminals: true, sessionId: "s", changes: [] }
  const message = (role: "assistant" | "tool", part: object) =>
    ({ role, content: [part] }) as unknown as Parameters<typeof AcpReplay.replayMessages>[0][number]

  it("shows a result without its call, and a call without its result as failed", () => {
    const [orphan] = callsOf(
      AcpReplay.replayMessages(
        [message("tool", { type: "tool-result", id: "c1", name: "read_file", result: "text", isFailure: false })],
        context
      )
    )
    assert.deepInclude(orphan, {
      toolCallId: "c1",
      name: "read_file",
      kind: "read",
      status: "completed",
      content: [{ type: "content", content: { type: "text", text: "text" } }]
    })
    const [open] = callsOf(
      AcpReplay.replayMessages(
        [message("assistant", { type: "tool-call", id: "c2", name: "terminal", params: { command: "true" } })],
        context
      )
    )
    assert.deepInclude(open, {
      toolCallId: "c2",
      kind: "execute",
      status: "failed",
      title: "true",
      terminal_exit: { terminal_id: "c2", exit_code: null, signal: null }
    })
  })
})
