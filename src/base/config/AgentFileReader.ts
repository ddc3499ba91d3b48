/** Reader of the values of a parsed agent file. */
import { findNearest } from "../domain/Similarity.ts"
import {
  keys,
  llmKeys,
  makeWordKind,
  nestedKeys,
  runSettings,
  serverKeys,
  text,
  transports,
  type Key,
  unsupportedKeys
} from "./AgentFileKeys.ts"
import type { Flag } from "./Config.ts"
import type * as ConfigFile from "./ConfigFile.ts"
import { toFullEntry } from "./Fields.ts"
import * as Tree from "./internal/Tree.ts"

/** An entry of `middlewares`. */
export interface MiddlewareEntry {
  readonly import: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** A mistake in an agent file. */
export interface FileMistake {
  readonly path: ConfigFile.Path
  readonly message: string
}

const describeValue = (value: unknown): string =>
  value === undefined || value === null || value === ""
    ? "nothing"
    : Array.isArray(value)
      ? "a list"
      : Tree.isMapping(value)
        ? "a mapping"
        : typeof value === "string"
          ? "another text"
          : String(value)

/** A file that is read, with the mistakes and the settings found so far. */
interface FileReading {
  readonly tree: Tree.Mapping
  readonly fileName: string
  /** Depth below the main agent. */
  readonly depth: number
  readonly wrong: Array<FileMistake>
  readonly settings: Array<Flag>
}

const recordWrong = ({ wrong }: FileReading, path: ConfigFile.Path, message: string): undefined => {
  wrong.push({ path, message })
  return undefined
}

const readScalar = (file: FileReading, value: unknown, { kind, setting }: Key, path: ConfigFile.Path): unknown => {
  if (value === undefined || value === null) return undefined
  const read = kind.read(value)
  // The error does not contain the value, because it may be a secret.
  if (read === undefined) return recordWrong(file, path, `expected ${kind.expected}, got ${describeValue(value)}`)
  if (file.depth > 0 && setting !== undefined && runSettings.has(setting))
    return recordWrong(file, path, "not supported for a sub-agent: set it in the file of the main agent, or remove it")
  if (setting !== undefined)
    file.settings.push({ name: `${file.fileName}: ${Tree.formatPath(path)}`, key: setting, value: read })
  return read
}

const refuseUnknownKeys = (
  file: FileReading,
  value: Tree.Mapping,
  known: ReadonlyArray<string>,
  at: ConfigFile.Path
): void => {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    const remedy = unsupportedKeys[Tree.formatPath([...at, key])]
    const meant = findNearest(key, known)
    recordWrong(
      file,
      [...at, key],
      remedy !== undefined
        ? `not supported in agent files: ${remedy}`
        : `unknown key${meant === undefined ? `; the keys are ${known.join(", ")}` : `; did you mean "${meant}"?`}`
    )
  }
}

const readMapping = (file: FileReading, value: unknown, path: ConfigFile.Path): Tree.Mapping | undefined =>
  Tree.isMapping(value) ? value : recordWrong(file, path, `expected a mapping, got ${describeValue(value)}`)

const readList = <A>(
  file: FileReading,
  key: string,
  item: (value: unknown, path: ConfigFile.Path) => A | undefined
): ReadonlyArray<A> | undefined => {
  const value = file.tree[key]
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value)) return recordWrong(file, [key], `expected a list, got ${describeValue(value)}`)
  return value.flatMap((one: unknown, index) => item(one, [key, index]) ?? [])
}

const readTextAt = (file: FileReading, value: unknown, path: ConfigFile.Path): string | undefined => {
  const read = readScalar(file, value ?? "", { kind: text }, path)
  return typeof read === "string" ? read : undefined
}

const readKnownMapping = (file: FileReading, value: unknown, path: ConfigFile.Path, known: ReadonlyArray<string>) => {
  const entry = readMapping(file, value, path)
  if (entry !== undefined) refuseUnknownKeys(file, entry, known, path)
  return entry
}

/** Reads `llm_config`, and returns its temperature. */
const readModel = (file: FileReading): number | undefined => {
  const value = file.tree["llm_config"]
  if (value === undefined || value === null) return undefined
  const config = readMapping(file, value, ["llm_config"])
  if (config === undefined) return undefined
  refuseUnknownKeys(file, config, Object.keys(llmKeys), ["llm_config"])
  const read = Object.fromEntries(
    Object.entries(llmKeys).map(([key, declared]) => [
      key,
      readScalar(file, config[key], declared, ["llm_config", key])
    ])
  )
  return typeof read["temperature"] === "number" ? read["temperature"] : undefined
}

/** Reads `system_prompt`: a text, or a list of texts. */
const readSystemPrompt = (file: FileReading): string | undefined => {
  const value = file.tree["system_prompt"]
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value)) return readTextAt(file, value, ["system_prompt"])
  return value.flatMap((one: unknown, index) => readTextAt(file, one, ["system_prompt", index]) ?? []).join("\n\n")
}

const readTool = (file: FileReading, value: unknown, path: ConfigFile.Path): string | undefined => {
  if (typeof value === "string") return readTextAt(file, value, path)
  const entry = readKnownMapping(file, value, path, ["name"])
  return entry === undefined ? undefined : readTextAt(file, entry["name"], [...path, "name"])
}

const readMiddleware = (file: FileReading, value: unknown, path: ConfigFile.Path): MiddlewareEntry | undefined => {
  const entry = readKnownMapping(file, toFullEntry(value, "import"), path, ["import", "params"])
  if (entry === undefined) return undefined
  const name = readTextAt(file, entry["import"], [...path, "import"])
  const params =
    entry["params"] === undefined || entry["params"] === null
      ? undefined
      : readMapping(file, entry["params"], [...path, "params"])
  return name === undefined ? undefined : { import: name, ...(params === undefined ? {} : { params }) }
}

/** Reads an entry of `mcp_servers`, and returns its name. Its settings are settings of the run. */
const readServer = (file: FileReading, value: unknown, path: ConfigFile.Path): string | undefined => {
  if (file.depth > 0)
    return recordWrong(file, path, "not supported for a sub-agent: name the server in the file of the main agent")
  const entry = readKnownMapping(file, value, path, ["name", "type", ...serverKeys])
  if (entry === undefined) return undefined
  const name = readTextAt(file, entry["name"], [...path, "name"])
  const kind = makeWordKind(...Object.keys(transports))
  const type = readScalar(file, entry["type"], { kind }, [...path, "type"])
  if (name !== undefined && !/^[A-Za-z0-9][\w-]{0,63}$/.test(name))
    return recordWrong(file, [...path, "name"], "expected letters, digits, - and _")
  const needed = typeof type === "string" ? transports[type] : undefined
  if (needed !== undefined) readTextAt(file, entry[needed], [...path, needed])
  else if (entry["command"] === undefined && entry["url"] === undefined)
    return recordWrong(file, path, "expected a command to start, or the url of a server that runs")
  const server = Object.fromEntries(
    Object.entries(entry).filter(([key, value]) => serverKeys.includes(key) && value !== null)
  )
  // The file may come with a project, so its servers are sandboxed by default.
  file.settings.push({
    name: `${file.fileName}: ${Tree.formatPath(path)}`,
    key: `mcp_servers.${name}`,
    value: { sandbox: "workspace-write", ...server }
  })
  return name
}

const readSubAgent = (file: FileReading, value: unknown, path: ConfigFile.Path) => {
  const entry = readKnownMapping(file, value, path, ["name", "config_path"])
  if (entry === undefined) return undefined
  const name = readTextAt(file, entry["name"], [...path, "name"])
  const configPath = readTextAt(file, entry["config_path"], [...path, "config_path"])
  if (name !== undefined && !/^[\w-]{1,64}$/.test(name))
    return recordWrong(file, [...path, "name"], "expected letters, digits, - and _")
  return name === undefined || configPath === undefined ? undefined : { name, configPath, path }
}

/** Creates a reader for the parsed values of one file. The reader collects mistakes instead of failing at the first. */
export const makeReader = (tree: Tree.Mapping, fileName: string, depth: number) => {
  const file: FileReading = { tree, fileName, depth, wrong: [], settings: [] }
  const readEach =
    <A>(key: string, read: (file: FileReading, value: unknown, path: ConfigFile.Path) => A | undefined) =>
    (): ReadonlyArray<A> | undefined =>
      readList(file, key, (value, path) => read(file, value, path))
  return {
    wrong: file.wrong,
    refuse: (path: ConfigFile.Path, message: string) => recordWrong(file, path, message),
    settings: file.settings,
    scalar: (key: string): unknown => {
      const declared = keys[key]
      return declared === undefined ? undefined : readScalar(file, tree[key], declared, [key])
    },
    topKeys: () => refuseUnknownKeys(file, tree, [...Object.keys(keys), ...nestedKeys], []),
    llm: () => readModel(file),
    systemPrompt: () => readSystemPrompt(file),
    tools: readEach("tools", readTool),
    stopTools: readEach("stop_tools", readTextAt),
    outputSchema: () =>
      tree["output_schema"] === undefined || tree["output_schema"] === null
        ? undefined
        : readMapping(file, tree["output_schema"], ["output_schema"]),
    middlewares: readEach("middlewares", readMiddleware),
    mcpServers: readEach("mcp_servers", readServer),
    subAgents: readEach("sub_agents", readSubAgent)
  }
}
