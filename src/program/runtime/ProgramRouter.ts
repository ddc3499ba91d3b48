/**
 * The router of a program: the routes from the settings, or a substitute that answers instead (a scenario, a recording,
 * the stand-in). Exchanges with the model are recorded on request.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import * as ProviderSources from "../../agent/plugin/ProviderSources.ts"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { Provider, type Service as ProviderService } from "../../models/provider/Provider.ts"
import * as Catalogue from "../../models/routing/Catalogue.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type { Logins } from "../../models/routing/Logins.ts"
import * as ModelRouter from "../../models/routing/ModelRouter.ts"
import * as OpenRoute from "../../models/routing/OpenRoute.ts"
import { SharedMarks } from "../../models/routing/SharedMarks.ts"
import * as AgentFiles from "./AgentFiles.ts"
import type { Start, Substitutes } from "./ProgramStart.ts"

type Recorder = (provider: ProviderService) => ProviderService

const readText = (path: string): Effect.Effect<string, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.mapError(
      (error) =>
        new ConfigError({
          path,
          message:
            error.reason._tag === "NotFound" ? `${path}: no such file` : `${path} cannot be read: ${error.message}`
        })
    )
  )

/** Adds the name of the file to an error in its content. */
const addFileName =
  (path: string) =>
  ({ message }: ConfigError): ConfigError =>
    new ConfigError({ path, message: `${path}: ${message}` })

const loadScenario = Effect.fnUntraced(function* (path: string) {
  const text = yield* readText(path)
  const [{ parseScenario }, { make }] = yield* Effect.promise(() =>
    Promise.all([import("../../models/provider/offline/Scenario.ts"), import("../../models/provider/Offline.ts")])
  )
  return yield* make({ scenario: yield* Effect.mapError(parseScenario(text), addFileName(path)) })
})

const loadRecording = Effect.fnUntraced(function* (path: string) {
  const text = yield* readText(path)
  const { makeProvider } = yield* Effect.promise(() => import("../../models/provider/Replay.ts"))
  return yield* Effect.mapError(makeProvider(text.split("\n")), addFileName(path))
})

const standIn = Effect.flatMap(
  Effect.promise(() => import("../../models/provider/Offline.ts")),
  ({ make }) => make()
)

const makeRecorder = (path: string | undefined): Effect.Effect<Recorder, ConfigError, FileSystem.FileSystem> =>
  path === undefined
    ? Effect.succeed((provider) => provider)
    : Effect.gen(function* () {
        const Replay = yield* Effect.promise(() => import("../../models/provider/Replay.ts"))
        const sink = yield* Replay.toFile(path)
        return (provider) => Replay.recordProvider(provider, sink)
      })

/** Returns true if a substitute answers instead of the configured models. */
export const isReplaced = ({ replay, script, withoutModel }: Substitutes): boolean =>
  script !== undefined || replay !== undefined || withoutModel === true

/** Creates the substitute for the configured models; `undefined` if no substitute is selected. */
const makeSubstitute = ({ replay, script, withoutModel }: Substitutes) => {
  if (script !== undefined) return loadScenario(script)
  if (replay !== undefined) return loadRecording(replay)
  return withoutModel === true ? standIn : undefined
}

const makeSingleProviderRouter = (provider: ProviderService): Layer.Layer<ModelRouter.ModelRouter> =>
  Layer.fresh(ModelRouter.layer).pipe(Layer.provide(Layer.succeed(Provider, provider)))

/** Loads the user's logins, but only if a route may use one. */
export const loadLogins = (
  settings: Values,
  start: Substitutes
): Effect.Effect<Logins | undefined, ConfigError, Home | FileSystem.FileSystem | Path.Path> =>
  isReplaced(start) || !ConfiguredRoutes.mayLogIn(settings)
    ? Effect.succeed(undefined)
    : Effect.flatMap(
        Effect.promise(() => import("../../models/routing/Logins.ts")),
        ({ loadLogins }) => loadLogins(settings)
      )

const makeRouter = Effect.fnUntraced(function* (
  settings: Values,
  recorded: Recorder,
  logins: Logins | undefined,
  { agentFile, unconfigured }: Pick<Start, "agentFile" | "unconfigured">
) {
  const home = yield* Home
  const environment = yield* Environment
  const { providers } = yield* Plugins.use(({ loaded }) => loaded)
  const configured = { settings, environment, logins, brought: providers }
  const missing = unconfigured === "standIn" ? undefined : ConfiguredRoutes.findMissingModel(configured)
  if (missing !== undefined) return yield* missing
  const { entries, problems } = yield* Effect.fromResult(ConfiguredRoutes.resolveChain(configured))
  const delegated = yield* Effect.fromResult(ConfiguredRoutes.resolveDelegated(configured))
  const ofSubAgents = yield* Effect.fromResult(AgentFiles.resolveRoutes(configured, agentFile))
  for (const problem of problems) yield* Effect.logWarning(problem)
  for (const line of ConfiguredRoutes.explainChain(settings, entries, delegated)) yield* Effect.logDebug(line)
  const known = OpenRoute.make({ routing: settings.providerRouting })
  // Side tasks and model switches open routes to which the chain has not added the guardrail.
  const openGuarded: OpenRoute.Open = (route) =>
    Effect.flatMap(Effect.fromResult(DerivedSettings.addGuardrail(route, settings)), (guarded) =>
      (ProviderSources.findSource(providers, route.provider)?.open ?? known)(guarded)
    )
  const [first, ...further] = entries
  if (further.length === 0 && first.route.provider === "offline" && delegated === undefined && ofSubAgents.length === 0)
    return makeSingleProviderRouter(recorded(yield* standIn))
  const [{ layer }, RetryPolicy, PoolStore, EndpointMemory, RateGuard, ProfileStore] = yield* Effect.promise(() =>
    Promise.all([
      import("../../models/routing/RoutedModelRouter.ts"),
      import("../../models/routing/RetryPolicy.ts"),
      import("../../models/routing/PoolStore.ts"),
      import("../../models/routing/catalogue/EndpointMemory.ts"),
      import("../../models/routing/RateGuard.ts"),
      import("../../models/routing/profile/ProfileStore.ts")
    ])
  )
  const endpoints = yield* EndpointMemory.openFile(home.root)
  const catalogue = yield* Catalogue.makeHome(home.root, settings, endpoints)
  const marks = yield* SharedMarks
  const pooled = entries.some(({ credentials = [] }) => credentials.length > 1)
  return layer({
    chain: entries,
    apart: [...(delegated === undefined ? [] : [delegated]), ...ofSubAgents],
    open: (route) => Effect.map(Effect.flatMap(Catalogue.addExtraBody(catalogue, route), openGuarded), recorded),
    retry: RetryPolicy.make({ attempts: settings.agent.apiMaxRetries }),
    catalogue,
    profiles: yield* ProfileStore.openFile(home.root),
    streamRetries: settings.network.streamRetries,
    guard: marks?.guard ?? (yield* RateGuard.openFile(home.root)),
    ...(pooled ? { store: marks?.pools ?? (yield* PoolStore.openFile(home.root)) } : {})
  })
})

/** Creates the layer of a program's router. */
export const makeRouterLayer = (
  settings: Values,
  start: Start,
  logins: Logins | undefined
): Layer.Layer<
  ModelRouter.ModelRouter,
  ConfigError,
  Home | Environment | FileSystem.FileSystem | Path.Path | Plugins
> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const recorded = yield* makeRecorder(start.record)
      const instead = makeSubstitute(start)
      return instead === undefined
        ? yield* makeRouter(settings, recorded, logins, start)
        : makeSingleProviderRouter(recorded(yield* instead))
    })
  )
