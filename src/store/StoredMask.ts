/**
 * Masks secrets in messages and in entries of the run record, before they are stored and when they leave the machine.
 *
 * **Details**
 *
 * Every store masks its input ({@link maskMessages}, {@link useMaskedEntries}). It masks the secrets that the runtime
 * holds, in text, reasoning, arguments, results and provider options. In the output of a model or a tool, it also
 * masks keys of a known shape. User input is sent to the model unmasked in the run in which it is typed. If it
 * contains a key that the runtime does not hold, the key stays in the session, because the model may need it. It is
 * masked when it is shown or exported. Masking a message without secrets returns the same object.
 *
 * Source: `ARCHITECTURE.md` §7 (secrets), §8 (run record too).
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Prompt from "effect/ai/Prompt"
import type { Entry } from "../base/domain/RecordEvent.ts"
import { isSensitiveKey, marker, redactKeys, RedactSecrets, redactText } from "../base/domain/Redaction.ts"
import { type Registry, Secrets } from "../base/domain/Secrets.ts"

const maxDepth = 64

/**
 * Applies a mask to every string in a value, with the key of the string. Returns the same value if nothing was masked.
 */
const maskValue = (
  value: unknown,
  mask: (text: string, key?: string) => string,
  depth: number,
  name?: string
): unknown => {
  if (typeof value === "string") return mask(value, name)
  if (
    typeof value !== "object" ||
    value === null ||
    ArrayBuffer.isView(value) ||
    value instanceof URL ||
    depth >= maxDepth
  )
    return value
  if (Array.isArray(value)) {
    let items: Array<unknown> | undefined
    for (let index = 0; index < value.length; index++) {
      const safe = maskValue(value[index], mask, depth + 1)
      if (safe !== value[index]) (items ??= value.slice())[index] = safe
    }
    return items ?? value
  }
  let changed: Record<string, unknown> | undefined
  // A list of the keys would be made for each part of each message.
  for (const key in value) {
    if (!Object.hasOwn(value, key)) continue
    const item: unknown = Reflect.get(value, key)
    if (typeof item !== "string" && typeof item !== "object") continue
    const safe = maskValue(item, mask, depth + 1, key)
    if (safe === item) continue
    // Symbols that identify the type of the value are preserved.
    changed ??= Object.assign(Object.create(Object.getPrototypeOf(value)), value)
    if (changed !== undefined) changed[key] = safe
  }
  return changed ?? value
}

/**
 * Maximum number of strings that {@link memoizeMask} caches, and the minimum and maximum length of a string that it
 * caches.
 */
const maxRemembered = 256
const [shortest, longest] = [256, 65_536]

/**
 * Memoizes a mask for recent long strings, because system prompts and tool descriptions are the same in many sessions.
 * Of the strings that are too long for that, the newest one is cached: an answer with it is recorded and then stored.
 */
const memoizeMask = (mask: (text: string) => string): ((text: string) => string) => {
  const known = new Map<string, string>()
  const newest = { text: "", safe: "" }
  return (text) => {
    if (text.length < shortest) return mask(text)
    if (text.length > longest) {
      if (newest.text !== text) Object.assign(newest, { text, safe: mask(text) })
      return newest.safe
    }
    const before = known.get(text)
    if (before !== undefined) return before
    const [oldest] = known.keys()
    if (known.size >= maxRemembered && oldest !== undefined) known.delete(oldest)
    const safe = mask(text)
    known.set(text, safe)
    return safe
  }
}

/** Function that masks the secrets that the runtime holds. It is used for titles, system prompts and user input. */
export const heldMask: Effect.Effect<(text: string) => string> = Effect.map(Secrets, ({ mask }) => mask)

interface Masks {
  /** Masks only the secrets that the runtime holds. */
  readonly held: (text: string) => string
  /** Masks the secrets that the runtime holds, and keys of known shapes. */
  readonly said: (text: string) => string
  /** Masked messages that were used once, by their original messages. */
  readonly messages: WeakMap<Prompt.Message, Prompt.Message>
  readonly redact: boolean
  /** Version of the secret registry that the masks were created for. */
  readonly version: number
}

const newestMasks = new WeakMap<Registry, Masks>()

/** Returns the masks of a fiber. */
const findMasks = (fiber: Fiber.Fiber<unknown, unknown>): Masks => {
  const secrets = fiber.getRef(Secrets)
  const redact = fiber.getRef(RedactSecrets)
  const version = secrets.version()
  const known = newestMasks.get(secrets)
  if (known?.version === version && known.redact === redact) return known
  const said = memoizeMask(redact ? (text) => redactKeys(text, secrets) : secrets.mask)
  const made: Masks = { held: memoizeMask(secrets.mask), said, messages: new WeakMap(), redact, version }
  newestMasks.set(secrets, made)
  return made
}

/**
 * Masks a message. The result is remembered for one more use, because the session and the record of a run receive the
 * same messages one after the other.
 */
const maskMessage =
  ({ held, messages, said }: Masks) =>
  (message: Prompt.Message): Prompt.Message => {
    const known = messages.get(message)
    if (known !== undefined) {
      messages.delete(message)
      return known
    }
    // Only its strings are changed, so the value is still a message.
    const safe = maskValue(
      message,
      message.role === "assistant" || message.role === "tool" ? said : held,
      0
    ) as Prompt.Message
    messages.set(message, safe)
    return safe
  }

/** Passes messages in their stored form, without secrets, to a function that stores them. */
export const useMaskedMessages = <A, E>(
  messages: ReadonlyArray<Prompt.Message>,
  use: (masked: ReadonlyArray<Prompt.Message>, fiber: Fiber.Fiber<unknown, unknown>) => Effect.Effect<A, E>
): Effect.Effect<A, E> => Effect.withFiber((fiber) => use(messages.map(maskMessage(findMasks(fiber))), fiber))

/** Returns messages in their stored form, without secrets. */
export const maskMessages = (messages: ReadonlyArray<Prompt.Message>): Effect.Effect<ReadonlyArray<Prompt.Message>> =>
  useMaskedMessages(messages, Effect.succeed)

/** Fields of events that contain the runtime's own ids, states and counts. They are never masked. */
const ownMembers: ReadonlySet<string> = new Set([
  "_tag",
  "apiRequestId",
  "callId",
  "parentCallId",
  "sessionId",
  "subagentId",
  "status",
  "hash",
  "finishReason",
  "usage",
  "cost",
  "messages",
  "tools",
  "responseId",
  "origin",
  "exit"
])

/** Masks the secrets in an event. Returns the same event if it contains no secrets. */
const maskEvent = (event: Entry["event"], mask: (text: string, key?: string) => string): Entry["event"] => {
  let changed: Record<string, unknown> | undefined
  for (const key in event) {
    if (ownMembers.has(key) || !Object.hasOwn(event, key)) continue
    const value: unknown = Reflect.get(event, key)
    const safe = maskValue(value, mask, 1, key)
    if (safe === value) continue
    changed ??= { ...event }
    changed[key] = safe
  }
  // Only its strings are changed, so the value is still an event.
  return changed === undefined ? event : (changed as Entry["event"])
}

const replaceMessage = <E extends { readonly message: unknown }>(event: E, message: E["message"]): E =>
  message === event.message ? event : { ...event, message }

/**
 * Passes entries of the run record in their stored form to a function that stores them. Messages are masked as in the
 * session. In all other text, keys of known shapes are also masked.
 */
export const useMaskedEntries = <A>(
  given: ReadonlyArray<Entry>,
  use: (masked: ReadonlyArray<Entry>) => Effect.Effect<A>
): Effect.Effect<A> =>
  Effect.withFiber((fiber) => {
    const known = findMasks(fiber)
    return use(
      given.map((entry) => {
        const { event } = entry
        const safe =
          event._tag !== "MessageAppended"
            ? maskEvent(event, known.said)
            : replaceMessage(event, event.message === undefined ? undefined : maskMessage(known)(event.message))
        return safe === event ? entry : { ...entry, event: safe }
      })
    )
  })

/** Redacted entries by their original entries, because all exporters receive the same entries. */
const exportedEntries = new WeakMap<
  Registry,
  {
    readonly version: number
    readonly redact: boolean
    readonly made: WeakMap<Entry, Entry>
    readonly clean: (text: string) => string
  }
>()

/** Function that removes every secret from text that is shown or leaves the machine. */
export const textForExport: Effect.Effect<(text: string) => string> = Effect.gen(function* () {
  const secrets = yield* Secrets
  return (yield* RedactSecrets) ? (text) => redactText(text, secrets) : secrets.mask
})

/**
 * Function that redacts entries that are shown or leave the machine. It removes secrets from all text, both typed by
 * the user and produced by the model, and the values of fields whose names denote secrets. An entry without secrets is
 * returned as the same object.
 */
export const forExport: Effect.Effect<(given: ReadonlyArray<Entry>) => ReadonlyArray<Entry>> = Effect.gen(function* () {
  const secrets = yield* Secrets
  const redact = yield* RedactSecrets
  const mask = yield* textForExport
  const loadExportCache = () => {
    const version = secrets.version()
    const known = exportedEntries.get(secrets)
    if (known?.version === version && known.redact === redact) return known
    const fresh = { version, redact, made: new WeakMap<Entry, Entry>(), clean: memoizeMask(mask) }
    exportedEntries.set(secrets, fresh)
    return fresh
  }
  return (given) => {
    const { clean, made: known } = loadExportCache()
    const cleanText = (text: string, key?: string): string =>
      text !== "" && key !== undefined && isSensitiveKey(key) ? marker : clean(text)
    return given.map((entry) => {
      const before = known.get(entry)
      if (before !== undefined) return before
      const event = maskEvent(entry.event, cleanText)
      const safe = event === entry.event ? entry : { ...entry, event }
      known.set(entry, safe)
      return safe
    })
  }
})
