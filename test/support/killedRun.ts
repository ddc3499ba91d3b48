// One run over a stored session, whose tools leave traces in a file before and after they wait. Each trace is a line of output
// as well. A SIGINT interrupts it.
// Arguments: protocol, address of the model, database, file of traces, session id, prompt.
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { appendFileSync, writeSync } from "node:fs"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/Runtime.ts"
import * as SessionStore from "../../src/session/SessionStore.ts"
import * as Annotations from "../../src/tool/Annotations.ts"
import * as Toolset from "../../src/tool/Toolset.ts"
import { protocols } from "./wireModel.ts"

const [mode = "", url = "", path = "", traces = "", sessionId = "", prompt = ""] = process.argv.slice(2)

const trace = (line: string) =>
  Effect.sync(() => {
    appendFileSync(traces, `${line}\n`)
    writeSync(1, `${line}\n`)
  })

const tool = (name: string) => Tool.make(name, { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
const Note = tool("note").annotate(Annotations.PathArguments, ["path"])
const Step = tool("step")
const toolkit = Toolkit.make(Note, Step)

const leave = ({ path }: { readonly path: string }) =>
  trace(`begin ${path}`).pipe(
    Effect.andThen(Effect.sleep(5)),
    Effect.andThen(trace(`end ${path}`)),
    Effect.as(`did ${path}`)
  )

const protocol = Object.entries(protocols).find(([name]) => name === mode)?.[1]
if (protocol === undefined) throw new Error(`no protocol ${mode}`)

const runtime = Runtime.layer({
  provider: protocol.layer(url),
  store: SessionStore.layerSqlite({ path }),
  tools: [Toolset.make("traces", toolkit, toolkit.toLayer({ note: leave, step: leave }))]
})

const fiber = Effect.runFork(trace("ready").pipe(
  Effect.andThen(Agent.run({ prompt, sessionId })),
  Effect.andThen(({ exit }) => Effect.sync(() => writeSync(1, `exit ${exit}\n`))),
  Effect.provide(runtime)
))
process.on("SIGINT", () => fiber.interruptUnsafe())
await Effect.runPromise(Fiber.await(fiber))
process.exit(0)
