/** Converts an agent file to parts of a program's runtime: its middleware, and its sub-agents with their routes. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { SubAgent } from "../../agent/RunInput.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import { apiTypes } from "../../base/domain/ApiMode.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type { ChainEntry } from "../../models/routing/RoutedModelRouter.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"

const readText = ({ settings }: AgentFile, key: string): string | undefined => {
  const value = settings.findLast((one) => one.key === key)?.value
  return typeof value === "string" ? value : undefined
}

const readNumber = ({ settings }: AgentFile, key: string): number | undefined => {
  const value = settings.findLast((one) => one.key === key)?.value
  return typeof value === "number" ? value : undefined
}

const hasRoute = ({ settings }: AgentFile): boolean =>
  settings.some(({ key }) =>
    ["model.default", "model.provider", "model.base_url", "model.api_key", "model.api_mode"].includes(key)
  )

/** Returns the settings with the sub-agent's route as the delegation route. */
const toDelegationSettings = (settings: Values, agent: AgentFile): Values => {
  const apiMode = readText(agent, "model.api_mode")
  const apiKey = readText(agent, "model.api_key")
  const {
    apiKey: _key,
    apiMode: _mode,
    baseUrl: _url,
    model: _model,
    provider: _provider,
    ...limits
  } = settings.delegation
  const route = {
    model: readText(agent, "model.default"),
    provider: readText(agent, "model.provider"),
    baseUrl: readText(agent, "model.base_url"),
    apiKey: apiKey === undefined ? undefined : Redacted.make(apiKey),
    apiMode: apiMode === undefined ? undefined : apiTypes[apiMode]
  }
  const stated = Object.fromEntries(Object.entries(route).filter(([, value]) => value !== undefined))
  return { ...settings, delegation: { ...limits, ...stated } }
}

/** Returns the route of a sub-agent, or `undefined` if it does not set a route or uses the route of its parent. */
const resolveRoute = (
  configured: ConfiguredRoutes.RouteSources,
  agent: AgentFile
): Result.Result<ChainEntry | undefined, ConfigError> =>
  hasRoute(agent)
    ? Result.mapError(
        ConfiguredRoutes.resolveDelegated({
          ...configured,
          settings: toDelegationSettings(configured.settings, agent)
        }),
        ConfiguredRoutes.relocateError(`${agent.file.name}: llm_config`)
      )
    : Result.succeed(undefined)

/** Resolves the routes of all sub-agents of a file. */
export const resolveRoutes = (
  configured: ConfiguredRoutes.RouteSources,
  agent: AgentFile | undefined
): Result.Result<ReadonlyArray<ChainEntry>, ConfigError> =>
  Result.gen(function* () {
    const entries: Array<ChainEntry> = []
    for (const sub of agent?.subAgents ?? []) {
      const entry = yield* resolveRoute(configured, sub.agent)
      if (entry !== undefined) entries.push(entry)
    }
    return entries
  })

/** Returns the settings of the agent described by a file, except those shared with `config.yaml`. */
export const toAgentSettings = (agent: AgentFile) => ({
  ...(agent.systemPrompt === undefined ? {} : { identity: agent.systemPrompt }),
  ...(agent.systemPromptSuffix === undefined ? {} : { instructions: agent.systemPromptSuffix }),
  ...(agent.stopTools === undefined ? {} : { stopTools: agent.stopTools }),
  ...(agent.output === undefined ? {} : { output: agent.output.format }),
  ...(agent.temperature === undefined ? {} : { temperature: agent.temperature })
})

const efforts = ["none", "minimal", "low", "medium", "high", "xhigh"] as const

/**
 * Creates the sub-agents of a file. If `isReplaced` is true, a substitute answers for every model, and no routes are
 * resolved.
 */
export const makeSubAgents = Effect.fnUntraced(function* <R>(
  configured: ConfiguredRoutes.RouteSources,
  agent: AgentFile | undefined,
  middleware: (agent: AgentFile) => Effect.Effect<ReadonlyArray<Middleware.Contained>, ConfigError, R>,
  isReplaced: boolean
): Effect.fn.Return<ReadonlyArray<SubAgent>, ConfigError, R> {
  const secrets = yield* Secrets
  return yield* Effect.forEach(
    agent?.subAgents ?? [],
    Effect.fnUntraced(function* ({ agent, name }) {
      const key = readText(agent, "model.api_key")
      if (key !== undefined) secrets.add(key)
      const entry = isReplaced ? undefined : yield* Effect.fromResult(resolveRoute(configured, agent))
      const effort = readText(agent, "agent.reasoning_effort")
      return {
        name,
        settings: {
          identity: agent.systemPrompt,
          instructions: agent.systemPromptSuffix,
          temperature: agent.temperature,
          stopTools: agent.stopTools,
          output: agent.output?.format,
          maxOutputTokens: readNumber(agent, "model.max_tokens"),
          reasoningEffort: efforts.find((one) => one === effort)
        },
        route: hasRoute(agent) ? (entry?.route ?? "parent") : undefined,
        maxIterations: readNumber(agent, "agent.max_turns"),
        tools: agent.tools,
        middleware: yield* middleware(agent)
      } satisfies SubAgent
    })
  )
})
