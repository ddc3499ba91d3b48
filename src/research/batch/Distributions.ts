/**
 * Distributions of toolsets. The toolsets for each row are drawn at random, so that different trajectories use
 * different tools.
 *
 * **Details**
 *
 * Each toolset is drawn independently with its own probability. If no toolset is drawn, the most probable one is used.
 * A draw depends only on the seed of the run and the id of the row, so that a repeated row has the same tools. A
 * distribution is specified by its name in the table, or as a list such as `terminal=90,web=40`.
 *
 * **Gotchas**
 *
 * The specification defines only the names. The percentages are chosen in this module. A draw omits toolsets that have
 * no tools in this version.
 *
 * Source: `hermes-product.md` §5.1 and §5.2, `hermes-llm.md` §20.1.
 */
import { findNearest } from "../../base/domain/Similarity.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import * as RowSeed from "./RowSeed.ts"

/** Probability of each toolset, in percent. */
export type Distribution = Readonly<Record<string, number>>

interface DescribedDistribution {
  readonly description: string
  readonly toolsets: Distribution
}

const everything = ["web", "vision", "image_gen", "terminal", "file", "moa", "browser"]

const makeUniform = (percentage: number): Distribution =>
  Object.fromEntries(everything.map((name) => [name, percentage]))

/** Distributions by name. */
export const table: Readonly<Record<string, DescribedDistribution>> = {
  default: { description: "All tools, always", toolsets: makeUniform(100) },
  image_gen: {
    description: "Image generation with some research",
    toolsets: { image_gen: 90, vision: 90, web: 55, terminal: 45, moa: 10 }
  },
  research: {
    description: "Web research with browsing",
    toolsets: { web: 90, browser: 70, vision: 50, moa: 40, terminal: 10 }
  },
  science: {
    description: "Research with code and files",
    toolsets: { web: 95, terminal: 95, file: 95, vision: 65, browser: 50, image_gen: 15, moa: 10 }
  },
  development: {
    description: "Terminal and files, now and then the web",
    toolsets: { terminal: 80, file: 80, moa: 60, web: 30, vision: 10 }
  },
  safe: {
    description: "No terminal and no files",
    toolsets: { web: 80, browser: 70, vision: 60, image_gen: 60, moa: 50 }
  },
  balanced: { description: "Each toolset in half of the rows", toolsets: makeUniform(50) },
  minimal: { description: "Only the web", toolsets: { web: 100 } },
  terminal_only: { description: "Terminal and files", toolsets: { terminal: 100, file: 100 } },
  terminal_web: { description: "Terminal, files and the web", toolsets: { terminal: 100, file: 100, web: 100 } },
  creative: { description: "Image generation and vision", toolsets: { image_gen: 90, vision: 90, web: 30 } },
  reasoning: { description: "Hard questions, few tools", toolsets: { moa: 90, web: 30, terminal: 20 } },
  browser_use: { description: "Browser with the web beside it", toolsets: { browser: 100, web: 80, vision: 70 } },
  browser_only: { description: "Only the browser", toolsets: { browser: 100 } },
  browser_tasks: {
    description: "Browser, now and then with vision or terminal",
    toolsets: { browser: 97, vision: 12, terminal: 15 }
  },
  terminal_tasks: {
    description: "Terminal, files and web, sometimes a browser",
    toolsets: { terminal: 97, file: 97, web: 97, browser: 75, vision: 50, image_gen: 10 }
  },
  mixed_tasks: {
    description: "Browser, terminal and files in most rows",
    toolsets: { browser: 92, terminal: 92, file: 92, web: 35, vision: 15, image_gen: 15 }
  }
}

/** Names of the distributions in the table. */
export const names: ReadonlyArray<string> = Object.keys(table)

const parsePairs = (text: string): Distribution | string => {
  const found: Record<string, number> = {}
  for (const part of text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")) {
    const [name = "", percentage = ""] = part.split("=").map((word) => word.trim())
    const value = Number(percentage)
    if (!Object.hasOwn(Toolsets.catalogue, name)) {
      const meant = findNearest(name, Object.keys(Toolsets.catalogue))
      return (
        "there is no toolset " +
        `"${name}"${meant === undefined ? ": `hermes tools` lists them" : `: did you mean "${meant}"?`}`
      )
    }
    if (percentage === "" || !(value >= 0 && value <= 100)) return `"${part}": expected toolset=PERCENT from 0 to 100`
    found[name] = value
  }
  return found
}

/** Returns the distribution for a name or a list of percentages. Returns an error message for invalid text. */
export const find = (text: string): Distribution | string => {
  if (Object.hasOwn(table, text)) return table[text]?.toolsets ?? {}
  if (text.includes("=")) return parsePairs(text)
  const meant = findNearest(text, names)
  return (
    `there is no distribution "${text}": ` +
    `${meant === undefined ? "list them with `hermes lab batch run --list-distributions`" : `did you mean "${meant}"?`}`
  )
}

/**
 * Draws the toolsets of a row. `hasTools` returns true for toolsets that can be drawn. If there are no such toolsets,
 * the result is empty.
 */
export const draw = (
  distribution: Distribution,
  seed: string,
  rowId: string,
  hasTools: (toolset: string) => boolean = () => true
): ReadonlyArray<string> => {
  const possible = Object.entries(distribution).filter(([name, percentage]) => percentage > 0 && hasTools(name))
  const drawn = possible
    .filter(([name, percentage]) => RowSeed.drawUniform(seed, rowId, name) * 100 < percentage)
    .map(([name]) => name)
  if (drawn.length > 0) return drawn
  const [most] = possible.toSorted(([, a], [, b]) => b - a)
  return most === undefined ? [] : [most[0]]
}
