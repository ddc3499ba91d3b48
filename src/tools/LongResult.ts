/**
 * Renders long results in pieces, and lets other fibers run in between, so that a result of megabytes does not block
 * the event loop. The text is the same as if it was rendered at once.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Injection from "../base/domain/Injection.ts"
import * as Json from "../base/domain/Json.ts"
import * as Redaction from "../base/domain/Redaction.ts"
import type { ToolOutput } from "../base/domain/ToolOutput.ts"
import * as ResultText from "./ResultText.ts"

/** Number of characters that are cleaned before other fibers may run. Most results have fewer. */
const pieceLength = 65_536

/** Number of characters after a piece in which the end of an injection is found that begins in the piece. */
const overlap = 2_048

/** Number of characters of a result that is rendered at once, which takes a few milliseconds. */
export const atOnce = 4 * pieceLength

const measureValue = (value: unknown, most: number): number => {
  try {
    return Json.countCharacters(value, most)
  } catch {
    // A getter or a proxy threw. The value is rendered as unreadable.
    return 0
  }
}

/** Returns true if a value is too long to be rendered at once. */
export const isLong = (value: unknown): boolean => measureValue(value, atOnce) > atOnce

const normalizePieces = Effect.fnUntraced(function* (text: string) {
  let out = ""
  for (let at = 0; at < text.length;) {
    let end = Math.min(text.length, at + pieceLength)
    // Both halves of a character outside of the basic plane stay in one piece.
    if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end++
    out += ResultText.normalizeText(text.slice(at, end))
    at = end
    yield* Effect.yieldNow
  }
  return out
})

const redactPieces = Effect.fnUntraced(function* (text: string) {
  let out = ""
  for (const piece of Redaction.redactPieces(text, pieceLength / 4)) {
    out += piece
    yield* Effect.yieldNow
  }
  return out
})

const cleanString = (text: string, redact: boolean): Effect.Effect<string> =>
  redact ? Effect.flatMap(normalizePieces(text), redactPieces) : normalizePieces(text)

const findWarning = Effect.fnUntraced(function* (text: string) {
  for (let at = 0; at < text.length; at += pieceLength) {
    const warning = Injection.findForeignWarning(text.slice(at, at + pieceLength + overlap))
    if (warning !== undefined) return warning
    yield* Effect.yieldNow
  }
  return undefined
})

const cleanText = Effect.fnUntraced(function* (given: string, { foreign, redact }: ResultText.Rules) {
  const safe = yield* cleanString(given, redact)
  const warning = foreign ? yield* findWarning(safe) : undefined
  return warning === undefined ? safe : `${warning}\n${safe}`
})

const isRecord = (value: object): value is Json.Fields => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return (prototype === Object.prototype || prototype === null) && typeof Reflect.get(value, "toJSON") !== "function"
}

/** State of cleaning one value. */
interface Cleaning {
  readonly redact: boolean
  /** Objects that contain the current value. */
  readonly above: Set<object>
  /** Characters that were cleaned since other fibers could run. */
  spent: number
}

const cleanShort = (value: unknown, key: string | undefined, { redact }: Cleaning): unknown => {
  const plain = Json.toPlainData(value, ResultText.normalizeText)
  if (!redact) return plain
  if (key === undefined) return Redaction.redactValue(plain, ResultText.whole)
  return Reflect.get(Object(Redaction.redactValue(Object.fromEntries([[key, plain]]), ResultText.whole)), key)
}

/** Cleans the value of a member, or an item of a list, which has no `key`. */
const cleanValue = (value: unknown, key: string | undefined, state: Cleaning): Effect.Effect<unknown> =>
  Effect.suspend((): Effect.Effect<unknown> => {
    const length = measureValue(value, pieceLength)
    if (length <= pieceLength) {
      state.spent += length
      const cleaned = cleanShort(value, key, state)
      if (state.spent < pieceLength) return Effect.succeed(cleaned)
      state.spent = 0
      return Effect.as(Effect.yieldNow, cleaned)
    }
    if (state.redact && key !== undefined && Redaction.isSensitiveKey(key)) return Effect.succeed(Redaction.marker)
    if (typeof value === "string") return cleanString(value, state.redact)
    if (typeof value !== "object" || value === null) return Effect.succeed(cleanShort(value, key, state))
    if (state.above.has(value)) return Effect.succeed("<circular>")
    if (state.above.size >= Json.maxDepth || !(Array.isArray(value) || isRecord(value)))
      return Effect.succeed(cleanShort(value, key, state))
    state.above.add(value)
    return Effect.tap(cleanMembers(value, state), () => Effect.sync(() => state.above.delete(value)))
  })

const cleanMembers = Effect.fnUntraced(function* (value: ReadonlyArray<unknown> | Json.Fields, state: Cleaning) {
  if (Array.isArray(value)) {
    const items: Array<unknown> = []
    for (const item of value) items.push(yield* cleanValue(item, undefined, state))
    return items
  }
  const members: Array<readonly [string, unknown]> = []
  for (const [name, item] of Object.entries(value)) {
    const key = ResultText.normalizeText(name)
    members.push([key, yield* cleanValue(item, key, state)])
  }
  return Object.fromEntries(members)
})

const cleanOutput = Effect.fnUntraced(function* (output: unknown, rules: ResultText.Rules) {
  if (typeof output === "string") {
    const text = yield* cleanText(output, rules)
    return { output: text, value: text }
  }
  const safe = yield* cleanValue(output, undefined, { redact: rules.redact, above: new Set(), spent: 0 })
  const warning = rules.foreign ? yield* findWarning(ResultText.collectStrings(safe).join("\n")) : undefined
  const warned = ResultText.addWarning(safe, warning)
  return { output: Json.toText(warned), value: warned === safe ? safe : undefined }
})

/** `ResultText.renderResult` for a long result. */
export const renderResult = Effect.fnUntraced(function* (
  { modelOutput, output }: Pick<ToolOutput, "modelOutput" | "output">,
  rules: ResultText.Rules
): Effect.fn.Return<ResultText.RenderedResult> {
  const parts: Array<Prompt.ToolModelOutputPart> = []
  for (const part of modelOutput ?? []) {
    parts.push(
      part.type === "text" ? Prompt.textPart({ text: yield* cleanText(part.text, rules), options: part.options }) : part
    )
  }
  const description = ResultText.describeLongFiles({ modelOutput, output })
  const cleaned = yield* cleanOutput(description ?? output, rules)
  const rendered = { ...cleaned, modelOutput: modelOutput === undefined ? undefined : parts }
  return description === undefined
    ? { ...rendered, raw: output }
    : { ...rendered, value: undefined, raw: rendered.output }
})
