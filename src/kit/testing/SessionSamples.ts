/**
 * Sample sessions and messages for tests of a session store and of code that reads it.
 *
 * **Example** (A session with two messages)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SessionStore } from "hermes-effect"
 * import { SessionSamples } from "hermes-effect/testing"
 *
 * const program = SessionStore.SessionStore.use((store) =>
 *   Effect.gen(function*() {
 *     const { id } = yield* store.create(SessionSamples.makeNewSession("a"))
 *     yield* store.append(id, [
 *       SessionSamples.makeUserMessage("Hello?"),
 *       SessionSamples.makeAssistantMessage("Hello.")
 *     ])
 *     return (yield* store.messages(id)).length
 *   })
 * )
 *
 * console.log(await Effect.runPromise(Effect.provide(program, SessionStore.layerMemory)))
 * // => 2
 * ```
 */
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../base/domain/Conversation.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import type { NewSession } from "../../store/SessionStore.ts"

/** Creates an ordinary session. `more` overrides its fields. */
export const makeNewSession = (id: string, more: Partial<NewSession> = {}): NewSession => ({
  id: SessionId.make(id),
  source: "cli",
  provider: "test",
  model: "model-a",
  systemPrompt: "You are terse.",
  ...more
})

/** Creates a user message. */
export const makeUserMessage = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

/** Creates an answer from the model. */
export const makeAssistantMessage = (text: string) => Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })

/** Creates an answer that calls a tool, once for each id. */
export const makeToolCalls = (...ids: ReadonlyArray<string>) =>
  Prompt.assistantMessage({
    content: ids.map((id) =>
      Prompt.toolCallPart({ id, name: "read_file", params: { path: `docs/${id}.md` }, providerExecuted: false })
    )
  })

/** Creates the result of a call. */
export const buildToolResult = (id: string, output: string) =>
  Conversation.makeToolResult({ id, name: "read_file" }, { output, isFailure: false })
