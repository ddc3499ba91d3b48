/**
 * What a model meant by the name of a tool that does not exist: another case, dashes for underscores, CamelCase, a
 * trailing `tool`, a typing error. No model is asked.
 *
 * **Details**
 *
 * A name that only resembles a tool's is never taken for a destructive one: guessing must not delete anything
 * (`ARCHITECTURE.md` §7). Source: `hermes-llm.md` §13.2.
 *
 * @since 0.1.0
 */
import { ratio } from "./Similarity.ts"

/** Least similarity of a name that is a typing error of another. */
export const cutoff = 0.7

/** Longest name that is compared; nobody means a tool by more. */
const longestName = 128

/** A tool that may be meant. */
export interface Candidate {
  readonly name: string
  readonly destructive: boolean
}

const normalised = (name: string): string => name.toLowerCase().replaceAll(/[-\s]/g, "_")

const snake = (name: string): string =>
  normalised(name.replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2").replaceAll(/([A-Z]+)([A-Z][a-z])/g, "$1_$2"))

const stripped = (name: string): string | undefined => {
  const rest = name.replace(/[_-]+$/, "").replace(/[_-]?tool$/i, "").replace(/[_-]+$/, "")
  return rest === "" || rest === name ? undefined : rest
}

/** Every spelling of a name that is worth looking up, the likeliest first. */
const spellings = (name: string): ReadonlySet<string> => {
  const out = new Set([name, name.toLowerCase(), normalised(name), snake(name)])
  for (let round = 0; round < 2; round++) {
    for (const spelling of Array.from(out)) {
      const rest = stripped(spelling)
      if (rest === undefined) continue
      for (const form of [rest, normalised(rest), snake(rest)]) out.add(form)
    }
  }
  return out
}

/** The tool that was meant, or nothing. */
export const repair = (name: string, tools: ReadonlyArray<Candidate>): string | undefined => {
  const asked = name.trim()
  if (asked === "" || asked.length > longestName) return undefined
  const known = new Map(tools.map((tool) => [tool.name, tool]))
  for (const spelling of spellings(asked)) {
    if (known.has(spelling)) return spelling
  }
  let best: Candidate | undefined
  let similarity = cutoff
  for (const tool of tools) {
    const alike = ratio(asked.toLowerCase(), tool.name.toLowerCase())
    if (alike < cutoff || (best !== undefined && alike <= similarity)) continue
    best = tool
    similarity = alike
  }
  return best === undefined || best.destructive ? undefined : best.name
}
