// ContextCompaction: the options of the lifecycle document over the one engine, in whole runs and on plain
// conversations.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../../src/agent/Agent.ts"
import * as ContextCompaction from "../../../src/agent/builtin/ContextCompaction.ts"
import type { CompactionPlan } from "../../../src/base/domain/CompactionPlan.ts"
import { SessionId, TaskId, TurnId } from "../../../src/base/domain/Ids.ts"
import * as Compaction from "../../../src/tools/prompt/Compaction.ts"
import * as Planned from "../../../src/tools/prompt/compaction/Planned.ts"
import * as Prune from "../../../src/tools/prompt/compaction/Prune.ts"
import * as SummaryText from "../../../src/tools/prompt/compaction/SummaryText.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import { SessionStore } from "../../../src/store/SessionStore.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import * as FastClock from "../../support/fastClock.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { protocols } from "../../support/wireModel.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const Look = Tool.make("look", {
  description: "Looks.",
  parameters: Schema.Struct({ at: Schema.Number }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Look)
const looks = Toolset.make(
  "look",
  toolkit,
  toolkit.toLayer({ look: ({ at }) => Effect.succeed(`seen ${at}: ${"words ".repeat(400)}`) })
)

/**
 * A model that looks `steps` times, then answers; it counts a quarter of the characters and refuses more than `most`
 * tokens.
 */
const model = (steps: number, { most = Infinity, summary = "all was looked at" } = {}) =>
  Effect.gen(function* () {
    const asked: Array<{
      readonly texts: string
      readonly isSummary: boolean
      readonly model: string
      readonly key: string | undefined
    }> = []
    let step = 0
    const server = yield* HttpServer.make(({ body, headers, url }, response) => {
      if (!url.includes("chat/completions"))
        return void HttpServer.json(response, 404, { error: { message: "not here" } })
      const { messages, model, tools } = JSON.parse(body)
      const isSummary = tools === undefined
      const tokens = Math.ceil(body.length / 4)
      asked.push({ texts: JSON.stringify(messages), isSummary, model, key: headers.authorization })
      if (!isSummary && tokens > most) {
        return void HttpServer.json(response, 400, {
          error: {
            message: `This model's maximum context length is ${most} tokens, you asked for ${tokens}`,
            code: "context_length_exceeded"
          }
        })
      }
      const turn = isSummary
        ? { text: summary }
        : step++ < steps
          ? { calls: [{ id: `c${step}`, name: "look", args: JSON.stringify({ at: step }) }] }
          : { text: "all seen" }
      // The protocol's whole answer is an object.
      HttpServer.json(response, 200, {
        ...(protocols.chat_completions.whole(turn) as object),
        usage: { prompt_tokens: tokens, completion_tokens: 10 }
      })
    })
    return { asked, own: () => asked.filter(({ isSummary }) => !isSummary), url: `${server.url}/v1` }
  })

const runtime = (url: string, ...options: ReadonlyArray<ContextCompaction.Options>) =>
  Runtime.layer({
    routes: [{ provider: "custom", model: "m", baseUrl: url, apiKey: Redacted.make("k") }],
    retry: RetryPolicy.make({ base: 1, cap: 1 }),
    tools: [looks],
    middleware: options.map(ContextCompaction.make)
  })

const run = (sessionId?: string, prompt = "Look, and mind the gap.") =>
  Agent.run({ prompt, sessionId, maxIterations: 60 })

const count = (texts: string, what: string): number => texts.split(what).length - 1

describe("ContextCompaction", () => {
  it.live("T98 results of old iterations become a line in the run; the stored session stays whole", () =>
    Effect.gen(function* () {
      const { asked, own, url } = yield* model(8)
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* run("s")).text, "all seen")
        const store = yield* SessionStore
        const stored = yield* store.messages(SessionId.make("s"))
        assert.strictEqual(stored.filter(({ role }) => role === "tool").length, 8)
        assert.notInclude(JSON.stringify(stored), Planned.placeholder)
      }).pipe(Effect.provide(runtime(url, { maxContextTokens: 4_000, keepIterations: 2 })))
      assert.strictEqual(asked.length, own().length, "no model is asked for a summary")
      const last = own().at(-1)?.texts ?? ""
      assert.isAtLeast(count(last, Planned.placeholder), 3)
      assert.include(last, "seen 8")
      assert.include(last, "seen 7")
      assert.notInclude(last, "seen 2:")
      assert.include(last, "mind the gap")
    })
  )

  it.live(
    "T101 a summary by the model that is named, with its own instructions' place and key; what is below the threshold stays",
    () =>
      Effect.gen(function* () {
        const { own, url } = yield* model(8)
        const other = yield* model(0, { summary: "NOTE: looked around" })
        const summaryLlmConfig = { model: "small", base_url: other.url, api_key: "sk-of-the-summaries-0123456789" }
        const result = yield* Effect.provide(
          run(),
          runtime(url, {
            maxContextTokens: 4_000,
            threshold: 0.9,
            compactionStrategy: "llm_summary",
            keepIterations: 2,
            summaryLlmConfig
          })
        )
        assert.strictEqual(result.text, "all seen")
        assert.isAtLeast(other.asked.length, 1)
        assert.deepStrictEqual(
          [other.asked[0]?.model, other.asked[0]?.key],
          ["small", "Bearer sk-of-the-summaries-0123456789"]
        )
        const last = own().at(-1)?.texts ?? ""
        assert.include(last, "NOTE: looked around")
        assert.include(last, "mind the gap")
        assert.notInclude(last, "seen 1:")
        const wide = yield* model(3)
        yield* Effect.provide(run(), runtime(wide.url, { maxContextTokens: 1_000_000 }))
        assert.notInclude(wide.own().at(-1)?.texts ?? "", Planned.placeholder)
      })
  )

  it.live(
    "T109 a refusal for its size is recovered by the same engine; without the emergency path it ends the run",
    () =>
      Effect.gen(function* () {
        const { own, url } = yield* model(12, { most: 3_000 })
        const recovered = yield* Effect.provide(
          run(),
          runtime(url, { keepIterations: 50, maxContextTokens: 1_000_000 })
        )
        assert.strictEqual(recovered.text, "all seen")
        assert.isAbove(own().length, 13)
        for (const options of [{ emergencyCompactEnabled: false }, { autoCompact: false }] as const) {
          const { url } = yield* model(12, { most: 3_000 })
          const error = yield* Effect.flip(Effect.provide(run(), runtime(url, options)))
          assert.strictEqual(error._tag, "CompressionExhausted")
        }
      }).pipe((test) => Effect.flatMap(FastClock.make(50), (clock) => Effect.provideService(test, Clock.Clock, clock)))
  )

  it.effect("T115 by time: a conversation whose last answer is five minutes old, and no other", () =>
    Effect.gen(function* () {
      const { own, url } = yield* model(4)
      yield* Effect.gen(function* () {
        yield* run("s")
        yield* TestClock.adjust("2 minutes")
        yield* run("s", "soon")
        assert.notInclude(own().at(-1)?.texts ?? "", Planned.placeholder)
        yield* TestClock.adjust("8 minutes")
        yield* run("s", "late")
        assert.isAtLeast(count(own().at(-1)?.texts ?? "", Planned.placeholder), 3)
        yield* run("t", "new")
      }).pipe(Effect.provide(runtime(url, { trigger: "time_based", keepIterations: 1 })))
    })
  )

  it("T97 parameters: every one is read, and a wrong one is a line", () => {
    const wrong = (options: unknown) => {
      const made = ContextCompaction.fromUnknown(options)
      return made._tag === "Failure" ? made.failure.message : "made"
    }
    assert.strictEqual(wrong({ threshold: 0.5 }), "made")
    assert.strictEqual(
      wrong({
        max_context_tokens: 8000,
        auto_compact: true,
        emergency_compact_enabled: true,
        trigger: "token_threshold",
        gap_threshold_minutes: 5,
        compaction_strategy: "sliding_window",
        keep_iterations: 3,
        keep_user_rounds: 2,
        compactable_tools: ["look"],
        compact_prompt_path: null,
        summary_model: "m",
        summary_base_url: "http://x/v1",
        summary_api_key: "k",
        summary_api_type: "anthropic_chat_completion",
        retry_attempts: 2,
        save_history: true
      }),
      "made"
    )
    assert.match(wrong({}), /give at least one parameter/)
    assert.match(wrong({ threshold: 2 }), /^context-compaction\.threshold: /)
    assert.match(wrong({ thresold: 0.5 }), /^context-compaction\.thresold: /)
    assert.match(wrong({ keep_user_rounds: 1, keep_iterations: 2 }), /not together with keep_iterations/)
    assert.match(wrong({ summary_llm_config: { model: "m" } }), /base_url, api_key missing: nothing is inherited/)
    assert.match(wrong({ summary_llm_config: { modle: "m" } }), /unknown key modle/)
    assert.match(wrong({ save_history: false }), /always contains omitted messages/)
  })
})

const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const says = (text: string) => Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
const calls = (id: string, name = "look") =>
  Prompt.assistantMessage({ content: [Prompt.toolCallPart({ id, name, params: {}, providerExecuted: false })] })
const result = (id: string, name = "look") =>
  Prompt.toolMessage({
    content: [
      Prompt.toolResultPart({
        id,
        name,
        isFailure: false,
        result: `result ${id} ${"x".repeat(400)}`,
        providerExecuted: false
      })
    ]
  })
const system = Prompt.systemMessage({ content: "system" })
const context = { sessionId: SessionId.make("s"), taskId: TaskId.make("s"), turnId: TurnId.make("t") }

const shown = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
  messages.map((message) => {
    const summary = SummaryText.findSummary(message)
    if (summary !== undefined) return `summary: ${summary}`
    if (typeof message.content === "string") return message.content
    return message.content
      .map((part) =>
        part.type === "text"
          ? part.text.slice(0, 20)
          : part.type === "tool-result"
            ? Prune.readResultText(part).slice(0, 9)
            : part.type
      )
      .join("")
  })

const planOf = (plan: Partial<CompactionPlan>): CompactionPlan => ({
  strategy: "tool_result_compaction",
  keep: { unit: "iteration", count: 1 },
  attempts: 1,
  ...plan
})

const engine = (answer: (nth: number) => Effect.Effect<string, AiError.AiError> = () => Effect.succeed("note")) => {
  const asked: Array<string> = []
  const service = Compaction.make({}, ({ message }) =>
    Effect.suspend(() => {
      asked.push(JSON.stringify(message.content))
      return answer(asked.length)
    })
  )
  return {
    asked,
    compact: (messages: ReadonlyArray<Prompt.Message>, plan: Partial<CompactionPlan>, window = 100_000) =>
      service.compact({ ...context, messages, window, reason: "threshold", plan: planOf(plan) })
  }
}

const turns = [
  system,
  user("q1"),
  calls("a"),
  result("a"),
  calls("b", "write"),
  result("b", "write"),
  says("first"),
  user("q2"),
  calls("c"),
  result("c")
]

describe("plans of the engine", () => {
  it.effect("T98, T100 units are iterations or user rounds; calls keep their results; a list of tools limits it", () =>
    Effect.gen(function* () {
      const { compact } = engine()
      const [line] = [Planned.placeholder.slice(0, 9)]
      const at = (messages: ReadonlyArray<Prompt.Message>) => [3, 5, 9].map((place) => shown(messages)[place])
      assert.deepStrictEqual(at(yield* compact(turns, { keep: { unit: "iteration", count: 1 } })), [
        line,
        line,
        "result c "
      ])
      assert.deepStrictEqual(at(yield* compact(turns, { keep: { unit: "iteration", count: 3 } })), [
        line,
        "result b ",
        "result c "
      ])
      assert.deepStrictEqual(at(yield* compact(turns, { keep: { unit: "user_round", count: 1 } })), [
        line,
        line,
        "result c "
      ])
      assert.strictEqual(yield* compact(turns, { keep: { unit: "user_round", count: 2 } }), turns)
      assert.deepStrictEqual(at(yield* compact(turns, { compactableTools: ["write"] })), [
        "result a ",
        line,
        "result c "
      ])
      assert.strictEqual(yield* compact(turns, { compactableTools: [] }), turns)
      const once = yield* compact(turns, {})
      assert.strictEqual(yield* compact(once, {}), once)
      assert.deepStrictEqual(
        once.map(({ role }) => role),
        turns.map(({ role }) => role)
      )
    })
  )

  it.effect(
    "T101, T103 a summary stands for everything old, the newest question stays, and an earlier summary is brought up to date",
    () =>
      Effect.gen(function* () {
        const long = [
          system,
          user("q1"),
          says(`one ${"x".repeat(8000)}`),
          user("q2"),
          calls("c"),
          result("c"),
          calls("d"),
          result("d")
        ]
        const { asked, compact } = engine((nth) => Effect.succeed(`note ${nth}`))
        const once = yield* compact(long, { strategy: "llm_summary" })
        assert.deepStrictEqual(shown(once), ["system", "summary: note 1", "q2", "tool-call", "result d "])
        const twice = yield* compact([...once, says(`two ${"y".repeat(8000)}`), user("q3"), says("three")], {
          strategy: "llm_summary"
        })
        assert.deepStrictEqual(shown(twice), ["system", "summary: note 2", "q3", "three"])
        assert.include(asked[1], "note 1")
        assert.strictEqual(
          yield* compact(once, { strategy: "llm_summary", keep: { unit: "iteration", count: 9 } }),
          once
        )
        assert.strictEqual(asked.length, 2)
      })
  )

  it.effect("T104 what the model cannot hold is given in parts that end between units", () =>
    Effect.gen(function* () {
      const many = [
        system,
        ...Array.from({ length: 12 }, (_, at) => [
          user(`q${at}`),
          calls(`c${at}`),
          result(`c${at}`),
          says("z".repeat(4_000))
        ]).flat()
      ]
      const { asked, compact } = engine((nth) => Effect.succeed(`note ${nth}`))
      const smaller = yield* compact(many, { strategy: "llm_summary" }, 9_000)
      assert.isAtLeast(asked.length, 3)
      assert.include(asked[1], "note 1")
      assert.deepStrictEqual(shown(smaller).slice(0, 2), ["system", `summary: note ${asked.length}`])
    })
  )

  it.effect("T106 a summary that cannot be had leaves the conversation, and is asked for again after a pause", () =>
    Effect.gen(function* () {
      const down = Effect.fail(
        AiError.make({
          module: "m",
          method: "m",
          reason: new AiError.NetworkError({
            reason: "TransportError",
            method: "POST",
            url: "http://x",
            description: "down"
          })
        })
      )
      let isDown = true
      const long = [system, user("q1"), says("x".repeat(8000)), user("q2"), says("y")]
      const { asked, compact } = engine(() => (isDown ? down : Effect.succeed("note")))
      assert.strictEqual(yield* compact(long, { strategy: "llm_summary", attempts: 3 }), long)
      assert.strictEqual(asked.length, 3)
      isDown = false
      assert.strictEqual(yield* compact(long, { strategy: "llm_summary" }), long)
      assert.strictEqual(asked.length, 3)
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* compact(long, { strategy: "llm_summary" })).length, 4)
    })
  )
})
