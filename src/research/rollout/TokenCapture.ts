/**
 * Reads token ids and log probabilities from the answers of chat completion servers, and defines the request fields
 * that request them.
 *
 * **Details**
 *
 * | server | request fields | ids | log probabilities |
 * | --- | --- | --- | --- |
 * | OpenAI and compatible | `logprobs` | none | `choices[].logprobs.content[].logprob` |
 * | vLLM | `logprobs`, `return_token_ids` | `prompt_token_ids`, `choices[].token_ids` | as OpenAI |
 * | vLLM, older | `logprobs`, `return_tokens_as_token_ids` | `token_id:N` in place of each token | as OpenAI |
 * | SGLang | `logprobs`, `return_prompt_token_ids`, `return_meta_info` | `choices[].prompt_token_ids`, `meta_info.output_token_logprobs` | the same: `[logprob, id, …]` |
 *
 * Values are never computed from text. If a server does not return a value, the value is absent and the reason is
 * reported.
 *
 * **Example** (An answer of vLLM)
 *
 * ```ts
 * import { TokenCapture } from "hermes-effect/rollouts"
 *
 * const { logprobs, tokens } = TokenCapture.read({
 *   prompt_token_ids: [1, 2],
 *   choices: [{ token_ids: [7], logprobs: { content: [{ token: "a", logprob: -0.5 }] } }]
 * })
 *
 * console.log(tokens, logprobs)
 * // => [ 7 ] [ -0.5 ]
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Json from "../../base/domain/Json.ts"

/**
 * Kinds of request fields that request tokens: the fields of inference servers, the fields of the OpenAI API, or no
 * fields.
 */
export const dialects = ["token_ids", "logprobs", "none"] as const
/** One of {@link dialects}. */
export type Dialect = (typeof dialects)[number]

/** Hosts whose API refuses unknown fields and returns no token ids. */
const strictHosts =
  /(?:^|\.)(?:openai\.com|azure\.com|anthropic\.com|googleapis\.com|mistral\.ai|groq\.com|x\.ai|openrouter\.ai|deepseek\.com)$/u

/**
 * Chooses the dialect for an address. An unknown host is assumed to be an inference server, which accepts unknown
 * fields.
 */
export const chooseDialect = (baseUrl: string | undefined): Dialect => {
  const host = baseUrl !== undefined && URL.canParse(baseUrl) ? new URL(baseUrl).hostname : ""
  return strictHosts.test(host) ? "logprobs" : "token_ids"
}

/**
 * Returns the request fields that request tokens. `extra` contains the fields that the SDK does not know, which are
 * passed in `extra_body`.
 */
export const listRequestFields = (dialect: Dialect): { readonly own: Json.Fields; readonly extra: Json.Fields } => {
  switch (dialect) {
    case "none":
      return { own: {}, extra: {} }
    case "logprobs":
      return { own: { logprobs: true }, extra: {} }
    case "token_ids":
      return {
        own: { logprobs: true },
        extra: { return_token_ids: true, return_prompt_token_ids: true, return_meta_info: true }
      }
  }
}

/** Token data of one answer. */
export interface CapturedTokens {
  readonly promptTokens: ReadonlyArray<number> | undefined
  readonly tokens: ReadonlyArray<number> | undefined
  readonly logprobs: ReadonlyArray<number> | undefined
  /** Reasons for absent values. */
  readonly problems: ReadonlyArray<string>
}

/**
 * Reads a list of token ids. Returns `undefined` if the value is not a list, is empty, or contains anything but
 * non-negative integers.
 */
const readTokenIds = (value: unknown): ReadonlyArray<number> | undefined => {
  const list = Json.readItems(value)
  return list.length > 0 && list.every((one): one is number => Number.isSafeInteger(one) && Number(one) >= 0)
    ? list
    : undefined
}

const readNumbers = (list: ReadonlyArray<unknown>): ReadonlyArray<number> | undefined =>
  list.length > 0 && list.every((one): one is number => typeof one === "number" && Number.isFinite(one))
    ? list
    : undefined

/** Parses the id in a `token_id:<number>` token. */
const parseTokenId = (token: unknown): number | undefined => {
  const [, digits] = /^token_id:(\d+)$/u.exec(Json.readString(token) ?? "") ?? []
  return digits === undefined ? undefined : Number(digits)
}

/** Reads the token data of a chat completion. */
export const read = (raw: unknown): CapturedTokens => {
  const body = Json.readFields(raw)
  const choice = Json.readFields(Json.readItems(body["choices"])[0])
  const content = Json.readItems(Json.readFields(choice["logprobs"])["content"]).map(Json.readFields)
  const meta = Json.readItems(Json.readFields(choice["meta_info"])["output_token_logprobs"]).map(Json.readItems)
  const promptTokens = readTokenIds(body["prompt_token_ids"]) ?? readTokenIds(choice["prompt_token_ids"])
  const tokens =
    readTokenIds(choice["token_ids"]) ??
    readTokenIds(meta.map(([, id]) => id)) ??
    readTokenIds(content.map(({ token }) => parseTokenId(token)))
  const found = readNumbers(meta.map(([logprob]) => logprob)) ?? readNumbers(content.map(({ logprob }) => logprob))
  const isPaired = tokens === undefined || found === undefined || found.length === tokens.length
  const problems = [
    ...(promptTokens === undefined ? ["the provider returned no token ids of the prompt"] : []),
    ...(tokens === undefined ? ["the provider returned no token ids of the answer"] : []),
    ...(found === undefined ? ["the provider returned no log probabilities"] : []),
    ...(isPaired ? [] : [`the provider returned ${found?.length} log probabilities for ${tokens?.length} tokens`])
  ]
  return { promptTokens, tokens, logprobs: isPaired ? found : undefined, problems }
}

/** Body fields that only a trainer reads. */
const tokenFields = new Set(["prompt_token_ids", "token_ids", "meta_info", "logprobs", "prompt_logprobs"])

const omitFields = (value: Json.Fields, names: ReadonlySet<string>): Json.Fields =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)))

/** Removes token data that the client did not request from the body of an answer. */
export const hideTokens = (body: Json.Fields, asked: Json.Fields): Json.Fields => {
  const names = new Set(Array.from(tokenFields).filter((name) => !(name === "logprobs" && asked["logprobs"] === true)))
  if (asked["return_token_ids"] === true) for (const name of ["prompt_token_ids", "token_ids"]) names.delete(name)
  return {
    ...omitFields(body, names),
    choices: Json.readItems(body["choices"]).map((choice) => omitFields(Json.readFields(choice), names))
  }
}
