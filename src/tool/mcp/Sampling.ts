/**
 * What a server wants a model to say in the middle of a call. It is the model of side tasks that answers (`auxiliary.mcp`),
 * and only for servers whose configuration allows it: it costs the user's money.
 *
 * Source: `hermes-product.md` §2.4 (sampling), `hermes-llm.md` §5.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"
import { SideModel } from "../builtin/vision/SideModel.ts"
import { ToolContext } from "../ToolContext.ts"
import { McpError } from "./McpError.ts"

/** A request of a server, as far as it is looked at. */
export interface Request {
  readonly messages: ReadonlyArray<{ readonly role: "user" | "assistant"; readonly content: unknown }>
  readonly systemPrompt?: string | undefined
}

const blockText = (block: unknown): string => {
  if (!Predicate.isObject(block)) return ""
  const { text, type }: { readonly text?: unknown; readonly type?: unknown } = block
  return typeof text === "string" ? text : `[${String(type)}, not shown]`
}

const textOf = (content: unknown): string =>
  Array.isArray(content) ? content.map(blockText).join("\n") : blockText(content)

/** The conversation as the model gets it. */
export const messagesOf = ({ messages, systemPrompt }: Request): ReadonlyArray<Prompt.Message> => [
  ...(systemPrompt === undefined || systemPrompt === "" ? [] : [Prompt.systemMessage({ content: systemPrompt })]),
  ...messages.map(({ content, role }) => {
    const parts = [Prompt.textPart({ text: textOf(content) })]
    return role === "user" ? Prompt.userMessage({ content: parts }) : Prompt.assistantMessage({ content: parts })
  })
]

/** The model's answer. */
export const answer = Effect.fnUntraced(function*(server: string, request: Request): Effect.fn.Return<string, McpError> {
  const ask = yield* SideModel
  const call = yield* Effect.serviceOption(ToolContext)
  if (ask === undefined || Option.isNone(call)) {
    return yield* new McpError({ server, reason: "refused", message: "there is no model here for what servers ask" })
  }
  return yield* Effect.mapError(ask("mcp", messagesOf(request), call.value), ({ message }) =>
    new McpError({ server, reason: "refused", message }))
})
