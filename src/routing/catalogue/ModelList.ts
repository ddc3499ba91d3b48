/**
 * Reads what an endpoint says of its models in `GET …/models`, in the many shapes that there are. Pure.
 *
 * **Details**
 *
 * A window is looked for under ten names anywhere in an entry and counts when it is between 1 024 and 10 000 000. Prices
 * are for one token in the list and for a million here; negative ones ("it depends") count as none.
 *
 * Source: `hermes-llm.md` §10.1, §12.3.
 */
import * as Schema from "effect/Schema"

/** One model of a list. Everything but the id may be missing. */
export const Listed = Schema.Struct({
  id: Schema.String,
  window: Schema.optionalKey(Schema.Int),
  output: Schema.optionalKey(Schema.Int),
  vision: Schema.optionalKey(Schema.Boolean),
  reasoning: Schema.optionalKey(Schema.Boolean),
  tools: Schema.optionalKey(Schema.Boolean),
  /** US dollars for a token, as the list says it. */
  prices: Schema.optionalKey(Schema.Struct({
    input: Schema.optionalKey(Schema.String),
    output: Schema.optionalKey(Schema.String),
    cacheRead: Schema.optionalKey(Schema.String),
    cacheWrite: Schema.optionalKey(Schema.String),
    request: Schema.optionalKey(Schema.String)
  }))
})
/** One of {@link Listed}. */
export type Listed = typeof Listed.Type

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value)

const fields = (value: unknown): Fields => isFields(value) ? value : {}

const windowNames = [
  "context_length",
  "context_window",
  "max_context_length",
  "max_position_embeddings",
  "max_model_len",
  "max_input_tokens",
  "max_sequence_length",
  "max_seq_len",
  "n_ctx_train",
  "n_ctx"
]

/** A number of tokens that a window can be. */
export const plausible = (value: unknown): number | undefined => {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value
  return typeof number === "number" && Number.isInteger(number) && number >= 1_024 && number <= 10_000_000 ? number : undefined
}

/** The first of some names that has a plausible value, at any depth; an outer one before inner ones. */
const deep = (value: unknown, names: ReadonlyArray<string>, depth = 0): number | undefined => {
  if (!isFields(value) || depth > 4) return undefined
  for (const name of names) {
    const found = plausible(value[name])
    if (found !== undefined) return found
  }
  for (const inner of Object.values(value)) {
    const found = deep(inner, names, depth + 1)
    if (found !== undefined) return found
  }
  return undefined
}

const texts = (value: unknown): ReadonlyArray<string> | undefined =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : undefined

const price = (prices: Fields, names: ReadonlyArray<string>): string | undefined => {
  const found = names.map((name) => prices[name]).find((value) => typeof value === "string" || typeof value === "number")
  return found === undefined ? undefined : String(found)
}

const present = <A extends object>(given: A): { readonly [K in keyof A]?: Exclude<A[K], undefined> } =>
  // Exactly the entries whose value is undefined are left out.
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as never

const pricesOf = (entry: Fields): Listed["prices"] => {
  const pricing = fields(entry["pricing"])
  const prices = present({
    input: price(pricing, ["prompt", "input"]),
    output: price(pricing, ["completion", "output"]),
    cacheRead: price(pricing, ["cache_read", "cached_prompt", "input_cache_read"]),
    cacheWrite: price(pricing, ["cache_write", "cache_creation", "input_cache_write"]),
    request: price(pricing, ["request"])
  })
  return Object.keys(prices).length === 0 ? undefined : prices
}

const listed = (value: unknown): ReadonlyArray<Listed> => {
  const entry = fields(value)
  const id = entry["id"] ?? entry["name"] ?? entry["model"]
  if (typeof id !== "string" || id === "") return []
  const inputs = texts(fields(entry["architecture"])["input_modalities"])
  const parameters = texts(entry["supported_parameters"])
  const output = fields(entry["top_provider"])["max_completion_tokens"] ?? entry["max_output_tokens"]
  return [{
    id,
    ...present({
      window: deep(entry, windowNames),
      output: typeof output === "number" && Number.isInteger(output) && output > 0 ? output : undefined,
      vision: inputs?.includes("image"),
      reasoning: parameters?.some((name) => name === "reasoning" || name === "include_reasoning"),
      tools: parameters?.includes("tools"),
      prices: pricesOf(entry)
    })
  }]
}

/** The models of a body; none when it is no list. */
export const read = (body: unknown): ReadonlyArray<Listed> => {
  const list = Array.isArray(body) ? body : fields(body)["data"] ?? fields(body)["models"]
  return Array.isArray(list) ? list.flatMap(listed) : []
}

/** The entry for a model: its exact id, or the only one there is, or one whose id contains the other. */
export const find = (models: ReadonlyArray<Listed>, model: string): Listed | undefined => {
  const wanted = model.toLowerCase()
  const [only] = models
  return models.find(({ id }) => id.toLowerCase() === wanted) ??
    (models.length === 1 ? only : undefined) ??
    models.find(({ id }) => id.toLowerCase().includes(wanted) || wanted.includes(id.toLowerCase()))
}

/** The entry of a list of everybody's models for a bare id: its exact id, or what stands behind the vendor. */
export const findBySuffix = (models: ReadonlyArray<Listed>, model: string): Listed | undefined => {
  const wanted = model.toLowerCase()
  return models.find(({ id }) => id.toLowerCase() === wanted) ??
    models.find(({ id }) => id.toLowerCase().endsWith(`/${wanted}`))
}
