/**
 * Reading a file piece by piece through one reused buffer, so that a file of any size costs the same memory.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Problem from "./Problem.ts"

// Detection of files that are not text, by its name or by its first bytes. Pure.

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

/** Names the kind of a file that is no text, by its name. */
export const kindOfName = (name: string): string | undefined => {
  const dot = name.lastIndexOf(".")
  return dot <= 0 ? undefined : byExtension.get(name.slice(dot + 1).toLowerCase())
}

/** Bytes of the beginning of a file that {@link kindOfBytes} looks at. */
const sniffLength = 8_192

const utf16 = (bytes: Uint8Array): boolean =>
  bytes.length >= 2 && (bytes[0] === 0xff && bytes[1] === 0xfe || bytes[0] === 0xfe && bytes[1] === 0xff)

/** `-----BEGIN`, at the start of a file, as of a PEM block. */
const pem = new TextEncoder().encode("-----BEGIN ")
const privateKey = /^-----BEGIN ([A-Z0-9 ]+ )?PRIVATE KEY/

/** Names the kind of a file that is no text to be shown, by its first bytes. */
export const kindOfBytes = (bytes: Uint8Array): string | undefined => {
  if (utf16(bytes)) return "UTF-16 text (convert it to UTF-8 first, for example with iconv)"
  if (bytes.subarray(0, sniffLength).includes(0)) return "a binary file"
  if (pem.every((byte, index) => bytes[index] === byte)) {
    return privateKey.test(new TextDecoder().decode(bytes.subarray(0, 64))) ? "a private key" : undefined
  }
  return undefined
}

/** Bytes per piece. */
const pieceSize = 64 * 1024

/**
 * Shows the bytes of a file to `visit`, in order, until it answers `false` or the file ends.
 *
 * **Gotchas**
 *
 * The array that `visit` gets is reused for the next piece.
 */
export const forEachPiece: (
  real: string,
  visit: (bytes: Uint8Array) => boolean
) => Effect.Effect<void, PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(real, visit) {
    const fs = yield* FileSystem.FileSystem
    const file = yield* fs.open(real)
    const buffer = new Uint8Array(pieceSize)
    for (let size = yield* file.read(buffer); size > 0; size = yield* file.read(buffer)) {
      if (!visit(buffer.subarray(0, size))) return
    }
  },
  Effect.scoped
)

/** A file's bytes as a whole; refused beyond `max` bytes. */
export const whole: (
  real: string,
  given: string,
  max: number
) => Effect.Effect<Uint8Array, PlatformError | Problem.Problem, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(real, given, max) {
    const fs = yield* FileSystem.FileSystem
    const { size } = yield* fs.stat(real)
    return size > max
      ? yield* Problem.fail(`${given} has ${size} bytes, more than the ${max} that can be handled as a whole`, {
        hint: "Work on it with a command line tool in the terminal."
      })
      : yield* fs.readFile(real)
  }
)

// The text of a file for editing: what surrounds it (byte order mark, line ends) is taken off and put back, so that an
// edit changes what it names and nothing else. Pure.
//
// **Details**
//
// A file whose every line ends with CRLF is edited with LF and written with CRLF. A file of mixed line ends is edited as
// it is.

/** A file's text and what surrounds it. */
export interface Text {
  readonly text: string
  readonly bom: boolean
  readonly crlf: boolean
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const encoder = new TextEncoder()
const mark = "\uFEFF"

/** The text of UTF-8 bytes; `undefined` where they are not UTF-8 and an edit would change bytes that it does not name. */
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

/** The bytes of a text in the surroundings that it came from. */
export const encode = ({ text, bom, crlf }: Text): Uint8Array =>
  encoder.encode((bom ? mark : "") + (crlf ? text.replaceAll("\n", "\r\n") : text))

/** A text that a model wrote in the line ends in which `file` is edited. */
export const adopt = (file: Text, written: string): string =>
  file.crlf || !file.text.includes("\r") ? written.replaceAll("\r\n", "\n") : written

/** Plain text: no mark, LF. */
export const plain = (text: string): Text => ({ text, bom: false, crlf: false })
