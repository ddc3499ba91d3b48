/**
 * What in a tool call has to be judged: its command, for the tools that run one.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §19.7.
 *
 * @since 0.1.0
 */
import type { ToolArguments } from "../../middleware/Kind.ts"
import * as Danger from "../danger/Danger.ts"

/** What is judged of a call. */
export interface Subject {
  /** What people are shown and globs are matched with. */
  readonly command: string
  readonly verdict: Danger.Verdict
}

const nothing: Danger.Verdict = { floor: undefined, findings: [], commands: [] }

const text = (args: ToolArguments, key: string): string | undefined => {
  const value = args[key]
  return typeof value === "string" ? value : undefined
}

/** Judges text that goes to a program which may or may not be a shell: only quotes of a shell must parse. */
const typed = (input: string): Danger.Verdict => {
  const verdict = Danger.judge(input)
  const findings = verdict.findings.filter(({ family }) => family !== "unreadable")
  return { ...verdict, findings, floor: findings.find(({ gravity }) => gravity === "floor") }
}

/** See the module; `written` is the text of the arguments. Tools that run nothing have no findings here: fences judge their paths and addresses. */
export const of = (tool: string, args: ToolArguments, written: string): Subject => {
  const command = tool === "terminal" ? text(args, "command") : undefined
  if (command !== undefined) return { command, verdict: Danger.judge(command) }
  const input = tool === "process" ? text(args, "data") : undefined
  if (input !== undefined) return { command: input, verdict: typed(input) }
  return { command: `${tool} ${written}`, verdict: nothing }
}
