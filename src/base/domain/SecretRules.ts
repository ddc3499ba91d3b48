/** Rules that recognize secrets in text by their format or by the name before them. */
import * as KeyShapes from "./KeyShapes.ts"
import { mask } from "./Secrets.ts"

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

/** A pattern and the replacement of its matches. */
export interface Rule {
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

/** Rules for secrets with a known format. */
export const shapes: ReadonlyArray<Rule> = [
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
const [addressMark, addressPattern] = KeyShapes.namedAddress
const namedAddress = new RegExp(addressPattern, "g")
const markedKeys = KeyShapes.marked.map(([, mark, whole]) => ({
  mark,
  pattern: new RegExp(`${start}${whole}(?![A-Za-z0-9])`, "g")
}))

/** Masks keys of vendors whose format is listed in `KeyShapes`. */
export const withoutVendorKeys = (text: string): string => {
  if (!hasLongWord(text)) return text
  const named = text.includes(addressMark) ? text.replace(namedAddress, (found) => mask(found)) : text
  let out = named.replace(vendorKey, (found) => mask(found))
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

/** Rules for secrets that follow a name, an address or a header. */
export const assignments: ReadonlyArray<Rule> = [
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

/** Beginnings of keys with a known format. Text that contains no such beginning contains no such key. */
const shapeHints = [
  "-----BEGIN",
  "sk-|gh[oprsu]_|github_pat_|glpat-|hf_|gsk_|xai-|pplx-|tvly-|exa_|fal_|fc-|r8_|npm_(?![a-z]{1,12}_)|pypi-|dop_v1_|bb_live_|am_",
  "[prs]k_(?:live|test)_|xox[a-z]-|xapp-|gAAAA|AIza",
  "AKIA|ASIA|eyJ|SG\\.",
  "\\d(?::|%3A)[\\w-]{35}"
].join("|")
/** Tests whether text may contain a key with a known format. */
export const shapeHint = new RegExp(shapeHints)

/**
 * Matches the markers of which every secret found by a rule contains at least one. Most text contains no marker, so a
 * single test suffices for it.
 */
export const hint = new RegExp(
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
