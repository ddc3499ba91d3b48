import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import { promisify } from "node:util"
import * as z from "zod"

export const change = async (model, cwd, task, confirm) => {
  const agent = new Agent({
    id: "coder",
    name: "Coder",
    model,
    instructions: "Change files.",
    tools: {
      read_file: createTool({
        id: "read_file",
        description: "Reads a file",
        inputSchema: z.object({ path: z.string() }),
        execute: ({ path }) => readFile(resolve(cwd, path), "utf8")
      }),
      write_file: createTool({
        id: "write_file",
        description: "Writes a file",
        inputSchema: z.object({ path: z.string(), content: z.string() }),
        execute: ({ content, path }) => writeFile(resolve(cwd, path), content).then(() => "written")
      }),
      terminal: createTool({
        id: "terminal",
        description: "Runs a command",
        inputSchema: z.object({ command: z.string() }),
        execute: async ({ command }) =>
          (await confirm(command)) ? await promisify(execFile)("sh", ["-c", command], { cwd }) : "The user refused."
      })
    }
  })
  return (await agent.generate(task, { maxSteps: 90 })).text
}
