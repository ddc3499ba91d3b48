/**
 * Entries of the run record for a session that begins with messages of another session: the link to that session, and
 * each message with its original. They allow views to distinguish copies from new messages.
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import { type SessionId, TurnId } from "../base/domain/Ids.ts"
import type { Entry, Origin, RecordEvent, Reference } from "../base/domain/RecordEvent.ts"
import type { Service as RunRecord } from "./RunRecord.ts"

/** A message at the beginning of a session, and the position of its original. */
export interface Copy {
  readonly message: Prompt.Message
  /** Position of the original, or `undefined` for a new message, such as the summary of a compaction. */
  readonly position: number | undefined
  readonly isChanged: boolean
}

type Part = Exclude<Prompt.Message["content"], string>[number]

const getParts = ({ content }: Prompt.Message): ReadonlyArray<Part> => (typeof content === "string" ? [] : content)

/**
 * Tests whether a part is a reduced version of another part. It is one if it is a result or a call with the same id, if
 * it is text or a file in place of a file, or if it is the same text.
 */
const isReducedPart = (part: Part, original: Part): boolean => {
  if (original.type === "file") return part.type === "text" || part.type === "file"
  if (part.type !== original.type) return false
  if ("id" in part && "id" in original) return part.id === original.id
  return "text" in part && "text" in original && part.text === original.text
}

const isReducedVersion = (message: Prompt.Message, original: Prompt.Message): boolean => {
  const [parts, all] = [getParts(message), getParts(original)]
  return (
    message.role === original.role &&
    parts.length > 0 &&
    parts.length === all.length &&
    parts.every((part, at) => {
      const other = all[at]
      return other !== undefined && isReducedPart(part, other)
    })
  )
}

/**
 * Finds the originals of messages. Messages and originals are in the same order, except for the results of one answer.
 * The original of a message is the same message or its unreduced version.
 */
export const findCopies = (
  messages: ReadonlyArray<Prompt.Message>,
  source: ReadonlyArray<Prompt.Message>
): ReadonlyArray<Copy> => {
  const positions = new Map(source.map((message, position) => [message, position]))
  const taken = new Set<number>()
  let next = 0
  return messages.map((message) => {
    const same = positions.get(message)
    const found =
      same ??
      source.findIndex(
        (original, position) => position >= next && !taken.has(position) && isReducedVersion(message, original)
      )
    if (found < 0) return { message, position: undefined, isChanged: false }
    taken.add(found)
    if (message.role !== "tool") next = found + 1
    return {
      message,
      position: found,
      isChanged: same === undefined && JSON.stringify(message) !== JSON.stringify(source[found])
    }
  })
}

/** Converts ordered positions to ranges; consecutive positions form one range. */
const toRanges = (positions: ReadonlyArray<number>): ReadonlyArray<Reference> => {
  const found: Array<[number, number]> = []
  for (const position of positions) {
    const last = found.at(-1)
    if (last !== undefined && last[1] === position - 1) last[1] = position
    else found.push([position, position])
  }
  return found.map(([from, to]) => (from === to ? from : [from, to]))
}

/** Lists the positions, below `count`, that are not the original of any copy. */
export const listRemoved = (made: ReadonlyArray<Copy>, count: number): ReadonlyArray<Reference> => {
  const kept = new Set(made.map(({ position }) => position))
  return toRanges(Array.from({ length: count }, (_, position) => position).filter((position) => !kept.has(position)))
}

/**
 * Lists the messages of `before` that are missing from `after`, by their positions in the session `stored`. A shortened
 * message does not count as missing.
 */
export const listLeftOut = (
  before: ReadonlyArray<Prompt.Message>,
  after: ReadonlyArray<Prompt.Message>,
  stored: ReadonlyArray<Prompt.Message>
): ReadonlyArray<Reference> => {
  const kept = new Set(findCopies(after, before).map(({ position }) => position))
  return toRanges(
    findCopies(before, stored)
      .flatMap(({ position }, place) => (position === undefined || kept.has(place) ? [] : [position]))
      .toSorted((a, b) => a - b)
  )
}

/** Creates the turn id of the record entries for the beginning of a session that continues a compacted session. */
export const makeCompressionTurnId = (id: SessionId): TurnId => TurnId.make(`${id}:compression`)

const toOrigin = ({ role }: Prompt.Message): Origin =>
  role === "user" ? "user" : role === "assistant" ? "model" : role === "tool" ? "tool" : "runtime"

/** Session, turn and time of the entries, and the link to the session that is repeated. */
interface Beginning {
  readonly sessionId: SessionId
  readonly turnId: TurnId
  /** Time of the entries, in epoch milliseconds. */
  readonly at: number
  readonly link: Extract<RecordEvent, { readonly _tag: "ReplayBegun" }>
  /** The compaction between the two sessions. Absent if the messages were only copied. */
  readonly rewritten?: Extract<RecordEvent, { readonly _tag: "ContextRewritten" }> | undefined
}

/**
 * Creates the entries. The origin of a message is read from the record. If the record does not contain it, the origin
 * is derived from the role.
 */
export const makeEntries = (
  record: RunRecord,
  { at, link, rewritten, sessionId, turnId }: Beginning,
  made: ReadonlyArray<Copy>
): Effect.Effect<ReadonlyArray<Entry>> =>
  Stream.runCollect(record.read({ sessionId: link.source, kinds: ["MessageAppended"] })).pipe(
    Effect.orElseSucceed((): ReadonlyArray<Entry> => []),
    Effect.map((known) => {
      const origins = new Map(
        known.flatMap(({ event }) =>
          event._tag === "MessageAppended" && event.position !== undefined
            ? [[event.position, event.origin] as const]
            : []
        )
      )
      const copied = made.map(({ isChanged, message, position: original }, position): RecordEvent => ({
        _tag: "MessageAppended",
        origin: original === undefined ? "runtime" : (origins.get(original) ?? toOrigin(message)),
        position,
        ...(original === undefined
          ? {}
          : { copyOf: { sessionId: link.source, position: original, ...(isChanged ? { changed: true } : {}) } }),
        message
      }))
      return [link, ...(rewritten === undefined ? [] : [rewritten]), ...copied].map((event) => ({
        sessionId,
        turnId,
        at,
        event
      }))
    })
  )
