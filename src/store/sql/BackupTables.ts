/** Columns of the tables in a backup, and the check of rows from a file. */
import * as Result from "effect/Result"
import type { Row, TableName } from "../SessionBackup.ts"

/** A column. Text of kind `exact` is preserved byte for byte, also characters that a database cannot store. */
interface Column {
  readonly name: string
  readonly kind: "text" | "exact" | "integer" | "real"
  readonly isOptional: boolean
}

const makeColumn =
  (kind: Column["kind"], isOptional = false) =>
  (name: string): Column => ({ name, kind, isOptional })
const textColumn = makeColumn("text")
const optionalTextColumn = makeColumn("text", true)
const exactColumn = makeColumn("exact")
const integerColumn = makeColumn("integer")
const optionalIntegerColumn = makeColumn("integer", true)
const realColumn = makeColumn("real")

const usage = [
  ...[
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "api_call_count"
  ].map(integerColumn),
  realColumn("estimated_cost_usd"),
  textColumn("cost_status"),
  textColumn("cost_source")
]

/** Columns by table. */
export const columns: Readonly<Record<TableName, ReadonlyArray<Column>>> = {
  sessions: [
    ...["id", "source", "provider", "model"].map(textColumn),
    ...["parent_session_id", "title", "cwd", "branch", "tenant"].map(optionalTextColumn),
    ...["started_at", "updated_at"].map(integerColumn),
    optionalIntegerColumn("ended_at"),
    optionalTextColumn("end_reason"),
    ...["message_count", "tool_call_count"].map(integerColumn),
    ...usage,
    optionalTextColumn("continues_session_id"),
    integerColumn("has_own_prompt"),
    exactColumn("system_prompt")
  ],
  messages: [
    textColumn("session_id"),
    integerColumn("position"),
    textColumn("role"),
    integerColumn("created_at"),
    ...["content", "tool_name", "tool_calls", "envelope"].map(textColumn)
  ],
  session_model_usage: [...["session_id", "provider", "model"].map(textColumn), ...usage],
  begun_calls: [textColumn("session_id"), exactColumn("call_id")],
  run_record: [
    ...["session_id", "turn_id"].map(textColumn),
    realColumn("at"),
    integerColumn("version"),
    textColumn("kind"),
    optionalTextColumn("content_key"),
    optionalIntegerColumn("position"),
    textColumn("body")
  ],
  questions: [
    ...["id", "session_id"].map(textColumn),
    ...["call_id", "place"].map(exactColumn),
    textColumn("kind"),
    optionalTextColumn("audience"),
    textColumn("state"),
    integerColumn("created_at"),
    ...["expires_at", "wake_at"].map(optionalIntegerColumn),
    textColumn("body"),
    ...["answer", "answered_by"].map(optionalTextColumn),
    optionalIntegerColumn("answered_at")
  ],
  call_steps: [textColumn("session_id"), ...["call_id", "name"].map(exactColumn), textColumn("value")]
}

const isValue = ({ isOptional, kind }: Column, value: unknown): value is string | number | null => {
  if (value === null || value === undefined) return isOptional
  if (kind === "text" || kind === "exact") return typeof value === "string"
  return kind === "real" ? Number.isFinite(value) : Number.isSafeInteger(value)
}

/** Checks a row from a file. Fails with the reason, also for a column of a later version. */
export const checkRow = (table: TableName, fields: Readonly<Record<string, unknown>>): Result.Result<Row, string> => {
  const row: Record<string, string | number | null> = {}
  const foreign = Object.keys(fields).find((name) => columns[table].every((column) => column.name !== name))
  if (foreign !== undefined) return Result.fail(`${table}.${foreign} is of a later version: update hermes`)
  for (const column of columns[table]) {
    const value = fields[column.name] ?? null
    if (!isValue(column, value))
      return Result.fail(`${table}.${column.name} is ${value === null ? "missing" : `not ${column.kind}`}`)
    row[column.name] = value
  }
  return Result.succeed(row)
}

/** Converts the text of exact columns of a row. */
export const convertExact = (table: TableName, row: Row, convert: (text: string) => string): Row => {
  const converted: Record<string, string | number | null> = {}
  for (const { kind, name } of columns[table]) {
    const value = row[name] ?? null
    converted[name] = kind === "exact" && typeof value === "string" ? convert(value) : value
  }
  return converted
}
