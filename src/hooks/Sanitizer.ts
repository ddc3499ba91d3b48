/**
 * Converts any value to a form that is safe for observers: JSON, redacted, bounded, frozen, and shared with no other
 * code.
 *
 * **Details**
 *
 * {@link sanitize} is for requests and responses: levels deeper than 8, strings longer than 8 000 characters and
 * collections longer than 200 entries are cut and marked as cut. If the JSON still exceeds the cap, the value is copied
 * again with 1 000 and 50; if it still does, it becomes `{ _truncated, original_type, preview }`. {@link copyField} is
 * for the other fields of a payload: the same walk, with bounds that only prevent accidents.
 *
 * Values that JSON cannot express are named: `<3 bytes>`, `<circular>`, `<function>`, `<unreadable>` where a getter or
 * a proxy throws, `"NaN"`, digits for a bigint. Of a class instance only its own data is taken, never what its
 * accessors or `toJSON` would do.
 *
 * **Gotchas**
 *
 * The contract redacts a handful of key names and nothing by value; here `base/domain/Redaction` decides both
 * (`ARCHITECTURE.md` §7). An object counts as one level regardless of its class.
 *
 * Source: the observer document ("Payload Safety", "Performance"), `hermes-contract.md` §2.8, `ARCHITECTURE.md` §7
 * (legacy payload fields, redaction).
 */
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import * as Redaction from "../base/domain/Redaction.ts"
import { getCurrentRegistry, type Registry } from "../base/domain/Secrets.ts"

/** Bounds of a copy. */
interface Bounds {
  /** Levels below the root; deeper values become a marker. */
  readonly depth: number
  /** UTF-16 units of one string. */
  readonly string: number
  /** Entries of one list or mapping. */
  readonly items: number
  /** Characters of the JSON text, roughly (never more than the text really has). */
  readonly total: number
}

/** A copy. It is partial if `cut` is true: values beyond the bound are missing. */
interface BoundedCopy {
  readonly value: Schema.Json
  readonly cut: boolean
}

/** A shorter text holds no secret that is one. */
const shortest = 8
/** Longer texts are remembered by `Redaction` itself. */
export const longestShort = 63
/** Short texts of one generation. Two generations are held: a text that is requested again moves to the younger. */
const generation = 4_000

interface Memory {
  readonly version: number
  young: Map<string, string>
  old: Map<string, string>
}

/** One memory for each registry of secrets, and a new one whenever a secret is added. */
const memories = new WeakMap<Registry, Memory>()

const getMemory = (secrets: Registry): Memory => {
  const known = memories.get(secrets)
  if (known !== undefined && known.version === secrets.version()) return known
  const memory: Memory = { version: secrets.version(), young: new Map(), old: new Map() }
  memories.set(secrets, memory)
  return memory
}

/** `Redaction.redactText`, which is also remembered of short texts: every event names the same route. */
const redactString = (text: string): string => {
  if (text.length < shortest) return text
  const secrets = getCurrentRegistry()
  if (text.length > longestShort) return Redaction.redactText(text, secrets)
  const memory = getMemory(secrets)
  const known = memory.young.get(text)
  if (known !== undefined) return known
  const out = memory.old.get(text) ?? Redaction.redactText(text, secrets)
  if (memory.young.size >= generation) {
    memory.old = memory.young
    memory.young = new Map()
  }
  memory.young.set(text, out)
  return out
}

const unreadable = "<unreadable>"
const circular = "<circular>"
const itemsNote = "_truncated_items"

/** No token that is known by its shape is shorter. */
const shortestToken = 15

/** Room for the note that is added to a text which was already cut. */
const overlap = 512
const cutNote = /\.\.\.\[truncated \d{1,16} chars\]$/
const depthNote = /^<\w{1,32} depth limit>$/

/** A separate string: a slice would keep the original text alive. */
const detachText = (text: string): string => JSON.parse(JSON.stringify(text)) as string

/**
 * A text without secrets, cut at `limit` with a note of how much is missing. Bounded before any pattern looks at it,
 * and a fixed point: the note of a text that was cut before stays as it is.
 */
const boundText = (text: string, limit: number): string => {
  const note = text.endsWith(" chars]") ? cutNote.exec(text.slice(-40))?.[0] : undefined
  if (note !== undefined && text.length - note.length <= limit + overlap) {
    return redactString(text.slice(0, -note.length)) + note
  }
  const seen = Redaction.takeBeginning(text, limit)
  const clean = redactString(seen === text ? text : detachText(seen))
  const missing = text.length - seen.length + Math.max(0, clean.length - limit)
  return missing === 0 ? clean : `${redactString(clean.slice(0, limit))}...[truncated ${missing} chars]`
}

const describeType = (value: unknown): string => {
  if (value === null) return "null"
  return Array.isArray(value) ? "array" : typeof value
}

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** Digits of a huge integer take long to make and longer to read. */
const formatBigint = (value: bigint): string => (BigInt.asIntN(1024, value) === value ? String(value) : "<bigint>")

const formatDate = (value: Date): string =>
  Number.isNaN(value.getTime()) ? "<invalid date>" : Date.prototype.toISOString.call(value)

/** Number of items that an earlier cut left out, when a list ends with such a note. */
const readCutNote = (item: unknown): unknown =>
  typeof item === "object" && item !== null && Object.hasOwn(item, itemsNote) && Object.keys(item).length === 1
    ? Reflect.get(item, itemsNote)
    : undefined

const readCount = (read: () => unknown): number | undefined => {
  try {
    const value = read()
    return typeof value === "number" && Number.isFinite(value) ? value : undefined
  } catch {
    // An unreadable member is no note; copying reports it as unreadable.
    return undefined
  }
}

/**
 * The names of an object's data: not what only Effect knows it by, and of a class instance nothing that is its own
 * business.
 */
const listDataKeys = (value: object): ReadonlyArray<string> => {
  const plain = isPlain(value)
  return Object.keys(value).filter((key) => {
    if (key.startsWith("~effect/")) return false
    if (plain) return true
    const property = Object.getOwnPropertyDescriptor(value, key)
    return property !== undefined && "value" in property && !key.startsWith("_")
  })
}

/** An error's name, message and cause are rarely enumerable. */
const listErrorKeys = (value: Error): ReadonlyArray<string> => {
  const named = ["name", "message", "cause"]
  return [...named, ...listDataKeys(value).filter((key) => key !== "stack" && !named.includes(key))]
}

const setEntry = (out: Record<string, Schema.Json>, key: string, value: Schema.Json): void => {
  // Assigning to this one name would set the prototype.
  if (key === "__proto__") Object.defineProperty(out, key, { value, enumerable: true })
  else out[key] = value
}

/** Copies a value as redacted, frozen JSON within bounds; never throws. */
const copyBounded = (root: unknown, bounds: Bounds): BoundedCopy => {
  let size = 0
  const path = new Set<object>()

  const copyText = (value: string): string => {
    const out = boundText(value, bounds.string)
    size += out.length + 1
    return out
  }

  const formatKey = (key: unknown): string => {
    const name = typeof key === "object" && key !== null ? `<${describeType(key)}>` : String(key)
    return name.length < shortestToken ? name : boundText(name, bounds.string)
  }

  const copyMapping = <K>(count: number, keys: Iterable<K>, read: (key: K) => unknown, depth: number): Schema.Json => {
    const out: Record<string, Schema.Json> = {}
    let index = 0
    for (const key of keys) {
      if (size > bounds.total) break
      const noted = key === itemsNote ? readCount(() => read(key)) : undefined
      if (noted !== undefined) {
        setEntry(out, itemsNote, noted)
        continue
      }
      if (index++ === bounds.items) {
        setEntry(out, itemsNote, count - bounds.items)
        break
      }
      const name = formatKey(key)
      const value = Redaction.isSensitiveKey(name) ? Redaction.marker : copyGuarded(() => read(key), depth + 1)
      if (value === undefined) continue
      size += name.length + 3
      setEntry(out, name, value)
    }
    return Object.freeze(out)
  }

  const copyList = (count: number, items: Iterable<unknown>, depth: number): Schema.Json => {
    const out: Array<Schema.Json> = []
    let index = 0
    for (const item of items) {
      if (size > bounds.total) break
      const noted = index === count - 1 ? readCount(() => readCutNote(item)) : undefined
      if (index++ === bounds.items || noted !== undefined) {
        out.push(Object.freeze({ [itemsNote]: noted ?? count - bounds.items }))
        break
      }
      size += 1
      out.push(copyGuarded(() => item ?? null, depth + 1) ?? null)
    }
    return Object.freeze(out)
  }

  const copyObject = (value: object, depth: number): Schema.Json => {
    if (Array.isArray(value)) return copyList(value.length, value, depth)
    if (Redacted.isRedacted(value)) return Redaction.marker
    if (value instanceof Date) return formatDate(value)
    if (value instanceof URL) return copyText(URL.prototype.toString.call(value))
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `<${value.byteLength} bytes>`
    if (value instanceof Map) {
      return copyMapping(value.size, Map.prototype.keys.call(value), (key) => Map.prototype.get.call(value, key), depth)
    }
    if (value instanceof Set) return copyList(value.size, Set.prototype.values.call(value), depth)
    if (value instanceof Promise) return "<promise>"
    const keys = value instanceof Error ? listErrorKeys(value) : listDataKeys(value)
    return copyMapping(keys.length, keys, (key) => Reflect.get(value, key), depth)
  }

  /** Undefined for a value that JSON omits. */
  const copyNode = (value: unknown, depth: number): Schema.Json | undefined => {
    if (depth > bounds.depth && value !== undefined) {
      return typeof value === "string" && depthNote.test(value) ? value : `<${describeType(value)} depth limit>`
    }
    switch (typeof value) {
      case "undefined":
        return undefined
      case "string":
        return copyText(value)
      case "boolean":
        return value
      case "number":
        return Number.isFinite(value) ? value : String(value)
      case "bigint":
        return formatBigint(value)
      case "symbol":
        return copyText(String(value))
      case "function":
        return "<function>"
      case "object": {
        if (value === null) return null
        if (path.has(value)) return circular
        path.add(value)
        try {
          return copyObject(value, depth)
        } finally {
          path.delete(value)
        }
      }
    }
  }

  const copyGuarded = (read: () => unknown, depth: number): Schema.Json | undefined => {
    size += 1
    try {
      return copyNode(read(), depth)
    } catch {
      // A getter or a proxy threw. Its message may hold private data and is not repeated.
      return depth > bounds.depth ? "<object depth limit>" : unreadable
    }
  }

  const value = copyGuarded(() => root, 0) ?? null
  return { value, cut: size > bounds.total }
}

/** Characters of a sanitised request or response as JSON, when nothing else is set. */
export const defaultMaxChars = 50_000

const first = { depth: 8, string: 8_000, items: 200 }
const second = { depth: 8, string: 1_000, items: 50 }
/** UTF-16 units of a text that is copied whole. */
export const longestText = 1_000_000
const accident: Bounds = { depth: 32, string: longestText, items: 10_000, total: 2_000_000 }

/** Values made here, so that they are not made again. */
const sanitized = new WeakSet<object>()
const copied = new WeakSet<object>()

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

const rememberCopy = (made: WeakSet<object>, value: Schema.Json): Schema.Json => {
  if (isObject(value)) made.add(value)
  return value
}

// Members of the sets were made here, as JSON.
const isSanitized = (value: unknown): value is Schema.Json => isObject(value) && sanitized.has(value)
const isCopied = (value: unknown): value is Schema.Json => isObject(value) && copied.has(value)

const describeOriginalType = (value: unknown): string => {
  try {
    return Array.isArray(value) ? "array" : typeof value
  } catch {
    // A revoked proxy cannot even be asked what it is.
    return "object"
  }
}

/**
 * Sanitizes a request or response for its event: bounded, redacted, frozen. Something that came from here is returned
 * as it is.
 */
export const sanitize = (value: unknown, maxChars: number = defaultMaxChars): Schema.Json => {
  if (isSanitized(value)) return value
  const large = copyBounded(value, { ...first, total: maxChars })
  if (!large.cut && JSON.stringify(large.value).length <= maxChars) return rememberCopy(sanitized, large.value)
  const small = copyBounded(value, { ...second, total: maxChars })
  const json = JSON.stringify(small.value)
  if (!small.cut && json.length <= maxChars) return rememberCopy(sanitized, small.value)
  return rememberCopy(
    sanitized,
    Object.freeze({ _truncated: true, original_type: describeOriginalType(value), preview: json.slice(0, maxChars) })
  )
}

/** Copies any other field of an event, redacted and frozen. A value that is far too large is sanitised instead. */
export const copyField = (value: unknown): Schema.Json => {
  if (typeof value === "string") return boundText(value, accident.string)
  if (value === null || typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value)))
    return value
  if (isSanitized(value) || isCopied(value)) return value
  const whole = copyBounded(value, accident)
  return rememberCopy(copied, whole.cut ? sanitize(value) : whole.value)
}

const whole: Bounds = {
  depth: 200,
  string: Number.POSITIVE_INFINITY,
  items: Number.POSITIVE_INFINITY,
  total: Number.POSITIVE_INFINITY
}

/** Copies a value that is executed and not only shown: redacted, JSON, nothing cut but levels deeper than 200. */
export const copyWhole = (value: unknown): Schema.Json => copyBounded(value, whole).value
