// The loop of a plugin's author: `hermes plugins new`, `check` and `test`, in temporary homes, without network.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { existsSync, readdirSync, realpathSync } from "node:fs"
import { join } from "node:path"
import * as TypeCheck from "../../../src/agent/plugin/TypeCheck.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { root } from "../../support/sources.ts"

const kinds = [
  { name: "p-default", flags: [] },
  { name: "p-tool", flags: ["--tool"] },
  { name: "p-middleware", flags: ["--middleware"] },
  { name: "p-provider", flags: ["--provider"] },
  { name: "p-plain", flags: ["--plain"] },
  { name: "p-plain-provider", flags: ["--plain", "--provider"] },
  { name: "p-all", flags: ["--tool", "--middleware", "--provider"] }
]

const slow = 300_000

describe("hermes plugins new", () => {
  it.live(
    "writes plugins of each kind that pass their tests, whose types are right",
    () =>
      Effect.gen(function* () {
        const { hermes, home } = yield* machine
        for (const { flags, name } of kinds) {
          const made = yield* hermes(["plugins", "new", name, ...flags])
          assert.strictEqual(made.code, 0, made.stderr)
          const tested = yield* hermes(["plugins", "test", name])
          assert.strictEqual(tested.code, 0, tested.stdout + tested.stderr)
          assert.match(tested.stdout, /^✓ scenarios\/first\.yaml: .* \(streamed\)$/m)
        }
        const plugins = realpathSync(join(home, "plugins"))
        const { compiler, findings } = yield* TypeCheck.checkTypes(plugins, join(plugins, "index.ts")).pipe(
          Effect.scoped,
          Effect.provide(NodeServices.layer)
        )
        assert.match(compiler ?? "", /^typescript /)
        assert.deepStrictEqual(findings, [])
      }),
    slow
  )
})

describe("hermes plugins check", () => {
  it.live(
    "accepts a new plugin, says what it registers, and leaves the home as it is",
    () =>
      Effect.gen(function* () {
        const { hermes, home } = yield* machine
        yield* hermes(["plugins", "new", "mine"])
        const before = readdirSync(home, { recursive: true })
        const { code, stderr, stdout } = yield* hermes(["plugins", "check", "mine"])
        assert.strictEqual(code, 0, stdout + stderr)
        assert.deepStrictEqual(stdout.split("\n").slice(0, 3), [
          "tools: mine_greet",
          "hooks: post_tool_call",
          "middleware: timing (llm_execution)"
        ])
        assert.deepStrictEqual(readdirSync(home, { recursive: true }), before)
      }),
    slow
  )

  it.live(
    "names file and line of each mistake, and the nearest known name",
    () =>
      Effect.gen(function* () {
        const { cwd, hermes, put } = yield* machine
        put(
          "bad/plugin.yaml",
          "name: bad\ndescripton: typo\nprovides_tools: [nothing]\nconfig:\n  limit: { type: nubmer }\n"
        )
        put(
          "bad/index.ts",
          `import type { Plugin } from "hermes-effect"
export const register = (ctx: Plugin.RegisterContext): void => {
  ctx.registerHook("post_tool_cal", () => undefined)
  ctx.registerMiddleware("llm_exection", () => undefined)
  const wrong: number = ctx.key
}
`
        )
        const { code, stdout } = yield* hermes(["plugins", "check", "bad"])
        assert.strictEqual(code, 1)
        const lines = stdout.split("\n")
        for (const expected of [
          /^bad\/index\.ts:3: error: nothing emits the hook "post_tool_cal", did you mean post_tool_call\?$/,
          /^bad\/index\.ts:4: error: no middleware is of kind "llm_exection", did you mean llm_execution\?/,
          /^bad\/index\.ts:5: error: TS2322: /,
          /^bad\/plugin\.yaml:2: error: unknown field descripton, did you mean description\?$/,
          /^bad\/plugin\.yaml:3: error: the plugin does not register the tool "nothing"$/,
          /^bad\/plugin\.yaml:5: error: expected a type, one of string, /
        ]) {
          assert.isTrue(
            lines.some((line) => expected.test(line)),
            `${String(expected)}\n${stdout}`
          )
        }
        const json = JSON.parse((yield* hermes(["plugins", "check", "bad", "--json"])).stdout)
        assert.deepInclude(json, { plugin: "bad", ok: false })
        assert.strictEqual(json.findings.length, lines.filter((line) => line.includes(": error: ")).length)
        assert.isFalse(existsSync(join(cwd, "bad/node_modules")))
      }),
    slow
  )
})

describe("hermes plugins test", () => {
  for (const name of ["cost-limiter", "redactor", "tool-cache"]) {
    it.live(
      `passes for the plugin ${name}, written from the guide`,
      () =>
        Effect.gen(function* () {
          const { hermes } = yield* machine
          const folder = join(root, "test/program/cli/plugins", name)
          const tested = yield* hermes(["plugins", "test", folder])
          assert.strictEqual(tested.code, 0, tested.stdout + tested.stderr)
          const checked = yield* hermes(["plugins", "check", folder])
          assert.strictEqual(checked.code, 0, checked.stdout + checked.stderr)
        }),
      slow
    )
  }

  it.live(
    "shows what differs, in both modes, and refuses connections to other machines",
    () =>
      Effect.gen(function* () {
        const { hermes, put } = yield* machine
        put("leaky/plugin.yaml", "name: leaky\n")
        put(
          "leaky/index.js",
          `export const register = (ctx) => {
  ctx.registerTool({ name: "call_out", readonly: true, handler: async () => {
    try { await fetch("http://203.0.113.1/"); return "connected" } catch (error) { return String(error.cause?.message) }
  } })
}`
        )
        put(
          "leaky/scenarios/one.yaml",
          `prompt: Say it.
turns:
  - tool_calls: [{ name: call_out }]
  - text: The SECRET is out.
expect:
  text: Another answer.
  absent: [SECRET]
  blocked: [terminal]
  tools: [{ name: call_out, contains: ["no network in tests of plugins"] }]
`
        )
        const { code, stdout } = yield* hermes(["plugins", "test", "leaky"])
        assert.strictEqual(code, 1)
        assert.match(
          stdout,
          /^✗ scenarios\/one\.yaml \(not streamed\)\n {2}the answer differs\n {4}- Another answer\.\n {4}\+ The SECRET is out\.$/m
        )
        assert.match(stdout, /^✗ scenarios\/one\.yaml \(streamed\)$/m)
        assert.match(stdout, /^ {2}"SECRET" must not appear in the streamed text$/m)
        assert.match(stdout, /^ {2}"SECRET" must not appear in a file of the home directory$/m)
        assert.match(stdout, /^ {2}a call is not blocked\n {4}- terminal \(blocked\)\n {4}\+ call_out \(ok\)$/m)
        assert.notMatch(stdout, /the result of call_out does not contain/)
        put("leaky/scenarios/one.yaml", "prompt: Say it.\nexpect: { txet: x }\n")
        const wrong = yield* hermes(["plugins", "test", "leaky"])
        assert.strictEqual(wrong.code, 2)
        assert.match(wrong.stderr, /scenarios\/one\.yaml:2: expect\.txet: unknown, did you mean text\?/)
        put("leaky/scenarios/one.yaml", "prompt: Say it.\nturns: [{ text: a, usage: { tokens: 5 } }]\n")
        assert.match(
          (yield* hermes(["plugins", "test", "leaky"])).stderr,
          /scenarios\/one\.yaml:2: turns\.0\.usage\.tokens: unknown\. Known: input_tokens, output_tokens, /
        )
        put("leaky/scenarios/one.yaml", "prompt: Say it.\nrequests: { count: 1 }\n")
        assert.match(
          (yield* hermes(["plugins", "test", "leaky"])).stderr,
          /scenarios\/one\.yaml:2: requests: unknown here: move it below `expect`/
        )
      }),
    slow
  )
})
