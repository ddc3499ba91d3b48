/**
 * Settings of models: which one, by which provider, at which address, and what happens when it does not answer.
 *
 * Source: `hermes-llm.md` §21, `hermes-product.md` §6.
 */
import { Configurable } from "../domain/ApiMode.ts"
import * as F from "./Fields.ts"

/** Effort of a model's thinking; `none` turns it off. */
export const reasoningEffort = F.choice(["none", "minimal", "low", "medium", "high", "xhigh"])

/** `model`: the main model. */
export const model = F.defaulted({
  default: F.optional(F.text),
  provider: F.withDefault(F.text, "auto"),
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  /** Absent means found out from provider, model and address. */
  apiMode: F.optional(Configurable),
  maxTokens: F.optional(F.positive),
  contextLength: F.optional(F.positive),
  ollamaNumCtx: F.optional(F.positive),
  streaming: F.withDefault(F.flag, true)
})

/** `providers.<id>`: deadlines in seconds; those of a model win over those of its provider. */
export const provider = F.section({
  requestTimeoutSeconds: F.optional(F.seconds),
  staleTimeoutSeconds: F.optional(F.seconds),
  /** Address at which `hermes model login` logs in, instead of at the provider's own service. */
  loginBaseUrl: F.optional(F.text),
  models: F.withDefault(
    F.mapOf(F.section({ timeoutSeconds: F.optional(F.seconds), staleTimeoutSeconds: F.optional(F.seconds) })),
    {}
  )
})

/** `custom_providers[]`: endpoints with a name of their own. */
export const customProvider = F.section({
  name: F.text,
  baseUrl: F.text,
  apiKey: F.optional(F.secret),
  /** Environment variable that holds the key. */
  keyEnv: F.optional(F.text),
  apiMode: F.optional(Configurable),
  models: F.withDefault(F.mapOf(F.section({ contextLength: F.optional(F.positive) })), {})
})

/** `fallback_providers[]` and the older `fallback_model`. `api_key_env` is another name of `key_env`. */
export const fallback = F.section({
  provider: F.text,
  model: F.text,
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  keyEnv: F.optional(F.text),
  apiKeyEnv: F.optional(F.text),
  apiMode: F.optional(Configurable)
})

/** `<provider>.api_keys`: the keys that a provider's pool is made of. */
export const providerKeys = F.section({ apiKeys: F.withDefault(F.secrets, []) })

/** `credential_pool_strategies.<provider>`. */
export const poolStrategy = F.choice(["fill_first", "round_robin", "random", "least_used"])

/** `provider_routing`: what OpenRouter is told about the providers behind it. */
export const providerRouting = F.defaulted({
  only: F.withDefault(F.texts, []),
  ignore: F.withDefault(F.texts, []),
  order: F.withDefault(F.texts, []),
  sort: F.optional(F.choice(["price", "throughput", "latency"])),
  requireParameters: F.optional(F.flag),
  dataCollection: F.optional(F.choice(["allow", "deny"]))
})

/** `auxiliary.<task>`: who does a side task. The default of `timeout` depends on the task: `Derived.auxiliaryTask`. */
export const auxiliary = F.section({
  provider: F.withDefault(F.text, "auto"),
  model: F.optional(F.text),
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  apiMode: F.optional(Configurable),
  timeout: F.optional(F.seconds),
  contextLength: F.optional(F.unsupported(F.positive))
})

/** `bedrock`: a guardrail needs identifier and version, and every route of a run has to be one of Bedrock: `Derived.guardrail`. */
export const bedrock = F.defaulted({
  guardrail: F.defaulted({
    guardrailIdentifier: F.optional(F.text),
    /** A number, or `DRAFT`. */
    guardrailVersion: F.optional(F.argument),
    streamProcessingMode: F.optional(F.choice(["sync", "async"])),
    trace: F.optional(F.choice(["enabled", "disabled", "enabled_full"]))
  })
})

/**
 * `network`: deadlines of model calls in seconds. The contract knows them as environment variables (`HERMES_API_TIMEOUT`,
 * `HERMES_STREAM_READ_TIMEOUT`, …); what is absent here depends on the route (`hermes-llm.md` §2.5).
 */
export const network = F.defaulted({
  requestTimeoutSeconds: F.optional(F.seconds),
  streamReadTimeoutSeconds: F.optional(F.seconds),
  streamStaleTimeoutSeconds: F.optional(F.seconds),
  callStaleTimeoutSeconds: F.optional(F.seconds),
  streamRetries: F.withDefault(F.count, 2)
})
