/**
 * The state of a query that runs, and the report of its ending: the lines for the user, the report of usage and the
 * exit code.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Budget from "../../agent/Budget.ts"
import * as Cost from "../../base/domain/Cost.ts"
import { isCompleted, type RunEvent, type RunResult } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { failed, unusable } from "./Failure.ts"
import * as UsageFile from "./UsageFile.ts"
import { Output, printWarnings } from "./ProgramOutput.ts"
import * as RunOptions from "./RunOptions.ts"
import * as QuestionText from "./render/QuestionText.ts"
import * as ExitText from "./render/ExitText.ts"
import * as View from "./View.ts"

const formatResumeCommand = ({ sessionId }: { readonly sessionId: string }): string =>
  `hermes chat --resume ${sessionId}`

const describeRemedy = (result: RunResult): string => {
  switch (result.exit) {
    case "max_iterations_reached":
      return `raise --max-turns, or continue with \`${formatResumeCommand(result)}\``
    case "budget_exhausted":
      return `${Budget.getWording(result.limit ?? "time").remedy}, or continue with \`${formatResumeCommand(result)}\``
    case "empty_response_exhausted":
      return "try again, or use another model with --model"
    case "output_truncated":
      return `raise model.max_tokens, or continue with \`${formatResumeCommand(result)}\``
    case "partial_stream_recovery":
      return `continue with \`${formatResumeCommand(result)} -q continue\``
    case "invalid_tool_calls":
      return "use another model with --model"
    case "content_filtered":
      return "rephrase the prompt, or use another model with --model"
    default:
      return `continue with \`${formatResumeCommand(result)}\``
  }
}

/** Returns a line that says why a run is incomplete and how to continue it, or `undefined` for a completed run. */
export const describeEnding = (result: RunResult): string | undefined =>
  isCompleted(result)
    ? undefined
    : result.exit === "suspended"
      ? QuestionText.describeWaiting(result.sessionId, result.questions ?? [])
      : `${ExitText.describeCause(result)}: ${describeRemedy(result)}`

/** Returns the line for a run that was ended by a signal. */
const describeInterruption = (sessionId: string): string =>
  `interrupted: continue with \`${formatResumeCommand({ sessionId })}\``

/** Returns the line for a run during which the process was ended by something other than a signal. */
const describeCutOff = (sessionId: string): string =>
  "the process was ended during the run by a plugin or a library: continue with " +
  `\`${formatResumeCommand({ sessionId })}\``

/** Facts about the run so far, for an early end. */
interface RunFacts {
  sessionId: string
  usage: Usage.Usage
  cost: Cost.Total
  /** The route that answered last, or that was selected to answer. */
  route: View.RunSummary["route"]
}

/** The parts of the run that were shown. */
interface ShownParts {
  isBegun: boolean
  /** Result of the run, if it ended. Later events do not change it. */
  result: RunResult | undefined
  /** The ending that was reported to the view; `undefined` before the report. */
  ending: View.RunSummary | undefined
  /** The last written report of `--usage-file`. */
  report: string | undefined
}

/** A query that runs, and the view that shows it. */
export interface ShownQuery {
  readonly flags: RunOptions.ChatFlags
  readonly output: Output["Service"]
  readonly view: View.View
  /** True for `-z`, which prints only the answer. */
  readonly isScripted: boolean
  readonly interruptCode: () => number
  readonly account: ReturnType<typeof UsageFile.make>
  readonly facts: RunFacts
  readonly shown: ShownParts
}

/** Creates the state of a query that has not begun. */
export const makeQuery = (
  given: Pick<ShownQuery, "flags" | "interruptCode" | "output" | "view">,
  sessionId: string
): ShownQuery => ({
  ...given,
  isScripted: given.flags.oneshotPrompt !== undefined,
  account: UsageFile.make(),
  facts: { sessionId, usage: Usage.zero, cost: Cost.nothing, route: undefined },
  shown: { isBegun: false, result: undefined, ending: undefined, report: undefined }
})

const summariseEnding = (
  exit: Exit.Exit<RunResult, unknown>,
  { cost, route, sessionId, usage }: RunFacts,
  interruptCode: number
): View.RunSummary => {
  if (Exit.isSuccess(exit)) {
    const { value } = exit
    const early = value.exit === "interrupted_by_user" ? interruptCode : failed
    return {
      exitCode: isCompleted(value) ? 0 : early,
      sessionId: value.sessionId,
      text: value.text,
      usage: value.usage,
      cost: value.cost,
      route: value,
      error: describeEnding(value),
      exit: isCompleted(value) ? undefined : value.exit,
      questions: value.questions
    }
  }
  const { code, line } = Exit.hasInterrupts(exit)
    ? { code: interruptCode, line: describeInterruption(sessionId) }
    : ErrorLine.fromCause(exit.cause)
  return { exitCode: code, sessionId, text: "", usage, cost: Cost.toSpent(cost), route, error: line }
}

const emptyAnswer: RunResult["exit"] = "empty_response_exhausted"

/**
 * Returns the exit code of `-z`: `failed` for a completed run without text, and `unusable` for an incomplete run.
 * Higher codes are unchanged.
 */
const toScriptCode = ({ error, exit, exitCode, text }: View.RunSummary): number => {
  if (exitCode > unusable) return exitCode
  if (exit === emptyAnswer) return failed
  return error === undefined ? (text.trim() === "" ? failed : 0) : unusable
}

/** Returns the ending that `-z` reports: the placeholder of an empty answer is not an answer. */
const toScriptEnding = (given: View.RunSummary): View.RunSummary => ({
  ...given,
  ...(given.exit === emptyAnswer ? { text: "" } : {}),
  exitCode: toScriptCode(given)
})

/** Begins the view, once. */
export const beginView = ({ facts, shown, view }: ShownQuery, model: string): Effect.Effect<void> => {
  if (shown.isBegun) return Effect.void
  shown.isBegun = true
  return view.begin({ model, sessionId: facts.sessionId })
}

/** Includes an event in the facts about the run. */
const includeEvent = ({ account, facts }: ShownQuery, event: RunEvent): void => {
  account.add(event)
  if (event._tag === "UsageReported") {
    facts.usage = Usage.add(facts.usage, event.usage)
    facts.cost = Cost.addCall(facts.cost, Cost.fromSpent(event.cost))
  }
  if (event._tag === "RunStarted" || (event._tag === "UsageReported" && event.origin === undefined)) facts.route = event
}

/** Returns the session that an event names: the first one, or the one in which a compacted session continues. */
const findNamedSession = ({ facts }: ShownQuery, event: RunEvent): string | undefined => {
  if (event._tag === "RunStarted") return event.sessionId
  return event._tag === "RunFinished" && event.sessionId !== facts.sessionId ? event.sessionId : undefined
}

/** Shows events of the run. */
export const showEvents = (query: ShownQuery, events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
  let named: Effect.Effect<void> = Effect.void
  for (const event of events) {
    includeEvent(query, event)
    const session = query.isScripted ? undefined : findNamedSession(query, event)
    if (session !== undefined) named = query.output.err(`session_id: ${session}\n`)
  }
  return Effect.andThen(named, query.view.events(events))
}

/** Writes the report of usage if it changed, and prints a warning if it cannot be written. */
const reportUsage = ({ account, flags, output, shown }: ShownQuery, ending: View.RunSummary): Effect.Effect<void> => {
  const report = account.report(ending)
  if (flags.usageFile === undefined || report === shown.report) return Effect.void
  shown.report = report
  const unwritten = UsageFile.write(flags.usageFile, report)
  return unwritten === undefined ? Effect.void : Effect.provideService(printWarnings([unwritten]), Output, output)
}

const reportEnding = Effect.fnUntraced(function* (query: ShownQuery, given: View.RunSummary) {
  const { flags, isScripted, output, shown, view } = query
  const ending = isScripted ? toScriptEnding(given) : given
  shown.ending = ending
  yield* beginView(query, flags.model ?? "")
  yield* view.end(ending)
  yield* reportUsage(query, ending)
  if (ending.error !== undefined) yield* output.err(ErrorLine.render(ending.error))
  return ending.exitCode
})

/** Reports the ending of a run, once, and returns the exit code. */
export const finishRun = (query: ShownQuery, exit: Exit.Exit<RunResult, unknown>): Effect.Effect<number> => {
  const { facts, interruptCode, shown } = query
  if (shown.ending !== undefined) return Effect.as(reportUsage(query, shown.ending), shown.ending.exitCode)
  const ended = shown.result === undefined ? exit : Exit.succeed(shown.result)
  return reportEnding(query, summariseEnding(ended, facts, interruptCode()))
}

/** Reports the ending of a run that is cut off by the end of the process. */
export const endEarly = (query: ShownQuery, code: number): number => {
  const { facts, shown } = query
  if (shown.ending !== undefined) {
    Effect.runSync(reportUsage(query, shown.ending))
    return code
  }
  if (shown.result !== undefined) return Effect.runSync(finishRun(query, Exit.succeed(shown.result)))
  const { cost, sessionId, usage } = facts
  const error = code > 128 ? describeInterruption(sessionId) : describeCutOff(sessionId)
  const exitCode = code === 0 ? failed : code
  return Effect.runSync(reportEnding(query, { exitCode, sessionId, text: "", usage, cost: Cost.toSpent(cost), error }))
}
