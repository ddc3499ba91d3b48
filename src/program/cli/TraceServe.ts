/**
 * Action of `hermes trace serve`: serves the studio for the sessions of the home directory on this machine until
 * Ctrl+C.
 *
 * A replay runs in this process, in a separate runtime created from the settings as in `hermes chat`. Its approvals
 * follow the rules for unattended programs.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Agent from "../../agent/Agent.ts"
import * as Config from "../../base/config/Config.ts"
import { Home } from "../../base/config/Environment.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as StudioServer from "../../observe/studio/StudioServer.ts"
import { Refusal } from "../../observe/studio/StudioRequests.ts"
import type { Replay, ReplayRun } from "../../observe/studio/StudioWrites.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { SessionActivity } from "../../store/SessionActivity.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import * as Resumption from "../../agent/Resumption.ts"
import * as StoredSessions from "../runtime/StoredSessions.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { EndSignal, makeWorkFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { printLine, Output } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import { findSessionDirectory } from "../../serve/host/SessionMoves.ts"
import { selectTools } from "./RunOptions.ts"
import { version } from "../../base/domain/Version.ts"

/** Flags of the command. */
export interface ServeFlags {
  readonly port: number | undefined
  readonly write: boolean
}

const loadSettings = Effect.fnUntraced(function* (model: string | undefined) {
  const flags = yield* hermes
  const { settings } = yield* Config.load(Flags.toConfigOptions(model === undefined ? flags : { ...flags, model }))
  return settings
})

const runReplay = Effect.fnUntraced(function* (
  { goesOn, prompt, session }: ReplayRun,
  settings: Values,
  started: Deferred.Deferred<void, Refusal>,
  heard: Effect.Effect<void>
) {
  const services = yield* Effect.context<never>()
  const { listen } = yield* RunRecord
  yield* listen(() => void Effect.runForkWith(services)(heard))
  const tools = yield* selectTools(yield* hermes, settings)
  const cwd = yield* findSessionDirectory(session)
  return yield* Effect.provideService(
    Agent.run({
      prompt,
      goesOn,
      sessionId: session.id,
      source: session.source,
      tools,
      cwd,
      maxIterations: settings.agent.maxTurns,
      readsText: false,
      onEvent: (events) =>
        events.some(({ _tag }) => _tag === "RunStarted")
          ? Effect.asVoid(Deferred.succeed(started, undefined))
          : Effect.void
    }),
    InteractiveMode,
    makeUnattended("studio replay", settings.approvals.unattendedMode)
  )
})

const startReplay = (wanted: ReplayRun, started: Deferred.Deferred<void, Refusal>, heard: Effect.Effect<void>) =>
  Effect.flatMap(Effect.all([Program, loadSettings(wanted.model)]), ([program, settings]) =>
    Effect.provide(Effect.scoped(runReplay(wanted, settings, started, heard)), program.layer(settings, {}))
  )

/**
 * Creates the function that replays sessions in this process. Replays end when the scope closes. A run that cannot
 * start is refused with its reason.
 */
const replays = Effect.gen(function* () {
  const scope = yield* Effect.scope
  const services = yield* Effect.context<Effect.Services<ReturnType<typeof startReplay>>>()
  const replaySession: Replay = Effect.fnUntraced(function* (wanted, heard) {
    const started = yield* Deferred.make<void, Refusal>()
    yield* startReplay(wanted, started, heard).pipe(
      Effect.provide(services),
      Effect.onExit((exit) => {
        if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)) return Effect.void
        const { line } = ErrorLine.fromCause(exit.cause)
        return Effect.flatMap(Deferred.fail(started, new Refusal({ status: 422, message: line })), (isFirst) =>
          isFirst ? Effect.void : Effect.logWarning(`replay ${wanted.session.id}: ${line}`)
        )
      }),
      Effect.forkIn(scope)
    )
    yield* Deferred.await(started)
  })
  return replaySession
})

const listModels = ({ fallbackModel, fallbackProviders, model }: Values): ReadonlyArray<string> =>
  Array.from(
    new Set(
      [model.default, ...[...fallbackProviders, fallbackModel].map((route) => route?.model)].flatMap(
        (name) => name ?? []
      )
    )
  )

const writes = "replays, scores, notes and messages to running turns"

/** Serves the studio until a signal asks it to end. */
export const serve = Effect.fn("hermes trace serve")(
  function* ({ port = 0, write }: ServeFlags) {
    if (port < 0 || port > 65_535)
      return yield* makeUsageFailure(`--port "${port}" is invalid: expected a number from 0 to 65535`)
    const { protect } = yield* Output
    yield* protect
    const home = yield* Home
    const settings = yield* Settings
    const { exists, layer } = yield* StoredSessions.findStore(settings)
    const ended = yield* EndSignal
    const replay = write ? yield* replays : undefined
    yield* Effect.gen(function* () {
      // An unreadable database is reported before a browser is opened.
      if (yield* exists) yield* SessionActivity.use(({ sequence }) => sequence)
      const { url } = yield* Effect.mapError(
        StudioServer.serve({
          home: home.root,
          models: listModels(settings),
          version,
          port,
          exists,
          replay,
          storeAnswers: (sessionId, answers) =>
            SessionStore.use((store) => Effect.asVoid(Resumption.takeAnswers(store, sessionId, { answers })))
        }),
        (reason) => makeWorkFailure(`cannot listen on port ${port} (${reason}): choose another --port, or leave it out`)
      )
      yield* printLine(
        `Studio: ${url}  (${write ? `${writes} are allowed` : `read-only; --write allows ${writes}`}; ` +
          "press Ctrl+C to stop)"
      )
      yield* ended
    }).pipe(Effect.provide(layer))
  },
  Effect.scoped,
  CommandSettings.provide
)
