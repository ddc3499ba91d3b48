// The cases of the hook contract on the Langfuse plugin.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import { Environment } from "../../src/config/Environment.ts"
import type { Fields } from "../../src/observability/atof/Facts.ts"
import { bundled } from "../../src/observability/Bundled.ts"
import * as LangfusePlugin from "../../src/observability/LangfusePlugin.ts"
import * as Generation from "../../src/observability/langfuse/Generation.ts"
import * as LangfuseSettings from "../../src/observability/langfuse/LangfuseSettings.ts"
import * as Observations from "../../src/observability/langfuse/Observations.ts"
import * as Values from "../../src/observability/langfuse/Values.ts"
import type { Span } from "../../src/observability/otlp/Span.ts"
import * as RunKey from "../../src/observability/span/RunKey.ts"
import * as Tracker from "../../src/observability/span/Tracker.ts"
import * as Discovery from "../../src/plugin/Discovery.ts"
import * as Enablement from "../../src/plugin/Enablement.ts"
import { withWarnings } from "../hooks/support/events.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

/** What is sent when these events happen, and how many runs are still open after them. */
const sent = (events: ReadonlyArray<readonly [string, Fields]>, capacity?: number) => {
  const spans: Array<Span> = []
  let [now, id] = [0n, 0]
  const tracker = Tracker.make(
    Observations.make({
      settings: LangfuseSettings.complete({ publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-1") }),
      now: () => ++now,
      spanId: () => String(++id).padStart(16, "0"),
      send: (span) => spans.push(span)
    }),
    capacity
  )
  for (const [name, payload] of events) tracker.record(name, payload)
  return { spans, tracker, open: tracker.size() }
}

const tool = (more: Fields = {}): Fields => ({ session_id: "s", task_id: "t", turn_id: "u", tool_name: "echo", args: {}, ...more })
const begin = (turn: string): readonly [string, Fields] => ["pre_llm_call", { session_id: "s", task_id: "t", turn_id: turn, user_message: turn }]
const end = (turn: string): readonly [string, Fields] => [
  "on_session_end",
  { session_id: "s", task_id: "t", turn_id: turn, completed: true, interrupted: false, reason: "text_response" }
]
const request: Fields = { session_id: "s", task_id: "t", turn_id: "u", api_request_id: "u:1", api_call_count: 1 }

describe("the Langfuse plugin", () => {
  const warned = (variables: Readonly<Record<string, string>>) =>
    withWarnings((warnings) =>
      Effect.map(Effect.scoped(LangfusePlugin.fromEnvironment), (hooks) => ({ warnings: [...warnings], hooks: hooks.length }))
    ).pipe(Effect.provide(Environment.layerOf(variables)))

  it.effect("172 a key that is none is one warning, which shows no secret, and nothing is traced (unlike the contract, keys that are missing are one too)", () =>
    Effect.gen(function*() {
      const one = yield* warned({ HERMES_LANGFUSE_PUBLIC_KEY: "placeholder", HERMES_LANGFUSE_SECRET_KEY: "sk-lf-valid-secret" })
      assert.deepStrictEqual([one.warnings.length, one.hooks], [1, 0])
      assert.match(one.warnings[0] ?? "", /HERMES_LANGFUSE_PUBLIC_KEY must begin with pk-lf- \(it is "placeholder"\)/u)
      assert.notInclude(one.warnings[0] ?? "", "valid-secret")
      const both = yield* warned({ HERMES_LANGFUSE_PUBLIC_KEY: "a-key-that-is-long", HERMES_LANGFUSE_SECRET_KEY: "my-old-password" })
      assert.deepStrictEqual([both.warnings.length, both.hooks], [1, 0])
      assert.match(both.warnings[0] ?? "", /HERMES_LANGFUSE_PUBLIC_KEY.*"a-key-\.\.\.".*HERMES_LANGFUSE_SECRET_KEY must begin with sk-lf-/u)
      assert.notInclude(both.warnings[0] ?? "", "password")
      const legacy = yield* warned({ LANGFUSE_PUBLIC_KEY: "nope", LANGFUSE_SECRET_KEY: "sk-lf-1" })
      assert.match(legacy.warnings[0] ?? "", /HERMES_LANGFUSE_PUBLIC_KEY must/u)
      const missing = yield* warned({ HERMES_LANGFUSE_PUBLIC_KEY: " " })
      assert.deepStrictEqual([missing.warnings.length, missing.hooks], [1, 0])
      assert.match(missing.warnings[0] ?? "", /set HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY/u)
    }))

  it.effect("173 keys with the right prefixes are used, the plain variables too, and the other variables", () =>
    Effect.gen(function*() {
      const fine = yield* warned({ LANGFUSE_PUBLIC_KEY: " pk-lf-1 ", HERMES_LANGFUSE_SECRET_KEY: "sk-lf-1" })
      assert.deepStrictEqual(fine, { warnings: [], hooks: 1 })
      const said = (more: Readonly<Record<string, string>>) =>
        LangfuseSettings.fromVariables((name) => ({ HERMES_LANGFUSE_PUBLIC_KEY: "pk-lf-1", HERMES_LANGFUSE_SECRET_KEY: "sk-lf-1", ...more })[name])
      assert.deepInclude(said({}).settings, { baseUrl: "https://cloud.langfuse.com", maxChars: 12_000, sampleRate: 1, debug: false, tags: [] })
      assert.deepInclude(
        said({
          HERMES_LANGFUSE_BASE_URL: "https://eu.example/lf/", LANGFUSE_ENV: "prod", LANGFUSE_RELEASE: "r1", HERMES_LANGFUSE_SAMPLE_RATE: "0.25",
          HERMES_LANGFUSE_MAX_CHARS: "50", HERMES_LANGFUSE_DEBUG: "Yes", HERMES_LANGFUSE_USER_ID: "ada", HERMES_LANGFUSE_TAGS: "a, b,"
        }).settings,
        { baseUrl: "https://eu.example/lf", environment: "prod", release: "r1", sampleRate: 0.25, maxChars: 50, debug: true, userId: "ada", tags: ["a", "b"] }
      )
      for (
        const [name, value] of [
          ["SAMPLE_RATE", "half"], ["SAMPLE_RATE", "1.5"], ["MAX_CHARS", "-3"], ["MAX_CHARS", "many"], ["ENV", "Langfuse Prod!"]
        ] as const
      ) {
        const { settings, warnings } = said({ [`HERMES_LANGFUSE_${name}`]: value })
        assert.deepInclude(settings, { sampleRate: 1, maxChars: 12_000, environment: undefined })
        assert.strictEqual(warnings.length, 1)
        assert.include(warnings[0] ?? "", `HERMES_LANGFUSE_${name} must be`)
      }
      for (const url of ["nonsense", "ftp://x", "https://user:secret@host"]) {
        const { settings, warnings } = said({ HERMES_LANGFUSE_BASE_URL: url })
        assert.isUndefined(settings)
        assert.match(warnings.join(), /^HERMES_LANGFUSE_BASE_URL must be/u)
        assert.notInclude(warnings.join(), "secret")
      }
    }))

  it("175 the messages are those of the request, else messages, else the history, else what the user said", () => {
    const [a, b, c] = ["a", "b", "c"].map((content) => ({ role: "user", content }))
    const every: Fields = { request_messages: [a ?? null], messages: [b ?? null], conversation_history: [c ?? null], user_message: "d" }
    const first = (payload: Fields) => Generation.messages(payload)[0]
    assert.strictEqual(first(every), a)
    assert.strictEqual(first({ ...every, request_messages: [] }), b)
    assert.strictEqual(first({ ...every, request_messages: [], messages: undefined }), c)
    assert.deepStrictEqual(Generation.messages({ user_message: "d" }), [{ role: "user", content: "d" }])
    assert.deepStrictEqual(Generation.messages({ user_message: "" }), [])
    assert.strictEqual(Generation.input({ messages: Array.from({ length: 20 }, (_, n) => `m${n}`) }, 100).length, 12)
  })

  it("176 what a tool said in JSON is shown as what it says, and its name and id are kept", () => {
    const message = { role: "tool", name: "echo", tool_call_id: "c1", content: "{\"a\":[1,{\"b\":2}]}" }
    assert.deepStrictEqual(Generation.serialised(message, 100), { ...message, content: { a: [1, { b: 2 }] } })
    assert.deepStrictEqual(Values.parsed("{\"a\":1}\n\n[Hint: read on]"), { a: 1, _hint: "[Hint: read on]" })
    assert.deepStrictEqual(Values.parsed("{\"a\":\"}\\\"]\"} and more"), { a: "}\"]", _trailing_text: "and more" })
    assert.deepStrictEqual(Values.parsed("[1] x"), { value: [1], _trailing_text: "x" })
    for (const text of ["{not json}", "[1", "plain", "{\"a\":1"]) assert.strictEqual(Values.parsed(text), text)
  })

  it("178 a tool call is over with its parsed result, which the call that the model made gets too", () => {
    const answer: Fields = {
      ...request,
      assistant_tool_call_count: 1,
      response: { assistant_message: { content: "", tool_calls: [{ id: "c1", type: "function", function: { name: "echo", arguments: "{\"x\":1}" } }] } }
    }
    const { spans } = sent([
      begin("u"), ["pre_api_request", request], ["post_api_request", answer],
      ["pre_tool_call", tool({ tool_call_id: "c1" })],
      ["post_tool_call", tool({ tool_call_id: "c1", result: "{\"said\":\"hi\"}", status: "ok", duration_ms: 1 })],
      end("u")
    ])
    const done = spans.find(({ name }) => name === "Tool: echo")
    assert.strictEqual(done?.attributes["langfuse.observation.output"], "{\"said\":\"hi\"}")
    const root: { tool_calls: ReadonlyArray<Record<string, unknown>> } = JSON.parse(String(spans.at(-1)?.attributes["langfuse.observation.output"]))
    assert.deepStrictEqual(root.tool_calls, [{
      id: "c1", type: "function", name: "echo", output: { said: "hi" }, function: { name: "echo", arguments: { x: 1 }, output: { said: "hi" } }
    }])
  })

  it("179 calls of one tool without ids end in the order in which they began, each once", () => {
    const two = sent([
      begin("u"),
      ["pre_tool_call", tool({ args: { n: 1 } })], ["pre_tool_call", tool({ args: { n: 2 } })],
      ["post_tool_call", tool({ result: "r1", status: "ok" })], ["post_tool_call", tool({ result: "r2", status: "ok" })],
      ["post_tool_call", tool({ result: "r3", status: "ok" })]
    ])
    const shown = (span: Span) => [span.attributes["langfuse.observation.input"], span.attributes["langfuse.observation.output"]]
    assert.deepStrictEqual(two.spans.map(shown), [["{\"n\":1}", "r1"], ["{\"n\":2}", "r2"]])
    const numbers = Array.from({ length: 8 }, (_, n) => n)
    const eight = sent([
      begin("u"),
      ...numbers.map((n) => ["pre_tool_call", tool({ args: { n } })] as const),
      ...numbers.map((n) => ["post_tool_call", tool({ result: `r${n}`, status: "ok" })] as const)
    ])
    assert.strictEqual(new Set(eight.spans.map(({ spanId }) => spanId)).size, 8)
    assert.isUndefined(eight.tracker.tool("u", "echo"))
  })

  it("181 a turn that never ends lingers, and the newest ones survive when there are too many", () => {
    const two = sent([begin("one"), begin("two"), end("two")])
    assert.deepStrictEqual([two.spans.length, two.open], [1, 1])
    assert.strictEqual(two.spans[0]?.attributes["langfuse.observation.input"], "two")
    const turns = Array.from({ length: 50 }, (_, n) => `turn${n}`)
    const many = sent(turns.map(begin), 8)
    assert.strictEqual(many.open, 8)
    assert.deepStrictEqual(many.spans.map(({ attributes }) => attributes["langfuse.observation.input"]), turns.slice(0, 42))
    assert.isTrue(many.spans.every(({ attributes }) => attributes["langfuse.observation.status_message"] === "interrupted"))
    many.tracker.close()
    assert.deepStrictEqual([many.open, many.spans.length, many.tracker.size()], [8, 50, 0])
  })

  it("182 a run is known by its turn, else its attempt, in its task or else its session", () => {
    const key = (task_id: string, session_id: string, turn_id = "", api_request_id = "") => RunKey.of({ task_id, session_id, turn_id, api_request_id })
    assert.deepStrictEqual(
      [key("t", "s", "u"), key("", "s", "u"), key("t", "s", "", "r"), key("t", "s"), key("", "s"), key("t", "s", "u", "r"), key("", "")],
      ["task:t:turn:u", "session:s:turn:u", "task:t:api:r", "t", "session:s", "task:t:turn:u", "session:default"]
    )
  })

  it("184 a data URI is described, and every other value has its bounds", () => {
    const uri = `data:image/png;base64,${"A".repeat(20_000)}`
    assert.deepStrictEqual(Values.bounded({ url: uri }, 100), {
      url: { type: "data_uri", media_type: "image/png", omitted: true, length: uri.length }
    })
    assert.strictEqual(Values.bounded("x".repeat(150), 100), `${"x".repeat(100)}... [truncated 50 chars]`)
    const deep: Schema.Json = { a: { b: { c: { d: { e: 1 } } } } }
    assert.deepStrictEqual(Values.bounded(deep, 100), { a: { b: { c: { d: { e: "<max-depth>" } } } } })
    assert.strictEqual((Values.bounded(Array.from({ length: 60 }, (_, n) => n), 100) as ReadonlyArray<number>).length, 50)
    assert.strictEqual(Object.keys(Values.bounded(Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`k${n}`, n])), 100) ?? {}).length, 50)
    const file = { content: Array.from({ length: 100 }, (_, n) => `line ${n}`).join("\n"), base64_content: "QUJD" }
    const shown = Values.result("read_file", JSON.stringify(file), 12_000) as { content: string; base64_content: unknown }
    const lines = shown.content.split("\n")
    assert.deepStrictEqual([lines.length, lines[24], lines[25], lines[26], lines.at(-1)], [41, "line 24", "... [60 lines omitted]", "line 85", "line 99"])
    assert.deepStrictEqual(shown.base64_content, { omitted: true, length: 4 })
  })

  it.effect("185 with an empty home the plugin is known, and not enabled", () =>
    Effect.gen(function*() {
      const home = yield* temporaryDirectory
      const { candidates } = yield* Discovery.discover({ bundled, user: `${home}/plugins`, cwd: home, packages: [], variable: () => undefined })
      const found = candidates.find(({ key }) => key === "observability/langfuse")
      assert.isDefined(found)
      const decision = found && Enablement.decide(found, { enabled: [], disabled: [] })
      assert.deepInclude(decision, { _tag: "Leave", enabled: false })
      assert.match(decision?._tag === "Leave" ? decision.reason ?? "" : "", /^not enabled/u)
    }).pipe(Effect.provide(NodeServices.layer)))
})
