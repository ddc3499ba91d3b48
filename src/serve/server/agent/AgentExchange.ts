/**
 * One exchange with the agent in a session: a message of the caller, or the results of its tools, and the pieces of the
 * answer.
 *
 * **Details**
 *
 * An exchange ends with its turn, or with calls of the client's own tools, which the turn then waits for; the next
 * exchange brings their results. A client that goes away in the middle stops its turn, or takes its message back where
 * another turn is before it.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../../agent/RunInput.ts"
import type { AgentError } from "../../../base/domain/AgentError.ts"
import type { Route } from "../../../base/domain/Route.ts"
import type { RunResult } from "../../../base/domain/RunEvent.ts"
import { Secrets } from "../../../base/domain/Secrets.ts"
import type { HostEvent } from "../../host/HostEvent.ts"
import { ReaderLagged } from "../../host/LiveSession.ts"
import type { Session } from "../../../store/SessionStore.ts"
import { type Selection, ToolRegistry } from "../../../tools/ToolRegistry.ts"
import * as ApiError from "../ApiError.ts"
import * as AnswerPieces from "./AnswerPieces.ts"
import * as ClientTools from "./ClientTools.ts"
import { type ExchangeSession, toStoreError } from "./ServedSessions.ts"

/** A request to the agent. */
export interface Request {
  /** Session to go on with, by its id; absent, it is found by `history`, or a new one. */
  readonly session: string | undefined
  /** Position of a turn of the session behind which it goes on; absent, at its end. */
  readonly position?: number | undefined
  /** Instructions of the caller, after the agent's instructions, for this turn only. */
  readonly system: string | undefined
  /** Conversation before the prompt, for clients that keep it themselves. */
  readonly history: ReadonlyArray<Prompt.Message>
  readonly prompt: RunInput["prompt"] | undefined
  /** Results of the caller's tools by the ids of their calls; a request has these or a prompt. */
  readonly results: ReadonlyMap<string, string>
  readonly tools: ReadonlyArray<ClientTools.ClientTool>
  readonly model: string | undefined
}

/** An answer under way. */
export interface Exchange {
  readonly sessionId: string
  /** Number of messages that stand before its turn. */
  readonly position: number
  readonly pieces: Stream.Stream<AnswerPieces.Piece, ApiError.ApiError>
}

/** Values of an exchange besides its request. */
export interface Options {
  /** Tools of the agent. */
  readonly tools: Selection
  readonly route: Route | undefined
  /** Model of the settings. */
  readonly model: string
  /** Keeps in mind what was said, for a client that sends all of it again. */
  readonly remember: (said: string, left: Session) => void
}

const finishes: Partial<Record<RunResult["exit"], AnswerPieces.Ending["finish"]>> = {
  output_truncated: "length",
  max_iterations_reached: "length",
  budget_exhausted: "length",
  content_filtered: "content_filter"
}

/** Time in which another call of the same answer may follow. */
const settling = "30 millis"

const toFinishReason = (
  exit: Exit.Exit<RunResult, AgentError>
): Effect.Effect<AnswerPieces.Ending["finish"], ApiError.ApiError> => {
  if (Exit.isSuccess(exit)) return Effect.succeed(finishes[exit.value.exit] ?? "stop")
  if (Exit.hasInterrupts(exit))
    return Effect.fail(ApiError.make(503, "interrupted", "The turn was stopped, or the server ends."))
  return Effect.fail(ApiError.fromTurnCause(exit.cause))
}

/** Offers the tools of a request to the next turn. */
const offerTools = Effect.fnUntraced(function* (
  { calls, id, input, scope }: ExchangeSession,
  { system, tools }: Request,
  chosen: Selection
) {
  const registry = yield* ToolRegistry
  input.system = system
  const offered = JSON.stringify(tools)
  if (offered === input.offered) return
  if (input.toolScope !== undefined) yield* Scope.close(input.toolScope, Exit.void)
  input.toolScope = undefined
  input.offered = offered
  input.tools = tools.length === 0 ? ClientTools.excludeClients(chosen) : ClientTools.selectTools(id, chosen)
  if (tools.length === 0) return
  input.toolScope = yield* Scope.fork(scope)
  yield* Scope.provide(registry.override(calls.toolset(tools)), input.toolScope)
})

const returned = ApiError.make(
  503,
  "interrupted",
  "The session was stopped before this message was sent. Send it again."
)
const closed = ApiError.make(503, "session_closed", "The session was closed. Ask again.")
const lagged = ApiError.make(503, "reader_lagged", "The answer was not read for too long, and was cut off. Ask again.")

const makeBusyError = (id: string): ApiError.ApiError =>
  ApiError.make(
    409,
    "session_busy",
    `Session "${id}" answers another request. Wait for its end, or begin another session.`
  )

/** Begins an exchange; a session has one at a time. */
export const begin = Effect.fnUntraced(function* (
  session: ExchangeSession,
  request: Request,
  { model, remember, route, tools }: Options
): Effect.fn.Return<Exchange, ApiError.ApiError, Scope.Scope | ToolRegistry> {
  const { calls, id, live } = session
  let message: string | undefined
  let position = 0
  let isEnded = false
  let failure: ApiError.ApiError | undefined
  // The next request may come before the connection of this one is done with.
  const release = Effect.flatMap(Clock.currentTimeMillis, (now) => {
    isEnded = true
    session.isBusy = false
    session.usedAt = now
    return session.freed
  })
  /** Stops an answer whose client has disconnected. A closed session has nothing to stop. */
  const leave = Effect.suspend(() => {
    if (isEnded) return Effect.void
    const stopped = Effect.gen(function* () {
      const isQueued = message !== undefined && (yield* live.unqueue(message)) !== undefined
      const { turn } = yield* live.state
      if (!isQueued && (message === undefined || turn?.message.id === message)) yield* live.stop
    })
    return Effect.andThen(Effect.exit(stopped), release)
  })
  yield* Effect.acquireRelease(
    Effect.suspend(() => {
      if (session.isBusy) return Effect.fail(makeBusyError(id))
      session.isBusy = true
      return Effect.void
    }),
    () => leave
  )

  const reader = yield* live.subscribe()
  if (request.results.size > 0) {
    for (const [call, output] of request.results) yield* calls.answer(call, output)
  } else {
    yield* calls.abandon
    yield* offerTools(session, request, tools)
    yield* live.setRoute(route)
    position = (yield* Effect.mapError(live.known, toStoreError))?.messageCount ?? 0
    message = yield* Effect.uninterruptible(
      Effect.map(live.send({ prompt: request.prompt ?? "" }), (sent) => (message = sent.message.id))
    )
  }
  const answer = AnswerPieces.make(message, { turn: (yield* live.state).turn, model, secrets: yield* Secrets })

  const endAnswer = Effect.fnUntraced(function* (
    finish: AnswerPieces.Ending["finish"]
  ): Effect.fn.Return<ReadonlyArray<AnswerPieces.Piece>, ApiError.ApiError> {
    const rest = answer.end()
    const waiting = finish === "tool_calls" ? calls.waiting() : []
    // A client that names its session does not send all of the conversation.
    if (waiting.length === 0 && request.session === undefined) {
      const left = yield* Effect.mapError(live.known, toStoreError)
      if (left !== undefined) remember(answer.said(), left)
    }
    yield* release
    return [
      ...rest,
      { _tag: "Ended", ending: { finish, calls: waiting, usage: answer.usage(), model: answer.model() } }
    ]
  })

  /** Fails the answer, after the rest of its text. */
  const failAnswer = (error: ApiError.ApiError) =>
    Effect.sync(() => {
      failure = error
      return answer.end()
    })

  const handleEvent = (event: HostEvent): Effect.Effect<ReadonlyArray<AnswerPieces.Piece>, ApiError.ApiError> => {
    const isReturned = event._tag === "MessagesReturned" && event.messages.some(({ id }) => id === message)
    if (isReturned) return failAnswer(returned)
    return event._tag === "TurnEnded" && (message === undefined || event.turn.message.id === message)
      ? Effect.matchEffect(toFinishReason(event.exit), { onSuccess: endAnswer, onFailure: failAnswer })
      : Effect.sync(() => answer.of(event))
  }

  const next: Effect.Effect<ReadonlyArray<AnswerPieces.Piece>, ApiError.ApiError> = Effect.suspend(() => {
    if (failure !== undefined) return Effect.andThen(release, Effect.fail(failure))
    const event = reader.poll()
    if (event !== undefined) return handleEvent(event)
    const more = Effect.raceFirst(
      Effect.as(reader.arrived, "event" as const),
      Effect.as(calls.arrived, "call" as const)
    )
    // Nothing but the caller is waited for.
    const isParked = answer.waitsFor(calls.waiting())
    const first = isParked ? Effect.raceFirst(more, Effect.as(Effect.sleep(settling), "settled" as const)) : more
    return Effect.flatMap(first, (what): Effect.Effect<ReadonlyArray<AnswerPieces.Piece>, ApiError.ApiError> => {
      if (what === "settled") return endAnswer("tool_calls")
      if (what === "call") return Effect.succeed([])
      return Effect.flatMap(
        Effect.mapError(reader.take, (error) => (error instanceof ReaderLagged ? lagged : closed)),
        handleEvent
      )
    })
  })

  const pieces = Stream.unfold(
    undefined,
    (): Effect.Effect<readonly [ReadonlyArray<AnswerPieces.Piece>, undefined] | undefined, ApiError.ApiError> =>
      isEnded ? Effect.undefined : Effect.map(next, (found) => [found, undefined] as const)
  ).pipe(Stream.flattenIterable, Stream.ensuring(leave))
  return { sessionId: id, position, pieces }
})
