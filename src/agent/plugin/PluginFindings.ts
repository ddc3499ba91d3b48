/**
 * Findings of a check of a plugin, each with file and line. Pure except for reading YAML.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import * as Payloads from "../../hooks/Payloads.ts"
import * as Manifest from "./Manifest.ts"
import type { Contribution } from "./Plugin.ts"

/** A finding. An `error` must be changed, a `warning` should be. */
export interface Finding {
  readonly severity: "error" | "warning"
  /** Absolute path. */
  readonly file: string
  readonly line: number
  readonly message: string
}

/** Names of the parts that a plugin registers. */
export interface RegisteredNames {
  readonly tools: ReadonlyArray<string>
  readonly hooks: ReadonlyArray<string>
  readonly middleware: ReadonlyArray<{ readonly kind: string; readonly name: string }>
  readonly providers: ReadonlyArray<string>
  readonly commands: ReadonlyArray<string>
  readonly cliCommands: ReadonlyArray<string>
  readonly memoryProviders: ReadonlyArray<string>
  readonly contextEngines: ReadonlyArray<string>
}

const listNames = (parts: ReadonlyArray<{ readonly name: string }> | undefined): ReadonlyArray<string> =>
  (parts ?? []).map(({ name }) => name)

/** Lists the names in a contribution, without building its tools' handlers. */
export const listRegistered = ({
  cliCommands,
  commands,
  contextEngines,
  hooks = [],
  memoryProviders,
  middleware = [],
  providers,
  tools = []
}: Contribution<unknown>): RegisteredNames => ({
  tools: tools.flatMap((toolset) => listNames(toolset.tools)),
  hooks: Array.from(new Set(hooks.flatMap(({ listeners }) => listeners.map(({ event }) => event)))),
  middleware: middleware.map(({ kind, name }) => ({ kind, name })),
  providers: listNames(providers),
  commands: listNames(commands),
  cliCommands: listNames(cliCommands),
  memoryProviders: listNames(memoryProviders),
  contextEngines: listNames(contextEngines)
})

/** Returns the line of the first quotation of a name in a text, counted from 1; `undefined` if it is not quoted. */
export const findQuotedLine = (text: string, name: string): number | undefined => {
  const index = text
    .split("\n")
    .findIndex((line) => ["'", '"', "`"].some((quote) => line.includes(`${quote}${name}${quote}`)))
  return index < 0 ? undefined : index + 1
}

/**
 * Returns the place of the first frame of a stack that lies in a directory, which must be a real path with a separator
 * at its end.
 */
export const findFrame = (
  stack: string,
  directory: string
): { readonly file: string; readonly line: number } | undefined => {
  for (const [, path = "", line] of stack.matchAll(/(?:file:\/\/)?(\/[^\n():?]+)(?:\?[^\n():]*)?:(\d+)/g)) {
    const file = decodeURIComponent(path)
    if (file.startsWith(directory) && !file.slice(directory.length).includes("node_modules"))
      return { file, line: Number(line) }
  }
  return undefined
}

const describeHook = (event: string): string => {
  const meant = findNearest(event, Payloads.names)
  return `nothing emits the hook "${event}"${meant === undefined ? "" : `, did you mean ${meant}?`}`
}

/** Finds the names of hooks that nothing emits, and a plugin that registers nothing. */
export const checkRegistered = (
  registered: RegisteredNames,
  module: string,
  source: string
): ReadonlyArray<Finding> => {
  const unknown = registered.hooks.filter((event) => !Payloads.isHookName(event))
  const isEmpty = Object.values(registered).every((names) => names.length === 0)
  return [
    ...unknown.map((event): Finding => ({
      severity: "error",
      file: module,
      line: findQuotedLine(source, event) ?? 1,
      message: describeHook(event)
    })),
    ...(isEmpty
      ? [{ severity: "warning", file: module, line: 1, message: "it registers nothing" } satisfies Finding]
      : [])
  ]
}

const manifestKeys = [
  "name",
  "version",
  "description",
  "author",
  "kind",
  "requires_env",
  "provides_tools",
  "provides_hooks",
  "hooks",
  "manifest_version",
  "api_version",
  "config"
]

const readTexts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : []

type Report = (path: ReadonlyArray<string | number>, message: string, severity?: Finding["severity"]) => void

const checkProvided = (
  fields: Readonly<Record<string, unknown>>,
  registered: RegisteredNames | undefined,
  addReport: Report
): void => {
  if (registered === undefined) return
  const hooksKey = fields["provides_hooks"] === undefined ? "hooks" : "provides_hooks"
  for (const [index, event] of readTexts(fields[hooksKey]).entries()) {
    if (!Payloads.isHookName(event)) addReport([hooksKey, index], describeHook(event))
    else if (!registered.hooks.includes(event)) addReport([hooksKey, index], `the plugin does not register ${event}`)
  }
  for (const [index, name] of readTexts(fields["provides_tools"]).entries()) {
    if (registered.tools.includes(name)) continue
    const meant = findNearest(name, registered.tools)
    const remedy = meant === undefined ? "" : `, did you mean ${meant}?`
    addReport(["provides_tools", index], `the plugin does not register the tool "${name}"${remedy}`)
  }
}

const checkFields = (fields: Readonly<Record<string, unknown>>, addReport: Report): void => {
  for (const key of Object.keys(fields)) {
    const meant = manifestKeys.includes(key) ? undefined : findNearest(key, manifestKeys)
    if (meant !== undefined) addReport([key], `unknown field ${key}, did you mean ${meant}?`)
  }
  for (const key of ["name", "description", "author", "kind"]) {
    const value = fields[key]
    if (value !== undefined && value !== null && typeof value !== "string") addReport([key], `${key} is not a text`)
  }
  for (const key of ["requires_env", "provides_tools", "provides_hooks", "hooks"]) {
    const value = fields[key]
    if (value !== undefined && value !== null && !Array.isArray(value)) addReport([key], `${key} is not a list`)
  }
  if (!Predicate.isString(fields["name"]) || fields["name"].trim() === "")
    addReport([], "name is missing: the name of the folder is used instead", "warning")
  const contract = Manifest.findContractProblem(fields["api_version"])
  if (contract !== undefined) addReport(["api_version"], contract)
}

/** Checks the text of a manifest. `registered` is `undefined` if the plugin could not be loaded. */
export const checkManifest = Effect.fnUntraced(function* (
  text: string,
  file: string,
  registered: RegisteredNames | undefined
): Effect.fn.Return<ReadonlyArray<Finding>> {
  const { findLine } = yield* Yaml.load
  const findings: Array<Finding> = []
  const addReport: Report = (path, message, severity = "error") =>
    void findings.push({ severity, file, line: path.length === 0 ? 1 : findLine(text, path), message })
  const read = Effect.zipWith(Manifest.readManifest(text, file), Yaml.read(text, file), (decoded, value) => ({
    ...decoded,
    fields: Json.isFields(value) ? value : {}
  }))
  const result = yield* Effect.result(read)
  if (result._tag === "Failure") return [toManifestFinding(result.failure, file)]
  const { fields, manifest, warnings } = result.success
  checkFields(fields, addReport)
  for (const { message, path } of manifest.config.problems) addReport(["config", ...path], message)
  for (const warning of warnings) {
    if (warning.startsWith("unknown kind")) addReport(["kind"], warning)
    if (warning.startsWith("manifest_version")) addReport(["manifest_version"], warning)
  }
  checkProvided(fields, registered, addReport)
  return findings
})

const toManifestFinding = ({ message }: ConfigError, file: string): Finding => {
  const line = /\bline (\d+)/.exec(message)?.[1]
  return {
    severity: "error",
    file,
    line: line === undefined ? 1 : Number(line),
    message: message.replace(`${file}: `, "")
  }
}
