/**
 * What in a tool call has to be judged: its command, for the tools that run one, and what the tool itself says of its
 * calls.
 *
 * Source: `ARCHITECTURE.md` §5 (annotations, `needsApproval`).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { Facts } from "../Annotations.ts"
import * as Danger from "../danger/Danger.ts"

/** Who brought a tool. */
export type Origin = "builtin" | "application" | "mcp" | "plugin"

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

/**
 * Whether calls of a tool need an approval by what was stated on it.
 *
 * **Details**
 *
 * Built-in tools are judged by what they are asked to do. Of an application's tools, one that is annotated as destructive
 * needs an approval, an un-annotated one none. Of a plugin's tools an un-annotated one counts as destructive. What an MCP
 * server's tools need follows from the trust in the server, which stands in their `needsApproval`.
 */
export const isDestructive = (facts: Facts, origin: Origin): boolean => {
  if (facts.readonly === true) return false
  if (origin === "application") return facts.destructive === true
  return origin === "plugin" && facts.destructive !== false
}

/** What the tool's own `needsApproval` says of a call. One that fails or dies says yes. */
export const needsApproval = (
  tool: Tool.Any,
  params: unknown,
  context: { readonly toolCallId: string; readonly messages: ReadonlyArray<Prompt.Message> }
): Effect.Effect<boolean> => {
  const stated = "needsApproval" in tool ? tool.needsApproval : undefined
  if (typeof stated !== "function") return Effect.succeed(stated === true)
  return Effect.suspend((): Effect.Effect<unknown, unknown> => {
    // A function of the contract `NeedsApprovalFunction`, whose parameters nobody knows at run time.
    const answer = (stated as (params: unknown, context: unknown) => unknown)(params, context)
    return Effect.isEffect(answer) ? answer as Effect.Effect<unknown, unknown> : Effect.succeed(answer)
  }).pipe(
    Effect.map((answer) => answer !== false),
    Effect.catchCause((cause) => Effect.as(Effect.logWarning(`needsApproval of ${tool.name} failed, so it is asked for`, cause), true))
  )
}
