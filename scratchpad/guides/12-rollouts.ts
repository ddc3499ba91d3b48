import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { FileTools, Runtime, Scripted } from "../../src/index.ts"
import { Compaction } from "../../src/kit/entry/prompt.ts"
import {
  EpisodeExport,
  EpisodeStore,
  Episodes,
  RolloutCapture,
  RolloutEnvironment,
  RolloutGroup,
  RolloutSettings
} from "../../src/kit/entry/rollouts.ts"

interface Task {
  readonly id: string
  readonly wanted: string
}

// An environment: the next task, its prompt, and what the work is worth. The reward looks at the files that the agent
// left.
const environment = RolloutEnvironment.make<Task>({
  name: "writing",
  toolsets: ["file"],
  nextItem: Effect.undefined,
  formatPrompt: ({ wanted }) => `Write ${wanted} to out.txt`,
  computeReward: ({ wanted }, _record, tools) =>
    Effect.map(tools.readFile("out.txt"), ({ output }) => ({ reward: JSON.stringify(output).includes(wanted) ? 1 : 0 }))
})

// The same model and loop as everywhere: here it writes what is wanted once, and something else the other time.
const write = (content: string) =>
  Scripted.complete({ toolCalls: [{ name: "write_file", params: { path: "out.txt", content } }] })
const provider = Scripted.layer([write("blue"), Scripted.complete("Done."), write("red"), Scripted.complete("Done.")])

const program = Effect.gen(function* () {
  const capture = yield* RolloutCapture.make()
  const runtime = Runtime.layer({ provider, tools: [FileTools.toolset], middleware: [capture.middleware] }).pipe(
    // A transcript only grows: nothing is compacted.
    Layer.provide(Layer.succeed(Compaction.CompactionSettings, "off"))
  )
  const group = yield* Effect.provide(
    RolloutGroup.run(
      environment,
      { id: "t1", wanted: "blue" },
      { ...RolloutSettings.defaults, capture, groupSize: 2, concurrency: 1 }
    ),
    runtime
  )
  for (const { advantage, episode, score } of group.members) {
    console.log(`reward ${score.reward}, advantage ${advantage}, ${episode.nodes[0]?.messages.length} messages`)
  }
  // A scripted model has no tokens: such an episode is for evaluation and fine-tuning, and says so.
  console.log(EpisodeExport.findObstacle(group.members[0]?.episode ?? { nodes: [] })?.split(" (")[0])
})

await program.pipe(
  Effect.provide(Episodes.layer.pipe(Layer.provide(EpisodeStore.layerMemory))),
  Effect.provide(NodeServices.layer),
  Effect.runPromise
)
// => reward 1, advantage 1, 5 messages
// => reward 0, advantage -1, 5 messages
// => the provider returned no token ids of the prompt
