/**
 * Adds the steps of a session's runs, one run after another, to the draft of their trajectory.
 *
 * **Details**
 *
 * - An agent step is one stored answer, with the usage of the attempts that produced it. Earlier failed attempts are
 *   its `retries`. An interrupted answer is a step with the part that was received.
 * - User messages are user steps. Messages that the runtime adds (nudges, contexts of plugins, rewritten contexts,
 *   reports of children) are system steps with a corresponding mark.
 * - Results are in the step of their call, in the order in which the calls ended. Calls that a tool made are separate
 *   steps without a model call (`llm_call_count` 0).
 *
 * Source: `relay-atof-atif.md` §2.3, §2.4, §2.7 and §2.9.
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Record from "../../base/domain/RecordEvent.ts"
import type * as Atif from "../Atif.ts"
import type { Attempt, Call, Child, Message, Run, Step, Tree } from "../RunTree.ts"
import * as CopiedSteps from "./CopiedSteps.ts"
import * as Draft from "./Draft.ts"
import * as DraftSteps from "./DraftSteps.ts"
import * as MessageText from "./Message.ts"
import {
  type Answer,
  readMessageAnswer,
  readPartsAnswer,
  toContent,
  readEffort,
  toJson,
  toSharedJson,
  type Pictures,
  toMetrics,
  renderToolResult,
  readCallResult
} from "./RunContent.ts"
import * as SideSteps from "./SideSteps.ts"
import * as StepFacts from "./StepFacts.ts"
import { toArguments } from "./Value.ts"

/** Name and version of the agent. The default version is the version in the record. */
export interface AgentOptions {
  readonly agentName?: string | undefined
  readonly agentVersion?: string | undefined
  /** Name of the model, used if the record does not contain one. */
  readonly modelName?: string | undefined
}

/** Tree and images from which the steps of a trajectory are built. */
export interface RunSource {
  readonly tree: Tree
  readonly agent: AgentOptions
  readonly pictures: Pictures
}

/** A draft, and the state that later runs of the same session need. */
export interface SessionDraft {
  readonly draft: Draft.Draft
  /** Step of each call so far, for results that arrive later. */
  readonly places: Map<string, Draft.Step>
  /** Messages that are already in a step. */
  readonly seen: Set<Prompt.Message>
  /** Number of steps at the beginning that come from before the session's first run. */
  readonly copied: number
}

const { formatTime } = StepFacts

/** Creates the draft of a session without its runs. It contains the steps that repeat another session. */
export const beginDraft = (
  { agent, pictures, tree }: RunSource,
  sessionId: string,
  first: Run | undefined,
  child: Child | undefined
): SessionDraft => {
  const beginning = tree.beginning(sessionId)
  const copied = beginning === undefined ? undefined : CopiedSteps.make(beginning, formatTime, pictures)
  return {
    draft: {
      sessionId,
      agent: {
        name: agent.agentName ?? "Hermes Agent",
        version: agent.agentVersion ?? first?.start?.agentVersion ?? "unknown"
      },
      goal: child?.start.goal,
      steps: copied?.steps ?? [],
      model: first?.start?.model ?? agent.modelName,
      tools: [],
      extra: {
        ...(first?.start === undefined ? {} : { source: first.start.source, provider: first.start.provider }),
        ...(child === undefined ? {} : StepFacts.describeChildState(child)),
        ...(beginning === undefined ? {} : { continues: CopiedSteps.describeContinuation(beginning) })
      }
    },
    places: copied?.places ?? new Map(),
    seen: new Set(beginning?.messages.flatMap(({ message }) => message ?? [])),
    copied: copied?.steps.length ?? 0
  }
}

/** Copies a draft, so that runs can be added without changing the original. */
export const copyDraft = ({ copied, draft, places, seen }: SessionDraft): SessionDraft => ({
  draft: { ...draft, steps: [...draft.steps], extra: { ...draft.extra } },
  places: new Map(places),
  seen: new Set(seen),
  copied
})

const draftChild = (source: RunSource, child: Child): Draft.Draft => {
  const runs = child.run === undefined ? [] : [child.run]
  const session = beginDraft(source, child.start.sessionId, child.run, child)
  for (const run of runs) addRun(source, session, run)
  Object.assign(session.draft.extra, StepFacts.describeSideTasks(runs))
  return session.draft
}

const addResult = (source: RunSource, { draft, places }: SessionDraft, step: Draft.Step, call: Call): void => {
  const content = readCallResult(call, source.pictures)
  places.set(call.id, step)
  const tasks = SideSteps.draftSideTasks(source, draft.agent, call)
  if (call.end === undefined && content === undefined && call.children.length + tasks.length === 0) return
  step.results.push({
    callId: call.id,
    content,
    children: [...call.children.map((child) => draftChild(source, child)), ...tasks],
    extra: StepFacts.buildResultExtra(call)
  })
}

/** Adds the messages of an attempt that no session stores: the system prompt, nudges, and context added by plugins. */
const addTransientMessages = ({ pictures, tree }: RunSource, { draft, seen }: SessionDraft, attempt: Attempt): void => {
  for (const message of tree.unstored(attempt)) {
    if (seen.has(message)) continue
    seen.add(message)
    if (message.role === "system")
      draft.steps.push(DraftSteps.makeSystemStep(message.content, formatTime(attempt.run.startedAt)))
    else if (message.role === "user")
      draft.steps.push(
        DraftSteps.makeInjectionStep(toContent(message.content, pictures), formatTime(attempt.startedAt))
      )
  }
  if (draft.tools.length > 0) return
  draft.tools = tree
    .tools(attempt)
    .map(({ description, name, parameters }) => ({
      type: "function",
      function: { name, description, parameters: toSharedJson(parameters) }
    }))
}

/**
 * Lists the contents of a message in a rewritten context. The system prompt is left out, because it has a separate
 * place.
 */
const listContents = (message: Prompt.Message, pictures: Pictures): ReadonlyArray<Atif.Content> => {
  switch (message.role) {
    case "system":
      return []
    case "user":
      return [toContent(message.content, pictures)]
    case "assistant":
      return [readMessageAnswer(message).text]
    case "tool":
      return message.content.flatMap((part) => (part.type === "tool-result" ? [renderToolResult(part, pictures)] : []))
  }
}

/** Adds a step for a rewritten context. `attempt` is the first attempt after the rewrite. */
const addRewrittenContext = (
  { pictures, tree }: RunSource,
  { draft, seen }: SessionDraft,
  {
    after,
    at,
    before,
    reason,
    removed
  }: Extract<Record.RecordEvent, { readonly _tag: "ContextRewritten" }> & { readonly at: number },
  attempt: Attempt | undefined
): void => {
  const messages = attempt === undefined ? [] : tree.request(attempt).messages
  const content = messages
    .flatMap((message) => (message === undefined ? [] : listContents(message, pictures)))
    .map(MessageText.toPlainText)
    .join("\n\n")
  draft.steps.push(
    DraftSteps.makeCompactionStep(content, formatTime(at), {
      reason,
      before,
      after,
      ...(removed === undefined ? {} : { removed: toJson(removed) })
    })
  )
  for (const message of messages) if (message !== undefined) seen.add(message)
}

/** Returns the stored answer of a step, or the answer as received if it was not stored. */
const readAnswer = ({ attempts, message, number }: Step): Answer | undefined => {
  const stored = message?.message
  if (stored?.role === "assistant") return readMessageAnswer(stored)
  const whole = attempts.findLast(({ end }) => end?.status === "answered")
  const parts = (whole ?? attempts.findLast(({ end }) => end !== undefined && end.answer.length > 0))?.end?.answer
  return parts === undefined ? undefined : readPartsAnswer(parts, number)
}

/** Tests whether a run may continue: it has no end, and no later run of its session has begun. */
const isOpen = ({ tree }: RunSource, run: Run): boolean =>
  run.end === undefined &&
  (run.child === undefined
    ? tree.roots.findLast(({ sessionId }) => sessionId === run.sessionId) === run
    : run.child.end === undefined)

/** Creates the step of a model call that received no answer. Returns `undefined` if there is no failed attempt. */
const makeUnansweredStep = (failures: ReadonlyArray<Attempt>): Draft.Step | undefined => {
  const last = failures.at(-1)
  if (last === undefined) return undefined
  return DraftSteps.makeUnansweredStep(
    last.end?.status === "failed" ? (last.end.failure?.message ?? "unknown error") : undefined,
    formatTime(last.endedAt ?? last.startedAt),
    {
      error: StepFacts.describeFailure(last),
      attempts: failures.length,
      retries: failures.map(StepFacts.describeFailure)
    }
  )
}

const makeAnswerStep = (step: Step, answer: Answer): Draft.Step => {
  const answered = step.attempts.filter(({ end }) => end?.status === "answered")
  const failures = step.attempts.filter(({ end }) => end?.status !== "answered")
  const last = answered.at(-1) ?? step.attempts.at(-1)
  return Draft.makeStep({
    source: "agent",
    message: answer.text,
    timestamp: formatTime(last?.endedAt ?? step.message?.at ?? step.startedAt),
    rest: DraftSteps.buildAgentFields({
      model: last === undefined ? undefined : (last.end?.model ?? last.start.route.model),
      effort: last === undefined ? undefined : readEffort(last),
      reasoning: answer.reasoning === "" ? undefined : answer.reasoning,
      metrics: DraftSteps.sumMetrics(step.attempts.flatMap((attempt) => toMetrics(attempt) ?? [])),
      modelCalls: step.attempts.length === 0 ? undefined : Math.max(1, answered.length)
    }),
    calls: answer.calls.map(({ id, name, params }) => {
      const call = step.calls.find((one) => one.id === id)
      return {
        id,
        name,
        args: toArguments(toSharedJson(params)),
        extra: call === undefined ? {} : StepFacts.buildCallExtra(call)
      }
    }),
    extra: {
      ...(last === undefined ? {} : StepFacts.buildAttemptExtra(last)),
      ...(answered.length === 0 && step.attempts.length > 0 ? { interrupted: true } : {}),
      ...DraftSteps.describeRetries(failures.map(StepFacts.describeFailure))
    }
  })
}

/** Adds the calls that a tool made itself, without a request by the model. */
const addNestedCalls = (source: RunSource, session: SessionDraft, parent: Call): void => {
  for (const call of parent.calls) {
    const made = Draft.makeStep({
      source: "agent",
      message: "",
      timestamp: formatTime(call.startedAt),
      rest: { llm_call_count: 0 },
      calls: [
        {
          id: call.id,
          name: call.name,
          args: toArguments(toSharedJson(call.args)),
          extra: { ...StepFacts.buildCallExtra(call), parent_call_id: parent.id }
        }
      ]
    })
    session.draft.steps.push(made)
    addResult(source, session, made, call)
    addNestedCalls(source, session, call)
  }
}

const addStep = (source: RunSource, session: SessionDraft, step: Step): void => {
  const { steps } = session.draft
  for (const attempt of step.attempts) addTransientMessages(source, session, attempt)
  const answer = readAnswer(step)
  if (answer === undefined) {
    // The model may still answer.
    if (isOpen(source, step.run) && step.attempts.at(-1)?.end === undefined) return
    const made = makeUnansweredStep(step.attempts.filter(({ end }) => end?.status !== "answered"))
    if (made !== undefined) steps.push(made)
    return
  }
  const made = makeAnswerStep(step, answer)
  steps.push(made)
  const inOrderOfEnds = step.calls.toSorted((a, b) => (a.endedAt ?? Infinity) - (b.endedAt ?? Infinity))
  for (const call of inOrderOfEnds) addResult(source, session, made, call)
  for (const call of step.calls) addNestedCalls(source, session, call)
}

/** Adds results that are not in a step yet: the closing results of calls that an earlier run left open. */
const addLateResults = (
  { pictures }: RunSource,
  { places }: SessionDraft,
  message: Extract<Prompt.Message, { readonly role: "tool" }>
): void => {
  for (const part of message.content) {
    if (part.type !== "tool-result") continue
    const step = places.get(part.id)
    if (step === undefined || step.results.some(({ callId, content }) => callId === part.id && content !== undefined))
      continue
    step.results.push({
      callId: part.id,
      content: renderToolResult(part, pictures),
      children: [],
      extra: { status: "interrupted" }
    })
  }
}

/**
 * Adds a message that is not in a step yet: a message of the user, a child's report, or the closing result of a call
 * that an earlier run left open.
 */
const addMessage = (source: RunSource, session: SessionDraft, { at, message, origin }: Message): void => {
  if (message === undefined || message.role === "assistant") return
  session.seen.add(message)
  if (message.role === "tool") return addLateResults(source, session, message)
  const content = toContent(message.content, source.pictures)
  const timestamp = formatTime(at)
  session.draft.steps.push(
    message.role === "user" && origin === "user"
      ? Draft.makeStep({ source: "user", message: content, timestamp })
      : DraftSteps.makeSystemStep(content, timestamp, message.role === "system" ? {} : { origin })
  )
}

const addSystemPrompt = ({ tree }: RunSource, { draft, seen }: SessionDraft, attempt: Attempt): void => {
  const message = tree.request(attempt).messages.find((one) => one?.role === "system")
  if (message === undefined || message.role !== "system") return
  seen.add(message)
  draft.steps.unshift(
    DraftSteps.makeSystemStep(
      message.content,
      draft.steps[0]?.timestamp ?? formatTime(attempt.run.messages[0]?.at ?? attempt.run.startedAt)
    )
  )
}

/**
 * Lists the messages, rewritten contexts and steps of a run, each with its time and a function `write` that adds it to
 * the draft.
 */
const listParts = (
  source: RunSource,
  session: SessionDraft,
  run: Run
): ReadonlyArray<{ readonly at: number; readonly write: () => void }> => {
  const inSteps = new Set(run.steps.flatMap(({ message }) => message ?? []))
  const messages = run.messages
    .filter((message) => !inSteps.has(message))
    .map((message) => ({ at: message.at, write: () => addMessage(source, session, message) }))
  const contexts = run.asides.flatMap(({ at, event }) => {
    if (event._tag !== "ContextRewritten") return []
    const attempt = run.steps.flatMap(({ attempts }) => attempts).find(({ startedAt }) => startedAt >= at)
    return [{ at, write: () => addRewrittenContext(source, session, { ...event, at }, attempt) }]
  })
  const steps = run.steps.map((step) => ({ at: step.startedAt, write: () => addStep(source, session, step) }))
  // The sort is stable, so messages that begin a run stay before its steps of the same millisecond.
  return [...messages, ...contexts, ...steps].toSorted((a, b) => a.at - b.at)
}

const addOutcome = ({ extra }: Draft.Draft, run: Run): void => {
  const { end } = run
  // Side tasks between the runs of a session do not form a run.
  if (run.start === undefined && run.steps.length === 0 && run.messages.length === 0 && end === undefined) return
  extra["exit"] = end?.exit ?? (run.endedAt === undefined ? "unknown" : "interrupted")
  // The run goes on, or its process was killed.
  if (end === undefined) extra["unfinished"] = true
  else delete extra["unfinished"]
  if (end?.exit === "interrupted" || end?.exit === "interrupted_by_user") extra["interrupted"] = true
  else delete extra["interrupted"]
  if (end?.failure !== undefined) extra["error"] = toJson(end.failure)
}

/** Adds a run to the draft of its session. */
export const addRun = (source: RunSource, session: SessionDraft, run: Run): void => {
  const { copied, draft, seen } = session
  // A message of the session appears only at its own position, even if it is sent several times.
  for (const { message } of run.messages) if (message !== undefined) seen.add(message)
  const system = run.steps[0]?.attempts[0]
  if (draft.steps.length === copied && system !== undefined) addSystemPrompt(source, session, system)
  for (const { write } of listParts(source, session, run)) write()
  for (const child of run.children)
    draft.steps.push(DraftSteps.makeSubagentStep(draftChild(source, child), formatTime(child.startedAt)))
  addOutcome(draft, run)
}
