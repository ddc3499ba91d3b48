/**
 * The trajectory of a session, made of the tree of its runs: whole, whatever its length.
 *
 * **Details**
 *
 * - A step of the agent is one stored answer, with the usage of the attempts that made it; earlier failed attempts are
 *   its `retries`. An answer that broke off is a step with the part that arrived.
 * - Messages of the user are user steps. Messages that the runtime adds (nudges, context of plugins, a rewritten
 *   context, reports of children) are system steps that say so.
 * - Results are in the step of their call, in the order in which the calls ended. Calls that a tool made are separate
 *   steps without a model call (`llm_call_count` 0).
 * - Side tasks (titles, judgements) are no steps: they are listed in the trajectory's `extra`.
 * - What a session began with that repeats another one is copied context, before its first run.
 * - A child is embedded under the call that made it; the reference to one that did not complete has its status.
 *
 * Source: `relay-atof-atif.md` §2.3, §2.4, §2.7 and §2.9.
 */
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import type { Entry } from "../../base/domain/RecordEvent.ts"
import type * as Atif from "../Atif.ts"
import type { Attempt, Call, Child, Message, Run, Step, Tree } from "../RunTree.ts"
import * as CopiedSteps from "./CopiedSteps.ts"
import * as Draft from "./Draft.ts"
import * as MessageText from "./Message.ts"
import {
  type Answer,
  readMessageAnswer,
  readPartsAnswer,
  toContent,
  extractContext,
  readEffort,
  toJson,
  toMetrics,
  omitPicture,
  type Pictures,
  renderToolResult,
  readCallResult
} from "./RunContent.ts"
import { toArguments } from "./Value.ts"

/** Name and version of the agent; without a version, the version of the record. */
export interface Options {
  readonly agentName?: string | undefined
  readonly agentVersion?: string | undefined
  /** Name of the model where the record names none. */
  readonly modelName?: string | undefined
  /** Place of images whose bytes are in the conversation. When absent, a text says that they are left out. */
  readonly pictures?: Pictures | undefined
  /** Turn from which on the session is new: earlier steps are marked as copied context. All is new when absent. */
  readonly since?: string | undefined
}

const formatTime = (at: number | undefined): string | undefined =>
  at === undefined || at <= 0 ? undefined : new Date(at).toISOString()

/** The metrics of the attempts at one answer, as one. */
const sumMetrics = (attempts: ReadonlyArray<Attempt>): Atif.Metrics | undefined => {
  const all = attempts.flatMap((attempt) => toMetrics(attempt) ?? [])
  const [first] = all
  if (first === undefined || all.length === 1) return first
  const sumKey = (key: "cached_tokens" | "completion_tokens" | "cost_usd" | "prompt_tokens") => {
    const known = all.flatMap((one) => one[key] ?? [])
    return known.length === 0 ? {} : { [key]: known.reduce((a, b) => a + b, 0) }
  }
  return {
    ...first,
    ...sumKey("prompt_tokens"),
    ...sumKey("completion_tokens"),
    ...sumKey("cached_tokens"),
    ...sumKey("cost_usd")
  }
}

const describeFailure = ({ end, endedAt, start: { route }, startedAt }: Attempt): Schema.Json => ({
  error: end?.failure === undefined ? null : toJson(end.failure),
  status: end?.status ?? "interrupted",
  model: route.model,
  provider: route.provider,
  timestamp: formatTime(endedAt) ?? null,
  duration_ms: endedAt === undefined ? null : endedAt - startedAt
})

/** Returns the stored answer of a step, or the answer as it arrived if none was stored. */
const readAnswer = ({ attempts, message, number }: Step): Answer | undefined => {
  const stored = message?.message
  if (stored?.role === "assistant") return readMessageAnswer(stored)
  const whole = attempts.findLast(({ end }) => end?.status === "answered")
  const parts = (whole ?? attempts.findLast(({ end }) => end !== undefined && end.answer.length > 0))?.end?.answer
  return parts === undefined ? undefined : readPartsAnswer(parts, number)
}

const describeChange = ({ added, after, before, by, diff, path, removed }: Call["changes"][number]) => ({
  path,
  change: before === undefined ? "created" : after === undefined ? "deleted" : "changed",
  by,
  added,
  removed,
  diff
})

const buildResultExtra = ({ approvals, changes, end }: Call): Draft.Extra => {
  const approval = approvals.at(-1)?.event
  return {
    ...(end === undefined || end.status === "ok" ? {} : { status: end.status }),
    ...(end?.reason === undefined ? {} : { reason: end.reason }),
    ...(end === undefined ? {} : { duration_ms: Math.round(end.durationMillis) }),
    ...(changes.length === 0 ? {} : { changes: changes.map(describeChange) }),
    ...(approval === undefined ? {} : { approval: { choice: approval.choice, subject: approval.subject } })
  }
}

const buildCallExtra = ({ endedAt, start, startedAt }: Call): Draft.Extra =>
  start === undefined
    ? {}
    : {
        ...(start.parallel ? { parallel: true } : {}),
        ...(endedAt === undefined
          ? {}
          : { invocation: { start_timestamp: startedAt / 1000, end_timestamp: endedAt / 1000 } })
      }

const makeSystemStep = (message: Atif.Content, at: number | undefined, extra: Draft.Extra): Draft.Step =>
  Draft.makeStep({ source: "system", message, timestamp: formatTime(at), extra })

const describeChildState = ({ end, endedAt, start }: Child): Draft.Extra => ({
  goal: start.goal,
  ...(end?.status === "completed" ? {} : { status: end?.status ?? (endedAt === undefined ? "running" : "interrupted") })
})

/** A draft, and the state that later runs of its session need. */
interface DraftState {
  readonly draft: Draft.Draft
  /** Steps of the calls so far, for results that come later. */
  readonly places: Map<string, Draft.Step>
  /** Messages that have their place. */
  readonly seen: Set<Prompt.Message>
  /** Number of steps from before the session's first run. */
  readonly copied: number
}

const copyWriting = ({ copied, draft, places, seen }: DraftState): DraftState => ({
  draft: { ...draft, steps: [...draft.steps], extra: { ...draft.extra } },
  places: new Map(places),
  seen: new Set(seen),
  copied
})

const describeSideTasks = (runs: ReadonlyArray<Run>): Draft.Extra => {
  const tasks = runs.flatMap((run) => run.sideTasks)
  return tasks.length === 0
    ? {}
    : {
        side_tasks: tasks.map((task) => ({
          task: task.start.task ?? "unknown",
          model: task.end?.model ?? task.start.route.model,
          status: task.end?.status ?? "interrupted",
          timestamp: formatTime(task.endedAt) ?? null,
          duration_ms: task.endedAt === undefined ? null : task.endedAt - task.startedAt,
          metrics: toJson(toMetrics(task) ?? null)
        }))
      }
}

/** Writes runs of a session into its draft. */
const makeWriter = (tree: Tree, { pictures = omitPicture, ...options }: Options) => {
  const begin = (sessionId: string, first: Run | undefined, child: Child | undefined): DraftState => {
    const beginning = tree.beginning(sessionId)
    const copied = beginning === undefined ? undefined : CopiedSteps.make(beginning, formatTime, pictures)
    return {
      draft: {
        sessionId,
        agent: {
          name: options.agentName ?? "Hermes Agent",
          version: options.agentVersion ?? first?.start?.agentVersion ?? "unknown"
        },
        goal: child?.start.goal,
        steps: copied?.steps ?? [],
        model: first?.start?.model ?? options.modelName,
        tools: [],
        extra: {
          ...(first?.start === undefined ? {} : { source: first.start.source, provider: first.start.provider }),
          ...(child === undefined ? {} : describeChildState(child)),
          ...(beginning === undefined ? {} : { continues: CopiedSteps.describeContinuation(beginning) })
        }
      },
      places: copied?.places ?? new Map(),
      seen: new Set(beginning?.messages.flatMap(({ message }) => message ?? [])),
      copied: copied?.steps.length ?? 0
    }
  }
  const draftChild = (child: Child): Draft.Draft => {
    const runs = child.run === undefined ? [] : [child.run]
    const writing = begin(child.start.sessionId, child.run, child)
    for (const run of runs) add(writing, run)
    Object.assign(writing.draft.extra, describeSideTasks(runs))
    return writing.draft
  }

  const add = ({ copied, draft, places, seen }: DraftState, whole: Run): void => {
    const addResult = (step: Draft.Step, call: Call, content: Atif.Content | undefined): void => {
      places.set(call.id, step)
      if (call.end === undefined && content === undefined && call.children.length === 0) return
      step.results.push({
        callId: call.id,
        content,
        children: call.children.map(draftChild),
        extra: buildResultExtra(call)
      })
    }
    /** Messages that an attempt was sent and no session keeps: the system prompt, nudges, contexts of plugins. */
    const addTransientMessages = (attempt: Attempt): void => {
      for (const message of tree.unstored(attempt)) {
        if (seen.has(message)) continue
        seen.add(message)
        if (message.role === "system") {
          draft.steps.push(
            Draft.makeStep({ source: "system", message: message.content, timestamp: formatTime(attempt.run.startedAt) })
          )
          continue
        }
        if (message.role !== "user") continue
        const said = toContent(message.content, pictures)
        const before = extractContext(said)
        const own = before ?? said
        draft.steps.push(
          makeSystemStep(own, attempt.startedAt, {
            origin: "runtime",
            stored: false,
            ...(before === undefined ? {} : { context_management: { type: "injection", boundary: "append" } })
          })
        )
      }
      if (draft.tools.length === 0) {
        draft.tools = tree
          .tools(attempt)
          .map(({ description, name, parameters }) => ({
            type: "function",
            function: { name, description, parameters: toJson(parameters) }
          }))
      }
    }

    /**
     * Lists the contents of a message in a rewritten context, without the system prompt, which has a separate place.
     */
    const listContents = (message: Prompt.Message): ReadonlyArray<Atif.Content> => {
      switch (message.role) {
        case "system":
          return []
        case "user":
          return [toContent(message.content, pictures)]
        case "assistant":
          return [readMessageAnswer(message).text]
        case "tool":
          return message.content.flatMap((part) =>
            part.type === "tool-result" ? [renderToolResult(part, pictures)] : []
          )
      }
    }
    const addRewrittenContext = (at: number, attempt: Attempt | undefined, facts: Draft.Extra): void => {
      const messages = attempt === undefined ? [] : tree.request(attempt).messages
      const content = messages
        .flatMap((message) => (message === undefined ? [] : listContents(message)))
        .map(MessageText.toPlainText)
        .join("\n\n")
      draft.steps.push(
        Draft.makeStep({
          source: "system",
          message: "",
          timestamp: formatTime(at),
          results: [{ callId: undefined, content, children: [], extra: {} }],
          extra: { ...facts, context_management: { type: "compaction", boundary: "replace" } }
        })
      )
      for (const message of messages) if (message !== undefined) seen.add(message)
    }

    const addStep = (step: Step): void => {
      for (const attempt of step.attempts) addTransientMessages(attempt)
      const answer = readAnswer(step)
      const answered = step.attempts.filter(({ end }) => end?.status === "answered")
      const failures = step.attempts.filter(({ end }) => end?.status !== "answered")
      if (answer === undefined) {
        const last = failures.at(-1)
        if (last === undefined) return
        const interrupted = last.end?.status !== "failed"
        draft.steps.push(
          makeSystemStep(
            interrupted
              ? "The model call was interrupted before an answer."
              : `The model could not be asked: ${last.end?.failure?.message ?? "unknown error"}`,
            last.endedAt ?? last.startedAt,
            { error: describeFailure(last), attempts: failures.length, retries: failures.map(describeFailure) }
          )
        )
        return
      }
      const last = answered.at(-1) ?? step.attempts.at(-1)
      const metrics = sumMetrics(step.attempts)
      const finish = last?.end?.finishReason
      const effort = last === undefined ? undefined : readEffort(last)
      const made = Draft.makeStep({
        source: "agent",
        message: answer.text,
        timestamp: formatTime(step.message?.at ?? last?.endedAt ?? step.startedAt),
        rest: {
          ...(last === undefined ? {} : { model_name: last.end?.model ?? last.start.route.model }),
          ...(effort === undefined ? {} : { reasoning_effort: effort }),
          ...(answer.reasoning === "" ? {} : { reasoning_content: answer.reasoning }),
          ...(metrics === undefined ? {} : { metrics }),
          ...(step.attempts.length === 0 ? {} : { llm_call_count: Math.max(1, answered.length) })
        },
        calls: answer.calls.map(({ id, name, params }) => {
          const call = step.calls.find((one) => one.id === id)
          return { id, name, args: toArguments(toJson(params)), extra: call === undefined ? {} : buildCallExtra(call) }
        }),
        extra: {
          ...(finish === undefined ? {} : { finish_reason: finish }),
          ...(last === undefined ? {} : { provider: last.start.route.provider }),
          ...(last?.endedAt === undefined
            ? {}
            : {
                invocation: {
                  start_timestamp: last.startedAt / 1000,
                  end_timestamp: last.endedAt / 1000,
                  ...(last.end?.firstPartAt === undefined ? {} : { first_part_timestamp: last.end.firstPartAt / 1000 })
                }
              }),
          ...(answered.length === 0 && step.attempts.length > 0 ? { interrupted: true } : {}),
          ...(failures.length === 0 ? {} : { retries: failures.map(describeFailure) })
        }
      })
      draft.steps.push(made)
      const inOrderOfEnds = step.calls.toSorted((a, b) => (a.endedAt ?? Infinity) - (b.endedAt ?? Infinity))
      for (const call of inOrderOfEnds) addResult(made, call, readCallResult(call, pictures))
      for (const call of step.calls) addNestedCalls(call)
    }

    /** Calls that a tool made: dispatched without a model. */
    const addNestedCalls = (parent: Call): void => {
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
              args: toArguments(toJson(call.args)),
              extra: { ...buildCallExtra(call), parent_call_id: parent.id }
            }
          ]
        })
        draft.steps.push(made)
        addResult(made, call, readCallResult(call, pictures))
        addNestedCalls(call)
      }
    }

    /** A message that no step has: the user's, a child's report, the close of a call that an earlier run left open. */
    const addMessage = ({ at, message, origin }: Message): void => {
      if (message === undefined || message.role === "assistant") return
      seen.add(message)
      if (message.role === "tool") {
        for (const part of message.content) {
          if (part.type !== "tool-result") continue
          const step = places.get(part.id)
          if (
            step === undefined ||
            step.results.some(({ callId, content }) => callId === part.id && content !== undefined)
          )
            continue
          step.results.push({
            callId: part.id,
            content: renderToolResult(part, pictures),
            children: [],
            extra: { status: "interrupted" }
          })
        }
        return
      }
      const content = toContent(message.content, pictures)
      if (message.role === "system")
        draft.steps.push(Draft.makeStep({ source: "system", message: content, timestamp: formatTime(at) }))
      else
        draft.steps.push(
          origin === "user"
            ? Draft.makeStep({ source: "user", message: content, timestamp: formatTime(at) })
            : makeSystemStep(content, at, { origin })
        )
    }

    const writeRun = (run: Run): void => {
      const steps = run.steps.map((step) => ({ at: step.startedAt, write: () => addStep(step) }))
      const inSteps = new Set(run.steps.flatMap(({ message }) => message ?? []))
      const messages = run.messages
        .filter((message) => !inSteps.has(message))
        .map((message) => ({ at: message.at, write: () => addMessage(message) }))
      const contexts = run.asides.flatMap(({ at, event }) => {
        if (event._tag !== "ContextRewritten") return []
        const attempt = run.steps.flatMap(({ attempts }) => attempts).find(({ startedAt }) => startedAt >= at)
        return [
          {
            at,
            write: () =>
              addRewrittenContext(at, attempt, {
                reason: event.reason,
                before: event.before,
                after: event.after,
                ...(event.removed === undefined ? {} : { removed: toJson(event.removed) })
              })
          }
        ]
      })
      const system = run.steps[0]?.attempts[0]
      if (draft.steps.length === copied && system !== undefined) addSystemPrompt(system)
      // Messages that begin a run come before its steps of the same millisecond, and the sort is stable.
      for (const { write } of [...messages, ...contexts, ...steps].toSorted((a, b) => a.at - b.at)) write()
      for (const child of run.children) {
        draft.steps.push(
          Draft.makeStep({
            source: "system",
            message: "",
            timestamp: formatTime(child.startedAt),
            results: [{ callId: undefined, content: undefined, children: [draftChild(child)], extra: {} }],
            extra: { event: "subagent" }
          })
        )
      }
      const end = run.end
      // Side tasks between the runs of a session are no run.
      if (run.start === undefined && run.steps.length === 0 && run.messages.length === 0 && end === undefined) return
      draft.extra["exit"] = end?.exit ?? (run.endedAt === undefined ? "unknown" : "interrupted")
      if (end?.exit === "interrupted" || end?.exit === "interrupted_by_user") draft.extra["interrupted"] = true
      else delete draft.extra["interrupted"]
      if (end?.failure !== undefined) draft.extra["error"] = toJson(end.failure)
    }

    const addSystemPrompt = (attempt: Attempt): void => {
      const message = tree.request(attempt).messages.find((one) => one?.role === "system")
      if (message === undefined || message.role !== "system") return
      seen.add(message)
      draft.steps.unshift(
        Draft.makeStep({
          source: "system",
          message: message.content,
          timestamp: draft.steps[0]?.timestamp ?? formatTime(attempt.run.startedAt)
        })
      )
    }

    // Messages of the session appear only in their own places, however often they are sent.
    for (const { message } of whole.messages) if (message !== undefined) seen.add(message)
    writeRun(whole)
  }
  return { begin, add }
}

const listChildren = (run: Run): ReadonlyArray<Child> => {
  const listChildrenBelow = (call: Call): ReadonlyArray<Child> => [
    ...call.children,
    ...call.calls.flatMap(listChildrenBelow)
  ]
  return [...run.children, ...run.steps.flatMap(({ calls }) => calls.flatMap(listChildrenBelow))]
}

/** Runs of a run's children, of their children, … */
const listRunsBelow = (run: Run): ReadonlyArray<Run> =>
  listChildren(run).flatMap((child) => (child.run === undefined ? [] : [child.run, ...listRunsBelow(child.run)]))

/** Tests for a run of which nothing more is expected. */
const isOver = (run: Run): boolean =>
  run.endedAt !== undefined &&
  listChildren(run).every((child) => child.endedAt !== undefined && (child.run === undefined || isOver(child.run)))

/** The trajectory of an active session: finished runs are drafted once. */
export interface GrowingTrajectory {
  /** Takes note of an entry that the tree has got: a run that something came to late is drafted anew. */
  readonly touch: (entry: Entry) => void
  /** Returns the current trajectory; undefined if the session has no messages. */
  readonly trajectory: () => Atif.Trajectory | undefined
}

/** The growing trajectory of a session in a tree. */
export const makeGrowingTrajectory = (tree: Tree, sessionId: string, options: Options = {}): GrowingTrajectory => {
  const { add, begin } = makeWriter(tree, options)
  /** The runs that are over, in the order of the session. */
  let over: { readonly writing: DraftState; readonly drafts: Draft.Drafts; count: number } | undefined
  /** Turns whose draft is final. */
  const turns = new Set<string>()

  /** Tests for an entry that changes no step: of a side task of the session, or nothing that a trajectory tells. */
  const isAside = ({ event, sessionId: of, turnId }: Entry): boolean => {
    if (of !== sessionId) return event._tag === "SessionEnded"
    switch (event._tag) {
      case "MessageAppended":
        return event.id !== undefined
      case "AttemptStarted":
        return event.task !== undefined
      case "AttemptEnded":
        return tree.roots.some(
          (run) => run.turnId === turnId && run.sideTasks.some(({ start }) => start.apiRequestId === event.apiRequestId)
        )
      case "SessionEnded":
      case "ToolsOffered":
      case "Waiting":
      case "RouteChanged":
      case "Notice":
        return true
      default:
        return false
    }
  }
  const addRun = (writing: DraftState, run: Run, isCopied: boolean): void => {
    const { steps } = writing.draft
    const from = steps.length
    add(writing, run)
    if (!isCopied) return
    for (let at = from; at < steps.length; at++) {
      const step = steps[at]
      if (step !== undefined) step.rest = { ...step.rest, is_copied_context: true }
    }
  }
  return {
    touch: (entry) => {
      if (!turns.has(entry.turnId) || isAside(entry)) return
      over = undefined
      turns.clear()
    },
    trajectory: () => {
      const runs = tree.roots.filter((run) => run.sessionId === sessionId)
      if (runs.length === 0 && tree.beginning(sessionId) === undefined) return undefined
      over ??= { writing: begin(sessionId, runs[0], undefined), drafts: Draft.makeDraftBuilder(), count: 0 }
      const isNew = options.since === undefined ? -1 : runs.findIndex(({ turnId }) => turnId === options.since)
      const lastEnded = runs.findLastIndex(({ endedAt }) => endedAt !== undefined)
      for (let run = runs[over.count]; run !== undefined; run = runs[over.count]) {
        // One that was killed is over when a later one of its session is.
        if (!isOver(run) && !(run.endedAt === undefined && over.count < lastEnded)) break
        addRun(over.writing, run, over.count < isNew)
        over.count++
        for (const { turnId } of [run, ...listRunsBelow(run)]) turns.add(turnId)
      }
      over.drafts.keep(over.writing.draft.steps)
      const { count, drafts } = over
      const rest = runs.slice(count)
      const writing = rest.length === 0 ? over.writing : copyWriting(over.writing)
      rest.forEach((run, index) => addRun(writing, run, count + index < isNew))
      return drafts.trajectory({ ...writing.draft, extra: { ...writing.draft.extra, ...describeSideTasks(runs) } })
    }
  }
}

/** Returns the trajectory of a session in a tree; undefined if the session has no messages. */
export const buildTrajectory = (tree: Tree, sessionId: string, options: Options = {}): Atif.Trajectory | undefined =>
  makeGrowingTrajectory(tree, sessionId, options).trajectory()
