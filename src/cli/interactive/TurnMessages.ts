/**
 * Messages that reach a conversation otherwise than at the prompt: from plugins, and from the user in the middle of a turn.
 *
 * **Gotchas**
 *
 * Of several listeners that replace a tool's result the first wins. Where there is one already, nothing can be added to
 * results, and messages wait for the next turn.
 *
 * Source: `hermes-contract.md` §3.5 (`inject_message`), case 131; `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Json from "../../domain/Json.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import type { Conversation } from "../../plugin/MessageInjection.ts"

/** Messages of plugins to the conversation: asked as soon as nothing else is under way, taken literally. */
export interface Injected {
  /** Queue into which plugins put them. */
  readonly conversation: Conversation
  /** Done as soon as there is one. It stays there until it is taken. */
  readonly arrived: Effect.Effect<void>
  readonly take: Effect.Effect<string | undefined>
  /** Does a turn that `stop` can end early. */
  readonly during: <A, E, R>(turn: Effect.Effect<A, E, R>, stop: Effect.Effect<unknown>) => Effect.Effect<A, E, R>
}

/** Makes the queue of messages of plugins. */
export const injected: Effect.Effect<Injected> = Effect.gen(function*() {
  const messages = yield* Queue.unbounded<string>()
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  let running: Effect.Effect<unknown> | undefined
  const queue = (text: string): void => void Queue.offerUnsafe(messages, text)
  return {
    conversation: {
      isRunning: () => running !== undefined,
      interrupt: (text) => {
        queue(text)
        if (running !== undefined) fork(running)
      },
      queue
    },
    arrived: Effect.asVoid(Queue.peek(messages)),
    take: Effect.map(Queue.poll(messages), Option.getOrUndefined),
    during: (turn, stop) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          running = stop
        }),
        () => turn,
        () =>
          Effect.sync(() => {
            running = undefined
          })
      )
  }
})

/**
 * Messages that reach the agent in the middle of a turn: they stand behind the next tool result, where the model reads them
 * (`display.busy_input_mode: steer`). Nothing is stopped or cancelled. What no tool result took along until the turn ends is
 * left for the next turn.
 */
export interface Steering {
  /** Takes a message for the session's turn; false when it cannot reach it. */
  readonly add: (sessionId: string, text: string) => boolean
  /** Messages that are still on their way. */
  readonly waiting: () => ReadonlyArray<string>
  /** Gives back what did not reach the turn. */
  readonly end: () => ReadonlyArray<string>
}

/** Messages cannot reach a turn. */
const none: Steering = { add: () => false, waiting: () => [], end: () => [] }

const behind = (result: string, messages: ReadonlyArray<string>): string =>
  `${result}\n\n[The user says, while you work:]\n${messages.join("\n")}`

/** Steers turns by a listener of tool results; `onTaken` is told of messages that the model gets. */
export const steering = Effect.fnUntraced(function*(
  onTaken: (messages: ReadonlyArray<string>) => void
): Effect.fn.Return<Steering, never, Hooks.Hooks | Scope.Scope> {
  const hooks = yield* Hooks.Hooks
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
