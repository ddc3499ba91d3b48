/**
 * Actions of `hermes model`.
 *
 * `test` makes one call with the smallest output limit that the protocol takes, without hooks, retries and fallbacks: it is
 * about the route itself. What the provider refuses is explained as a run would take it.
 *
 * Source: `hermes-llm.md` §2, §10.1, §12.3, §16.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Config from "../config/Config.ts"
import * as Edit from "../config/Edit.ts"
import { Settings, type Values } from "../config/Settings.ts"
import { ConfigError } from "../domain/AgentError.ts"
import * as Redaction from "../domain/Redaction.ts"
import type { Route } from "../domain/Route.ts"
import { Catalogue, type ModelFacts } from "../routing/Catalogue.ts"
import * as HomeCatalogue from "../routing/catalogue/HomeCatalogue.ts"
import * as Classification from "../routing/Classification.ts"
import * as ConfiguredRoutes from "../routing/ConfiguredRoutes.ts"
import * as Directory from "../routing/ProviderDirectory.ts"
import { noKey } from "../routing/RouteKeys.ts"
import * as ConfiguredModels from "./ConfiguredModels.ts"
import { Failure, notDone, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { line, note } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

interface AsJson {
  readonly json: boolean
}

/** Settings under the flags, and what is known of models. */
const surroundings = (flags: Flags.Globals) =>
  HomeCatalogue.layer.pipe(
    Layer.provideMerge(Config.layerAll(Flags.configOptions(flags)))
  )

/** Works with the route that answers, as `read` finds the logins. */
const withRoute = <A, E, R>(
  read: ConfiguredModels.Read,
  work: (route: Route, models: ConfiguredModels.Models) => Effect.Effect<A, E, R>,
  change: (settings: Values) => Values = (settings) => settings
) =>
  Effect.flatMap(Settings, (settings) =>
    ConfiguredModels.use(change(settings), read, (models) =>
      Effect.flatMap(Effect.fromResult(ConfiguredRoutes.primary(models.configured)), (route) => work(route, models))))

const keyOf = ({ apiKey, apiMode }: Route): string =>
  apiKey === undefined
    ? apiMode === "bedrock_converse" ? "credentials of the AWS SDK" : "none"
    : Redacted.value(apiKey) === Redacted.value(noKey) ? "none" : "set"

const abilities = (facts: ModelFacts): ReadonlyArray<string> =>
  (["tools", "vision", "reasoning", "caching"] as const).filter((name) => facts[name] === true)

const prices = ({ price }: ModelFacts): Readonly<Record<string, string>> | null => {
  if (price === undefined) return null
  const named = { input: price.input, output: price.output, cache_read: price.cacheRead, cache_write: price.cacheWrite }
  return Object.fromEntries(
    Object.entries(named).flatMap(([name, rate]) => rate === undefined ? [] : [[name, BigDecimal.format(rate)]])
  )
}

const fallbackNames: Effect.Effect<ReadonlyArray<string>, never, Settings> = Effect.map(Settings, ({ fallbackModel, fallbackProviders }) =>
  [...fallbackProviders, ...(fallbackProviders.length === 0 && fallbackModel !== undefined ? [fallbackModel] : [])].map(
    ({ model, provider }) => `${model} of ${provider}`
  ))

/** Shows the model that answers, and what is known of it. */
export const show = (flags: Flags.Globals, { json }: AsJson) =>
  withRoute(({ look }) => () => look, Effect.fnUntraced(function*(route) {
    const catalogue = yield* Catalogue
    const facts = yield* catalogue.facts(route)
    const fallbacks = yield* fallbackNames
    const { apiMode, baseUrl, model, provider } = route
    if (json) {
      return yield* line(SafeText.json({
        provider,
        model,
        api_mode: apiMode,
        base_url: baseUrl ?? null,
        key: keyOf(route),
        context_length: facts.window.tokens,
        context_length_source: facts.window.source,
        max_output_tokens: facts.output ?? null,
        abilities: abilities(facts),
        usd_per_million_tokens: prices(facts),
        fallbacks
      }, 2))
    }
    const rates = prices(facts)
    const rows: ReadonlyArray<readonly [string, string]> = [
      ["model", model],
      ["provider", provider === "offline" ? "offline (built-in; set model.provider and model.default to use a model)" : provider],
      ["protocol", baseUrl === undefined ? apiMode : `${apiMode} at ${baseUrl}`],
      ["key", keyOf(route)],
      ["window", `${facts.window.tokens} tokens (${facts.window.source})`],
      ["answer", facts.output === undefined ? "unknown" : `up to ${facts.output} tokens`],
      ["able to", facts.known ? abilities(facts).join(", ") : "unknown"],
      [
        "price",
        rates === null ? "unknown" : `${Object.entries(rates).map(([name, rate]) => `${name} $${rate}`).join(", ")} for a million tokens`
      ],
      ["fallbacks", fallbacks.length === 0 ? "none" : fallbacks.join(", ")]
    ]
    yield* line(rows.map(([name, text]) => `${name.padEnd(9)}  ${text}`).join("\n"))
  })).pipe(Effect.provide(surroundings(flags)))

/** Ignores the configured model: another provider may not have it. */
const withAnyModel = (settings: Values): Values =>
  ({ ...settings, model: { ...settings.model, default: settings.model.default ?? "any" } })

/** Lists the models that the provider serves. */
export const list = (flags: Flags.Globals, { json, search }: AsJson & { readonly search: string }) =>
  withRoute(({ load }) => load, Effect.fnUntraced(function*(route) {
    if (route.provider === "offline") {
      const names = Directory.entries.map(({ name }) => name).join(", ")
      return yield* usage(`no provider is configured: pass --provider with one of ${names}`)
    }
    const models = yield* Catalogue.use((catalogue) => catalogue.listed(route))
    const found = models.filter(({ id }) => id.toLowerCase().includes(search.toLowerCase()))
    if (json) return yield* line(SafeText.json(found, 2))
    if (models.length === 0) {
      return yield* notDone(`${route.provider} gives no list of its models: see its documentation, then \`hermes model set\``)
    }
    if (found.length === 0) return yield* note(`No match for "${search}" in ${models.length} models`)
    const width = Math.max(...found.map(({ id }) => id.length))
    yield* line(found.map(({ id, window }) => window === undefined ? id : `${id.padEnd(width)}  ${window} tokens`).join("\n"))
  }), withAnyModel).pipe(Effect.provide(surroundings(flags)))

/** Makes a model the main one, if the settings can mean it. */
export const set = (flags: Flags.Globals, { model }: { readonly model: string }) =>
  withRoute(({ look }) => () => look, Effect.fnUntraced(function*(route) {
    const { apiMode, baseUrl, provider } = flags
    const removed = yield* Edit.setModel({ default: model, provider, base_url: baseUrl, api_mode: apiMode })
    yield* line(`${route.model} of ${route.provider} is the main model now; try it by \`hermes model test\``)
    if (removed.length > 0) yield* line(`Removed from config.yaml, because it was for the old provider or address: ${removed.join(", ")}`)
  })).pipe(Effect.provide(surroundings({ ...flags, model })))

/** OpenAI's Responses API takes no smaller limit. */
const leastOutput = ({ apiMode }: Route): number => apiMode === "codex_responses" ? 16 : 1

const ping = Effect.fnUntraced(function*(route: Route, { open }: ConfiguredModels.Models) {
  const provider = yield* open(route)
  const request = yield* provider.prepare({
    messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "Say ok." })] })],
    tools: [],
    toolChoice: "auto",
    responseFormat: { type: "text" },
    stream: false,
    maxOutputTokens: leastOutput(route),
    reasoningEffort: "none"
  })
  return yield* provider.execute(request)
}, Effect.scoped)

const refusal = ({ model, provider }: Route) => (error: AiError.AiError | ConfigError): Failure | ConfigError => {
  if (!AiError.isAiError(error)) return error
  return notDone(`${model} (${provider}) does not answer: ${Redaction.redactText(Classification.explain(error))}`)
}

/** Asks for the shortest answer. */
const asked = Effect.fnUntraced(function*(route: Route, models: ConfiguredModels.Models) {
  const started = yield* Clock.currentTimeMillis
  const answered = yield* Effect.result(Effect.timeoutOrElse(ping(route, models), {
    duration: "60 seconds",
    orElse: () => Effect.fail(notDone(`${route.model} (${route.provider}) did not answer within a minute`))
  }))
  const millis = (yield* Clock.currentTimeMillis) - started
  if (Result.isFailure(answered)) {
    const { failure } = answered
    return yield* failure instanceof Failure ? failure : refusal(route)(failure)
  }
  const { model, usage } = answered.success
  return { model, millis, tokens: usage.outputTokens.total ?? 0 }
})

/** A route that is being set up: nothing of the file counts for it. */
export interface Candidate {
  readonly provider: string
  readonly baseUrl: string | undefined
  /** Empty where the provider needs none, or the environment holds it. */
  readonly key: string
  readonly model?: string
}

const settingsOf = ({ baseUrl, key, model, provider }: Candidate) =>
  HomeCatalogue.layer.pipe(Layer.provideMerge(Config.layerAll({
    ignoreUserConfig: true,
    flags: [
      { name: "the provider", key: "model.provider", value: provider },
      { name: "the address", key: "model.base_url", value: baseUrl },
      { name: "the key", key: "model.api_key", value: key === "" ? undefined : key },
      { name: "the model", key: "model.default", value: model }
    ]
  })))

/** Names of the models that a route lists; none where it gives no list. */
export const modelsOf = (candidate: Candidate) =>
  withRoute(({ load }) => load, (route) => Catalogue.use((catalogue) => catalogue.listed(route)), withAnyModel).pipe(
    Effect.map((models) => models.map(({ id }) => id)),
    // A key that is wrong is told by the request that tries the model.
    Effect.orElseSucceed((): ReadonlyArray<string> => []),
    Effect.provide(settingsOf(candidate))
  )

/** Tries a route; one sentence about its answer, or the failure. */
export const tryRoute = (candidate: Candidate) =>
  withRoute(({ load }) => load, (route, models) =>
    Effect.map(asked(route, models), ({ millis }) => `${route.model} of ${route.provider} answers: ${millis} ms`)).pipe(
      Effect.provide(settingsOf(candidate))
    )

/** Asks the model for the shortest answer. */
export const test = (flags: Flags.Globals, { json }: AsJson) =>
  withRoute(({ load }) => load, Effect.fnUntraced(function*(route, models) {
    const { millis, model, tokens } = yield* asked(route, models)
    if (json) {
      return yield* line(SafeText.json({ provider: route.provider, model: route.model, answered_as: model ?? null, millis, output_tokens: tokens }))
    }
    const as = model === undefined || model === route.model ? "" : ` as ${model}`
    yield* line(`${route.model} of ${route.provider} answers${as}: ${millis} ms, ${tokens} ${tokens === 1 ? "token" : "tokens"}`)
  })).pipe(Effect.provide(surroundings(flags)))
