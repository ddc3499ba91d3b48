/**
 * The external scanner of commands (Tirith), if it is installed. It detects homographs, poisoned pipes and other
 * patterns that the built-in rules do not cover. Its findings are concerns that a user may approve once or for the
 * session.
 *
 * **Details**
 *
 * The exit code decides: 0 allows, 1 blocks, 2 warns; the output only adds names. If a scanner fails, times out or
 * returns another code, `security.tirith_fail_open` decides whether the command is allowed or a concern is raised;
 * after three failures in a row it is not asked again. On a machine without it, no notice is shown.
 *
 * Source: `hermes-llm.md` §19.8.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { Settings } from "../../base/config/Settings.ts"
import * as Json from "../../base/domain/Json.ts"
import { withoutControls } from "../../base/domain/TextHygiene.ts"
import * as StartedProcess from "../builtin/terminal/StartedProcess.ts"
import { ProcessEnvironment } from "../../base/platform/ProcessVariables.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import { type Concern, ContentScanner, type Scanner } from "../approval/ApprovalRequest.ts"

/** Options of the operator. */
interface Options {
  readonly path: string
  readonly timeout: Duration.Duration
  readonly failOpen: boolean
}

const crashesAllowed = 3
const maxOutput = 65_536
const maxFindings = 10

const makeConcern = (text: string): Concern => ({ key: `content scanner: ${text}`, permanent: false })

const readFindingName = (finding: unknown): string | undefined => {
  if (!Predicate.isObject(finding)) return undefined
  const name = [finding["rule_id"], finding["rule"], finding["id"], finding["title"]].find(
    (item) => typeof item === "string"
  )
  return typeof name === "string" ? withoutControls(name).slice(0, 80) : undefined
}

/** Returns the concerns from an exit code and the output; `undefined` if neither is conclusive. */
export const parseConcerns = (exitCode: number, printed: string): ReadonlyArray<Concern> | undefined => {
  if (exitCode === 0) return []
  if (exitCode !== 1 && exitCode !== 2) return undefined
  const report = Option.getOrUndefined(Json.parse(printed))
  const listed: ReadonlyArray<unknown> =
    Predicate.isObject(report) && Array.isArray(report["findings"]) ? report["findings"] : []
  const names = Array.from(new Set(listed.flatMap((finding) => readFindingName(finding) ?? []))).slice(0, maxFindings)
  return names.length === 0 ? [makeConcern(exitCode === 1 ? "blocked" : "warning")] : names.map(makeConcern)
}

/** Creates the external scanner of commands (Tirith), if it is installed. */
export const make = (options: Options): Effect.Effect<Scanner, never, ChildProcessSpawner> =>
  Effect.map(Effect.all([ChildProcessSpawner, ProcessEnvironment]), ([spawner, environment]) => {
    let crashes = 0
    const failed = options.failOpen ? [] : [makeConcern("the scanner failed")]
    const buildCommand = (program: string, path: string, text: string) =>
      ChildProcess.make(program, ["check", "--json", "--non-interactive", "--shell", "posix", "--", text], {
        stdin: "ignore",
        // The scanner reads commands and needs no credentials.
        env: { ...StartedProcess.scrub(environment(), { passThrough: [], reserved: [] }), PATH: path },
        forceKillAfter: "1 second"
      })
    const runScanner = (text: string): Effect.Effect<ReadonlyArray<Concern>> =>
      Effect.gen(function* () {
        const handle = yield* spawner.spawn(
          buildCommand(yield* TrustedPrograms.find(options.path), yield* TrustedPrograms.safePath, text)
        )
        const decoder = new TextDecoder()
        let printed = ""
        const reading = Stream.runForEach(handle.stdout, (chunk) =>
          Effect.sync(() => {
            if (printed.length < maxOutput) printed += decoder.decode(chunk, { stream: true })
          })
        )
        const [exitCode] = yield* Effect.all([handle.exitCode, reading, Stream.runDrain(handle.stderr)], {
          concurrency: 3
        })
        return parseConcerns(exitCode, printed)
      }).pipe(
        Effect.scoped,
        Effect.timeoutOption(options.timeout),
        Effect.map(Option.getOrUndefined),
        Effect.catchTag("PlatformError", (error) => {
          // A missing program is not a failure of the scanner.
          const absent = error.reason._tag === "NotFound" && options.failOpen
          return Effect.as(
            absent ? Effect.void : Effect.logWarning(`the content scanner could not run: ${error.message}`),
            undefined
          )
        }),
        Effect.tap((concerns) =>
          Effect.sync(() => {
            crashes = concerns === undefined ? crashes + 1 : 0
          })
        ),
        Effect.map((concerns) => concerns ?? failed)
      )
    return {
      scan: (text) => Effect.suspend(() => (crashes >= crashesAllowed ? Effect.succeed(failed) : runScanner(text)))
    }
  })

/** Provides the scanner configured in the settings. */
export const layer: Layer.Layer<never, never, ChildProcessSpawner | Settings> = Layer.effect(
  ContentScanner,
  Effect.flatMap(Settings, ({ security }): Effect.Effect<Scanner, never, ChildProcessSpawner> =>
    security.tirithEnabled
      ? make({
          path: security.tirithPath,
          timeout: Duration.seconds(security.tirithTimeout),
          failOpen: security.tirithFailOpen
        })
      : Effect.succeed({ scan: () => Effect.succeed([]) })
  )
)
