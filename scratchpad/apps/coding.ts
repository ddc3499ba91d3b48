// A coding agent: it reads and writes files of a project, and asks before it runs a dangerous command.
import { createHermes, type ModelChoice } from "../../src/kit/entry/promise.ts"
import { FileTools, TerminalTools } from "../../src/index.ts"

export const change = async (
  model: ModelChoice,
  cwd: string,
  task: string,
  confirm: (question: string) => Promise<boolean>
) => {
  await using hermes = createHermes({
    model,
    cwd,
    tools: [FileTools.toolset, TerminalTools.toolset],
    approve: ({ command }) => confirm(command)
  })
  return (await hermes.run(task)).text
}
