/**
 * The part of a sandbox that differs by operating system: how a command is started in it, and how to detect that it
 * stopped one. Policies, rules, hosts, variables and questions are the same for all (`Sandbox`).
 */
import type * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type * as SandboxNetwork from "./SandboxNetwork.ts"
import type { Rule } from "./SandboxRules.ts"

/** Error raised when the sandbox cannot be set up. */
export class NotBuilt extends Schema.TaggedError<NotBuilt>()("NotBuilt", {
  reason: Schema.String,
  /**
   * True if the reason is not a property of the machine: the test was not possible, for lack of descriptors, processes
   * or space.
   */
  isPassing: Schema.optionalKey(Schema.Boolean)
}) {}

/** Bounds of one command. */
export interface Bounds {
  readonly rules: ReadonlyArray<Rule>
  /** Directory that it starts in. */
  readonly directory: string
}

/** A command as this machine starts it. */
export interface ConfinedCommand {
  readonly program: string
  readonly args: ChildProcess.StandardCommand["args"]
  /** Directory that the program starts in. */
  readonly directory: string
  /** Port of the loopback address, as the command sees it, on which the proxy answers; `undefined` without a proxy. */
  readonly proxyPort: string | undefined
}

/** A sandbox that was set up. */
export interface Wall {
  /** Sandbox-specific part of starting a command. Its remains are removed when the scope ends. */
  readonly confine: (
    command: ChildProcess.StandardCommand,
    bounds: Bounds
  ) => Effect.Effect<ConfinedCommand, PlatformError | Schema.SchemaError, Scope.Scope>
  /** Password of the current tool call for the proxy; `undefined` if hosts are not asked about. */
  readonly caller: Effect.Effect<string | undefined, never, Scope.Scope>
  /** `shared`: a port on which a command listens is one of this machine. */
  readonly ports: "shared" | "own"
}

/** Parts that a sandbox is built from. */
export interface Site {
  readonly spawner: ChildProcessSpawner["Service"]
  /** Directory of the sandbox, without links, which ends with it. */
  readonly base: string
  readonly network: "none" | "all" | SandboxNetwork.Hosts
}

/** Walls of one operating system. */
export interface WallKind {
  readonly name: "bubblewrap" | "Seatbelt"
  /** Needs of a machine that can build it, as a request to the user. */
  readonly requirement: string
  /** Parts that were never tried on real machines, for `hermes doctor`; undefined where all were. */
  readonly untried: string | undefined
  /** `mounted`: a directory can be mounted at another path; `judged`: paths are the paths of the machine. */
  readonly paths: "mounted" | "judged"
  /** Part of the sandbox that stopped a command, by its output; `undefined` for every other failure. */
  readonly stoppedBy: (output: string) => "files" | "network" | undefined
  /** Finds its programs, and then builds it. */
  readonly make: (
    files: FileSystem.FileSystem
  ) => Effect.Effect<(site: Site) => Effect.Effect<Wall, NotBuilt, Scope.Scope>, NotBuilt>
}
