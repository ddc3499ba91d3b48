/**
 * The port to a runtime that is made of the user's settings. Commands know what it gives; the program's entry, which
 * may know everything, fills it.
 */
import * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import type { Agent } from "../../agent/Agent.ts"
import type { BackgroundWork } from "../../agent/BackgroundWork.ts"
import type { Children } from "../../agent/Children.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import type * as ShellHooks from "../../hooks/ShellHooks.ts"
import type { Contained } from "../../middleware/Middleware.ts"
import type { SkillStore } from "../../tools/prompt/SkillStore.ts"
import type { Plugins } from "../../agent/plugin/Plugins.ts"
import type { ReservedNames } from "../../agent/plugin/Registration.ts"
import type { Auxiliary } from "../../models/routing/Auxiliary.ts"
import type { ModelRouter } from "../../models/routing/ModelRouter.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import type { layerPostgres, SessionStore } from "../../store/SessionStore.ts"
import type { FileUndo } from "../../tools/FileUndo.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"

/** Start options besides the settings. */
export interface Start {
  /** Agent file whose middleware, prompt and sub-agents count; its settings are among the settings already. */
  readonly agentFile?: AgentFile | undefined
  /** File with a scenario that answers in place of a model. */
  readonly script?: string | undefined
  /** File that the exchanges with the model are appended to. */
  readonly record?: string | undefined
  /** File with a recording that answers in place of a model. */
  readonly replay?: string | undefined
  /** No model is needed: the built-in stand-in is there, and nothing is asked of the configuration of one. */
  readonly withoutModel?: boolean | undefined
  /** Result of settings that name neither a model nor the stand-in: an error (when absent), or the stand-in answers. */
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
  readonly store?: ReturnType<typeof layerPostgres> | undefined
  /** Does not record file changes by tools: changes in the program's own workspaces are never undone. */
  readonly withoutChanges?: boolean | undefined
  /** Image of the container for a working tree, in the place of the settings' one. */
  readonly imageOf?: ((tree: string) => string | undefined) | undefined
  /** Puts something in front of the place where tools work. */
  readonly environment?: ((environment: CommandEnvironment["Service"]) => CommandEnvironment["Service"]) | undefined
  /** Middleware inside of all other: it sees the requests that are really sent. */
  readonly middleware?: ReadonlyArray<Contained> | undefined
}

/** Services of a runtime. */
type Services =
  | Agent
  | BackgroundWork
  | Children
  | Auxiliary
  | FileUndo
  | ModelRouter
  | Plugins
  | ToolRegistry
  | SkillStore
  | SessionStore
  | SessionSearch
  | RunRecord
  | Hooks

/** Options of a runtime. */
type Needs = Home | Environment

export interface Service {
  readonly layer: (settings: Values, start: Start) => Layer.Layer<Services, ConfigError, Needs>
}

export class Program extends Context.Service<Program, Service>()("hermes-effect/cli/Program") {}
