import { Output, ToolLoopAgent, tool } from "ai"
import * as z from "zod"

const orders = tool({
  description: "Orders of the customer",
  inputSchema: z.object({}),
  contextSchema: z.object({ customer: z.string() }),
  execute: (_, { context }) => [{ id: 7, of: context.customer, state: "lost" }]
})

export const createDesk = (model) =>
  new ToolLoopAgent({
    model,
    instructions: "Answer customers of a shop.",
    tools: { orders },
    output: Output.object({
      schema: z.object({ category: z.enum(["refund", "question"]), order: z.int(), reply: z.string() })
    }),
    callOptionsSchema: z.object({ customer: z.string() }),
    prepareCall: ({ options, ...settings }) => ({ ...settings, toolsContext: { orders: options } })
  })

export const answer = async (desk, customer, message) =>
  (await desk.generate({ prompt: message, options: { customer } })).output
