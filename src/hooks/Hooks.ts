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
 * - Observers of plugins on disk that state no delivery share one queue of their plugin. An event starts at once while
 *   that queue is idle; the run waits neither for it nor for later ones. A listener of the plugin that may answer is
 *   called after the plugin's earlier events, and the end of a run waits for the queue, each for at most 5 s. After a
 *   missed deadline neither waits, until the plugin handles an event in time.
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
import type { ConfigError } from "../base/domain/AgentError.ts"
import * as OrderedList from "../base/domain/OrderedList.ts"
import { findNearest } from "../base/domain/Similarity.ts"
import * as RunContext from "../base/domain/RunContext.ts"
import type { Rule } from "./Answers.ts"
import type { BoundListener } from "./DeliveryPace.ts"
import * as DeliveryPaces from "./DeliveryPaces.ts"
import { acceptAnswer } from "./Dispatch.ts"
import * as Dispatch from "./Dispatch.ts"
import { canAnswer, type Hook } from "./Hook.ts"
import * as HookRecorder from "./HookRecorder.ts"
import { makeFaultReporter } from "../base/domain/IsolatedCall.ts"
import { type Answers, type AskName, type Fields, type HookName, isHookName, names } from "./Payloads.ts"
import { table } from "./PayloadTable.ts"
import { defaultMaxChars } from "./Sanitizer.ts"

export { flushDeadline } from "./DeliveryPace.ts"
export { fromPlain, observer, on } from "./Hook.ts"

/** A registered hook, for display. */
export interface HookInfo {
  readonly label: string
  readonly events: ReadonlyArray<string>
  readonly mode: "inline" | "queued"
  /** Number of events that a full queue has dropped. */
  readonly dropped: number
  /** Present if a failure of the hook denies the operation of one of its events. */
  readonly onFailure?: "closed" | undefined
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
  /**
   * Adds a hook until the scope closes: after all others if `zone` is absent, otherwise at the end of that part of the
   * list.
   */
  readonly register: <R>(hook: Hook<R>, zone?: OrderedList.Zone) => Effect.Effect<void, never, R | Scope.Scope>
  /**
   * Adds hooks at a position of the list until the scope closes. Positions name the labels of hooks. Fails for a
   * position that names no hook, if an agent exists already; otherwise {@link settle} fails.
   */
  readonly add: <R>(
    hooks: ReadonlyArray<Hook<R>>,
    position: OrderedList.Position
  ) => Effect.Effect<void, ConfigError, R | Scope.Scope>
  /** Checks the positions of all added hooks; an agent does when it is built. */
  readonly settle: Effect.Effect<void, ConfigError>
  readonly list: () => ReadonlyArray<HookInfo>
  /**
   * Returns an Effect that waits until the observers of plugins have handled the events so far, for at most
   * {@link flushDeadline} in total. Returns `undefined` if nothing has to be awaited.
   */
  readonly findPending: () => Effect.Effect<void> | undefined
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

/** A hook with the services of its registration. */
interface RegisteredHook {
  readonly label: string
  readonly listeners: ReadonlyArray<BoundListener>
  readonly describe: () => HookInfo
}

const kind: OrderedList.ListKind<RegisteredHook> = {
  path: "Hooks.layerAdd",
  noun: "hook",
  getName: ({ label }) => label,
  getKey: ({ label, listeners }) => `${label}(${listeners.map(({ event }) => event).join(",")})`
}

/** Creates the service without listeners. */
export const make = (settings: Settings = {}): Effect.Effect<Service> => Effect.sync(() => makeUnsafe(settings))

const makeUnsafe = (settings: Settings): Service => {
  const maxChars = settings.payloadMaxChars ?? defaultMaxChars
  const answerDeadline = settings.answerDeadline ?? Duration.seconds(30)
  // Arrays are replaced, never changed: an event is sent to the listeners that were registered when it happened.
  const listeners = new Map<string, ReadonlyArray<BoundListener>>()
  const hooks = OrderedList.make(kind, (entries) => {
    listeners.clear()
    for (const bound of entries.flatMap((entry) => entry.listeners))
      listeners.set(bound.event, [...(listeners.get(bound.event) ?? []), bound])
  })

  const { dispatch, startQueue } = Dispatch.make(maxChars, makeFaultReporter())

  const paces = DeliveryPaces.makePaces(startQueue)

  const bindHook = <R>(hook: Hook<R>) =>
    Effect.gen(function* () {
      const context = yield* Effect.context<R>()
      for (const { event } of hook.listeners) {
        if (!isHookName(event)) yield* Effect.logWarning(formatUnknownName(hook.label, event))
      }
      const { before, pace } = yield* paces.resolvePaces(hook)
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
        before: canAnswer(listener.event) ? before : undefined,
        isObserver: hook.delivery.mode === "queued" || pace.startsAtOnce || !canAnswer(listener.event)
      }))
      const describeHook = (): HookInfo => ({
        label: hook.label,
        events: hook.listeners.map(({ event }) => event),
        mode: pace.queue === undefined ? "inline" : "queued",
        dropped: pace.queue?.dropped() ?? 0,
        ...(hook.listeners.some(({ onFailure }) => onFailure === "closed") ? { onFailure: "closed" } : {})
      })
      return { label: hook.label, listeners: bound, describe: describeHook } satisfies RegisteredHook
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
    register: (hook, zone = "last") => Effect.flatMap(bindHook(hook), (bound) => hooks.append(bound, zone)),
    add: (added, position) =>
      Effect.flatMap(
        Effect.forEach(added, (hook) => bindHook(hook)),
        (bound) => hooks.add(bound, position)
      ),
    settle: hooks.settle,
    list: () => hooks.entries().map(({ describe }) => describe()),
    findPending: paces.findPending
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

const registerListed = <R>({ register }: Service, hooks: ReadonlyArray<Hook<R>>) =>
  Effect.forEach(hooks, (hook) => RunContext.deferKeys(register(hook, "listed")), { discard: true })

/** Layer of {@link Hooks} with these hooks, in this order. */
export const layer = <const H extends ReadonlyArray<Hook<unknown>>>(
  hooks: H & ListOf<H>,
  settings?: Settings
): Layer.Layer<Hooks, never, RunContext.AtBuild<Needs<H>>> => {
  const list: ListOf<H> = hooks
  return Layer.effect(
    Hooks,
    Effect.tap(make(settings), (service) => registerListed(service, list))
  )
}

/** No hooks. Each use creates a separate service, to which hooks can be added. */
export const layerNone: Layer.Layer<Hooks> = Layer.fresh(Layer.effect(Hooks, make()))

/**
 * Appends hooks to the list in the context, in this order: after the hooks of {@link layer}, before hooks that are
 * registered later.
 */
export const layerListed = <R>(
  hooks: ReadonlyArray<Hook<R>>
): Layer.Layer<never, never, Hooks | RunContext.AtBuild<R>> =>
  Layer.effectDiscard(Effect.flatMap(Hooks, (service) => registerListed(service, hooks)))

/**
 * Adds hooks to the list in the context. `outermost` hooks are called first, after the hooks of plugins; `before` and
 * `after` name the label of a hook.
 */
export const layerAdd = <const H extends ReadonlyArray<Hook<unknown>>>(
  hooks: H & ListOf<H>,
  position: OrderedList.Position
): Layer.Layer<never, ConfigError, Hooks | RunContext.AtBuild<Needs<H>>> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const list: ListOf<H> = hooks
      yield* RunContext.deferKeys((yield* Hooks).add(list, position))
    })
  )

/** The events that {@link layerTest} recorded. */
export class Recorded extends Context.Service<Recorded, Omit<HookRecorder.HookRecorder, "hooks">>()(
  "hermes-effect/hooks/Recorded"
) {}

/**
 * Hooks of a test: they record all events, and {@link Recorded} returns them. Further hooks can be added, see
 * {@link layerAdd}.
 *
 * **Example** (The events of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Hooks, ModelRouter, Offline, SessionStore, ToolRegistry } from "hermes-effect"
 *
 * const agent = Agent.layer().pipe(
 *   Layer.provideMerge(Hooks.layerTest),
 *   Layer.provide([ModelRouter.layer, SessionStore.layerMemory, ToolRegistry.layerNone]),
 *   Layer.provide(Offline.layer())
 * )
 *
 * const program = Effect.gen(function*() {
 *   yield* Agent.run({ prompt: "Reply exactly hello" })
 *   return (yield* Hooks.Recorded).payloads("on_session_end").map(({ completed }) => completed)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, agent)))
 * // => [ true ]
 * ```
 */
export const layerTest: Layer.Layer<Hooks | Recorded> = Layer.fresh(
  Layer.unwrap(
    Effect.sync(() => {
      const { hooks, payloads, told } = HookRecorder.makeHookRecorder()
      return Layer.merge(layer(hooks), Layer.succeed(Recorded, { payloads, told }))
    })
  )
)
