/**
 * Messages that reach the agent in the middle of a turn: they stand behind the next tool result, where the model reads them
 * (`display.busy_input_mode: steer`).
 *
 * Nothing is stopped or cancelled. What no tool result took along until the turn ends is left for the next turn.
 *
 * **Gotchas**
 *
 * Of several listeners that replace a tool's result the first wins. Where there is one already, nothing can be added to
 * results, and messages wait for the next turn.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Json from "../../domain/Json.ts"
import * as Hooks from "../../hooks/Hooks.ts"

export interface Steering {
  /** Takes a message for the session's turn; false when it cannot reach it. */
  readonly add: (sessionId: string, text: string) => boolean
  /** Messages that are still on their way. */
  readonly waiting: () => ReadonlyArray<string>
  /** Gives back what did not reach the turn. */
  readonly end: () => ReadonlyArray<string>
}

/** Messages cannot reach a turn. */
export const none: Steering = { add: () => false, waiting: () => [], end: () => [] }

const behind = (result: string, messages: ReadonlyArray<string>): string =>
  `${result}\n\n[The user says, while you work:]\n${messages.join("\n")}`

/** `onTaken` is told of messages that the model gets. */
export const make = Effect.fnUntraced(function*(
  hooks: Hooks.Service,
  onTaken: (messages: ReadonlyArray<string>) => void
): Effect.fn.Return<Steering, never, Scope.Scope> {
  if (hooks.has("transform_tool_result")) return none
  let session = ""
  let waiting: ReadonlyArray<string> = []
  const take = (): ReadonlyArray<string> => {
    const taken = waiting
    waiting = []
    return taken
  }
  yield* hooks.register(Hooks.on("transform_tool_result", ({ result, session_id }) =>
    Effect.sync(() => {
      if (waiting.length === 0 || session_id !== session) return undefined
      const taken = take()
      onTaken(taken)
      return behind(Json.toText(result), taken)
    })))
  return {
    add: (sessionId, text) => {
      session = sessionId
      waiting = [...waiting, text]
      return true
    },
    waiting: () => waiting,
    end: take
  }
})
