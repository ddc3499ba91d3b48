// What the bundle of the program has of its packages. A prompt loads no part of them that the program does not use, and
// none that brings in large modules of Node: its `fetch`, HTTP/2, and what the getters of `node:fs` load.
import { constants } from "node:http2"
import { join } from "node:path"
import type { Plugin } from "rolldown"
import { parseSync } from "rolldown/utils"
import { root, src } from "./sources.ts"
import { withoutPart } from "./splitModules.ts"

const modules = join(root, "node_modules")

/** The exports of undici that the transport uses, by the file that has each. */
const undiciParts = {
  Dispatcher1Wrapper: "dispatcher1-wrapper",
  EnvHttpProxyAgent: "env-http-proxy-agent",
  Pool: "pool"
}

const leanUndici = Object.entries(undiciParts)
  .map(([name, file]) => `export { default as ${name} } from ${JSON.stringify(`undici/lib/dispatcher/${file}.js`)}`)
  .join("\n")

const http2Constants = Object.fromEntries(
  Object.entries(constants).filter(([name]) => /^(?:HTTP2_HEADER|NGHTTP2)_/.test(name))
)

/** HTTP/2 as undici's client asks for it: its constants, and a connection when one is opened. */
const lateHttp2 = `
export const constants = ${JSON.stringify(http2Constants)}
export const connect = (...given) => globalThis.process.getBuiltinModule("node:http2").connect(...given)
`

/** Globals of Node that modules of the OpenAI SDK read as they load, by module; Node loads its \`fetch\` with each. */
const globalsOfSdk: Readonly<Record<string, string>> = {
  "internal/headers": "Headers",
  "internal/utils/log": "Headers",
  "lib/EventStream": "Headers",
  "auth/workload-identity-auth": "Response"
}

const sdkGlobals = join(src, "base/platform/web/SdkGlobals.ts")

/**
 * A resource of the OpenAI SDK without its methods: the program sends its requests with the client itself. Two thirds
 * of the SDK are resources and what they import.
 */
const withoutMethods = (id: string, code: string): string => {
  const { staticExports } = parseSync(id, code).module
  const lines = staticExports.flatMap(({ entries, end, start }) =>
    entries.some(({ moduleRequest }) => moduleRequest !== null)
      ? [code.slice(start, end)]
      : entries.map(({ exportName: { name } }) => `export class ${name} {}`)
  )
  return Array.from(new Set(lines)).join("\n")
}

/** A segmenter of `Intl` that Effect's help makes as it loads; it takes as long as all of the help. */
const withLateSegmenter = (code: string): string =>
  code.replace(
    /const graphemeSegmenter = [^;]*(new Intl\.Segmenter\([^;]*\));/,
    "let madeSegmenter;\nconst graphemeSegmenter = { segment: (text) => (madeSegmenter ??= $1).segment(text) };"
  )

/**
 * The function in which Effect runs the code of a generator. Effect reads the stack of an error to learn if the engine
 * keeps the calls of this function, for which V8 counts the lines of the whole program; V8 keeps them.
 */
const withoutStackProbe = (code: string): string =>
  code.replace(
    "const forced = {",
    "if (globalThis.process.versions.bun === undefined) return standard[InternalTypeId];\n  const forced = {"
  )

const globalOf = (id: string): string | undefined =>
  Object.entries(globalsOfSdk).find(([name]) => id === join(modules, "openai", `${name}.mjs`))?.[1]

/** The plugin of the program's bundle. */
export const programPackages = (): Plugin => ({
  name: "program-packages",
  resolveId: (specifier, importer) => {
    if (specifier === "undici" && importer === join(src, "base/platform/HttpTransport.ts")) return "\0undici"
    if (specifier.startsWith("undici/lib/") && importer === "\0undici") return join(modules, specifier)
    if (specifier === "node:http2" && importer?.startsWith(join(modules, "undici")) === true) return "\0http2"
    return undefined
  },
  load: (id) => (id === "\0undici" ? leanUndici : id === "\0http2" ? lateHttp2 : undefined),
  transform: (code, id) => {
    if (withoutPart(id) === join(modules, "effect/dist/cli/CliOutput.js")) return withLateSegmenter(code)
    if (withoutPart(id) === join(modules, "effect/dist/Utils.js")) return withoutStackProbe(code)
    if (id.startsWith(join(modules, "openai/resources/"))) return withoutMethods(id, code)
    const name = globalOf(id)
    if (name === undefined) return undefined
    // Names of classes that the SDK knows by the value of their property of the global object.
    const known = code.replace(/(\n {4}'File',)\n {4}'Headers',\n\]\) \{/, "$1\n]) {")
    return `import { ${name} } from ${JSON.stringify(sdkGlobals)}\n${known}`
  }
})

/**
 * Replaces the imports of Node's modules in a file: an import reads every export of a module, among them those that
 * load further modules when they are read.
 */
export const withBuiltins = (fileName: string, code: string): string => {
  let out = ""
  let at = 0
  for (const { end, entries, moduleRequest, start } of parseSync(fileName, code).module.staticImports) {
    if (!moduleRequest.value.startsWith("node:")) continue
    const module = `globalThis.process.getBuiltinModule(${JSON.stringify(moduleRequest.value)})`
    const names = entries.map(({ importName: { kind, name }, localName: { value } }) =>
      kind === "Name" ? (name === value ? value : `${name}:${value}`) : undefined
    )
    const whole = entries.flatMap(({ importName: { kind }, localName: { value } }) => (kind === "Name" ? [] : [value]))
    const some = names.filter((name) => name !== undefined)
    const declarations = [
      ...whole.map((name) => `${name}=${module}`),
      ...(some.length === 0 ? [] : [`{${some.join(",")}}=${module}`])
    ]
    out += code.slice(at, start) + (declarations.length === 0 ? "" : `var ${declarations.join(",")};`)
    at = end
  }
  return out + code.slice(at)
}
