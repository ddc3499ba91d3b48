/**
 * Rows of `hermes batch run --cluster`: the batch submits each attempt at a row and waits for its result; a runner runs
 * the row in its own directory with the agent of the submission.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as BatchRow from "../../research/batch/BatchRow.ts"
import type * as BatchRun from "../../research/batch/BatchRun.ts"
import * as ClusterAgents from "./ClusterAgents.ts"
import type { RowKind } from "./ClusterRows.ts"
import type { RowSubmitter } from "./ClusterSubmission.ts"

/** Kind of the requests for rows of a batch. */
export const kind = "batch row"

/** Versions of the input. Version 2 adds seeds and limits, and is used only for rows that have them. */
const versions = [1, 2] as const

const Input = Schema.Struct({
  run: Schema.String,
  row: Schema.Struct({
    id: Schema.String,
    index: Schema.Int,
    digest: Schema.String,
    fields: Schema.Record(Schema.String, Schema.Unknown)
  }),
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
  budget: Schema.optionalKey(
    Schema.Struct({ tokens: Schema.optionalKey(Schema.Int), dollars: Schema.optionalKey(Schema.Finite) })
  ),
  seed: Schema.optionalKey(Schema.Int),
  needsReasoning: Schema.Boolean,
  withAtif: Schema.Boolean,
  keepsWorkspaces: Schema.Boolean
})

/** Rows of batches. */
export const rowKind: RowKind<typeof Input.Type> = {
  kind,
  versions,
  getRuntime: () => ({ setup: "rows" }),
  decode: Schema.decodeUnknownEffect(Input),
  run: Effect.fnUntraced(function* (
    { attempt, batch, budget, ephemeralSystemPrompt, goesOn, maxIterations, prefix, row, run, seed, toolsets, ...rest },
    start
  ) {
    yield* ClusterAgents.refuseUnknown(toolsets, start.opened)
    return yield* BatchRow.run(
      { ...row, file: run, line: 0 },
      { number: attempt, goesOn: goesOn || start.goesOn },
      {
        ...rest,
        directory: `${start.folder}/${run}`,
        sessionPrefix: prefix,
        ephemeralSystemPrompt,
        maxIterations,
        budget,
        getSeed: seed === undefined ? undefined : () => seed,
        getToolsets: () => toolsets,
        getRowBatch: () => batch,
        prepare: () => Effect.void
      }
    )
  })
}

/** Creates the function that submits the rows of a batch. */
export const makeRowRunner =
  (runName: string, { prefix, submit }: RowSubmitter): NonNullable<BatchRun.Options["elsewhere"]> =>
  (row, attempt, options) =>
    Effect.gen(function* () {
      const seed = options.getSeed?.(row)
      const { dollars, tokens } = options.budget ?? {}
      const budget = { ...(tokens === undefined ? {} : { tokens }), ...(dollars === undefined ? {} : { dollars }) }
      const sessionPrefix = yield* prefix
      const input: typeof Input.Encoded = {
        run: runName,
        row: { id: row.id, index: row.index, digest: row.digest, fields: row.fields },
        attempt: attempt.number,
        goesOn: false,
        prefix: sessionPrefix,
        promptField: options.promptField,
        toolsets: options.getToolsets(row),
        disabledToolsets: options.disabledToolsets,
        batch: options.getRowBatch(row),
        knownTools: options.knownTools,
        ...(options.ephemeralSystemPrompt === undefined
          ? {}
          : { ephemeralSystemPrompt: options.ephemeralSystemPrompt }),
        ...(options.maxIterations === undefined ? {} : { maxIterations: options.maxIterations }),
        ...(options.budget === undefined ? {} : { budget }),
        ...(seed === undefined ? {} : { seed }),
        needsReasoning: options.needsReasoning,
        withAtif: options.withAtif,
        keepsWorkspaces: options.keepsWorkspaces
      }
      return yield* submit({
        name: BatchRow.formatRowName(row),
        attempt: attempt.number,
        version: seed === undefined && options.budget === undefined ? versions[0] : versions[1],
        sessionId: BatchRow.makeRowSessionId(row, attempt, sessionPrefix),
        input
      })
    })
