/**
 * The service through which commands get a runtime built from the user's settings. The entry point of the program
 * provides it, so that a command loads the runtime only when needed.
 */
import * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import type { Agent } from "../../agent/Agent.ts"
import type { BackgroundWork } from "../../agent/BackgroundWork.ts"
import type { Children } from "../../agent/Children.ts"
import type { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import type { SkillStore } from "../../tools/prompt/SkillStore.ts"
import type { Plugins } from "../../agent/plugin/Plugins.ts"
import type { Auxiliary } from "../../models/routing/Auxiliary.ts"
import type { ModelRouter } from "../../models/routing/ModelRouter.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { SessionSearch } from "../../store/SessionSearch.ts"
import type { SessionStore } from "../../store/SessionStore.ts"
import type { FileUndo } from "../../tools/FileUndo.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { Start } from "../runtime/ProgramStart.ts"

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

/** Services that a runtime needs. */
type Needs = Home | Environment

/** The function with which commands build the runtime of the program. Tests replace it. */
export interface Service {
  readonly layer: (settings: Values, start: Start) => Layer.Layer<Services, ConfigError, Needs>
}

/** Service that builds the runtime of a command from settings. */
export class Program extends Context.Service<Program, Service>()("hermes-effect/cli/Program") {}
