/**
 * File changes of the runs of a conversation, read from the run record: the changes of each run, and the runs whose
 * changes were undone.
 *
 * **Details**
 *
 * A conversation consists of all sessions that compactions and forks created for it. If a session was forked, only its
 * runs before the fork point count. Changes by child agents belong to the run for which they worked.
 *
 * **Example** (Files that the runs of a session changed)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { ChangeSets } from "hermes-effect/sessions"
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const { runs } = yield* ChangeSets.readHistory(sessionId)
 *   return ChangeSets.toNetChanges(runs.flatMap(({ changes }) => changes)).map(({ path }) => path)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer())))
 * // => []
 * ```
 *
 * Source: `ARCHITECTURE.md` §8 (changes).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as FileChange from "../base/domain/FileChange.ts"
import type { SessionId, TurnId } from "../base/domain/Ids.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import { RunRecord } from "./RunRecord.ts"
import * as MessageText from "./MessageText.ts"

/** Changes of one run. */
export interface ChangeSet {
  readonly sessionId: SessionId
  readonly turnId: TurnId
  readonly at: number
  /** Working directory of the run. */
  readonly cwd: string
  /** Text of the user's message. Empty if the message has no text. */
  readonly prompt: string
  /** Position of that message in its session, or `undefined` if the run has no message. */
  readonly position: number | undefined
  /** Changes in order. */
  readonly changes: ReadonlyArray<FileChange.FileChanged>
  /** The last undo, if the changes are currently undone. */
  readonly undone: FileChange.FilesReverted | undefined
}

/** Net result of several changes to a file: its first and its last state. */
export interface NetChange {
  readonly path: string
  readonly before: FileChange.FileState | undefined
  readonly after: FileChange.FileState | undefined
  readonly diffs: ReadonlyArray<string>
}

/** Maximum number of earlier sessions that are read to find the runs of a conversation. */
const maxSessions = 1_000

const kinds = [
  "RunStarted",
  "MessageAppended",
  "FileChanged",
  "FilesReverted",
  "ChildStarted",
  "ReplayBegun",
  "ContextRewritten"
] as const

/** The relevant part of one session's record. */
interface SessionRuns {
  readonly runs: Map<
    string,
    {
      readonly at: number
      cwd: string
      position: number | undefined
      prompt: string
      readonly changes: Array<FileChange.FileChanged>
      readonly children: Array<SessionId>
    }
  >
  readonly reverted: Array<FileChange.FilesReverted>
  /** The session that this one continues, and the position up to which its messages are inherited. */
  origin: { readonly sessionId: SessionId; readonly position: number } | undefined
}

const readSessionRuns = (sessionId: string): Effect.Effect<SessionRuns, SessionStoreError, RunRecord> =>
  Effect.gen(function* () {
    const record = yield* RunRecord
    const told: SessionRuns = { runs: new Map(), reverted: [], origin: undefined }
    const ensureRun = ({ at, turnId }: Entry) => {
      const known = told.runs.get(turnId)
      if (known !== undefined) return known
      const run = { at, cwd: "", position: undefined, prompt: "", changes: [], children: [] }
      told.runs.set(turnId, run)
      return run
    }
    yield* Stream.runForEach(record.read({ sessionId, kinds, origins: ["user"] }), (entry) =>
      Effect.sync(() => {
        const { event } = entry
        switch (event._tag) {
          case "RunStarted":
            return void (ensureRun(entry).cwd = event.cwd)
          case "MessageAppended": {
            const run = told.runs.get(entry.turnId)
            if (run === undefined || event.position === undefined || run.position !== undefined) return
            run.position = event.position
            run.prompt = event.message === undefined ? "" : MessageText.extractSearchText(event.message).content
            return
          }
          case "FileChanged":
            return void ensureRun(entry).changes.push(event)
          case "FilesReverted":
            return void told.reverted.push(event)
          case "ChildStarted":
            return void ensureRun(entry).children.push(event.sessionId)
          case "ReplayBegun":
            told.origin = { sessionId: event.source, position: event.position }
            return
          case "ContextRewritten":
            if (event.source !== undefined)
              told.origin ??= { sessionId: event.source, position: Number.MAX_SAFE_INTEGER }
        }
      })
    )
    return told
  })

/** Collects the changes that any tool made in the runs of a session and of its children. */
const collectChanges = (
  sessionId: string,
  depth: number
): Effect.Effect<ReadonlyArray<FileChange.FileChanged>, SessionStoreError, RunRecord> =>
  depth > 8
    ? Effect.succeed([])
    : Effect.flatMap(readSessionRuns(sessionId), ({ runs }) =>
        Effect.map(
          Effect.forEach(runs.values(), (run) =>
            Effect.map(
              Effect.forEach(run.children, (child) => collectChanges(child, depth + 1)),
              (inner) => [...run.changes, ...inner.flat()]
            )
          ),
          (lists) => lists.flat()
        )
      )

/** The runs of a conversation, oldest first. */
export interface History {
  /** Runs of the current conversation. */
  readonly runs: ReadonlyArray<ChangeSet>
  /** Runs that an undo abandoned because they are after the fork point, oldest first. */
  readonly left: ReadonlyArray<ChangeSet>
}

/** Reads the conversation whose newest session is the given one. */
export const readHistory = Effect.fnUntraced(function* (
  sessionId: SessionId
): Effect.fn.Return<History, SessionStoreError, RunRecord> {
  const sessions: Array<{ readonly id: SessionId; readonly told: SessionRuns; readonly until: number }> = []
  let next: { readonly sessionId: SessionId; readonly position: number } | undefined = {
    sessionId,
    position: Number.MAX_SAFE_INTEGER
  }
  while (next !== undefined && sessions.length < maxSessions && !sessions.some(({ id }) => id === next?.sessionId)) {
    const told: SessionRuns = yield* readSessionRuns(next.sessionId)
    sessions.unshift({ id: next.sessionId, told, until: next.position })
    next = told.origin
  }
  const undone = new Map<string, FileChange.FilesReverted>()
  for (const { told } of sessions) {
    for (const event of told.reverted) {
      for (const turn of event.turns) {
        if (event.direction === "undo") undone.set(turn, event)
        else undone.delete(turn)
      }
    }
  }
  const runs: Array<ChangeSet> = []
  const left: Array<ChangeSet> = []
  for (const { id, told, until } of sessions) {
    for (const [turnId, run] of told.runs) {
      const inner = yield* Effect.forEach(run.children, (child) => collectChanges(child, 0))
      const set: ChangeSet = {
        sessionId: id,
        // Keys of `runs` are turn ids from the record.
        turnId: turnId as TurnId,
        at: run.at,
        cwd: run.cwd,
        prompt: run.prompt,
        position: run.position,
        changes: [...run.changes, ...inner.flat()],
        undone: undone.get(turnId)
      }
      ;(run.position === undefined || run.position < until ? runs : left).push(set)
    }
  }
  return { runs, left }
})

/**
 * Combines changes, which must be in order, into one change per file. Files whose first and last states are equal are
 * left out.
 */
export const toNetChanges = (changes: ReadonlyArray<FileChange.FileChanged>): ReadonlyArray<NetChange> => {
  const files = new Map<
    string,
    { before: FileChange.FileState | undefined; after: FileChange.FileState | undefined; diffs: Array<string> }
  >()
  for (const { after, before, diff, path } of changes) {
    const known = files.get(path)
    if (known === undefined) files.set(path, { before, after, diffs: [diff] })
    else {
      known.after = after
      known.diffs.push(diff)
    }
  }
  return Array.from(files).flatMap(([path, file]) =>
    FileChange.isSame(file.before, file.after) ? [] : [{ path, ...file }]
  )
}

/** Returns the run that an undo applies to: the newest run with changes to undo, or the run with the given id. */
export const findUndoTarget = ({ runs }: History, turn?: string): Option.Option<ChangeSet> =>
  Option.fromUndefinedOr(
    runs.findLast((run) =>
      turn === undefined
        ? run.undone === undefined && (run.changes.length > 0 || run.position !== undefined)
        : run.turnId === turn
    )
  )

/** Returns the run that a redo applies to: the oldest undone run among those after the last run that was not undone. */
export const findRedoTarget = ({ left, runs }: History): Option.Option<ChangeSet> => {
  const done = runs.findLast(({ undone }) => undone === undefined)?.at ?? Number.NEGATIVE_INFINITY
  const undone = [...runs, ...left].filter((run) => run.undone !== undefined && run.at > done)
  return Option.fromUndefinedOr(undone.toSorted((one, other) => one.at - other.at)[0])
}
