/**
 * Reads and writes tar archives (ustar, with the long names of GNU and pax).
 *
 * **Gotchas**
 *
 * An archive that contains links, devices, or paths that lead out of it is rejected as a whole.
 */
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"

/** A file in an archive. */
export interface File {
  /** Relative path, with `/` between its parts. */
  readonly path: string
  readonly bytes: Uint8Array
  readonly isExecutable: boolean
}

const block = 512
const maxFiles = 5_000
const decoder = new TextDecoder()

const readText = (header: Uint8Array, from: number, length: number): string => {
  const field = header.subarray(from, from + length)
  const end = field.indexOf(0)
  return decoder.decode(end === -1 ? field : field.subarray(0, end))
}

/** Reads an octal number; `NaN` for text in another form. */
const readOctal = (header: Uint8Array, from: number, length: number): number => {
  const digits = readText(header, from, length).trim()
  return digits === "" ? 0 : /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number.NaN
}

/** Tests whether the checksum in a header is correct. */
const isHeader = (header: Uint8Array): boolean => {
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0)
  return sum === readOctal(header, 148, 8)
}

/** Reads the name in the records of a pax header: `27 path=a/b\n`. */
const readPaxPath = (body: string): string | undefined => /(?:^|\n)\d+ path=([^\n]*)\n/.exec(`\n${body}`)?.[1]

/** Normalizes a path inside an archive. Returns `undefined` for a path that leads out of the archive. */
const toInnerPath = (path: string): string | undefined => {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".")
  return path.startsWith("/") || /[\\\0]|^[A-Za-z]:/.test(path) || parts.includes("..") ? undefined : parts.join("/")
}

/** One entry of an archive: a file, a directory, a link, or the long name of the next entry. */
interface Entry {
  readonly body: Uint8Array
  readonly kind: string
  /** Offset of the next entry. */
  readonly end: number
}

/** Reads the entry with the given header, which must not be empty. */
const readEntry = (archive: Uint8Array, header: Uint8Array, at: number): Result.Result<Entry, string> => {
  if (!isHeader(header)) return Result.fail("it is not a tar archive, or it is damaged")
  const size = readOctal(header, 124, 12)
  if (Number.isNaN(size) || at + block + size > archive.length)
    return Result.fail("it is damaged: a file in it has no end")
  const body = archive.subarray(at + block, at + block + size)
  return Result.succeed({ body, kind: readText(header, 156, 1), end: at + block + Math.ceil(size / block) * block })
}

/** Reads the name in a header. A preceding long-name entry overrides it. */
const readEntryName = (header: Uint8Array): string => {
  const prefix = readText(header, 257, 5) === "ustar" ? readText(header, 345, 155) : ""
  const name = readText(header, 0, 100)
  return prefix === "" ? name : `${prefix}/${name}`
}

/** Reads all files of an archive. The failure is the reason why the archive is rejected. */
export const read = (archive: Uint8Array): Result.Result<ReadonlyArray<File>, string> => {
  const files: Array<File> = []
  let long: string | undefined
  let at = 0
  while (at + block <= archive.length) {
    const header = archive.subarray(at, at + block)
    if (header.every((byte) => byte === 0)) return Result.succeed(files)
    const entry = readEntry(archive, header, at)
    if (Result.isFailure(entry)) return Result.fail(entry.failure)
    const { body, end, kind } = entry.success
    at = end
    if (kind === "L" || kind === "x") {
      long = kind === "L" ? decoder.decode(body).replace(/\0[^]*$/, "") : (readPaxPath(decoder.decode(body)) ?? long)
      continue
    }
    if (kind === "g") continue
    const name = long ?? readEntryName(header)
    long = undefined
    const path = toInnerPath(name)
    if (path === undefined) return Result.fail(`it has a path that leads out of it: ${name}`)
    if (kind === "5" || path === "") continue
    if (kind !== "0" && kind !== "") return Result.fail(`it has a link or a special file: ${name}`)
    if (files.length === maxFiles) return Result.fail(`it has more than ${maxFiles} files`)
    files.push({ path, bytes: body, isExecutable: (readOctal(header, 100, 8) & 0o100) !== 0 })
  }
  return at === archive.length && files.length > 0
    ? Result.succeed(files)
    : Result.fail("it is not a tar archive, or it is damaged")
}

/** A file to add to an archive. */
export interface NewFile {
  readonly path: string
  readonly bytes: Uint8Array
  /** Time of the last change, in epoch milliseconds. */
  readonly changedAt: number
}

const encoder = new TextEncoder()

/** Maximum length of a name in a header, in bytes. */
const longestName = 100

const makeEntry = (kind: "0" | "x", path: string, { bytes, changedAt }: Omit<NewFile, "path">): Uint8Array => {
  const whole = new Uint8Array(block + Math.ceil(bytes.length / block) * block)
  const put = (value: string | Uint8Array, from: number): void =>
    whole.set(typeof value === "string" ? encoder.encode(value) : value, from)
  const formatOctal = (value: number, width: number): string =>
    `${Math.trunc(value)
      .toString(8)
      .padStart(width - 1, "0")}\0`
  put(encoder.encode(path).subarray(0, longestName), 0)
  put(formatOctal(0o600, 8), 100)
  put(formatOctal(0, 8), 108)
  put(formatOctal(0, 8), 116)
  put(formatOctal(bytes.length, 12), 124)
  put(formatOctal(Math.max(0, changedAt / 1000), 12), 136)
  put(" ".repeat(8), 148)
  put(kind, 156)
  put("ustar\u000000", 257)
  put(
    `${formatOctal(
      whole.subarray(0, block).reduce((total, byte) => total + byte, 0),
      7
    )} `,
    148
  )
  put(bytes, block)
  return whole
}

/** Creates a record of a pax header. The length at its beginning includes the digits of the length itself. */
const makePaxRecord = (name: string, value: string): string => {
  const rest = ` ${name}=${value}\n`
  const length = encoder.encode(rest).length
  const digits = String(length + String(length).length).length
  return `${length + digits}${rest}`
}

const encodeFile = (file: NewFile): Uint8Array => {
  const whole = makeEntry("0", file.path, file)
  // Readers that support pax take the whole name from the preceding entry.
  if (encoder.encode(file.path).length <= longestName) return whole
  const named = makeEntry("x", "name", {
    bytes: encoder.encode(makePaxRecord("path", file.path)),
    changedAt: file.changedAt
  })
  const both = new Uint8Array(named.length + whole.length)
  both.set(named)
  both.set(whole, named.length)
  return both
}

/** Creates an archive from a stream of files. Only the owner may read the extracted files. */
export const write = <E, R>(files: Stream.Stream<NewFile, E, R>): Stream.Stream<Uint8Array, E, R> =>
  Stream.concat(Stream.map(files, encodeFile), Stream.succeed(new Uint8Array(2 * block)))
