/**
 * Terminals that a client only shows: commands run in the agent's own environment, and the client is sent what they
 * write, piece by piece, in `_meta` of the updates of their calls.
 *
 * **Details**
 *
 * | `_meta` of | field |
 * | --- | --- |
 * | `tool_call` | `terminal_info: { terminal_id, cwd }` |
 * | `tool_call_update` | `terminal_output: { terminal_id, data }`, which is appended |
 * | the last `tool_call_update` | `terminal_exit: { terminal_id, exit_code, signal }` |
 *
 * It is an extension of the protocol, which a client announces by `_meta.terminal_output: true` in its capabilities. A
 * running command repeatedly reports the end of its output: the new part is appended, after a mark if output is
 * missing.
 *
 * Source: Agent Client Protocol, extensibility; Zed, display-only terminals.
 */
import type { ClientCapabilities } from "@agentclientprotocol/sdk/unstable"

/** Returns true for a client that shows terminals of the agent. */
export const isShown = ({ _meta }: ClientCapabilities): boolean => _meta?.["terminal_output"] === true

/** Characters that are sent while a command runs; then its end is waited for. */
const mostLive = 256_000

/** Characters retained from the end of the sent output to locate the next piece. */
const remembered = 4_000

/** Minimum number of characters that two texts must share to count as continuous. */
const leastShared = 16

/** Characters from the end of the sent output that are searched for in the whole output. */
const anchorChars = 256

const missing = "\n[...]\n"

/** Returns the part that a text overlapping the end of `shown` adds to it, or undefined if they do not overlap. */
const findAddition = (shown: string, next: string): string | undefined => {
  if (shown === "") return next
  const least = Math.min(leastShared, shown.length, next.length)
  for (let shared = Math.min(shown.length, next.length); shared >= least; shared--) {
    if (shown.endsWith(next.slice(0, shared))) return next.slice(shared)
  }
  return undefined
}

/** Returns the part of the whole output after the shown part, or `undefined` if the shown part is not found. */
const findRemainder = (shown: string, whole: string): string | undefined => {
  if (whole.startsWith(shown)) return whole.slice(shown.length)
  if (shown.trimEnd() === whole) return ""
  const anchor = shown.slice(-anchorChars)
  const at = anchor.length < leastShared ? -1 : whole.lastIndexOf(anchor)
  return at < 0 ? undefined : whole.slice(at + anchor.length)
}

/** End of a command. */
export interface CommandEnd {
  readonly output: string
  readonly exitCode: number
}

/** A terminal of one call. */
export interface AcpTerminal {
  /** Takes the end of an output that continues. */
  readonly goesOn: (end: string) => Readonly<Record<string, unknown>> | undefined
  /** Takes the whole output of a command that ended, and its exit code, or undefined if they are unknown. */
  readonly ended: (end: CommandEnd | undefined) => Readonly<Record<string, unknown>>
}

/** Returns the metadata of a call that has a terminal. */
export const makeTerminalInfo = (terminalId: string, cwd: string): Readonly<Record<string, unknown>> => ({
  terminal_info: { terminal_id: terminalId, cwd }
})

/** Makes the terminal of a call. */
export const make = (terminalId: string): AcpTerminal => {
  let shown = ""
  let sent = 0
  const appendOutput = (piece: string | undefined, otherwise: string): Readonly<Record<string, unknown>> => {
    const data = piece ?? `${missing}${otherwise}`
    if (data === "") return {}
    sent += data.length
    shown = (piece === undefined ? otherwise : `${shown}${piece}`).slice(-remembered)
    return { terminal_output: { terminal_id: terminalId, data } }
  }
  return {
    goesOn: (end) => {
      if (sent > mostLive) return undefined
      const meta = appendOutput(findAddition(shown, end), end)
      return "terminal_output" in meta ? meta : undefined
    },
    ended: (end) => ({
      ...(end === undefined ? {} : appendOutput(findRemainder(shown, end.output), end.output)),
      terminal_exit: { terminal_id: terminalId, exit_code: end?.exitCode ?? null, signal: null }
    })
  }
}
