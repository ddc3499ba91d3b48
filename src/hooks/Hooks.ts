/**
 * Reports events of a run to listeners, and asks the listeners that may answer. An observer cannot change a run: a
 * failure, a defect or a missed deadline is logged as one warning.
 *
 * **Details**
 *
 * - Listeners are called in order of registration, plugins first. A listener that may answer is called when the
 *   previous one has finished or missed its deadline (30 s, unless {@link Settings} say otherwise). Observers are
 *   called in sequence and awaited together, each no longer than its deadline (5 s); the observers of one plugin run
 *   one after the other.
 * - `has` is a look-up. `emit` and `ask` take a function that creates the payload, and call it only if the event has
 *   listeners: without listeners they return a constant. The payload is created once per event, see `Sanitizer`.
 * - Interrupting a run interrupts waiting for a listener. Inside an uninterruptible region (a closing event, see
 *   `PairedEvents`) every listener is still called, each with its deadline.
 * - A listener that interrupts itself counts as failed. Only an interruption of the run counts as an interruption.
 * - The run does not wait again for an observer that missed its deadline: the observer continues, later events wait in
 *   a queue, and one warning reports it. Missed deadlines are counted per plugin, not per hook. A listener that may
 *   answer is awaited at each event.
 * - Each distinct fault is logged once as a warning, and at debug level after that.
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
  /** Number of events that a full queue has dropped. */
  readonly dropped: number
}

/** Registers hooks and emits events to their listeners. */
export interface Service {
  /** Returns true if the event has listeners. */
  readonly has: (name: string) => boolean
  /** Notifies all listeners of an event. */
  readonly emit: <Name extends HookName>(name: Name, fields: () => Fields<NoInfer<Name>>) => Effect.Effect<void>
  /** Asks all listeners and merges their answers by the rule of the hook. Returns `undefined` if there is no answer. */
  readonly ask: <Name extends AskName>(
    name: Name,
    fields: () => Fields<NoInfer<Name>>
  ) => Effect.Effect<Answers[Name] | undefined>
  /**
   * Notifies the listeners of an event with any name, including names that this runtime does not know, and collects
   * their return values in order, without `undefined` and `null`. A `telemetry_schema_version` among the fields is
   * preserved.
   */
  readonly invoke: (
    name: string,
    fields: () => Readonly<Record<string, unknown>>
  ) => Effect.Effect<ReadonlyArray<unknown>>
  /** Registers a hook after all others, until the scope closes. */
  readonly register: <R>(hook: Hook<R>) => Effect.Effect<void, never, R | Scope.Scope>
  readonly list: () => ReadonlyArray<HookInfo>
}

/** Service of the hooks of a runtime. */
export class Hooks extends Context.Service<Hooks, Service>()("hermes-effect/hooks/Hooks") {}

/** Settings of all hooks of a runtime. */
export interface Settings {
  /**
   * Maximum number of characters of a sanitised request or response (`HERMES_PLUGIN_PAYLOAD_MAX_CHARS`). Defaults to
   * 50 000.
   */
  readonly payloadMaxChars?: number | undefined
  /**
   * Deadline of a listener that may answer, unless the listener sets a deadline (`plugins.hook_callback_timeout`).
   * Defaults to 30 seconds; `Duration.infinity` means no deadline.
   */
  readonly answerDeadline?: Duration.Duration | undefined
}

/** Rows of the hooks whose listeners may answer. */
const asking: { readonly [Name in AskName]: { readonly answer: Rule<never, NonNullable<Answers[Name]>> } } = table

const nothing = Effect.succeed(undefined)
const none: ReadonlyArray<unknown> = []
const nobody = Effect.succeed(none)

/** Creates the service without listeners. */
export const make = (settings: Settings = {}): Effect.Effect<Service> => Effect.sync(() => makeUnsafe(settings))

const makeUnsafe = (settings: Settings): Service => {
  const maxChars = settings.payloadMaxChars ?? defaultMaxChars
  const answerDeadline = settings.answerDeadline ?? Duration.seconds(30)
  const infos = new Set<() => HookInfo>()
  // Arrays are replaced, never changed: an event is sent to the listeners that were registered when it happened.
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

  /** Returns the pace of a hook. Inline hooks of one owner share a pace, so that queued events stay in order. */
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

/** Services that the hooks of a list require. */
export type Needs<H extends ReadonlyArray<Hook<unknown>>> = H[number] extends infer One
  ? One extends Hook<infer R>
    ? R
    : never
  : never

/** A list of hooks, each typed with the union of all requirements. */
export type ListOf<H extends ReadonlyArray<Hook<unknown>>> = TupleLike<Hook<Needs<H>>>

/** Layer of {@link Hooks} with these hooks, in this order. */
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
