/**
 * Notifications between the processes of a cluster. All topics of a process share one connection, which is opened by
 * the first subscription.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import type * as PostgresClient from "../../base/platform/PostgresClient.ts"

/** Topics of notifications: submitted work, messages in the inbox, marks of API keys. */
export type Topic = "work" | "inbox" | "rates"

/** Sends and receives notifications. A notification is lost for processes that do not listen at that time. */
export interface News {
  /** Name of the channel. A notification of it is the topic, a space and the payload. */
  readonly channel: string
  /** Notifies the other processes, and this one. In a transaction, they are notified by its commit. */
  readonly notify: (topic: Topic, payload?: string) => Effect.Effect<void, SqlError>
  /**
   * Calls `then` with the payloads of a topic that arrived meanwhile. Calls it without payloads as soon as the process
   * listens: at the start, and after each time that the connection was lost.
   */
  readonly subscribe: (
    topic: Topic,
    then: (payloads: ReadonlyArray<string>) => Effect.Effect<void>
  ) => Effect.Effect<never>
}

/** Schedule for listening again after the connection of the listener broke. */
const listenAgain = Schedule.spaced("1 second")

/** A subscription. `undefined` in its queue means that the process began to listen. */
interface Subscription {
  readonly topic: Topic
  readonly arrived: Queue.Queue<string | undefined>
}

/** Makes the news of an open database. Listens until the scope closes. */
export const makeNews = Effect.fnUntraced(function* (
  sql: PostgresClient.Client,
  schema: string
): Effect.fn.Return<News, never, Scope.Scope> {
  const channel = `hermes_news_${schema}`.slice(0, 60)
  const subscriptions = new Set<Subscription>()
  const wanted = yield* Deferred.make<void>()
  let isListening = false
  const deliverNews = (notified: ReadonlyArray<string>) =>
    Effect.sync(() => {
      for (const text of notified) {
        const space = text.indexOf(" ")
        for (const { arrived, topic } of subscriptions)
          if (topic === text.slice(0, space)) Queue.offerUnsafe(arrived, text.slice(space + 1))
      }
    })
  const listen = Effect.scoped(
    Effect.flatMap(sql.listen(channel), (notified) =>
      Effect.sync(() => {
        isListening = true
        for (const { arrived } of subscriptions) Queue.offerUnsafe(arrived, undefined)
      }).pipe(
        Effect.andThen(Effect.forever(Effect.flatMap(Queue.takeAll(notified), deliverNews))),
        Effect.ensuring(Effect.sync(() => void (isListening = false)))
      )
    )
  )
  yield* Deferred.await(wanted).pipe(
    Effect.andThen(listen),
    Effect.catchCause((cause) => Effect.logDebug("the listener of the cluster begins again", cause)),
    Effect.repeat(listenAgain),
    Effect.forkScoped
  )
  return {
    channel,
    notify: (topic, payload = "") => sql.notify(channel, `${topic} ${payload}`),
    subscribe: (topic, then) =>
      Effect.scoped(
        Effect.gen(function* () {
          const arrived = yield* Queue.unbounded<string | undefined>()
          const subscription: Subscription = { topic, arrived }
          yield* Effect.acquireRelease(
            Effect.sync(() => {
              subscriptions.add(subscription)
              if (isListening) Queue.offerUnsafe(arrived, undefined)
            }),
            () => Effect.sync(() => subscriptions.delete(subscription))
          )
          yield* Deferred.succeed(wanted, undefined)
          return yield* Queue.takeAll(arrived).pipe(
            Effect.flatMap((taken) => {
              const payloads = taken.filter((payload) => payload !== undefined)
              if (payloads.length === taken.length) return then(payloads)
              return payloads.length === 0 ? then([]) : Effect.andThen(then([]), then(payloads))
            }),
            Effect.forever
          )
        })
      )
  }
})
