import { Agent, MCPServerStdio, run } from "@openai/agents"

export const ask = async (model, script, question) => {
  const server = new MCPServerStdio({ name: "shop", command: process.execPath, args: [script] })
  await server.connect()
  try {
    const agent = new Agent({ name: "Shop", model, mcpServers: [server] })
    return (await run(agent, question)).finalOutput
  } finally {
    await server.close()
  }
}
