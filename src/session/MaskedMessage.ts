/**
 * A message as it is stored: without the values that the runtime holds, in its text, its thoughts, the arguments and results of
 * its calls, and the options of its provider. What a model or a tool said has no keys of a known shape in it either.
 *
 * **Details**
 *
 * Every store applies it to what it is given. What a user types reaches the model as typed in the run that it is typed in; values that
 * the runtime holds are masked in the session, in what is resumed from it, and in everything that reads it. A key that the
 * runtime does not hold stays as typed in the session, because the model may need it, and is masked in what is shown and exported.
 * A message without secrets is the same object.
 *
 * Source: `ARCHITECTURE.md` §7 (secrets).
 */
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import { isSensitiveKey, marker, redactKeys, RedactSecrets, redactText } from "../domain/Redaction.ts"
import type { Entry } from "../domain/RecordEvent.ts"
import { Secrets } from "../domain/Secrets.ts"

const maxDepth = 64

/** A value with every string in it masked; the value itself where nothing was. */
const masked = (value: unknown, mask: (text: string) => string, depth: number): unknown => {
  if (typeof value === "string") return mask(value)
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || value instanceof URL || depth >= maxDepth) return value
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => masked(item, mask, depth + 1))
    return items.every((item, index) => item === value[index]) ? value : items
  }
  let changed: Record<string, unknown> | undefined
  for (const [key, item] of Object.entries(value)) {
    const safe = masked(item, mask, depth + 1)
    if (safe === item) continue
    // Symbols that tell what it is stay.
    changed ??= Object.assign(Object.create(Object.getPrototypeOf(value)), value)
    if (changed !== undefined) changed[key] = safe
  }
  return changed ?? value
}

/** Masks the values that the runtime holds: in titles, in system prompts and in what users type. */
export const heldMask: Effect.Effect<(text: string) => string> = Effect.map(Secrets, ({ mask }) => mask)

interface Masks {
  /** Masks the values that the runtime holds. */
  readonly held: (text: string) => string
  /** Masks keys of known shapes as well. */
  readonly said: (text: string) => string
}

const masks: Effect.Effect<Masks> = Effect.gen(function*() {
  const secrets = yield* Secrets
  return { held: secrets.mask, said: (yield* RedactSecrets) ? (text: string) => redactKeys(text, secrets) : secrets.mask }
})

// Its strings are changed and nothing else, so a message stays one.
const maskedMessage = ({ held, said }: Masks) => (message: Prompt.Message): Prompt.Message =>
  masked(message, message.role === "assistant" || message.role === "tool" ? said : held, 0) as Prompt.Message

/** Messages as they are stored; see the top of this file. */
export const all = (messages: ReadonlyArray<Prompt.Message>): Effect.Effect<ReadonlyArray<Prompt.Message>> =>
  Effect.map(masks, (known) => messages.map(maskedMessage(known)))

/** Members of events that are ids, states and counts of the runtime's own: they are never masked. */
const ownMembers: ReadonlySet<string> = new Set([
  "_tag", "apiRequestId", "callId", "parentCallId", "sessionId", "subagentId", "status", "hash", "finishReason", "usage", "cost",
  "messages", "tools", "responseId", "origin", "exit"
])

/** An event without secrets; the event itself where it has none. */
const maskedEvent = (event: Entry["event"], mask: (text: string) => string): Entry["event"] => {
  let changed: Record<string, unknown> | undefined
  for (const [key, value] of Object.entries(event)) {
    if (ownMembers.has(key)) continue
    const safe = masked(value, mask, 1)
    if (safe === value) continue
    changed ??= { ...event }
    changed[key] = safe
  }
  // Its strings are changed and nothing else, so an event stays one.
  return changed === undefined ? event : changed as Entry["event"]
}

const withMessage = <E extends { readonly message: unknown }>(event: E, message: E["message"]): E =>
  message === event.message ? event : { ...event, message }

/** Entries of the run record as they are kept: a message as in its session, every other text without keys. */
export const entries = (given: ReadonlyArray<Entry>): Effect.Effect<ReadonlyArray<Entry>> =>
  Effect.map(masks, (known) =>
    given.map((entry) => {
      const { event } = entry
      const safe = event._tag !== "MessageAppended"
        ? maskedEvent(event, known.said)
        : withMessage(event, event.message === undefined ? undefined : maskedMessage(known)(event.message))
      return safe === event ? entry : { ...entry, event: safe }
    }))

/** Values under names of secrets, and keys in texts, wherever they stand. */
const withoutSecrets = (value: unknown, clean: (text: string) => string, depth: number): unknown => {
  if (typeof value === "string") return clean(value)
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || value instanceof URL || depth >= maxDepth) return value
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => withoutSecrets(item, clean, depth + 1))
    return items.every((item, index) => item === value[index]) ? value : items
  }
  let changed: Record<string, unknown> | undefined
  for (const [key, item] of Object.entries(value)) {
    const safe = typeof item === "string" && item !== "" && isSensitiveKey(key) ? marker : withoutSecrets(item, clean, depth + 1)
    if (safe === item) continue
    changed ??= Object.assign(Object.create(Object.getPrototypeOf(value)), value)
    if (changed !== undefined) changed[key] = safe
  }
  return changed ?? value
}

/**
 * Entries as they may leave the machine or be shown: no secret in any text, be it typed by the user or said by the model, and no value
 * under the name of one. An entry without secrets is the same object.
 */
export const forExport: Effect.Effect<(given: ReadonlyArray<Entry>) => ReadonlyArray<Entry>> = Effect.gen(function*() {
  const secrets = yield* Secrets
  const clean = (yield* RedactSecrets) ? (text: string) => redactText(text, secrets) : secrets.mask
  return (given) =>
    given.map((entry) => {
      // Strings are changed and nothing else, so an event stays one.
      const event = withoutSecrets(entry.event, clean, 0) as Entry["event"]
      return event === entry.event ? entry : { ...entry, event }
    })
})
