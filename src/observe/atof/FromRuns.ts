/**
 * Events of a stream, made of the run record entry by entry: sessions and children are agent scopes, attempts are llm
 * scopes, tool calls are tool scopes, everything else is a mark.
 *
 * **Details**
 *
 * - A session opens with its first entry and closes when it is abandoned, when its delegation ends, or when the stream
 *   closes; scopes that are still open are then ended first, as interrupted. Background children hold it open until
 *   they end.
 * - A child's agent scope is under the tool scope that delegated to it, a call that a tool made under the scope of that
 *   tool.
 * - Times and the source of ids (`AgentScopes`) are the record's: the same entries produce the same events, live and
 *   from the store.
 * - An attempt of a side task (a title, a summary) says so in its metadata (`side_task`); it is no step of the agent.
 *   `message_refs` names the messages of a request by their place in the session, so that a reader knows what is new in
 *   it.
 * - Marks record moments: their facts are in `metadata`, their `data` is null, so that no converter takes them for a
 *   step.
 *
 * **Gotchas**
 *
 * The record is written step by step, so the events of agents that run at the same time come in turns: a reader sorts
 * by time. An attempt that failed has no `data` unless something had come of its answer, and a call that a tool made
 * has its id in the metadata alone: the reference converter refuses anything else.
 *
 * Source: `hermes-contract.md` §4.5 to §4.7, `relay-atof-atif.md` §1.7.
 */
import type * as Record from "../../base/domain/RecordEvent.ts"
import { observerVersion } from "../../base/domain/Version.ts"
import {
  readMessageAnswer,
  readPartsAnswer,
  toContent,
  toJson,
  renderToolResult,
  readCallResult
} from "../atif/RunContent.ts"
import * as CopiedSteps from "../atif/CopiedSteps.ts"
import * as MessageText from "../atif/Message.ts"
import type { Event, ScopeEvent } from "../Atof.ts"
import * as RunTree from "../RunTree.ts"
import * as AgentScopes from "./AgentScopes.ts"
import * as ChatCompletion from "./ChatCompletion.ts"
import * as GrowingRequest from "./GrowingRequest.ts"
import {
  collectApprovalFacts,
  collectAttemptFacts,
  collectCallEndFacts,
  collectCallFacts,
  collectChildFacts,
  collectEndFacts,
  toWireFields,
  isMarked,
  markNames,
  collectRunEndFacts,
  collectRunFacts
} from "./RunFacts.ts"

type Facts = ChatCompletion.Facts
type TaggedEvent<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/** A stream that grows. */
export interface Stream {
  /** The events that an entry makes, in order. */
  readonly add: (entry: Record.Entry) => ReadonlyArray<Event>
  /**
   * Takes what was recorded of a session before this stream: later requests name its messages. No event comes of it.
   */
  readonly recall: (entries: ReadonlyArray<Record.Entry>) => void
  /** Tests whether runs of a session are in the stream. */
  readonly knows: (sessionId: string) => boolean
  /** Forgets the runs of sessions that have ended; `sessionId` is one that just has. */
  readonly forgetEnded: (sessionId: string) => void
  /** Ends everything that is open. */
  readonly close: () => ReadonlyArray<Event>
}

/** Tests for an attempt of a side task, which may outlast the run that asked. */
const isSideTask = (node: RunTree.Attempt | RunTree.Call): boolean =>
  node.kind === "attempt" && node.start.task !== undefined

const getVersion = ({ start }: RunTree.Run): string => start?.agentVersion ?? "unknown"

/** A stream without an event. */
export const make = (agent: AgentScopes.Agent): Stream => {
  const tree = RunTree.make()
  const scopes = AgentScopes.make(agent)
  const { begin, cutOff, end, endSession, mark, openSession } = scopes
  const callScopes = new WeakMap<RunTree.Call, ScopeEvent>()
  /** Readers of the requests of sessions; side tasks have separate readers, because their messages are separate. */
  const readers = new Map<string, GrowingRequest.RequestReader>()
  const getReader = ({ run: { sessionId }, start: { task } }: RunTree.Attempt): GrowingRequest.RequestReader => {
    if (task !== undefined) return GrowingRequest.make()
    const known = readers.get(sessionId) ?? GrowingRequest.make()
    readers.set(sessionId, known)
    return known
  }

  /** The scope of a child, with its first entry: under the call that made it, also where that is over by then. */
  const openChild = (run: RunTree.Run, child: RunTree.Child): AgentScopes.Session => {
    const parent = scopes.session(child.parent.sessionId)
    const scope = (child.call === undefined ? undefined : callScopes.get(child.call)) ?? parent?.scope
    return openSession(
      run.sessionId,
      Math.max(run.startedAt, child.startedAt),
      `child of ${child.parent.sessionId} ${child.parent.turnId}`,
      {
        parent,
        scope: scope?.uuid ?? null,
        version: getVersion(run),
        metadata: {
          ...collectChildFacts({ ...child, end: undefined }),
          nemo_relay_scope_role: "subagent",
          ...(child.call === undefined ? {} : { parent_tool_call_id: child.call.id })
        },
        data: { session_id: run.sessionId, input: child.start.goal }
      }
    )
  }
  /** Metadata of a session that repeats another one, for readers that mark what was copied. */
  const describeResumption = (sessionId: string): Facts => {
    const beginning = tree.beginning(sessionId)
    return beginning === undefined ? {} : { continues: CopiedSteps.describeContinuation(beginning) }
  }
  const getSession = (run: RunTree.Run): AgentScopes.Session =>
    scopes.session(run.sessionId) ??
    (run.child !== undefined
      ? openChild(run, run.child)
      : openSession(run.sessionId, run.startedAt, `session ${run.turnId}`, {
          parent: undefined,
          scope: null,
          version: getVersion(run),
          metadata: {
            telemetry_schema_version: observerVersion,
            ...(run.start === undefined
              ? {}
              : { platform: run.start.platform, provider: run.start.provider, model: run.start.model }),
            ...describeResumption(run.sessionId)
          },
          data: { session_id: run.sessionId }
        }))

  const openAttempt = (attempt: RunTree.Attempt): void => {
    const session = getSession(attempt.run)
    const {
      start: { apiRequestId, parameters, route }
    } = attempt
    const request = tree.request(attempt)
    const said = getReader(attempt)(request)
    const data = ChatCompletion.toRequest(attempt, said.messages, request.tools)
    session.open.set(
      attempt,
      begin(
        session,
        {
          name: route.provider || "llm",
          key: `attempt ${apiRequestId}`,
          at: attempt.startedAt,
          metadata: {
            ...collectAttemptFacts(attempt),
            tool_count: request.tools.length,
            message_count: request.messages.length,
            message_refs: said.references,
            ...said.foreignOrigins
          }
        },
        {
          category: "llm",
          parent: session.scope.uuid,
          category_profile: { model_name: route.model },
          attributes: parameters["stream"] === true ? ["streaming"] : [],
          data,
          ...(data === null ? {} : { data_schema: ChatCompletion.schema })
        }
      )
    )
  }
  const closeAttempt = (attempt: RunTree.Attempt, at: number): void => {
    const session = getSession(attempt.run)
    const open = session.open.get(attempt)
    const over = attempt.end
    if (open === undefined || over === undefined) return
    session.open.delete(attempt)
    const answer = readPartsAnswer(over.answer, attempt.start.step)
    const data = ChatCompletion.toResponse(attempt, answer)
    end(session, open, at, {
      data,
      ...(data === null ? {} : { data_schema: ChatCompletion.schema }),
      category_profile: {
        model_name: over.model ?? attempt.start.route.model,
        ...(over.firstPartAt === undefined
          ? {}
          : { time_to_first_chunk: (over.firstPartAt - attempt.startedAt) / 1000 })
      },
      // A reader of `data` does not accept an answer of reasoning alone.
      facts: {
        ...collectEndFacts(attempt),
        ...(data === null && answer.reasoning !== "" ? { reasoning_content: answer.reasoning } : {})
      }
    })
  }

  const openCall = (call: RunTree.Call, at: number = call.startedAt): void => {
    const session = getSession(call.run)
    // An approval has opened it.
    if (session.open.has(call)) return
    const within = call.parent === undefined ? undefined : callScopes.get(call.parent)
    const scope = begin(
      session,
      { name: call.name || "tool", key: `call ${call.run.turnId} ${call.id}`, at, metadata: collectCallFacts(call) },
      {
        category: "tool",
        parent: (within ?? session.scope).uuid,
        category_profile: call.parent === undefined ? { tool_call_id: call.id } : {},
        attributes: call.start?.parallel === true ? ["parallel"] : [],
        data: toJson(call.start?.args ?? call.args ?? {})
      }
    )
    callScopes.set(call, scope)
    session.open.set(call, scope)
  }
  const closeCall = (call: RunTree.Call, at: number): void => {
    const session = getSession(call.run)
    const open = session.open.get(call)
    if (open === undefined) return
    session.open.delete(call)
    const result = readCallResult(call)
    const output = result === undefined ? undefined : MessageText.toPlainText(result)
    const reached = toJson(call.start?.args ?? null)
    const isChanged = call.start !== undefined && JSON.stringify(reached) !== JSON.stringify(open.data)
    end(session, open, at, {
      data: output ?? null,
      category_profile: open.category_profile ?? null,
      // The scope began with the arguments to be approved; middleware may have changed them since.
      facts: { ...collectCallEndFacts(call, output), ...(isChanged ? { args: reached } : {}) }
    })
  }

  const markChildStart = (child: RunTree.Child): void => {
    const session = getSession(child.parent)
    const scope = (child.call === undefined ? undefined : callScopes.get(child.call)) ?? session.scope
    const {
      start: { sessionId }
    } = child
    const metadata = collectChildFacts(child)
    mark(
      session,
      { name: "hermes.subagent.start", key: `child ${sessionId}`, at: child.startedAt, metadata },
      scope.uuid
    )
    scopes.awaitChild(session, sessionId)
  }
  const markChildEnd = (child: RunTree.Child, at: number): void => {
    const {
      start: { sessionId }
    } = child
    const session = getSession(child.parent)
    const own = scopes.session(sessionId)
    const metadata = collectChildFacts(child)
    if (own !== undefined) endSession(own, at, metadata)
    const scope = (child.call === undefined ? undefined : callScopes.get(child.call)) ?? session.scope
    mark(session, { name: "hermes.subagent.stop", key: `child ${sessionId}`, at, metadata }, scope.uuid)
    scopes.releaseChild(session, sessionId)
  }

  const markApproval = (approval: RunTree.Approval, at: number, facts: Facts, name: "request" | "response"): void => {
    const session = getSession(approval.call.run)
    const { call } = approval
    // An approval is asked for before the tool begins.
    if (call.end === undefined) openCall(call, at)
    mark(
      session,
      {
        name: `hermes.approval.${name}`,
        key: `approval ${call.run.turnId} ${call.id} ${name}`,
        at,
        metadata: { ...collectApprovalFacts(approval), ...facts }
      },
      (callScopes.get(call) ?? session.scope).uuid
    )
  }

  const openRun = (run: RunTree.Run): void => {
    const session = getSession(run)
    session.names.clear()
    session.ending = undefined
    // The process of the run before was killed: its side tasks may go on, and nothing else.
    cutOff(session, run.startedAt, (node) => node.run !== run && !isSideTask(node))
    if (session.runs.some(({ endedAt }) => endedAt === undefined)) scopes.cutChildren(session, run.startedAt)
    session.runs.push(run)
  }
  const closeRun = (run: RunTree.Run, at: number): void => {
    const session = getSession(run)
    cutOff(session, at, (node) => node.run === run && !isSideTask(node))
    const said = run.end?.text
    const facts = {
      ...collectRunFacts(run),
      ...(run.start === undefined ? {} : { provider: run.start.provider, model: run.start.model })
    }
    if (said !== undefined && said !== "") {
      mark(session, {
        name: "hermes.turn.end",
        key: `turn end ${run.turnId}`,
        at,
        metadata: { ...facts, assistant_response: said }
      })
    }
    mark(session, {
      name: "hermes.session.end",
      key: `run end ${run.turnId}`,
      at,
      metadata: { ...facts, ...collectRunEndFacts(run) }
    })
    // Its parent told its end before it came to it.
    if (run.child?.end !== undefined) endSession(session, at, collectChildFacts(run.child))
  }

  const handleChange = (change: RunTree.Change): void => {
    const { at } = change
    if (change._tag === "Noted") {
      const { event, run } = change
      const session = getSession(run)
      if (event._tag === "SessionEnded")
        return endSession(session, at, { ...collectRunFacts(run), reason: event.reason })
      if (!isMarked(event._tag)) return
      return mark(session, {
        name: markNames[event._tag],
        key: `${event._tag} ${run.turnId}`,
        at,
        metadata: { ...collectRunFacts(run), ...toWireFields(event) }
      })
    }
    const { node } = change
    const isOpening = change._tag === "Opened"
    switch (node.kind) {
      case "run":
        return isOpening ? openRun(node) : closeRun(node, at)
      case "attempt":
        return isOpening ? openAttempt(node) : closeAttempt(node, at)
      case "call":
        return isOpening ? openCall(node) : closeCall(node, at)
      case "child":
        return isOpening ? markChildStart(node) : markChildEnd(node, at)
      case "approval": {
        const { choice, decidedBy } = node.event
        return isOpening
          ? markApproval(node, at, {}, "request")
          : markApproval(
              node,
              at,
              { choice, ...(decidedBy === undefined ? {} : { decided_by: decidedBy }) },
              "response"
            )
      }
      case "step":
        return undefined
    }
  }

  /** An answer that was not stored as it came: calls repaired or left out, the rest of one that broke off added. */
  const markStoredAnswer = (
    run: RunTree.Run,
    at: number,
    { message, position }: TaggedEvent<"MessageAppended">
  ): void => {
    const step = run.steps.at(-1)
    if (message?.role !== "assistant" || step === undefined) return
    const stored = ChatCompletion.toAssistantMessage(readMessageAnswer(message))
    const last =
      step.attempts.findLast(({ end }) => end?.status === "answered") ??
      step.attempts.findLast(({ end }) => end !== undefined && end.answer.length > 0)
    const came =
      last?.end === undefined
        ? undefined
        : ChatCompletion.toAssistantMessage(readPartsAnswer(last.end.answer, step.number))
    if (came !== undefined && JSON.stringify(came) === JSON.stringify(stored)) return
    mark(getSession(run), {
      name: "hermes.answer.stored",
      key: `answer ${run.turnId}`,
      at,
      metadata: {
        ...collectRunFacts(run),
        ...(position === undefined ? {} : { position }),
        api_call_count: step.number,
        assistant_message: stored
      }
    })
  }

  /** Messages that are part of the session and no answer of this run's model or tools. */
  const handleMessage = (run: RunTree.Run, at: number, event: TaggedEvent<"MessageAppended">): void => {
    const { message, origin, position } = event
    if (message === undefined || position === undefined) return
    if (message.role === "assistant") return markStoredAnswer(run, at, event)
    const session = getSession(run)
    const facts = { ...collectRunFacts(run), position }
    if (message.role === "tool") {
      for (const part of message.content) {
        if (
          part.type !== "tool-result" ||
          run.steps.findLast(({ calls }) => calls.some(({ id }) => id === part.id)) !== undefined
        )
          continue
        mark(session, {
          name: "hermes.message",
          key: `message ${run.turnId}`,
          at,
          metadata: {
            ...facts,
            origin,
            role: "tool",
            tool_call_id: part.id,
            content: MessageText.toPlainText(renderToolResult(part))
          }
        })
      }
      return
    }
    const content = toJson(toContent(message.content))
    const isPrompt = origin === "user" && !run.messages.some((one) => one.origin === "user" && one.message !== message)
    mark(
      session,
      isPrompt
        ? {
            name: "hermes.turn.start",
            key: `turn start ${run.turnId}`,
            at,
            metadata: {
              ...facts,
              ...(run.start === undefined
                ? {}
                : { provider: run.start.provider, model: run.start.model, is_first_turn: !run.start.resumed }),
              user_message: content
            }
          }
        : {
            name: "hermes.message",
            key: `message ${run.turnId}`,
            at,
            metadata: { ...facts, origin, role: message.role, content }
          }
    )
  }

  return {
    add: (entry) => {
      for (const change of tree.add(entry)) handleChange(change)
      const run = scopes.session(entry.sessionId)?.runs.findLast(({ turnId }) => turnId === entry.turnId)
      if (run !== undefined && entry.event._tag === "MessageAppended") handleMessage(run, entry.at, entry.event)
      return scopes.take()
    },
    recall: (entries) => {
      for (const entry of entries) tree.add(entry)
    },
    knows: (sessionId) =>
      scopes.session(sessionId) !== undefined || tree.roots.some((root) => root.sessionId === sessionId),
    forgetEnded: (ended) => {
      for (const run of tree.roots.filter(({ sessionId }) => scopes.session(sessionId) === undefined)) tree.forget(run)
      tree.release(ended)
      for (const id of readers.keys()) if (scopes.session(id) === undefined) readers.delete(id)
    },
    close: () => {
      scopes.closeAll({ reason: "shutdown" })
      return scopes.take()
    }
  }
}

/** The events of stored entries. */
export const toEvents = (entries: Iterable<Record.Entry>, agent: AgentScopes.Agent): ReadonlyArray<Event> => {
  const stream = make(agent)
  const events: Array<Event> = []
  for (const entry of entries) for (const event of stream.add(entry)) events.push(event)
  events.push(...stream.close())
  return events
}
