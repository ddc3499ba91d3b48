// What a start of the bundled program loads before it asks a model, and where compiled code is stored.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { version } from "../../../src/base/domain/Version.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { type FunctionRange, markEager } from "../../support/eagerFunctions.ts"
import { machine, program, programFromSources, run } from "../../support/hermes.ts"
import { protocols } from "../../support/wireModel.ts"

const isBundled = program !== programFromSources

/**
 * Prints on exit which files and which modules of Node were loaded, how many files before the request left, and the
 * number of formatters of `Intl`, which take milliseconds each.
 */
const spy = `
  import { channel } from "node:diagnostics_channel"
  import { registerHooks } from "node:module"
  const files = []
  let sent
  let formatters = 0
  const count = (target) => new Proxy(target, {
    construct: (...given) => (formatters++, Reflect.construct(...given)),
    apply: (...given) => (formatters++, Reflect.apply(...given))
  })
  for (const name of ["Collator", "DateTimeFormat", "NumberFormat", "Segmenter"]) Intl[name] = count(Intl[name])
  Number.prototype.toLocaleString = count(Number.prototype.toLocaleString)
  registerHooks({
    load: (url, context, next) => {
      if (url.startsWith("file:")) files.push(url)
      return next(url, context)
    }
  })
  channel("undici:request:create").subscribe(() => { sent ??= files.length })
  process.on("exit", () =>
    process.stderr.write(JSON.stringify({ files, sent, formatters, node: process.moduleLoadList })))
`

interface Seen {
  readonly files: ReadonlyArray<string>
  readonly formatters: number
  readonly node: ReadonlyArray<string>
  readonly sent: number
}

const model = Effect.map(
  HttpServer.make(({ url }, response) =>
    url.endsWith("/chat/completions")
      ? protocols.chat_completions.stream({ text: "done" }, response)
      : HttpServer.json(response, 404, {})
  ),
  ({ url }) => `model: { provider: custom, default: m, base_url: "${url}/v1", api_key: k, context_length: 100000 }\n`
)

describe.runIf(isBundled)("a prompt of the bundled program", () => {
  it.live("asks its model from eleven files, without the fetch of Node, HTTP/2 and workers", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      keep("config.yaml", yield* model)
      put("spy.mjs", spy)
      // What an endpoint says about its model is known after the first prompt.
      yield* hermes(["chat", "-Q", "-q", "hi"])
      const { code, stderr, stdout } = yield* hermes(["chat", "-Q", "-q", "hi"], {
        env: { NODE_OPTIONS: "--import ./spy.mjs", NODE_DISABLE_COMPILE_CACHE: "1" }
      })
      assert.deepStrictEqual([code, stdout], [0, "done\n"])
      const { files, formatters, node, sent }: Seen = JSON.parse(stderr.slice(stderr.indexOf('{"files"')))
      const names = files.map((file) => file.replace(/^.*\//, "").replace(/-[\w-]{8}\.js$/, ""))
      assert.strictEqual(
        names
          .filter((name) => name !== "spy.mjs")
          .toSorted()
          .join(" "),
        "RoutedModelRouter _undici common dist env-http-proxy-agent main.js openai query rolldown-runtime start version"
      )
      assert.strictEqual(formatters, 0)
      // Nothing is loaded for the answer.
      assert.strictEqual(sent, files.length)
      assert.deepStrictEqual(
        node.filter((name) =>
          /^NativeModule (?:http2|worker_threads|cluster|internal\/deps\/undici\/undici)$/.test(name)
        ),
        []
      )
      // Bytes of the code that every prompt runs: they fall, and do not grow.
      const paths = files.filter((file) => !file.endsWith("/spy.mjs")).map((file) => new URL(file))
      const kilobytes = paths.reduce((sum, path) => sum + statSync(path).size, 0) / 1024
      assert.isBelow(kilobytes, 2_990)
    })
  )
})

/** Counts the functions of the program that V8 compiled at their first call, in its log of functions. */
const countLateFunctions = (log: string): number => {
  const rows = log.split("\n").map((line) => line.split(","))
  const own = new Set(
    rows.flatMap(([kind, script = "", url = ""]) =>
      kind === "script-details" && url.includes(dirname(program)) ? [script] : []
    )
  )
  return rows.filter(([kind, event, script = ""]) => kind === "function" && event === "interpreter" && own.has(script))
    .length
}

describe.runIf(isBundled)("a prompt with compiled code of an earlier start", () => {
  it.live("compiles few functions", () =>
    Effect.gen(function* () {
      const { at, cwd, home, keep } = yield* machine
      keep("config.yaml", yield* model)
      const flags = ["--no-logfile-per-isolate", "--log-function-events", `--logfile=${at("functions.log")}`]
      // The first start stores the code, and also asks for the data of the model.
      for (const _ of [1, 2]) {
        const { code } = yield* run(process.execPath, [...flags, program, "chat", "-Q", "-q", "hi"], {
          cwd,
          home,
          env: { NODE_COMPILE_CACHE: at("code") }
        })
        assert.strictEqual(code, 0)
      }
      // All that run are more than 4,000: others are stored.
      const late = countLateFunctions(readFileSync(at("functions.log"), "utf8"))
      assert.isAbove(late, 0)
      assert.isBelow(late, 700)
    })
  )
})

describe("markEager", () => {
  /** The range of the function that a text contains, as V8 counts it. */
  const findFunction = (code: string, text: string): FunctionRange => [
    code.indexOf(text),
    code.indexOf(text) + text.length
  ]

  it("encloses the functions that ran, and leaves their names and meaning", () => {
    const code = [
      "import{x}from'./x.js';",
      "const a=b=>c=>b+c+d();",
      "function d(){return 1}",
      "async function*e(){yield 2}",
      "const o={m(){return 3},async*[`k`](){yield 4},s(){return super.toString()},get g(){return 5},p:y=>6};",
      "class K{m(){return 7}}",
      "const l=async()=>8;",
      "export{a,o}"
    ].join("")
    const ran = [
      "b=>c=>b+c+d()",
      "c=>b+c+d()",
      "function d(){return 1}",
      "async function*e(){yield 2}",
      "m(){return 3}",
      "(){yield 4}",
      "s(){return super.toString()}",
      "g(){return 5}",
      "y=>6",
      "m(){return 7}",
      "async()=>8"
    ].map((text) => findFunction(code, text))
    assert.strictEqual(
      markEager("chunk.js", code, ran),
      [
        "var d=(function(){return 1});",
        "var e=(async function*(){yield 2});",
        "import{x}from'./x.js';",
        "const a=(b=>(c=>b+c+d()));",
        "const o={m:(function(){return 3}),[`k`]:(async function*(){yield 4}),s(){return super.toString()},",
        "get g(){return 5},p:(y=>6)};",
        "class K{m(){return 7}}",
        "const l=async()=>8;",
        "export{a,o}"
      ].join("")
    )
    assert.strictEqual(markEager("chunk.js", code, []), code)
    const first = "function d(){return 1}d()"
    assert.strictEqual(
      markEager("chunk.js", first, [findFunction(first, "function d(){return 1}")]),
      "var d=(function(){return 1});d()"
    )
  })
})

describe.runIf(isBundled)("the copy of effect that plugins share with the program", () => {
  it("has every export of the installed package", { timeout: 120_000 }, () => {
    const script = `
      import { readdirSync } from "node:fs"
      const [shared] = process.argv.slice(1)
      const missing = []
      for (const file of readdirSync(shared, { recursive: true })) {
        if (!file.endsWith(".js")) continue
        const name = file.slice(0, -3).replace(/\\/index$/, "")
        const given = await import(shared + "/" + file)
        const installed = await import(name === "index" ? "effect" : "effect/" + name)
        for (const key of Object.keys(installed)) {
          if (typeof given[key] !== typeof installed[key]) missing.push(name + "." + key)
        }
      }
      console.log(JSON.stringify(missing))`
    const printed = execFileSync(
      process.execPath,
      ["--input-type=module", "-e", script, join(dirname(program), "shared/effect")],
      { encoding: "utf8" }
    )
    assert.deepStrictEqual(JSON.parse(printed), [])
  })
})

describe.runIf(isBundled)("compiled code", () => {
  const withoutOther = { NODE_COMPILE_CACHE: "" }

  it.live("is stored in the home directory, readable by its owner, and that of other versions alone is removed", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      keep("cache/code/0.0.1/old", "old")
      keep("cache/code/notes", "of the user")
      const { code } = yield* hermes(["config", "path"], { env: withoutOther })
      assert.strictEqual(code, 0)
      const stored = join(home, "cache/code")
      assert.deepStrictEqual(readdirSync(stored).toSorted(), [version, "notes"])
      assert.strictEqual(statSync(join(stored, version)).mode & 0o777, 0o700)
      assert.isNotEmpty(readdirSync(join(stored, version), { recursive: true }))
    })
  )

  it.live("is stored nowhere before there is a home directory", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      const temporary = join(dirname(home), "tmp")
      mkdirSync(temporary)
      const { code } = yield* hermes(["config", "path"], { env: { ...withoutOther, TMPDIR: temporary } })
      assert.strictEqual(code, 0)
      assert.isFalse(existsSync(home))
      assert.deepStrictEqual(readdirSync(temporary), [])
    })
  )

  it.live("that cannot be stored or read does not prevent a start", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      keep("cache/code", "not a directory")
      assert.strictEqual((yield* hermes(["config", "path"], { env: withoutOther })).code, 0)
      const other = yield* machine
      mkdirSync(other.home)
      chmodSync(other.home, 0o500)
      const { code, stderr } = yield* other.hermes(["config", "path"], { env: withoutOther })
      assert.deepStrictEqual([code, stderr], [0, ""])
      chmodSync(other.home, 0o700)
      assert.isTrue(existsSync(home))
    })
  )
})
