/**
 * Tells whoever listens what happens in a run, and asks those who may answer. An observer cannot change a run: what it
 * fails with, dies of or takes too long over is one warning.
 *
 * **Details**
 *
 * - Order is the order of registration, plugins first. A listener that may answer is called when the one before it is done, or was
 *   given up at its deadline (30 s, unless {@link Settings} say otherwise). Observers are called one after the other and waited for
 *   together, each no longer than its deadline (5 s); those of one plugin are called when the one before is done.
 * - `has` is a look-up. `emit` and `ask` take a function that makes the payload, and call it only when somebody listens:
 *   without listeners they return a constant. The payload is made once per event, see `Sanitizer`.
 * - Interrupting a run interrupts waiting for a listener. Inside an uninterruptible region (a closing event, see `PairedEvents`)
 *   every listener is still called, each with its deadline.
 * - A listener that interrupts itself has failed; only the interruption of the run is one.
 * - An observer that misses its deadline is not waited for again: it runs on, what comes after it waits in a queue, and one warning says
 *   so. The hooks of a plugin count together. A listener that may answer is waited for at each event.
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
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { TupleLike } from "../domain/TupleLike.ts"
import { nearest } from "../domain/Similarity.ts"
import * as RunContext from "../domain/RunContext.ts"
import type { Rule } from "./Answers.ts"
import { answers, defaultCapacity, type Hook, type Listener } from "./Hook.ts"
import { attempt, describe, forked, makeFaults, type Restore, settledUntil } from "./IsolatedCall.ts"
import * as ObserverQueue from "./ObserverQueue.ts"
import { type Answers, type AskName, type Fields, type HookName, isHookName, names } from "./Payloads.ts"
import { table } from "./PayloadTable.ts"
import { defaultMaxChars, payloadOf } from "./Sanitizer.ts"

export { fromPlain, observer, on } from "./Hook.ts"

/** Time that a removed hook may still work on what waits in its queue. One that was too slow to the last gets none. */
export const flushDeadline = Duration.seconds(5)

/** Deadlines in a row after which a queue is not worked off any more at the end. */
const strikes = 3

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
  /** Asks all listeners and merges their answers as the hook demands; undefined when nobody has one. */
  readonly ask: <Name extends AskName>(
    name: Name,
    fields: () => Fields<NoInfer<Name>>
  ) => Effect.Effect<Answers[Name] | undefined>
  /**
   * Tells the listeners of any name, also one that this runtime does not know, and collects what they return in order,
   * without `undefined` and `null`. A `telemetry_schema_version` among the fields is kept.
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
   * Deadline of a listener that may answer, where it has none of its own (`plugins.hook_callback_timeout`); 30
   * seconds when absent, `Duration.infinity` for no deadline.
   */
  readonly answerDeadline?: Duration.Duration | undefined
}

/** A listener as it is called: bound to what it needs, or to its hook's queue. */
interface Bound {
  readonly label: string
  readonly event: string
  readonly deadline: Duration.Duration
  readonly onFailure: Listener["onFailure"]
  readonly handle: (payload: object) => Effect.Effect<unknown, unknown>
  readonly pace: Pace
  /** True when the run never waits for it, whatever its events are. */
  readonly isQueued: boolean
}

/** Delivery of a hook's events, and of those that count together with it, as it has turned out. */
interface Pace {
  readonly label: string
  /** Scope of the hook that registered first. */
  readonly scope: Scope.Scope
  /** Deadlines missed in a row; {@link strikes} while an event runs on. */
  slow: number
  /** Absent as long as the run waits. */
  queue: ObserverQueue.Sender<Queued> | undefined
}

/** An event that waits in a queue. */
interface Queued {
  readonly listener: Bound
  readonly payload: object
  /** The context of the run that the event is from. */
  readonly context: Context.Context<never>
}

/** Reads a listener's answer; undefined when it is none. */
type Read<A> = (answer: unknown) => A | undefined

/** The rows of hooks that ask. */
const asking: { readonly [Name in AskName]: { readonly answer: Rule<never, NonNullable<Answers[Name]>> } } = table

const identity: Read<unknown> = (answer) => answer ?? undefined

const nothing = Effect.succeed(undefined)
const none: ReadonlyArray<unknown> = []
const nobody = Effect.succeed(none)

/** Hooks without a listener, to which some can be added. */
export const make = (settings: Settings = {}): Effect.Effect<Service> => Effect.sync(() => makeUnsafe(settings))

const makeUnsafe = (settings: Settings): Service => {
  const maxChars = settings.payloadMaxChars ?? defaultMaxChars
  const answerDeadline = settings.answerDeadline ?? Duration.seconds(30)
  const warn = makeFaults()
  const infos = new Set<() => HookInfo>()
  // Arrays are replaced, never changed: an event is told to those who listened when it happened.
  const listeners = new Map<string, ReadonlyArray<Bound>>()

  const add = (bound: Bound): void => {
    listeners.set(bound.event, [...listeners.get(bound.event) ?? [], bound])
  }
  const remove = (bound: Bound): void => {
    const rest = listeners.get(bound.event)?.filter((other) => other !== bound) ?? []
    if (rest.length === 0) listeners.delete(bound.event)
    else listeners.set(bound.event, rest)
  }

  const failed = <A>(listener: Bound, what: string, read: Read<A>): Effect.Effect<A | undefined> =>
    Effect.map(
      warn(`hook ${listener.event}: ${listener.label} ${what}`),
      () => listener.onFailure === "closed"
        ? read({ action: "block", message: `Blocked: the guard ${listener.label} ${what}` })
        : undefined
    )

  const handled = <A>(listener: Bound, payload: object, read: Read<A>): Effect.Effect<A | undefined, unknown> =>
    Effect.map(Effect.suspend(() => listener.handle(payload)), read)

  const isObserver = (listener: Bound): boolean => listener.isQueued || !answers(listener.event)

  const settled = <A>(listener: Bound, exit: Exit.Exit<A | undefined, unknown> | undefined, read: Read<A>): Effect.Effect<A | undefined> => {
    const { pace } = listener
    if (isObserver(listener)) pace.slow = exit === undefined ? pace.slow + 1 : 0
    if (exit === undefined) return failed(listener, `took longer than ${Duration.format(listener.deadline)}`, read)
    return Exit.isSuccess(exit) ? Effect.succeed(exit.value) : failed(listener, `failed: ${describe(exit.cause)}`, read)
  }

  const call = <A>(listener: Bound, payload: object, read: Read<A>, restore: Restore): Effect.Effect<A | undefined> =>
    Effect.flatMap(attempt(handled(listener, payload, read), listener.deadline, restore), (exit) => settled(listener, exit, read))

  /** Waits for an observer of an event that changes nothing; at its deadline it runs on, and the run with it. */
  const observed = <A>(listener: Bound, fiber: Fiber.Fiber<A | undefined, unknown>, read: Read<A>, restore: Restore): Effect.Effect<A | undefined> =>
    Effect.flatMap(settledUntil(fiber, listener.deadline, restore), (ended) =>
      Fiber.isFiber(ended) ? Effect.as(demote(listener, ended), undefined) : settled(listener, ended, read))

  /** The end of an event that runs on: it has its deadline once more. */
  const finished = (listener: Bound, fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> =>
    Effect.timeoutOption(Fiber.await(fiber), listener.deadline).pipe(
      Effect.ensuring(Effect.sync(() => fiber.interruptUnsafe())),
      Effect.flatMap((exit) => Option.isSome(exit) ? settled(listener, exit.value, identity) : Effect.void),
      Effect.asVoid
    )

  const startQueue = (pace: Pace, capacity: number, first?: Effect.Effect<void>): Effect.Effect<void> =>
    ObserverQueue.make<Queued>({
      capacity,
      first,
      flush: () => pace.slow >= strikes ? Duration.zero : flushDeadline,
      handle: ({ context, listener, payload }) =>
        Effect.uninterruptibleMask((restore) => Effect.asVoid(call(listener, payload, identity, restore))).pipe(
          Effect.updateContext((own: Context.Context<never>) => Context.merge(own, context))
        ),
      onLost: (count) => Effect.logWarning(`hook ${pace.label}: ${count} events were lost at the end`)
    }).pipe(
      Scope.provide(pace.scope),
      Effect.map((queue) => {
        pace.queue = queue
      })
    )

  const demote = (listener: Bound, fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> => {
    const { pace } = listener
    // Until it has caught up nobody waits for it, at the end of the run neither.
    pace.slow = strikes
    const first = finished(listener, fiber)
    if (pace.queue !== undefined) return Effect.asVoid(Effect.forkIn(first, pace.scope))
    // It may never be come to before the hook is removed.
    const interrupted = Scope.addFinalizer(pace.scope, Effect.sync(() => fiber.interruptUnsafe()))
    return Effect.andThen(
      Effect.andThen(interrupted, startQueue(pace, defaultCapacity, first)),
      warn(
        `hook ${listener.event}: ${listener.label} took longer than ${Duration.format(listener.deadline)}; from now on the events of ` +
          `${pace.label} are queued and the run no longer waits. Register it with delivery "queued" to have that from the start.`
      )
    )
  }

  const enqueue = (listener: Bound, queue: ObserverQueue.Sender<Queued>, payload: object): Effect.Effect<undefined> =>
    Effect.contextWith((context: Context.Context<never>) =>
      queue.offer({ listener, payload, context }) === 0
        ? nothing
        : Effect.as(warn(`hook ${listener.label}: its queue is full, the oldest events are dropped`), undefined)
    )

  const made = (name: string, fields: () => object): Exit.Exit<object> => {
    try {
      return Exit.succeed(payloadOf(fields(), maxChars))
    } catch (error) {
      return Exit.die(new Error(`the payload of ${name} could not be made`, { cause: error }))
    }
  }

  /**
   * All answers that `read` made something of, in order. Only waiting for a listener can be interrupted: once the payload is
   * made, at least the first one is told.
   */
  const dispatch = <A>(
    name: string,
    told: ReadonlyArray<Bound>,
    fields: () => object,
    read: Read<A>
  ): Effect.Effect<ReadonlyArray<A>> =>
    Effect.uninterruptibleMask((restore) => {
      const payload = made(name, fields)
      const tell = (listener: Bound): Effect.Effect<A | undefined> => {
        if (!Exit.isSuccess(payload)) return failed(listener, `was not called: ${describe(payload.cause)}`, read)
        const { queue } = listener.pace
        if (!isObserver(listener)) return call(listener, payload.value, read, restore)
        return queue === undefined
          ? forked(handled(listener, payload.value, read), (fiber) => observed(listener, fiber, read, restore))
          : enqueue(listener, queue, payload.value)
      }
      const [only] = told
      if (only !== undefined && told.length === 1) return Effect.map(tell(only), (answer) => answer === undefined ? [] : [answer])
      /** Observers of the event that are waited for, each with what of its hook comes after it. */
      const waiting = new Map<Pace, Effect.Effect<void>>()
      const running = new Set<Fiber.Fiber<unknown, unknown>>()
      const answers: Array<A | undefined> = []
      const tellBeside = (listener: Bound, index: number): Effect.Effect<void> => {
        const keep = Effect.map((answer: A | undefined) => void (answers[index] = answer))
        const before = waiting.get(listener.pace)
        if (before !== undefined) {
          waiting.set(listener.pace, Effect.andThen(before, Effect.suspend(() => keep(tell(listener)))))
          return Effect.void
        }
        if (!isObserver(listener) || listener.pace.queue !== undefined || !Exit.isSuccess(payload)) return keep(tell(listener))
        return forked(handled(listener, payload.value, read), (fiber) => {
          const ended = keep(observed(listener, fiber, read, restore))
          if (fiber.pollUnsafe() !== undefined) return ended
          running.add(fiber)
          waiting.set(listener.pace, Effect.andThen(ended, Effect.sync(() => void running.delete(fiber))))
          return Effect.void
        })
      }
      const awaited = Effect.suspend(() =>
        waiting.size === 0 ? Effect.void : restore(Effect.forEach(waiting.values(), (one) => one, { concurrency: "unbounded", discard: true })).pipe(
          Effect.onInterrupt(() => Effect.sync(() => running.forEach((fiber) => fiber.interruptUnsafe())))
        ))
      return Effect.forEach(told, tellBeside, { discard: true }).pipe(
        Effect.andThen(awaited),
        Effect.andThen(Effect.sync(() => answers.filter((answer) => answer !== undefined)))
      )
    })

  const paces = new WeakMap<object, Pace>()

  /** The pace of a hook; inline hooks of one owner share theirs, so that events which are queued keep their order. */
  const paceOf = Effect.fnUntraced(function*({ delivery, label, owner }: Hook<unknown>) {
    const scope = yield* Effect.scope
    const known = owner === undefined || delivery.mode === "queued" ? undefined : paces.get(owner.key)
    if (known !== undefined) return known
    const pace: Pace = { label: delivery.mode === "queued" ? label : owner?.label ?? label, scope, slow: 0, queue: undefined }
    if (delivery.mode === "queued") yield* startQueue(pace, delivery.capacity)
    else if (owner !== undefined) paces.set(owner.key, pace)
    return pace
  })

  const register: Service["register"] = <R>(hook: Hook<R>) =>
    Effect.gen(function*() {
      const context = yield* Effect.context<R>()
      for (const { event } of hook.listeners) {
        if (!isHookName(event)) yield* Effect.logWarning(unknownName(hook.label, event))
      }
      const pace = yield* paceOf(hook)
      const bound = hook.listeners.map((listener): Bound => ({
        ...listener,
        deadline: listener.deadline ?? answerDeadline,
        label: hook.label,
        // Services of the call (its span, its logger) win over those of the registration.
        handle: (payload) =>
          Effect.updateContext(listener.handle(payload), (input: Context.Context<never>) => Context.merge(context, input)),
        pace,
        isQueued: hook.delivery.mode === "queued"
      }))
      const info = (): HookInfo => ({
        label: hook.label,
        events: hook.listeners.map(({ event }) => event),
        mode: pace.queue === undefined ? "inline" : "queued",
        dropped: pace.queue?.dropped() ?? 0
      })
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          bound.forEach(add)
          infos.add(info)
        }),
        () =>
          Effect.sync(() => {
            bound.forEach(remove)
            infos.delete(info)
          })
      )
    })

  return {
    has: (name) => listeners.has(name),
    emit: (name, fields) => {
      const told = listeners.get(name)
      return told === undefined ? Effect.void : Effect.asVoid(dispatch(name, told, fields, identity))
    },
    ask: (name, fields) => {
      const told = listeners.get(name)
      if (told === undefined) return nothing
      const rule = asking[name].answer
      return Effect.map(
        dispatch(name, told, fields, rule.read),
        (answers) => answers.length === 0 ? undefined : rule.merge(answers)
      )
    },
    invoke: (name, fields) => {
      const told = listeners.get(name)
      return told === undefined ? nobody : dispatch(name, told, fields, identity)
    },
    register,
    list: () => Array.from(infos, (info) => info())
  }
}

const unknownName = (label: string, event: string): string => {
  const meant = nearest(event, names)
  return `hook ${label}: nothing here emits "${event}"${meant === undefined ? "" : `, did you mean ${meant}?`} ` +
    `(known hooks: ${names.toSorted().join(", ")})`
}

/** Services that the hooks of a list need; none when it is empty. */
export type Needs<H extends ReadonlyArray<Hook<unknown>>> = H[number] extends infer One
  ? One extends Hook<infer R> ? R : never
  : never

/** A list of hooks, each seen as the union of what all of them need. */
export type ListOf<H extends ReadonlyArray<Hook<unknown>>> = TupleLike<Hook<Needs<H>>>

/** These hooks, in this order. */
export const layer = <const H extends ReadonlyArray<Hook<unknown>>>(
  hooks: H & ListOf<H>,
  settings?: Settings
): Layer.Layer<Hooks, never, RunContext.AtBuild<Needs<H>>> =>
  Layer.effect(
    Hooks,
    Effect.gen(function*() {
      const service = yield* make(settings)
      const list: ListOf<H> = hooks
      for (const hook of list) yield* RunContext.later(service.register(hook))
      return service
    })
  )
