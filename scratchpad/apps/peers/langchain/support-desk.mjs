import { createAgent, tool } from "langchain"
import * as z from "zod"

const orders = tool((_, { context }) => JSON.stringify([{ id: 7, of: context.customer, state: "lost" }]), {
  name: "orders",
  description: "Orders of the customer",
  schema: z.object({})
})

export const createDesk = (model) =>
  createAgent({
    model,
    systemPrompt: "Answer customers of a shop.",
    tools: [orders],
    contextSchema: z.object({ customer: z.string() }),
    responseFormat: z.object({ category: z.enum(["refund", "question"]), order: z.int(), reply: z.string() })
  })

export const answer = async (desk, customer, message) => {
  const result = await desk.invoke({ messages: [{ role: "user", content: message }] }, { context: { customer } })
  return result.structuredResponse
}
