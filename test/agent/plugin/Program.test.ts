// Plugins on disk in the real program: written in TypeScript, importing the program's own copies, quiet where it has to
// be.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { machine, program, programFromSources } from "../../support/hermes.ts"

const greet = ["chat", "-q", "Reply exactly ok", "--quiet"]

/** What is on stderr beside the session's id and the note about the stand-in. */
const said = (stderr: string): ReadonlyArray<string> =>
  stderr.split("\n").filter((line) => line !== "" && !/^(session_id: |Note: )/.test(line))

describe("the program with plugins", () => {
  const builds = [
    { name: "sources", program: programFromSources },
    { name: "bundle", program }
  ]
  it.live.each(builds)(
    "of $name runs TypeScript that imports effect and hermes-effect, whatever copies lie beside it",
    ({ program }) =>
      Effect.gen(function* () {
        const { hermes, keep } = yield* machine
        keep(
          "plugins/node_modules/effect/package.json",
          '{ "name": "effect", "type": "module", "exports": { "./*": "./other.js" } }'
        )
        keep("plugins/node_modules/effect/other.js", "throw new Error('another copy of effect')")
        keep("plugins/native/plugin.yaml", "name: native\n")
        keep(
          "plugins/native/names.ts",
          'import * as Effect from "effect/Effect"\nexport const name: Effect.Effect<string> = Effect.succeed("native")\n'
        )
        keep(
          "plugins/native/index.ts",
          `
        import { Layer as OfBarrel } from "effect"
        import * as Console from "effect/Console"
        import * as Effect from "effect/Effect"
        import * as Layer from "effect/Layer"
        import { Hooks, Offline, Plugin, Runtime, SessionStore } from "hermes-effect"
        import { Offline as OfEntry } from "hermes-effect/providers/offline"
        import { name } from "./names.ts"

        interface Seen { readonly model: string }
        const seen: Array<Seen> = []

        const copies = new Set([Runtime.layer(), Layer.empty, OfBarrel.empty].map(Object.getPrototypeOf))

        export default Plugin.make({
          name: "native",
          build: Effect.gen(function*() {
            yield* Console.log(\`copies of effect: \${copies.size}; of a module of two entries: \${new Set([Offline.make, OfEntry.make]).size}\`)
            const store = yield* SessionStore.SessionStore
            yield* Effect.addFinalizer(() => Console.log(\`seen \${seen.length}\`))
            return {
              hooks: [Hooks.on("post_api_request", (event) =>
                Effect.gen(function*() {
                  seen.push({ model: event.model })
                  const sessions = yield* store.list({})
                  yield* Console.log(\`\${yield* name} \${event.usage?.output_tokens} \${sessions.length}\`)
                  process.stdout.write("straight\\n")
                }))]
            }
          })
        })
      `
        )
        keep("config.yaml", "plugins: { enabled: [native] }\n")
        const { code, stderr, stdout } = yield* hermes(greet, { program })
        assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: "ok\n" }, stderr)
        assert.deepStrictEqual(said(stderr), [
          "copies of effect: 1; of a module of two entries: 1",
          "native 1 1",
          "straight",
          "seen 1"
        ])
      })
  )

  it.live("goes on without one that can not be loaded, in one line on stderr", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("plugins/bad/plugin.yaml", "name: bad\n")
      keep("plugins/bad/index.ts", "export const x: = 5")
      keep("plugins/enumerated/plugin.yaml", "name: enumerated\n")
      keep("plugins/enumerated/index.ts", "enum Colour { Red }\nexport const register = () => Colour.Red")
      keep("config.yaml", "plugins: { enabled: [bad, enumerated, missing] }\n")
      const { code, stderr, stdout } = yield* hermes(greet)
      assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: "ok\n" }, stderr)
      const lines = said(stderr)
      assert.strictEqual(lines.length, 2, stderr)
      const loud = yield* hermes(greet, { env: { HERMES_PLUGINS_DEBUG: "1" } })
      assert.match(loud.stderr, /^Debug: plugin bad \(user, .*plugins\/bad\): its module cannot be loaded/m)
      assert.match(lines[0] ?? "", /^Warning: plugin bad is not loaded: its module cannot be loaded: /)
      assert.match(lines[1] ?? "", /^Warning: plugin enumerated is not loaded: .*enum/)
    })
  )

  it.live("finds npm packages beside the user's plugins, and what their package.json exports", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const module = (name: string) =>
        `import { Plugin } from "hermes-effect"\nexport default Plugin.fromValue({ name: "${name}" })\nconsole.log("loaded ${name}")\n`
      keep(
        "plugins/node_modules/@acme/agent-plugin/package.json",
        '{ "name": "@acme/agent-plugin", "version": "3.1.4", "type": "module", "exports": { "types": "./no.d.ts", "import": "./dist/main.js" } }'
      )
      keep("plugins/node_modules/@acme/agent-plugin/dist/main.js", module("acme"))
      keep("plugins/node_modules/old/package.json", '{ "name": "old", "main": "lib.cjs" }')
      keep(
        "plugins/node_modules/old/lib.cjs",
        "const { Plugin } = require('hermes-effect')\nmodule.exports = { register: (ctx) => console.log('loaded', ctx.key, typeof Plugin.fromValue) }\n"
      )
      keep("plugins/node_modules/asleep/package.json", '{ "name": "asleep" }')
      keep(
        "config.yaml",
        'plugins:\n  packages: ["@acme/agent-plugin", old, asleep, absent, ../evil]\n  enabled: ["@acme/agent-plugin", old]\n'
      )
      const { code, stderr } = yield* hermes(greet)
      assert.strictEqual(code, 0, stderr)
      const lines = said(stderr)
      assert.includeMembers([...lines], ["loaded acme", "loaded old function"])
      assert.match(
        lines.join("\n"),
        /plugins\.packages: absent is not installed: `npm install --prefix .*plugins absent`/
      )
      assert.match(lines.join("\n"), /plugins\.packages: "\.\.\/evil" is not a valid npm package name/)
      const listed = yield* hermes(["plugins", "list", "--plain"])
      assert.match(listed.stdout, /^enabled\t@acme\/agent-plugin\t3\.1\.4\tpackage\t$/m)
      assert.match(listed.stdout, /^not enabled\tasleep\t\tpackage\t$/m)
    })
  )

  it.live("tells which hooks and middleware an enabled plugin registers, and why one is not loaded", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const info = (name: string) =>
        Effect.map(hermes(["plugins", "info", name, "--json"]), ({ stderr, stdout }) => {
          assert.notStrictEqual(stdout, "", stderr)
          return JSON.parse(stdout)
        })
      keep("plugins/two/plugin.yaml", "name: two\n")
      keep(
        "plugins/two/index.js",
        `export const register = (ctx) => {
          ctx.registerHook("post_tool_call", () => {})
          ctx.registerHook("pre_tool_call", () => {}, { onFailure: "closed" })
          ctx.registerMiddleware("llm_request", () => {}, { onFailure: "closed" })
          ctx.registerLifecycle({ before_model: () => {}, after_tool: () => {} }, { name: "phases" })
        }`
      )
      keep("plugins/three/plugin.yaml", "name: three\n")
      keep("plugins/three/index.js", "throw new Error('broken')")
      assert.deepInclude(yield* info("two"), { status: "not enabled", hooks: null, middleware: null })
      keep("config.yaml", "plugins: { enabled: [two, three] }\n")
      assert.deepInclude(yield* info("two"), {
        hooks: [
          { name: "two", events: ["post_tool_call"], mode: "queued", on_failure: "open" },
          { name: "two", events: ["pre_tool_call"], mode: "inline", on_failure: "closed" }
        ],
        middleware: [
          { name: "two", kinds: ["llm_request"], on_failure: "closed" },
          { name: "two:phases", kinds: ["before_model", "after_tool"], on_failure: "open" }
        ],
        error: null
      })
      const { stdout } = yield* hermes(["plugins", "info", "two"])
      assert.match(stdout, /^middleware +two \(llm_request, closed\), two:phases \(before_model, after_tool, open\)$/m)
      assert.match(stdout, /^hooks +.*two \(pre_tool_call, inline, closed\)$/m)
      assert.match(String((yield* info("three")).error), /its module cannot be loaded: .*broken/)
    })
  )

  it.live("asks a model of a provider that a plugin brings", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      keep("plugins/cloud/plugin.yaml", "name: cloud\n")
      keep(
        "plugins/cloud/index.ts",
        `
        import * as Effect from "effect/Effect"
        import { Plugin, type Route, Scripted } from "hermes-effect"

        const play = (route: Route.Route) => {
          return Effect.map(Scripted.make([Scripted.complete(\`\${route.model} of \${route.provider}\`)]), ({ provider }) => provider)
        }
        export default Plugin.fromValue({
          name: "cloud",
          providers: [{ name: "my-cloud", aliases: ["mc"], open: play }, { name: "openai", open: play }]
        })
      `
      )
      keep("config.yaml", "model: { provider: mc, default: big }\nplugins: { enabled: [cloud] }\n")
      const first = yield* hermes(["chat", "-q", "hello", "-Q"])
      assert.deepInclude(first, { code: 0, stdout: "big of my-cloud\n" }, first.stderr)
      assert.deepStrictEqual(said(first.stderr), [
        'Warning: plugin cloud: its provider "openai" is ignored: the program has one of that name'
      ])
      const model = yield* hermes(["model"])
      assert.match(model.stdout, /^model {6}big\nprovider {3}my-cloud$/m)
      assert.match((yield* hermes(["model", "test"])).stdout, /^big of my-cloud answers/)
      const doctor = yield* hermes(["doctor"])
      assert.match(doctor.stdout, /^✓ model {5}big of my-cloud/m)
      put("hi.yaml", "turns: [{ text: hi }]")
      const scripted = yield* hermes(["chat", "-q", "hello", "-Q", "--script", "hi.yaml"])
      assert.strictEqual(scripted.stdout, "hi\n")
      keep(
        "config.yaml",
        'model: { provider: custom, default: m, base_url: "http://127.0.0.1:1/v1" }\n' +
          "fallback_providers: [{ provider: my-cloud, model: big }]\nplugins: { enabled: [cloud] }\n"
      )
      assert.deepInclude(yield* hermes(["chat", "-q", "hello", "-Q"]), { code: 0, stdout: "big of my-cloud\n" })
      keep("config.yaml", "model: { provider: my-clod, default: big }\nplugins: { enabled: [cloud] }\n")
      const unknown = yield* hermes(["model"])
      assert.strictEqual(unknown.code, 2)
      assert.include(unknown.stderr, 'unknown provider "my-clod": did you mean "my-cloud"?')
    })
  )

  it.live("has the commands that plugins bring, with their words and exit codes", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("plugins/tools/plugin.yaml", "name: tools\n")
      keep(
        "plugins/tools/index.js",
        `export const register = (ctx) => {
        ctx.registerCliCommand("greet", (args) => { console.log("greetings", ...args); return args.length })
        ctx.register_cli_command("fail", async () => { throw new Error("no luck") })
        ctx.registerCliCommand("chat", () => 0)
      }`
      )
      assert.strictEqual((yield* hermes(["greet"])).code, 2)
      keep("config.yaml", "plugins: { enabled: [tools] }\n")
      const greeted = yield* hermes(["greet", "a", "--b", "-c"])
      assert.deepInclude(greeted, { code: 3, stdout: "greetings a --b -c\n" })
      assert.deepStrictEqual(said(greeted.stderr), [
        'Warning: plugin tools: the command "chat" is ignored: the program has one of that name'
      ])
      const failed = yield* hermes(["fail"])
      assert.strictEqual(failed.code, 1)
      assert.strictEqual(said(failed.stderr).at(-1), "Error: no luck")
      const unknown = yield* hermes(["gret"])
      assert.strictEqual(unknown.code, 2)
      assert.match(unknown.stderr, /unknown command "gret"/i)
    })
  )

  it.live("says what --ignore-user-config leaves out, when that was to export the run", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      for (const [key, name] of [
        ["observability/traces", "traces"],
        ["other", "other"]
      ] as const) {
        keep(`plugins/${key}/plugin.yaml`, `name: ${name}\n`)
        keep(`plugins/${key}/index.js`, `console.log("loaded ${name}")\nexport const register = () => {}\n`)
      }
      keep("config.yaml", "plugins: { enabled: [traces, other] }\n")
      const { stderr, stdout } = yield* hermes([...greet, "--ignore-user-config"])
      assert.strictEqual(stdout, "ok\n")
      assert.deepStrictEqual(said(stderr), [
        "Warning: --ignore-user-config leaves out observability/traces: this run is not exported; enable them in the config.yaml of another HERMES_HOME"
      ])
      keep("config.yaml", "plugins: { enabled: [other] }\n")
      assert.deepStrictEqual(said((yield* hermes([...greet, "--ignore_user_config"])).stderr), [])
    })
  )
})
