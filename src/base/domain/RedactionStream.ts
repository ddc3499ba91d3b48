/**
 * {@link redactText} for text that comes in pieces: a secret that is split over two of them is hidden as a whole.
 *
 * **Details**
 *
 * Text is released up to a position after which no secret can have started: after white space, if the line has no name
 * of a secret whose value may still follow, no key block is open, and no value that the runtime holds has started.
 * Prose therefore passes word by word, a line such as `api_key: …` is held until it ends, and a private key until its
 * last line. Held text is bounded: a line of {@link maxHeld} characters is released redacted as far as it was received,
 * and a longer key block is not shown at all.
 *
 * Source: `hermes-llm.md` §19.11.
 */
import { redactKeys, redactText } from "./Redaction.ts"
import { getCurrentRegistry, type Registry } from "./Secrets.ts"

/** Characters that are held back at most. */
export const maxHeld = 16_384

/** Redacts a text piece by piece. */
interface RedactionStream {
  /** Returns the text that is now safe to emit. */
  readonly push: (piece: string) => string
  /** The text is over: the rest. */
  readonly end: () => string
}

const blockHead = "-----BEGIN "
const blockEnd = /-----END [A-Z0-9 ]{1,64}-----/
const isBlockHead = /^-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}(?:PRIVATE KEY(?: BLOCK)?-----)?/

/** Names whose values are secrets, and authentication schemes followed by one. A superset of the names in the rules. */
const name =
  /(?:(?:api|access|secret|private|signing|encryption|master|shared|account|service|ssh)[^A-Za-z0-9\r\n]?keys?|tokens?|secrets?|passw(?:or)?ds?|pwd|passphrase|credentials?|authorization|cookies?|_key|_auth|signature|\bsig|\bbasic|\bbearer)(?:[_-]?(?:value|\d{1,3}))?/gi

/** Behind a name: its value is still to come, or may be. */
const mayFollow = /^(?:\\{0,3}["'])?[\s]{0,8}(?:$|\\?["']?[:=])|^(?:=|[\s]{1,8})\\?["']?[^\s"']*$/

/** The last character of a text that no key has in it, or -1. */
const findLastForeign = (text: string): number => {
  for (let at = text.length - 1; at >= 0; at--) if (text.charCodeAt(at) > 0x2ff) return at
  return -1
}

/** Offset of the last word of a text: no key has white space in it. */
const findWordStart = (text: string): number => {
  const start = Math.max(text.lastIndexOf(" "), text.lastIndexOf("\n"), text.lastIndexOf("\t")) + 1
  const word = text.slice(start)
  // Scripts without blanks end a word too, except in an address, which may have a password in it.
  return word.includes("://") ? start : start + findLastForeign(word) + 1
}

/** The place in `text` from which on it must be held. */
const holdFrom = (text: string): number => {
  let hold = findWordStart(text)
  // `; password=` belongs together.
  if (/[;"']\s$/.test(text.slice(Math.max(0, hold - 2), hold))) hold -= 2
  // The unfinished line and the line before it: a value may be on the line below its name.
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
      // Includes preceding characters: quotes, `--`, a semicolon and a blank.
      return Math.min(hold, Math.max(0, start - 2))
    }
  }
  return hold
}

/** The last key block of a text; its end is infinite when it is still to come. */
const findLastBlock = (text: string): { readonly start: number; readonly end: number } | undefined => {
  const start = text.lastIndexOf(blockHead)
  if (start === -1 || !isBlockHead.test(text.slice(start, start + 128))) return undefined
  const end = blockEnd.exec(text.slice(start))
  return { start, end: end === null ? Number.POSITIVE_INFINITY : start + end.index + end[0].length }
}

/** Rules for text in pieces: how whole text is redacted, and from which position unfinished text is held. */
interface Rules {
  readonly redact: (text: string) => string
  readonly holdFrom: (text: string) => number
}

const withRules = ({ holdFrom, redact }: Rules): RedactionStream => {
  let held = ""
  /** Inside a key block that is too long to be held: nothing is shown until it ends. */
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

/** The last place where neither a key nor a value that the runtime holds is cut: each may begin before the other. */
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

/** Redacts as `redactText` does, with the secrets of the runtime that it is made in. */
export const make = (secrets = getCurrentRegistry()): RedactionStream =>
  withRules({ redact: (text) => redactText(text, secrets), holdFrom: holdBoth(holdFrom, secrets) })

/** `redactKeys` for text that comes in pieces: only the last word is held, and a key block. */
export const makeKeys = (secrets = getCurrentRegistry()): RedactionStream =>
  withRules({ redact: (text) => redactKeys(text, secrets), holdFrom: holdBoth(findWordStart, secrets) })
