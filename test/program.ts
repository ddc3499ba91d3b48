// `node test/program.ts DIRECTORY [SCRIPT…]`: bundles the program into a directory: `main.js` is the program,
// `index.js` and `entry/` the package as plugins import it, `shared/` every public module of `effect` and
// `@effect/platform-node` as the program itself runs on it. The scripts of `test/support` named behind it are bundled
// with it. A start takes half the time of one from separate modules.
import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import { type InputOptions, type OutputChunk, rolldown } from "rolldown"
import { writeAscii } from "./support/asciiText.ts"
import { entries } from "./support/entries.ts"
import { markEager } from "./support/eagerFunctions.ts"
import { removeFacades } from "./support/facades.ts"
import { closureOf, recordImports } from "./support/moduleGraph.ts"
import { programPackages, withBuiltins } from "./support/programPackages.ts"
import { root } from "./support/sources.ts"
import { profileStarts } from "./support/startProfile.ts"
import { findUsedExports, splitModules, withoutPart } from "./support/splitModules.ts"

const modules = join(root, "node_modules")
/** What tests import comes from the installed package: it is no part of a program. */
const packaged = entries().filter(({ name }) => name !== "kit/entry/testing")
const inputs = {
  main: join(root, "src/main.ts"),
  ...Object.fromEntries(packaged.map(({ name, source }) => [name, source]))
}
const wholeOptions: InputOptions = {
  cwd: root,
  platform: "node",
  tsconfig: false,
  // The last is for a module of `@effect/platform-node` that only a plugin could ask for: it brings its own.
  external: ["sharp", "nemo-relay-node", "redis"],
  plugins: [programPackages()],
  onLog: (level, log, handle) => {
    if (log.code !== "INEFFECTIVE_DYNAMIC_IMPORT") handle(level, log)
  }
}

/** Packages of which plugins get the copy that the program runs on. */
const sharedPackages = ["effect", "@effect/platform-node", "@effect/platform-node-shared"]

/**
 * Modules for tests, and those that hold the pages of API documentation (5 MB). A plugin that imports one gets the
 * installed copy.
 */
const isLeftOut = (name: string): boolean =>
  /(?:^|\/)internal\/|^testing\/|^http-api\/(?:index|HttpApi(?:Scalar|Swagger))\.js$/.test(name)

const sharedModules = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    sharedPackages.flatMap((name) => {
      const folder = join(modules, name, "dist")
      return readdirSync(folder, { recursive: true, encoding: "utf8" })
        .filter((file) => file.endsWith(".js") && !isLeftOut(file))
        .map((file) => [`shared/${name}/${file.slice(0, -".js".length)}`, join(folder, file)] as const)
    })
  )

const split = splitModules({
  folders: sharedPackages.map((name) => join(modules, name, "dist")),
  roots: await findUsedExports({ ...wholeOptions, input: { main: inputs.main } })
})
const options: InputOptions = { ...wholeOptions, plugins: [programPackages(), split.plugin] }

interface Group {
  readonly name: string
  readonly modules: ReadonlySet<string>
}

/** The modules that every command loads, its help too. */
const startModule = join(root, "src/program/cli/internal/Start.ts")
/** The one that `main.ts` prints without any other. */
const versionModule = join(root, "src/base/domain/Version.ts")
/** What a prompt loads besides, each module where it is first used. */
const queryModules = [
  "program/cli/ChatCommand",
  "program/cli/SingleQuery",
  "program/Runtime",
  "program/runtime/RuntimeLayers",
  "program/runtime/ProgramRuntime",
  "agent/AgentService",
  "models/provider/ChatCompletions",
  "models/provider/chat/ChatProvider",
  "base/platform/HttpTransport",
  "agent/ReviewRun",
  "places/TreeSnapshot",
  "tools/prompt/ContextFiles",
  "models/routing/RoutedModelRouter",
  "models/routing/RouterAssembly",
  "models/routing/PoolStore",
  "models/routing/RateGuard",
  "models/routing/catalogue/EndpointMemory",
  "tools/approval/ApprovalOrder",
  "tools/builtin/FileTools",
  "tools/builtin/file/FileHandlers",
  "tools/builtin/TerminalTools",
  "tools/builtin/terminal/TerminalHandlers",
  "tools/builtin/Todo",
  "tools/builtin/Delegate",
  "tools/builtin/WebTools",
  "tools/builtin/web/WebHandlers",
  "tools/builtin/SearchProvider",
  "tools/builtin/Vision",
  "tools/builtin/SessionSearchTool",
  "tools/builtin/Clarify",
  "tools/builtin/ExecuteCode",
  "tools/builtin/CronJobTool",
  "tools/builtin/SkillTools",
  "tools/builtin/MemoryTool",
  "places/Sandbox",
  "places/SandboxBuild",
  "places/SandboxProbe",
  "store/sqlite/SqliteStore"
].map((name) => join(root, `src/${name}.ts`))

/**
 * What every command loads is one file, and so is what many parts of the program use besides, as far as a prompt needs
 * it: a start takes as long as there are files to load and modules in them to run.
 */
const groupsOf = async (): Promise<ReadonlyArray<Group>> => {
  const { imports, plugin } = recordImports()
  const bundle = await rolldown({ ...options, plugins: [options.plugins, plugin], input: inputs })
  const groups = [{ name: "common", minShareCount: 10 }]
  const { output } = await bundle.generate({ format: "esm", codeSplitting: { groups } })
  await bundle.close()
  const start = closureOf([startModule], imports)
  const query = closureOf(queryModules, imports)
  const shared = output.flatMap((part) => (part.type === "chunk" && part.name === "common" ? part.moduleIds : []))
  // The first group that a module is in has it.
  return [
    { name: "version", modules: new Set([versionModule]) },
    { name: "start", modules: start },
    { name: "common", modules: new Set(shared.filter((id) => query.has(id))) },
    { name: "query", modules: query },
    { name: "commands", modules: new Set(shared) }
  ]
}

/** The folder of the package that a module belongs to. */
const packageOf = (module: string): string | undefined => {
  const found = /^(.*[/\\]node_modules[/\\](?:@[^/\\]+[/\\])?[^/\\]+)[/\\]/.exec(module)
  return found?.[1]
}

/** Notices of the packages in the bundle, which their licences want kept. */
const notices = (chunks: ReadonlyArray<OutputChunk>): string => {
  const folders = new Set(
    chunks.flatMap(({ moduleIds }) => moduleIds.map(packageOf).filter((folder) => folder !== undefined))
  )
  return [...folders]
    .filter((folder) => existsSync(join(folder, "package.json")))
    .toSorted()
    .map((folder) => {
      const { license, name, version }: { readonly name: string; readonly version: string; readonly license?: string } =
        JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
      const texts = readdirSync(folder)
        .filter((file) => /^(?:licen[cs]e|notice)/i.test(file))
        .map((file) => readFileSync(join(folder, file), "utf8").trim())
      return [`${name} ${version} (${license ?? "licence in its package"})`, ...texts].join("\n\n")
    })
    .join(`\n\n${"-".repeat(80)}\n\n`)
}

/** Fails if files import each other: a module could run before one that it needs. */
const checkOrder = (chunks: ReadonlyArray<OutputChunk>): void => {
  const imports = new Map(chunks.map(({ fileName, imports }) => [fileName, imports]))
  for (const { fileName, imports: direct } of chunks) {
    const back = direct.find((name) => imports.has(name) && closureOf([name], imports).has(fileName))
    if (back !== undefined) throw new Error(`${fileName} and ${back} import each other`)
  }
}

const [directory, ...scripts] = process.argv.slice(2)
if (directory === undefined) throw new Error("Give the directory to write to: node test/program.ts dist/hermes")
const unfinished = `${directory}.${process.pid}`
const groups = await groupsOf()
const bundle = await rolldown({
  ...options,
  // Files may export more than their module does, so that a module is in the file that its group names.
  preserveEntrySignatures: "allow-extension",
  input: {
    ...inputs,
    ...sharedModules(),
    ...Object.fromEntries(scripts.map((name) => [name, join(root, "test/support", `${name}.ts`)]))
  }
})
const { output } = await bundle.write({
  dir: unfinished,
  format: "esm",
  // Names of functions and classes stay for the lines of errors and for what reads them; comments, half of what
  // `effect` ships, and code that never runs go.
  minify: { compress: true, mangle: { toplevel: true, keepNames: true }, codegen: { removeWhitespace: true } },
  chunkFileNames: "chunks/[name]-[hash].js",
  codeSplitting: {
    includeDependenciesRecursively: false,
    groups: [
      // A file each: those that the program loads late would otherwise be in one with what only plugins use.
      {
        debugName: "plugins",
        name: (id) => relative(modules, withoutPart(id)).replace(/\.js$/, "").replaceAll(/\W+/g, "_"),
        test: split.isRest
      },
      ...groups.map(({ modules, name }, at) => ({
        name,
        test: (id: string) => modules.has(id) && !split.isLate(id),
        priority: groups.length - at
      }))
    ]
  }
})
await bundle.close()
checkOrder(output.filter((part) => part.type === "chunk"))
const chunks = removeFacades(
  output.filter((part) => part.type === "chunk"),
  unfinished
)
for (const { fileName } of chunks) {
  const path = join(unfinished, fileName)
  writeFileSync(path, withBuiltins(fileName, readFileSync(path, "utf8")))
}
writeAscii(chunks, unfinished)
writeFileSync(join(unfinished, "LICENSES.txt"), `Packages in the files of this folder.\n\n${notices(chunks)}\n`)
/** What `main.js` prints for `--help` without loading the commands. */
const helpWith = (env: Readonly<Record<string, string>>): string =>
  execFileSync(process.execPath, [join(unfinished, "main.js"), "--help"], {
    encoding: "utf8",
    env: { ...env, NODE_DISABLE_COMPILE_CACHE: "1" }
  })
writeFileSync(
  join(unfinished, "help.json"),
  JSON.stringify({ plain: helpWith({ NO_COLOR: "1" }), colored: helpWith({ FORCE_COLOR: "1" }) })
)
// Functions that starts call are compiled with their files.
for (const [fileName, ranges] of await profileStarts(unfinished)) {
  const path = join(unfinished, fileName)
  writeFileSync(path, markEager(fileName, readFileSync(path, "utf8"), ranges))
}
rmSync(directory, { recursive: true, force: true })
renameSync(unfinished, directory)
process.stdout.write(`${relative(root, directory) || directory}: ${chunks.length} files\n`)
