/**
 * Messages and tool sets of sessions, by how the attempts of the run record refer to them: stored messages by position,
 * others and tool sets by id.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { ToolDefinition } from "../base/domain/ModelCall.ts"
import type * as Record from "../base/domain/RecordEvent.ts"
import type { Attempt, Message } from "./RunNodes.ts"

type TaggedEvent<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/**
 * Request of an attempt. A message is undefined if the record has lost it. If a request begins with the messages of the
 * previous one, both share the same lists, which grow with the next request.
 */
export interface Request {
  readonly messages: ReadonlyArray<Prompt.Message | undefined>
  readonly tools: ReadonlyArray<ToolDefinition>
  /** Position of each message of the session, id of each other one: tells what is new in a request. */
  readonly names: ReadonlyArray<number | string>
  /** Writer of each message of the session. */
  readonly origins: ReadonlyArray<Record.Origin | undefined>
}

/** Messages of an attempt, to be read from the newest on; the cost does not grow with the length of the session. */
export interface SentMessages {
  /** Number of messages, with those that the record has lost. */
  readonly count: number
  /** System prompts, in order. */
  readonly system: ReadonlyArray<Prompt.Message>
  /** Number of the other messages that the record has. */
  readonly said: number
  /** Shows those messages, the last one first, as long as `wants` is true of them. */
  readonly newest: (wants: (message: Prompt.Message) => boolean) => void
  /** All messages, in order: the list of {@link Request}, which the next request grows. */
  readonly messages: () => Request["messages"]
  /**
   * Those that no session kept before and that no attempt before it in its run was sent, such as the summary of a
   * compaction; in order.
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
   * For each position the number of known messages before it that are no system prompts, as far as it was asked for.
   */
  readonly counts: Array<number>
  /** The last request of a step: one that begins with the same messages is the same lists, grown. */
  last: ResolvedRequest | undefined
}

/** Messages of a request, and the references that they are of. */
interface ResolvedRequest {
  references: ReadonlyArray<Record.Reference>
  /** False where a message was not found. */
  isWhole: boolean
  readonly messages: Array<Prompt.Message | undefined>
  readonly names: Array<number | string>
  readonly origins: Array<Record.Origin | undefined>
}

const isSaid = (message: Prompt.Message | undefined): message is Prompt.Message =>
  message !== undefined && message.role !== "system"

/** First and last position of a reference to stored messages. */
const toRange = (reference: Exclude<Record.Reference, string>): readonly [number, number] =>
  typeof reference === "number" ? [reference, reference] : [reference[0], reference[1]]

/** True where references begin with earlier ones; the last range of those may have grown. */
const isGrown = (references: ReadonlyArray<Record.Reference>, before: ReadonlyArray<Record.Reference>): boolean =>
  references.length >= before.length &&
  before.every((one, index) => {
    const reference = references[index]
    if (reference === undefined || typeof one === "string" || typeof reference === "string") return reference === one
    const [[from, to], [first, last]] = [toRange(one), toRange(reference)]
    return first === from && (index === before.length - 1 ? last >= to : last === to)
  })

/** Known messages of the session before a position that are no system prompts. */
const countBefore = ({ counts, positions }: Session, position: number): number => {
  let count = counts.at(-1) ?? 0
  for (let at = counts.length - 1; at < position; at++) {
    if (isSaid(positions.get(at)?.message)) count++
    counts.push(count)
  }
  return counts[position] ?? 0
}

/** The attempt before another one in its run; none for side tasks. */
const findAttemptBefore = (attempt: Attempt): Attempt | undefined => {
  const { run, step } = attempt
  if (step === undefined) return undefined
  const at = step.attempts.indexOf(attempt)
  return at > 0 ? step.attempts[at - 1] : run.steps[run.steps.lastIndexOf(step) - 1]?.attempts.at(-1)
}

/** Contents of no session yet. */
export const make = () => {
  const sessions = new Map<string, Session>()
  const getSession = (sessionId: string): Session => {
    const known = sessions.get(sessionId) ?? {
      positions: new Map(),
      named: new Map(),
      tools: new Map(),
      systems: new Set(),
      counts: [0],
      last: undefined
    }
    sessions.set(sessionId, known)
    return known
  }
  const findTools = ({ run, start }: Attempt): ReadonlyArray<ToolDefinition> =>
    start.tools === undefined ? [] : (getSession(run.sessionId).tools.get(start.tools) ?? [])

  const resolveRequest = (attempt: Attempt): Request => {
    const {
      run,
      start: { messages: references, task }
    } = attempt
    const session = getSession(run.sessionId)
    const { last, named, positions } = session
    const resolved: ResolvedRequest =
      last !== undefined && task === undefined && isGrown(references, last.references)
        ? last
        : { references: [], isWhole: true, messages: [], names: [], origins: [] }
    const { messages, names, origins, references: known } = resolved
    const addMessage = (
      message: Prompt.Message | undefined,
      name: number | string,
      origin: Record.Origin | undefined
    ): void => {
      if (message === undefined) resolved.isWhole = false
      messages.push(message)
      names.push(name)
      origins.push(origin)
    }
    for (let index = Math.max(0, known.length - 1); index < references.length; index++) {
      const [reference, before] = [references[index], known[index]]
      if (reference === undefined) continue
      if (typeof reference === "string") {
        if (before === undefined) addMessage(named.get(reference), reference, undefined)
        continue
      }
      const [from, to] = toRange(reference)
      const next = before === undefined || typeof before === "string" ? from : toRange(before)[1] + 1
      for (let at = next; at <= to; at++) {
        const kept = positions.get(at)
        addMessage(kept?.message, at, kept?.origin)
      }
    }
    resolved.references = references
    // One that names what is not there yet may find it later.
    if (task === undefined) session.last = resolved.isWhole ? resolved : undefined
    return { messages, names, origins, tools: findTools(attempt) }
  }

  return {
    keep: (
      { at, sessionId }: Record.Entry,
      { copyOf, id, message, origin, position }: TaggedEvent<"MessageAppended">
    ): Message => {
      const session = getSession(sessionId)
      const { counts, named, positions, systems } = session
      const kept: Message = { at, origin, position, message, ...(copyOf === undefined ? {} : { copyOf }) }
      if (position !== undefined) {
        if (positions.has(position)) session.last = undefined
        positions.set(position, kept)
        if (message?.role === "system") systems.add(position)
        else systems.delete(position)
        if (position < counts.length - 1) counts.length = position + 1
      }
      // An id is a hash: the message is the one that was known, so that views make their forms of it once.
      if (id !== undefined && named.get(id) === undefined) {
        if (named.has(id)) session.last = undefined
        named.set(id, message)
      }
      return kept
    },
    offered: ({ sessionId }: Record.Entry, { definitions, hash }: TaggedEvent<"ToolsOffered">): void => {
      const known = getSession(sessionId).tools
      // Definitions in the record are those that a model was given.
      if (!known.has(hash)) known.set(hash, definitions as ReadonlyArray<ToolDefinition>)
    },
    request: resolveRequest,
    /** `begun` are messages with which the session began before this attempt, its first one. */
    sent: (attempt: Attempt, begun: ReadonlyArray<Message>): SentMessages => {
      const {
        run,
        start: { messages }
      } = attempt
      const session = getSession(run.sessionId)
      const { named, positions, systems } = session
      const system: Array<Prompt.Message> = []
      let [count, said] = [0, 0]
      for (const reference of messages) {
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
      const before = new Set(findAttemptBefore(attempt)?.start.messages)
      const unstored = messages.flatMap((reference) =>
        typeof reference === "string" && !before.has(reference) ? (named.get(reference) ?? []) : []
      )
      return {
        count,
        system,
        said,
        messages: () => resolveRequest(attempt).messages,
        fresh: [...begun.flatMap(({ message }) => message ?? []), ...unstored].filter(isSaid),
        newest: (wants) => {
          for (let index = messages.length - 1; index >= 0; index--) {
            const reference = messages[index]
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
      }
    },
    unstored: ({ run, start }: Attempt): ReadonlyArray<Prompt.Message> => {
      const { named } = getSession(run.sessionId)
      return start.messages.flatMap((reference) => (typeof reference === "string" ? (named.get(reference) ?? []) : []))
    },
    tools: findTools,
    conversation: (sessionId: string): ReadonlyArray<Message> =>
      Array.from(getSession(sessionId).positions.values()).toSorted((a, b) => (a.position ?? 0) - (b.position ?? 0)),
    forget: (sessionId: string): void => void sessions.delete(sessionId)
  }
}
