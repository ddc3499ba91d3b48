/**
 * Reports events of a run to listeners, and asks the listeners that may answer. An observer cannot change a run: a
 * failure, a defect or a missed deadline is one warning.
 *
 * **Details**
 *
 * - Listeners are called in order of registration, plugins first. A listener that may answer is called when the
 *   previous one has finished or missed its deadline (30 s, unless {@link Settings} say otherwise). Observers are
 *   called one after the other and awaited together, each no longer than its deadline (5 s); the observers of one
 *   plugin run one after the other.
 * - `has` is a look-up. `emit` and `ask` take a function that creates the payload, and call it only if the event has
 *   listeners: without listeners they return a constant. The payload is created once per event, see `Sanitizer`.
 * - Interrupting a run interrupts waiting for a listener. Inside an uninterruptible region (a closing event, see
 *   `PairedEvents`) every listener is still called, each with its deadline.
 * - A listener that interrupts itself has failed; only the interruption of the run is one.
 * - The run does not wait again for an observer that missed its deadline: the observer continues, later events wait in
 *   a queue, and one warning reports it. The hooks of a plugin count together. A listener that may answer is awaited at
 *   each event.
 * - Distinct faults are warned about once and logged at debug level after that.
 *
 * **Gotchas**
 *
 * A listener that never yields blocks the run: JavaScript has no way to stop it (`ARCHITECTURE.md` §7).
 *
 * Source: the observer document, `hermes-contract.md` §2.1, §2.5 and §2.6, `ARCHITECTURE.md` §5–7.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { TupleLike } from "../base/domain/TupleLike.ts"
import { findNearest } from "../base/domain/Similarity.ts"
import * as RunContext from "../base/domain/RunContext.ts"
import type { Rule } from "./Answers.ts"
import { type BoundListener, acceptAnswer, type DeliveryPace } from "./Dispatch.ts"
import * as Dispatch from "./Dispatch.ts"
import { canAnswer, type Hook } from "./Hook.ts"
import { makeFaultReporter } from "../base/domain/IsolatedCall.ts"
import { type Answers, type AskName, type Fields, type HookName, isHookName, names } from "./Payloads.ts"
import { table } from "./PayloadTable.ts"
import { defaultMaxChars } from "./Sanitizer.ts"

export { flushDeadline } from "./Dispatch.ts"
export { fromPlain, observer, on } from "./Hook.ts"

/** A registered hook, for display. */
export interface HookInfo {
  readonly label: string
  readonly events: ReadonlyArray<string>
  readonly mode: "inline" | "queued"
  /** Events that a full queue lost so far. */
  readonly dropped: number
}

/** Registers hooks and emits events to them. */
export interface Service {
  /** True when anybody listens. */
  readonly has: (name: string) => boolean
  /** Tells all listeners. */
  readonly emit: <Name extends HookName>(name: Name, fields: () => Fields<NoInfer<Name>>) => Effect.Effect<void>
  /** Asks all listeners and merges their answers by the rule of the hook; undefined if there is no answer. */
  readonly ask: <Name extends AskName>(
    name: Name,
    fields: () => Fields<NoInfer<Name>>
  ) => Effect.Effect<Answers[Name] | undefined>
  /**
   * Notifies the listeners of any name, including one that this runtime does not know, and collects their return values
   * in order, without `undefined` and `null`. A `telemetry_schema_version` among the fields is preserved.
   */
  readonly invoke: (
    name: string,
    fields: () => Readonly<Record<string, unknown>>
  ) => Effect.Effect<ReadonlyArray<unknown>>
  /** Adds a hook after all others, for as long as the scope lives. */
  readonly register: <R>(hook: Hook<R>) => Effect.Effect<void, never, R | Scope.Scope>
  readonly list: () => ReadonlyArray<HookInfo>
}

/** The hooks of a runtime. */
export class Hooks extends Context.Service<Hooks, Service>()("hermes-effect/hooks/Hooks") {}

/** Settings of all hooks of a runtime. */
export interface Settings {
  /** Characters of a sanitised request or response (`HERMES_PLUGIN_PAYLOAD_MAX_CHARS`); 50 000 when absent. */
  readonly payloadMaxChars?: number | undefined
  /**
   * Deadline of a listener that may answer, unless it sets one (`plugins.hook_callback_timeout`); 30 seconds when
   * absent, `Duration.infinity` for no deadline.
   */
  readonly answerDeadline?: Duration.Duration | undefined
}

/** The rows of hooks that ask. */
const asking: { readonly [Name in AskName]: { readonly answer: Rule<never, NonNullable<Answers[Name]>> } } = table

const nothing = Effect.succeed(undefined)
const none: ReadonlyArray<unknown> = []
const nobody = Effect.succeed(none)

/** Hooks without a listener, to which some can be added. */
export const make = (settings: Settings = {}): Effect.Effect<Service> => Effect.sync(() => makeUnsafe(settings))

const makeUnsafe = (settings: Settings): Service => {
  const maxChars = settings.payloadMaxChars ?? defaultMaxChars
  const answerDeadline = settings.answerDeadline ?? Duration.seconds(30)
  const infos = new Set<() => HookInfo>()
  // Arrays are replaced, never changed: an event is sent to the listeners registered when it happened.
  const listeners = new Map<string, ReadonlyArray<BoundListener>>()

  const addListener = (bound: BoundListener): void => {
    listeners.set(bound.event, [...(listeners.get(bound.event) ?? []), bound])
  }
  const removeListener = (bound: BoundListener): void => {
    const rest = listeners.get(bound.event)?.filter((other) => other !== bound) ?? []
    if (rest.length === 0) listeners.delete(bound.event)
    else listeners.set(bound.event, rest)
  }

  const { dispatch, startQueue } = Dispatch.make(maxChars, makeFaultReporter())

  const paces = new WeakMap<object, DeliveryPace>()

  /** The pacing of a hook; inline hooks of one owner share it, so that queued events stay in order. */
  const resolvePace = Effect.fnUntraced(function* ({ delivery, label, owner }: Hook<unknown>) {
    const scope = yield* Effect.scope
    const known = owner === undefined || delivery.mode === "queued" ? undefined : paces.get(owner.key)
    if (known !== undefined) return known
    const pace: DeliveryPace = {
      label: delivery.mode === "queued" ? label : (owner?.label ?? label),
      scope,
      slow: 0,
      queue: undefined
    }
    if (delivery.mode === "queued") yield* startQueue(pace, delivery.capacity)
    else if (owner !== undefined) paces.set(owner.key, pace)
    return pace
  })

  const register: Service["register"] = <R>(hook: Hook<R>) =>
    Effect.gen(function* () {
      const context = yield* Effect.context<R>()
      for (const { event } of hook.listeners) {
        if (!isHookName(event)) yield* Effect.logWarning(formatUnknownName(hook.label, event))
      }
      const pace = yield* resolvePace(hook)
      const bound = hook.listeners.map((listener): BoundListener => ({
        ...listener,
        deadline: listener.deadline ?? answerDeadline,
        label: hook.label,
        // Services of the call (its span, its logger) override the services of the registration.
        handle: (payload) => {
          const handling = listener.handle(payload)
          return Exit.isExit(handling)
            ? handling
            : Effect.updateContext(handling, (input: Context.Context<never>) => Context.merge(context, input))
        },
        pace,
        isObserver: hook.delivery.mode === "queued" || !canAnswer(listener.event)
      }))
      const describeHook = (): HookInfo => ({
        label: hook.label,
        events: hook.listeners.map(({ event }) => event),
        mode: pace.queue === undefined ? "inline" : "queued",
        dropped: pace.queue?.dropped() ?? 0
      })
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          bound.forEach(addListener)
          infos.add(describeHook)
        }),
        () =>
          Effect.sync(() => {
            bound.forEach(removeListener)
            infos.delete(describeHook)
          })
      )
    })

  return {
    has: (name) => listeners.has(name),
    emit: (name, fields) => {
      const told = listeners.get(name)
      return told === undefined ? Effect.void : Effect.asVoid(dispatch(name, told, fields, acceptAnswer))
    },
    ask: (name, fields) => {
      const told = listeners.get(name)
      if (told === undefined) return nothing
      const rule = asking[name].answer
      return Effect.map(dispatch(name, told, fields, rule.read), (answers) =>
        answers.length === 0 ? undefined : rule.merge(answers)
      )
    },
    invoke: (name, fields) => {
      const told = listeners.get(name)
      return told === undefined ? nobody : dispatch(name, told, fields, acceptAnswer)
    },
    register,
    list: () => Array.from(infos, (info) => info())
  }
}

const formatUnknownName = (label: string, event: string): string => {
  const meant = findNearest(event, names)
  return (
    `hook ${label}: nothing here emits "${event}"${meant === undefined ? "" : `, did you mean ${meant}?`} ` +
    `(known hooks: ${names.toSorted().join(", ")})`
  )
}

/** Services that the hooks of a list need; none when it is empty. */
export type Needs<H extends ReadonlyArray<Hook<unknown>>> = H[number] extends infer One
  ? One extends Hook<infer R>
    ? R
    : never
  : never

/** A list of hooks, each seen as needing the union of all requirements. */
export type ListOf<H extends ReadonlyArray<Hook<unknown>>> = TupleLike<Hook<Needs<H>>>

/** These hooks, in this order. */
export const layer = <const H extends ReadonlyArray<Hook<unknown>>>(
  hooks: H & ListOf<H>,
  settings?: Settings
): Layer.Layer<Hooks, never, RunContext.AtBuild<Needs<H>>> =>
  Layer.effect(
    Hooks,
    Effect.gen(function* () {
      const service = yield* make(settings)
      const list: ListOf<H> = hooks
      for (const hook of list) yield* RunContext.deferKeys(service.register(hook))
      return service
    })
  )
