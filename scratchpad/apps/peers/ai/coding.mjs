import { generateText, stepCountIs, tool } from "ai"
import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import { promisify } from "node:util"
import * as z from "zod"

export const change = async (model, cwd, task, confirm) => {
  const { text } = await generateText({
    model,
    prompt: task,
    tools: {
      read_file: tool({
        description: "Reads a file",
        inputSchema: z.object({ path: z.string() }),
        execute: ({ path }) => readFile(resolve(cwd, path), "utf8")
      }),
      write_file: tool({
        description: "Writes a file",
        inputSchema: z.object({ path: z.string(), content: z.string() }),
        execute: ({ content, path }) => writeFile(resolve(cwd, path), content)
      }),
      terminal: tool({
        description: "Runs a command",
        inputSchema: z.object({ command: z.string() }),
        execute: async ({ command }) =>
          (await confirm(command)) ? await promisify(execFile)("sh", ["-c", command], { cwd }) : "The user refused."
      })
    },
    stopWhen: stepCountIs(90)
  })
  return text
}
