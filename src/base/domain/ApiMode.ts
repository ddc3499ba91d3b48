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
 * Name of a wire protocol (`hermes-llm.md` §2.1). `language_model` means an `effect/ai` `LanguageModel` of the
 * application that is used as a provider (`ARCHITECTURE.md` §2).
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

/** The modes that a user may set in `model.api_mode` or `--api-mode`. */
export const Configurable = Schema.Literals([
  "chat_completions",
  "anthropic_messages",
  "codex_responses",
  "bedrock_converse"
])
/** Type of {@link Configurable}. */
export type Configurable = typeof Configurable.Type

/** Tests whether requests of a protocol can contain a sampling seed. */
export const canTakeSeed = (mode: string): boolean => mode === "chat_completions"

/**
 * Maps the protocol names of the lifecycle document (`api_type`), and the names of {@link ApiMode} themselves, to
 * protocols.
 */
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
