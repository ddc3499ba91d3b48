/**
 * {@link redactText} for text that arrives in pieces: a secret that is split over two pieces is hidden as a whole.
 *
 * **Details**
 *
 * Text is released up to the last white space at which no secret can be incomplete: the line contains no name of a
 * secret whose value may still follow, no key block is open, and no value that the runtime holds has started. Prose is
 * therefore released word by word. A line such as `api_key: …` is held until it ends, and a private key until its last
 * line. The amount of held text is limited: a line of {@link maxHeld} characters is redacted and released as far as it
 * was received, and a longer key block is omitted.
 *
 * Source: `hermes-llm.md` §19.11.
 */
import { redactKeys, redactText } from "./Redaction.ts"
import { getCurrentRegistry, type Registry } from "./Secrets.ts"

/** Maximum number of characters that are held back. */
export const maxHeld = 16_384

/** A redactor for text that arrives in pieces. */
interface RedactionStream {
  /** Returns the text that is now safe to emit. */
  readonly push: (piece: string) => string
  /** Ends the text and returns the redacted rest. */
  readonly end: () => string
}

const blockHead = "-----BEGIN "
const blockEnd = /-----END [A-Z0-9 ]{1,64}-----/
const isBlockHead = /^-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}(?:PRIVATE KEY(?: BLOCK)?-----)?/

/**
 * Matches names whose values are secrets, and authentication schemes that precede secrets. Includes at least all names
 * in the rules.
 */
const name =
  /(?:(?:api|access|secret|private|signing|encryption|master|shared|account|service|ssh)[^A-Za-z0-9\r\n]?keys?|tokens?|secrets?|passw(?:or)?ds?|pwd|passphrase|credentials?|authorization|cookies?|_key|_auth|signature|\bsig|\bbasic|\bbearer)(?:[_-]?(?:value|\d{1,3}))?/gi

/** Matches the text after a name if the value of the name may still follow. */
const mayFollow = /^(?:\\{0,3}["'])?[\s]{0,8}(?:$|\\?["']?[:=])|^(?:=|[\s]{1,8})\\?["']?[^\s"']*$/

/** Returns the offset of the last character that cannot occur in a key, or -1. */
const findLastForeign = (text: string): number => {
  for (let at = text.length - 1; at >= 0; at--) if (text.charCodeAt(at) > 0x2ff) return at
  return -1
}

/** Returns the offset of the last word in the text. A key contains no white space. */
const findWordStart = (text: string): number => {
  const start = Math.max(text.lastIndexOf(" "), text.lastIndexOf("\n"), text.lastIndexOf("\t")) + 1
  const word = text.slice(start)
  // A character of a script without blanks also ends a word, except in an address, which may contain a password.
  return word.includes("://") ? start : start + findLastForeign(word) + 1
}

/** Returns the offset from which `text` must be held back. */
const holdFrom = (text: string): number => {
  let hold = findWordStart(text)
  // `; password=` must stay together.
  if (/[;"']\s$/.test(text.slice(Math.max(0, hold - 2), hold))) hold -= 2
  // Examines the unfinished line and the line before it, because a value may be on the line below its name.
  const line = text.lastIndexOf("\n", text.length - 1)
  const before = line === -1 ? 0 : text.lastIndexOf("\n", line - 1) + 1
  const from = Math.max(0, Math.min(before, hold))
  for (const match of text.slice(from).matchAll(name)) {
    const at = from + match.index
    const end = at + match[0].length
    const rest = text.slice(end)
    const inLine = !rest.includes("\n")
    const assigned = inLine && /^[^\r\n]{0,12}[:=]/.test(rest)
    if (assigned || mayFollow.test(rest)) {
      let start = at
      while (start > 0 && !/\s/.test(text.charAt(start - 1))) start--
      // Also holds the characters before the name: quotes, `--`, a semicolon and a blank.
      return Math.min(hold, Math.max(0, start - 2))
    }
  }
  return hold
}

/** Returns the last key block in the text; `end` is `Infinity` if the block is unfinished. */
const findLastBlock = (text: string): { readonly start: number; readonly end: number } | undefined => {
  const start = text.lastIndexOf(blockHead)
  if (start === -1 || !isBlockHead.test(text.slice(start, start + 128))) return undefined
  const end = blockEnd.exec(text.slice(start))
  return { start, end: end === null ? Number.POSITIVE_INFINITY : start + end.index + end[0].length }
}

/**
 * Rules for the redaction of text in pieces: a function that redacts complete text, and a function that returns the
 * offset from which incomplete text must be held back.
 */
interface Rules {
  readonly redact: (text: string) => string
  readonly holdFrom: (text: string) => number
}

const withRules = ({ holdFrom, redact }: Rules): RedactionStream => {
  let held = ""
  /** True inside a key block that is too long to be held; no text is released until the block ends. */
  let swallowing = false

  const releaseHeld = (): string => {
    const block = findLastBlock(held)
    let cut = holdFrom(held)
    if (block !== undefined && cut > block.start && cut < block.end)
      cut = Math.min(block.start, holdFrom(held.slice(0, block.start)))
    if (held.length - cut > maxHeld) {
      swallowing = block?.end === Number.POSITIVE_INFINITY
      cut = held.length
    }
    const out = redact(held.slice(0, cut))
    held = held.slice(cut)
    return out
  }

  const swallowBlock = (): string => {
    const end = blockEnd.exec(held)
    if (end === null) {
      held = held.slice(-128)
      return ""
    }
    swallowing = false
    held = held.slice(end.index + end[0].length)
    return releaseHeld()
  }

  return {
    push: (piece) => {
      held += piece
      return swallowing ? swallowBlock() : releaseHeld()
    },
    end: () => {
      const out = swallowing ? "" : redact(held)
      held = ""
      return out
    }
  }
}

/**
 * Returns the last offset at which the text can be cut without splitting a key or a value that the runtime holds.
 * Either may begin before the other.
 */
const holdBoth =
  (holdFrom: Rules["holdFrom"], secrets: Registry) =>
  (text: string): number => {
    let at = holdFrom(text)
    for (;;) {
      const cut = secrets.cut(text, at)
      if (cut === at) return at
      at = Math.min(cut, holdFrom(text.slice(0, cut)))
    }
  }

/** Creates a stream that redacts like `redactText`. By default it uses the secrets of the current runtime. */
export const make = (secrets = getCurrentRegistry()): RedactionStream =>
  withRules({ redact: (text) => redactText(text, secrets), holdFrom: holdBoth(holdFrom, secrets) })

/** Creates a stream that redacts like `redactKeys`. Only the last word or a key block is held. */
export const makeKeys = (secrets = getCurrentRegistry()): RedactionStream =>
  withRules({ redact: (text) => redactKeys(text, secrets), holdFrom: holdBoth(findWordStart, secrets) })
