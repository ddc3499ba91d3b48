/**
 * When a match in a background process's output is worth a notification: at most one per 15 seconds, and none any more
 * from a process that was noisy for three windows in a row. Pure.
 *
 * Source: `hermes-product.md` §2.3.
 */
import { redactText } from "../../../domain/Redaction.ts"
import { current } from "../../../domain/Secrets.ts"
import * as OutputText from "./OutputText.ts"

const windowMillis = 15_000
const maxStrikes = 3

/** State of a watch. */
export interface State {
  /** Matches before this time are not reported. */
  readonly quietUntil: number
  /** Matches that were not reported since the last one that was. */
  readonly suppressed: number
  /** Windows in a row in which a match had to be suppressed. */
  readonly strikes: number
  readonly demoted: boolean
}

/** A watch that has seen nothing. */
export const initial: State = { quietUntil: 0, suppressed: 0, strikes: 0, demoted: false }

/** Decision about a match. */
export type Decision =
  | { readonly _tag: "Notify"; readonly suppressed: number }
  | { readonly _tag: "Demote" }
  | { readonly _tag: "Nothing" }

const nothing: Decision = { _tag: "Nothing" }

/** Judges a match at a time (milliseconds). */
export const onMatch = (state: State, now: number): readonly [State, Decision] => {
  if (state.demoted) return [state, nothing]
  if (now >= state.quietUntil) {
    const strikes = state.suppressed === 0 ? 0 : state.strikes
    return [
      { quietUntil: now + windowMillis, suppressed: 0, strikes, demoted: false },
      { _tag: "Notify", suppressed: state.suppressed }
    ]
  }
  const strikes = state.suppressed === 0 ? state.strikes + 1 : state.strikes
  return strikes >= maxStrikes
    ? [{ ...state, strikes, demoted: true }, { _tag: "Demote" }]
    : [{ ...state, suppressed: state.suppressed + 1, strikes }, nothing]
}

/** Lines that match, and the first pattern that did. */
export interface Match {
  readonly pattern: string
  readonly lines: ReadonlyArray<string>
}

const maxLineChars = 8192
const maxLines = 20
const maxShownChars = 500

/**
 * Cuts a stream of bytes into lines and looks for the patterns (plain text, case matters) in each. A line that has not
 * ended yet (a prompt) is looked at too, and reported once.
 */
export const matcher = (patterns: ReadonlyArray<string>): (chunk: Uint8Array) => Match | undefined => {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  let rest = ""
  let restReported = false
  return (chunk) => {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n")
    let found: string | undefined
    const matched: Array<string> = []
    for (const [index, line] of lines.entries()) {
      const isRest = index === lines.length - 1
      const reported = index === 0 && restReported
      const text = OutputText.stripAnsi(line)
      const pattern = reported ? undefined : patterns.find((pattern) => text.includes(pattern))
      if (isRest) {
        rest = line
        restReported = reported || pattern !== undefined
      }
      if (pattern === undefined) continue
      found ??= pattern
      // Redacted before it is cut, and without what may be the first part of a secret.
      const whole = isRest ? text.slice(0, current().cut(text, text.length)) : text
      if (matched.length < maxLines) matched.push(redactText(whole).slice(0, maxShownChars).trimEnd())
    }
    // A line that never ends is looked at in pieces, so that it takes no more than so much memory.
    if (rest.length > maxLineChars) {
      rest = ""
      restReported = false
    }
    return found === undefined ? undefined : { pattern: found, lines: matched }
  }
}
