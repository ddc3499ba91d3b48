/**
 * Measures how the context window of a session is used: by layers of the system prompt, tools, messages of each role,
 * and tool results.
 *
 * **Details**
 *
 * Tokens are estimated as a quarter of the characters, rounded up, because the provider does not report token counts
 * for the parts of a prompt. The layers of a stored system prompt are listed separately if a new prompt would be
 * identical; otherwise the prompt is one part.
 *
 * Source: `hermes-product.md` §1.8 and §1.9, `hermes-llm.md` §10.2.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import { Agent } from "../../agent/Agent.ts"
import type { AgentError } from "../../base/domain/AgentError.ts"
import * as SystemPrompt from "../../tools/prompt/SystemPrompt.ts"
import { estimateTokens } from "../../models/routing/CallTokens.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { LiveSession, Options } from "./LiveSession.ts"

/** A part of the context window. */
export interface ContextPart {
  readonly name: string
  readonly tokens: number
  readonly kind: "system" | "tools" | "user" | "agent" | "results" | "other"
}

/** Contents of the context window. */
export interface ContextFill {
  readonly parts: ReadonlyArray<ContextPart>
  /** Total tokens of all parts. */
  readonly tokens: number
  /** Context window of the model in tokens, or undefined if unknown. */
  readonly window: number | undefined
}

const estimateTextTokens = (text: string): number => Math.ceil(text.length / 4)

const collectSystemParts = Effect.fnUntraced(function* (
  live: LiveSession,
  input: Options["input"],
  stored: string | undefined
) {
  const agent = yield* Agent
  const { session } = yield* live.state
  const layers = yield* agent.promptLayers({ ...input, cwd: session.cwd })
  const isSame = stored === undefined || stored === SystemPrompt.render(layers)
  return isSame
    ? layers.map(({ name, text }): ContextPart => ({
        name: `System prompt: ${name}`,
        tokens: estimateTextTokens(text),
        kind: "system"
      }))
    : [{ name: "System prompt", tokens: estimateTextTokens(stored), kind: "system" } satisfies ContextPart]
})

const collectMessageParts = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<ContextPart> => {
  const countRoleTokens = (role: Prompt.Message["role"]): number =>
    estimateTokens({ messages: messages.filter((message) => message.role === role) })
  return [
    { name: "Your messages", tokens: countRoleTokens("user"), kind: "user" },
    { name: "Answers and tool calls", tokens: countRoleTokens("assistant"), kind: "agent" },
    { name: "Tool results", tokens: countRoleTokens("tool"), kind: "results" },
    { name: "Other messages", tokens: countRoleTokens("system"), kind: "other" }
  ]
}

const readWindow = Effect.gen(function* () {
  const router = Option.getOrUndefined(yield* Effect.serviceOption(ModelRouter))
  if (router?.catalogue === undefined || router.primaryRoute === undefined) return undefined
  const { source, tokens } = yield* router.catalogue.window(yield* router.primaryRoute)
  return source === "default" ? undefined : tokens
})

/**
 * Measures the context window of the current session. `input` contains the run options with which the live session was
 * made.
 */
export const measure = Effect.fnUntraced(function* (
  live: LiveSession,
  input: Options["input"]
): Effect.fn.Return<ContextFill, AgentError, Agent | ToolRegistry> {
  const session = yield* live.known
  const messages = session === undefined ? [] : yield* live.messages
  const { definitions } = yield* (yield* ToolRegistry).snapshot(input?.tools ?? {})
  const parts = [
    ...(yield* collectSystemParts(live, input, session?.systemPrompt)),
    {
      name: `Tools (${definitions.length})`,
      tokens: estimateTextTokens(JSON.stringify(definitions)),
      kind: "tools"
    } satisfies ContextPart,
    ...collectMessageParts(messages)
  ].filter(({ tokens }) => tokens > 0)
  return { parts, tokens: parts.reduce((sum, { tokens }) => sum + tokens, 0), window: yield* readWindow }
})
