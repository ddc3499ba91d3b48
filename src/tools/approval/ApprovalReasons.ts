/**
 * Collects the reasons why a call needs an approval in addition to findings in its command: the tool states it, the
 * tool changes things, or a listener sent the call to the user. Also determines which of its arguments are commands,
 * and whether the arguments are still the approved ones.
 *
 * **Details**
 *
 * Only what was stated counts: an un-annotated tool of the application needs no approval. For tools of plugins, the
 * plugin interface states the facts: there, a tool without annotations is destructive.
 *
 * Source: `ARCHITECTURE.md` §5 (annotations, `needsApproval`), `hermes-contract.md` §2.9 (`pre_tool_call`, `approve`).
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import type { Approve } from "../../hooks/Payloads.ts"
import * as IsolatedCall from "../../base/domain/IsolatedCall.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { ToolFacts } from "../Annotations.ts"
import type { ToolContext } from "../ToolContext.ts"
import type { BoundTool } from "../Toolset.ts"
import type { Concern } from "./ApprovalRequest.ts"

/** Returns the arguments as one text for comparison and display; `undefined` if JSON cannot express them. */
export const serializeArguments = (args: ToolArguments): string | undefined => {
  try {
    return JSON.stringify(args)
  } catch {
    return undefined
  }
}

/** The arguments of a call as they were when it was approved, so that a change on the way to the handler is noticed. */
export interface ArgumentSnapshot {
  readonly isSame: (args: ToolArguments) => boolean
}

/**
 * Snapshot of arguments that cannot change before they reach the handler, because there is no tool middleware. Costs
 * nothing.
 */
export const fixed: ArgumentSnapshot = { isSame: () => true }

/** Takes a snapshot of arguments that middleware may change. Arguments that cannot be compared count as changed. */
export const takeSnapshot = (args: ToolArguments): ArgumentSnapshot => {
  const before = serializeArguments(args)
  return { isSame: (after) => before !== undefined && serializeArguments(after) === before }
}

/** Names of the arguments that are commands, and of the arguments that are typed into a program. */
export type RunArguments = Pick<ToolFacts, "commandArguments" | "inputArguments">

const runsNothing: RunArguments = { commandArguments: [], inputArguments: [] }

/** Facts by tool name, for tools without annotations. */
const known: Readonly<Record<string, RunArguments>> = {
  terminal: { commandArguments: ["command"], inputArguments: [] },
  process: { commandArguments: [], inputArguments: ["data"] }
}

const noTexts: ReadonlyArray<string> = []

/** Returns the texts of the named arguments of a call. */
export const selectTexts = (args: ToolArguments, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.length === 0
    ? noTexts
    : names.flatMap((name) => {
        const value = Object.hasOwn(args, name) ? args[name] : undefined
        return typeof value === "string" ? [value] : []
      })

/** Texts of a call that run as commands, or are typed into a program. */
export interface RunTexts {
  /** Command lines that a shell receives. */
  readonly lines: ReadonlyArray<string>
  /** Texts that are typed into a program, which may be a shell. */
  readonly inputs: ReadonlyArray<string>
}

/** Finds the texts of a call that run as commands or input; a tool without annotations is recognized by its name. */
export const collectRunTexts = (
  tool: string,
  args: ToolArguments,
  runs: RunArguments = Object.hasOwn(known, tool) ? (known[tool] ?? runsNothing) : runsNothing
): RunTexts => ({ lines: selectTexts(args, runs.commandArguments), inputs: selectTexts(args, runs.inputArguments) })

/** Facts that determine whether a call needs an approval, in addition to its command. */
export interface ReasonFacts {
  readonly bound: Pick<BoundTool, "concerns" | "facts" | "isConfined" | "tool">
  readonly callId: string
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly directive: Approve | undefined
}

const none: ReadonlyArray<Concern> = []

const toDirectiveConcern = (tool: string, { message, rule_key }: Approve): Concern => ({
  key: [`a plugin requests an approval for ${rule_key ?? tool}`, ...(message === undefined ? [] : [message])].join(
    ": "
  ),
  permanent: false
})

const toDestructiveConcern = (tool: string): Concern => ({
  key: `${tool} may change or delete things`,
  permanent: true,
  target: { kind: "tool", text: tool }
})

/** Maximum time for a tool to decide whether a call needs an approval. */
const statedDeadline = Duration.seconds(30)

/**
 * Asks the tool's own `needsApproval`. A function that fails, dies, times out or cannot read the arguments means yes.
 */
const checkNeedsApproval = (
  { bound: { tool }, callId, messages }: ReasonFacts,
  args: ToolArguments
): Effect.Effect<boolean> => {
  const needs = "needsApproval" in tool ? tool.needsApproval : undefined
  if (typeof needs !== "function") return Effect.succeed(needs === true)
  const asked = Effect.gen(function* () {
    const params: unknown = Tool.isDynamic(tool)
      ? args
      : // The services that decoding needs were given to the tool's handlers; here it is asked for without them.
        yield* Schema.decodeUnknownEffect(tool.parametersSchema)(args) as Effect.Effect<unknown, Schema.SchemaError>
    // A function with the signature `NeedsApprovalFunction`, whose parameters are unknown at run time.
    const answer = (needs as (params: unknown, context: unknown) => unknown)(params, { toolCallId: callId, messages })
    return (Effect.isEffect(answer) ? yield* answer as Effect.Effect<unknown, unknown> : answer) !== false
  })
  return IsolatedCall.contain(asked, { what: `needsApproval of ${tool.name}`, deadline: statedDeadline }).pipe(
    Effect.catchCause((cause) =>
      Effect.as(Effect.logWarning(`needsApproval of ${tool.name} failed, so an approval is asked for`, cause), true)
    )
  )
}

/**
 * Creates the concern for a tool that needs an approval. A tool of the application, or of a server that claims that it
 * is read-only, is approved as a tool. Any other tool of a server, which may do anything, is approved call by call.
 */
const toApprovalConcern = (tool: string, { approvalRemedy: remedy, claimedReadonly }: ToolFacts): Concern => {
  if (remedy === undefined)
    return { key: `${tool} asks for an approval`, permanent: true, target: { kind: "tool", text: tool } }
  return claimedReadonly === true
    ? {
        key: `${tool} says that it only reads, and its server is not trusted (${remedy})`,
        permanent: true,
        target: { kind: "tool", text: tool }
      }
    : { key: `${tool} may change or delete things (${remedy})`, permanent: true }
}

const isDestructive = ({ facts, isConfined }: ReasonFacts["bound"]): boolean =>
  facts.destructive === true && !facts.ownApproval && isConfined !== true

const hasNoOwnReason = (tool: Tool.Any): boolean =>
  !("needsApproval" in tool) || tool.needsApproval === undefined || tool.needsApproval === false

/** Returns true if no call of the tool has a reason to ask, whatever its arguments are. */
export const hasNoReasons = ({ bound, directive }: ReasonFacts): boolean =>
  bound.concerns === undefined && directive === undefined && !isDestructive(bound) && hasNoOwnReason(bound.tool)

/** Collects the reasons why a call needs an approval, in addition to its command. */
export const collectReasons = (
  given: ReasonFacts,
  args: ToolArguments
): Effect.Effect<ReadonlyArray<Concern>, never, ToolContext> => {
  const {
    bound: { concerns }
  } = given
  const stated = collectToolReasons(given, args)
  return concerns === undefined ? stated : Effect.zipWith(stated, concerns(args), (some, more) => [...some, ...more])
}

const collectToolReasons = (given: ReasonFacts, args: ToolArguments): Effect.Effect<ReadonlyArray<Concern>> => {
  const {
    bound,
    bound: { facts, tool },
    directive
  } = given
  const always: ReadonlyArray<Concern> = [
    ...(directive === undefined ? none : [toDirectiveConcern(tool.name, directive)]),
    ...(isDestructive(bound) ? [toDestructiveConcern(tool.name)] : none)
  ]
  if (hasNoOwnReason(tool)) return Effect.succeed(always)
  return Effect.map(checkNeedsApproval(given, args), (needed) =>
    needed ? [...always, toApprovalConcern(tool.name, facts)] : always
  )
}
