import { createAgent, tool } from "langchain"
import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import { promisify } from "node:util"
import * as z from "zod"

export const change = async (model, cwd, task, confirm) => {
  const read = tool(({ path }) => readFile(resolve(cwd, path), "utf8"), {
    name: "read_file",
    description: "Reads a file",
    schema: z.object({ path: z.string() })
  })
  const write = tool(({ content, path }) => writeFile(resolve(cwd, path), content).then(() => "written"), {
    name: "write_file",
    description: "Writes a file",
    schema: z.object({ path: z.string(), content: z.string() })
  })
  const runCommand = async ({ command }) => {
    if (!(await confirm(command))) return "The user refused."
    return JSON.stringify(await promisify(execFile)("sh", ["-c", command], { cwd }))
  }
  const terminal = tool(runCommand, {
    name: "terminal",
    description: "Runs a command",
    schema: z.object({ command: z.string() })
  })
  const agent = createAgent({ model, tools: [read, write, terminal] })
  const { messages } = await agent.invoke({ messages: [{ role: "user", content: task }] })
  return messages.at(-1).text
}
