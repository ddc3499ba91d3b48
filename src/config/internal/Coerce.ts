/**
 * Text of the environment as the value that a place expects. What does not fit stays text, for the Schema to refuse.
 *
 * **Details**
 *
 * Booleans are `true`, `1`, `yes`, `on` and their opposites; lists are separated by commas (directories as in `PATH`) or
 * written as JSON; mappings are JSON.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Json from "../../domain/Json.ts"
import type { Shape, Value } from "./Shape.ts"
import { isMapping } from "./Tree.ts"

const words: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  on: true,
  "1": true,
  false: false,
  no: false,
  off: false,
  "0": false
}

/** The boolean that a word means, in any case. */
export const boolean = (text: string): boolean | undefined => words[text.trim().toLowerCase()]

const numeric = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i

const items = (text: string, separator: string): ReadonlyArray<string> =>
  text.split(separator).map((item) => item.trim()).filter((item) => item !== "")

const json = (text: string, fits: (value: unknown) => boolean): unknown =>
  Option.getOrElse(Option.filter(Json.parse(text), fits), () => text)

const single = (text: string, { kinds }: Value): unknown => {
  if (kinds.has("anything")) return json(text, () => true)
  if (kinds.has("boolean")) {
    const word = boolean(text)
    if (word !== undefined) return word
  }
  if (kinds.has("number") && numeric.test(text.trim())) return Number(text)
  if (kinds.has("list") && text.includes(",")) return items(text, ",")
  return text
}

/** See the module. */
export const coerce = (text: string, shape: Shape): unknown => {
  switch (shape._tag) {
    case "Section":
    case "MapOf":
      return json(text, isMapping)
    case "ListOf":
      return text.trimStart().startsWith("[") || shape.item._tag !== "Value"
        ? json(text, Array.isArray)
        : items(text, shape.facts.separator ?? ",").map((item) => coerce(item, shape.item))
    case "Value":
      return single(text, shape)
  }
}
