import { createMCPClient } from "@ai-sdk/mcp"
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio"
import { generateText, stepCountIs } from "ai"

export const ask = async (model, script, question) => {
  const client = await createMCPClient({
    transport: new Experimental_StdioMCPTransport({ command: process.execPath, args: [script] })
  })
  try {
    const tools = await client.tools()
    return (await generateText({ model, prompt: question, tools, stopWhen: stepCountIs(90) })).text
  } finally {
    await client.close()
  }
}
