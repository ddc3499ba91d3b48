/**
 * Lays the sources of the settings over each other, weakest first, so that a route stays one value: before a source's values
 * are set, the parts of each route go that belong to another one (`RouteStatement`).
 *
 * **Details**
 *
 * Sections that describe a route: `model`, `delegation`, `fallback_model`, and each of `auxiliary`. Lists (`fallback_providers`,
 * `custom_providers`) are replaced whole by a stronger source; an endpoint that a stronger source moves takes no key along.
 *
 * `OPENAI_BASE_URL` names an address for the provider that the strongest source names, if that one speaks OpenAI's protocol;
 * otherwise it says nothing.
 */
import { snakeCase } from "../Fields.ts"
import * as KnownProviders from "../KnownProviders.ts"
import * as RouteStatement from "../RouteStatement.ts"
import * as Origin from "./Origin.ts"
import * as Tree from "./Tree.ts"

/** The variable that names the address of an endpoint. */
export const endpointVariable = "OPENAI_BASE_URL"

/** A part of a route that is not used, and the source that names another route. */
export interface Dropped {
  readonly path: Tree.Path
  readonly origin: Origin.Origin
  readonly by: Origin.Origin
}

type Assignments = ReadonlyArray<Origin.Assignment>

const text = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

const statementAt = (tree: unknown, path: Tree.Path): RouteStatement.Statement => ({
  provider: text(Tree.get(tree, [...path, "provider"])),
  baseUrl: text(Tree.get(tree, [...path, "base_url"]))
})

const sectionsOf = (tree: unknown): ReadonlyArray<ReadonlyArray<string>> => {
  const tasks = Tree.get(tree, ["auxiliary"])
  return [["model"], ["delegation"], ["fallback_model"], ...Tree.isMapping(tasks) ? Object.keys(tasks).map((task) => ["auxiliary", task]) : []]
}

const set = (tree: unknown, assignments: Assignments): unknown =>
  assignments.reduce((tree, { path, value }) => Tree.set(tree, path, value), tree)

const isEndpoint = ({ origin }: Origin.Assignment): boolean => origin._tag === "Named" && origin.name === endpointVariable

const speaksOpenAi = (provider: string | undefined): boolean =>
  provider === undefined || ["", "auto", "openai", "custom"].includes(KnownProviders.canonical(provider))

/** Addresses of named endpoints, by name. */
const endpointsOf = (tree: unknown): ReadonlyMap<string, unknown> => {
  const list = Tree.get(tree, ["custom_providers"])
  return new Map(
    (Array.isArray(list) ? list : []).flatMap((entry) => {
      const name = text(Tree.get(entry, ["name"]))
      return name === undefined ? [] : [[KnownProviders.canonical(name), Tree.get(entry, ["base_url"])] as const]
    })
  )
}

/** Whether the endpoint that a section names gets another address between two trees. */
const isMoved = (before: unknown, after: unknown, section: Tree.Path): boolean => {
  const { baseUrl, provider } = statementAt(before, section)
  const name = KnownProviders.canonical(provider ?? "")
  const old = endpointsOf(before)
  return (baseUrl ?? "") === "" && old.has(name) && old.get(name) !== endpointsOf(after).get(name)
}

/** Positions of fallbacks whose named endpoint a stronger source moves. */
const movedFallbacks = (before: unknown, after: unknown): ReadonlyArray<number> => {
  const list = Tree.get(before, ["fallback_providers"])
  return (Array.isArray(list) ? list : []).flatMap((_, index) => isMoved(before, after, ["fallback_providers", index]) ? [index] : [])
}

const withoutItemKey = (tree: unknown, at: number, key: string): unknown => {
  const list = Tree.get(tree, ["fallback_providers"])
  return Array.isArray(list)
    ? Tree.set(tree, ["fallback_providers"], list.map((entry: unknown, index) => index === at ? Tree.remove(entry, [key]) : entry))
    : tree
}

/** The settings that the file and the sources above it make, weakest first, and what of the weaker ones is not used. */
export const layered = (
  file: unknown,
  levels: ReadonlyArray<Assignments>
): { readonly tree: unknown; readonly assignments: Assignments; readonly dropped: ReadonlyArray<Dropped> } => {
  const { provider } = statementAt(set(file, levels.flat()), ["model"])
  const counting = levels.map((level) => speaksOpenAi(provider) ? level : level.filter((one) => !isEndpoint(one)))
  const dropped: Array<Dropped> = []
  let tree = file
  let origins: Origin.Origins = new Map()
  for (const level of counting) {
    const [first] = level
    if (first === undefined) continue
    const own = set({}, level)
    const next = set(tree, level)
    // The endpoint is for the provider that counts in the end, whichever an earlier source named.
    const address = level.findLast(({ path }) => path.join(".") === "model.base_url")
    const forProvider = address !== undefined && isEndpoint(address) && statementAt(own, ["model"]).provider === undefined ? provider : undefined
    const remove = (path: ReadonlyArray<string>, by: Origin.Origin): void => {
      const found = Tree.get(tree, path)
      if (found === undefined || found === null) return
      // A value that the stronger source gives itself takes the place of the old one.
      if (Tree.get(own, path) === undefined) dropped.push({ path, origin: Origin.at(origins, path), by })
      tree = Tree.remove(tree, path)
    }
    for (const section of sectionsOf(next)) {
      const named = statementAt(own, section)
      const stronger = section[0] === "model" && forProvider !== undefined ? { ...named, provider: forProvider } : named
      const gone = new Set(RouteStatement.superseded(statementAt(tree, section), stronger).map(snakeCase))
      if (isMoved(tree, next, section)) for (const member of RouteStatement.ofAddress) gone.add(snakeCase(member))
      const by = level.find(({ path }) => path[0] === section[0] && ["provider", "base_url"].includes(path.at(-1) ?? ""))?.origin ?? first.origin
      for (const key of gone) remove([...section, key], by)
    }
    for (const index of movedFallbacks(tree, next)) {
      for (const member of RouteStatement.ofAddress) tree = withoutItemKey(tree, index, snakeCase(member))
    }
    if (forProvider !== undefined) tree = Tree.set(tree, ["model", "provider"], forProvider)
    tree = set(tree, level)
    origins = new Map([...origins, ...Origin.collect(level)])
  }
  return { tree, assignments: counting.flat(), dropped }
}
