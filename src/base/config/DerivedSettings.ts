/** Values that are derived from more than one key of the settings. */
import * as Result from "effect/Result"
import { ConfigError } from "../domain/AgentError.ts"
import type { Guardrail, Route } from "../domain/Route.ts"
import type { Values } from "./Settings.ts"

/** Timeouts of the side tasks that do not use the default of 30, in seconds (`hermes-product.md` §6). */
const taskTimeouts = new Map([
  ["vision", 120],
  ["web_extract", 360],
  ["compression", 120],
  ["background_review", 120],
  ["provider_compaction", 120]
])

/** Provider, model and timeout of a side task. */
interface AuxiliaryTask extends Omit<Values["auxiliary"][string], "timeout"> {
  /** Timeout in seconds. */
  readonly timeout: number
}

/** Returns the settings of a side task. A task without configuration has the provider `auto`. */
export const readAuxiliaryTask = ({ auxiliary }: Pick<Values, "auxiliary">, task: string): AuxiliaryTask => {
  const configured = Object.hasOwn(auxiliary, task) ? auxiliary[task] : undefined
  return { provider: "auto", ...configured, timeout: configured?.timeout ?? taskTimeouts.get(task) ?? 30 }
}

/** A provider that is used after the main provider has failed. */
type Fallback = Omit<Values["fallbackProviders"][number], "apiKeyEnv">

/** Returns the fallback providers in order: `fallback_providers`, or the single `fallback_model` of older files. */
export const listFallbacks = ({ fallbackModel, fallbackProviders }: Values): ReadonlyArray<Fallback> => {
  const chain = fallbackProviders.length === 0 && fallbackModel !== undefined ? [fallbackModel] : fallbackProviders
  return chain.map(({ apiKeyEnv, ...fallback }) =>
    fallback.keyEnv === undefined && apiKeyEnv !== undefined ? { ...fallback, keyEnv: apiKeyEnv } : fallback
  )
}

/** A route of a tenant, for its runs or for a side task. */
export type TenantRoute = NonNullable<Values["tenants"][string]["routes"]>[number]

/** Returns the routes of all tenants, for their runs and for side tasks. */
export const listTenantRoutes = ({ tenants }: Pick<Values, "tenants">): ReadonlyArray<TenantRoute> =>
  Object.values(tenants).flatMap(({ auxiliary = {}, routes = [] }) => [...routes, ...Object.values(auxiliary)])

/** Returns the Bedrock guardrail that every call has to pass. An incomplete guardrail is an error. */
export const readGuardrail = ({
  bedrock
}: Pick<Values, "bedrock">): Result.Result<Guardrail | undefined, ConfigError> => {
  const { guardrailIdentifier, guardrailVersion, streamProcessingMode, trace } = bedrock.guardrail
  if (guardrailIdentifier !== undefined && guardrailVersion !== undefined) {
    return Result.succeed({ guardrailIdentifier, guardrailVersion, streamProcessingMode, trace })
  }
  if (Object.keys(bedrock.guardrail).length === 0) return Result.succeed(undefined)
  const missing = guardrailIdentifier === undefined ? "guardrail_identifier" : "guardrail_version"
  const path = `bedrock.guardrail.${missing}`
  return Result.fail(new ConfigError({ path, message: `${path}: missing; set it, or remove bedrock.guardrail` }))
}

/**
 * Adds the guardrail of the settings to a route. Fails if the route does not support guardrails, so that no fallback,
 * child agent or side task bypasses the guardrail.
 */
export const addGuardrail = (route: Route, settings: Pick<Values, "bedrock">): Result.Result<Route, ConfigError> =>
  Result.flatMap(readGuardrail(settings), (guardrail) => {
    // The offline provider needs no guardrail, because it sends no requests.
    if (guardrail === undefined || route.provider === "offline") return Result.succeed(route)
    if (route.apiMode === "bedrock_converse") return Result.succeed({ ...route, guardrail })
    return Result.fail(
      new ConfigError({
        path: "bedrock.guardrail",
        message:
          `bedrock.guardrail: ${route.model} (${route.provider}) would be called without it, ` +
          "only Bedrock applies it; " +
          "choose provider bedrock, or remove bedrock.guardrail"
      })
    )
  })

/** Returns the names of the MCP servers that start in the working directory because they set no `cwd`. */
export const listServersStartedHere = ({ mcpServers }: Pick<Values, "mcpServers">): ReadonlyArray<string> =>
  Object.entries(mcpServers).flatMap(([name, { command, cwd, enabled }]) =>
    enabled && command !== undefined && cwd === undefined ? [name] : []
  )
