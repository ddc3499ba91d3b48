// Groups of rollouts by the real agent loop, its tools and a server for inference on the loopback.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { Approvals, ChatCompletions, FileTools, Runtime, TerminalTools } from "../../../src/index.ts"
import { Compaction } from "../../../src/kit/entry/prompt.ts"
import * as RolloutRun from "../../../src/research/rollout/RolloutRun.ts"
import * as EpisodeExport from "../../../src/research/rollout/EpisodeExport.ts"
import * as Episodes from "../../../src/research/rollout/Episodes.ts"
import * as EpisodeStore from "../../../src/research/rollout/EpisodeStore.ts"
import * as RolloutCapture from "../../../src/research/rollout/RolloutCapture.ts"
import * as RolloutEnvironment from "../../../src/research/rollout/RolloutEnvironment.ts"
import * as RolloutGroup from "../../../src/research/rollout/RolloutGroup.ts"
import { defaults, type RolloutSettings } from "../../../src/research/rollout/RolloutSettings.ts"
import * as TrainingOutput from "../../../src/research/rollout/TrainingOutput.ts"
import * as inferenceServer from "../../support/inferenceServer.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const episodes = Episodes.layer.pipe(Layer.provide(EpisodeStore.layerMemory))

/** Rolls an item out against a model. */
const rollOut = <Item extends RolloutEnvironment.AnyItem>(
  environment: RolloutEnvironment.RolloutEnvironment<Item>,
  item: Item,
  model: inferenceServer.Options,
  settings: Partial<RolloutSettings> & { readonly directory?: string } = {}
) =>
  Effect.gen(function* () {
    const { bodies, url } = yield* inferenceServer.make(model)
    const capture = yield* RolloutCapture.make()
    const runtime = Runtime.layer({
      provider: ChatCompletions.layer({ model: "m", baseUrl: url, apiKey: Redacted.make("k") }),
      retry: RetryPolicy.none,
      tools: [FileTools.toolset, TerminalTools.toolset],
      middleware: [capture.middleware],
      approvals: Approvals.layerDeny({ unknownCommands: "allow" })
    }).pipe(Layer.provide(Layer.succeed(Compaction.CompactionSettings, "off")))
    const group = yield* Effect.provide(
      RolloutGroup.run(environment, item, { ...defaults, concurrency: 1, groupSize: 2, ...settings, capture }),
      runtime
    )
    return { bodies, group }
  }).pipe(Effect.provide(Layer.merge(episodes, NodeServices.layer)))

interface Task extends RolloutEnvironment.AnyItem {
  readonly wanted: string
}

/** Writes a file; the reward looks at it with the rollout's own tools. */
const writing = (parts: Partial<RolloutEnvironment.RolloutEnvironment<Task>> = {}) =>
  RolloutEnvironment.make<Task>({
    name: "writing",
    toolsets: ["file", "terminal"],
    nextItem: Effect.undefined,
    formatPrompt: ({ wanted }) => `Write ${wanted} to out.txt`,
    computeReward: (item, record, tools) =>
      Effect.gen(function* () {
        const { exitCode, output } = yield* tools.terminal("cat out.txt")
        const isRight = exitCode === 0 && output.trim() === item.wanted
        return { reward: isRight ? 1 : 0, components: { content: isRight ? 1 : 0, brevity: record.turns < 4 ? 1 : 0 } }
      }),
    ...parts
  })

const task: Task = { id: "t1", wanted: "blue" }

/** The first rollout writes what is wanted, the second something else. */
const writer = (): inferenceServer.Options => {
  const seen = new Set<string>()
  return {
    answer: (body) => {
      const messages = Array.isArray(body["messages"]) ? body["messages"] : []
      const hasResult = JSON.stringify(messages).includes('"tool"')
      if (hasResult) return { content: "Written." }
      const text = seen.size === 0 ? "blue" : "red"
      seen.add(text)
      return { calls: [{ name: "write_file", args: { path: "out.txt", content: text } }] }
    }
  }
}

describe("RolloutGroup", () => {
  it.live(
    "case 82: members have the same tools and different task ids; each is scored in its own place, and has its advantage",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const places: Array<string> = []
        const environment = writing({ prepare: (_, tools) => Effect.sync(() => void places.push(tools.directory)) })
        const { bodies, group } = yield* rollOut(environment, task, writer(), { directory: join(directory, "work") })
        assert.deepStrictEqual(
          group.members.map(({ score }) => score),
          [
            { reward: 1, components: { content: 1, brevity: 1 } },
            { reward: 0, components: { content: 0, brevity: 1 } }
          ]
        )
        assert.deepStrictEqual(
          group.members.map(({ advantage }) => advantage),
          [1, -1]
        )
        assert.strictEqual(new Set(group.members.map(({ rolloutId }) => rolloutId)).size, 2)
        assert.strictEqual(new Set(places).size, 2)
        const toolNames = bodies.map((body) => JSON.stringify(body["tools"]))
        assert.strictEqual(new Set(toolNames).size, 1)
        assert.includeMembers(Array.from(group.tools), ["write_file", "terminal"])
        assert.deepInclude(bodies[0], { temperature: 1, stream: false, logprobs: true })
        // Clean-up ran: nothing is left of the places.
        assert.deepStrictEqual(
          places.filter((one) => existsSync(one)),
          []
        )
        assert.deepStrictEqual(readdirSync(join(directory, "work")), [])
      })
  )

  it.live("an episode of the agent loop is one sequence: its tokens train the answers and nothing else", () =>
    Effect.gen(function* () {
      const { group } = yield* rollOut(writing(), task, writer())
      const [first] = group.members
      const episode = yield* Effect.fromResult(
        EpisodeExport.toScoredEpisode(first?.episode ?? assert.fail("no member"))
      )
      assert.deepStrictEqual(EpisodeExport.findProblems(episode), [])
      const trained = String.fromCodePoint(...episode.masks.filter((mask) => mask !== -100 && mask < 1_000))
      assert.strictEqual(trained, '<write_file:{"path":"out.txt","content":"blue"}>Written.')
      assert.strictEqual(first?.episode.nodes.length, 1)
      assert.deepStrictEqual(new Set(episode.advantages), new Set([0, 1]))
      assert.deepInclude(first?.episode.metadata, { environment: "writing", item: "t1" })
    })
  )

  it.live("a member whose reward failed is worth 0 in the mean of every component", () =>
    Effect.gen(function* () {
      let scored = 0
      const environment = writing({
        computeReward: () =>
          Effect.suspend(() =>
            scored++ === 0
              ? Effect.succeed({ reward: 1, components: { content: 1 } })
              : Effect.fail(new Error("no verifier"))
          )
      })
      const { group } = yield* rollOut(environment, task, writer())
      assert.deepInclude(RolloutRun.computeMetrics(group.members), {
        "reward/mean": 0.5,
        "reward/mean_scored": 1,
        "reward/content": 0.5,
        "rollouts/failed": 1,
        "rollouts/infrastructure": 1,
        "rollouts/model_failure": 0,
        "rollouts/masked": 1
      })
      // The other member has nothing to be compared with, and the masked one is not delivered.
      assert.deepStrictEqual(
        group.members.map(({ advantage }) => advantage),
        [undefined, undefined]
      )
      const masked = group.members.filter(({ score }) => score.reward === undefined)
      assert.include(
        TrainingOutput.toDelivery(group).leftOut.find(({ rolloutId }) => rolloutId === masked[0]?.rolloutId)?.reason,
        "its reward is masked: the reward failed"
      )
    })
  )

  it.live(
    "a reward that fails, one that is no number and a run that fails are masked or 0, with the cause, and clean-up runs",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const causeOf = (environment: RolloutEnvironment.RolloutEnvironment<Task>, model: inferenceServer.Options) =>
          Effect.map(
            rollOut(environment, task, model, { groupSize: 1, directory }),
            ({ group }) => group.members[0]?.score
          )
        const zeroed = yield* rollOut(
          writing({ computeReward: () => Effect.fail(new Error("no verifier")) }),
          task,
          { answer: () => ({ content: "Done." }) },
          { groupSize: 1, directory, failedReward: "zero" }
        )
        assert.deepStrictEqual(zeroed.group.members[0]?.score, {
          reward: 0,
          cause: "the reward failed: Error: no verifier"
        })
        const done: inferenceServer.Options = { answer: () => ({ content: "Done." }) }
        assert.deepStrictEqual(
          yield* causeOf(writing({ computeReward: () => Effect.fail(new Error("no verifier")) }), done),
          { cause: "the reward failed: Error: no verifier" }
        )
        assert.include(
          (yield* causeOf(writing({ computeReward: () => Effect.die("bug") }), done))?.cause,
          "the reward failed"
        )
        assert.strictEqual(
          (yield* causeOf(writing({ computeReward: () => Effect.succeed(Number.NaN) }), done))?.cause,
          "the reward is NaN, which is not a number"
        )
        const silent = yield* causeOf(writing(), { answer: () => ({ content: "" }) })
        assert.deepStrictEqual(silent, { reward: 0, cause: "no output" })
        const broken: inferenceServer.Options = {
          answer: () => undefined,
          before: (_, response) => {
            response
              .writeHead(400, { "content-type": "application/json" })
              .end('{"error":{"message":"no such template"}}')
            return true
          }
        }
        const failed = yield* causeOf(writing(), broken)
        assert.isUndefined(failed?.reward)
        assert.include(failed?.cause, "the run failed")
        assert.deepStrictEqual(readdirSync(directory), [])
      })
  )

  it.live("an interrupted group leaves no place behind, and its episode is not scored", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const asked = yield* Deferred.make<void>()
      const services = yield* Effect.context<never>()
      const model: inferenceServer.Options = {
        answer: () => {
          Effect.runForkWith(services)(Deferred.succeed(asked, undefined))
          return undefined
        }
      }
      const rolling = yield* Effect.forkChild(rollOut(writing(), task, model, { directory }))
      yield* Deferred.await(asked)
      assert.lengthOf(readdirSync(directory), 1)
      yield* Fiber.interrupt(rolling)
      assert.deepStrictEqual(readdirSync(directory), [])
    })
  )

  it.live("an item of any name has rollouts of their own", () =>
    Effect.gen(function* () {
      const id = `../${"ü/".repeat(200)}`
      const { group } = yield* rollOut(
        writing({ name: "_name" }),
        { ...task, id },
        { answer: () => ({ content: "Done." }) }
      )
      for (const { rolloutId } of group.members) assert.match(rolloutId, /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/u)
      assert.lengthOf(group.members, 2)
    })
  )

  it.live("an unknown toolset ends the group before a model is asked", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        rollOut(writing({ toolsets: ["nope"] }), task, { answer: () => assert.fail("asked") })
      )
      assert.strictEqual(
        error._tag === "EnvironmentError" ? error.message : "",
        'There is no toolset "nope": `hermes tools` lists them.'
      )
    })
  )
})
