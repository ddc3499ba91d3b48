/**
 * Settings of the Langfuse export: keys, host, sampling and limits, from the variables `HERMES_LANGFUSE_*`.
 *
 * **Details**
 *
 * | variable | | |
 * | --- | --- | --- |
 * | `HERMES_LANGFUSE_PUBLIC_KEY` ¹ | `pk-lf-…` | required |
 * | `HERMES_LANGFUSE_SECRET_KEY` ¹ | `sk-lf-…` | required |
 * | `HERMES_LANGFUSE_BASE_URL` ¹ | the host | `https://cloud.langfuse.com` |
 * | `HERMES_LANGFUSE_ENV` ¹ | the environment | none |
 * | `HERMES_LANGFUSE_RELEASE` ¹ | the release | none |
 * | `HERMES_LANGFUSE_SAMPLE_RATE` | the fraction of sessions to trace, 0 to 1 | 1 |
 * | `HERMES_LANGFUSE_MAX_CHARS` | maximum length of a string, in characters | 12000 |
 * | `HERMES_LANGFUSE_DEBUG` | logs the data that is sent | no |
 * | `HERMES_LANGFUSE_USER_ID` | the user, if the platform does not provide one | none |
 * | `HERMES_LANGFUSE_TAGS` | additional tags, separated by commas | none |
 *
 * ¹ If unset, the variable `LANGFUSE_…` is used instead. Values are trimmed; an empty value counts as unset. The last
 * two variables are specific to this program.
 *
 * Source: `hermes-contract.md` §5 ("Environment").
 */
import * as Redacted from "effect/Redacted"
import { isTruthy } from "../../agent/plugin/Discovery.ts"

/** Complete settings of the export. */
export interface Settings {
  readonly publicKey: string
  readonly secretKey: Redacted.Redacted
  readonly baseUrl: string
  readonly environment: string | undefined
  readonly release: string | undefined
  /** Fraction of sessions to trace, from 0 to 1. */
  readonly sampleRate: number
  readonly maxChars: number
  readonly debug: boolean
  readonly userId: string | undefined
  readonly tags: ReadonlyArray<string>
}

/** Settings that an application provides: the keys, and any settings that override the defaults. */
export type Options = Pick<Settings, "publicKey" | "secretKey"> & {
  readonly [K in Exclude<keyof Settings, "publicKey" | "secretKey">]?: Settings[K] | undefined
}

/** Completes the settings of an application with the defaults. */
export const complete = (options: Options): Settings => ({
  publicKey: options.publicKey,
  secretKey: options.secretKey,
  baseUrl: (options.baseUrl ?? "https://cloud.langfuse.com").replace(/\/+$/u, ""),
  environment: options.environment,
  release: options.release,
  sampleRate: options.sampleRate ?? 1,
  maxChars: options.maxChars ?? 12_000,
  debug: options.debug ?? false,
  userId: options.userId,
  tags: options.tags ?? []
})

/**
 * Settings read from the variables. If `settings` is `undefined`, nothing is traced and a warning explains the reason.
 */
export interface LoadedSettings {
  readonly settings: Settings | undefined
  readonly warnings: ReadonlyArray<string>
}

const prefix = "HERMES_LANGFUSE_"

const publicPrefix = "pk-lf-"
const secretPrefix = "sk-lf-"

/** Masks an invalid public key for display. A secret key is never shown. */
const maskKey = (key: string): string => (key.length <= 12 ? key : `${key.slice(0, 6)}...`)

const findKeyFault = (publicKey: string | undefined, secretKey: string | undefined): string | undefined => {
  const missing = [
    ...(publicKey === undefined ? [`${prefix}PUBLIC_KEY`] : []),
    ...(secretKey === undefined ? [`${prefix}SECRET_KEY`] : [])
  ]
  if (missing.length > 0)
    return `set ${missing.join(" and ")}, or disable observability/langfuse: until then, nothing is traced`
  const wrong = [
    ...(publicKey?.startsWith(publicPrefix) === false
      ? [`${prefix}PUBLIC_KEY must begin with ${publicPrefix} (it is "${maskKey(publicKey)}")`]
      : []),
    ...(secretKey?.startsWith(secretPrefix) === false ? [`${prefix}SECRET_KEY must begin with ${secretPrefix}`] : [])
  ]
  return wrong.length === 0
    ? undefined
    : `${wrong.join(", ")}: copy the keys from the settings of the project; nothing is traced without`
}

const isUrl = (text: string): boolean => {
  const url = URL.parse(text)
  return url !== null && /^https?:$/u.test(url.protocol) && url.username === "" && url.password === ""
}

const environmentName = /^(?!langfuse)[a-z0-9_-]{1,40}$/u

/** Reads the settings from variables. `get` returns the value of a variable. */
export const fromVariables = (get: (name: string) => string | undefined): LoadedSettings => {
  const readOwnVariable = (name: string): string | undefined => get(`${prefix}${name}`)?.trim() || undefined
  const readVariable = (name: string): string | undefined =>
    readOwnVariable(name) ?? (get(`LANGFUSE_${name}`)?.trim() || undefined)
  const [publicKey, secretKey] = [readVariable("PUBLIC_KEY"), readVariable("SECRET_KEY")]
  const fault = findKeyFault(publicKey, secretKey)
  if (fault !== undefined || publicKey === undefined || secretKey === undefined) {
    return { settings: undefined, warnings: fault === undefined ? [] : [fault] }
  }
  const baseUrl = readVariable("BASE_URL")
  if (baseUrl !== undefined && !isUrl(baseUrl)) {
    return {
      settings: undefined,
      warnings: [
        `${prefix}BASE_URL must be an http or https address without credentials: until then, nothing is traced`
      ]
    }
  }
  const warnings: Array<string> = []
  const readNumber = (name: string, fits: (number: number) => boolean, form: string): number | undefined => {
    const text = readOwnVariable(name)
    if (text === undefined) return undefined
    const number = Number(text)
    if (fits(number)) return number
    warnings.push(`${prefix}${name} must be ${form}: it is ignored`)
    return undefined
  }
  const environment = readVariable("ENV")
  if (environment !== undefined && !environmentName.test(environment)) {
    warnings.push(
      `${prefix}ENV must be up to 40 characters from a-z, 0-9, - and _, and must not begin with langfuse; it is ignored`
    )
  }
  const settings = complete({
    publicKey,
    secretKey: Redacted.make(secretKey),
    baseUrl,
    environment: environment !== undefined && environmentName.test(environment) ? environment : undefined,
    release: readVariable("RELEASE"),
    sampleRate: readNumber("SAMPLE_RATE", (rate) => rate >= 0 && rate <= 1, "a number from 0 to 1"),
    maxChars: readNumber("MAX_CHARS", (chars) => Number.isSafeInteger(chars) && chars > 0, "a number of characters"),
    debug: isTruthy(readOwnVariable("DEBUG")),
    userId: readOwnVariable("USER_ID"),
    tags: (readOwnVariable("TAGS") ?? "")
      .split(",")
      .map((tag) => tag.trim())
      .filter((tag) => tag !== "")
  })
  return { settings, warnings }
}
