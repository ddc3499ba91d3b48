/**
 * Describes the differences between endpoints of the Responses API.
 *
 * **Details**
 *
 * | backend | differs in |
 * | --- | --- |
 * | `chatgpt` (ChatGPT's Codex backend) | supports only streaming; no output limit or temperature; requires instructions and additional headers |
 * | `openai` | – |
 * | `xai` | efforts up to `high`, and no effort for models that refuse the field; the cache key is sent as a header |
 * | `github` (Copilot, GitHub Models) | a different reasoning field, no encrypted reasoning, no cache key |
 * | `other` | reasoning fields are sent only if requested or if the model is known to reason |
 *
 * Source: `hermes-llm.md` §2.4, §4.3, §14.2.
 */
import * as Base64Url from "effect/encoding/Base64Url"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Json from "../../../base/domain/Json.ts"
import type { Route } from "../../../base/domain/Route.ts"

// Endpoints

/** Kind of Responses API server. */
export type Backend = "chatgpt" | "openai" | "xai" | "github" | "other"

const hosts: ReadonlyArray<readonly [domain: string, backend: Backend]> = [
  ["chatgpt.com", "chatgpt"],
  ["api.openai.com", "openai"],
  ["azure.com", "openai"],
  ["x.ai", "xai"],
  ["githubcopilot.com", "github"],
  ["models.github.ai", "github"]
]

const providers: ReadonlyMap<string, Backend> = new Map<string, Backend>([
  ["openai-codex", "chatgpt"],
  ["xai", "xai"],
  ["copilot", "github"]
])

const isWithin = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`)

/** Returns the backend of a route, determined by its host, otherwise by the provider's name. */
export const findBackend = (route: Route): Backend => {
  const provider = providers.get(route.provider.trim().toLowerCase())
  if (route.baseUrl === undefined) return provider ?? "openai"
  const host = URL.parse(route.baseUrl)?.hostname ?? ""
  return hosts.find(([domain]) => isWithin(host, domain))?.[1] ?? provider ?? "other"
}

// Headers

/** Returns the account to which a ChatGPT token belongs, or `undefined` if the token does not contain it. */
const readAccount = (token: string): string | undefined => {
  const payload = token.split(".")[1]
  if (payload === undefined) return undefined
  const text = Result.getOrElse(Base64Url.decodeString(payload), () => "")
  const claims = Json.readFields(Option.getOrUndefined(Json.parse(text)))
  return Json.readString(Json.readFields(claims["https://api.openai.com/auth"])["chatgpt_account_id"])
}

/** Returns the additional headers that a backend requires. The headers of the route take precedence. */
export const makeHeaders = (route: Route): Readonly<Record<string, string>> => {
  if (findBackend(route) !== "chatgpt") return {}
  const account = route.apiKey === undefined ? undefined : readAccount(Redacted.value(route.apiKey))
  return {
    "user-agent": "codex_cli_rs/0.0.0 (hermes-effect)",
    originator: "codex_cli_rs",
    ...(account === undefined ? {} : { "chatgpt-account-id": account })
  }
}
