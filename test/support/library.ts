// The bundle of the package's entries: its options, the modules that the loop of an agent is made of, and the files
// that all are put into.
import { join } from "node:path"
import { type InputOptions, type OutputChunk, type OutputOptions, rolldown } from "rolldown"
import { entries } from "./entries.ts"
import { closureOf, importsOfModules } from "./moduleGraph.ts"
import { isOfNode, nodeParts, nodeGlobals } from "./nodeParts.ts"
import { optionalImports } from "./optionalImports.ts"
import { pureCalls } from "./pureCalls.ts"
import { root, src } from "./sources.ts"

/** Options of the bundle: `effect` and all other packages stay imports. */
const options: InputOptions = {
  cwd: root,
  platform: "node",
  tsconfig: false,
  experimental: { nativeMagicString: true },
  checks: { bundlerTimings: false },
  transform: { inject: nodeGlobals },
  plugins: [nodeParts(src), optionalImports(src), pureCalls(src)],
  external: (id) => !id.startsWith(".") && !id.startsWith("/") && !isOfNode(id),
  // The root exports many parts by name that other parts load when they use them.
  onLog: (level, log, handle) => {
    if (log.code !== "INEFFECTIVE_DYNAMIC_IMPORT") handle(level, log)
  }
}

/** The bundle of every entry. */
export const packageOptions: InputOptions = {
  ...options,
  input: Object.fromEntries(entries().map(({ name, source }) => [name, source]))
}

/** A file of a bundle and those that are loaded with it. */
export const filesWith = (first: string, chunks: ReadonlyMap<string, OutputChunk>): ReadonlyArray<OutputChunk> =>
  Array.from(closureOf([first], new Map(Array.from(chunks, ([name, { imports }]) => [name, imports]))))
    .map((name) => chunks.get(name))
    .filter((chunk) => chunk !== undefined)

/**
 * Files that a bundle of modules has to hold before anything runs; what is loaded when it is used is not among them. The
 * default is `hermes-effect/agent`. With `agent/AgentService`, they are the files of the first run.
 */
export const loopModules = async (
  modules: ReadonlyArray<string> = ["kit/entry/agent"]
): Promise<ReadonlySet<string>> => {
  const bundle = await rolldown({ ...options, input: modules.map((name) => join(src, `${name}.ts`)) })
  const { output } = await bundle.generate({ format: "esm" })
  await bundle.close()
  const chunks = output.filter((part) => part.type === "chunk")
  const files = new Map(chunks.map((chunk) => [chunk.fileName, chunk]))
  return new Set(
    chunks
      .filter(({ isEntry }) => isEntry)
      .flatMap(({ fileName }) => filesWith(fileName, files))
      .flatMap(({ modules }) =>
        Object.entries(modules)
          .filter(([, { renderedLength }]) => renderedLength > 0)
          .map(([id]) => id)
      )
  )
}

const toolModules = ["files", "terminal", "web", "code", "mcp", "planning", "vision"].map(
  (name) => `kit/entry/tools/${name}`
)

/** Handlers of the tools that change this machine. They share most of their modules. */
const handlerModules = ["tools/builtin/file/FileHandlers", "tools/builtin/terminal/TerminalHandlers"]

/** Modules that a runtime loads for its first run. */
const firstRunModules = [
  "agent/AgentService",
  "program/runtime/RuntimeLayers",
  "models/routing/RouterAssembly",
  ...handlerModules
]

/**
 * Parts of the package that several entries load, the leanest first. Each is one file with all that it imports and no
 * file before it has. Of a part with `sharedOnly`, a module that one entry alone loads is in the file of that entry.
 */
const parts = [
  { name: "tools", modules: toolModules },
  { name: "host", modules: ["kit/entry/host"] },
  { name: "observability", modules: ["kit/entry/observability"] },
  {
    name: "library",
    modules: ["approvals", "config", "delegation", "environments", "jobs", "middleware", "plugins"]
      .concat(["prompt", "routing", "sessions", "tenants", "tools"])
      .map((name) => `kit/entry/${name}`),
    sharedOnly: true
  },
  {
    name: "research",
    modules: ["batch", "evaluation", "rollouts", "swe"].map((name) => `kit/entry/${name}`),
    sharedOnly: true
  },
  {
    name: "clients",
    modules: ["ai-sdk", "cluster", "effect-ai", "promise", "server", "workflow"].map((name) => `kit/entry/${name}`),
    sharedOnly: true
  }
]

/**
 * Options of the package's files. A start takes as long as there are files to find, and imports of `effect` in each of
 * them.
 */
export const outputOptions = async (): Promise<OutputOptions> => {
  const ofLoop = await loopModules()
  const { imports, withLate } = await importsOfModules(packageOptions)
  const closure = (names: ReadonlyArray<string>): ReadonlySet<string> =>
    closureOf(
      names.map((name) => join(src, `${name}.ts`)),
      imports
    )
  const ofRoot = closure(["index"])
  const ofEntries = entries().map(({ name }) => closure([name]))
  const isShared = (id: string): boolean => ofEntries.filter((own) => own.has(id)).length > 1
  const ofProtocols = closure(["models/provider/chat/ChatProvider", "models/provider/offline/ScriptPlayback"])
  const ofRun = closure(["agent/AgentService"])
  const ofRuntime = closure(["program/runtime/RuntimeLayers"])
  const ofRouting = closure(["models/routing/RouterAssembly"])
  const ofHandlers = closure(handlerModules)
  const lateOfAgent = closureOf([join(src, "kit/entry/agent.ts")], withLate)
  const ofClient = closure(["kit/entry/providers/openai"])
  const ofPromise = closure(["kit/entry/promise"])
  const ofRootFiles = closure(["index", ...toolModules, ...firstRunModules])
  const isProtocol = (id: string): boolean => id.startsWith(join(src, "models/provider/")) && ofRoot.has(id)
  const groups = [
    { name: "loop", test: (id: string) => ofLoop.has(id) },
    // A bundler takes a file whole where a part of it is loaded late: what the smallest application starts with stands
    // apart, and what it may load is in no file with what it cannot.
    { name: "client", test: (id: string) => ofClient.has(id) },
    // What the loop may load late is in no file that leads to the runtime without Effect.
    { name: "routes", test: (id: string) => lateOfAgent.has(id) && ofPromise.has(id) && ofRoot.has(id) },
    { name: "formats", test: (id: string) => lateOfAgent.has(id) && ofPromise.has(id) },
    // The runtime without Effect loads the rest for its first run.
    { name: "plain", test: (id: string) => ofPromise.has(id) && ofRootFiles.has(id) },
    { name: "streams", test: (id: string) => ofPromise.has(id) && isShared(id) },
    { name: "promise", test: (id: string) => ofPromise.has(id) },
    { name: "providers", test: isProtocol },
    { name: "common", minShareCount: 8, test: (id: string) => ofRoot.has(id) },
    { name: "root", test: (id: string) => ofRoot.has(id) },
    // Loaded with the first route, the first agent, the first runtime and the first router.
    { name: "protocols", test: (id: string) => ofProtocols.has(id) },
    { name: "run", test: (id: string) => ofRun.has(id) },
    { name: "runtime", test: (id: string) => ofRuntime.has(id) },
    { name: "routing", test: (id: string) => ofRouting.has(id) },
    { name: "handlers", test: (id: string) => ofHandlers.has(id) },
    { name: "shared", minShareCount: 8 },
    { name: "late", test: (id: string) => lateOfAgent.has(id) && isShared(id) },
    ...parts.map(({ modules, name, sharedOnly = false }) => {
      const own = closure(modules)
      return { name, test: (id: string) => own.has(id) && (!sharedOnly || isShared(id)) }
    })
  ]
  return {
    format: "esm",
    chunkFileNames: "chunks/[name]-[hash].js",
    // Editors show the comments of the declarations and of `src`. Marks of calls stay for bundlers.
    comments: { annotation: true, jsdoc: false, legal: true },
    codeSplitting: { groups: groups.map((group, at) => ({ ...group, priority: groups.length - at })) }
  }
}
