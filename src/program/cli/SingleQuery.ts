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
import type { AnswerFormat } from "../../base/domain/AnswerFormat.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import * as Config from "../../base/config/Config.ts"
import { Environment } from "../../base/config/Environment.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import type { AgentError, SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Ids from "../../base/domain/Ids.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import * as LiveSession from "../../serve/host/LiveSession.ts"
import { findSessionDirectory } from "../../serve/host/SessionMoves.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { SkillStore } from "../../tools/prompt/SkillStore.ts"
import * as Offline from "../../models/provider/Offline.ts"
import { makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import { type Failure, InterruptCode, makeSilentFailure, makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as LogLine from "./LogLine.ts"
import { Program } from "./Program.ts"
import { Output } from "./ProgramOutput.ts"
import * as RunOptions from "./RunOptions.ts"
import * as SessionChoice from "./SessionChoice.ts"
import * as StreamJsonView from "./StreamJsonView.ts"
import * as SafeText from "./render/SafeText.ts"
import * as Theme from "./render/Theme.ts"
import * as View from "./View.ts"
import { type ShownQuery, makeQuery, beginView, showEvents, finishRun, endEarly } from "./QueryEnding.ts"

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

/** One message, its session, and the schema of its answer. Without a message, the suspended run continues. */
interface Query {
  readonly cwd: string | undefined
  readonly id: Ids.SessionId
  readonly prompt: RunInput["prompt"] | undefined
  readonly schema: AnswerFormat<unknown> | undefined
}

/** Runs one message in an unattended live session. Returns the session and the result of the turn. */
const runTurn = Effect.fnUntraced(function* (shown: ShownQuery, settings: Values, { cwd, id, prompt, schema }: Query) {
  const { account, flags, view } = shown
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
          return showEvents(shown, event.events)
        case "UsageAfter":
          // Background work after the answer.
          return Effect.sync(() => event.events.forEach(account.add))
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

/** Returns the message of the query with its skills; `undefined` if a suspended run continues. */
const choosePrompt = (
  flags: RunOptions.ChatFlags,
  id: Ids.SessionId,
  prompt: RunInput["prompt"] | undefined
): Effect.Effect<RunInput["prompt"] | undefined, Failure | SessionStoreError, SessionStore | SkillStore> => {
  if (prompt === undefined) return Effect.as(requireWaiting(id), undefined)
  if (flags.skills.length === 0) return Effect.succeed(prompt)
  return Effect.promise(() => import("./ChatSkills.ts")).pipe(
    Effect.flatMap(({ preloadSkills, withSkills }) =>
      Effect.map(
        SkillStore.use((skills) => preloadSkills(skills, flags, id)),
        (text) => withSkills(text, prompt)
      )
    )
  )
}

/** Runs the turn of a query, and waits for its background work. Returns the result of the turn. */
const runQuery = (query: ShownQuery, settings: Values, turn: Query) => {
  const { flags, output, shown } = query
  return Effect.tap(
    choosePrompt(flags, turn.id, turn.prompt),
    beginView(query, settings.model.default ?? Offline.route.model)
  ).pipe(
    Effect.flatMap((prompt) => runTurn(query, settings, { ...turn, prompt })),
    Effect.tap(({ live, result }) => {
      shown.result = result
      return waitForProcesses(live, settings)
    }),
    Effect.tap(({ result }) =>
      flags.outputLastMessage === undefined ? Effect.void : writeAnswer(flags.outputLastMessage, result.text)
    ),
    Effect.tap(({ live, result }) =>
      waitForReview(
        live,
        Effect.suspend(() => finishRun(query, Exit.succeed(result)))
      ).pipe(Effect.provideService(Output, output))
    ),
    Effect.map(({ result }) => result),
    Effect.scoped
  )
}

/** Chooses the session of a query, and runs the query in it. */
const runInSession = Effect.fnUntraced(function* (
  query: ShownQuery,
  fresh: Ids.SessionId,
  asked: Pick<Query, "prompt" | "schema">
) {
  const { flags, output } = query
  const program = yield* Program
  yield* output.protect
  const settings = yield* Settings
  const { process } = yield* Environment
  const { answer, aside } = output.streams
  const unknownTheme = Theme.use(settings.display, Theme.readBackground(process), answer.paint, aside.paint)
  if (unknownTheme !== undefined && aside.terminal) yield* Effect.logWarning(unknownTheme)
  const session = yield* SessionChoice.choose(flags, fresh)
  query.facts.sessionId = session.id
  yield* Effect.andThen(SessionChoice.mentionFolder(session.known), RunOptions.mentionKept(flags, session.known)).pipe(
    Effect.provideService(Output, output)
  )
  const cwd = session.known === undefined ? undefined : yield* findSessionDirectory(session.known)
  return yield* Effect.provide(
    runQuery(query, settings, { ...asked, cwd, id: session.id }),
    program.layer(settings, { ...flags, session: session.known?.id })
  )
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
  const interruptCode = yield* InterruptCode
  const view = chooseView(flags, output)
  const fresh = yield* Ids.makeSessionId
  const query = makeQuery({ flags, output, view, interruptCode }, fresh)
  const work = runInSession(query, fresh, { prompt, schema }).pipe(
    Effect.provide(Config.layerAll(Flags.toConfigOptions(flags))),
    Effect.scoped,
    Effect.provide(query.isScripted ? Logger.layer([]) : makeLogLayer(view))
  )
  /** Events are for a reader: a run stops when its reader is gone. */
  const watchedWork =
    flags.format === "stream-json" && output.readerGone !== undefined
      ? Effect.raceFirst(work, Effect.andThen(output.readerGone, Effect.interrupt))
      : work
  const code = yield* Effect.scoped(
    Effect.andThen(
      output.onExit((code) => endEarly(query, code)),
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Effect.exit(restore(watchedWork)), (exit) => finishRun(query, exit))
      )
    )
  )
  return code === 0 ? undefined : yield* makeSilentFailure(code)
})
