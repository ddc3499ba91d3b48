// Real runs of the runtime with a scripted model, two tools, and the exporters under test as hooks.
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { Hook } from "../../../src/hooks/Hook.ts"
import type * as Middleware from "../../../src/middleware/Middleware.ts"
import type { Event } from "../../../src/observe/Atof.ts"
import * as FromRuns from "../../../src/observe/atof/FromRuns.ts"
import * as Plugin from "../../../src/agent/plugin/Plugin.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import type * as SessionStore from "../../../src/store/SessionStore.ts"
import * as StoredMask from "../../../src/store/StoredMask.ts"
import { RunRecord } from "../../../src/store/RunRecord.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Slow = Tool.make("slow", {
  description: "Says it again when the other call is done",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Hang = Tool.make("hang", { description: "Never ends", success: Schema.String }).annotate(Tool.Readonly, false)
const toolkit = Toolkit.make(Echo, Slow, Hang)

export const agent = { name: "Hermes Test", version: "1.2.3" }

export interface Tools {
  readonly toolset: ReturnType<typeof toolset>["toolset"]
  readonly hanging: Deferred.Deferred<void>
}

const toolset = () => {
  const echoed = Deferred.makeUnsafe<void>()
  const hanging = Deferred.makeUnsafe<void>()
  const handlers = toolkit.toLayer({
    echo: ({ text }) => Effect.withSpan(Effect.as(Deferred.succeed(echoed, undefined), text), "in the tool"),
    // Done some turns of the scheduler after the other call is, so that the other one is closed first.
    slow: ({ text }) =>
      Effect.as(Effect.andThen(Deferred.await(echoed), Effect.repeat(Effect.yieldNow, { times: 200 })), text),
    hang: () => Effect.andThen(Deferred.succeed(hanging, undefined), Effect.never)
  })
  return { toolset: Toolset.make("test", toolkit, handlers), hanging }
}

export const runtime = (
  turns: ReadonlyArray<Scripted.Turn>,
  hooks: ReadonlyArray<Hook>,
  middleware: ReadonlyArray<Middleware.LlmExecution | Middleware.ToolExecution> = [],
  plugins: ReadonlyArray<Plugin.Plugin<RunRecord | FileSystem.FileSystem | Path.Path>> = [],
  more: { readonly record?: Layer.Layer<RunRecord>; readonly store?: ReturnType<typeof SessionStore.layerSqlite> } = {}
) => {
  const { hanging, toolset: tools } = toolset()
  return {
    layer: Layer.fresh(
      Runtime.layer({ provider: Scripted.layer([...turns]), tools: [tools], hooks, middleware, plugins, ...more })
    ),
    hanging
  }
}

/** A plugin that keeps the events that a stream would hold. */
export const collector = () => {
  const events: Array<Event> = []
  const plugin = Plugin.make({
    name: "collector",
    build: Effect.gen(function* () {
      const stream = FromRuns.make(agent)
      const record = yield* RunRecord
      const safe = yield* StoredMask.forExport
      yield* Effect.addFinalizer(() => Effect.sync(() => void events.push(...stream.close())))
      yield* record.listen((entries) => void events.push(...safe(entries).flatMap(stream.add)))
      return {}
    })
  })
  return { events, plugin }
}

export const parallel: ReadonlyArray<Scripted.Turn> = [
  Scripted.complete({
    text: "both",
    reasoning: "two are better",
    usage: { input: 520, output: 80, cacheRead: 200 },
    toolCalls: [
      { id: "call_alpha", name: "slow", params: { text: "alpha" } },
      { id: "call_beta", name: "echo", params: { text: "beta" } }
    ]
  }),
  Scripted.complete("parallel tools complete.")
]
