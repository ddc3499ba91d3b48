/**
 * Lays the sources of the settings over each other, weakest first, so that a route stays one value, and keeps the source of
 * each of its parts. Names of sources only, never their values.
 *
 * **Details**
 *
 * Before a source's values are set, the parts of each route go that belong to another one (`RouteStatement`). Sections that
 * describe a route: `model`, `delegation`, `fallback_model`, and each of `auxiliary`. Lists (`fallback_providers`,
 * `custom_providers`) are replaced whole by a stronger source; an endpoint that a stronger source moves takes no key along.
 *
 * `OPENAI_BASE_URL` names an address for the provider that the strongest source names, if that one speaks OpenAI's protocol;
 * otherwise it is ignored.
 *
 * A key of the environment may follow an address elsewhere only when the same source names that address; routing asks
 * {@link levelOf} for it. `hermes doctor` and `-v` show {@link labelOf} and `unused`.
 *
 * Source: `ARCHITECTURE.md` §7 ("a key and its address").
 */
import { snakeCase } from "./Fields.ts"
import * as KnownProviders from "./KnownProviders.ts"
import * as RouteStatement from "./RouteStatement.ts"
import * as SettingSources from "./internal/SettingSources.ts"
import * as Tree from "./internal/Tree.ts"

/** The variable that names the address of an endpoint. */
export const endpointVariable = "OPENAI_BASE_URL"

/** A part of a route that is not used, and the source that names another route. */
export interface Dropped {
  readonly path: Tree.Path
  readonly origin: SettingSources.Origin
  readonly by: SettingSources.Origin
}

type Assignments = ReadonlyArray<SettingSources.Assignment>

const textOf = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

const statementAt = (tree: unknown, path: Tree.Path): RouteStatement.Statement => ({
  provider: textOf(Tree.get(tree, [...path, "provider"])),
  baseUrl: textOf(Tree.get(tree, [...path, "base_url"]))
})

const sectionsOf = (tree: unknown): ReadonlyArray<ReadonlyArray<string>> => {
  const tasks = Tree.get(tree, ["auxiliary"])
  return [["model"], ["delegation"], ["fallback_model"], ...Tree.isMapping(tasks) ? Object.keys(tasks).map((task) => ["auxiliary", task]) : []]
}

const set = (tree: unknown, assignments: Assignments): unknown =>
  assignments.reduce((tree, { path, value }) => Tree.set(tree, path, value), tree)

const isEndpoint = ({ origin }: SettingSources.Assignment): boolean => origin._tag === "Named" && origin.name === endpointVariable

const speaksOpenAi = (provider: string | undefined): boolean =>
  provider === undefined || ["", "auto", "openai", "custom"].includes(KnownProviders.canonical(provider))

/** Addresses of named endpoints, by name. */
const endpointsOf = (tree: unknown): ReadonlyMap<string, unknown> => {
  const list = Tree.get(tree, ["custom_providers"])
  return new Map(
    (Array.isArray(list) ? list : []).flatMap((entry) => {
      const name = textOf(Tree.get(entry, ["name"]))
      return name === undefined ? [] : [[KnownProviders.canonical(name), Tree.get(entry, ["base_url"])] as const]
    })
  )
}

/** Tests whether the endpoint that a section names gets another address between two trees. */
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

/** Lays sources over the file, weakest first; answers the settings, their assignments and the values that are not used. */
export const layered = (
  file: unknown,
  levels: ReadonlyArray<Assignments>
): { readonly tree: unknown; readonly assignments: Assignments; readonly dropped: ReadonlyArray<Dropped> } => {
  const { provider } = statementAt(set(file, levels.flat()), ["model"])
  const counting = levels.map((level) => speaksOpenAi(provider) ? level : level.filter((one) => !isEndpoint(one)))
  const dropped: Array<Dropped> = []
  let tree = file
  let origins: SettingSources.Origins = new Map()
  for (const level of counting) {
    const [first] = level
    if (first === undefined) continue
    const own = set({}, level)
    const next = set(tree, level)
    // The endpoint is for the provider that counts in the end, whichever an earlier source named.
    const address = level.findLast(({ path }) => path.join(".") === "model.base_url")
    const forProvider = address !== undefined && isEndpoint(address) && statementAt(own, ["model"]).provider === undefined ? provider : undefined
    const remove = (path: ReadonlyArray<string>, by: SettingSources.Origin): void => {
      const found = Tree.get(tree, path)
      if (found === undefined || found === null) return
      // A value that the stronger source gives itself takes the place of the old one.
      if (Tree.get(own, path) === undefined) dropped.push({ path, origin: SettingSources.at(origins, path), by })
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
    origins = new Map([...origins, ...SettingSources.collect(level)])
  }
  return { tree, assignments: counting.flat(), dropped }
}

/** A source of settings, weakest first. */
export type Level = SettingSources.Level

/** Sources of the parts of the configured routes. */
export interface RouteSources {
  readonly origins: SettingSources.Origins
  /** Settings that are not used, a line each. */
  readonly unused: ReadonlyArray<string>
}

const place = (origin: SettingSources.Origin, path: Tree.Path): string => SettingSources.label(SettingSources.collect([{ path: path.map(String), value: undefined, origin }]), path)

const unusedLine = ({ by, origin, path }: Dropped): string =>
  `${place(origin, path)} is not used: it is for another route than ${by._tag === "File" ? "config.yaml" : place(by, by.path)} names`

/** The sources of loaded settings. */
export const make = (origins: SettingSources.Origins, dropped: ReadonlyArray<Dropped>): RouteSources => ({
  origins,
  unused: dropped.map(unusedLine)
})

const none: SettingSources.Origins = new Map()

/** The source that sets a place. */
export const levelOf = (sources: RouteSources | undefined, path: Tree.Path): Level => {
  const origin = SettingSources.at(sources?.origins ?? none, path)
  return origin._tag === "File" ? "file" : origin.level
}

/** The source that sets a place, in words: `config.yaml: model.base_url`, `OPENAI_BASE_URL`, `--base-url`. */
export const labelOf = (sources: RouteSources | undefined, path: Tree.Path): string => SettingSources.label(sources?.origins ?? none, path)
