/**
 * Continues runs whose workflow stands still.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as EntityId from "effect/cluster/EntityId"
import { Sharding } from "effect/cluster/Sharding"
import { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import { makeBrokenOutcome, makeFailedOutcome } from "./RunOutcomes.ts"
import { Runs } from "./Runs.ts"
import { computeExecutionId, endRun, RunWorkflow, Worker } from "./RunWorkflow.ts"

/** Schedule of the checks for stalled runs. */
const looks = Schedule.spaced("3 seconds")
/** Maximum number of runs examined together. A stalled run becomes one of the oldest after some time. */
const mostRuns = 200

interface IdleRun {
  readonly execution: string
  /** Number of checks since the last attempt of the run on this runner. */
  readonly looks: number
}

/**
 * Continues runs in this runner's shards whose workflow ended or was suspended too early. Works until the scope closes.
 *
 * **Details**
 *
 * The workflow waits only for its attempts and for short pauses, which need no wake-up. The engine may nevertheless
 * answer the workflow with `Suspended`, and then nothing would wake it. The cause is that the engine registers an
 * attempt only by the name of the run. A runner that loses a shard and gets it back has two executions of the run until
 * the earlier one has ended. The later execution finds the registration of the earlier one and does not add its own.
 * When the earlier execution ends, it removes the registration. An attempt without a registration is answered with
 * `Suspended` (`ClusterWorkflowEngine`, `activityExecute` and `activity`; `test/serve/cluster/Suspension.test.ts` shows
 * it).
 *
 * Only the first unfinished run of each session is examined; the others wait for their turn.
 *
 * If such a run has no attempt here for two checks, the state of its workflow is read, and again at the fourth
 * check, the eighth, and so on. A suspended workflow is resumed. If the workflow is complete, it could not write the
 * outcome of the run. The run then fails with the reason, so that the next turn of its session can begin. A workflow
 * without a reply is left unchanged.
 */
export const layer: Layer.Layer<never, never, Worker | Runs | Sharding | WorkflowEngine> = Layer.effectDiscard(
  Effect.gen(function* () {
    const worker = yield* Worker
    const runs = yield* Runs
    const sharding = yield* Sharding
    const engine = yield* WorkflowEngine
    let idle: ReadonlyMap<string, IdleRun> = new Map()
    const resumeRun = Effect.fnUntraced(
      function* (id: string, execution: string) {
        const answered = Option.getOrUndefined(yield* RunWorkflow.poll(execution))
        if (answered === undefined) return
        if (answered._tag === "Suspended") return yield* RunWorkflow.resume(execution)
        const { exit } = answered
        yield* endRun(
          id,
          Exit.isFailure(exit)
            ? makeBrokenOutcome(exit.cause)
            : { ...makeFailedOutcome("the run ended, but its outcome was lost", true), isBroken: true }
        )
      },
      Effect.provideService(WorkflowEngine, engine),
      Effect.provideService(Runs, runs)
    )
    const look = Effect.gen(function* () {
      const found = new Map<string, IdleRun>()
      for (const id of yield* runs.open(mostRuns)) {
        if (worker.has(id)) continue
        const before = idle.get(id)
        const execution = before?.execution ?? (yield* computeExecutionId(id))
        const isOwn = sharding.hasShardId(sharding.getShardId(EntityId.make(execution), "default"))
        found.set(id, { execution, looks: isOwn ? (before?.looks ?? 0) + 1 : 0 })
      }
      idle = found
      for (const [id, { execution, looks }] of found) {
        if (looks < 2 || (looks & (looks - 1)) !== 0 || worker.has(id)) continue
        yield* resumeRun(id, execution)
      }
    })
    yield* look.pipe(
      Effect.catchCause((cause) => Effect.logDebug("runs that stand still could not be looked for", cause)),
      Effect.repeat(looks),
      Effect.forkScoped
    )
  })
)
