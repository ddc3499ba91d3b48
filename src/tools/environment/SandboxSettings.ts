/** Sandboxes of the settings: the hosts, the writable and the hidden paths of commands on this machine. */
import * as Effect from "effect/Effect"
import type { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { operatingSystem } from "../../base/platform/CurrentProcess.ts"
import type * as Sandbox from "../../places/Sandbox.ts"
import type { Hosts } from "../../places/SandboxNetwork.ts"
import * as PathRoots from "../builtin/file/PathRoots.ts"
import { credentialDirectories, credentialFiles } from "../fence/SensitivePaths.ts"
import type * as Urls from "../fence/Urls.ts"

/** Facts about a program that its settings do not contain. */
export interface Host {
  readonly environment: Environment["Service"]
  readonly home: Home["Service"]
  /** Directory in which the commands of a job run, if it is not the working directory. */
  readonly folder?: string | undefined
  /** Returns the container image for a working tree, replacing the image from the settings. */
  readonly findImage?: ((tree: string) => string | undefined) | undefined
}

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
export const resolveNetwork = ({
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
export const buildSandboxOptions = (
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

/** The modules of sandboxes, which are loaded only if a sandbox may be used. */
export const sandboxModules = Effect.promise(() =>
  Promise.all([import("../../places/Sandbox.ts"), import("../../places/SandboxProbe.ts"), import("../fence/Urls.ts")])
)
