/** Sandboxes in which the user's programs run: MCP servers and shell hooks. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { Home } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as UserPrograms from "../../base/config/UserPrograms.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { StartDirectory } from "../../base/platform/CurrentProcess.ts"
import { buildSandboxOptions, type Host, sandboxModules } from "./SandboxSettings.ts"

/** Starts the user's programs in the sandboxes selected by the settings. */
export const makeUserPrograms = Effect.fnUntraced(function* (
  settings: Values,
  host: Host
): Effect.fn.Return<UserPrograms.Service, never, FileSystem.FileSystem | Path.Path> {
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const { hosts, network = "none" } = settings.terminal.sandbox
  const fs = yield* FileSystem.FileSystem
  const trust = yield* FolderTrust.make.pipe(Effect.provideService(Home, host.home))
  const startDirectory = yield* StartDirectory
  const mayStart = Effect.suspend(() => trust.mayStartIn(startDirectory()))
  const remedy = Effect.map(
    Effect.suspend(() => trust.findOwnProject(startDirectory())),
    FolderTrust.renderRemedy
  )
  const elsewhere = Effect.mapError(
    fs.makeTempDirectoryScoped({ prefix: "hermes-start-" }),
    ({ message }) => new ConfigError({ path: "TMPDIR", message })
  )
  return {
    startDirectory: Effect.flatMap(mayStart, (may) => (may ? Effect.sync(startDirectory) : elsewhere)),
    admit: Effect.fnUntraced(function* (setting, words) {
      const relative = words.find(UserPrograms.isRelative)
      if (relative === undefined || (yield* mayStart)) return
      return yield* new ConfigError({
        path: setting,
        message:
          `${setting}: ${relative} is a file of this folder, which is not trusted. Look at it, then run ` +
          `\`${yield* remedy}\``
      })
    }),
    getSpawner: Effect.fnUntraced(function* (setting, own) {
      if (own === "full") return yield* ChildProcessSpawner
      const bounds = typeof own === "string" ? { policy: own, network, hosts } : { network, hosts, ...own }
      const [Sandbox, , Urls] = yield* sandboxModules
      const options = buildSandboxOptions(
        { ...bounds, setting: `${setting}.hosts` },
        settings,
        host,
        yield* Urls.fence,
        setting
      )
      const { spawner } = yield* Sandbox.make(
        options,
        (reason, { requirement }) =>
          new ConfigError({
            path: setting,
            message:
              `${setting}: the sandbox cannot start: ${reason}. ` +
              `${requirement.charAt(0).toUpperCase()}${requirement.slice(1)}, or set it to full to run this ` +
              "program without a sandbox."
          })
      )
      return spawner
    }, Effect.provideContext(services))
  }
})
