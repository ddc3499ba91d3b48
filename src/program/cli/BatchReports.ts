/**
 * Actions of `hermes batch stats | merge | show | diff | view`, which read the rows of a run.
 *
 * Source: `hermes-product.md` §5.1.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import { Home } from "../../base/config/Environment.ts"
import * as Json from "../../base/domain/Json.ts"
import { version } from "../../base/domain/Version.ts"
import * as StudioServer from "../../observe/studio/StudioServer.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as BatchFiles from "../../research/batch/BatchFiles.ts"
import { noReasoning } from "../../research/batch/BatchRow.ts"
import * as BatchRun from "../../research/batch/BatchRun.ts"
import * as RowJournal from "../../research/batch/RowJournal.ts"
import * as ShareGpt from "../../research/batch/ShareGpt.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { EndSignal, makeWorkFailure, makeUnknownNameFailure, makeUsageFailure } from "./Failure.ts"
import { printLine, Output, renderTable } from "./ProgramOutput.ts"
import { formatDollars } from "./render/BatchProgress.ts"
import * as SafeText from "./render/SafeText.ts"

/** Finds the directory of a run by a path, or by a name below `data/`. */
export const findRunDirectory = Effect.fnUntraced(function* (reference: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const runs = paths.resolve(getWorkingDirectory(), "data")
  for (const path of [paths.resolve(getWorkingDirectory(), reference), paths.join(runs, reference)]) {
    if (yield* Effect.orElseSucceed(fs.exists(paths.join(path, BatchFiles.names.manifest)), () => false)) return path
  }
  const known = yield* Effect.orElseSucceed(fs.readDirectory(runs), () => [])
  return yield* known.length === 0
    ? makeUsageFailure(
        `no batch run "${reference}": pass the directory of one, which has a ${BatchFiles.names.manifest}`
      )
    : makeUnknownNameFailure("batch run", SafeText.toLine(reference), { known, list: "ls data" })
})

/** Returns the path of the database with the sessions of a run. */
export const findRunDatabase = Effect.fnUntraced(function* (reference: string) {
  const paths = yield* Path.Path
  return paths.join(yield* findRunDirectory(reference), BatchFiles.names.database)
})

/** Opens a run for reading. */
const openRun = Effect.fnUntraced(function* (reference: string) {
  const directory = yield* findRunDirectory(reference)
  const manifest = yield* Effect.mapError(BatchFiles.readManifest(directory), ({ message }) =>
    makeUsageFailure(message)
  )
  if (manifest === undefined) return yield* makeUsageFailure(`${directory} has no ${BatchFiles.names.manifest}`)
  const rows = yield* RowJournal.readResults(directory, BatchFiles.names.isBatch)
  return { directory, manifest, rows, results: Stream.mapError(rows, ({ message }) => makeWorkFailure(message)) }
})

interface RunReference {
  readonly directory: string
}

const formatPercent = (part: number, whole: number): string =>
  whole === 0 ? "–" : `${Math.round((part / whole) * 100)} %`

/** Prints the statistics of a run. */
export const showStatistics = Effect.fn("hermes batch stats")(function* ({
  directory: reference,
  json
}: RunReference & { readonly json: boolean }) {
  const { directory, manifest, results } = yield* openRun(reference)
  const totals = BatchFiles.makeTotals()
  const known = BatchFiles.collectKnown(manifest)
  yield* Stream.runForEach(results, (row) => Effect.sync(() => BatchFiles.addRow(totals, row, known)))
  const paths = yield* Path.Path
  const previous = yield* BatchFiles.readPrevious(paths.join(directory, BatchFiles.names.statistics))
  const { failures } = previous
  const found = BatchFiles.toStatistics(totals, manifest, { ...previous, at: manifest.created_at, seconds: 0 })
  if (json) {
    const { completed_at: _, duration_seconds: __, ...rest } = found
    return yield* printLine(SafeText.toJson(rest, 2))
  }
  const { reasoning_statistics: reasoning, rows, usage: used } = found
  // Rows that were discarded, that failed or that did not start are incomplete. Rows that are no longer in the dataset
  // are counted separately.
  const allRows = rows.finished + rows.discarded + rows.missing
  const tools = Object.entries(found.tool_statistics)
    .filter(([, { count }]) => count > 0)
    .toSorted(([, a], [, b]) => b.count - a.count)
  yield* printLine(
    [
      `${manifest.run_name}: ${found.total_prompts - rows.missing} of ${found.total_prompts} rows done, ` +
        `begun ${manifest.created_at.slice(0, 16).replace("T", " ")}`,
      renderTable([
        ["dataset", manifest.dataset.path],
        ["model", manifest.model],
        ["distribution", manifest.distribution],
        ["completed", `${rows.completed} of ${allRows} (${formatPercent(rows.completed, allRows)})`],
        ...Object.entries(found.exits)
          .filter(([exit]) => exit !== "text_response")
          .map(([exit, count]) => ["", `${exit}: ${count}`]),
        ...Object.entries(failures).map(([kind, count]) => [
          "failed",
          `${Json.readWord(count)}: ${kind.replaceAll("_", " ")}`
        ]),
        ...Object.entries(found.discards).map(([reason, count]) => ["discarded", `${count}: ${reason}`]),
        ...(rows.with_unknown_tools === 0 ? [] : [["left out", `${rows.with_unknown_tools} rows with unknown tools`]]),
        ...(rows.gone === 0 ? [] : [["gone", `${rows.gone} rows that changed or are no longer in the dataset`]]),
        ...(rows.suspended === 0 ? [] : [["suspended", `${rows.suspended} rows: answer their questions`]]),
        ...(rows.missing === 0 ? [] : [["missing", `${rows.missing} rows: resume the run`]]),
        ["reasoning", `${reasoning.turns_with_reasoning} of ${reasoning.total_assistant_turns} turns`],
        ["model calls", String(used.api_calls)],
        [
          "tokens",
          `${used.prompt_tokens.toLocaleString("en-US")} in, ${used.completion_tokens.toLocaleString("en-US")} out`
        ],
        ...(used.cost_usd === 0 ? [] : [["cost", formatDollars(used.cost_usd)]])
      ]),
      ...(tools.length === 0
        ? []
        : [
            "",
            renderTable([
              ["tool", "calls", "failed", "success"],
              ...tools.map(([name, { count, failure, success }]) => [
                name,
                String(count),
                String(failure),
                formatPercent(success, count)
              ])
            ])
          ])
    ]
      .map(SafeText.toPlainText)
      .join("\n")
  )
}, Effect.scoped)

/** Rewrites the merged files of a run. */
export const merge = Effect.fn("hermes lab batch merge")(function* ({
  directory: reference,
  keepWithoutReasoning
}: RunReference & { readonly keepWithoutReasoning: boolean }) {
  const { directory, manifest, rows } = yield* openRun(reference)
  const results = keepWithoutReasoning
    ? Stream.map(rows, (row) => (row.discarded === noReasoning ? { ...row, discarded: undefined } : row))
    : rows
  const { merged } = yield* Effect.mapError(BatchRun.finish(directory, { results }, manifest), ({ message }) =>
    makeWorkFailure(message)
  )
  const paths = yield* Path.Path
  yield* printLine(
    `${paths.join(directory, BatchFiles.names.trajectories)}: ${merged.written} rows; left out: ` +
      `${merged.discarded} discarded, ${merged.withUnknownTools} with unknown tools`
  )
}, Effect.scoped)

const longestTurn = 4000

const formatTurn = ({ from, value }: ShareGpt.Turn): ReadonlyArray<string> => [
  `── ${from}`,
  SafeText.sanitise(
    value.length > longestTurn
      ? `${value.slice(0, longestTurn)}\n… ${value.length - longestTurn} more characters (--json shows all)`
      : value
  )
]

/** Prints one row of a run. */
export const show = Effect.fn("hermes batch show")(function* ({
  directory: reference,
  json,
  row
}: RunReference & { readonly json: boolean; readonly row: string }) {
  const { results } = yield* openRun(reference)
  const found = yield* Stream.runCollect(
    Stream.filter(results, ({ fields, id }) => id === row || String(fields["prompt_index"]) === row)
  )
  const one = found.find(({ id }) => id === row) ?? found[0]
  if (one === undefined)
    return yield* makeUsageFailure(`row "${row}" has no result: pass its id, or its index (prompt_index)`)
  if (json) return yield* printLine(SafeText.toJson({ row_id: one.id, discarded: one.discarded, ...one.fields }, 2))
  const run = Json.readFields(one.fields["run"])
  const tools = Json.readFields(one.fields["tool_stats"])
  const calls = Json.readItems(run["model_calls"]).map(Json.readFields)
  const { message: problem } = Json.readFields(run["error"])
  const system = Json.readWord(run["system_prompt"])
  yield* printLine(
    [
      `${one.id} (index ${Json.readWord(one.fields["prompt_index"])}): ` +
        `${one.discarded === undefined ? Json.readWord(run["exit"]) : `discarded: ${one.discarded}`}`,
      ...(problem === undefined ? [] : [`error      ${Json.readWord(problem)}`]),
      `session    ${Json.readWord(run["session_id"])}`,
      `toolsets   ${Json.readItems(one.fields["toolsets_used"]).map(Json.readWord).join(", ")}`,
      `tools      ${
        Object.entries(tools)
          .flatMap(([name, stat]) =>
            Json.readFields(stat)["count"] === 0 ? [] : [`${name} ${Json.readWord(Json.readFields(stat)["count"])}`]
          )
          .join(", ") || "no calls"
      }`,
      ...calls.map(
        (call, index) =>
          `${index === 0 ? "calls      " : "           "}${Json.readWord(call["model"])} ` +
          `${Json.readWord(call["status"])}, ` +
          `${Json.readWord(call["finish_reason"]) || "no finish reason"}, ` +
          `${Json.readWord(call["duration_ms"])} ms, ` +
          `${Json.readWord(Json.readFields(call["usage"])["total_tokens"]) || 0} tokens`
      ),
      ...formatTurn({ from: "system", value: system }),
      ...(ShareGpt.read(one.fields["conversations"]) ?? []).slice(1).flatMap((turn) => formatTurn(turn))
    ].join("\n")
  )
}, Effect.scoped)

interface RowSummary {
  readonly exit: string
  readonly calls: number
  readonly answer: string
  readonly tokens: number
}

const summariseRow = (fields: Json.Fields, discarded: string | undefined): RowSummary => {
  const run = Json.readFields(fields["run"])
  const last = (ShareGpt.read(fields["conversations"]) ?? []).findLast(({ from }) => from === "gpt")?.value ?? ""
  const calls = fields["api_calls"]
  const tokens = Json.readFields(run["usage"])["total_tokens"]
  return {
    exit: discarded ?? Json.readWord(run["exit"]),
    calls: typeof calls === "number" ? calls : 0,
    tokens: typeof tokens === "number" ? tokens : 0,
    answer: last.replace(/^<think>[\s\S]*?<\/think>\s*/, "")
  }
}

/** Compares the rows of two runs. */
export const diff = Effect.fn("hermes batch diff")(function* ({
  directory,
  json,
  other
}: RunReference & { readonly json: boolean; readonly other: string }) {
  const readRowSummaries = Effect.fnUntraced(function* (reference: string) {
    const { manifest, results } = yield* openRun(reference)
    const rows = yield* Stream.runCollect(
      Stream.map(results, ({ discarded, fields, id }) => [id, summariseRow(fields, discarded)] as const)
    )
    return { name: manifest.run_name, rows: new Map(rows) }
  })
  const [a, b] = yield* Effect.all([readRowSummaries(directory), readRowSummaries(other)])
  const ids = Array.from(new Set([...a.rows.keys(), ...b.rows.keys()]))
  const differing = ids.flatMap((id) => {
    const [left, right] = [a.rows.get(id), b.rows.get(id)]
    if (left === undefined || right === undefined)
      return [{ id, what: left === undefined ? `only in ${b.name}` : `only in ${a.name}` }]
    const what = [
      ...(left.exit === right.exit ? [] : [`exit ${left.exit} → ${right.exit}`]),
      ...(left.calls === right.calls ? [] : [`model calls ${left.calls} → ${right.calls}`]),
      ...(left.answer === right.answer ? [] : ["another answer"])
    ]
    // Even a different name in the system prompt changes the number of tokens, so rows that differ only in their tokens
    // are not listed.
    return what.length === 0 ? [] : [{ id, what: [...what, `tokens ${left.tokens} → ${right.tokens}`].join(", ") }]
  })
  if (json)
    return yield* printLine(
      SafeText.toJson(
        { runs: [a.name, b.name], rows: ids.length, same: ids.length - differing.length, different: differing },
        2
      )
    )
  yield* printLine(
    [
      `${a.name} and ${b.name}: ${ids.length} rows, ${ids.length - differing.length} identical`,
      ...(differing.length === 0 ? [] : [renderTable(differing.map(({ id, what }) => [`  ${id}`, what]))])
    ]
      .map(SafeText.toPlainText)
      .join("\n")
  )
}, Effect.scoped)

/** Starts the studio for the sessions of a run. */
export const view = Effect.fn("hermes batch view")(
  function* ({ directory: reference, port = 0 }: RunReference & { readonly port: number | undefined }) {
    if (port < 0 || port > 65_535)
      return yield* makeUsageFailure(`--port "${port}" is invalid: expected a number from 0 to 65535`)
    const { protect } = yield* Output
    yield* protect
    const paths = yield* Path.Path
    const home = yield* Home
    const { directory, manifest } = yield* openRun(reference)
    const ended = yield* EndSignal
    yield* Effect.gen(function* () {
      const { url } = yield* Effect.mapError(
        StudioServer.serve({ home: home.root, models: [], version, port, exists: Effect.succeed(true) }),
        (reason) => makeWorkFailure(`cannot listen on port ${port} (${reason}): choose another --port, or leave it out`)
      )
      yield* printLine(`Studio on run ${manifest.run_name}: ${url}  (read-only; press Ctrl+C to stop)`)
      yield* ended
    }).pipe(Effect.provide(SessionStore.layerSqlite({ path: paths.join(directory, BatchFiles.names.database) })))
  },
  Effect.scoped,
  Effect.provide(CommandSettings.surroundings)
)
