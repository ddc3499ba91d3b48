import { createHermes, tool, type ToolCall } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

// The type of the context is stated by the functions that read it: a run without it does not compile.
const balance = tool({
  name: "balance",
  description: "Balance of the customer",
  readonly: true,
  input: z.object({}),
  execute: (_, { context }: ToolCall<{ readonly customer: string }>) => `${context.customer} has 4 crowns`
})

const hermes = createHermes({
  model: "offline",
  tools: [balance],
  // Five attempts, after waits of 1, 2, 4 and 8 seconds.
  retry: { attempts: 5, wait: 1 },
  on: { post_tool_call: ({ status }, { context }) => console.log(`a call for ${context.customer}: ${status}`) }
})

const { output } = await hermes.callTool("balance", {}, { context: { customer: "Ann" } })
console.log(output)
// => a call for Ann: ok
// => Ann has 4 crowns

const results = await hermes.runAll(
  ["Ann", "Bo"].map((customer) => ({ prompt: `Reply exactly ${customer}`, context: { customer } })),
  { concurrency: 2 }
)
console.log(results.map((one) => (one.status === "fulfilled" ? one.value.text : "failed")))
// => [ 'Ann', 'Bo' ]

await hermes.dispose()
