// The parts of Node that the package uses. Its files import each as `#node/NAME`, which `imports` of package.json leads
// to one of two files: in Node, Bun and Deno one that exports the part, elsewhere one with what a browser can do. There
// the rest is functions that throw, so that every entry is bundled for every place.
import { mkdirSync, writeFileSync } from "node:fs"
import { isBuiltin } from "node:module"
import { join } from "node:path"
import { type OutputChunk, type Plugin, rolldown } from "rolldown"
import { parseSync } from "rolldown/utils"
import { src } from "./sources.ts"

/** A part of Node: its module, and the file of `src/base/platform/web` with what other places have instead. */
interface Part {
  readonly module: string
  readonly web?: string
  /** Names in `web`, by the name of the export; every name that the file exports if absent. */
  readonly names?: Readonly<Record<string, string>>
  /** Names that are used of a CommonJS package: bundlers do not know its names when it is imported as a whole. */
  readonly only?: ReadonlyArray<string>
}

const effectPackage = "@effect/platform-node-shared/"

/** Parts of packages, by the name of their file. */
const packaged: Readonly<Record<string, Part>> = {
  NodeChildProcessSpawner: {
    module: `${effectPackage}NodeChildProcessSpawner`,
    web: "WebServices",
    names: { layer: "spawner" }
  },
  NodeFileSystem: { module: `${effectPackage}NodeFileSystem`, web: "WebServices", names: { layer: "fileSystem" } },
  NodePath: { module: `${effectPackage}NodePath`, web: "WebServices", names: { layer: "path" } },
  NodeSink: { module: `${effectPackage}NodeSink` },
  NodeStdio: { module: `${effectPackage}NodeStdio` },
  NodeStream: { module: `${effectPackage}NodeStream` },
  NodeTerminal: { module: `${effectPackage}NodeTerminal` },
  undici: { module: "undici", only: ["Dispatcher1Wrapper", "EnvHttpProxyAgent", "Pool"] }
}

/** Files of `src/base/platform/web`, by the module of Node. */
const webFiles: Readonly<Record<string, string>> = {
  "node:async_hooks": "AsyncHooks",
  "node:crypto": "Crypto",
  "node:fs": "FileSystem",
  "node:os": "FileSystem",
  "node:process": "WebProcess",
  "node:vm": "TimeLimits"
}

/** Globals of Node, which are imported where they are used. */
export const nodeGlobals: Record<string, [string, string]> = {
  Buffer: ["node:buffer", "Buffer"],
  process: ["node:process", "default"]
}

/** Tests for the specifier of a part of Node. */
export const isOfNode = (specifier: string): boolean =>
  specifier.startsWith("node:") || specifier.startsWith(effectPackage) || specifier === "undici"

const prefix = "#node/"

const nameOf = (module: string): string => {
  if (module.startsWith("node:")) return module.slice("node:".length).replaceAll("/", "-")
  const [name] = Object.entries(packaged).find(([, part]) => part.module === module) ?? []
  if (name === undefined) throw new Error(`${module} is not among the parts of Node: add it to test/support/nodeParts`)
  return name
}

const partOf = (name: string): Part => {
  const known = packaged[name]
  if (known !== undefined) return known
  const module = `node:${name.replace("-promises", "/promises")}`
  if (!isBuiltin(module)) throw new Error(`${name} is not a module of Node`)
  const web = webFiles[module]
  return web === undefined ? { module } : { module, web }
}

/** The plugin that names the parts. */
export const nodeParts = (folder: string): Plugin => ({
  name: "node-parts",
  resolveId: (specifier, importer) =>
    isOfNode(specifier) && importer?.startsWith(folder) === true
      ? { id: prefix + nameOf(specifier), external: true }
      : undefined
})

const isIdentifier = (name: string): boolean =>
  /^[A-Za-z_$][\w$]*$/u.test(name) && !["default", "module"].includes(name)

/** Names that a module exports, with the type of each. */
const exportsOf = async (module: string): Promise<ReadonlyMap<string, string>> => {
  const loaded: Readonly<Record<string, unknown>> = await import(module)
  return new Map(Object.entries(loaded).map(([name, value]) => [name, typeof value]))
}

/** The source of a part for Node, with the names that are used; `*` is all of them. */
const writeNodeSource = async (module: string, used: ReadonlySet<string>): Promise<string> => {
  const from = JSON.stringify(module)
  if (!used.has("*")) return `export { ${Array.from(used).toSorted().join(", ")} } from ${from}\n`
  if (!isBuiltin(module)) return `export * from ${from}\n`
  // Turbopack warns of `export *`, and a name that this version of Node lacks must not prevent the import.
  const names = Array.from((await exportsOf(module)).keys()).filter(isIdentifier)
  return `import part from ${from}\nexport const { ${names.toSorted().join(", ")} } = part\nexport { part as default }\n`
}

const refusing = "\0refuse"

/** The source of a part for other places, with the names that are used; `*` is all of them. */
const writeWebSource = async ({ module, names, web }: Part, used: ReadonlySet<string>): Promise<string> => {
  const file = web === undefined ? undefined : join(src, "base/platform/web", `${web}.ts`)
  const given = file === undefined ? new Map<string, string>() : await exportsOf(file)
  const wanted = await exportsOf(module)
  const lines = [`import { refuse } from ${JSON.stringify(refusing)}`]
  for (const [name, type] of wanted) {
    if (!used.has(name) && !used.has("*")) continue
    const from = names === undefined ? (given.has(name) ? name : undefined) : names[name]
    const label = JSON.stringify(name === "default" ? module : `${module} ${name}`)
    if (from !== undefined && file !== undefined)
      lines.push(`export { ${from} as ${name} } from ${JSON.stringify(file)}`)
    else if (name === "default") lines.push(`export default /* @__PURE__ */ refuse(${label})`)
    else if (isIdentifier(name))
      lines.push(`export const ${name} = ${type === "function" ? `/* @__PURE__ */ refuse(${label})` : "{}"}`)
  }
  return lines.join("\n")
}

const refuseSource = `export const refuse = (name) => function () {
  throw new Error(name + " needs Node, Bun or Deno: this part of hermes-effect does not run here")
}`

/** Names that the files of a bundle import of each part; `*` is all of them. */
const listUsedNames = (chunks: ReadonlyArray<OutputChunk>): ReadonlyMap<string, ReadonlySet<string>> => {
  const used = new Map<string, Set<string>>()
  const add = (specifier: string, names: ReadonlyArray<string>): void => {
    if (!specifier.startsWith(prefix)) return
    const name = specifier.slice(prefix.length)
    used.set(name, new Set([...(used.get(name) ?? []), ...names]))
  }
  for (const { code, dynamicImports, fileName } of chunks) {
    for (const specifier of dynamicImports) add(specifier, ["*"])
    for (const { entries, moduleRequest } of parseSync(fileName, code).module.staticImports)
      add(
        moduleRequest.value,
        entries.map(({ importName: { kind, name } }) => (kind === "Default" ? "default" : (name ?? "*")))
      )
  }
  return used
}

/** Writes the files of the parts that the package imports: `node/NAME.js` and `web/NAME.js`. */
export const writeNodeParts = async (chunks: ReadonlyArray<OutputChunk>, directory: string): Promise<void> => {
  const used = listUsedNames(chunks)
  mkdirSync(join(directory, "node"), { recursive: true })
  const sources = new Map<string, string>([[refusing, refuseSource]])
  for (const [name, found] of used) {
    const part = partOf(name)
    const bindings = part.only === undefined ? found : new Set(part.only)
    writeFileSync(join(directory, "node", `${name}.js`), await writeNodeSource(part.module, bindings))
    sources.set(`\0${name}`, await writeWebSource(part, bindings))
  }
  const bundle = await rolldown({
    input: Object.fromEntries(Array.from(used.keys(), (name) => [name, `\0${name}`])),
    platform: "neutral",
    tsconfig: false,
    external: (id) => id.startsWith("effect/"),
    plugins: [
      { name: "web-sources", resolveId: (id) => (sources.has(id) ? id : undefined), load: (id) => sources.get(id) }
    ]
  })
  await bundle.write({
    dir: join(directory, "web"),
    format: "esm",
    chunkFileNames: "shared/[name]-[hash].js",
    comments: { annotation: true, jsdoc: false, legal: true }
  })
  await bundle.close()
}
