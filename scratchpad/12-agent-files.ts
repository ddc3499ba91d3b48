import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Logger from "effect/Logger"
import { Agent, Runtime } from "../src/index.ts"
import { AgentFile, FolderTrust } from "../src/kit/entry/config.ts"
import { MiddlewareImports } from "../src/kit/entry/middleware.ts"

// Agent files of the lifecycle document, in an application. `hermes chat --agent scratchpad/agents/my_agent.yaml` does
// the same.
const folder = new URL("agents", import.meta.url).pathname

const program = Effect.gen(function* () {
  const trust = yield* FolderTrust.FolderTrust
  const refused = yield* Effect.flip(AgentFile.load(`${folder}/my_agent.yaml`))
  console.log(refused.message.includes("hermes trust add") ? "not trusted" : refused.message)
  yield* trust.trust(folder)

  for (const name of ["my_agent", "built_in"]) {
    const agent = yield* AgentFile.load(`${folder}/${name}.yaml`)
    const made = yield* MiddlewareImports.make(agent.middlewares, agent.file)
    console.log(`${agent.name}: ${made.map(({ middleware }) => middleware.name).join(", ")}`)
    const runtime = Runtime.layer({
      identity: agent.systemPrompt,
      middleware: made.map(({ middleware }) => middleware)
    })
    const result = yield* Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), runtime)
    console.log(result.text)
  }
})

// A home directory of its own, which is gone afterwards.
await Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()).pipe(
  Effect.flatMap((home) => Effect.provide(program, AgentFile.layerAt(home))),
  Effect.scoped,
  Effect.provide(NodeServices.layer),
  Effect.provide(Logger.layer([])),
  Effect.runPromise
)
