/**
 * Options of one start of a program besides its settings: for `Runtime.program`, and of the port through which the
 * commands get a runtime. Types alone.
 */
import type { ReservedNames } from "../../agent/plugin/Registration.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type * as ShellHooks from "../../hooks/ShellHooks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import type * as SessionStore from "../../store/SessionStore.ts"

/** Substitutes of the configured models, and the recording of the exchange. */
export interface Substitutes {
  /** File with a scenario that answers in place of a model. */
  readonly script?: string | undefined
  /** File with a recording that answers in place of a model. */
  readonly replay?: string | undefined
  /** The built-in stand-in answers, whatever is configured. */
  readonly withoutModel?: boolean | undefined
  /** File that the exchanges with the model are appended to. */
  readonly record?: string | undefined
}

/** Choices of one start of a program besides its settings. */
export interface Start extends Substitutes {
  /** Agent file whose middleware, prompt and sub-agents count; its settings are among the settings already. */
  readonly agentFile?: AgentFile | undefined
  /**
   * Result of settings that name neither a model nor the built-in stand-in: the layer fails with one line (`refused`,
   * when absent), or the stand-in answers, for a caller whose user was told so or that asks no model.
   */
  readonly unconfigured?: "refused" | "standIn" | undefined
  /** Asks whether a shell hook may run; absent if the user cannot be asked. */
  readonly confirmHook?: ShellHooks.Settings["confirm"]
  /** Starts new sessions without the user's files: `SOUL.md`, project files, memory. */
  readonly ignoreRules?: boolean | undefined
  /** No plugin is looked for, also none of a directory that the environment names. */
  readonly safeMode?: boolean | undefined
  /** System prompts of new sessions have the session's id. */
  readonly passSessionId?: boolean | undefined
  /** Names of commands that plugins cannot have. */
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
  /** Sessions and run record of several processes, in the place of a file. */
  readonly store?: ReturnType<typeof SessionStore.layerPostgres> | undefined
  /** Does not record file changes by tools: changes in the program's own workspaces are never undone. */
  readonly withoutChanges?: boolean | undefined
  /** Image of the container for a working tree, in the place of the settings' one. */
  readonly findImage?: ((tree: string) => string | undefined) | undefined
  /** Puts something in front of the place where tools work. */
  readonly environment?: ((environment: CommandEnvironment.Service) => CommandEnvironment.Service) | undefined
  /** Middleware inside of all other: it sees the requests that are really sent. */
  readonly middleware?: ReadonlyArray<Middleware.Contained> | undefined
}
