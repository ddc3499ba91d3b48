import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  Agent,
  Approvals,
  CommandEnvironment,
  FileTools,
  Hooks,
  Middleware,
  ModelRouter,
  Offline,
  Runtime,
  SessionStore,
  ToolRegistry
} from "../../src/index.ts"
import { TestParts } from "../../src/kit/entry/testing.ts"
import { FileState, PathRoots } from "../../src/kit/entry/tools/files.ts"
import { ProcessEvents, ProcessRegistry } from "../../src/kit/entry/tools/terminal.ts"

const announce = (name: string) =>
  Middleware.wrapModelCall({
    name,
    wrap: (next) => (params) =>
      Effect.andThen(
        Effect.sync(() => console.log(name)),
        next(params)
      )
  })
const report = Hooks.on("post_tool_call", ({ status, tool_name }) =>
  Effect.sync(() => console.log(`${tool_name}: ${status}`))
)

// `Runtime.layer({ tools, hooks, middleware })` in full: the agent, its parts, and the services below them.
const agent = Runtime.layerNoDeps({ instructions: "Answer briefly." })
const parts = Layer.mergeAll(
  ModelRouter.layer.pipe(Layer.provide(Offline.layer())),
  ToolRegistry.layer([FileTools.toolset]),
  Middleware.layer([announce("audit"), announce("timing")]),
  Approvals.layerDeny()
).pipe(Layer.provideMerge(Hooks.layer([report])))
const services = Layer.mergeAll(
  FileState.layer,
  PathRoots.layerConfig,
  ProcessRegistry.layer,
  SessionStore.layerMemory
).pipe(
  Layer.provideMerge(ProcessEvents.layer),
  Layer.provideMerge(CommandEnvironment.layerLocal),
  Layer.provideMerge(NodeServices.layer)
)
const surroundings = parts.pipe(Layer.provideMerge(services))

const run = Effect.asVoid(Agent.run({ prompt: "Read the file package.json" }))

// Another layer adds to the list, at a position of its own.
const tracing = Middleware.layerAdd([announce("tracing")], { before: "timing" })
const application = agent.pipe(Layer.provide(tracing), Layer.provide(surroundings))
await Effect.runPromise(Effect.provide(run, application))
// => audit
// => tracing
// => timing
// => read_file: ok
// => audit
// => tracing
// => timing

// A test replaces parts by providing them closer to the agent.
const test = agent.pipe(
  Layer.provideMerge(Layer.mergeAll(Hooks.layerTest, TestParts.layerTools({ read_file: "no content" }))),
  Layer.provide(Middleware.layerNone),
  Layer.provide(surroundings)
)
const program = Effect.gen(function* () {
  yield* run
  const { payloads } = yield* Hooks.Recorded
  return payloads("post_tool_call").map(({ result }) => result)
})
console.log(await Effect.runPromise(Effect.provide(program, test)))
// => [ 'no content' ]
