import { Agent, run, tool } from "@openai/agents"
import * as z from "zod"

const orders = tool({
  name: "orders",
  description: "Orders of the customer",
  parameters: z.object({}),
  execute: (_, runContext) => [{ id: 7, of: runContext.context.customer, state: "lost" }]
})

export const createDesk = (model) =>
  new Agent({
    name: "Desk",
    model,
    instructions: "Answer customers of a shop.",
    tools: [orders],
    outputType: z.object({ category: z.enum(["refund", "question"]), order: z.int(), reply: z.string() })
  })

export const answer = async (desk, customer, message) =>
  (await run(desk, message, { context: { customer } })).finalOutput
