/**
 * The provider and model of a job: those of the moment when it was made, in place of those of the settings when it runs.
 * Pure.
 *
 * **Details**
 *
 * A key is never remembered. One of the settings goes with the provider that it was given for; where the settings name
 * another provider by now, the job's is asked with the key that its own variable or pool has.
 *
 * Source: `hermes-product.md` §2.5 ("provider and model are snapshotted at creation").
 */
import * as Result from "effect/Result"
import type { Environment } from "../../config/Environment.ts"
import * as RouteStatement from "../../config/RouteStatement.ts"
import type { Values } from "../../config/Settings.ts"
import * as ConfiguredRoutes from "../../routing/ConfiguredRoutes.ts"
import type { Model } from "./Job.ts"

const defined = ({ base_url, model, provider }: { readonly [K in keyof Model]: Model[K] | undefined }): Model => ({
  ...(provider === undefined ? {} : { provider }),
  ...(model === undefined ? {} : { model }),
  ...(base_url === undefined ? {} : { base_url })
})

/** Takes the model of the settings as it is now; nothing where no model is configured. */
export const take = (settings: Values, environment: Environment["Service"]): Model => {
  const { baseUrl, default: model, provider } = settings.model
  if (provider !== "auto") return defined({ provider, model, base_url: baseUrl })
  const route = ConfiguredRoutes.primary({ settings, environment })
  return Result.isFailure(route) || route.success.provider === "offline"
    ? defined({ provider: undefined, model, base_url: baseUrl })
    : defined({ provider: route.success.provider, model: route.success.model, base_url: baseUrl })
}

/**
 * The settings with the model of a job, laid over that of the settings as one source over another: what belongs to another
 * provider or address than the job's goes.
 */
export const apply = (settings: Values, environment: Environment["Service"], wanted: Model): Values => {
  const { default: model, ...own } = settings.model
  const current = take(settings, environment)
  const chosen = wanted.model ?? model
  const named = chosen === undefined ? {} : { default: chosen }
  const isSame = (wanted.provider === undefined || wanted.provider === current.provider) &&
    (wanted.base_url === undefined && wanted.provider === undefined || wanted.base_url === settings.model.baseUrl)
  if (isSame) return { ...settings, model: { ...settings.model, ...named } }
  // A job that names a provider and no address means the provider's own.
  const { apiKey: _, baseUrl: __, ...rest } = RouteStatement.over(own, { provider: wanted.provider, baseUrl: wanted.base_url })
  return {
    ...settings,
    model: { ...rest, ...named, ...(wanted.base_url === undefined ? {} : { baseUrl: wanted.base_url }) },
    // The address is the job's now: no variable of another source follows it.
    sources: undefined
  }
}
