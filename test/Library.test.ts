// The loop of an agent carries nothing that only some agents use: an application's bundle would hold it before anything
// runs.
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { type OutputChunk, rolldown } from "rolldown"
import { toAscii } from "./support/asciiText.ts"
import { readFacade } from "./support/facades.ts"
import { filesWith, loopModules, outputOptions, packageOptions } from "./support/library.ts"
import { writeNodeParts } from "./support/nodeParts.ts"
import { root, src } from "./support/sources.ts"
import { roomOf } from "./support/wings.ts"

/** Prints the number of files that an import of modules loads. */
const countFiles = `
import { registerHooks } from "node:module"
const files = new Set()
registerHooks({ load: (url, context, next) => (url.startsWith("file:") && files.add(url), next(url, context)) })
for (const specifier of process.argv.slice(1)) await import(specifier)
console.log(files.size)
process.exit()`

/** Prints the files of the package that a run loads after the import of the package. */
const listFilesOfRun = `
import { registerHooks } from "node:module"
import { Agent, Runtime, Scripted, Toolset } from "hermes-effect"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
const kit = Toolkit.make(Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }))
const tools = [Toolset.make("echo", kit, kit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))]
const call = { toolCalls: [{ name: "echo", params: { text: "hello" } }] }
const provider = Scripted.layer([Scripted.complete(call), Scripted.complete("done")])
const files = []
registerHooks({ load: (url, context, next) => (url.includes("/dist/chunks/") && files.push(url.split("/").at(-1)), next(url, context)) })
const { text } = await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Go." }), Runtime.layer({ provider, tools })))
console.log(JSON.stringify([text, files]))
process.exit()`

let bundling: Promise<ReadonlyMap<string, OutputChunk>> | undefined
/** The files of the package by name, which are made once. */
const makeBundle = (): Promise<ReadonlyMap<string, OutputChunk>> =>
  (bundling ??= (async () => {
    const bundle = await rolldown(packageOptions)
    const { output } = await bundle.generate(await outputOptions())
    await bundle.close()
    return new Map(output.flatMap((part) => (part.type === "chunk" ? [[part.fileName, part] as const] : [])))
  })())

/** Runs a function with a folder of the written package, which finds the packages of this one. */
const withWrittenPackage = async (use: (folder: string) => void): Promise<void> => {
  const cache = join(root, "node_modules/.cache")
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, "library-"))
  try {
    cpSync(join(root, "package.json"), join(folder, "package.json"))
    const chunks = Array.from((await makeBundle()).values())
    for (const { code, fileName } of chunks) {
      const path = join(folder, "dist", fileName)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, toAscii(code))
    }
    await writeNodeParts(chunks, join(folder, "dist"))
    use(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describe("hermes-effect/agent", () => {
  it("leaves out what is loaded when it is used: judge, fences, settings, catalogue, protocols, sub-agents, stores on disk", async () => {
    const paths = Array.from(await loopModules(["kit/entry/agent", "agent/AgentService"]), (id) => relative(src, id))
      .filter((path) => path.endsWith(".ts"))
      .toSorted()
    const rooms = new Set(paths.map(roomOf))
    assert.deepStrictEqual(Array.from(rooms), [
      "agent",
      "base/config",
      "base/domain",
      "base/platform",
      "hooks",
      "middleware",
      "models/provider",
      "models/routing",
      "places",
      "store",
      "tools",
      "tools/prompt"
    ])
    const inside = (folder: string): string =>
      paths
        .filter((path) => path.startsWith(`${folder}/`))
        .map((path) => path.slice(folder.length + 1, -".ts".length))
        .join(" ")
    assert.strictEqual(inside("base/config"), "PermissionMode")
    assert.strictEqual(inside("places"), "CommandEnvironment")
    assert.strictEqual(inside("base/platform"), "CurrentProcess Digest ModelTransport OpenOnce ProcessVariables")
    assert.strictEqual(inside("tools/prompt"), "Prefill SystemPrompt")
    assert.strictEqual(inside("models/provider"), "Provider")
    assert.strictEqual(
      inside("models/routing"),
      "AnswerProgress CallTokens CataloguePort CompactionPort ModelRouter SpendingPort StreamTimeout"
    )
    assert.strictEqual(
      inside("tools/approval"),
      "ApprovalJudge ApprovalPolicy ApprovalReasons ApprovalRequest Approver CurrentPermissions StoredApproval"
    )
    assert.strictEqual(inside("tools/builtin"), "Todo file/FileState file/Problem")
    assert.strictEqual(inside("tools/calls"), "ArgumentRepair InvalidArguments LoopGuard NameRepair Normalise")
    for (const folder of ["tools/danger", "tools/fence", "tools/mcp", "tools/shell", "store/sqlite"])
      assert.strictEqual(inside(folder), "")
    for (const late of ["agent/Child.ts", "agent/ContextOverflow.ts", "agent/Delegation.ts", "agent/ReviewRun.ts"])
      assert.notInclude(paths, late)
  })

  it("loads its loop with the first agent: an import holds definitions, stores in memory, and services", async () => {
    const paths = Array.from(await loopModules(), (id) => relative(src, id)).filter((path) => path.endsWith(".ts"))
    assert.deepStrictEqual(
      paths.filter((path) => /^(?:agent|tools\/(?:builtin|calls|prompt))\//.test(path)),
      ["agent/Agent.ts"]
    )
  })
})

describe("the package", () => {
  it("is few files: a start finds each of them, and each import of `effect` in it", async () => {
    const chunks = await makeBundle()
    const files = (entry: string): string =>
      filesWith(`${entry}.js`, chunks)
        .map(({ name }) => name)
        .filter((name) => name !== entry)
        .toSorted()
        .join(" ")
    assert.strictEqual(files("kit/entry/agent"), "loop rolldown-runtime")
    assert.strictEqual(files("kit/entry/providers/openai"), "client loop rolldown-runtime")
    assert.strictEqual(files("kit/entry/promise"), "formats loop plain promise rolldown-runtime routes streams")
    assert.strictEqual(
      files("kit/entry/tools/files"),
      "common formats handlers loop plain protocols providers rolldown-runtime root routes run runtime shared tools"
    )
    assert.strictEqual(
      files("kit/entry/observability"),
      "common formats handlers loop observability protocols providers rolldown-runtime root routes routing run runtime shared streams"
    )
    assert.strictEqual(files("index"), "client common loop providers rolldown-runtime root routes")

    // A tenth of the time of an import would be for the Schema of settings that an application without them never reads.
    for (const entry of ["index", "kit/entry/promise", "kit/entry/tools/files", "kit/entry/observability"])
      assert.notInclude(
        filesWith(`${entry}.js`, chunks).flatMap(({ moduleIds }) => moduleIds),
        join(src, "base/config/SettingsSchema.ts")
      )

    const modulesOf = (entry: string): ReadonlyArray<string> =>
      Array.from(
        new Set(
          filesWith(`${entry}.js`, chunks).flatMap(({ imports }) =>
            imports.filter((name) => /^(?:effect\/|#node\/Node)/.test(name))
          )
        )
      ).toSorted()
    const ofLoop = modulesOf("kit/entry/agent")
    assert.strictEqual(ofLoop.length, 33)
    const ofRoot = modulesOf("index").filter((name) => !ofLoop.includes(name))
    // A runtime loads the services of Node for its first run.
    assert.strictEqual(
      ofRoot.map((name) => name.replace(/^effect\//, "")).join(" "),
      "Array Logger Order Path Pull Result Schedule ai/Toolkit process/ChildProcess"
    )
  })

  it("an import loads a number of files that does not grow", { timeout: 120_000 }, () =>
    withWrittenPackage((folder) => {
      const count = (...specifiers: ReadonlyArray<string>): number =>
        Number(
          execFileSync(process.execPath, ["--input-type=module", "-e", countFiles, ...specifiers], { cwd: folder })
        )
      const agent = count("hermes-effect/agent", "hermes-effect/providers/openai")
      assert.deepStrictEqual(
        { agent, promise: count("hermes-effect/promise"), root: count("hermes-effect") },
        { agent: 179, promise: 188, root: 189 }
      )
    })
  )

  it("a run whose tools need no approval loads no judge of calls", { timeout: 120_000 }, () =>
    withWrittenPackage((folder) => {
      const args = ["--input-type=module", "-e", listFilesOfRun]
      const output = execFileSync(process.execPath, args, { cwd: folder, encoding: "utf8" })
      const [text, files]: readonly [string, ReadonlyArray<string>] = JSON.parse(output)
      assert.strictEqual(text, "done")
      assert.strictEqual(
        files
          .map((file) => file.replace(/-[\w-]{8}\.js$/, ""))
          .toSorted()
          .join(" "),
        "formats protocols routing run runtime"
      )
    })
  )

  it("the judge of calls carries no Schema of settings", async () => {
    const chunks = await makeBundle()
    const judge = Array.from(chunks.values()).find(({ facadeModuleId }) =>
      facadeModuleId?.endsWith("approval/ApprovalOrder.ts")
    )
    const modules = filesWith(judge?.fileName ?? "", chunks).flatMap(({ moduleIds }) => moduleIds)
    assert.include(modules, join(src, "tools/approval/ApprovalOrder.ts"))
    assert.notInclude(modules, join(src, "base/config/SettingsSchema.ts"))
  })

  it("has files in ASCII, which V8 stores and compiles in half of the space", async () => {
    for (const { code, fileName } of (await makeBundle()).values())
      assert.notMatch(toAscii(code), /\P{ASCII}/u, fileName)
  })
})

describe("readFacade", () => {
  it("knows files that only name exports of another file", () => {
    assert.deepStrictEqual(readFacade('export{n as layer,$}from"./Own-1.js";\n'), {
      from: "./Own-1.js",
      names: [
        ["n", "layer"],
        ["$", "$"]
      ]
    })
    for (const code of ['import{a}from"./b.js";export{a};', 'export{a}from"./b.js";run();', 'export*from"./b.js"'])
      assert.isUndefined(readFacade(code))
  })
})

describe("toAscii", () => {
  it("writes other characters as escapes with the same meaning, or leaves the code as it is", () => {
    const texts = [
      '"é…😀"',
      "`…${1}`",
      '"\\…"',
      '"\\\\…"',
      "/[…-‧]/.source.length && /[…]/.test('…')",
      "/😀/u.test('😀')"
    ]
    for (const text of texts) {
      assert.notMatch(toAscii(text), /\P{ASCII}/u)
      // A text of this test.
      // oxlint-disable-next-line no-eval
      assert.strictEqual((0, eval)(toAscii(text)), (0, eval)(text))
    }
    assert.strictEqual(toAscii("String.raw`…`"), "String.raw`…`")
  })
})
