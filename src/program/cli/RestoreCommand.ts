/**
 * `hermes restore`: adds the sessions and files of a backup. The file is read whole before the first change. Sessions
 * are added in one transaction, to the store that the settings select, which may differ from the store of the backup.
 * The sums of tenants are not lowered: the larger amounts of the ledger and of the backup remain.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import type { PlatformError } from "effect/PlatformError"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { Home } from "../../base/config/Environment.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as BackupFile from "../../store/BackupFile.ts"
import { SessionBackup } from "../../store/SessionBackup.ts"
import { TenantLedger } from "../../store/tenants/TenantLedger.ts"
import * as StoredSessions from "../runtime/StoredSessions.ts"
import * as TenantSettings from "../runtime/TenantSettings.ts"
import * as BackupCommand from "./BackupCommand.ts"
import { makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as HomeFiles from "./HomeFiles.ts"
import { printLine, printNote } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** Reads the lines of a backup. */
const readLines = (path: string) =>
  Stream.unwrap(Effect.map(FileSystem.FileSystem, (fs) => BackupFile.readLines(fs.stream(path)))).pipe(
    Stream.mapError((error: BackupFile.BackupDamaged | PlatformError) =>
      error._tag === "BackupDamaged"
        ? makeUsageFailure(`${path} cannot be restored: ${error.message}`)
        : makeUsageFailure(`cannot read ${path}: ${describeReason(error)}`)
    )
  )

type Part = "files" | "sessions" | undefined

/** Files of a backup that differ in the home directory: the path of one of them, and their number. */
interface DifferentFiles {
  readonly first: string
  readonly count: number
}

/** Reads a whole backup. Returns its counts, and its files that differ in the home directory. */
const examineBackup = Effect.fnUntraced(function* (path: string, only: Part) {
  const { root } = yield* Home
  let different: DifferentFiles | undefined
  let counts = BackupFile.nothing
  yield* Stream.runForEach(
    Stream.filter(readLines(path), (line) => only !== (line._tag === "File" ? "sessions" : "files")),
    (line) =>
      Effect.gen(function* () {
        counts = BackupFile.countLine(counts, line)
        if (line._tag !== "File") return
        const { file } = line
        if (!HomeFiles.isAllowedPath(file.path))
          return yield* makeUsageFailure(
            `${path} cannot be restored: ${SafeText.toLine(file.path)} is not a file of a backup`
          )
        const state = yield* Effect.orElseSucceed(HomeFiles.compareFile(root, file), () => "different" as const)
        if (state === "different")
          different = { first: different?.first ?? file.path, count: (different?.count ?? 0) + 1 }
      })
  )
  return { counts, different }
})

/** Fails if a restoration would overwrite something. */
const requireRoom = Effect.fnUntraced(function* (
  { counts, different }: Effect.Success<ReturnType<typeof examineBackup>>,
  { exists, layer }: StoredSessions.StoredSessions
) {
  if (different !== undefined) {
    const more = different.count === 1 ? "" : ` and ${different.count - 1} more`
    return yield* makeUsageFailure(
      `${SafeText.toLine(different.first)}${more} would be overwritten: pass --replace, or --only sessions`
    )
  }
  if (counts.rows.sessions === 0 || !(yield* exists)) return
  const stored = yield* Effect.provide(
    SessionBackup.use(({ count }) => count),
    layer
  )
  if (stored > 0)
    return yield* makeUsageFailure(
      `the store has ${stored} ${stored === 1 ? "session" : "sessions"}, which a backup replaces: pass --replace to ` +
        "remove them, or add single sessions with `hermes sessions import`"
    )
})

const restoreFiles = Effect.fnUntraced(function* (path: string) {
  const home = yield* Home
  yield* home.ensure
  yield* Stream.runForEach(readLines(path), (line) =>
    line._tag !== "File"
      ? Effect.void
      : HomeFiles.writeFile(home.root, line.file).pipe(
          Effect.mapError((error) =>
            makeWorkFailure(`${SafeText.toLine(line.file.path)} cannot be written: ${describeReason(error)}`)
          ),
          Effect.flatMap((isWritten) =>
            isWritten
              ? Effect.void
              : makeWorkFailure(`${SafeText.toLine(line.file.path)} leads out of ${home.root} and is not restored`)
          )
        )
  )
})

/** Adds the rows of the ledger of a backup. */
const restoreLedger = Effect.fnUntraced(function* (path: string) {
  const rows = yield* BackupFile.collectLedger(readLines(path))
  const { layer } = yield* TenantSettings.findConfiguredLedger
  yield* Effect.mapError(
    Effect.provide(
      TenantLedger.use(({ addRows }) => addRows(rows)),
      layer
    ),
    ({ message }) => makeWorkFailure(message)
  )
})

/** The command `hermes restore`. */
export const command = Command.make(
  "restore",
  {
    file: Argument.String("file").pipe(Argument.withDescription("File from `hermes backup`")),
    replace: Flags.makeSwitch("replace", "Remove all sessions of the store, and overwrite files"),
    only: BackupCommand.only
  },
  Effect.fn("hermes restore")(function* ({ file, only, replace }) {
    const paths = yield* Path.Path
    const path = paths.resolve(getWorkingDirectory(), file)
    const stored = yield* StoredSessions.findConfigured()
    const examined = yield* examineBackup(path, only)
    if (!replace) yield* requireRoom(examined, stored)
    const { counts } = examined
    // A backup of files alone leaves the sessions of the store.
    if (Object.values(counts.rows).some((count) => count > 0))
      yield* Effect.provide(
        SessionBackup.use(({ write }) => write(BackupFile.selectRows(readLines(path)), { replace })),
        stored.layer
      )
    if (counts.ledger > 0) yield* restoreLedger(path)
    if (only !== "sessions") yield* restoreFiles(path)
    yield* printLine(`Restored ${BackupCommand.describeCounts(counts)}`)
    const now = yield* StoredSessions.findConfigured()
    if (only === undefined && now.url !== stored.url)
      yield* printNote(
        "Note: the restored config.yaml selects another store (store.url), which the sessions are not in. " +
          "Run the same command with --only sessions to restore them there."
      )
  }, Effect.provide(Home.layer))
)
