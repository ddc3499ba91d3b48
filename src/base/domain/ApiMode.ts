/**
 * The wire protocols that the runtime speaks.
 *
 * **Example** (Reading a mode)
 *
 * ```ts
 * import * as Schema from "effect/Schema"
 * import { ApiMode } from "hermes-effect/routing"
 *
 * console.log(Schema.decodeUnknownSync(ApiMode.ApiMode)("codex_responses"))
 * // => codex_responses
 * console.log(Schema.is(ApiMode.ApiMode)("soap"))
 * // => false
 * ```
 */
import * as Schema from "effect/Schema"

/**
 * Name of a wire protocol (`hermes-llm.md` §2.1). `language_model` is a foreign `effect/ai` `LanguageModel` used as a
 * provider (`ARCHITECTURE.md` §2).
 */
export const ApiMode = Schema.Literals([
  "chat_completions",
  "anthropic_messages",
  "codex_responses",
  "bedrock_converse",
  "language_model"
])
/** Type of {@link ApiMode}. */
export type ApiMode = typeof ApiMode.Type

/** The modes that a user may name in `model.api_mode` or `--api-mode`. */
export const Configurable = Schema.Literals([
  "chat_completions",
  "anthropic_messages",
  "codex_responses",
  "bedrock_converse"
])
/** Type of {@link Configurable}. */
export type Configurable = typeof Configurable.Type

/** True for the name of a protocol whose requests have a place for a seed of the model's draws. */
export const canTakeSeed = (mode: string): boolean => mode === "chat_completions"

/** Protocols by the names that files of the lifecycle document use (`api_type`), and by our own. */
export const apiTypes: Readonly<Record<string, Configurable>> = {
  openai_chat_completion: "chat_completions",
  openai_responses: "codex_responses",
  anthropic_chat_completion: "anthropic_messages",
  gemini_rest: "chat_completions",
  chat_completions: "chat_completions",
  codex_responses: "codex_responses",
  anthropic_messages: "anthropic_messages",
  bedrock_converse: "bedrock_converse"
}
