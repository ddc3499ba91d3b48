/**
 * Agent scopes of a stream, one for a session that is open, and the events in them: their ids, instants and parents.
 *
 * **Details**
 *
 * - Times are the record's, in microseconds. Events of one agent never share an instant: an event with the same time as
 *   the previous one is a microsecond later. A child begins after its call and ends before it.
 * - Ids are UUIDs made of the session, the caller's key and the count of its uses: the same calls give the same ids.
 * - A scope that closes ends first what is open in it, children included, as interrupted. A session that is given up
 *   while children work in the background closes with the last of them.
 *
 * Source: `hermes-contract.md` §4.5 to §4.7.
 */
import * as Digest from "../../base/platform/Digest.ts"
import { type Event, type ScopeEvent, formatTimestamp, version } from "../Atof.ts"
import type * as RunTree from "../RunTree.ts"
import type { Facts } from "./ChatCompletion.ts"

/** Name and version of the agent of a stream; without a version, the version of the record. */
export interface Agent {
  readonly name: string
  readonly version?: string | undefined
}

/** An agent scope that is open. */
export interface Session {
  readonly id: string
  readonly scope: ScopeEvent
  readonly parent: Session | undefined
  /** Instant of its last event, in microseconds. */
  readonly clock: { last: number }
  readonly open: Map<RunTree.Attempt | RunTree.Call, ScopeEvent>
  /** Uses of each name that an id is made of, for names that come again. */
  readonly names: Map<string, number>
  readonly runs: Array<RunTree.Run>
  /** Sessions of children whose end has not come. */
  readonly awaited: Set<string>
  /** Set when the session was given up before its children ended. */
  ending: { readonly at: number; readonly facts: Facts } | undefined
}

/** Name, instant and metadata of an event. */
interface EventIdentity {
  readonly name: string
  /** Distinguishes the event from others of its session. */
  readonly key: string
  readonly at: number
  readonly metadata: Facts
}

/** The agent scopes that are open, and events not yet taken. */
interface AgentScopes {
  /** The open session of this id. */
  readonly session: (id: string) => Session | undefined
  readonly openSession: (id: string, at: number, key: string, fields: SessionFields) => Session
  /** Ends a session when its children have ended, after what is open in it. */
  readonly endSession: (session: Session, at: number, facts: Facts) => void
  /** Keeps a session open until a child is released. */
  readonly awaitChild: (session: Session, childId: string) => void
  readonly releaseChild: (session: Session, childId: string) => void
  /** Closes the children of a session whose process was killed. */
  readonly cutChildren: (session: Session, at: number) => void
  /** Closes all sessions, the youngest first: a scope ends before the scope that contains it. */
  readonly closeAll: (facts: Facts) => void
  readonly begin: (session: Session, named: EventIdentity, scope: ScopeFields) => ScopeEvent
  readonly end: (session: Session, open: ScopeEvent, at: number, over: EndFields) => void
  readonly mark: (session: Session, named: EventIdentity, parent?: string) => void
  /** Ends the open attempts and calls that the test selects, the youngest first, as interrupted. */
  readonly cutOff: (session: Session, at: number, selects: (node: RunTree.Attempt | RunTree.Call) => boolean) => void
  /** Takes the events made since it was last called, in order. */
  readonly take: () => ReadonlyArray<Event>
}

interface SessionFields {
  readonly parent: Session | undefined
  /** Id of the scope that it is in. */
  readonly scope: string | null
  /** Version of the agent, of the record. */
  readonly version: string
  readonly metadata: Facts
  readonly data: Facts
}

type ScopeFields = Pick<ScopeEvent, "category" | "category_profile" | "attributes" | "data" | "data_schema"> & {
  readonly parent: string
}

type EndFields = Pick<ScopeEvent, "data" | "data_schema" | "category_profile"> & { readonly facts: Facts }

/** No scope yet. */
export const make = (agent: Agent): AgentScopes => {
  const sessions = new Map<string, Session>()
  let out: Array<Event> = []
  /** Instant of the last end of a session: one that begins after it does not begin before it. */
  let ended = 0

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
  const begin = (session: Session, { at, key, metadata, name }: EventIdentity, scope: ScopeFields): ScopeEvent => {
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
    out.push(event)
    return event
  }
  const end = (session: Session, { data_schema: _, ...open }: ScopeEvent, at: number, over: EndFields): void => {
    const { facts, ...rest } = over
    out.push({
      ...open,
      scope_category: "end",
      timestamp: formatTimestamp(advanceClock(session, at)),
      metadata: { ...open.metadata, ...facts },
      ...rest
    })
  }
  const mark = (
    session: Session,
    { at, key, metadata, name }: EventIdentity,
    parent: string = session.scope.uuid
  ): void => {
    const micros = advanceClock(session, at)
    out.push({
      kind: "mark",
      atof_version: version,
      name,
      uuid: makeUuid(session, key, micros),
      parent_uuid: parent,
      timestamp: formatTimestamp(micros),
      category: null,
      category_profile: null,
      metadata,
      data: null
    })
  }

  const openSession = (id: string, at: number, key: string, fields: SessionFields): Session => {
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
    out.push(scope)
    const session: Session = {
      id,
      scope,
      parent,
      clock: { last: micros },
      open: new Map(),
      names,
      runs: [],
      awaited: new Set(),
      ending: undefined
    }
    sessions.set(id, session)
    return session
  }

  const cutOff: AgentScopes["cutOff"] = (session, at, selects) => {
    for (const [node, scope] of Array.from(session.open).toReversed()) {
      if (!selects(node)) continue
      session.open.delete(node)
      end(session, scope, at, {
        data: null,
        category_profile: scope.category_profile ?? null,
        facts:
          node.kind === "call"
            ? { status: "cancelled", reason: "interrupted" }
            : { status: "error", reason: "interrupted" }
      })
    }
  }
  const listChildren = (session: Session): ReadonlyArray<Session> =>
    Array.from(sessions.values()).filter(({ parent }) => parent === session)
  const closeSession = (session: Session, at: number, facts: Facts): void => {
    sessions.delete(session.id)
    cutChildren(session, at)
    cutOff(session, at, () => true)
    end(session, session.scope, at, { data: null, category_profile: null, facts })
    const { parent } = session
    // The scope around a child ends after it.
    if (parent !== undefined) {
      parent.clock.last = Math.max(parent.clock.last, session.clock.last)
      closeIfEnded(parent)
    } else ended = Math.max(ended, session.clock.last)
  }
  const cutChildren = (session: Session, at: number): void => {
    session.awaited.clear()
    for (const child of listChildren(session).toReversed()) closeSession(child, at, { reason: "interrupted" })
  }
  const closeIfEnded = (session: Session): void => {
    const { awaited, ending, id } = session
    if (ending === undefined || awaited.size > 0 || sessions.get(id) !== session || listChildren(session).length > 0)
      return
    closeSession(session, ending.at, ending.facts)
  }

  return {
    session: (id) => sessions.get(id),
    openSession,
    endSession: (session, at, facts) => {
      session.ending = { at, facts }
      closeIfEnded(session)
    },
    awaitChild: ({ awaited }, childId) => void awaited.add(childId),
    releaseChild: (session, childId) => {
      session.awaited.delete(childId)
      closeIfEnded(session)
    },
    cutChildren,
    closeAll: (facts) => {
      for (const session of Array.from(sessions.values()).toReversed()) {
        if (sessions.has(session.id)) closeSession(session, session.clock.last / 1000, facts)
      }
    },
    begin,
    end,
    mark,
    cutOff,
    take: () => {
      const events = out
      out = []
      return events
    }
  }
}
