// The cases of the hook contract on the Langfuse plugin.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import { Environment } from "../../src/base/config/Environment.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import type * as RecordEvent from "../../src/base/domain/RecordEvent.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import { bundled } from "../../src/observe/Bundled.ts"
import * as LangfusePlugin from "../../src/observe/LangfusePlugin.ts"
import * as Generation from "../../src/observe/langfuse/Generation.ts"
import * as LangfuseSettings from "../../src/observe/langfuse/LangfuseSettings.ts"
import * as Observations from "../../src/observe/langfuse/Observations.ts"
import * as Values from "../../src/observe/langfuse/Values.ts"
import * as LiveSpans from "../../src/observe/LiveSpans.ts"
import * as RunSpans from "../../src/observe/RunSpans.ts"
import * as Discovery from "../../src/agent/plugin/Discovery.ts"
import * as Enablement from "../../src/agent/plugin/Enablement.ts"
import { withWarnings } from "../hooks/support/events.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { sentOf } from "../observe/support/sentMessages.ts"
import { live } from "../observe/support/shownSpans.ts"

/** The observations of entries of the record, and what makes them. */
const observed = () => {
  const spans: Array<RunSpans.Span> = []
  const settings = LangfuseSettings.complete({ publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-1") })
  const showing = live(Observations.makeView(settings), { close: (span) => spans.push(span) })
  let at = 0
  const tell = (turnId: string, ...events: ReadonlyArray<RecordEvent.RecordEvent>) =>
    showing.add(
      events.map((event) => ({ sessionId: Ids.SessionId.make("s"), turnId: Ids.TurnId.make(turnId), at: ++at, event }))
    )
  return { spans, tell, close: () => showing.close(++at) }
}

const begin = (prompt: string): ReadonlyArray<RecordEvent.RecordEvent> => [
  {
    _tag: "RunStarted",
    version: 1,
    source: "cli",
    platform: "cli",
    provider: "p",
    model: "m",
    cwd: "/",
    resumed: false
  },
  {
    _tag: "MessageAppended",
    origin: "user",
    position: 0,
    message: Prompt.userMessage({ content: [Prompt.textPart({ text: prompt })] })
  }
]
const end: RecordEvent.RecordEvent = {
  _tag: "RunEnded",
  exit: "text_response",
  text: "done",
  steps: 1,
  usage: Usage.zero,
  cost: { usd: 0, status: "included", source: "none" }
}
const answered = (
  ...calls: ReadonlyArray<{ readonly id: string; readonly params: unknown }>
): ReadonlyArray<RecordEvent.RecordEvent> => [
  {
    _tag: "AttemptStarted",
    apiRequestId: "u:1",
    step: 1,
    attempt: 0,
    route: { provider: "p", model: "m", apiMode: "chat_completions" },
    messages: [0],
    parameters: {}
  },
  {
    _tag: "AttemptEnded",
    apiRequestId: "u:1",
    status: "answered",
    answer: calls.map(({ id, params }) => ({ type: "tool-call", id, name: "echo", params }))
  },
  {
    _tag: "MessageAppended",
    origin: "model",
    position: 1,
    message: Prompt.assistantMessage({
      content: calls.map(({ id, params }) => Prompt.toolCallPart({ id, name: "echo", params, providerExecuted: false }))
    })
  },
  ...calls.map(({ id, params }): RecordEvent.RecordEvent => ({
    _tag: "CallStarted",
    callId: id,
    name: "echo",
    args: params,
    apiRequestId: "u:1",
    parallel: calls.length > 1
  }))
]
const result = (id: string, text: string): ReadonlyArray<RecordEvent.RecordEvent> => [
  { _tag: "CallEnded", callId: id, name: "echo", status: "ok", ran: true, durationMillis: 1 },
  {
    _tag: "MessageAppended",
    origin: "tool",
    position: 2,
    message: Prompt.toolMessage({
      content: [Prompt.toolResultPart({ id, name: "echo", isFailure: false, result: text, providerExecuted: false })]
    })
  }
]

describe("the Langfuse plugin", () => {
  const warned = (variables: Readonly<Record<string, string>>) =>
    withWarnings((warnings) =>
      Effect.map(LangfusePlugin.fromEnvironment, (settings) => ({
        warnings: [...warnings],
        traces: settings !== undefined
      }))
    ).pipe(Effect.provide(Environment.layerIn(variables)))

  it.effect(
    "172 a key that is none is one warning, which shows no secret, and nothing is traced (unlike the contract, keys that are missing are one too)",
    () =>
      Effect.gen(function* () {
        const one = yield* warned({
          HERMES_LANGFUSE_PUBLIC_KEY: "placeholder",
          HERMES_LANGFUSE_SECRET_KEY: "sk-lf-valid-secret"
        })
        assert.deepStrictEqual([one.warnings.length, one.traces], [1, false])
        assert.match(
          one.warnings[0] ?? "",
          /HERMES_LANGFUSE_PUBLIC_KEY must begin with pk-lf- \(it is "placeholder"\)/u
        )
        assert.notInclude(one.warnings[0] ?? "", "valid-secret")
        const both = yield* warned({
          HERMES_LANGFUSE_PUBLIC_KEY: "a-key-that-is-long",
          HERMES_LANGFUSE_SECRET_KEY: "my-old-password"
        })
        assert.deepStrictEqual([both.warnings.length, both.traces], [1, false])
        assert.match(
          both.warnings[0] ?? "",
          /HERMES_LANGFUSE_PUBLIC_KEY.*"a-key-\.\.\.".*HERMES_LANGFUSE_SECRET_KEY must begin with sk-lf-/u
        )
        assert.notInclude(both.warnings[0] ?? "", "password")
        const legacy = yield* warned({ LANGFUSE_PUBLIC_KEY: "nope", LANGFUSE_SECRET_KEY: "sk-lf-1" })
        assert.match(legacy.warnings[0] ?? "", /HERMES_LANGFUSE_PUBLIC_KEY must/u)
        const missing = yield* warned({ HERMES_LANGFUSE_PUBLIC_KEY: " " })
        assert.deepStrictEqual([missing.warnings.length, missing.traces], [1, false])
        assert.match(missing.warnings[0] ?? "", /set HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY/u)
      })
  )

  it.effect("173 keys with the right prefixes are used, the plain variables too, and the other variables", () =>
    Effect.gen(function* () {
      const fine = yield* warned({ LANGFUSE_PUBLIC_KEY: " pk-lf-1 ", HERMES_LANGFUSE_SECRET_KEY: "sk-lf-1" })
      assert.deepStrictEqual(fine, { warnings: [], traces: true })
      const said = (more: Readonly<Record<string, string>>) =>
        LangfuseSettings.fromVariables(
          (name) => ({ HERMES_LANGFUSE_PUBLIC_KEY: "pk-lf-1", HERMES_LANGFUSE_SECRET_KEY: "sk-lf-1", ...more })[name]
        )
      assert.deepInclude(said({}).settings, {
        baseUrl: "https://cloud.langfuse.com",
        maxChars: 12_000,
        sampleRate: 1,
        debug: false,
        tags: []
      })
      assert.deepInclude(
        said({
          HERMES_LANGFUSE_BASE_URL: "https://eu.example/lf/",
          LANGFUSE_ENV: "prod",
          LANGFUSE_RELEASE: "r1",
          HERMES_LANGFUSE_SAMPLE_RATE: "0.25",
          HERMES_LANGFUSE_MAX_CHARS: "50",
          HERMES_LANGFUSE_DEBUG: "Yes",
          HERMES_LANGFUSE_USER_ID: "ada",
          HERMES_LANGFUSE_TAGS: "a, b,"
        }).settings,
        {
          baseUrl: "https://eu.example/lf",
          environment: "prod",
          release: "r1",
          sampleRate: 0.25,
          maxChars: 50,
          debug: true,
          userId: "ada",
          tags: ["a", "b"]
        }
      )
      for (const [name, value] of [
        ["SAMPLE_RATE", "half"],
        ["SAMPLE_RATE", "1.5"],
        ["MAX_CHARS", "-3"],
        ["MAX_CHARS", "many"],
        ["ENV", "Langfuse Prod!"]
      ] as const) {
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
    })
  )

  it("175 the messages are those that the record says were sent: the last twelve, behind the whole system prompt (unlike the contract, which looks for them in payloads)", () => {
    const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
    const system = "be good ".repeat(3000)
    const messages = [Prompt.systemMessage({ content: system }), ...Array.from({ length: 20 }, (_, n) => user(`m${n}`))]
    assert.deepStrictEqual(JSON.parse(Generation.renderInput(sentOf(messages), 100).toString()), [
      { role: "system", content: system },
      ...Array.from({ length: 12 }, (_, n) => ({ role: "user", content: `m${n + 8}` }))
    ])
    assert.strictEqual(String(Generation.renderInput(sentOf([undefined]), 100)), "[]")
  })

  it("176 what a tool said in JSON is shown as what it says, and its name and id are kept", () => {
    const message = Prompt.toolMessage({
      content: [
        Prompt.toolResultPart({
          id: "c1",
          name: "echo",
          isFailure: false,
          result: '{"a":[1,{"b":2}]}',
          providerExecuted: false
        })
      ]
    })
    assert.deepStrictEqual(Generation.serializeMessage(message, 100), [
      { role: "tool", name: "echo", tool_call_id: "c1", content: { a: [1, { b: 2 }] } }
    ])
    assert.deepStrictEqual(Values.parseText('{"a":1}\n\n[Hint: read on]'), { a: 1, _hint: "[Hint: read on]" })
    assert.deepStrictEqual(Values.parseText('{"a":"}\\"]"} and more'), { a: '}"]', _trailing_text: "and more" })
    assert.deepStrictEqual(Values.parseText("[1] x"), { value: [1], _trailing_text: "x" })
    for (const text of ["{not json}", "[1", "plain", '{"a":1']) assert.strictEqual(Values.parseText(text), text)
  })

  it("prices have the names of the counters, with their sum; a price that nobody knows is none", () => {
    const usage: Usage.Usage = {
      ...Usage.zero,
      inputTokens: 10,
      outputTokens: 5,
      cacheReadTokens: 3,
      cacheWriteTokens: 2
    }
    const details = (more: object) => {
      const { spans, tell } = observed()
      tell(
        "u",
        ...begin("u"),
        ...answered().slice(0, 1),
        { _tag: "AttemptEnded", apiRequestId: "u:1", status: "answered", answer: [], usage, ...more },
        end
      )
      const { attributes } = spans.find(({ name }) => name === "LLM call 1") ?? { attributes: {} }
      return ["usage", "cost"].map((name) => {
        const value = Object.entries(attributes).find(([key]) => key === `langfuse.observation.${name}_details`)?.[1]
        return value === undefined ? undefined : JSON.parse(String(value))
      })
    }
    const used = { input: 10, output: 5, cache_read_input_tokens: 3, cache_creation_input_tokens: 2, total: 20 }
    assert.deepStrictEqual(
      details({
        cost: { usd: 0.5, status: "estimated", source: "official_docs_snapshot" },
        costParts: { input: 0.1, output: 0.2, cacheRead: 0.05, cacheWrite: 0.15 }
      }),
      [used, { input: 0.1, output: 0.2, cache_read_input_tokens: 0.05, cache_creation_input_tokens: 0.15, total: 0.5 }]
    )
    assert.deepStrictEqual(details({ cost: { usd: 0.5, status: "actual", source: "provider_usage" } }), [
      used,
      { total: 0.5 }
    ])
    assert.deepStrictEqual(details({ cost: { usd: null, status: "unknown", source: "none" } }), [used, undefined])
  })

  it("178 a tool call is over with its parsed result, which the call that the model made gets too", () => {
    const { spans, tell } = observed()
    tell("u", ...begin("u"), ...answered({ id: "c1", params: { x: 1 } }))
    tell("u", ...result("c1", '{"said":"hi"}'), end)
    const done = spans.find(({ name }) => name === "Tool: echo")
    assert.strictEqual(done?.attributes["langfuse.observation.output"], '{"said":"hi"}')
    const root: { tool_calls: ReadonlyArray<Record<string, unknown>> } = JSON.parse(
      String(spans.at(-1)?.attributes["langfuse.observation.output"])
    )
    assert.deepStrictEqual(root.tool_calls, [
      {
        id: "c1",
        type: "function",
        name: "echo",
        arguments: { x: 1 },
        output: { said: "hi" },
        function: { name: "echo", arguments: { x: 1 }, output: { said: "hi" } }
      }
    ])
  })

  it("179 calls of one tool are told apart, whatever the order of their ends (the record has an id for each)", () => {
    const { spans, tell } = observed()
    const numbers = Array.from({ length: 8 }, (_, n) => n)
    tell("u", ...begin("u"), ...answered(...numbers.map((n) => ({ id: `c${n}`, params: { n } }))))
    for (const n of numbers.toReversed()) tell("u", ...result(`c${n}`, `r${n}`))
    tell("u", end)
    const tools = spans.filter(({ name }) => name === "Tool: echo")
    assert.deepStrictEqual(
      tools.map(({ attributes }) => [
        attributes["langfuse.observation.input"],
        attributes["langfuse.observation.output"]
      ]),
      numbers.toReversed().map((n) => [`{"n":${n}}`, `r${n}`])
    )
    assert.strictEqual(new Set(tools.map(({ spanId }) => spanId)).size, 8)
  })

  it("181 a turn that never ends lingers, and the newest ones survive when there are too many", () => {
    const two = observed()
    two.tell("one", ...begin("one"))
    two.tell("two", ...begin("two"), end)
    assert.deepStrictEqual(
      two.spans.map(({ attributes }) => attributes["langfuse.observation.input"]),
      ["two"]
    )
    const many = observed()
    const turns = Array.from({ length: LiveSpans.maxRuns + 42 }, (_, n) => `turn${n}`)
    for (const turn of turns) many.tell(turn, ...begin(turn))
    const shown = () => many.spans.map(({ attributes }) => attributes["langfuse.observation.input"])
    assert.deepStrictEqual(shown(), turns.slice(0, 42))
    assert.isTrue(
      many.spans.every(({ attributes }) => attributes["langfuse.observation.status_message"] === "interrupted")
    )
    many.close()
    many.close()
    assert.deepStrictEqual(shown(), turns)
  })

  it("182 a run is known by its turn, and shares the trace of its session", () => {
    const { spans, tell } = observed()
    for (const turn of ["one", "two"]) tell(turn, ...begin(turn), end)
    assert.strictEqual(new Set(spans.map(({ spanId }) => spanId)).size, 2)
    assert.deepStrictEqual(
      spans.map(({ parentSpanId, traceId }) => [parentSpanId, traceId]),
      [
        [undefined, Observations.makeTraceId("s")],
        [undefined, Observations.makeTraceId("s")]
      ]
    )
  })

  it("184 a data URI is described, and every other value has its bounds", () => {
    const uri = `data:image/png;base64,${"A".repeat(20_000)}`
    assert.deepStrictEqual(Values.boundValue({ url: uri }, 100), {
      url: { type: "data_uri", media_type: "image/png", omitted: true, length: uri.length }
    })
    assert.strictEqual(Values.boundValue("x".repeat(150), 100), `${"x".repeat(100)}... [truncated 50 chars]`)
    const deep: Schema.Json = { a: { b: { c: { d: { e: 1 } } } } }
    assert.deepStrictEqual(Values.boundValue(deep, 100), { a: { b: { c: { d: { e: "<max-depth>" } } } } })
    assert.strictEqual(
      (
        Values.boundValue(
          Array.from({ length: 60 }, (_, n) => n),
          100
        ) as ReadonlyArray<number>
      ).length,
      50
    )
    assert.strictEqual(
      Object.keys(Values.boundValue(Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`k${n}`, n])), 100) ?? {})
        .length,
      50
    )
    const file = { content: Array.from({ length: 100 }, (_, n) => `line ${n}`).join("\n"), base64_content: "QUJD" }
    const shown = Values.renderResult("read_file", JSON.stringify(file), 12_000) as {
      content: string
      base64_content: unknown
    }
    const lines = shown.content.split("\n")
    assert.deepStrictEqual(
      [lines.length, lines[24], lines[25], lines[26], lines.at(-1)],
      [41, "line 24", "... [60 lines omitted]", "line 85", "line 99"]
    )
    assert.deepStrictEqual(shown.base64_content, { omitted: true, length: 4 })
  })

  it.effect("185 with an empty home the plugin is known, and not enabled", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      const { candidates } = yield* Discovery.discover({
        bundled,
        user: `${home}/plugins`,
        cwd: home,
        trust: { isTrusted: () => Effect.succeed(false), findOwnProject: (folder) => Effect.succeed(folder) },
        packages: [],
        variable: () => undefined
      })
      const found = candidates.find(({ key }) => key === "observability/langfuse")
      assert.isDefined(found)
      const decision = found && Enablement.decideLoading(found, { enabled: [], disabled: [] })
      assert.deepInclude(decision, { _tag: "Leave", enabled: false })
      assert.match(decision?._tag === "Leave" ? (decision.reason ?? "") : "", /^not enabled/u)
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
