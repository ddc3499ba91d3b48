/**
 * What in a tool call has to be judged: its command, for the tools that run one.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §19.7.
 *
 * @since 0.1.0
 */
import type { ToolArguments } from "../../middleware/Kind.ts"
import * as Danger from "../danger/Danger.ts"
import { written } from "./Arguments.ts"

/** What is judged of a call. */
export interface Subject {
  /** What people are shown and globs are matched with; made when somebody asks for it. */
  readonly text: () => string
  readonly verdict: Danger.Verdict
}

const nothing: Danger.Verdict = { floor: undefined, findings: [], commands: [] }

const argument = (args: ToolArguments, key: string): string | undefined => {
  const value = args[key]
  return typeof value === "string" ? value : undefined
}

/** Judges text that goes to a program which may or may not be a shell: only quotes of a shell must parse. */
const typed = (input: string): Danger.Verdict => {
  const verdict = Danger.judge(input)
  const findings = verdict.findings.filter(({ family }) => family !== "unreadable")
  return { ...verdict, findings, floor: findings.find(({ gravity }) => gravity === "floor") }
}

/** See the module. Tools that run nothing have no findings here: fences judge their paths and addresses. */
export const of = (tool: string, args: ToolArguments): Subject => {
  const command = tool === "terminal" ? argument(args, "command") : undefined
  if (command !== undefined) return { text: () => command, verdict: Danger.judge(command) }
  const input = tool === "process" ? argument(args, "data") : undefined
  if (input !== undefined) return { text: () => input, verdict: typed(input) }
  return { text: () => `${tool} ${written(args) ?? ""}`, verdict: nothing }
}
