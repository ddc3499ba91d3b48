/**
 * The short form of record entries in a database: without the kind, which has a column, without the id of the run in
 * ids of requests, and without texts that are messages of the session.
 *
 * **Details**
 *
 * The answer of an attempt is left out if the session stores the same answer as a message, and the text of a run if it
 * is the text of its last answer. The row then has the position of that message. Rows of the long form are read as
 * before.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Json from "../../base/domain/Json.ts"
import type { AnswerPart, Entry, RecordEvent } from "../../base/domain/RecordEvent.ts"
import * as StoredForm from "../StoredForm.ts"

/** Body of a row, and the position of the message with its text. */
export interface ShortBody {
  readonly body: string
  readonly position: number | null
}

/** Shortens entries, in their order. */
export type Shorten = (entries: ReadonlyArray<Entry>) => Result.Result<ReadonlyArray<ShortBody>, StoredForm.Problem>

/** Returns the parts of an answer in the form of the record, or `undefined` if one has no such form. */
const toAnswer = (message: Prompt.Message): ReadonlyArray<AnswerPart> | undefined => {
  if (message.role !== "assistant") return undefined
  const parts: Array<AnswerPart> = []
  for (const part of message.content) {
    if (part.type === "text" || part.type === "reasoning") parts.push({ type: part.type, text: part.text })
    else if (part.type === "tool-call")
      parts.push({ type: "tool-call", id: part.id, name: part.name, params: part.params })
    else return undefined
  }
  return parts
}

/** The stored answer of a request. */
interface StoredAnswer {
  readonly sessionId: string
  readonly position: number
  readonly message: Prompt.Message
}

/** Finds the messages in entries that are answers, by the ids of their requests. */
const findAnswers = (entries: ReadonlyArray<Entry>): ReadonlyMap<string, StoredAnswer> => {
  const answers = new Map<string, StoredAnswer>()
  for (const { event, sessionId } of entries) {
    if (event._tag !== "MessageAppended" || event.origin !== "model") continue
    const { apiRequestId, message, position } = event
    if (apiRequestId !== undefined && message !== undefined && position !== undefined)
      answers.set(apiRequestId, { sessionId, position, message })
  }
  return answers
}

/** Number of runs whose last answer is known. */
const mostRuns = 1_000

const dropKind = (body: string, kind: string): string => {
  const start = `{"_tag":${JSON.stringify(kind)}`
  if (!body.startsWith(start)) return body
  const rest = body.slice(start.length)
  return rest.startsWith(",") ? `{${rest.slice(1)}` : rest === "}" ? "{}" : body
}

/** Makes the function that shortens the entries of all runs of a process. */
export const makeShorten = (): Shorten => {
  /** Positions and texts of the last answers, by run. */
  const last = new Map<string, Omit<StoredAnswer, "message"> & { readonly text: string }>()

  const noteAnswer = (turnId: string, { message, position, sessionId }: StoredAnswer): void => {
    last.delete(turnId)
    last.set(turnId, { sessionId, position, text: Conversation.readText(message) })
    const [oldest] = last.keys()
    if (last.size > mostRuns && oldest !== undefined) last.delete(oldest)
  }

  /** Leaves out a text that the session stores, and returns the position of its message. */
  const leaveOut = (
    { event, sessionId, turnId }: Entry,
    answers: ReadonlyMap<string, StoredAnswer>
  ): readonly [event: object, position: number | null] => {
    if (event._tag === "MessageAppended") {
      const answer = event.apiRequestId === undefined ? undefined : answers.get(event.apiRequestId)
      if (answer !== undefined) noteAnswer(turnId, answer)
      return [event, event.position ?? null]
    }
    if (event._tag === "AttemptEnded") {
      const stored = answers.get(event.apiRequestId)
      if (stored?.sessionId !== sessionId || Json.toText(toAnswer(stored.message)) !== Json.toText(event.answer))
        return [event, null]
      const { answer: _, ...rest } = event
      return [rest, stored.position]
    }
    if (event._tag === "RunEnded") {
      const stored = last.get(turnId)
      if (stored?.sessionId !== sessionId || stored.text !== event.text) return [event, null]
      const { text: _, ...rest } = event
      return [rest, stored.position]
    }
    return [event, null]
  }

  const shortenEntry = (
    entry: Entry,
    answers: ReadonlyMap<string, StoredAnswer>
  ): Result.Result<ShortBody, StoredForm.Problem> => {
    const { event, turnId } = entry
    const [left, position] = leaveOut(entry, answers)
    const id = Predicate.hasProperty(left, "apiRequestId") ? left.apiRequestId : undefined
    const prefix = `${turnId}:`
    const named =
      typeof id === "string" && id.startsWith(prefix) ? { ...left, apiRequestId: id.slice(turnId.length) } : left
    // The form of a message does not depend on the other fields.
    const encoded =
      event._tag === "MessageAppended"
        ? StoredForm.encodeEvent({ ...event, ...named } as RecordEvent, true)
        : Result.succeed(Json.toText(named))
    return Result.map(encoded, (body) => ({ body: dropKind(body, event._tag), position }))
  }

  return (entries) => {
    const answers = findAnswers(entries)
    return Result.all(entries.map((entry) => shortenEntry(entry, answers)))
  }
}

/** A row of the record, with the stored form of the message at its position. */
export interface ReadableRow {
  readonly kind: string
  readonly turn_id: string
  readonly body: string
  readonly envelope: string | null
}

/** Reads the body of a row of either form. */
export const readBody = ({ body, envelope, kind, turn_id }: ReadableRow): unknown => {
  const fields = Option.getOrUndefined(Json.parse(body))
  if (!Json.isFields(fields) || "_tag" in fields) return fields
  const { apiRequestId } = fields
  const read: Record<string, unknown> = { _tag: kind, ...fields }
  if (typeof apiRequestId === "string" && apiRequestId.startsWith(":")) read["apiRequestId"] = turn_id + apiRequestId
  const message =
    envelope === null || kind === "MessageAppended"
      ? undefined
      : Option.getOrUndefined(Result.getSuccess(StoredForm.decode(envelope)))
  if (message === undefined) return read
  if (kind === "AttemptEnded" && !("answer" in fields)) read["answer"] = toAnswer(message)
  if (kind === "RunEnded" && !("text" in fields)) read["text"] = Conversation.readText(message)
  return read
}
