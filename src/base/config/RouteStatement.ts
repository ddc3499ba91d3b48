/**
 * Merges what two sources of settings state about a route; the stronger source takes precedence. If the stronger source
 * names another provider or address, the members of the weaker source that belong to the old provider or address are
 * dropped. Pure.
 *
 * **Details**
 *
 * | the stronger source names | dropped from the weaker source |
 * | --- | --- |
 * | another provider | address, keys, protocol, model options |
 * | another address | keys, protocol, model options |
 * | a provider or an address, if the weaker source names neither | keys: no source states their provider |
 * | the same, or neither | nothing |
 *
 * A provider without an address uses its default address; `custom` has no default address. An address without a
 * provider belongs to the provider of its host, or to `custom`. `auto` counts as a separate provider, so that the
 * search for a provider does not use the key of another provider.
 *
 * Settings use this module for the sections that describe a route, source by source. Routing uses it for routes that
 * inherit from the main model (children, side tasks, jobs).
 *
 * Source: `ARCHITECTURE.md` §4 and §7 ("a key and its address").
 */
import { normalizeAddress } from "../domain/EndpointAddress.ts"
import * as KnownProviders from "./KnownProviders.ts"

/** The members of a route that one source of settings states, with the names of {@link Settings}. */
export interface Statement {
  readonly provider?: string | undefined
  readonly baseUrl?: string | undefined
}

/** A member of a statement that applies only to one provider at one address. */
export type BoundMember =
  | "baseUrl"
  | "apiKey"
  | "keyEnv"
  | "apiKeyEnv"
  | "apiMode"
  | "maxTokens"
  | "contextLength"
  | "ollamaNumCtx"
  | "price"

const keys: ReadonlyArray<BoundMember> = ["apiKey", "keyEnv", "apiKeyEnv"]
/** Members that apply only to one address. */
export const ofAddress: ReadonlyArray<BoundMember> = [
  ...keys,
  "apiMode",
  "maxTokens",
  "contextLength",
  "ollamaNumCtx",
  "price"
]
const ofProvider: ReadonlyArray<BoundMember> = ["baseUrl", ...ofAddress]

/** Keys in the file, by member. */
export const fileKeys: Readonly<Record<BoundMember, string>> = {
  baseUrl: "base_url",
  apiKey: "api_key",
  keyEnv: "key_env",
  apiKeyEnv: "api_key_env",
  apiMode: "api_mode",
  maxTokens: "max_tokens",
  contextLength: "context_length",
  ollamaNumCtx: "ollama_num_ctx",
  price: "price"
}

const readStated = (text: string | undefined): string | undefined => {
  const trimmed = text?.trim()
  return trimmed === "" ? undefined : trimmed
}

const isAuto = (provider: string | undefined): boolean => provider === undefined || provider.toLowerCase() === "auto"

/**
 * Providers whose address the user has to set. Named endpoints are not listed, because their definition includes an
 * address.
 */
const needAddress = new Set(["custom", "azure"])

const findProvider = ({ baseUrl, provider }: Statement): string | undefined => {
  const named = readStated(provider)
  if (named !== undefined && !isAuto(named)) return KnownProviders.canonicalize(named)
  const address = readStated(baseUrl)
  return address === undefined ? undefined : KnownProviders.findOwner(address)
}

/** Returns the address of a statement: the stated address, or the default of its provider. */
const findAddress = (statement: Statement): string | undefined => {
  const address = readStated(statement.baseUrl) ?? KnownProviders.findOwnAddress(findProvider(statement) ?? "")
  return address === undefined ? undefined : normalizeAddress(address)
}

/** Returns the members of `weaker` that `stronger` supersedes, according to the table above. */
export const listSuperseded = (weaker: Statement, stronger: Statement): ReadonlyArray<BoundMember> => {
  const provider = readStated(stronger.provider)
  const address = readStated(stronger.baseUrl)
  if (provider === undefined && address === undefined) return []
  const old = findProvider(weaker)
  if (isAuto(provider) && address === undefined) return isAuto(readStated(weaker.provider)) ? [] : ofProvider
  if (old === undefined) return keys
  if (!isAuto(provider) && KnownProviders.canonicalize(provider ?? "") !== old) return ofProvider
  if (address === undefined) return []
  const before = findAddress(weaker)
  if (before === normalizeAddress(address)) return []
  return before === undefined && needAddress.has(old) ? keys : ofAddress
}

/** Merges the statements of two sources. Members that are `undefined` in the stronger statement count as absent. */
export const merge = <S extends Statement>(weaker: S, stronger: { readonly [K in keyof S]?: S[K] | undefined }): S => {
  const gone = new Set<string>(listSuperseded(weaker, stronger))
  return Object.fromEntries([
    ...Object.entries(weaker).filter(([name]) => !gone.has(name)),
    ...Object.entries(stronger).filter(([, value]) => value !== undefined)
    // Every member that can be dropped is optional.
  ]) as S
}
