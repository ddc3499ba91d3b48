/**
 * Events of a stream, made of the run record entry by entry: sessions and children are agent scopes, attempts are llm scopes, tool
 * calls are tool scopes, everything else is a mark.
 *
 * **Details**
 *
 * - A session opens with its first entry and closes when it was given up, when its delegation ends, or when the stream closes; what
 *   is still open in it then is ended first, as interrupted.
 * - A child's agent scope is under the tool scope that delegated to it, a call that a tool made under the scope of that tool.
 * - Times are those of the record. Events of one agent never share an instant: an event is a microsecond later than the one
 *   before it where the record gives them the same one. A child begins after its call and ends before it.
 * - Ids are made of the ids of the record: the same entries give the same events, live and from the store.
 * - An attempt of a side task (a title, a summary) says so in its metadata (`side_task`); it is no step of the agent.
 *   `message_refs` names the messages of a request by their place in the session, so that a reader knows what is new in it.
 * - Marks record moments: their facts are in `metadata`, their `data` is null, so that no converter takes them for a step.
 *
 * **Gotchas**
 *
 * The record is written step by step, so the events of agents that run at the same time come in turns: a reader sorts by time.
 * An attempt that failed has no `data` unless something had come of its answer, and a call that a tool made has its id in the
 * metadata alone: the reference converter refuses anything else.
 *
 * Source: `hermes-contract.md` §4.5 to §4.7, `relay-atof-atif.md` §1.7.
 */
import type * as Record from "../../domain/RecordEvent.ts"
import { observerVersion } from "../../hooks/PayloadTable.ts"
import * as Digest from "../../platform/Digest.ts"
import { answerOfMessage, answerOfParts, contentOf, json, resultOf, textOf } from "../atif/RunContent.ts"
import { type Event, type ScopeEvent, timestampOf, version } from "../Atof.ts"
import * as RunTree from "../RunTree.ts"
import * as ChatCompletion from "./ChatCompletion.ts"
import {
  approvalFacts,
  attemptFacts,
  callEndFacts,
  callFacts,
  childFacts,
  endFacts,
  fieldsOf,
  isMarked,
  markNames,
  references,
  runEndFacts,
  runFacts
} from "./RunFacts.ts"

type Facts = ChatCompletion.Facts
type Tagged<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/** Name and version of the agent that a stream is of. */
export interface Agent {
  readonly name: string
  readonly version: string
}

/** A stream that grows. */
export interface Stream {
  /** The events that an entry makes, in order. */
  readonly add: (entry: Record.Entry) => ReadonlyArray<Event>
  /** Takes what was recorded of a session before this stream: later requests name its messages. No event comes of it. */
  readonly recall: (entries: ReadonlyArray<Record.Entry>) => void
  /** Forgets the runs of a session that was given up. */
  readonly forget: (sessionId: string) => void
  /** Ends everything that is open. */
  readonly close: () => ReadonlyArray<Event>
}

/** An agent scope that is open. */
interface Session {
  readonly id: string
  readonly scope: ScopeEvent
  readonly parent: Session | undefined
  /** Instant of its last event, in microseconds. */
  readonly clock: { last: number }
  readonly open: Map<RunTree.Attempt | RunTree.Call, ScopeEvent>
  /** Uses of each name that an id is made of, for names that come again. */
  readonly names: Map<string, number>
  readonly runs: Array<RunTree.Run>
}

interface Named {
  readonly name: string
  /** Distinguishes the event from others of its session. */
  readonly key: string
  readonly at: number
  readonly metadata: Facts
}

/** A stream without an event. */
export const make = (agent: Agent): Stream => {
  const tree = RunTree.make()
  const sessions = new Map<string, Session>()
  const runs = new Map<string, RunTree.Run>()
  const scopes = new WeakMap<RunTree.Call, ScopeEvent>()
  let out: Array<Event> = []
  /** Instant of the last end of a session: one that begins after it does not begin before it. */
  let ended = 0

  const stamp = ({ clock }: Session, at: number): number => clock.last = Math.max(Math.round(at * 1000), clock.last + 1)
  const uuid = ({ id, names }: Pick<Session, "id" | "names">, key: string, micros: number): string => {
    const n = names.get(key) ?? 0
    names.set(key, n + 1)
    const time = Math.floor(micros / 1000).toString(16).padStart(12, "0")
    const hash = Digest.hex(`${id}\n${key}\n${n}`, 19)
    return `${time.slice(0, 8)}-${time.slice(8)}-7${hash.slice(0, 3)}-8${hash.slice(3, 6)}-${hash.slice(6, 18)}`
  }
  const begin = (
    session: Session,
    { at, key, metadata, name }: Named,
    scope: Pick<ScopeEvent, "category" | "category_profile" | "attributes" | "data" | "data_schema"> & { readonly parent: string }
  ): ScopeEvent => {
    const micros = stamp(session, at)
    const { parent, ...rest } = scope
    const event: ScopeEvent = {
      kind: "scope",
      atof_version: version,
      scope_category: "start",
      name,
      uuid: uuid(session, key, micros),
      parent_uuid: parent,
      timestamp: timestampOf(micros),
      metadata,
      ...rest
    }
    out.push(event)
    return event
  }
  const end = (
    session: Session,
    { data_schema: _, ...open }: ScopeEvent,
    at: number,
    over: Pick<ScopeEvent, "data" | "data_schema" | "category_profile"> & { readonly facts: Facts }
  ): void => {
    const { facts, ...rest } = over
    out.push({
      ...open,
      scope_category: "end",
      timestamp: timestampOf(stamp(session, at)),
      metadata: { ...open.metadata, ...facts },
      ...rest
    })
  }
  const mark = (session: Session, { at, key, metadata, name }: Named, parent: string = session.scope.uuid): void => {
    const micros = stamp(session, at)
    out.push({
      kind: "mark",
      atof_version: version,
      name,
      uuid: uuid(session, key, micros),
      parent_uuid: parent,
      timestamp: timestampOf(micros),
      category: null,
      category_profile: null,
      metadata,
      data: null
    })
  }

  const openSession = (
    id: string,
    at: number,
    key: string,
    fields: { readonly parent: Session | undefined; readonly scope: string | null; readonly metadata: Facts; readonly data: Facts }
  ): Session => {
    const { data, metadata, parent, scope: within } = fields
    const names = new Map<string, number>()
    const micros = Math.max(Math.round(at * 1000), (parent?.clock.last ?? ended) + 1)
    const scope: ScopeEvent = {
      kind: "scope",
      atof_version: version,
      category: "agent",
      name: `hermes-session-${id}`,
      scope_category: "start",
      uuid: uuid({ id, names }, key, micros),
      parent_uuid: within,
      timestamp: timestampOf(micros),
      category_profile: null,
      attributes: [],
      metadata: { ...metadata, session_id: id, trajectory_id: id, agent_name: agent.name, version: agent.version },
      data
    }
    out.push(scope)
    const session: Session = { id, scope, parent, clock: { last: micros }, open: new Map(), names, runs: [] }
    sessions.set(id, session)
    return session
  }
  /** The scope of a child, with its first entry: under the call that made it, also where that is over by then. */
  const openChild = (run: RunTree.Run, child: RunTree.Child): Session => {
    const parent = sessions.get(child.parent.sessionId)
    const scope = (child.call === undefined ? undefined : scopes.get(child.call)) ?? parent?.scope
    return openSession(run.sessionId, Math.max(run.startedAt, child.startedAt), `child of ${child.parent.sessionId} ${child.parent.turnId}`, {
      parent,
      scope: scope?.uuid ?? null,
      metadata: {
        ...childFacts({ ...child, end: undefined }),
        nemo_relay_scope_role: "subagent",
        ...(child.call === undefined ? {} : { parent_tool_call_id: child.call.id })
      },
      data: { session_id: run.sessionId, input: child.start.goal }
    })
  }
  const sessionOf = (run: RunTree.Run): Session =>
    sessions.get(run.sessionId) ?? (run.child !== undefined ? openChild(run, run.child) : openSession(run.sessionId, run.startedAt, `session ${run.turnId}`, {
      parent: undefined,
      scope: null,
      metadata: {
        telemetry_schema_version: observerVersion,
        ...(run.start === undefined ? {} : { platform: run.start.platform, provider: run.start.provider, model: run.start.model })
      },
      data: { session_id: run.sessionId }
    }))

  const cutOff = (session: Session, node: RunTree.Attempt | RunTree.Call, scope: ScopeEvent, at: number): void => {
    session.open.delete(node)
    end(session, scope, at, {
      data: null,
      category_profile: scope.category_profile ?? null,
      facts: node.kind === "call" ? { status: "cancelled", reason: "interrupted" } : { status: "error", reason: "interrupted" }
    })
  }
  const closeOpen = (session: Session, at: number): void => {
    for (const [node, scope] of Array.from(session.open).toReversed()) cutOff(session, node, scope, at)
  }
  const closeSession = (session: Session, at: number, facts: Facts): void => {
    for (const child of Array.from(sessions.values()).toReversed()) if (child.parent === session) closeSession(child, at, { reason: "interrupted" })
    closeOpen(session, at)
    end(session, session.scope, at, { data: null, category_profile: null, facts })
    sessions.delete(session.id)
    // What the child is in ends after it.
    if (session.parent !== undefined) session.parent.clock.last = Math.max(session.parent.clock.last, session.clock.last)
    else ended = Math.max(ended, session.clock.last)
    for (const { turnId } of session.runs) runs.delete(turnId)
  }

  const attemptOpened = (attempt: RunTree.Attempt): void => {
    const session = sessionOf(attempt.run)
    const { start: { apiRequestId, parameters, route } } = attempt
    const request = tree.request(attempt)
    const data = ChatCompletion.request(attempt, request)
    session.open.set(attempt, begin(session, {
      name: route.provider || "llm",
      key: `attempt ${apiRequestId}`,
      at: attempt.startedAt,
      metadata: {
        ...attemptFacts(attempt),
        tool_count: request.tools.length,
        message_count: request.messages.length,
        message_refs: references(attempt, request)
      }
    }, {
      category: "llm",
      parent: session.scope.uuid,
      category_profile: { model_name: route.model },
      attributes: parameters["stream"] === true ? ["streaming"] : [],
      data,
      ...(data === null ? {} : { data_schema: ChatCompletion.schema })
    }))
  }
  const attemptClosed = (attempt: RunTree.Attempt, at: number): void => {
    const session = sessionOf(attempt.run)
    const open = session.open.get(attempt)
    const over = attempt.end
    if (open === undefined || over === undefined) return
    session.open.delete(attempt)
    const data = ChatCompletion.response(attempt, answerOfParts(over.answer, attempt.start.step))
    end(session, open, at, {
      data,
      ...(data === null ? {} : { data_schema: ChatCompletion.schema }),
      category_profile: {
        model_name: over.model ?? attempt.start.route.model,
        ...(over.firstPartAt === undefined ? {} : { time_to_first_chunk: (over.firstPartAt - attempt.startedAt) / 1000 })
      },
      facts: endFacts(attempt)
    })
  }

  const callOpened = (call: RunTree.Call): void => {
    const session = sessionOf(call.run)
    const within = call.parent === undefined ? undefined : scopes.get(call.parent)
    const scope = begin(session, { name: call.name || "tool", key: `call ${call.run.turnId} ${call.id}`, at: call.startedAt, metadata: callFacts(call) }, {
      category: "tool",
      parent: (within ?? session.scope).uuid,
      category_profile: call.parent === undefined ? { tool_call_id: call.id } : {},
      attributes: call.start?.parallel === true ? ["parallel"] : [],
      data: json(call.start?.args ?? call.args ?? {})
    })
    scopes.set(call, scope)
    session.open.set(call, scope)
  }
  const callClosed = (call: RunTree.Call, at: number): void => {
    const session = sessionOf(call.run)
    const open = session.open.get(call)
    if (open === undefined) return
    session.open.delete(call)
    const output = resultOf(call)
    end(session, open, at, { data: output ?? null, category_profile: open.category_profile ?? null, facts: callEndFacts(call, output) })
  }

  const childOpened = (child: RunTree.Child): void => {
    const session = sessionOf(child.parent)
    const scope = (child.call === undefined ? undefined : scopes.get(child.call)) ?? session.scope
    const { start: { sessionId } } = child
    const metadata = childFacts(child)
    mark(session, { name: "hermes.subagent.start", key: `child ${sessionId}`, at: child.startedAt, metadata }, scope.uuid)
  }
  const childClosed = (child: RunTree.Child, at: number): void => {
    const session = sessionOf(child.parent)
    const own = sessions.get(child.start.sessionId)
    const metadata = childFacts(child)
    if (own !== undefined) closeSession(own, at, metadata)
    const scope = (child.call === undefined ? undefined : scopes.get(child.call)) ?? session.scope
    mark(session, { name: "hermes.subagent.stop", key: `child ${child.start.sessionId}`, at, metadata }, scope.uuid)
  }

  const approved = (approval: RunTree.Approval, at: number, facts: Facts, name: "request" | "response"): void => {
    const session = sessionOf(approval.call.run)
    const { call } = approval
    mark(session, {
      name: `hermes.approval.${name}`,
      key: `approval ${call.run.turnId} ${call.id} ${name}`,
      at,
      metadata: { ...approvalFacts(approval), ...facts }
    }, (scopes.get(call) ?? session.scope).uuid)
  }

  const runOpened = (run: RunTree.Run): void => {
    runs.set(run.turnId, run)
    const session = sessionOf(run)
    session.names.clear()
    // The process of the run before was killed: its side tasks may go on, and nothing else.
    for (const [node, scope] of Array.from(session.open).toReversed()) {
      if (node.run !== run && (node.kind === "call" || node.start.task === undefined)) cutOff(session, node, scope, run.startedAt)
    }
    session.runs.push(run)
  }
  const runClosed = (run: RunTree.Run, at: number): void => {
    const session = sessionOf(run)
    for (const [node, scope] of Array.from(session.open).toReversed()) {
      if (node.run === run && (node.kind === "call" || node.start.task === undefined)) cutOff(session, node, scope, at)
    }
    const said = run.end?.text
    const facts = { ...runFacts(run), ...(run.start === undefined ? {} : { provider: run.start.provider, model: run.start.model }) }
    if (said !== undefined && said !== "") {
      mark(session, { name: "hermes.turn.end", key: `turn end ${run.turnId}`, at, metadata: { ...facts, assistant_response: said } })
    }
    mark(session, { name: "hermes.session.end", key: `run end ${run.turnId}`, at, metadata: { ...facts, ...runEndFacts(run) } })
    // Its parent told its end before it came to it.
    if (run.child?.end !== undefined) closeSession(session, at, childFacts(run.child))
  }

  const changed = (change: RunTree.Change): void => {
    const { at } = change
    if (change._tag === "Noted") {
      const { event, run } = change
      const session = sessionOf(run)
      if (event._tag === "SessionEnded") return closeSession(session, at, { ...runFacts(run), reason: event.reason })
      if (!isMarked(event._tag)) return
      return mark(session, {
        name: markNames[event._tag],
        key: `${event._tag} ${run.turnId}`,
        at,
        metadata: { ...runFacts(run), ...fieldsOf(event) }
      })
    }
    const { node } = change
    const isOpening = change._tag === "Opened"
    switch (node.kind) {
      case "run":
        return isOpening ? runOpened(node) : runClosed(node, at)
      case "attempt":
        return isOpening ? attemptOpened(node) : attemptClosed(node, at)
      case "call":
        return isOpening ? callOpened(node) : callClosed(node, at)
      case "child":
        return isOpening ? childOpened(node) : childClosed(node, at)
      case "approval": {
        const { choice, decidedBy } = node.event
        return isOpening
          ? approved(node, at, {}, "request")
          : approved(node, at, { choice, ...(decidedBy === undefined ? {} : { decided_by: decidedBy }) }, "response")
      }
      case "step":
        return undefined
    }
  }

  /** An answer that was not stored as it came: calls repaired or left out, the rest of one that broke off added. */
  const answered = (run: RunTree.Run, at: number, { message, position }: Tagged<"MessageAppended">): void => {
    const step = run.steps.at(-1)
    if (message?.role !== "assistant" || step === undefined) return
    const stored = ChatCompletion.assistantMessage(answerOfMessage(message))
    const last = step.attempts.findLast(({ end }) => end?.status === "answered") ?? step.attempts.findLast(({ end }) => end !== undefined && end.answer.length > 0)
    const came = last?.end === undefined ? undefined : ChatCompletion.assistantMessage(answerOfParts(last.end.answer, step.number))
    if (came !== undefined && JSON.stringify(came) === JSON.stringify(stored)) return
    mark(sessionOf(run), {
      name: "hermes.answer.stored",
      key: `answer ${run.turnId}`,
      at,
      metadata: { ...runFacts(run), ...(position === undefined ? {} : { position }), api_call_count: step.number, assistant_message: stored }
    })
  }

  /** Messages that are part of the session and no answer of this run's model or tools. */
  const appended = (run: RunTree.Run, at: number, event: Tagged<"MessageAppended">): void => {
    const { message, origin, position } = event
    if (message === undefined || position === undefined) return
    if (message.role === "assistant") return answered(run, at, event)
    const session = sessionOf(run)
    const facts = { ...runFacts(run), position }
    if (message.role === "tool") {
      for (const part of message.content) {
        if (part.type !== "tool-result" || run.steps.findLast(({ calls }) => calls.some(({ id }) => id === part.id)) !== undefined) continue
        mark(session, {
          name: "hermes.message",
          key: `message ${run.turnId}`,
          at,
          metadata: { ...facts, origin, role: "tool", tool_call_id: part.id, content: textOf(part.result) }
        })
      }
      return
    }
    const content = json(contentOf(message.content))
    const isPrompt = origin === "user" && !run.messages.some((one) => one.origin === "user" && one.message !== message)
    mark(session, isPrompt
      ? {
        name: "hermes.turn.start",
        key: `turn start ${run.turnId}`,
        at,
        metadata: {
          ...facts,
          ...(run.start === undefined ? {} : { provider: run.start.provider, model: run.start.model, is_first_turn: !run.start.resumed }),
          user_message: content
        }
      }
      : { name: "hermes.message", key: `message ${run.turnId}`, at, metadata: { ...facts, origin, role: message.role, content } })
  }

  const taken = (): ReadonlyArray<Event> => {
    const events = out
    out = []
    return events
  }
  return {
    add: (entry) => {
      for (const change of tree.add(entry)) changed(change)
      const run = runs.get(entry.turnId)
      if (run !== undefined && entry.event._tag === "MessageAppended") appended(run, entry.at, entry.event)
      return taken()
    },
    recall: (entries) => {
      for (const entry of entries) tree.add(entry)
    },
    forget: (sessionId) => {
      for (const run of tree.roots.filter((root) => root.sessionId === sessionId)) tree.forget(run)
    },
    close: () => {
      // Children first: an end stands before the end of what it is in.
      for (const session of Array.from(sessions.values()).toReversed()) {
        if (sessions.has(session.id)) closeSession(session, session.clock.last / 1000, { reason: "shutdown" })
      }
      return taken()
    }
  }
}

/** The events of stored entries. */
export const of = (entries: Iterable<Record.Entry>, agent: Agent): ReadonlyArray<Event> => {
  const stream = make(agent)
  const events: Array<Event> = []
  for (const entry of entries) for (const event of stream.add(entry)) events.push(event)
  events.push(...stream.close())
  return events
}
