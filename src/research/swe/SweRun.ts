/**
 * Runs one task. Makes the workspace, runs the agent in the usual agent loop with only the tool `terminal`, makes a
 * patch from its changes, evaluates the patch, and returns the result row.
 *
 * **Details**
 *
 * The agent starts in a separate session (source `swe`), without context files and memory. It ends when a command
 * prints {@link sentinel}, when it answers without a tool call, or when it reaches its limits. The run is unattended:
 * `approvals.unattended_mode` decides on calls that need an approval. If the model fails, or the task exceeds its time
 * limit, the task fails and the next run retries it. The work done so far is passed to `onFailed`: trajectory, patch,
 * model, number of calls, usage and cost.
 *
 * Source: `hermes-product.md` §5.3, `hermes-llm.md` §20.3.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type { Agent } from "../../agent/Agent.ts"
import type { Limits } from "../../agent/Budget.ts"
import type { AgentError, ConfigError } from "../../base/domain/AgentError.ts"
import * as Cost from "../../base/domain/Cost.ts"
import * as Ids from "../../base/domain/Ids.ts"
import type * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { isCompletedExit, type RunEvent, type RunResult } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { CommandEnvironment, RemoteDirectory } from "../../places/CommandEnvironment.ts"
import type { SessionStore } from "../../store/SessionStorePort.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import type { Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as BatchRow from "../batch/BatchRow.ts"
import * as Outcome from "../batch/Outcome.ts"
import type * as RowPool from "../batch/RowPool.ts"
import * as ShareGpt from "../batch/ShareGpt.ts"
import * as RemoteWorkspace from "./RemoteWorkspace.ts"
import * as SweEvaluation from "./SweEvaluation.ts"
import type { SweTask } from "./SweTask.ts"
import * as TaskFolder from "./TaskFolder.ts"
import * as WorkingCopy from "./WorkingCopy.ts"

/** Text that a command prints when the task is done. */
export const sentinel = "MINI_SWE_AGENT_FINAL_OUTPUT"

/** Services of a runtime that a task uses. */
export interface Runtime {
  readonly agent: Agent["Service"]
  readonly store: SessionStore["Service"]
  readonly registry: ToolRegistry["Service"]
  /** Environment for setup and evaluation. It is of the same kind as the agent's environment, but separate from it. */
  readonly environment: CommandEnvironment["Service"]
  /** Source of the workspace files, if the task's image provides them. It replaces the task's own source. */
  readonly source?: WorkingCopy.Source | undefined
}

/** Service that opens the runtime in which a task runs. */
export class SweRuntime extends Context.Service<
  SweRuntime,
  { readonly open: (task: Pick<SweTask, "build" | "image">) => Effect.Effect<Runtime, ConfigError, Scope.Scope> }
>()("hermes-effect/runner/SweRuntime") {}

/** Settings of a run of tasks. */
export interface Settings {
  readonly maxIterations: number
  /** Additional limits of the agent in a task. The time limit comes from the task. */
  readonly budget?: Pick<Limits, "dollars" | "tokens"> | undefined
  /** Returns the seed for the model calls of a task. */
  readonly getSeed?: ((task: Pick<SweTask, "id">) => number) | undefined
  /** Decision on calls that need an approval. */
  readonly approvals: "deny" | "approve"
  /** Time limit for a setup, in seconds. */
  readonly setupSeconds: number
  /** Id of the agent's session. Defaults to a new one. */
  readonly sessionId?: string | undefined
  readonly onEvent?: ((task: SweTask, events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
}

/** Failures of a task, including workspaces that could not be made or prepared. */
type Failure = AgentError | ConfigError | WorkingCopy.WorkspaceError

/** Result of a task that was attempted. The task may be unsolved. */
export interface SolvedTask {
  readonly task: SweTask
  readonly patch: string
  readonly model: string
  readonly evaluated: SweEvaluation.PatchEvaluation | undefined
  readonly usage: Usage.Usage
  readonly costUsd: number | undefined
  readonly fields: Json.Fields
}

const terminalOnly: Selection = { toolset: (name) => name === "terminal", tool: (name) => name === "terminal" }

const systemPrompt = [
  "You solve one task of software engineering by commands. Your working directory is the root of the project, " +
    "which is yours alone: change its files until the task is done. " +
    "There is one tool, terminal, and each call of it is a new shell.",
  "Read what the task is about before you change anything. Make the smallest change that solves it, " +
    "in the style of the code around it. Check it by running what the project has for that, " +
    "and do not change tests that exist unless the task says so. Do not ask questions: there is no one to answer.",
  `When the task is done, run \`echo ${sentinel}\` as a command of its own. ` +
    "Everything that is not in a file then is lost."
].join("\n\n")

/** Workspace of a task, with its directories. */
interface TaskPlace {
  readonly placed: RemoteWorkspace.PlacedWorkspace
  /** Directory of the workspace on this machine. */
  readonly root: string
}

/** A task whose workspace is prepared. */
interface StartedTask {
  readonly task: SweTask
  readonly copy: WorkingCopy.WorkingCopy
  readonly place: TaskPlace
  readonly sessionId: Ids.SessionId
  /** Start time in milliseconds since 1970. */
  readonly began: number
  readonly work: AgentWork
}

/** Work of the agent so far, from the events of its run. */
interface AgentWork {
  isDone: boolean
  model: string
  calls: number
  usage: Usage.Usage
  cost: Cost.Total
}

const makeAgentWork = (): AgentWork => ({ isDone: false, model: "", calls: 0, usage: Usage.zero, cost: Cost.nothing })

const addEvent = (work: AgentWork, event: RunEvent): void => {
  switch (event._tag) {
    case "RunStarted":
      work.model = event.model
      break
    case "RouteChanged":
      work.model = event.to.model
      break
    case "UsageReported":
      work.usage = Usage.add(work.usage, event.usage)
      work.cost = Cost.addCall(work.cost, Cost.fromSpent(event.cost))
      break
    case "StepFinished":
      work.calls++
      break
  }
}

/** Runs the agent. The run is stopped when a command prints {@link sentinel}. */
const runAgent = Effect.fnUntraced(function* (
  { agent }: Runtime,
  { place: { placed, root }, sessionId, task, work }: StartedTask,
  settings: Settings,
  tell: RowPool.UsageReporter
) {
  const { cwd, isRemote } = placed
  const usage = BatchRow.makeUsageReporter(tell)
  const onEvent = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
    for (const event of events) addEvent(work, event)
    const told = Effect.andThen(settings.onEvent?.(task, events) ?? Effect.void, usage.onEvent(events))
    if (work.isDone || !events.some((event) => event._tag === "ToolFinished" && event.output.includes(sentinel)))
      return told
    work.isDone = true
    return Effect.andThen(told, agent.stop(sessionId))
  }
  return yield* agent
    .run({
      prompt: TaskFolder.renderInstruction(task, cwd),
      sessionId,
      source: "swe",
      platform: "swe",
      systemPrompt,
      // A directory on a remote machine does not exist on this machine.
      cwd: isRemote ? root : cwd,
      tools: terminalOnly,
      maxIterations: settings.maxIterations,
      budget: { ...settings.budget, seconds: task.agentSeconds },
      seed: settings.getSeed?.(task),
      streaming: false,
      readsText: false,
      onEvent
    })
    .pipe(
      Effect.provideService(InteractiveMode, makeUnattended("swe run", settings.approvals)),
      Effect.provideService(RemoteDirectory, isRemote ? cwd : undefined),
      Effect.onError(() => usage.rest)
    )
})

/** Reads the trajectory of a session. */
const readConversation = Effect.fnUntraced(function* ({ registry, store }: Runtime, sessionId: string) {
  const messages = yield* Effect.orElseSucceed(store.messages(Ids.SessionId.make(sessionId)), () => [])
  const { definitions } = yield* registry.snapshot(terminalOnly)
  return ShareGpt.toConversations(
    messages.filter(({ role }) => role !== "system"),
    definitions
  )
})

const getKnownCost = ({ cost }: RunResult): number | undefined =>
  cost.status === "unknown" && cost.usd === 0 ? undefined : (cost.usd ?? undefined)

const makeMetadata = ({ began, task }: StartedTask, { environment }: Runtime, settings: Settings, model: string) => {
  const seed = settings.getSeed?.(task)
  return {
    model,
    env_type: environment.name,
    timestamp: new Date(began).toISOString(),
    ...(seed === undefined ? {} : { seed })
  }
}

/** Maximum time for collecting the work of a failed task. */
const collectionTime = "30 seconds"

/** Reads the patch of an unfinished workspace. It is empty if it cannot be read. */
const readUnfinishedPatch = ({ copy, place: { placed } }: StartedTask) =>
  placed.collect.pipe(
    Effect.andThen(copy.patch),
    Effect.timeout(collectionTime),
    Effect.catch((error) =>
      Effect.as(Effect.logWarning(`swe: the patch of a failed task cannot be read: ${error.message}`), "")
    )
  )

/** Makes the row of a failed task from the work done so far. */
const makeFailedRow = Effect.fnUntraced(function* (
  started: StartedTask,
  runtime: Runtime,
  settings: Settings,
  error: unknown
) {
  const { began, sessionId, task, work } = started
  const newest = yield* Effect.orElseSucceed(runtime.store.newest(sessionId), () => sessionId)
  return {
    instance_id: task.id,
    conversations: yield* readConversation(runtime, newest),
    completed: false,
    api_calls: work.calls,
    metadata: makeMetadata(started, runtime, settings, work.model),
    outcome: Outcome.classifyFailure(error),
    error: Redaction.redactText(error instanceof Error ? error.message : String(error)),
    session_id: newest,
    model_patch: yield* readUnfinishedPatch(started),
    usage: Usage.toWire(work.usage),
    cost: Cost.toWire(Cost.toSpent(work.cost)),
    duration_ms: (yield* Clock.currentTimeMillis) - began
  }
})

/** Makes the workspace of a task, and runs its setup. */
const startTask = Effect.fnUntraced(function* (task: SweTask, runtime: Runtime, settings: Settings) {
  const began = yield* Clock.currentTimeMillis
  const copy = yield* WorkingCopy.make(runtime.source ?? task.source)
  const placed = yield* RemoteWorkspace.place(copy, task.prefix)
  const unprepared = yield* SweEvaluation.runSetup(task, placed.cwd, settings.setupSeconds).pipe(
    Effect.catch(({ message }) => Effect.succeed(message))
  )
  if (unprepared !== undefined) return yield* new WorkingCopy.WorkspaceError({ message: unprepared })
  const started: StartedTask = {
    task,
    copy,
    place: { placed, root: copy.directory },
    sessionId: settings.sessionId === undefined ? yield* Ids.makeSessionId : Ids.SessionId.make(settings.sessionId),
    began,
    work: makeAgentWork()
  }
  return started
})

/** Evaluates the result of a task, if it has tests. */
const evaluateTask = ({ copy, place: { placed }, task }: StartedTask, patch: string) => {
  const { check } = task
  if (check === undefined) return Effect.undefined
  return check.folder === undefined
    ? SweEvaluation.evaluatePatch(task, check, patch)
    : SweEvaluation.evaluateFolder(check, check.folder, copy.directory, placed)
}

/**
 * Runs one task. If the model fails or the task is interrupted, `onFailed` receives the row with the work done so far.
 * `tell` receives the usage of each step.
 */
export const run = Effect.fn("SweRun.run")(function* (
  task: SweTask,
  settings: Settings,
  onFailed: (fields: Json.Fields) => Effect.Effect<void>,
  tell: RowPool.UsageReporter = () => Effect.void
): Effect.fn.Return<SolvedTask, Failure, SweRuntime | WorkingCopy.Needs | Scope.Scope> {
  const runtime = yield* (yield* SweRuntime).open(task)
  const inPlace = Effect.provideService(CommandEnvironment, runtime.environment)
  const started = yield* inPlace(startTask(task, runtime, settings))
  const { copy, place, work } = started
  const recordFailure = (error: unknown) => Effect.flatMap(makeFailedRow(started, runtime, settings, error), onFailed)
  const result = yield* runAgent(runtime, started, settings, tell).pipe(
    Effect.onExit((exit) =>
      Exit.isFailure(exit)
        ? recordFailure(
            Cause.hasInterruptsOnly(exit.cause) ? new Error("the task was interrupted") : Cause.squash(exit.cause)
          )
        : Effect.void
    )
  )
  const { exit, model, steps, usage } = result
  yield* place.placed.collect
  const patch = yield* copy.patch
  const evaluated = yield* inPlace(evaluateTask(started, patch))
  return {
    task,
    patch,
    model,
    evaluated,
    usage,
    costUsd: getKnownCost(result),
    fields: {
      instance_id: task.id,
      conversations: yield* readConversation(runtime, result.sessionId),
      completed: work.isDone || isCompletedExit(exit),
      api_calls: steps,
      metadata: makeMetadata(started, runtime, settings, model),
      exit: work.isDone ? "final_output" : exit,
      session_id: result.sessionId,
      model_patch: patch,
      usage: Usage.toWire(usage),
      cost: Cost.toWire(result.cost),
      duration_ms: (yield* Clock.currentTimeMillis) - started.began,
      ...(evaluated === undefined ? {} : { evaluation: SweEvaluation.toWire(evaluated) })
    }
  }
})
