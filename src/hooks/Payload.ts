/**
 * Makes the payload that listeners get out of what an emitter hands in: the version first, every value a JSON-safe redacted
 * copy, `request` and `response` bounded, the legacy fields made when first read, the whole frozen.
 *
 * **Details**
 *
 * It is made once per event, whoever listens. Ids pass as they are: correlation must not depend on what a secret looks
 * like. A legacy list is remembered as it is at the time of the event; its messages, which never change, are copied once
 * per message however many events carry them.
 *
 * Source: the observer document ("Payload Safety", "Performance"), `ARCHITECTURE.md` §7 (legacy payload fields, redaction).
 */
import type * as Schema from "effect/Schema"
import { observerVersion } from "./PayloadFields.ts"
import * as Sanitizer from "./Sanitizer.ts"

const bounded: ReadonlySet<string> = new Set(["request", "response"])
const lazy: ReadonlySet<string> = new Set(["conversation_history", "request_messages", "assistant_message"])

const messages = new WeakMap<object, Schema.Json>()

const messageOf = (message: unknown): Schema.Json => {
  if (typeof message !== "object" || message === null) return Sanitizer.copyOf(message)
  let copy = messages.get(message)
  if (copy === undefined) {
    copy = Sanitizer.copyOf(message)
    messages.set(message, copy)
  }
  return copy
}

/** A legacy value as it is now, to be copied when somebody wants it. */
const later = (name: string, value: unknown): () => Schema.Json => {
  const length = Array.isArray(value) ? value.length : 0
  let copy: Schema.Json | undefined
  return () => {
    copy ??= !Array.isArray(value)
      ? Sanitizer.copyOf(value)
      // The messages of a request are the provider's own objects: nothing says that they stay as they are.
      : Object.freeze(value.slice(0, length).map(name === "conversation_history" ? messageOf : Sanitizer.copyOf))
    return copy
  }
}

const valueOf = (name: string, value: unknown, maxChars: number): Schema.Json | undefined => {
  if (value === undefined) return undefined
  if (bounded.has(name)) return Sanitizer.sanitize(value, maxChars)
  return typeof value === "string" && name.endsWith("_id") ? value : Sanitizer.copyOf(value)
}

/** Makes the frozen payload of one event. A version that the emitter set stays. */
export const make = (fields: object, maxChars: number): object => {
  const payload: Record<string, unknown> = { telemetry_schema_version: observerVersion }
  for (const [name, value] of Object.entries(fields)) {
    if (lazy.has(name)) {
      if (value !== undefined) Object.defineProperty(payload, name, { enumerable: true, get: later(name, value) })
      continue
    }
    const copy = valueOf(name, value, maxChars)
    if (copy !== undefined) payload[name] = copy
  }
  return Object.freeze(payload)
}
