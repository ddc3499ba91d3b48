/**
 * One query: a live session with one message, displayed by a view. The exit code depends on how the run ended.
 *
 * The session id is written to stderr before the answer. The view always receives the ending of the run, and an error
 * is printed as one line on stderr. Text that plugins write to stdout goes to stderr.
 *
 * Source: `hermes-product.md` §1.3 and §1.5, `ARCHITECTURE.md` §7.
 */
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Budget from "../../agent/Budget.ts"
import type { AnswerFormat } from "../../base/domain/AnswerFormat.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import * as Config from "../../base/config/Config.ts"
import { Environment } from "../../base/config/Environment.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import type { AgentError, SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Cost from "../../base/domain/Cost.ts"
import * as Ids from "../../base/domain/Ids.ts"
import { isCompleted, type RunEvent, type RunResult, type UsageReported } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as LiveSession from "../../serve/host/LiveSession.ts"
import { findSessionDirectory } from "../../serve/host/SessionMoves.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { SkillStore } from "../../tools/prompt/SkillStore.ts"
import * as Offline from "../../models/provider/Offline.ts"
import { makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import * as ErrorLine from "./ErrorLine.ts"
import {
  failed,
  type Failure,
  InterruptCode,
  makeSilentFailure,
  makeUsageFailure,
  makeWorkFailure,
  unusable
} from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as UsageFile from "./UsageFile.ts"
import * as LogLine from "./LogLine.ts"
import { Program } from "./Program.ts"
import { Output, printWarnings } from "./ProgramOutput.ts"
import * as RunOptions from "./RunOptions.ts"
import * as SessionChoice from "./SessionChoice.ts"
import * as StreamJsonView from "./StreamJsonView.ts"
import * as QuestionText from "./render/QuestionText.ts"
import * as SafeText from "./render/SafeText.ts"
import * as ExitText from "./render/ExitText.ts"
import * as Theme from "./render/Theme.ts"
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

/** Returns true if only the final text is shown. */
const isQuiet = ({ format, quiet }: RunOptions.ChatFlags): boolean => quiet && format !== "stream-json"

const chooseView = (flags: RunOptions.ChatFlags, output: Output["Service"]): View.View => {
  if (flags.format === "stream-json") return StreamJsonView.make(output)
  return isQuiet(flags)
    ? View.makeQuietView(output)
    : flags.plain
      ? View.makePlainView(output)
      : View.makeTextView(output)
}

/** Creates a layer that prints log lines between the lines of the view. */
const makeLogLayer = ({ note }: View.View): Layer.Layer<never> =>
  note === undefined
    ? Layer.empty
    : Logger.layer([
        Logger.make<unknown, void>(({ logLevel, message }) => note(LogLine.render(logLevel, message).trimEnd()))
      ])

/** Facts about the run so far, for an early end. */
interface RunProgress {
  sessionId: string
  usage: Usage.Usage
  cost: Cost.Total
  /** The route that answered last, or that was selected to answer. */
  route: View.RunSummary["route"]
  begun: boolean
  /** Result of the run, if it ended. Later events do not change it. */
  result: RunResult | undefined
  /** The ending that was reported to the view; `undefined` before the report. */
  told: View.RunSummary | undefined
  /** The last written report of `--usage-file`. */
  report: string | undefined
}

const summariseEnding = (
  exit: Exit.Exit<RunResult, unknown>,
  { cost, route, sessionId, usage }: RunProgress,
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

/** Receivers of the events of a query. */
interface EventSinks {
  readonly onEvent: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  readonly onUsageAfter: (events: ReadonlyArray<UsageReported>) => Effect.Effect<void>
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

/** One message, its session, and the schema of its answer. Without a message, the suspended run continues. */
interface Query {
  readonly cwd: string | undefined
  readonly id: Ids.SessionId
  readonly prompt: RunInput["prompt"] | undefined
  readonly schema: AnswerFormat<unknown> | undefined
}

/** Runs one message in an unattended live session. Returns the session and the result of the turn. */
const runTurn = Effect.fnUntraced(function* (
  flags: RunOptions.ChatFlags,
  settings: Values,
  view: View.View,
  { onEvent, onUsageAfter }: EventSinks,
  { cwd, id, prompt, schema }: Query
) {
  const asked = yield* RunOptions.prepare(flags, settings)
  const live = yield* LiveSession.make({
    session: { id, cwd },
    input: { ...asked, output: schema, platform: "cli", readsText: !isQuiet(flags) },
    mode: PermissionMode.fromSettings(settings.approvals),
    presence: makeUnattended("single query", settings.approvals.singleQueryMode, true),
    titles: "off",
    reports: "off",
    grace: Duration.infinity
  })
  // The run waits until each event is shown, so that the output is complete if the process ends early.
  const reader = yield* live.subscribe({ whenBehind: "wait", atMost: 0 })
  const ended = yield* Deferred.make<RunResult, AgentError>()
  const read = Effect.forever(
    Effect.flatMap(reader.take, (event) => {
      switch (event._tag) {
        case "TurnStarted":
          return Effect.sync(() => view.prepare({ display: settings.display, live: !event.turn.isRewritten }))
        case "RunEvents":
          return onEvent(event.events)
        case "UsageAfter":
          return onUsageAfter(event.events)
        case "TurnEnded":
          return Deferred.done(ended, event.exit)
        default:
          return Effect.void
      }
    })
  )
  const reading = yield* Effect.forkScoped(Effect.orDie(read))
  if (view.live !== undefined) yield* Effect.forkScoped(view.live)
  // The session is closed before its reader, so that the reader shows how an interrupted turn ends.
  yield* Effect.addFinalizer(() => live.close)
  yield* prompt === undefined ? live.continueRun : live.send({ prompt })
  const answered = Effect.raceFirst(Deferred.await(ended), Fiber.join(reading))
  if (schema === undefined) return { live, result: yield* answered }
  const { toJsonResult, toSchemaFailure } = yield* Effect.promise(() => import("./OutputSchema.ts"))
  return { live, result: toJsonResult(schema, yield* Effect.mapError(answered, toSchemaFailure)) }
})

/** Waits for background processes that have to report their end, for at most the time in the settings. */
const waitForProcesses = ({ background }: LiveSession.LiveSession, { terminal }: Values): Effect.Effect<unknown> =>
  Effect.timeoutOption(background.settled, Duration.seconds(terminal.oneshotCompletionWaitSeconds))

/** Maximum time that the program waits for a review of the conversation before it exits, in seconds. */
export const reviewSeconds = 20

/** Waits a short time for a review of the conversation, after `finishRun` has printed the answer. */
const waitForReview = Effect.fnUntraced(function* (
  { background }: LiveSession.LiveSession,
  finish: Effect.Effect<unknown>
) {
  const { err } = yield* Output
  if ((yield* background.list).some(({ kind }) => kind === "review")) {
    yield* finish
    yield* err(`Reviewing the conversation for memory and skills, up to ${reviewSeconds} s. Ctrl+C ends it.\n`)
    yield* Effect.timeoutOption(background.reviewed, Duration.seconds(reviewSeconds))
  }
  const notices = yield* background.takeNotices
  if (notices.length > 0) yield* err(notices.map((notice) => `${SafeText.toLine(notice)}\n`).join(""))
})

/** Writes the answer to a file. Fails if the file cannot be written, because a script expects the answer there. */
const writeAnswer = (path: string, text: string): Effect.Effect<void, Failure, FileSystem.FileSystem> =>
  FileSystem.FileSystem.use((files) =>
    Effect.mapError(files.writeFileString(path, `${text}\n`), ({ message }) =>
      makeWorkFailure(`--output-last-message ${path} cannot be written: ${message}`)
    )
  )

/** Fails if the session has no suspended run. */
const requireWaiting = Effect.fnUntraced(function* (sessionId: Ids.SessionId) {
  const store = yield* SessionStore
  const found = yield* store.listQuestions({ sessionId, states: ["open", "answered"], limit: 1 })
  if (found.length === 0)
    return yield* makeUsageFailure(`session ${sessionId} waits for no answer: continue it with a prompt (-q TEXT)`)
})

/**
 * Runs one query and prints its answer in the format of the flags. Without a prompt, the suspended run of the session
 * continues with the answers that are stored. Returns the exit code of the run.
 */
export const run = Effect.fnUntraced(function* (
  flags: RunOptions.ChatFlags,
  prompt: RunInput["prompt"] | undefined,
  schema?: AnswerFormat<unknown>
) {
  const output = yield* Output
  const program = yield* Program
  const interruptCode = yield* InterruptCode
  const isScripted = flags.oneshotPrompt !== undefined
  const view = chooseView(flags, output)
  const fresh = yield* Ids.makeSessionId
  const known: RunProgress = {
    sessionId: fresh,
    usage: Usage.zero,
    cost: Cost.nothing,
    route: undefined,
    begun: false,
    result: undefined,
    told: undefined,
    report: undefined
  }

  const beginView = (model: string): Effect.Effect<void> => {
    if (known.begun) return Effect.void
    known.begun = true
    return view.begin({ model, sessionId: known.sessionId })
  }

  const account = UsageFile.make()

  const onEvent = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
    let started: Effect.Effect<void> = Effect.void
    for (const event of events) {
      account.add(event)
      if (event._tag === "UsageReported") {
        known.usage = Usage.add(known.usage, event.usage)
        known.cost = Cost.addCall(known.cost, Cost.fromSpent(event.cost))
      }
      if (event._tag === "RunStarted" || (event._tag === "UsageReported" && event.origin === undefined))
        known.route = event
      if (event._tag === "RunStarted" && !isScripted) started = output.err(`session_id: ${event.sessionId}\n`)
      // The session was compacted and continues in another session.
      if (event._tag === "RunFinished" && event.sessionId !== known.sessionId && !isScripted)
        started = output.err(`session_id: ${event.sessionId}\n`)
    }
    return Effect.andThen(started, view.events(events))
  }

  /** Adds the usage of background work after the answer to the report. */
  const onUsageAfter = (events: ReadonlyArray<UsageReported>): Effect.Effect<void> =>
    Effect.sync(() => events.forEach(account.add))

  /** Writes the report if it changed, and prints a warning if it cannot be written. */
  const reportUsage = (ending: View.RunSummary) => {
    const report = account.report(ending)
    if (flags.usageFile === undefined || report === known.report) return Effect.void
    known.report = report
    const unwritten = UsageFile.write(flags.usageFile, report)
    return unwritten === undefined ? Effect.void : Effect.provideService(printWarnings([unwritten]), Output, output)
  }

  const work = Effect.gen(function* () {
    yield* output.protect
    const settings = yield* Settings
    const { process } = yield* Environment
    const { answer, aside } = output.streams
    const unknownTheme = Theme.use(settings.display, Theme.readBackground(process), answer.paint, aside.paint)
    if (unknownTheme !== undefined && aside.terminal) yield* Effect.logWarning(unknownTheme)
    const session = yield* SessionChoice.choose(flags, fresh)
    known.sessionId = session.id
    yield* Effect.andThen(
      SessionChoice.mentionFolder(session.known),
      RunOptions.mentionKept(flags, session.known)
    ).pipe(Effect.provideService(Output, output))
    const chosen: Effect.Effect<
      RunInput["prompt"] | undefined,
      Failure | SessionStoreError,
      SessionStore | SkillStore
    > =
      prompt === undefined
        ? Effect.as(requireWaiting(session.id), undefined)
        : flags.skills.length === 0
          ? Effect.succeed(prompt)
          : Effect.promise(() => import("./ChatSkills.ts")).pipe(
              Effect.flatMap(({ preloadSkills, withSkills }) =>
                Effect.map(
                  SkillStore.use((skills) => preloadSkills(skills, flags, session.id)),
                  (text) => withSkills(text, prompt)
                )
              )
            )
    const cwd = session.known === undefined ? undefined : yield* findSessionDirectory(session.known)
    return yield* Effect.tap(chosen, beginView(settings.model.default ?? Offline.route.model)).pipe(
      Effect.flatMap((prompt) =>
        runTurn(flags, settings, view, { onEvent, onUsageAfter }, { cwd, id: session.id, prompt, schema })
      ),
      Effect.tap(({ live, result }) => {
        known.result = result
        return waitForProcesses(live, settings)
      }),
      Effect.tap(({ result }) =>
        flags.outputLastMessage === undefined ? Effect.void : writeAnswer(flags.outputLastMessage, result.text)
      ),
      Effect.tap(({ live, result }) =>
        waitForReview(
          live,
          Effect.suspend(() => finishRun(Exit.succeed(result)))
        ).pipe(Effect.provideService(Output, output))
      ),
      Effect.map(({ result }) => result),
      Effect.scoped,
      Effect.provide(program.layer(settings, { ...flags, session: session.known?.id }))
    )
  }).pipe(
    Effect.provide(Config.layerAll(Flags.toConfigOptions(flags))),
    Effect.scoped,
    Effect.provide(isScripted ? Logger.layer([]) : makeLogLayer(view))
  )

  /** Events are for a reader: a run stops when its reader is gone. */
  const watchedWork =
    flags.format === "stream-json" && output.readerGone !== undefined
      ? Effect.raceFirst(work, Effect.andThen(output.readerGone, Effect.interrupt))
      : work

  const reportEnding = (given: View.RunSummary) =>
    Effect.gen(function* () {
      const ending = isScripted ? toScriptEnding(given) : given
      known.told = ending
      yield* beginView(flags.model ?? "")
      yield* view.end(ending)
      yield* reportUsage(ending)
      if (ending.error !== undefined) yield* output.err(ErrorLine.render(ending.error))
      return ending.exitCode
    })

  const finishRun = (exit: Exit.Exit<RunResult, unknown>) =>
    known.told === undefined
      ? reportEnding(
          summariseEnding(known.result === undefined ? exit : Exit.succeed(known.result), known, interruptCode())
        )
      : Effect.as(reportUsage(known.told), known.told.exitCode)

  /** Reports the ending of a run that is cut off by the end of the process. */
  const endEarly = (code: number): number => {
    if (known.told !== undefined) {
      Effect.runSync(reportUsage(known.told))
      return code
    }
    if (known.result !== undefined) return Effect.runSync(finishRun(Exit.succeed(known.result)))
    const { cost, sessionId, usage } = known
    const error = code > 128 ? describeInterruption(sessionId) : describeCutOff(sessionId)
    const exitCode = code === 0 ? failed : code
    return Effect.runSync(reportEnding({ exitCode, sessionId, text: "", usage, cost: Cost.toSpent(cost), error }))
  }

  const code = yield* Effect.scoped(
    Effect.andThen(
      output.onExit(endEarly),
      Effect.uninterruptibleMask((restore) => Effect.flatMap(Effect.exit(restore(watchedWork)), finishRun))
    )
  )
  return code === 0 ? undefined : yield* makeSilentFailure(code)
})
