/**
 * Options of `LlmFailover` as users write them, in code (camelCase) or in a file (snake_case), and the decoder of these
 * options.
 *
 * Source: the lifecycle document (LLM failover), `nexau.md` §2.1.
 */
import * as Result from "effect/Result"
import { ConfigError } from "../../../base/domain/AgentError.ts"
import { apiTypes, type Configurable } from "../../../base/domain/ApiMode.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as RouteDetection from "../../../models/routing/RouteDetection.ts"

/** Fields of any type, by name. */
export type Fields = Readonly<Record<string, unknown>>

/** A fallback provider. `llmConfig` is merged over the configuration of the primary, key by key. */
export type FallbackProvider =
  | { readonly name?: string | undefined; readonly llmConfig?: Fields | undefined }
  | { readonly name?: string | undefined; readonly llm_config?: Fields | undefined }

/** Failures of the primary after which the fallbacks are used: by HTTP status, or by the name of the error. */
export type TriggerOptions =
  | {
      readonly statusCodes?: ReadonlyArray<number | string> | undefined
      readonly exceptionTypes?: ReadonlyArray<string> | undefined
    }
  | {
      readonly status_codes?: ReadonlyArray<number | string> | undefined
      readonly exception_types?: ReadonlyArray<string> | undefined
    }

/**
 * Number of failures after which the primary is skipped, and the time for which it is skipped. `{}` means three
 * failures and 60 seconds.
 */
export type BreakerOptions =
  | { readonly failureThreshold?: number | undefined; readonly recoveryTimeoutSeconds?: number | undefined }
  | { readonly failure_threshold?: number | undefined; readonly recovery_timeout_seconds?: number | undefined }

/**
 * The options of the failover document.
 *
 * **Details**
 *
 * `fallbackProviders` is required and may be empty. Without a `trigger`, or without its status codes, 500, 502 and 503
 * lead to the fallbacks. Without a `circuitBreaker` the primary is asked every time.
 */
export type Options = { readonly trigger?: TriggerOptions | undefined } & (
  | {
      readonly fallbackProviders: ReadonlyArray<FallbackProvider>
      readonly circuitBreaker?: BreakerOptions | undefined
    }
  | {
      readonly fallback_providers: ReadonlyArray<FallbackProvider>
      readonly circuit_breaker?: BreakerOptions | undefined
    }
)

/** A decoded fallback. */
export interface Fallback {
  /** The configured name, or `fallback-` and the index of the fallback. */
  readonly name: string
  /** Settings of the fallback in snake_case, unchanged. */
  readonly config: Fields
  /** Protocol named by `api_type`. If absent, it is derived from provider, model and address. */
  readonly apiMode: Configurable | undefined
}

/** Failures that lead to the fallbacks; see {@link TriggerOptions}. */
export interface Trigger {
  readonly statusCodes: ReadonlySet<number>
  readonly exceptionTypes: ReadonlySet<string>
}

/** The decoded options. */
export interface Settings {
  readonly trigger: Trigger
  readonly fallbacks: ReadonlyArray<Fallback>
  readonly breaker: { readonly failureThreshold: number; readonly recoverySeconds: number } | undefined
}

const defaultStatusCodes = [500, 502, 503]

type Read<A> = Result.Result<A, ConfigError>

const failOption = (path: string, message: string): Read<never> =>
  Result.fail(new ConfigError({ path, message: `${path}: ${message}` }))

const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Returns the fields under their snake_case names. If a field is given in both spellings, the later one is used. */
const toFields = (value: unknown): Fields =>
  Json.isFields(value)
    ? Object.fromEntries(Object.entries(value).map(([name, field]) => [toSnakeCase(name), field]))
    : {}

const readList = (value: unknown, path: string): Read<ReadonlyArray<unknown>> =>
  Array.isArray(value) ? Result.succeed(value) : failOption(path, "expected a list")

const readNumber = (value: unknown, fallback: number, least: number, path: string): Read<number> => {
  const number = value === undefined || value === null ? fallback : Number(value)
  return Number.isFinite(number) && number >= least
    ? Result.succeed(number)
    : failOption(path, `expected a number from ${least} on`)
}

const readStatus = (value: unknown): Read<number> => {
  const status = typeof value === "string" || typeof value === "number" ? Number(value) : Number.NaN
  return Number.isInteger(status) && status >= 100 && status <= 599
    ? Result.succeed(status)
    : failOption("trigger.status_codes", `${JSON.stringify(value)} is not an HTTP status`)
}

const readTrigger = (value: unknown): Read<Trigger> =>
  Result.gen(function* () {
    const { exception_types, status_codes } = toFields(value)
    const statuses: Array<number> = []
    for (const status of yield* readList(status_codes ?? defaultStatusCodes, "trigger.status_codes")) {
      statuses.push(yield* readStatus(status))
    }
    const names = yield* readList(exception_types ?? [], "trigger.exception_types")
    return { statusCodes: new Set(statuses), exceptionTypes: new Set(names.map(String)) }
  })

const readApiMode = (config: Fields, path: string): Read<Configurable | undefined> => {
  const asked = config["api_type"] ?? config["api_mode"]
  if (asked === undefined || asked === null) return Result.succeed(undefined)
  const name = String(asked)
  return Object.hasOwn(apiTypes, name)
    ? Result.succeed(apiTypes[name])
    : failOption(`${path}.api_type`, `unknown "${name}": use one of ${Object.keys(apiTypes).join(", ")}`)
}

const readFallback = (value: unknown, index: number): Read<Fallback> =>
  Result.gen(function* () {
    const path = `fallback_providers[${index}]`
    const { llm_config, name } = toFields(value)
    const config = toFields(llm_config)
    const baseUrl = config["base_url"]
    if (baseUrl !== undefined && (typeof baseUrl !== "string" || RouteDetection.parseAddress(baseUrl).host === "")) {
      return yield* failOption(`${path}.llm_config.base_url`, "this is not an address: write it like https://host/v1")
    }
    const apiMode = yield* readApiMode(config, `${path}.llm_config`)
    return { name: typeof name === "string" && name !== "" ? name : `fallback-${index}`, config, apiMode }
  })

const readBreaker = (value: unknown): Read<Settings["breaker"]> => {
  if (value === undefined || value === null) return Result.succeed(undefined)
  const fields = toFields(value)
  return Result.gen(function* () {
    const failureThreshold = yield* readNumber(fields["failure_threshold"], 3, 1, "circuit_breaker.failure_threshold")
    const recoverySeconds = yield* readNumber(
      fields["recovery_timeout_seconds"],
      60,
      0,
      "circuit_breaker.recovery_timeout_seconds"
    )
    return { failureThreshold: Math.ceil(failureThreshold), recoverySeconds }
  })
}

/** Decodes options in either spelling, from code or from a file. */
export const read = (options: unknown): Read<Settings> =>
  Result.gen(function* () {
    const fields = toFields(options)
    const given = yield* readList(fields["fallback_providers"], "fallback_providers")
    const fallbacks: Array<Fallback> = []
    for (const [index, provider] of given.entries()) fallbacks.push(yield* readFallback(provider, index))
    return {
      trigger: yield* readTrigger(fields["trigger"]),
      fallbacks,
      breaker: yield* readBreaker(fields["circuit_breaker"])
    }
  })
