// Types of the runtime without Effect: what a tool gets is what its schema makes, and nothing else fits. This file is
// compiled, never run.
import * as EffectSchema from "effect/Schema"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import * as z from "zod"
import type { RunEvent, RunResult } from "../../../src/base/domain/RunEvent.ts"
import { createHermes, HermesError, tool, type ToolCall } from "../../../src/kit/entry/promise.ts"
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
same<Awaited<ReturnType<typeof hermes.run>>, RunResult>(true)
for await (const event of hermes.stream("Hello?")) same<typeof event, RunEvent>(true)

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
