/**
 * Parts that are common to the requests of all OTLP signals, in both encodings: attributes, and the resource and scope
 * that contain spans, metrics and log records. Each item is encoded separately; a request concatenates encoded items.
 *
 * Source: OpenTelemetry Protocol, "OTLP/HTTP", `opentelemetry/proto/common/v1/common.proto`.
 */
import type { Resource } from "effect/observability/OtlpResource"
import * as GrowingBytes from "../GrowingBytes.ts"
import { JoinedText, type TextPart } from "../JoinedText.ts"
import { type Attributes, scope, type SparseAttributes, type Value } from "../RunSpans.ts"
import * as Protobuf from "./Protobuf.ts"

/** Body of a request. */
export interface Body {
  readonly contentType: "application/json" | "application/x-protobuf"
  readonly content: Uint8Array
}

/** Encoders for the items of a signal. */
export interface Form<Item> {
  /** Names of the nested JSON lists around the items, the outermost first. */
  readonly names: readonly [resources: string, scopes: string, items: string]
  /** Returns an item as JSON. */
  readonly text: (item: Item) => string
  /** Writes the fields of an item in protobuf. */
  readonly write: (item: Item) => void
}

/** Encoding of the items of one resource. */
export interface Encoding<Item> {
  /** Appends an item to the encoded items. Returns its start position. */
  readonly add: (items: GrowingBytes.GrowingBytes, item: Item) => number
  /** Creates a request from encoded items. */
  readonly body: (items: Uint8Array) => Body
}

/** Encodes items as a request. */
export const encodeBody = <Item>({ add, body }: Encoding<Item>, items: ReadonlyArray<Item>): Body => {
  const bytes = GrowingBytes.make()
  for (const item of items) add(bytes, item)
  return body(bytes.slice(0, bytes.length()))
}

/** Converts epoch milliseconds to nanoseconds. */
export const toNanos = (millis: number): bigint => BigInt(Math.round(millis * 1000)) * 1000n

/** Exclusive upper bound of 64-bit integers in OTLP. */
const int64Bound = 2 ** 63

const isInteger = (value: number): boolean => Number.isInteger(value) && value >= -int64Bound && value < int64Bound

/** Memoizes a function of attribute names. There are only a few different names. */
const memoizeByName = <A>(make: (name: string) => A): ((name: string) => A) => {
  const known = new Map<string, A>()
  return (name) => {
    const before = known.get(name)
    if (before !== undefined) return before
    if (known.size >= maxNames) known.clear()
    const made = make(name)
    known.set(name, made)
    return made
  }
}

const maxNames = 1024

const escapeJson = (text: string): string => JSON.stringify(text).slice(1, -1)

const getPartJson = (part: TextPart): string => (part.json ??= escapeJson(part.text))

const encodeJoinedText = ({ before, parts: { list }, after }: JoinedText): string => {
  const parts = list()
  let out = `{"stringValue":"${escapeJson(before)}`
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index]
    if (part !== undefined) out += index === 0 ? getPartJson(part) : `,${getPartJson(part)}`
  }
  return `${out}${escapeJson(after)}"}`
}

const encodeValue = (value: Value): string => {
  switch (typeof value) {
    case "string":
      return `{"stringValue":${JSON.stringify(value)}}`
    case "boolean":
      return `{"boolValue":${value}}`
    case "number":
      if (isInteger(value))
        return `{"intValue":${Number.isSafeInteger(value) ? JSON.stringify(value) : `"${BigInt(value)}"`}}`
      // JSON has no numbers for NaN and infinities.
      return `{"doubleValue":${Number.isFinite(value) ? JSON.stringify(value) : `"${value}"`}}`
    default:
      return value instanceof JoinedText
        ? encodeJoinedText(value)
        : `{"arrayValue":{"values":[${value.map(encodeValue).join(",")}]}}`
  }
}

/** Maximum length, in characters, of values whose encoding is cached. */
const maxKept = 64

/** Tests whether the encoding of a value is cached and reused for equal values. */
const isKept = (value: Value): boolean =>
  typeof value === "string" ? value.length <= maxKept : typeof value !== "object"

/**
 * Encoded beginning of an attribute, and the whole encoded attribute with its most recent value. Most spans of a run
 * have the same value.
 */
interface LastText {
  readonly begin: string
  value: Value | undefined
  text: string
}

const getLastText = memoizeByName((name): LastText => ({
  begin: `{"key":${JSON.stringify(name)},"value":`,
  value: undefined,
  text: ""
}))

const encodeAttribute = (name: string, value: Value): string => {
  const last = getLastText(name)
  if (last.value === value) return last.text
  const made = `${last.begin}${encodeValue(value)}}`
  if (isKept(value)) {
    last.value = value
    last.text = made
  }
  return made
}

/** Encodes attributes as JSON, without the brackets of the list. */
export const encodeAttributes = (attributes: SparseAttributes): string => {
  let out = ""
  for (const name of Object.keys(attributes)) {
    const value = attributes[name]
    if (value !== undefined) out += out === "" ? encodeAttribute(name, value) : `,${encodeAttribute(name, value)}`
  }
  return out
}

const encoder = new TextEncoder()

const writeAnyValue = (value: Value): void => {
  switch (typeof value) {
    case "string":
      return Protobuf.writeDelimited(1, Protobuf.writeText, value)
    case "boolean":
      return Protobuf.writeNumber(2, value ? 1 : 0)
    case "number":
      return isInteger(value) ? Protobuf.writeNumber(3, value) : Protobuf.writeDouble(4, value)
    default:
      return value instanceof JoinedText
        ? Protobuf.writeDelimited(1, writeJoinedText, value)
        : Protobuf.writeDelimited(5, writeValues, value)
  }
}

const getPartBytes = (part: TextPart): Uint8Array => (part.bytes ??= encoder.encode(part.text))

const writeJoinedText = ({ after, before, parts }: JoinedText): void => {
  Protobuf.writeText(after)
  const known = parts.bytes()
  if (known === undefined) writeParts(parts.list())
  else Protobuf.writeBytes(known)
  Protobuf.writeText(before)
}

const writeParts = (parts: ReadonlyArray<TextPart>): void => {
  for (let index = parts.length - 1; index >= 0; index--) {
    const part = parts[index]
    if (part === undefined) continue
    Protobuf.writeBytes(getPartBytes(part))
    if (index > 0) Protobuf.writeText(",")
  }
}

const writeValues = (list: ReadonlyArray<string>): void => {
  for (const value of list.toReversed()) Protobuf.writeDelimited(1, writeAnyValue, value)
}

/** Encodes the field that contains an attribute's name. */
const encodeKeyField = (key: string): Uint8Array => {
  const name = encoder.encode(key)
  const length: Array<number> = []
  let rest = name.length
  for (; rest > 127; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128)
  return Uint8Array.from([8 + Protobuf.wire.delimited, ...length, rest, ...name])
}

/**
 * Encoded name of an attribute and its most recent value. Once the same value has been written twice, also the bytes of
 * both.
 */
interface LastBytes {
  readonly key: Uint8Array
  value: Value | undefined
  bytes: Uint8Array | undefined
}

const getLastBytes = memoizeByName((key): LastBytes => ({
  key: encodeKeyField(key),
  value: undefined,
  bytes: undefined
}))

const writeAttribute = (name: string, value: Value): void => {
  const last = getLastBytes(name)
  const isAgain = last.value === value
  if (isAgain && last.bytes !== undefined) return Protobuf.writeBytes(last.bytes)
  const end = Protobuf.mark()
  Protobuf.writeDelimited(2, writeAnyValue, value)
  Protobuf.writeBytes(last.key)
  if (isAgain) last.bytes = Protobuf.copySince(end)
  else if (isKept(value)) {
    last.value = value
    last.bytes = undefined
  }
}

/** Writes attributes as a field of the current message. */
export const writeAttributes = (field: number, attributes: SparseAttributes): void => {
  const names = Object.keys(attributes)
  for (let index = names.length - 1; index >= 0; index--) {
    const name = names[index] ?? ""
    const value = attributes[name]
    if (value === undefined) continue
    const end = Protobuf.mark()
    writeAttribute(name, value)
    Protobuf.closeField(field, end)
  }
}

/** Returns a resource with the given attributes and the attributes of this exporter. */
export const makeResource = (attributes: Readonly<Record<string, string>>): Resource => ({
  attributes: Object.entries({
    "telemetry.sdk.name": scope.name,
    "telemetry.sdk.language": "nodejs",
    "telemetry.sdk.version": scope.version,
    ...attributes
  }).map(([key, stringValue]) => ({ key, value: { stringValue } })),
  droppedAttributesCount: 0
})

/** Returns the names and values of a resource. */
const readResourceAttributes = ({ attributes }: Resource): Attributes =>
  Object.fromEntries(
    attributes.map(
      ({ key, value }) =>
        [key, value.stringValue ?? value.boolValue ?? Number(value.intValue ?? value.doubleValue)] as const
    )
  )

/** Creates the JSON encoding of items. */
export const makeJsonEncoding = <Item>(
  { names: [resources, scopes, items], text }: Form<Item>,
  resource: Resource,
  schemaUrl: string | undefined
): Encoding<Item> => {
  const schema = schemaUrl === undefined ? {} : { schemaUrl }
  const whole = JSON.stringify({
    [resources]: [{ resource, ...schema, [scopes]: [{ scope, ...schema, [items]: [] }] }]
  })
  const end = "]}]}]}"
  const [before, after] = [encoder.encode(whole.slice(0, -end.length)), encoder.encode(end)]
  return {
    add: (waiting, item) => {
      const made = text(item)
      if (waiting.length() > 0) waiting.add(",")
      const begin = waiting.length()
      waiting.add(made)
      return begin
    },
    body: (encoded) => {
      const content = new Uint8Array(before.length + encoded.length + after.length)
      content.set(before)
      content.set(encoded, before.length)
      content.set(after, before.length + encoded.length)
      return { contentType: "application/json", content }
    }
  }
}

/** Creates the protobuf encoding of items. Each encoded item is a field of its list. */
export const makeProtobufEncoding = <Item>(
  { write }: Form<Item>,
  resource: Resource,
  schemaUrl: string | undefined
): Encoding<Item> => {
  const writeSchemaUrl = (): void => {
    if (schemaUrl !== undefined) Protobuf.writeDelimited(3, Protobuf.writeText, schemaUrl)
  }
  const writeResource = (): void => writeAttributes(1, readResourceAttributes(resource))
  const writeScope = (): void => {
    Protobuf.writeDelimited(2, Protobuf.writeText, scope.version)
    Protobuf.writeDelimited(1, Protobuf.writeText, scope.name)
  }
  const writeItems = (encoded: Uint8Array): void => {
    writeSchemaUrl()
    Protobuf.writeBytes(encoded)
    Protobuf.writeMessage(1, writeScope)
  }
  const writeResources = (encoded: Uint8Array): void => {
    Protobuf.reserve(encoded.length)
    writeSchemaUrl()
    Protobuf.writeDelimited(2, writeItems, encoded)
    Protobuf.writeMessage(1, writeResource)
  }
  const writeItem = (one: Item): void => Protobuf.writeDelimited(2, write, one)
  return {
    add: (waiting, one) => {
      const begin = waiting.length()
      Protobuf.append(waiting, writeItem, one)
      return begin
    },
    body: (encoded) => ({
      contentType: "application/x-protobuf",
      content: Protobuf.collectBytes(() => Protobuf.writeDelimited(1, writeResources, encoded))
    })
  }
}
