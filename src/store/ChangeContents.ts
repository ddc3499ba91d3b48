/**
 * Contents of files before and after tools changed them. The key is the SHA-256 of the bytes, so each content is stored
 * once.
 *
 * **Details**
 *
 * Each content is stored in a file that only the user can read. The total size is limited: once per program run, the
 * oldest contents are removed. Content that contains a secret of the program is not stored. Work for a tenant stores
 * its contents in the tenant's own folder, and reads no others.
 *
 * **Example** (Changes that can be undone, in an application)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { ChangeContents } from "hermes-effect/sessions"
 *
 * const contents = ChangeContents.layerFile("changes").pipe(Layer.provide(NodeServices.layer))
 *
 * const program = Effect.map(ChangeContents.ChangeContents, (kept) => kept !== undefined)
 *
 * console.log(await Effect.runPromise(Effect.provide(program, contents)))
 * // => true
 * ```
 *
 * Source: `ARCHITECTURE.md` §7 (secrets, caps) and §8 (changes).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Ids from "../base/domain/Ids.ts"
import { Secrets } from "../base/domain/Secrets.ts"
import * as Digest from "../base/platform/Digest.ts"
import { listTenantFolders, locateCurrentFolder, tenantsFolder } from "./TenantFolder.ts"

/** Stores and reads contents. */
export interface Service {
  /** Stores bytes. Returns `undefined` on success, or the reason why the bytes were not stored. */
  readonly keep: (hash: string, bytes: Uint8Array) => Effect.Effect<string | undefined>
  /** Returns the bytes with the given hash, or `undefined` if they are not, or no longer, stored. */
  readonly read: (hash: string) => Effect.Effect<Uint8Array | undefined>
}

/** The contents of a runtime, or `undefined` if contents are not stored. */
export const ChangeContents = Context.Reference<Service | undefined>("hermes-effect/session/ChangeContents", {
  defaultValue: () => undefined
})

/** Maximum size of one content, in bytes. */
export const maxBytes = 10 * 1024 * 1024
/** Default maximum total size of all contents, in bytes. */
const defaultCapacity = 1024 * 1024 * 1024

/** Returns the hash under which bytes are stored. */
export const computeHash = (bytes: Uint8Array): string => Digest.toHex(bytes, 64)

const isHash = (hash: string): boolean => /^[0-9a-f]{64}$/.test(hash)

/** Lists the files with contents in a folder. */
const listContents = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const found: Array<{ readonly file: string; readonly size: number; readonly at: number }> = []
  for (const group of yield* fs.readDirectory(folder)) {
    if (group === tenantsFolder) continue
    for (const name of yield* fs.readDirectory(path.join(folder, group))) {
      const file = path.join(folder, group, name)
      const info = yield* Effect.option(fs.stat(file))
      if (Option.isSome(info))
        found.push({
          file,
          size: Number(info.value.size),
          at: Option.getOrElse(info.value.mtime, () => new Date(0)).getTime()
        })
    }
  }
  return found
})

/** Creates a store that keeps contents in a directory. The directory is created when it is first needed. */
export const make = Effect.fnUntraced(function* (
  directory: string,
  capacity = defaultCapacity
): Effect.fn.Return<Service, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = path.resolve(directory)
  const locateContent = (folder: string, hash: string) => path.join(folder, hash.slice(0, 2), hash)
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const listFolders = Effect.map(Effect.provideContext(listTenantFolders(root), services), (all) => [root, ...all])

  /** Removes the oldest contents until the rest fits the capacity. */
  const prune = Effect.gen(function* () {
    const listed = Effect.forEach(yield* listFolders, listContents)
    const found = (yield* Effect.provideContext(listed, services)).flat()
    let left = found.reduce((sum, { size }) => sum + size, 0) - capacity
    for (const { file, size } of found.toSorted((one, other) => one.at - other.at)) {
      if (left <= 0) return
      yield* fs.remove(file, { force: true })
      left -= size
    }
  }).pipe(Effect.catch((error) => Effect.logDebug("contents of changes could not be pruned", error)))
  const begun = yield* Effect.cached(
    Effect.uninterruptible(Effect.andThen(fs.makeDirectory(root, { recursive: true, mode: 0o700 }), prune))
  )

  const keep: Service["keep"] = Effect.fnUntraced(
    function* (hash, bytes) {
      if (bytes.length > maxBytes) return `it has ${bytes.length} bytes, more than ${maxBytes}`
      const { mask } = yield* Secrets
      const text = new TextDecoder("latin1").decode(bytes)
      if (mask(text) !== text) return "it holds a secret of this program"
      yield* begun
      const file = locateContent(yield* locateCurrentFolder(path, root), hash)
      if (yield* fs.exists(file)) return undefined
      yield* fs.makeDirectory(path.dirname(file), { recursive: true, mode: 0o700 })
      const draft = `${file}.${yield* Ids.makeHex(8)}`
      yield* fs.writeFile(draft, bytes, { mode: 0o600, flag: "wx" }).pipe(
        Effect.andThen(fs.rename(draft, file)),
        Effect.onError(() => Effect.ignore(fs.remove(draft, { force: true })))
      )
      return undefined
    },
    Effect.catch(({ message }) => Effect.succeed(`it could not be kept: ${message}`))
  )

  // Another process may have removed it. A damaged content is not returned.
  const readContent = (folder: string, hash: string) =>
    Effect.map(Effect.option(fs.readFile(locateContent(folder, hash))), (found) =>
      Option.getOrUndefined(Option.filter(found, (bytes) => computeHash(bytes) === hash))
    )
  return {
    keep,
    read: Effect.fnUntraced(function* (hash) {
      if (!isHash(hash)) return undefined
      const own = yield* locateCurrentFolder(path, root)
      const found = yield* readContent(own, hash)
      if (found !== undefined || own !== root) return found
      // The owner of the application undoes changes of tenants, too.
      for (const folder of (yield* listFolders).slice(1)) {
        const content = yield* readContent(folder, hash)
        if (content !== undefined) return content
      }
      return undefined
    })
  }
})

/** Layer that stores contents in a directory. */
export const layerFile = (
  directory: string,
  capacity?: number
): Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(ChangeContents, make(directory, capacity))
