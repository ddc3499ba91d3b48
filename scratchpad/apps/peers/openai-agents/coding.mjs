import { Agent, run, tool } from "@openai/agents"
import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import { promisify } from "node:util"
import * as z from "zod"

export const change = async (model, cwd, task, confirm) => {
  const agent = new Agent({
    name: "Coder",
    model,
    tools: [
      tool({
        name: "read_file",
        description: "Reads a file",
        parameters: z.object({ path: z.string() }),
        execute: ({ path }) => readFile(resolve(cwd, path), "utf8")
      }),
      tool({
        name: "write_file",
        description: "Writes a file",
        parameters: z.object({ path: z.string(), content: z.string() }),
        execute: ({ content, path }) => writeFile(resolve(cwd, path), content).then(() => "written")
      }),
      tool({
        name: "terminal",
        description: "Runs a command",
        parameters: z.object({ command: z.string() }),
        needsApproval: true,
        execute: ({ command }) => promisify(execFile)("sh", ["-c", command], { cwd })
      })
    ]
  })
  let result = await run(agent, task, { maxTurns: 90 })
  while (result.interruptions.length > 0) {
    for (const item of result.interruptions) {
      const { command } = JSON.parse(item.arguments)
      if (await confirm(command)) result.state.approve(item)
      else result.state.reject(item)
    }
    result = await run(agent, result.state, { maxTurns: 90 })
  }
  return result.finalOutput
}
