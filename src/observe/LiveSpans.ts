/**
 * Spans of active runs, built from the run record outside the fibers of the runs, so that writing to the record never
 * waits. All exporters share one tree of runs and create spans from its nodes. When an exporter's scope closes, the
 * entries written so far are processed and open spans are ended.
 *
 * Source: `ARCHITECTURE.md` §4 (run record), `hermes-contract.md` §5 ("Trace model").
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as RcRef from "effect/RcRef"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Entry } from "../base/domain/RecordEvent.ts"
import { RunRecord, type Service } from "../store/RunRecord.ts"
import * as EntrySlices from "./EntrySlices.ts"
import * as RecordBatches from "./RecordBatches.ts"
import * as RunSpans from "./RunSpans.ts"
import * as RunTree from "./RunTree.ts"

const findRootRun = (run: RunTree.Run): RunTree.Run => (run.child === undefined ? run : findRootRun(run.child.parent))

/**
 * Receiver of spans. `open` is called in the order in which spans begin, and for a parent before its children. `close`
 * is called once for each span. For a span that began before the sink was added, only `close` is called.
 */
export interface Sink {
  readonly open?: ((head: RunSpans.SpanHead) => void) | undefined
  readonly close: (span: RunSpans.Span) => void
}

/** Spans of active runs for all exporters: one tree of runs, from which each view creates its own spans. */
export interface LiveSpanTree {
  readonly add: (entries: ReadonlyArray<Entry>) => void
  /** Adds the messages and tool sets of earlier runs of a session. */
  readonly remember: (entries: ReadonlyArray<Entry>) => void
  /** Tests whether the tree contains a run of the session, and therefore its messages. */
  readonly knows: (sessionId: string) => boolean
  /**
   * Starts to send spans to a sink. The returned function stops this and ends all open spans at the given time, in
   * epoch milliseconds.
   */
  readonly show: (view: RunSpans.View, sink: Sink) => (at: number) => void
}

/** Maximum number of active runs. Beyond it, the run that has been inactive the longest is ended. */
export const maxRuns = 256

/** Maximum number of sessions without an active run whose messages are retained for their next run. */
export const idleSessions = 64

/** Ends a node at a time in epoch milliseconds, unless it has already ended. */
type NodeEnder = (node: RunTree.Node, at: number) => void

const isOver = (run: RunTree.Run): boolean =>
  run.endedAt !== undefined && RunSpans.listChildren(run).every((child) => child.endedAt !== undefined)

/** Ends a node and its open parts. */
const endWhole = (node: RunTree.Node, at: number, end: NodeEnder): void => {
  const endPart = (part: RunTree.Node): void => end(part, at)
  if (node.kind === "step") RunSpans.visitStep(node, endPart)
  if (node.kind === "run") RunSpans.visitRun(node, endPart)
  end(node, at)
}

/** Ends an unfinished run and all its open parts, including the runs of its children. */
const cutRun = (run: RunTree.Run, at: number, end: NodeEnder): void => {
  for (const child of RunSpans.listChildren(run)) {
    if (child.run !== undefined) cutRun(child.run, at, end)
    end(child, at)
  }
  endWhole(run, at, end)
}

/**
 * Creates a tree of active runs from entries as they are written. If a view or sink fails, `failed` receives the error
 * and the others continue.
 */
export const make = (failed: (error: unknown) => void): LiveSpanTree => {
  const tree = RunTree.make()
  /** Views with their sinks. */
  const shown = new Set<{ readonly open: (node: RunTree.Node) => void; readonly close: NodeEnder }>()
  /** Calls that have ended but whose result has not been recorded yet. */
  const waiting = new Set<RunTree.Call>()
  /** Last finished run of each inactive session, the most recent one last. */
  const idle = new Map<string, RunTree.Run>()

  /** Active runs, the most recently active one last. */
  const going = new Map<RunTree.Run, number>()

  const endNode: NodeEnder = (node, at) => {
    if (node.isEnded === true) return
    node.isEnded = true
    if (node.kind === "call") waiting.delete(node)
    for (const { close } of shown) close(node, at)
  }
  const endFinishedCalls = (): void => {
    for (const call of waiting) if (RunSpans.readResultText(call) !== undefined) endNode(call, 0)
  }
  const retireRun = (run: RunTree.Run): void => {
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

  /** The run that was marked active last. Successive entries mostly belong to one run. */
  let newest: RunTree.Run | undefined

  const markActive = (root: RunTree.Run, at: number): void => {
    const isGoing = !isOver(root)
    if (root !== newest || !isGoing) going.delete(root)
    if (isGoing) going.set(root, at)
    newest = isGoing ? root : undefined
    if (going.size <= maxRuns) return
    for (const [oldest, since] of going) {
      if (going.size <= maxRuns) break
      cutRun(oldest, since, endNode)
      going.delete(oldest)
      tree.forget(oldest)
    }
  }

  return {
    add: (entries) => {
      for (const entry of entries) {
        for (const change of tree.add(entry)) {
          markActive(findRootRun(change._tag === "Noted" ? change.run : RunSpans.findRun(change.node)), entry.at)
          if (change._tag === "Opened") for (const { open } of shown) open(change.node)
          else if (change._tag === "Closed") {
            if (change.node.kind === "call") waiting.add(change.node)
            else endWhole(change.node, change.at, endNode)
          }
        }
        if (entry.event._tag === "SessionEnded") tree.release(entry.sessionId)
      }
      endFinishedCalls()
      for (const root of tree.roots.slice()) {
        if (idle.get(root.sessionId) !== root && isOver(root)) retireRun(root)
        // Side tasks of a run that is no longer in the tree.
        else if (
          root.start === undefined &&
          root.steps.length === 0 &&
          root.sideTasks.every(({ end }) => end !== undefined)
        )
          tree.forget(root)
      }
    },
    remember: (entries) => entries.forEach(tree.remember),
    knows: (sessionId) => tree.roots.some((root) => root.sessionId === sessionId),
    show: (view, sink) => {
      const { has, buildHead, buildSpan } = RunSpans.makeSpanBuilder(view, tree)
      const runContained = (work: () => void): void => {
        try {
          work()
        } catch (error) {
          failed(error)
        }
      }
      const openSpan = (node: RunTree.Node): void => {
        if (sink.open !== undefined && has(node)) runContained(() => sink.open?.(buildHead(node)))
      }
      const closeSpan: NodeEnder = (node, at) => {
        if (has(node)) runContained(() => sink.close(buildSpan(node, at)))
      }
      const one = { open: openSpan, close: closeSpan }
      shown.add(one)
      return (at) => {
        if (!shown.delete(one)) return
        const cut = new Set<RunTree.Node>()
        const endHere: NodeEnder = (node, at) => {
          if (node.isEnded === true || cut.has(node)) return
          cut.add(node)
          closeSpan(node, at)
        }
        for (const root of tree.roots) cutRun(root, at, endHere)
      }
    }
  }
}

/** Spans of the runs of a record, maintained as long as an exporter uses them. */
interface SpanFollower {
  readonly show: (view: RunSpans.View, sink: Sink, needsMessages: boolean) => Effect.Effect<void, never, Scope.Scope>
}

/** Follows a record until the scope closes. */
const followRecord = Effect.fnUntraced(function* (
  record: Service
): Effect.fn.Return<SpanFollower, never, RunRecord | Scope.Scope> {
  const batches = yield* RecordBatches.ofRecord
  const failures: Array<unknown> = []
  const live = make((error) => void failures.push(error))
  /** Queue of operations, to be performed in order. */
  const queue = yield* Queue.unbounded<Effect.Effect<void>, Cause.Done>()
  let readers = 0

  const recallSession = ({ sessionId }: Entry): Effect.Effect<void> =>
    Stream.runCollect(record.read({ sessionId, kinds: ["MessageAppended", "ToolsOffered"] })).pipe(
      Effect.map(live.remember),
      Effect.catch((error) =>
        Effect.logDebug(`spans of the session ${sessionId} lack its earlier messages: ${error.message}`)
      )
    )
  const takeEntries = Effect.fnUntraced(function* (entries: ReadonlyArray<Entry>) {
    if (readers > 0) {
      for (const entry of entries) {
        if (entry.event._tag === "RunStarted" && entry.event.resumed && !live.knows(entry.sessionId))
          yield* recallSession(entry)
      }
    }
    yield* EntrySlices.forEachSlice(entries, (slice) => Effect.sync(() => live.add(slice)))
  })
  const work = Effect.flatMap(Queue.takeAll(queue), (waiting) =>
    Effect.forEach(waiting, (one) => one, { discard: true })
  ).pipe(
    Effect.andThen(
      Effect.suspend(() =>
        failures.length === 0
          ? Effect.void
          : Effect.logWarning(
              "An exporter of spans failed; what it makes of these entries is missing.",
              failures.splice(0)[0]
            )
      )
    )
  )
  yield* Effect.forkScoped(Effect.catchTag(Effect.forever(work), "Done", () => Effect.void))
  yield* Effect.addFinalizer(() => Effect.sync(() => Queue.endUnsafe(queue)))
  yield* batches.listen((entries) => void Queue.offerUnsafe(queue, takeEntries(entries)))

  return {
    show: (view, sink, needsMessages) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => {
            if (needsMessages) readers++
            return live.show(view, sink)
          }),
          (stop) =>
            Effect.gen(function* () {
              const stopped = yield* Deferred.make<void>()
              // The flush ensures that `stop` runs after all entries written so far.
              yield* batches.flush
              yield* Queue.offer(
                queue,
                Effect.flatMap(Clock.currentTimeMillis, (at) => {
                  stop(at)
                  return Effect.asVoid(Deferred.succeed(stopped, undefined))
                })
              )
              yield* Deferred.await(stopped)
              if (needsMessages) readers--
            })
        )
      )
  }
})

/** Followers by record. A follower ends when its last exporter ends. */
const followers = new WeakMap<Service, RcRef.RcRef<SpanFollower>>()

const getFollower = Effect.fnUntraced(function* (record: Service) {
  // The reference releases its content itself and is garbage-collected together with the record.
  const made = yield* Effect.provideService(
    RcRef.make({ acquire: Effect.provideService(followRecord(record), RunRecord, record) }),
    Scope.Scope,
    Scope.makeUnsafe()
  )
  const ref = followers.get(record) ?? made
  followers.set(record, ref)
  return yield* RcRef.get(ref)
})

/**
 * Creates spans for the runs of this process until the scope closes. `needsMessages` is true for a view that shows the
 * messages of requests. In that case, the earlier runs of a continued session are read once from the record.
 */
export const listen = (
  view: RunSpans.View,
  sink: Sink,
  needsMessages: boolean
): Effect.Effect<void, never, RunRecord | Scope.Scope> =>
  Effect.flatMap(RunRecord.use(getFollower), ({ show }) => show(view, sink, needsMessages))

/** Export targets that exporters have claimed, by record. */
const targets = new WeakMap<Service, Set<string>>()

/**
 * Claims an export target until the scope closes. Returns false, with a warning, if an exporter of the same runs has
 * already claimed this target or a mutually exclusive one. Two such exporters would duplicate spans, and the spans
 * inside a call could belong to only one of them.
 */
export const claimTarget = (
  target: string,
  {
    excludes = (other) => other === target,
    remedy
  }: { readonly excludes?: (other: string) => boolean; readonly remedy: string }
): Effect.Effect<boolean, never, RunRecord | Scope.Scope> =>
  Effect.gen(function* () {
    const record = yield* RunRecord
    const taken = targets.get(record) ?? new Set()
    targets.set(record, taken)
    if ([...taken].some(excludes)) {
      yield* Effect.logWarning(`Two plugins would export the same spans; they are exported once: ${remedy}`)
      return false
    }
    yield* Effect.acquireRelease(
      Effect.sync(() => void taken.add(target)),
      () => Effect.sync(() => taken.delete(target))
    )
    return true
  })
