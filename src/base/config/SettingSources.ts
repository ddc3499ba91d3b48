/**
 * Sources of the settings. Reads environment variables and merges the sources from weakest to strongest, so that the
 * parts of a route never come from conflicting sources. Also records the source of each setting, so that an error
 * points to the user's input. Only the names of sources are recorded, never their values.
 *
 * **Details**
 *
 * Every key has a variable: `HERMES_` and its path in capitals with `__` between the levels, `HERMES_AGENT__MAX_TURNS`.
 * A few keys have a second, documented name; the general name takes precedence. An empty variable counts as not set.
 *
 * Before a source's values are set, parts that belong to another route are removed (`RouteStatement`). The sections
 * that describe a route are `model`, `delegation`, `fallback_model`, and each entry of `auxiliary`. Lists
 * (`fallback_providers`, `custom_providers`) are replaced as a whole by a stronger source; if a stronger source changes
 * the address of an endpoint, the old key is not used at the new address.
 *
 * `OPENAI_BASE_URL` sets the address of the provider that the strongest source names, if this provider speaks OpenAI's
 * protocol; otherwise it is ignored.
 *
 * A key from the environment may be used at another address only if the same source names that address; routing checks
 * this with {@link findLevel}. `hermes doctor` and `-v` show {@link describeSource} and `unused`.
 *
 * **Gotchas**
 *
 * Names chosen by the user are converted to lower case: `HERMES_PROVIDERS__OPENROUTER__REQUEST_TIMEOUT_SECONDS` sets a
 * key of `openrouter`. Variables without `__` that match no key (`HERMES_HOME`, `HERMES_PLUGINS_DEBUG`) belong to other
 * modules.
 *
 * Source: `ARCHITECTURE.md` §7 ("a key and its address").
 */
import * as Tree from "./internal/Tree.ts"
import * as KnownProviders from "./KnownProviders.ts"
import * as RouteStatement from "./RouteStatement.ts"

/** A source of settings. The union lists them from weakest to strongest. */
export type Level = "file" | "env-file" | "environment" | "flags"

/** Origin of a value: the file, or a named variable or flag. The name of a variable in `.env` begins with `.env: `. */
type Origin =
  | { readonly _tag: "File" }
  | { readonly _tag: "Named"; readonly level: Exclude<Level, "file">; readonly name: string; readonly path: Tree.Path }

/** A value, and the place that it is assigned to. */
export interface Assignment {
  readonly path: ReadonlyArray<string>
  readonly value: unknown
  readonly origin: Origin
}

/** The origin of values in `config.yaml`. */
const file: Origin = { _tag: "File" }

/** Creates the origin for a variable or flag that sets the value at a path. */
export const makeOrigin = (name: string, path: Tree.Path, level: Exclude<Level, "file">): Origin => ({
  _tag: "Named",
  level,
  name,
  path
})

/** Origins by place. A place without an entry has the origin of its nearest ancestor. */
type Origins = ReadonlyMap<string, Origin>

const toKey = (path: Tree.Path): string => path.join("\0")

/** Returns the origins of the assignments by place; later assignments take precedence. */
export const collectOrigins = (assignments: ReadonlyArray<Assignment>): Origins =>
  new Map(assignments.map(({ origin, path }) => [toKey(path), origin]))

/** Returns the origin of the value at a place. */
const findOrigin = (origins: Origins, path: Tree.Path): Origin => {
  for (let length = path.length; length > 0; length--) {
    const origin = origins.get(toKey(path.slice(0, length)))
    if (origin !== undefined) return origin
  }
  return file
}

/**
 * Returns the label that begins a message about a place: `config.yaml: agent.max_turns`, `HERMES_AGENT__MAX_TURNS`,
 * `--max-turns`.
 */
export const formatLabel = (origins: Origins, path: Tree.Path): string => {
  const place = Tree.toFilePath(path)
  const origin = findOrigin(origins, place)
  if (origin._tag === "File") return place.length === 0 ? "config.yaml" : `config.yaml: ${Tree.formatPath(place)}`
  const inside = place.slice(origin.path.length)
  return `${origin.level === "env-file" ? ".env: " : ""}${origin.name}${inside.length === 0 ? "" : `: ${Tree.formatPath(inside)}`}`
}

/** Name of the variable that contains the address of an endpoint. */
const endpointVariable = "OPENAI_BASE_URL"

/** A part of a route that is not used, and the origin that displaced it by naming another route. */
interface DroppedValue {
  readonly path: Tree.Path
  readonly origin: Origin
  readonly by: Origin
}

type Assignments = ReadonlyArray<Assignment>

const toText = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const readStatement = (tree: unknown, path: Tree.Path): RouteStatement.Statement => ({
  provider: toText(Tree.get(tree, [...path, "provider"])),
  baseUrl: toText(Tree.get(tree, [...path, "base_url"]))
})

const listRouteSections = (tree: unknown): ReadonlyArray<ReadonlyArray<string>> => {
  const tasks = Tree.get(tree, ["auxiliary"])
  return [
    ["model"],
    ["delegation"],
    ["fallback_model"],
    ...(Tree.isMapping(tasks) ? Object.keys(tasks).map((task) => ["auxiliary", task]) : [])
  ]
}

const applyAssignments = (tree: unknown, assignments: Assignments): unknown =>
  assignments.reduce((tree, { path, value }) => Tree.set(tree, path, value), tree)

const isEndpoint = ({ origin }: Assignment): boolean => origin._tag === "Named" && origin.name === endpointVariable

const isOpenAiProvider = (provider: string | undefined): boolean =>
  provider === undefined || ["", "auto", "openai", "custom"].includes(KnownProviders.canonicalize(provider))

/** Returns the addresses of named endpoints, by name. */
const collectEndpoints = (tree: unknown): ReadonlyMap<string, unknown> => {
  const list = Tree.get(tree, ["custom_providers"])
  return new Map(
    (Array.isArray(list) ? list : []).flatMap((entry) => {
      const name = toText(Tree.get(entry, ["name"]))
      return name === undefined ? [] : [[KnownProviders.canonicalize(name), Tree.get(entry, ["base_url"])] as const]
    })
  )
}

/** Tests whether the endpoint named in a section has different addresses in two trees. */
const isMoved = (before: unknown, after: unknown, section: Tree.Path): boolean => {
  const { baseUrl, provider } = readStatement(before, section)
  const name = KnownProviders.canonicalize(provider ?? "")
  const old = collectEndpoints(before)
  return (baseUrl ?? "") === "" && old.has(name) && old.get(name) !== collectEndpoints(after).get(name)
}

/** Returns the positions of fallbacks whose named endpoint has another address in the stronger source. */
const listMovedFallbacks = (before: unknown, after: unknown): ReadonlyArray<number> => {
  const list = Tree.get(before, ["fallback_providers"])
  return (Array.isArray(list) ? list : []).flatMap((_, index) =>
    isMoved(before, after, ["fallback_providers", index]) ? [index] : []
  )
}

const withoutItemKey = (tree: unknown, at: number, key: string): unknown => {
  const list = Tree.get(tree, ["fallback_providers"])
  return Array.isArray(list)
    ? Tree.set(
        tree,
        ["fallback_providers"],
        list.map((entry: unknown, index) => (index === at ? Tree.remove(entry, [key]) : entry))
      )
    : tree
}

/**
 * Merges sources over the file, starting with the weakest. Returns the settings, the assignments that led to them, and
 * the values that are not used.
 */
export const mergeLevels = (
  file: unknown,
  levels: ReadonlyArray<Assignments>
): { readonly tree: unknown; readonly assignments: Assignments; readonly dropped: ReadonlyArray<DroppedValue> } => {
  const { provider } = readStatement(applyAssignments(file, levels.flat()), ["model"])
  const counting = levels.map((level) => (isOpenAiProvider(provider) ? level : level.filter((one) => !isEndpoint(one))))
  const dropped: Array<DroppedValue> = []
  let tree = file
  let origins: Origins = new Map()
  for (const level of counting) {
    const [first] = level
    if (first === undefined) continue
    const own = applyAssignments({}, level)
    const next = applyAssignments(tree, level)
    // The endpoint applies to the provider that is in effect after all sources are merged.
    const address = level.findLast(({ path }) => path.join(".") === "model.base_url")
    const forProvider =
      address !== undefined && isEndpoint(address) && readStatement(own, ["model"]).provider === undefined
        ? provider
        : undefined
    const dropValue = (path: ReadonlyArray<string>, by: Origin): void => {
      const found = Tree.get(tree, path)
      if (found === undefined || found === null) return
      // If the stronger source sets the value itself, the old value was replaced, which is not reported.
      if (Tree.get(own, path) === undefined) dropped.push({ path, origin: findOrigin(origins, path), by })
      tree = Tree.remove(tree, path)
    }
    for (const section of listRouteSections(next)) {
      const named = readStatement(own, section)
      const stronger = section[0] === "model" && forProvider !== undefined ? { ...named, provider: forProvider } : named
      const gone = new Set(
        RouteStatement.listSuperseded(readStatement(tree, section), stronger).map(
          (member) => RouteStatement.fileKeys[member]
        )
      )
      if (isMoved(tree, next, section))
        for (const member of RouteStatement.ofAddress) gone.add(RouteStatement.fileKeys[member])
      const by =
        level.find(({ path }) => path[0] === section[0] && ["provider", "base_url"].includes(path.at(-1) ?? ""))
          ?.origin ?? first.origin
      for (const key of gone) dropValue([...section, key], by)
    }
    for (const index of listMovedFallbacks(tree, next)) {
      for (const member of RouteStatement.ofAddress) tree = withoutItemKey(tree, index, RouteStatement.fileKeys[member])
    }
    if (forProvider !== undefined) tree = Tree.set(tree, ["model", "provider"], forProvider)
    tree = applyAssignments(tree, level)
    origins = new Map([...origins, ...collectOrigins(level)])
  }
  return { tree, assignments: counting.flat(), dropped }
}

/** Sources of the parts of the configured routes. */
export interface RouteSources {
  readonly origins: Origins
  /** Settings that are not used, one line each. */
  readonly unused: ReadonlyArray<string>
}

const formatPlace = (origin: Origin, path: Tree.Path): string =>
  formatLabel(collectOrigins([{ path: path.map(String), value: undefined, origin }]), path)

const formatUnused = ({ by, origin, path }: DroppedValue): string =>
  `${formatPlace(origin, path)} is not used: it is for another route than ` +
  `${by._tag === "File" ? "config.yaml" : formatPlace(by, by.path)} names`

/** Creates the sources of loaded settings. */
export const make = (origins: Origins, dropped: ReadonlyArray<DroppedValue>): RouteSources => ({
  origins,
  unused: dropped.map(formatUnused)
})

const none: Origins = new Map()

/** Returns the source that sets a place. */
export const findLevel = (sources: RouteSources | undefined, path: Tree.Path): Level => {
  const origin = findOrigin(sources?.origins ?? none, path)
  return origin._tag === "File" ? "file" : origin.level
}

/** Describes the source that sets a place: `config.yaml: model.base_url`, `OPENAI_BASE_URL`, `--base-url`. */
export const describeSource = (sources: RouteSources | undefined, path: Tree.Path): string =>
  formatLabel(sources?.origins ?? none, path)
