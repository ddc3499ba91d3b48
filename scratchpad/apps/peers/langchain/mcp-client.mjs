import { MultiServerMCPClient } from "@langchain/mcp-adapters"
import { createAgent } from "langchain"

export const ask = async (model, script, question) => {
  const client = new MultiServerMCPClient({ shop: { transport: "stdio", command: process.execPath, args: [script] } })
  try {
    const agent = createAgent({ model, tools: await client.getTools() })
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: question }] })
    return messages.at(-1).text
  } finally {
    await client.close()
  }
}
