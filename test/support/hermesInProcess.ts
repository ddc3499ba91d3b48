// The program in this process, for tests whose subject is not a process: the real commands, runtime and configuration
// over a home directory of its own. Signals, standard input, hidden variables and the streams of a process need a
// started one (`hermes.ts`).
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { dirname } from "node:path"
import { fromCause, render } from "../../src/program/cli/ErrorLine.ts"
import { execute } from "../../src/program/cli/CommandRunner.ts"
import * as LogLine from "../../src/program/cli/LogLine.ts"
import { Output } from "../../src/program/cli/ProgramOutput.ts"
import { Program } from "../../src/program/cli/Program.ts"
import * as SafeText from "../../src/program/cli/render/SafeText.ts"
import * as Secrets from "../../src/base/domain/Secrets.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import { ProcessVariables } from "../../src/base/platform/ProcessVariables.ts"
import { capture } from "../program/cli/capture.ts"
import * as Processes from "./hermes.ts"

type Place = Pick<Processes.Options, "cwd" | "env" | "home">

/**
 * Gives this process the directory and the variables of a program while `work` is done; tests of a file run one after
 * another.
 */
const standIn = (args: ReadonlyArray<string>, { cwd, env, home }: Place) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = { cwd: process.cwd(), env: process.env }
      process.chdir(cwd)
      process.env = {
        PATH: before.env["PATH"],
        HOME: dirname(home),
        HERMES_HOME: home,
        TERM: "dumb",
        ...Processes.withoutSandbox,
        ...Processes.standInWhereUnset(args, { home, ...(env === undefined ? {} : { env }) }),
        ...env
      }
      return before
    }),
    (before) =>
      Effect.sync(() => {
        process.chdir(before.cwd)
        process.env = before.env
      })
  )

/** Runs a command line to its end. */
export const hermes = (args: ReadonlyArray<string>, place: Place): Effect.Effect<Processes.Ended> =>
  Effect.gen(function* () {
    yield* standIn(args, place)
    const { output, stderr, stdout } = capture()
    const secrets = Secrets.make()
    const safe = {
      ...output,
      out: (text: string) => output.out(SafeText.toPlainText(text)),
      err: (text: string) => output.err(SafeText.toPlainText(text))
    }
    const say = output.streams.aside.write
    const exit = yield* Effect.exit(
      execute(args).pipe(
        Effect.provide(
          Layer.mergeAll(
            ChildProcesses.layer,
            Layer.succeed(Output, safe),
            Layer.succeed(Program, {
              layer: (settings, start) =>
                Layer.unwrap(
                  Effect.map(
                    Effect.promise(() => import("../../src/program/Runtime.ts")),
                    ({ program }) => program(settings, start)
                  )
                )
            }),
            Layer.succeed(Secrets.Secrets, secrets),
            Layer.succeed(ProcessVariables, process.env),
            Logger.layer([
              Logger.make<unknown, void>(({ logLevel, message }) => say(LogLine.render(logLevel, message, secrets)))
            ])
          ).pipe(Layer.provideMerge(NodeServices.layer))
        )
      )
    )
    if (Exit.isFailure(exit)) say(render(fromCause(exit.cause, secrets).line))
    return { code: Exit.isSuccess(exit) ? exit.value : 1, signal: null, stdout: stdout(), stderr: stderr() }
  }).pipe(Effect.scoped)

/** A {@link Processes.machine} whose program runs in this process; `start` starts one. */
export const machine = Effect.map(Processes.machine, (given) => ({
  ...given,
  start: given.hermes,
  hermes: (args: ReadonlyArray<string>, options: Partial<Place> = {}) =>
    hermes(args, { home: given.home, cwd: given.cwd, ...options })
}))
