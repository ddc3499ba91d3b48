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
import * as KeyShapes from "./KeyShapes.ts"
import { getCurrentRegistry, mask, type Registry } from "./Secrets.ts"

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

const masked = "***"

const gap = String.raw`[^A-Za-z0-9\r\n]?`

/** Pattern for the end of a name whose value is a secret. The words of the name may have any separator. */
const secretName = [
  `(?:api|access|secret|private|signing|encryption|master|shared|account|service|ssh|subscription|functions)${gap}keys?`,
  `(?:access|api|auth|bearer|bot|id|refresh|session)${gap}tokens`,
  "token",
  "secrets?",
  "passw(?:or)?ds?",
  "passphrase",
  "credentials?",
  "authorization",
  "cookies?"
].join("|")

const sensitiveKey = new RegExp(`(?:${secretName})(?:${gap}(?:value|header|\\d{1,3}))?[^A-Za-z0-9]{0,3}$`, "i")

/** Cached results of {@link isSensitiveKey}, and limits on the number and length of cached keys. */
const keys = new Map<string, boolean>()
const [maxKeys, longestKey] = [1024, 64]

/** Tests whether the value of a key is a secret. Case and separators are ignored: `X-API-Key`, `apiKey`, `api_key`. */
export const isSensitiveKey = (key: string): boolean => {
  const known = keys.get(key)
  if (known !== undefined || key.length > longestKey) return known ?? sensitiveKey.test(key)
  if (keys.size >= maxKeys) keys.clear()
  const made = sensitiveKey.test(key)
  keys.set(key, made)
  return made
}

interface Rule {
  readonly pattern: RegExp
  readonly replace: (match: string, ...groups: ReadonlyArray<string>) => string
}

/*
 * Patterns that stay linear, and within V8's backtracking stack, on megabytes of any input: each starts with a literal, a
 * class is repeated by `*` only if it can be given back at most once, every other repetition is bounded, and the replacer
 * checks lengths.
 */

/**
 * Builds a pattern for the start of a token: not inside a sequence of `run` characters, but possibly directly after an
 * escape (`\n`, `%3D`) or a color code.
 */
const buildTokenStart = (run: string): string =>
  String.raw`(?<=\\[nrtbf]|%[\dA-Fa-f]{2}|\u001b\[[\d;]{0,16}m|(?<![${run}]))`
const start = buildTokenStart("A-Za-z0-9")

const maskLongMatch =
  (length: number) =>
  (match: string): string =>
    match.length < length ? match : mask(match)

const shapes: ReadonlyArray<Rule> = [
  {
    // If a block is cut off before its end, the text after its header is hidden as long as it looks like key material.
    pattern:
      /(-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----)([^-]*(?:-(?!----)[^-]*){0,64}-----END [A-Z0-9 ]{1,64}-----|[\w+/=\s\\|]*)/g,
    replace: (match, head = "", body = "") => (/[A-Za-z0-9+/]{24}/.test(body) ? head + masked : match)
  },
  {
    pattern: new RegExp(
      String.raw`${start}(?:sk-|gh[oprsu]_|github_pat_|glpat-|hf_|gsk_|xai-|pplx-|tvly-|exa_|fal_|fc-|r8_|npm_(?![a-z]{1,12}_)|pypi-|dop_v1_|bb_live_|am_)[\w-]*`,
      "g"
    ),
    // The minimum length excludes variables of npm such as `npm_config_registry`.
    replace: maskLongMatch(19)
  },
  {
    pattern: new RegExp(String.raw`${start}(?:[prs]k_(?:live|test)_|xox[a-z]-|xapp-|gAAAA|AIza)[\w=-]*`, "g"),
    replace: (match) => (match.length < 15 ? match : match.length < 18 ? masked : mask(match))
  },
  {
    // `…SG.` is not matched, because it may be the end of a masked key.
    pattern: new RegExp(
      String.raw`${buildTokenStart(String.raw`\w-`)}(?:eyJ[\w-]*\.[\w-]*(?:\.[\w-]*)?|(?<!\u2026)SG\.[\w-]*\.[\w-]*)`,
      "g"
    ),
    replace: (match) => (/^(?:eyJ|SG\.)[\w-]{8,8192}\.[\w-]{8}/.test(match) ? mask(match) : match)
  },
  // In a URL the key follows `bot` or an escape that ends in a digit. The required letters exclude times of day.
  { pattern: new RegExp(String.raw`(?:${start}|(?<=bot))\d{8,10}(?::|%3A)[\w-]{35}(?![\w-])`, "g"), replace: mask }
]

/** Every vendor's key contains a word of at least this length. */
const longWord = 16
const isOfWord = Array.from({ length: 128 }, (_, code) => /[\w.~-]/.test(String.fromCharCode(code)))

/** Tests for a long word by stepping back from its possible end, so that most of the text is never examined. */
const hasLongWord = (text: string): boolean => {
  for (let before = -1; before + longWord < text.length;) {
    let at = before + longWord
    while (at > before && isOfWord[text.charCodeAt(at)] === true) at--
    if (at === before) return true
    before = at
  }
  return false
}

const vendorKey = new RegExp(`${start}(?:${KeyShapes.source})(?![A-Za-z0-9])|${KeyShapes.addresses}`, "g")
const markedKeys = KeyShapes.marked.map(([, mark, whole]) => ({
  mark,
  pattern: new RegExp(`${start}${whole}(?![A-Za-z0-9])`, "g")
}))

/** Masks keys of vendors whose format is listed in `KeyShapes`. */
const withoutVendorKeys = (text: string): string => {
  if (!hasLongWord(text)) return text
  let out = text.replace(vendorKey, (found) => mask(found))
  for (const { mark, pattern } of markedKeys) if (out.includes(mark)) out = out.replace(pattern, (found) => mask(found))
  return out
}

/**
 * Matches values that are not secrets although they follow the name of a secret: lookups, types, addresses and masks.
 */
const placeholder = new RegExp(
  "^(?:" +
    [
      String.raw`\$[\w({$]|process\.env|os\.(?:environ|getenv)|getenv\(|env[.[(]`,
      String.raw`\{\{?[\w. ]*\}|%[sdv(]|<[a-z_ -]*>?$|\[redacted|\*{3,}$|\u2026$|\.{3}$|urn:|https?:`,
      String.raw`\w*(?:int|float)\d{1,2}(?:array)?$`,
      "(?:any|basic|bearer|bool|boolean|bytes|false|none|null|number|oauth2?|optional|password|required|str|string|text|token|true|undefined)$"
    ].join("|") +
    ")",
  "i"
)

const isRandomLooking = (value: string): boolean => value.length >= 24 || (value.length >= 8 && /\d/.test(value))

/**
 * Creates a rule for a pattern with two groups. The rule keeps the first group. It hides the second group unless that
 * is a placeholder or `isSecret` returns false.
 */
const makeHidingRule = (pattern: RegExp, isSecret: (value: string, before: string) => boolean): Rule => ({
  pattern,
  replace: (match, before = "", value = "") =>
    value === "" || placeholder.test(value) || !isSecret(value, before) ? match : before + masked
})

const isAnyValue = (): boolean => true
const isPassword = /(?:passw(?:or)?ds?|passphrase|secret)\W{0,16}$/i
const isQuotedSecret = (value: string, before: string): boolean => isPassword.test(before) || isRandomLooking(value)

const name = String.raw`(?:${secretName})(?:[_-]?(?:value|\d{1,3}))?`
const assigned = String.raw`${name}(?:\\{0,3}["'])?\s{0,4}[:=]\s{0,4}`

/**
 * Matches the beginning of a parameter in a URL. The character is percent-encoded if the URL is itself a parameter of
 * another URL.
 */
const parameter = "(?:[?&#]|%3F|%26|%23)"

/** Names of parameters that may contain secrets or ordinary values. */
const shortNames = "x-functions-key|key|code|auth|pass|pwd|jwt|assertion|client_assertion|ticket|otp|x-amz-credential"

const hasDigit = (value: string): boolean => /\d/.test(value)

/** Matches UUIDs. A UUID or a digest in a parameter with an ambiguous name is an identifier, not a secret. */
const uuidLike = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i

const assignments: ReadonlyArray<Rule> = [
  // scheme://user:password@host
  makeHidingRule(/(:\/\/[^\s:/?#@"'<>]*:)([^\s/@"'<>]*)(?=@)/g, isAnyValue),
  // Server=…;Password=…;
  makeHidingRule(/([;"']\s?(?:password|pwd|account ?key|shared ?access ?key)=)([^;"'\s]*)/gi, isAnyValue),
  // https://token@host
  makeHidingRule(
    /(:\/\/)([\w~.%-]{20,512})(?=@[A-Za-z0-9[])/g,
    (value) => hasDigit(value) && !/[.-][a-z]{1,24}$/i.test(value)
  ),
  // ?api_key=…&signature=…, also in an address that is itself a parameter
  makeHidingRule(
    new RegExp(`(${parameter}[\\w.-]{0,40}?(?:${secretName}|signature|sig)(?:=|%3D))([^\\s&#"'<>]*)`, "gi"),
    isAnyValue
  ),
  // ?code=…&key=…, which also have many other meanings
  makeHidingRule(
    new RegExp(`(${parameter}(?:${shortNames})(?:=|%3D))([\\w~.+=-]*)(?![/%:@])`, "gi"),
    (value) => value.length >= 16 && hasDigit(value) && !uuidLike.test(value)
  ),
  // Authorization: Bearer …
  makeHidingRule(
    /(authorization\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?(?:api-?key|basic|bearer|bot|digest|key|negotiate|ntlm|splunk|ssws|token) {1,4})([^\s"',;\\]*)/gi,
    (value) => value.length >= 6
  ),
  makeHidingRule(
    /(\b(?:basic|bearer)\s{1,4})([\w.~+/=-]*)/gi,
    (value) => isRandomLooking(value) || /.{8}=$/.test(value)
  ),
  // Cookie: name=value; …
  makeHidingRule(/(cookie\\?["']?\s{0,4}:\s{0,4}\\?["']?[^\s=;,"'\\]{1,256}=)([^"'\r\n\\]*)/gi, isAnyValue),
  // API_KEY=… in a shell or a .env file
  makeHidingRule(
    /((?:API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?:_?\d{1,3})?=["']?)([^\s"'`;&|,)}\]\\]*)/g,
    isAnyValue
  ),
  makeHidingRule(/((?:_KEY|_AUTH|_PAT|_PASS|_JWT)(?:_?\d{1,3})?=["']?)([^\s"'`;&|,)}\]\\]*)/g, isRandomLooking),
  // "api_key": "…", and the same inside a JSON string
  makeHidingRule(new RegExp(String.raw`(${assigned}")([^"\\\r\n]*(?:\\.[^"\\\r\n]*){0,256})`, "gi"), isQuotedSecret),
  makeHidingRule(new RegExp(String.raw`(${assigned}')([^'\\\r\n]*(?:\\.[^'\\\r\n]*){0,256})`, "gi"), isQuotedSecret),
  makeHidingRule(new RegExp(String.raw`(${assigned}\\{1,3}["'])([^"'\\\r\n]*)`, "gi"), isQuotedSecret),
  // api_key: … alone on its line, and --api-key …
  makeHidingRule(
    new RegExp(String.raw`(${name}[ \t]{0,4}[:=][ \t]{0,4})([\w+/~!@#%^*-]{6,256}={0,2})(?=[ \t]{0,64}(?:#|$))`, "gim"),
    (value) => /\d/.test(value)
  ),
  makeHidingRule(
    new RegExp(String.raw`((?<!-)--[\w-]{0,40}?(?:${secretName})(?:=|[ \t]{1,4})["']?)([^\s"']*)`, "gi"),
    isRandomLooking
  )
]

const rules = [...shapes, ...assignments]

/** Beginnings of keys with a known format. Text that contains no such beginning contains no such key. */
const shapeHints = [
  "-----BEGIN",
  "sk-|gh[oprsu]_|github_pat_|glpat-|hf_|gsk_|xai-|pplx-|tvly-|exa_|fal_|fc-|r8_|npm_(?![a-z]{1,12}_)|pypi-|dop_v1_|bb_live_|am_",
  "[prs]k_(?:live|test)_|xox[a-z]-|xapp-|gAAAA|AIza",
  "AKIA|ASIA|eyJ|SG\\.",
  "\\d(?::|%3A)[\\w-]{35}"
].join("|")
const shapeHint = new RegExp(shapeHints)

/**
 * Matches the markers of which every secret found by a rule contains at least one. Most text contains no marker, so a
 * single test suffices for it.
 */
const hint = new RegExp(
  [
    shapeHints,
    secretName,
    ":\\/\\/",
    `[?&#](?:${shortNames})=`,
    "(?:pwd|sig|signature|account ?key|shared ?access ?key)=",
    "basic|bearer",
    "API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|CREDENTIAL|PASS|_KEY|_AUTH|_PAT|_JWT"
  ].join("|"),
  "i"
)

/** Length of the shortest key that the rules above or the long word in a vendor's key can match. */
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
}

const redactedTexts = new WeakMap<Registry, RedactedTexts>()

/** Minimum and maximum length of cached text, and maximum number of characters in a cache generation. */
const [minKept, maxKept, generationChars] = [64, 65_536, 500_000]

/** Redacts the secrets in text. Returns the text itself if it contains no secrets. */
export const redactText = (given: string, secrets = getCurrentRegistry()): string => {
  if (given.length < minKept || given.length > maxKept) return withoutSecrets(given, secrets)
  const version = secrets.version()
  const texts = redactedTexts.get(secrets)
  if (texts?.version !== version) {
    redactedTexts.set(secrets, { version, recent: new Map(), before: new Map(), chars: 0 })
    return redactText(given, secrets)
  }
  const known = texts.recent.get(given)
  if (known !== undefined) return known
  const made = texts.before.get(given) ?? withoutSecrets(given, secrets)
  if (texts.chars > generationChars) Object.assign(texts, { before: texts.recent, recent: new Map(), chars: 0 })
  texts.recent.set(given, made)
  texts.chars += given.length
  return made
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

/**
 * Returns the own enumerable string-keyed entries of an object, and the additional entries of an error, a URL, a `Map`
 * or `Headers`.
 */
const listEntries = (value: object): ReadonlyArray<readonly [string, unknown]> => {
  if (value instanceof Map || value instanceof Headers) {
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
