/**
 * The middleware of an application as a service, to which layers contribute. `Middleware` re-exports it.
 *
 * **Details**
 *
 * The stack of an agent has the middleware of plugins outermost, then this list, then its options. Additions have a
 * position in the two lists. Entries add no failure, and their services come from the context of their layer; values of
 * a run (`RunContext`) take precedence.
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { ConfigError } from "../base/domain/AgentError.ts"
import * as OrderedList from "../base/domain/OrderedList.ts"
import { provideEntry } from "./EntryServices.ts"
import type { Any, AtMost, Contained, Needs } from "./Middleware.ts"

/** The middleware of an application. */
export interface MiddlewareList {
  /** Adds entries for as long as the scope lives. Fails when an agent with this list exists already. */
  readonly add: (
    entries: ReadonlyArray<Contained>,
    position: OrderedList.Position
  ) => Effect.Effect<void, ConfigError, Scope.Scope>
  /**
   * Returns the list with its additions around the entries of an agent, first entry outermost. Fails for an addition
   * whose position names no entry.
   */
  readonly arrange: (own: ReadonlyArray<Any>) => Effect.Effect<ReadonlyArray<Any>, ConfigError>
}

/** The middleware of an application, which `Agent.layer` reads; none when absent. */
export class Middlewares extends Context.Service<Middlewares, MiddlewareList>()(
  "hermes-effect/middleware/Middlewares"
) {}

const kind: OrderedList.ListKind<Any> = { path: "Middleware.layerAdd", noun: "middleware", getName: ({ name }) => name }

const makeList = (listed: ReadonlyArray<Contained>): MiddlewareList => {
  const additions = new Set<OrderedList.Addition<Contained>>()
  let isArranged = false
  return {
    add: (entries, position) =>
      Effect.gen(function* () {
        if (isArranged) {
          return yield* new ConfigError({
            path: kind.path,
            message:
              `an agent was built before ${entries.map(({ name }) => `"${name}"`).join(", ")} was added: ` +
              "provide the addition to the layer of the agent, and give other agents a list of their own"
          })
        }
        const addition = { entries, position }
        yield* Effect.acquireRelease(
          Effect.sync(() => additions.add(addition)),
          () => Effect.sync(() => additions.delete(addition))
        )
      }),
    arrange: (own) =>
      Effect.suspend(() => {
        isArranged = true
        const { entries, problem } = OrderedList.arrange<Any>(kind, [...listed, ...own], additions)
        return problem === undefined ? Effect.succeed(entries) : Effect.fail(problem)
      })
  }
}

/**
 * The list of the context with its additions around the entries of an agent, the first outermost. Fails for an addition
 * whose position names no entry.
 */
export const arrangeEntries = (own: ReadonlyArray<Any>): Effect.Effect<ReadonlyArray<Any>, ConfigError> =>
  Effect.flatMap(
    Effect.serviceOption(Middlewares),
    Option.match({ onNone: () => Effect.succeed(own), onSome: (list) => list.arrange(own) })
  )

/** Entries with the services of the context. */
const provideEntries = (entries: ReadonlyArray<Any>) =>
  Effect.map(Effect.context<never>(), (context) => entries.map((entry) => provideEntry(entry, context)))

/**
 * These entries, the first outermost. They add no failure: middleware that fails belongs in `Agent.layerFor`, whose key
 * names the failure.
 *
 * **Example** (A list, and an addition from another place)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Middleware, Runtime } from "hermes-effect"
 *
 * const announce = (name: string) =>
 *   Middleware.wrapModelCall({
 *     name,
 *     wrap: (next) => (params) => Effect.andThen(Effect.sync(() => console.log(name)), next(params))
 *   })
 *
 * const runtime = Runtime.layer().pipe(
 *   Layer.provide(Middleware.layerAdd([announce("tracing")], { before: "timing" })),
 *   Layer.provide(Middleware.layer([announce("audit"), announce("timing")]))
 * )
 *
 * await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), runtime))
 * // => audit
 * // => tracing
 * // => timing
 * ```
 */
export const layer = <const Entries extends ReadonlyArray<Any>>(
  entries: Entries & AtMost<never, Entries>
): Layer.Layer<Middlewares, never, Exclude<Needs<Entries>, Scope.Scope>> =>
  Layer.effect(Middlewares, Effect.map(Effect.andThen(requireServices<Entries>(), provideEntries(entries)), makeList))

/** No middleware. Each use creates a separate list. */
export const layerNone: Layer.Layer<Middlewares> = Layer.fresh(Layer.sync(Middlewares, () => makeList([])))

/**
 * Adds entries to the list in the context. Provide it to the layer of the agent: the order is determined when the agent
 * is built, and an addition after that fails.
 */
export const layerAdd = <const Entries extends ReadonlyArray<Any>>(
  entries: Entries & AtMost<never, Entries>,
  position: OrderedList.Position
): Layer.Layer<never, ConfigError, Middlewares | Exclude<Needs<Entries>, Scope.Scope>> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      yield* requireServices<Entries>()
      const list = yield* Middlewares
      yield* list.add(yield* provideEntries(entries), position)
    })
  )

/** Requires the services of entries: their types name them, and they are read from the context of the layer. */
const requireServices = <Entries extends ReadonlyArray<Any>>() => Effect.context<Needs<Entries>>()
