/**
 * A dataset: rows with stable ids, read from a JSONL, JSON, CSV or Parquet file, or from a folder of such files.
 *
 * **Details**
 *
 * A row is an object of named fields. Its id is the value of its `id`, `row_id`, `task_id` or `instance_id` field, or
 * of the field that the caller names. The id of a row without such a field is derived from its content, so that it
 * stays the same when rows are added or reordered. Two rows with the same content have different ids. An unusable row
 * (invalid JSON, not an object, a missing required field, a duplicate id) is reported as a {@link Problem} with its
 * file and line. The other rows are read.
 *
 * A folder is read in the layout of the Hugging Face hub: data files at any depth, with a split in their file or folder
 * names (`train-00000.jsonl`, `test/0.csv`). If there are several splits, only one is read: `train`, unless the caller
 * names another. Files ending in `.gz` are decompressed.
 *
 * **Gotchas**
 *
 * The rows are held in memory. Cells of a CSV file are strings. For a Parquet file, the reported line is the number of
 * the row.
 *
 * **Example** (Reading tasks)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as FileSystem from "effect/FileSystem"
 * import { Dataset } from "hermes-effect/batch"
 *
 * const program = Effect.gen(function*() {
 *   const fs = yield* FileSystem.FileSystem
 *   yield* fs.writeFileString("tasks.jsonl", "{\"id\":\"a\",\"prompt\":\"Say hello\"}\n{broken\n")
 *   const { problems, rows } = yield* Dataset.read("tasks.jsonl", { required: ["prompt"] })
 *   console.log(rows.map(({ id }) => id).join(), problems.map(({ line }) => line).join())
 * })
 *
 * await Effect.runPromise(Effect.provide(program, NodeServices.layer))
 * // => a 2
 * ```
 *
 * Source: `hermes-product.md` §5.1, `hermes-llm.md` §20.1.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as OptionalPackage from "../../base/platform/OptionalPackage.ts"
import { blockDecoders, gunzip } from "../../base/platform/Compression.ts"
import * as Digest from "../../base/platform/Digest.ts"
import * as CsvRecords from "./CsvRecords.ts"

/** Error raised when a dataset cannot be read, or has no usable row. `message` states the cause and the remedy. */
export class DatasetError extends Schema.TaggedError<DatasetError>("hermes-effect/DatasetError")("DatasetError", {
  path: Schema.String,
  message: Schema.String
}) {}

/** A row that can be used. */
export interface Row {
  readonly id: string
  /** Digest of the fields, independent of their order. */
  readonly digest: string
  /** Position among the usable rows, counted from 0. */
  readonly index: number
  readonly file: string
  readonly line: number
  readonly fields: Json.Fields
}

/** An unusable row or file, with the reason. */
export interface Problem {
  readonly file: string
  /** Line of the row. `undefined` if the problem concerns the whole file. */
  readonly line?: number | undefined
  readonly message: string
}

/** The usable rows of a dataset, and the problems of the unusable rows. */
export interface Dataset {
  readonly path: string
  readonly files: ReadonlyArray<string>
  readonly rows: ReadonlyArray<Row>
  readonly problems: ReadonlyArray<Problem>
  /** Digest of all usable rows, independent of their order. */
  readonly digest: string
}

/** Options of {@link read}. */
export interface Options {
  /** Name of the field with the id of a row. Defaults to the first of the usual id fields that the row has. */
  readonly idField?: string | undefined
  /** Fields that must contain non-empty text. */
  readonly required?: ReadonlyArray<string> | undefined
  /** Maximum number of rows, counted from the first one. */
  readonly limit?: number | undefined
  /** Split to read from a folder. */
  readonly split?: string | undefined
}

const idFields = ["id", "row_id", "task_id", "instance_id", "question_id"]

/** Maximum decompressed size of a file, in bytes. */
const maxDecompressed = 4 * 1024 ** 3

const formats: Readonly<Record<string, (text: string) => ReadonlyArray<FoundRow>>> = {
  jsonl: (text) => parseLines(text),
  ndjson: (text) => parseLines(text),
  json: (text) => parseDocument(text),
  csv: (text) => parseCells(text, ","),
  tsv: (text) => parseCells(text, "\t")
}

const known = [...Object.keys(formats), "parquet"]

/** Files in a dataset folder that contain no rows. */
const besides = new Set(["dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "package.json"])

interface FoundRow {
  readonly line: number
  readonly value: Option.Option<unknown>
  readonly problem?: string | undefined
}

const parseLines = (text: string): ReadonlyArray<FoundRow> =>
  text
    .replace(/^\uFEFF/, "")
    .split("\n")
    .flatMap((line, index): ReadonlyArray<FoundRow> =>
      line.trim() === "" ? [] : [{ line: index + 1, value: Json.parse(line), problem: "not valid JSON" }]
    )

/**
 * Parses a JSON file. It contains an array of rows, an object with such an array (`{"data": […]}`), or JSON lines
 * despite its name.
 */
const parseDocument = (text: string): ReadonlyArray<FoundRow> => {
  const whole = Option.getOrUndefined(Json.parse(text.replace(/^\uFEFF/, "")))
  const list = Array.isArray(whole)
    ? whole
    : Object.values(Json.readFields(whole)).find((value) => Array.isArray(value))
  return list === undefined
    ? parseLines(text)
    : Json.readItems(list).map((value, index) => ({ line: index + 1, value: Option.some(value) }))
}

const parseCells = (text: string, delimiter: string): ReadonlyArray<FoundRow> => {
  const [header, ...records] = CsvRecords.read(text, delimiter)
  if (header === undefined) return []
  if (!("cells" in header)) return [{ line: header.line, value: Option.none(), problem: `header: ${header.problem}` }]
  const names = header.cells.map((name) => name.trim())
  return records.map((record): FoundRow => {
    const { line } = record
    if (!("cells" in record)) return { line, value: Option.none(), problem: record.problem }
    const { length } = record.cells
    if (length !== names.length)
      return {
        line,
        value: Option.none(),
        problem: `${length} ${length === 1 ? "cell" : "cells"} where the header has ${names.length}`
      }
    return {
      line,
      value: Option.some(Object.fromEntries(names.map((name, index) => [name, record.cells[index] ?? ""])))
    }
  })
}

/** Serializes a value as JSON with sorted keys, so that equal values produce equal output. */
const toCanonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join()}]`
  if (!Json.isFields(value)) return JSON.stringify(value) ?? "null"
  return `{${Object.keys(value)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${toCanonicalJson(value[key])}`)
    .join()}}`
}

const makeCollector = ({ idField, required = [] }: Options) => {
  const rows: Array<Row> = []
  const problems: Array<Problem> = []
  const used = new Map<string, Row>()
  const findProblem = ({ problem, value }: FoundRow): string | undefined => {
    if (Option.isNone(value)) return problem ?? "not readable"
    const row = value.value
    if (!Json.isFields(row) || Array.isArray(row)) return "expected an object of named fields"
    for (const name of required) {
      const field = row[name]
      if (typeof field === "string" && field.trim() !== "") continue
      const meant = field === undefined ? findNearest(name, Object.keys(row)) : undefined
      return (
        `"${name}" is ` +
        `${field === undefined ? "missing" : typeof field === "string" ? "empty" : "not a text"}${meant === undefined ? "" : `; the row has "${meant}"`}`
      )
    }
    return undefined
  }
  const readId = (fields: Json.Fields): string | undefined => {
    const field = idField ?? idFields.find((name) => Json.readWord(fields[name]) !== "")
    const id = field === undefined ? "" : Json.readWord(fields[field])
    return id === "" ? undefined : id
  }
  const makeContentId = (digest: string): string => {
    let id = `row-${digest}`
    for (let copy = 2; used.has(id); copy++) id = `row-${digest}-${copy}`
    return id
  }
  return {
    rows,
    problems,
    add: (file: string, found: FoundRow): void => {
      const { line, value } = found
      const problem = findProblem(found)
      const fields = Json.readFields(Option.getOrUndefined(value))
      if (problem !== undefined) return void problems.push({ file, line, message: problem })
      const own = readId(fields)
      const digest = Digest.toHex(toCanonicalJson(fields), 16)
      const first = own === undefined ? undefined : used.get(own)
      if (first !== undefined) {
        return void problems.push({
          file,
          line,
          message: `id "${own}" was used already in ${first.file === file ? "" : `${first.file} `}line ${first.line}`
        })
      }
      const row = { id: own ?? makeContentId(digest), digest, index: rows.length, file, line, fields }
      used.set(row.id, row)
      rows.push(row)
    }
  }
}

const detectFormat = (name: string): string | undefined => /\.([a-z]+)(?:\.gz)?$/i.exec(name)?.[1]?.toLowerCase()

const detectSplit = (path: string): string | undefined => {
  const found = /(?:^|[^a-z0-9])(train(?:ing)?|test(?:ing)?|validation|valid|val|dev|eval)(?![a-z])/i
    .exec(path)?.[1]
    ?.toLowerCase()
  if (found === undefined) return undefined
  return found.startsWith("train") ? "train" : found.startsWith("test") || found === "eval" ? "test" : "validation"
}

const toReadError = (path: string) => (error: Parameters<typeof describeReason>[0]) =>
  new DatasetError({ path, message: `dataset ${path} cannot be read: ${describeReason(error)}` })

/** Lists the data files of a folder, without files of other splits. */
const listDataFiles = Effect.fnUntraced(function* (folder: string, split: string | undefined) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const names = (yield* Effect.mapError(fs.readDirectory(folder, { recursive: true }), toReadError(folder)))
    .filter((name) => !name.split(/[\\/]/).some((part) => part.startsWith(".")) && !besides.has(paths.basename(name)))
    .toSorted()
  const refused = names
    .filter((name) => /\.arrow$/i.test(name))
    .map((name): Problem => ({
      file: name,
      message: 'this format is not read here: convert it to JSONL (datasets: ds.to_json("data.jsonl"))'
    }))
  const data = names.filter((name) => known.includes(detectFormat(name) ?? ""))
  const splits = Array.from(new Set(data.flatMap((name) => detectSplit(name) ?? []))).toSorted()
  const wanted = split ?? (splits.includes("train") ? "train" : splits[0])
  const chosen =
    wanted === undefined || (split === undefined && splits.length < 2)
      ? data
      : data.filter((name) => detectSplit(name) === wanted)
  if (chosen.length === 0) {
    const [first] = refused
    const message =
      split !== undefined && splits.length > 0
        ? `dataset ${folder} has no split "${split}": there is ${splits.join(", ")}`
        : first === undefined
          ? `dataset ${folder} has no ${known.map((name) => `.${name}`).join(", ")} file`
          : `dataset ${folder}: ${first.file}: ${first.message}`
    return yield* new DatasetError({ path: folder, message })
  }
  return { files: chosen, refused }
})

const readText = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  if (!path.endsWith(".gz")) return yield* Effect.mapError(fs.readFileString(path), toReadError(path))
  const bytes = gunzip(yield* Effect.mapError(fs.readFile(path), toReadError(path)), maxDecompressed)
  if (bytes === undefined)
    return yield* new DatasetError({
      path,
      message: `dataset ${path} cannot be read: it is not a gzip file, or is damaged`
    })
  return new TextDecoder().decode(bytes)
})

/** Converts a column value to a JSON value. */
const toPlainValue = (value: unknown): unknown => {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return `[${value.length} bytes]`
  if (Array.isArray(value)) return value.map(toPlainValue)
  return Json.isFields(value)
    ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, toPlainValue(one)]))
    : value
}

const readParquetRows = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const { buffer, byteLength, byteOffset } = yield* Effect.mapError(fs.readFile(path), toReadError(path))
  // A copy with its own buffer, which the reader requires.
  const file = new Uint8Array(buffer, byteOffset, byteLength).slice().buffer
  const { parquetReadObjects } = yield* Effect.mapError(
    OptionalPackage.load("Parquet files need the package", ["hyparquet"], () =>
      import("hyparquet").catch(OptionalPackage.rethrowImport)
    ),
    ({ message }) => new DatasetError({ path, message: `dataset ${path} cannot be read: ${message}` })
  )
  const rows = yield* Effect.tryPromise({
    try: () => parquetReadObjects({ file, compressors: blockDecoders }),
    catch: (error) =>
      new DatasetError({
        path,
        message: `dataset ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`
      })
  })
  return rows.map((row, index): FoundRow => ({ line: index + 1, value: Option.some(toPlainValue(row)) }))
})

/** Reads the dataset at a path. Fails if it has no usable row. */
export const read = Effect.fn("Dataset.read")(function* (
  path: string,
  options: Options = {}
): Effect.fn.Return<Dataset, DatasetError, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { type } = yield* Effect.mapError(fs.stat(path), toReadError(path))
  const isFolder = type === "Directory"
  const format = detectFormat(path)
  if (!isFolder && (format === undefined || !known.includes(format))) {
    const endings = known.map((name) => `.${name}`).join(", ")
    return yield* new DatasetError({
      path,
      message: `dataset ${path}: expected a ${endings} file, or a folder of such files`
    })
  }
  const { files, refused } = isFolder ? yield* listDataFiles(path, options.split) : { files: [path], refused: [] }
  const { add, problems, rows } = makeCollector(options)
  problems.push(...refused)
  for (const file of files) {
    const at = isFolder ? paths.join(path, file) : file
    const parse = formats[detectFormat(file) ?? ""]
    const found = parse === undefined ? yield* readParquetRows(at) : parse(yield* readText(at))
    for (const one of found) add(file, one)
  }
  const limited = options.limit === undefined ? rows : rows.slice(0, options.limit)
  if (limited.length === 0) {
    const [first] = problems
    const where =
      first === undefined
        ? "it is empty"
        : `${first.file}${first.line === undefined ? "" : ` line ${first.line}`}: ${first.message}`
    return yield* new DatasetError({ path, message: `dataset ${path} has no usable row: ${where}` })
  }
  return { path, files, rows: limited, problems, digest: computeDigest(limited) }
})

/** Maximum number of problems that are reported individually. */
const shownProblems = 10

/** Returns lines for the user about unusable rows and files: the first problems, and the number of the others. */
export const renderProblems = (problems: ReadonlyArray<Problem>): ReadonlyArray<string> => {
  const more = problems.length - shownProblems
  return [
    ...problems
      .slice(0, shownProblems)
      .map(({ file, line, message }) => `${file}${line === undefined ? "" : ` line ${line}`}: ${message}; left out`),
    ...(more > 0 ? [`${more} more ${more === 1 ? "row" : "rows"} left out`] : [])
  ]
}

/** Returns the digest of rows, independent of their order. */
export const computeDigest = (rows: ReadonlyArray<Pick<Row, "digest" | "id">>): string =>
  Digest.toHex(
    rows
      .map(({ digest, id }) => `${id} ${digest}`)
      .toSorted()
      .join("\n"),
    32
  )

/** Ids of rows that differ between two versions of a dataset. */
export interface Difference {
  readonly added: ReadonlyArray<string>
  readonly changed: ReadonlyArray<string>
  readonly removed: ReadonlyArray<string>
}

/** Compares the current rows with an earlier version of the dataset, which is given as a list of ids and digests. */
export const compareRows = (
  before: ReadonlyMap<string, string>,
  now: ReadonlyArray<Pick<Row, "digest" | "id">>
): Difference => {
  const ids = new Set(now.map(({ id }) => id))
  return {
    added: now.filter(({ id }) => !before.has(id)).map(({ id }) => id),
    changed: now.filter(({ digest, id }) => before.has(id) && before.get(id) !== digest).map(({ id }) => id),
    removed: Array.from(before.keys()).filter((id) => !ids.has(id))
  }
}
