/**
 * Redacts secrets in text that leaves the runtime: logs, hook payloads, traces, exports, prompts and tool results.
 * Pure. All outputs share this module, so that they apply the same definition of a secret.
 *
 * **Details**
 *
 * Secret values that the runtime holds are recognized directly, also in encoded forms (`base/domain/Secrets`). Other
 * secrets are recognized by their name or their format. In a structured value ({@link redactValue}) everything under a
 * key of the families API key, authorization, cookie, token, secret, password and private key becomes {@link marker},
 * however the key is spelled; counters (`max_tokens`, `total_tokens`, `usage`) are never such keys. In text
 * ({@link redactText}) a secret is recognized by its format: vendor prefixes, JWT, PEM blocks, authorization headers,
 * cookies, passwords in URLs and connection strings, and values assigned to a name of those families.
 *
 * Long keys retain their first four and last two characters (`sk-a…9z`), so that a reader can distinguish two keys;
 * passwords and short keys become `***`. Both functions are idempotent, take linear time, never throw, and return the
 * argument itself if it contains no secrets.
 *
 * **Gotchas**
 *
 * Text is often source code that a model has to work with, so a name alone does not make a value a secret:
 * `token = next()`, `password: string`, `"$TOKEN"` and `process.env.API_KEY` are lookups and types, not values. An
 * unquoted value is hidden only if it fills its line and contains a digit. Telephone numbers are not hidden, because
 * they cannot be distinguished from the numbers of a diff.
 *
 * **Example** (Redacting text and values before display)
 *
 * ```ts
 * import { Redaction } from "hermes-effect/observability"
 *
 * console.log(Redaction.redactValue({ user: "ada", password: "hunter2" }))
 * // => { user: 'ada', password: '<redacted>' }
 * console.log(Redaction.redactText("postgres://ada:hunter2@db/main"))
 * // => postgres://ada:***@db/main
 * ```
 *
 * Source: `hermes-llm.md` §19.11, `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import * as Redacted from "effect/Redacted"
import { assignments, hint, isSensitiveKey, shapeHint, shapes, withoutVendorKeys } from "./SecretRules.ts"
import { getCurrentRegistry, type Registry } from "./Secrets.ts"

export { isSensitiveKey } from "./SecretRules.ts"
export { mask } from "./Secrets.ts"

/**
 * Redaction of tool results and answers (`security.redact_secrets`); on by default. It is fixed at the start of a
 * runtime, so that a model cannot change it. Logs, hooks, traces, exports and prompts are always redacted.
 */
export const RedactSecrets = Context.Reference<boolean>("hermes-effect/domain/RedactSecrets", {
  defaultValue: () => true
})

/** Replacement for a value that is hidden because of its key. A `Redacted` value prints the same text. */
export const marker = "<redacted>"

const rules = [...shapes, ...assignments]

/** Length of the shortest key that the rules or the long word in a vendor's key can match. */
const shortestKey = 15

const withoutSecrets = (given: string, secrets: Registry): string => {
  const text = withoutVendorKeys(secrets.mask(given))
  if (!hint.test(text)) return text
  let out = text
  for (const rule of rules) out = out.replace(rule.pattern, rule.replace)
  return out
}

/** Cached redacted forms of recent text, by text, for one version of a registry. All exporters share the cache. */
interface RedactedTexts {
  readonly version: number
  recent: Map<string, string>
  before: Map<string, string>
  chars: number
  /** Newest text that is too long for the maps. */
  readonly longest: { text: string; redacted: string }
}

const redactedTexts = new WeakMap<Registry, RedactedTexts>()

/**
 * Minimum and maximum length of cached text, and number of characters after which the next cache generation begins. A
 * long text is cached too, because each exporter and each form of a message reads it again.
 */
const [minKept, maxKept, generationChars] = [64, 4_194_304, 500_000]

const getRedactedTexts = (secrets: Registry): RedactedTexts => {
  const version = secrets.version()
  const texts = redactedTexts.get(secrets)
  if (texts?.version === version) return texts
  const made = { version, recent: new Map(), before: new Map(), chars: 0, longest: { text: "", redacted: "" } }
  redactedTexts.set(secrets, made)
  return made
}

/** Redacts the secrets in text. Returns the text itself if it contains no secrets. */
export const redactText = (given: string, secrets = getCurrentRegistry()): string => {
  if (given.length < minKept) return withoutSecrets(given, secrets)
  const texts = getRedactedTexts(secrets)
  if (given.length > maxKept) {
    const { longest } = texts
    if (longest.text !== given) Object.assign(longest, { text: given, redacted: withoutSecrets(given, secrets) })
    return longest.redacted
  }
  const known = texts.recent.get(given)
  if (known !== undefined) return known
  const made = texts.before.get(given) ?? withoutSecrets(given, secrets)
  if (texts.chars > generationChars) Object.assign(texts, { before: texts.recent, recent: new Map(), chars: 0 })
  texts.recent.set(given, made)
  texts.chars += given.length
  return made
}

/** Number of characters after a cut that are examined with the text before it. No rule needs more to match. */
const afterCut = 2_048

/** Number of places at which a cut is tried before a piece becomes longer. */
const maxCuts = 6

/** Returns the offset of the last character before `end` that no secret contains, or that few contain. */
const findCut = (text: string, end: number): number => {
  const from = Math.max(1, end - 1_024)
  const part = text.slice(from, end)
  const blank = Math.max(part.lastIndexOf(" "), part.lastIndexOf("\n"))
  if (blank >= 0) return from + blank + 1
  for (let at = end; at > from; at--) if (!/[A-Za-z0-9]/.test(text.charAt(at - 1))) return at
  return end
}

/**
 * Matches the end of a text in which a secret of any length may have begun that is recognized only by a character that
 * follows: the dot of a web token, the `@` of an address, the end of a key block.
 */
const unfinished = /(?:(?:eyJ|SG\.)[\w.-]*|:\/\/[^\s/@"'<>]*|-----BEGIN (?:(?!-----END )[^])*)$/

/** Redacts the beginning of a text with at most `size` characters; `undefined` if a secret is at each tried end. */
const redactBeginning = (
  text: string,
  size: number,
  secrets: Registry
): { readonly length: number; readonly redacted: string } | undefined => {
  for (let cuts = 0; cuts < maxCuts; cuts++) {
    const end = findCut(text, size - Math.floor((size * cuts) / (2 * maxCuts)))
    const seen = text.slice(0, end + afterCut)
    const length = secrets.cut(seen, end)
    const isWebToken = seen.startsWith("eyJ", length) || seen.startsWith("SG.", length)
    if (length < size / 4 || isWebToken || unfinished.test(seen.slice(0, length))) continue
    const redacted = withoutSecrets(seen.slice(0, length), secrets)
    // A secret on both sides of the cut is recognized only in the whole text.
    if (redacted + withoutSecrets(seen.slice(length), secrets) === withoutSecrets(seen, secrets))
      return { length, redacted }
  }
  return undefined
}

/**
 * {@link redactText} in pieces of about `size` characters, which together are the redacted text. A piece is longer if a
 * longer secret begins in it.
 */
export function* redactPieces(text: string, size: number, secrets = getCurrentRegistry()): Generator<string> {
  let from = 0
  let wanted = size
  while (text.length - from > wanted) {
    const made = redactBeginning(text.slice(from, from + wanted + afterCut), wanted, secrets)
    if (made === undefined) wanted *= 2
    else {
      yield made.redacted
      from += made.length
      wanted = size
    }
  }
  yield withoutSecrets(text.slice(from), secrets)
}

/**
 * Redacts secret values that the runtime holds, and keys with a known format: vendors' keys, JWTs and private key
 * blocks. Used for text that a model writes to its user. Such text may contain an example of a settings file, in which
 * a name alone does not make its value a secret.
 */
export const redactKeys = (given: string, secrets = getCurrentRegistry()): string => {
  const known = secrets.mask(given)
  if (known.length < shortestKey) return known
  const text = withoutVendorKeys(known)
  if (!shapeHint.test(text)) return text
  let out = text
  for (const rule of shapes) out = out.replace(rule.pattern, rule.replace)
  return out
}

/**
 * Returns the values that {@link redactText} hides because of adjacent names but that {@link redactKeys} does not hide.
 */
export const findNamedValues = (given: string, secrets = getCurrentRegistry()): ReadonlyArray<string> => {
  let out = redactKeys(given, secrets)
  if (!hint.test(out)) return []
  const found: Array<string> = []
  for (const rule of assignments) {
    out = out.replace(rule.pattern, (match: string, before: string = "", value: string = "") => {
      const made = rule.replace(match, before, value)
      if (made !== match) found.push(value)
      return made
    })
  }
  return found
}

/**
 * Number of characters after a cut that are also examined, so that a secret that spans the cut is examined as a whole.
 */
const lookahead = 1_024

/**
 * Returns a beginning of the text that does not end inside a secret. It has at least `limit` characters, unless the
 * whole text is shorter. To show the beginning of text, first redact the result and then cut it, because a partial
 * secret cannot be recognized.
 */
export const takeBeginning = (text: string, limit: number, secrets = getCurrentRegistry()): string => {
  if (text.length <= limit + lookahead) return text
  const seen = text.slice(0, limit + lookahead)
  let end = secrets.cut(seen, seen.length)
  for (let at = end; at > 0 && end - at < lookahead; at--) {
    if (!/\s/.test(seen.charAt(at - 1))) continue
    end = at
    break
  }
  return seen.slice(0, end)
}

/** Returns the first `limit` characters of the redacted text. Only the beginning of long text is examined. */
export const redactStart = (text: string, limit: number, secrets = getCurrentRegistry()): string =>
  redactText(takeBeginning(text, limit, secrets), secrets).slice(0, limit)

/** Bounds of {@link redactValue}. Parts beyond the bounds are replaced by a note, never returned unredacted. */
export interface Bounds {
  /** Maximum nesting depth; defaults to 64. */
  readonly depth?: number | undefined
  /** Maximum total number of objects and arrays; defaults to 100 000. */
  readonly nodes?: number | undefined
}

const isHidden = (key: string, value: unknown): boolean => {
  if (value === undefined || typeof value === "boolean" || !isSensitiveKey(key)) return false
  // A number such as in `token: 7` is a count or a position, not a secret.
  return typeof value !== "number" || !/token[^a-z0-9]*$/i.test(key)
}

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Tests for `Headers`. Only a value with a tag is compared: Node loads its `fetch` with the first use of the class. */
const isHeaders = (value: object): value is Headers => Symbol.toStringTag in value && value instanceof Headers

/**
 * Returns the own enumerable string-keyed entries of an object, and the additional entries of an error, a URL, a `Map`
 * or `Headers`.
 */
const listEntries = (value: object): ReadonlyArray<readonly [string, unknown]> => {
  if (value instanceof Map || isHeaders(value)) {
    return Array.from<readonly [unknown, unknown], readonly [string, unknown]>(value, ([key, item]) => [
      String(key),
      item
    ])
  }
  if (!(value instanceof Error)) return Object.entries(value)
  const { name, message, stack, cause } = value
  return Object.entries({ ...value, name, message, ...(stack && { stack }), ...(cause !== undefined && { cause }) })
}

/** Default maximum depth, and default maximum number of objects and arrays. */
const [maxDepth, maxNodes] = [64, 100_000]

/**
 * Maximum number of objects and arrays that {@link isClean} examines, so that it ends for circular values and for
 * values that contain one object many times. Such values are copied and redacted without this shortcut.
 */
const maxLooked = 1000

/**
 * Tests whether a value is plain data without secrets, as most values are. `left` counts the objects and arrays that
 * may still be examined.
 */
const isClean = (value: unknown, depth: number, left: { count: number }, secrets: Registry): boolean => {
  if (typeof value === "string") return redactText(value, secrets) === value
  if (typeof value !== "object" || value === null) return true
  if (depth <= 0 || --left.count < 0) return false
  if (Array.isArray(value)) return value.every((item) => isClean(item, depth - 1, left, secrets))
  if (!isPlain(value)) return false
  const keys = Object.keys(value)
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] ?? ""
    const item: unknown = Reflect.get(value, key)
    if (isHidden(key, item) || !isClean(item, depth - 1, left, secrets)) return false
  }
  return true
}

class Walk {
  private nodes = 0
  private readonly done = new Map<object, unknown>()
  private readonly open = new Set<object>()
  private readonly bounds: Bounds

  constructor(bounds: Bounds) {
    this.bounds = bounds
  }

  value(value: unknown, depth: number): unknown {
    if (typeof value === "string") return redactText(value)
    if (typeof value !== "object" || value === null) return value
    if (this.open.has(value)) return "<circular>"
    if (this.done.has(value)) return this.done.get(value)
    if (depth >= (this.bounds.depth ?? maxDepth)) return "<depth limit>"
    if (++this.nodes > (this.bounds.nodes ?? maxNodes)) return "<size limit>"
    this.open.add(value)
    const out = this.guarded(value, depth + 1)
    this.open.delete(value)
    this.done.set(value, out)
    return out
  }

  /** Converts an object. An object whose getter or proxy throws becomes `<unreadable>`. */
  private guarded(value: object, depth: number): unknown {
    try {
      return this.object(value, depth)
    } catch {
      return "<unreadable>"
    }
  }

  private object(value: object, depth: number): unknown {
    if (Redacted.isRedacted(value)) return marker
    if (value instanceof URL) return redactText(value.href)
    if (ArrayBuffer.isView(value) || value instanceof Date) return value
    if (Array.isArray(value) || value instanceof Set) {
      const items = Array.from(value, (item) => this.value(item, depth))
      return Array.isArray(value) && items.every((item, index) => Object.is(item, value[index])) ? value : items
    }
    const before = listEntries(value)
    const after = before.map(([key, item]) => [key, isHidden(key, item) ? marker : this.value(item, depth)] as const)
    const same = after.every(([, item], index) => Object.is(item, before[index]?.[1]))
    return same && isPlain(value) ? value : Object.fromEntries(after)
  }
}

/**
 * Redacts the secrets in a value: values under sensitive keys, and secrets in strings.
 *
 * **Details**
 *
 * Plain objects and arrays without secrets are returned unchanged. Other values become plain copies: errors with name,
 * message and stack, maps and headers as records, sets as arrays. A cycle becomes `"<circular>"`.
 */
export const redactValue = (value: unknown, bounds: Bounds = {}): unknown => {
  if (typeof value === "string") return redactText(value)
  try {
    const { depth = maxDepth, nodes = maxNodes } = bounds
    if (isClean(value, depth, { count: Math.min(nodes, maxLooked) }, getCurrentRegistry())) return value
  } catch {
    // A getter or a proxy threw. The walk below replaces the unreadable value with a note.
  }
  return new Walk(bounds).value(value, 0)
}
