/**
 * The background work of a conversation: child agents, and processes that the terminal started. Used by interfaces that
 * talk to the user: lists and stops the work, and delivers its reports to the conversation.
 *
 * **Example** (Stopping everything that a session started)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { BackgroundWork } from "hermes-effect/delegation"
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const work = yield* BackgroundWork.BackgroundWork
 *   return (yield* work.stopAll(sessionId)).map(({ what }) => what)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer())))
 * // => []
 * ```
 *
 * Source: `hermes-product.md` §1.8, §2.3 and §3.4.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { SessionId } from "../base/domain/Ids.ts"
import { RedactSecrets } from "../base/domain/Redaction.ts"
import type { ProcessEvent } from "../tools/builtin/terminal/ProcessEvents.ts"
import { SessionStore } from "../store/SessionStorePort.ts"
import { isForeignSession } from "../store/TenantScope.ts"
import { ProcessEvents } from "../tools/builtin/terminal/ProcessEvents.ts"
import { ProcessRegistry } from "../tools/builtin/terminal/ProcessRegistry.ts"
import * as ResultText from "../tools/ResultText.ts"
import { formatCount, renderDelivery } from "./Background.ts"
import { BackgroundReviews } from "./BackgroundReview.ts"
import { Children } from "./Children.ts"

/** A child, process or review that is running. */
export interface Item {
  readonly kind: "child" | "process" | "review"
  readonly id: string
  /** Goal of the child, command of the process, or subject of the review. */
  readonly what: string
  /** Start of the work, in milliseconds since the epoch. */
  readonly since: number
  /** Current activity, in one or two words. */
  readonly at: string
}

/** Lists and stops background work, and delivers its reports. */
export interface Service {
  /** Work of a session, including its foreground children and their children, oldest first. */
  readonly list: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<Item>>
  /** Stops the item with this id or prefix of an id. */
  readonly stop: (sessionId: SessionId, id: string) => Effect.Effect<Item | undefined>
  /** Stops all work of a session. */
  readonly stopAll: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<Item>>
  /** Waits until a report or notice is available for a session or its user. */
  readonly arrived: (sessionId: SessionId) => Effect.Effect<void>
  /** Takes the pending reports, each as a separate message. */
  readonly take: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<string>>
  /** Takes the notices that only the user receives: one line for each review that made a change. */
  readonly takeNotices: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<string>>
  /** Waits for the processes of a session whose end has to be reported. */
  readonly settled: (sessionId: SessionId) => Effect.Effect<void>
  /** Waits for the review of a session. */
  readonly reviewed: (sessionId: SessionId) => Effect.Effect<void>
}

/** Renders an event of a process as a message. */
export const renderProcessEvent = (event: ProcessEvent): string => {
  const name = `${event.processId} (${event.command})`
  switch (event._tag) {
    case "ProcessCompleted": {
      const how = event.reason === "killed" ? "was killed" : "exited"
      const output = event.output.trim() === "" ? "It printed nothing." : `The end of its output:\n${event.output}`
      const wall =
        event.stoppedBy === undefined
          ? ""
          : `\n[${event.stoppedBy}. process(action="poll", session_id="${event.processId}") asks the user whether it may run outside]`
      return `[The background process ${name} ${how} with code ${event.exitCode}]\n${output}${wall}`
    }
    case "WatchMatched": {
      const more = event.suppressed === 0 ? "" : `\n(${event.suppressed} earlier matches are left out)`
      return `[The background process ${name} printed "${event.pattern}"]\n${event.lines.join("\n")}${more}`
    }
    case "WatchDemoted":
      return `[The background process ${name} matched too often: from now on it only tells when it ends]`
  }
}

const make = Effect.gen(function* () {
  const children = yield* Children
  const processes = yield* ProcessRegistry
  const events = yield* ProcessEvents
  const reviews = yield* BackgroundReviews

  const listRunningProcesses = (sessionId: SessionId) =>
    Effect.map(processes.list(sessionId), (all) => all.filter((process) => process.ended() === undefined))

  const listDescendants = Effect.fnUntraced(function* (sessionId: SessionId) {
    const sessions = new Set<string>([sessionId])
    const family = []
    // Parents precede their children.
    for (const child of yield* children.list) {
      if (!sessions.has(child.parentSessionId)) continue
      sessions.add(child.sessionId)
      family.push(child)
    }
    return family
  })

  const list: Service["list"] = Effect.fnUntraced(function* (sessionId) {
    const family = yield* listDescendants(sessionId)
    const own = yield* listRunningProcesses(sessionId)
    return [
      ...family.map(({ delegationId, goal, progress, startedAt, subagentId }): Item => ({
        kind: "child",
        id: delegationId ?? subagentId,
        what: goal,
        since: startedAt,
        at:
          progress.lastTool === undefined
            ? "thinking"
            : `${progress.lastTool}, ${formatCount(progress.toolCount, "tool call")}`
      })),
      ...own.map(({ id, options, pid, startedAt }): Item => ({
        kind: "process",
        id,
        what: options.command,
        since: startedAt,
        at: `process ${pid}`
      })),
      ...(yield* reviews.list)
        .filter((review) => review.sessionId === sessionId)
        .map(({ id, startedAt, subjects }): Item => ({
          kind: "review",
          id,
          what: `review of the conversation for ${subjects.join(" and ")}`,
          since: startedAt,
          at: "thinking"
        }))
    ].sort((a, b) => a.since - b.since)
  })

  const endItem = Effect.fnUntraced(function* (sessionId: SessionId, item: Item) {
    if (item.kind === "child") {
      yield* children.stop(item.id)
      return item
    }
    if (item.kind === "review") {
      yield* reviews.stop(sessionId)
      return item
    }
    const kill = Effect.flatMap(processes.find(item.id, sessionId), (process) => process.kill)
    // A process that no longer exists counts as stopped.
    yield* Effect.catchTag(Effect.asVoid(kill), "ProcessNotFound", () => Effect.void)
    return item
  })

  return yield* limitToTenant({
    list,
    stop: Effect.fnUntraced(function* (sessionId, id) {
      const found = (yield* list(sessionId)).filter((item) => id !== "" && item.id.startsWith(id))
      const [only] = found
      return only === undefined || found.length > 1 ? undefined : yield* endItem(sessionId, only)
    }),
    stopAll: (sessionId) =>
      Effect.flatMap(list(sessionId), (items) =>
        Effect.forEach(items, (item) => endItem(sessionId, item), { concurrency: "unbounded" })
      ),
    arrived: (sessionId) =>
      Effect.raceAllFirst([children.arrived(sessionId), events.arrived(sessionId), reviews.arrived(sessionId)]),
    takeNotices: (sessionId) => Effect.map(reviews.take(sessionId), (reports) => reports.map(({ text }) => text)),
    reviewed: reviews.settled,
    take: Effect.fnUntraced(function* (sessionId) {
      const reports = yield* children.take(sessionId)
      const news = yield* events.drain(sessionId)
      const redact = yield* RedactSecrets
      // Text from tools and children that is not delivered as a tool result is redacted here.
      return [...reports.map((report) => renderDelivery(report, redact)), ...news.map(renderProcessEvent)].map((text) =>
        ResultText.cleanText(text, { foreign: false, redact })
      )
    }),
    settled: Effect.fnUntraced(function* (sessionId) {
      const awaited = (yield* listRunningProcesses(sessionId)).filter(({ options }) => options.notifyOnComplete)
      yield* Effect.forEach(awaited, (process) => process.exit, { concurrency: "unbounded", discard: true })
    })
  })
})

/** Service of the background work of all conversations. */
export class BackgroundWork extends Context.Service<BackgroundWork, Service>()("hermes-effect/agent/BackgroundWork") {}

/** Limits background work to the sessions of the tenant for which a fiber works. Others have no work. */
const limitToTenant = (work: Service): Effect.Effect<Service> =>
  Effect.map(Effect.serviceOption(SessionStore), (found) => {
    const store = Option.getOrUndefined(found)
    if (store === undefined) return work
    const guardWork = <A>(
      sessionId: SessionId,
      nothing: Effect.Effect<A>,
      effect: Effect.Effect<A>
    ): Effect.Effect<A> =>
      Effect.flatMap(
        Effect.catch(isForeignSession(store, sessionId), () => Effect.succeed(true)),
        (isForeign) => (isForeign ? nothing : effect)
      )
    const none = Effect.succeed([])
    return {
      list: (id) => guardWork(id, none, work.list(id)),
      stop: (id, item) => guardWork(id, Effect.undefined, work.stop(id, item)),
      stopAll: (id) => guardWork(id, none, work.stopAll(id)),
      arrived: (id) => guardWork(id, Effect.never, work.arrived(id)),
      take: (id) => guardWork(id, none, work.take(id)),
      takeNotices: (id) => guardWork(id, none, work.takeNotices(id)),
      settled: (id) => guardWork(id, Effect.void, work.settled(id)),
      reviewed: (id) => guardWork(id, Effect.void, work.reviewed(id))
    }
  })

/** Layer of the background work, over the children, processes and reviews in the context. */
export const layer: Layer.Layer<BackgroundWork, never, BackgroundReviews | Children | ProcessRegistry | ProcessEvents> =
  Layer.effect(BackgroundWork, make)
