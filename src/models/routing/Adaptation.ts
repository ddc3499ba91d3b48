/**
 * Alternative forms of a call, for endpoints that reject the original one. Rejected features are remembered with the
 * route, so each is discovered once.
 *
 * **Details**
 *
 * An image that is too large is scaled (`ImageScaling`), once; one that cannot be made to fit is replaced by a note
 * where the user gave it, and not sent where the model made it. An image that is named by its address stays as it is.
 *
 * Parameters that an endpoint may refuse and that a call can do without are read from the refusal: providers name them
 * in a field of the error (`param`, `loc`) or in its words. Names that are needed for an answer (`model`, `messages`,
 * `tools`, `stream`) are never taken away. The output limit of chat completions has two names: where one is refused,
 * the other one is tried before the limit is left out.
 *
 * Source: `hermes-llm.md` §4.1, §15.5, §16.5 (2, 5).
 */
import * as Effect from "effect/Effect"
import { memoize } from "effect/Function"
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import type { ApiMode } from "../../base/domain/ApiMode.ts"
import * as Json from "../../base/domain/Json.ts"
import type { ModelCall, ModelRequest, ToolDefinition } from "../../base/domain/ModelCall.ts"
import * as FileData from "../provider/FileData.ts"
import { type Bounds, ImageScaler, type NoImageLibrary } from "./ImageScaling.ts"

/** Change of a call; the words follow "send it". */
export type Change =
  | "without_images"
  | "with_smaller_images"
  | "without_reasoning"
  | "without_patterns"
  | "without_stream"

const mapMessages = (call: ModelCall, change: (message: Prompt.Message) => Prompt.Message): ModelCall => ({
  ...call,
  messages: call.messages.map(change)
})

const removeReasoning = (call: ModelCall): ModelCall =>
  mapMessages(call, (message) =>
    message.role === "assistant" && message.content.some((part) => part.type === "reasoning")
      ? Prompt.assistantMessage({
          content: message.content.filter((part) => part.type !== "reasoning"),
          options: message.options
        })
      : message
  )

/** Returns a schema without `pattern` and `format`; properties with these names are preserved. */
const stripPatterns = (schema: unknown, isProperties: boolean): unknown => {
  if (Array.isArray(schema)) return schema.map((item) => stripPatterns(item, false))
  if (!Json.isFields(schema)) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (!isProperties && (key === "pattern" || key === "format") && typeof value === "string") continue
    out[key] = stripPatterns(value, !isProperties && (key === "properties" || key === "$defs" || key === "definitions"))
  }
  return out
}

const plainTools = memoize((tools: ReadonlyArray<ToolDefinition>): ReadonlyArray<ToolDefinition> =>
  // `stripPatterns` makes an object schema of an object schema.
  tools.map((tool) => ({ ...tool, parameters: stripPatterns(tool.parameters, false) as ToolDefinition["parameters"] }))
)

const removePatterns = (call: ModelCall): ModelCall => ({ ...call, tools: plainTools(call.tools) })

/** Scaling takes time, and is {@link scaleImages}. */
const changes: Readonly<Record<Exclude<Change, "with_smaller_images">, (call: ModelCall) => ModelCall>> = {
  without_images: (call) => mapMessages(call, removeImages),
  without_reasoning: removeReasoning,
  without_patterns: removePatterns,
  without_stream: (call) => ({ ...call, stream: false })
}

/** Returns the call as a route can take it, but for the scaling of its images. */
export const applyChanges = (call: ModelCall, wanted: ReadonlySet<Change>): ModelCall => {
  let adapted = call
  for (const change of wanted) if (change !== "with_smaller_images") adapted = changes[change](adapted)
  return adapted
}

/**
 * Bounds that every known provider takes: 4 MB as they are sent, in base64, and no side that is longer than where many
 * are sent.
 */
const bounds: Bounds = { bytes: 3 * 1024 * 1024, side: 2_000 }

const isImage = (part: { readonly type: string }): part is Prompt.FilePart =>
  part.type === "file" &&
  "mediaType" in part &&
  typeof part.mediaType === "string" &&
  part.mediaType.startsWith("image/")

const describeOmittedImage = (part: Prompt.FilePart): Prompt.TextPart =>
  Prompt.textPart({ text: `[${part.fileName ?? "image"}: left out, this model cannot take it]` })

/** The bytes of an image that is here and not elsewhere. */
const readImageBytes = (part: Prompt.FilePart): Uint8Array | undefined => {
  const { data } = part
  if (data instanceof Uint8Array) return data
  const text = FileData.readBase64(part)
  return text === undefined ? undefined : Result.getOrUndefined(Base64.decode(text))
}

type FittedImages = ReadonlyMap<object, Prompt.FilePart | undefined>

/** Returns the message with its images replaced by the fitted ones; images without a replacement are omitted. */
const replaceImages = (message: Prompt.Message, fitted: FittedImages): Prompt.Message => {
  if ((message.role !== "user" && message.role !== "assistant") || !message.content.some(isImage)) return message
  return message.role === "user"
    ? Prompt.userMessage({
        content: message.content.map((part) =>
          isImage(part) ? (fitted.get(part) ?? describeOmittedImage(part)) : part
        ),
        options: message.options
      })
    : Prompt.assistantMessage({
        content: message.content
          .map((part) => (isImage(part) ? fitted.get(part) : part))
          .filter((part) => part !== undefined),
        options: message.options
      })
}

const collectImages = ({ content }: Prompt.Message): ReadonlyArray<Prompt.FilePart> =>
  typeof content === "string" ? [] : [...content].filter(isImage)

const none: FittedImages = new Map()

const removeImages = (message: Prompt.Message): Prompt.Message => replaceImages(message, none)

const known = new WeakMap<Prompt.Message, Prompt.Message>()

/**
 * Returns the call with images that every provider takes. The same message always returns the same result, so that each
 * is scaled once; `refused` is called once per call if images cannot be scaled here.
 */
export const scaleImages = Effect.fnUntraced(function* (
  call: ModelCall,
  refused: (error: NoImageLibrary) => Effect.Effect<void>
): Effect.fn.Return<ModelCall> {
  const scale = yield* ImageScaler
  let lacking: NoImageLibrary | undefined

  /** Returns the image scaled to the bounds, or undefined if that is not possible. */
  const fitImage = Effect.fnUntraced(function* (part: Prompt.FilePart) {
    const bytes = readImageBytes(part)
    if (bytes === undefined) return part
    const smaller = yield* Effect.catch(scale(bytes, bounds), (error) => Effect.sync(() => void (lacking = error)))
    if (smaller === undefined) return bytes.byteLength > bounds.bytes ? undefined : part
    return smaller.data === bytes
      ? part
      : Prompt.filePart({ ...smaller, fileName: part.fileName, options: part.options })
  })

  const scaleMessageImages = Effect.fnUntraced(function* (message: Prompt.Message) {
    const images = collectImages(message)
    const before = images.length === 0 ? message : known.get(message)
    if (before !== undefined) return before
    const made = replaceImages(
      message,
      new Map(yield* Effect.forEach(images, (part) => Effect.map(fitImage(part), (to) => [part, to] as const)))
    )
    known.set(message, made)
    return made
  })

  const messages = yield* Effect.forEach(call.messages, scaleMessageImages)
  if (lacking !== undefined) yield* refused(lacking)
  return { ...call, messages }
})

/** Parameters that can be left out. */
const optional = [
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "temperature",
  "top_p",
  "topP",
  "top_k",
  "parallel_tool_calls",
  "stream_options",
  "reasoning_effort",
  "reasoning",
  "tool_choice",
  "prompt_cache_key",
  "prompt_cache_retention",
  "service_tier",
  "frequency_penalty",
  "presence_penalty",
  "seed",
  "stop",
  "store",
  "include",
  "verbosity",
  "metadata",
  "user",
  "think",
  "thinking",
  "chat_template_kwargs",
  "enable_thinking",
  "provider",
  "tags",
  "options"
] as const

/** Words of English that are parameters too: they count only in quotes or where a field names them. */
const ambiguous: ReadonlySet<string> = new Set([
  "reasoning",
  "stop",
  "store",
  "include",
  "metadata",
  "user",
  "provider",
  "tags",
  "options",
  "think",
  "thinking",
  "seed"
])

const makeParameterPattern = (name: string): RegExp =>
  new RegExp(ambiguous.has(name) ? `['"\`]${name}['"\`]` : `(?<![\\w-])${name}(?![\\w-])`, "i")

const patterns: ReadonlyArray<readonly [name: string, pattern: RegExp]> = optional.map((name) => [
  name,
  makeParameterPattern(name)
])

const optionalNames: ReadonlySet<string> = new Set(optional)

/** The parameters that a refusal names: the one that a field names first, then as they come in its words. */
export const findNamedParameters = (text: string, param: string | undefined): ReadonlyArray<string> => {
  const own = param?.split(".").at(-1) ?? ""
  const found: Array<readonly [name: string, at: number]> = optionalNames.has(own) ? [[own, -1]] : []
  for (const [name, pattern] of patterns) {
    const at = name === own ? -1 : text.search(pattern)
    if (at >= 0) found.push([name, at])
  }
  return found.toSorted(([, a], [, b]) => a - b).map(([name]) => name)
}

/** Replacements of parameters: another name, or undefined for none. */
export type ParameterChanges = ReadonlyMap<string, string | undefined>

/** Places of a request that hold parameters, besides its top. */
const nested = ["extra_body", "inferenceConfig"]

/** Returns whether a request has the parameter. */
const isIn = (request: ModelRequest, name: string): boolean =>
  [request, ...nested.map((place) => request[place])].some(
    (fields) => Json.isFields(fields) && Object.hasOwn(fields, name)
  )

/** Needed in every request of the protocol. */
const needed: Partial<Readonly<Record<ApiMode, ReadonlySet<string>>>> = { anthropic_messages: new Set(["max_tokens"]) }

const otherName: Readonly<Record<string, string>> = {
  max_tokens: "max_completion_tokens",
  max_completion_tokens: "max_tokens"
}

/**
 * Finds the remedy for a refused parameter of a request: its other name, or undefined to leave it out. Null for
 * nothing.
 */
export const findParameterRemedy = (
  name: string,
  {
    apiMode,
    changes,
    request
  }: { readonly apiMode: ApiMode; readonly changes: ParameterChanges; readonly request: ModelRequest }
): string | undefined | null => {
  if (needed[apiMode]?.has(name) === true || !isIn(request, name)) return null
  const other = apiMode === "chat_completions" ? otherName[name] : undefined
  // The other one was refused before, and led here.
  return other === undefined || changes.has(other) ? undefined : other
}

const applyParameterChanges = (
  fields: Readonly<Record<string, unknown>>,
  changes: ParameterChanges
): Readonly<Record<string, unknown>> => {
  if (!Object.keys(fields).some((name) => changes.has(name))) return fields
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    // Both names were refused: the second one leaves the limit out.
    let to: string | undefined = name
    for (let steps = 0; to !== undefined && changes.has(to) && steps < 3; steps++) to = changes.get(to)
    if (to !== undefined) out[to] = value
  }
  return out
}

/** A request as its endpoint takes it. */
export const changeParameters = (request: ModelRequest, changes: ParameterChanges): ModelRequest => {
  const top = applyParameterChanges(request, changes)
  const inner = nested.flatMap((place) => {
    const fields = top[place]
    return Json.isFields(fields) ? [[place, applyParameterChanges(fields, changes)] as const] : []
  })
  return inner.every(([place, fields]) => top[place] === fields) ? top : { ...top, ...Object.fromEntries(inner) }
}
