/**
 * Display-only terminals of a client. Commands run in the agent's environment. Their output is sent to the client piece
 * by piece, in the field `_meta` of updates.
 *
 * **Details**
 *
 * | `_meta` of | field |
 * | --- | --- |
 * | `tool_call` | `terminal_info: { terminal_id, cwd }` |
 * | `tool_call_update` | `terminal_output: { terminal_id, data }`, which is appended |
 * | the last `tool_call_update` | `terminal_exit: { terminal_id, exit_code, signal }` |
 *
 * This is an extension of the protocol, which a client announces with `_meta.terminal_output: true` in its
 * capabilities. A running command repeatedly reports the end of its output. Only the new part is sent. If some output
 * in between is missing, a mark is inserted before it.
 *
 * Source: Agent Client Protocol, extensibility; Zed, display-only terminals.
 */
import type { ClientCapabilities } from "@agentclientprotocol/sdk/unstable"

/** Returns true if the client displays terminals of the agent. */
export const isShown = ({ _meta }: ClientCapabilities): boolean => _meta?.["terminal_output"] === true

/** Maximum number of characters sent while a command runs. The rest is sent when the command ends. */
const mostLive = 256_000

/** Number of characters at the end of the sent output that are remembered to locate the next piece. */
const remembered = 4_000

/** Minimum number of characters that two pieces of output must share to count as continuous. */
const leastShared = 16

/** Number of characters from the end of the sent output that are searched for in the whole output. */
const anchorChars = 256

const missing = "\n[...]\n"

/**
 * Returns the part of `next` that follows its overlap with the end of `shown`, or `undefined` if they do not overlap.
 */
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

/** Exit information of a command. */
export interface CommandEnd {
  readonly output: string
  readonly exitCode: number
}

/** The terminal of one call. */
export interface AcpTerminal {
  /** Processes the current end of a running command's output. Returns the metadata to send, if any. */
  readonly goesOn: (end: string) => Readonly<Record<string, unknown>> | undefined
  /**
   * Processes the end of a command. `end` contains the whole output and the exit code, if they are known. Returns the
   * metadata to send.
   */
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
