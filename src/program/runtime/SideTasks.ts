/**
 * The side tasks of a runtime: one service that uses its router, hooks and middleware, and the parts that call the
 * service. Tools and approvals are created before the router, so they receive a promise of the service. Used by
 * `ProgramRuntime` and `Runtime`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Environment } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as Cost from "../../base/domain/Cost.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Route from "../../base/domain/Route.ts"
import * as RecordTimes from "../../base/domain/RecordTimes.ts"
import * as RunRecorder from "../../base/domain/RunRecorder.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Stack from "../../middleware/Stack.ts"
import * as Digest from "../../base/platform/Digest.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import type { PluginServices } from "../../agent/plugin/PluginToolAccess.ts"
import * as Compaction from "../../tools/prompt/Compaction.ts"
import { SummaryPauses } from "../../tools/prompt/compaction/SummaryPauses.ts"
import * as Auxiliary from "../../models/routing/Auxiliary.ts"
import * as CompactionPort from "../../models/routing/CompactionPort.ts"
import * as DeferredLanguageModel from "../../models/provider/DeferredLanguageModel.ts"
import type { PoolKey } from "../../models/routing/TaskRoutes.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type { Credential } from "../../models/routing/CredentialPool.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import type { Options as RoutedModelOptions } from "../../models/routing/RoutedLanguageModel.ts"
import type { Lookup } from "../../models/routing/RouteKeys.ts"
import { RouterStatus } from "../../models/routing/ModelRouter.ts"
import { OwnAccount, UsageAccounts } from "../../agent/Budget.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { ApprovalJudge, makeAuxiliary as judgeOf } from "../../tools/approval/ApprovalJudge.ts"
import { fromAuxiliary, SideModel } from "../../tools/builtin/SideModel.ts"

/** Models and credentials of side tasks besides the runtime's own provider. */
export interface SideTaskSources {
  readonly settings: Auxiliary.Options["settings"]
  readonly lookup?: Lookup | undefined
  readonly logins?: ReadonlyMap<string, Credential> | undefined
}

/** Sources without any additional provider. */
export const ownProvider: SideTaskSources = {
  settings: { model: { provider: "auto", streaming: true }, auxiliary: {}, customProviders: [], credentials: {} }
}

/** Creates sources from a program's settings, environment and logins. */
export const fromProgram = (
  settings: Values,
  environment: Environment["Service"],
  logins: ReadonlyMap<string, Credential> | undefined
): SideTaskSources => ({ settings, logins, lookup: ConfiguredRoutes.makeLookup(environment) })

class Promised extends Context.Service<Promised, Deferred.Deferred<Auxiliary.Service>>()(
  "hermes-effect/internal/SideTasks/Promised"
) {}

const makePort = (promised: Deferred.Deferred<Auxiliary.Service>): Auxiliary.Service => ({
  call: (task, ask) => Effect.flatMap(Deferred.await(promised), ({ call }) => call(task, ask)),
  resolve: (task, overrides) => Effect.flatMap(Deferred.await(promised), ({ resolve }) => resolve(task, overrides)),
  used: Effect.flatMap(Deferred.await(promised), ({ used }) => used)
})

/** Creates the function that returns a provider's key, or `Spent` if the router has suspended all of its keys. */
const makePool =
  (
    { logins, settings }: SideTaskSources,
    status: RouterStatus["Service"] | undefined
  ): NonNullable<Auxiliary.Options["pool"]> =>
  (provider) =>
    Effect.map(status?.routes ?? Effect.succeed([]), (routes): PoolKey | undefined => {
      const keys = routes.flatMap((one) => (one.route.provider === provider ? one.keys : []))
      if (keys.length > 0 && keys.every(({ resting }) => resting !== undefined)) return { _tag: "Spent" }
      const own = Object.hasOwn(settings.credentials, provider) ? settings.credentials[provider]?.apiKeys[0] : undefined
      const login = logins?.get(provider)
      // The provider is called at its own address, so a login issued by another service is not used.
      const key = own ?? (login?.issuer === undefined ? login?.key : undefined)
      return key === undefined ? undefined : { _tag: "Key", key }
    })

/**
 * Creates the function that charges the usage of a side task to the run of its session, or only to the session if it
 * has no active run. A task without a session is counted only in the task totals.
 */
const makeAccount =
  (accounts: UsageAccounts["Service"], store: SessionStore["Service"]): Auxiliary.Options["account"] =>
  (sessionId, entry) =>
    Effect.flatMap(OwnAccount, (own) => {
      const charge = own ?? accounts.of(sessionId)
      if (charge !== undefined) return charge(entry)
      const {
        cost,
        route: { model, provider },
        usage
      } = entry
      const stored = store.recordUsage(sessionId, { provider, model, usage, cost: Cost.toSpent(cost) })
      return Effect.flatMap(RunRecorder.RunRecorder, (recorder) =>
        recorder === undefined ? stored : recorder.storing(stored, () => {})
      ).pipe(
        Effect.catch((error) =>
          Effect.logDebug(`the usage of task ${entry.task} is not part of any session: ${error.message}`)
        )
      )
    })

/**
 * Records a side task of a stored session that was not requested by a run. Tasks requested by a run are already in the
 * run's record.
 */
const recordTask =
  (record: RunRecord["Service"], store: SessionStore["Service"]) =>
  <A, E, R>(
    { context: { sessionId, turnId } }: Auxiliary.TaskRequest,
    task: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> =>
    Effect.gen(function* () {
      if ((yield* RunRecorder.RunRecorder) !== undefined) return yield* task
      const session = yield* Effect.orElseSucceed(store.get(sessionId), Option.none)
      if (Option.isNone(session)) return yield* task
      const clock = yield* Clock.Clock
      const recorder = RunRecorder.make({
        sessionId,
        turnId,
        history: [],
        now: RecordTimes.makeStartTimes(clock),
        hash: (text) => Digest.toHex(text, 16),
        sink: record.append,
        together: record.together === store.together ? record.together : undefined
      })
      return yield* Effect.ensuring(Effect.provideService(task, RunRecorder.RunRecorder, recorder), recorder.flush)
    })

/** Makes the `LanguageModel` of a runtime; its code is loaded with its first call. */
const makeLanguageModel = (options: RoutedModelOptions) =>
  DeferredLanguageModel.deferModel(
    Effect.flatMap(
      Effect.promise(() => import("../../models/routing/RoutedLanguageModel.ts")),
      ({ make }) => make(options)
    )
  )

/** Name of the side task for compaction by the main provider. */
const compactTask = "provider_compaction"

/** Creates the compaction that the provider of the main route performs. */
const makeProviderCompaction = (auxiliary: Auxiliary.Service): Compaction.ProviderCompaction => ({
  ability: Effect.map(
    Effect.orElseSucceed(auxiliary.resolve(compactTask, { provider: "main" }), () => undefined),
    (route) => (route === undefined ? "none" : Route.abilities(route).compaction)
  ),
  compact: (ask) =>
    Effect.map(auxiliary.call(compactTask, { ...ask, provider: "main", compact: true }), ({ response }) => {
      const items = response.parts.flatMap(
        ({ metadata }) => Json.readString(Json.readFields(metadata["codex_responses"])["compaction"]) ?? []
      )
      return items.at(-1)
    })
})

/**
 * Creates the layers of one runtime. They share one promise of the side-task service, so each runtime has separate
 * layers.
 */
export const make = (given: SideTaskSources, middleware: ReadonlyArray<Middleware.Any>) => {
  const promised = Layer.effect(Promised, Deferred.make<Auxiliary.Service>())

  const service = Layer.effectContext(
    Effect.gen(function* () {
      const { loaded } = yield* Plugins
      const plugged = yield* loaded
      const hooks = yield* Hooks.Hooks
      const status = Option.getOrUndefined(yield* Effect.serviceOption(RouterStatus))
      const context = yield* Effect.context<never>()
      const store = yield* SessionStore
      const stacked = yield* Middleware.arrangeEntries(middleware)
      const inRecord = recordTask(yield* RunRecord, store)
      const router = yield* ModelRouter
      const interceptors = { stack: yield* Stack.makeChecked([...plugged.middleware, ...stacked]), hooks }
      const account = makeAccount(yield* UsageAccounts, store)
      const made = Auxiliary.make<never>({
        settings: given.settings,
        lookup: given.lookup,
        router,
        interceptors,
        account,
        pool: makePool(given, status)
      })
      /** Adds the services that middleware needs, wherever a model is asked. */
      const withServices = <A, E, R>(asked: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
        Effect.updateContext(asked, (own: Context.Context<R>) => Context.merge(context, own))
      const auxiliary: Auxiliary.Service = {
        ...made,
        call: (task, ask) => withServices(inRecord(ask, made.call(task, ask)))
      }
      const model = yield* makeLanguageModel({ router, interceptors, provideServices: withServices, account })
      yield* Deferred.succeed(yield* Promised, auxiliary)
      return Context.make(Auxiliary.Auxiliary, auxiliary).pipe(Context.add(DeferredLanguageModel.Model, model))
    })
  )

  return {
    service: service.pipe(Layer.provide(promised)),
    /** Layer for tools. A side model of the application takes precedence. */
    sideModel: Layer.effect(
      SideModel,
      Effect.gen(function* () {
        const own = yield* SideModel
        const promise = yield* Promised
        return own ?? fromAuxiliary(makePort(promise))
      })
    ).pipe(Layer.provide(promised)),
    /** Layer for agents: the compaction engine, unless the application provides one. */
    compaction: Layer.effect(
      CompactionPort.CompactionPort,
      Effect.gen(function* () {
        const own = yield* CompactionPort.CompactionPort
        const settings = yield* Compaction.CompactionSettings
        if (own !== CompactionPort.none || settings === "off") return own
        const auxiliary = makePort(yield* Promised)
        return Compaction.make(
          settings,
          ({ message, ...ask }) =>
            Effect.map(auxiliary.call("compression", { ...ask, messages: [message] }), ({ text }) => text),
          { provider: makeProviderCompaction(auxiliary), pauses: yield* SummaryPauses }
        )
      })
    ).pipe(Layer.provide(promised)),
    /** Layer for approvals that call a judge. */
    judge: Layer.effect(
      ApprovalJudge,
      Effect.gen(function* () {
        const own = yield* Effect.serviceOption(ApprovalJudge)
        const promise = yield* Promised
        return Option.getOrElse(own, () => judgeOf(makePort(promise)))
      })
    ).pipe(Layer.provide(promised))
  }
}

/** Answers questions from plugins as a separate task, with a newly generated session id. */
export const ofPlugins = Effect.map(Auxiliary.Auxiliary, (auxiliary): PluginServices["complete"] =>
  Effect.fnUntraced(function* ({ maxOutputTokens, messages }) {
    const sessionId = yield* Ids.makeSessionId
    const taskId = Ids.TaskId.make(sessionId)
    const turnId = yield* Ids.makeTurnId(sessionId, taskId)
    const { text } = yield* auxiliary.call("plugin", {
      messages,
      maxOutputTokens,
      context: { sessionId, taskId, turnId }
    })
    return text
  })
)

/** Layers of side tasks; see {@link make}. */
export type SideTaskLayers = ReturnType<typeof make>
