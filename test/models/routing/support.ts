// Routers over scripted providers: what each route answers is a list, and who was asked is a record.
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import * as Redacted from "effect/Redacted"
import * as AiError from "effect/ai/AiError"
import { SessionId, TaskId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { ModelCall, OnPart, StreamPart } from "../../../src/base/domain/ModelCall.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import type { Interceptors } from "../../../src/models/routing/Interceptors.ts"
import * as Stack from "../../../src/middleware/Stack.ts"
import * as NetworkFailure from "../../../src/models/provider/NetworkFailure.ts"
import type { Question, Service } from "../../../src/models/routing/ModelRouter.ts"
import * as AnswerProgress from "../../../src/models/routing/AnswerProgress.ts"
import type { Open } from "../../../src/models/routing/OpenRoute.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import * as Fake from "../../support/fakeModel.ts"

export const route = (provider: string, model = "m", baseUrl = `https://${provider}.example/v1`): Route => ({
  provider,
  model,
  apiMode: "chat_completions",
  baseUrl
})

export const key = (text: string) => ({ key: Redacted.make(text) })

const make = (reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "Test", method: "execute", reason })

/** A failure as a provider module makes it. */
export const http = (status: number, message: string, more: Record<string, string | number> = {}): AiError.AiError => {
  const common = { http: { response: { status, headers: {} }, body: message }, metadata: { status, ...more } }
  switch (status) {
    case 401:
      return make(new AiError.AuthenticationError({ ...common, kind: "InvalidKey", description: message }))
    case 402:
      return make(new AiError.QuotaExhaustedError(common))
    case 403:
      return make(new AiError.AuthenticationError({ ...common, kind: "InsufficientPermissions", description: message }))
    case 429:
      return make(new AiError.RateLimitError(common))
    default:
      return make(
        status >= 500
          ? new AiError.InternalProviderError({ ...common, description: message })
          : new AiError.InvalidRequestError({ ...common, description: message })
      )
  }
}

export const network = (description: string): AiError.AiError =>
  make(new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "https://x.example", description }))

/** What a provider module makes of a refused connection. */
export const refused = make(
  NetworkFailure.makeNetworkReason(
    Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }),
    "https://a.example/v1"
  )
)

export const malformed: AiError.AiError = make(
  new AiError.InvalidResponseError({ description: "the answer is not JSON" })
)

export const fails =
  (error: AiError.AiError): Fake.Turn =>
  () =>
    Effect.fail(error)

/** Streams the parts, then fails. */
export const breaks =
  (error: AiError.AiError, ...parts: ReadonlyArray<StreamPart>): Fake.Turn =>
  (_, options) =>
    Effect.andThen(options?.onPart?.(parts) ?? Effect.void, Effect.fail(error))

/** What the routes of a test answer, by provider: in order, the last one for ever. */
export type Script = Readonly<Record<string, ReadonlyArray<Fake.Turn>>>

/** Opens scripted providers; `asked` has the provider and key of each execution in order. */
export const world = (script: Script) => {
  const asked: Array<string> = []
  const opened: Array<string> = []
  const closed: Array<string> = []
  const prepared: Array<ModelCall> = []
  const at = new Map<string, number>()
  const open: Open = (route) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        opened.push(route.provider)
        const { provider } = Fake.make(Fake.text("unused"))
        return {
          ...provider,
          info: { provider: route.provider, model: route.model, apiMode: route.apiMode, baseUrl: route.baseUrl },
          prepare: (call: ModelCall) => {
            prepared.push(call)
            return provider.prepare(call)
          },
          execute: (request: Parameters<Fake.Turn>[0], options?: Parameters<Fake.Turn>[1]) =>
            Effect.suspend(() => {
              asked.push(
                route.apiKey === undefined ? route.provider : `${route.provider}:${Redacted.value(route.apiKey)}`
              )
              const turns = script[route.provider] ?? []
              const index = at.get(route.provider) ?? 0
              at.set(route.provider, index + 1)
              const turn = turns[Math.min(index, turns.length - 1)]
              return turn === undefined
                ? Effect.die(`nothing is scripted for ${route.provider}`)
                : turn(request, options)
            })
        }
      }),
      () => Effect.sync(() => closed.push(route.provider))
    )
  return { asked, opened, closed, prepared, open }
}

export const turn = (session = "s1", turn = "t1") => ({ session: SessionId.make(session), turn: TurnId.make(turn) })

export const question: ModelCall = {
  messages: [],
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: true
}

/** Nothing stands around the calls. */
export const bare: Interceptors = { stack: Stack.make([]), hooks: Effect.runSync(Hooks.make()) }

export const context = {
  sessionId: SessionId.make("s1"),
  taskId: TaskId.make("s1"),
  turnId: TurnId.make("t1"),
  platform: "test",
  apiCallCount: 1
}

/** Asks through the router as a step does; keeps what was told and what streamed by. */
export const asking = (router: Service, more: Partial<Question> = {}) => {
  const events: Array<RunEvent> = []
  const seen: Array<StreamPart> = []
  let discarded = 0
  const progress = AnswerProgress.beginAnswer("")
  const onPart: OnPart = (parts) =>
    Effect.sync(() => {
      seen.push(...parts)
      AnswerProgress.receiveParts(progress, parts)
      AnswerProgress.showParts(progress, parts, true)
      return parts
    })
  const answer = router.call(bare, {
    context,
    userMessage: "hi",
    options: { onPart },
    turn: turn(),
    call: question,
    notify: (told) => Effect.sync(() => void events.push(...told)),
    heartbeat: (waitedMillis) => Effect.sync(() => void events.push({ _tag: "Heartbeat", waitedMillis })),
    discard: Effect.sync(() => {
      discarded++
      AnswerProgress.retractAttempt(progress)
    }),
    progress,
    ...more
  })
  return { answer, events, seen, discarded: () => discarded, kept: () => progress.broken.received }
}

export const waits = (events: ReadonlyArray<RunEvent>): ReadonlyArray<number> =>
  events.flatMap((event) => (event._tag === "Waiting" ? [event.millis] : []))

export const notices = (events: ReadonlyArray<RunEvent>): ReadonlyArray<string> =>
  events.flatMap((event) => (event._tag === "Notice" ? [event.message] : []))

/** No chance: every wait is the least one. */
export const router = (options: RoutedModelRouter.Options) =>
  Effect.map(RoutedModelRouter.makeRouter(options), ({ router }) => router)

/** Failure that the steps of a policy begin with. */
const failure: RetryPolicy.RouteFailure = {
  reason: "overloaded",
  message: "",
  attempt: 1,
  elapsed: Duration.zero,
  retryAfter: undefined,
  route: { provider: "a", model: "m", apiMode: "chat_completions", baseUrl: undefined },
  hasStreamed: false,
  isRetryable: true,
  isUnreachable: false
}

/** Steps a policy through failures, and returns its waits in milliseconds until it is done. */
export const stepPolicy = Effect.fnUntraced(function* (
  policy: RetryPolicy.RetryPolicy,
  failures: ReadonlyArray<Partial<RetryPolicy.RouteFailure>>
) {
  const step = yield* Schedule.toStep(policy)
  const waits: Array<number> = []
  let now = 0
  for (const [index, one] of failures.entries()) {
    const input = { ...failure, attempt: index + 1, elapsed: Duration.millis(now), ...one }
    const wait = yield* Pull.catchDone(
      Effect.map(step(now, input), ([, duration]) => Duration.toMillis(duration)),
      () => Effect.undefined
    )
    if (wait === undefined) break
    waits.push(wait)
    now += wait
  }
  return waits
})
