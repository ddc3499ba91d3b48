/**
 * Marks a message of the user that a provider rejected. It stays in the transcript, with a note behind it, and is not sent
 * again: a conversation that was refused would otherwise grow with every attempt to go on.
 *
 * **Example** (The part of a transcript that is sent)
 *
 * ```ts
 * import * as Prompt from "effect/ai/Prompt"
 * import { Refused } from "hermes-effect"
 *
 * const said = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
 * const transcript = [said("hello"), said("far too much"), Refused.note("it is too long")]
 *
 * console.log(Refused.without(transcript).length)
 * // => 1
 * ```
 *
 * Source: `hermes-llm.md` §16.5 (15), `ARCHITECTURE.md` §6 (nothing that was written is lost).
 */
import * as Predicate from "effect/Predicate"
import * as Prompt from "effect/ai/Prompt"

const key = "hermes-effect"

/** Takes back the user's message before it; `why` is for people who read the transcript. */
export const note = (why: string): Prompt.AssistantMessage =>
  Prompt.assistantMessage({
    content: [Prompt.textPart({ text: `(The provider refused this message, and it is not sent again: ${why})` })],
    options: { [key]: { refused: true } }
  })

const isNote = ({ options, role }: Prompt.Message): boolean => {
  const own = role === "assistant" ? options[key] : undefined
  return Predicate.hasProperty(own, "refused") && own.refused === true
}

/** A transcript without the rejected messages; the same array where there is none. */
export const without = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> =>
  messages.some(isNote)
    ? messages.filter((message, index) => {
      const next = messages[index + 1]
      return !isNote(message) && !(message.role === "user" && next !== undefined && isNote(next))
    })
    : messages
