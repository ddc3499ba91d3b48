/**
 * Lets plugins add messages to a conversation that a user has in a terminal.
 *
 * Source: `hermes-contract.md` §3.5 (`inject_message`).
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** A conversation that takes messages. */
export interface Conversation {
  readonly isRunning: () => boolean
  /** Stops the run that is under way, and continues with this. */
  readonly interrupt: (text: string) => void
  /** Queues a text as the next prompt, as if the user had typed it. */
  readonly queue: (text: string) => void
}

/** Messages of plugins into the conversation of a terminal. */
export interface MessageInjection {
  /** The conversation that takes messages, for as long as the scope lives. */
  readonly attach: (conversation: Conversation) => Effect.Effect<void, never, Scope.Scope>
  /** Injects a message. Returns `false` if no conversation accepts it. */
  readonly inject: (content: string, role: string) => boolean
}

/** Makes the injection, at first without a conversation. */
export const make = (): MessageInjection => {
  let conversation: Conversation | undefined
  return {
    attach: (attached) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => {
            conversation = attached
          }),
          () =>
            Effect.sync(() => {
              if (conversation === attached) conversation = undefined
            })
        )
      ),
    inject: (content, role) => {
      if (conversation === undefined) return false
      const text = role === "user" ? content : `[${role}] ${content}`
      if (conversation.isRunning()) conversation.interrupt(text)
      else conversation.queue(text)
      return true
    }
  }
}
