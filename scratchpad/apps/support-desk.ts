// A support desk: an answer of a fixed form, with the orders of the customer who asks.
import { createHermes, type ModelChoice, tool, type ToolCall } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

const orders = tool({
  name: "orders",
  description: "Orders of the customer",
  input: z.object({}),
  execute: (_, { context }: ToolCall<{ readonly customer: string }>) => [{ id: 7, of: context.customer, state: "lost" }]
})

export const createDesk = (model: ModelChoice) =>
  createHermes({
    model,
    instructions: "Answer customers of a shop.",
    tools: [orders],
    output: z.object({ category: z.enum(["refund", "question"]), order: z.int(), reply: z.string() })
  })

export const answer = async (desk: ReturnType<typeof createDesk>, customer: string, message: string) =>
  (await desk.run({ prompt: message, context: { customer } })).value
