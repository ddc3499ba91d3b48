/**
 * Runs `git` on copies of repositories that a run made. Git ignores the configuration of the user, of the machine, and
 * of any repository that an agent modified. Hooks, filters, watchers and helpers in such a repository are therefore
 * never executed.
 *
 * **Details**
 *
 * Every command specifies its repository by `--git-dir`; the repository is outside the agent's working directory. The
 * only exception is a command that reads a commit and the location of objects from a repository of the user.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ProcessVariables } from "../../base/config/Environment.ts"
import { isSecretName } from "../../base/domain/CredentialNames.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"

/** Error raised when a git command, or a program that copies files, failed. */
export class GitFailed extends Schema.TaggedError<GitFailed>("hermes-effect/runner/swe/GitFailed")("GitFailed", {
  message: Schema.String,
  /** Exit code, if the program ended by itself. */
  code: Schema.optional(Schema.Int)
}) {}

/** Time limit for one command, long enough to check out a large repository. */
const deadline = Duration.minutes(10)

const settings = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.autocrlf=false",
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  "protocol.ext.allow=never",
  "submodule.recurse=false",
  "commit.gpgSign=false",
  "gc.auto=0",
  "maintenance.auto=false",
  "advice.addEmbeddedRepo=false",
  "advice.detachedHead=false",
  "init.defaultBranch=main",
  "user.name=hermes",
  "user.email=hermes@localhost",
  "safe.directory=*"
].flatMap((setting) => ["-c", setting])

const own = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_TERMINAL_PROMPT: "0",
  GIT_LFS_SKIP_SMUDGE: "1",
  GIT_ALLOW_PROTOCOL: "file",
  GIT_AUTHOR_DATE: "2000-01-01T00:00:00Z",
  GIT_COMMITTER_DATE: "2000-01-01T00:00:00Z",
  LC_ALL: "C"
}

const getLastLine = (text: string): string => text.trim().split("\n").at(-1)?.trim() ?? ""

/** Result of a program that has ended. */
interface ProgramEnd {
  readonly code: number
  readonly output: Uint8Array
  readonly errors: string
}

const collectBytes = (stream: Stream.Stream<Uint8Array, unknown>): Effect.Effect<Uint8Array> =>
  Stream.runCollect(stream).pipe(
    Effect.map((chunks) => {
      const whole = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.length, 0))
      let at = 0
      for (const chunk of chunks) {
        whole.set(chunk, at)
        at += chunk.length
      }
      return whole
    }),
    // If the pipe cannot be read, the exit code still shows if the command succeeded.
    Effect.orElseSucceed(() => new Uint8Array(0))
  )

/** Runs a program until it ends. Fails if the program is missing or exceeds the time limit. */
const runProgram = Effect.fnUntraced(function* (
  program: string,
  args: ReadonlyArray<string>,
  input: string | undefined,
  cwd: string
): Effect.fn.Return<ProgramEnd, GitFailed, ChildProcessSpawner> {
  const spawner = yield* ChildProcessSpawner
  const variables = yield* ProcessVariables
  const inherited = Object.fromEntries(
    Object.entries(variables).filter(([name]) => !isSecretName(name) && !name.startsWith("GIT_"))
  )
  return yield* Effect.gen(function* () {
    const file = yield* TrustedPrograms.find(program)
    const handle = yield* spawner.spawn(
      ChildProcess.make(file, args, {
        cwd,
        env: { ...inherited, ...own, PATH: yield* TrustedPrograms.safePath },
        stdin: input === undefined ? "ignore" : Stream.make(new TextEncoder().encode(input)),
        forceKillAfter: "1 second"
      })
    )
    const [output, errors, code] = yield* Effect.all(
      [collectBytes(handle.stdout), collectBytes(handle.stderr), handle.exitCode],
      { concurrency: "unbounded" }
    )
    return { output, errors: new TextDecoder().decode(errors), code: Number(code) }
  }).pipe(
    Effect.scoped,
    Effect.mapError(
      (error) =>
        new GitFailed({
          message: error.reason._tag === "NotFound" ? `\`${program}\` is not installed: install it` : error.message
        })
    ),
    Effect.timeoutOption(deadline),
    Effect.flatMap(
      Option.match({
        onNone: () =>
          Effect.fail(
            new GitFailed({ message: `${program} ${args.at(0) ?? ""} took longer than ${Duration.format(deadline)}` })
          ),
        onSome: Effect.succeed
      })
    )
  )
})

const toGitFailed = (what: string, { code, errors }: ProgramEnd): GitFailed =>
  new GitFailed({ message: `${what} failed: ${getLastLine(errors) || `exit code ${code}`}`, code })

/** Working directory of a command, and text for its standard input. */
interface CommandPlace {
  readonly cwd: string
  readonly input?: string | undefined
}

/** Returns the bytes that a git command prints. */
export const readBytes = Effect.fnUntraced(function* (args: ReadonlyArray<string>, { cwd, input }: CommandPlace) {
  const result = yield* runProgram("git", [...settings, ...args], input, cwd)
  return result.code === 0
    ? result.output
    : yield* toGitFailed(`git ${args.find((word) => !word.startsWith("-")) ?? ""}`, result)
})

/** Returns the text that a git command prints, without the final line break. */
export const readText = (args: ReadonlyArray<string>, place: CommandPlace) =>
  Effect.map(readBytes(args, place), (output) => new TextDecoder().decode(output).replace(/\n$/, ""))

/** Copies the contents of a directory into an existing directory. Symbolic links are copied as links. */
export const copyDirectory = Effect.fnUntraced(function* (from: string, to: string) {
  const result = yield* runProgram("cp", ["-R", "-P", "-p", "--", `${from}/.`, to], undefined, "/")
  if (result.code !== 0) return yield* toGitFailed(`copying ${from}`, result)
})
