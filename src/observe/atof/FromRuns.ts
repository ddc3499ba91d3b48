/**
 * Events of a stream, built from the run record entry by entry: sessions and children are agent scopes, attempts are
 * llm scopes, tool calls are tool scopes, and everything else is a mark.
 *
 * **Details**
 *
 * - The scope of a session opens with the session's first entry. It closes when the session is abandoned, when its
 *   delegation ends, or when the stream closes. Scopes that are still open in it are first ended as interrupted.
 *   Background children keep it open until they end.
 * - A child's agent scope is below the tool scope that delegated to it. A call made by a tool is below the scope of
 *   that tool.
 * - Times, and the values that ids are derived from (`AgentScopes`), come from the record. The same entries therefore
 *   produce the same events, both during a run and from the store.
 * - The metadata of an attempt of a side task (a title, a summary) has `side_task`; the attempt is not a step of the
 *   agent and has a separate place (`SideScopes`). `message_refs` lists the messages of a request by their position in
 *   the session, so that a reader can identify the new messages.
 * - `images` in the metadata of a message's mark, and of a call's end, describes its images: media type, size in bytes,
 *   digest, and the path of the file relative to the stream if the ATIF exporter writes one. No event contains their
 *   bytes.
 * - Marks record moments. Their facts are in `metadata` and their `data` is null, so that converters do not treat them
 *   as steps.
 *
 * **Gotchas**
 *
 * Events are in the order of time if the entries are ({@link toEvents} orders them). A failed attempt has no `data`
 * unless a part of its answer arrived, and a call made by a tool has its id only in the metadata, because the reference
 * converter rejects anything else.
 *
 * Source: `hermes-contract.md` §4.5 to §4.7, `relay-atof-atif.md` §1.7.
 */
import type * as Record from "../../base/domain/RecordEvent.ts"
import { omitPicture, type Pictures } from "../atif/RunContent.ts"
import type { Event } from "../Atof.ts"
import * as EntryOrder from "../EntryOrder.ts"
import * as AgentScopes from "./AgentScopes.ts"
import * as MessageMarks from "./MessageMarks.ts"
import * as RunScopes from "./RunScopes.ts"

/** A stream of events, to which entries of the record are added. */
export interface Stream {
  /** Takes an entry and returns the events created for it, in order. */
  readonly add: (entry: Record.Entry) => ReadonlyArray<Event>
  /**
   * Takes the entries of a session that were recorded before this stream, because later requests refer to their
   * messages. No events are created.
   */
  readonly recall: (entries: ReadonlyArray<Record.Entry>) => void
  /** Tests whether runs of a session are in the stream. */
  readonly knows: (sessionId: string) => boolean
  /** Forgets the runs of ended sessions. `sessionId` is the session that has just ended. */
  readonly forgetEnded: (sessionId: string) => void
  /** Ends everything that is open, and returns the events. */
  readonly close: () => ReadonlyArray<Event>
}

const addEntry = (stream: RunScopes.StreamState, entry: Record.Entry): ReadonlyArray<Event> => {
  const { scopes, tree } = stream
  for (const change of tree.add(entry)) RunScopes.handleChange(stream, change)
  const run = AgentScopes.findSession(scopes, entry.sessionId)?.runs.findLast(({ turnId }) => turnId === entry.turnId)
  if (run !== undefined && entry.event._tag === "MessageAppended")
    MessageMarks.handleMessage(stream, run, entry.at, entry.event)
  return AgentScopes.takeEvents(scopes)
}

/** Creates an empty stream. `pictures` returns the paths of image files. By default, no image has a file. */
export const make = (agent: AgentScopes.Agent, pictures: Pictures = omitPicture): Stream => {
  const stream = RunScopes.make(agent, pictures)
  const { readers, scopes, tree } = stream
  const isOpen = (sessionId: string): boolean => AgentScopes.findSession(scopes, sessionId) !== undefined
  return {
    add: (entry) => addEntry(stream, entry),
    recall: (entries) => {
      for (const entry of entries) tree.add(entry)
    },
    knows: (sessionId) => isOpen(sessionId) || tree.roots.some((root) => root.sessionId === sessionId),
    forgetEnded: (ended) => {
      for (const run of tree.roots.filter(({ sessionId }) => !isOpen(sessionId))) tree.forget(run)
      tree.release(ended)
      for (const id of readers.keys()) if (!isOpen(id)) readers.delete(id)
    },
    close: () => {
      AgentScopes.closeAll(scopes, { reason: "shutdown" })
      return AgentScopes.takeEvents(scopes)
    }
  }
}

/** Converts stored entries to events. */
export const toEvents = (
  entries: Iterable<Record.Entry>,
  agent: AgentScopes.Agent,
  pictures: Pictures = omitPicture
): ReadonlyArray<Event> => {
  const stream = make(agent, pictures)
  const events: Array<Event> = []
  for (const entry of EntryOrder.sortEntries(entries)) for (const event of stream.add(entry)) events.push(event)
  events.push(...stream.close())
  return events
}
