/**
 * The one tool that stands for the many of a large server: it searches among them, and what it finds is offered.
 *
 * **Details**
 *
 * The tools that were found stay offered for as long as the runtime lives, to all its sessions. Words are looked for in names
 * and descriptions; a name counts more.
 *
 * Source: the delegation and MCP document (lazy schema loading).
 */
import * as Effect from "effect/Effect"
import * as Tool from "effect/ai/Tool"
import * as McpNames from "./McpNames.ts"
import * as McpResult from "./McpResult.ts"
import type { ServerConfig } from "./ServerConfig.ts"
import type { Entry } from "./ServerTools.ts"

/** Tools that one search offers at most. */
export const maxFound = 10

const words = (text: string): ReadonlyArray<string> => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []

const score = (entry: Entry, wanted: ReadonlyArray<string>): number => {
  const name = entry.tool.name.toLowerCase()
  const description = (Tool.getDescription(entry.tool) ?? "").toLowerCase()
  return wanted.reduce((sum, word) => sum + (name.includes(word) ? 3 : 0) + (description.includes(word) ? 1 : 0), 0)
}

/** Those that fit best, the best first; an exact name is the best of all. */
export const search = (entries: ReadonlyArray<Entry>, query: string): ReadonlyArray<Entry> => {
  const wanted = words(query)
  const exact = entries.filter(({ tool }) => query.split(/[\s,]+/).includes(tool.name))
  const others = entries
    .filter((entry) => !exact.includes(entry))
    .map((entry) => ({ entry, score: score(entry, wanted) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score)
  return [...exact, ...others.map(({ entry }) => entry)].slice(0, maxFound)
}

const queryOf = (params: unknown): string =>
  typeof params === "object" && params !== null && "query" in params && typeof params.query === "string" ? params.query : ""

/** The search tool of a server. Names that it finds go to `wanted`; `offer` gets all tools that are wanted. */
export const make = (
  config: ServerConfig,
  entries: ReadonlyArray<Entry>,
  wanted: Set<string>,
  offer: (found: ReadonlyArray<Entry>) => Effect.Effect<unknown>
): Entry => ({
  tool: Tool.dynamic(McpNames.tool(config.name, "search_tools"), {
    description: `The MCP server ${config.name} has ${entries.length} tools, too many to show. Finds those that fit some words ` +
      "(or exact names) and makes them available: call the ones that you need in your next step.",
    parameters: {
      type: "object",
      properties: { query: { type: "string", description: "What the tool should do, in a few words" } },
      required: ["query"]
    },
    success: McpResult.Success,
    failure: McpResult.Failure,
    failureMode: "return"
  }).annotate(Tool.Readonly, true).annotate(Tool.Strict, false),
  handler: Effect.fnUntraced(function*(params) {
    const hits = search(entries, queryOf(params))
    const isNew = hits.some(({ tool }) => !wanted.has(tool.name))
    hits.forEach(({ tool }) => wanted.add(tool.name))
    if (isNew) yield* offer(entries.filter(({ tool }) => wanted.has(tool.name)))
    return JSON.stringify({
      available: hits.map(({ tool }) => ({ name: tool.name, description: Tool.getDescription(tool) })),
      ...(hits.length === 0 ? { hint: "nothing fits: try other words" } : {})
    })
  })
})
