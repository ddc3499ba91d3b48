/**
 * The key of the owner of a server. It is created at the first start and stored in the home directory, in a file that
 * only its owner can read.
 *
 * **Details**
 *
 * Every user and program on the machine can reach a loopback address. The key proves that a client acts for the owner.
 * The file is written under another name and then linked into place, so that two servers that start at the same time
 * have the same key. The key is refused if other users can read or change its file or the directories that contain the
 * file.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Redacted from "effect/Redacted"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as CurrentProcess from "../../base/platform/CurrentProcess.ts"
import { makeSecret } from "../../base/platform/SharedSecret.ts"
import { shortestKey } from "./ServerKeys.ts"

/** Name of the file in the home directory. */
export const fileName = "server.key"

/** The owner's key, and whether it is new. */
export interface OwnerKey {
  readonly path: string
  readonly key: Redacted.Redacted<string>
  /** True if the key was created by this start. A new key is shown once. */
  readonly isNew: boolean
}

const groupOrOthers = 0o077
const writableByOthers = 0o022

const renewal = "Remove it, and start the server again for a new one"

const failAtPath = (path: string, problem: string): Effect.Effect<never, ConfigError> =>
  Effect.fail(new ConfigError({ path, message: `${path}: ${problem}` }))

const toConfigError =
  (path: string) =>
  ({ message }: PlatformError): ConfigError =>
    new ConfigError({ path, message: `${path}: the key of the server cannot be stored there: ${message}` })

/** Fails if a file or directory belongs to another user, or if its mode contains one of the forbidden bits. */
const checkPlace = (
  path: string,
  info: FileSystem.File.Info,
  forbidden: number,
  remedy: string
): Effect.Effect<void, ConfigError> => {
  const own = CurrentProcess.getProcessOwner()
  // Windows does not have comparable owners and modes.
  if (own === undefined) return Effect.void
  if (Option.getOrElse(info.uid, () => own.uid) !== own.uid) {
    const remedy = "the server does not trust a key there. Set HERMES_HOME to a directory of yours"
    return failAtPath(path, `belongs to another user: ${remedy}`)
  }
  return (info.mode & forbidden) === 0
    ? Effect.void
    : failAtPath(path, `is open to other users of this machine: ${remedy}`)
}

/** Reads the key, if the file exists. */
const readKey = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.scoped(
    Effect.gen(function* () {
      const opened = yield* fs.open(path, { flag: "r" }).pipe(
        Effect.map(Option.some),
        Effect.catchIf(
          (error) => error.reason._tag === "NotFound",
          () => Effect.succeedNone
        ),
        Effect.mapError(toConfigError(path))
      )
      if (Option.isNone(opened)) return undefined
      // Checks the open file itself, so that the checked file is the file that is read.
      const info = yield* Effect.mapError(opened.value.stat, toConfigError(path))
      if (info.type !== "File") return yield* failAtPath(path, "is not a file: remove it, and start the server again")
      yield* checkPlace(path, info, groupOrOthers, `its key may be known. ${renewal}`)
      const bytes = yield* Effect.mapError(opened.value.readAlloc(1_024), toConfigError(path))
      const text = Option.match(bytes, { onNone: () => "", onSome: (some) => new TextDecoder().decode(some).trim() })
      return text.length < shortestKey
        ? yield* failAtPath(path, `has no key of ${shortestKey} characters. ${renewal}`)
        : Redacted.make(text)
    })
  )
})

/**
 * Creates a key in a draft file and links the file to its final path. Returns `undefined` if another server created a
 * key first.
 */
const makeKey = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const text = yield* makeSecret
  const write = Effect.gen(function* () {
    const drafts = yield* fs.makeTempDirectoryScoped({ directory: paths.dirname(path), prefix: ".draft-" })
    const draft = paths.join(drafts, fileName)
    yield* Effect.scoped(
      Effect.flatMap(fs.open(draft, { flag: "wx", mode: 0o600 }), (file) =>
        Effect.andThen(file.writeAll(new TextEncoder().encode(`${text}\n`)), file.sync)
      )
    )
    // Fails if another server created the key first, because a link never replaces a file.
    yield* fs.link(draft, path)
    return true
  })
  return yield* Effect.scoped(write).pipe(
    Effect.catchIf(
      (error) => error.reason._tag === "AlreadyExists",
      () => Effect.succeed(false)
    ),
    Effect.mapError(toConfigError(path)),
    Effect.map((isOwn) => (isOwn ? Redacted.make(text) : undefined))
  )
})

/** Reads the key from an existing home directory, or creates one. Fails if other users can access it. */
export const provideKey = Effect.fnUntraced(function* (
  home: string
): Effect.fn.Return<OwnerKey, ConfigError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const path = paths.join(home, fileName)
  const directory = yield* Effect.mapError(fs.stat(home), toConfigError(home))
  const remedy = "they could put a key there. Remove their write permission with `chmod go-w`"
  yield* checkPlace(home, directory, writableByOthers, remedy)
  const found = yield* readKey(path)
  if (found !== undefined) return { path, key: found, isNew: false }
  const made = yield* makeKey(path)
  if (made !== undefined) return { path, key: made, isNew: true }
  const other = yield* readKey(path)
  return other === undefined
    ? yield* failAtPath(path, "vanished while it was read: start the server again")
    : { path, key: other, isNew: false }
})
