/**
 * Finds bundled middleware by name, for settings files: `middlewares: [{ import, params }]`.
 *
 * **Details**
 *
 * A name is a short name (`long-tool-output`) or a path from the lifecycle document
 * (`nexau.…long_tool_output:LongToolOutputMiddleware`). Parameters are decoded by the middleware's own Schema.
 * `AgentEvents` and `ResponseCache` need code or a service of the application, and can only be passed to
 * `Runtime.layer({ middleware })`.
 *
 * **Example** (An entry in a settings file)
 *
 * ```ts
 * import * as Result from "effect/Result"
 * import { BuiltinMiddleware } from "hermes-effect/middleware"
 *
 * const made = BuiltinMiddleware.read([{ import: "reminder", params: { text: "Stay within budget." } }])
 *
 * console.log(Result.map(made, (entries) => entries.map(({ middleware }) => middleware.name)))
 * // => { _id: 'Result', _tag: 'Success', value: [ 'Reminder' ] }
 * ```
 *
 * Source: the lifecycle document, `nexau.md` §6.
 */
import * as Result from "effect/Result"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Similarity from "../../base/domain/Similarity.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as Approve from "./Approve.ts"
import * as Audit from "./Audit.ts"
import * as BudgetReminder from "./BudgetReminder.ts"
import * as ContextCompaction from "./ContextCompaction.ts"
import * as LlmFailover from "./LlmFailover.ts"
import * as Logging from "./Logging.ts"
import * as LongToolOutput from "./LongToolOutput.ts"
import type { Definition } from "./Parameters.ts"
import * as PiiRedaction from "./PiiRedaction.ts"
import * as RateLimit from "./RateLimit.ts"
import * as Reminder from "./Reminder.ts"
import * as Retry from "./Retry.ts"
import * as RuntimeEnvironment from "./RuntimeEnvironment.ts"
import * as Timeout from "./Timeout.ts"
import * as Timing from "./Timing.ts"
import * as ToolFilter from "./ToolFilter.ts"

const definitions: ReadonlyArray<Definition> = [
  { id: "logging", fromUnknown: Logging.fromUnknown },
  { id: "llm-failover", fromUnknown: (parameters) => LlmFailover.fromUnknown(parameters ?? {}) },
  { id: "long-tool-output", fromUnknown: LongToolOutput.fromUnknown },
  { id: "context-compaction", fromUnknown: ContextCompaction.fromUnknown },
  { id: "tool-filter", fromUnknown: ToolFilter.fromUnknown },
  { id: "budget-reminder", fromUnknown: BudgetReminder.fromUnknown },
  { id: "reminder", fromUnknown: Reminder.fromUnknown },
  { id: "runtime-environment", fromUnknown: RuntimeEnvironment.fromUnknown },
  { id: "timing", fromUnknown: Timing.fromUnknown },
  { id: "pii-redaction", fromUnknown: PiiRedaction.fromUnknown },
  { id: "retry", fromUnknown: Retry.fromUnknown },
  { id: "timeout", fromUnknown: Timeout.fromUnknown },
  { id: "rate-limit", fromUnknown: RateLimit.fromUnknown },
  { id: "audit", fromUnknown: Audit.fromUnknown },
  { id: "approve", fromUnknown: Approve.fromUnknown }
]

/** Bundled names, by path of the lifecycle document. */
const aliases: Readonly<Record<string, string>> = {
  "nexau.archs.main_sub.execution.hooks:LoggingMiddleware": "logging",
  "nexau.archs.main_sub.execution.middleware.logging:LoggingMiddleware": "logging",
  "nexau.archs.main_sub.execution.middleware.llm_failover:LLMFailoverMiddleware": "llm-failover",
  "nexau.archs.main_sub.execution.middleware.long_tool_output:LongToolOutputMiddleware": "long-tool-output",
  "nexau.archs.main_sub.execution.middleware.context_compaction:ContextCompactionMiddleware": "context-compaction"
}

/** Names that a settings file can use. */
export const names: ReadonlyArray<string> = definitions.map(({ id }) => id)

/** A middleware entry of a settings file. */
export interface Entry {
  readonly import: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** Middleware created from an entry, and the entry's place in the file. */
export interface MadeMiddleware {
  readonly middleware: Middleware.Contained
  readonly source: string
}

/** Returns the bundled middleware for a name or a path of the lifecycle document. */
export const find = (name: string): Definition | undefined => {
  const id = Object.hasOwn(aliases, name) ? aliases[name] : name
  return definitions.find((one) => one.id === id)
}

/**
 * Returns the bundled name closest to an unknown name. For a path of the lifecycle document, its last part is also
 * compared.
 */
export const findNearest = (name: string): string | undefined => {
  const known = [...names, ...Object.keys(aliases)]
  const last = name.slice(name.lastIndexOf(":") + 1)
  const alias = Object.keys(aliases).find((path) => path.endsWith(`:${last}`))
  return alias ?? Similarity.findNearest(name, known)
}

const makeUnknownError = (path: string, name: string): ConfigError => {
  const meant = findNearest(name)
  const suggestion = meant === undefined ? "" : `; did you mean ${meant}?`
  return new ConfigError({
    path,
    message: `${path}: there is no middleware ${JSON.stringify(name)}${suggestion} There are: ${names.join(", ")}.`
  })
}

/** Creates bundled middleware from entries, in order. Fails with the first invalid entry and its path. */
export const read = (entries: ReadonlyArray<Entry>): Result.Result<ReadonlyArray<MadeMiddleware>, ConfigError> => {
  const made: Array<MadeMiddleware> = []
  for (const [index, { import: name, params }] of entries.entries()) {
    const source = `middlewares[${index}]`
    const definition = find(name)
    if (definition === undefined) return Result.fail(makeUnknownError(`${source}.import`, name))
    const result = definition.fromUnknown(params)
    if (Result.isFailure(result)) {
      const { message } = result.failure
      return Result.fail(new ConfigError({ path: `${source}.params`, message: `${source}.params: ${message}` }))
    }
    made.push({ middleware: result.success, source })
  }
  return Result.succeed(made)
}
