// Imports of middleware in files: bundled ones, files, packages, the shapes of their exports, and what is refused.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import { mkdirSync, realpathSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as MiddlewareImports from "../../../src/agent/builtin/MiddlewareImports.ts"
import { Home } from "../../../src/base/config/Environment.ts"
import { FolderTrust, layer as trustLayer } from "../../../src/base/config/FolderTrust.ts"
import * as Yaml from "../../../src/base/config/Yaml.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

/** A home directory, a project that is trusted and one that is not, and the middleware of a file in one of them. */
const world = Effect.gen(function* () {
  const root = realpathSync(yield* temporaryDirectory)
  const put = (name: string, text: string): string => {
    const path = join(root, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    return path
  }
  mkdirSync(join(root, "project"))
  mkdirSync(join(root, "foreign"))
  const layer = trustLayer.pipe(
    Layer.provide(Home.layerAt(join(root, ".hermes"))),
    Layer.provideMerge(NodeServices.layer)
  )
  yield* FolderTrust.use(({ trust }) => trust(join(root, "project"))).pipe(Effect.provide(layer))
  const make = (text: string, folder = "project") =>
    Effect.gen(function* () {
      const tree = yield* Yaml.read(text, "agent.yaml")
      const entries: unknown = Predicate.isObject(tree) && !Array.isArray(tree) ? tree["middlewares"] : []
      return yield* MiddlewareImports.make(
        // The reader of settings has checked the shape of entries.
        entries as ReadonlyArray<MiddlewareImports.Entry>,
        { name: "agent.yaml", folder: join(root, folder), text: Effect.succeed(text) }
      )
    }).pipe(Effect.provide(layer))
  return {
    root,
    put,
    make,
    wrong: (text: string, folder?: string) => Effect.map(Effect.flip(make(text, folder)), ({ message }) => message)
  }
})

const names = (made: ReadonlyArray<MiddlewareImports.Made>) => made.map(({ middleware }) => middleware.name)

describe("MiddlewareImports", () => {
  it.live("takes bundled ones by both spellings of the lifecycle document's paths", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { make } = yield* world
        const made = yield* make(`middlewares:
- import: nexau.archs.main_sub.execution.hooks:LoggingMiddleware
- import: nexau.archs.main_sub.execution.middleware.logging:LoggingMiddleware
- import: long-tool-output
  params: { max_output_chars: 5000 }
`)
        assert.deepStrictEqual(names(made), ["Logging", "Logging", "LongToolOutput"])
        assert.strictEqual(made[1]?.source, "agent.yaml: middlewares[1]")
      })
    )
  )

  it.live("takes exports of files and packages: definitions, classes, functions, records, and waits for promises", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { make, put } = yield* world
        put(
          "project/audit.ts",
          `
import * as Schema from "effect/Schema"
import { Middleware } from "hermes-effect"
import { MiddlewareDefinition } from "hermes-effect/middleware"
export const defined = MiddlewareDefinition.make({
  name: "defined",
  params: Schema.Struct({ logFile: Schema.String, folder: Schema.String, bare: Schema.String }),
  make: ({ bare, folder, logFile }) => Middleware.lifecycle({ name: [logFile, folder, bare].join(" "), beforeModel: () => Middleware.noChanges })
})
export const later = async ({ name }: { name: string }) => ({ name, after_model: () => undefined })
export const record = { before_tool: () => undefined }
export const ready = Middleware.lifecycle({ name: "ready", afterTool: () => Middleware.noChanges })
export default class Main { before_agent() {} }
`
        )
        put(
          "project/my_project/middleware.mjs",
          `
export class AuditMiddleware {
  constructor(params) { this.name = "audit of " + JSON.stringify(params) }
  wrap_model_call(next) { return (params) => next(params) }
}`
        )
        put(
          "project/node_modules/@acme/agents/package.json",
          JSON.stringify({ name: "@acme/agents", type: "module", exports: { "./kit": { import: "./lib/kit.js" } } })
        )
        put(
          "project/node_modules/@acme/agents/lib/kit.js",
          "export const quiet = () => ({ name: 'quiet', before_model() {} })"
        )
        const made = yield* make(`middlewares:
- import: ./audit.ts#defined
  params: { log_file: a.log, folder: "\${this_file_dir}", bare: "$\${this_file_dir}" }
- import: audit.ts#later
  params: { name: later }
- import: ./audit.ts:record
- import: ./audit.ts#ready
- import: ./audit.ts
- import: my_project.middleware:AuditMiddleware
  params: { log_file: "/tmp/audit.log" }
- import: "@acme/agents/kit#quiet"
`)
        const folder = made[0]?.middleware.name.split(" ")[1] ?? ""
        assert.match(folder, /\/project$/)
        assert.deepStrictEqual(names(made), [
          `${folder}/a.log ${folder} \${this_file_dir}`,
          "later",
          "record",
          "ready",
          "Main",
          'audit of {"log_file":"/tmp/audit.log"}',
          "quiet"
        ])
      })
    )
  )

  it.live("T127 what is wrong is one line with file, line, place and remedy", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { put, root, wrong } = yield* world
        put(
          "project/m.ts",
          `
export const thrown = () => { throw new Error("no ink") }
export const rejected = () => Promise.reject(new Error("no paper"))
export const seven = 7
export const record = { before_tool: () => undefined }
export const twice = { before_tool: () => undefined, beforeTool: () => undefined }
export const audit = record
`
        )
        put("project/broken.ts", "throw new Error('at load')")
        put(
          "project/kept.ts",
          `
import * as Schema from "effect/Schema"
export class Kept {
  static params = Schema.Struct({ logFile: Schema.String, folder: Schema.String, bare: Schema.String })
  before_agent() {}
}
`
        )
        put("project/node_modules/pkg/package.json", "{}")
        const project = join(root, "project")
        const one = (text: string) => wrong(`# a comment\nmiddlewares:\n- import: logging\n- ${text}\n`)
        const at = "agent.yaml: line 4: middlewares[1]"
        assert.match(
          yield* one("import: long-tool-outptu"),
          /^agent\.yaml: line 4: middlewares\[1\]\.import: there is no middleware "long-tool-outptu"; did you mean long-tool-output\?/
        )
        assert.match(
          yield* one("import: my.hooks:LoggingMiddleware"),
          /did you mean nexau\.archs\.main_sub\.execution\.hooks:LoggingMiddleware\?$/
        )
        assert.strictEqual(
          yield* one("import: ./n.ts#audit"),
          `${at}.import: there is no file ${project}/n.ts; did you mean m.ts?`
        )
        assert.strictEqual(
          yield* one("import: ./m.ts#audti"),
          `${at}.import: ${project}/m.ts has no export audti; did you mean audit?`
        )
        assert.strictEqual(
          yield* one('import: "@acme/none#x"'),
          `${at}.import: there is no @acme/none.ts (.mts, .js, .mjs, .cjs) in ${project}, and no package "@acme/none"`
        )
        assert.strictEqual(
          yield* one("import: ./broken.ts#x"),
          `${at}.import: ${project}/broken.ts cannot be loaded: at load`
        )
        assert.strictEqual(yield* one("import: ./m.ts#thrown"), `${at}.import: ./m.ts#thrown: it failed: no ink`)
        assert.strictEqual(yield* one("import: ./m.ts#rejected"), `${at}.import: ./m.ts#rejected: it failed: no paper`)
        assert.match(
          yield* one("import: ./m.ts#seven"),
          /\.\/m\.ts#seven: it is neither middleware \(Middleware\.lifecycle, …\)/
        )
        assert.match(yield* one("import: ./m.ts#twice"), /has both beforeTool and before_tool: keep one of them$/)
        assert.match(yield* one("import: ./m.ts#record\n  params: { a: 1 }"), /it takes no params: remove them/)
        assert.match(
          yield* one("import: long-tool-output\n  params:\n    max_output_chars: 5\n    head_lines: many"),
          /^agent\.yaml: line 7: middlewares\[1\]\.params\.head_lines: Expected number$/m
        )
        assert.match(
          yield* one("import: long-tool-output\n  params: { hed_lines: 3 }"),
          new RegExp(
            "^agent\\.yaml: line 5: middlewares\\[1\\]\\.params\\.hed_lines: unknown, did you mean head_lines\\? " +
              "Known: max_output_chars, head_lines, tail_lines, "
          )
        )
        assert.match(
          yield* one('import: "./kept.ts#Kept"\n  params: { log_fil: a.log, folder: a, bare: b }'),
          /params\.log_fil: unknown, did you mean log_file\? Known: log_file, folder, bare\.$/m
        )
        assert.match(yield* one("import: brokn:x"), /and no package "brokn"; did you mean broken:x\?$/)
        assert.match(yield* one('import: "pgk#x"'), /and no package "pgk"; did you mean pkg#x\?$/)
        assert.match(
          yield* one("import: llm-failover\n  params: { fallback_providers: none }"),
          /^agent\.yaml: line 5: middlewares\[1\]\.params: fallback_providers: expected a list$/
        )
      })
    )
  )

  it.live("code is loaded from trusted folders alone, whichever way it is named", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { make, put, root, wrong } = yield* world
        const marker = join(root, "ran")
        const code = `import { writeFileSync } from "node:fs"\nwriteFileSync(${JSON.stringify(marker)}, "")\nexport const x = { before_model() {} }\n`
        put("foreign/x.mjs", code)
        put("foreign/node_modules/p/package.json", JSON.stringify({ name: "p", type: "module", exports: "./x.mjs" }))
        put("foreign/node_modules/p/x.mjs", code)
        for (const [text, folder] of [
          ["./x.mjs#x", "foreign"],
          ["x:x", "foreign"],
          ["p#x", "foreign"],
          ["../foreign/x.mjs#x", "project"]
        ] as const) {
          const line = yield* wrong(`middlewares:\n- import: ${text}\n`, folder)
          assert.match(
            line,
            /^agent\.yaml: line 2: middlewares\[0\]\.import: \/.*x\.mjs is not used: its folder is not trusted\. Look at it, then run `hermes trust add \/.*foreign/,
            text
          )
        }
        assert.isFalse((yield* Effect.promise(() => import("node:fs"))).existsSync(marker))
        put(".hermes/own.mjs", "export const own = { name: 'own', before_model() {} }")
        assert.deepStrictEqual(names(yield* make("middlewares:\n- import: ../.hermes/own.mjs#own\n")), ["own"])
      })
    )
  )
})
