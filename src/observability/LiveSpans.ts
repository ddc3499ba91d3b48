/**
 * Spans of runs that go on, made of what the run record gets, away from the runs: whoever writes the record goes on at once. At
 * the end of the scope what was written is taken, and what is still open is ended.
 *
 * Source: `ARCHITECTURE.md` §4 (run record), `hermes-contract.md` §5 ("Trace model").
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Entry } from "../domain/RecordEvent.ts"
import { RunRecord, type Service } from "../session/RunRecord.ts"
import * as RunSpans from "./RunSpans.ts"
import * as RunTree from "./RunTree.ts"

const rootOf = (run: RunTree.Run): RunTree.Run => run.child === undefined ? run : rootOf(run.child.parent)

/** Receives spans: `open` in the order in which they begin, a parent before what is in it; `close` each once. */
export interface Sink {
  readonly open?: ((head: RunSpans.Head) => void) | undefined
  readonly close: (span: RunSpans.Span) => void
}

/** Spans of runs that go on. */
export interface Live {
  readonly add: (entries: ReadonlyArray<Entry>) => void
  /** Takes messages and tool sets of earlier runs of a session. */
  readonly remember: (entries: ReadonlyArray<Entry>) => void
  /** Tests whether a run of the session is in the tree, and so its messages. */
  readonly knows: (sessionId: string) => boolean
  /** Ends everything that is open, at a time in epoch milliseconds. */
  readonly close: (at: number) => void
}

/** Runs that go on at once: of more, the one that nothing was heard of for longest is ended. */
export const maxRuns = 256

/** Sessions without a run that goes on whose messages are kept, for their next run. */
export const idleSessions = 64

/** Makes spans of entries as they are written. */
export const live = (view: RunSpans.View, sink: Sink): Live => {
  const tree = RunTree.make()
  const { has, headOf, spanOf } = RunSpans.spansOf(view, tree)
  const closed = new WeakSet<RunTree.Node>()
  /** Calls that are over, until their result is there. */
  const waiting = new Set<RunTree.Call>()
  /** Last run of each session that is over, the newest last. */
  const idle = new Map<string, RunTree.Run>()

  /** Runs that go on, the one that was heard of last at the end. */
  const going = new Map<RunTree.Run, number>()

  const close = (node: RunTree.Node, end: number): void => {
    if (closed.has(node)) return
    closed.add(node)
    if (node.kind === "call") waiting.delete(node)
    if (has(node)) sink.close(spanOf(node, end))
  }
  const settle = (): void => {
    for (const call of waiting) if (RunSpans.resultOf(call) !== undefined) close(call, 0)
  }
  const isOver = (run: RunTree.Run): boolean =>
    run.endedAt !== undefined && RunSpans.childrenOf(run).every((child) => child.endedAt !== undefined)
  const retire = (run: RunTree.Run): void => {
    const before = idle.get(run.sessionId)
    idle.delete(run.sessionId)
    if (before !== undefined && before !== run) tree.forget(before)
    idle.set(run.sessionId, run)
    for (const [sessionId, oldest] of idle) {
      if (idle.size <= idleSessions) break
      idle.delete(sessionId)
      tree.forget(oldest)
    }
  }
  const over = (node: RunTree.Node, at: number): void => {
    if (node.kind === "call") {
      waiting.add(node)
      return
    }
    if (node.kind === "step") for (const part of RunSpans.insideStep(node)) close(part, at)
    if (node.kind === "run") for (const part of RunSpans.inside(node)) close(part, at)
    close(node, at)
  }
  /** A run of a child that is cut is over with it. */
  const cutRun = (run: RunTree.Run, at: number): void => {
    for (const child of RunSpans.childrenOf(run)) {
      if (child.run !== undefined) cutRun(child.run, at)
      close(child, at)
    }
    over(run, at)
  }

  const touch = (root: RunTree.Run, at: number): void => {
    going.delete(root)
    if (!isOver(root)) going.set(root, at)
    for (const [oldest, since] of going) {
      if (going.size <= maxRuns) break
      cutRun(oldest, since)
      going.delete(oldest)
      tree.forget(oldest)
    }
  }

  return {
    add: (entries) => {
      for (const entry of entries) {
        for (const change of tree.add(entry)) {
          touch(rootOf(change._tag === "Noted" ? change.run : RunSpans.runOf(change.node)), entry.at)
          if (change._tag === "Opened" && has(change.node)) sink.open?.(headOf(change.node))
          else if (change._tag === "Closed") over(change.node, change.at)
        }
        if (entry.event._tag === "SessionEnded") tree.release(entry.sessionId)
      }
      settle()
      for (const root of tree.roots.slice()) {
        if (idle.get(root.sessionId) !== root && isOver(root)) retire(root)
        // Side tasks of a run that is no longer in the tree.
        else if (root.start === undefined && root.steps.length === 0 && root.sideTasks.every(({ end }) => end !== undefined)) tree.forget(root)
      }
    },
    remember: (entries) => entries.forEach(tree.remember),
    knows: (sessionId) => tree.roots.some((root) => root.sessionId === sessionId),
    close: (at) => {
      settle()
      for (const root of tree.roots) cutRun(root, at)
    }
  }
}

/**
 * Makes spans of the runs of this process, for as long as the scope lives. `needsMessages` is true where the view shows what a
 * model was sent: a session that goes on is then read from the record once.
 */
export const listen = (
  view: RunSpans.View,
  sink: Sink,
  needsMessages: boolean
): Effect.Effect<void, never, RunRecord | Scope.Scope> =>
  Effect.gen(function*() {
    const record = yield* RunRecord
    const spans = live(view, sink)
    const queue = yield* Queue.unbounded<Entry, Cause.Done>()

    const earlier = ({ sessionId }: Entry): Effect.Effect<void> =>
      Stream.runCollect(record.read({ sessionId, kinds: ["MessageAppended", "ToolsOffered"] })).pipe(
        Effect.map(spans.remember),
        Effect.catch((error) => Effect.logDebug(`spans of the session ${sessionId} lack its earlier messages: ${error.message}`))
      )
    const take = Effect.fnUntraced(function*(entries: ReadonlyArray<Entry>) {
      if (needsMessages) {
        for (const entry of entries) {
          if (entry.event._tag === "RunStarted" && entry.event.resumed && !spans.knows(entry.sessionId)) yield* earlier(entry)
        }
      }
      spans.add(entries)
    })
    const worker = yield* Effect.forkScoped(
      Effect.catchTag(Effect.forever(Effect.flatMap(Queue.takeAll(queue), take)), "Done", () => Effect.void)
    )
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => Queue.endUnsafe(queue)).pipe(
        Effect.andThen(Fiber.await(worker)),
        Effect.andThen(Clock.currentTimeMillis),
        Effect.map(spans.close)
      )
    )
    yield* record.listen((entries) => void Queue.offerAllUnsafe(queue, entries))
  })

/** Targets that exporters of a record's runs have taken. */
const targets = new WeakMap<Service, Set<string>>()

/**
 * Takes a target for the scope. False, with a warning, where an exporter of the same runs has it or has one that excludes it: spans
 * would be there twice, and what happens in a call could be in one of the two only.
 */
export const claim = (
  target: string,
  { excludes = (other) => other === target, remedy }: { readonly excludes?: (other: string) => boolean; readonly remedy: string }
): Effect.Effect<boolean, never, RunRecord | Scope.Scope> =>
  Effect.gen(function*() {
    const record = yield* RunRecord
    const taken = targets.get(record) ?? new Set()
    targets.set(record, taken)
    if ([...taken].some(excludes)) {
      yield* Effect.logWarning(`Two plugins would export the same spans; they are exported once: ${remedy}`)
      return false
    }
    yield* Effect.acquireRelease(Effect.sync(() => void taken.add(target)), () => Effect.sync(() => taken.delete(target)))
    return true
  })
