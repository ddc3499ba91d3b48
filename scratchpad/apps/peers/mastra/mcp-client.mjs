import { Agent } from "@mastra/core/agent"
import { MCPClient } from "@mastra/mcp"

export const ask = async (model, script, question) => {
  const client = new MCPClient({ servers: { shop: { command: process.execPath, args: [script] } } })
  try {
    const tools = await client.listTools()
    const agent = new Agent({ id: "shop", name: "Shop", model, instructions: "Use the shop.", tools })
    return (await agent.generate(question)).text
  } finally {
    await client.disconnect()
  }
}
