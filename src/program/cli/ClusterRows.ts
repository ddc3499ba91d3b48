/**
 * Kinds of rows that runners execute: rows of batches, attempts of evaluations, software engineering tasks, rollouts.
 *
 * A row is submitted as JSON (`ClusterSubmission`) with the agent that works on it. A runner decodes it with the codec
 * of its kind, does the work with the agent of the submission, and stores the result or the failure as the outcome of
 * the run. Submitting processes collect outcomes in the order in which they need them, also after they were killed.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { Environment, Home } from "../../base/config/Environment.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import * as BatchRow from "../../research/batch/BatchRow.ts"
import * as Outcome from "../../research/batch/Outcome.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import type * as Cluster from "../../serve/cluster/Cluster.ts"
import * as DurableRun from "../../serve/cluster/DurableRun.ts"
import type * as ClusterAgents from "./ClusterAgents.ts"

/** Fields that the input of every row has. */
export interface CommonInput {
  /** Version of the form of the input. A runner refuses the versions that it does not know. */
  readonly version: number
  /** Digest of the agent of the submission. */
  readonly agent: string
  /** Time limit of the row on its runner, in seconds. */
  readonly timeoutSeconds?: number | undefined
}

const decodeCommon = Schema.decodeUnknownEffect(
  Schema.Struct({ version: Schema.Int, agent: Schema.String, timeoutSeconds: Schema.optionalKey(Schema.Finite) })
)

/** Services of the runner's process. */
export type RunnerServices = ChildProcessSpawner | Environment | FileSystem.FileSystem | Home | Path.Path

/** Services with which the work of a row is done. */
export type RowServices = RunnerServices | ClusterAgents.RuntimeServices

/** One start of a row on a runner. */
export interface RowStart {
  /** Id of the run, unique in the cluster. */
  readonly id: string
  readonly sessionId: string
  /** True if an earlier process began the row. Its session then has the messages that are stored. */
  readonly goesOn: boolean
  /** Number of starts on all runners, counted from 1. */
  readonly starts: number
  /** Directory of the runner for the files of rows. */
  readonly folder: string
  readonly opened: ClusterAgents.AgentRuntime
  /** Opens another runtime of the same agent. */
  readonly open: (
    choice: ClusterAgents.RuntimeChoice
  ) => Effect.Effect<ClusterAgents.AgentRuntime, ConfigError, Scope.Scope>
  /** Stores the work done before a failure, which the submitting process receives with the failure. */
  readonly keepWork: (fields: Json.Fields) => Effect.Effect<void>
}

/** A kind of rows: the codec of its input, and the work of a row. */
export interface RowKind<Input> {
  /** Kind of the requests. */
  readonly kind: string
  /** Supported versions of the input. */
  readonly versions: ReadonlyArray<number>
  /** Returns the runtime in which the agent works on a row. */
  readonly getRuntime: (input: Input) => ClusterAgents.RuntimeChoice
  readonly decode: (input: unknown) => Effect.Effect<Input, { readonly message: string }>
  readonly run: (input: Input, start: RowStart) => Effect.Effect<RowPool.Result, unknown, RowServices | Scope.Scope>
}

/** Returns how often the run with this id was continued: the ids are `a`, `a~2`, `a~3`. */
export const countContinuations = (id: string): number => Number(/~(\d+)$/u.exec(id)?.[1] ?? 1) - 1

/** Outcome of a row that was cancelled. The stored outcome is the cancellation's. */
const cancelled: Cluster.Outcome = { status: "failed", message: "the run was cancelled", isPassing: false }

/** Makes the outcome of a failed row: its message, its kind, and the work done until then. */
const toFailedOutcome = (error: unknown, fields: Json.Fields | undefined): Cluster.Outcome => ({
  status: "failed",
  message: error instanceof Error ? (error.message.split("\n", 1)[0] ?? error.name) : String(error),
  isPassing: BatchRow.decideOnFailure(error) === "retry",
  output: JSON.stringify({ kind: Outcome.classifyFailure(error), ...(fields === undefined ? {} : { fields }) })
})

/** Decodes the input of a row in a form that this version supports. */
const readInput = Effect.fnUntraced(function* <Input>({ decode, versions }: RowKind<Input>, text: string) {
  const value = Json.parseOrKeep(text)
  const { version } = Json.readFields(value)
  if (!versions.some((known) => known === version)) {
    return yield* new BatchRow.RowRefused({
      message:
        `the row has format ${String(version)}, but this runner reads ${versions.join(" and ")}: submit ` +
        "it with the same version"
    })
  }
  return yield* Effect.all([decodeCommon(value), decode(value)]).pipe(
    Effect.mapError(({ message }) => new BatchRow.RowRefused({ message: message.replace(/\s+/gu, " ") }))
  )
})

/**
 * Creates the handler that runs rows of a kind with the agent of their submission. Failures become outcomes, which the
 * submitting process handles.
 */
export const makeHandler =
  <Input>(
    kind: RowKind<Input>,
    open: (
      agent: string,
      choice: ClusterAgents.RuntimeChoice
    ) => Effect.Effect<ClusterAgents.AgentRuntime, ConfigError, Scope.Scope>,
    around: Context.Context<RunnerServices>,
    folder: string
  ): Cluster.Handler =>
  ({ cancelled: isCancelled = Effect.never, id, input, sessionId, starts }) =>
    Effect.suspend(() => {
      let kept: Json.Fields | undefined
      const work = Effect.gen(function* () {
        const [{ agent, timeoutSeconds }, value] = yield* readInput(kind, input)
        const opened = yield* open(agent, kind.getRuntime(value))
        const start: RowStart = {
          id,
          sessionId,
          starts,
          folder,
          opened,
          open: (choice) => open(agent, choice),
          goesOn: starts > 1 || countContinuations(id) > 0,
          keepWork: (fields) => Effect.sync(() => void (kept = fields))
        }
        const running = Effect.provideContext(kind.run(value, start), Context.merge(around, opened.services))
        const { suspendedIn, ...result } = yield* timeoutSeconds === undefined
          ? running
          : Effect.timeoutOrElse(running, {
              duration: Duration.seconds(timeoutSeconds),
              orElse: () => Effect.fail(new RowPool.RowTimeout({ seconds: timeoutSeconds }))
            })
        return suspendedIn === undefined
          ? ({ status: "finished", output: JSON.stringify(result) } satisfies Cluster.Outcome)
          : yield* DurableRun.readSuspension(suspendedIn).pipe(Effect.provideContext(opened.services))
      }).pipe(
        Effect.catch((error) => Effect.succeed<Cluster.Outcome | Cluster.Suspended>(toFailedOutcome(error, kept))),
        Effect.scoped
      )
      return Effect.raceFirst(work, Effect.as(isCancelled, cancelled))
    })

/** Reads the result of a row from its outcome. A failed row fails with the kind that its runner reported. */
export const readResult = ({
  isPassing,
  message = "the row failed",
  output,
  status
}: Cluster.Outcome): Effect.Effect<RowPool.Result, Outcome.ReportedFailure> => {
  const value = Json.readFields(Option.getOrUndefined(Json.parse(output ?? "")))
  const { costUsd, discarded, fields, kind, tokens } = value
  if (status === "failed")
    return Effect.fail(
      new Outcome.ReportedFailure({
        message,
        kind: Outcome.parseKind(kind) ?? "infrastructure",
        isPassing: isPassing === true,
        ...(Json.isFields(fields) ? { fields } : {})
      })
    )
  return Effect.succeed({
    fields: Json.readFields(fields),
    ...(typeof costUsd === "number" ? { costUsd } : {}),
    ...(typeof tokens === "number" ? { tokens } : {}),
    ...(typeof discarded === "string" ? { discarded } : {})
  })
}
