/**
 * Middleware of a runtime as plain functions, by the kinds of the contract.
 *
 * **Details**
 *
 * A function receives one frozen object with the contract's field names, as a function of a plugin does, and the
 * `context` of the run in its second argument. A request function returns nothing or `{ request }` (`{ args }`); an
 * execution function calls `next_call` and returns its answer. A function declares no failures: one that throws before
 * its call is skipped with a warning, an error named `ExecutionBlocked` refuses the call, and an error thrown after a
 * failed call replaces that failure.
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
import type { CallOf } from "../../middleware/PlainCall.ts"
import type * as Kind from "../../middleware/Kind.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as MiddlewareDefinition from "../../middleware/MiddlewareDefinition.ts"
import * as Plain from "../../middleware/Plain.ts"
import * as PlainLifecycle from "../../middleware/PlainLifecycle.ts"
import * as Json from "../../base/domain/Json.ts"
import { type RunScope, withRunScope } from "./PlainContext.ts"
import * as Options from "./PlainOptions.ts"

/** A function with its name in warnings, and its treatment if it fails. */
interface Named<Value> {
  readonly name?: string | undefined
  /** `closed` ends the call or the run if the function fails. Default: `open`, which skips the function. */
  readonly onFailure?: Middleware.Registration["onFailure"]
  readonly use: Value
}

/** One function, or several with the first outermost. */
type Several<Value> = Value | Named<Value> | ReadonlyArray<Value | Named<Value>>

/** A function of a kind. Its argument has the fields of the contract. */
type FunctionOf<Name extends Kind.Registrable, Context> = (call: CallOf<Name>, scope: RunScope<Context>) => unknown

/** Middleware by its kind. */
export interface HermesMiddleware<Context = unknown> {
  /** Rewrites the request to a provider. */
  readonly llm_request?: Several<FunctionOf<"llm_request", Context>> | undefined
  /** Wraps the request to a provider. */
  readonly llm_execution?: Several<FunctionOf<"llm_execution", Context>> | undefined
  /** Rewrites the arguments of a tool call. */
  readonly tool_request?: Several<FunctionOf<"tool_request", Context>> | undefined
  /** Wraps the run of a tool. */
  readonly tool_execution?: Several<FunctionOf<"tool_execution", Context>> | undefined
  /** Wraps a model call with its retries and fallbacks, in the same form for all providers. */
  readonly wrap_model_call?: Several<FunctionOf<"wrap_model_call", Context>> | undefined
  /** Wraps a whole tool call. Its `next_call` may be called again. */
  readonly wrap_tool_call?: Several<FunctionOf<"wrap_tool_call", Context>> | undefined
  /**
   * Methods for the phases of a run (`before_agent`, `before_model`, `after_tool`, …), or a class or function that
   * creates them for each run.
   */
  readonly lifecycle?: Several<PlainLifecycle.PlainLifecycleSource> | undefined
}

/** Constructors of each kind. */
const constructors = {
  llm_request: Plain.llmRequest,
  llm_execution: Plain.llmExecution,
  tool_request: Plain.toolRequest,
  tool_execution: Plain.toolExecution,
  wrap_model_call: Plain.wrapModelCall,
  wrap_tool_call: Plain.wrapToolCall
}

const functionKinds = Object.keys(constructors) as ReadonlyArray<keyof typeof constructors>

const isNamed = (given: unknown): given is Named<unknown> => Json.isFields(given) && "use" in given

/** Reads the entries of a kind with their options. */
const readEntries = (
  given: unknown,
  kind: string
): ReadonlyArray<Middleware.Registration & { readonly use: unknown }> =>
  [given ?? []].flat().map((one: unknown, index) => {
    const { name, onFailure, use } = isNamed(one) ? one : { name: undefined, onFailure: undefined, use: one }
    const own = name ?? PlainLifecycle.findName(use, undefined) ?? ""
    return {
      name: own === "" || own === kind ? `${kind} ${index + 1}` : own,
      use,
      ...(onFailure === undefined ? {} : { onFailure })
    }
  })

const makeLifecycle = ({ use, ...options }: Middleware.Registration & { readonly use: unknown }) =>
  PlainLifecycle.make(
    options,
    typeof use === "function" && !MiddlewareDefinition.isClass(use)
      ? // A function that is not a class creates the methods of a run.
        withRunScope(use as Plain.Callback)
      : use
  )

/** Makes middleware of plain functions, in the order of the kinds and of each list. */
export const toMiddleware = (given: HermesMiddleware<never>): ReadonlyArray<Middleware.Contained> => [
  ...functionKinds.flatMap((kind) =>
    readEntries(given[kind], kind).map(
      ({ use, ...options }) =>
        // A plain function declares no failures and reads no services, and it receives the fields of its kind.
        constructors[kind](options, withRunScope(use as Plain.Callback)) as Middleware.Contained
    )
  ),
  // As above.
  ...readEntries(given.lifecycle, "lifecycle").map((entry) => makeLifecycle(entry) as Middleware.Contained)
]

const entryOptions: Options.Checks<Named<unknown>> = {
  name: Options.text,
  onFailure: Options.makeChoiceCheck(["open", "closed"]),
  use: Options.skipCheck
}
const checkNamed = Options.makeMembersCheck("option of middleware", entryOptions)

/** Creates the check for one or several entries of a kind. */
const makeEntriesCheck = (checkOne: Options.Check): Options.Check => {
  const checkEntry: Options.Check = (value, at) =>
    isNamed(value) ? [...checkNamed(value, at), ...checkOne(value.use, `${at}.use`)] : checkOne(value, at)
  return (value, at) =>
    Array.isArray(value)
      ? Array.from(value, (one: unknown, index) => checkEntry(one, `${at}[${index}]`)).flat()
      : checkEntry(value, at)
}

const checkFunctions = makeEntriesCheck(Options.callback)

const kinds: Options.Checks<HermesMiddleware> = {
  llm_request: checkFunctions,
  llm_execution: checkFunctions,
  tool_request: checkFunctions,
  tool_execution: checkFunctions,
  wrap_model_call: checkFunctions,
  wrap_tool_call: checkFunctions,
  lifecycle: makeEntriesCheck(
    Options.makeKindCheck(
      "an object with methods, or a class or function that creates one",
      (value) => typeof value === "function" || Json.isFields(value)
    )
  )
}

/** Check for the option `middleware`. */
export const middlewareCheck = Options.makeMembersCheck("kind of middleware", kinds)
