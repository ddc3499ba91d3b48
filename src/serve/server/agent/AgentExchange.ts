/**
 * One exchange with the agent in a session. The caller sends a message or the results of its tools, and receives the
 * pieces of the answer.
 *
 * **Details**
 *
 * An exchange ends when its turn ends or calls tools of the client. In the second case the turn waits for the results,
 * which the next exchange supplies. If the client disconnects, its turn is stopped. If its turn has not started yet,
 * its message is removed from the queue.
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
import type { Question } from "../../../base/domain/Question.ts"
import type { Route } from "../../../base/domain/Route.ts"
import type { RunResult } from "../../../base/domain/RunEvent.ts"
import { Secrets } from "../../../base/domain/Secrets.ts"
import type { HostEvent } from "../../host/HostEvent.ts"
import { type Reader, ReaderLagged } from "../../host/LiveSession.ts"
import type { Session } from "../../../store/SessionStore.ts"
import { type Selection, ToolRegistry } from "../../../tools/ToolRegistry.ts"
import * as ApiError from "../ApiError.ts"
import * as AnswerPieces from "./AnswerPieces.ts"
import * as ClientTools from "./ClientTools.ts"
import { type RequestedForm, requireForm, type ServedTurn } from "./RequestedForm.ts"
import type { ExchangeSession } from "./ServedSessions.ts"
import { isQuestionSeenBy, renderQuestions } from "./SessionOptions.ts"

/** A request to the agent. */
export interface Request {
  /** Id of the session to continue. If absent, the session is found by `history`, or a new session begins. */
  readonly session: string | undefined
  /** Position of the turn after which the session continues. Defaults to the end of the session. */
  readonly position?: number | undefined
  /** The caller's instructions, which are added after the agent's instructions and apply only to this turn. */
  readonly system: string | undefined
  /** Conversation before the prompt, for clients that store the messages themselves. */
  readonly history: ReadonlyArray<Prompt.Message>
  readonly prompt: RunInput["prompt"] | undefined
  /**
   * Results of the caller's tools by call id. A prompt beside them follows the results in the turn that waits for them.
   */
  readonly results: ReadonlyMap<string, ClientTools.ClientResult>
  readonly tools: ReadonlyArray<ClientTools.ClientTool>
  readonly form: RequestedForm | undefined
  /** False if the conversation must not be stored beyond the answer. */
  readonly isStored: boolean
  readonly model: string | undefined
  /** Treatment of questions without an answer, which the session keeps. Defaults to the session's. */
  readonly unanswered?: "suspend" | "deny" | undefined
}

/** An answer in progress. */
export interface Exchange {
  readonly sessionId: string
  readonly turn: ServedTurn
  readonly pieces: Stream.Stream<AnswerPieces.Piece, ApiError.ApiError>
}

/** Values that an exchange needs besides its request. */
export interface Options {
  /** Tools that the agent offers. */
  readonly tools: Selection
  readonly route: Route | undefined
  /** Name of the key to which the session belongs, or `undefined` for the server's own key. */
  readonly client: string | undefined
  /** Model name in the settings. */
  readonly model: string
  /** True if the turn has a tenant, whose limits may refuse it. */
  readonly isBounded: boolean
  /** Remembers the session in which the conversation ended, for a client that sends all messages again. */
  readonly remember: (said: string, left: Session) => void
}

const finishes: Partial<Record<RunResult["exit"], AnswerPieces.Ending["finish"]>> = {
  output_truncated: "length",
  max_iterations_reached: "length",
  budget_exhausted: "length",
  content_filtered: "content_filter"
}

/** Time to wait for more calls in the same answer. */
const settling = "30 millis"

/**
 * Returns the reason for which an answer ended. An answer without text whose tenant has no allowance left is an error.
 */
const toFinishReason = (
  exit: Exit.Exit<RunResult, AgentError>,
  said: string
): Effect.Effect<AnswerPieces.Ending["finish"], ApiError.ApiError> => {
  if (Exit.isSuccess(exit)) {
    const { freeAt, limit, text } = exit.value
    return limit === "allowance" && said === ""
      ? Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.fail(ApiError.makeAllowanceError(text, freeAt, now)))
      : Effect.succeed(finishes[exit.value.exit] ?? "stop")
  }
  if (Exit.hasInterrupts(exit))
    return Effect.fail(ApiError.make(503, "interrupted", "The turn was stopped, or the server ends."))
  return Effect.andThen(ApiError.logOperatorMessage(exit), Effect.fail(ApiError.fromTurnCause(exit.cause)))
}

/** Offers the tools of a request to the next turn. */
const offerTools = Effect.fnUntraced(function* (
  { calls, id, input, scope }: ExchangeSession,
  { form, isStored, system, tools, unanswered }: Request,
  chosen: Selection
) {
  const registry = yield* ToolRegistry
  input.system = system
  input.output = form?.format
  if (unanswered !== undefined) input.questions = { ...input.questions, unanswered }
  // A session that is removed after its answer cannot be continued.
  if (!isStored) input.questions = { ...input.questions, unanswered: "deny" }
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
const closed = ApiError.make(503, "session_closed", "The session was closed. Send the request again.")
const lagged = ApiError.make(
  503,
  "reader_lagged",
  "The answer was not read for too long and was cut off. Send the request again."
)

const makeBusyError = (id: string): ApiError.ApiError =>
  ApiError.make(
    409,
    "session_busy",
    `Session "${id}" answers another request. Wait for its end, or begin another session.`
  )

type Finish = AnswerPieces.Ending["finish"]

type Pieces = Effect.Effect<ReadonlyArray<AnswerPieces.Piece>, ApiError.ApiError>

/** An exchange in progress. */
interface OpenExchange {
  readonly session: ExchangeSession
  readonly request: Request
  readonly options: Options
  /** Id of the message, after it was sent. `undefined` if the exchange sends tool results instead of a message. */
  message: string | undefined
  isEnded: boolean
  failure: ApiError.ApiError | undefined
}

/**
 * Releases the session at the end of an exchange. It does not wait for the connection to close, because the next
 * request may arrive before.
 */
const releaseSession = (exchange: OpenExchange): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const { session } = exchange
    exchange.isEnded = true
    session.isBusy = false
    session.usedAt = now
    // The form of an answer holds for its request, not for messages that reach the session in another way.
    session.input.output = undefined
    return session.freed
  })

/** Stops the answer for a disconnected client. Has no effect if the session is already closed. */
const leaveExchange = (exchange: OpenExchange): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (exchange.isEnded) return Effect.void
    const { live } = exchange.session
    const stopped = Effect.gen(function* () {
      const { message } = exchange
      const isQueued = message !== undefined && (yield* live.unqueue(message)) !== undefined
      const { turn } = yield* live.state
      if (!isQueued && (message === undefined || turn?.message.id === message)) yield* live.stop
    })
    return Effect.andThen(Effect.exit(stopped), releaseSession(exchange))
  })

/** Supplies results to the turn that waits for them. A prompt beside them reaches the model after them. */
const continueTurn = Effect.fnUntraced(function* (exchange: OpenExchange): Effect.fn.Return<void, ApiError.ApiError> {
  const { request, session } = exchange
  const { calls, live, turn } = session
  yield* requireForm(request.form, turn)
  const begin = (yield* Effect.mapError(live.known, ApiError.toStoreError))?.messageCount ?? turn.position
  session.turn = { ...turn, begin, continuations: turn.continuations + 1 }
  if (request.prompt !== undefined) {
    // Sent first, because a message is delivered with the next result.
    const sent = yield* live.send({ prompt: request.prompt, busy: "steer" })
    if (sent._tag !== "Steering") exchange.message = sent.message.id
  }
  for (const [call, result] of request.results) yield* calls.answer(call, result)
  if (request.prompt !== undefined) yield* calls.abandon
})

/** Sends the prompt of a request, or the results of its calls. */
const sendRequest = Effect.fnUntraced(function* (
  exchange: OpenExchange
): Effect.fn.Return<void, ApiError.ApiError, ToolRegistry> {
  const { options, request, session } = exchange
  const { calls, live } = session
  if (request.results.size > 0) return yield* continueTurn(exchange)
  yield* calls.abandon
  yield* offerTools(session, request, options.tools)
  yield* live.setRoute(options.route)
  const position = (yield* Effect.mapError(live.known, ApiError.toStoreError))?.messageCount ?? 0
  session.turn = { position, begin: position, continuations: 0, format: request.form?.format }
  yield* Effect.uninterruptible(
    Effect.map(live.send({ prompt: request.prompt ?? "" }), (sent) => {
      exchange.message = sent.message.id
    })
  )
})

const endAnswer = Effect.fnUntraced(function* (
  exchange: OpenExchange,
  answer: AnswerPieces.AnswerPieces,
  finish: Finish,
  questions: ReadonlyArray<Question> = []
): Effect.fn.Return<ReadonlyArray<AnswerPieces.Piece>, ApiError.ApiError> {
  const { options, request, session } = exchange
  const rest = [...answer.end(), ...answer.append(renderQuestions(questions))]
  const waiting = finish === "tool_calls" ? session.calls.waiting() : []
  const left = yield* Effect.mapError(session.live.known, ApiError.toStoreError)
  // Only a client that does not name its session sends the whole conversation.
  if (waiting.length === 0 && request.session === undefined && request.isStored && left !== undefined)
    options.remember(answer.said(), left)
  yield* releaseSession(exchange)
  const stored = left === undefined ? undefined : { id: left.id, messages: left.messageCount }
  return [
    ...rest,
    { _tag: "Ended", ending: { finish, calls: waiting, usage: answer.usage(), model: answer.model(), stored } }
  ]
})

/** Returns the questions of a suspended turn that the client may see. */
const listQuestions = ({ options }: OpenExchange, exit: Exit.Exit<RunResult, AgentError>): ReadonlyArray<Question> =>
  Exit.isSuccess(exit)
    ? (exit.value.questions ?? []).filter((question) => isQuestionSeenBy(options.client, question))
    : []

const handleEvent = (exchange: OpenExchange, answer: AnswerPieces.AnswerPieces, event: HostEvent): Pieces => {
  const { message } = exchange
  /** Fails the answer after the text that was held back is sent. */
  const failAnswer = (error: ApiError.ApiError) =>
    Effect.sync(() => {
      exchange.failure = error
      return answer.end()
    })
  const isReturned = event._tag === "MessagesReturned" && event.messages.some(({ id }) => id === message)
  if (isReturned) return failAnswer(returned)
  return event._tag === "TurnEnded" && (message === undefined || event.turn.message.id === message)
    ? Effect.matchEffect(toFinishReason(event.exit, answer.said()), {
        onSuccess: (finish) => endAnswer(exchange, answer, finish, listQuestions(exchange, event.exit)),
        onFailure: failAnswer
      })
    : Effect.sync(() => answer.of(event))
}

/** Waits for the next pieces of an answer. They come from an event or from a call that the client must carry out. */
const takePieces = (exchange: OpenExchange, answer: AnswerPieces.AnswerPieces, reader: Reader): Pieces =>
  Effect.suspend((): Pieces => {
    const { calls } = exchange.session
    if (exchange.failure !== undefined) return Effect.andThen(releaseSession(exchange), Effect.fail(exchange.failure))
    const event = reader.poll()
    if (event !== undefined) return handleEvent(exchange, answer, event)
    const more = Effect.raceFirst(
      Effect.as(reader.arrived, "event" as const),
      Effect.as(calls.arrived, "call" as const)
    )
    // True if the turn waits only for the client's results.
    const isParked = answer.waitsFor(calls.waiting())
    const first = isParked ? Effect.raceFirst(more, Effect.as(Effect.sleep(settling), "settled" as const)) : more
    return Effect.flatMap(first, (arrival): Pieces => {
      if (arrival === "settled") return endAnswer(exchange, answer, "tool_calls")
      if (arrival === "call") return Effect.succeed([])
      return Effect.flatMap(
        Effect.mapError(reader.take, (error) => (error instanceof ReaderLagged ? lagged : closed)),
        (event) => handleEvent(exchange, answer, event)
      )
    })
  })

/** Waits for the first pieces of an answer. */
const takeFirst = (exchange: OpenExchange, next: Pieces): Pieces =>
  Effect.flatMap(next, (found) =>
    found.length > 0 || exchange.isEnded ? Effect.succeed(found) : takeFirst(exchange, next)
  )

/** Begins an exchange. A session has at most one exchange at a time. */
export const begin = Effect.fnUntraced(function* (
  session: ExchangeSession,
  request: Request,
  options: Options
): Effect.fn.Return<Exchange, ApiError.ApiError, Scope.Scope | ToolRegistry> {
  const { id, live } = session
  const exchange: OpenExchange = { session, request, options, message: undefined, isEnded: false, failure: undefined }
  const leave = leaveExchange(exchange)
  yield* Effect.acquireRelease(
    Effect.suspend(() => {
      if (session.isBusy) return Effect.fail(makeBusyError(id))
      session.isBusy = true
      return Effect.void
    }),
    () => leave
  )
  const reader = yield* live.subscribe()
  yield* sendRequest(exchange)
  const answer = AnswerPieces.make(exchange.message, {
    turn: (yield* live.state).turn,
    model: options.model,
    isHeld: session.turn.format !== undefined,
    secrets: yield* Secrets
  })
  const next = takePieces(exchange, answer, reader)
  // The limits of a tenant may refuse the turn: its status is known when the first piece is.
  let early = options.isBounded ? yield* takeFirst(exchange, next) : []
  const takeNext = Effect.suspend(() => {
    const taken = early
    early = []
    return taken.length > 0 ? Effect.succeed(taken) : next
  })
  const pieces = Stream.unfold(
    undefined,
    (): Effect.Effect<readonly [ReadonlyArray<AnswerPieces.Piece>, undefined] | undefined, ApiError.ApiError> =>
      exchange.isEnded && early.length === 0
        ? Effect.undefined
        : Effect.map(takeNext, (found) => [found, undefined] as const)
  ).pipe(Stream.flattenIterable, Stream.ensuring(leave))
  return { sessionId: id, turn: session.turn, pieces }
})
