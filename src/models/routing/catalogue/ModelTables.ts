/**
 * Looks models up in the tables of this package, by the forms of their ids. Pure.
 *
 * **Gotchas**
 *
 * A family is found by the longest part that an id contains; a price by the exact id, without date: a price is not
 * guessed from a family.
 *
 * Source: `hermes-llm.md` §10.1, §12.3.
 */
import * as Directory from "../ProviderDirectory.ts"
import * as ModelData from "./ModelData.ts"

/** Tags after a colon in the names of local models: `7b`, `latest`, `q4_K_M`. */
const tag = /^(latest|stable|instruct|chat|text|vision|free|beta|\d+(\.\d+)?[bm]\b.*|q\d.*|fp?16.*|v\d+(:\d+)?)$/i

/** The id without a leading provider name (`anthropic:claude-…`). */
export const stripProvider = (model: string): string => {
  const colon = model.indexOf(":")
  if (colon <= 0 || tag.test(model.slice(colon + 1))) return model
  return Directory.findProvider(model.slice(0, colon)) === undefined ? model : model.slice(colon + 1)
}

/** The id without the vendor before the slash. */
export const stripVendor = (model: string): string => model.slice(model.lastIndexOf("/") + 1)

/** Lower case, and dots as hyphens: `claude-opus-4.6` and `claude-opus-4-6` are one model. */
const foldName = (model: string): string => model.trim().toLowerCase().replaceAll(".", "-")

/** A model of Bedrock by its vendor's name: without region, vendor, date and version. */
const stripBedrockParts = (model: string): string =>
  model
    .toLowerCase()
    .replace(/^arn:.*\//, "")
    .replace(/^(us-gov|us|eu|apac|ap|global|jp|au|ca|sa)\./, "")
    .replace(/^[a-z0-9-]+\./, "")
    .replace(/-v\d+(:\d+)*$/, "")
    .replace(/-\d{8}$/, "")

/** Without the date, or the word for the newest, at its end. */
const stripDate = (model: string): string => model.replace(/-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, "")

/** The value of the longest key that the id contains; keys are folded as the id is. */
const findLongestMatch = <A>(table: ReadonlyMap<string, A>, model: string): A | undefined => {
  const id = foldName(model)
  let best: string | undefined
  for (const key of table.keys()) {
    if (id.includes(key) && key.length > (best?.length ?? 0)) best = key
  }
  return best === undefined ? undefined : table.get(best)
}

/** Abilities of a model; undefined where unknown. */
export interface Abilities {
  readonly vision: boolean | undefined
  readonly reasoning: boolean | undefined
  readonly tools: boolean | undefined
  readonly caching: boolean | undefined
}

/** A family's abilities and limits. */
interface Family extends Abilities {
  /** Tokens. */
  readonly window: number
  /** Tokens of one answer at most; undefined where the table does not know. */
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

/** The family of a model; undefined for one that is not known. */
export const findFamily = (model: string): Family | undefined => findLongestMatch(families, stripProvider(model))

/** One row, as text, so that no price passes through a binary fraction. */
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

/** A price and the address where it was published. */
interface PublishedPrice {
  readonly row: Row
  readonly url: string
}

/** The price of a model at a provider, by their names. */
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
