// Types of the runtime without Effect: what a tool gets is what its schema makes, and nothing else fits. This file is
// compiled, never run.
import * as EffectSchema from "effect/Schema"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import * as z from "zod"
import type { RunCall } from "../../../src/base/domain/RunDetails.ts"
import type { RunEvent, RunResult } from "../../../src/base/domain/RunEvent.ts"
import { createHermes, HermesError, tool, type ToolCall } from "../../../src/kit/entry/promise.ts"
import { agentTool } from "../../../src/kit/promise/AiSdkTool.ts"
import * as FileTools from "../../../src/tools/builtin/FileTools.ts"

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Same<A, B>): void => undefined

const input = z.object({
  city: z.string(),
  days: z.number().default(3),
  at: z.string().transform((text) => new Date(text)),
  unit: z.enum(["c", "f"]).optional()
})
const weather = tool({
  name: "weather",
  description: "Weather",
  input,
  execute: (args, call) => {
    same<typeof args, { city: string; days: number; at: Date; unit?: "c" | "f" | undefined }>(true)
    same<typeof call.signal, AbortSignal>(true)
    same<typeof call.sessionId, string>(true)
    // @ts-expect-error the schema has no such member
    return args.country
  }
})

tool({
  name: "effect",
  description: "By Effect",
  input: EffectSchema.toStandardSchemaV1(EffectSchema.Struct({ n: EffectSchema.NumberFromString })),
  parameters: { type: "object" },
  execute: ({ n }) => same<typeof n, number>(true)
})

declare const byHand: StandardSchemaV1<{ readonly raw: string }, { readonly parsed: bigint }>
tool({
  name: "hand",
  description: "By hand",
  input: byHand,
  execute: async ({ parsed }) => same<typeof parsed, bigint>(true)
})

// @ts-expect-error a schema is needed
tool({ name: "none", description: "Without a schema", execute: () => 1 })
// @ts-expect-error an object is no schema
tool({ name: "none", description: "Without a schema", input: { type: "object" }, execute: () => 1 })

const hermes = createHermes({
  model: "offline",
  tools: [weather, FileTools.toolset],
  on: {
    post_tool_call: ({ tool_name }) => same<typeof tool_name, string>(true),
    // @ts-expect-error there is no such hook
    after_everything: () => undefined
  }
})
const result = await hermes.run("Hello?")
export const isResult: RunResult = result
same<typeof result.value, unknown>(true)
// Beside toolsets whose types are not known, no call has a type.
same<(typeof result.calls)[number], RunCall>(true)
for await (const event of hermes.stream("Hello?")) {
  const plain: RunEvent = event
  same<typeof plain._tag, RunEvent["_tag"]>(true)
}

const log = tool({ name: "log", description: "Logs", input: z.object({ line: z.string() }), execute: async () => {} })
const forecast = tool({
  name: "forecast",
  description: "Forecast",
  input,
  execute: async ({ city }) => ({ city, highs: [1, 2] })
})
const typed = createHermes({ model: "offline", tools: [forecast, log] })
const { calls, messages } = await typed.run("Hello?")
same<(typeof messages)[number]["role"], "user" | "assistant" | "tool">(true)
for (const call of calls) {
  same<typeof call.name, "forecast" | "log">(true)
  if (call.name === "forecast" && call.status === "ok") {
    same<typeof call.params.city, string>(true)
    // The model writes the input of the schema.
    same<typeof call.params.at, string>(true)
    same<NonNullable<typeof call.result>["highs"], ReadonlyArray<number>>(true)
  }
  if (call.name === "log") same<typeof call.result, null | undefined>(true)
  if (call.status === "blocked") same<typeof call.result, undefined>(true)
}
for await (const event of typed.stream("Hello?")) {
  if (event._tag === "ToolFinished" && event.name === "forecast") {
    same<NonNullable<typeof event.result>["city"], string>(true)
    // @ts-expect-error the tool returns no such member
    void event.result?.country
  }
}

// @ts-expect-error a prompt is needed
void hermes.run({ sessionId: "s" })
// @ts-expect-error a model is needed
createHermes({})
// @ts-expect-error the name of a model is no model
createHermes({ model: "gpt-5" })

declare const error: unknown
if (error instanceof HermesError) {
  if (error.tag === "Disposed" || error._tag === "Aborted") same<typeof error.message, string>(true)
  same<typeof error.reason, string | undefined>(true)
}

// An output that may be absent may leave no value.
declare const maybe: z.ZodObject<{ city: z.ZodString }> | undefined
const optional = await hermes.run({ prompt: "Hello?", output: maybe })
same<typeof optional.value, { city: string } | undefined>(true)
const sure = await hermes.run({ prompt: "Hello?", output: z.object({ city: z.string() }) })
same<typeof sure.value, { city: string }>(true)
const json = await hermes.run({ prompt: "Hello?", output: { type: "object" } })
same<typeof json.value, unknown>(true)
// A context is required by the functions that read it.
const whoami = tool({
  name: "whoami",
  description: "Who",
  input: z.object({}),
  execute: (_, { context }: ToolCall<{ readonly user: string }>) => context.user
})
const desk = createHermes({ model: "offline", tools: [whoami, weather] })
void desk.run({ prompt: "Who?", context: { user: "Ann" } })
// @ts-expect-error the context is missing
void desk.run({ prompt: "Who?" })
// @ts-expect-error a text has no context
void desk.run("Who?")
// @ts-expect-error the user is a text
void desk.run({ prompt: "Who?", context: { user: 1 } })
createHermes<{ readonly user: string; readonly tenant: number }>({
  model: "offline",
  tools: [whoami],
  on: { post_tool_call: (_, { context }) => same<typeof context.tenant, number>(true) },
  approve: (_, { context }) => context.tenant === 1,
  middleware: { tool_execution: ({ next_call }, { context }) => (context.user === "" ? undefined : next_call()) }
})
const counted = createHermes({ model: "offline", output: z.object({ n: z.number() }) })
const { value } = await counted.run("How many?")
same<typeof value, { n: number }>(true)

// Context, value and calls of one runtime are inferred together, also from tools that are written in place.
const all = createHermes({
  model: "offline",
  output: z.object({ n: z.number() }),
  tools: [
    whoami,
    tool({ name: "count", description: "Counts", input: z.object({ by: z.number() }), execute: ({ by }) => by + 1 })
  ]
})
const full = await all.run({ prompt: "Count", context: { user: "Ann" } })
same<typeof full.value, { n: number }>(true)
same<(typeof full.calls)[number]["name"], "count" | "whoami">(true)
const either = await all.run({ prompt: "Where?", context: { user: "Ann" }, output: maybe })
same<typeof either.value, { city: string } | { n: number }>(true)
const [settled] = await all.runAll([{ prompt: "Count", context: { user: "Ann" } }])
if (settled?.status === "fulfilled") same<typeof settled.value.value, { n: number }>(true)
// @ts-expect-error the context is missing
void all.runAll(["Count"])
const asTool = agentTool(all, { description: "Counts", context: { user: "Ann" }, output: z.object({ m: z.number() }) })
same<Awaited<ReturnType<typeof asTool.execute>>, { m: number }>(true)
// @ts-expect-error the context is missing
agentTool(all, { description: "Counts" })

// Sub-agents add calls whose types are not known, and so does a named context.
const led = createHermes({ model: "offline", tools: [log], agents: [{ name: "researcher" }] })
same<Awaited<ReturnType<typeof led.run>>["calls"][number], RunCall>(true)
const named = createHermes<{ readonly user: string }>({ model: "offline", tools: [log, whoami] })
same<Awaited<ReturnType<typeof named.run>>["calls"][number], RunCall>(true)
const bare = await createHermes({ model: "offline" }).run("Hello?")
same<(typeof bare.calls)[number], RunCall>(true)
