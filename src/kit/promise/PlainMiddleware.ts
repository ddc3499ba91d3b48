/**
 * Middleware of a runtime as plain functions, by the kinds of the contract.
 *
 * **Details**
 *
 * A function receives one frozen object with the contract's field names, as a function of a plugin does. A request
 * function returns nothing or `{ request }` (`{ args }`); an execution function calls `next_call` and returns its
 * answer. A function declares no failures: one that throws before its call is skipped with a warning, an error named
 * `ExecutionBlocked` refuses the call, and an error thrown after a failed call replaces that failure.
 *
 * **Example** (Counting model calls)
 *
 * ```ts
 * import { createHermes } from "hermes-effect/promise"
 *
 * let calls = 0
 * const hermes = createHermes({
 *   model: "offline",
 *   middleware: {
 *     llm_execution: async ({ next_call }) => {
 *       calls++
 *       return await next_call()
 *     }
 *   }
 * })
 *
 * await hermes.run("Reply exactly hello")
 * await hermes.dispose()
 * console.log(calls)
 * // => 1
 * ```
 *
 * Source: `hermes-contract.md` §1.2–1.7.
 */
import type * as Middleware from "../../middleware/Middleware.ts"
import * as Plain from "../../middleware/Plain.ts"

/** The argument of a function around a call: the contract's fields, and the call itself. */
export type ExecutionCall = Plain.Envelope & {
  /** Makes the call, with a changed request or arguments if one is given. Can be called once. */
  readonly next_call: (changed?: Readonly<Record<string, unknown>>) => Promise<unknown>
}

/** One function, or several with the first outermost. */
type Several<Callback> = Callback | ReadonlyArray<Callback>

/** Middleware by its kind. */
export interface HermesMiddleware {
  /** Rewrites the request to a provider. */
  readonly llm_request?: Several<(call: Plain.Envelope) => unknown> | undefined
  /** Wraps the request to a provider. */
  readonly llm_execution?: Several<(call: ExecutionCall) => unknown> | undefined
  /** Rewrites the arguments of a tool call. */
  readonly tool_request?: Several<(call: Plain.Envelope) => unknown> | undefined
  /** Wraps the run of a tool. */
  readonly tool_execution?: Several<(call: ExecutionCall) => unknown> | undefined
}

/** Constructors of each kind. */
const constructors = {
  llm_request: Plain.llmRequest,
  llm_execution: Plain.llmExecution,
  tool_request: Plain.toolRequest,
  tool_execution: Plain.toolExecution
}

/** Names of the kinds. */
export const middlewareKinds = Object.keys(constructors) as ReadonlyArray<keyof HermesMiddleware>

/** Makes middleware of plain functions, in the order of the kinds and of each list. */
export const toMiddleware = (given: HermesMiddleware): ReadonlyArray<Middleware.Contained> =>
  middlewareKinds.flatMap((kind) => {
    const functions = [given[kind] ?? []].flat()
    return functions.map((callback, index) => {
      const name = callback.name === "" || callback.name === kind ? `${kind} ${index + 1}` : callback.name
      // A plain function declares no failures and reads no services, and it receives the fields of its kind.
      return constructors[kind]({ name }, callback as Plain.Callback) as Middleware.Contained
    })
  })
