// A process that is killed while a tool runs, as soon as the start of the tool is on disk. Argument: the directory.
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../../src/agent/Agent.ts"
import * as TracePlugin from "../../../src/observe/TracePlugin.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"

const directory = process.argv[2] ?? ""
const file = join(directory, "events.jsonl")

const isStarted = Effect.sync(() => {
  try {
    return /"category":"tool"[^\n]*\n/u.test(readFileSync(file, "utf8"))
  } catch {
    return false
  }
})

const toolkit = Toolkit.make(Tool.make("die", { description: "Ends the process", success: Schema.String }))
const handlers = toolkit.toLayer({
  die: () =>
    Effect.andThen(
      Effect.repeat(Effect.delay(isStarted, "5 millis"), { until: (started) => started }),
      Effect.sync(() => {
        process.kill(process.pid, "SIGKILL")
        return ""
      })
    )
})

const tracing = TracePlugin.make({
  agent: { name: "crash", version: "1" },
  atof: { directory, filename: "events.jsonl", mode: "append" },
  atif: undefined
})
const provider = Scripted.layer([Scripted.complete({ toolCalls: [{ id: "c1", name: "die", params: {} }] })])

await Effect.runPromise(
  Effect.provide(
    Agent.run({ prompt: "go", sessionId: "killed" }),
    Runtime.layer({ provider, tools: [Toolset.make("test", toolkit, handlers)], plugins: [tracing] })
  )
)
