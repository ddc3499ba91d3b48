/**
 * Which variables set which settings.
 *
 * **Details**
 *
 * Every key has one: `HERMES_` and its path in capitals with `__` between the levels, `HERMES_AGENT__MAX_TURNS`. A few keys
 * have a second, documented name; the general one wins over it. A variable that is set to nothing says nothing.
 *
 * **Gotchas**
 *
 * Names that the user chose are lower-case in this form: `HERMES_PROVIDERS__OPENROUTER__REQUEST_TIMEOUT_SECONDS`. Variables
 * of one level that name no key (`HERMES_HOME`, `HERMES_PLUGINS_DEBUG`) are other parts' matter.
 *
 * @since 0.1.0
 */
import { nearest } from "../../domain/Similarity.ts"
import * as Coerce from "./Coerce.ts"
import { type Assignment, type Level, named } from "./Origin.ts"
import type { Variables } from "../../platform/ProcessVariables.ts"
import type { Section } from "./Shape.ts"
import * as ShapeOf from "./Shape.ts"

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

const generalPath = (name: string, root: Section): ReadonlyArray<string> | undefined => {
  if (!name.startsWith(prefix)) return undefined
  const path = name.slice(prefix.length).toLowerCase().split("__")
  if (path.includes("")) return undefined
  if (path.length > 1) return path
  const only = root.fields.get(path[0] ?? "")
  return only === undefined || only._tag === "Section" ? undefined : path
}

/** What some variables say, and those that look like settings and are none. */
export interface Said {
  readonly assignments: ReadonlyArray<Assignment>
  readonly remarks: ReadonlyArray<string>
}

/** The variable of a path. */
export const nameOf = (path: ReadonlyArray<string>): string => prefix + path.join("__").toUpperCase()

const unknown = (path: ReadonlyArray<string>, root: Section): string => {
  const depth = path.findIndex((_, index) => ShapeOf.at(root, path.slice(0, index + 1)) === undefined)
  const parent = ShapeOf.at(root, path.slice(0, depth))
  const meant = parent?._tag === "Section" ? nearest(path[depth] ?? "", parent.fields.keys()) : undefined
  return meant === undefined
    ? "unknown setting, ignored"
    : `unknown setting, ignored; did you mean ${nameOf([...path.slice(0, depth), meant, ...path.slice(depth + 1)])}?`
}

/** See {@link Said}. The general names come last and so win. */
export const read = (variables: Variables, root: Section, level: Extract<Level, "env-file" | "environment">): Said => {
  const where = level === "env-file" ? ".env: " : ""
  const remarks: Array<string> = []
  const assign = (name: string, path: ReadonlyArray<string>): ReadonlyArray<Assignment> => {
    const text = variables[name]
    if (!text) return []
    const shape = ShapeOf.ofPath(path)
    if (shape !== undefined) return [{ path, value: Coerce.coerce(text, shape), origin: named(name, path, level) }]
    remarks.push(`${where}${name}: ${unknown(path, root)}`)
    return []
  }
  const second = Object.entries(documented).flatMap(([name, path]) => assign(name, path.split(".")))
  const general = Object.keys(variables).flatMap((name) => {
    const path = Object.hasOwn(documented, name) ? undefined : generalPath(name, root)
    return path === undefined ? [] : assign(name, path)
  })
  return { assignments: [...second, ...general], remarks }
}
