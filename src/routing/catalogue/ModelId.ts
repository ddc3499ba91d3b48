/**
 * Ids of models in the forms under which tables know them. Pure.
 *
 * Source: `hermes-llm.md` §10.1, §12.3.
 */
import * as Directory from "../ProviderDirectory.ts"

/** Tags after a colon in the names of local models: `7b`, `latest`, `q4_K_M`. */
const tag = /^(latest|stable|instruct|chat|text|vision|free|beta|\d+(\.\d+)?[bm]\b.*|q\d.*|fp?16.*|v\d+(:\d+)?)$/i

/** The id without the name of a provider that stands before it (`anthropic:claude-…`). */
export const withoutProvider = (model: string): string => {
  const colon = model.indexOf(":")
  if (colon <= 0 || tag.test(model.slice(colon + 1))) return model
  return Directory.find(model.slice(0, colon)) === undefined ? model : model.slice(colon + 1)
}

/** The id without the vendor before the slash. */
export const bare = (model: string): string => model.slice(model.lastIndexOf("/") + 1)

/** Lower case, and dots as hyphens: `claude-opus-4.6` and `claude-opus-4-6` are one model. */
export const folded = (model: string): string => model.trim().toLowerCase().replaceAll(".", "-")

/** A model of Bedrock by its vendor's name: without region, vendor, date and version. */
export const ofBedrock = (model: string): string =>
  model.toLowerCase()
    .replace(/^arn:.*\//, "")
    .replace(/^(us-gov|us|eu|apac|ap|global|jp|au|ca|sa)\./, "")
    .replace(/^[a-z0-9-]+\./, "")
    .replace(/-v\d+(:\d+)*$/, "")
    .replace(/-\d{8}$/, "")

/** Without the date, or the word for the newest, at its end. */
export const undated = (model: string): string => model.replace(/-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, "")

/** The value of the longest key that the id contains; keys are folded as the id is. */
export const longestIn = <A>(table: ReadonlyMap<string, A>, model: string): A | undefined => {
  const id = folded(model)
  let best: string | undefined
  for (const key of table.keys()) {
    if (id.includes(key) && key.length > (best?.length ?? 0)) best = key
  }
  return best === undefined ? undefined : table.get(best)
}
