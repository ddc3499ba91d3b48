/**
 * Lists and stops the running children of all runs of an agent, in the foreground and the background, and delivers the
 * reports of background children.
 *
 * **Details**
 *
 * A foreground child belongs to the run that requested it and ends with it. A background child belongs to this service:
 * interrupting its parent does not affect it, and closing the service interrupts it. Its report waits here until it is
 * collected. `Background` recovers reports that are never collected.
 *
 * **Example** (Pausing delegation)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Delegate, Runtime } from "hermes-effect"
 * import { Children } from "hermes-effect/delegation"
 *
 * const program = Effect.gen(function*() {
 *   const children = yield* Children.Children
 *   yield* children.pause(true)
 *   return [yield* children.isPaused, (yield* children.list).length]
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [Delegate.toolset] }))))
 * // => [ true, 0 ]
 * ```
 *
 * Source: `hermes-product.md` §3.4 and §3.5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { SessionId } from "../base/domain/Ids.ts"
import * as SessionQueue from "../base/domain/SessionQueue.ts"
import type { ChildReport } from "../tools/Delegator.ts"

/** A running child. */
export interface Child {
  readonly subagentId: string
  /** Id of the parent as a child, empty if the parent is not a child itself. */
  readonly parentSubagentId: string
  readonly sessionId: SessionId
  readonly parentSessionId: SessionId
  readonly depth: number
  readonly goal: string
  readonly model: string
  /** Start of the child, in milliseconds since the epoch. */
  readonly startedAt: number
  /** Id of the delegation of a background child. */
  readonly delegationId: string | undefined
  readonly progress: { readonly toolCount: number; readonly lastTool: string | undefined }
}

/** Report of a background child. */
export interface Delivery {
  readonly delegationId: string
  /** Session that started the child. */
  readonly sessionId: SessionId
  readonly goal: string
  readonly report: ChildReport
}

/** Lists, waits for and stops the children of one agent. */
export interface Service {
  /** Running children, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<Child>>
  /**
   * Asks the child with this id or prefix of an id to end with its results so far, which become the report to its
   * parent.
   */
  readonly stop: (id: string) => Effect.Effect<Child | undefined>
  /** Pauses or resumes delegation. No run can delegate while it is paused. */
  readonly pause: (paused: boolean) => Effect.Effect<void>
  readonly isPaused: Effect.Effect<boolean>
  /** Runs `work` with the child listed as running. */
  readonly during: <A, E, R>(
    child: Child,
    stop: Effect.Effect<unknown>,
    work: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  /** Runs a child in the background. `undefined` if no work can outlive a run. */
  readonly send: ((work: Effect.Effect<Delivery>) => Effect.Effect<void>) | undefined
  /** Takes the waiting reports of a session. */
  readonly take: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<Delivery>>
  /** Waits until a report is available for the session. The report stays until it is taken. */
  readonly arrived: (sessionId: SessionId) => Effect.Effect<void>
}

/** Creates the service. Background children run in `scope`. */
export const make = (scope?: Scope.Scope): Service => {
  const working = new Map<string, { readonly child: Child; readonly stop: Effect.Effect<unknown> }>()
  const reports = SessionQueue.make<Delivery>()
  let paused = false

  return {
    list: Effect.sync(() => Array.from(working.values(), ({ child }) => child)),
    stop: (id) =>
      Effect.suspend(() => {
        const found = Array.from(working.values()).filter(
          ({ child: { delegationId, subagentId } }) =>
            id !== "" && (subagentId.startsWith(id) || delegationId?.startsWith(id) === true)
        )
        const [only] = found
        return only === undefined || found.length > 1 ? Effect.succeed(undefined) : Effect.as(only.stop, only.child)
      }),
    pause: (now) =>
      Effect.sync(() => {
        paused = now
      }),
    isPaused: Effect.sync(() => paused),
    during: (child, stop, work) =>
      Effect.suspend(() => {
        working.set(child.subagentId, { child, stop })
        return Effect.ensuring(
          work,
          Effect.sync(() => working.delete(child.subagentId))
        )
      }),
    send:
      scope === undefined
        ? undefined
        : (work) =>
            Effect.asVoid(Effect.forkIn(Effect.flatMap(work, reports.offer), scope, { startImmediately: true })),
    take: reports.drain,
    arrived: reports.arrived
  }
}

/** Service of the running children. */
export class Children extends Context.Service<Children, Service>()("hermes-effect/agent/Children") {}

/** Layer of {@link Children}. Background children are interrupted when the layer closes. */
export const layer: Layer.Layer<Children> = Layer.effect(Children, Effect.map(Effect.scope, make))
