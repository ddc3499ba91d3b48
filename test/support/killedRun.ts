// One run over a stored session, whose tools leave traces in a file before and after they wait. Each trace is a line of
// output as well. A SIGINT interrupts it.
// Arguments: protocol, address of the model, database, file of traces, session id, prompt; `compacting` as the last one
// has the conversation compacted every few steps, goes on in the newest session of it, and prints a line for each
// compaction.
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { appendFileSync, writeSync } from "node:fs"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Compaction from "../../src/tools/prompt/Compaction.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { protocols } from "./wireModel.ts"

const [mode = "", url = "", path = "", traces = "", sessionId = "", prompt = "", kind = ""] = process.argv.slice(2)

const trace = (line: string) =>
  Effect.sync(() => {
    appendFileSync(traces, `${line}\n`)
    writeSync(1, `${line}\n`)
  })

const tool = (name: string) =>
  Tool.make(name, { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
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

const common = {
  store: SessionStore.layerSqlite({ path }),
  tools: [Toolset.make("traces", toolkit, toolkit.toLayer({ note: leave, step: leave }))]
}

const runtime =
  kind !== "compacting"
    ? Runtime.layer({ provider: protocol.layer(url), ...common })
    : Runtime.layer({
        ...common,
        routes: [{ provider: "custom", model: "m", baseUrl: `${url}/v1`, apiKey: Redacted.make("k") }]
      }).pipe(
        Layer.provide(
          Layer.succeed(Compaction.CompactionSettings, { threshold: 0.05, protectFirst: 1, protectLast: 2 })
        )
      )

const say = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const run = Effect.gen(function* () {
  const id = yield* SessionStore.SessionStore.use((store) => store.newest(SessionId.make(sessionId)))
  const agent = yield* Agent.Agent
  return yield* agent.run({
    prompt,
    sessionId: id,
    onEvent: (events) =>
      Effect.forEach(
        events,
        (event) =>
          event._tag === "Notice" && event.message.includes("was compacted") ? say("compacted") : Effect.void,
        { discard: true }
      )
  })
})

const fiber = Effect.runFork(
  trace("ready").pipe(
    Effect.andThen(run),
    Effect.andThen(({ exit }) => say(`exit ${exit}`)),
    Effect.provide(runtime)
  )
)
process.on("SIGINT", () => fiber.interruptUnsafe())
await Effect.runPromise(Fiber.await(fiber))
process.exit(0)
