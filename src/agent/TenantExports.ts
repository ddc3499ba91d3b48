/**
 * Removal of a tenant from exported files: documents of sessions, streams with the events of many sessions, and the
 * images of both.
 *
 * **Details**
 *
 * An image is removed if no other file of the folder names it. It is removed before the files that name it, and the
 * events of a stream from the last to the first, so that a removal that was cut off can be repeated.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import { type Session, SessionStore } from "../store/SessionStore.ts"
import * as TenantData from "./TenantData.ts"

type Needs = FileSystem.FileSystem | Path.Path | SessionStore

/** A part of `TenantRemoval`. */
interface ExportPart {
  readonly name: string
  readonly remove: (tenant: string) => Effect.Effect<number, PlatformError | SessionStoreError, Needs>
}

type IsAlso = ((session: Session) => boolean) | undefined

/** Names of images in a document or a stream, relative to its folder. */
const imageName = /images\/[0-9a-f]{32}\.[a-z0-9.+-]{1,16}/gu

const isImage = /(?:^|\/)images\/[0-9a-f]{32}\./u

const listImages = (text: string): ReadonlyArray<string> => text.match(imageName) ?? []

const lineFeed = 10
const space = 32

/** A line of a file: its place in bytes, and its text. */
interface Line {
  readonly at: number
  readonly length: number
  readonly text: string
}

const joinBytes = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [first = new Uint8Array()] = parts
  if (parts.length <= 1) return first
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  parts.reduce((at, part) => {
    whole.set(part, at)
    return at + part.length
  }, 0)
  return whole
}

/** Reads the lines of a file. The last one may have no end. */
const readLines = (path: string): Stream.Stream<Line, PlatformError, FileSystem.FileSystem> =>
  Stream.suspend(() => {
    const decoder = new TextDecoder()
    let at = 0
    let rest: Array<Uint8Array> = []
    const takeLine = (): Line => {
      const bytes = joinBytes(rest)
      const line = { at, length: bytes.length, text: decoder.decode(bytes) }
      at += bytes.length + 1
      rest = []
      return line
    }
    const chunks = Stream.unwrap(Effect.map(FileSystem.FileSystem, (fs) => fs.stream(path)))
    return chunks.pipe(
      Stream.map((chunk) => {
        const lines: Array<Line> = []
        let from = 0
        for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, from)) {
          rest.push(chunk.subarray(from, end))
          lines.push(takeLine())
          from = end + 1
        }
        rest.push(chunk.subarray(from))
        return lines
      }),
      Stream.flattenIterable,
      Stream.concat(
        Stream.suspend(() => (rest.some(({ length }) => length > 0) ? Stream.succeed(takeLine()) : Stream.empty))
      )
    )
  })

/** Removes the images that no file of a folder names, without the lines that `isOwn` selects. */
const removeImages = Effect.fnUntraced(function* (
  folder: string,
  named: ReadonlySet<string>,
  isOwn: (file: string, at: number) => boolean
) {
  if (named.size === 0) return
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const left = new Set(named)
  for (const file of yield* fs.readDirectory(folder, { recursive: true })) {
    const path = paths.join(folder, file)
    const found = yield* Effect.option(fs.stat(path))
    if (Option.isNone(found) || found.value.type !== "File" || isImage.test(file)) continue
    yield* Stream.runForEach(readLines(path), ({ at, text }) =>
      Effect.sync(() => {
        if (!isOwn(path, at)) for (const image of listImages(text)) left.delete(image)
      })
    )
  }
  for (const image of left) yield* fs.remove(paths.join(folder, image), { force: true })
})

/** Tests whether an id is the last part of the name of a file before its number and its endings. */
const isNamedAfter = (file: string, id: string): boolean => {
  const at = file.indexOf(id)
  return at >= 0 && !/[A-Za-z0-9]/u.test(file[at - 1] ?? "") && /^(?:-\d+)?(?:\.|$)/u.test(file.slice(at + id.length))
}

const listDirectory = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.orElseSucceed(fs.readDirectory(folder, { recursive: true }), (): Array<string> => [])
})

/** Removes the exported files of sessions in a folder, with their images. Returns the number of files. */
const removeExports = Effect.fnUntraced(function* (folder: string, ids: ReadonlySet<string>) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const found = yield* listDirectory(folder)
  if (found.length === 0) return 0
  const stored = yield* SessionStore.use((store) => store.list({ limit: Number.MAX_SAFE_INTEGER }))
  const all = Array.from(new Set<string>([...ids, ...stored.map(({ id }) => id)]))
  const own = found.filter((file) => {
    const base = paths.basename(file)
    // An id may be a part of another tenant's id.
    const named = all.filter((id) => isNamedAfter(base, Ids.toFileName(id))).toSorted((a, b) => b.length - a.length)
    return named[0] !== undefined && ids.has(named[0])
  })
  const ownPaths = new Set(own.map((file) => paths.join(folder, file)))
  const images = new Set<string>()
  for (const path of ownPaths)
    yield* Stream.runForEach(readLines(path), ({ text }) =>
      Effect.sync(() => {
        for (const image of listImages(text)) images.add(image)
      })
    )
  yield* removeImages(folder, images, (path) => ownPaths.has(path))
  for (const path of ownPaths) yield* fs.remove(path, { force: true, recursive: true })
  return own.length
})

/**
 * Makes the part of the exported files in a folder and its folders: files whose name has the id of a session, such as
 * `hermes-atif-ID.json` or `hermes-atif-ID-2.json`, and their images. It comes before the sessions. The same part may
 * come once more after them: it removes what a process has written about these sessions meanwhile. Streams with many
 * sessions are left to {@link makeStreamPart}.
 */
export const makeExportPart = (name: string, folder: string, isAlso?: IsAlso): ExportPart => {
  /** Ids of the sessions that were found before, by tenant. */
  const known = new Map<string, ReadonlySet<string>>()
  return {
    name,
    remove: (tenant) =>
      Effect.gen(function* () {
        const listed = (yield* TenantData.listSessions(tenant, isAlso)).map(({ id }) => id)
        const ids = new Set<string>([...(known.get(tenant) ?? []), ...listed])
        known.set(tenant, ids)
        return yield* removeExports(folder, ids)
      })
  }
}

/** Reads the id of the session of an event, its own id and its parent's id. */
const readEvent = (text: string) => {
  const fields = Json.readFields(Option.getOrUndefined(Json.parse(text)))
  const metadata = Json.readFields(fields["metadata"])
  const data = Json.readFields(fields["data"])
  return {
    id: Json.readString(fields["uuid"]),
    parent: Json.readString(fields["parent_uuid"]),
    session: Json.readString(metadata["session_id"]) ?? Json.readString(data["session_id"])
  }
}

/** Lists the lines of a stream that belong to sessions. `within` collects the ids of their events. */
const findLines = Effect.fnUntraced(function* (path: string, sessions: ReadonlySet<string>, within: Set<string>) {
  const lines: Array<Pick<Line, "at" | "length">> = []
  const images = new Set<string>()
  yield* Stream.runForEach(readLines(path), ({ at, length, text }) =>
    Effect.sync(() => {
      const { id = "", parent = "", session } = readEvent(text)
      const isOwn = session === undefined ? within.has(parent) || within.has(id) : sessions.has(session)
      if (!isOwn) return
      within.add(id)
      lines.push({ at, length })
      for (const image of listImages(text)) images.add(image)
    })
  )
  return { path, lines, images }
})

/** Overwrites lines with spaces, from the last to the first. Other programs may append to the file meanwhile. */
const blankLines = (path: string, lines: ReadonlyArray<Pick<Line, "at" | "length">>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.open(path, { flag: "r+" })
      for (const { at, length } of lines.toReversed()) {
        yield* file.seek(BigInt(at), "start")
        yield* file.writeAll(new Uint8Array(length).fill(space))
      }
      yield* file.sync
    })
  )

/**
 * Makes the part of a stream in the ATOF format and its rotated files: the events of the tenant's sessions, with their
 * images. It comes before the sessions, and after the part of exported files in the same folder. The events are
 * overwritten with spaces, which readers skip, so that other programs may append to the stream meanwhile.
 */
export const makeStreamPart = (name: string, folder: string, filename: string, isAlso?: IsAlso): ExportPart => ({
  name,
  remove: (tenant) =>
    Effect.gen(function* () {
      const paths = yield* Path.Path
      const names = (yield* listDirectory(folder)).filter((file) => {
        const rotation = file.startsWith(filename) ? file.slice(filename.length) : undefined
        return rotation !== undefined && /^(?:\.\d+)?$/u.test(rotation)
      })
      if (names.length === 0) return 0
      const sessions = new Set<string>((yield* TenantData.listSessions(tenant, isAlso)).map(({ id }) => id))
      const within = new Set<string>()
      // The file with the highest number is the oldest.
      const oldestFirst = names.toSorted(
        (a, b) => Number(b.slice(filename.length + 1)) - Number(a.slice(filename.length + 1))
      )
      const found = yield* Effect.forEach(oldestFirst, (file) => findLines(paths.join(folder, file), sessions, within))
      const own = new Map(found.map(({ lines, path }) => [path, new Set(lines.map(({ at }) => at))]))
      const images = new Set(found.flatMap(({ images }) => Array.from(images)))
      yield* removeImages(folder, images, (path, at) => own.get(path)?.has(at) === true)
      for (const { lines, path } of found.toReversed()) if (lines.length > 0) yield* blankLines(path, lines)
      return found.reduce((sum, { lines }) => sum + lines.length, 0)
    })
})
