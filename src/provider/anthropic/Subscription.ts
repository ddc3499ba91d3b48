/**
 * What a subscription token asks of a request: Anthropic serves it to its own client only, so that the system prompt
 * begins with that client's identity, product names in it are replaced, and tool names carry the prefix that the client
 * gives to tools of others. Answers are translated back.
 *
 * **Gotchas**
 *
 * Every tool gets the prefix, one that begins with it already too (`mcp_github_search` travels as
 * `mcp_mcp_github_search`): that is what makes the way back exact. A name without it is left as it came.
 *
 * Source: `hermes-llm.md` §4.2.
 *
 * @since 0.1.0
 */

/** First block of the system prompt. */
export const identity = "You are Claude Code, Anthropic's official CLI for Claude."

const toolPrefix = "mcp_"

const productNames: ReadonlyArray<readonly [from: string, to: string]> = [
  ["Hermes Agent", "Claude Code"],
  ["Hermes agent", "Claude Code"],
  ["hermes-agent", "claude-code"],
  ["Nous Research", "Anthropic"]
]

/** The system text with the product names that the token's client has. */
export const systemText = (text: string): string =>
  productNames.reduce((out, [from, to]) => out.replaceAll(from, to), text)

/** A tool's name on the wire. */
export const toWire = (name: string): string => toolPrefix + name

/** A tool's name out of an answer. */
export const fromWire = (name: string): string => name.startsWith(toolPrefix) ? name.slice(toolPrefix.length) : name
