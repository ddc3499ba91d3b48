/** Settings from environment variables, each by the name of its key; see `SettingSources`. */
import type { Variables } from "../platform/ProcessVariables.ts"
import * as Shape from "./internal/SettingsShape.ts"
import * as Tree from "./internal/Tree.ts"
import { type Assignment, type Level, makeOrigin } from "./SettingSources.ts"

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

const toGeneralPath = (name: string): ReadonlyArray<string> | undefined => {
  if (!name.startsWith(prefix)) return undefined
  const path = name.slice(prefix.length).toLowerCase().split("__")
  if (path.includes("")) return undefined
  if (path.length > 1) return path
  const only = Shape.getRootShape().fields.get(path[0] ?? "")
  return only === undefined || only._tag === "Section" ? undefined : path
}

/** Settings from variables, and remarks about variables that match no setting. */
interface FromVariables {
  readonly assignments: ReadonlyArray<Assignment>
  readonly remarks: ReadonlyArray<string>
}

/** Returns the name of the variable for a path. */
export const toVariableName = (path: ReadonlyArray<string>): string => prefix + path.join("__").toUpperCase()

const describeUnknown = (path: ReadonlyArray<string>): string => {
  const meant = Shape.findNearestPath(path)
  return `unknown setting, ignored${meant === undefined ? "" : `; did you mean ${toVariableName(meant)}?`}`
}

/** Reads the variables of one source. The general names are read last and therefore take precedence. */
export const readVariables = (
  variables: Variables,
  level: Extract<Level, "env-file" | "environment">
): FromVariables => {
  const where = level === "env-file" ? ".env: " : ""
  const remarks: Array<string> = []
  const assignVariable = (name: string, path: ReadonlyArray<string>): ReadonlyArray<Assignment> => {
    const text = variables[name]
    if (!text) return []
    const shape = Shape.findShapeOfPath(path)
    if (shape !== undefined) return [{ path, value: Tree.coerce(text, shape), origin: makeOrigin(name, path, level) }]
    remarks.push(`${where}${name}: ${describeUnknown(path)}`)
    return []
  }
  const second = Object.entries(documented).flatMap(([name, path]) => assignVariable(name, path.split(".")))
  const general = Object.keys(variables).flatMap((name) => {
    const path = Object.hasOwn(documented, name) ? undefined : toGeneralPath(name)
    return path === undefined ? [] : assignVariable(name, path)
  })
  return { assignments: [...second, ...general], remarks }
}
