/**
 * Converts any value to a form that is safe for observers: redacted and frozen JSON of limited size that is not shared
 * with other code.
 *
 * **Details**
 *
 * {@link sanitize} is for requests and responses: levels deeper than 8, strings longer than 8 000 characters and
 * collections longer than 200 entries are cut and marked as cut. If the JSON still exceeds the size limit, the value is
 * copied again with limits of 1 000 characters and 50 entries. If that copy is still too large, it becomes
 * `{ _truncated, original_type, preview }`. {@link copyField} is for the other fields of a payload: the same traversal,
 * with limits that only guard against huge values.
 *
 * Values that JSON cannot express become text: `<3 bytes>`, `<circular>`, `<function>`, `<unreadable>` if a getter or a
 * proxy throws, `"NaN"`, and the digits of a bigint. Only the data properties of a class instance are copied. Its
 * accessors and `toJSON` are not called.
 *
 * **Gotchas**
 *
 * The contract only redacts a few key names. Here `base/domain/Redaction` redacts by key name and by value
 * (`ARCHITECTURE.md` §7). An object counts as one level regardless of its class.
 *
 * Source: the observer document ("Payload Safety", "Performance"), `hermes-contract.md` §2.8, `ARCHITECTURE.md` §7
 * (legacy payload fields, redaction).
 */
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import * as Redaction from "../base/domain/Redaction.ts"
import { getCurrentRegistry, type Registry } from "../base/domain/Secrets.ts"

/** Limits of a copy. */
interface Bounds {
  /** Number of levels below the root. Deeper values become a marker. */
  readonly depth: number
  /** Maximum length of one string, in UTF-16 units. */
  readonly string: number
  /** Maximum number of entries in one list or mapping. */
  readonly items: number
  /** Approximate maximum length of the JSON text. The estimate never exceeds the actual length. */
  readonly total: number
}

/** A copy. If `cut` is true, values beyond the total limit are missing. */
interface BoundedCopy {
  readonly value: Schema.Json
  readonly cut: boolean
}

/** Minimum length of a string that can contain a secret. */
const shortest = 8
/** Maximum length of strings cached here. `Redaction` caches longer strings. */
export const longestShort = 63
/**
 * Maximum number of short strings in one cache generation. There are two generations: a string that is requested again
 * moves to the younger one.
 */
const generation = 4_000

interface Memory {
  readonly version: number
  young: Map<string, string>
  old: Map<string, string>
}

/** Cache for each registry of secrets. A new cache is created whenever a secret is added. */
const memories = new WeakMap<Registry, Memory>()

const getMemory = (secrets: Registry): Memory => {
  const known = memories.get(secrets)
  if (known !== undefined && known.version === secrets.version()) return known
  const memory: Memory = { version: secrets.version(), young: new Map(), old: new Map() }
  memories.set(secrets, memory)
  return memory
}

/**
 * Applies `Redaction.redactText` and caches the results for short strings, because every event contains the same route.
 */
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

/** Minimum length of a token that is recognised by its pattern. */
const shortestToken = 15

/** Number of characters reserved for the note that is added to text that was already cut. */
const overlap = 512
const cutNote = /\.\.\.\[truncated \d{1,16} chars\]$/
const depthNote = /^<\w{1,32} depth limit>$/

/** Returns a separate copy of a string, because a slice would retain the original text in memory. */
const detachText = (text: string): string => JSON.parse(JSON.stringify(text)) as string

/**
 * Returns text without secrets, cut at `limit` with a note about the number of missing characters. The text is cut
 * before patterns are applied. Cutting is idempotent: the note of a text that was already cut is unchanged.
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

/** The digits of a huge integer take long to compute and to read. */
const formatBigint = (value: bigint): string => (BigInt.asIntN(1024, value) === value ? String(value) : "<bigint>")

const formatDate = (value: Date): string =>
  Number.isNaN(value.getTime()) ? "<invalid date>" : Date.prototype.toISOString.call(value)

/** Returns the number of items that an earlier cut omitted, if a list ends with such a note. */
const readCutNote = (item: unknown): unknown =>
  typeof item === "object" && item !== null && Object.hasOwn(item, itemsNote) && Object.keys(item).length === 1
    ? Reflect.get(item, itemsNote)
    : undefined

const readCount = (read: () => unknown): number | undefined => {
  try {
    const value = read()
    return typeof value === "number" && Number.isFinite(value) ? value : undefined
  } catch {
    // An unreadable member is not a note. Copying reports it as unreadable.
    return undefined
  }
}

/**
 * Lists the names of an object's data properties, without Effect's internal keys and without the internals of class
 * instances.
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
  // Assigning to the name `__proto__` would set the prototype.
  if (key === "__proto__") Object.defineProperty(out, key, { value, enumerable: true })
  else out[key] = value
}

/** Copies a value as redacted, frozen JSON within limits. Never throws. */
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

  /** Copies a node. Returns `undefined` for a value that JSON omits. */
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

/** Default maximum length of a sanitised request or response as JSON, in characters. */
export const defaultMaxChars = 50_000

const first = { depth: 8, string: 8_000, items: 200 }
const second = { depth: 8, string: 1_000, items: 50 }
/** Maximum length of a string that is copied whole, in UTF-16 units. */
export const longestText = 1_000_000
const accident: Bounds = { depth: 32, string: longestText, items: 10_000, total: 2_000_000 }

/** Values that were created by the sanitizer, so that they are not copied again. */
const sanitized = new WeakSet<object>()
const copied = new WeakSet<object>()

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

const rememberCopy = (made: WeakSet<object>, value: Schema.Json): Schema.Json => {
  if (isObject(value)) made.add(value)
  return value
}

// Members of the set were created here and are JSON.
const isSanitized = (value: unknown): value is Schema.Json => isObject(value) && sanitized.has(value)
const isCopied = (value: unknown): value is Schema.Json => isObject(value) && copied.has(value)

const describeOriginalType = (value: unknown): string => {
  try {
    return Array.isArray(value) ? "array" : typeof value
  } catch {
    // Even the type of a revoked proxy cannot be determined.
    return "object"
  }
}

/**
 * Sanitizes a request or response for its event: limited in size, redacted and frozen. A value that was already
 * sanitised is returned unchanged.
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

/**
 * Copies a field of an event other than a request or response, redacted and frozen. A value that is far too large is
 * sanitised instead.
 */
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

/** Copies a value that is executed and not only shown: redacted JSON that is only cut below level 200. */
export const copyWhole = (value: unknown): Schema.Json => copyBounded(value, whole).value
