/**
 * The system prompt of a new session: built once, stored with the session and reused byte for byte, so that a provider's
 * prefix cache keeps hitting. Parts are joined by a blank line, the most stable first; nothing that changes within a
 * session belongs here.
 *
 * Source: `hermes-llm.md` §6 and §7.1.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"

/** Default identity of the agent. */
export const identity = [
  "You are Hermes, an agent that works on the user's machine.",
  "Do what the user asks, with the tools that you are given, and report what you really did and saw.",
  "Prefer looking at files and command output over guessing. Call independent read-only tools in the same message.",
  "When something fails, say so and say why. When you are done, answer briefly."
].join(" ")

/** Parts of a prompt. */
export interface Parts {
  /** Replaces {@link identity}. */
  readonly identity?: string | undefined
  /** The caller's own instructions. */
  readonly instructions?: string | undefined
  readonly cwd: string
  readonly provider: string
  readonly model: string
}

/** The prompt text. */
export const build = (parts: Parts): Effect.Effect<string> =>
  Effect.map(Clock.currentTimeMillis, (millis) => {
    const started = DateTime.formatIsoDate(DateTime.makeUnsafe(millis))
    return [
      parts.identity ?? identity,
      parts.instructions,
      `Working directory: ${parts.cwd}\nConversation started: ${started}\nModel: ${parts.model} (${parts.provider})`
    ].flatMap((part) => part === undefined || part.trim() === "" ? [] : [part.trim()]).join("\n\n")
  })
