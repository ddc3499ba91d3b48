/**
 * Reviews a conversation after a turn: a separate agent reads it and stores information for later conversations in the
 * memory and in skills.
 *
 * **Details**
 *
 * A review of the memory is due after a set number of user turns, and a review of the skills after a set number of loop
 * steps. Both counters restart when the agent itself uses `memory` or `skill_manage`. A review starts after the result
 * of the turn was delivered, and only if the turn was completed with a text. It is a side task (`background_review`):
 * the auxiliary model answers it, and its usage counts for the session and for the budget of the run that it follows.
 * It has only the tools for memory and skills that the run had, and its calls pass the same hooks, guards and approvals
 * as any other. The user is never asked: a call that needs an approval is denied, and a change of a skill is stored as
 * a proposal for the user (`SkillStore.proposals`).
 *
 * A review neither reads nor writes the session. If the model of the run answers it and the provider has cached the
 * conversation, it continues the requests of the run with one message; otherwise it reads a text copy of the
 * conversation's last part.
 *
 * **Gotchas**
 *
 * A review that is still running when the agent's layer closes is interrupted. A program that needs its result waits
 * for {@link Service.settled}.
 *
 * **Example** (Reviews of an agent that remembers)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { BackgroundReview } from "hermes-effect/delegation"
 *
 * const runtime = Runtime.layer({ reviews: { memoryTurns: 10 } })
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const reviews = yield* BackgroundReview.BackgroundReviews
 *   yield* reviews.settled(sessionId)
 *   return yield* reviews.take(sessionId)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, runtime)))
 * // => []
 * ```
 *
 * Source: `hermes-llm.md` §6.6.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Ids from "../base/domain/Ids.ts"
import * as SessionQueue from "../base/domain/SessionQueue.ts"

/** Subject of a review: the memory or the skills. */
export type Subject = "memory" | "skills"

/** A running review. */
export interface Review {
  readonly id: string
  readonly sessionId: Ids.SessionId
  readonly subjects: ReadonlyArray<Subject>
  /** Start of the review, in milliseconds since the epoch. */
  readonly startedAt: number
}

/** Report of a review that made a change or was prevented from making one. */
export interface Report {
  readonly sessionId: Ids.SessionId
  /** Text of the report, in one line. */
  readonly text: string
}

/** Numbers of turns and steps of a session since its last reviews. */
interface Counters {
  readonly turns: number
  readonly steps: number
}

/** Service that runs the reviews of one agent. */
export interface Service {
  /** Running reviews of all sessions, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<Review>>
  /** Waits until the session has no running review. */
  readonly settled: (sessionId: Ids.SessionId) => Effect.Effect<void>
  /** Interrupts the review of a session. Returns false if no review is running. */
  readonly stop: (sessionId: Ids.SessionId) => Effect.Effect<boolean>
  /** Removes and returns the reports of the reviews of a session. */
  readonly take: (sessionId: Ids.SessionId) => Effect.Effect<ReadonlyArray<Report>>
  /** Waits until a report is available for the session. The report stays until it is taken. */
  readonly arrived: (sessionId: Ids.SessionId) => Effect.Effect<void>
  /**
   * Starts a review. The text that `work` returns is its report. Returns false if a review of the session is already
   * running.
   */
  readonly begin: (review: Review, work: Effect.Effect<string | undefined>) => Effect.Effect<boolean>
  /** Counters of sessions. */
  readonly counters: Map<Ids.SessionId, Counters>
}

/** Maximum number of waiting reports. */
const maxReports = 1_000

const make = (scope: Scope.Scope): Service => {
  const working = new Map<Ids.SessionId, { readonly review: Review; readonly fiber: Fiber.Fiber<void> }>()
  const reports = SessionQueue.make<Report>(maxReports)
  return {
    counters: new Map(),
    list: Effect.sync(() => Array.from(working.values(), ({ review }) => review)),
    settled: (sessionId) =>
      Effect.suspend(() => {
        const found = working.get(sessionId)
        return found === undefined ? Effect.void : Effect.asVoid(Fiber.await(found.fiber))
      }),
    stop: (sessionId) =>
      Effect.suspend(() => {
        const found = working.get(sessionId)
        return found === undefined ? Effect.succeed(false) : Effect.as(Fiber.interrupt(found.fiber), true)
      }),
    take: reports.drain,
    arrived: reports.arrived,
    begin: (review, work) =>
      Effect.suspend(() => {
        const { sessionId } = review
        if (working.has(sessionId)) return Effect.succeed(false)
        const reported = Effect.flatMap(work, (text) =>
          text === undefined ? Effect.void : reports.offer({ sessionId, text })
        )
        const done = Effect.ensuring(
          reported,
          Effect.sync(() => void working.delete(sessionId))
        )
        // The review is registered before its work starts.
        return Effect.map(Effect.forkIn(Effect.andThen(Effect.yieldNow, done), scope), (fiber) => {
          working.set(sessionId, { review, fiber })
          return true
        })
      })
  }
}

/** Service of the reviews of an agent. */
export class BackgroundReviews extends Context.Service<BackgroundReviews, Service>()(
  "hermes-effect/agent/BackgroundReviews"
) {}

/** Layer of the background reviews. Reviews are interrupted when the layer closes. */
export const layer: Layer.Layer<BackgroundReviews> = Layer.effect(BackgroundReviews, Effect.map(Effect.scope, make))
