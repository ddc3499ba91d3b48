/**
 * The port through which the tool `delegate_task` has other agents work. The agent implements it for each of its runs,
 * so that a child always belongs to the run that asked for it.
 *
 * Source: `hermes-product.md` §3, `ARCHITECTURE.md` §4 and §7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** True when a child may delegate on its own. */
export const Role = Schema.Literals(["leaf", "orchestrator"])
/** See {@link Role}. */
export type Role = typeof Role.Type

/** A task for one child. */
export interface Task {
  readonly goal: string
  readonly context?: string | undefined
  /** Of the parent's toolsets; all of them when absent. */
  readonly toolsets?: ReadonlyArray<string> | undefined
  readonly role: Role
  /** Name of the sub-agent that does it (`DelegationSettings.agents`); absent: a child like its parent. */
  readonly agent?: string | undefined
}

/** Status in which a child ended; its `exit_reason` says whether the work is whole. */
export const ChildStatus = Schema.Literals(["completed", "partial", "failed", "interrupted", "timeout", "error"])
/** See {@link ChildStatus}. */
export type ChildStatus = typeof ChildStatus.Type

/** One tool call of a child. */
const TraceEntry = Schema.Struct({
  tool: Schema.String,
  args_bytes: Schema.Int,
  result_bytes: Schema.Int,
  status: Schema.String
})

/** Report of a child to its parent, under the contract's names. */
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
  /** Files that the parent had read and that the child changed since, so that the parent's view of them is outdated. */
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
  /**
   * Starts a child that works on while its parent does something else, or nothing; its report comes as a message later.
   */
  readonly dispatch: (task: Task) => Effect.Effect<Dispatched, DelegationRefused>
}

const alone = Effect.fail(new DelegationRefused({ message: "delegation is not available in this runtime" }))
const nobody: Service = { delegate: () => alone, dispatch: () => alone }

/** The port through which the tool `delegate_task` delegates to other agents. It is not available outside a run. */
export const Delegator = Context.Reference<Service>("hermes-effect/tool/Delegator", { defaultValue: () => nobody })
