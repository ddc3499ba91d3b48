/**
 * Places cache marks (breakpoints) in a request. The provider stores the prefix up to each mark in its prompt cache.
 *
 * **Details**
 *
 * A request has at most four marks: after the tools, after the system prompt, and in the conversation. If the request
 * has tools, the conversation's marks are at its end and at the ends of earlier requests, newest first: an earlier
 * request ended before each answer. The prefix up to there is already cached, regardless of the number of blocks after
 * it. Without tools the marks are on the last three messages, or on the last four if there is no system prompt either.
 * Marks are added to copies of the encoded messages, so the cached messages themselves never change.
 *
 * Models that remove the thinking of earlier turns lose the prefix from the first thinking of the last turn on. For
 * them, the message that opened the last turn keeps a mark.
 *
 * A conversation that already has marks set by the caller gets no additional marks.
 *
 * Source: `hermes-llm.md` §7.2.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as GrowingList from "../../base/domain/GrowingList.ts"
import * as Json from "../../base/domain/Json.ts"
import type { ApiMode } from "../../base/domain/ApiMode.ts"
import type { ModelCall, PromptCache } from "../../base/domain/ModelCall.ts"
import * as Route from "../../base/domain/Route.ts"
import * as Digest from "../../base/platform/Digest.ts"

/** Maximum number of marks in one request. */
const limit = 4

/** A mark in the format of Anthropic and compatible endpoints. */
export interface CacheControl {
  readonly type: "ephemeral"
  /** Lifetime of the cached prefix. Defaults to five minutes. */
  readonly ttl?: "1h"
}

const short: CacheControl = { type: "ephemeral" }
const long: CacheControl = { type: "ephemeral", ttl: "1h" }

/** Returns the mark with the cache lifetime that a call requests. Equal lifetimes return the same object. */
export const toCacheControl = ({ ttl }: PromptCache): CacheControl => (ttl === "1h" ? long : short)

/** Form of the marks that each protocol can express. */
const forms: Readonly<Record<ApiMode, Route.Abilities["cacheMarks"]>> = {
  anthropic_messages: "native",
  bedrock_converse: "cache_points",
  chat_completions: "envelope",
  codex_responses: "none",
  language_model: "none"
}

/** Returns the form of the marks of a request: `none` if the call asks for no cache or the route takes no marks. */
export const findForm = (cache: PromptCache | undefined, route: Route.Route): Route.Abilities["cacheMarks"] => {
  if (cache === undefined) return "none"
  const { cacheMarks } = Route.abilities(route)
  return cacheMarks === "none" && cache.routes === "always" ? forms[route.apiMode] : cacheMarks
}

/**
 * Matches OpenAI's models that can keep a prefix for a day, by their name without a vendor prefix. Models from GPT-5.6
 * on refuse the field, and keep each prefix for at least half an hour.
 */
const longLived = /^gpt-(?:4\.1|5(?!\.(?:[6-9]|\d\d)))/

/** An endpoint of OpenAI's protocols, and the name of its model without a vendor prefix. */
interface OpenAiEndpoint {
  readonly model: string
  /** True if the endpoint is known to accept the fields of OpenAI's prompt cache. */
  readonly isOpenAi: boolean
}

/**
 * Tests whether an endpoint receives the fields of OpenAI's prompt cache. Endpoints that are not OpenAI's receive them
 * for OpenAI's models if the call asks for the cache on every route (`models/routing/Adaptation` omits refused fields).
 */
export const hasOpenAiFields = (cache: PromptCache | undefined, { isOpenAi, model }: OpenAiEndpoint): boolean =>
  isOpenAi || (cache?.routes === "always" && longLived.test(model))

/** Returns the field with which OpenAI keeps the prefix of a conversation for a day, if a call asks for an hour. */
export const makeRetentionFields = (
  cache: PromptCache | undefined,
  endpoint: OpenAiEndpoint
): { readonly prompt_cache_retention?: "24h" } =>
  cache?.ttl === "1h" && hasOpenAiFields(cache, endpoint) && longLived.test(endpoint.model)
    ? { prompt_cache_retention: "24h" }
    : {}

/** Maximum length of a prompt cache key at OpenAI, in characters. */
const maxKey = 64

/** Maximum number of conversations of tenants whose keys are remembered. */
const mostTenantKeys = 256

/** Prompt cache keys of the conversations of tenants, by tenant and conversation. */
const tenantKeys = new Map<string, string>()

/** Returns the prompt cache key of a tenant's conversation, which is digested once. */
const findTenantKey = (tenant: string, id: string): string => {
  const name = JSON.stringify([tenant, id])
  const known = tenantKeys.get(name)
  if (known !== undefined) return known
  const [oldest] = tenantKeys.keys()
  if (oldest !== undefined && tenantKeys.size >= mostTenantKeys) tenantKeys.delete(oldest)
  const key = Digest.toHex(name, maxKey)
  tenantKeys.set(name, key)
  return key
}

/** Returns the prompt cache key of a call, for providers that use a key instead of marks. */
export const makeCacheKey = ({
  cacheTenant,
  conversationId,
  sharedCacheId: id = conversationId
}: Pick<ModelCall, "cacheTenant" | "conversationId" | "sharedCacheId">): string | undefined => {
  if (id === undefined) return undefined
  if (cacheTenant !== undefined) return findTenantKey(cacheTenant, id)
  return id.length <= maxKey ? id : Digest.toHex(id, maxKey)
}

/** Properties of a request on which the places of its marks depend. */
interface Placement<Message> {
  /** Number of marks before the conversation. Each reduces the number left for messages. */
  readonly before: number
  /** True if the request has tools, so that the conversation may continue after each answer. */
  readonly hasTools: boolean
  /** Tests for a message that opens a turn. Present if the model removes the thinking of earlier turns. */
  readonly opensTurn?: ((message: Message) => boolean) | undefined
}

/** Returns the indexes at which requests of the conversation ended, newest first. */
const listEnds = (messages: ReadonlyArray<{ readonly role?: unknown }>): ReadonlyArray<number> => {
  const ends = [messages.length - 1]
  for (let at = messages.length - 1; at > 0; at--) {
    if (messages[at]?.role === "assistant" && messages[at - 1]?.role !== "assistant") ends.push(at - 1)
    if (ends.length === limit) break
  }
  return ends
}

/** Returns the indexes of the messages that should carry marks, the most important first. */
const listPlaces = <Message extends { readonly role?: unknown }>(
  messages: ReadonlyArray<Message>,
  { hasTools, opensTurn }: Placement<Message>
): ReadonlyArray<number> => {
  if (!hasTools) return messages.map((_, at) => messages.length - 1 - at)
  const ends = listEnds(messages)
  if (opensTurn === undefined) return ends
  const last = messages.length - 1
  const opening = messages.findLastIndex(opensTurn)
  const [end = last, ...earlier] = ends
  // The first request of a turn continues no other: the prefix ends where the turn before was opened.
  const anchor =
    opening === last ? messages.findLastIndex((message, at) => at < opening && opensTurn(message)) : opening
  return anchor === -1 ? ends : opening === last ? [end, anchor] : [end, ...earlier.slice(0, 1), anchor]
}

/**
 * Adds marks to the encoded messages of a conversation. `mark` returns the marked form of a message, or `undefined` if
 * the message cannot carry a mark.
 */
export const markConversation = <Message extends { readonly role?: unknown }>(
  messages: ReadonlyArray<Message>,
  placement: Placement<Message>,
  mark: (message: Message) => Message | undefined
): ReadonlyArray<Message> => {
  const marked = messages.slice()
  let left = limit - placement.before
  for (const at of listPlaces(messages, placement)) {
    const message = messages[at]
    if (left === 0) break
    // Two places may be the same message.
    if (message === undefined || marked[at] !== message) continue
    const replaced = mark(message)
    if (replaced === undefined) continue
    marked[at] = replaced
    left--
  }
  return marked
}

/**
 * Creates a function that tests whether the options of messages or parts for this protocol contain marks set by the
 * caller.
 */
export const makeMarkTest = (protocol: string): ((messages: ReadonlyArray<Prompt.Message>) => boolean) => {
  const marks = GrowingList.fold<Prompt.Message, { found: boolean }>({
    begin: () => ({ found: false }),
    add: (state, { content, options }) => {
      const hasMark = (options: Prompt.ProviderOptions): boolean =>
        Json.readFields(options[protocol])["cache_control"] !== undefined
      if (hasMark(options) || (typeof content !== "string" && content.some((part) => hasMark(part.options))))
        state.found = true
    },
    copy: ({ found }) => ({ found })
  })
  return (messages) => marks(messages).found
}
