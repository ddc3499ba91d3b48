/**
 * Rows of `hermes batch run --cluster`: the batch submits each attempt at a row and waits for its result; a runner runs
 * the row in its own directory with the agent of the submission.
 *
 * Each attempt has a fixed name, so a batch run that is interrupted and resumed finds the rows that runners completed
 * in the meantime.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as Cluster from "../../serve/cluster/Cluster.ts"
import * as ClusterDatabase from "../../serve/cluster/ClusterDatabase.ts"
import * as DurableRun from "../../serve/cluster/DurableRun.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Digest from "../../base/platform/Digest.ts"
import * as BatchRow from "../../research/batch/BatchRow.ts"
import type * as BatchRun from "../../research/batch/BatchRun.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import * as ClusterAgents from "./ClusterAgents.ts"

/** Request kind for rows of a batch. */
export const kind = "batch row"

/**
 * Supported versions of the row format; other versions are rejected. Version 2 adds seeds and limits, and is used only
 * for rows that have them.
 */
const formVersions = [1, 2] as const

const Input = Schema.Struct({
  version: Schema.Literals(formVersions),
  /** Digest of the agent of the submission. */
  agent: Schema.String,
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
  timeoutSeconds: Schema.optionalKey(Schema.Finite),
  budget: Schema.optionalKey(
    Schema.Struct({ tokens: Schema.optionalKey(Schema.Int), dollars: Schema.optionalKey(Schema.Finite) })
  ),
  seed: Schema.optionalKey(Schema.Int),
  needsReasoning: Schema.Boolean,
  withAtif: Schema.Boolean,
  keepsWorkspaces: Schema.Boolean
})
const decodeInput = Schema.decodeUnknownEffect(Schema.fromJsonString(Input))

/** Number of times that a row whose run broke off is continued in its session. */
const mostContinuations = 3

/** Returns how often the run with this id was continued: the ids are `a`, `a~2`, `a~3`. */
const countContinuations = (id: string): number => Number(/~(\d+)$/u.exec(id)?.[1] ?? 1) - 1

const toFailedOutcome = (error: unknown): Cluster.Outcome => ({
  status: "failed",
  message: error instanceof Error ? (error.message.split("\n", 1)[0] ?? error.name) : String(error),
  isPassing: false
})

/** A temporary failure of a runner to run a row. */
class RowFailed extends Schema.TaggedError<RowFailed>("hermes-effect/cli/RowFailed")("RowFailed", {
  message: Schema.String
}) {}

/** Decodes a row in a format that this version supports. */
const readInput = Effect.fnUntraced(function* (input: string) {
  const { version } = Json.readFields(Json.parseOrKeep(input))
  if (!formVersions.some((known) => known === version)) {
    return yield* new BatchRow.RowRefused({
      message:
        `the row has format ${String(version)}, but this runner reads ${formVersions.join(" and ")}: submit ` +
        "it with the same version"
    })
  }
  return yield* Effect.mapError(
    decodeInput(input),
    ({ message }) => new BatchRow.RowRefused({ message: message.replace(/\s+/gu, " ") })
  )
})

/**
 * Creates the handler that runs a row with the agent of its submission, in a directory below `folder`. The batch
 * handles failures.
 */
export const makeRowHandler =
  (
    open: (agent: string) => Effect.Effect<ClusterAgents.AgentRuntime, ConfigError, Scope.Scope>,
    around: Context.Context<FileSystem.FileSystem | Path.Path>,
    folder: string
  ): Cluster.Handler =>
  ({ id, input, starts }) =>
    Effect.gen(function* () {
      const {
        agent,
        attempt,
        batch,
        budget,
        ephemeralSystemPrompt,
        goesOn,
        maxIterations,
        prefix,
        row,
        run,
        seed,
        timeoutSeconds,
        toolsets,
        version: _,
        ...rest
      } = yield* readInput(input)
      const opened = yield* open(agent)
      yield* ClusterAgents.refuseUnknown(toolsets, opened)
      const work = BatchRow.run(
        { ...row, file: run, line: 0 },
        { number: attempt, goesOn: goesOn || starts > 1 || countContinuations(id) > 0 },
        {
          ...rest,
          directory: `${folder}/${run}`,
          sessionPrefix: prefix,
          ephemeralSystemPrompt,
          maxIterations,
          budget,
          getSeed: seed === undefined ? undefined : () => seed,
          getToolsets: () => toolsets,
          getRowBatch: () => batch,
          prepare: () => Effect.void
        }
      ).pipe(Effect.provideContext(Context.merge(around, opened.services)))
      const result = yield* timeoutSeconds === undefined
        ? work
        : Effect.timeoutOrElse(work, {
            duration: Duration.seconds(timeoutSeconds),
            orElse: () =>
              Effect.fail(new RowFailed({ message: `the row took longer than its limit of ${timeoutSeconds} s` }))
          })
      const { suspendedIn } = result
      return suspendedIn === undefined
        ? ({ status: "finished", output: JSON.stringify(result) } satisfies Cluster.Outcome)
        : yield* DurableRun.readSuspension(suspendedIn).pipe(Effect.provideContext(opened.services))
    }).pipe(
      Effect.catch((error) =>
        Effect.succeed<Cluster.Outcome | Cluster.Suspended>({
          ...toFailedOutcome(error),
          ...(BatchRow.decideOnFailure(error) === "retry" ? { isPassing: true } : {})
        })
      ),
      Effect.scoped
    )

const toRowResult = ({
  isPassing,
  message = "the row failed",
  output,
  status
}: Cluster.Outcome): Effect.Effect<RowPool.Result, RowFailed | BatchRow.RowRefused> => {
  if (status === "failed")
    return Effect.fail(isPassing === true ? new RowFailed({ message }) : new BatchRow.RowRefused({ message }))
  const value = Json.readFields(Option.getOrUndefined(Json.parse(output ?? "")))
  const { costUsd, discarded, fields, tokens } = value
  return Effect.succeed({
    fields: Json.readFields(fields),
    ...(typeof costUsd === "number" ? { costUsd } : {}),
    ...(typeof tokens === "number" ? { tokens } : {}),
    ...(typeof discarded === "string" ? { discarded } : {})
  })
}

type RowEnd = Cluster.Outcome | Cluster.SuspendedRun

/**
 * Makes the function that waits until a run is over, or is suspended. A run that is suspended at the start of the wait
 * is continued first, with the answers that its session has. One reader serves all waits, until the scope closes.
 */
const makeEndReader = Effect.fnUntraced(function* (cluster: Cluster.Service) {
  const waits = new Map<string, { readonly end: Deferred.Deferred<RowEnd>; readonly starts: number }>()
  const look = Effect.gen(function* () {
    const ids = Array.from(waits.keys())
    for (const [id, outcome] of yield* cluster.outcomes(ids)) {
      const wait = waits.get(id)
      if (wait !== undefined) yield* Deferred.succeed(wait.end, outcome)
    }
    for (const [id, run] of yield* cluster.suspended(ids)) {
      const wait = waits.get(id)
      if (wait !== undefined && run.starts > wait.starts) yield* Deferred.succeed(wait.end, run)
    }
  })
  yield* look.pipe(
    Effect.catch(({ message }) => Effect.logWarning(message)),
    Effect.repeat(Schedule.spaced("300 millis")),
    Effect.forkScoped
  )
  return (id: string): Effect.Effect<RowEnd, Cluster.ClusterError> =>
    Effect.scoped(
      Effect.gen(function* () {
        const starts = (yield* cluster.suspended([id])).get(id)?.starts ?? 0
        const end = yield* Deferred.make<RowEnd>()
        yield* Effect.acquireRelease(
          Effect.sync(() => waits.set(id, { end, starts })),
          () => Effect.sync(() => waits.delete(id))
        )
        if (starts > 0) yield* cluster.resume(id)
        return yield* Deferred.await(end)
      })
    )
})

/** A batch whose rows are run by a cluster. */
export interface Submission {
  readonly runName: string
  readonly directory: string
  readonly settings: Values
  readonly agentFile: AgentFile | undefined
  /** Time limit of an attempt at a row, in seconds. */
  readonly rowTimeout: number | undefined
}

/** Creates the function that submits rows to the runners of a cluster. It can be used until the scope closes. */
export const makeRowSubmitter = Effect.fnUntraced(function* (
  url: Redacted.Redacted,
  { agentFile, directory, rowTimeout, runName, settings }: Submission
) {
  const { clientOver } = yield* Effect.promise(() => import("../../serve/cluster/ClusterLayers.ts"))
  const database = Layer.succeedContext(yield* Layer.build(ClusterDatabase.layer(url, 4)))
  const cluster = Context.get(yield* Layer.build(Layer.provide(clientOver, database)), Cluster.Cluster)
  const agent = yield* Effect.provide(ClusterAgents.storeSubmittedAgent(settings, agentFile), database)
  // Runs with the same name in different directories are different runs.
  const prefix = `batch-${runName}-${Digest.toHex(directory, 8)}`
  const waitForEnd = yield* makeEndReader(cluster)
  /** Continues a row in its session whose run broke off, and waits for its end. */
  const followRow = (
    id: string,
    known: Cluster.Outcome | undefined
  ): Effect.Effect<RowPool.Result, RowFailed | BatchRow.RowRefused | Cluster.ClusterError> =>
    Effect.gen(function* () {
      const end = known ?? (yield* waitForEnd(id))
      if (!("status" in end)) return RowPool.makeSuspendedResult(end.sessionId)
      if (end.isBroken !== true || countContinuations(id) >= mostContinuations) return yield* toRowResult(end)
      const next = (yield* cluster.find(id))?.retriedAs ?? (yield* cluster.retry(id))
      return yield* followRow(next, (yield* cluster.outcomes([next])).get(next))
    })
  const submitRow: BatchRun.Options["elsewhere"] = (row, attempt, options) =>
    Effect.gen(function* () {
      const id = `${prefix}/${row.id}/${attempt.number}`
      const seed = options.getSeed?.(row)
      const { dollars, tokens } = options.budget ?? {}
      const budget = { ...(tokens === undefined ? {} : { tokens }), ...(dollars === undefined ? {} : { dollars }) }
      const input: typeof Input.Encoded = {
        version: seed === undefined && options.budget === undefined ? 1 : 2,
        agent,
        ...(rowTimeout === undefined ? {} : { timeoutSeconds: rowTimeout }),
        run: runName,
        row: { id: row.id, index: row.index, digest: row.digest, fields: row.fields },
        attempt: attempt.number,
        goesOn: false,
        prefix,
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
      const known = yield* cluster.submit({
        id,
        batch: `batch ${runName}`,
        kind,
        sessionId: BatchRow.makeRowSessionId(row, attempt, prefix),
        retries: 0,
        input: JSON.stringify(input)
      })
      return yield* followRow(id, known)
    })
  return submitRow
})
