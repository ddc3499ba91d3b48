/**
 * Options of one start of a program besides its settings, used by `Runtime.program` and by the service through which
 * commands get a runtime. Contains only types.
 */
import type { ReservedNames } from "../../agent/plugin/Registration.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type * as ShellHooks from "../../hooks/ShellHooks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import type * as SessionStore from "../../store/SessionStore.ts"

/** Substitutes for the configured models, and the recording of exchanges. */
export interface Substitutes {
  /** File with a scenario that answers instead of a model. */
  readonly script?: string | undefined
  /** File with a recording that answers instead of a model. */
  readonly replay?: string | undefined
  /** True if the built-in stand-in answers, regardless of the configuration. */
  readonly withoutModel?: boolean | undefined
  /** File to which the exchanges with the model are appended. */
  readonly record?: string | undefined
}

/** Options of one start of a program besides its settings. */
export interface Start extends Substitutes {
  /**
   * Agent file whose middleware, prompt and sub-agents are used. Its settings are already part of the program's
   * settings.
   */
  readonly agentFile?: AgentFile | undefined
  /**
   * Behaviour if the settings name neither a model nor the built-in stand-in: `refused` makes the layer fail with one
   * line, and `standIn` lets the stand-in answer, for a caller that informed its user or calls no model. Default:
   * `refused`.
   */
  readonly unconfigured?: "refused" | "standIn" | undefined
  /** Asks whether a shell hook may run; `undefined` if the user cannot be asked. */
  readonly confirmHook?: ShellHooks.Settings["confirm"]
  /** Excludes the user's files from new sessions: `SOUL.md`, project files, memory. */
  readonly ignoreRules?: boolean | undefined
  /** Disables the search for plugins, including a plugin directory named by the environment. */
  readonly safeMode?: boolean | undefined
  /** Includes the session id in the system prompts of new sessions. */
  readonly passSessionId?: boolean | undefined
  /** Command names that plugins cannot use. */
  readonly reserved?: ReservedNames | undefined
  /** Stored session that the program continues. */
  readonly session?: SessionId | undefined
  /** Directory in which commands run, if it is not the working directory. */
  readonly folder?: string | undefined
  /**
   * Database of the sessions and the run record, from which entries are never removed. Default: the database of the
   * home directory.
   */
  readonly database?: string | undefined
  /** Session store and run record shared by several processes, instead of a file. */
  readonly store?: ReturnType<typeof SessionStore.layerPostgres> | undefined
  /**
   * Disables the recording of file changes by tools, for workspaces that the program created and whose changes are
   * never undone.
   */
  readonly withoutChanges?: boolean | undefined
  /** Returns the container image for a working tree, which replaces the image in the settings. */
  readonly findImage?: ((tree: string) => string | undefined) | undefined
  /** Wraps the command environment in which tools work. */
  readonly environment?: ((environment: CommandEnvironment.Service) => CommandEnvironment.Service) | undefined
  /** Innermost middleware, which receives the requests exactly as they are sent. */
  readonly middleware?: ReadonlyArray<Middleware.Contained> | undefined
}
