// A client of an MCP server: its tools are the tools of the agent.
import { createHermes, type ModelChoice, mcp } from "../../src/kit/entry/promise.ts"

export const ask = async (model: ModelChoice, script: string, question: string) => {
  await using hermes = createHermes({
    model,
    tools: [mcp("shop", { command: process.execPath, args: [script], trust: "full" })]
  })
  return (await hermes.run(question)).text
}
