/**
 * Executes one exchange with an API: sends the request and reads the answer, whole or as a stream.
 *
 * **Details**
 *
 * A stream is processed per network read: all events of one read become one array of parts and one call of `onPart`.
 * Without a listener, the whole stream is read in one step. The response is built from the parts that `onPart` returns;
 * `raw` is built on first use from the parts that the API sent.
 *
 * A stream that exceeds a size limit for answers (`AnswerText`) is not read to its end; its answer consists of the
 * parts received so far.
 *
 * Interruption and every failure close the connection. An endpoint may answer a streamed request with a body that is
 * not streamed; the body is then decoded as a whole.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import type { ApiMode } from "../../base/domain/ApiMode.ts"
import * as Assembler from "../../base/domain/Assembler.ts"
import * as Json from "../../base/domain/Json.ts"
import type {
  ExecuteOptions,
  ModelCall,
  ModelRequest,
  ModelResponse,
  OnPart,
  StreamPart
} from "../../base/domain/ModelCall.ts"
import * as Route from "../../base/domain/Route.ts"
import { Deadlines } from "../../base/platform/Deadlines.ts"
import type { ReceivedAnswer } from "../../base/platform/ModelTransport.ts"
import type { Service } from "./Provider.ts"
import * as SseReader from "./SseReader.ts"
import * as AnswerSources from "./AnswerSources.ts"
import * as SdkError from "./SdkError.ts"
import type * as StreamMachine from "./StreamMachine.ts"

/** A posted request; `asResponse` returns its response before the body is read. */
export interface PostedRequest {
  readonly asResponse: () => Promise<Response>
}

/** An API whose requests are JSON bodies posted through an SDK. */
interface Api {
  /** Module name reported in errors. */
  readonly module: string
  readonly apiMode: ApiMode
  readonly url: string
  readonly model: string
  /** Time limit in milliseconds for an answer to begin and, if the answer is not streamed, to be read completely. */
  readonly timeoutMillis: number
  readonly prepare: (call: ModelCall) => ModelRequest
  /** Returns an error if the request must not be sent, otherwise `undefined`. */
  readonly check?: (request: ModelRequest, context: SdkError.Context) => AiError.AiError | undefined
  readonly post: (extras: Extras, signal: AbortSignal) => PostedRequest
  readonly decode: (raw: unknown, context: SdkError.Context) => Result.Result<ModelResponse, AiError.AiError>
  readonly machine: (context: SdkError.Context) => StreamMachine.StreamMachine
}

const makeErrorContext = ({ model, module, url }: Api, method: string): SdkError.Context => ({
  module,
  method,
  url,
  model
})

interface OpenStream {
  readonly context: SdkError.TimedContext
  readonly reader: SseReader.SseReader
  readonly machine: StreamMachine.StreamMachine
}

const callSdk = <A>(
  context: SdkError.TimedContext,
  evaluate: () => PromiseLike<A>
): Effect.Effect<A, AiError.AiError> =>
  Effect.tryPromise({ try: evaluate, catch: (error) => SdkError.fromSdk({ ...context, error }) })

/** Collects the parts of a stream before and after they pass through `onPart`. */
interface PartCollector {
  readonly add: (parts: ReadonlyArray<StreamPart>) => Effect.Effect<void>
  readonly sent: Assembler.Assembler
  /**
   * Returns the assembler of the parts that `onPart` returned. If `onPart` changed nothing, this is the same object as
   * `sent`.
   */
  readonly seen: () => Assembler.Assembler
}

/** Creates a collector for a stream. It uses a single assembler until `onPart` changes a part. */
export const collectParts = (onPart: OnPart | undefined): PartCollector => {
  const sent = Assembler.make()
  let seen = sent
  let before: Array<ReadonlyArray<StreamPart>> = []
  const addSeen = (parts: ReadonlyArray<StreamPart>, kept: ReadonlyArray<StreamPart>): void => {
    if (seen === sent && kept === parts) return void before.push(parts)
    if (seen === sent) {
      seen = Assembler.make()
      for (const earlier of before) seen.add(earlier)
      before = []
    }
    seen.add(kept)
  }
  return {
    sent,
    seen: () => seen,
    add: (parts) => {
      sent.add(parts)
      return onPart === undefined ? Effect.void : Effect.map(onPart(parts), (kept) => addSeen(parts, kept))
    }
  }
}

/**
 * Returns the response of a finished stream: its content is built from the parts that `onPart` returned, its `raw` from
 * the original parts.
 */
export const makeStreamedResponse = (
  machine: Pick<StreamMachine.StreamMachine, "failure" | "body" | "sources">,
  { seen, sent }: PartCollector
): Effect.Effect<ModelResponse, AiError.AiError> => {
  const failure = machine.failure()
  if (failure !== undefined) return Effect.fail(failure)
  const { parts, finishReason, usage, reportedCost, model, id } = seen().result()
  let raw: unknown
  return Effect.succeed({
    parts,
    finishReason,
    usage,
    ...AnswerSources.toMember(machine.sources?.() ?? []),
    ...(reportedCost === undefined ? {} : { reportedCost }),
    model,
    id,
    get raw() {
      raw ??= machine.body(sent.result().parts)
      return raw
    }
  })
}

/** Reads a stream to its end if there is no `onPart` listener. */
const readStreamToEnd = (open: OpenStream): Effect.Effect<ModelResponse, AiError.AiError> => {
  const { context, reader, machine } = open
  const heard = collectParts(undefined)
  const { sent } = heard
  const readEvents = async (): Promise<void> => {
    while (machine.failure() === undefined) {
      if (sent.overflow() !== undefined) return void (await reader.return())
      const item = machine.over?.() === true ? await reader.return() : await reader.next()
      sent.add(item.done === true ? machine.end(reader.finished) : machine.step(item.value))
      if (item.done === true) return
    }
  }
  return Effect.flatMap(callSdk(context, readEvents), () => makeStreamedResponse(machine, heard))
}

const readStreamWithListener = Effect.fnUntraced(function* (
  open: OpenStream,
  onPart: OnPart
): Effect.fn.Return<ModelResponse, AiError.AiError> {
  const { context, reader, machine } = open
  const heard = collectParts(onPart)
  const readNextEvents = (): Promise<IteratorResult<ReadonlyArray<SseReader.SseEvent>, undefined>> =>
    machine.over?.() === true ? reader.return() : reader.next()
  for (let over = false; !over && machine.failure() === undefined;) {
    const item = yield* callSdk(context, readNextEvents)
    over = item.done === true
    const parts = item.done === true ? machine.end(reader.finished) : machine.step(item.value)
    if (parts.length === 0) continue
    yield* heard.add(parts)
    if (heard.sent.overflow() !== undefined) {
      yield* callSdk(context, () => reader.return())
      break
    }
  }
  return yield* makeStreamedResponse(machine, heard)
})

const deliverWhole = (
  answer: Result.Result<ModelResponse, AiError.AiError>,
  onPart: OnPart | undefined
): Effect.Effect<ModelResponse, AiError.AiError> =>
  Effect.flatMap(Effect.fromResult(answer), (answer) => {
    if (onPart === undefined) return Effect.succeed(answer)
    const seen = Assembler.make()
    return Effect.map(onPart(Assembler.toParts(answer)), (parts): ModelResponse => {
      seen.add(parts)
      return { ...answer, parts: seen.result().parts }
    })
  })

/** Deadlines of all bodies that are being read. */
const deadlines = new Deadlines()

/**
 * Reads a whole body within the remaining time. The SDKs' methods are not used, because they would process the body a
 * second time, with additional timers and listeners.
 */
const readBodyText = async (answer: Response, left: number, abort: AbortController): Promise<string> => {
  const late = { expire: () => abort.abort(new DOMException("the answer was not complete in time", "TimeoutError")) }
  deadlines.start(late, left)
  try {
    return await answer.text()
  } finally {
    deadlines.stop(late)
  }
}

/** Tests for media types that cannot be an event stream. Many servers send event streams without a media type. */
const isWhole = (type: string | null): boolean => type !== null && /^\s*(application\/json|text\/html)\b/i.test(type)

const readStreamedBody = (
  api: Api,
  context: SdkError.TimedContext,
  answer: Response,
  onPart: OnPart | undefined
): Effect.Effect<ModelResponse, AiError.AiError> => {
  const { body } = answer
  if (isWhole(answer.headers.get("content-type"))) {
    return Effect.flatMap(
      callSdk(context, () => answer.text()),
      (raw) => deliverWhole(api.decode(Json.parseOrKeep(raw), context), onPart)
    )
  }
  if (body === null) return Effect.fail(SdkError.makeCutStreamError(context))
  const open = { context, reader: SseReader.readEvents(body), machine: api.machine(context) }
  return onPart === undefined ? readStreamToEnd(open) : readStreamWithListener(open, onPart)
}

const executeRequest = (
  api: Api,
  executing: SdkError.Context,
  request: ModelRequest,
  options: ExecuteOptions | undefined
): Effect.Effect<ModelResponse, AiError.AiError> =>
  Effect.clockWith((clock) => {
    const context: SdkError.TimedContext = { ...executing, clock }
    const refused = api.check?.(request, context)
    if (refused !== undefined) return Effect.fail(refused)
    const extras = splitExtras(request)
    const abort = new AbortController()
    const until = clock.currentTimeMillisUnsafe() + api.timeoutMillis
    const reportHeaders = ({ headers }: Pick<Response, "headers">): Effect.Effect<void> =>
      options?.onHeaders === undefined ? Effect.void : options.onHeaders((name) => headers.get(name))
    const decodeText = (text: string) =>
      Effect.fromResult(api.decode(text === "" ? undefined : Json.parseOrKeep(text), context))
    const readAnswer = (opened: Response): Effect.Effect<ModelResponse, AiError.AiError> => {
      if (extras.body["stream"] === true) return readStreamedBody(api, context, opened, options?.onPart)
      // A short body arrives together with the response headers, so no further read is needed.
      // The SDK returns the answer of the transport, which it declares as a `Response`.
      const text = (opened as ReceivedAnswer).arrivedText?.()
      return text === undefined
        ? Effect.flatMap(
            callSdk(context, () => readBodyText(opened, until - clock.currentTimeMillisUnsafe(), abort)),
            decodeText
          )
        : decodeText(text)
    }
    const answer = Effect.flatMap(
      callSdk(context, () => api.post(extras, abort.signal).asResponse()),
      (opened) => Effect.andThen(reportHeaders(opened), readAnswer(opened))
    )
    return Effect.onError(answer, () => Effect.sync(() => abort.abort()))
  })

/** Creates the provider of a route from the description of its API. */
export const makeProvider = (route: Route.Route, api: Api): Service => {
  const executing = makeErrorContext(api, "execute")
  const decoding = makeErrorContext(api, "decode")
  return {
    info: Route.toInfo(route),
    apiMode: api.apiMode,
    prepare: (call) => Effect.sync(() => api.prepare(call)),
    execute: (request, options) => executeRequest(api, executing, request, options),
    decode: (raw) => Effect.fromResult(api.decode(raw, decoding))
  }
}

/** The body, headers and query of an HTTP request. */
export interface Extras {
  readonly body: Json.Fields
  readonly headers: Readonly<Record<string, string | null>> | undefined
  readonly query: Json.Fields | undefined
}

const toHeaderValues = (extra: Json.Fields): Readonly<Record<string, string | null>> =>
  Object.fromEntries(
    Object.entries(extra).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value === null ? null : String(value)]]
    )
  )

/**
 * Splits a request into body, headers and query. Users and middleware use `extra_body`, `extra_headers` and
 * `extra_query` to add fields that the provider does not know (`hermes-llm.md` §4.1). A request without these keys is
 * returned as the body, without a copy.
 *
 * `extra_body` is merged into the body key by key and takes precedence, like the option of that name in the OpenAI SDK
 * for Python; nested objects are replaced, not merged. A header that is `null` removes the header of that name. Only
 * plain objects are taken out; anything else under these names stays in the body, where the API rejects it by name.
 */
export const splitExtras = (request: ModelRequest): Extras => {
  if (!("extra_body" in request || "extra_headers" in request || "extra_query" in request)) {
    return { body: request, headers: undefined, query: undefined }
  }
  const { extra_body, extra_headers, extra_query, ...rest } = request
  // The spread operator defines own properties, so a `__proto__` key from JSON remains plain data.
  return {
    body: {
      ...rest,
      ...(Json.isFields(extra_body) ? extra_body : extra_body === undefined ? {} : { extra_body }),
      ...(Json.isFields(extra_headers) || extra_headers === undefined ? {} : { extra_headers }),
      ...(Json.isFields(extra_query) || extra_query === undefined ? {} : { extra_query })
    },
    headers: Json.isFields(extra_headers) ? toHeaderValues(extra_headers) : undefined,
    query: Json.isFields(extra_query) ? extra_query : undefined
  }
}
