/**
 * Example messages between the system prompt and the conversation (`prefill_messages_file`): sent with every call,
 * never stored.
 *
 * **Details**
 *
 * A relative path of the file is resolved against the home directory of the agent, and `~/` against the user's home
 * directory.
 *
 * Source: `hermes-llm.md` §8, `hermes-product.md` §6 (`prefill_messages_file`).
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"

const messages = Schema.fromJsonString(
  Schema.Array(Schema.Struct({ role: Schema.Literals(["user", "assistant"]), content: Schema.NonEmptyString }))
)

const toMessage = ({ content, role }: (typeof messages.Type)[number]): Prompt.Message => {
  const parts = [Prompt.textPart({ text: content })]
  return role === "user" ? Prompt.userMessage({ content: parts }) : Prompt.assistantMessage({ content: parts })
}

/** Directories against which a path is resolved. */
interface BaseDirectories {
  readonly agentHome: string
  readonly userHome: string | undefined
}

/**
 * Reads the example messages of a file: a JSON list of `{ "role": "user" | "assistant", "content": text }`. Returns an
 * empty list if no file is configured.
 */
export const readPrefill = Effect.fnUntraced(function* (
  file: string | undefined,
  { agentHome, userHome }: BaseDirectories
): Effect.fn.Return<ReadonlyArray<Prompt.Message>, ConfigError, FileSystem.FileSystem | Path.Path> {
  if (file === undefined) return []
  const paths = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const path =
    file.startsWith("~/") && userHome !== undefined
      ? paths.join(userHome, file.slice(2))
      : paths.resolve(agentHome, file)
  const makePrefillError = (why: string) =>
    new ConfigError({ path: "prefill_messages_file", message: `prefill_messages_file: ${path}: ${why}` })
  const text = yield* Effect.mapError(fs.readFileString(path), (error) =>
    makePrefillError(`cannot be read: ${describeReason(error)}`)
  )
  const decoded = yield* Effect.mapError(Schema.decodeUnknownEffect(messages)(text), () =>
    makePrefillError('expected a JSON list of { "role": "user" or "assistant", "content": "…" }')
  )
  return decoded.map(toMessage)
})

/** Returns the messages of a call: the system prompt, the examples, the conversation. */
export const insertPrefill = (
  conversation: ReadonlyArray<Prompt.Message>,
  prefill: ReadonlyArray<Prompt.Message> | undefined
): ReadonlyArray<Prompt.Message> => {
  if (prefill === undefined || prefill.length === 0) return conversation
  const start = conversation[0]?.role === "system" ? 1 : 0
  return [...conversation.slice(0, start), ...prefill, ...conversation.slice(start)]
}
