/**
 * The names of toolsets and their tools, for `--toolsets`, `toolsets` and `disabled_toolsets`.
 *
 * **Details**
 *
 * A toolset has its own tools or is composed of other toolsets, to any depth; cyclic compositions are allowed. Disabled
 * tools are removed after all compositions are expanded, so that no composition restores them. `all` and `*` select
 * everything except the integrations that must be requested by name. A toolset that is not listed here (from a plugin
 * or an MCP server) is selected by its own name, and by `all`, `hermes-cli` and toolsets composed of them.
 *
 * **Gotchas**
 *
 * A known name may have no tools in this version. The user is notified, and there is no error.
 *
 * Source: `hermes-product.md` §2.2.
 */
import { findNearest } from "../base/domain/Similarity.ts"
import type { Selection } from "./ToolRegistry.ts"

/** One toolset: its tools, the toolsets that it is composed of, and the tools that it excludes from them. */
interface CatalogueEntry {
  readonly tools?: ReadonlyArray<string>
  readonly includes?: ReadonlyArray<string>
  readonly without?: ReadonlyArray<string>
  /** True if the toolset is not part of `all`. */
  readonly optIn?: true
}

/** Toolsets available to every program on a user's machine. */
const core = [
  "web",
  "terminal",
  "file",
  "skills",
  "todo",
  "memory",
  "session_search",
  "clarify",
  "code_execution",
  "delegation",
  "cronjob",
  "vision",
  "image_gen",
  "tts",
  "browser"
]

/** Toolsets by name. */
export type Catalogue = Readonly<Record<string, CatalogueEntry>>

/** The built-in toolsets by name. */
export const catalogue: Catalogue = {
  web: { tools: ["web_search", "web_extract"] },
  search: { tools: ["web_search"] },
  terminal: { tools: ["terminal", "process"] },
  file: { tools: ["read_file", "write_file", "patch", "search_files"] },
  skills: { tools: ["skills_list", "skill_view", "skill_manage"] },
  todo: { tools: ["todo"] },
  memory: { tools: ["memory"] },
  session_search: { tools: ["session_search"] },
  clarify: { tools: ["clarify"] },
  code_execution: { tools: ["execute_code"] },
  delegation: { tools: ["delegate_task"] },
  cronjob: { tools: ["cronjob"] },
  vision: { tools: ["vision_analyze"] },
  image_gen: { tools: ["image_generate"] },
  video: { tools: ["video_analyze"] },
  video_gen: { tools: ["video_generate"] },
  tts: { tools: ["text_to_speech"] },
  browser: { tools: ["browser"] },
  homeassistant: { optIn: true },
  discord: { optIn: true },
  kanban: { optIn: true },
  computer_use: { optIn: true },
  rl: { optIn: true },
  moa: { optIn: true },
  debugging: { includes: ["terminal", "web", "file"] },
  safe: { includes: ["web", "vision", "image_gen"] },
  "hermes-cli": { includes: core },
  "hermes-acp": { includes: ["hermes-cli"], without: ["clarify", "cronjob", "image_gen", "tts"] },
  "hermes-api-server": { includes: ["hermes-cli"], without: ["clarify", "tts", "computer_use", "kanban"] },
  "hermes-webhook": { includes: ["safe"] },
  "hermes-gateway": { includes: ["hermes-cli", "hermes-acp", "hermes-api-server", "hermes-webhook"] }
}

const everyName = new Set(["all", "*"])

/** Returns a toolset of the catalogue, and never a property inherited from `Object.prototype`. */
const findEntry = (name: string, entries = catalogue): CatalogueEntry | undefined =>
  Object.hasOwn(entries, name) ? entries[name] : undefined

const expandToolset = (entries: Catalogue, name: string, inside: ReadonlySet<string>): ReadonlySet<string> => {
  const entry = findEntry(name, entries)
  if (entry === undefined || inside.has(name)) return new Set()
  const within = new Set(inside).add(name)
  const tools = new Set(entry.tools)
  for (const included of entry.includes ?? [])
    expandToolset(entries, included, within).forEach((tool) => tools.add(tool))
  for (const left of entry.without ?? []) expandToolset(entries, left, within).forEach((tool) => tools.delete(tool))
  return tools
}

/** Returns the tools of a named toolset with compositions expanded; empty for a name that is not in the catalogue. */
export const listTools = (name: string, entries = catalogue): ReadonlySet<string> => {
  if (!everyName.has(name)) return expandToolset(entries, name, new Set())
  const names = Object.entries(entries).flatMap(([name, entry]) => (entry.optIn === true ? [] : [name]))
  return new Set(names.flatMap((name) => [...expandToolset(entries, name, new Set())]))
}

/** Finds the toolsets of the catalogue that directly contain one of these tools. */
export const findByTools = (tools: ReadonlySet<string>): ReadonlySet<string> =>
  new Set(
    Object.entries(catalogue).flatMap(([name, entry]) =>
      entry.tools?.some((tool) => tools.has(tool)) === true ? [name] : []
    )
  )

/** A name that matches no toolset, and the most similar known name. */
interface UnknownName {
  readonly name: string
  readonly nearest: string | undefined
}

/** Result of resolving a selection of toolsets. */
export interface ResolvedToolsets {
  readonly selection: Selection
  /** The recognized names as given, without duplicates. */
  readonly names: ReadonlyArray<string>
  readonly unknown: ReadonlyArray<UnknownName>
}

/** Lists from which toolsets are selected. */
export interface ChoiceLists {
  readonly toolsets: ReadonlyArray<string>
  readonly disabled?: ReadonlyArray<string> | undefined
  /** Names of registered toolsets that are not in the catalogue. The bare name of an MCP server selects its toolset. */
  readonly foreign?: ReadonlyArray<string> | undefined
}

const catalogueTools: ReadonlySet<string> = new Set(Object.values(catalogue).flatMap(({ tools = [] }) => tools))

/** Returns true for a name that selects everything, including registered toolsets that are not listed here. */
const canTakeForeign = (name: string): boolean =>
  everyName.has(name) || name === "hermes-cli" || findEntry(name)?.includes?.some(canTakeForeign) === true

/** Returns the registered toolsets that a name selects in addition to the catalogue. */
const selectForeign = (foreign: ReadonlyArray<string>, name: string): ReadonlyArray<string> =>
  canTakeForeign(name) ? foreign : foreign.filter((other) => other === name || other === `mcp-${name}`)

/** Resolves names of toolsets to their tools. */
export const resolve = ({ disabled = [], foreign = [], toolsets }: ChoiceLists): ResolvedToolsets => {
  const names = [...new Set(toolsets.map((name) => name.trim()).filter((name) => name !== ""))]
  const isKnown = (name: string): boolean =>
    everyName.has(name) || findEntry(name) !== undefined || selectForeign(foreign, name).length > 0
  const known = names.filter(isKnown)
  const tools = new Set(known.flatMap((name) => [...listTools(name)]))
  const others = new Set(known.flatMap((name) => selectForeign(foreign, name)))
  for (const name of disabled) {
    listTools(name).forEach((tool) => tools.delete(tool))
    selectForeign(foreign, name).forEach((other) => others.delete(other))
  }
  return {
    names: known,
    unknown: names
      .filter((name) => !isKnown(name))
      .map((name) => ({ name, nearest: findNearest(name, [...Object.keys(catalogue), ...foreign]) })),
    selection: {
      toolset: (name) => {
        const entry = findEntry(name)
        if (entry === undefined) return others.has(name)
        // A catalogue entry without its own tools can only name a registered toolset.
        return entry.tools === undefined
          ? !disabled.includes(name) &&
              (known.includes(name) || (entry.optIn !== true && known.some((other) => canTakeForeign(other))))
          : [...listTools(name)].some((tool) => tools.has(tool))
      },
      // A tool that is not in the catalogue is selected with its toolset.
      tool: (name) => tools.has(name) || !catalogueTools.has(name)
    }
  }
}

/** Name of the toolset with the sub-agents from agent files. */
export const ofSubAgents = "agents"

/** The registered toolsets with their tools. */
export type RegisteredToolsets = ReadonlyArray<{
  readonly toolset: string
  readonly tools: ReadonlyArray<{ readonly tool: { readonly name: string } }>
}>

/** Selects registered tools by the names of toolsets and of single tools. */
export const choose = (
  given: ReadonlyArray<string>,
  registered: RegisteredToolsets,
  disabled: ReadonlyArray<string>
): Pick<ResolvedToolsets, "selection" | "unknown"> => {
  const tools = new Map(
    registered.flatMap(({ tools, toolset }) => tools.map(({ tool: { name } }) => [name, toolset] as const))
  )
  const foreign = registered.map(({ toolset }) => toolset).filter((name) => findEntry(name) === undefined)
  const isSet = (name: string): boolean =>
    everyName.has(name) || findEntry(name) !== undefined || selectForeign(foreign, name).length > 0
  const single = new Set(given.filter((name) => !isSet(name) && tools.has(name)))
  const off = resolve({ toolsets: disabled, foreign }).selection
  const isOff = (name: string): boolean => {
    const toolset = tools.get(name)
    return disabled.length > 0 && toolset !== undefined && off.toolset?.(toolset) === true && off.tool?.(name) === true
  }
  const sets = resolve({ toolsets: given.filter((name) => !single.has(name)), disabled, foreign })
  const ofSingle = new Set(Array.from(single, (name) => tools.get(name)))
  return {
    unknown: sets.unknown.map(({ name }) => ({
      name,
      nearest: findNearest(name, [...Object.keys(catalogue), ...foreign, ...tools.keys()])
    })),
    selection: {
      toolset: (name) => sets.selection.toolset?.(name) === true || ofSingle.has(name),
      tool: (name) => {
        if (single.has(name)) return !isOff(name)
        const toolset = tools.get(name)
        // A toolset that is selected for one of its tools does not add its other tools.
        return (
          (toolset === undefined || sets.selection.toolset?.(toolset) === true) && sets.selection.tool?.(name) === true
        )
      }
    }
  }
}

/** Returns the known names that select no available tool. */
export const findEmptyNames = (names: ReadonlyArray<string>, tools: ReadonlySet<string>): ReadonlyArray<string> =>
  names.filter((name) => findEntry(name) !== undefined && ![...listTools(name)].some((tool) => tools.has(tool)))
