// Code of others within a run: what hangs ends by its deadline, a closed failure says why, a translation keeps the
// retries.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as TestClock from "effect/testing/TestClock"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { MiddlewareFailure, TranslatedFailure } from "../../src/base/domain/AgentError.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as PlainLifecycle from "../../src/middleware/PlainLifecycle.ts"
import * as PlainTool from "../../src/agent/plugin/PlainTool.ts"
import * as Plugin from "../../src/agent/plugin/Plugin.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { loaded } from "./plugin/support/plugins.ts"
import * as S from "../models/routing/support.ts"
import * as Fake from "../support/fakeModel.ts"
import { withWarnings } from "../support/middlewareContexts.ts"
import { running } from "../support/movingClock.ts"

type NextCall = (payload?: unknown) => Promise<unknown>
const nextOf = (call: Plain.Envelope): NextCall => call["next_call"] as NextCall

const toolsetOf = (tool: Tool.Any, work: Effect.Effect<string>): Toolset.Toolset => {
  const toolkit = Toolkit.make(tool)
  // The one tool takes no arguments and returns a text.
  return Toolset.make("test", toolkit, toolkit.toLayer({ work: () => work } as never)) as Toolset.Toolset
}

const Work = Tool.make("work", { success: Schema.String }).annotate(Tool.Readonly, true)
const worked = toolsetOf(Work, Effect.succeed("worked"))

interface Options {
  readonly tools?: ReadonlyArray<Toolset.Any>
  readonly middleware?: ReadonlyArray<Middleware.Any>
  readonly local?: boolean
}

const asking = () => Fake.make(Fake.calls(Fake.call("c1", "work", {})), Fake.text("done"))

/** The end of a run, its warnings and the events of its hooks. */
const outcome = (fake: Fake.Fake, { local = false, middleware = [], tools = [worked] }: Options) =>
  withWarnings(
    Effect.gen(function* () {
      const told: Array<readonly [string, Readonly<Record<string, unknown>>]> = []
      const keep = (name: string) => (payload: object) => Effect.sync(() => void told.push([name, { ...payload }]))
      const info = local ? { ...fake.provider.info, baseUrl: "http://127.0.0.1:1/v1" } : fake.provider.info
      const runtime = Runtime.layer({
        provider: Layer.succeed(Provider, { ...fake.provider, info }),
        tools,
        middleware,
        hooks: [
          Hooks.observer(
            { label: "all" },
            {
              pre_api_request: keep("pre_api_request"),
              post_api_request: keep("post_api_request"),
              api_request_error: keep("api_request_error"),
              pre_tool_call: keep("pre_tool_call"),
              post_tool_call: keep("post_tool_call"),
              on_session_end: keep("on_session_end")
            }
          )
        ]
        // The lists differ from test to test: their types say nothing here.
      } as never) as Layer.Layer<Agent.Agent | RunRecord>
      const exit = yield* running(Effect.exit(Effect.provide(Agent.run({ prompt: "go" }), runtime)))
      const last = fake.asked.at(-1)?.messages ?? []
      const results = last.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [String(part.result)] : []))
          : []
      )
      return { exit, results, told }
    })
  )

const names = (told: ReadonlyArray<readonly [string, unknown]>): ReadonlyArray<string> => told.map(([name]) => name)

const never = () => new Promise<never>(() => {})

const ofCall = [
  "pre_api_request",
  "post_api_request",
  "pre_tool_call",
  "post_tool_call",
  "pre_api_request",
  "post_api_request",
  "on_session_end"
]

describe("a tool whose handler hangs", () => {
  const handlers: ReadonlyArray<readonly [name: string, work: Effect.Effect<string>]> = [
    ["for ever", Effect.never],
    ["uninterruptibly", Effect.uninterruptible(Effect.never)],
    ["in a promise", Effect.promise(never)]
  ]
  for (const [how, work] of handlers) {
    it.effect(`${how}: its call ends by the tool's timeout, and the run goes on`, () =>
      Effect.gen(function* () {
        const {
          value: { exit, results, told }
        } = yield* outcome(asking(), { tools: [toolsetOf(Work, work)] })
        assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "done")
        assert.deepStrictEqual(results, [
          JSON.stringify({ error: "Error executing tool 'work': timed out after 300s" })
        ])
        assert.deepStrictEqual(names(told), ofCall)
        assert.deepInclude(told[3]?.[1], { status: "error", duration_ms: 300_000 })
      })
    )
  }

  it.effect("a tool states its own timeout", () =>
    Effect.gen(function* () {
      const own = Work.annotate(Annotations.Timeout, "2 seconds")
      const {
        value: { results }
      } = yield* outcome(asking(), { tools: [toolsetOf(own, Effect.never)] })
      assert.deepStrictEqual(results, [JSON.stringify({ error: "Error executing tool 'work': timed out after 2s" })])
    })
  )

  it.effect("a tool that bounds itself may take as long as it does", () =>
    Effect.gen(function* () {
      const own = Work.annotate(Annotations.Timeout, Duration.infinity)
      const {
        value: { results }
      } = yield* outcome(asking(), { tools: [toolsetOf(own, Effect.as(Effect.sleep("10 minutes"), "slept"))] })
      assert.deepStrictEqual(results, ["slept"])
    })
  )
})

const wrappers: ReadonlyArray<
  readonly [kind: Middleware.Any["kind"], form: string, entry: (onFailure: "open" | "closed") => Middleware.Any]
> = [
  [
    "llm_request",
    "typed",
    (onFailure) => Middleware.llmRequest({ name: "hangs", onFailure, rewrite: () => Effect.never })
  ],
  ["llm_request", "plain", (onFailure) => Plain.llmRequest({ name: "hangs", onFailure }, never)],
  [
    "tool_request",
    "typed",
    (onFailure) => Middleware.toolRequest({ name: "hangs", onFailure, rewrite: () => Effect.never })
  ],
  ["tool_request", "plain", (onFailure) => Plain.toolRequest({ name: "hangs", onFailure }, never)],
  [
    "llm_execution",
    "typed",
    (onFailure) => Middleware.llmExecution({ name: "hangs", onFailure, wrap: () => () => Effect.never })
  ],
  ["llm_execution", "plain", (onFailure) => Plain.llmExecution({ name: "hangs", onFailure }, never)],
  [
    "llm_execution",
    "plain after next_call",
    (onFailure) => Plain.llmExecution({ name: "hangs", onFailure }, (call) => nextOf(call)().then(never))
  ],
  [
    "tool_execution",
    "typed",
    (onFailure) => Middleware.toolExecution({ name: "hangs", onFailure, wrap: () => () => Effect.never })
  ],
  ["tool_execution", "plain", (onFailure) => Plain.toolExecution({ name: "hangs", onFailure }, never)],
  [
    "wrap_model_call",
    "typed",
    (onFailure) => Middleware.wrapModelCall({ name: "hangs", onFailure, wrap: () => () => Effect.never })
  ],
  [
    "wrap_tool_call",
    "typed",
    (onFailure) => Middleware.wrapToolCall({ name: "hangs", onFailure, wrap: () => () => Effect.never })
  ]
]

describe("middleware that hangs", () => {
  for (const [kind, form, entry] of wrappers) {
    for (const local of [false, true]) {
      it.effect(`${kind}, ${form}, ${local ? "local" : "remote"} endpoint: the run completes without it`, () =>
        Effect.gen(function* () {
          const {
            value: { exit, results, told },
            warnings
          } = yield* outcome(asking(), { middleware: [entry("open")], local })
          assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "done", String(exit))
          assert.deepStrictEqual(results, ["worked"])
          assert.deepStrictEqual(names(told), ofCall)
          assert.isTrue(
            warnings.every((warning) => warning.includes(`${kind} middleware "hangs" failed (no answer within `)),
            warnings.join()
          )
          assert.strictEqual(warnings.length, 1)
        })
      )
    }
  }

  const seconds = {
    llm_request: 30,
    llm_execution: 300,
    wrap_model_call: 300,
    tool_request: 30,
    tool_execution: 300,
    wrap_tool_call: 300,
    lifecycle: 30
  }
  for (const [kind, form, entry] of wrappers) {
    it.effect(`${kind}, ${form}, closed: the call fails and says why, everywhere`, () =>
      Effect.gen(function* () {
        const {
          value: { exit, results, told }
        } = yield* outcome(asking(), { middleware: [entry("closed")] })
        const why = `${kind} middleware "hangs" failed and is registered to fail closed: DeadlineExceeded: no answer within ${seconds[kind]} s`
        if (kind.includes("tool")) {
          assert.isTrue(Exit.isSuccess(exit))
          assert.include(results[0], JSON.stringify(why).slice(1, -1))
          assert.deepStrictEqual(names(told), ofCall)
          assert.include(told[3]?.[1]["error_message"], why)
          return
        }
        const error = Exit.isFailure(exit)
          ? exit.cause.reasons.flatMap((reason) => (reason._tag === "Fail" ? [reason.error] : []))[0]
          : undefined
        assert.instanceOf(error, MiddlewareFailure)
        assert.strictEqual(error?.message, why)
        if (kind === "wrap_model_call") return assert.deepStrictEqual(names(told), ["on_session_end"])
        assert.deepStrictEqual(names(told), ["pre_api_request", "api_request_error", "on_session_end"])
        assert.deepInclude(told[1]?.[1]["error"], { message: why })
      })
    )
  }
})

describe("a translated failure of a provider", () => {
  class Translated extends Schema.TaggedError<Translated>("test/Translated")("Translated", { why: Schema.String }) {}

  const translators: ReadonlyArray<readonly [form: string, entry: Middleware.Any]> = [
    [
      "typed",
      Middleware.llmExecution<AiError.AiError, Translated>({
        name: "translates",
        wrap: (next) => (request) =>
          Effect.catchIf(
            next(request),
            (error): error is Extract<typeof error, AiError.AiError> => AiError.isAiError(error),
            ({ reason }) => Effect.fail(new Translated({ why: reason._tag }))
          )
      })
    ],
    [
      "plain",
      Plain.llmExecution({ name: "translates" }, async (call) => {
        try {
          return await nextOf(call)()
        } catch (error) {
          throw new Error(`translated ${String(error)}`, { cause: error })
        }
      })
    ],
    [
      "plain, through another",
      Plain.llmExecution({ name: "translates" }, (call) =>
        nextOf(call)().catch((error: unknown) => {
          throw new Error("translated", { cause: error })
        })
      )
    ]
  ]

  for (const [form, entry] of translators) {
    const pass = Middleware.llmExecution({ name: "pass", wrap: (next) => (request) => next(request) })
    it.effect(`${form}: a retryable one is tried again`, () =>
      Effect.gen(function* () {
        const fake = Fake.make(() => Effect.fail(S.http(503, "down")), Fake.text("done"))
        const {
          value: { exit, told }
        } = yield* outcome(fake, { middleware: [pass, entry] })
        assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "done", String(exit))
        assert.deepStrictEqual(names(told), [
          "pre_api_request",
          "api_request_error",
          "pre_api_request",
          "post_api_request",
          "on_session_end"
        ])
        assert.deepInclude(told[1]?.[1], { reason: "overloaded", retryable: true, status_code: 503 })
      })
    )

    it.effect(`${form}: when nothing is left to be tried, the translation comes out`, () =>
      Effect.gen(function* () {
        const fake = Fake.make(() => Effect.fail(S.http(503, "down")))
        const {
          value: { exit }
        } = yield* outcome(fake, { middleware: [pass, entry] })
        const error = Exit.isFailure(exit)
          ? exit.cause.reasons.flatMap((reason) => (reason._tag === "Fail" ? [reason.error as unknown] : []))[0]
          : undefined
        assert.isTrue(error instanceof TranslatedFailure || error instanceof Translated, String(exit))
        assert.strictEqual(fake.executed.length, 3)
      })
    )
  }
})

describe("an answer that cannot be read", () => {
  it.effect("is an InvalidAPIResponse to listeners", () =>
    Effect.gen(function* () {
      const fake = Fake.make(() => Effect.fail(S.malformed), Fake.text("done"))
      const {
        value: { told }
      } = yield* outcome(fake, {})
      assert.deepInclude(told[1]?.[1], { reason: "invalid_response", retryable: true })
      assert.deepInclude(told[1]?.[1]["error"], { type: "InvalidAPIResponse" })
    })
  )
})

describe("functions of tools and plugins that hang", () => {
  it.effect("needsApproval: an approval is asked for, so that the call is denied where nobody decides", () =>
    Effect.gen(function* () {
      const asks = Tool.make("work", {
        success: Schema.String,
        needsApproval: () => Effect.never as Effect.Effect<boolean>
      })
      const {
        value: { exit, results }
      } = yield* outcome(asking(), { tools: [toolsetOf(asks, Effect.succeed("worked"))] })
      assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "done")
      assert.include(results[0], "work asks for an approval")
    })
  )

  it.effect("the check of a tool, even one that cannot be interrupted: the tool is not offered", () =>
    Effect.gen(function* () {
      const checked = Work.annotate(Annotations.Available, Effect.uninterruptible(Effect.never))
      const {
        value: { results }
      } = yield* outcome(asking(), { tools: [toolsetOf(checked, Effect.succeed("worked"))] })
      assert.include(results[0], "Tool 'work' does not exist")
    })
  )

  it.effect("a provider of a plugin that is never opened is a configuration error", () =>
    Effect.gen(function* () {
      const plugin = Plugin.fromValue({ name: "cloud", providers: [{ name: "my-cloud", open: () => Effect.never }] })
      const { providers } = yield* loaded({ plugins: [plugin] })
      const route = { provider: "my-cloud", model: "m", apiMode: "chat_completions" } as const
      const error = yield* running(Effect.flip(Effect.scoped(providers[0]?.open(route) ?? Effect.die("no provider"))))
      assert.strictEqual(
        error.message,
        'The provider "my-cloud" of plugin cloud could not be opened: no answer within 30 s. Choose another provider, or disable the plugin.'
      )
    })
  )

  it.effect("a plain tool states its timeout in seconds, and is told when it is over", () =>
    Effect.gen(function* () {
      let aborted = false
      const tool = PlainTool.readPlainTool({
        name: "work",
        timeout: 2,
        readonly: true,
        handler: (_: unknown, { signal }: { readonly signal: AbortSignal }) =>
          new Promise(() => signal.addEventListener("abort", () => (aborted = true)))
      })
      const {
        value: { results }
      } = yield* outcome(asking(), { tools: [PlainTool.makeToolset(tool, "plugged")] })
      assert.deepStrictEqual(results, [JSON.stringify({ error: "Error executing tool 'work': timed out after 2s" })])
      assert.isTrue(aborted)
      assert.throws(
        () => PlainTool.readPlainTool({ name: "work", timeout: "2", handler: () => 1 }),
        /timeout of the tool "work" is a number of seconds/
      )
    })
  )
})

describe("api_request_id", () => {
  it.effect("is one per attempt everywhere, retries and the closing summary included", () =>
    Effect.gen(function* () {
      const down = () => Effect.fail(S.http(503, "down"))
      const fake = Fake.make(down, Fake.calls(Fake.call("c1", "work", {})), down, Fake.text("the summary"))
      const seen = new Map<string, Array<string>>()
      const keep = (name: string, id: string) => {
        seen.set(id, [...(seen.get(id) ?? []), name])
      }
      const ofMiddleware = Middleware.llmRequest({
        name: "ids",
        rewrite: (_, { apiRequestId }) =>
          Effect.sync(() => {
            keep("llm_request", apiRequestId)
            return Middleware.unchanged
          })
      })
      const told = (name: string) => (event: { readonly api_request_id: string }) =>
        Effect.sync(() => keep(name, event.api_request_id))
      const runtime = Runtime.layer({
        provider: Layer.succeed(Provider, fake.provider),
        tools: [worked],
        middleware: [ofMiddleware],
        hooks: [
          Hooks.observer(
            { label: "ids" },
            {
              pre_api_request: told("pre"),
              post_api_request: told("post"),
              api_request_error: told("error"),
              post_tool_call: told("tool")
            }
          )
        ]
      })
      const attempts = yield* running(
        Effect.gen(function* () {
          const result = yield* Agent.run({ prompt: "go", maxIterations: 1 })
          assert.strictEqual(result.text, "the summary")
          const entries = yield* Stream.runCollect((yield* RunRecord).read())
          return entries.flatMap(({ event }) => (event._tag === "AttemptStarted" ? [event.apiRequestId] : []))
        }).pipe(Effect.provide(runtime))
      )
      const turn = attempts[0]?.replace(/:api:.*$/, "")
      assert.deepStrictEqual(attempts, [`${turn}:api:1`, `${turn}:api:1:1`, `${turn}:api:2`, `${turn}:api:2:1`])
      assert.deepStrictEqual(Array.from(seen), [
        [`${turn}:api:1`, ["llm_request", "pre", "error"]],
        [`${turn}:api:1:1`, ["llm_request", "pre", "post", "tool"]],
        [`${turn}:api:2`, ["llm_request", "pre", "error"]],
        [`${turn}:api:2:1`, ["llm_request", "pre", "post"]]
      ])
    })
  )
})

describe("observers that hang", () => {
  it.effect("queued, they take no time of the run", () =>
    Effect.gen(function* () {
      const fake = asking()
      const runtime = Runtime.layer({
        provider: Layer.succeed(Provider, fake.provider),
        tools: [worked],
        hooks: (
          [
            "pre_api_request",
            "post_api_request",
            "pre_llm_call",
            "post_llm_call",
            "post_tool_call",
            "on_session_start",
            "on_session_end"
          ] as const
        ).map((event) => Hooks.observer({ label: event, mode: "queued" }, { [event]: () => Effect.never }))
        // A computed name hides which events they are.
      } as never) as Layer.Layer<Agent.Agent>
      const texts: Array<string> = []
      const fiber = yield* Effect.forkChild(
        Effect.provide(
          Effect.tap(Agent.run({ prompt: "go" }), (result) => Effect.sync(() => void texts.push(result.text))),
          runtime
        ),
        { startImmediately: true }
      )
      // The clock stands still: whatever waits for a deadline would never end.
      for (let round = 0; round < 20_000 && texts.length === 0; round++) {
        yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
      }
      assert.deepStrictEqual(texts, ["done"])
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(fiber)
    })
  )
})

describe("a plugin that throws an error with the name ExecutionBlocked, without the class", () => {
  const veto = () => {
    throw Object.assign(new Error("not today"), { name: "ExecutionBlocked" })
  }
  const name = "policy"
  const modelKinds: ReadonlyArray<readonly [string, Middleware.Any]> = [
    ["llm_request", Plain.llmRequest({ name }, veto)],
    ["llm_execution", Plain.llmExecution({ name }, veto)],
    ["llm_execution, after next", Plain.llmExecution({ name }, async (call) => (await nextOf(call)(), veto()))],
    ["wrap_model_call", Plain.wrapModelCall({ name }, async () => veto())],
    ["before_model", PlainLifecycle.make({ name }, { before_model: veto })],
    ["after_model", PlainLifecycle.make({ name }, { after_model: veto })]
  ]
  for (const [kind, entry] of modelKinds) {
    it.effect(`${kind}: the call is vetoed`, () =>
      Effect.gen(function* () {
        const {
          value: { exit, told },
          warnings
        } = yield* outcome(Fake.make(Fake.text("done")), { middleware: [entry] })
        assert.isTrue(Exit.isFailure(exit), kind)
        assert.match(String(Exit.isFailure(exit) && exit.cause), /not today/)
        assert.deepStrictEqual(
          warnings.filter((line) => line.includes(name)),
          []
        )
        const failed = told.filter(([event]) => event === "api_request_error").map(([, { reason }]) => reason)
        assert.deepStrictEqual(failed, kind.startsWith("llm_") ? ["blocked"] : [])
      })
    )
  }

  const toolKinds: ReadonlyArray<readonly [string, Middleware.Any]> = [
    ["tool_request", Plain.toolRequest({ name }, veto)],
    ["tool_execution", Plain.toolExecution({ name }, veto)],
    ["wrap_tool_call", Plain.wrapToolCall({ name }, async () => veto())],
    ["before_tool", PlainLifecycle.make({ name }, { before_tool: veto })]
  ]
  for (const [kind, entry] of toolKinds) {
    it.effect(`${kind}: the call is blocked, and told so`, () =>
      Effect.gen(function* () {
        let ran = 0
        const tool = toolsetOf(
          Work,
          Effect.sync(() => String(++ran))
        )
        const {
          value: { exit, results, told }
        } = yield* outcome(asking(), { middleware: [entry], tools: [tool] })
        assert.isTrue(Exit.isSuccess(exit) && ran === 0, kind)
        assert.match(results.join(), /not today/)
        const ended = told.filter(([event]) => event === "post_tool_call")
        assert.deepStrictEqual(
          ended.map(([, { error_type, status }]) => [status, error_type]),
          [["blocked", "plugin_block"]]
        )
      })
    )
  }
})

describe("request middleware that is closed and fails", () => {
  for (const [what, fail] of [
    ["throws", () => Effect.die(new Error("broken"))],
    ["hangs", () => Effect.never]
  ] as const) {
    it.effect(`${what}: the refused call is told as blocked, with one closing event`, () =>
      Effect.gen(function* () {
        const closed = { name: "policy", onFailure: "closed" } as const
        const tool = yield* outcome(asking(), { middleware: [Middleware.toolRequest({ ...closed, rewrite: fail })] })
        assert.deepStrictEqual(
          tool.value.told.flatMap(([event, { error_type, status }]) =>
            event === "post_tool_call" ? [[status, error_type]] : []
          ),
          [["blocked", "plugin_block"]]
        )
        assert.match(tool.value.results.join(), /tool_request middleware \\"policy\\" failed/)
        const model = yield* outcome(asking(), { middleware: [Middleware.llmRequest({ ...closed, rewrite: fail })] })
        assert.deepStrictEqual(
          model.value.told.flatMap(([event, { reason }]) => (event === "api_request_error" ? [reason] : [])),
          ["blocked"]
        )
        assert.isTrue(Exit.isFailure(model.value.exit))
      })
    )
  }
})
