// The loop of an agent carries nothing that only some agents use: an application's bundle would hold it before anything
// runs.
import { assert, describe, it } from "@effect/vitest"
import { relative } from "node:path"
import { rolldown } from "rolldown"
import { filesWith, loopModules, outputOptions, packageOptions } from "./support/library.ts"
import { src } from "./support/sources.ts"
import { roomOf } from "./support/wings.ts"

describe("hermes-effect/agent", () => {
  it("leaves out what is loaded when it is used: judge, fences, settings, catalogue, protocols, sub-agents, stores on disk", async () => {
    const paths = Array.from(await loopModules(), (id) => relative(src, id))
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
      "ApprovalJudge ApprovalPolicy ApprovalReasons ApprovalRequest Approver StoredApproval"
    )
    assert.strictEqual(inside("tools/builtin"), "Todo file/FileState file/Problem")
    assert.strictEqual(inside("tools/calls"), "ArgumentRepair InvalidArguments LoopGuard NameRepair Normalise")
    for (const folder of ["tools/danger", "tools/fence", "tools/mcp", "tools/shell", "store/sqlite"])
      assert.strictEqual(inside(folder), "")
    for (const late of ["agent/Child.ts", "agent/ContextOverflow.ts", "agent/Delegation.ts", "agent/ReviewRun.ts"])
      assert.notInclude(paths, late)
  })
})

describe("the package", () => {
  const bundled = async () => {
    const bundle = await rolldown(packageOptions)
    const { output } = await bundle.generate(await outputOptions())
    await bundle.close()
    return new Map(output.flatMap((part) => (part.type === "chunk" ? [[part.fileName, part] as const] : [])))
  }

  it("is few files: a start finds each of them, and each import of `effect` in it", async () => {
    const chunks = await bundled()
    const files = (entry: string): string =>
      filesWith(`${entry}.js`, chunks)
        .map(({ name }) => name)
        .filter((name) => name !== entry)
        .toSorted()
        .join(" ")
    assert.strictEqual(files("kit/entry/agent"), "loop rolldown-runtime")
    assert.strictEqual(files("kit/entry/providers/openai"), "client loop rolldown-runtime")
    assert.strictEqual(files("kit/entry/tools/files"), "common late loop providers rolldown-runtime tools")
    assert.strictEqual(
      files("kit/entry/observability"),
      "common loop observability providers rolldown-runtime telemetry"
    )
    assert.strictEqual(
      files("index"),
      "client common late loop providers rolldown-runtime root routing telemetry tools"
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
    assert.strictEqual(ofLoop.length, 40)
    const isOfNode = (name: string): boolean => name.startsWith("#node/")
    const ofRoot = modulesOf("index").filter((name) => !ofLoop.includes(name))
    assert.strictEqual(
      ofRoot
        .filter(isOfNode)
        .map((name) => name.slice("#node/".length))
        .join(" "),
      "NodeChildProcessSpawner NodeFileSystem NodePath NodeStdio NodeTerminal"
    )
    assert.strictEqual(
      ofRoot
        .filter((name) => !isOfNode(name))
        .map((name) => name.slice("effect/".length))
        .join(" "),
      "Array Bytes Config Equal Glob Hash JsonSchema Logger Metric Order Pull RcRef SchemaAST SchemaGetter SchemaIssue SchemaRepresentation process/ChildProcess"
    )
  })
})
