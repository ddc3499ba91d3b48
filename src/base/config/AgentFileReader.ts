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

/** Creates a reader for the parsed values of one file. The reader collects mistakes instead of failing at the first. */
export const makeReader = (tree: Tree.Mapping, fileName: string, depth: number) => {
  const wrong: Array<FileMistake> = []
  const settings: Array<Flag> = []
  const recordWrong = (path: ConfigFile.Path, message: string): undefined => {
    wrong.push({ path, message })
    return undefined
  }

  const readScalar = (value: unknown, { kind, setting }: Key, path: ConfigFile.Path): unknown => {
    if (value === undefined || value === null) return undefined
    const read = kind.read(value)
    // The error does not contain the value, because it may be a secret.
    if (read === undefined) return recordWrong(path, `expected ${kind.expected}, got ${describeValue(value)}`)
    if (depth > 0 && setting !== undefined && runSettings.has(setting))
      return recordWrong(path, "not supported for a sub-agent: set it in the file of the main agent, or remove it")
    if (setting !== undefined)
      settings.push({ name: `${fileName}: ${Tree.formatPath(path)}`, key: setting, value: read })
    return read
  }

  const refuseUnknownKeys = (value: Tree.Mapping, known: ReadonlyArray<string>, at: ConfigFile.Path): void => {
    for (const key of Object.keys(value)) {
      if (known.includes(key)) continue
      const remedy = unsupportedKeys[Tree.formatPath([...at, key])]
      const meant = findNearest(key, known)
      recordWrong(
        [...at, key],
        remedy !== undefined
          ? `not supported in agent files: ${remedy}`
          : `unknown key${meant === undefined ? `; the keys are ${known.join(", ")}` : `; did you mean "${meant}"?`}`
      )
    }
  }

  const readMapping = (value: unknown, path: ConfigFile.Path): Tree.Mapping | undefined =>
    Tree.isMapping(value) ? value : recordWrong(path, `expected a mapping, got ${describeValue(value)}`)

  const readList = <A>(
    key: string,
    item: (value: unknown, path: ConfigFile.Path) => A | undefined
  ): ReadonlyArray<A> | undefined => {
    const value = tree[key]
    if (value === undefined || value === null) return undefined
    if (!Array.isArray(value)) return recordWrong([key], `expected a list, got ${describeValue(value)}`)
    return value.flatMap((one: unknown, index) => item(one, [key, index]) ?? [])
  }

  const readTextAt = (value: unknown, path: ConfigFile.Path): string | undefined => {
    const read = readScalar(value ?? "", { kind: text }, path)
    return typeof read === "string" ? read : undefined
  }

  const readKnownMapping = (value: unknown, path: ConfigFile.Path, known: ReadonlyArray<string>) => {
    const entry = readMapping(value, path)
    if (entry !== undefined) refuseUnknownKeys(entry, known, path)
    return entry
  }

  return {
    wrong,
    refuse: recordWrong,
    settings,
    scalar: (key: string): unknown => {
      const declared = keys[key]
      return declared === undefined ? undefined : readScalar(tree[key], declared, [key])
    },
    topKeys: () => refuseUnknownKeys(tree, [...Object.keys(keys), ...nestedKeys], []),
    llm: (): number | undefined => {
      const value = tree["llm_config"]
      if (value === undefined || value === null) return undefined
      const config = readMapping(value, ["llm_config"])
      if (config === undefined) return undefined
      refuseUnknownKeys(config, Object.keys(llmKeys), ["llm_config"])
      const read = Object.fromEntries(
        Object.entries(llmKeys).map(([key, declared]) => [key, readScalar(config[key], declared, ["llm_config", key])])
      )
      return typeof read["temperature"] === "number" ? read["temperature"] : undefined
    },
    systemPrompt: (): string | undefined => {
      const value = tree["system_prompt"]
      if (value === undefined || value === null) return undefined
      if (!Array.isArray(value)) return readTextAt(value, ["system_prompt"])
      return value.flatMap((one: unknown, index) => readTextAt(one, ["system_prompt", index]) ?? []).join("\n\n")
    },
    tools: () =>
      readList("tools", (value, path) => {
        if (typeof value === "string") return readTextAt(value, path)
        const entry = readKnownMapping(value, path, ["name"])
        return entry === undefined ? undefined : readTextAt(entry["name"], [...path, "name"])
      }),
    stopTools: () => readList("stop_tools", readTextAt),
    outputSchema: () =>
      tree["output_schema"] === undefined || tree["output_schema"] === null
        ? undefined
        : readMapping(tree["output_schema"], ["output_schema"]),
    middlewares: () =>
      readList("middlewares", (value, path): MiddlewareEntry | undefined => {
        const entry = readKnownMapping(toFullEntry(value, "import"), path, ["import", "params"])
        if (entry === undefined) return undefined
        const name = readTextAt(entry["import"], [...path, "import"])
        const params =
          entry["params"] === undefined || entry["params"] === null
            ? undefined
            : readMapping(entry["params"], [...path, "params"])
        return name === undefined ? undefined : { import: name, ...(params === undefined ? {} : { params }) }
      }),
    mcpServers: () =>
      readList("mcp_servers", (value, path) => {
        if (depth > 0)
          return recordWrong(path, "not supported for a sub-agent: name the server in the file of the main agent")
        const entry = readKnownMapping(value, path, ["name", "type", ...serverKeys])
        if (entry === undefined) return undefined
        const name = readTextAt(entry["name"], [...path, "name"])
        const type = readScalar(entry["type"], { kind: makeWordKind(...Object.keys(transports)) }, [...path, "type"])
        if (name !== undefined && !/^[A-Za-z0-9][\w-]{0,63}$/.test(name))
          return recordWrong([...path, "name"], "expected letters, digits, - and _")
        const needed = typeof type === "string" ? transports[type] : undefined
        if (needed !== undefined) readTextAt(entry[needed], [...path, needed])
        else if (entry["command"] === undefined && entry["url"] === undefined)
          return recordWrong(path, "expected a command to start, or the url of a server that runs")
        const server = Object.fromEntries(
          Object.entries(entry).filter(([key, value]) => serverKeys.includes(key) && value !== null)
        )
        // The file may come with a project, so its servers are sandboxed by default.
        settings.push({
          name: `${fileName}: ${Tree.formatPath(path)}`,
          key: `mcp_servers.${name}`,
          value: { sandbox: "workspace-write", ...server }
        })
        return name
      }),
    subAgents: () =>
      readList("sub_agents", (value, path) => {
        const entry = readKnownMapping(value, path, ["name", "config_path"])
        if (entry === undefined) return undefined
        const name = readTextAt(entry["name"], [...path, "name"])
        const configPath = readTextAt(entry["config_path"], [...path, "config_path"])
        if (name !== undefined && !/^[\w-]{1,64}$/.test(name))
          return recordWrong([...path, "name"], "expected letters, digits, - and _")
        return name === undefined || configPath === undefined ? undefined : { name, configPath, path }
      })
  }
}
