/**
 * Sandbox for macOS: Seatbelt, with `/usr/bin/sandbox-exec -p PROFILE`. A profile denies every operation that it does
 * not allow, and the last rule that matches an operation decides.
 *
 * **Details**
 *
 * Seatbelt checks the current real path of a file, and mounts nothing. Links need no handling, and a directory that is
 * writable or contains a protected file cannot be renamed or replaced, because its contents would change their paths.
 * Temporary files are in a directory of the sandbox that `TMPDIR` names; `/tmp` is not writable.
 *
 * Services that every program needs are allowed by name, as in other macOS sandboxes: information about the machine,
 * users and groups, logs, terminals. Intentionally not allowed: the keychain (`securityd`), preferences (`cfprefsd`),
 * programs started outside (`launchd`, LaunchServices, Apple events), the pasteboard, process tables, and hard links.
 * Sockets only work in the temporary directory, so key agents and container daemons cannot be reached.
 *
 * **Gotchas**
 *
 * No test loads a profile on a real system: the tests compare its text, and run commands with a replacement for
 * `sandbox-exec`. There are no namespaces: commands cannot reach each other by the network unless the whole network is
 * allowed, a process that leaves its group outlives its command (in the same sandbox), and a command in a sandbox
 * cannot build another sandbox (`swift build`, browsers). Setuid programs (`ps`, `top`) do not start.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as SandboxNetwork from "./SandboxNetwork.ts"
import { type Rule, isWithin } from "./SandboxRules.ts"
import { NotBuilt, type Site, type Wall, type WallKind } from "./SandboxWall.ts"

/** Network access in {@link renderProfile}. `proxyPort` is the port of a proxy on this machine. */
export type ProfileNetwork = "none" | "all" | { readonly proxyPort: number }

const quoteText = (text: string): string => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`

const renderFilters = (filter: string, names: ReadonlyArray<string>): string =>
  names.map((name) => `(${filter} ${quoteText(name)})`).join(" ")

/** System services that every program may use. */
const services = [
  "com.apple.bsd.dirhelper",
  "com.apple.logd",
  "com.apple.system.logger",
  "com.apple.system.notification_center",
  "com.apple.system.opendirectoryd.libinfo",
  "com.apple.system.opendirectoryd.membership"
]

/**
 * Services for network configuration and for certificates. The certificate service fetches the URLs in a certificate
 * outside of the sandbox.
 */
const networkServices = [
  "com.apple.SystemConfiguration.configd",
  "com.apple.SystemConfiguration.DNSConfiguration",
  "com.apple.networkd",
  "com.apple.trustd.agent"
]

/**
 * Information about the machine and the system that programs may read. Process tables and process arguments are not
 * included.
 */
const facts = [
  "kern.argmax",
  "kern.bootargs",
  "kern.hostname",
  "kern.maxfiles",
  "kern.maxfilesperproc",
  "kern.maxproc",
  "kern.ngroups",
  "kern.osproductversion",
  "kern.osrelease",
  "kern.ostype",
  "kern.osvariant_status",
  "kern.osversion",
  "kern.secure_kernel",
  "kern.tcsm_available",
  "kern.tcsm_enable",
  "kern.usrstack64",
  "kern.version",
  "kern.willshutdown",
  "security.mac.lockdown_mode_state",
  "sysctl.proc_cputype",
  "vm.loadavg"
]

/** Devices to which every program may write. */
const devices = [
  "/dev/autofs_nowait",
  "/dev/dtracehelper",
  "/dev/null",
  "/dev/stderr",
  "/dev/stdout",
  "/dev/tty",
  "/dev/zero"
]

const base = [
  "(version 1)",
  "(deny default)",
  "(allow process-exec)",
  "(allow process-fork)",
  "(allow process-info* (target same-sandbox))",
  "(allow signal (target same-sandbox))",
  "(allow mach-host*)",
  "(allow mach-priv-task-port (target same-sandbox))",
  `(allow mach-lookup ${renderFilters("global-name", services)})`,
  `(allow sysctl-read ${renderFilters("sysctl-name-prefix", ["hw.", "machdep.", "net.routetable."])} ` +
    `${renderFilters("sysctl-name", facts)})`,
  "(allow ipc-posix-sem)",
  "(allow system-socket (socket-domain AF_UNIX))",
  "(allow pseudo-tty)",
  "(allow file-read*)",
  `(allow file-write* file-ioctl ${renderFilters("literal", [...devices, "/dev/ptmx"])} (regex #"^/dev/ttys[0-9]+$"))`,
  '(allow file-write* (subpath "/dev/fd"))'
]

const renderNetwork = (network: ProfileNetwork): ReadonlyArray<string> => {
  if (network === "none") return []
  if (network !== "all") return [`(allow network-outbound (remote ip "localhost:${network.proxyPort}"))`]
  return [
    // Restricted to IP addresses, because a socket file leads to a daemon of the user. Name resolution needs the socket
    // of the resolver.
    '(allow network-outbound (remote ip "*:*") (literal "/private/var/run/mDNSResponder"))',
    '(allow network-bind network-inbound (local ip "*:*"))',
    "(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)) (socket-domain AF_ROUTE))",
    `(allow mach-lookup ${renderFilters("global-name", networkServices)})`
  ]
}

/** Builds a pattern that matches a name in any case, because macOS volumes are case-insensitive. */
const toAnyCasePattern = (path: string): string => {
  const escaped = path.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&").replaceAll('"', ".")
  const cut = escaped.lastIndexOf("/") + 1
  return `#"^${escaped.slice(0, cut)}${escaped.slice(cut).replace(/[a-z]/gi, (letter) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`)}$"`
}

const renderRule = ({ allows, isAbsent, isFile, path }: Rule): ReadonlyArray<string> => {
  // The path does not exist, so there is no real name to compare.
  if (isAbsent === true) return [`(deny file-write* (regex ${toAnyCasePattern(path)}))`]
  const place = `(${isFile === true ? "literal" : "subpath"} ${quoteText(path)})`
  switch (allows) {
    case "write":
      return [`(allow file-read* file-write* ${place})`]
    case "read":
      return [`(allow file-read* ${place})`, `(deny file-write* ${place})`]
    case "nothing":
      return [`(deny file-read* file-write* ${place})`]
  }
}

/** Prevents renames of writable directories: rules would not match the files under a new path. */
const renderPlaces = (rules: ReadonlyArray<Rule>): ReadonlyArray<string> => {
  const places = rules.filter(({ allows, isFile }) => allows === "write" && isFile !== true).map(({ path }) => path)
  return places.length === 0 ? [] : [`(deny file-write-create file-write-unlink ${renderFilters("literal", places)})`]
}

/** Allows sockets in a directory of temporary files. */
const renderSockets = (directory: string): ReadonlyArray<string> => [
  `(allow network-bind network-inbound (local unix-socket (subpath ${quoteText(directory)})))`,
  `(allow network-outbound (remote unix-socket (subpath ${quoteText(directory)})))`
]

/** Renders the profile of a command for ordered rules without sources. Pure. */
export const renderProfile = (
  rules: ReadonlyArray<Rule>,
  network: ProfileNetwork,
  temporary: string | undefined
): string =>
  [
    ...base,
    ...renderNetwork(network),
    ...(temporary === undefined ? [] : renderSockets(temporary)),
    ...rules.flatMap(renderRule),
    ...renderPlaces(rules),
    ""
  ].join("\n")

/** Converts a command and its arguments to words. A command that requires a shell becomes a script of that shell. */
const toWords = ({
  args,
  command,
  options: { shell }
}: ChildProcess.StandardCommand): ChildProcess.StandardCommand["args"] =>
  shell === undefined || shell === false
    ? [command, ...args]
    : [shell === true ? "/bin/sh" : shell, "-c", [command, ...args].join(" ")]

const buildWall = (program: string) =>
  Effect.fnUntraced(function* ({ base, network }: Site): Effect.fn.Return<Wall, NotBuilt, Scope.Scope> {
    const proxy =
      typeof network === "string"
        ? undefined
        : yield* Effect.mapError(
            SandboxNetwork.openProxy({ host: "127.0.0.1", port: 0 }, network),
            (reason) => new NotBuilt({ reason, isPassing: true })
          )
    const reached: ProfileNetwork = typeof network === "string" ? network : { proxyPort: proxy?.port ?? 0 }
    return {
      ports: "shared",
      caller: proxy?.caller ?? Effect.undefined,
      confine: (command, { directory, rules }) =>
        Effect.succeed({
          program,
          args: [
            "-p",
            renderProfile(
              rules,
              reached,
              rules.find(({ allows, path }) => allows === "write" && isWithin(path, base))?.path
            ),
            ...toWords(command)
          ],
          directory,
          proxyPort: proxy?.port === undefined ? undefined : String(proxy.port)
        })
    }
  })

const make = (program: string): WallKind["make"] =>
  Effect.fnUntraced(function* (files) {
    const isThere = yield* Effect.mapError(
      files.exists(program),
      ({ message }) => new NotBuilt({ reason: message, isPassing: true })
    )
    if (!isThere) return yield* new NotBuilt({ reason: `${program} is missing` })
    return buildWall(program)
  })

const noNetwork =
  /could not resolve host|nodename nor servname provided|ENOTFOUND|\b(?:connect|listen|bind|curl)\b[^\n]*(?:EPERM|operation not permitted)/i
const noPermission = /operation not permitted|\bEPERM\b/i

/** Creates the Seatbelt sandbox kind. `program` is the path of `sandbox-exec`. */
export const makeSeatbelt = (program = "/usr/bin/sandbox-exec"): WallKind => ({
  name: "Seatbelt",
  requirement: "start hermes outside of another sandbox, on a macOS that has sandbox-exec",
  untried:
    "its profile was compared as text and never tried on a Mac by its tests: what it keeps commands from, the " +
    "programs that it lets start, and file tools by /.vol",
  paths: "judged",
  stoppedBy: (output) => (noNetwork.test(output) ? "network" : noPermission.test(output) ? "files" : undefined),
  make: make(program)
})
