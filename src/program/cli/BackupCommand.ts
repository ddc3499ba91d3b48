/**
 * `hermes backup`: writes all sessions, the ledger of tenants and the user's files to one file, while other programs
 * write.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Random from "effect/Random"
import type { PlatformError } from "effect/PlatformError"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Home } from "../../base/config/Environment.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import { version } from "../../base/domain/Version.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as BackupFile from "../../store/BackupFile.ts"
import { SessionBackup } from "../../store/SessionBackup.ts"
import { TenantLedger } from "../../store/tenants/TenantLedger.ts"
import * as StoredSessions from "../runtime/StoredSessions.ts"
import * as TenantSettings from "../runtime/TenantSettings.ts"
import { makeUsageFailure, makeWorkFailure, toUnwritableFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as HomeFiles from "./HomeFiles.ts"
import { printLine, printWarnings } from "./ProgramOutput.ts"
import { formatQuantity } from "./render/UsageText.ts"
import * as SafeText from "./render/SafeText.ts"

/** Describes the contents of a backup. */
export const describeCounts = ({ files, ledger, rows }: BackupFile.Counts): string =>
  `${formatQuantity(rows.sessions, "session")} with ${formatQuantity(rows.messages, "message")}` +
  (ledger === 0 ? "" : `, ${formatQuantity(ledger, "row")} of the tenants' ledger`) +
  ` and ${formatQuantity(files, "file")}`

/** Writes the parts of a backup, and counts them. */
type Writer = (bytes: Uint8Array) => Effect.Effect<void, PlatformError>

const writeSessions = Effect.fnUntraced(function* (writeBytes: Writer, counts: BackupFile.Counts) {
  const { exists, layer } = yield* StoredSessions.findConfigured()
  if (!(yield* exists)) return counts
  let counted = counts
  yield* Effect.provide(
    SessionBackup.use((backup) =>
      backup.read((part) =>
        Effect.tap(Effect.flatMap(BackupFile.encodeRows(part), writeBytes), () =>
          Effect.sync(() => {
            counted = BackupFile.countRows(counted, part)
          })
        )
      )
    ),
    layer
  )
  return counted
})

const writeLedger = Effect.fnUntraced(function* (writeBytes: Writer, counts: BackupFile.Counts) {
  const { exists, layer } = yield* TenantSettings.findConfiguredLedger
  if (!exists) return counts
  const rows = yield* Effect.mapError(
    Effect.provide(
      TenantLedger.use(({ readRows }) => readRows),
      layer
    ),
    ({ message }) => makeWorkFailure(message)
  )
  yield* Effect.flatMap(BackupFile.encodeLedger(rows), writeBytes)
  return BackupFile.countLedger(counts, rows)
})

/** Warns of a file with a secret that this process holds, such as a key in the settings. */
const warnOfSecrets = Effect.fnUntraced(function* ({ bytes, path }: BackupFile.BackedFile) {
  const { mask } = yield* Secrets
  const text = new TextDecoder().decode(bytes)
  if (mask(text) !== text)
    yield* printWarnings([`${SafeText.toLine(path)} contains a key or password, which is now in the backup, too`])
})

const writeFiles = Effect.fnUntraced(function* (writeBytes: Writer, counts: BackupFile.Counts) {
  const { root } = yield* Home
  // Loads the settings, whose secrets are then known.
  yield* StoredSessions.findConfigured()
  let counted = counts
  for (const file of yield* HomeFiles.listFiles(root)) {
    if (file.size > HomeFiles.largestFile) {
      yield* printWarnings([`${SafeText.toLine(file.path)} is larger than 64 MiB and is left out`])
      continue
    }
    const backed = yield* HomeFiles.readFile(root, file)
    yield* warnOfSecrets(backed)
    yield* Effect.flatMap(BackupFile.encodeFile(backed), writeBytes)
    counted = BackupFile.countFile(counted)
  }
  return counted
})

/** Fails if a path has a file that is not a backup. */
const requireOwnFile = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const found = yield* Effect.orElseSucceed(Effect.option(fs.stat(path)), () => undefined)
  if (found === undefined || found._tag === "None") return
  if (found.value.type !== "File") return yield* makeUsageFailure(`${path} is not a file: name a file for the backup`)
  const head = yield* Effect.scoped(
    Effect.flatMap(fs.open(path, { flag: "r" }), (file) => {
      const bytes = new Uint8Array(BackupFile.gzipMark.length)
      return Effect.as(file.read(bytes), bytes)
    })
  )
  if (Number(found.value.size) > 0 && BackupFile.gzipMark.some((byte, index) => head[index] !== byte))
    return yield* makeUsageFailure(`${path} exists and is not a backup: name another file`)
})

/** Writes a backup to a file beside `path`, which replaces it when it is complete. */
const writeBackup = Effect.fnUntraced(function* (path: string, only: "files" | "sessions" | undefined) {
  const fs = yield* FileSystem.FileSystem
  const draft = `${path}.${(yield* Random.nextInt).toString(36).slice(-8)}.draft`
  return yield* Effect.gen(function* () {
    const counts = yield* Effect.scoped(
      Effect.gen(function* () {
        const file = yield* fs.open(draft, { flag: "wx", mode: 0o600 })
        const writeBytes: Writer = (bytes) => file.writeAll(bytes)
        yield* Effect.flatMap(BackupFile.encodeStart(yield* Clock.currentTimeMillis, version), writeBytes)
        const sessions =
          only === "files"
            ? BackupFile.nothing
            : yield* Effect.flatMap(writeSessions(writeBytes, BackupFile.nothing), (counts) =>
                writeLedger(writeBytes, counts)
              )
        const counts = only === "sessions" ? sessions : yield* writeFiles(writeBytes, sessions)
        yield* Effect.flatMap(BackupFile.encodeEnd(counts), writeBytes)
        yield* file.sync
        return counts
      })
    )
    yield* fs.rename(draft, path)
    return counts
  }).pipe(
    Effect.onError(() => Effect.ignore(fs.remove(draft, { force: true }))),
    Effect.catchTag("PlatformError", (error) => Effect.fail(toUnwritableFailure(path)(error)))
  )
})

/** The flag that selects a part of a backup. */
export const only = Flags.takeLast(
  Flag.Literals("only", ["sessions", "files"]),
  "sessions: the conversations and the tenants' ledger; files: settings, memory, skills, jobs, plugins"
)

/** The command `hermes backup`. */
export const command = Command.make(
  "backup",
  { file: Argument.String("file").pipe(Argument.withDescription("Backup file, such as hermes.backup.gz")), only },
  Effect.fn("hermes backup")(function* ({ file, only }) {
    const paths = yield* Path.Path
    const path = paths.resolve(getWorkingDirectory(), file)
    yield* Effect.catchTag(requireOwnFile(path), "PlatformError", (error) =>
      Effect.fail(toUnwritableFailure(path)(error))
    )
    const counts = yield* writeBackup(path, only)
    yield* printLine(`${describeCounts(counts)} are in ${path}. Keys and logins (.env, auth.json, mcp-tokens) are not.`)
  }, Effect.provide(Home.layer))
)
