/**
 * The part of a sandbox that differs by operating system: starting a command in the sandbox, and detecting that the
 * sandbox stopped a command. Policies, rules, hosts, variables and questions are the same for all (`Sandbox`).
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
   * True if the reason is temporary and not a property of the machine, such as a lack of descriptors, processes or
   * space.
   */
  isPassing: Schema.optionalKey(Schema.Boolean)
}) {}

/** Limits of one command. */
export interface Bounds {
  readonly rules: ReadonlyArray<Rule>
  /** Working directory of the command. */
  readonly directory: string
}

/** A command in the form in which this machine starts it. */
export interface ConfinedCommand {
  readonly program: string
  readonly args: ChildProcess.StandardCommand["args"]
  /** Working directory of the program. */
  readonly directory: string
  /** Port of the loopback address on which the command reaches the proxy, `undefined` without a proxy. */
  readonly proxyPort: string | undefined
}

/** A sandbox that was set up. */
export interface Wall {
  /** Converts a command to its form for the sandbox. Temporary resources are removed when the scope closes. */
  readonly confine: (
    command: ChildProcess.StandardCommand,
    bounds: Bounds
  ) => Effect.Effect<ConfinedCommand, PlatformError | Schema.SchemaError, Scope.Scope>
  /** Password of the current tool call for the proxy, `undefined` if the user is not asked about hosts. */
  readonly caller: Effect.Effect<string | undefined, never, Scope.Scope>
  /** With `shared`, a port on which a command listens is a port on this machine. */
  readonly ports: "shared" | "own"
}

/** Resources from which a sandbox is built. */
export interface Site {
  readonly spawner: ChildProcessSpawner["Service"]
  /** Real path of the directory of the sandbox, which is removed with it. */
  readonly base: string
  readonly network: "none" | "all" | SandboxNetwork.Hosts
}

/** Kind of sandbox for one operating system. */
export interface WallKind {
  readonly name: "bubblewrap" | "Seatbelt"
  /** Requirements for a machine, worded as a request to the user. */
  readonly requirement: string
  /** Parts that were never tested on real machines, for `hermes doctor`. `undefined` if all parts were tested. */
  readonly untried: string | undefined
  /**
   * With `mounted`, a directory can be mounted at another path. With `judged`, paths are the same as on the machine.
   */
  readonly paths: "mounted" | "judged"
  /**
   * Returns the part of the sandbox that stopped a command, based on its output. `undefined` for every other failure.
   */
  readonly stoppedBy: (output: string) => "files" | "network" | undefined
  /** Finds the programs that build the sandbox, and then builds it. */
  readonly make: (
    files: FileSystem.FileSystem
  ) => Effect.Effect<(site: Site) => Effect.Effect<Wall, NotBuilt, Scope.Scope>, NotBuilt>
}
