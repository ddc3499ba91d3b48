// Bodies of OTLP requests checked against the public protocol definition (`otlp.proto`), in both encodings, and names
// in them against the semantic conventions (`semconv.json`).
import { readFileSync } from "node:fs"

const file = (name: string): string => readFileSync(new URL(name, import.meta.url), "utf8")

interface Field {
  readonly name: string
  readonly number: number
  readonly type: string
  readonly repeated: boolean
  /** True of a field of which protobuf tells the default from none: one of a `oneof`, an optional one. */
  readonly hasPresence: boolean
}

const messages = new Map<string, ReadonlyArray<Field>>()
const enums = new Map<string, ReadonlySet<number>>()

const camel = (name: string): string => name.replaceAll(/_([a-z0-9])/gu, (_, letter: string) => letter.toUpperCase())

/** Reads message and enum definitions; names are those behind the last dot, which are unique in OTLP. */
const read = (): void => {
  const open: Array<{
    readonly kind: string
    readonly name: string
    readonly fields: Array<Field>
    readonly numbers: Set<number>
  }> = []
  for (const line of file("otlp.proto").split("\n")) {
    const [, kind, name] = /^\s*(message|enum|oneof)\s+(\w+)\s*\{/u.exec(line) ?? []
    const [, repeated, type, field, number] =
      /^\s*(repeated\s+|optional\s+)?([\w.]+)\s+(\w+)\s*=\s*(\d+)/u.exec(line) ?? []
    const [, value] = /^\s*[A-Z_0-9]+\s*=\s*(\d+)/u.exec(line) ?? []
    const top = open.findLast((one) => one.kind !== "oneof")
    const hasPresence = repeated?.startsWith("optional") === true || open.at(-1)?.kind === "oneof"
    if (kind !== undefined && name !== undefined) open.push({ kind, name, fields: [], numbers: new Set() })
    else if (value !== undefined) top?.numbers.add(Number(value))
    else if (type !== undefined && field !== undefined) {
      const isRepeated = repeated?.startsWith("repeated") === true
      top?.fields.push({
        name: field,
        number: Number(number),
        type: type.split(".").at(-1) ?? type,
        repeated: isRepeated,
        hasPresence
      })
    }
    if (!/^\s*\}/u.test(line)) continue
    const closed = open.pop()
    if (closed?.kind === "message") messages.set(closed.name, closed.fields)
    if (closed?.kind === "enum") enums.set(closed.name, closed.numbers)
  }
}
read()

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isInteger = (value: unknown): boolean =>
  Number.isInteger(value) || (typeof value === "string" && /^-?\d+$/u.test(value))

const scalar: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  bool: (value) => typeof value === "boolean",
  double: (value) => typeof value === "number" || value === "NaN" || value === "Infinity" || value === "-Infinity",
  bytes: (value) => typeof value === "string" && /^(?:[0-9a-f]{2})*$/u.test(value),
  ...Object.fromEntries(
    ["int32", "int64", "uint32", "uint64", "fixed32", "fixed64", "sfixed64", "sint32"].map((type) => [type, isInteger])
  )
}

const lengths: Readonly<Record<string, number>> = { traceId: 32, spanId: 16 }

/** Complaints about a value that should be a message, in the JSON form of OTLP. */
export const complaints = (value: unknown, type: string, at = type): ReadonlyArray<string> => {
  const fields = messages.get(type)
  if (fields === undefined) return [`${at}: no message ${type}`]
  if (!isObject(value)) return [`${at}: no object`]
  return Object.entries(value).flatMap(([key, given]) => {
    const field = fields.find(({ name }) => camel(name) === key)
    const place = `${at}.${key}`
    if (field === undefined) return [`${place}: unknown field`]
    if (field.repeated !== Array.isArray(given)) return [`${place}: ${field.repeated ? "no list" : "a list"}`]
    return (Array.isArray(given) ? given : [given]).flatMap((one: unknown) => {
      const length = lengths[key]
      if (length !== undefined && (typeof one !== "string" || one.length !== length || /^0*$/u.test(one)))
        return [`${place}: no id`]
      if (enums.has(field.type))
        return enums.get(field.type)?.has(Number(one)) === true ? [] : [`${place}: no ${field.type}`]
      const test = scalar[field.type]
      if (test !== undefined) return test(one) ? [] : [`${place}: no ${field.type}`]
      return complaints(one, field.type, place)
    })
  })
}

/** A protobuf message in the JSON form; fails on what the definition does not have. */
export const decode = (bytes: Buffer, type: string): Record<string, unknown> => {
  const fields = messages.get(type) ?? []
  const out: Record<string, unknown> = {}
  let at = 0
  const varint = (): bigint => {
    let [value, shift] = [0n, 0n]
    for (;;) {
      const byte = BigInt(bytes[at++] ?? 0)
      value |= (byte & 127n) << shift
      if (byte < 128n) return value
      shift += 7n
    }
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const [number, wire] = [Math.floor(tag / 8), tag % 8]
    const field = fields.find((one) => one.number === number)
    if (field === undefined) throw new Error(`${type}: unknown field ${number}`)
    const put = (value: unknown) => {
      const name = camel(field.name)
      if (field.repeated) out[name] = [...(Array.isArray(out[name]) ? out[name] : []), value]
      else out[name] = value
    }
    const one = (kind: number): unknown => {
      if (kind === 0 && enums.has(field.type)) return Number(varint())
      if (kind === 0) return field.type === "bool" ? varint() === 1n : String(BigInt.asIntN(64, varint()))
      const size = kind === 1 ? 8 : 4
      at += size
      if (field.type === "double") return bytes.readDoubleLE(at - 8)
      return kind === 1 ? String(bytes.readBigUInt64LE(at - 8)) : bytes.readUInt32LE(at - 4)
    }
    if (wire !== 2) {
      put(one(wire))
      continue
    }
    const length = Number(varint())
    const inner = bytes.subarray(at, at + length)
    if (field.type === "string" || field.type === "bytes" || messages.has(field.type)) {
      at += length
      put(
        field.type === "string"
          ? inner.toString("utf8")
          : field.type === "bytes"
            ? inner.toString("hex")
            : decode(inner, field.type)
      )
      continue
    }
    // Packed numbers.
    const end = at + length
    for (;;) {
      if (at >= end) break
      put(one(field.type === "double" || field.type.includes("fixed64") ? 1 : 0))
    }
  }
  return out
}

/**
 * A message in the JSON form as protobuf would give it back: fields in their order, integers of 64 bits as text, no
 * field that has its default. Two messages have the same canonical form if and only if protobuf cannot tell them apart.
 */
export const canonical = (value: unknown, type: string): unknown => {
  const fields = messages.get(type)
  if (fields === undefined) {
    if (enums.has(type)) return Number(value)
    // Half a surrogate pair is none in UTF-8; NaN and the infinities are texts in JSON.
    if (typeof value === "string") return value.toWellFormed()
    const isNoNumber = typeof value === "number" && !Number.isFinite(value)
    return scalar[type] === isInteger || isNoNumber ? String(value) : value
  }
  if (!isObject(value)) return value
  const names = new Set(fields.map(({ name }) => camel(name)))
  const unknown = Object.entries(value).filter(([name]) => !names.has(name))
  const known = fields.flatMap(({ hasPresence, name, repeated, type }) => {
    const given = value[camel(name)]
    if (given === undefined) return []
    if (repeated && Array.isArray(given))
      return given.length === 0 ? [] : [[camel(name), given.map((one) => canonical(one, type))] as const]
    const made = canonical(given, type)
    const isDefault = made === 0 || made === "0" || made === "" || made === false
    return isDefault && !hasPresence ? [] : [[camel(name), made] as const]
  })
  return Object.fromEntries([...known, ...unknown])
}

/** Names and types of one version of the conventions. */
export interface Published {
  readonly attributes: Readonly<Record<string, string>>
  readonly metrics: Readonly<Record<string, { readonly unit: string; readonly attributes: ReadonlyArray<string> }>>
  /** Attributes that spans of agents no longer have. */
  readonly removedFromAgents?: ReadonlyArray<string>
}

/** Names and types of the conventions. */
export const conventions: Published = JSON.parse(file("semconv.json"))

const without = <A>(facts: Readonly<Record<string, A>>, names: ReadonlyArray<string>): Record<string, A> =>
  Object.fromEntries(Object.entries(facts).filter(([name]) => !names.includes(name)))

/** The first version of the GenAI conventions apart: what differs from the others is data. */
const makeApart = (): Published => {
  const {
    attributes,
    metrics,
    removed,
    removedFromAgents,
    removedMetrics
  }: Published & { readonly removed: ReadonlyArray<string>; readonly removedMetrics: ReadonlyArray<string> } =
    JSON.parse(file("semconv-genai-0.1.json"))
  return {
    attributes: { ...without(conventions.attributes, removed), ...attributes },
    metrics: { ...without(conventions.metrics, removedMetrics), ...metrics },
    ...(removedFromAgents === undefined ? {} : { removedFromAgents })
  }
}

/** The published versions by the value of the variable that selects their names. */
export const published: Readonly<Record<string, Published>> = {
  "gen_ai/1.36": JSON.parse(file("semconv-1.36.json")),
  "gen_ai/1.41": conventions,
  "gen_ai/0.1": makeApart()
}

const types: Readonly<Record<string, ReadonlyArray<string>>> = {
  string: ["stringValue"],
  int: ["intValue"],
  double: ["doubleValue", "intValue"],
  boolean: ["boolValue"],
  "string[]": ["arrayValue"],
  any: ["stringValue"]
}

/**
 * Complaints about attributes that are neither in the conventions, with their type, nor in the namespaces that are
 * allowed.
 */
export const strangers = (
  attributes: ReadonlyArray<{ readonly key: string; readonly value: object }>,
  own: RegExp,
  version: Published = conventions
): ReadonlyArray<string> =>
  attributes.flatMap(({ key, value }) => {
    if (own.test(key)) return []
    const wanted = types[version.attributes[key] ?? ""]
    const [given = "nothing"] = Object.keys(value)
    if (wanted === undefined) return [`${key} is in no convention`]
    return wanted.includes(given) ? [] : [`${key} is a ${given}`]
  })
