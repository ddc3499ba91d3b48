/**
 * How much a model may say at most. The Messages API wants `max_tokens` in every request, so that every model needs a
 * number; the table is data, and the longest name that a model id contains wins.
 *
 * Source: `hermes-llm.md` §4.2; Sonnet 4.6 after the seed (`ARCHITECTURE.md` §7, D11).
 *
 * @since 0.1.0
 */

/** Tokens by a part of the model id, dots written as hyphens. */
export const table: Readonly<Record<string, number>> = {
  "opus-4-8": 128_000,
  "opus-4-7": 128_000,
  "opus-4-6": 128_000,
  "sonnet-4-6": 128_000,
  "opus-4-5": 64_000,
  "sonnet-4-5": 64_000,
  "haiku-4-5": 64_000,
  "opus-4": 32_000,
  "sonnet-4": 64_000,
  "3-7-sonnet": 128_000,
  "3-5-sonnet": 8_192,
  "3-5-haiku": 8_192,
  "3-opus": 4_096,
  "3-sonnet": 4_096,
  "3-haiku": 4_096,
  "minimax": 131_072
}

/** For a model that is not in the table. */
export const unknown = 128_000

const names = Object.keys(table).sort((a, b) => b.length - a.length)

/** The limit of a model by its id, with or without vendor, with dots or hyphens. */
export const of = (model: string): number => {
  const id = model.toLowerCase().replaceAll(".", "-")
  const name = names.find((name) => id.includes(name))
  return name === undefined ? unknown : table[name] ?? unknown
}

/** `tokens`, or what a window of known size leaves: one token less than it holds. */
export const fit = (tokens: number, contextWindow: number | undefined): number =>
  contextWindow === undefined || tokens < contextWindow ? tokens : Math.max(1, contextWindow - 1)
