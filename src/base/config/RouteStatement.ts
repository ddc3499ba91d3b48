/**
 * Lays one source's statement about a route over a weaker source's. A route is one value: when the stronger source
 * names another provider or address, nothing of the weaker one's that belonged to the old one stays. Pure.
 *
 * **Details**
 *
 * | the stronger source names | of the weaker source goes |
 * | --- | --- |
 * | another provider | address, keys, protocol, model options |
 * | another address | keys, protocol, model options |
 * | a provider or an address, where the weaker one names none | keys: no source says for which provider they are |
 * | the same, or neither | nothing |
 *
 * A provider without an address uses its own default address; `custom` has no default. An address without a provider
 * belongs to the provider of its host, else to `custom`. `auto` is a separate provider: the search for a provider must
 * not use the key of another one.
 *
 * Settings use it for the sections that describe a route, source by source. Routing uses it for routes that inherit
 * from the main model (children, side tasks, jobs).
 *
 * Source: `ARCHITECTURE.md` §4 and §7 ("a key and its address").
 */
import { normalizeAddress } from "../domain/EndpointAddress.ts"
import * as KnownProviders from "./KnownProviders.ts"

/** Statement of one source about a route, by the names of {@link Settings}. */
export interface Statement {
  readonly provider?: string | undefined
  readonly baseUrl?: string | undefined
}

/** A member of a statement that is meant for one provider, at one address. */
export type BoundMember =
  | "baseUrl"
  | "apiKey"
  | "keyEnv"
  | "apiKeyEnv"
  | "apiMode"
  | "maxTokens"
  | "contextLength"
  | "ollamaNumCtx"

const keys: ReadonlyArray<BoundMember> = ["apiKey", "keyEnv", "apiKeyEnv"]
/** Members that are for one address. */
export const ofAddress: ReadonlyArray<BoundMember> = [...keys, "apiMode", "maxTokens", "contextLength", "ollamaNumCtx"]
const ofProvider: ReadonlyArray<BoundMember> = ["baseUrl", ...ofAddress]

/** Keys of the file by member. */
export const fileKeys: Readonly<Record<BoundMember, string>> = {
  baseUrl: "base_url",
  apiKey: "api_key",
  keyEnv: "key_env",
  apiKeyEnv: "api_key_env",
  apiMode: "api_mode",
  maxTokens: "max_tokens",
  contextLength: "context_length",
  ollamaNumCtx: "ollama_num_ctx"
}

const readStated = (text: string | undefined): string | undefined => {
  const trimmed = text?.trim()
  return trimmed === "" ? undefined : trimmed
}

const isAuto = (provider: string | undefined): boolean => provider === undefined || provider.toLowerCase() === "auto"

/** Providers whose address the user has to set. A named endpoint has its address with it. */
const needAddress = new Set(["custom", "azure"])

const findProvider = ({ baseUrl, provider }: Statement): string | undefined => {
  const named = readStated(provider)
  if (named !== undefined && !isAuto(named)) return KnownProviders.canonicalize(named)
  const address = readStated(baseUrl)
  return address === undefined ? undefined : KnownProviders.findOwner(address)
}

/** Returns the address of a statement: its own, or its provider's. */
const findAddress = (statement: Statement): string | undefined => {
  const address = readStated(statement.baseUrl) ?? KnownProviders.findOwnAddress(findProvider(statement) ?? "")
  return address === undefined ? undefined : normalizeAddress(address)
}

/** Members of `weaker` that `stronger` supersedes, by the table above. */
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

/** The statement that two sources make together; members that the stronger one leaves undefined are not said by it. */
export const merge = <S extends Statement>(weaker: S, stronger: { readonly [K in keyof S]?: S[K] | undefined }): S => {
  const gone = new Set<string>(listSuperseded(weaker, stronger))
  return Object.fromEntries([
    ...Object.entries(weaker).filter(([name]) => !gone.has(name)),
    ...Object.entries(stronger).filter(([, value]) => value !== undefined)
    // Every member that can go is optional.
  ]) as S
}
