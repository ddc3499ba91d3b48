// Changes of a conversation, read from the run record: whose they are, and which of them count.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Ids, RunRecord } from "../../src/index.ts"
import type { RecordEvent } from "../../src/kit/entry/observability.ts"
import { ChangeSets, type FileChange } from "../../src/kit/entry/sessions.ts"

const hash = (content: string) => content.padEnd(64, "0")
const state = (content: string): FileChange.FileState => ({
  type: "file",
  mode: 0o644,
  size: content.length,
  hash: hash(content)
})

/** A file that goes from one content to another; empty is none. */
const changed = (path: string, before: string, after: string): RecordEvent.RecordEvent => ({
  _tag: "FileChanged",
  callId: "call",
  path,
  diff: `${before}>${after}`,
  added: 0,
  removed: 0,
  by: "tool",
  ...(before === "" ? {} : { before: state(before) }),
  ...(after === "" ? {} : { after: state(after) })
})

const started: RecordEvent.RecordEvent = {
  _tag: "RunStarted",
  version: 1,
  source: "cli",
  platform: "cli",
  provider: "p",
  model: "m",
  cwd: "/work",
  resumed: false
}

const said = (position: number): RecordEvent.RecordEvent => ({
  _tag: "MessageAppended",
  origin: "user",
  position,
  message: undefined
})

const told = (
  entries: ReadonlyArray<readonly [session: string, turn: string, at: number, event: RecordEvent.RecordEvent]>
) =>
  RunRecord.RunRecord.use((record) =>
    record.append(
      entries.map(([session, turn, at, event]) => ({
        sessionId: Ids.SessionId.make(session),
        turnId: Ids.TurnId.make(turn),
        at,
        event
      }))
    )
  )

const historyOf = (session: string) => ChangeSets.readHistory(Ids.SessionId.make(session))

const undone = (turn: string, direction: "undo" | "redo" = "undo"): RecordEvent.RecordEvent => ({
  _tag: "FilesReverted",
  direction,
  turns: [turn],
  files: [],
  left: []
})

describe("changes of a conversation", () => {
  it.effect("are those of its runs and of the child agents that worked for them", () =>
    Effect.gen(function* () {
      yield* told([
        ["s", "t1", 1, started],
        ["s", "t1", 1, said(0)],
        [
          "s",
          "t1",
          2,
          {
            _tag: "ChildStarted",
            subagentId: "c",
            sessionId: Ids.SessionId.make("child"),
            goal: "g",
            role: "worker",
            background: false
          }
        ],
        ["child", "ct", 3, started],
        ["child", "ct", 3, changed("/work/b", "", "1")],
        [
          "child",
          "ct",
          3,
          {
            _tag: "ChildStarted",
            subagentId: "d",
            sessionId: Ids.SessionId.make("grandchild"),
            goal: "g",
            role: "worker",
            background: false
          }
        ],
        ["grandchild", "gt", 4, started],
        ["grandchild", "gt", 4, changed("/work/c", "", "1")],
        ["s", "t1", 5, changed("/work/a", "1", "2")]
      ])
      const { runs } = yield* historyOf("s")
      assert.deepStrictEqual(
        runs.map(({ changes, cwd, turnId }) => [turnId, cwd, changes.map(({ path }) => path)]),
        [["t1", "/work", ["/work/a", "/work/b", "/work/c"]]]
      )
    }).pipe(Effect.provide(RunRecord.layerMemory()))
  )

  it.effect("of a fork are those before its place; what lies behind it can be made again until a new run begins", () =>
    Effect.gen(function* () {
      yield* told([
        ["s", "t1", 1, started],
        ["s", "t1", 1, said(0)],
        ["s", "t1", 1, changed("/work/a", "", "1")],
        ["s", "t2", 2, started],
        ["s", "t2", 2, said(2)],
        ["s", "t2", 2, changed("/work/a", "1", "2")],
        ["s", "t3", 3, started],
        ["s", "t3", 3, said(4)],
        ["s", "t3", 3, changed("/work/a", "2", "3")],
        ["s", "t3", 4, undone("t3")],
        ["s", "t2", 5, undone("t2")],
        ["fork", "f", 6, { _tag: "ReplayBegun", source: Ids.SessionId.make("s"), position: 2, changed: ["undo"] }]
      ])
      const before = yield* historyOf("fork")
      assert.deepStrictEqual(
        [before.runs.map(({ turnId }) => turnId), before.left.map(({ turnId }) => turnId)],
        [["t1"], ["t2", "t3"]]
      )
      assert.deepStrictEqual(
        [
          Option.getOrThrow(ChangeSets.findUndoTarget(before)).turnId,
          Option.getOrThrow(ChangeSets.findRedoTarget(before)).turnId
        ],
        ["t1", "t2"]
      )
      yield* told([
        ["fork", "t4", 7, started],
        ["fork", "t4", 7, said(2)]
      ])
      const after = yield* historyOf("fork")
      assert.deepStrictEqual(
        [Option.getOrThrow(ChangeSets.findUndoTarget(after)).turnId, Option.isNone(ChangeSets.findRedoTarget(after))],
        ["t4", true]
      )
    }).pipe(Effect.provide(RunRecord.layerMemory()))
  )

  it.effect("that were undone and made again count once more", () =>
    Effect.gen(function* () {
      yield* told([
        ["s", "t1", 1, started],
        ["s", "t1", 1, changed("/work/a", "", "1")],
        ["s", "t1", 2, undone("t1")]
      ])
      assert.isTrue(Option.isNone(ChangeSets.findUndoTarget(yield* historyOf("s"))))
      yield* told([["s", "t1", 3, undone("t1", "redo")]])
      assert.strictEqual(Option.getOrThrow(ChangeSets.findUndoTarget(yield* historyOf("s"))).turnId, "t1")
    }).pipe(Effect.provide(RunRecord.layerMemory()))
  )

  it("of one file are one: from its first state to its last, and none where these are the same", () => {
    const list = [
      changed("/a", "1", "2"),
      changed("/b", "", "1"),
      changed("/a", "2", "3"),
      changed("/b", "1", "")
    ].flatMap((event) => (event._tag === "FileChanged" ? [event] : []))
    assert.deepStrictEqual(
      ChangeSets.toNetChanges(list).map(({ after, before, diffs, path }) => [path, before?.hash, after?.hash, diffs]),
      [["/a", hash("1"), hash("3"), ["1>2", "2>3"]]]
    )
  })
})
