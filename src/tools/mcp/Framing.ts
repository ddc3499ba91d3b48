/**
 * Splits the bytes of a server into lines of limited length. A longer line is discarded as it arrives. Its two ends are
 * retained, because one of them identifies the request that it would have answered.
 */

/** One line, or the two ends of a line that was too long. */
export type Line =
  | { readonly _tag: "Line"; readonly text: string }
  | { readonly _tag: "TooLong"; readonly head: string; readonly tail: string }

const newline = 0x0a
const keptBytes = 1024

const decoder = new TextDecoder()

const concatBytes = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}

/** An incomplete line: all of it, or the two ends of a line that is already too long. */
type OpenLine =
  | { readonly _tag: "Short"; readonly parts: Array<Uint8Array>; length: number }
  | { readonly _tag: "Long"; readonly head: Uint8Array; tail: Uint8Array }

const addPiece = (open: OpenLine, piece: Uint8Array, maxBytes: number): OpenLine => {
  if (open._tag === "Long") {
    open.tail = concatBytes([open.tail, piece.slice(-keptBytes)]).slice(-keptBytes)
    return open
  }
  open.parts.push(piece)
  open.length += piece.length
  if (open.length <= maxBytes) return open
  const whole = concatBytes(open.parts)
  return { _tag: "Long", head: whole.slice(0, keptBytes), tail: whole.slice(-keptBytes) }
}

const closeLine = (open: OpenLine): Line =>
  open._tag === "Short"
    ? { _tag: "Line", text: decoder.decode(concatBytes(open.parts)) }
    : { _tag: "TooLong", head: decoder.decode(open.head), tail: decoder.decode(open.tail) }

/** Accepts bytes and returns the lines that they complete. */
export const make = (maxBytes: number): ((chunk: Uint8Array) => ReadonlyArray<Line>) => {
  const openLine = (): OpenLine => ({ _tag: "Short", parts: [], length: 0 })
  let open = openLine()
  return (chunk) => {
    const lines: Array<Line> = []
    let from = 0
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      lines.push(closeLine(addPiece(open, chunk.subarray(from, at), maxBytes)))
      open = openLine()
      from = at + 1
    }
    // The chunk is copied, because the caller may reuse its buffer.
    if (from < chunk.length) open = addPiece(open, chunk.slice(from), maxBytes)
    return lines
  }
}

/** Reads the id of the request that a message answers from the ends of the message. */
export const readAnsweredId = ({
  head,
  tail
}: {
  readonly head: string
  readonly tail: string
}): number | string | undefined => {
  const id =
    /^\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*[,}]/.exec(head)?.[1] ??
    /,\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(tail)?.[1]
  if (id === undefined) return undefined
  return id.startsWith('"') ? id.slice(1, -1) : Number(id)
}
