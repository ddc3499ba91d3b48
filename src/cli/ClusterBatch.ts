/**
 * Rows of `hermes batch run --cluster`: the batch submits each attempt at a row and waits for its result; a runner does it in its own
 * directory and with its own settings.
 *
 * An attempt has one name, so a batch run that is interrupted and resumed finds the rows that the runners did meanwhile.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Agent } from "../agent/Agent.ts"
import * as Cluster from "../cluster/Cluster.ts"
import * as Json from "../domain/Json.ts"
import * as Digest from "../platform/Digest.ts"
import * as BatchRow from "../runner/batch/BatchRow.ts"
import type * as BatchRun from "../runner/batch/BatchRun.ts"
import type * as RowPool from "../runner/batch/RowPool.ts"
import type { RunRecord } from "../session/RunRecord.ts"
import type { SessionStore } from "../session/SessionStore.ts"
import type { ToolRegistry } from "../tool/ToolRegistry.ts"

/** Kind of the requests. */
export const kind = "batch row"

const Input = Schema.Struct({
  run: Schema.String,
  row: Schema.Struct({ id: Schema.String, index: Schema.Int, digest: Schema.String, fields: Schema.Record(Schema.String, Schema.Unknown) }),
  attempt: Schema.Int,
  goesOn: Schema.Boolean,
  prefix: Schema.String,
  promptField: Schema.String,
  toolsets: Schema.Array(Schema.String),
  disabledToolsets: Schema.Array(Schema.String),
  batch: Schema.Int,
  knownTools: Schema.Array(Schema.String),
  ephemeralSystemPrompt: Schema.optionalKey(Schema.String),
  maxIterations: Schema.optionalKey(Schema.Int),
  needsReasoning: Schema.Boolean,
  withAtif: Schema.Boolean,
  keepsWorkspaces: Schema.Boolean
})
const decodeInput = Schema.decodeUnknownEffect(Schema.fromJsonString(Input))

type Services = Agent | SessionStore | RunRecord | ToolRegistry | FileSystem.FileSystem | Path.Path

const failed = (error: unknown): Cluster.Outcome => ({
  status: "failed",
  message: error instanceof Error ? error.message.split("\n", 1)[0] ?? error.name : String(error),
  isPassing: false
})

/** Does a row in a directory below `folder`; what fails is decided about by the batch. */
export const handler = (services: Context.Context<Services>, folder: string): Cluster.Handler => ({ input, starts }) =>
  decodeInput(input).pipe(
    Effect.flatMap(({ attempt, batch, ephemeralSystemPrompt, goesOn, maxIterations, prefix, row, run, toolsets, ...rest }) =>
      BatchRow.run({ ...row, file: run, line: 0 }, { number: attempt, goesOn: goesOn || starts > 1 }, {
        ...rest,
        directory: `${folder}/${run}`,
        sessionPrefix: prefix,
        ephemeralSystemPrompt,
        maxIterations,
        toolsetsOf: () => toolsets,
        batchOf: () => batch,
        prepare: () => Effect.void
      })),
    Effect.map((result): Cluster.Outcome => ({ status: "finished", output: JSON.stringify(result) })),
    Effect.catch((error) =>
      Effect.succeed<Cluster.Outcome>({ ...failed(error), ...BatchRow.decide(error) === "retry" ? { isPassing: true } : {} })),
    Effect.provideContext(services)
  )

/** A row that a runner could not do now. */
class RowFailed extends Schema.TaggedError<RowFailed>("hermes-effect/cli/RowFailed")("RowFailed", { message: Schema.String }) {}

const resultOf = ({ isPassing, message = "the row failed", output, status }: Cluster.Outcome): Effect.Effect<RowPool.Result, RowFailed | BatchRow.RowRefused> => {
  if (status === "failed") return Effect.fail(isPassing === true ? new RowFailed({ message }) : new BatchRow.RowRefused({ message }))
  const value = Json.fields(Option.getOrUndefined(Json.parse(output ?? "")))
  const { costUsd, discarded, fields, tokens } = value
  return Effect.succeed({
    fields: Json.fields(fields),
    ...typeof costUsd === "number" ? { costUsd } : {},
    ...typeof tokens === "number" ? { tokens } : {},
    ...typeof discarded === "string" ? { discarded } : {}
  })
}

/** Makes the function that has rows done by the runners of a cluster, as long as the scope lives. */
export const elsewhere = Effect.fnUntraced(function*(url: Redacted.Redacted, runName: string, directory: string) {
  const { outcomes, submit } = Context.get(yield* Layer.build(Cluster.layerClient({ url })), Cluster.Cluster)
  // Two runs of one name in different directories are two runs.
  const prefix = `batch-${runName}-${Digest.hex(directory, 8)}`
  const waiting = new Map<string, Deferred.Deferred<Cluster.Outcome>>()
  const look = Effect.gen(function*() {
    for (const [id, outcome] of yield* outcomes(Array.from(waiting.keys()))) {
      const deferred = waiting.get(id)
      if (deferred !== undefined) yield* Deferred.succeed(deferred, outcome)
    }
  })
  yield* look.pipe(
    Effect.catch(({ message }) => Effect.logWarning(message)),
    Effect.andThen(Effect.sleep("200 millis")),
    Effect.forever,
    Effect.forkScoped
  )
  const run: BatchRun.Options["elsewhere"] = (row, attempt, options) =>
    Effect.gen(function*() {
      const id = `${prefix}/${row.id}/${attempt.number}`
      const input: typeof Input.Encoded = {
        run: runName,
        row: { id: row.id, index: row.index, digest: row.digest, fields: row.fields },
        attempt: attempt.number,
        goesOn: false,
        prefix,
        promptField: options.promptField,
        toolsets: options.toolsetsOf(row),
        disabledToolsets: options.disabledToolsets,
        batch: options.batchOf(row),
        knownTools: options.knownTools,
        ...options.ephemeralSystemPrompt === undefined ? {} : { ephemeralSystemPrompt: options.ephemeralSystemPrompt },
        ...options.maxIterations === undefined ? {} : { maxIterations: options.maxIterations },
        needsReasoning: options.needsReasoning,
        withAtif: options.withAtif,
        keepsWorkspaces: options.keepsWorkspaces
      }
      const known = yield* submit({ id, batch: `batch ${runName}`, kind, sessionId: BatchRow.sessionOf(row, attempt, prefix), retries: 0, input: JSON.stringify(input) })
      if (known !== undefined) return yield* resultOf(known)
      const ended = yield* Deferred.make<Cluster.Outcome>()
      yield* Effect.acquireRelease(Effect.sync(() => waiting.set(id, ended)), () => Effect.sync(() => waiting.delete(id)))
      return yield* Effect.flatMap(Deferred.await(ended), resultOf)
    }).pipe(Effect.scoped)
  return run
})
