/**
 * Pure functions that interpret the bytes of a SQLite database file and of its write-ahead log for a repair. They
 * detect damage before SQLite opens a file, build a header for a file with a damaged header, and list the pages in a
 * log.
 *
 * **Details**
 *
 * The layout follows <https://www.sqlite.org/fileformat2.html>: sections 1.3 (header) and 4 (log). Numbers are
 * big-endian.
 */

/** Size of the header of a database, in bytes. */
export const headerSize = 100

/** Size of the header of a log, and of the header before each page in the log, in bytes. */
export const [logHeaderSize, frameHeaderSize] = [32, 24] as const

const magic = new TextEncoder().encode("SQLite format 3\0")

const toView = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const isPageSize = (size: number): boolean => size >= 512 && size <= 65_536 && (size & (size - 1)) === 0

/** Tests whether a header begins with the 16-byte magic string of SQLite databases. */
export const hasMagic = (header: Uint8Array): boolean =>
  header.length >= magic.length && magic.every((byte, index) => header[index] === byte)

/** Reads the page size in a header, or returns `undefined` if it is invalid. */
const readPageSize = (header: Uint8Array): number | undefined => {
  if (header.length < 18) return undefined
  const stored = toView(header).getUint16(16)
  const size = stored === 1 ? 65_536 : stored
  return isPageSize(size) ? size : undefined
}

/**
 * Tests whether a page is a b-tree page of the given size: it has a valid kind, and all its cells are in the cell
 * content area.
 */
const isTreePage = (page: Uint8Array, size: number): boolean => {
  const kind = page[0] ?? 0
  if (kind !== 2 && kind !== 5 && kind !== 10 && kind !== 13) return false
  const view = toView(page)
  const cells = view.getUint16(3)
  const content = view.getUint16(5) || 65_536
  const pointers = kind < 8 ? 12 : 8
  if (cells === 0 || content >= size || pointers + cells * 2 > content) return false
  for (let cell = 0; cell < cells; cell++) {
    const at = view.getUint16(pointers + cell * 2)
    if (at < content || at >= size) return false
  }
  return true
}

/**
 * Guesses the page size of a file without a readable header from a sample of its beginning: the size for which most
 * pages are b-tree pages. With a smaller size, cells would be outside their page; with a larger size, half of the pages
 * would be missed.
 */
const findPageSize = (sample: Uint8Array): number => {
  let best = { size: 4096, count: 0 }
  for (let size = 512; size <= 65_536; size *= 2) {
    let count = 0
    for (let at = size; at + size <= sample.length; at += size)
      if (isTreePage(sample.subarray(at, at + size), size)) count++
    if (count > best.count) best = { size, count }
  }
  return best.size
}

/** State of a file as detected before SQLite opens it. */
export interface FileState {
  /** Description of the damage for the user, or `undefined` if SQLite can open the file. */
  readonly problem: string | undefined
  readonly pageSize: number
}

const cutOff = "it is cut off"

/** Tests whether a file ends before its last page. */
export const isCutOff = ({ problem }: FileState): boolean => problem === cutOff

/** Inspects a file by its beginning and its size. */
export const inspectFile = (sample: Uint8Array, size: number): FileState => {
  const stored = readPageSize(sample)
  if (size < headerSize) return { problem: size === 0 ? "it is empty" : cutOff, pageSize: 4096 }
  if (!hasMagic(sample) || stored === undefined)
    return { problem: "its header is damaged", pageSize: findPageSize(sample) }
  const view = toView(sample)
  const isCountValid = view.getUint32(24) === view.getUint32(92)
  const isCut = size % stored !== 0 || (isCountValid && view.getUint32(28) * stored > size)
  return { problem: isCut ? cutOff : undefined, pageSize: stored }
}

/**
 * Creates a header with which SQLite can read the pages of a file. The application id is retained if the old header was
 * intact; free pages and the log are dropped.
 */
export const makeHeader = (damaged: Uint8Array, pageSize: number, pages: number, applicationId: number): Uint8Array => {
  const header = new Uint8Array(headerSize)
  const view = toView(header)
  header.set(magic)
  view.setUint16(16, pageSize === 65_536 ? 1 : pageSize)
  // These values select a rollback journal and no reserved bytes. The payload fractions are prescribed by the format.
  header.set([1, 1, 0, 64, 32, 32], 18)
  view.setUint32(24, 1)
  view.setUint32(28, pages)
  view.setUint32(40, 1)
  view.setUint32(44, 4)
  view.setUint32(56, 1)
  view.setUint32(68, hasMagic(damaged) && damaged.length >= headerSize ? toView(damaged).getUint32(68) : applicationId)
  view.setUint32(92, 1)
  view.setUint32(96, 3_045_000)
  return header
}

/** Header of a log. */
export interface LogHeader {
  readonly pageSize: number
  readonly isBigEndian: boolean
  readonly salts: readonly [number, number]
  readonly checksum: Checksum
}

/** The two running checksums of a log. */
export type Checksum = readonly [number, number]

/** Adds bytes to the checksums of a log, eight at a time. */
const addChecksum = (bytes: Uint8Array, isBigEndian: boolean, [first, second]: Checksum): Checksum => {
  const view = toView(bytes)
  let [a, b] = [first, second]
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    a = (a + view.getUint32(at, !isBigEndian) + b) >>> 0
    b = (b + view.getUint32(at + 4, !isBigEndian) + a) >>> 0
  }
  return [a, b]
}

/** Reads the header of a log, or returns `undefined` if it is damaged. */
export const readLogHeader = (bytes: Uint8Array): LogHeader | undefined => {
  if (bytes.length < logHeaderSize) return undefined
  const view = toView(bytes)
  const mark = view.getUint32(0)
  const pageSize = view.getUint32(8)
  if ((mark & 0xfffffffe) >>> 0 !== 0x377f0682 || !isPageSize(pageSize)) return undefined
  const isBigEndian = (mark & 1) === 1
  const checksum = addChecksum(bytes.subarray(0, 24), isBigEndian, [0, 0])
  if (checksum[0] !== view.getUint32(24) || checksum[1] !== view.getUint32(28)) return undefined
  return { pageSize, isBigEndian, salts: [view.getUint32(16), view.getUint32(20)], checksum }
}

/** A page in a log. */
export interface Frame {
  readonly page: number
  /**
   * Number of pages in the database after the transaction that this frame ends, or 0 if the frame does not end a
   * transaction.
   */
  readonly pagesAfter: number
  readonly checksum: Checksum
}

/** Reads a frame of a log with its page. Returns `undefined` if there is no complete frame. */
export const readFrame = (bytes: Uint8Array, log: LogHeader, before: Checksum): Frame | undefined => {
  if (bytes.length < frameHeaderSize + log.pageSize) return undefined
  const view = toView(bytes)
  if (view.getUint32(8) !== log.salts[0] || view.getUint32(12) !== log.salts[1]) return undefined
  const ofHeader = addChecksum(bytes.subarray(0, 8), log.isBigEndian, before)
  const checksum = addChecksum(
    bytes.subarray(frameHeaderSize, frameHeaderSize + log.pageSize),
    log.isBigEndian,
    ofHeader
  )
  if (checksum[0] !== view.getUint32(16) || checksum[1] !== view.getUint32(20)) return undefined
  return { page: view.getUint32(0), pagesAfter: view.getUint32(4), checksum }
}
