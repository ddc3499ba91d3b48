/**
 * The router of a program: over the chain of its routes, or over what answers in a model's place (a scenario, a recording,
 * the stand-in). Each part is loaded when it is wanted. Used by `Runtime` alone.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as DerivedSettings from "../config/DerivedSettings.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import type { Values } from "../config/Settings.ts"
import { ConfigError } from "../domain/AgentError.ts"
import { Plugins } from "../plugin/Plugins.ts"
import * as ProviderSources from "../plugin/ProviderSources.ts"
import { Provider, type Service as ProviderService } from "../provider/Provider.ts"
import * as Catalogue from "../routing/Catalogue.ts"
import * as ConfiguredRoutes from "../routing/ConfiguredRoutes.ts"
import type { Logins } from "../routing/Logins.ts"
import { ModelRouter } from "../routing/ModelRouter.ts"
import * as OpenRoute from "../routing/OpenRoute.ts"

/** Substitutes of the configured models, and the recording of the exchange. */
export interface Substitutes {
  /** File with a scenario that answers in place of a model. */
  readonly script?: string | undefined
  /** File with a recording that answers in place of a model. */
  readonly replay?: string | undefined
  /** The built-in stand-in answers, whatever is configured. */
  readonly withoutModel?: boolean | undefined
  /** File that the exchanges with the model are appended to. */
  readonly record?: string | undefined
}

type Recorder = (provider: ProviderService) => ProviderService

const readText = (path: string): Effect.Effect<string, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.mapError((error) =>
      new ConfigError({
        path,
        message: error.reason._tag === "NotFound"
          ? `${path}: there is no such file`
          : `${path} cannot be read: ${error.message}`
      })
    )
  )

/** Errors inside of a file are told with its name. */
const inFile = (path: string) => ({ message }: ConfigError): ConfigError => new ConfigError({ path, message: `${path}: ${message}` })

const scenario = Effect.fnUntraced(function*(path: string) {
  const text = yield* readText(path)
  const [{ parse }, { make }] = yield* Effect.promise(() =>
    Promise.all([import("../provider/offline/Scenario.ts"), import("../provider/Offline.ts")])
  )
  return yield* make({ scenario: yield* Effect.mapError(parse(text), inFile(path)) })
})

const recording = Effect.fnUntraced(function*(path: string) {
  const text = yield* readText(path)
  const { provider } = yield* Effect.promise(() => import("../provider/Replay.ts"))
  return yield* Effect.mapError(provider(text.split("\n")), inFile(path))
})

const standIn = Effect.flatMap(Effect.promise(() => import("../provider/Offline.ts")), ({ make }) => make())

const recorder = (path: string | undefined): Effect.Effect<Recorder, ConfigError, FileSystem.FileSystem> =>
  path === undefined
    ? Effect.succeed((provider) => provider)
    : Effect.gen(function*() {
      const Replay = yield* Effect.promise(() => import("../provider/Replay.ts"))
      const sink = yield* Replay.toFile(path)
      return (provider) => Replay.record(provider, sink)
    })

/** True when something answers in place of the configured models. */
export const isReplaced = ({ replay, script, withoutModel }: Substitutes): boolean =>
  script !== undefined || replay !== undefined || withoutModel === true

/** Substitute of the configured models, if there is one. */
const substitute = ({ replay, script, withoutModel }: Substitutes) => {
  if (script !== undefined) return scenario(script)
  if (replay !== undefined) return recording(replay)
  return withoutModel === true ? standIn : undefined
}

const one = (provider: ProviderService): Layer.Layer<ModelRouter> =>
  Layer.fresh(ModelRouter.layer).pipe(Layer.provide(Layer.succeed(Provider, provider)))

/** The logins of this user, looked for only where one may matter. */
export const logins = (
  settings: Values,
  start: Substitutes
): Effect.Effect<Logins | undefined, ConfigError, Home | FileSystem.FileSystem | Path.Path> =>
  isReplaced(start) || !ConfiguredRoutes.mayLogIn(settings)
    ? Effect.succeed(undefined)
    : Effect.flatMap(Effect.promise(() => import("../routing/Logins.ts")), ({ load }) => load(settings))

const routed = Effect.fnUntraced(function*(settings: Values, recorded: Recorder, logins: Logins | undefined) {
  const home = yield* Home
  const environment = yield* Environment
  const { providers } = yield* Plugins.use(({ loaded }) => loaded)
  const configured = { settings, environment, logins, brought: providers }
  const { entries, problems } = yield* Effect.fromResult(ConfiguredRoutes.chain(configured))
  const delegated = yield* Effect.fromResult(ConfiguredRoutes.delegated(configured))
  for (const problem of problems) yield* Effect.logWarning(problem)
  for (const line of ConfiguredRoutes.explain(settings, entries, delegated)) yield* Effect.logDebug(line)
  const known = OpenRoute.make({ routing: settings.providerRouting })
  // Side tasks and switches bring routes that the chain has not seen.
  const open: OpenRoute.Open = (route) =>
    Effect.flatMap(Effect.fromResult(DerivedSettings.guarded(route, settings)), (guarded) =>
      (ProviderSources.find(providers, route.provider)?.open ?? known)(guarded))
  const [first, ...further] = entries
  if (further.length === 0 && first.route.provider === "offline" && delegated === undefined) return one(recorded(yield* standIn))
  const [{ layer }, PoolStore, EndpointMemory, RateGuard] = yield* Effect.promise(() =>
    Promise.all([
      import("../routing/RoutedModelRouter.ts"),
      import("../routing/PoolStore.ts"),
      import("../routing/catalogue/EndpointMemory.ts"),
      import("../routing/RateGuard.ts")
    ])
  )
  const endpoints = yield* EndpointMemory.file(home.root)
  const catalogue = yield* Catalogue.home(home.root, settings, endpoints)
  const pooled = entries.some(({ credentials = [] }) => credentials.length > 1)
  return layer({
    chain: entries,
    apart: delegated === undefined ? [] : [delegated],
    open: (route) => Effect.map(Effect.flatMap(Catalogue.withExtraBody(catalogue, route), open), recorded),
    maxAttempts: settings.agent.apiMaxRetries,
    catalogue,
    endpoints,
    streamRetries: settings.network.streamRetries,
    guard: yield* RateGuard.file(home.root),
    ...(pooled ? { store: yield* PoolStore.file(home.root) } : {})
  })
})

/** Layer of the router of a program. */
export const layer = (
  settings: Values,
  start: Substitutes,
  logins: Logins | undefined
): Layer.Layer<ModelRouter, ConfigError, Home | Environment | FileSystem.FileSystem | Path.Path | Plugins> =>
  Layer.unwrap(Effect.gen(function*() {
    const recorded = yield* recorder(start.record)
    const instead = substitute(start)
    return instead === undefined ? yield* routed(settings, recorded, logins) : one(recorded(yield* instead))
  }))
