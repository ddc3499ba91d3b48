/**
 * Answers a repeated model call from a store of `effect/persistence`, without asking the provider.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `timeToLiveSeconds` | 3600 | time for which an answer is stored |
 * | `storeId` | `hermes_responses` | name of the store |
 *
 * Two calls are the same if their messages, tools, tool choice, response format, limits and route are equal. Only
 * complete answers (`stop`, `tool-calls`) are stored, except those with files or with apparent secrets. An answer from
 * the store uses no tokens and costs nothing. Side tasks are not stored. If the store fails, a warning is logged and
 * the provider is asked.
 *
 * **Example** (In memory, for a test)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as Persistence from "effect/persistence/Persistence"
 * import { Agent, Runtime } from "hermes-effect"
 * import { ResponseCache } from "hermes-effect/middleware"
 *
 * const cached = Runtime.layer({ middleware: [ResponseCache.make({ timeToLiveSeconds: 60 })] }).pipe(
 *   Layer.provide(Persistence.layerMemory)
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), cached))).text)
 * // => hello
 * ```
 *
 * **Example** (By its name in the kit)
 *
 * ```ts
 * import { Runtime } from "hermes-effect"
 * import { ResponseCache } from "hermes-effect/middleware"
 *
 * // Needs `Persistence`: in memory, in SQL or in Redis.
 * export const runtime = Runtime.layer({ middleware: [ResponseCache.make({ timeToLiveSeconds: 300 })] })
 * ```
 *
 * Source: `ARCHITECTURE.md` §2.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as PrimaryKey from "effect/PrimaryKey"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Persistable from "effect/persistence/Persistable"
import type * as Persistence from "effect/persistence/Persistence"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Cost from "../../base/domain/Cost.ts"
import type { ContentPart } from "../../base/domain/ModelCall.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { toInfo } from "../../base/domain/Route.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Digest from "../../base/platform/Digest.ts"
import * as Faults from "../../middleware/Faults.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"
import * as Parameters from "./Parameters.ts"

/** Service key of the store. The application that provides the store loads the `effect` module. */
const Store: Context.Service<Persistence.Persistence, Persistence.Persistence["Service"]> = Context.Service<
  Persistence.Persistence,
  Persistence.Persistence["Service"]
>("effect/persistence/Persistence")

const Options = Schema.Struct({
  timeToLiveSeconds: Schema.optional(Parameters.Positive),
  storeId: Schema.optional(Schema.NonEmptyString)
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

const Stored = Schema.Struct({
  /** The answer as JSON. */
  answer: Schema.String
})

class CachedCall {
  readonly [Persistable.symbol] = { success: Stored, error: Schema.Never }
  readonly key: string
  constructor(key: string) {
    this.key = key
  }
  [PrimaryKey.symbol](): string {
    return this.key
  }
}

const Answer = Schema.Struct({
  parts: Schema.Array(Schema.Record(Schema.String, Schema.Unknown)),
  finishReason: Schema.Literals(["stop", "tool-calls"]),
  model: Schema.optional(Schema.String),
  route: Schema.Struct({
    provider: Schema.String,
    model: Schema.String,
    apiMode: Schema.String,
    baseUrl: Schema.optional(Schema.String)
  })
})

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Answer))

/** Returns the text of an answer for the store, or `undefined` if the answer must not be stored. */
const serializeAnswer = ({
  response: { finishReason, model, parts },
  route
}: Middleware.ModelAnswer): string | undefined => {
  if (finishReason !== "stop" && finishReason !== "tool-calls") return undefined
  if (parts.some(({ type }) => type === "file")) return undefined
  const { apiMode, baseUrl, provider } = route
  const text = JSON.stringify({ parts, finishReason, model, route: { provider, model: route.model, apiMode, baseUrl } })
  return Redaction.redactText(text) === text ? text : undefined
}

/** Returns the stored answer, or `undefined` if the text cannot be decoded. */
const parseAnswer = (text: string): Middleware.ModelAnswer | undefined => {
  const decoded = decode(text)
  if (decoded._tag === "None") return undefined
  const { finishReason, model, parts, route } = decoded.value
  return {
    response: {
      // The store contains the answer parts that `serializeAnswer` wrote.
      parts: parts as unknown as ReadonlyArray<ContentPart>,
      finishReason,
      usage: Usage.toResponse({ input: 0, output: 0 }),
      model,
      id: undefined,
      raw: undefined
    },
    route: { ...route, baseUrl: route.baseUrl } as Middleware.ModelAnswer["route"], // As written by `serializeAnswer`.
    attempt: 0,
    cost: Cost.included
  }
}

const makeKey = (
  { call, route }: Middleware.ModelCallParams,
  primary: object | undefined,
  tenant: string | undefined
): string => {
  const { maxOutputTokens, messages, reasoningEffort, responseFormat, temperature, toolChoice, tools } = call
  const to = route === undefined ? primary : toInfo(route)
  const parts = [messages, tools, toolChoice, responseFormat, maxOutputTokens, temperature, reasoningEffort, to]
  return Digest.toHex(JSON.stringify(tenant === undefined ? parts : [...parts, tenant]), 64)
}

const buildMiddleware = ({
  storeId = "hermes_responses",
  timeToLiveSeconds = 3_600
}: Options): Middleware.WrapModelCall<never, never, Persistence.Persistence> =>
  Middleware.wrapModelCall({
    name: "ResponseCache",
    wrap: (next, context) => (params) => {
      // A judgement or a compaction is made anew each time.
      if (context.task !== undefined) return next(params)
      return Effect.scoped(
        Effect.gen(function* () {
          const { make } = yield* Store
          const store = yield* make({ storeId, timeToLive: () => `${timeToLiveSeconds} seconds` })
          const primary = context.primary === undefined ? undefined : toInfo(yield* context.primary)
          const key = new CachedCall(makeKey(params, primary, yield* CurrentTenant))
          const warnStoreFailure = (what: string) => (error: unknown) =>
            Effect.logWarning(`The response cache could not be ${what}: ${Faults.describeError(error)}`)
          const found = yield* store
            .get(key)
            .pipe(Effect.catch((error) => Effect.as(warnStoreFailure("read")(error), undefined)))
          const known = found !== undefined && Exit.isSuccess(found) ? parseAnswer(found.value.answer) : undefined
          if (known !== undefined) return known
          const answer = yield* next(params)
          const kept = serializeAnswer(answer)
          if (kept !== undefined)
            yield* store.set(key, Exit.succeed({ answer: kept })).pipe(Effect.catch(warnStoreFailure("written")))
          return answer
        })
      )
    }
  })

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (
  parameters: unknown
): Result.Result<Middleware.WrapModelCall<never, never, Persistence.Persistence>, ConfigError> =>
  Result.map(Parameters.read("response-cache", Options, parameters), buildMiddleware)

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options = {}): Middleware.WrapModelCall<never, never, Persistence.Persistence> =>
  Result.getOrThrow(fromUnknown(options))
