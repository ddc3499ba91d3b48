/**
 * Runs the `git` binary to fetch plugins. Git runs no code of a repository, never prompts for a password, and each
 * command is limited to one minute.
 *
 * Source: `hermes-contract.md` §3.6.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ProcessVariables } from "../../base/config/Environment.ts"
import { isSecretName } from "../../base/domain/CredentialNames.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { Variables } from "../../base/platform/ProcessVariables.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import { PluginError } from "./PluginError.ts"

/** Time limit of one command. */
const deadline = Duration.seconds(60)

/**
 * Settings that disable hooks, file watchers, submodule recursion and `ext` transports. `isUrl` limits the other
 * transports.
 */
const settings = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "protocol.ext.allow=never",
  "submodule.recurse=false"
].flatMap((setting) => ["-c", setting])

/**
 * Selects the user's variables, including the tokens that credential helpers read (`GH_TOKEN`), but no other secret.
 */
const selectInheritedVariables = (variables: Variables): Variables =>
  Object.fromEntries(
    Object.entries(variables).filter(
      ([name]) => !isSecretName(name) || /^(?:GIT|GH|GITHUB|GITLAB|GITEA|BITBUCKET)_/.test(name)
    )
  )

const environment = {
  GIT_TERMINAL_PROMPT: "0",
  GIT_LFS_SKIP_SMUDGE: "1",
  GIT_ALLOW_PROTOCOL: "https:ssh:file",
  LC_ALL: "C"
}

const readLastLine = (text: string): string => text.trim().split("\n").at(-1)?.trim() ?? ""

/** Returns the output of a git command. `subject` names the plugin in errors. */
const runGit = (
  subject: string,
  args: ReadonlyArray<string>
): Effect.Effect<string, PluginError, ChildProcessSpawner> => {
  const makeGitError = (why: string): PluginError =>
    new PluginError({ plugin: subject, message: `git ${args[0]} failed: ${Redaction.redactText(why)}` })
  return Effect.gen(function* () {
    const spawner = yield* ChildProcessSpawner
    const git = yield* TrustedPrograms.find("git")
    const handle = yield* spawner.spawn(
      ChildProcess.make(git, [...settings, ...args], {
        // Git finds ssh and credential helpers by name in `PATH`.
        env: {
          ...selectInheritedVariables(yield* ProcessVariables),
          ...environment,
          PATH: yield* TrustedPrograms.safePath
        },
        stdin: "ignore",
        forceKillAfter: "1 second"
      })
    )
    const texts = yield* Effect.all(
      [Stream.mkString(Stream.decodeText(handle.stdout)), Stream.mkString(Stream.decodeText(handle.stderr))],
      { concurrency: 2 }
    )
    return { code: yield* handle.exitCode, stdout: texts[0], stderr: texts[1] }
  }).pipe(
    Effect.scoped,
    Effect.timeoutOption(deadline),
    Effect.mapError((error) =>
      makeGitError(error.reason._tag === "NotFound" ? "`git` is not installed: install it" : error.message)
    ),
    Effect.flatMap(
      Option.match({
        onNone: () => Effect.fail(makeGitError(`it took longer than ${Duration.format(deadline)}`)),
        onSome: ({ code, stderr, stdout }) =>
          code === 0 ? Effect.succeed(stdout) : Effect.fail(makeGitError(readLastLine(stderr) || `exit code ${code}`))
      })
    )
  )
}

/** Tests whether a string is an address from which a plugin may be fetched. */
export const isUrl = (text: string): boolean =>
  /^(?:https|ssh|file):\/\/[^\s-]\S*$/.test(text) || /^[\w.-]+@[\w.-]+:[^\s-]\S*$/.test(text)

/** Clones the latest commit of a repository into a directory that does not exist yet. */
export const cloneRepository = (subject: string, url: string, directory: string) =>
  runGit(subject, [
    "clone",
    "--quiet",
    "--depth",
    "1",
    "--no-tags",
    "--single-branch",
    "--template=",
    "--",
    url,
    directory
  ])

/** The fetched version of a checkout, before it replaces the current one. */
export interface FetchedVersion {
  /** Paths of its files, with slashes. */
  readonly paths: ReadonlySet<string>
  /** Reads a file; `undefined` if it does not exist. */
  readonly read: (path: string) => Effect.Effect<string | undefined, PluginError, ChildProcessSpawner>
}

/**
 * Updates a checkout to the latest commit of its origin. Fails on local changes, symbolic links and submodules, or if
 * `prepare` fails, which examines the new version first.
 */
export const updateCheckout = Effect.fnUntraced(function* <E, R>(
  subject: string,
  directory: string,
  prepare: (version: FetchedVersion) => Effect.Effect<void, E, R>
) {
  const runInCheckout = (...args: ReadonlyArray<string>) => runGit(subject, ["-C", directory, ...args])
  const before = (yield* runInCheckout("rev-parse", "HEAD")).trim()
  const changed = yield* runInCheckout("status", "--porcelain", "--untracked-files=no")
  if (changed.trim() !== "") {
    return yield* new PluginError({
      plugin: subject,
      message: `${directory} has changes of your own: commit or undo them first`
    })
  }
  yield* runInCheckout("fetch", "--quiet", "--depth", "1", "--no-tags", "origin", "HEAD")
  const entries = (yield* runInCheckout("ls-tree", "-r", "-z", "FETCH_HEAD")).split("\0")
  const foreign = entries.find((entry) => entry.startsWith("120000") || entry.startsWith("160000"))
  if (foreign !== undefined) {
    const path = foreign.slice(foreign.indexOf("\t") + 1)
    return yield* new PluginError({
      plugin: subject,
      message: `its new version has a symbolic link or a submodule, "${path}", so it was not updated`
    })
  }
  const paths = new Set(entries.map((entry) => entry.slice(entry.indexOf("\t") + 1)))
  yield* prepare({
    paths,
    read: (path) => (paths.has(path) ? runInCheckout("show", `FETCH_HEAD:${path}`) : Effect.succeed(undefined))
  })
  yield* runInCheckout("reset", "--quiet", "--hard", "FETCH_HEAD")
  const after = (yield* runInCheckout("rev-parse", "HEAD")).trim()
  return { before, after }
})
