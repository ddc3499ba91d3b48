/**
 * A hook as a value: its listeners, their events, and their delivery. It has no effect until `Hooks` registers it.
 *
 * **Example** (One listener, several, and a plain function)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Hooks } from "hermes-effect"
 *
 * const audit = Hooks.on("post_tool_call", (event) => Effect.logInfo(`${event.tool_name}: ${event.status}`))
 *
 * const exporter = Hooks.observer({ label: "exporter", mode: "queued" }, {
 *   pre_api_request: (event) => Effect.logDebug(event.api_request_id),
 *   post_api_request: (event) => Effect.logDebug(event.api_request_id)
 * })
 *
 * const guard = Hooks.fromPlain("pre_tool_call", (event) =>
 *   event.tool_name === "terminal" ? { action: "block", message: "no terminal here" } : undefined)
 * ```
 *
 * Source: the observer document ("Contract"), `ARCHITECTURE.md` §5 and §7.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { type AskName, type HookEvents, type HookName, type HookReturns, isHookName } from "./Payloads.ts"
import { table } from "./PayloadTable.ts"

/**
 * One event of a hook. `handle` receives the payload of the event named `event`. It is called in the fiber of the
 * event. The returned effect runs in a separate fiber, unless it is already done (`Effect.void`). A thrown error is a
 * failure of the listener.
 */
export interface Listener<out R = never> {
  readonly event: string
  readonly handle: (payload: object) => Effect.Effect<unknown, unknown, R>
  /**
   * Maximum time for which the run waits for the listener. Defaults to the runtime's deadline for listeners of its
   * kind.
   */
  readonly deadline?: Duration.Duration | undefined
  /** Meaning of a failure. With `closed`, a failure is a refusal if the hook supports refusals. */
  readonly onFailure: "open" | "closed"
}

/**
 * Delivery of events to a hook.
 *
 * **Details**
 *
 * `inline`: the run waits for each listener in turn. `queued`: the run continues; events wait in a queue of `capacity`
 * and are handled in order by one fiber per hook. When the queue is full the oldest event is dropped, with one warning
 * and a count. When the hook is removed, waiting events are handled first, for at most `Hooks.flushDeadline`. An inline
 * observer that misses its deadline continues, and its later events are queued.
 *
 * `default`: the owner of the hook decides. Observers of plugins on disk share a queue of their plugin; all others are
 * `inline`.
 */
type Delivery =
  | { readonly mode: "inline" }
  | { readonly mode: "queued"; readonly capacity: number }
  | { readonly mode: "default" }

/** Owner of several hooks whose delays are counted together, such as a plugin. */
interface Owner {
  readonly key: object
  readonly label: string
  /** True if the run does not wait for observers of the owner that state no delivery. */
  readonly queuesObservers?: boolean | undefined
}

/**
 * A hook with its listeners and delivery. `R` is the services that its listeners require, which are provided at
 * registration.
 */
export interface Hook<out R = never> {
  /** Name for warnings. */
  readonly label: string
  readonly listeners: ReadonlyArray<Listener<R>>
  readonly delivery: Delivery
  readonly owner?: Owner | undefined
}

/** Options of every hook. */
interface Options {
  /** Name for warnings. Defaults to the function's name. */
  readonly label?: string | undefined
  /**
   * Deadline of a listener. Defaults to 5 seconds for an observer, and to the value in `Hooks.Settings` (30 seconds)
   * for a listener that may answer (`ARCHITECTURE.md` §7).
   */
  readonly deadline?: Duration.Input | undefined
}

/** Further options of a guard: `closed` blocks the tool call when the guard fails or is too slow. */
interface GuardOptions extends Options {
  readonly onFailure?: "open" | "closed" | undefined
}

/** Further options of an observer; see {@link Delivery}. */
interface ObserverOptions extends Options {
  readonly mode?: "inline" | "queued" | undefined
  /** Maximum number of queued events. Defaults to 1024. */
  readonly capacity?: number | undefined
}

/** Options that are valid for a hook. */
type OptionsOf<Name extends string> = Name extends "pre_tool_call"
  ? GuardOptions
  : Name extends AskName
    ? Options
    : ObserverOptions

/** Return value of a listener. */
type ListenerResult<Name extends HookName> = Name extends AskName ? HookReturns[Name] | undefined | void : void

/** Payload of a hook, or any object for a hook that this runtime does not know. */
export type EventOf<Name extends string> = Name extends HookName ? HookEvents[Name] : Readonly<Record<string, unknown>>

const inline: Delivery = { mode: "inline" }
const byOwner: Delivery = { mode: "default" }
const observerDeadline = Duration.seconds(5)
/** Default maximum number of queued events of a hook. */
export const defaultCapacity = 1024

/** Returns true for an event whose listeners may answer. Listeners of other events are only notified. */
export const canAnswer = (event: string): event is AskName => isHookName(event) && "answer" in table[event]

const resolveDeadline = (event: string, deadline: Duration.Input | undefined): Duration.Duration | undefined => {
  if (deadline !== undefined) return Duration.fromInputUnsafe(deadline)
  return canAnswer(event) ? undefined : observerDeadline
}

const toDelivery = (options: ObserverOptions): Delivery =>
  options.mode === "queued"
    ? { mode: "queued", capacity: Math.max(1, Math.floor(options.capacity ?? defaultCapacity)) }
    : options.mode === "inline"
      ? inline
      : byOwner

const eraseHandleType = <R>(handle: (payload: never) => Effect.Effect<unknown, unknown, R>): Listener<R>["handle"] =>
  // Payloads are created for the event of a listener. The type of the listeners of all events cannot express this.
  handle as Listener<R>["handle"]

const makeSingleHook = <R>(
  event: string,
  name: string,
  handle: Listener<R>["handle"],
  options: GuardOptions & ObserverOptions
): Hook<R> => ({
  label: options.label ?? (name === "" ? "anonymous" : name),
  listeners: [
    { event, handle, deadline: resolveDeadline(event, options.deadline), onFailure: options.onFailure ?? "open" }
  ],
  // The run waits for each listener that may answer. Answers to an unknown event are collected too.
  delivery: options.mode === undefined && (canAnswer(event) || !isHookName(event)) ? inline : toDelivery(options)
})

/**
 * Creates a hook for one event. A failure of the listener is logged as a warning. Its services are provided at
 * registration.
 */
export const on = <Name extends HookName, E = never, R = never>(
  name: Name,
  handle: (event: HookEvents[Name]) => Effect.Effect<ListenerResult<Name>, E, R>,
  options?: OptionsOf<Name>
): Hook<NoInfer<R>> => makeSingleHook(name, handle.name, eraseHandleType(handle), options ?? {})

/** Listeners of an {@link observer}, by event. No listener returns an answer. */
type Handlers = { readonly [Name in HookName]?: (event: HookEvents[Name]) => Effect.Effect<void, unknown, unknown> }

type NeedsOf<H extends Handlers> = {
  [Name in keyof H]: H[Name] extends (event: never) => Effect.Effect<unknown, unknown, infer R> ? R : never
}[keyof H]

/** Creates a hook for several events. Events are handled in order, also if the hook is `queued`. */
export const observer = <const H extends Handlers>(
  options: ObserverOptions & { readonly label: string },
  handlers: H
): Hook<NeedsOf<H>> => ({
  label: options.label,
  listeners: Object.entries(handlers).map(([event, handle]) => ({
    event,
    // The exact type of the record states the requirements of its handlers; its entries are only known as `unknown`.
    handle: eraseHandleType(handle) as Listener<NeedsOf<H>>["handle"],
    deadline: Duration.fromInputUnsafe(options.deadline ?? observerDeadline),
    onFailure: "open"
  })),
  delivery: toDelivery(options)
})

/** Converts a value, a promise or an Effect to an Effect. A rejection is a failure. */
const toEffect = (returned: unknown): Effect.Effect<unknown, unknown> => {
  // An Effect returned by a plain function is run unchanged. Its failures and requirements are unknown.
  if (Effect.isEffect(returned)) return returned as Effect.Effect<unknown, unknown>
  return Predicate.isPromiseLike(returned)
    ? Effect.tryPromise({ try: () => returned, catch: (error) => error })
    : Effect.succeed(returned)
}

/**
 * Creates a hook from a plain function, which may return a value, a promise or an Effect.
 *
 * **Gotchas**
 *
 * The payload is frozen: a function that assigns to it throws, which is logged as a warning. An unknown name is
 * accepted with a warning at registration: the listener receives only events that are sent under that name.
 */
export const fromPlain = <const Name extends string>(
  name: Name,
  fn: (event: EventOf<Name>) => unknown,
  options?: OptionsOf<Name>
): Hook => {
  const handleEvent = (payload: EventOf<Name>): Effect.Effect<unknown, unknown> => toEffect(fn(payload))
  return makeSingleHook(name, fn.name, eraseHandleType(handleEvent), options ?? {})
}
