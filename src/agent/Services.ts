/** Services that the runs of an agent use, provided in the context of each run. */
import * as Context from "effect/Context"
import type { PhaseFailure } from "../middleware/LifecycleStack.ts"
import type { Interceptors } from "../models/routing/Interceptors.ts"
import type { Service as MemoryProvider } from "../base/domain/MemoryProvider.ts"
import type { FolderBranch } from "../base/domain/FolderBranch.ts"
import type { PromptSources } from "../tools/prompt/SystemPrompt.ts"
import type { Service as Compaction } from "../models/routing/CompactionPort.ts"
import type { Service as ModelRouter } from "../models/routing/ModelRouter.ts"
import type { UsageAccounts } from "./Budget.ts"
import type { Service as RunRecord } from "../store/RunRecord.ts"
import type { Service as SessionStore } from "../store/SessionStore.ts"
import type { Service as Approvals } from "../tools/Approvals.ts"
import type { Service as ToolRegistry } from "../tools/ToolRegistry.ts"
import type { Service as FileState } from "../tools/builtin/file/FileState.ts"
import type { Service as Children } from "./Children.ts"
import type { AgentSettings } from "./RunInput.ts"

/** A failure of middleware. The agent's type names its exact type, and this module does not inspect it. */
export type MiddlewareFailure = PhaseFailure | ForeignFailure

interface ForeignFailure {
  readonly "~hermes-effect/agent/MiddlewareFailure": never
}

/** Services of an agent. */
export interface AgentServices {
  readonly router: ModelRouter
  readonly registry: ToolRegistry
  readonly store: SessionStore
  /** Record of every run; absent if runs are not recorded. */
  readonly record: RunRecord | undefined
  readonly interceptors: Interceptors
  readonly approvals: Approvals
  /** Compacts conversations that do not fit. */
  readonly compaction: Compaction
  /** Running children of all runs. */
  readonly children: Children
  /**
   * Accounts through which side tasks are charged to the runs that they work for. Absent if there are no side tasks.
   */
  readonly accounts: UsageAccounts["Service"] | undefined
  /** Record of file reads and writes; absent if there are no file tools. */
  readonly files: FileState | undefined
  /** External memory; absent if not configured. */
  readonly memory: MemoryProvider | undefined
  /** Sources of text about the machine and the user's files, for the system prompts of new sessions. */
  readonly promptSources: (typeof PromptSources)["Service"]
  /** Reads the branch with which a new session is stored. */
  readonly folderBranch: (typeof FolderBranch)["Service"]
  readonly settings: AgentSettings
}

/** Service key for the services of the running agent. */
export class Services extends Context.Service<Services, AgentServices>()("hermes-effect/agent/Services") {}
