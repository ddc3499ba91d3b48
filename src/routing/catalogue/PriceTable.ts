/**
 * Prices of models, in US dollars for a million tokens: for estimates, never for bills.
 *
 * **Details**
 *
 * What is generally known as of the date below; it was not compared with the pages of the vendors, which count. Columns: fresh input, output, input read from the prompt cache, input written to it. A dash is a
 * price that the vendor does not name. Where a price depends on the length of the prompt (Gemini Pro, Sonnet above 200 000
 * tokens), the lower one stands here.
 *
 * **Gotchas**
 *
 * A model is found by its exact id, without date: a price is not guessed from a family.
 *
 * Source: `hermes-llm.md` §12.3.
 */
import * as ModelId from "./ModelId.ts"

/** Date of the prices; the version of the table. */
export const date = "2026-04-30"

/** One row, as text, so that no price passes through a binary fraction. */
export interface Row {
  readonly input: string
  readonly output: string
  readonly cacheRead: string | undefined
  readonly cacheWrite: string | undefined
}

interface Table {
  readonly url: string
  readonly rows: Readonly<Record<string, string>>
}

const anthropic: Table = {
  url: "https://platform.claude.com/docs/en/about-claude/pricing",
  rows: {
    "claude-opus-4.7": "5 25 0.50 6.25",
    "claude-opus-4.6": "5 25 0.50 6.25",
    "claude-opus-4.5": "5 25 0.50 6.25",
    "claude-opus-4.1": "15 75 1.50 18.75",
    "claude-opus-4": "15 75 1.50 18.75",
    "claude-3-opus": "15 75 1.50 18.75",
    "claude-sonnet-4.6": "3 15 0.30 3.75",
    "claude-sonnet-4.5": "3 15 0.30 3.75",
    "claude-sonnet-4": "3 15 0.30 3.75",
    "claude-3-7-sonnet": "3 15 0.30 3.75",
    "claude-3-5-sonnet": "3 15 0.30 3.75",
    "claude-haiku-4.5": "1 5 0.10 1.25",
    "claude-3-5-haiku": "0.80 4 0.08 1",
    "claude-3-haiku": "0.25 1.25 0.03 0.30"
  }
}

const tables: Readonly<Record<string, Table>> = {
  anthropic,
  openai: {
    url: "https://platform.openai.com/docs/pricing",
    rows: {
      "gpt-5.4": "2.50 15 0.25 -",
      "gpt-5.2": "1.75 14 0.175 -",
      "gpt-5.1": "1.25 10 0.125 -",
      "gpt-5": "1.25 10 0.125 -",
      "gpt-5-mini": "0.25 2 0.025 -",
      "gpt-5-nano": "0.05 0.40 0.005 -",
      "gpt-5.1-codex": "1.25 10 0.125 -",
      "gpt-5-codex": "1.25 10 0.125 -",
      "gpt-4.1": "2 8 0.50 -",
      "gpt-4.1-mini": "0.40 1.60 0.10 -",
      "gpt-4.1-nano": "0.10 0.40 0.025 -",
      "gpt-4o": "2.50 10 1.25 -",
      "gpt-4o-mini": "0.15 0.60 0.075 -",
      "o1": "15 60 7.50 -",
      "o3": "2 8 0.50 -",
      "o3-mini": "1.10 4.40 0.55 -",
      "o4-mini": "1.10 4.40 0.275 -"
    }
  },
  google: {
    url: "https://ai.google.dev/gemini-api/docs/pricing",
    rows: {
      "gemini-3-pro-preview": "2 12 0.20 -",
      "gemini-3-flash-preview": "0.50 3 0.05 -",
      "gemini-2.5-pro": "1.25 10 0.125 -",
      "gemini-2.5-flash": "0.30 2.50 0.03 -",
      "gemini-2.5-flash-lite": "0.10 0.40 0.01 -",
      "gemini-2.0-flash": "0.10 0.40 0.025 -"
    }
  },
  deepseek: {
    url: "https://api-docs.deepseek.com/quick_start/pricing",
    rows: { "deepseek-chat": "0.28 0.42 0.028 -", "deepseek-reasoner": "0.28 0.42 0.028 -" }
  },
  minimax: {
    url: "https://platform.minimax.io/docs/guides/pricing",
    rows: { "minimax-m2": "0.30 1.20 0.03 0.375", "minimax-m2.5": "0.30 1.20 0.03 0.375" }
  },
  bedrock: {
    url: "https://aws.amazon.com/bedrock/pricing/",
    rows: {
      ...anthropic.rows,
      "nova-pro": "0.80 3.20 0.20 -",
      "nova-lite": "0.06 0.24 0.015 -",
      "nova-micro": "0.035 0.14 0.00875 -"
    }
  }
}

/** Names of providers that share another's table. */
const sameAs: Readonly<Record<string, string>> = { gemini: "google", "minimax-cn": "minimax" }

const parse = (text: string): Row => {
  const [input = "0", output = "0", cacheRead, cacheWrite] = text.split(" ")
  const price = (column: string | undefined): string | undefined => column === "-" ? undefined : column
  return { input, output, cacheRead: price(cacheRead), cacheWrite: price(cacheWrite) }
}

const folded = new Map<Table, ReadonlyMap<string, string>>()

const rowsOf = (table: Table): ReadonlyMap<string, string> => {
  const found = folded.get(table)
  if (found !== undefined) return found
  const made = new Map(Object.entries(table.rows).map(([id, row]): [string, string] => [ModelId.folded(id), row]))
  folded.set(table, made)
  return made
}

/** A price and where it is published. */
export interface Found {
  readonly row: Row
  readonly url: string
}

/** The price of a model at a provider, by their names. */
export const find = (provider: string, model: string): Found | undefined => {
  const name = Object.hasOwn(sameAs, provider) ? sameAs[provider] ?? provider : provider
  const table = Object.hasOwn(tables, name) ? tables[name] : undefined
  if (table === undefined) return undefined
  const id = ModelId.folded(ModelId.bare(ModelId.withoutProvider(name === "bedrock" ? ModelId.ofBedrock(model) : model)))
  const rows = rowsOf(table)
  const row = rows.get(id) ?? rows.get(ModelId.undated(id))
  return row === undefined ? undefined : { row: parse(row), url: table.url }
}
