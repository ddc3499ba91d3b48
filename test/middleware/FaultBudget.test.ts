// Middleware that hangs or fails again and again costs a run one deadline, not one at each step.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import { Agent, Middleware, Runtime, Scripted, Toolset } from "../../src/index.ts"
import { withWarnings } from "../support/middlewareContexts.ts"

const Note = Tool.make("note", { parameters: Schema.Struct({ n: Schema.Int }), success: Schema.String })
const kit = Toolkit.make(Note)
const steps = 12

/** Runs of many steps, and the notices that they logged. */
const play = (entry: Middleware.Any, runs = 1) =>
  withWarnings(
    Effect.gen(function* () {
      const script = Array.from({ length: runs }, () => [
        ...Array.from({ length: steps - 1 }, (_, n) =>
          Scripted.complete({ toolCalls: [{ name: "note", params: { n } }] })
        ),
        Scripted.complete("done")
      ]).flat()
      const layer = Runtime.layer({
        provider: Scripted.layer(script),
        tools: [Toolset.make("notes", kit, kit.toLayer({ note: () => Effect.succeed("noted") }))],
        middleware: [entry]
        // The list differs from case to case.
      } as never) as Layer.Layer<Agent.Agent>
      const notices: Array<string> = []
      const collector = Logger.make(({ logLevel, message }) => {
        if (logLevel === "Info" && String(message).includes("set aside")) notices.push(String(message))
      })
      const fiber = yield* Effect.forkChild(
        Effect.exit(
          Effect.provide(
            Effect.forEach(Array.from({ length: runs }), () => Agent.run({ prompt: "go" })),
            layer
          ).pipe(Effect.provide(Logger.layer([collector], { mergeWithExisting: true })))
        ),
        { startImmediately: true }
      )
      for (let i = 0; i < 4_000 && fiber.pollUnsafe() === undefined; i++) {
        yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
        yield* TestClock.adjust("5 seconds")
      }
      const exit = yield* Fiber.join(fiber)
      return { exit, notices }
    })
  )

/** Hangs, and counts how often it was asked to. */
const makeHanging = () => {
  const counted = { calls: 0 }
  const hang = Effect.suspend(() => {
    counted.calls++
    return Effect.never
  })
  return { counted, hang }
}

type Hang = ReturnType<typeof makeHanging>["hang"]

const hanging: Readonly<Record<string, (options: Middleware.Registration, hang: Hang) => Middleware.Any>> = {
  llm_execution: (options, hang) => Middleware.llmExecution({ ...options, wrap: () => () => hang }),
  wrap_model_call: (options, hang) => Middleware.wrapModelCall({ ...options, wrap: () => () => hang }),
  tool_execution: (options, hang) => Middleware.toolExecution({ ...options, wrap: () => () => hang }),
  llm_request: (options, hang) => Middleware.llmRequest({ ...options, rewrite: () => hang }),
  tool_request: (options, hang) => Middleware.toolRequest({ ...options, rewrite: () => hang }),
  before_model: (options, hang) => Middleware.lifecycle({ ...options, beforeModel: () => hang })
}

describe("middleware that hangs at each step", () => {
  for (const [kind, make] of Object.entries(hanging)) {
    it.effect(`${kind}: costs a run one deadline, and is set aside with a notice`, () =>
      Effect.gen(function* () {
        const { counted, hang } = makeHanging()
        const { value, warnings } = yield* play(make({ name: "stuck" }, hang))
        assert.isTrue(Exit.isSuccess(value.exit), String(value.exit))
        assert.strictEqual(counted.calls, 1)
        assert.lengthOf(warnings, 1, warnings.join("\n"))
        assert.match(warnings[0] ?? "", /"stuck" failed \(no answer within /)
        assert.deepStrictEqual(value.notices, [`${kind} middleware "stuck" is set aside for the rest of the run`])
      })
    )
  }

  it.effect("is tried again in the next run", () =>
    Effect.gen(function* () {
      let calls = 0
      const stuck = Middleware.llmExecution({
        name: "stuck",
        wrap: () => () =>
          Effect.suspend(() => {
            calls++
            return Effect.never
          })
      })
      const { value } = yield* play(stuck, 2)
      assert.isTrue(Exit.isSuccess(value.exit), String(value.exit))
      assert.strictEqual(calls, 2)
    })
  )

  it.effect("closed: refuses each further tool call at once", () =>
    Effect.gen(function* () {
      let calls = 0
      const stuck = Middleware.toolExecution({
        name: "stuck",
        onFailure: "closed",
        wrap: () => () =>
          Effect.suspend(() => {
            calls++
            return Effect.never
          })
      })
      const { value } = yield* play(stuck)
      assert.isTrue(Exit.isSuccess(value.exit), String(value.exit))
      assert.strictEqual(calls, 1)
    })
  )
})

describe("middleware that fails at each step", () => {
  it.effect("is set aside after five faults", () =>
    Effect.gen(function* () {
      let calls = 0
      const broken = Middleware.toolExecution({
        name: "broken",
        wrap: () => () =>
          Effect.suspend(() => {
            calls++
            return Effect.die("oops")
          })
      })
      const { value } = yield* play(broken)
      assert.isTrue(Exit.isSuccess(value.exit), String(value.exit))
      assert.strictEqual(calls, 5)
      assert.deepStrictEqual(value.notices, ['tool_execution middleware "broken" is set aside for the rest of the run'])
    })
  )
})
