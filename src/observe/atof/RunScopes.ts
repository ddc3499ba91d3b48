/**
 * Scopes and marks of a stream: converts each change of the tree of runs to events.
 *
 * Source: `hermes-contract.md` §4.5 to §4.7, `relay-atof-atif.md` §1.7.
 */
import { observerVersion } from "../../base/domain/Version.ts"
import * as CopiedSteps from "../atif/CopiedSteps.ts"
import * as MessageText from "../atif/Message.ts"
import { describeImages, type Pictures, readCallResult, readPartsAnswer, toSharedJson } from "../atif/RunContent.ts"
import type { ScopeEvent } from "../Atof.ts"
import * as RunTree from "../RunTree.ts"
import * as AgentScopes from "./AgentScopes.ts"
import * as ChatCompletion from "./ChatCompletion.ts"
import * as GrowingRequest from "./GrowingRequest.ts"
import * as SideScopes from "./SideScopes.ts"
import {
  collectApprovalFacts,
  collectAttemptFacts,
  collectCallEndFacts,
  collectCallFacts,
  collectChildFacts,
  collectEndFacts,
  collectRunEndFacts,
  collectRunFacts,
  collectStartFacts,
  isMarked,
  markNames,
  toWireFields
} from "./RunFacts.ts"

type Facts = ChatCompletion.Facts

/** State of a stream. */
export interface StreamState {
  /** Returns the path of the file of an image, relative to the stream, if there is such a file. */
  readonly pictures: Pictures
  readonly tree: RunTree.Tree
  readonly scopes: AgentScopes.ScopesState
  /** Tool scopes by call, including calls that have ended. */
  readonly callScopes: WeakMap<RunTree.Call, ScopeEvent>
  /** Open scopes of the side tasks of calls. */
  readonly sideScopes: SideScopes.SideScopes
  /** Readers for the requests of sessions. Side tasks have separate readers, because their messages are separate. */
  readonly readers: Map<string, GrowingRequest.RequestReader>
}

/** Creates the state of a stream without events. */
export const make = (agent: AgentScopes.Agent, pictures: Pictures): StreamState => ({
  pictures,
  tree: RunTree.make(),
  scopes: AgentScopes.make(agent),
  callScopes: new WeakMap(),
  sideScopes: new WeakMap(),
  readers: new Map()
})

/** Tests whether an attempt or a call belongs to a side task. A side task may outlast the run that requested it. */
const isSideTask = (node: RunTree.Attempt | RunTree.Call): boolean =>
  node.kind === "attempt" && node.start.task !== undefined

const getVersion = ({ start }: RunTree.Run): string => start?.agentVersion ?? "unknown"

const getReader = (
  { readers }: StreamState,
  { run: { sessionId }, start: { task } }: RunTree.Attempt
): GrowingRequest.RequestReader => {
  if (task !== undefined) return GrowingRequest.make()
  const known = readers.get(sessionId) ?? GrowingRequest.make()
  readers.set(sessionId, known)
  return known
}

/**
 * Opens the scope of a child with its first entry, below the call that started it, even if that call has already ended.
 */
const openChild = (stream: StreamState, run: RunTree.Run, child: RunTree.Child): AgentScopes.Session => {
  const parent = AgentScopes.findSession(stream.scopes, child.parent.sessionId)
  const scope = (child.call === undefined ? undefined : stream.callScopes.get(child.call)) ?? parent?.scope
  return AgentScopes.openSession(
    stream.scopes,
    run.sessionId,
    Math.max(run.startedAt, child.startedAt),
    `child of ${child.parent.sessionId} ${child.parent.turnId}`,
    {
      parent,
      scope: scope?.uuid ?? null,
      version: getVersion(run),
      metadata: {
        ...collectStartFacts(run),
        ...collectChildFacts({ ...child, end: undefined }),
        nemo_relay_scope_role: "subagent",
        ...(child.call === undefined ? {} : { parent_tool_call_id: child.call.id })
      },
      data: { session_id: run.sessionId, input: child.start.goal }
    }
  )
}
/** Returns the metadata of a session that repeats another session, for readers that mark copied steps. */
const describeResumption = (stream: StreamState, sessionId: string): Facts => {
  const beginning = stream.tree.beginning(sessionId)
  return beginning === undefined ? {} : { continues: CopiedSteps.describeContinuation(beginning) }
}
/** Returns the open session of a run. The session is opened if this is its first event. */
export const getSession = (stream: StreamState, run: RunTree.Run): AgentScopes.Session =>
  AgentScopes.findSession(stream.scopes, run.sessionId) ??
  (run.child !== undefined
    ? openChild(stream, run, run.child)
    : AgentScopes.openSession(stream.scopes, run.sessionId, run.startedAt, `session ${run.turnId}`, {
        parent: undefined,
        scope: null,
        version: getVersion(run),
        metadata: {
          telemetry_schema_version: observerVersion,
          ...collectStartFacts(run),
          ...describeResumption(stream, run.sessionId)
        },
        data: { session_id: run.sessionId }
      }))

const openAttempt = (stream: StreamState, attempt: RunTree.Attempt): void => {
  const session = getSession(stream, attempt.run)
  const {
    start: { apiRequestId, parameters, route }
  } = attempt
  const request = stream.tree.request(attempt)
  const said = getReader(stream, attempt)(request)
  const data = ChatCompletion.toRequest(attempt, said.messages, request.tools)
  const side = findSidePlace(stream, session, attempt)
  if (attempt.start.task !== undefined && side === undefined)
    return markSideTask(
      stream,
      attempt,
      attempt.startedAt,
      "start",
      data === null ? {} : { request: data, data_schema: ChatCompletion.schema }
    )
  session.open.set(
    attempt,
    AgentScopes.begin(
      stream.scopes,
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
        parent: (side ?? session.scope).uuid,
        category_profile: { model_name: route.model },
        attributes: parameters["stream"] === true ? ["streaming"] : [],
        data,
        ...(data === null ? {} : { data_schema: ChatCompletion.schema })
      }
    )
  )
}
/** Adds a mark for a side task without a call. */
const markSideTask = (
  stream: StreamState,
  attempt: RunTree.Attempt,
  at: number,
  half: keyof typeof SideScopes.markNames,
  facts: Facts
): void => {
  const { apiRequestId, route } = attempt.start
  AgentScopes.mark(
    stream.scopes,
    getSession(stream, attempt.run),
    {
      name: SideScopes.markNames[half],
      key: `side task ${apiRequestId} ${half}`,
      at,
      metadata: { ...collectAttemptFacts(attempt), ...facts }
    },
    undefined,
    { category: "llm", category_profile: { model_name: attempt.end?.model ?? route.model } }
  )
}

/** Returns the scope of the side task that an attempt belongs to, if a call requested the task. */
const findSidePlace = (
  stream: StreamState,
  session: AgentScopes.Session,
  attempt: RunTree.Attempt
): ScopeEvent | undefined => {
  const { call, start, startedAt } = attempt
  if (start.task === undefined || call === undefined) return undefined
  // A judgement about a call precedes its start.
  if (!stream.callScopes.has(call)) openCall(stream, call, startedAt)
  const within = stream.callScopes.get(call)
  return within === undefined
    ? undefined
    : SideScopes.openScope(stream.sideScopes, stream.scopes, session, attempt, {
        call,
        facts: collectAttemptFacts(attempt),
        within
      })
}

const closeAttempt = (stream: StreamState, attempt: RunTree.Attempt, at: number): void => {
  if (attempt.start.task !== undefined && attempt.call === undefined) return closeSideTask(stream, attempt, at)
  const session = getSession(stream, attempt.run)
  const open = session.open.get(attempt)
  const over = attempt.end
  if (open === undefined || over === undefined) return
  session.open.delete(attempt)
  const answer = readPartsAnswer(over.answer, attempt.start.step)
  const data = ChatCompletion.toResponse(attempt, answer)
  AgentScopes.end(stream.scopes, session, open, at, {
    data,
    ...(data === null ? {} : { data_schema: ChatCompletion.schema }),
    category_profile: {
      model_name: over.model ?? attempt.start.route.model,
      ...(over.firstPartAt === undefined ? {} : { time_to_first_chunk: (over.firstPartAt - attempt.startedAt) / 1000 })
    },
    // Readers do not accept an answer in `data` that consists only of reasoning.
    facts: {
      ...collectEndFacts(attempt),
      ...(data === null && answer.reasoning !== "" ? { reasoning_content: answer.reasoning } : {})
    }
  })
  if (attempt.start.task !== undefined && attempt.call !== undefined && over.status === "answered")
    SideScopes.endScope(stream.sideScopes, stream.scopes, session, attempt.call, at)
}

/** Adds the mark for the end of a side task without a call. A task may end after its session. */
const closeSideTask = (stream: StreamState, attempt: RunTree.Attempt, at: number): void => {
  const { end, run, start } = attempt
  if (end === undefined || AgentScopes.findSession(stream.scopes, run.sessionId) === undefined) return
  const data = ChatCompletion.toResponse(attempt, readPartsAnswer(end.answer, start.step))
  markSideTask(stream, attempt, at, "end", {
    ...collectEndFacts(attempt),
    started_at: attempt.startedAt,
    ...(data === null ? {} : { response: data, data_schema: ChatCompletion.schema })
  })
}

const openCall = (stream: StreamState, call: RunTree.Call, at: number = call.startedAt): void => {
  const session = getSession(stream, call.run)
  // An approval may already have opened the scope.
  if (session.open.has(call)) return
  const within = call.parent === undefined ? undefined : stream.callScopes.get(call.parent)
  const scope = AgentScopes.begin(
    stream.scopes,
    session,
    { name: call.name || "tool", key: `call ${call.run.turnId} ${call.id}`, at, metadata: collectCallFacts(call) },
    {
      category: "tool",
      parent: (within ?? session.scope).uuid,
      category_profile: call.parent === undefined ? { tool_call_id: call.id } : {},
      attributes: call.start?.parallel === true ? ["parallel"] : [],
      data: toSharedJson(call.start?.args ?? call.args ?? {})
    }
  )
  stream.callScopes.set(call, scope)
  session.open.set(call, scope)
}
const closeCall = (stream: StreamState, call: RunTree.Call, at: number): void => {
  const session = getSession(stream, call.run)
  const open = session.open.get(call)
  if (open === undefined) return
  SideScopes.endScope(stream.sideScopes, stream.scopes, session, call, at)
  session.open.delete(call)
  const result = readCallResult(call)
  const output = result === undefined ? undefined : MessageText.toPlainText(result)
  const reached = toSharedJson(call.start?.args ?? null)
  const isChanged =
    call.start !== undefined && reached !== open.data && JSON.stringify(reached) !== JSON.stringify(open.data)
  AgentScopes.end(stream.scopes, session, open, at, {
    data: output ?? null,
    category_profile: open.category_profile ?? null,
    // The scope began with the arguments for which approval was requested, but middleware may have changed them
    // afterwards.
    facts: {
      ...collectCallEndFacts(call, output),
      ...(isChanged ? { args: reached } : {}),
      ...describeImages(call.result?.modelOutput ?? [], stream.pictures)
    }
  })
}

const markChildStart = (stream: StreamState, child: RunTree.Child): void => {
  const session = getSession(stream, child.parent)
  const scope = (child.call === undefined ? undefined : stream.callScopes.get(child.call)) ?? session.scope
  const {
    start: { sessionId }
  } = child
  const metadata = collectChildFacts(child)
  AgentScopes.mark(
    stream.scopes,
    session,
    { name: "hermes.subagent.start", key: `child ${sessionId}`, at: child.startedAt, metadata },
    scope.uuid
  )
  AgentScopes.awaitChild(session, sessionId)
}
const markChildEnd = (stream: StreamState, child: RunTree.Child, at: number): void => {
  const {
    start: { sessionId }
  } = child
  const session = getSession(stream, child.parent)
  const own = AgentScopes.findSession(stream.scopes, sessionId)
  const metadata = collectChildFacts(child)
  if (own !== undefined) AgentScopes.endSession(stream.scopes, own, at, metadata)
  const scope = (child.call === undefined ? undefined : stream.callScopes.get(child.call)) ?? session.scope
  AgentScopes.mark(
    stream.scopes,
    session,
    { name: "hermes.subagent.stop", key: `child ${sessionId}`, at, metadata },
    scope.uuid
  )
  AgentScopes.releaseChild(stream.scopes, session, sessionId)
}

const markApproval = (
  stream: StreamState,
  approval: RunTree.Approval,
  at: number,
  facts: Facts,
  name: "request" | "response"
): void => {
  const session = getSession(stream, approval.call.run)
  const { call } = approval
  // An approval is requested before the tool begins.
  if (call.end === undefined) openCall(stream, call, at)
  AgentScopes.mark(
    stream.scopes,
    session,
    {
      name: `hermes.approval.${name}`,
      key: `approval ${call.run.turnId} ${call.id} ${name}`,
      at,
      metadata: { ...collectApprovalFacts(approval), ...facts }
    },
    (stream.callScopes.get(call) ?? session.scope).uuid
  )
}

const openRun = (stream: StreamState, run: RunTree.Run): void => {
  const session = getSession(stream, run)
  session.names.clear()
  session.ending = undefined
  // The process of the previous run was killed, so only its side tasks may continue.
  AgentScopes.cutOff(stream.scopes, session, run.startedAt, (node) => node.run !== run && !isSideTask(node))
  if (session.runs.some(({ endedAt }) => endedAt === undefined))
    AgentScopes.cutChildren(stream.scopes, session, run.startedAt)
  session.runs.push(run)
}
const closeRun = (stream: StreamState, run: RunTree.Run, at: number): void => {
  const session = getSession(stream, run)
  AgentScopes.cutOff(stream.scopes, session, at, (node) => node.run === run && !isSideTask(node))
  const said = run.end?.text
  const facts = {
    ...collectRunFacts(run),
    ...(run.start === undefined ? {} : { provider: run.start.provider, model: run.start.model })
  }
  if (said !== undefined && said !== "") {
    AgentScopes.mark(stream.scopes, session, {
      name: "hermes.turn.end",
      key: `turn end ${run.turnId}`,
      at,
      metadata: { ...facts, assistant_response: said }
    })
  }
  AgentScopes.mark(stream.scopes, session, {
    name: "hermes.session.end",
    key: `run end ${run.turnId}`,
    at,
    metadata: { ...facts, ...collectRunEndFacts(run) }
  })
  // The parent recorded the end of the child before the child recorded the end of its run.
  if (run.child?.end !== undefined) AgentScopes.endSession(stream.scopes, session, at, collectChildFacts(run.child))
}

/** Adds the events for a change of the tree. */
export const handleChange = (stream: StreamState, change: RunTree.Change): void => {
  const { at } = change
  if (change._tag === "Noted") {
    const { event, run } = change
    const session = getSession(stream, run)
    if (event._tag === "SessionEnded")
      return AgentScopes.endSession(stream.scopes, session, at, { ...collectRunFacts(run), reason: event.reason })
    if (!isMarked(event._tag)) return
    return AgentScopes.mark(stream.scopes, session, {
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
      return isOpening ? openRun(stream, node) : closeRun(stream, node, at)
    case "attempt":
      return isOpening ? openAttempt(stream, node) : closeAttempt(stream, node, at)
    case "call":
      return isOpening ? openCall(stream, node) : closeCall(stream, node, at)
    case "child":
      return isOpening ? markChildStart(stream, node) : markChildEnd(stream, node, at)
    case "approval": {
      const { choice, decidedBy } = node.event
      return isOpening
        ? markApproval(stream, node, at, {}, "request")
        : markApproval(
            stream,
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
