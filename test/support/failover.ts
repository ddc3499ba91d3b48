// A router whose routes are functions, and model calls through middleware over it.
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as AiError from "effect/ai/AiError"
import type { ModelCall } from "../../src/base/domain/ModelCall.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Route from "../../src/base/domain/Route.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import type * as Middleware from "../../src/middleware/Middleware.ts"
import type { Interceptors } from "../../src/models/routing/Interceptors.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import type { Service } from "../../src/models/provider/Provider.ts"
import * as Attempt from "../../src/models/routing/Attempt.ts"
import * as Spending from "../../src/models/routing/Spending.ts"
import * as Catalogue from "../../src/models/routing/Catalogue.ts"
import * as RouteCallState from "../../src/models/routing/RouteCallState.ts"
import { callModel, makeLog, type Question, type Service as ModelRouter } from "../../src/models/routing/ModelRouter.ts"
import * as RoutedModelRouter from "../../src/models/routing/RoutedModelRouter.ts"
import * as RateGuard from "../../src/models/routing/RateGuard.ts"
import * as RateLimitGate from "../../src/models/routing/RateLimitGate.ts"
import * as Fake from "./fakeModel.ts"
import { ids } from "./middlewareContexts.ts"
import * as FallbackPolicy from "../../src/models/routing/FallbackPolicy.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

export const modelCall: ModelCall = {
  messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "hello" })] })],
  tools: [{ name: "look", description: "looks", parameters: { type: "object", properties: {} } }],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false,
  temperature: 0.3
}

/** A failure as the SDKs' adapters make them. */
export const status = (code: number, type?: string): AiError.AiError =>
  AiError.make({
    module: "Fake",
    method: "execute",
    reason:
      code === 429
        ? new AiError.RateLimitError({ metadata: { status: code } })
        : code >= 500
          ? new AiError.InternalProviderError({
              description: `HTTP ${code}`,
              metadata: { status: code, ...(type === undefined ? {} : { type }) }
            })
          : new AiError.InvalidRequestError({ description: `HTTP ${code}`, metadata: { status: code } })
  })

export const fails =
  (error: AiError.AiError): Fake.Turn =>
  () =>
    Effect.fail(error)

/** Which route asked, `primary` for the router's own. */
export interface Asked {
  readonly route: Route.Route | undefined
  readonly call: ModelCall
}

const shared: RouteCallState.Shared = await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      return {
        catalogue: Catalogue.makeBundled(),
        profiles: undefined,
        providers: yield* RoutedModelRouter.makeOpenProviders(() => Effect.die("nothing is opened")),
        limits: yield* RateLimitGate.makeLimits,
        guard: RateGuard.none,
        retry: RetryPolicy.none,
        fallback: FallbackPolicy.default,
        streamRetries: 0
      }
    })
  )
)

export const make = (primary: Route.Route, answer: (asked: Asked, count: number) => Fake.Turn) => {
  const asked: Array<Asked> = []
  const router: ModelRouter = {
    primary: Effect.succeed(Route.toInfo(primary)),
    primaryRoute: Effect.succeed(primary),
    advance: () => Effect.succeed(undefined),
    call: <E>(interceptors: Interceptors, question: Question) => {
      const { log = makeLog(), route } = question
      const info = Route.toInfo(route ?? primary)
      const { provider } = Fake.make()
      const own: Service = {
        ...provider,
        info,
        apiMode: info.apiMode,
        execute: (request, options) =>
          Effect.suspend(() => {
            const entry = { route, call: question.call }
            asked.push(entry)
            return answer(entry, asked.length)(request, options)
          })
      }
      const managed = RouteCallState.manageRoute({ route: route ?? primary, pool: undefined, limits: undefined })
      return Effect.clockWith((clock) =>
        Effect.flatMap(shared.catalogue.known(managed.route), (known) => {
          const state = RouteCallState.makeCallState(
            { shared, interceptors, question, log },
            { hasNext: false, isPrimary: true },
            { route: managed, known, clock, policy: RetryPolicy.none, startedAt: 0 }
          )
          return Spending.reserveAttempt(
            state,
            (granted) => Attempt.runAttempt<E>(state, own, granted),
            ({ response }) => response
          )
        })
      )
    }
  }
  const notices: Array<string> = []
  const notify = (events: ReadonlyArray<RunEvent>) =>
    Effect.sync(() => {
      for (const event of events) if (event._tag === "Notice") notices.push(event.message)
    })
  const interceptors = (middleware: ReadonlyArray<Middleware.Any>) => ({
    stack: Stack.make(middleware),
    hooks: Effect.runSync(Hooks.make())
  })
  const run = (middleware: ReadonlyArray<Middleware.Any>, call: ModelCall = modelCall) =>
    callModel<never>(router, interceptors(middleware), {
      call,
      context: { ...ids, platform: "cli", apiCallCount: 1 },
      userMessage: "hello",
      options: undefined,
      notify
    })
  return { asked, notices, router, run, interceptors }
}

export const textOf = (answer: Middleware.ModelAnswer): string =>
  answer.response.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
