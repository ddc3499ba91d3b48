/** The subject of the rules for environments: the service of an environment, and a writable directory in it. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as PlatformError from "effect/PlatformError"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { type Service } from "../../places/CommandEnvironment.ts"
import { CallDirectory } from "../../base/domain/CallContext.ts"
import * as Conformance from "./Conformance.ts"

/** A running environment, and a writable directory in it that serves as the working tree. */
export interface TestedEnvironment {
  readonly environment: Service
  readonly directory: string
}

/** The subject of the rules for environments. */
export class Subject extends Context.Service<Subject, TestedEnvironment>()(
  "hermes-effect/testing/EnvironmentSubject"
) {}

/** Creates the functions with which rules use a subject. */
const makeTools = ({ directory, environment }: TestedEnvironment) => {
  const { files, spawner } = environment
  const start = (script: string, options: ChildProcess.CommandOptions = {}) =>
    spawner.spawn(
      ChildProcess.make("/bin/sh", ["-c", script], {
        cwd: directory,
        stdin: "ignore",
        env: { PATH: "/usr/bin:/bin" },
        ...options
      })
    )
  const runToEnd = (script: string, options: ChildProcess.CommandOptions = {}) =>
    Effect.scoped(
      Effect.gen(function* () {
        const handle = yield* start(script, options)
        const collectText = (stream: Stream.Stream<Uint8Array, PlatformError.PlatformError>) =>
          Stream.mkString(Stream.decodeText(stream))
        const [out, err, code] = yield* Effect.all(
          [collectText(handle.stdout), collectText(handle.stderr), handle.exitCode],
          { concurrency: "unbounded" }
        )
        return { out, err, code: Number(code) }
      })
    )
  const at = (name: string) => `${directory}/${name}`
  return { start, finished: runToEnd, at, files, directory, spawner, environment }
}

/** Type of {@link makeTools}. */
export type Tools = ReturnType<typeof makeTools>

/** Returns the tag of the reason with which an operation fails. */
export const readFailureTag = <A>(effect: Effect.Effect<A, PlatformError.PlatformError>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason._tag)

/** Waits until a condition holds. */
export const waitUntil = <E>(condition: Effect.Effect<boolean, E>): Effect.Effect<void, E> =>
  Effect.asVoid(Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("50 millis") }))

/** Creates a rule with a separate directory inside the subject's directory. */
export const makeDirectoryRule = (
  about: string,
  name: string,
  body: (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>
): Conformance.Rule<Subject> =>
  Conformance.makeRule(
    about,
    name,
    Effect.gen(function* () {
      const { directory, environment } = yield* Subject
      const inside = `${directory}/t${(yield* Random.nextIntBetween(0, 2 ** 40)).toString(36)}`
      // An environment that starts its own machines looks for the working tree here.
      yield* Effect.andThen(
        environment.files.makeDirectory(inside),
        body(makeTools({ environment, directory: inside }))
      ).pipe(Effect.provideService(CallDirectory, inside))
    })
  )

/** Joins pieces into one array of bytes. */
export const joinBytes = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
