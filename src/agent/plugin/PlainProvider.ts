/**
 * Adapts providers that plugins on disk register as plain functions: `execute` sends a request of a protocol and
 * returns a body of that protocol. The runtime's own provider for the protocol prepares the request and decodes the
 * body.
 *
 * **Details**
 *
 * Every member may return a value, a promise or an Effect. `prepare` and `decode` default to the route's protocol.
 * `execute` returns a body of the protocol, or an answer with `parts` like typed providers. An exception becomes an
 * `AiError` that retries and fallbacks treat as unknown. An `AiError` propagates unchanged.
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-contract.md` §3.5.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as AiError from "effect/ai/AiError"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import { toInfo, type Route } from "../../base/domain/Route.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as Frozen from "../../middleware/Frozen.ts"
import * as PlainReturn from "../../middleware/PlainReturn.ts"
import type { Service } from "../../models/provider/Provider.ts"
import * as OpenRoute from "../../models/routing/OpenRoute.ts"
import type { ProviderSource } from "./Plugin.ts"

/** A provider of one route. */
export interface PlainProvider {
  /** Sends a request; `signal` is aborted when the call is interrupted. */
  readonly execute: (request: ModelRequest, options: ExecuteOptions & { readonly signal: AbortSignal }) => unknown
  readonly prepare?: ((call: ModelCall) => unknown) | undefined
  readonly decode?: ((raw: unknown) => unknown) | undefined
}

/** A source of providers under a name that settings may choose. */
export interface PlainSource {
  /** Name in the settings, as in `model.provider: my-cloud`. */
  readonly name: string
  readonly aliases?: ReadonlyArray<string> | undefined
  /** Opens the provider of a route. Returns a value, a promise or an Effect. */
  readonly open: (route: Route) => unknown
}

const toProviderError = (name: string, method: string, error: unknown): AiError.AiError =>
  AiError.isAiError(error)
    ? error
    : AiError.make({
        module: name,
        method,
        reason: new AiError.UnknownError({ description: Faults.describeError(error) })
      })

const isResponse = (value: unknown): value is ModelResponse =>
  Predicate.isObject(value) && Array.isArray(value["parts"]) && Predicate.isObject(value["usage"])

/** Tests for the marker of a typed provider. */
const isTyped = (value: unknown): value is Service =>
  Predicate.isObject(value) &&
  Predicate.isObject(value["info"]) &&
  Predicate.isFunction(value["prepare"]) &&
  Predicate.isFunction(value["execute"]) &&
  Predicate.isFunction(value["decode"])

const isPlain = (value: unknown): value is PlainProvider =>
  Predicate.isObject(value) && Predicate.isFunction(value["execute"])

/** Adapts a plain provider on top of the runtime's provider for the same protocol. */
const adaptProvider = (name: string, plain: PlainProvider, route: Route, base: Service): Service => {
  const callPlainMethod = (method: string, run: () => unknown): Effect.Effect<unknown, AiError.AiError> =>
    // The type of a returned Effect is unknown. Its services are provided as they were when the plugin was loaded.
    Effect.mapError(PlainReturn.call(run), ({ error }) => toProviderError(name, method, error)) as Effect.Effect<
      unknown,
      AiError.AiError
    >
  const decode: Service["decode"] = (raw) =>
    plain.decode === undefined
      ? base.decode(raw)
      : Effect.flatMap(
          callPlainMethod("decode", () => plain.decode?.(raw)),
          (value) =>
            isResponse(value)
              ? Effect.succeed(value)
              : Effect.fail(toProviderError(name, "decode", "it gave no answer with parts and usage"))
        )
  return {
    info: toInfo(route),
    apiMode: route.apiMode,
    prepare: (call) =>
      plain.prepare === undefined
        ? base.prepare(call)
        : Effect.flatMap(
            callPlainMethod("prepare", () => plain.prepare?.(call)),
            (request) =>
              Predicate.isObject(request)
                ? Effect.succeed(request as ModelRequest)
                : Effect.fail(toProviderError(name, "prepare", "it gave no request"))
          ),
    execute: (request, options) =>
      Effect.suspend(() => {
        const abort = new AbortController()
        return callPlainMethod("execute", () =>
          plain.execute(Frozen.copy(request), { ...options, signal: abort.signal })
        ).pipe(
          Effect.flatMap((answer) => (isResponse(answer) ? Effect.succeed(answer) : decode(answer))),
          Effect.onInterrupt(() => Effect.sync(() => abort.abort()))
        )
      }),
    decode
  }
}

/**
 * Converts a source of plain providers to a source of typed providers. A typed provider that the source opens is used
 * unchanged.
 */
export const makeSource = ({ aliases, name, open }: PlainSource): ProviderSource<unknown> => ({
  name,
  aliases,
  open: (route) =>
    Effect.gen(function* () {
      const opened = yield* PlainReturn.call(() => open(route)).pipe(
        Effect.mapError(({ error }) =>
          AiError.isAiError(error) || error instanceof ConfigError ? error : toProviderError(name, "open", error)
        )
      )
      if (isTyped(opened)) return opened
      if (!isPlain(opened)) {
        return yield* new ConfigError({
          path: "model.provider",
          message: `The provider "${name}" has no execute method. Choose another provider, or disable its plugin.`
        })
      }
      // The base provider prepares and decodes. The plugin sends the request and may not need an address.
      const base = yield* OpenRoute.open({ ...route, baseUrl: route.baseUrl ?? "http://provider.invalid" })
      return adaptProvider(name, opened, route, base)
    })
})
