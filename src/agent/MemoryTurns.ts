/**
 * Connects the turns of an agent to an external memory: recalls text before a turn, and afterwards notifies the
 * provider of the turn, of writes to memory files and of sessions that end. Failures and timeouts of the provider are
 * logged as warnings and do not affect the run.
 *
 * Source: `hermes-llm.md` §8 and §10.6.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { SessionId } from "../base/domain/Ids.ts"
import { isCompleted, type RunResult } from "../base/domain/RunEvent.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import * as MemoryProvider from "../base/domain/MemoryProvider.ts"
import type { RunOptions } from "./RunInput.ts"
import type { RunState } from "./RunState.ts"
import { type AgentServices, Services } from "./Services.ts"

/** Time limit of one call to a provider. */
const deadline = Duration.seconds(30)

/** Time for which a closing agent waits for pending notifications to the provider. */
const closingTime = Duration.seconds(10)

/** Calls a provider. A failure becomes a warning and an empty result. */
const callProvider = <A>(
  name: string,
  what: string,
  call: () => Effect.Effect<A, unknown>
): Effect.Effect<A | undefined> =>
  IsolatedCall.contain(Effect.suspend(call), { what: "it", deadline }).pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterrupts(cause)
        ? Effect.interrupt
        : Effect.as(
            Effect.logWarning(`memory provider ${name}: ${what} failed: ${IsolatedCall.describeFailure(cause)}`),
            undefined
          )
    )
  )

/** Returns the memory provider of a run. */
const findProvider = (
  { memory }: Pick<AgentServices, "memory">,
  run: Pick<RunState, "lineage">
): MemoryProvider.Service | undefined => (run.lineage === undefined ? memory : undefined)

const readUserText = ({ userMessage }: Pick<RunState, "userMessage">): string | undefined =>
  typeof userMessage === "string" ? userMessage : undefined

/** Returns true if a session must not use the user's memory. */
const isApart = ({ source }: { readonly source?: string | undefined }): boolean =>
  source === "cron" || source === "batch"

/**
 * Returns the recalled block that precedes the user's text. `undefined` if nothing is recalled or the message is not
 * plain text.
 */
export const recall = (
  run: RunState,
  options: Pick<RunOptions, "source">
): Effect.Effect<string | undefined, never, Services> =>
  Services.use((services): Effect.Effect<string | undefined> => {
    const provider = findProvider(services, run)
    const text = readUserText(run)
    if (provider === undefined || text === undefined || isApart(options)) return Effect.undefined
    const { sessionId, turnId } = run
    return Effect.map(
      callProvider(provider.name, "prefetch", () => provider.prefetch({ sessionId, turnId, text })),
      MemoryProvider.renderBlock
    )
  })

/** Builds the provider's part of a new session's system prompt. */
export const buildPromptBlock = Effect.fnUntraced(function* (
  options: Pick<RunOptions, "source">,
  isChild: boolean
): Effect.fn.Return<ReadonlyArray<string>, never, Services> {
  const { memory } = yield* Services
  const part = memory?.systemPrompt
  if (memory === undefined || part === undefined || isChild || isApart(options)) return []
  return [MemoryProvider.cleanText(yield* callProvider(memory.name, "systemPrompt", () => part))].flatMap(
    (text) => text ?? []
  )
})

/** Notifies the provider of the messages that a compaction may leave out. */
export const notifyCompaction = Effect.fnUntraced(function* (run: RunState): Effect.fn.Return<void, never, Services> {
  const provider = findProvider(yield* Services, run)
  const tell = provider?.compacting
  if (provider === undefined || tell === undefined) return
  const {
    conversation: { messages },
    sessionId
  } = run
  yield* callProvider(provider.name, "compacting", () => tell({ sessionId, messages: messages.slice(1) }))
})

/** Notifies the provider of turns, writes and ends of sessions, one at a time, concurrently with the runs. */
export interface MemoryNotifier {
  readonly tell: (
    run: RunState,
    options: Pick<RunOptions, "source">,
    result: RunResult
  ) => Effect.Effect<void, never, Services>
  /** Runs an effect and notifies the provider of its writes to the memory files. */
  readonly listening: <A, E, R>(
    run: RunState,
    options: Pick<RunOptions, "source">,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R | Services>
  /** Notifies the provider of a session that was closed. */
  readonly ended: (sessionId: SessionId) => Effect.Effect<void, never, Services>
}

/** Creates a notifier that waits briefly for pending notifications when the scope closes. */
export const makeNotifier: Effect.Effect<MemoryNotifier, never, Scope.Scope> = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const gate = Semaphore.makeUnsafe(1)
  const working = new Set<Fiber.Fiber<unknown>>()
  yield* Effect.addFinalizer((exit) =>
    Effect.andThen(
      Effect.timeoutOption(
        Effect.suspend(() => Fiber.awaitAll(working)),
        closingTime
      ),
      Scope.close(scope, exit)
    )
  )
  const runInBackground = Effect.fnUntraced(function* (effect: Effect.Effect<unknown>) {
    const fiber = yield* Effect.forkIn(gate.withPermits(1)(effect), scope)
    working.add(fiber)
    fiber.addObserver(() => working.delete(fiber))
  })
  return {
    listening: (run, options, effect) =>
      Services.use((services) => {
        const provider = findProvider(services, run)
        const written = provider?.written
        return provider === undefined || written === undefined || isApart(options)
          ? effect
          : Effect.provideService(effect, MemoryProvider.MemoryWrites, (write) =>
              runInBackground(callProvider(provider.name, "written", () => written(write)))
            )
      }),
    ended: Effect.fnUntraced(function* (sessionId) {
      const { memory, store } = yield* Services
      const ended = memory?.ended
      if (memory === undefined || ended === undefined) return
      const session = Option.getOrUndefined(yield* Effect.orElseSucceed(store.get(sessionId), Option.none))
      if (session === undefined || session.messageCount === 0 || isApart(session)) return
      yield* runInBackground(
        callProvider(memory.name, "ended", () =>
          Effect.flatMap(store.messages(sessionId), (messages) => ended({ sessionId, messages }))
        )
      )
    }),
    tell: (run, options, result) =>
      Services.use((services) => {
        const provider = findProvider(services, run)
        const sync = provider?.sync
        const text = readUserText(run)
        if (provider === undefined || sync === undefined || text === undefined || isApart(options)) return Effect.void
        if (!isCompleted(result) || result.text.trim() === "") return Effect.void
        const { turnId } = run
        const turn = { sessionId: result.sessionId, turnId, text, answer: result.text }
        return runInBackground(callProvider(provider.name, "sync", () => sync(turn)))
      })
  }
})
