/**
 * Chooses a model by the keys in the environment if the settings choose none: the default model of the first provider
 * with a key. A provider without a default model is never chosen, which excludes keys that usually serve another
 * purpose (`GITHUB_TOKEN`). Anything that the settings say about the route of the main model prevents the choice.
 */
import type { Variables } from "../platform/ProcessVariables.ts"
import * as KnownProviders from "./KnownProviders.ts"
import * as Tree from "./internal/Tree.ts"
import type { Values } from "./Settings.ts"
import * as SettingSources from "./SettingSources.ts"

/** Places that decide the route of the main model. */
const provider: ReadonlyArray<string> = ["model", "provider"]
const model: ReadonlyArray<string> = ["model", "default"]
const others = ["base_url", "api_key", "key_env", "api_key_env", "api_mode"]

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === ""

/** Tests whether the settings leave the main model open. */
const isOpen = (tree: unknown): boolean => {
  const named = Tree.get(tree, provider)
  return (
    (isAbsent(named) || (typeof named === "string" && named.trim().toLowerCase() === "auto")) &&
    isAbsent(Tree.get(tree, model)) &&
    others.every((name) => isAbsent(Tree.get(tree, ["model", name])))
  )
}

/** A provider that can be used with a key from the environment. */
interface Candidate {
  readonly name: string
  readonly model: string
  readonly variable: string
}

const findCandidate = (variables: Variables): Candidate | undefined => {
  for (const [name, { defaultModel, keys = [] }] of Object.entries(KnownProviders.rows)) {
    const variable = keys.find((key) => (variables[key] ?? "").trim() !== "")
    if (defaultModel !== undefined && variable !== undefined) return { name, model: defaultModel, variable }
  }
  return undefined
}

/** Assigns the provider and the model that a key in the environment selects. Empty if the settings select a model. */
export const chooseByKey = (
  tree: unknown,
  environment: { readonly process: Variables; readonly file: Variables }
): ReadonlyArray<SettingSources.Assignment> => {
  if (!isOpen(tree)) return []
  for (const level of ["environment", "env-file"] as const) {
    const found = findCandidate(level === "environment" ? environment.process : environment.file)
    if (found === undefined) continue
    return [
      { path: provider, value: found.name, origin: SettingSources.makeOrigin(found.variable, provider, level) },
      { path: model, value: found.model, origin: SettingSources.makeOrigin(found.variable, model, level) }
    ]
  }
  return []
}

/** Describes the model that a key in the environment selected. Undefined if the settings select the model. */
export const describeChoice = (settings: Pick<Values, "model" | "sources">): string | undefined => {
  const row = KnownProviders.rows[settings.model.provider]
  const source = SettingSources.describeSource(settings.sources, model)
  const isByKey = row?.keys?.includes(source.replace(/^\.env: /, "")) === true
  return isByKey
    ? `using ${settings.model.default} of ${row.displayName}, because ${source} is set; ` +
        "`hermes model` or --model chooses another"
    : undefined
}
