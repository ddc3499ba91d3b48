/**
 * Messages and tool sets of sessions. They are indexed in the same way as attempts in the run record refer to them:
 * stored messages by position, and other messages and tool sets by id.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { ToolDefinition } from "../base/domain/ModelCall.ts"
import type * as Record from "../base/domain/RecordEvent.ts"
import type { Attempt, Message } from "./RunNodes.ts"

type TaggedEvent<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/**
 * Request of an attempt. A message is `undefined` if it is missing from the record. If a request begins with the
 * messages of the previous request, both share the same lists, and the later request extends them.
 */
export interface Request {
  readonly messages: ReadonlyArray<Prompt.Message | undefined>
  readonly tools: ReadonlyArray<ToolDefinition>
  /**
   * Name of each message: the position of a stored message, or the id of any other message. Names identify the new
   * messages of a request.
   */
  readonly names: ReadonlyArray<number | string>
  /** Origin of each message of the session. */
  readonly origins: ReadonlyArray<Record.Origin | undefined>
}

/**
 * Messages of an attempt, for a reader that starts with the newest one. The cost does not grow with the length of the
 * session.
 */
export interface SentMessages {
  /** Number of messages, including messages that are missing from the record. */
  readonly count: number
  /** System prompts, in order. */
  readonly system: ReadonlyArray<Prompt.Message>
  /** Number of messages in the record that are not system prompts. */
  readonly said: number
  /**
   * Passes the messages that are not system prompts to `wants`, starting with the last one, until `wants` returns
   * false.
   */
  readonly newest: (wants: (message: Prompt.Message) => boolean) => void
  /** Returns all messages in order. This is the list of {@link Request}, which the next request extends. */
  readonly messages: () => Request["messages"]
  /**
   * Messages, in order, that were not stored by a session and not sent by a previous attempt of the run, such as the
   * summary of a compaction.
   */
  readonly fresh: ReadonlyArray<Prompt.Message>
}

interface Session {
  readonly positions: Map<number, Message>
  readonly named: Map<string, Prompt.Message | undefined>
  readonly tools: Map<string, ReadonlyArray<ToolDefinition>>
  /** Positions of stored system prompts. */
  readonly systems: Set<number>
  /**
   * For each position, the number of known messages before it that are not system prompts. Counts are computed up to
   * the highest position requested so far.
   */
  readonly counts: Array<number>
  /** Last request of a step. A request that begins with the same messages extends its lists. */
  last: ResolvedRequest | undefined
}

/** Messages of a request, and the references that they were resolved from. */
interface ResolvedRequest {
  references: ReadonlyArray<Record.Reference>
  /** False if a message was not found. */
  isWhole: boolean
  readonly messages: Array<Prompt.Message | undefined>
  readonly names: Array<number | string>
  readonly origins: Array<Record.Origin | undefined>
}

const isSaid = (message: Prompt.Message | undefined): message is Prompt.Message =>
  message !== undefined && message.role !== "system"

/** Returns the first and last position of a reference to stored messages. */
const toRange = (reference: Exclude<Record.Reference, string>): readonly [number, number] =>
  typeof reference === "number" ? [reference, reference] : [reference[0], reference[1]]

/** Returns true if references begin with the previous ones, whose last range may have grown. */
const isGrown = (references: ReadonlyArray<Record.Reference>, before: ReadonlyArray<Record.Reference>): boolean =>
  references.length >= before.length &&
  before.every((one, index) => {
    const reference = references[index]
    if (reference === undefined || typeof one === "string" || typeof reference === "string") return reference === one
    const [[from, to], [first, last]] = [toRange(one), toRange(reference)]
    return first === from && (index === before.length - 1 ? last >= to : last === to)
  })

/** Counts the known messages of the session before a position that are not system prompts. */
const countBefore = ({ counts, positions }: Session, position: number): number => {
  let count = counts.at(-1) ?? 0
  for (let at = counts.length - 1; at < position; at++) {
    if (isSaid(positions.get(at)?.message)) count++
    counts.push(count)
  }
  return counts[position] ?? 0
}

/** Returns the previous attempt of the run, or `undefined` for side tasks. */
const findAttemptBefore = (attempt: Attempt): Attempt | undefined => {
  const { run, step } = attempt
  if (step === undefined) return undefined
  const at = step.attempts.indexOf(attempt)
  return at > 0 ? step.attempts[at - 1] : run.steps[run.steps.lastIndexOf(step) - 1]?.attempts.at(-1)
}

/** Contents of all sessions, by id. */
export interface Contents {
  readonly sessions: Map<string, Session>
}

/** Contents of all sessions, by session id. */
export const make = (): Contents => ({ sessions: new Map() })

const getSession = ({ sessions }: Contents, sessionId: string): Session => {
  const known = sessions.get(sessionId)
  if (known !== undefined) return known
  const made: Session = {
    positions: new Map(),
    named: new Map(),
    tools: new Map(),
    systems: new Set(),
    counts: [0],
    last: undefined
  }
  sessions.set(sessionId, made)
  return made
}

/** Adds a message of a session, and returns it with its position. */
export const addMessage = (
  contents: Contents,
  { at, sessionId }: Record.Entry,
  { copyOf, id, message, origin, position }: TaggedEvent<"MessageAppended">
): Message => {
  const session = getSession(contents, sessionId)
  const { counts, named, positions, systems } = session
  const stored: Message = { at, origin, position, message, ...(copyOf === undefined ? {} : { copyOf }) }
  if (position !== undefined) {
    if (positions.has(position)) session.last = undefined
    positions.set(position, stored)
    if (message?.role === "system") systems.add(position)
    else systems.delete(position)
    if (position < counts.length - 1) counts.length = position + 1
  }
  // An id is a hash, so messages with the same id are equal. Reusing the object allows views to convert it only once.
  if (id !== undefined && named.get(id) === undefined) {
    if (named.has(id)) session.last = undefined
    named.set(id, message)
  }
  return stored
}

/** Adds a set of tools that attempts refer to by its hash. */
export const addTools = (
  contents: Contents,
  { sessionId }: Record.Entry,
  { definitions, hash }: TaggedEvent<"ToolsOffered">
): void => {
  const known = getSession(contents, sessionId).tools
  // Definitions in the record are tool definitions that a model received.
  if (!known.has(hash)) known.set(hash, definitions as ReadonlyArray<ToolDefinition>)
}

/** Returns the tools of an attempt. */
export const findTools = (contents: Contents, { run, start }: Attempt): ReadonlyArray<ToolDefinition> =>
  start.tools === undefined ? [] : (getSession(contents, run.sessionId).tools.get(start.tools) ?? [])

const addToRequest = (
  resolved: ResolvedRequest,
  message: Prompt.Message | undefined,
  name: number | string,
  origin: Record.Origin | undefined
): void => {
  if (message === undefined) resolved.isWhole = false
  resolved.messages.push(message)
  resolved.names.push(name)
  resolved.origins.push(origin)
}

/** Adds the messages of references that are missing from a resolved request. */
const growRequest = (
  { named, positions }: Session,
  resolved: ResolvedRequest,
  references: ReadonlyArray<Record.Reference>
): void => {
  const { references: known } = resolved
  for (let index = Math.max(0, known.length - 1); index < references.length; index++) {
    const [reference, before] = [references[index], known[index]]
    if (reference === undefined) continue
    if (typeof reference === "string") {
      if (before === undefined) addToRequest(resolved, named.get(reference), reference, undefined)
      continue
    }
    const [from, to] = toRange(reference)
    const next = before === undefined || typeof before === "string" ? from : toRange(before)[1] + 1
    for (let at = next; at <= to; at++) {
      const stored = positions.get(at)
      addToRequest(resolved, stored?.message, at, stored?.origin)
    }
  }
  resolved.references = references
}

/** Resolves the request of an attempt from the references in the record. */
export const resolveRequest = (contents: Contents, attempt: Attempt): Request => {
  const {
    run,
    start: { messages: references, task }
  } = attempt
  const session = getSession(contents, run.sessionId)
  const { last } = session
  const resolved: ResolvedRequest =
    last !== undefined && task === undefined && isGrown(references, last.references)
      ? last
      : { references: [], isWhole: true, messages: [], names: [], origins: [] }
  growRequest(session, resolved, references)
  // A request with a missing message is not cached, because that message may be recorded later.
  if (task === undefined) session.last = resolved.isWhole ? resolved : undefined
  const { messages, names, origins } = resolved
  return { messages, names, origins, tools: findTools(contents, attempt) }
}

/** Counts the messages of references, and lists their system prompts. */
const countMessages = (
  session: Session,
  references: ReadonlyArray<Record.Reference>
): Pick<SentMessages, "count" | "said" | "system"> => {
  const { named, positions, systems } = session
  const system: Array<Prompt.Message> = []
  let [count, said] = [0, 0]
  for (const reference of references) {
    if (typeof reference === "string") {
      const message = named.get(reference)
      count++
      if (isSaid(message)) said++
      else if (message !== undefined) system.push(message)
      continue
    }
    const [from, to] = toRange(reference)
    count += to - from + 1
    said += countBefore(session, to + 1) - countBefore(session, from)
    for (const position of Array.from(systems)
      .filter((at) => at >= from && at <= to)
      .toSorted((a, b) => a - b)) {
      const message = positions.get(position)?.message
      if (message !== undefined) system.push(message)
    }
  }
  return { count, system, said }
}

/**
 * Passes the messages of references, except system prompts, to `wants`, starting with the last one, until `wants`
 * returns false.
 */
const showNewest = (
  { named, positions }: Session,
  references: ReadonlyArray<Record.Reference>,
  wants: (message: Prompt.Message) => boolean
): void => {
  for (let index = references.length - 1; index >= 0; index--) {
    const reference = references[index]
    if (reference === undefined) return
    if (typeof reference === "string") {
      const message = named.get(reference)
      if (isSaid(message) && !wants(message)) return
      continue
    }
    const [from, to] = toRange(reference)
    for (let at = to; at >= from; at--) {
      const message = positions.get(at)?.message
      if (isSaid(message) && !wants(message)) return
    }
  }
}

/**
 * Returns the messages of an attempt for a reader that starts with the newest one. If the attempt is the first of its
 * session, `begun` contains the initial messages of the session.
 */
export const findSentMessages = (contents: Contents, attempt: Attempt, begun: ReadonlyArray<Message>): SentMessages => {
  const {
    run,
    start: { messages }
  } = attempt
  const session = getSession(contents, run.sessionId)
  const before = new Set(findAttemptBefore(attempt)?.start.messages)
  const unstored = messages.flatMap((reference) =>
    typeof reference === "string" && !before.has(reference) ? (session.named.get(reference) ?? []) : []
  )
  return {
    ...countMessages(session, messages),
    messages: () => resolveRequest(contents, attempt).messages,
    fresh: [...begun.flatMap(({ message }) => message ?? []), ...unstored].filter(isSaid),
    newest: (wants) => showNewest(session, messages, wants)
  }
}

/** Lists the messages of an attempt that no session stores, in order. */
export const listUnstoredMessages = (contents: Contents, { run, start }: Attempt): ReadonlyArray<Prompt.Message> => {
  const { named } = getSession(contents, run.sessionId)
  return start.messages.flatMap((reference) => (typeof reference === "string" ? (named.get(reference) ?? []) : []))
}

/** Lists all messages of a session in the record, by position. */
export const listConversation = (contents: Contents, sessionId: string): ReadonlyArray<Message> =>
  Array.from(getSession(contents, sessionId).positions.values()).toSorted(
    (a, b) => (a.position ?? 0) - (b.position ?? 0)
  )

/** Forgets the messages and tools of a session. */
export const forgetSession = ({ sessions }: Contents, sessionId: string): void => void sessions.delete(sessionId)
