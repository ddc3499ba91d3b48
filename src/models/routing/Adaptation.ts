/**
 * Adapts a call for endpoints that reject its original form. Rejected features are stored with the route, so each is
 * discovered only once.
 *
 * **Details**
 *
 * An image that is too large is scaled down once (`ImageScaling`). An image that cannot be scaled is replaced by a note
 * in a user message and in a tool result, and omitted from an assistant message. An image given by its URL is not
 * changed.
 *
 * Refused optional parameters are identified from the error: providers name them in a field (`param`, `loc`) or in the
 * message. Required parameters (`model`, `messages`, `tools`, `stream`) are never removed. The output limit of chat
 * completions has two names: if one is refused, the other is tried before the limit is omitted.
 * Marks of the prompt cache count as one parameter (`cache_control`); without them, messages have the plain form that
 * every endpoint takes.
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
import { toHex } from "../../base/platform/Digest.ts"
import * as Endpoint from "../provider/chat/Endpoint.ts"
import * as FileData from "../provider/FileData.ts"
import { type Bounds, ImageScaler, type NoImageLibrary } from "./ImageScaling.ts"

const changeNames = [
  "without_images",
  "with_smaller_images",
  "without_reasoning",
  "without_patterns",
  "without_stream",
  "with_short_call_ids",
  "with_signatures"
] as const

/** Change to a call. The names complete the phrase "send it". */
export type Change = (typeof changeNames)[number]

/** Returns the change with a name, if there is one. */
export const findChange = (name: string): Change | undefined => changeNames.find((change) => change === name)

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
  // `stripPatterns` returns an object schema for an object schema.
  tools.map((tool) => ({ ...tool, parameters: stripPatterns(tool.parameters, false) as ToolDefinition["parameters"] }))
)

const unsigned = {
  extra_content: { google: { thought_signature: "skip_thought_signature_validator" } },
  origin: Endpoint.anyOrigin
}

const removePatterns = (call: ModelCall): ModelCall => ({ ...call, tools: plainTools(call.tools) })

/** Ids that Mistral accepts. */
const shortId = /^[A-Za-z0-9]{9}$/

/** Returns an id of nine letters and digits. A call and its result get the same id. */
const shortenId = (id: string): string => (shortId.test(id) ? id : toHex(id, 9))

/** Changes the ids in a message, once for each message. */
const shortenIds = memoize((message: Prompt.Message): Prompt.Message => {
  if (message.role === "tool") {
    return Prompt.toolMessage({
      content: message.content.map((part) =>
        part.type === "tool-result" ? Prompt.toolResultPart({ ...part, id: shortenId(part.id) }) : part
      ),
      options: message.options
    })
  }
  return changeCalls(message, (part) => Prompt.toolCallPart({ ...part, id: shortenId(part.id) }))
})

const changeCalls = (
  message: Prompt.Message,
  change: (part: Prompt.ToolCallPart) => Prompt.ToolCallPart
): Prompt.Message =>
  message.role === "assistant" && message.content.some(({ type }) => type === "tool-call")
    ? Prompt.assistantMessage({
        content: message.content.map((part) => (part.type === "tool-call" ? change(part) : part)),
        options: message.options
      })
    : message

/** Adds the value that Gemini accepts instead of a signature to calls that another model made. */
const addSignatures = memoize((message: Prompt.Message): Prompt.Message =>
  changeCalls(message, (part) => {
    const own = Json.readFields(part.options["chat_completions"])
    return own["extra_content"] === undefined
      ? Prompt.toolCallPart({ ...part, options: { ...part.options, chat_completions: unsigned } })
      : part
  })
)

/** Synchronous changes to a call. Images are scaled by {@link scaleImages}. */
const changes: Readonly<Record<Exclude<Change, "with_smaller_images">, (call: ModelCall) => ModelCall>> = {
  without_images: (call) => mapMessages(call, removeImages),
  without_reasoning: removeReasoning,
  without_patterns: removePatterns,
  without_stream: (call) => ({ ...call, stream: false }),
  with_short_call_ids: (call) => mapMessages(call, shortenIds),
  with_signatures: (call) => mapMessages(call, addSignatures)
}

/** Returns the call with the changes that its route requires, except for scaled images. */
export const applyChanges = (call: ModelCall, wanted: ReadonlySet<Change>): ModelCall => {
  let adapted = call
  for (const change of wanted) if (change !== "with_smaller_images") adapted = changes[change](adapted)
  return adapted
}

/**
 * Image limits that every known provider accepts: 4 MB in base64, and the maximum side length for requests with many
 * images.
 */
const bounds: Bounds = { bytes: 3 * 1024 * 1024, side: 2_000 }

const isImage = (part: { readonly type: string }): part is Prompt.FilePart =>
  part.type === "file" &&
  "mediaType" in part &&
  typeof part.mediaType === "string" &&
  part.mediaType.startsWith("image/")

const describeOmittedImage = (part: Prompt.FilePart): Prompt.TextPart =>
  Prompt.textPart({ text: `[${part.fileName ?? "image"}: left out, this model cannot take it]` })

/** Returns the bytes of an image, or `undefined` if it is only a remote URL or invalid base64. */
const readImageBytes = (part: Prompt.FilePart): Uint8Array | undefined => {
  const { data } = part
  if (data instanceof Uint8Array) return data
  const text = FileData.readBase64(part)
  return text === undefined ? undefined : Result.getOrUndefined(Base64.decode(text))
}

type FittedImages = ReadonlyMap<object, Prompt.FilePart | undefined>

/**
 * Returns the message with its images replaced by the fitted ones. An image without a replacement becomes a note in a
 * user message and in a tool result, and is omitted from an assistant message.
 */
const replaceImages = (message: Prompt.Message, fitted: FittedImages): Prompt.Message => {
  if (message.role === "tool") return replaceResultImages(message, fitted)
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

const replaceResultImages = (message: Prompt.ToolMessage, fitted: FittedImages): Prompt.ToolMessage =>
  collectImages(message).length === 0
    ? message
    : Prompt.toolMessage({
        content: message.content.map((part) =>
          part.type === "tool-result" && part.modelOutput !== undefined
            ? Prompt.toolResultPart({
                ...part,
                modelOutput: part.modelOutput.map((one) =>
                  isImage(one) ? (fitted.get(one) ?? describeOmittedImage(one)) : one
                )
              })
            : part
        ),
        options: message.options
      })

const collectImages = (message: Prompt.Message): ReadonlyArray<Prompt.FilePart> => {
  if (message.role === "system") return []
  return message.role === "tool"
    ? message.content.flatMap((part) => (part.type === "tool-result" ? (part.modelOutput ?? []).filter(isImage) : []))
    : [...message.content].filter(isImage)
}

const none: FittedImages = new Map()

const removeImages = (message: Prompt.Message): Prompt.Message => replaceImages(message, none)

const known = new WeakMap<Prompt.Message, Prompt.Message>()

/**
 * Returns the call with images that every provider accepts. Results are cached per message, so each image is scaled
 * once. `refused` is called once per call if the image library is missing.
 */
export const scaleImages = Effect.fnUntraced(function* (
  call: ModelCall,
  refused: (error: NoImageLibrary) => Effect.Effect<void>
): Effect.fn.Return<ModelCall> {
  const scale = yield* ImageScaler
  let lacking: NoImageLibrary | undefined

  /** Returns the image scaled to the bounds, or `undefined` if that is not possible. */
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

/** Names of the output limit. */
export const outputLimits = ["max_tokens", "max_completion_tokens", "max_output_tokens"] as const

/** Parameters that can be omitted. */
const optional = [
  ...outputLimits,
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

/**
 * Parameter names that are also English words. They are recognized only in quotes, or in the error's field for the
 * parameter.
 */
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

/** Name of the marks of the prompt cache among the parameters. */
export const cacheMarks = "cache_control"

/** Matches refusals of marks, and of the text parts that carry them. */
const markPattern =
  /cache_?(?:control|point)|prompt caching|\bcontent\b.{0,30}(?:must|should) be (?:a )?(?:valid )?string/i

const patterns: ReadonlyArray<readonly [name: string, pattern: RegExp]> = optional.map((name) => [
  name,
  makeParameterPattern(name)
])

const optionalNames: ReadonlySet<string> = new Set(optional)

/**
 * Returns the optional parameters that a refusal names: first the one in the error's field, then those in its message,
 * in order of occurrence.
 */
export const findNamedParameters = (text: string, param: string | undefined): ReadonlyArray<string> => {
  const own = param?.split(".").at(-1) ?? ""
  const found: Array<readonly [name: string, at: number]> = optionalNames.has(own) ? [[own, -1]] : []
  const mark = `${param ?? ""} ${text}`.search(markPattern)
  if (mark >= 0) found.push([cacheMarks, mark])
  for (const [name, pattern] of patterns) {
    const at = name === own ? -1 : text.search(pattern)
    if (at >= 0) found.push([name, at])
  }
  return found.toSorted(([, a], [, b]) => a - b).map(([name]) => name)
}

/** Replacements of parameters by name: the other name, or `undefined` to omit the parameter. */
export type ParameterChanges = ReadonlyMap<string, string | undefined>

/** Fields of a request that can contain more parameters. */
const nested = ["extra_body", "inferenceConfig"]

const carriesMarks = (request: ModelRequest): boolean => /"(?:cache_control|cachePoint)":/.test(JSON.stringify(request))

/** Tests whether a request contains the parameter. */
const isIn = (request: ModelRequest, name: string): boolean =>
  name === cacheMarks
    ? carriesMarks(request)
    : [request, ...nested.map((place) => request[place])].some(
        (fields) => Json.isFields(fields) && Object.hasOwn(fields, name)
      )

/** Parameters that every request of a protocol requires. */
const needed: Partial<Readonly<Record<ApiMode, ReadonlySet<string>>>> = { anthropic_messages: new Set(["max_tokens"]) }

const otherName: Readonly<Record<string, string>> = {
  max_tokens: "max_completion_tokens",
  max_completion_tokens: "max_tokens"
}

/**
 * Finds the remedy for a refused parameter of a request: its other name, or `undefined` to omit it. Returns `null` if
 * the parameter is required or not in the request.
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
  // If the other name has already been refused, the parameter is omitted.
  return other === undefined || changes.has(other) ? undefined : other
}

const applyParameterChanges = (
  fields: Readonly<Record<string, unknown>>,
  changes: ParameterChanges
): Readonly<Record<string, unknown>> => {
  if (!Object.keys(fields).some((name) => changes.has(name))) return fields
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    // Follows the replacements. If both names of the limit were refused, the limit is omitted.
    let to: string | undefined = name
    for (let steps = 0; to !== undefined && changes.has(to) && steps < 3; steps++) to = changes.get(to)
    if (to !== undefined) out[to] = value
  }
  return out
}

/** Returns the request with its parameters renamed or omitted. */
export const changeParameters = (request: ModelRequest, changes: ParameterChanges): ModelRequest => {
  const top = applyParameterChanges(request, changes)
  const inner = nested.flatMap((place) => {
    const fields = top[place]
    return Json.isFields(fields) ? [[place, applyParameterChanges(fields, changes)] as const] : []
  })
  return inner.every(([place, fields]) => top[place] === fields) ? top : { ...top, ...Object.fromEntries(inner) }
}
