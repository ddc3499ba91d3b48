/**
 * One exchange with an API: the request is sent, its answer read whole or as a stream.
 *
 * **Details**
 *
 * A stream is read a network read at a time: all events of one make one array of parts and one call of `onPart`. Nobody
 * watching, the whole stream is read in one step. What `onPart` gives back is what the response is made of; `raw` is made
 * of what was sent, on first use.
 *
 * A stream that goes beyond a bound of an answer (`AnswerLimits`) is not read any further: its answer is what came.
 *
 * Interruption and every failure close the connection. An endpoint that answers a streamed request in one piece is taken
 * as it is.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import * as Assembler from "../domain/Assembler.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse, OnPart } from "../domain/Model.ts"
import * as Extras from "./Extras.ts"
import * as Raw from "./Raw.ts"
import * as SseReader from "./internal/SseReader.ts"
import * as SdkError from "./SdkError.ts"
import * as StreamMachine from "./StreamMachine.ts"

/** An answer in one piece, read, and the response that it came in. */
export interface Whole {
  readonly data: unknown
  readonly response: Pick<Response, "headers">
}

/** An API, as an exchange uses it. */
export interface Api {
  readonly context: SdkError.Context
  readonly send: (extras: Extras.Extras, signal: AbortSignal) => PromiseLike<Whole>
  readonly open: (extras: Extras.Extras, signal: AbortSignal) => PromiseLike<Response>
  readonly decode: (raw: unknown) => Result.Result<ModelResponse, AiError.AiError>
  readonly machine: () => StreamMachine.StreamMachine
}

interface Open {
  readonly api: Api
  readonly reader: SseReader.SseReader
  readonly machine: StreamMachine.StreamMachine
}

const ask = <A>({ context }: Api, evaluate: () => PromiseLike<A>): Effect.Effect<A, AiError.AiError> =>
  // Where the runtime's secrets are known, which they are not in the promise's own callbacks.
  Effect.tryPromise({ try: evaluate, catch: (error) => error }).pipe(Effect.mapError((error) => SdkError.fromSdk({ ...context, error })))

const response = (
  { machine }: Open,
  sent: Assembler.Assembler,
  seen: Assembler.Assembler
): Effect.Effect<ModelResponse, AiError.AiError> => {
  const failure = machine.failure()
  if (failure !== undefined) return Effect.fail(failure)
  const { parts, finishReason, usage, reportedCost, model, id } = seen.result()
  let raw: unknown
  return Effect.succeed({
    parts,
    finishReason,
    usage,
    ...(reportedCost === undefined ? {} : { reportedCost }),
    model,
    id,
    get raw() {
      raw ??= machine.body(sent.result().parts)
      return raw
    }
  })
}

/** Reads to the end, without `onPart`. */
const drain = (open: Open): Effect.Effect<ModelResponse, AiError.AiError> => {
  const { api, reader, machine } = open
  const assembler = Assembler.make()
  const read = async (): Promise<void> => {
    while (machine.failure() === undefined) {
      if (assembler.overflow() !== undefined) return void await reader.return()
      const item = machine.over?.() === true ? await reader.return() : await reader.next()
      assembler.add(item.done === true ? machine.end(reader.finished) : machine.step(item.value))
      if (item.done === true) return
    }
  }
  return Effect.flatMap(ask(api, read), () => response(open, assembler, assembler))
}

const watch = Effect.fnUntraced(function*(
  open: Open,
  onPart: OnPart
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const { api, reader, machine } = open
  const sent = Assembler.make()
  const seen = Assembler.make()
  const next = (): Promise<IteratorResult<ReadonlyArray<SseReader.SseEvent>, undefined>> =>
    machine.over?.() === true ? reader.return() : reader.next()
  for (let over = false; !over && machine.failure() === undefined;) {
    const item = yield* ask(api, next)
    over = item.done === true
    const parts = item.done === true ? machine.end(reader.finished) : machine.step(item.value)
    if (parts.length === 0) continue
    sent.add(parts)
    seen.add(yield* onPart(parts))
    if (sent.overflow() !== undefined) {
      yield* ask(api, () => reader.return())
      break
    }
  }
  return yield* response(open, sent, seen)
})

const whole = (api: Api, raw: unknown, onPart: OnPart | undefined): Effect.Effect<ModelResponse, AiError.AiError> =>
  Effect.flatMap(Effect.fromResult(api.decode(raw)), (answer) => {
    if (onPart === undefined) return Effect.succeed(answer)
    const seen = Assembler.make()
    return Effect.map(onPart(StreamMachine.pieces(answer)), (parts): ModelResponse => {
      seen.add(parts)
      return { ...answer, parts: seen.result().parts }
    })
  })

/** Media types that are certainly no stream of events; many servers leave the type of a stream out. */
const isWhole = (type: string | null): boolean => type !== null && /^\s*(application\/json|text\/html)\b/i.test(type)

const streamed = (
  api: Api,
  answer: Response,
  onPart: OnPart | undefined
): Effect.Effect<ModelResponse, AiError.AiError> => {
  const { body } = answer
  if (isWhole(answer.headers.get("content-type"))) {
    return Effect.flatMap(ask(api, () => answer.text()), (raw) => whole(api, Raw.parsed(raw), onPart))
  }
  if (body === null) return Effect.fail(SdkError.cut(api.context))
  const open = { api, reader: SseReader.read(body), machine: api.machine() }
  return onPart === undefined ? drain(open) : watch(open, onPart)
}

/** Sends a request and reads its answer. */
export const execute = (
  api: Api,
  request: ModelRequest,
  options: ExecuteOptions | undefined
): Effect.Effect<ModelResponse, AiError.AiError> =>
  Effect.suspend(() => {
    const extras = Extras.split(request)
    const abort = new AbortController()
    const told = ({ headers }: Pick<Response, "headers">): Effect.Effect<void> =>
      options?.onHeaders === undefined ? Effect.void : options.onHeaders((name) => headers.get(name))
    const answer = extras.body["stream"] === true
      ? Effect.flatMap(
        Effect.tap(ask(api, () => api.open(extras, abort.signal)), told),
        (opened) => streamed(api, opened, options?.onPart)
      )
      : Effect.flatMap(
        Effect.tap(ask(api, () => api.send(extras, abort.signal)), ({ response }) => told(response)),
        ({ data }) => Effect.fromResult(api.decode(data))
      )
    return Effect.onError(answer, () => Effect.sync(() => abort.abort()))
  })
