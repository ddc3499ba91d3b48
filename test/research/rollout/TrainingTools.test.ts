// The tools of an agent that trains, over the recorder of this machine.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import type { Summary } from "../../../src/research/rollout/RolloutRun.ts"
import * as TrainingService from "../../../src/research/rollout/TrainingService.ts"
import * as TrainingTools from "../../../src/research/rollout/TrainingTools.ts"
import { SessionId, TaskId, TurnId } from "../../../src/base/domain/Ids.ts"
import { ToolContext } from "../../../src/tools/ToolContext.ts"

const summary: Summary = {
  groups: 1,
  rollouts: 2,
  failed: 0,
  failures: { model_failure: 0, limit: 0, infrastructure: 0 },
  masked: 0,
  trainable: 0,
  meanReward: 0.5,
  meanScoredReward: 0.5,
  evaluation: undefined
}

/** The ten tools, bound once, over a service whose runs end when the test says so. */
const tools = (rollOut: TrainingService.RollOut) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(
      TrainingService.layerRecorder({
        directory: "/runs",
        environments: [{ name: "arithmetic", description: "sums" }],
        rollOut
      })
    )
    const bound = yield* Effect.provide(TrainingTools.toolset.bind, context)
    assert.lengthOf(bound, 10)
    return (name: string, params: unknown = {}, session = "s1") =>
      (bound.find(({ tool }) => tool.name === name)?.run(params, "call_1") ?? assert.fail(name)).pipe(
        Effect.provideService(ToolContext, {
          sessionId: SessionId.make(session),
          taskId: TaskId.make(session),
          turnId: TurnId.make("t"),
          cwd: "/"
        }),
        // Results are JSON objects.
        Effect.map(({ isFailure, output }) => ({
          isFailure,
          output: JSON.parse(JSON.stringify(output)) as Record<string, unknown>
        }))
      )
  })

describe("TrainingTools", () => {
  it.effect("an environment is selected, configured and tested for each session apart", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const configs: Array<TrainingService.TrainingConfig> = []
        const call = yield* tools((config) =>
          Effect.sync(() => {
            configs.push(config)
            return summary
          })
        )
        assert.isTrue((yield* call("rl_get_current_config")).isFailure)
        const unknown = yield* call("rl_select_environment", { name: "gsm8k" })
        assert.deepInclude(unknown.output, { error: 'there is no environment "gsm8k"', hint: "there are arithmetic" })
        yield* call("rl_select_environment", { name: "arithmetic" })
        yield* call("rl_edit_config", { total_steps: 50, group_size: 16 })
        assert.deepNestedInclude((yield* call("rl_get_current_config")).output, {
          "config.max_agent_turns": 30,
          "config.temperature": 1,
          "config.total_steps": 50
        })
        assert.include((yield* Effect.flip(call("rl_edit_config", { total_steps: 0 }))).message, "between 1 and 100000")
        assert.isTrue((yield* call("rl_get_current_config", {}, "s2")).isFailure)
        const tested = yield* call("rl_test_inference")
        assert.deepInclude(tested.output, { meanReward: 0.5 })
        assert.include(tested.output["notice"], "trains no weights")
        assert.deepInclude(configs[0], { total_steps: 2, group_size: 2 })
      })
    )
  )

  it.effect("the status of a run is told once in 30 minutes; its results are there at its end", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const end = yield* Deferred.make<void>()
        const call = yield* tools((config, directory, onGroup) =>
          Effect.gen(function* () {
            yield* onGroup({
              number: 1,
              group: { groupId: "g", tools: [], members: [] },
              metrics: { "reward/mean": 0.25 },
              leftOut: []
            })
            yield* Deferred.await(end)
            assert.match(directory, /^\/runs\/run_/)
            return { ...summary, groups: config.total_steps }
          })
        )
        yield* call("rl_select_environment", { name: "arithmetic" })
        const id = (yield* call("rl_start_training")).output["run_id"]
        yield* TestClock.adjust("1 second")
        assert.deepInclude((yield* call("rl_check_status", { run_id: id })).output, { status: "running", steps: 1 })
        yield* TestClock.adjust("10 minutes")
        assert.deepInclude((yield* call("rl_check_status", { run_id: id })).output, {
          checked: false,
          next_check_in_seconds: 1_200
        })
        yield* TestClock.adjust("20 minutes")
        assert.deepInclude((yield* call("rl_check_status", { run_id: id })).output, { status: "running" })
        assert.deepStrictEqual((yield* call("rl_list_runs")).output["runs"], [
          { run_id: id, environment: "arithmetic", status: "running" }
        ])
        yield* Deferred.succeed(end, undefined)
        yield* TestClock.adjust("1 second")
        assert.deepInclude((yield* call("rl_get_results", { run_id: id })).output, {
          status: "finished",
          mean_reward: 0.25,
          rewards: [0.25]
        })
        assert.include((yield* call("rl_check_status", { run_id: "nope" })).output["error"], "There is no training run")
      })
    )
  )

  it.effect("a run that is stopped, and one that fails, say so", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const call = yield* tools((config) =>
          config.group_size === 1 ? Effect.fail(new Error("the server is gone")) : Effect.never
        )
        yield* call("rl_select_environment", { name: "arithmetic" })
        const running = (yield* call("rl_start_training")).output["run_id"]
        yield* TestClock.adjust("1 second")
        assert.deepInclude((yield* call("rl_stop_training", { run_id: running })).output, { status: "stopped" })
        yield* call("rl_edit_config", { group_size: 1 })
        const failing = (yield* call("rl_start_training")).output["run_id"]
        yield* TestClock.adjust("1 second")
        assert.deepInclude((yield* call("rl_get_results", { run_id: failing })).output, {
          status: "failed",
          problem: "the server is gone"
        })
      })
    )
  )
})
