/**
 * The configured models, for commands that inspect them without a run. Logins are used as keys, and providers from
 * plugins are available.
 *
 * Plugins are loaded only if the settings name a provider that is not built in. A route is tested by one call with the
 * smallest output limit that the protocol accepts, without hooks, retries and fallbacks, so that only the route itself
 * is tested. Provider errors are explained as in a run.
 *
 * Source: `hermes-llm.md` §2, §16.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Config from "../../base/config/Config.ts"
import { Environment, type Home } from "../../base/config/Environment.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { Route } from "../../base/domain/Route.ts"
import type { ProviderSource } from "../../agent/plugin/Plugin.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import * as ProviderSources from "../../agent/plugin/ProviderSources.ts"
import { Catalogue, layerHome } from "../../models/routing/Catalogue.ts"
import * as Classification from "../../models/routing/Classification.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import * as OpenRoute from "../../models/routing/OpenRoute.ts"
import { Failure, makeWorkFailure } from "./Failure.ts"
import { Program } from "./Program.ts"

/** The configured models, and the function that opens a route to one of them. */
export interface Models {
  readonly configured: ConfiguredRoutes.RouteSources
  readonly open: OpenRoute.Open
}

/** Access to logins: `look` only reads them, `renew` refreshes them for use. */
type LoginAccess = "look" | "renew"

const loadPluginProviders = Effect.fnUntraced(function* (
  settings: Values
): Effect.fn.Return<ReadonlyArray<ProviderSource>, ConfigError, Program | Home | Environment | Scope.Scope> {
  if (ConfiguredRoutes.findUnknownProviders(settings).length === 0) return []
  const program = yield* Program
  const runtime = yield* Layer.build(program.layer(settings, { withoutModel: true }))
  const { providers } = yield* Context.get(runtime, Plugins).loaded
  return providers
})

/** Runs an effect with the configured models. `read` selects how logins are accessed, if the provider uses them. */
export const use = <A, E, R>(
  settings: Values,
  read: LoginAccess,
  work: (models: Models) => Effect.Effect<A, E, R>
): Effect.Effect<
  A,
  E | ConfigError,
  Exclude<R, Scope.Scope> | Program | Home | Environment | FileSystem.FileSystem | Path.Path
> =>
  Effect.scoped(
    Effect.gen(function* () {
      const environment = yield* Environment
      const providers = yield* loadPluginProviders(settings)
      const logins = ConfiguredRoutes.mayLogIn(settings)
        ? yield* Effect.flatMap(
            Effect.promise(() => import("../../models/routing/Logins.ts")),
            ({ loadLogins, look }) => (read === "look" ? look : loadLogins(settings))
          )
        : undefined
      const known = OpenRoute.make({ routing: settings.providerRouting })
      return yield* work({
        configured: { settings, environment, logins, brought: providers },
        open: (route) => (ProviderSources.findSource(providers, route.provider)?.open ?? known)(route)
      })
    })
  )

/** Runs an effect with the route of the main model. `read` selects how logins are accessed. */
export const withRoute = <A, E, R>(
  read: LoginAccess,
  work: (route: Route, models: Models) => Effect.Effect<A, E, R>,
  change: (settings: Values) => Values = (settings) => settings
) =>
  Effect.flatMap(Settings, (settings) =>
    use(change(settings), read, (models) =>
      Effect.flatMap(Effect.fromResult(ConfiguredRoutes.resolvePrimary(models.configured)), (route) =>
        work(route, models)
      )
    )
  )

/** Returns the settings without the configured model, which another provider may not offer. */
export const withAnyModel = (settings: Values): Values => ({
  ...settings,
  model: { ...settings.model, default: settings.model.default ?? "any" }
})

/** Returns the smallest output limit that the protocol accepts. OpenAI's Responses API requires at least 16 tokens. */
const getLeastOutput = ({ apiMode }: Route): number => (apiMode === "codex_responses" ? 16 : 1)

const sendPing = Effect.fnUntraced(function* (route: Route, { open }: Models) {
  const provider = yield* open(route)
  const request = yield* provider.prepare({
    messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "Say ok." })] })],
    tools: [],
    toolChoice: "auto",
    responseFormat: { type: "text" },
    stream: false,
    maxOutputTokens: getLeastOutput(route),
    reasoningEffort: "none"
  })
  return yield* provider.execute(request)
}, Effect.scoped)

const toFailure =
  ({ model, provider }: Route) =>
  (error: AiError.AiError | ConfigError): Failure | ConfigError => {
    if (!AiError.isAiError(error)) return error
    return makeWorkFailure(
      `${model} (${provider}) does not answer: ${Redaction.redactText(Classification.explainDecision(error))}`
    )
  }

/** Tests a route by requesting the shortest possible answer. */
export const probeRoute = Effect.fnUntraced(function* (route: Route, models: Models) {
  const started = yield* Clock.currentTimeMillis
  const answered = yield* Effect.result(
    Effect.timeoutOrElse(sendPing(route, models), {
      duration: "60 seconds",
      orElse: () => Effect.fail(makeWorkFailure(`${route.model} (${route.provider}) did not answer within a minute`))
    })
  )
  const millis = (yield* Clock.currentTimeMillis) - started
  if (Result.isFailure(answered)) {
    const { failure } = answered
    return yield* failure instanceof Failure ? failure : toFailure(route)(failure)
  }
  const { model, usage } = answered.success
  return { model, millis, tokens: usage.outputTokens.total ?? 0 }
})

/** A route that is being set up. The values of the configuration file do not apply to it. */
interface Candidate {
  readonly provider: string
  readonly baseUrl: string | undefined
  /** API key; empty if the provider needs no key or the environment contains it. */
  readonly key: string
  readonly model?: string
}

const makeCandidateLayer = ({ baseUrl, key, model, provider }: Candidate) =>
  layerHome.pipe(
    Layer.provideMerge(
      Config.layerAll({
        ignoreUserConfig: true,
        flags: [
          { name: "the provider", key: "model.provider", value: provider },
          { name: "the address", key: "model.base_url", value: baseUrl },
          { name: "the key", key: "model.api_key", value: key === "" ? undefined : key },
          { name: "the model", key: "model.default", value: model }
        ]
      })
    )
  )

/** Returns the names of the models that a route lists, or an empty list if it does not provide one. */
export const listModelNames = (candidate: Candidate) =>
  withRoute("renew", (route) => Catalogue.use((catalogue) => catalogue.listed(route)), withAnyModel).pipe(
    Effect.map((models) => models.map(({ id }) => id)),
    // A wrong key is reported later by the request that tests the model.
    Effect.orElseSucceed((): ReadonlyArray<string> => []),
    Effect.provide(makeCandidateLayer(candidate))
  )

/** Tests a route. Returns a sentence about its answer, or fails with the error. */
export const tryRoute = (candidate: Candidate) =>
  withRoute("renew", (route, models) =>
    Effect.map(probeRoute(route, models), ({ millis }) => `${route.model} of ${route.provider} answers: ${millis} ms`)
  ).pipe(Effect.provide(makeCandidateLayer(candidate)))
