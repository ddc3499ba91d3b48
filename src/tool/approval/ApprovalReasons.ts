/**
 * Reasons why a call needs an approval, besides what its command says: the tool states it, the tool changes things, or a listener
 * sent the call to the user.
 *
 * **Details**
 *
 * Only what was stated counts: an un-annotated tool of the application needs no approval. Plugins' tools come here with
 * the facts of their border, where an un-annotated one is destructive.
 *
 * Source: `ARCHITECTURE.md` §5 (annotations, `needsApproval`), `hermes-contract.md` §2.9 (`pre_tool_call`, `approve`).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type { Approve } from "../../hooks/Payloads.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type { ToolContext } from "../ToolContext.ts"
import type { BoundTool } from "../Toolset.ts"
import type { Concern } from "./Question.ts"

/** Reasons why a call needs an approval, besides what its command says. */
export interface Facts {
  readonly bound: Pick<BoundTool, "concerns" | "facts" | "tool">
  readonly callId: string
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly directive: Approve | undefined
}

const none: ReadonlyArray<Concern> = []

const ofDirective = (tool: string, { message, rule_key }: Approve): Concern => ({
  key: [`a plugin requests an approval for ${rule_key ?? tool}`, ...message === undefined ? [] : [message]].join(": "),
  permanent: false
})

/** Asks the tool's own `needsApproval`. One that fails, dies or cannot read the arguments means yes. */
const stated = ({ bound: { tool }, callId, messages }: Facts, args: ToolArguments): Effect.Effect<boolean> => {
  const needs = "needsApproval" in tool ? tool.needsApproval : undefined
  if (typeof needs !== "function") return Effect.succeed(needs === true)
  return Effect.gen(function*() {
    const params: unknown = Tool.isDynamic(tool)
      ? args
      // The services that decoding needs were given to the tool's handlers; here it is asked for without them.
      : yield* Schema.decodeUnknownEffect(tool.parametersSchema)(args) as Effect.Effect<unknown, Schema.SchemaError>
    // A function of the contract `NeedsApprovalFunction`, whose parameters nobody knows at run time.
    const answer = (needs as (params: unknown, context: unknown) => unknown)(params, { toolCallId: callId, messages })
    return (Effect.isEffect(answer) ? yield* answer as Effect.Effect<unknown, unknown> : answer) !== false
  }).pipe(
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
export const of = (given: Facts, args: ToolArguments): Effect.Effect<ReadonlyArray<Concern>, never, ToolContext> => {
  const { bound: { concerns } } = given
  const stated = ofTool(given, args)
  return concerns === undefined ? stated : Effect.zipWith(stated, concerns(args), (some, more) => [...some, ...more])
}

const ofTool = (given: Facts, args: ToolArguments): Effect.Effect<ReadonlyArray<Concern>> => {
  const { bound: { facts, tool }, directive } = given
  const always: ReadonlyArray<Concern> = [
    ...directive === undefined ? none : [ofDirective(tool.name, directive)],
    ...facts.destructive === true && !facts.ownApproval ? [{ key: `${tool.name} may change or delete things`, permanent: true, target: { kind: "tool" as const, text: tool.name } }] : none
  ]
  if (!("needsApproval" in tool) || tool.needsApproval === undefined || tool.needsApproval === false) {
    return Effect.succeed(always)
  }
  return Effect.map(stated(given, args), (needed) =>
    needed ? [...always, askedBy(tool.name, facts.approvalRemedy)] : always)
}
