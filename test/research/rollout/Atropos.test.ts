// The client of the Atropos API against a stub of what is documented, and a run of an environment that feeds it.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { ChatCompletions, Runtime } from "../../../src/index.ts"
import { Compaction } from "../../../src/kit/entry/prompt.ts"
import * as Atropos from "../../../src/research/rollout/Atropos.ts"
import * as Episodes from "../../../src/research/rollout/Episodes.ts"
import * as EpisodeStore from "../../../src/research/rollout/EpisodeStore.ts"
import * as RolloutCapture from "../../../src/research/rollout/RolloutCapture.ts"
import * as RolloutEnvironment from "../../../src/research/rollout/RolloutEnvironment.ts"
import * as RolloutRun from "../../../src/research/rollout/RolloutRun.ts"
import { defaults } from "../../../src/research/rollout/RolloutSettings.ts"
import * as TrainingOutput from "../../../src/research/rollout/TrainingOutput.ts"
import * as atroposApi from "../../support/atroposApi.ts"
import * as inferenceServer from "../../support/inferenceServer.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const registration = {
  wandb_group: "g",
  wandb_project: "p",
  batch_size: 4,
  max_token_len: 2048,
  checkpoint_dir: "/c",
  save_checkpoint_interval: 10,
  starting_step: 0,
  num_steps: 100
}
const facts: Atropos.EnvironmentFacts = { max_token_length: 2048, desired_name: "sums", weight: 1, group_size: 2 }

const group = {
  tokens: [
    [1, 2],
    [1, 3]
  ],
  masks: [
    [-100, 2],
    [-100, 3]
  ],
  scores: [1, 0],
  messages: [[], []],
  overrides: [{}, {}],
  group_overrides: {}
}

describe("Atropos", () => {
  it.live(
    "an environment waits for the trainer, submits groups, and is gone at the end; the trainer takes them as a batch",
    () =>
      Effect.gen(function* () {
        const { state, url } = yield* atroposApi.make
        const trainer = yield* Atropos.make(`${url}/`)
        assert.strictEqual(yield* trainer.check, "AtroposLib API")
        yield* trainer.register(registration)
        assert.deepStrictEqual(yield* trainer.info, { batch_size: 4, max_token_len: 2048 })
        assert.deepStrictEqual(yield* trainer.wandb, { group: "g", project: "p" })
        // The trainer's first question for a batch is what an environment waits for.
        state.onWait = () => void (state.started = true)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const environment = yield* Atropos.connectEnvironment(yield* Atropos.make(url), facts)
            assert.strictEqual(state.waited, 1)
            assert.strictEqual(environment.wandb_name, "sums_0")
            assert.deepStrictEqual(yield* environment.submit(group), { status: "received" })
            assert.isUndefined(yield* trainer.batch)
            yield* environment.submit(group)
            assert.isTrue(state.environments[0]?.connected)
          })
        )
        assert.isFalse(state.environments[0]?.connected)
        assert.deepStrictEqual(yield* trainer.status, { current_step: 0, queue_size: 2 })
        assert.deepStrictEqual(
          (yield* trainer.batch)?.map(({ scores }) => scores),
          [
            [1, 0],
            [1, 0]
          ]
        )
        assert.strictEqual((yield* trainer.status).current_step, 1)
      })
  )

  it.live(
    "groups of another size than the environment's are kept until they fit; unknown environments and addresses are told",
    () =>
      Effect.gen(function* () {
        const { state, url } = yield* atroposApi.make
        state.started = true
        const client = yield* Atropos.make(url)
        const { env_id: id } = yield* client.registerEnvironment({ ...facts, group_size: 4 }, "1 second")
        assert.deepStrictEqual(yield* client.submit(id, group), { status: "buffered", buffer_size: 2 })
        yield* client.submitAll(id, [group])
        assert.lengthOf(state.buffer, 2)
        assert.strictEqual((yield* client.environmentStatus(id)).env_weight, 1)
        assert.strictEqual((yield* Effect.flip(client.disconnect(7))).reason, "refused")
        const away = yield* Atropos.make("http://127.0.0.1:1")
        assert.deepInclude(yield* Effect.flip(away.status), {
          reason: "unreachable",
          message: "Nothing answers at http://127.0.0.1:1: start the Atropos API (run-api), or correct the address."
        })
        assert.strictEqual((yield* Effect.flip(Atropos.make("localhost"))).reason, "unreachable")
      })
  )

  it.live("a run rolls out all items, evaluates, keeps files, and feeds the trainer what can train", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const { state, url } = yield* atroposApi.make
      state.started = true
      const model = yield* inferenceServer.make({
        // Right every other time; always right when it does not sample.
        answer: (body, index) => {
          const [, a, b] = /What is (\d+) \+ (\d+)/u.exec(JSON.stringify(body["messages"])) ?? []
          return { content: String(Number(a) + Number(b) + (body["temperature"] === 0 ? 0 : index % 2)) }
        }
      })
      let next = 0
      const sums = RolloutEnvironment.make({
        name: "sums",
        toolsets: [],
        nextItem: Effect.sync(() => (next < 2 ? { id: `s${next}`, a: next, b: next++ } : undefined)),
        formatPrompt: ({ a, b }) => `What is ${a} + ${b}? Answer with the number alone.`,
        computeReward: ({ a, b }, { text }) => Effect.succeed(text.trim() === String(a + b) ? 1 : 0),
        evaluation: Effect.succeed([{ id: "e", a: 20, b: 3 }])
      })
      const capture = yield* RolloutCapture.make()
      const runtime = Runtime.layer({
        provider: ChatCompletions.layer({ model: "m", baseUrl: model.url, apiKey: Redacted.make("k") }),
        middleware: [capture.middleware]
      }).pipe(Layer.provide(Layer.succeed(Compaction.CompactionSettings, "off")))
      const output = Layer.merge(
        TrainingOutput.layerAtropos(url, facts).pipe(Layer.provide(TrainingOutput.layerFiles(directory))),
        TrainingOutput.layerMetrics(directory)
      )
      const reports: Array<RolloutRun.GroupReport> = []
      const summary = yield* RolloutRun.run(sums, {
        ...defaults,
        capture,
        groupSize: 2,
        concurrency: 1,
        stepsPerEvaluation: 2,
        onGroup: (report) => Effect.sync(() => void reports.push(report))
      }).pipe(Effect.provide(Layer.merge(runtime, output)))
      assert.deepInclude(summary, { groups: 2, rollouts: 4, trainable: 4, meanReward: 0.5 })
      assert.strictEqual(summary.evaluation?.["eval/reward/mean"], 1)
      assert.deepStrictEqual(
        reports.map(({ leftOut, metrics }) => [metrics["reward/mean"], metrics["reward/std"], leftOut.length]),
        [
          [0.5, 0.5, 0],
          [0.5, 0.5, 0]
        ]
      )
      assert.lengthOf(state.queue, 2)
      const lines = (name: string) =>
        readFileSync(join(directory, name), "utf8")
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line))
      const [first] = lines("groups.jsonl")
      assert.deepStrictEqual(first.scores, [1, 0])
      assert.deepStrictEqual(
        first.advantages.map((values: ReadonlyArray<number>) => values.at(-1)),
        [1, -1]
      )
      assert.strictEqual(first.inference_logprobs.length, 2)
      assert.lengthOf(lines("trajectories.jsonl"), 4)
      assert.deepStrictEqual(
        lines("metrics.jsonl").map(({ step }) => step),
        [1, 2]
      )
    }).pipe(
      Effect.provide(Layer.merge(Episodes.layer.pipe(Layer.provide(EpisodeStore.layerMemory)), NodeServices.layer))
    )
  )
})
