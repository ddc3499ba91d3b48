/**
 * Keys for run state that is shared by several middleware methods. Each run has a separate value, which is created on
 * first use and discarded at the end of the run. Concurrent runs of other sessions cannot access it.
 *
 * **Example** (The calls of one run)
 *
 * ```ts
 * import { Middleware } from "hermes-effect"
 *
 * const Calls = Middleware.stateKey("app/calls", () => ({ count: 0 }))
 *
 * export const counting = Middleware.lifecycle({
 *   name: "counting",
 *   state: [Calls],
 *   beforeTool: ({ run }) => {
 *     Calls.of(run).count++
 *   },
 *   afterAgent: ({ agentResponse, run }) =>
 *     Middleware.withModifications({ agentResponse: `${agentResponse} (${Calls.of(run).count} calls)` })
 * })
 * ```
 *
 * **Gotchas**
 *
 * Middleware shares state by sharing the value of {@link make}. If two entries of a stack declare different values of
 * {@link make} with the same key, building the agent or its Layer fails with a `ConfigError`, because each entry would
 * have a separate state.
 *
 * Source: `nexau.md` §1.11.
 */
import { ConfigError } from "../base/domain/AgentError.ts"

/** A key of state; see {@link make}. */
export interface StateKey<out A> {
  readonly key: string
  /** Returns the value that belongs to a run. `run` is the input of a method. */
  readonly of: (run: object) => A
}

/** Creates a key. `initial` creates the value of each run. */
export const make = <A>(key: string, initial: () => A): StateKey<A> => {
  const values = new WeakMap<object, { readonly value: A }>()
  return {
    key,
    of: (run) => {
      const known = values.get(run)
      if (known !== undefined) return known.value
      const value = initial()
      values.set(run, { value })
      return value
    }
  }
}

/** An entry of a stack with the state keys that it declares. */
interface DeclaringEntry {
  readonly name: string
  readonly state?: ReadonlyArray<StateKey<unknown>> | undefined
}

/** Returns an error if two entries declare different state under the same key, otherwise `undefined`. */
export const findConflict = (entries: ReadonlyArray<DeclaringEntry>): ConfigError | undefined => {
  const known = new Map<string, { readonly state: StateKey<unknown>; readonly name: string }>()
  for (const { name, state = [] } of entries) {
    for (const one of state) {
      const other = known.get(one.key)
      if (other !== undefined && other.state !== one) {
        return new ConfigError({
          path: one.key,
          message:
            `the middleware "${other.name}" and "${name}" both keep state of a run under ` +
            `${JSON.stringify(one.key)}: rename one key, or let both use one stateKey`
        })
      }
      known.set(one.key, { state: one, name })
    }
  }
  return undefined
}
