/**
 * Plans, announces, runs and reports one child of a run.
 *
 * **Details**
 *
 * A child has the toolsets that its task requests, with composite toolsets expanded, as far as the parent has them.
 * Without a request it has all of the parent's toolsets. A child never has tools that talk to the user, store memories
 * for the user or start further work; a child that may delegate gets the delegation tool back. Toolsets of MCP servers
 * are added to the requested ones unless the settings say otherwise.
 *
 * Source: `hermes-product.md` §3.3–3.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Ids from "../base/domain/Ids.ts"
import type { RecordEvent } from "../base/domain/RecordEvent.ts"
import type { RunEvent, RunResult } from "../base/domain/RunEvent.ts"
import * as Usage from "../base/domain/Usage.ts"
import { CallConversation } from "../base/domain/CallContext.ts"
import { Correlation } from "../hooks/Correlation.ts"
import * as Digest from "../base/platform/Digest.ts"
import * as PairedEvents from "../hooks/PairedEvents.ts"
import { InteractiveMode, StartingSessions, makeUnattended } from "../tools/approval/InteractiveMode.ts"
import type * as Delegator from "../tools/Delegator.ts"
import type { Task } from "../tools/Delegator.ts"
import type { Selection } from "../tools/ToolRegistry.ts"
import * as Toolsets from "../tools/Toolsets.ts"
import * as ChildWatch from "./ChildWatch.ts"
import * as RunCut from "./RunCut.ts"
import { emit, type Lineage, type RunState, reportUsage } from "./RunState.ts"
import type { RunOptions, SubAgent } from "./RunInput.ts"
import { Services } from "./Services.ts"

/** Tools that a child never has. */
const withheld: ReadonlySet<string> = new Set(["clarify", "memory", "send_message", "execute_code", "cronjob", "Agent"])

/** Parent tools, request and settings from which the tools of a child are selected. */
interface ToolSelectionInput {
  readonly parent: Selection
  /** Names of all registered toolsets. */
  readonly registered: ReadonlyArray<string>
  readonly mayDelegate: boolean
  /** True if the toolsets of MCP servers stay available in addition to those that a task requests. */
  readonly keepMcp: boolean
}

const resolveToolsets = (
  toolsets: ReadonlyArray<string>,
  registered: ReadonlyArray<string>
): Toolsets.ResolvedToolsets => Toolsets.resolve({ toolsets, foreign: registered })

/**
 * Returns a sentence for the model that lists the requested toolsets that do not exist, or `undefined` if all exist.
 */
export const describeUnknownToolset = (
  { toolsets = [] }: Pick<Task, "toolsets">,
  registered: ReadonlyArray<string>
): string | undefined => {
  const [unknown] = resolveToolsets(toolsets, registered).unknown
  if (unknown === undefined) return undefined
  const meant =
    unknown.nearest === undefined
      ? "leave toolsets out to give the child all of yours"
      : `did you mean "${unknown.nearest}"?`
  return `there is no toolset "${unknown.name}": ${meant}`
}

/** Selects the tools of a child from the parent's tools. */
const selectTools = (
  task: Pick<Task, "toolsets">,
  { keepMcp, mayDelegate, parent, registered }: ToolSelectionInput
): Selection => {
  const asked = task.toolsets === undefined ? undefined : resolveToolsets(task.toolsets, registered).selection
  return {
    toolset: (name) =>
      (parent.toolset?.(name) ?? true) &&
      parent.ofRunAlone?.(name) !== true &&
      (asked === undefined ||
        (asked.toolset?.(name) ?? true) ||
        (keepMcp && name.startsWith("mcp-")) ||
        (mayDelegate && name === "delegation")),
    tool: (name) =>
      (parent.tool?.(name) ?? true) &&
      !withheld.has(name) &&
      (name === "delegate_task" ? mayDelegate : (asked?.tool?.(name) ?? true))
  }
}

/** Agent functions that run and stop the sessions of children. */
export interface Agent {
  readonly run: (input: RunOptions, lineage: Lineage) => Effect.Effect<RunResult, unknown>
  readonly stop: (sessionId: string) => Effect.Effect<boolean>
}

/** Data that is common to the children of one run. */
export interface Family {
  readonly parent: RunState
  readonly cwd: string
  readonly agent: Agent
  /** Delegation depth of the children. */
  readonly depth: number
  /** True if a child with the orchestrator role can delegate. */
  readonly mayDelegate: boolean
  readonly maxIterations: number
}

/** A child. */
export interface Child {
  readonly index: number
  readonly task: Delegator.Task
  readonly sessionId: Ids.SessionId
  readonly lineage: Lineage
  /** Id of the delegation of a background child. */
  readonly delegationId: string | undefined
  readonly input: RunOptions
  readonly watched: ChildWatch.ChildProgress
  readonly startedAt: number
  /** Ids for the hook payloads. */
  readonly link: Link
  model: string
  /** Outcome of the child, `undefined` until it ends. */
  ending: (ChildWatch.ChildEnding & { readonly durationMillis: number }) | undefined
}

interface Link {
  readonly parent_session_id: Ids.SessionId
  readonly parent_turn_id: Ids.TurnId
  readonly parent_tool_call_id?: Ids.ToolCallId
  readonly parent_subagent_id: string
  readonly child_session_id: Ids.SessionId
  readonly child_subagent_id: string
  readonly child_role: string
}

const renderPrompt = ({ context, goal }: Delegator.Task, cwd: string, sessionId: Ids.SessionId | undefined): string =>
  [
    goal,
    ...(context === undefined || context.trim() === "" ? [] : [`Context:\n${context}`]),
    `Working directory: ${cwd}${sessionId === undefined ? "" : `\nSession ID: ${sessionId}`}`,
    "You work on your own: no question will be answered. When you are done, reply with a summary for the agent that gave you " +
      "this task: what you did, what you found, which files you changed, and what is left."
  ].join("\n\n")

/** Chooses the tools of a child, and returns the {@link Lineage} field `kind` of children with them. */
const chooseTools = Effect.fnUntraced(function* (
  { mayDelegate, parent }: Family,
  task: Task,
  named: SubAgent | undefined,
  registered: ReadonlyArray<string>
): Effect.fn.Return<{ readonly tools: Selection; readonly kind: string }, never, Services> {
  const { registry, settings } = yield* Services
  const own = named?.tools === undefined ? undefined : Toolsets.choose(named.tools, yield* registry.list, []).selection
  const tools = selectTools(task, {
    parent: own ?? parent.tools,
    registered,
    mayDelegate: mayDelegate && task.role === "orchestrator",
    keepMcp: settings.delegation?.inheritMcpToolsets ?? true
  })
  const { names } = yield* registry.snapshot(tools)
  const above = parent.lineage?.kind ?? parent.conversationId
  return { tools, kind: `${above}:${Digest.toHex([task.agent ?? "", ...names].join("\n"), 12)}` }
})

/** Plans a child without announcing it. */
export const plan = Effect.fnUntraced(function* (
  family: Family,
  task: Delegator.Task,
  index: number,
  registered: ReadonlyArray<string>,
  delegationId?: string
): Effect.fn.Return<Child, never, Services> {
  const { cwd, depth, maxIterations, parent } = family
  const { settings } = yield* Services
  const delegation = settings.delegation ?? {}
  const named = delegation.agents?.find(({ name }) => name === task.agent)
  const subagentId = `sa-${index}-${yield* Ids.makeHex(8)}`
  const sessionId = yield* Ids.makeSessionId
  const { tool_call_id: callId } = yield* Correlation
  const watched = ChildWatch.makeProgress()
  // A background child is not part of the run that started it, but its spending is charged to that run even after its
  // end.
  const watch = ChildWatch.watch(subagentId, watched, (events) =>
    delegationId === undefined && !parent.phase.isOver
      ? emit(parent, ...events)
      : reportUsage(
          parent,
          events.filter((event) => event._tag === "UsageReported")
        )
  )
  const route =
    named?.route === "parent" ? parent.routeWanted : (named?.route ?? delegation.route ?? parent.routeWanted)
  const agentName = task.agent ?? parent.lineage?.agent
  const { kind, tools } = yield* chooseTools(family, { ...task, agent: agentName }, named, registered)
  const lineage: Lineage = {
    parentSessionId: parent.sessionId,
    above: [parent.sessionId, ...(parent.lineage?.above ?? [])],
    parentTurnId: parent.turnId,
    parentSubagentId: parent.lineage?.subagentId ?? "",
    subagentId,
    callId: callId === "" ? undefined : callId,
    goal: task.goal,
    agent: agentName,
    depth,
    kind,
    budget: parent.budget
  }
  return {
    index,
    task,
    sessionId,
    lineage,
    delegationId,
    watched,
    startedAt: yield* Clock.currentTimeMillis,
    link: {
      parent_session_id: parent.sessionId,
      parent_turn_id: parent.turnId,
      ...(callId === "" ? {} : { parent_tool_call_id: callId }),
      parent_subagent_id: lineage.parentSubagentId,
      child_session_id: sessionId,
      child_subagent_id: subagentId,
      child_role: task.role
    },
    input: {
      prompt: renderPrompt(task, cwd, settings.passSessionId === true ? sessionId : undefined),
      sessionId,
      source: "subagent",
      platform: parent.platform,
      cwd,
      tools,
      maxIterations: named?.maxIterations ?? maxIterations,
      streaming: parent.streaming,
      readsText: false,
      reasoningEffort: named?.settings?.reasoningEffort ?? delegation.reasoningEffort ?? parent.reasoningEffort,
      route,
      onEvent: watch,
      onUsageAfter: watch
    },
    model: route?.model ?? parent.questions.route.model,
    ending: undefined
  }
})

/** Creates the `subagent_stop` event of a child that ended or was interrupted. */
export const makeStopEvent = (child: Child): PairedEvents.Event<"subagent_stop"> => [
  "subagent_stop",
  () => {
    const { durationMillis, status, summary } = child.ending ?? {
      ...ChildWatch.makeInterruptedEnding(child.watched),
      durationMillis: 0
    }
    return {
      ...child.link,
      child_summary: summary === "" ? null : summary,
      child_status: status,
      duration_ms: Math.max(0, Math.round(durationMillis))
    }
  }
]

/** Announces a child. The caller that receives the span closes it with {@link makeStopEvent}. */
export const announce = (
  child: Child
): Effect.Effect<PairedEvents.Span<"subagent_start">, never, Scope.Scope | Services> =>
  Effect.flatMap(Services, ({ interceptors }) =>
    PairedEvents.open<"subagent_start">(interceptors.hooks, {
      open: ["subagent_start", () => ({ ...child.link, child_goal: child.task.goal })],
      otherwise: () => makeStopEvent(child)
    })
  )

/** Builds the result that the parent receives for a child, complete or not. */
export const buildReport = Effect.fnUntraced(function* (
  { parent }: Family,
  child: Child
): Effect.fn.Return<Delegator.ChildReport, never, Services> {
  const { files } = yield* Services
  const { ending, index, sessionId, watched } = child
  const now = yield* Clock.currentTimeMillis
  const { durationMillis, error, exit, status, summary } = ending ?? {
    ...ChildWatch.makeInterruptedEnding(watched),
    durationMillis: now - child.startedAt
  }
  const stale = files === undefined ? [] : yield* files.stale(parent.sessionId, new Set([sessionId, ...watched.below]))
  return {
    task_index: index,
    status,
    summary,
    api_calls: watched.steps,
    duration_seconds: durationMillis / 1000,
    model: child.model,
    exit_reason: exit,
    tokens: { input: Usage.countPromptTokens(watched.usage), output: watched.usage.outputTokens },
    tool_trace: watched.trace,
    session_id: sessionId,
    ...(error === undefined ? {} : { error }),
    ...(stale.length === 0 ? {} : { stale_paths: stale })
  }
})

const settleChild = Effect.fnUntraced(function* (
  { parent }: Family,
  child: Child,
  exit: Exit.Exit<Option.Option<RunResult>, unknown>
) {
  const { interceptors } = yield* Services
  if (Exit.isSuccess(exit) && Option.isSome(exit.value)) {
    child.model = exit.value.value.model
    child.watched.usage = exit.value.value.usage
  }
  const durationMillis = (yield* Clock.currentTimeMillis) - child.startedAt
  const ending = { ...ChildWatch.determineEnding(exit, child.watched), durationMillis }
  child.ending = ending
  yield* interceptors.hooks.emit("on_session_finalize", () => ({
    session_id: child.sessionId,
    platform: parent.platform,
    reason: "subagent_end"
  }))
  const { status, summary } = ending
  parent.recorder?.write({
    _tag: "ChildEnded",
    subagentId: child.lineage.subagentId,
    sessionId: child.sessionId,
    status,
    ...(summary === "" ? {} : { summary }),
    durationMillis
  })
  // The run that started a background child may have ended, and a sibling of the child may take long.
  if (parent.recorder !== undefined && (child.delegationId !== undefined || parent.recorder.isHeard()))
    yield* parent.recorder.flush
  if (child.delegationId !== undefined) return
  yield* emit(parent, {
    _tag: "SubagentFinished",
    subagentId: child.lineage.subagentId,
    sessionId: child.sessionId,
    goal: child.task.goal,
    status: ending.status,
    toolCount: child.watched.toolCount,
    durationMillis,
    usage: child.watched.usage
  })
})

/** Creates the event in the parent's run that marks the start of the child. */
export const makeStartedEvent = ({ lineage: { subagentId }, sessionId, task: { goal } }: Child): RunEvent => ({
  _tag: "SubagentStarted",
  subagentId,
  sessionId,
  goal
})

/** Creates the record of the end of a child whose parent's record is cut. */
const makeCutRecord = ({ lineage: { subagentId }, sessionId, startedAt, watched }: Child, at: number): RecordEvent => {
  const { status, summary } = ChildWatch.makeInterruptedEnding(watched)
  return {
    _tag: "ChildEnded",
    subagentId,
    sessionId,
    status,
    ...(summary === "" ? {} : { summary }),
    durationMillis: Math.max(0, at - startedAt)
  }
}

/** Runs a child until it ends. Every outcome is a report, except interruption from outside. */
export const run = Effect.fnUntraced(function* (
  family: Family,
  child: Child
): Effect.fn.Return<Delegator.ChildReport, never, Services> {
  const { agent, parent } = family
  const { children, settings } = yield* Services
  const { autoApprove, childTimeoutMillis } = settings.delegation ?? {}
  const { sessionId, task } = child
  const work = agent.run(child.input, child.lineage)
  const bounded =
    childTimeoutMillis === undefined ? Effect.map(work, Option.some) : Effect.timeoutOption(work, childTimeoutMillis)
  const entry = {
    subagentId: child.lineage.subagentId,
    parentSubagentId: child.lineage.parentSubagentId,
    sessionId,
    parentSessionId: parent.sessionId,
    depth: child.lineage.depth,
    goal: task.goal,
    model: child.model,
    startedAt: child.startedAt,
    delegationId: child.delegationId,
    progress: child.watched
  }
  const { recorder } = parent
  const now = yield* RunCut.currentTime
  const recorded =
    recorder === undefined
      ? Effect.void
      : Effect.suspend(() => {
          const { callId, subagentId } = child.lineage
          const isBackground = child.delegationId !== undefined
          recorder.write(
            {
              _tag: "ChildStarted",
              ...(callId === undefined ? {} : { callId }),
              subagentId,
              sessionId,
              goal: task.goal,
              role: task.role,
              background: isBackground
            },
            // A background child is not a part of the run.
            isBackground ? undefined : () => makeCutRecord(child, now())
          )
          // The parent's record reports its child before the child's own record starts.
          return recorder.flush
        })
  return yield* Effect.andThen(recorded, children.during(entry, agent.stop(sessionId), bounded)).pipe(
    Effect.provideService(CallConversation, (yield* CallConversation) ?? parent.conversationId),
    Effect.provideService(StartingSessions, [...(yield* StartingSessions), parent.sessionId]),
    Effect.provideService(InteractiveMode, makeUnattended("child agent", autoApprove === true ? "approve" : "deny")),
    Effect.onExit((exit) => settleChild(family, child, exit)),
    Effect.exit,
    Effect.andThen(buildReport(family, child))
  )
})
