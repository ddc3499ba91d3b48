/**
 * The port through which the tool `delegate_task` has other agents work. The agent implements it for each of its runs,
 * so that a child always belongs to the run that asked for it.
 *
 * Source: `hermes-product.md` §3, `ARCHITECTURE.md` §4 and §7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Role of a child. An `orchestrator` may delegate further; a `leaf` may not. */
export const Role = Schema.Literals(["leaf", "orchestrator"])
/** See {@link Role}. */
export type Role = typeof Role.Type

/** A task for one child. */
export interface Task {
  readonly goal: string
  readonly context?: string | undefined
  /** Toolsets of the child, selected from the parent's toolsets. By default, the child has all of them. */
  readonly toolsets?: ReadonlyArray<string> | undefined
  readonly role: Role
  /**
   * Name of the sub-agent that does the task (`DelegationSettings.agents`). By default, the child has the same
   * configuration as its parent.
   */
  readonly agent?: string | undefined
}

/**
 * Final status of a child. `exit_reason` in its report says whether the work is complete. A child that is `suspended`
 * waits for an answer and continues after it; it has no report yet.
 */
export const ChildStatus = Schema.Literals([
  "completed",
  "partial",
  "failed",
  "interrupted",
  "timeout",
  "error",
  "suspended"
])
/** See {@link ChildStatus}. */
export type ChildStatus = typeof ChildStatus.Type

/** One tool call of a child. */
const TraceEntry = Schema.Struct({
  tool: Schema.String,
  args_bytes: Schema.Int,
  result_bytes: Schema.Int,
  status: Schema.String
})

/** Report of a child to its parent, with the field names of the contract. */
export const ChildReport = Schema.Struct({
  task_index: Schema.Int,
  status: ChildStatus,
  summary: Schema.String,
  api_calls: Schema.Int,
  duration_seconds: Schema.Finite,
  model: Schema.String,
  exit_reason: Schema.String,
  tokens: Schema.Struct({ input: Schema.Int, output: Schema.Int }),
  tool_trace: Schema.Array(TraceEntry),
  session_id: Schema.String,
  error: Schema.optionalKey(Schema.String),
  /**
   * Files that the parent had read and that the child has changed since. The parent's view of these files is outdated.
   */
  stale_paths: Schema.optionalKey(Schema.Array(Schema.String))
})
/** See {@link ChildReport}. */
export type ChildReport = typeof ChildReport.Type

/** Receipt for a child that runs in the background. */
export const Dispatched = Schema.Struct({
  status: Schema.Literal("dispatched"),
  delegation_id: Schema.String,
  goal: Schema.String,
  mode: Schema.Literal("background"),
  session_id: Schema.String,
  note: Schema.String
})
/** See {@link Dispatched}. */
export type Dispatched = typeof Dispatched.Type

/** Error raised when a delegation is refused. `message` tells the model what to do instead. */
export class DelegationRefused extends Schema.TaggedError<DelegationRefused>("hermes-effect/DelegationRefused")(
  "DelegationRefused",
  { message: Schema.String }
) {}

/** The port through which the tool `delegate_task` has other agents work. */
export interface Service {
  /** Runs a child for each task, several at a time, and waits for all; the reports are in the order of the tasks. */
  readonly delegate: (tasks: ReadonlyArray<Task>) => Effect.Effect<ReadonlyArray<ChildReport>, DelegationRefused>
  /** Starts a child in the background. The parent continues, and the child's report arrives later as a message. */
  readonly dispatch: (task: Task) => Effect.Effect<Dispatched, DelegationRefused>
}

const alone = Effect.suspend(() =>
  Effect.fail(new DelegationRefused({ message: "delegation is not available in this runtime" }))
)
const nobody: Service = { delegate: () => alone, dispatch: () => alone }

/** The port through which the tool `delegate_task` delegates to other agents. It is not available outside a run. */
export const Delegator = Context.Reference<Service>("hermes-effect/tool/Delegator", { defaultValue: () => nobody })
