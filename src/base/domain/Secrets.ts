/**
 * The secret values that a runtime holds, and the search for them in text. Values are found unchanged and in the
 * encoded forms that a command or a model can produce.
 *
 * **Details**
 *
 * A value is registered once, when it is read. {@link Registry} is a value of the runtime's context, so that two
 * runtimes share no secrets. Text is searched for all values at once, in one pass (Aho-Corasick), for: the value
 * itself, each line of it, its characters in reverse, base64 and base64url at all three alignments, hexadecimal,
 * percent-encoding, and JSON string escapes, applied once or twice. A value is also found if it is interrupted by white
 * space (`base64` and `xxd -p` break lines), by escaped white space (in a JSON string), or by line numbers with or
 * without a file name (`cat -n`, `grep -n`).
 *
 * A short word or a placeholder (`ollama`, `no-key-required`, `true`) is not registered, because it would be masked
 * everywhere.
 *
 * **Gotchas**
 *
 * A model can be instructed to encode secrets in unforeseen ways. This module prevents accidental leaks and common
 * tricks, but it does not replace a sandbox.
 *
 * Source: `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as LentSecrets from "./LentSecrets.ts"

const masked = "***"

/** Masks a key for display: the first four characters, an ellipsis and the last two, or `***` for a short key. */
export const mask = (secret: string): string =>
  secret.length < 18 ? masked : `${secret.slice(0, 4)}…${secret.slice(-2)}`

/** The secret values of a runtime. */
export interface Registry {
  /** Registers a value. A value that does not look like a secret is ignored. */
  readonly add: (value: string | Redacted.Redacted<string>) => void
  /** Masks every registered value in text. Returns the text itself if it contains no registered value. */
  readonly mask: (text: string) => string
  /**
   * Returns the last offset, at most `at`, at which text can be cut without splitting a registered value or the
   * beginning of a value that may continue.
   */
  readonly cut: (text: string, at: number) => number
  /**
   * Returns the part of `text` from `from` to `to`. A secret that extends beyond either end is masked with asterisks;
   * line ends are preserved.
   */
  readonly within: (text: string, from: number, to: number) => string
  /** Increases with every registered value. Text masked under an earlier version must be masked again. */
  readonly version: () => number
  /**
   * Returns a registry that also contains these values and those that are added to it. The registry itself hides the
   * values, in their plain form, until {@link mostLentValues} other ones follow.
   */
  readonly extend: (values: ReadonlyArray<string>) => Registry
}

/** Maximum number of values of extended registries that a registry hides. */
const mostLentValues = 1_024

const placeholder =
  /^(?:x{3,}|\*+|<.*>|\$\{?\w+\}?|(?:your|my)[-_ ].*|.*(?:no|not)[-_ ](?:key|needed|required|used|set).*|dummy|change-?me|example|placeholder|none|null|undefined|true|false)$/i

/** Tests whether a value differs from ordinary words, so that masking it everywhere does not damage other text. */
const isSecret = (value: string): boolean => {
  if (value.length < 8 || value.length > 65_536 || placeholder.test(value.slice(0, 256))) return false
  const distinct = new Set(value.slice(0, 256)).size
  if (value.length >= 16) return distinct >= 6
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^A-Za-z\d\s_.-]/].filter((kind) => kind.test(value)).length
  return distinct >= 5 && kinds >= 2
}

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/** Returns the base64 characters that depend only on the value, for a value that follows `offset` other bytes. */
const encodeBase64 = (bytes: Uint8Array, offset: number): string => {
  let out = ""
  let bits = 0
  let held = 0
  for (let at = -offset; at < bytes.length; at++) {
    held = ((held << 8) | (at < 0 ? 0 : (bytes[at] ?? 0))) & 0xffff
    bits += 8
    while (bits >= 6) {
      bits -= 6
      out += base64Letters.charAt((held >> bits) & 63)
    }
  }
  return out.slice(offset === 0 ? 0 : offset + 1)
}

const reverseText = (text: string): string => Array.from(text).reverse().join("")

/** Length in characters above which a value is searched for in fewer forms. */
const long = 512
const shortestForm = 8

const dropWhitespace = (text: string): string => text.replaceAll(/[ \t\r\n]+/g, "")

const listForms = (value: string): ReadonlySet<string> => {
  const bytes = new TextEncoder().encode(value)
  const forms = [0, 1, 2].flatMap((offset) => {
    const plain = encodeBase64(bytes, offset)
    return [plain, plain.replaceAll("+", "-").replaceAll("/", "_")]
  })
  forms.push(reverseText(value))
  if (value.length <= long) {
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"))
    const escaped = JSON.stringify(value).slice(1, -1)
    forms.push(
      hex.join(""),
      hex.join("").toUpperCase(),
      hex.map((pair) => `%${pair}`).join(""),
      hex.map((pair) => `%${pair.toUpperCase()}`).join("")
    )
    forms.push(escaped, JSON.stringify(escaped).slice(1, -1), encodeURIComponent(value.toWellFormed()))
    forms.push(encodeURIComponent(value.toWellFormed()).replaceAll(/%[\dA-F]{2}/g, (code) => code.toLowerCase()))
  }
  return new Set(
    forms.map(dropWhitespace).filter((form) => form.length >= shortestForm && form !== dropWhitespace(value))
  )
}

interface Needle {
  /** Text to search for, without white space. */
  readonly text: string
  /** Text that replaces a match. */
  readonly shown: string
}

const listNeedles = (value: string): ReadonlyArray<Needle> => {
  const lines = value.split(/\r?\n/).filter((line) => line.length >= 24 && isSecret(line))
  const parts = lines.length > 1 ? [value, ...lines] : [value]
  return parts.flatMap((part) => [
    { text: dropWhitespace(part), shown: mask(part.includes("\n") ? masked : part) },
    ...Array.from(listForms(part), (text) => ({ text, shown: masked }))
  ])
}

const isBlank = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9

/** An automaton that searches for all needles at once. It takes one step per character and ignores white space. */
interface Matcher {
  readonly step: (state: number, code: number) => number
  readonly depth: Int32Array
  /** For each state, the index of the longest needle that ends there, or -1. */
  readonly found: Int32Array
}

const compileNeedles = (needles: ReadonlyArray<Needle>): Matcher => {
  const classes = new Map<number, number>()
  for (const { text } of needles) {
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (!classes.has(code)) classes.set(code, classes.size + 1)
    }
  }
  const width = classes.size + 1
  const ascii = Int32Array.from({ length: 128 }, (_, code) => classes.get(code) ?? 0)
  const getClass = (code: number): number => (code < 128 ? (ascii[code] ?? 0) : (classes.get(code) ?? 0))
  const room = needles.reduce((sum, { text }) => sum + text.length, 1)
  const next = new Int32Array(room * width)
  const depth = new Int32Array(room)
  const found = new Int32Array(room).fill(-1)
  let states = 1
  needles.forEach(({ text }, index) => {
    let state = 0
    for (let at = 0; at < text.length; at++) {
      const edge = state * width + getClass(text.charCodeAt(at))
      if (next[edge] === 0) {
        next[edge] = states
        depth[states] = at + 1
        states++
      }
      state = next[edge] ?? 0
    }
    if (found[state] === -1) found[state] = index
  })
  const fail = new Int32Array(states)
  const queue = [0]
  for (let at = 0; at < queue.length; at++) {
    const state = queue[at] ?? 0
    const back = fail[state] ?? 0
    if (found[state] === -1) found[state] = found[back] ?? -1
    for (let one = 1; one < width; one++) {
      const edge = state * width + one
      const child = next[edge] ?? 0
      const other = state === 0 ? 0 : (next[back * width + one] ?? 0)
      if (child === 0) next[edge] = other
      else {
        fail[child] = other
        queue.push(child)
      }
    }
  }
  return { step: (state, code) => next[state * width + getClass(code)] ?? 0, depth, found }
}

/** Matches line numbers at the beginning of lines, with or without a preceding file name. */
const lineNumbers = /(^|\n)([ \t]{0,12}(?:[^\s:|]{1,256}[:-])?\d{1,7}[|:\t\u2192-])(?=[^\n])/g

/**
 * Replaces line numbers with blanks of the same length. Returns `undefined` if the text has fewer than two line
 * numbers.
 */
const withoutLineNumbers = (text: string): string | undefined => {
  let count = 0
  const out = text.replace(lineNumbers, (_, before: string, mark: string) => {
    count++
    return before + " ".repeat(mark.length)
  })
  return count < 2 ? undefined : out
}

const whiteEscape = /\\{1,4}[nrt]/g

/** Replaces escaped white space with blanks of the same length. Returns `undefined` if the text has no such escapes. */
const withoutEscapes = (text: string): string | undefined => {
  const out = text.includes("\\") ? text.replace(whiteEscape, (escape) => " ".repeat(escape.length)) : text
  return out === text ? undefined : out
}

/** Returns the offset at which the last `count` characters before `end` begin, not counting white space. */
const findStart = (text: string, end: number, count: number): number => {
  let at = end
  for (let left = count; left > 0 && at > 0; at--) if (!isBlank(text.charCodeAt(at - 1))) left--
  return at
}

const readValue = (given: string | Redacted.Redacted<string>): string =>
  (typeof given === "string" ? given : String(Redacted.value(given))).trim()

/** Creates an empty registry. */
export const make = (): Registry => {
  const values = new Set<string>()
  const lent = LentSecrets.makeLentValues(mostLentValues, mask)
  const extensions = LentSecrets.makeExtensions()
  const isEmpty = (): boolean => values.size === 0 && lent.countValues() === 0
  let needles: ReadonlyArray<Needle> = []
  let matcher: Matcher | undefined
  const getMatcher = (): Matcher => {
    if (matcher === undefined) {
      needles = Array.from(values).flatMap(listNeedles)
      matcher = compileNeedles(needles)
    }
    return matcher
  }

  /**
   * Returns the ranges of the registered values in text, including a value that may continue after the end of the text.
   */
  const findPlaces = (text: string): ReadonlyArray<readonly [from: number, end: number]> => {
    const { depth, found, step } = getMatcher()
    const places: Array<readonly [from: number, end: number]> = []
    const searchText = (text: string): void => {
      let state = 0
      for (let at = 0; at < text.length; at++) {
        const code = text.charCodeAt(at)
        if (isBlank(code)) continue
        state = step(state, code)
        const index = found[state] ?? -1
        const needle = index < 0 ? undefined : needles[index]
        if (needle !== undefined) places.push([findStart(text, at + 1, needle.text.length), at + 1])
      }
      if (state !== 0) places.push([findStart(text, text.length, depth[state] ?? 0), text.length + 1])
    }
    searchText(text)
    const bare = withoutEscapes(text)
    if (bare !== undefined) searchText(bare)
    return lent.countValues() === 0 ? places : [...places, ...lent.findPlaces(text)]
  }

  /** Searches `searched` for registered values and masks the same ranges in `text`. Both have the same length. */
  const replaceSecrets = (text: string, searched: string): string => {
    const { found, step } = getMatcher()
    let out = ""
    let shown = ""
    let copied = 0
    let [start, end] = [-1, -1]
    let state = 0
    const write = (): void => {
      out += text.slice(copied, start) + shown
      copied = end
    }
    for (let at = 0; at < searched.length; at++) {
      const code = searched.charCodeAt(at)
      if (isBlank(code)) continue
      state = step(state, code)
      if (state === 0) continue
      const index = found[state] ?? -1
      const needle = index < 0 ? undefined : needles[index]
      if (needle === undefined) continue
      const from = findStart(searched, at + 1, needle.text.length)
      if (start !== -1 && from >= end) {
        write()
        start = -1
      }
      // Overlapping values are masked as one range, with the mask of the longest value.
      if (start === -1 || from < start || at + 1 - from >= end - start) shown = needle.shown
      start = start === -1 ? Math.max(from, copied) : Math.min(start, from)
      end = at + 1
    }
    if (start === -1) return text
    write()
    return out + text.slice(copied)
  }

  const registry: Registry = {
    add: (given) => {
      const value = readValue(given)
      if (values.has(value) || !isSecret(value)) return
      values.add(value)
      matcher = undefined
    },
    extend: (given) => {
      const lendValue = (value: string): void => {
        if (isSecret(value) && !values.has(value)) lent.addValue(value)
      }
      for (const value of given) lendValue(value)
      return extensions.findOrMake(given, () => {
        const own = make()
        for (const value of given) own.add(value)
        const addOwn: Registry["add"] = (value) => {
          lendValue(readValue(value))
          own.add(value)
        }
        return LentSecrets.joinRegistries(registry, own, addOwn)
      })
    },
    version: () => values.size + lent.countAdditions(),
    mask: (plain) => {
      if (isEmpty() || plain.length < shortestForm) return plain
      const given = lent.countValues() === 0 ? plain : lent.replaceAll(plain)
      let masked = replaceSecrets(given, given)
      for (const without of [withoutEscapes, withoutLineNumbers]) {
        const bare = without(masked)
        if (bare !== undefined) masked = replaceSecrets(masked, bare)
      }
      return masked
    },
    within: (text, from, to) => {
      const part = text.slice(from, to)
      if (isEmpty()) return part
      const across = findPlaces(text).filter(([start, end]) => (start < from && end > from) || (start < to && end > to))
      return across.length === 0
        ? part
        : Array.from({ length: part.length }, (_, at) => {
            const char = part.charAt(at)
            return isBlank(char.charCodeAt(0)) || !across.some(([start, end]) => from + at >= start && from + at < end)
              ? char
              : "*"
          }).join("")
    },
    cut: (text, wanted) => {
      if (isEmpty()) return wanted
      const places = findPlaces(text)
      // Repeats until the offset is outside all overlapping ranges.
      for (let before = -1, at = wanted; ; before = at) {
        for (const [from, end] of places) if (from < at && end > at) at = from
        if (at === before) return at
      }
    }
  }
  return registry
}

/** The registry for code outside of a runtime. It is always empty and ignores new values. */
export const none: Registry = {
  add: () => {},
  mask: (text) => text,
  cut: (_, at) => at,
  within: (text, from, to) => text.slice(from, to),
  version: () => 0,
  extend: () => none
}

/** The registry of the current runtime; {@link none} outside a runtime. */
export const Secrets = Context.Reference<Registry>("hermes-effect/domain/Secrets", { defaultValue: () => none })

/** Returns the registry of the current fiber, for code that is not an Effect. */
export const getCurrentRegistry = (): Registry => Fiber.getCurrent()?.getRef(Secrets) ?? none

/** Matches names whose plain values are secrets: common names of tokens, and headers. */
const secretName = /(?:token|secret|password|api[-_]?key|authorization|cookie)$/i

const visitSecrets = (value: unknown, add: (value: string) => void, key: string, seen: Set<object>): void => {
  if (typeof value === "string" && secretName.test(key)) return add(value)
  if (typeof value !== "object" || value === null || seen.has(value)) return
  if (Redacted.isRedacted(value)) {
    const secret = Redacted.value(value)
    return typeof secret === "string" ? add(secret) : undefined
  }
  seen.add(value)
  for (const [name, item] of Object.entries(value)) visitSecrets(item, add, name, seen)
}

const scheme = /^(?:basic|bearer|token|api-?key)\s{1,8}/i
/** Matches values of variables and headers that are not secrets: paths, addresses, several words. */
const ordinary = /^(?:[./~]|[a-z][\w+.-]*:\/\/|[\w-]+\/[\w.+-]+$)|\s/i

const listSecrets = (value: unknown): ReadonlyArray<string> => {
  const found: Array<string> = []
  const add = (secret: string): void => {
    const bare = secret.replace(scheme, "")
    if (!ordinary.test(bare) || bare.includes("\n")) found.push(bare)
  }
  visitSecrets(value, add, "", new Set())
  return found
}

/**
 * Registers every `Redacted` string inside a value (settings, a route, a login), and every string whose key is the name
 * of a secret.
 */
export const register = (registry: Registry, value: unknown): void => {
  for (const secret of listSecrets(value)) registry.add(secret)
}

/** Returns a registry that also contains the secrets inside a value, which {@link register} would register. */
export const extendRegistry = (registry: Registry, value: unknown): Registry => registry.extend(listSecrets(value))

/** Like {@link register}, but uses the registry of the current runtime. */
export const registerSecrets = (value: unknown): Effect.Effect<void> =>
  Effect.map(Secrets, (registry) => register(registry, value))

/** Provides a new registry to an Effect unless its context already contains one. */
export const provideRegistry = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Secrets, (known) => (known === none ? Effect.provideService(effect, Secrets, make()) : effect))

/** Provides a new registry to a Layer and its dependents unless the context already contains one. */
export const provideRegistryLayer = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.unwrap(
    Effect.map(Secrets, (known) => Layer.provideMerge(layer, Layer.succeed(Secrets, known === none ? make() : known)))
  )
