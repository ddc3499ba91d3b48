/**
 * The form of a backup file: JSON Lines, compressed with gzip. The first line names the format, each following line
 * is a row of a table, a row of the ledger of tenants or a file, and the last line counts them.
 *
 * **Details**
 *
 * A file without its last line is incomplete, and is not restored. The contents of files are in base64. Secrets that a
 * store masked stay masked; nothing else is redacted, because a backup must equal the original.
 *
 * **Example** (Writing a backup of one file, and reading it)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Stream from "effect/Stream"
 * import { BackupFile } from "hermes-effect/sessions"
 *
 * const file = { path: "memories/USER.md", isExecutable: false, bytes: new TextEncoder().encode("Ada") }
 * const backup = Stream.fromIterableEffect(
 *   Effect.all([
 *     BackupFile.encodeStart(0, "1.0.0"),
 *     BackupFile.encodeFile(file),
 *     BackupFile.encodeEnd(BackupFile.countFile(BackupFile.nothing))
 *   ])
 * )
 * const lines = await Effect.runPromise(Stream.runCollect(BackupFile.readLines(backup)))
 *
 * console.log(lines.map((line) => (line._tag === "File" ? line.file.path : line._tag)))
 * // => [ 'memories/USER.md' ]
 * ```
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Base64 from "effect/encoding/Base64"
import * as Json from "../base/domain/Json.ts"
import * as Compression from "../base/platform/Compression.ts"
import { type Row, type TableName, tableNames, type TableRows } from "./SessionBackup.ts"
import * as BackupTables from "./sql/BackupTables.ts"
import type { LedgerRows } from "./tenants/TenantLedgerPort.ts"

/** Version of the format. */
const format = 1

/** First bytes of a file in gzip form. */
export const gzipMark = [0x1f, 0x8b] as const

/** A file of the home directory. */
export interface BackedFile {
  /** Relative path, with `/` between its parts. */
  readonly path: string
  readonly isExecutable: boolean
  readonly bytes: Uint8Array
}

/** Numbers of rows by table, of rows of the ledger, and of files. */
export interface Counts {
  readonly rows: Readonly<Record<TableName, number>>
  readonly ledger: number
  readonly files: number
}

/** A line of a backup. */
export type Line =
  | { readonly _tag: "Row"; readonly table: TableName; readonly row: Row }
  | { readonly _tag: "Ledger"; readonly rows: LedgerRows }
  | { readonly _tag: "File"; readonly file: BackedFile }

/** Error raised when a backup cannot be read. */
export class BackupDamaged extends Schema.TaggedError<BackupDamaged>("hermes-effect/store/BackupDamaged")(
  "BackupDamaged",
  { message: Schema.String }
) {}

/** Counts of an empty backup. */
export const nothing: Counts = {
  rows: {
    sessions: 0,
    messages: 0,
    session_model_usage: 0,
    begun_calls: 0,
    run_record: 0,
    questions: 0,
    call_steps: 0
  },
  ledger: 0,
  files: 0
}

const addRows = (counts: Counts, table: TableName, count: number): Counts => ({
  ...counts,
  rows: { ...counts.rows, [table]: counts.rows[table] + count }
})

const compressLines = (lines: ReadonlyArray<unknown>): Effect.Effect<Uint8Array> =>
  Effect.promise(() => Compression.gzipBytes(lines.map((line) => `${JSON.stringify(line)}\n`).join("")))

/** Encodes the first line. `createdAt` is in epoch milliseconds. */
export const encodeStart = (createdAt: number, version: string): Effect.Effect<Uint8Array> =>
  compressLines([{ hermes_backup: format, created_at: createdAt, version }])

/** Encodes rows. Parts that are written one after the other are one gzip file. */
export const encodeRows = ({ rows, table }: TableRows): Effect.Effect<Uint8Array> =>
  compressLines(rows.map((row) => ({ table, row })))

const ledgerTables = ["sums", "reservations", "usage"] as const

/** Encodes the rows of a ledger. */
export const encodeLedger = (rows: LedgerRows): Effect.Effect<Uint8Array> =>
  compressLines(ledgerTables.flatMap((ledger) => rows[ledger].map((row) => ({ ledger, row }))))

/** Encodes a file. */
export const encodeFile = ({ bytes, isExecutable, path }: BackedFile): Effect.Effect<Uint8Array> =>
  compressLines([{ file: path, executable: isExecutable, base64: Base64.encode(bytes) }])

/** Encodes the last line. */
export const encodeEnd = ({ files, ledger, rows }: Counts): Effect.Effect<Uint8Array> =>
  compressLines([{ end: { rows, ledger, files } }])

/** Adds a part of a store to counts. */
export const countRows = (counts: Counts, { rows, table }: TableRows): Counts => addRows(counts, table, rows.length)

const countLedgerRows = ({ reservations, sums, usage }: LedgerRows): number =>
  sums.length + reservations.length + usage.length

/** Adds rows of a ledger to counts. */
export const countLedger = (counts: Counts, rows: LedgerRows): Counts => ({
  ...counts,
  ledger: counts.ledger + countLedgerRows(rows)
})

/** Adds a file to counts. */
export const countFile = (counts: Counts): Counts => ({ ...counts, files: counts.files + 1 })

const isTableName = (name: string): name is TableName => tableNames.some((table) => table === name)

/** Makes a decoder of the rows of one table, which returns a list of one row. */
const makeDecoder = <const Name extends (typeof ledgerTables)[number], S extends Schema.Decoder<unknown>>(
  name: Name,
  schema: S
) => {
  const decode = Schema.decodeUnknownOption(schema)
  return [
    name,
    (row: unknown): Option.Option<Partial<LedgerRows>> => Option.map(decode(row), (found) => ({ [name]: [found] }))
  ] as const
}

const decodeLedgerRow = [
  makeDecoder(
    "sums",
    Schema.Struct({
      tenant: Schema.String,
      day: Schema.String,
      dayTokens: Schema.Int,
      dayNanos: Schema.Int,
      monthTokens: Schema.Int,
      monthNanos: Schema.Int
    })
  ),
  makeDecoder(
    "reservations",
    Schema.Struct({
      id: Schema.String,
      tenant: Schema.String,
      tokens: Schema.Int,
      nanos: Schema.Int,
      output: Schema.Int,
      expiresAt: Schema.Int,
      isCounted: Schema.Literals([0, 1])
    })
  ),
  makeDecoder(
    "usage",
    Schema.Struct({
      tenant: Schema.String,
      day: Schema.String,
      model: Schema.String,
      calls: Schema.Int,
      inputTokens: Schema.Int,
      outputTokens: Schema.Int,
      nanos: Schema.Int
    })
  )
]

/** A ledger without rows. */
export const noLedger: LedgerRows = { sums: [], reservations: [], usage: [] }

const parseLedger = (name: string, row: unknown): Result.Result<Line, string> => {
  const decode = decodeLedgerRow.find(([table]) => table === name)?.[1]
  const rows = decode === undefined ? Option.none() : decode(row)
  return Option.isNone(rows)
    ? Result.fail(`has a row of the ledger "${name}" that cannot be read`)
    : Result.succeed({ _tag: "Ledger", rows: { ...noLedger, ...rows.value } })
}

/** Parses a line other than the first and the last. Fails with the reason. */
const parseLine = (fields: Json.Fields): Result.Result<Line, string> => {
  const path = Json.readString(fields["file"])
  if (path !== undefined) {
    return Result.mapBoth(Base64.decode(Json.readString(fields["base64"]) ?? "*"), {
      onFailure: () => "has a file that is not base64",
      onSuccess: (bytes): Line => ({ _tag: "File", file: { path, isExecutable: fields["executable"] === true, bytes } })
    })
  }
  const ledger = Json.readString(fields["ledger"])
  if (ledger !== undefined) return parseLedger(ledger, fields["row"])
  const table = Json.readString(fields["table"]) ?? ""
  if (!isTableName(table)) return Result.fail(`has an unknown table "${table}"`)
  return Result.map(BackupTables.checkRow(table, Json.readFields(fields["row"])), (row): Line => ({
    _tag: "Row",
    table,
    row
  }))
}

/** Adds a line to counts. */
export const countLine = (counts: Counts, line: Line): Counts => {
  switch (line._tag) {
    case "File":
      return countFile(counts)
    case "Ledger":
      return countLedger(counts, line.rows)
    case "Row":
      return addRows(counts, line.table, 1)
  }
}

const hasCounts = (counts: Counts, end: Json.Fields): boolean => {
  const rows = Json.readFields(end["rows"])
  if (counts.ledger !== (end["ledger"] ?? 0)) return false
  return counts.files === end["files"] && tableNames.every((table) => counts.rows[table] === (rows[table] ?? 0))
}

/** Position of a reader in a backup. */
interface Position {
  readonly line: number
  readonly counts: Counts
  readonly isEnded: boolean
}

const makeDamage = (message: string) => new BackupDamaged({ message })

/** Reads one line, and returns the new position and the line's content. */
const readLine = (
  position: Position,
  text: string
): Result.Result<readonly [Position, ReadonlyArray<Line>], BackupDamaged> => {
  const line = position.line + 1
  const value = Option.getOrUndefined(Json.parse(text))
  if (!Json.isFields(value)) return Result.fail(makeDamage(`line ${line} is not JSON`))
  if (position.isEnded) return Result.fail(makeDamage(`line ${line} is after its end`))
  if (line === 1) {
    const version = value["hermes_backup"]
    if (typeof version !== "number") return Result.fail(makeDamage("it is not a backup of hermes"))
    return version === format
      ? Result.succeed([{ ...position, line }, []])
      : Result.fail(makeDamage(`it has format ${version}, and this version reads format ${format}: update hermes`))
  }
  if (value["end"] !== undefined) {
    return hasCounts(position.counts, Json.readFields(value["end"]))
      ? Result.succeed([{ ...position, line, isEnded: true }, []])
      : Result.fail(makeDamage("the numbers of its rows and files differ from its last line"))
  }
  return Result.mapBoth(parseLine(value), {
    onFailure: (reason) => makeDamage(`line ${line} ${reason}`),
    onSuccess: (found): readonly [Position, ReadonlyArray<Line>] => [
      { ...position, line, counts: countLine(position.counts, found) },
      [found]
    ]
  })
}

/** Maximum length of a line in characters. A file of the maximum size has 90 million. */
const longestLine = 128 * 1024 ** 2

/** Fails for a longer line, before it is held in memory. */
const limitLines = <E, R>(text: Stream.Stream<string, E, R>): Stream.Stream<string, E | BackupDamaged, R> =>
  Stream.suspend(() => {
    let length = 0
    return Stream.mapEffect(text, (part): Effect.Effect<string, BackupDamaged> => {
      const end = part.lastIndexOf("\n")
      length = end === -1 ? length + part.length : part.length - end - 1
      return length > longestLine
        ? Effect.fail(makeDamage(`it has a line of more than ${longestLine} characters`))
        : Effect.succeed(part)
    })
  })

/** Reads a backup. The stream fails if the file is damaged, incomplete or of another program. */
export const readLines = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Line, E | BackupDamaged, R> =>
  Stream.suspend(() => {
    let position: Position = { line: 0, counts: nothing, isEnded: false }
    const text = Compression.gunzipStream(bytes, () => makeDamage("it is not a gzip file, or it is damaged"))
    return limitLines(Stream.decodeText(text)).pipe(
      Stream.splitLines,
      Stream.mapEffect((line) =>
        Effect.map(Effect.fromResult(readLine(position, line)), ([next, found]) => {
          position = next
          return found
        })
      ),
      Stream.flattenIterable,
      Stream.concat(
        Stream.suspend(() =>
          position.isEnded ? Stream.empty : Stream.fail(makeDamage("it is incomplete: its last line is missing"))
        )
      )
    )
  })

/** Number of rows that are restored at a time. */
const groupSize = 100

/** Selects the rows of a backup, grouped by table. */
export const selectRows = <E, R>(lines: Stream.Stream<Line, E, R>): Stream.Stream<TableRows, E, R> =>
  Stream.flatMap(Stream.grouped(lines, groupSize), (group) => {
    const parts: Array<{ table: TableName; rows: Array<Row> }> = []
    for (const line of group) {
      if (line._tag !== "Row") continue
      const last = parts.at(-1)
      if (last?.table === line.table) last.rows.push(line.row)
      else parts.push({ table: line.table, rows: [line.row] })
    }
    return Stream.fromIterable(parts)
  })

/** Collects the rows of the ledger of a backup. */
export const collectLedger = <E, R>(lines: Stream.Stream<Line, E, R>): Effect.Effect<LedgerRows, E, R> =>
  Stream.runFold(
    lines,
    () => noLedger,
    ({ reservations, sums, usage }: LedgerRows, line) =>
      line._tag === "Ledger"
        ? {
            sums: sums.concat(line.rows.sums),
            reservations: reservations.concat(line.rows.reservations),
            usage: usage.concat(line.rows.usage)
          }
        : { reservations, sums, usage }
  )
