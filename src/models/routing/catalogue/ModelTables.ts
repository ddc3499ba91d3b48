/**
 * Looks up models in the tables of this package by their ids. All functions are pure.
 *
 * **Gotchas**
 *
 * A family is found by the longest key that an id contains. A price is found by the exact id without date, because
 * prices differ within a family.
 *
 * Source: `hermes-llm.md` §10.1, §12.3.
 */
import * as Directory from "../ProviderDirectory.ts"
import * as ModelData from "./ModelData.ts"

/** Matches tags after the colon in names of local models: `7b`, `latest`, `q4_K_M`. */
const tag = /^(latest|stable|instruct|chat|text|vision|free|beta|\d+(\.\d+)?[bm]\b.*|q\d.*|fp?16.*|v\d+(:\d+)?)$/i

/** Removes a leading provider name from an id (`anthropic:claude-…`). */
export const stripProvider = (model: string): string => {
  const colon = model.indexOf(":")
  if (colon <= 0 || tag.test(model.slice(colon + 1))) return model
  return Directory.findProvider(model.slice(0, colon)) === undefined ? model : model.slice(colon + 1)
}

/** Removes the vendor before the slash from an id. */
export const stripVendor = (model: string): string => model.slice(model.lastIndexOf("/") + 1)

/**
 * Converts an id to lower case with hyphens instead of dots: `claude-opus-4.6` and `claude-opus-4-6` are the same
 * model.
 */
const foldName = (model: string): string => model.trim().toLowerCase().replaceAll(".", "-")

/** Removes region, vendor, date and version from a Bedrock model id. */
const stripBedrockParts = (model: string): string =>
  model
    .toLowerCase()
    .replace(/^arn:.*\//, "")
    .replace(/^(us-gov|us|eu|apac|ap|global|jp|au|ca|sa)\./, "")
    .replace(/^[a-z0-9-]+\./, "")
    .replace(/-v\d+(:\d+)*$/, "")
    .replace(/-\d{8}$/, "")

/** Removes a date or `latest` from the end of an id. */
const stripDate = (model: string): string => model.replace(/-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, "")

/** Returns the value of the longest key that the id contains. The keys are already normalized with `foldName`. */
const findLongestMatch = <A>(table: ReadonlyMap<string, A>, model: string): A | undefined => {
  const id = foldName(model)
  let best: string | undefined
  for (const key of table.keys()) {
    if (id.includes(key) && key.length > (best?.length ?? 0)) best = key
  }
  return best === undefined ? undefined : table.get(best)
}

/** Capabilities of a model; `undefined` if unknown. */
export interface Abilities {
  readonly vision: boolean | undefined
  readonly reasoning: boolean | undefined
  readonly tools: boolean | undefined
  readonly caching: boolean | undefined
}

/** Capabilities and limits of a model family. */
interface Family extends Abilities {
  /** Context window in tokens. */
  readonly window: number
  /** Maximum number of tokens of one answer; `undefined` if the table does not contain it. */
  readonly output: number | undefined
}

const readFamily = ([window, output, letters]: ModelData.FamilyRow): Family => ({
  window,
  output,
  vision: letters.includes("v"),
  reasoning: letters.includes("r"),
  tools: letters.includes("t"),
  caching: letters.includes("c")
})

const families: ReadonlyMap<string, Family> = new Map(
  Object.entries(ModelData.families).map(([key, row]) => [foldName(key), readFamily(row)])
)

/** Returns the family of a model, or `undefined` if the model is unknown. */
export const findFamily = (model: string): Family | undefined => findLongestMatch(families, stripProvider(model))

/** One row of prices, as strings, so that prices are never converted to binary fractions. */
interface Row {
  readonly input: string
  readonly output: string
  readonly cacheRead: string | undefined
  readonly cacheWrite: string | undefined
}

const parseRow = (text: string): Row => {
  const [input = "0", output = "0", cacheRead, cacheWrite] = text.split(" ")
  const parsePrice = (column: string | undefined): string | undefined => (column === "-" ? undefined : column)
  return { input, output, cacheRead: parsePrice(cacheRead), cacheWrite: parsePrice(cacheWrite) }
}

const foldedRows = new Map<ModelData.PriceTable, ReadonlyMap<string, string>>()

const foldRows = (table: ModelData.PriceTable): ReadonlyMap<string, string> => {
  const found = foldedRows.get(table)
  if (found !== undefined) return found
  const made = new Map(Object.entries(table.rows).map(([id, row]): [string, string] => [foldName(id), row]))
  foldedRows.set(table, made)
  return made
}

/** A price and the address of its publication. */
interface PublishedPrice {
  readonly row: Row
  readonly url: string
}

/** Returns the price of a model at a provider, or `undefined`. */
export const findPrice = (provider: string, model: string): PublishedPrice | undefined => {
  const name = Object.hasOwn(ModelData.sharedPrices, provider)
    ? (ModelData.sharedPrices[provider] ?? provider)
    : provider
  const table = Object.hasOwn(ModelData.prices, name) ? ModelData.prices[name] : undefined
  if (table === undefined) return undefined
  const id = foldName(stripVendor(stripProvider(name === "bedrock" ? stripBedrockParts(model) : model)))
  const rows = foldRows(table)
  const row = rows.get(id) ?? rows.get(stripDate(id))
  return row === undefined ? undefined : { row: parseRow(row), url: table.url }
}
