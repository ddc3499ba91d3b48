/**
 * Runs the program in this process, with its streams, signals and exit code.
 *
 * SIGINT, SIGTERM and SIGHUP interrupt the running command. Child processes that do not end are killed after 1 s, and
 * after 1.5 s the program ends even if work still hangs. A command that handles the signal itself (a server with
 * pending requests) has 15 s. A second signal ends the program at once. In every case no child process is left running.
 *
 * Files and exports of traces are completed after 1.25 s at the latest. For a slow collector the program waits one more
 * second.
 *
 * Variables that contain secrets are first removed from the environment. Services read them from `Environment`; code
 * that reads `process.env` cannot see them.
 *
 * The process stays alive until the command has ended. If the event loop has been empty for 5 s, the command is waiting
 * for code that never settles: it is interrupted, and the exit code is not 0. An unhandled rejection is reported as one
 * warning, and so is an uncaught error whose stack contains a file of a plugin (a timer of the plugin, for example).
 * Any other uncaught error is reported in one line and ends the program.
 *
 * Source: `hermes-product.md` §1.3.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { isSecretName } from "../../../base/domain/CredentialNames.ts"
import * as ChildProcesses from "../../../base/platform/ChildProcesses.ts"
import * as CurrentProcess from "../../../base/platform/CurrentProcess.ts"
import * as EarlyRelease from "../../../base/platform/EarlyRelease.ts"
import * as PluginDirectories from "../../../base/platform/PluginDirectories.ts"
import {
  HiddenVariables,
  ProcessEnvironment,
  ProcessVariables,
  takeOver
} from "../../../base/platform/ProcessVariables.ts"
import * as Secrets from "../../../base/domain/Secrets.ts"
import { fromCause, toSafeLine, render } from "../ErrorLine.ts"
import { execute } from "../CommandRunner.ts"
import { EndSignal, failed, InterruptCode } from "../Failure.ts"
import { Output } from "../ProgramOutput.ts"
import { Program, type Service as Runtime } from "../Program.ts"
import * as LogLine from "../LogLine.ts"
import * as Streams from "./Streams.ts"

/**
 * Time until child processes are killed, in milliseconds. The rest of the grace period is for code that waits for their
 * end.
 */
const killAfterMillis = 1000
const graceMillis = 1500
/** Time until views of runs are completed although the command has not ended, in milliseconds. */
const completeAfterMillis = 1250
/** Time, after the grace period, for views of runs that are being completed, in milliseconds. */
const completionMillis = 1000
/**
 * Time limits of a command that handles a signal itself: they cover a server's pending requests and the responses to
 * aborted requests.
 */
const awaitedKillMillis = 13_000
const awaitedGraceMillis = 15_000
/**
 * Time, in milliseconds, for unreferenced timers and sockets, which may still fire although they do not keep the event
 * loop alive.
 */
const idleMillis = 5000
/** Time after the end of a wait during which an idle event loop counts as the same idle period, in milliseconds. */
const sameIdleMillis = 50
const showCursor = "\u001b[?25h"

/** Exit codes of signals: 128 plus the number of the signal. */
const signals = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

/**
 * Returns true for the value of a switch, whose name may resemble the name of a secret (`HERMES_REDACT_SECRETS=false`).
 */
const isSwitch = (value: string): boolean => /^(?:|[01]|true|false|yes|no|on|off)$/i.test(value.trim())

/** Creates a function that reports each distinct warning once. */
const makeWarner = (say: (text: string) => void, secrets: Secrets.Registry): ((text: string) => void) => {
  const told = new Set<string>()
  return (text) => {
    const line = LogLine.render("Warn", text, secrets)
    if (told.has(line)) return
    told.add(line)
    say(line)
  }
}

const describeThrown = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown))

/** Describes a failure of a plugin that no call of the program can report. */
const describePluginFailure = (plugin: string, thrown: unknown): string =>
  `plugin ${plugin} failed outside of any call: ${describeThrown(thrown)}`

/** Runs the program. `runtime` loads the modules of the runtime when a command needs it. */
export const startProgram = (
  argv: ReadonlyArray<string>,
  runtime: () => Promise<{ readonly program: Runtime["layer"] }>
): void => {
  const own = takeOver((name, value) => isSecretName(name) && !isSwitch(value))
  const secrets = Secrets.make()
  const { flushed, output, say } = Streams.make(secrets)
  let signalled: number | undefined
  let isStuck = false
  const program: Runtime = {
    layer: (settings, start) =>
      // Built before plugins are loaded.
      Layer.unwrap(
        Effect.map(Effect.andThen(output.protect, Effect.promise(runtime)), ({ program }) => program(settings, start))
      )
  }
  let isAwaited = false
  /** Called by the first signal instead of an interruption. */
  let onSignal: (() => void) | undefined
  const endSignal = Effect.flatMap(
    Effect.acquireRelease(
      Effect.map(Deferred.make<void>(), (ended) => {
        onSignal = () => Deferred.doneUnsafe(ended, Effect.void)
        return ended
      }),
      () => Effect.sync(() => void (onSignal = undefined))
    ),
    Deferred.await
  )
  const releases = EarlyRelease.makeReleases()
  const log = Logger.make<unknown, void>(({ logLevel, message }) => say(LogLine.render(logLevel, message)))

  const fiber = execute(argv).pipe(
    Effect.provide(
      Layer.mergeAll(
        ChildProcesses.layer,
        Layer.succeed(Output, output),
        Layer.succeed(Program, program),
        Layer.succeed(Secrets.Secrets, secrets),
        Layer.succeed(ProcessVariables, own.variables),
        Layer.succeed(ProcessEnvironment, own.ofCommands),
        Layer.succeed(HiddenVariables, own),
        Layer.succeed(InterruptCode, () => signalled ?? (isStuck ? failed : signals.SIGINT)),
        Layer.succeed(EndSignal, endSignal),
        Layer.succeed(EarlyRelease.EarlyReleases, releases),
        Logger.layer([log])
      )
    ),
    Effect.runFork
  )

  /** Exits without waiting, after showing the terminal's cursor again. */
  const abandonProgram = (code: number): never => {
    if (output.streams.aside.terminal) say(showCursor)
    return CurrentProcess.exit(code)
  }
  /** Completes the views of runs, and ends the program at the end of the grace period or soon after it. */
  const endInTime = (code: number, completeAfter: number, grace: number): void => {
    let isCompleted = false
    let isOver = false
    setTimeout(() => {
      Effect.runFork(releases.releaseAll).addObserver(() => {
        isCompleted = true
        if (isOver) abandonProgram(code)
      })
    }, completeAfter).unref()
    setTimeout(() => {
      if (isCompleted) abandonProgram(code)
      isOver = true
      setTimeout(() => abandonProgram(code), completionMillis).unref()
    }, grace).unref()
  }
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    const code = signals[signal]
    CurrentProcess.listen(signal, () => {
      if (signalled !== undefined) return abandonProgram(signalled)
      signalled = code
      isAwaited = onSignal !== undefined
      if (onSignal === undefined) fiber.interruptUnsafe()
      else onSignal()
      setTimeout(ChildProcesses.killAll, isAwaited ? awaitedKillMillis : killAfterMillis).unref()
      if (isAwaited) endInTime(code, awaitedKillMillis, awaitedGraceMillis)
      else endInTime(code, completeAfterMillis, graceMillis)
    })
  }
  const warn = makeWarner(say, secrets)
  CurrentProcess.listen("unhandledRejection", (reason) => {
    const plugin = PluginDirectories.findPlugin(reason)
    warn(
      plugin === undefined
        ? `unhandled promise rejection: ${describeThrown(reason)}`
        : describePluginFailure(plugin, reason)
    )
  })
  CurrentProcess.listen("uncaughtException", (error) => {
    const plugin = PluginDirectories.findPlugin(error)
    if (plugin !== undefined) return warn(describePluginFailure(plugin, error))
    say(render(toSafeLine(`a plugin or a library failed outside of any call: ${describeThrown(error)}`, secrets)))
    abandonProgram(signalled ?? failed)
  })

  // Node ends the process with exit code 0 if only promises are pending.
  let waitedUntil = 0
  const stopListening = CurrentProcess.listen("beforeExit", () => {
    if (isStuck) return abandonProgram(failed)
    if (Date.now() - waitedUntil > sameIdleMillis) {
      return void setTimeout(() => {
        waitedUntil = Date.now()
      }, idleMillis)
    }
    isStuck = true
    say(
      render(
        "Stopped: the command waits for code that never settles. Look for a plugin or hook whose promise " +
          "is never resolved."
      )
    )
    fiber.interruptUnsafe()
  })
  fiber.addObserver((exit) => {
    stopListening()
    if (Exit.isFailure(exit) && signalled === undefined && !isStuck) say(render(fromCause(exit.cause, secrets).line))
    const code =
      Exit.isSuccess(exit) && isAwaited ? exit.value : (signalled ?? (Exit.isSuccess(exit) ? exit.value : failed))
    void flushed().then((written) => CurrentProcess.exit(code === 0 && !written ? failed : code))
  })
}
