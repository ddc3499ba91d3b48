/**
 * Calls of an MCP server that may ask their client. A call that asks answers its request with its questions
 * (`input_required`) and goes on when the client repeats the request with the answers; the server package translates
 * this for clients of earlier revisions.
 *
 * **Details**
 *
 * The code of a call runs once. Between two requests it waits in memory, for at most {@link longestWait}; then, and if
 * a request is cancelled, it is interrupted. The name of a call cannot be guessed, so only the client that received it
 * can answer.
 */
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import type { InputRequiredResult, ServerContext } from "@modelcontextprotocol/server"
import * as Json from "../../base/domain/Json.ts"

/** A question to the client: a message, and a form of flat fields as a JSON Schema of an object. */
export interface ClientQuestion {
  readonly message: string
  readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly required: ReadonlyArray<string>
}

/** Answer of a client. Its content is not checked. */
export interface ClientAnswer {
  readonly action: "accept" | "cancel" | "decline"
  readonly content: Readonly<Record<string, unknown>>
}

/** Asks the client of a call. */
export type AskClient = (question: ClientQuestion) => Effect.Effect<ClientAnswer>

/** Time for which a call waits for the next request of its client. */
const longestWait = Duration.minutes(10)

type CallEvent<A, E> =
  | { readonly _tag: "Asked"; readonly key: string; readonly question: ClientQuestion }
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E> }

/** A call that is not over. */
interface OpenCall<A, E> {
  readonly fiber: Fiber.Fiber<unknown>
  readonly events: Queue.Queue<CallEvent<A, E>>
  readonly pending: Map<string, Deferred.Deferred<ClientAnswer>>
  expiry: Fiber.Fiber<unknown> | undefined
}

/** Parts of a request that a call reads. */
export type CallRequest = Pick<ServerContext["mcpReq"], "inputResponses" | "requestState" | "signal">

/** Outcome of one request: the call ended, or it asks, or the call that the request continues is over. */
export type CallRound<A, E> =
  | { readonly _tag: "Asks"; readonly result: InputRequiredResult }
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E> }
  | { readonly _tag: "Over" }

const cancelled: ClientAnswer = { action: "cancel", content: {} }

const readAnswer = (response: unknown): ClientAnswer => {
  const { action, content } = Json.readFields(response)
  return action === "accept" || action === "decline" ? { action, content: Json.readFields(content) } : cancelled
}

type BuildRequest = typeof import("@modelcontextprotocol/server").inputRequired

/** Converts a question to the form of the protocol. Its fields are flat, as the protocol demands. */
const toInputRequest = (build: BuildRequest, { message, properties, required }: ClientQuestion) =>
  build.elicit({
    message,
    // The fields were made for the protocol, whose type lists each form of a field.
    requestedSchema: { type: "object", properties, required: [...required] } as unknown as Parameters<
      BuildRequest["elicit"]
    >[0]["requestedSchema"]
  })

/** The open calls of a server. */
interface OpenCalls<A, E> {
  readonly open: Map<string, OpenCall<A, E>>
  readonly build: BuildRequest
}

/** Begins a call in the background. Its questions and its end are events. */
const beginCall = Effect.fnUntraced(function* <A, E>(
  { open }: OpenCalls<A, E>,
  run: (ask: AskClient) => Effect.Effect<A, E>
) {
  const events = yield* Queue.unbounded<CallEvent<A, E>>()
  const pending: OpenCall<A, E>["pending"] = new Map()
  let asked = 0
  const askClient: AskClient = (question) =>
    Effect.gen(function* () {
      const key = `question${++asked}`
      const answer = yield* Deferred.make<ClientAnswer>()
      pending.set(key, answer)
      yield* Queue.offer(events, { _tag: "Asked", key, question })
      return yield* Deferred.await(answer)
    })
  const fiber = yield* Effect.forkDetach(
    Effect.flatMap(Effect.exit(run(askClient)), (exit) => Queue.offer(events, { _tag: "Ended", exit }))
  )
  const id = globalThis.crypto.randomUUID()
  const call: OpenCall<A, E> = { fiber, events, pending, expiry: undefined }
  open.set(id, call)
  return [id, call] as const
})

/** Interrupts a call. */
const closeCall = <A, E>({ open }: OpenCalls<A, E>, id: string, { fiber }: OpenCall<A, E>) =>
  Effect.suspend(() => {
    open.delete(id)
    return Effect.asVoid(Fiber.interrupt(fiber))
  })

/** Returns the end of a call or its questions, to which the client has a limited time to answer. */
const takeRound = <A, E>(calls: OpenCalls<A, E>, id: string, call: OpenCall<A, E>): Effect.Effect<CallRound<A, E>> =>
  Effect.gen(function* () {
    const events = yield* Queue.takeAll(call.events)
    const ended = events.find((event) => event._tag === "Ended")
    if (ended !== undefined) {
      calls.open.delete(id)
      return { _tag: "Ended", exit: ended.exit } as const
    }
    const requests = events.flatMap((event) =>
      event._tag === "Asked" ? [[event.key, toInputRequest(calls.build, event.question)] as const] : []
    )
    call.expiry = yield* Effect.forkDetach(
      Effect.andThen(
        Effect.sleep(longestWait),
        Effect.suspend(() => Effect.forkDetach(closeCall(calls, id, call)))
      )
    )
    return {
      _tag: "Asks",
      result: calls.build({ inputRequests: Object.fromEntries(requests), requestState: id })
    } as const
  }).pipe(Effect.onInterrupt(() => closeCall(calls, id, call)))

const answerRequest = Effect.fnUntraced(function* <A, E>(
  calls: OpenCalls<A, E>,
  { inputResponses, requestState }: CallRequest,
  run: (ask: AskClient) => Effect.Effect<A, E>
): Effect.fn.Return<CallRound<A, E>> {
  const state = requestState<string>()
  if (state === undefined) {
    const [id, call] = yield* beginCall(calls, run)
    return yield* takeRound(calls, id, call)
  }
  const call = calls.open.get(state)
  if (call === undefined) return { _tag: "Over" }
  if (call.expiry !== undefined) yield* Fiber.interrupt(call.expiry)
  // The answer to one question may lead to the next one, which is not a part of this request.
  const asked = Array.from(call.pending)
  call.pending.clear()
  for (const [key, answer] of asked)
    // A question that the client left out was not answered.
    yield* Deferred.succeed(answer, readAnswer(inputResponses?.[key]))
  return yield* takeRound(calls, state, call)
})

/** Creates the calls of a server. `build` builds the results with which a call asks. */
export const makeCalls = <A, E>(services: Context.Context<never>, build: BuildRequest) => {
  const calls: OpenCalls<A, E> = { open: new Map(), build }
  return {
    /** Answers one request. `ending` is aborted when the server ends. */
    answerRequest: (
      request: CallRequest,
      ending: AbortSignal,
      run: (ask: AskClient) => Effect.Effect<A, E>
    ): Promise<CallRound<A, E>> =>
      Effect.runPromiseWith(services)(answerRequest(calls, request, run), {
        signal: AbortSignal.any([request.signal, ending])
      }),
    /** Interrupts all calls. */
    close: Effect.suspend(() =>
      Effect.forEach(Array.from(calls.open), ([id, call]) => closeCall(calls, id, call), { discard: true })
    )
  }
}
