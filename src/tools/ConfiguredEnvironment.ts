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
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { type Environment, Home } from "../base/config/Environment.ts"
import * as FolderTrust from "../base/config/FolderTrust.ts"
import type { Values } from "../base/config/Settings.ts"
import { ConfigError } from "../base/domain/AgentError.ts"
import type { CommandEnvironment } from "../places/CommandEnvironment.ts"
import type * as Container from "../places/Container.ts"
import type * as SshHost from "../places/SshHost.ts"
import type * as Sandbox from "../places/Sandbox.ts"
import type { Hosts } from "../places/SandboxNetwork.ts"
import * as UserPrograms from "../base/config/UserPrograms.ts"
import { operatingSystem, StartDirectory } from "../base/platform/CurrentProcess.ts"
import * as PathRoots from "./builtin/file/PathRoots.ts"
import { credentialDirectories, credentialFiles } from "./fence/SensitivePaths.ts"
import type * as Urls from "./fence/Urls.ts"

/** Facts about a program that its settings do not contain. */
interface Host {
  readonly environment: Environment["Service"]
  readonly home: Home["Service"]
  /** Directory in which the commands of a job run, if it is not the working directory. */
  readonly folder?: string | undefined
  /** Returns the container image for a working tree, replacing the image from the settings. */
  readonly selectImage?: ((tree: string) => string | undefined) | undefined
}

type Platform = ChildProcessSpawner | FileSystem.FileSystem | Path.Path

const toApplicationSupportPaths = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.map((name) => `Library/Application Support/${name}`)
const toCachePaths = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.map((name) => `Library/Caches/${name}`)

/** Paths below the home directory, depending on the operating system. */
interface UserPlaces {
  /** Caches of package managers. */
  readonly caches: ReadonlyArray<string>
  /** Browser profiles, key stores, and sockets of key agents and container engines. */
  readonly hidden: ReadonlyArray<string>
}

/**
 * Returns the paths below the home directory that commands may write, and the paths hidden from them in addition to
 * credentials. Pure.
 */
export const listUserPlaces = (system: string): UserPlaces => {
  const caches = [".cache", ".npm", ".cargo/registry", ".cargo/git", "go/pkg/mod", ".gradle/caches", ".m2/repository"]
  const agents = [".1password", ".bitwarden-ssh-agent.sock", ".colima", ".lima", ".orbstack", ".rd"]
  return system === "darwin"
    ? {
        caches: [
          ...caches,
          ...toCachePaths(["CocoaPods", "Yarn", "deno", "go-build", "node-gyp", "pip", "pnpm", "pypoetry"])
        ],
        hidden: [
          ...agents,
          "Library/Keychains",
          "Library/Cookies",
          "Library/Safari",
          "Library/Mail",
          "Library/Messages",
          "Library/Containers/com.apple.Safari",
          "Library/Group Containers",
          ...toApplicationSupportPaths([
            "1Password",
            "BraveSoftware",
            "Chromium",
            "Firefox",
            "Google/Chrome",
            "Microsoft Edge",
            "Signal",
            "Thunderbird",
            "com.apple.TCC"
          ])
        ]
      }
    : {
        caches,
        hidden: [
          ...agents,
          ".mozilla",
          ".config/google-chrome",
          ".config/chromium",
          ".config/BraveSoftware",
          ".config/microsoft-edge",
          ".thunderbird",
          ".config/Signal"
        ]
      }
}

/** Secrets of the machine that only root can read. A sandbox that runs as root could read them too. */
const machineSecrets = ["/etc/shadow", "/etc/gshadow", "/etc/ssl/private"]

/** Returns true if a host matches one of the names; `*.example.com` matches every host below `example.com`. */
const isListedHost = (names: ReadonlyArray<string>, host: string): boolean =>
  names.some((name) =>
    name.startsWith("*.") ? host.endsWith(name.slice(1).toLowerCase()) : host === name.toLowerCase()
  )

/**
 * Creates the set of reachable hosts: the hosts of a setting and the hosts that a user approves, limited to addresses
 * that tools may reach.
 */
const makeHosts = (names: ReadonlyArray<string>, setting: string, fence: Pick<Urls.Service, "admit">): Hosts => ({
  setting,
  isListed: (host) => isListedHost(names, host),
  addresses: (host, port) =>
    Effect.mapBoth(fence.admit(`http://${host.includes(":") ? `[${host}]` : host}:${port}/`), {
      onFailure: ({ message }) => message,
      onSuccess: ({ addresses }) => addresses
    })
})

/** Returns the hosts that commands may reach, from the setting or from the policy. */
const resolveNetwork = ({
  network,
  policy = "workspace-write"
}: Values["terminal"]["sandbox"]): "none" | "hosts" | "all" =>
  network ?? (policy === "workspace-write" ? "hosts" : "none")

/** Policy and network of one sandbox. */
interface Bounds extends Pick<Sandbox.Options, "policy"> {
  readonly network: "none" | "hosts" | "all"
  readonly hosts: ReadonlyArray<string>
  /** Name of the setting that lists the hosts, for error messages. */
  readonly setting: string
}

const isWithin = (path: string, root: string): boolean => path === root || path.startsWith(`${root}/`)

/** Builds the options of a sandbox from the paths in `terminal.sandbox` and the user's directories. */
const buildSandboxOptions = (
  { hosts, network, policy, setting }: Bounds,
  {
    terminal: {
      sandbox: { hide, hideEnvFiles, write }
    }
  }: Values,
  { environment, home }: Host,
  fence: Pick<Urls.Service, "admit">,
  owner?: string
): Sandbox.Options => {
  const userHome = environment.get("HOME")
  const { caches, hidden } = listUserPlaces(operatingSystem)
  const toHomePaths = (names: ReadonlyArray<string>) =>
    userHome === undefined ? [] : names.map((name) => `${userHome}/${name}`)
  const expandPaths = (paths: ReadonlyArray<string>) =>
    paths.map((path) => PathRoots.expandHome(path, userHome).replace(/(?<=.)\/+$/, ""))
  return {
    policy,
    network: network === "hosts" ? makeHosts(hosts, setting, fence) : network,
    home: userHome,
    writable: expandPaths(write),
    // A cache that the settings make writable is shared with the user.
    caches:
      userHome === undefined
        ? undefined
        : {
            directory: `${home.root}/cache/sandbox`,
            home: userHome,
            places: caches.filter(
              (name) => !expandPaths(write).some((named) => isWithin(`${userHome}/${name}`, named))
            ),
            owner
          },
    hidden: [
      ...toHomePaths([...credentialDirectories, ...credentialFiles, ...hidden]),
      ...machineSecrets,
      home.root,
      ...expandPaths(hide)
    ],
    shown: [home.skills],
    hidesEnvFiles: hideEnvFiles
  }
}

/** Returns the options of the sandbox for commands; `undefined` if the settings use no sandbox. */
export const selectSandboxOptions = (
  settings: Values,
  host: Host,
  fence: Pick<Urls.Service, "admit">
): Sandbox.Options | undefined => {
  const {
    backend,
    sandbox: { hosts, policy = "workspace-write" }
  } = settings.terminal
  if ((backend !== "auto" && backend !== "sandbox") || policy === "full") return undefined
  return buildSandboxOptions(
    { policy, network: resolveNetwork(settings.terminal.sandbox), hosts, setting: "terminal.sandbox.hosts" },
    settings,
    host,
    fence
  )
}

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
      const [Sandbox, , Urls] = yield* parts
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

const parts = Effect.promise(() =>
  Promise.all([import("../places/Sandbox.ts"), import("../places/SandboxProbe.ts"), import("./fence/Urls.ts")])
)

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
  const [Sandbox, SandboxProbe, Urls] = yield* parts
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

/** Builds the options of containers from the settings. */
const buildContainerOptions = (
  { terminal }: Values,
  { environment, home, selectImage }: Host
): Effect.Effect<Container.Options, ConfigError> => {
  const { hideEnvFiles, network = "none", policy } = terminal.sandbox
  if (network === "hosts") {
    return Effect.fail(
      new ConfigError({
        path: "terminal.sandbox.network",
        message:
          "terminal.sandbox.network: a container cannot be limited to some hosts. Set it to none or to all, or " +
          "terminal.backend to sandbox."
      })
    )
  }
  const userHome = environment.get("HOME")
  return Effect.succeed({
    binary: terminal.dockerBinary === undefined ? undefined : PathRoots.expandHome(terminal.dockerBinary, userHome),
    image: terminal.dockerImage,
    selectImage,
    policy: policy === "read-only" ? policy : "workspace-write",
    workspace: terminal.dockerMountCwdToWorkspace ? "mount" : "copy",
    network,
    limits: {
      cpus: terminal.containerCpu,
      memory: terminal.containerMemory,
      disk: terminal.containerDisk,
      processes: terminal.containerPids
    },
    volumes: terminal.dockerVolumes.map((volume) => PathRoots.expandHome(volume, userHome)),
    readable: [home.skills],
    variables: terminal.dockerEnv,
    forwarded: [...terminal.dockerForwardEnv, ...terminal.envPassthrough],
    user: terminal.dockerRunAsHostUser ? "caller" : "image",
    isPersistent: terminal.containerPersistent,
    lifetime: Duration.seconds(terminal.lifetimeSeconds),
    home: userHome,
    hidesEnvFiles: hideEnvFiles,
    extraArguments: terminal.dockerExtraArgs
  })
}

/** Builds the options of the SSH connection from the settings. */
const buildSshOptions = ({ terminal }: Values, { environment }: Host): Effect.Effect<SshHost.Options, ConfigError> => {
  const { cwd, sshHost, sshKey, sshPort, sshUser } = terminal
  const failSetting = (path: string, message: string) =>
    Effect.fail(new ConfigError({ path, message: `${path}: ${message}` }))
  if (sshHost === undefined)
    return failSetting("terminal.ssh_host", "terminal.backend is ssh: set the host that commands run on")
  if (cwd !== undefined && !/^[~/]/.test(cwd))
    return failSetting("terminal.cwd", `"${cwd}" is not an absolute directory of ${sshHost}`)
  return Effect.succeed({
    host: sshHost,
    user: sshUser,
    port: sshPort,
    key: sshKey === undefined ? undefined : PathRoots.expandHome(sshKey, environment.get("HOME")),
    directory: cwd,
    forwarded: terminal.envPassthrough,
    lifetime: Duration.seconds(terminal.lifetimeSeconds)
  })
}

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
  const [Sandbox, , Urls] = yield* parts
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
