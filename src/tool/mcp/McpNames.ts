/**
 * Names of MCP servers and tools as the model may see them, and which of a server's tools are offered. Pure.
 *
 * **Details**
 *
 * A tool is called `mcp__<server>__<tool>`. Whatever is no letter, digit, `_` or `-` becomes `_`. Names of more than 64
 * characters, which no provider takes, are cut and end in a hash of the whole; the same is done to a name that another tool
 * of the server has already.
 *
 * Source: `hermes-product.md` §2.4.
 */
import * as Hash from "effect/Hash"

const maxLength = 64

const clean = (name: string): string => name.replaceAll(/[^A-Za-z0-9_-]/g, "_")

const shortened = (name: string, whole: string): string => {
  const hash = (Hash.string(whole) >>> 0).toString(36)
  return `${name.slice(0, maxLength - hash.length - 1)}_${hash}`
}

/** The toolset of a server. */
export const toolset = (server: string): string => `mcp-${server}`

/** The name of one tool. */
export const tool = (server: string, name: string): string => {
  const full = `mcp__${clean(server)}__${clean(name)}`
  return full.length <= maxLength ? full : shortened(full, `${server}\n${name}`)
}

/** The names of tools, in their order, each its own. */
export const tools = (server: string, names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const taken = new Set<string>()
  return names.map((name) => {
    let given = tool(server, name)
    for (let again = 1; taken.has(given); again++) given = shortened(tool(server, name), `${name}\n${again}`)
    taken.add(given)
    return given
  })
}

const globOf = (pattern: string): RegExp => {
  const source = pattern.replaceAll(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^]*").replaceAll("?", "[^]")
  return new RegExp(`^${source}$`)
}

/** True when a tool of this name is offered; `include` wins. */
export const filter = (
  include: ReadonlyArray<string> | undefined,
  exclude: ReadonlyArray<string>
): (name: string) => boolean => {
  const wanted = include?.map(globOf)
  const unwanted = exclude.map(globOf)
  return (name) =>
    wanted === undefined ? !unwanted.some((glob) => glob.test(name)) : wanted.some((glob) => glob.test(name))
}
