/**
 * Parts of a tool call that have to be judged: its commands, and what it types into programs that run.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-llm.md` §19.7.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import type { Approve } from "../../hooks/Payloads.ts"
import * as IsolatedCall from "../../hooks/IsolatedCall.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { ToolFacts } from "../Annotations.ts"
import * as Danger from "../danger/Danger.ts"
import type { ToolContext } from "../ToolContext.ts"
import type { BoundTool } from "../Toolset.ts"
import type { Target } from "./AllowList.ts"
import * as CommandPrefix from "./CommandPrefix.ts"
import type { Concern } from "./Question.ts"

/** Arguments in one text, to be compared and shown; undefined when JSON cannot express them. */
const written = (args: ToolArguments): string | undefined => {
  try {
    return JSON.stringify(args)
  } catch {
    return undefined
  }
}

/** The arguments of a call as they were when it was approved, so that a change on the way to the handler is noticed. */
export interface Snapshot {
  readonly isSame: (args: ToolArguments) => boolean
}

/** Of arguments that nobody can change on the way: no middleware of tools is there. Costs nothing. */
export const fixed: Snapshot = { isSame: () => true }

/** Of arguments that middleware gets to see. Those that cannot be compared count as changed. */
export const taken = (args: ToolArguments): Snapshot => {
  const before = written(args)
  return { isSame: (after) => before !== undefined && written(after) === before }
}

/** Names of the arguments that are commands, and of those that are typed. */
export type Runs = Pick<ToolFacts, "commandArguments" | "inputArguments">

/** Target of the judgement of one call. */
export interface ApprovalTarget {
  /** Text for people and for globs; made when it is asked for. */
  readonly text: () => string
  readonly verdict: Danger.Verdict
  /** The command lines that a shell would be given. */
  readonly lines: ReadonlyArray<string>
  /** Texts that are typed into a program, which may be a shell. */
  readonly inputs: ReadonlyArray<string>
  /** Scope of an approval of the call: its command in its directory, or the tool with these arguments. */
  readonly target: () => Target
  /** The prefix of its command that an approval may be granted for; undefined where it has none. */
  readonly prefix: () => Target | undefined
}

const nothing: Danger.Verdict = { floor: undefined, findings: [], commands: [], onlyReads: true }
const runsNothing: Runs = { commandArguments: [], inputArguments: [] }

/** Facts by name, for tools without annotations. */
const known: Readonly<Record<string, Runs>> = {
  terminal: { commandArguments: ["command"], inputArguments: [] },
  process: { commandArguments: [], inputArguments: ["data"] }
}

const texts = (args: ToolArguments, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.flatMap((name) => {
    const value = Object.hasOwn(args, name) ? args[name] : undefined
    return typeof value === "string" ? [value] : []
  })

/** Judges text that goes to a program which may or may not be a shell: only quotes of a shell must parse. */
const typed = (input: string): Danger.Verdict => {
  const verdict = Danger.judge(input)
  const findings = verdict.findings.filter(({ family }) => family !== "unreadable")
  return { ...verdict, findings, floor: findings.find(({ gravity }) => gravity === "floor") }
}

const together = (verdicts: ReadonlyArray<Danger.Verdict>): Danger.Verdict => {
  const [only = nothing] = verdicts
  return verdicts.length < 2 ? only : {
    floor: verdicts.find(({ floor }) => floor !== undefined)?.floor,
    findings: verdicts.flatMap(({ findings }) => findings),
    commands: verdicts.flatMap(({ commands }) => commands),
    onlyReads: verdicts.every(({ onlyReads }) => onlyReads)
  }
}

/** Judges a command line in the directory that the call names, if it does. */
const judgedIn = (directory: string | undefined) => (line: string): Danger.Verdict => {
  const alone = Danger.judge(line)
  if (directory === undefined) return alone
  return { ...Danger.judge(`cd '${directory.replaceAll("'", String.raw`'\''`)}'\n${line}`), commands: alone.commands }
}

/** The lines, with the directory where the call names one, and with the tool where it is not the terminal. */
const commandOf = (tool: string, args: ToolArguments, lines: ReadonlyArray<string>): string => {
  const [directory] = texts(args, ["workdir"])
  const text = lines.join("\n").trim()
  return [...tool === "terminal" ? [] : [`${tool}:`], text, ...directory === undefined ? [] : [`(in ${directory})`]].join(" ")
}

/**
 * Parts of a tool call that have to be judged. Tools that run nothing have no findings here: fences judge their paths and
 * addresses.
 */
export const of = (
  tool: string,
  args: ToolArguments,
  runs: Runs = Object.hasOwn(known, tool) ? known[tool] ?? runsNothing : runsNothing
): ApprovalTarget => {
  const lines = texts(args, runs.commandArguments)
  const inputs = texts(args, runs.inputArguments)
  const call = (): string => `${tool} ${written(args) ?? ""}`
  if (lines.length + inputs.length === 0) {
    return { text: call, verdict: nothing, lines, inputs, target: () => ({ kind: "call", text: call() }), prefix: () => undefined }
  }
  return {
    text: () => [...lines, ...inputs].join("\n"),
    verdict: together([...lines.map(judgedIn(texts(args, ["workdir"])[0])), ...inputs.map(typed)]),
    lines,
    inputs,
    // Typed input goes to one process: it means nothing without the rest of the call.
    target: () => inputs.length > 0 ? { kind: "call", text: call() } : { kind: "command", text: commandOf(tool, args, lines) },
    prefix: () => {
      const text = tool === "terminal" && lines.length === 1 && inputs.length === 0 ? CommandPrefix.of(lines[0] ?? "") : undefined
      return text === undefined ? undefined : { kind: "prefix", text }
    }
  }
}

// Reasons why a call needs an approval, besides what its command says: the tool states it, the tool changes things, or a listener
// sent the call to the user.
//
// **Details**
//
// Only what was stated counts: an un-annotated tool of the application needs no approval. Plugins' tools come here with
// the facts of their border, where an un-annotated one is destructive.
//
// Source: `ARCHITECTURE.md` §5 (annotations, `needsApproval`), `hermes-contract.md` §2.9 (`pre_tool_call`, `approve`).

/** Reasons why a call needs an approval, besides what its command says. */
export interface ReasonFacts {
  readonly bound: Pick<BoundTool, "concerns" | "facts" | "isConfined" | "tool">
  readonly callId: string
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly directive: Approve | undefined
}

const none: ReadonlyArray<Concern> = []

const ofDirective = (tool: string, { message, rule_key }: Approve): Concern => ({
  key: [`a plugin requests an approval for ${rule_key ?? tool}`, ...message === undefined ? [] : [message]].join(": "),
  permanent: false
})

/** Longest time for a tool to say whether a call needs an approval. */
const statedDeadline = Duration.seconds(30)

/** Asks the tool's own `needsApproval`. One that fails, dies, hangs or cannot read the arguments means yes. */
const stated = ({ bound: { tool }, callId, messages }: ReasonFacts, args: ToolArguments): Effect.Effect<boolean> => {
  const needs = "needsApproval" in tool ? tool.needsApproval : undefined
  if (typeof needs !== "function") return Effect.succeed(needs === true)
  const asked = Effect.gen(function*() {
    const params: unknown = Tool.isDynamic(tool)
      ? args
      // The services that decoding needs were given to the tool's handlers; here it is asked for without them.
      : yield* Schema.decodeUnknownEffect(tool.parametersSchema)(args) as Effect.Effect<unknown, Schema.SchemaError>
    // A function of the contract `NeedsApprovalFunction`, whose parameters nobody knows at run time.
    const answer = (needs as (params: unknown, context: unknown) => unknown)(params, { toolCallId: callId, messages })
    return (Effect.isEffect(answer) ? yield* answer as Effect.Effect<unknown, unknown> : answer) !== false
  })
  return IsolatedCall.contained(asked, { what: `needsApproval of ${tool.name}`, deadline: statedDeadline }).pipe(
    Effect.catchCause((cause) =>
      Effect.as(Effect.logWarning(`needsApproval of ${tool.name} failed, so an approval is asked for`, cause), true))
  )
}

/** A tool of the application is approved as a tool; one of a server, which may do anything, call by call. */
const askedBy = (tool: string, remedy: string | undefined): Concern =>
  remedy === undefined
    ? { key: `${tool} asks for an approval`, permanent: true, target: { kind: "tool", text: tool } }
    : { key: `${tool} may change or delete things (${remedy})`, permanent: true }

/** Reasons why a call needs an approval, besides what its command says. */
export const reasonsOf = (given: ReasonFacts, args: ToolArguments): Effect.Effect<ReadonlyArray<Concern>, never, ToolContext> => {
  const { bound: { concerns } } = given
  const stated = ofTool(given, args)
  return concerns === undefined ? stated : Effect.zipWith(stated, concerns(args), (some, more) => [...some, ...more])
}

const ofTool = (given: ReasonFacts, args: ToolArguments): Effect.Effect<ReadonlyArray<Concern>> => {
  const { bound: { facts, isConfined, tool }, directive } = given
  const always: ReadonlyArray<Concern> = [
    ...directive === undefined ? none : [ofDirective(tool.name, directive)],
    ...facts.destructive === true && !facts.ownApproval && isConfined !== true ? [{ key: `${tool.name} may change or delete things`, permanent: true, target: { kind: "tool" as const, text: tool.name } }] : none
  ]
  if (!("needsApproval" in tool) || tool.needsApproval === undefined || tool.needsApproval === false) {
    return Effect.succeed(always)
  }
  return Effect.map(stated(given, args), (needed) =>
    needed ? [...always, askedBy(tool.name, facts.approvalRemedy)] : always)
}
