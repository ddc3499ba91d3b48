/**
 * Messages of plugins to the conversation: asked as soon as nothing else is under way, taken literally.
 *
 * Source: `hermes-contract.md` §3.5 (`inject_message`), case 131.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type { Conversation } from "../../plugin/MessageInjection.ts"

export interface Injected {
  /** Queue into which plugins put them. */
  readonly conversation: Conversation
  /** Done as soon as there is one. It stays there until it is taken. */
  readonly arrived: Effect.Effect<void>
  readonly take: Effect.Effect<string | undefined>
  /** Does a turn that `stop` can end early. */
  readonly during: <A, E, R>(turn: Effect.Effect<A, E, R>, stop: Effect.Effect<unknown>) => Effect.Effect<A, E, R>
}

export const make: Effect.Effect<Injected> = Effect.gen(function*() {
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
