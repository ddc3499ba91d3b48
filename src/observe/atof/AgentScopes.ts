/**
 * Agent scopes of a stream, one for each open session, and the ids, instants and parents of the events in them.
 *
 * **Details**
 *
 * - Times come from the record, in microseconds. Two events of one agent or of its children never have the same
 *   instant: if the times are equal, the later event is moved by one microsecond. A child begins after its call and
 *   ends before it.
 * - Ids are UUIDs derived from the session, the caller's key and the number of times that it was used. The same calls
 *   therefore produce the same ids.
 * - Before a scope closes, everything open in it, including children, is ended as interrupted. If a session is
 *   abandoned while background children are running, its scope closes when the last of them ends.
 *
 * Source: `hermes-contract.md` §4.5 to §4.7.
 */
import * as Digest from "../../base/platform/Digest.ts"
import { type Event, type ScopeEvent, formatTimestamp, version } from "../Atof.ts"
import type * as RunTree from "../RunTree.ts"
import type { Facts } from "./ChatCompletion.ts"

/** Name and version of the agent of a stream. The default version is the version in the record. */
export interface Agent {
  readonly name: string
  readonly version?: string | undefined
}

/** An open agent scope. */
export interface Session {
  readonly id: string
  readonly scope: ScopeEvent
  readonly parent: Session | undefined
  /** Instant of the last event of the session and of its children, in microseconds. They share one clock. */
  readonly clock: { last: number }
  readonly open: Map<RunTree.Attempt | RunTree.Call, ScopeEvent>
  /** Number of uses of each name that ids are derived from, because names may repeat. */
  readonly names: Map<string, number>
  readonly runs: Array<RunTree.Run>
  /** Session ids of children that have not ended yet. */
  readonly awaited: Set<string>
  /** End of the session, if it was abandoned before its children ended. */
  ending: { readonly at: number; readonly facts: Facts } | undefined
}

/** Data that identifies an event: its name, key and instant. */
interface EventIdentity {
  readonly name: string
  /** Key that distinguishes the event from other events of its session. */
  readonly key: string
  readonly at: number
  readonly metadata: Facts
}

/** Category and profile of a mark. By default, a mark has neither. */
type MarkCategory = Pick<ScopeEvent, "category" | "category_profile">

/** The open agent scopes, and the events that {@link takeEvents} has not returned yet. */
export interface ScopesState {
  readonly agent: Agent
  readonly sessions: Map<string, Session>
  out: Array<Event>
  /** Instant at which the most recent session ended. A session that begins later does not get an earlier instant. */
  ended: number
}

/** Fields of the scope of a session. */
export interface SessionFields {
  readonly parent: Session | undefined
  /** Id of the enclosing scope, or `null`. */
  readonly scope: string | null
  /** Version of the agent according to the record. */
  readonly version: string
  readonly metadata: Facts
  readonly data: Facts
}

type ScopeFields = Pick<ScopeEvent, "category" | "category_profile" | "attributes" | "data" | "data_schema"> & {
  readonly parent: string
}

type EndFields = Pick<ScopeEvent, "data" | "data_schema" | "category_profile"> & { readonly facts: Facts }

/** Creates a state without open scopes. */
export const make = (agent: Agent): ScopesState => ({ agent, sessions: new Map(), out: [], ended: 0 })

const advanceClock = ({ clock }: Session, at: number): number =>
  (clock.last = Math.max(Math.round(at * 1000), clock.last + 1))
const makeUuid = ({ id, names }: Pick<Session, "id" | "names">, key: string, micros: number): string => {
  const n = names.get(key) ?? 0
  names.set(key, n + 1)
  const time = Math.floor(micros / 1000)
    .toString(16)
    .padStart(12, "0")
  const hash = Digest.toHex(`${id}\n${key}\n${n}`, 19)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hash.slice(0, 3)}-8${hash.slice(3, 6)}-${hash.slice(6, 18)}`
}
/** Begins a scope in a session. */
export const begin = (
  scopes: ScopesState,
  session: Session,
  { at, key, metadata, name }: EventIdentity,
  scope: ScopeFields
): ScopeEvent => {
  const micros = advanceClock(session, at)
  const { parent, ...rest } = scope
  const event: ScopeEvent = {
    kind: "scope",
    atof_version: version,
    scope_category: "start",
    name,
    uuid: makeUuid(session, key, micros),
    parent_uuid: parent,
    timestamp: formatTimestamp(micros),
    metadata,
    ...rest
  }
  scopes.out.push(event)
  return event
}
/** Ends a scope. */
export const end = (
  scopes: ScopesState,
  session: Session,
  { data_schema: _, ...open }: ScopeEvent,
  at: number,
  over: EndFields
): void => {
  const { facts, ...rest } = over
  scopes.out.push({
    ...open,
    scope_category: "end",
    timestamp: formatTimestamp(advanceClock(session, at)),
    metadata: { ...open.metadata, ...facts },
    ...rest
  })
}
/** Adds a mark in the scope of the session, unless another scope is given. */
export const mark = (
  scopes: ScopesState,
  session: Session,
  { at, key, metadata, name }: EventIdentity,
  parent: string = session.scope.uuid,
  kind?: MarkCategory
): void => {
  const micros = advanceClock(session, at)
  scopes.out.push({
    kind: "mark",
    atof_version: version,
    name,
    uuid: makeUuid(session, key, micros),
    parent_uuid: parent,
    timestamp: formatTimestamp(micros),
    category: kind?.category ?? null,
    category_profile: kind?.category_profile ?? null,
    metadata,
    data: null
  })
}

/** Opens the scope of a session. */
export const openSession = (
  scopes: ScopesState,
  id: string,
  at: number,
  key: string,
  fields: SessionFields
): Session => {
  const { agent, ended, sessions } = scopes
  const { data, metadata, parent, scope: within } = fields
  const names = new Map<string, number>()
  const micros = Math.max(Math.round(at * 1000), (parent?.clock.last ?? ended) + 1)
  const scope: ScopeEvent = {
    kind: "scope",
    atof_version: version,
    category: "agent",
    name: `hermes-session-${id}`,
    scope_category: "start",
    uuid: makeUuid({ id, names }, key, micros),
    parent_uuid: within,
    timestamp: formatTimestamp(micros),
    category_profile: null,
    attributes: [],
    metadata: {
      ...metadata,
      session_id: id,
      trajectory_id: id,
      agent_name: agent.name,
      version: agent.version ?? fields.version
    },
    data
  }
  scopes.out.push(scope)
  const clock = parent?.clock ?? { last: micros }
  clock.last = micros
  const session: Session = {
    id,
    scope,
    parent,
    clock,
    open: new Map(),
    names,
    runs: [],
    awaited: new Set(),
    ending: undefined
  }
  sessions.set(id, session)
  return session
}

/**
 * Ends all open attempts and calls for which the test returns true. They are ended as interrupted, the most recent one
 * first.
 */
export const cutOff = (
  scopes: ScopesState,
  session: Session,
  at: number,
  selects: (node: RunTree.Attempt | RunTree.Call) => boolean
): void => {
  for (const [node, scope] of Array.from(session.open).toReversed()) {
    if (!selects(node)) continue
    session.open.delete(node)
    end(scopes, session, scope, at, {
      data: null,
      category_profile: scope.category_profile ?? null,
      facts:
        node.kind === "call"
          ? { status: "cancelled", reason: "interrupted" }
          : { status: "error", reason: "interrupted" }
    })
  }
}
const listChildren = ({ sessions }: ScopesState, session: Session): ReadonlyArray<Session> =>
  Array.from(sessions.values()).filter(({ parent }) => parent === session)
const closeSession = (scopes: ScopesState, session: Session, at: number, facts: Facts): void => {
  scopes.sessions.delete(session.id)
  cutChildren(scopes, session, at)
  cutOff(scopes, session, at, () => true)
  end(scopes, session, session.scope, at, { data: null, category_profile: null, facts })
  const { parent } = session
  // The enclosing scope of a child ends after the child.
  if (parent !== undefined) closeIfEnded(scopes, parent)
  else scopes.ended = Math.max(scopes.ended, session.clock.last)
}
/** Closes the children of a session as interrupted. */
export const cutChildren = (scopes: ScopesState, session: Session, at: number): void => {
  session.awaited.clear()
  for (const child of listChildren(scopes, session).toReversed())
    closeSession(scopes, child, at, { reason: "interrupted" })
}
const closeIfEnded = (scopes: ScopesState, session: Session): void => {
  const { awaited, ending, id } = session
  if (
    ending === undefined ||
    awaited.size > 0 ||
    scopes.sessions.get(id) !== session ||
    listChildren(scopes, session).length > 0
  )
    return
  closeSession(scopes, session, ending.at, ending.facts)
}

/** Finds the open session with this id. */
export const findSession = ({ sessions }: ScopesState, id: string): Session | undefined => sessions.get(id)

/** Ends a session, after its children and everything that is open in it have ended. */
export const endSession = (scopes: ScopesState, session: Session, at: number, facts: Facts): void => {
  session.ending = { at, facts }
  closeIfEnded(scopes, session)
}

/** Keeps a session open until a child is released. */
export const awaitChild = ({ awaited }: Session, childId: string): void => void awaited.add(childId)

/** Releases a child. If the session has ended and this was its last child, the session is closed. */
export const releaseChild = (scopes: ScopesState, session: Session, childId: string): void => {
  session.awaited.delete(childId)
  closeIfEnded(scopes, session)
}

/** Closes all sessions, the most recent one first, because a scope ends before its enclosing scope. */
export const closeAll = (scopes: ScopesState, facts: Facts): void => {
  const { sessions } = scopes
  for (const session of Array.from(sessions.values()).toReversed()) {
    if (sessions.has(session.id)) closeSession(scopes, session, session.clock.last / 1000, facts)
  }
}

/** Returns the events created since the last call, in order. */
export const takeEvents = (scopes: ScopesState): ReadonlyArray<Event> => {
  const events = scopes.out
  scopes.out = []
  return events
}
