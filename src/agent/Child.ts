/**
 * Plans, announces, runs and reports one child of a run.
 *
 * Source: `hermes-product.md` §3.3–3.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import type { RecordEvent } from "../base/domain/RecordEvent.ts"
import type { RunEvent, RunResult } from "../base/domain/RunEvent.ts"
import * as Usage from "../base/domain/Usage.ts"
import { CallConversation } from "../base/domain/CallContext.ts"
import { Correlation } from "../hooks/Correlation.ts"
import * as PairedEvents from "../hooks/PairedEvents.ts"
import { CurrentCall } from "../tools/CallQuestions.ts"
import { InteractiveMode, StartingSessions, makeUnattended } from "../tools/approval/InteractiveMode.ts"
import type * as Delegator from "../tools/Delegator.ts"
import * as ChildQuestions from "./ChildQuestions.ts"
import * as ChildTools from "./ChildTools.ts"
import * as ChildWatch from "./ChildWatch.ts"
import * as RunCut from "./RunCut.ts"
import { emit, type Lineage, type RunState, reportUsage } from "./RunState.ts"
import type { RunOptions, SubAgent } from "./RunInput.ts"
import { Services } from "./Services.ts"

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
  /** True if the child may have run before, in the run that its call was suspended in. */
  readonly mayHaveRun: boolean
  /** Questions that the child waits for. Empty while it runs, and if it has ended. */
  asked: ReadonlyArray<ChildQuestions.ChildQuestion>
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

const makeLineage = (
  { depth, parent }: Family,
  { goal }: Delegator.Task,
  subagentId: string,
  callId: string
): Omit<Lineage, "agent" | "kind"> => ({
  parentSessionId: parent.sessionId,
  above: [parent.sessionId, ...(parent.lineage?.above ?? [])],
  parentTurnId: parent.turnId,
  parentSubagentId: parent.lineage?.subagentId ?? "",
  subagentId,
  callId: callId === "" ? undefined : callId,
  goal,
  depth,
  budget: parent.budget
})

/** Facts about a child before it is planned. */
export interface ChildOrigin {
  /** Id of the delegation of a background child. */
  readonly delegationId?: string | undefined
  /** Ids of a child whose call can run again. */
  readonly ids?: { readonly sessionId: Ids.SessionId; readonly subagentId: string } | undefined
  /** True if the child may have run before. */
  readonly mayHaveRun?: boolean | undefined
  /** Questions of earlier runs of the child, and the policy for new ones. Absent if it cannot be suspended. */
  readonly asking?: Pick<ChildQuestions.ChildAsking, "known" | "policy"> | undefined
}

/**
 * Chooses the route of a child. A tenant with its own keys may not use the key of a configured route: the child uses
 * the tenant's default route, and a notice says so.
 */
const chooseRoute = Effect.fnUntraced(function* (parent: Family["parent"], named: SubAgent | undefined) {
  const { router, settings } = yield* Services
  const wanted =
    named?.route === "parent" ? parent.routeWanted : (named?.route ?? settings.delegation?.route ?? parent.routeWanted)
  if (wanted === undefined || router.mayCall?.(wanted) !== false) return wanted
  yield* emit(parent, {
    _tag: "Notice",
    level: "warning",
    message:
      `the tenant has no key for the configured route ${wanted.provider} (${wanted.model}) of a sub-agent: ` +
      "it uses the tenant's default route"
  })
  return undefined
})

/** Plans a child without announcing it. */
export const plan = Effect.fnUntraced(function* (
  family: Family,
  task: Delegator.Task,
  index: number,
  registered: ReadonlyArray<string>,
  { asking, delegationId, ids, mayHaveRun = false }: ChildOrigin = {}
): Effect.fn.Return<Child, never, Services> {
  const { cwd, maxIterations, parent } = family
  const { settings } = yield* Services
  const delegation = settings.delegation ?? {}
  const named = delegation.agents?.find(({ name }) => name === task.agent)
  const subagentId = ids?.subagentId ?? `sa-${index}-${yield* Ids.makeHex(8)}`
  const sessionId = ids?.sessionId ?? (yield* Ids.makeSessionId)
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
  const route = yield* chooseRoute(parent, named)
  const agentName = task.agent ?? parent.lineage?.agent
  const { kind, tools } = yield* ChildTools.chooseTools(family, { ...task, agent: agentName }, named, registered)
  const lineage: Lineage = {
    ...makeLineage(family, task, subagentId, callId),
    agent: agentName,
    kind,
    ...(asking === undefined ? {} : { asking: { ...asking, passUp: (questions) => void (child.asked = questions) } })
  }
  const child: Child = {
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
    mayHaveRun,
    asked: [],
    ending: undefined
  }
  return child
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
  // The schema of a named sub-agent makes its suspension a failure.
  const outcome =
    child.asked.length > 0
      ? ChildWatch.makeSuspendedEnding(child.watched)
      : ChildWatch.determineEnding(exit, child.watched)
  const ending = { ...outcome, durationMillis }
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

/** Returns the result of a child that ended before its call ran again. */
const readResult = Effect.fnUntraced(function* (
  { lineage, sessionId }: Child,
  { exit, text }: Extract<ChildQuestions.ChildState, { readonly _tag: "Ended" }>
): Effect.fn.Return<RunResult, SessionStoreError, Services> {
  const { store } = yield* Services
  const { cost, model, provider, usage } = Option.getOrThrow(yield* store.get(sessionId))
  return {
    _tag: "RunFinished",
    sessionId,
    turnId: lineage.parentTurnId,
    exit,
    text,
    steps: usage.requestCount,
    provider,
    model,
    usage,
    cost
  }
})

/** Runs a child, or continues it in its session if it ran before. */
const startOrContinue = (agent: Agent, child: Child): Effect.Effect<RunResult, unknown, Services> => {
  if (!child.mayHaveRun) return agent.run(child.input, child.lineage)
  return Effect.gen(function* () {
    const { store } = yield* Services
    const state = yield* ChildQuestions.readChildState(store, child.sessionId)
    switch (state._tag) {
      case "New":
        return yield* agent.run(child.input, child.lineage)
      case "Open":
        return yield* agent.run({ ...child.input, goesOn: true, openCalls: "run" }, child.lineage)
      case "Ended":
        return yield* readResult(child, state)
    }
  })
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
  const work = startOrContinue(agent, child)
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
    // The child is not a part of the code of the call that started it.
    Effect.provideService(CurrentCall, undefined),
    Effect.provideService(InteractiveMode, makeUnattended("child agent", autoApprove === true ? "approve" : "deny")),
    Effect.onExit((exit) => settleChild(family, child, exit)),
    Effect.exit,
    Effect.andThen(buildReport(family, child))
  )
})
