/**
 * The services that a run works with.
 */
import type { Interceptors } from "../middleware/Interceptors.ts"
import type { Service as Compaction } from "../routing/CompactionPort.ts"
import type { Service as ModelRouter } from "../routing/ModelRouter.ts"
import type { UsageAccounts } from "../routing/UsageAccounts.ts"
import type { Service as RunRecord } from "../session/RunRecord.ts"
import type { Service as SessionStore } from "../session/SessionStore.ts"
import type { Service as Approvals } from "../tool/Approvals.ts"
import type { Service as ToolRegistry } from "../tool/ToolRegistry.ts"
import type { Service as FileState } from "../tool/builtin/file/FileState.ts"
import type { Service as Children } from "./Children.ts"
import type { AgentSettings } from "./RunInput.ts"

/** Services of a run. `E` is what the middleware of the stack can fail a model call with; it stands in the type alone. */
export interface Services<out E = never> {
  readonly Error?: E
  readonly router: ModelRouter
  readonly registry: ToolRegistry
  readonly store: SessionStore
  /** Record of every run; absent where nothing is recorded. */
  readonly record: RunRecord | undefined
  readonly interceptors: Interceptors
  readonly approvals: Approvals
  /** Makes conversations smaller that do not fit. */
  readonly compaction: Compaction
  /** The children at work, of all runs. */
  readonly children: Children
  /** Ledger in which side tasks charge the runs that they work for; absent where there are none. */
  readonly accounts: UsageAccounts["Service"] | undefined
  /** Record of who read and wrote which file; absent where there are no file tools. */
  readonly files: FileState | undefined
  readonly settings: AgentSettings
}
