/**
 * Emits paired events, so that each opening event has exactly one closing event on every path: success, error, block,
 * cancellation, interruption, or a wrapper that dies.
 *
 * **Details**
 *
 * {@link bracket} is for work that is one Effect. {@link open} is for work that ends elsewhere (tool calls are prepared
 * one after another and run concurrently): the code that ends the work closes the span, and the scope closes a span
 * that is still open. The first close counts. Closing events reach every listener even if the run was interrupted, each
 * within its deadline. Without a listener for any event of the pair, both functions have no effect.
 *
 * If an interrupt prevents an opening event from reaching any listener, it has no closing event.
 *
 * Source: `ARCHITECTURE.md` §7 (closing events), `hermes-contract.md` §2.10.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { dual } from "effect/Function"
import * as Scope from "effect/Scope"
import type { Service } from "./Hooks.ts"
import { describeFailure } from "../base/domain/IsolatedCall.ts"
import type { Answers, AskName, Fields, HookName } from "./Payloads.ts"
import { table } from "./PayloadTable.ts"

type Table = typeof table

/** Name of an event that has to be followed by a closing event. */
type OpeningName = { [Name in HookName]: Table[Name] extends { readonly closedBy: unknown } ? Name : never }[HookName]

/** Events that may close an opening event, by its name. */
type ClosingNames = { readonly [Open in OpeningName]: Table[Open]["closedBy"][number] }

/** An event to send: its name, and a function that creates its fields if the event has listeners. */
export type Event<Name extends HookName> = {
  readonly [N in Name]: readonly [name: N, fields: () => Fields<N>]
}[Name]

/** An opening event: an {@link Event} with one name. */
type OpeningEvent<Open extends OpeningName> = readonly [name: Open, fields: () => Fields<NoInfer<Open>>]

/** Answers that the listeners of an opening event can return. */
type Answer<Open extends OpeningName> = Open extends AskName ? Answers[Open] : never

/** An opening event that has not been closed yet. */
export interface Span<Open extends OpeningName> {
  /** Merged answer, `undefined` if no listener answered or the event takes no answers. */
  readonly answer: Answer<Open> | undefined
  /** Emits the closing event, unless it was already emitted. */
  readonly close: (event: Event<ClosingNames[Open]>) => Effect.Effect<void>
}

/** Returns true if an opening event or one of its closing events has listeners. */
export const isHeard = (hooks: Service, name: OpeningName): boolean =>
  hooks.has(name) || table[name].closedBy.some(hooks.has)

const sendOpeningEvent = <Open extends OpeningName>(
  hooks: Service,
  [name, fields]: OpeningEvent<Open>
): Effect.Effect<Answer<Open> | undefined> =>
  (name === "pre_tool_call"
    ? // The branch follows from `name`, and so does the type of the answer.
      hooks.ask(name, fields as () => Fields<"pre_tool_call">)
    : Effect.as(hooks.emit<HookName>(name, fields), undefined)) as Effect.Effect<Answer<Open> | undefined>

/** Creates the opening and the closing effect of a pair, each of which runs at most once. */
const makeEventPair = <Open extends OpeningName>(hooks: Service, [name, fields]: OpeningEvent<Open>) => {
  let state: "before" | "open" | "closed" = hooks.has(name) ? "before" : "open"
  const markOpened = (): Fields<NoInfer<Open>> => {
    state = "open"
    return fields()
  }
  const close = (event: () => Event<ClosingNames[Open]>): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (state !== "open") return Effect.void
      state = "closed"
      const [name, fields] = event()
      return hooks.emit<HookName>(name, fields)
    }).pipe(
      Effect.catchCause((cause) => Effect.logWarning(`hook ${name} could not be closed: ${describeFailure(cause)}`)),
      Effect.uninterruptible
    )
  return { begin: sendOpeningEvent<Open>(hooks, [name, markOpened]), close }
}

/** Opening and closing events of a {@link bracket}. */
interface PairEnds<Open extends OpeningName, A, E> {
  readonly open: OpeningEvent<Open>
  readonly close: (exit: Exit.Exit<A, E>) => Event<ClosingNames[Open]>
}

/** Emits the opening event before an Effect, and after it the closing event that matches its exit. */
export const bracket: {
  <Open extends Exclude<OpeningName, AskName>, A, E>(
    hooks: Service,
    ends: PairEnds<Open, A, E>
  ): <R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  <A, E, R, Open extends Exclude<OpeningName, AskName>>(
    effect: Effect.Effect<A, E, R>,
    hooks: Service,
    ends: PairEnds<Open, A, E>
  ): Effect.Effect<A, E, R>
} = dual(
  3,
  <A, E, R, Open extends Exclude<OpeningName, AskName>>(
    effect: Effect.Effect<A, E, R>,
    hooks: Service,
    ends: PairEnds<Open, A, E>
  ): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      if (!isHeard(hooks, ends.open[0])) return effect
      const { begin, close } = makeEventPair(hooks, ends.open)
      return Effect.onExit(Effect.andThen(begin, effect), (exit) => close(() => ends.close(exit)))
    })
)

/**
 * Opens a span. If it is still open when the scope closes, it is closed with the event that `otherwise` creates from
 * the exit.
 */
export const open = <Open extends OpeningName>(
  hooks: Service,
  options: {
    readonly open: OpeningEvent<Open>
    readonly otherwise: (exit: Exit.Exit<unknown, unknown>) => Event<ClosingNames[Open]>
  }
): Effect.Effect<Span<Open>, never, Scope.Scope> =>
  Effect.suspend(() => {
    if (!isHeard(hooks, options.open[0])) return Effect.succeed(unheard)
    const { begin, close } = makeEventPair(hooks, options.open)
    // Uses the context of the opening event unchanged. `Effect.addFinalizer` would merge it with the context of the
    // close, service by service.
    const closed = Effect.contextWith((context: Context.Context<Scope.Scope>) =>
      Scope.addFinalizerExit(Context.get(context, Scope.Scope), (exit) =>
        Effect.updateContext(
          close(() => options.otherwise(exit)),
          (_: Context.Context<never>) => context
        )
      )
    )
    return closed.pipe(
      Effect.andThen(begin),
      Effect.map((answer): Span<Open> => ({ answer, close: (event) => close(() => event) }))
    )
  })

/** Span of a pair without listeners. */
export const unheard = { answer: undefined, close: () => Effect.void }
