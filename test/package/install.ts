// What `npm pack` makes installs into an empty folder, is weighed, and is used there without the checkout: the program,
// every entry imported, type-checked under strict settings, and bundled by esbuild and rolldown.
import { cpSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { checkDeclarationMaps } from "../support/declarationMaps.ts"
import { entries } from "../support/entries.ts"
import { root } from "../support/sources.ts"
import { expect, folder as whole, holds, makeWorkspace, pack, releases, run } from "./workspace.ts"

const folder = join(whole, "install")

/** Bytes below a folder, in blocks of 4 KiB as a file system keeps them. */
const weigh = (path: string): number => {
  const facts = lstatSync(path)
  const own = Math.ceil(facts.size / 4096) * 4096
  return facts.isDirectory() ? readdirSync(path).reduce((sum, name) => sum + weigh(join(path, name)), own) : own
}

const packagesIn = (modules: string): number =>
  readdirSync(modules)
    .filter((name) => !name.startsWith("."))
    .reduce((sum, name) => sum + (name.startsWith("@") ? readdirSync(join(modules, name)).length : 1), 0)

/** Checks that a page says a figure, but for a few per cent. */
const says = (page: string, pattern: RegExp, actual: ReadonlyArray<number>): void => {
  const said =
    pattern
      .exec(readFileSync(join(root, page), "utf8"))
      ?.slice(1)
      .map(Number) ?? []
  const isNear =
    said.length === actual.length &&
    actual.every((figure, index) => Math.abs(figure - (said[index] ?? 0)) <= figure * 0.04)
  holds(
    `${page} says what was measured`,
    isNear,
    `${said.join(", ")} beside ${actual.map((figure) => figure.toFixed(2)).join(", ")}`
  )
}

const write = (name: string, text: string): void => writeFileSync(join(folder, name), text)

const tsc = join(root, "node_modules/typescript/bin/tsc")
const checked = (resolution: "bundler" | "nodenext", files: ReadonlyArray<string>): string => {
  write(
    "tsconfig.json",
    JSON.stringify({
      compilerOptions: {
        target: "ES2024",
        module: resolution === "bundler" ? "ESNext" : "NodeNext",
        moduleResolution: resolution,
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        verbatimModuleSyntax: true,
        skipLibCheck: true,
        noEmit: true,
        lib: ["ES2024", "ESNext.Disposable", "DOM"],
        types: []
      },
      files
    })
  )
  return run(process.execPath, [tsc, "-p", folder], folder)
}

/** A consumer of each entry: it has values, and its types hold. */
const consumers = entries().map(({ specifier }, index) => {
  const name = `entry-${index}.ts`
  return {
    specifier,
    name,
    text: `import * as Entry from "${specifier}"\nexport const names: ReadonlyArray<string> = Object.keys(Entry)\nif (names.length === 0) throw new Error("nothing is exported")\n`
  }
})

const embed = `import * as Effect from "effect/Effect"
import { Agent, Runtime } from "hermes-effect"
const run = Agent.run({ prompt: "Reply exactly: embedded" })
const { exit, text } = await Effect.runPromise(Effect.provide(run, Runtime.layer()))
console.log(exit === "text_response" ? text : exit)
`
const promise = `import { createHermes, type HermesError } from "hermes-effect/promise"
const hermes = createHermes({ model: "offline" })
const { text } = await hermes.run("Reply exactly: promised")
console.log(text)
await hermes.dispose()
const missing = createHermes({ model: { provider: "anthropic", model: "claude-sonnet-4-6", apiKey: "k" } })
console.log(await missing.run("Hello?").then(() => "", ({ message }: HermesError) => /model claude-sonnet-4-6 needs the package .*/.exec(message)?.[0] ?? message))
await missing.dispose()
`
const suites = `import * as Effect from "effect/Effect"
import { SessionStore } from "hermes-effect"
import { Conformance, SessionStoreRules } from "hermes-effect/testing"
const results = await Effect.runPromise(Conformance.runRules(SessionStoreRules.rules, SessionStore.layerMemory))
console.log(results.length > 50, results.filter(({ broken }) => broken !== undefined).length)
`
const lean = `import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { Agent, ModelRouter, SessionStore, ToolRegistry } from "hermes-effect/agent"
import { ChatCompletions } from "hermes-effect/providers/openai"
const provider = ChatCompletions.layer({ model: "m", baseUrl: "http://127.0.0.1:9/v1", apiKey: Redacted.make("k") })
const agent = Agent.layer({}).pipe(Layer.provideMerge(Layer.mergeAll(ModelRouter.layerWith({ retry: Schedule.recurs(0) }).pipe(Layer.provide(provider)), SessionStore.layerMemory, ToolRegistry.layer([]))))
console.log(await Effect.runPromise(Agent.run({ prompt: "Hello?" }).pipe(Effect.provide(agent), Effect.match({ onFailure: ({ _tag }) => _tag, onSuccess: ({ text }) => text }))))
`
const sdk = `import OpenAI from "openai"
console.log(typeof new OpenAI({ apiKey: "k" }).chat.completions.create)
`
const programs = { embed, promise, suites, lean } as const

const missingSdk =
  "model claude-sonnet-4-6 needs the package @anthropic-ai/sdk, which is not installed: npm install @anthropic-ai/sdk"
const printed: Readonly<Record<keyof typeof programs, string>> = {
  embed: "embedded\n",
  promise: `promised\n${missingSdk}\n`,
  suites: "true 0\n",
  lean: "AiError\n"
}

/** The files of a bundle that are read before anything runs, and those that a run of one model reads. */
const read = (metafile: string, entry: string): { readonly first: number; readonly all: number } => {
  interface Output {
    readonly bytes: number
    readonly entryPoint?: string
    readonly imports: ReadonlyArray<{ readonly path: string; readonly kind: string; readonly external?: boolean }>
  }
  const { outputs }: { readonly outputs: Readonly<Record<string, Output>> } = JSON.parse(readFileSync(metafile, "utf8"))
  const first = new Set<string>()
  const visit = (path: string): void => {
    if (first.has(path)) return
    first.add(path)
    for (const one of outputs[path]?.imports ?? [])
      if (one.kind === "import-statement" && one.external !== true) visit(one.path)
  }
  const begun = Object.keys(outputs).find((path) => outputs[path]?.entryPoint === entry)
  if (begun === undefined) throw new Error(`${entry} is in no file of the bundle`)
  visit(begun)
  const sum = (paths: Iterable<string>): number =>
    Array.from(paths).reduce((total, path) => total + (outputs[path]?.bytes ?? 0), 0)
  return { first: sum(first), all: sum(Object.keys(outputs)) }
}

/** Installs the package, and uses it as applications do. */
export const checkInstallation = async (): Promise<void> => {
  const { modules } = makeWorkspace("install", [])
  const megabytes = weigh(modules) / 1_048_576
  const packages = packagesIn(modules)
  const packed = statSync(pack()).size / 1_000_000
  holds("it is packed in at most 7.1 MB", packed <= 7.1, `${packed.toFixed(2)} MB`)
  holds(
    "it is installed in less than half of what it weighed (216 MB, 82 packages)",
    megabytes < 108 && packages <= 41,
    `${megabytes.toFixed(0)} MB, ${packages} packages`
  )

  says("README.md", /It weighs (\d+) MB in (\d+) packages/, [megabytes, packages])

  const maps = checkDeclarationMaps(join(modules, "hermes-effect"))
  holds(
    "every declaration leads to its lines in the sources of the package",
    maps.count > 300 && maps.faults.length === 0,
    maps.faults.slice(0, 5).join("; ") || `${maps.count} declarations`
  )

  const bin = join(modules, ".bin/hermes")
  expect(
    "the program answers",
    run(process.execPath, [bin, "chat", "-Q", "-q", "Reply exactly ok", "--provider", "offline"], folder),
    "ok\n"
  )

  for (const { name, text } of consumers) write(name, text)
  for (const [name, text] of Object.entries(programs)) write(`${name}.ts`, text)
  write("sdk.js", sdk)
  for (const name of ["embed", "promise", "suites"] as const)
    expect(`an application runs it: ${name}`, run(process.execPath, [`${name}.ts`], folder), printed[name])
  const schemas = readdirSync(join(modules, "hermes-effect/dist/schemas"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .toSorted()
  write(
    "schemas.js",
    schemas
      .map(
        (name) =>
          `{ const { default: schema } = await import("hermes-effect/schemas/${name.replaceAll("\\", "/")}", { with: { type: "json" } }); console.log(schema.$schema) }\n`
      )
      .join("")
  )
  const dialects = new Set(run(process.execPath, ["schemas.js"], folder).trim().split("\n"))
  holds(
    "every JSON Schema is imported",
    schemas.length > 20 && dialects.size === 1,
    `${schemas.length} of ${Array.from(dialects).join(", ")}`
  )
  write(
    "all.js",
    consumers.map(({ name }) => `await import("./${name}")\n`).join("") +
      "const refused = await import('hermes-effect/internal/Assembly').then(() => 'imported', ({ code }) => code)\nconsole.log(refused)\n"
  )
  expect(
    "every entry is imported, and nothing else",
    run(process.execPath, ["all.js"], folder),
    "ERR_PACKAGE_PATH_NOT_EXPORTED\n"
  )

  run(
    "npm",
    [
      "install",
      "--silent",
      "--no-audit",
      "--no-fund",
      `openai@${JSON.parse(readFileSync(join(root, "package.json"), "utf8")).devDependencies.openai}`,
      releases.esbuild
    ],
    folder
  )
  expect("an application runs it: lean", run(process.execPath, ["lean.ts"], folder), printed.lean)
  const typed = [...consumers.map(({ name }) => name), ...Object.keys(programs).map((name) => `${name}.ts`)]
  for (const resolution of ["nodenext", "bundler"] as const)
    expect(`strict types hold (${resolution})`, checked(resolution, typed), "")

  // Packages that are CommonJS, such as undici, ask for parts of Node by `require`, which esbuild leaves out of ES
  // modules.
  const banner =
    "--banner:js=import { createRequire as requireOfNode } from 'node:module'; const require = requireOfNode(import.meta.url);"
  const esbuild = join(modules, "esbuild/bin/esbuild")
  const bundled = (files: ReadonlyArray<string>, out: string): void =>
    void run(
      esbuild,
      [
        ...files,
        "--bundle",
        "--minify",
        "--splitting",
        "--platform=node",
        "--format=esm",
        "--log-level=error",
        banner,
        `--outdir=${out}`,
        `--metafile=${out}.json`
      ],
      folder
    )
  bundled([...typed, "sdk.js"], "esbuild")
  holds("esbuild bundles every entry", true, `${consumers.length} entries`)
  // Outside of the folder, a bundle finds nothing that is not in it.
  const elsewhere = join(folder, "elsewhere")
  const isolated = (out: string): void => {
    rmSync(elsewhere, { recursive: true, force: true })
    mkdirSync(join(elsewhere, "node_modules"), { recursive: true })
    cpSync(join(folder, out), join(elsewhere, out), { recursive: true })
    writeFileSync(join(elsewhere, "package.json"), '{ "type": "module" }')
    run("mv", [modules, join(folder, "hidden")], folder)
    try {
      for (const name of ["embed", "promise", "lean"] as const)
        expect(
          `its bundle by ${out} runs alone: ${name}`,
          run(process.execPath, [join(elsewhere, out, `${name}.js`)], elsewhere),
          printed[name]
        )
    } finally {
      run("mv", [join(folder, "hidden"), modules], folder)
    }
  }
  isolated("esbuild")

  const { rolldown }: typeof import("rolldown") = await import(createRequire(import.meta.url).resolve("rolldown"))
  const build = await rolldown({
    cwd: folder,
    platform: "node",
    input: Object.fromEntries(typed.map((name) => [name.slice(0, -".ts".length), join(folder, name)])),
    onLog: () => {}
  })
  await build.write({ dir: join(folder, "rolldown"), format: "esm", minify: true })
  await build.close()
  holds("rolldown bundles every entry", true, `${consumers.length} entries`)
  isolated("rolldown")

  bundled(["lean.ts"], "measured")
  bundled(["sdk.js"], "plain")
  const own = read(join(folder, "measured.json"), "lean.ts")
  const plain = read(join(folder, "plain.json"), "sdk.js")
  const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(0)} kB`
  const ratio = own.first / plain.all
  holds(
    "the loop with one provider stays within 1.6 × of the bundle of the SDK, which it loads when it is used",
    ratio <= 1.6,
    `minified ${kilobytes(own.first)} to ${kilobytes(plain.all)}: ${ratio.toFixed(2)} ×; ${kilobytes(own.all)} with all that it may load`
  )
  says("scratchpad/guides/embedding.md", /is (\d+) kB minified[^.]*?, (\d\.\d+) times the SDK/, [
    own.first / 1000,
    ratio
  ])
}
