// The reason why RunWorkflow looks for suspended runs: the workflow engine registers an activity by its name alone,
// whoever executes it, and the first end of one removes the registration of the others. When this test fails, the
// engine is mended, and the look may go.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Digest from "effect/crypto/Digest"
import * as ClusterWorkflowEngine from "effect/cluster/ClusterWorkflowEngine"
import * as MessageStorage from "effect/cluster/MessageStorage"
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import * as RunnerHealth from "effect/cluster/RunnerHealth"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import * as Runners from "effect/cluster/Runners"
import * as Sharding from "effect/cluster/Sharding"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import * as Activity from "effect/workflow/Activity"
import * as Workflow from "effect/workflow/Workflow"
import { readUntil } from "../../support/waiting.ts"

const Twice = Workflow.make("Twice", {
  payload: { id: Schema.String },
  success: Schema.String,
  idempotencyKey: ({ id }) => id
})

/** One execution of the activity; its number stands for the activation that it belongs to. */
const execution = (number: number) =>
  Effect.provideService(
    Activity.make({ name: "attempt", success: Schema.String, execute: Effect.as(Effect.yieldNow, `${number}`) }),
    Activity.CurrentAttempt,
    number
  )

const engine = Twice.toLayer(() =>
  // The second one finds the registration of the first, which is at its end.
  Effect.map(Effect.all([execution(1), Effect.andThen(Effect.yieldNow, execution(2))], { concurrency: 2 }), (all) =>
    all.join(" ")
  )
).pipe(
  Layer.provideMerge(ClusterWorkflowEngine.layer),
  Layer.provide(Sharding.layer),
  Layer.provide(Runners.layerNoop),
  Layer.provide([MessageStorage.layerMemory, RunnerHealth.layerNoop, RunnerStorage.layerMemory, Digest.layerWebCrypto]),
  Layer.provide(
    ShardingConfig.layer({
      runnerAddress: Option.some(RunnerAddress.make("one", 1)),
      simulateRemoteSerialization: false,
      entityMessagePollInterval: "100 millis"
    })
  )
)

describe("a workflow of the engine", () => {
  it.live("is left suspended where two executions of an activity share its registration, until it is resumed", () =>
    Effect.provide(
      Effect.gen(function* () {
        const id = yield* Twice.executionId({ id: "run" })
        const answer = Effect.map(Twice.poll(id), Option.getOrUndefined)
        yield* Twice.execute({ id: "run" }, { discard: true })
        const left = yield* readUntil("the workflow has a result", answer, (result) => result !== undefined)
        assert.strictEqual(left?._tag, "Suspended")
        // The storage is read several times, and nothing wakes it.
        yield* Effect.sleep("500 millis")
        assert.strictEqual((yield* answer)?._tag, "Suspended")
        yield* Twice.resume(id)
        const done = yield* readUntil("the workflow ends", answer, (result) => result?._tag === "Complete")
        assert.deepStrictEqual(done?._tag === "Complete" ? done.exit : undefined, Exit.succeed("1 2"))
      }),
      engine,
      { local: true }
    )
  )
})
