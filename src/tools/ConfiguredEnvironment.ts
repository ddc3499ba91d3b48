/**
 * The environment in which the commands of a program run, selected by its settings: `terminal.backend` and related
 * keys.
 *
 * **Details**
 *
 * By default, commands run in the sandbox if this machine can build one (`SandboxProbe`), and otherwise directly on the
 * machine, with one notice to the user. If a sandbox is requested by name or required but cannot be built, the run
 * fails with a one-line error.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls").
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { Home } from "../base/config/Environment.ts"
import * as FolderTrust from "../base/config/FolderTrust.ts"
import type { Values } from "../base/config/Settings.ts"
import { ConfigError } from "../base/domain/AgentError.ts"
import type { CommandEnvironment } from "../places/CommandEnvironment.ts"
import { operatingSystem, StartDirectory } from "../base/platform/CurrentProcess.ts"
import { buildContainerOptions, buildSshOptions } from "./environment/RemoteSettings.ts"
import { type Host, resolveNetwork, sandboxModules, selectSandboxOptions } from "./environment/SandboxSettings.ts"

type Platform = ChildProcessSpawner | FileSystem.FileSystem | Path.Path

/** The chosen environment for commands. */
export interface Choice {
  /** Layer of the environment; `undefined` if commands run directly on this machine. */
  readonly layer: Layer.Layer<CommandEnvironment, ConfigError, Platform> | undefined
  /** Description of the environment for a model that works in it. */
  readonly description: string | undefined
  /** True for a sandbox on this machine. Such a sandbox has limits by default. */
  readonly isSandbox?: boolean
  /** Working directory that the model sees, if it is on another machine. */
  readonly directory?: string | undefined
}

const thisMachine: Choice = { layer: undefined, description: undefined }

const required = "terminal.sandbox.required"

/** Beginning of the warning that this machine has no sandbox. */
export const withoutSandbox = "commands run without a sandbox"

/** Returns true if the settings allow commands to run directly on this machine. */
const isOptional = ({ terminal }: Values): boolean => terminal.backend === "auto" && !terminal.sandbox.required

/** Returns an error if the settings both require a sandbox and turn it off. */
const findContradiction = ({ terminal }: Values): ConfigError | undefined =>
  terminal.sandbox.required && (terminal.backend === "local" || terminal.sandbox.policy === "full")
    ? new ConfigError({
        path: required,
        message:
          `${required}: ` +
          `${terminal.backend === "local" ? "terminal.backend is local" : "terminal.sandbox.policy is full"}, so ` +
          "commands would run without a sandbox. Remove one of the two."
      })
    : undefined

/**
 * Returns the settings that apply in the directory of the commands: an untrusted directory with its own project files
 * is read-only, unless the settings name a policy. `distrusted` names those files and the remedy.
 */
const applyFolderTrust = Effect.fnUntraced(function* (settings: Values, host: Host) {
  const { home } = host
  const { terminal } = settings
  const folder = host.folder ?? (yield* StartDirectory)()
  if (terminal.sandbox.policy !== undefined || (terminal.backend !== "auto" && terminal.backend !== "sandbox"))
    return { settings, distrusted: undefined }
  const trust = yield* FolderTrust.make.pipe(Effect.provideService(Home, home))
  const withheld = yield* trust.withheld(folder)
  if (withheld.length === 0) return { settings, distrusted: undefined }
  const project = yield* trust.findOwnProject(folder)
  return {
    settings: {
      ...settings,
      terminal: { ...terminal, sandbox: { ...terminal.sandbox, policy: "read-only" as const } }
    },
    distrusted:
      `${withheld.join(", ")} ${withheld.length === 1 ? "is" : "are"} not trusted. Look at it, then run ` +
      `\`${FolderTrust.renderRemedy(project)}\`, or set ${FolderTrust.variable} for one run`
  }
})

/**
 * Applies the limits of the settings and of a sandbox to the environment. The code for limits is loaded only if there
 * are any.
 */
const applyLimits = Effect.fnUntraced(function* (
  {
    terminal: {
      limits: { cpuSeconds, memoryMb, outputMb, processes, temporaryMb }
    }
  }: Values,
  choice: Choice
): Effect.fn.Return<Choice> {
  const limits = { cpuSeconds, memoryMb, outputMb, processes, temporaryMb }
  const isBounded = choice.isSandbox === true && operatingSystem === "linux"
  if (!isBounded && Object.values(limits).every((limit) => limit === undefined)) return choice
  const [{ layerLocal }, { layer, makeDefaults }] = yield* Effect.promise(() =>
    Promise.all([import("../places/CommandEnvironment.ts"), import("../places/ResourceLimits.ts")])
  )
  const defaults = isBounded ? makeDefaults() : {}
  const bounds = {
    ...limits,
    processes: processes ?? defaults.processes,
    memoryMb: memoryMb ?? defaults.memoryMb,
    temporaryMb: temporaryMb ?? defaults.temporaryMb
  }
  return { ...choice, layer: layer(choice.layer ?? layerLocal, bounds) }
})

/** Returns the remote environment that the settings choose; `undefined` if commands run on this machine. */
const selectRemotePlace = Effect.fnUntraced(function* (
  settings: Values,
  host: Host
): Effect.fn.Return<Choice | undefined, ConfigError> {
  switch (settings.terminal.backend) {
    case "docker": {
      const options = yield* buildContainerOptions(settings, host)
      const { describeContainer, layer } = yield* Effect.promise(() => import("../places/Container.ts"))
      return { layer: layer(options), description: describeContainer(options) }
    }
    case "ssh": {
      const options = yield* buildSshOptions(settings, host)
      const { describeHost, layer } = yield* Effect.promise(() => import("../places/SshHost.ts"))
      return {
        layer: layer(options),
        description: describeHost(options),
        directory: `${options.directory ?? "~"} on ${options.host}`
      }
    }
    default:
      return undefined
  }
})

/** Returns the environment that the settings choose. The code for a sandbox is loaded only if one may be used. */
const selectPlace = Effect.fnUntraced(function* (
  given: Values,
  host: Host
): Effect.fn.Return<Choice, ConfigError, Platform> {
  const { distrusted, settings } = yield* applyFolderTrust(given, host)
  const contradicted = findContradiction(settings)
  if (contradicted !== undefined) return yield* contradicted
  const {
    backend,
    sandbox: { policy }
  } = settings.terminal
  const remote = yield* selectRemotePlace(settings, host)
  if (remote !== undefined) return remote
  if ((backend !== "auto" && backend !== "sandbox") || policy === "full") return thisMachine
  const [Sandbox, SandboxProbe, Urls] = yield* sandboxModules
  const options = selectSandboxOptions(settings, host, yield* Urls.fence)
  if (options === undefined) return thisMachine
  const wall = yield* Sandbox.Wall
  const found = yield* SandboxProbe.find(`${host.home.root}/sandbox.json`, Sandbox.findObstacle(options))
  if (found._tag === "Works" && distrusted !== undefined)
    yield* Effect.logWarning(`commands and file tools only read here: ${distrusted}`)
  if (found._tag === "Works")
    return { layer: Sandbox.layerTried(options), description: yield* Sandbox.describeSandbox(options), isSandbox: true }
  if (!isOptional(settings))
    return yield* Sandbox.makeRefusal(found.reason, wall, backend === "sandbox" ? undefined : required)
  if (found.isNews)
    yield* Effect.logWarning(
      `${withoutSandbox}: ${found.reason}. Remedy: ${Sandbox.describeRemedy(wall)} and end this notice`
    )
  return thisMachine
})

/** Returns the environment that the settings choose, with the limits applied. */
export const choose = (settings: Values, host: Host): Effect.Effect<Choice, ConfigError, Platform> =>
  Effect.flatMap(selectPlace(settings, host), (choice) => applyLimits(settings, choice))

/** Status of the environment, as reported by `hermes doctor`. */
export interface Status {
  readonly level: "ok" | "warning" | "problem"
  readonly text: string
}

const networks = {
  none: "no network",
  hosts: "network: the hosts of terminal.sandbox.hosts, others are asked about",
  all: "network: all of it"
} as const

/** Checks the environment that the settings choose, without changing anything. */
export const checkStatus = Effect.fnUntraced(function* (
  given: Values,
  host: Host
): Effect.fn.Return<Status, never, Platform> {
  const { distrusted, settings } = yield* applyFolderTrust(given, host)
  const contradicted = findContradiction(settings)
  if (contradicted !== undefined) return { level: "problem", text: contradicted.message }
  const {
    backend,
    sandbox: { policy }
  } = settings.terminal
  if (policy === "full") return { level: "ok", text: "off: terminal.sandbox.policy is full" }
  if (backend === "docker" || backend === "ssh") {
    return yield* selectRemotePlace(settings, host).pipe(
      Effect.flatMap((choice) =>
        choice?.layer === undefined ? Effect.void : Effect.scoped(Layer.build(choice.layer))
      ),
      Effect.match({
        onFailure: ({ message }): Status => ({ level: "problem", text: message }),
        onSuccess: (): Status => ({
          level: "ok",
          text:
            backend === "docker"
              ? `a container of the image ${settings.terminal.dockerImage}, ${policy}, ` +
                `${networks[settings.terminal.sandbox.network ?? "none"]}`
              : `none: commands run on ${settings.terminal.sshHost} as they are`
        })
      })
    )
  }
  if (backend !== "auto" && backend !== "sandbox") return { level: "ok", text: `off: terminal.backend is ${backend}` }
  const [Sandbox, , Urls] = yield* sandboxModules
  const options = selectSandboxOptions(settings, host, yield* Urls.fence)
  const wall = yield* Sandbox.Wall
  const tried = yield* Effect.result(options === undefined ? Effect.undefined : Sandbox.findObstacle(options))
  if (tried._tag === "Failure") return { level: "problem", text: tried.failure.message }
  const reason = tried.success
  if (reason === undefined) {
    const setup = `${wall.name}, ${options?.policy ?? ""}, ${networks[resolveNetwork(settings.terminal.sandbox)]}`
    const notes = [wall.untried, distrusted].filter((note) => note !== undefined)
    return { level: wall.untried === undefined ? "ok" : "warning", text: [setup, ...notes].join(": ") }
  }
  return isOptional(settings)
    ? { level: "warning", text: `commands run without one: ${reason}. Remedy: ${Sandbox.describeRemedy(wall)}` }
    : {
        level: "problem",
        text: Sandbox.makeRefusal(reason, wall, backend === "sandbox" ? undefined : required).message
      }
})
