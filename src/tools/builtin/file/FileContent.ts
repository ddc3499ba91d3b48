/** Reads a file in pieces through one reused buffer, so that a file of any size needs the same memory. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import { redactStart } from "../../../base/domain/Redaction.ts"
import { getCurrentRegistry as currentSecrets } from "../../../base/domain/Secrets.ts"
import * as Problem from "./Problem.ts"

// Detects files that are not text, by name or by their first bytes. Pure.

const kinds: Record<string, ReadonlyArray<string>> = {
  "an image": ["avif", "bmp", "gif", "heic", "ico", "jpeg", "jpg", "png", "psd", "tif", "tiff", "webp"],
  "audio or video": ["aac", "avi", "flac", "m4a", "mkv", "mov", "mp3", "mp4", "ogg", "opus", "wav", "webm"],
  "an archive": ["7z", "bz2", "gz", "jar", "rar", "tar", "tgz", "war", "whl", "xz", "zip", "zst"],
  "a PDF document": ["pdf"],
  "an old office document": ["doc", "ppt", "xls"],
  "an OpenDocument file": ["odp", "ods", "odt"],
  "compiled code": ["a", "class", "dll", "dylib", "exe", "o", "pyc", "pyd", "so", "wasm"],
  "a database": ["db", "sqlite", "sqlite3"],
  "a font": ["eot", "otf", "ttf", "woff", "woff2"],
  "a key store": ["jks", "kdbx", "keystore", "p12", "pfx"]
}

const byExtension: ReadonlyMap<string, string> = new Map(
  Object.entries(kinds).flatMap(([kind, extensions]) => extensions.map((extension) => [extension, kind] as const))
)

/** Returns the kind of a non-text file, by its name. */
export const classifyFileName = (name: string): string | undefined => {
  const dot = name.lastIndexOf(".")
  return dot <= 0 ? undefined : byExtension.get(name.slice(dot + 1).toLowerCase())
}

/** Number of bytes from the beginning of a file that {@link classifyBytes} examines. */
const sniffLength = 8_192

const isUtf16 = (bytes: Uint8Array): boolean =>
  bytes.length >= 2 && ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff))

/** `-----BEGIN`, which starts a PEM file. */
const pem = new TextEncoder().encode("-----BEGIN ")
const privateKey = /^-----BEGIN ([A-Z0-9 ]+ )?PRIVATE KEY/

/** Returns the kind of a file that cannot be shown as text, by its first bytes. */
export const classifyBytes = (bytes: Uint8Array): string | undefined => {
  if (isUtf16(bytes)) return "UTF-16 text (convert it to UTF-8 first, for example with iconv)"
  if (bytes.subarray(0, sniffLength).includes(0)) return "a binary file"
  if (pem.every((byte, index) => bytes[index] === byte)) {
    return privateKey.test(new TextDecoder().decode(bytes.subarray(0, 64))) ? "a private key" : undefined
  }
  return undefined
}

/** Size of a piece, in bytes. */
const pieceSize = 64 * 1024

/**
 * Passes the bytes of a file to `visit`, in order, until `visit` returns `false` or the file ends.
 *
 * **Gotchas**
 *
 * The array passed to `visit` is reused for the next piece.
 */
export const forEachPiece: (
  real: string,
  visit: (bytes: Uint8Array) => boolean
) => Effect.Effect<void, PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(function* (real, visit) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fs.open(real)
  const buffer = new Uint8Array(pieceSize)
  for (let size = yield* file.read(buffer); size > 0; size = yield* file.read(buffer)) {
    if (!visit(buffer.subarray(0, size))) return
  }
}, Effect.scoped)

/** Reads a whole file. Fails if it has more than `max` bytes. */
export const readWhole: (
  real: string,
  given: string,
  max: number
) => Effect.Effect<Uint8Array, PlatformError | Problem.Problem, FileSystem.FileSystem> = Effect.fnUntraced(
  function* (real, given, max) {
    const fs = yield* FileSystem.FileSystem
    const { size } = yield* fs.stat(real)
    return size > max
      ? yield* Problem.fail(`${given} has ${size} bytes, more than the ${max} that can be handled as a whole`, {
          hint: "Work on it with a command line tool in the terminal."
        })
      : yield* fs.readFile(real)
  }
)

// The text of a file for editing. The byte order mark and line endings are removed for the edit and restored afterward,
// so that an edit changes only the text that it names. Pure.
//
// **Details**
//
// A file in which every line ends with CRLF is edited with LF and written with CRLF. A file with mixed line endings is
// edited unchanged. A file of mixed line ends is edited as it is.

/** A file's text, with its byte order mark and line ends. */
export interface Text {
  readonly text: string
  readonly bom: boolean
  readonly crlf: boolean
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const encoder = new TextEncoder()
const mark = "\uFEFF"

/**
 * Decodes UTF-8 bytes. Returns `undefined` if they are not valid UTF-8, because an edit would then change other bytes
 * too.
 */
export const decode = (bytes: Uint8Array): Text | undefined => {
  let whole: string
  try {
    whole = decoder.decode(bytes)
  } catch {
    return undefined
  }
  const bom = whole.startsWith(mark)
  const text = bom ? whole.slice(1) : whole
  const crlf = text.includes("\r\n") && !/(^|[^\r])\n/.test(text)
  return { text: crlf ? text.replaceAll("\r\n", "\n") : text, bom, crlf }
}

/** Encodes a text with its original byte order mark and line endings. */
export const encode = ({ text, bom, crlf }: Text): Uint8Array =>
  encoder.encode((bom ? mark : "") + (crlf ? text.replaceAll("\n", "\r\n") : text))

/** Converts text written by a model to the line endings in which `file` is edited. */
export const adoptLineEnds = (file: Text, written: string): string =>
  file.crlf || !file.text.includes("\r") ? written.replaceAll("\r\n", "\n") : written

/** Creates a text without a byte order mark, with LF line endings. */
export const makePlainText = (text: string): Text => ({ text, bom: false, crlf: false })

// Reads a window of numbered lines from a stream of bytes. The memory used depends on the window and not on the file.
//
// **Details**
//
// A line consists of its number, right-aligned to six columns, a bar and the text: `     1|text`. Six columns keep the
// text of a file of up to 999 999 lines aligned, so that the model sees the actual indentation. A missing final newline
// is preserved. CRLF is shown as LF, a byte order mark is not shown, and bytes that are not UTF-8 are shown as U+FFFD.
// Lines before and after the window are only counted.
//
// Source: `hermes-product.md` §2.3 (`N|text`); the observability document prints the result of a read.

/** Range of lines, and the limits of each line. */
export interface WindowOptions {
  /** Number of the first line, starting at 1. */
  readonly offset: number
  readonly limit: number
  /**
   * Maximum number of characters of the numbered text. If it is exceeded, `overflow` is set and the remaining lines are
   * only counted.
   */
  readonly maxChars: number
  /** Maximum number of characters of one line. The rest of the line is omitted and the cut is marked. */
  readonly maxLineChars: number
  /** Value of `Redaction.RedactSecrets`. A line is redacted before it is cut. */
  readonly redact: boolean
}

/** Lines that were read. */
export interface LineWindow {
  readonly content: string
  /** Number of lines in `content`. */
  readonly shown: number
  readonly totalLines: number
  readonly overflow: boolean
  /** Numbers of the lines that were cut. */
  readonly cut: ReadonlyArray<number>
  /** True if a shown line contains bytes that are not valid UTF-8. */
  readonly invalid: boolean
}

/** Reads bytes in pieces. The caller may reuse a piece afterward. */
interface LineReader {
  readonly push: (bytes: Uint8Array) => void
  readonly end: () => LineWindow
}

/** Number of lines that are examined before and after a window. A secret that spans lines has fewer. */
const nearLines = 64
const newline = 0x0a
const lenient = new TextDecoder("utf-8", { ignoreBOM: true })
/**
 * A UTF-16 unit takes at most three bytes of UTF-8. One more character distinguishes a cut line from a complete one.
 */
const estimateBytes = (chars: number): number => chars * 3 + 4

const formatNumberedLine = (line: number, text: string): string => `${String(line).padStart(6)}|${text}`

/**
 * Reads a window of numbered lines from a stream of bytes. The memory used depends on the window and not on the file.
 */
export const makeLineReader = ({ offset, limit, maxChars, maxLineChars, redact }: WindowOptions): LineReader => {
  const last = offset + limit - 1
  const kept = new Uint8Array(estimateBytes(maxLineChars))
  const lines: Array<string> = []
  /** Lines before and after the window that may contain another part of a value in the window. */
  const before: Array<string> = []
  const behind: Array<string> = []
  const cut: Array<number> = []
  let chars = 0
  let overflow = false
  let invalid = false
  /** Number of the line being read, its bytes stored so far, and its total bytes. */
  let current = 1
  let held = 0
  let length = 0
  let endsWithNewline = false

  const decodeLine = (bytes: Uint8Array): string => {
    try {
      return decoder.decode(bytes)
    } catch {
      // A line that exceeds the buffer may be cut inside a character, which does not make the line invalid.
      invalid ||= length <= kept.length
      return lenient.decode(bytes)
    }
  }

  const isNear = (): boolean => redact && current >= offset - nearLines && current <= last + nearLines

  /**
   * Renders the window without parts of values that extend beyond it, because such parts cannot be recognized as
   * secrets.
   */
  const renderContent = (): string => {
    const start = before.reduce((sum, line) => sum + line.length + 1, 0)
    const text = lines.join("\n")
    const inside =
      before.length + behind.length === 0
        ? text
        : currentSecrets().within([...before, text, ...behind].join("\n"), start, start + text.length)
    return lines.length === 0
      ? ""
      : inside
          .split("\n")
          .map((line, index) => formatNumberedLine(offset + index, line))
          .join("\n")
  }

  const finishLine = (): void => {
    if (current >= offset && current <= last && !overflow) {
      let text = decodeLine(kept.subarray(0, held))
      if (current === 1 && text.startsWith("\uFEFF")) text = text.slice(1)
      if (text.endsWith("\r")) text = text.slice(0, -1)
      if (text.length > maxLineChars) {
        const start = redact ? redactStart(text, maxLineChars) : text.slice(0, maxLineChars)
        text = `${start.replace(/[\uD800-\uDBFF]$/, "")}… [line cut: ${length} bytes]`
        cut.push(current)
      }
      chars += formatNumberedLine(current, text).length + 1
      if (chars > maxChars) overflow = true
      else lines.push(text)
    } else if (isNear()) {
      const neighbours = current < offset ? before : behind
      neighbours.push(lenient.decode(kept.subarray(0, held)))
    }
    current++
    held = 0
    length = 0
  }

  const storeBytes = (bytes: Uint8Array, from: number, to: number): void => {
    if ((current >= offset && current <= last) || isNear()) {
      const room = Math.min(to - from, kept.length - held)
      kept.set(bytes.subarray(from, from + room), held)
      held += room
    }
    length += to - from
  }

  return {
    push: (bytes) => {
      let from = 0
      for (let at = bytes.indexOf(newline); at !== -1; at = bytes.indexOf(newline, from)) {
        storeBytes(bytes, from, at)
        finishLine()
        from = at + 1
      }
      storeBytes(bytes, from, bytes.length)
      if (bytes.length > 0) endsWithNewline = from === bytes.length
    },
    end: () => {
      if (length > 0) finishLine()
      const totalLines = current - 1
      const closed = lines.length > 0 && (offset + lines.length - 1 < totalLines || endsWithNewline)
      return {
        content: renderContent() + (closed ? "\n" : ""),
        shown: lines.length,
        totalLines,
        overflow,
        cut,
        invalid
      }
    }
  }
}
