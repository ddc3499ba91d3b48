/**
 * Reads settings from environment variables, and keeps the source of each setting, so that an error names what the user wrote.
 *
 * **Details**
 *
 * Every key has a variable: `HERMES_` and its path in capitals with `__` between the levels, `HERMES_AGENT__MAX_TURNS`. A few
 * keys have a second, documented name; the general one wins over it. An empty variable counts as not set.
 *
 * **Gotchas**
 *
 * Names that the user chose are lower-case in this form: `HERMES_PROVIDERS__OPENROUTER__REQUEST_TIMEOUT_SECONDS`. Variables
 * of one level that name no key (`HERMES_HOME`, `HERMES_PLUGINS_DEBUG`) belong to other modules.
 */
import type { Variables } from "../../platform/ProcessVariables.ts"
import * as Coerce from "./Coerce.ts"
import * as Shape from "./Shape.ts"
import * as Tree from "./Tree.ts"

/** A source of settings, weakest first. */
export type Level = "file" | "env-file" | "environment" | "flags"

/** The file, or what a variable or flag is called, after where it stands (`.env: `). */
export type Origin =
  | { readonly _tag: "File" }
  | { readonly _tag: "Named"; readonly level: Exclude<Level, "file">; readonly name: string; readonly path: Tree.Path }

/** A value and where it goes. */
export interface Assignment {
  readonly path: ReadonlyArray<string>
  readonly value: unknown
  readonly origin: Origin
}

/** The file. */
export const file: Origin = { _tag: "File" }

/** A variable or flag that sets the value at a path. */
export const named = (name: string, path: Tree.Path, level: Exclude<Level, "file">): Origin => ({ _tag: "Named", level, name, path })

/** Origins by place; the nearest one above a place holds for it. */
export type Origins = ReadonlyMap<string, Origin>

const key = (path: Tree.Path): string => path.join("\0")

/** The map of the assignments, of which the later ones win. */
export const collect = (assignments: ReadonlyArray<Assignment>): Origins =>
  new Map(assignments.map(({ origin, path }) => [key(path), origin]))

/** Source of the value at a place. */
export const at = (origins: Origins, path: Tree.Path): Origin => {
  for (let length = path.length; length > 0; length--) {
    const origin = origins.get(key(path.slice(0, length)))
    if (origin !== undefined) return origin
  }
  return file
}

/** Beginning of a line about a place: `config.yaml: agent.max_turns`, `HERMES_AGENT__MAX_TURNS`, `--max-turns`. */
export const label = (origins: Origins, path: Tree.Path): string => {
  const place = Tree.inFile(path)
  const origin = at(origins, place)
  if (origin._tag === "File") return place.length === 0 ? "config.yaml" : `config.yaml: ${Tree.show(place)}`
  const inside = place.slice(origin.path.length)
  return `${origin.level === "env-file" ? ".env: " : ""}${origin.name}${inside.length === 0 ? "" : `: ${Tree.show(inside)}`}`
}

const documented: Readonly<Record<string, string>> = {
  HERMES_MODEL: "model.default",
  OPENAI_BASE_URL: "model.base_url",
  HERMES_API_TIMEOUT: "network.request_timeout_seconds",
  HERMES_STREAM_READ_TIMEOUT: "network.stream_read_timeout_seconds",
  HERMES_STREAM_STALE_TIMEOUT: "network.stream_stale_timeout_seconds",
  HERMES_API_CALL_STALE_TIMEOUT: "network.call_stale_timeout_seconds",
  HERMES_STREAM_RETRIES: "network.stream_retries",
  HERMES_ACCEPT_HOOKS: "hooks_auto_accept",
  HERMES_REDACT_SECRETS: "security.redact_secrets",
  HERMES_ALLOW_PRIVATE_URLS: "security.allow_private_urls",
  HERMES_WRITE_SAFE_ROOT: "security.write_safe_root",
  HERMES_PLUGIN_PAYLOAD_MAX_CHARS: "plugins.payload_max_chars"
}

const prefix = "HERMES_"

const generalPath = (name: string): ReadonlyArray<string> | undefined => {
  if (!name.startsWith(prefix)) return undefined
  const path = name.slice(prefix.length).toLowerCase().split("__")
  if (path.includes("")) return undefined
  if (path.length > 1) return path
  const only = Shape.root().fields.get(path[0] ?? "")
  return only === undefined || only._tag === "Section" ? undefined : path
}

/** Settings from variables, and remarks about variables that name no setting. */
export interface FromVariables {
  readonly assignments: ReadonlyArray<Assignment>
  readonly remarks: ReadonlyArray<string>
}

/** The variable of a path. */
export const nameOf = (path: ReadonlyArray<string>): string => prefix + path.join("__").toUpperCase()

const unknown = (path: ReadonlyArray<string>): string => {
  const meant = Shape.nearestPath(path)
  return `unknown setting, ignored${meant === undefined ? "" : `; did you mean ${nameOf(meant)}?`}`
}

/** Reads the variables of one source. The general names come last and so win. */
export const read = (variables: Variables, level: Extract<Level, "env-file" | "environment">): FromVariables => {
  const where = level === "env-file" ? ".env: " : ""
  const remarks: Array<string> = []
  const assign = (name: string, path: ReadonlyArray<string>): ReadonlyArray<Assignment> => {
    const text = variables[name]
    if (!text) return []
    const shape = Shape.ofPath(path)
    if (shape !== undefined) return [{ path, value: Coerce.coerce(text, shape), origin: named(name, path, level) }]
    remarks.push(`${where}${name}: ${unknown(path)}`)
    return []
  }
  const second = Object.entries(documented).flatMap(([name, path]) => assign(name, path.split(".")))
  const general = Object.keys(variables).flatMap((name) => {
    const path = Object.hasOwn(documented, name) ? undefined : generalPath(name)
    return path === undefined ? [] : assign(name, path)
  })
  return { assignments: [...second, ...general], remarks }
}
