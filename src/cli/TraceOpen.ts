/**
 * Shows a file in the user's browser.
 *
 * The programs that can are tried in turn. One that fails within {@link patience} could not; one that still runs then is the
 * browser itself, and outlives this command.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import { Outlives } from "../platform/ChildProcesses.ts"

/** Time within which a program reports that it cannot open the page. */
export const patience = Duration.seconds(3)

/** Of Linux, macOS and Windows. */
const browsers = ["xdg-open", "open", "explorer.exe"]

const attempt = Effect.fnUntraced(function*(program: string, path: string) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const command = ChildProcess.make(program, [path], { stdin: "ignore", stdout: "ignore", stderr: "ignore", detached: true })
  // Its scope is never closed: closing it would end the browser.
  const handle = yield* Scope.provide(spawner.spawn(command), yield* Scope.make()).pipe(
    Effect.provideService(Outlives, true)
  )
  yield* Effect.asVoid(handle.unref)
  return yield* Effect.timeoutOrElse(Effect.map(handle.exitCode, (code) => code === 0), {
    duration: patience,
    orElse: () => Effect.succeed(true)
  })
})

/** Tells if one of the programs opened the file. */
export const open = Effect.fn("TraceOpen.open")(function*(path: string, programs: ReadonlyArray<string> = browsers) {
  for (const program of programs) {
    // A program that is not there is no failure of the command: the next one is tried.
    if (yield* Effect.orElseSucceed(attempt(program, path), () => false)) return true
  }
  return false
})
