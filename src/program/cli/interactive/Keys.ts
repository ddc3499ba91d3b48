/**
 * Decoder of terminal input into keys. Pure.
 *
 * Input arrives in arbitrary chunks: the beginning of a sequence is held until the sequence is complete. A paste
 * (bracketed paste) is a single key, so that its line ends do not send the line. Keys with several encodings (xterm,
 * rxvt, the Linux console, the kitty protocol, `modifyOtherKeys`) have one name.
 *
 * A report from the terminal about itself (OSC) is not a key; the decoder passes it to a callback.
 *
 * **Gotchas**
 *
 * A lone escape can be distinguished from the beginning of a sequence only by the following input:
 * {@link Decoder.flush} returns it as a key if no input followed.
 */

/** Typed input: characters, pasted text, or the name of a key, prefixed with `ctrl-` and `alt-` for modifiers. */
export type Key =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Paste"; readonly text: string }
  | { readonly _tag: "Key"; readonly name: string }

/** Sequence that turns bracketed paste on. */
export const pasteOn = "\u001b[?2004h"
/** Sequence that turns bracketed paste off. */
export const pasteOff = "\u001b[?2004l"

const pasteEnd = "\u001b[201~"

const finals: Readonly<Record<string, string>> = {
  A: "up",
  B: "down",
  C: "right",
  D: "left",
  E: "clear",
  F: "end",
  H: "home",
  M: "enter",
  Z: "backtab"
}

const numbered: Readonly<Record<string, string>> = {
  1: "home",
  3: "delete",
  4: "end",
  5: "pageup",
  6: "pagedown",
  7: "home",
  8: "end"
}

const controls: Readonly<Record<string, string>> = {
  "\r": "enter",
  "\n": "ctrl-j",
  "\t": "tab",
  "\b": "ctrl-h",
  "\u007f": "backspace",
  "\u001b": "escape",
  "\u0000": "ctrl-space",
  "\u001c": "ctrl-\\",
  "\u001d": "ctrl-]",
  "\u001e": "ctrl-^",
  "\u001f": "ctrl-_"
}

const formatControlName = (char: string): string =>
  controls[char] ?? `ctrl-${String.fromCharCode(char.charCodeAt(0) + 96)}`

/** Formats the name of a key with modifiers. Shift is included only if it makes a different key. */
const formatModifiedName = (name: string, modifier: number): string => {
  const bits = Math.max(0, modifier - 1)
  const shift = (bits & 1) !== 0 && name === "enter" ? "shift-" : ""
  return `${(bits & 4) === 0 ? "" : "ctrl-"}${(bits & 2) === 0 ? "" : "alt-"}${shift}${name}`
}

/** Returns the name of a key that is reported by its character (the kitty protocol). */
const toKeyName = (code: number): string => {
  if (code === 13 || code === 57414) return "enter"
  const char = String.fromCodePoint(Math.min(code, 0x10ffff))
  return code < 32 || code === 127 ? formatControlName(char) : char
}

const findSequenceName = (parameters: string, final: string): string | undefined => {
  const [first = "", second = "", third = ""] = parameters.split(";")
  const modifier = Number(second.split(":")[0] || 1)
  if (final === "u") return formatModifiedName(toKeyName(Number(first.split(":")[0])), modifier)
  if (final === "~") {
    if (first === "27") return formatModifiedName(toKeyName(Number(third)), modifier)
    const name = numbered[first]
    return name === undefined ? undefined : formatModifiedName(name, modifier)
  }
  const name = finals[final]
  return name === undefined ? undefined : formatModifiedName(name, modifier)
}

/** Matches the body of a sequence after its escape, or the beginning of a body. */
const sequence = /^(?:\[([\d;:<=>?]*)([A-Za-z~^$@])|O([A-Za-z]))/u
const sequenceBegun = /^(?:\[[\d;:<=>?]*|O)?$/u

/** Final characters with which rxvt encodes a modifier. */
const rxvt: Readonly<Record<string, number>> = { "^": 5, $: 2, "@": 6 }

/** Consumes input and returns the complete keys. */
interface Decoder {
  readonly push: (input: string) => ReadonlyArray<Key>
  /** True while a lone escape waits for more input. */
  readonly isEscape: () => boolean
  /** Returns the waiting escape as a key if no input follows it. */
  readonly flush: () => ReadonlyArray<Key>
}

interface Step {
  readonly key: Key | undefined
  readonly length: number
  readonly report?: string
}

/** Matches a report from the terminal, or the beginning of one. Longer text is not a report. */
const report = new RegExp(String.raw`^\](\d[^\u0007\u001b]*)(?:\u0007|\u001b\\)`, "u")
const reportBegun = new RegExp(String.raw`^\](?:\d[^\u0007\u001b]*\u001b?)?$`, "u")
const longestReport = 200

const makeKeyStep = (name: string, length: number): Step => ({ key: { _tag: "Key", name }, length })

const decodeEscape = (input: string): Step | undefined => {
  const rest = input.slice(1)
  // Two escapes are two key presses, unless a sequence follows.
  if (rest === "\u001b") return undefined
  if (sequenceBegun.test(rest) || (rest.length < longestReport && reportBegun.test(rest))) return undefined
  const told = report.exec(rest)
  if (told !== null) return { key: undefined, length: 1 + told[0].length, report: told[1] ?? "" }
  const found = sequence.exec(rest)
  if (found !== null) {
    const [all, parameters = "", final = "", single = ""] = found
    const modifier = rxvt[final]
    const name =
      modifier === undefined
        ? findSequenceName(parameters, final + single)
        : formatModifiedName(numbered[parameters] ?? "", modifier)
    return name === undefined ? { key: undefined, length: 1 + all.length } : makeKeyStep(name, 1 + all.length)
  }
  const next = input.charAt(1)
  if (next === "\u001b") return { key: undefined, length: 1 }
  const code = input.codePointAt(1) ?? 0
  const char = String.fromCodePoint(code)
  const name = code < 32 || code === 127 ? formatControlName(char) : char
  return makeKeyStep(`alt-${name}`, 1 + char.length)
}

const isEscapes = (input: string): boolean => input === "\u001b" || input === "\u001b\u001b"

const printable = /^[^\p{Cc}]+/u

const decodeStep = (input: string): Step | undefined => {
  const first = input.charAt(0)
  if (first === "\u001b") return decodeEscape(input)
  const text = printable.exec(input)?.[0]
  if (text !== undefined) return { key: { _tag: "Text", text }, length: text.length }
  return input.charCodeAt(0) >= 0x80 ? { key: undefined, length: 1 } : makeKeyStep(formatControlName(first), 1)
}

/** Creates a decoder. `told` is called with each report from the terminal. */
export const make = (told: (report: string) => void = () => undefined): Decoder => {
  let input = ""
  let pasted: string | undefined

  const readPaste = (): Key | undefined => {
    const begun = pasted ?? ""
    const text = begun + input
    // The end marker may be split between two pieces, but cannot start earlier.
    const end = text.indexOf(pasteEnd, Math.max(0, begun.length - pasteEnd.length))
    input = ""
    if (end < 0) {
      pasted = text
      return undefined
    }
    pasted = undefined
    input = text.slice(end + pasteEnd.length)
    return { _tag: "Paste", text: text.slice(0, end) }
  }

  return {
    isEscape: () => pasted === undefined && isEscapes(input),
    flush: () => {
      if (pasted !== undefined || !isEscapes(input)) return []
      const keys = Array.from(input, (): Key => ({ _tag: "Key", name: "escape" }))
      input = ""
      return keys
    },
    push: (piece) => {
      input += piece
      const keys: Array<Key> = []
      while (input !== "") {
        if (pasted !== undefined) {
          const key = readPaste()
          if (key === undefined) break
          keys.push(key)
          continue
        }
        if (input.startsWith("\u001b[200~")) {
          input = input.slice(6)
          pasted = ""
          continue
        }
        const next = decodeStep(input)
        if (next === undefined) break
        input = input.slice(next.length)
        if (next.report !== undefined) told(next.report)
        if (next.key !== undefined) keys.push(next.key)
      }
      return keys
    }
  }
}
