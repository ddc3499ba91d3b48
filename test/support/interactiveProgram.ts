// The interactive session on this process's terminal, with a model that does what the user's words say.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Interactive from "../../src/program/cli/interactive/Interactive.ts"
import * as NodeTerminal from "../../src/program/cli/interactive/internal/NodeTerminal.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import { display } from "./interactiveSettings.ts"
import * as Beside from "./interactiveServices.ts"
import * as Model from "./interactiveModel.ts"

const [mode = "render", pause = "5", parts = "plain"] = process.argv.slice(2)

const program = Effect.gen(function* () {
  const options: Interactive.InteractiveOptions = {
    terminal: yield* NodeTerminal.make(),
    history: Beside.history(),
    display: display({ finalResponseMarkdown: mode === "strip" ? "strip" : "render", showCost: true }),
    about: { version: "0.1.0", provider: "fake", model: "fake-1", cwd: process.cwd() },
    session: { id: yield* Ids.makeSessionId, known: undefined },
    newSession: Ids.makeSessionId,
    input: { source: "cli" },
    ...(parts === "screen"
      ? {
          status: { compactAt: 0.5, home: undefined },
          notify: { method: "bell", after: Duration.zero, title: "project · hermes" }
        }
      : {})
  }
  return yield* Interactive.run(options)
})

const code = await program.pipe(
  Effect.scoped,
  Effect.provide(Layer.mergeAll(Model.layer(Model.make(Number(pause))), Beside.layer({}), NodeServices.layer)),
  Effect.runPromise
)
process.exit(code)
