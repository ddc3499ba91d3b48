/**
 * Approvers, which answer requests for an approval: a person at a terminal, a callback of the application, a user of a
 * messenger.
 *
 * **Example** (A queue for a messenger)
 *
 * ```ts
 * import * as Duration from "effect/Duration"
 * import * as Effect from "effect/Effect"
 * import { Approver } from "hermes-effect"
 *
 * const queue = Approver.makePendingQueue({
 *   surface: "chat",
 *   timeout: Duration.minutes(5),
 *   notify: ({ command }) => Effect.logInfo(`may I run ${command}?`)
 * })
 *
 * console.log(await Effect.runPromise(queue.resolve("session-1", { choice: "once" }, "oldest")))
 * // => 0
 * ```
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Question, type Reply, parseReply } from "./ApprovalRequest.ts"

/** Answers requests for an approval. */
export interface Approver {
  /** Place where the question is shown, as passed to hooks: `cli`, `gateway`, … */
  readonly surface: string
  /** `one at a time` if questions wait for one another; `all at once` if they are all shown at the same time. */
  readonly order: "one at a time" | "all at once"
  /** Maximum waiting time; the default is the setting `approvals.timeout`. A missing answer counts as deny. */
  readonly timeout?: Duration.Duration | undefined
  /** Answers a question. `undefined` and a failure do not count as an answer. */
  readonly answer: (question: Question) => Effect.Effect<Reply | undefined, unknown>
}

/** Port that a program with a terminal implements. It shows one question and reads one answer. */
export class ApprovalPrompt extends Context.Service<
  ApprovalPrompt,
  { readonly ask: (question: Question) => Effect.Effect<Reply | undefined> }
>()("hermes-effect/tool/approval/ApprovalPrompt") {}

/** Creates an approver that asks a person at a terminal. */
export const makeTerminalApprover = (prompt: ApprovalPrompt["Service"]): Approver => ({
  surface: "cli",
  order: "one at a time",
  answer: prompt.ask
})

/**
 * Creates an approver from a function of the application. The function may return a word (`"once"`) or
 * `{ choice, reason?, prefix? }`; an unknown word counts as deny.
 */
export const makeCallbackApprover = (
  answer: (question: Question) => Effect.Effect<unknown, unknown>,
  options: { readonly surface?: string | undefined; readonly timeout?: Duration.Duration | undefined } = {}
): Approver => ({
  surface: options.surface ?? "callback",
  order: "all at once",
  timeout: options.timeout,
  answer: (question) =>
    Effect.map(answer(question), (given) =>
      typeof given === "object" && given !== null && "choice" in given ? fromRecord(given) : parseReply(given)
    )
})

const fromRecord = (given: {
  readonly choice: unknown
  readonly reason?: unknown
  readonly prefix?: unknown
}): Reply | undefined => {
  const reply = parseReply(given.choice)
  if (reply === undefined) return undefined
  return {
    ...reply,
    ...(typeof given.reason === "string" ? { reason: given.reason } : {}),
    ...(given.prefix === true ? { prefix: true } : {})
  }
}

/** Questions that wait for an answer from outside, oldest first. */
export interface PendingQueue {
  readonly approver: Approver
  readonly waiting: (session: string) => ReadonlyArray<Question>
  /** Answers the oldest question or all questions of a session, and returns the number of answered questions. */
  readonly resolve: (session: string, reply: Reply, which: "oldest" | "all") => Effect.Effect<number>
  /** Denies the waiting questions of a session that restarts. */
  readonly reset: (session: string) => Effect.Effect<number>
}

interface WaitingQuestion {
  readonly question: Question
  readonly answer: Deferred.Deferred<Reply>
}

/**
 * Creates a queue for each session, for clients that answer later. `notify` informs the client of a question; if it
 * fails, the question is denied.
 */
export const makePendingQueue = (options: {
  readonly surface: string
  readonly timeout?: Duration.Duration | undefined
  readonly notify: (question: Question) => Effect.Effect<void, unknown>
}): PendingQueue => {
  const queues = new Map<string, Array<WaitingQuestion>>()
  const remove = (session: string, item: WaitingQuestion): void => {
    const rest = (queues.get(session) ?? []).filter((other) => other !== item)
    if (rest.length === 0) queues.delete(session)
    else queues.set(session, rest)
  }
  const settleQuestions = (session: string, reply: Reply, count: number): Effect.Effect<number> =>
    Effect.suspend(() => {
      const items = (queues.get(session) ?? []).slice(0, count)
      for (const item of items) remove(session, item)
      return Effect.as(
        Effect.forEach(items, ({ answer }) => Deferred.succeed(answer, reply), { discard: true }),
        items.length
      )
    })
  return {
    approver: {
      surface: options.surface,
      order: "all at once",
      timeout: options.timeout,
      answer: (question) =>
        Effect.suspend(() => {
          const item: WaitingQuestion = { question, answer: Deferred.makeUnsafe() }
          const session = question.session_id
          queues.set(session, [...(queues.get(session) ?? []), item])
          return Effect.andThen(options.notify(question), Deferred.await(item.answer)).pipe(
            Effect.ensuring(Effect.sync(() => remove(session, item)))
          )
        })
    },
    waiting: (session) => (queues.get(session) ?? []).map(({ question }) => question),
    resolve: (session, reply, which) => settleQuestions(session, reply, which === "all" ? Number.POSITIVE_INFINITY : 1),
    reset: (session) =>
      settleQuestions(session, { choice: "deny", reason: "the session was reset" }, Number.POSITIVE_INFINITY)
  }
}
