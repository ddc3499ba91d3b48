/**
 * Converts the parts of a streamed answer to frozen dictionaries with snake_case names for plain functions, and back.
 *
 * **Details**
 *
 * | `type` | fields |
 * | --- | --- |
 * | `text_start`, `text_end`, `reasoning_start`, `reasoning_end`, `tool_params_end` | `id` |
 * | `text_delta`, `reasoning_delta`, `tool_params_delta` | `id`, `delta` |
 * | `tool_params_start` | `id`, `name` |
 * | `tool_call` | `id`, `name`, `params` |
 * | `file` | `media_type`, `data` |
 * | `response_metadata` | `id`, `model` |
 * | `finish` | `reason`, `usage` |
 *
 * Each part also has the `metadata` of its provider. `on_part` receives a list of parts. It returns a list or one part
 * to pass on, nothing to remove the parts, or `{ action: "hold" }` (see `Middleware.hold`). Parts of the last three
 * types can only be passed on or removed.
 *
 * Source: `hermes-contract.md` §1.2, `ARCHITECTURE.md` §6.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Response from "effect/ai/Response"
import * as Json from "../base/domain/Json.ts"
import { type ExecuteOptions, hold, type StreamPart } from "../base/domain/ModelCall.ts"
import * as Usage from "../base/domain/Usage.ts"
import * as Frozen from "./Frozen.ts"
import * as PlainReturn from "./PlainReturn.ts"

/** A part of a streamed answer for a plain function. */
export interface PartDictionary {
  readonly type: string
  readonly [field: string]: unknown
}

/** Options of `next_call`. */
export interface NextOptions {
  /** Observes the streamed parts and may replace them. */
  readonly on_part?: ((parts: ReadonlyArray<PartDictionary>) => unknown) | undefined
}

const toPartFields = (part: StreamPart): Record<string, unknown> => {
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta":
    case "tool-params-delta":
      return { id: part.id, delta: part.delta }
    case "tool-params-start":
      return { id: part.id, name: part.name }
    case "tool-call":
      return { id: part.id, name: part.name, params: part.params }
    case "file":
      return { media_type: part.mediaType, data: part.data }
    case "response-metadata":
      return { id: part.id, model: part.modelId }
    case "finish":
      return { reason: part.reason, usage: Usage.toWire(Usage.fromResponse(part.usage)) }
    default:
      return { id: part.id }
  }
}

const parts = new WeakMap<object, StreamPart>()
const dictionaries = new WeakMap<StreamPart, PartDictionary>()

/** Returns the same dictionary each time, so that holding a part adds no cost. */
export const toDictionary = (part: StreamPart): PartDictionary => {
  const known = dictionaries.get(part)
  if (known !== undefined) return known
  const dictionary = Frozen.copy({
    type: part.type.replaceAll("-", "_"),
    ...toPartFields(part),
    metadata: part.metadata
  })
  parts.set(dictionary, part)
  dictionaries.set(part, dictionary)
  return dictionary
}

const readTextField = (given: PartDictionary, field: string): string => {
  const value = given[field]
  if (typeof value !== "string")
    throw new TypeError(`a ${given.type} part needs the text \`${field}\`, got ${Json.toText(given).slice(0, 80)}`)
  return value
}

const readMetadata = ({ metadata }: PartDictionary): Response.ProviderMetadata =>
  // Metadata that did not come from this provider are dropped.
  Predicate.isObject(metadata) ? (Frozen.accept(metadata) as Response.ProviderMetadata) : {}

const isDictionary = (value: unknown): value is PartDictionary =>
  Predicate.isObject(value) && typeof value["type"] === "string"

/** Reads a part returned by a plain function. `given` are the parts that the function received. */
const readPart = (value: unknown, given: ReadonlyArray<StreamPart>): StreamPart => {
  if (!isDictionary(value)) {
    throw new TypeError(`on_part gives parts with a \`type\`, got ${Json.toText(value).slice(0, 80)}`)
  }
  const known = parts.get(value)
  if (known !== undefined) return known
  const metadata = readMetadata(value)
  const readId = (): string => readTextField(value, "id")
  switch (value.type) {
    case "text_start":
    case "text_end":
    case "reasoning_start":
    case "reasoning_end":
    case "tool_params_end":
      return Response.makePart(kinds[value.type], { id: readId(), metadata })
    case "text_delta":
    case "reasoning_delta":
    case "tool_params_delta":
      return Response.makePart(deltas[value.type], { id: readId(), delta: readTextField(value, "delta"), metadata })
    case "tool_params_start":
      return Response.makePart("tool-params-start", {
        id: readId(),
        name: readTextField(value, "name"),
        providerExecuted: false,
        metadata
      })
    case "tool_call":
      return Response.makePart("tool-call", {
        id: readId(),
        name: readTextField(value, "name"),
        params: Frozen.accept(value["params"]),
        providerExecuted: given.some(
          (part) => part.type === "tool-call" && part.id === value["id"] && part.providerExecuted
        ),
        metadata
      })
    default: {
      const same = given.find(({ type }) => type.replaceAll("-", "_") === value.type)
      if (same === undefined)
        throw new TypeError(`on_part cannot make a part of the type ${value.type}: pass on the one that it was given`)
      return same
    }
  }
}

const kinds = {
  text_start: "text-start",
  text_end: "text-end",
  reasoning_start: "reasoning-start",
  reasoning_end: "reasoning-end",
  tool_params_end: "tool-params-end"
} as const

const deltas = {
  text_delta: "text-delta",
  reasoning_delta: "reasoning-delta",
  tool_params_delta: "tool-params-delta"
} as const

/** Reads the result of `on_part`. `shown` are views of `given`, which identify parts that are returned unchanged. */
export const readAll = (
  value: unknown,
  given: ReadonlyArray<StreamPart>,
  shown: ReadonlyArray<StreamPart>
): ReadonlyArray<StreamPart> => {
  if (value === undefined || value === null) return []
  if (Predicate.isObject(value) && value["action"] === "hold") return hold
  const kept = (Array.isArray(value) ? value : [value]).map((part) => readPart(part, given))
  if (kept.length === given.length && kept.every((part, index) => part === given[index])) return shown
  const places = new Map(given.map((part, index) => [part, index]))
  return kept.map((part) => shown[places.get(part) ?? -1] ?? part)
}

/** Reads the options of a `next_call`. Throws if they are invalid. */
export const readOptions = (given: unknown): ExecuteOptions | undefined => {
  if (given === undefined || given === null) return undefined
  const onPart: unknown = Predicate.isObject(given) ? given["on_part"] : given
  if (onPart === undefined && Predicate.isObject(given) && Object.keys(given).length === 0) return undefined
  if (!Predicate.isFunction(onPart))
    throw new TypeError(`next_call() takes { on_part: function }, got ${Json.toText(given).slice(0, 80)}`)
  return {
    onPart: (shown) => {
      const given = Frozen.accept(shown)
      return PlainReturn.call(() => onPart(given.map(toDictionary))).pipe(
        Effect.map((value) => readAll(value, given, shown)),
        Effect.catch(({ error }) => Effect.die(error))
      ) as Effect.Effect<ReadonlyArray<StreamPart>> // Plain code says nothing of what its Effects need.
    }
  }
}
