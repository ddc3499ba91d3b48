// The Layers of approvals: what settings, prompts and judges make of the service.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Settings } from "../../../src/base/config/Settings.ts"
import { SettingsSchema } from "../../../src/base/config/SettingsSchema.ts"
import { Hooks, make as makeHooks } from "../../../src/hooks/Hooks.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import { ApprovalPrompt, makePendingQueue } from "../../../src/tools/approval/Approver.ts"
import { ApprovalJudge } from "../../../src/tools/approval/ApprovalJudge.ts"
import { AllowList } from "../../../src/tools/approval/AllowList.ts"
import type { Choice, Question } from "../../../src/tools/approval/ApprovalRequest.ts"

const hooks = Layer.effect(Hooks, makeHooks())

const settings = (approvals: Record<string, unknown>, rest: Record<string, unknown> = {}) =>
  Layer.succeed(Settings, Schema.decodeUnknownSync(SettingsSchema)({ approvals, ...rest }))

const prompt = (choice: Choice, asked: Array<Question> = []) =>
  Layer.succeed(ApprovalPrompt, { ask: (question) => Effect.sync(() => (asked.push(question), { choice })) })

const silent = Layer.succeed(ApprovalPrompt, { ask: () => Effect.never })

const judge = Layer.succeed(ApprovalJudge, { judge: () => Effect.succeed("approve" as const) })

const outcome = (result: Approvals.Permit | Approvals.Refusal | Approvals.SuspendedApproval) =>
  result._tag === "Permit" ? result.by : result._tag === "Refusal" ? result.reason : "waits"

const check = (command: string) =>
  Approvals.Approvals.use((approvals) => Effect.map(approvals.check({ tool: "terminal", args: { command } }), outcome))

describe("the Layers of approvals", () => {
  it.effect("settings: mode, deny, allow-list and yolo", () =>
    Effect.gen(function* () {
      const outcomes = (values: Layer.Layer<Settings>, options = {}) =>
        Effect.forEach(["rm -rf build", "rm -rf src", "git push", "ls"], check).pipe(
          Effect.provide(Approvals.layer(options).pipe(Layer.provide([values, hooks, prompt("deny")])))
        )
      assert.deepStrictEqual(
        yield* outcomes(settings({ deny: ["git push*"] }, { command_allowlist: ["rm -rf build"] })),
        ["allow-list", "approval_denied", "approval_denied", "nothing found"]
      )
      assert.deepStrictEqual(yield* outcomes(settings({ mode: "off" })), ["off", "off", "off", "nothing found"])
      assert.deepStrictEqual(yield* outcomes(settings({ deny: ["git push*"] }), { yolo: true }), [
        "yolo",
        "yolo",
        "approval_denied",
        "nothing found"
      ])
    })
  )

  it.effect("settings: a model is asked where the mode is smart and there is one", () =>
    Effect.gen(function* () {
      const outcomes = (mode: string) =>
        check("rm -rf build").pipe(
          Effect.provide(Approvals.layer().pipe(Layer.provide([settings({ mode }), hooks, prompt("deny"), judge])))
        )
      assert.strictEqual(yield* outcomes("smart"), "judge")
      assert.strictEqual(yield* outcomes("manual"), "approval_denied")
    })
  )

  it.effect("settings: silence is deny when the time of the settings is over", () =>
    Effect.gen(function* () {
      const layer = Approvals.layer().pipe(Layer.provide([settings({ timeout: 7 }), hooks, silent]))
      const fiber = yield* Effect.forkChild(check("rm -rf build").pipe(Effect.provide(layer)))
      yield* TestClock.adjust("6 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(fiber), "approval_timeout")
    })
  )

  it.effect("an approval for good goes to the list of the surroundings", () =>
    Effect.gen(function* () {
      const kept: Array<ReadonlyArray<string>> = []
      const layer = Approvals.layer().pipe(
        Layer.provide([settings({}), hooks, prompt("always")]),
        Layer.provide(Layer.succeed(AllowList, { add: (keys) => Effect.sync(() => void kept.push(keys)) }))
      )
      assert.strictEqual(yield* Effect.provide(check("rm -rf build"), layer), "user")
      assert.deepStrictEqual(kept, [["command: rm -rf build"]])
    })
  )

  it.effect("layerSmart asks the model first, and the person what it leaves open", () =>
    Effect.gen(function* () {
      const asked: Array<Question> = []
      const escalate = Layer.succeed(ApprovalJudge, { judge: () => Effect.succeed("escalate" as const) })
      const smart = (judge: Layer.Layer<ApprovalJudge>) =>
        check("rm -rf build").pipe(
          Effect.provide(Approvals.layerSmart().pipe(Layer.provide([hooks, judge, prompt("once", asked)])))
        )
      assert.strictEqual(yield* smart(judge), "judge")
      assert.lengthOf(asked, 0)
      assert.strictEqual(yield* smart(escalate), "user")
      assert.lengthOf(asked, 1)
    })
  )

  it.effect("layerPrompt asks the person, layerAllowList and layerDeny ask nobody", () =>
    Effect.gen(function* () {
      const of = (layer: Layer.Layer<Approvals.Approvals, never, Hooks>) =>
        Effect.provide(check("rm -rf build"), Layer.provide(layer, hooks))
      assert.strictEqual(yield* of(Approvals.layerPrompt().pipe(Layer.provide(prompt("once")))), "user")
      assert.strictEqual(yield* of(Approvals.layerAllowList(["rm -rf *"])), "allow-list")
      assert.strictEqual(yield* of(Approvals.layerAllowList(["rm build"])), "approval_denied")
      assert.strictEqual(yield* of(Approvals.layerDeny()), "approval_denied")
      assert.strictEqual(yield* of(Approvals.layerDeny({ allow: ["rm -rf *"] })), "allow-list")
    })
  )

  for (const [name, timeout, values, seconds] of [
    ["five minutes without settings", undefined, undefined, 300],
    ["the time of the gateway in the settings", undefined, { gateway_timeout: 90, timeout: 5 }, 90],
    ["the time of the queue before that of the settings", 20, { gateway_timeout: 90 }, 20]
  ] as const) {
    it.effect(`layerPending waits ${name}, and silence is deny`, () =>
      Effect.gen(function* () {
        const desk = makePendingQueue({
          surface: "gateway",
          notify: () => Effect.void,
          timeout: timeout === undefined ? undefined : Duration.seconds(timeout)
        })
        const layer = Approvals.layerPending(desk).pipe(
          Layer.provide(values === undefined ? hooks : Layer.merge(hooks, settings(values)))
        )
        const fiber = yield* Effect.forkChild(check("rm -rf build").pipe(Effect.provide(layer)))
        yield* TestClock.adjust(`${seconds - 1} seconds`)
        assert.isUndefined(fiber.pollUnsafe())
        assert.lengthOf(desk.waiting(""), 1)
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* Fiber.join(fiber), "approval_timeout")
      })
    )
  }
})
