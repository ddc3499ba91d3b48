import { Agent } from "@mastra/core/agent"
import { RequestContext } from "@mastra/core/request-context"
import { createTool } from "@mastra/core/tools"
import * as z from "zod"

const orders = createTool({
  id: "orders",
  description: "Orders of the customer",
  inputSchema: z.object({}),
  execute: async (_, { requestContext }) => [{ id: 7, of: requestContext.get("customer"), state: "lost" }]
})

export const createDesk = (model) =>
  new Agent({ id: "desk", name: "Desk", model, instructions: "Answer customers of a shop.", tools: { orders } })

const schema = z.object({ category: z.enum(["refund", "question"]), order: z.int(), reply: z.string() })

export const answer = async (desk, customer, message) => {
  const requestContext = new RequestContext([["customer", customer]])
  return (await desk.generate(message, { requestContext, structuredOutput: { schema } })).object
}
