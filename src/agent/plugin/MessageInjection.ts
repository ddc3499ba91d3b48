/**
 * Lets plugins add messages to a conversation that a user has in a terminal.
 *
 * Source: `hermes-contract.md` §3.5 (`inject_message`).
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** A conversation that accepts messages. */
export interface Conversation {
  readonly isRunning: () => boolean
  /** Stops the running run, and continues with this text. */
  readonly interrupt: (text: string) => void
  /** Queues text as the next prompt, as if the user had typed it. */
  readonly queue: (text: string) => void
}

/** Sends messages of plugins to the conversation in a terminal. */
export interface MessageInjection {
  /** Sets the conversation that accepts messages, until the scope closes. */
  readonly attach: (conversation: Conversation) => Effect.Effect<void, never, Scope.Scope>
  /** Injects a message. Returns `false` if no conversation accepts it. */
  readonly inject: (content: string, role: string) => boolean
}

/** Creates the injection without a conversation. */
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
