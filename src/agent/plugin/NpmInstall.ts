/**
 * Installs the packages of a plugin with the `npm` binary. npm runs no scripts of packages, creates no links, and reads
 * no configuration of the plugin. Its environment contains no secrets of the user.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ProcessVariables } from "../../base/config/Environment.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { Variables } from "../../base/platform/ProcessVariables.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import { type DependencyPlan, packagesFolder } from "./Dependencies.ts"
import { PluginError } from "./PluginError.ts"

/** Time limit of an installation. */
const deadline = Duration.minutes(5)

const command = [
  "ci",
  "--ignore-scripts",
  "--omit=dev",
  "--omit=peer",
  "--bin-links=false",
  "--audit=false",
  "--fund=false",
  "--update-notifier=false",
  "--progress=false",
  "--loglevel=error",
  "--fetch-retries=1",
  "--fetch-retry-mintimeout=1000",
  "--fetch-retry-maxtimeout=5000"
]

/** Variables that npm receives: where its files are, and how the registry is reached. */
const inherited = new Set([
  "home",
  "userprofile",
  "appdata",
  "localappdata",
  "systemroot",
  "tmpdir",
  "temp",
  "tmp",
  "http_proxy",
  "https_proxy",
  "no_proxy",
  "ssl_cert_file",
  "node_extra_ca_certs",
  "npm_config_registry",
  "npm_config_userconfig",
  "npm_config_cache",
  "npm_config_cafile"
])

const selectVariables = (variables: Variables): Variables =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => inherited.has(name.toLowerCase())))

const unreachable =
  /^(?:ENOTFOUND|ECONNREFUSED|ECONNRESET|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT)$/

/** Describes a failure of npm by its code, in one line. */
const describeFailure = (output: string, exitCode: number): string => {
  const lines = output.split("\n").map((line) => line.replace(/^npm (?:error|ERR!) ?/, "").trim())
  const code = lines.flatMap((line) => /^code (\S+)$/.exec(line)?.[1] ?? [])[0] ?? ""
  const said = lines.find((line) => line !== "" && !/^(?:code|errno|syscall|network|path) /.test(line)) ?? ""
  if (code === "EINTEGRITY")
    return `a package does not match its hash in the lock file, so nothing was installed: ${said}`
  if (unreachable.test(code))
    return `the registry cannot be reached (${code}): check the network and repeat the command`
  if (code === "EUSAGE") {
    return (
      "its lock file does not match its package.json: run `npm install --package-lock-only` in the plugin, and " +
      "commit the lock file"
    )
  }
  if (code === "E401" || code === "E403") return `the registry refused access (${code}): log in with \`npm login\``
  return [code, said].filter((part) => part !== "").join(": ") || `exit code ${exitCode}`
}

const runNpm = (plugin: string, directory: string) => {
  const makeNpmError = (why: string): PluginError =>
    new PluginError({
      plugin,
      message: `npm ci failed: ${Redaction.redactText(why.replaceAll(/\s+/g, " ")).slice(0, 400)}`
    })
  return Effect.gen(function* () {
    const spawner = yield* ChildProcessSpawner
    const npm = yield* TrustedPrograms.find("npm")
    const handle = yield* spawner.spawn(
      ChildProcess.make(npm, command, {
        cwd: directory,
        env: { ...selectVariables(yield* ProcessVariables), PATH: yield* TrustedPrograms.safePath, CI: "1" },
        stdin: "ignore",
        forceKillAfter: "1 second"
      })
    )
    const [, stderr] = yield* Effect.all(
      [Stream.runDrain(handle.stdout), Stream.mkString(Stream.decodeText(handle.stderr))],
      { concurrency: 2 }
    )
    return { code: yield* handle.exitCode, stderr }
  }).pipe(
    Effect.scoped,
    Effect.timeoutOption(deadline),
    Effect.mapError((error) =>
      error.reason._tag === "NotFound"
        ? new PluginError({
            plugin,
            message: "its dependencies need `npm`, which is not installed: install Node with npm"
          })
        : makeNpmError(error.message)
    ),
    Effect.flatMap(
      Option.match({
        onNone: () => Effect.fail(makeNpmError(`it took longer than ${Duration.format(deadline)}`)),
        onSome: ({ code, stderr }) =>
          code === 0 ? Effect.void : Effect.fail(makeNpmError(describeFailure(stderr, code)))
      })
    )
  )
}

/**
 * Installs the packages of a plan and returns their folder, below the empty folder `directory`. Only the two files of
 * the plan are copied there, so that npm finds no `.npmrc` of the plugin.
 */
export const installPackages = Effect.fn("NpmInstall.installPackages")(function* (
  plugin: string,
  { files }: DependencyPlan,
  directory: string
): Effect.fn.Return<string, PluginError, FileSystem.FileSystem | Path.Path | ChildProcessSpawner> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const toNpmError = <A>(self: Effect.Effect<A, PlatformError>) =>
    Effect.mapError(self, ({ message }) => new PluginError({ plugin, message }))
  yield* toNpmError(fs.makeDirectory(directory))
  for (const [name, text] of Object.entries(files))
    yield* toNpmError(fs.writeFileString(paths.join(directory, name), text))
  yield* runNpm(plugin, directory)
  const folder = paths.join(directory, packagesFolder)
  if (!(yield* toNpmError(fs.exists(folder)))) {
    return yield* new PluginError({ plugin, message: "npm ci failed: it installed no packages" })
  }
  return folder
})
