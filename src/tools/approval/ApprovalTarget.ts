/**
 * The parts of a tool call to judge: its commands and the input that it types into running programs.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §19.7.
 */
import type { ToolArguments } from "../../middleware/Kind.ts"
import * as Danger from "../danger/Danger.ts"
import type { Target } from "./AllowList.ts"
import {
  type RunArguments,
  type RunTexts,
  collectRunTexts,
  selectTexts,
  serializeArguments
} from "./ApprovalReasons.ts"
import * as CommandPrefix from "./CommandPrefix.ts"

/** The parts of one call that are judged. */
export interface ApprovalTarget extends RunTexts {
  /** Returns the text for people and for globs; created on demand. */
  readonly text: () => string
  readonly verdict: Danger.Verdict
  /** Returns the scope of an approval of the call: its command in its directory, or the tool with these arguments. */
  readonly target: () => Target
  /** Returns the command prefix that an approval may be granted for; `undefined` if there is no such prefix. */
  readonly prefix: () => Target | undefined
}

const nothing: Danger.Verdict = { floor: undefined, findings: [], commands: [], onlyReads: true }

/** Judges text sent to a program that may or may not be a shell. Only the shell's quotes have to be balanced. */
const judgeInput = (input: string): Danger.Verdict => {
  const verdict = Danger.judge(input)
  const findings = verdict.findings.filter(({ family }) => family !== "unreadable")
  return { ...verdict, findings, floor: findings.find(({ gravity }) => gravity === "floor") }
}

const mergeVerdicts = (verdicts: ReadonlyArray<Danger.Verdict>): Danger.Verdict => {
  const [only = nothing] = verdicts
  return verdicts.length < 2
    ? only
    : {
        floor: verdicts.find(({ floor }) => floor !== undefined)?.floor,
        findings: verdicts.flatMap(({ findings }) => findings),
        commands: verdicts.flatMap(({ commands }) => commands),
        onlyReads: verdicts.every(({ onlyReads }) => onlyReads)
      }
}

/** Creates a judge of command lines in the directory that the call names, if any. */
const makeLineJudge =
  (directory: string | undefined) =>
  (line: string): Danger.Verdict => {
    const alone = Danger.judge(line)
    if (directory === undefined) return alone
    return { ...Danger.judge(`cd '${directory.replaceAll("'", String.raw`'\''`)}'\n${line}`), commands: alone.commands }
  }

/** Formats the command lines, with the directory if the call names one, and with the tool unless it is the terminal. */
const formatCommand = (tool: string, args: ToolArguments, lines: ReadonlyArray<string>): string => {
  const [directory] = selectTexts(args, ["workdir"])
  const text = lines.join("\n").trim()
  return [
    ...(tool === "terminal" ? [] : [`${tool}:`]),
    text,
    ...(directory === undefined ? [] : [`(in ${directory})`])
  ].join(" ")
}

/**
 * Returns the parts of a tool call that have to be judged. Tools that run nothing have no findings here; other checks
 * cover their paths and addresses.
 */
export const fromCall = (tool: string, args: ToolArguments, runs?: RunArguments): ApprovalTarget => {
  const { inputs, lines } = collectRunTexts(tool, args, runs)
  const formatCall = (): string => `${tool} ${serializeArguments(args) ?? ""}`
  if (lines.length + inputs.length === 0) {
    return {
      text: formatCall,
      verdict: nothing,
      lines,
      inputs,
      target: () => ({ kind: "call", text: formatCall() }),
      prefix: () => undefined
    }
  }
  return {
    text: () => [...lines, ...inputs].join("\n"),
    verdict: mergeVerdicts([...lines.map(makeLineJudge(selectTexts(args, ["workdir"])[0])), ...inputs.map(judgeInput)]),
    lines,
    inputs,
    // Typed input belongs to one process, so it is meaningless without the rest of the call.
    target: () =>
      inputs.length > 0
        ? { kind: "call", text: formatCall() }
        : { kind: "command", text: formatCommand(tool, args, lines) },
    prefix: () => {
      const text =
        tool === "terminal" && lines.length === 1 && inputs.length === 0
          ? CommandPrefix.findPrefix(lines[0] ?? "")
          : undefined
      return text === undefined ? undefined : { kind: "prefix", text }
    }
  }
}
