/**
 * Finds secrets in addresses, in plain text and in encoded forms.
 *
 * **Details**
 *
 * The search covers the address as written (parsing lowercases the host) and as sent, both with all layers of
 * percent-encoding removed; decoded base64 and hexadecimal words in these forms; and, for values that the runtime
 * holds, the text without the punctuation that could split a value into labels, folders and parameters.
 *
 * Pure, bounded, never throws.
 *
 * **Gotchas**
 *
 * A model can be instructed to encode in unforeseen ways. This prevents accidental leaks and common tricks; the
 * question about the host is the security boundary.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import { redactText } from "../../base/domain/Redaction.ts"
import { getCurrentRegistry } from "../../base/domain/Secrets.ts"

/** Maximum number of layers of percent-encoding that are decoded, and of characters of an address that are examined. */
const [maxRounds, maxChars] = [4, 16_384]

const decodeLatin1 = (bytes: Uint8Array): string => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")

/** Decodes one layer of percent-encoding; other text is unchanged. */
const decodePercent = (text: string): string =>
  text.replace(/(?:%[0-9a-f]{2})+/gi, (codes) => {
    const bytes = Uint8Array.from(codes.slice(1).split("%"), (code) => Number.parseInt(code, 16))
    const decoded = new TextDecoder().decode(bytes)
    return decoded.includes("\uFFFD") ? decodeLatin1(bytes) : decoded
  })

const decodeAll = (text: string): ReadonlyArray<string> => {
  const forms = [text]
  for (let round = 0; round < maxRounds; round++) {
    const last = forms.at(-1) ?? text
    const decoded = decodePercent(last)
    if (decoded === last) break
    forms.push(decoded)
  }
  return forms
}

/** Minimum length of an encoded word; a shorter word cannot contain a key. */
const shortestWord = 16

const decodeHex = (word: string): ReadonlyArray<string> =>
  /^[0-9a-f]+$/i.test(word)
    ? [decodeLatin1(Uint8Array.from(word.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)))]
    : []

/** Decodes a word at each of the four offsets at which a base64 group may begin. */
const decodeBase64 = (word: string): ReadonlyArray<string> =>
  [0, 1, 2, 3].flatMap((offset) => {
    const letters = word.slice(offset).replaceAll("-", "+").replaceAll("_", "/")
    const whole = letters.length % 4 === 1 ? letters.slice(0, -1) : letters
    const decoded = Result.getSuccess(Base64.decode(whole.padEnd(Math.ceil(whole.length / 4) * 4, "=")))
    return decoded._tag === "Some" ? [decodeLatin1(decoded.value)] : []
  })

/**
 * Returns the readable texts that base64 and hexadecimal words encode. A slash is treated both as a separator and as a
 * base64 character.
 */
const decodeWords = (text: string): ReadonlyArray<string> =>
  [...(text.includes("/") ? (text.match(/[\w+/-]+/g) ?? []) : []), ...(text.match(/[\w+-]+/g) ?? [])]
    .filter((word) => word.length >= shortestWord)
    .flatMap((word) => [...decodeHex(word), ...decodeBase64(word)])
    .flatMap((decoded) => decoded.match(/[ -~]{8,}/g) ?? [])

/**
 * Returns true if one of the texts, such as an address as written and as sent, contains a secret: a value that the
 * runtime holds, or a key of a known shape.
 */
export const hasSecret = (...texts: ReadonlyArray<string>): boolean => {
  const secrets = getCurrentRegistry()
  const forms = [...new Set(texts.flatMap((text) => decodeAll(text.slice(0, maxChars))))]
  const isSecret = (text: string): boolean => redactText(text, secrets) !== text
  if (forms.some((form) => isSecret(form) || decodeWords(form).some(isSecret))) return true
  return forms.some((form) => {
    // The joined parts of a value that is spread over an address, with and without parameter names.
    const joined = form.replaceAll(/[./?&=#:,;|~ ]/g, "")
    const unnamed = form.replaceAll(/[?&][^=&]{0,16}=/g, "").replaceAll(/[./?&=#:,;|~ ]/g, "")
    return secrets.mask(joined) !== joined || secrets.mask(unnamed) !== unnamed
  })
}
