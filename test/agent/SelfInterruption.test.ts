// Code that is not ours and interrupts itself, or joins a fiber that was interrupted: its failure, never the run's end.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as Plugin from "../../src/agent/plugin/Plugin.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import { ApprovalJudge } from "../../src/tools/approval/ApprovalJudge.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { running } from "../support/movingClock.ts"

/** A fiber of its own that somebody interrupted, joined. */
const joined = Effect.gen(function* () {
  const fiber = yield* Effect.forkDetach(Effect.never)
  yield* Fiber.interrupt(fiber)
  return yield* Fiber.join(fiber)
})

const ways = [
  ["interrupts itself", Effect.interrupt],
  ["joins an interrupted fiber", joined]
] as const

const plain = Tool.make("work", { success: Schema.String }).annotate(Tool.Readonly, true)
const other = Tool.make("other", { success: Schema.String }).annotate(Tool.Readonly, true)

const setOf = (work: Effect.Effect<string>, tool: Tool.Any = plain): Toolset.Toolset => {
  const toolkit = Toolkit.make(tool, other)
  // The one tool that varies takes no arguments and returns a text, whatever its annotations.
  return Toolset.make(
    "test",
    toolkit,
    toolkit.toLayer({ work: () => work, other: () => Effect.succeed("fine") } as never)
  ) as Toolset.Toolset
}

interface Options {
  readonly tools?: ReadonlyArray<Toolset.Any>
  readonly hooks?: ReadonlyArray<Hook<never>>
  readonly middleware?: ReadonlyArray<Middleware.Any>
  readonly plugins?: ReadonlyArray<Plugin.Plugin<never>>
  readonly approvals?: Layer.Layer<Approvals.Approvals, never, Hooks.Hooks>
}

const runtimeOf = (fake: Fake.Fake, options: Options) =>
  // Which of the parts there are differs from test to test: the types of the lists say nothing here.
  Runtime.layer({ provider: Layer.succeed(Provider, fake.provider), ...options } as never) as Layer.Layer<Agent.Agent>

/** What the model was told of its calls, and how the run ended. */
const outcome = Effect.fnUntraced(function* (
  options: Options,
  fake: Fake.Fake = Fake.make(Fake.calls(Fake.call("c1", "work", {})), Fake.pieces("do", "ne"))
) {
  const runtime = runtimeOf(fake, { tools: [setOf(Effect.succeed("worked"))], ...options })
  // A provider is asked again, after a wait.
  const exit = yield* running(Effect.exit(Effect.provide(Agent.run({ prompt: "go", streaming: true }), runtime)))
  const last = fake.asked.at(-1)?.messages ?? []
  const results = last.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) =>
          part.type === "tool-result" ? [[part.id, part.isFailure, String(part.result)] as const] : []
        )
      : []
  )
  return {
    end: Exit.isSuccess(exit) ? exit.value.exit : String(exit.cause),
    text: Exit.isSuccess(exit) ? exit.value.text : "",
    results
  }
})

const completed = { end: "text_response", text: "done" }

for (const [how, interruption] of ways) {
  describe(`code that ${how}`, () => {
    it.effect("a tool: its call has failed, the others and the run go on", () =>
      Effect.gen(function* () {
        const fake = Fake.make(Fake.calls(Fake.call("c1", "work", {}), Fake.call("c2", "other", {})), Fake.text("done"))
        const { results, ...rest } = yield* outcome({ tools: [setOf(interruption)] }, fake)
        assert.deepStrictEqual(rest, completed)
        assert.deepStrictEqual(results, [
          [
            "c1",
            true,
            JSON.stringify({
              error:
                "Error executing tool 'work': the tool work interrupted itself, or waited for a fiber that was interrupted"
            })
          ],
          ["c2", false, "fine"]
        ])
      })
    )

    it.effect("a tool in an uninterruptible region, and one that fails beside it, say why", () =>
      Effect.gen(function* () {
        const both = Effect.all([Effect.die(new Error("it broke")), interruption], { concurrency: 2 })
        const { results, ...rest } = yield* outcome({ tools: [setOf(Effect.uninterruptible(Effect.as(both, "")))] })
        assert.deepStrictEqual(rest, completed)
        assert.deepStrictEqual(
          results.map(([, isFailure]) => isFailure),
          [true]
        )
      })
    )

    it.effect("a plain tool of a plugin", () =>
      Effect.gen(function* () {
        const fake = Fake.make(Fake.calls(Fake.call("c1", "plugged", {})), Fake.text("done"))
        const plugin = Plugin.fromValue({
          name: "plugged",
          tools: [
            Toolset.fromBound(
              "plugged",
              [plain],
              Effect.map(setOf(interruption).bind, (tools) =>
                tools
                  .slice(0, 1)
                  .map((bound) => ({
                    ...bound,
                    tool: Tool.make("plugged"),
                    definition: { ...bound.definition, name: "plugged" },
                    run: () => interruption
                  }))
              )
            )
          ]
        })
        const { results, ...rest } = yield* outcome({ plugins: [plugin] }, fake)
        assert.deepStrictEqual(rest, completed)
        assert.deepStrictEqual(
          results.map(([id, isFailure]) => [id, isFailure]),
          [["c1", true]]
        )
      })
    )

    it.effect("hooks: skipped", () =>
      Effect.gen(function* () {
        const names = [
          "pre_tool_call",
          "post_tool_call",
          "transform_tool_result",
          "pre_llm_call",
          "pre_api_request"
        ] as const
        const { results, ...rest } = yield* outcome({ hooks: names.map((name) => Hooks.on(name, () => interruption)) })
        assert.deepStrictEqual(rest, completed)
        assert.deepStrictEqual(results, [["c1", false, "worked"]])
      })
    )

    const middleware: ReadonlyArray<readonly [name: string, entry: Middleware.Any]> = [
      ["llm_request", Middleware.llmRequest({ name: "m", rewrite: () => interruption })],
      ["tool_request", Middleware.toolRequest({ name: "m", rewrite: () => interruption })],
      ["llm_execution before next", Middleware.llmExecution({ name: "m", wrap: () => () => interruption })],
      [
        "llm_execution after next",
        Middleware.llmExecution({ name: "m", wrap: (next) => () => Effect.andThen(next(), interruption) })
      ],
      ["tool_execution before next", Middleware.toolExecution({ name: "m", wrap: () => () => interruption })],
      [
        "tool_execution after next",
        Middleware.toolExecution({ name: "m", wrap: (next) => () => Effect.andThen(next(), interruption) })
      ],
      [
        "wrap_tool_call after next",
        Middleware.wrapToolCall({ name: "m", wrap: (next) => () => Effect.andThen(next(), interruption) })
      ],
      [
        "wrap_model_call after next",
        Middleware.wrapModelCall({ name: "m", wrap: (next) => () => Effect.andThen(next(), interruption) })
      ],
      [
        "onPart",
        Middleware.llmExecution({ name: "m", wrap: (next) => () => next(undefined, { onPart: () => interruption }) })
      ],
      ["a plain llm_execution", Plain.llmExecution({ name: "m" }, () => interruption)],
      ["a plain tool_execution", Plain.toolExecution({ name: "m" }, () => interruption)],
      ["a plain tool_request", Plain.toolRequest({ name: "m" }, () => interruption) as Middleware.Any]
    ]
    for (const [name, entry] of middleware) {
      it.effect(`middleware, ${name}: skipped, what came from below stands`, () =>
        Effect.gen(function* () {
          const { results, ...rest } = yield* outcome({ middleware: [entry] })
          assert.deepStrictEqual(rest, completed)
          assert.deepStrictEqual(results, [["c1", false, "worked"]])
        })
      )
    }

    it.effect("middleware that is a policy: the call fails, the run does not end interrupted", () =>
      Effect.gen(function* () {
        const closed = Middleware.toolExecution({ name: "guard", onFailure: "closed", wrap: () => () => interruption })
        const { results, ...rest } = yield* outcome({ middleware: [closed] })
        assert.deepStrictEqual(rest, completed)
        assert.deepStrictEqual(
          results.map(([, isFailure, text]) => [isFailure, text.includes("guard")]),
          [[true, true]]
        )
      })
    )

    it.effect("a tool that says whether it is available: it is not offered", () =>
      Effect.gen(function* () {
        const fake = Fake.make(Fake.text("done"))
        const tools = [setOf(Effect.succeed("worked"), plain.annotate(Annotations.Available, interruption))]
        const { results: _, ...rest } = yield* outcome({ tools }, fake)
        assert.deepStrictEqual(rest, completed)
        assert.deepStrictEqual(
          fake.asked[0]?.tools.map(({ name }) => name),
          ["other"]
        )
      })
    )

    it.effect("whoever approves, and the model that judges: denied", () =>
      Effect.gen(function* () {
        const destructive = Tool.make("work", { success: Schema.String }).annotate(Tool.Destructive, true)
        const tools = [setOf(Effect.succeed("worked"), destructive)]
        const asked = yield* outcome({ tools, approvals: Approvals.layerCallback(() => interruption) })
        const judge = Layer.succeed(ApprovalJudge, { judge: () => interruption })
        const judged = yield* outcome({ tools, approvals: Layer.provide(Approvals.layerSmart(), judge) })
        for (const { results, ...rest } of [asked, judged]) {
          assert.deepStrictEqual(rest, completed)
          assert.deepStrictEqual(
            results.map(([id, isFailure]) => [id, isFailure]),
            [["c1", true]]
          )
        }
      })
    )

    it.effect("a provider: its failure, with its words", () =>
      Effect.gen(function* () {
        const { end } = yield* outcome(
          {},
          Fake.make(() => interruption)
        )
        assert.include(end, "the provider interrupted itself")
        assert.notInclude(end, "keyboard_interrupt")
      })
    )
  })
}

describe("the run's own interruption", () => {
  it.effect("ends a tool, its wrappers and the run", () => {
    const started = Deferred.makeUnsafe<void>()
    const ended: Array<string> = []
    const noting = (name: string) => Effect.onInterrupt(() => Effect.sync(() => void ended.push(name)))
    const work = Effect.andThen(Deferred.succeed(started, undefined), Effect.never).pipe(noting("tool"))
    const options: Options = {
      tools: [setOf(work)],
      middleware: [Middleware.toolExecution({ name: "m", wrap: (next) => () => next().pipe(noting("wrapper")) })]
    }
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(
        Effect.provide(
          Agent.run({ prompt: "go" }),
          runtimeOf(Fake.make(Fake.calls(Fake.call("c1", "work", {}))), options)
        )
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Exit.hasInterrupts(exit))
      assert.deepStrictEqual(ended, ["tool", "wrapper"])
    })
  })
})
