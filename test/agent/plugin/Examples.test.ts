// The examples of the documents as plugins on disk: each in both styles, through the real program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { cpSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { rewriteArgs, rewriteRequest, withWarnings } from "../../support/middlewareContexts.ts"
import { machine } from "../../support/hermes.ts"
import { root } from "../../support/sources.ts"
import * as Ask from "../../models/provider/Ask.ts"
import { loaded, place } from "./support/plugins.ts"

const examples = join(root, "scratchpad", "plugins")
const styles = ["plain", "typed"] as const
const names = ["llm-execution", "llm-request", "observer", "tool-execution", "tool-request"]

const keys = (style: string): ReadonlyArray<string> => names.map((name) => `${style}/${name}`)

const spans = (stderr: string): ReadonlyArray<Record<string, unknown>> =>
  stderr
    .split("\n")
    .filter((line) => line.startsWith('{"span"'))
    .map((line) => JSON.parse(line))

/** A home whose plugins are the examples of one style, all enabled. */
const equipped = Effect.fnUntraced(function* (style: string, settings: string) {
  const one = yield* machine
  one.keep("config.yaml", `${settings}plugins:\n  enabled: [${keys(style).join(", ")}]\n`)
  cpSync(join(examples, style), join(one.home, "plugins", style), { recursive: true })
  return one
})

for (const style of styles) {
  describe(`the examples, ${style}`, () => {
    it("are all there", () => {
      const directories = readdirSync(join(examples, style)).toSorted()
      assert.deepStrictEqual(directories, names)
    })

    it.live("tag the request on the wire: metadata in the body, and no extra_body", () =>
      Effect.gen(function* () {
        const server = yield* Ask.mock
        server.on({ userMessage: "ok" }, { content: "ok" })
        const { hermes } = yield* equipped(
          style,
          `model: { provider: custom, default: some-model, base_url: "${server.url}/v1", api_key: none }\n`
        )
        const command = ["chat", "-q", "Reply exactly ok", "--quiet", "--toolsets", "terminal"]
        const untouched = yield* hermes([...command, "--provider", "custom"], { env: { HERMES_SAFE_MODE: "1" } })
        const { code, stderr, stdout } = yield* hermes(command)
        assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: "ok\n" }, stderr)
        assert.strictEqual(untouched.stdout, stdout, untouched.stderr)
        const [without, tagged] = server.getRequests().map(({ body }) => body)
        assert.isObject(without)
        assert.deepStrictEqual<unknown>(tagged, { ...without, metadata: { hermes_middleware_demo: true } })
        assert.notProperty(tagged, "extra_body")
        assert.match(stderr, /^llm_execution elapsed_ms=\d+$/m)
      })
    )

    it.live("observe model calls and tool calls of a run that the built-in stand-in answers", () =>
      Effect.gen(function* () {
        const { hermes, put } = yield* equipped(style, "")
        put("a.txt", "alpha\n")
        const { code, stderr, stdout } = yield* hermes([
          "chat",
          "-q",
          "Use exactly one read_file tool call. Read a.txt. Then reply with exactly: done.",
          "--format",
          "stream-json"
        ])
        assert.strictEqual(code, 0, stderr)
        // Whatever plugins print, stdout stays what it is: one JSON object per line.
        const types = stdout
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line).type)
        assert.deepStrictEqual(types, ["system", "tool_use", "tool_result", "text", "result"])
        const found = spans(stderr).filter(({ span }) => span !== "all")
        assert.deepStrictEqual(
          found.map(({ at, span }) => `${span} ${at}`),
          ["llm start", "llm end", "tool start", "tool end", "llm start", "llm end"]
        )
        const [first, firstEnd, tool, toolEnd] = found
        assert.strictEqual(first?.["id"], firstEnd?.["id"])
        assert.deepInclude(first, { method: "POST" })
        assert.deepInclude(firstEnd, { finish: "tool_calls" })
        assert.deepInclude(tool, { tool: "read_file", args: { path: "a.txt" } })
        assert.strictEqual(tool?.["id"], toolEnd?.["id"])
        assert.deepInclude(toolEnd, { status: "ok" })
      })
    )

    it.live("change requests and arguments as the document says, each with its trace", () =>
      Effect.gen(function* () {
        const { places } = yield* place
        const { value, warnings } = yield* withWarnings(
          Effect.gen(function* () {
            const { middleware, plugins } = yield* loaded({ places: places({ user: examples }), enabled: keys(style) })
            return {
              plugins,
              request: yield* rewriteRequest(middleware, {
                model: "m",
                extra_body: { top_k: 1, metadata: { mine: 1 } }
              }),
              defaulted: yield* rewriteArgs(middleware, { command: "ls" }),
              given: yield* rewriteArgs(middleware, { command: "ls", workdir: "/mine" })
            }
          })
        )
        assert.deepStrictEqual(warnings, [])
        assert.deepStrictEqual(
          value.plugins.filter(({ enabled }) => enabled).map(({ hooks, key, middleware }) => [key, hooks, middleware]),
          names.map((name) => [`${style}/${name}`, name === "observer" ? 4 : 0, name === "observer" ? 0 : 1])
        )
        assert.deepStrictEqual(value.request, {
          payload: { model: "m", extra_body: { top_k: 1, metadata: { mine: 1, hermes_middleware_demo: true } } },
          trace: [{ source: "middleware-demo", reason: "tagged provider request" }]
        })
        assert.deepStrictEqual(value.defaulted, {
          payload: { workdir: "/tmp/hermes-middleware-demo", command: "ls" },
          trace: [{ source: "middleware-demo", reason: "defaulted terminal workdir" }]
        })
        assert.deepStrictEqual(value.given.payload, { workdir: "/mine", command: "ls" })
      })
    )
  })
}

describe("the README of plugins", () => {
  it("prints the examples as they are", () => {
    const readme = readFileSync(join(examples, "README.md"), "utf8")
    const printed = Array.from(readme.matchAll(/<!-- ([\w./-]+) -->\n+```\w+\n([\s\S]*?)```/g))
    const paths = styles.flatMap((style) =>
      names.map((name) => `${style}/${name}/index.${style === "plain" ? "js" : "ts"}`)
    )
    assert.deepStrictEqual(printed.map(([, path]) => path).toSorted(), paths)
    for (const [, path = "", text] of printed)
      assert.strictEqual(text, readFileSync(join(examples, path), "utf8"), path)
  })
})
