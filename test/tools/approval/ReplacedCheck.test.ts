// An application may replace the decision of an approvals service: every call is then decided by it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as PermissionMode from "../../../src/base/config/PermissionMode.ts"
import * as H from "../../../src/index.ts"

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Echo)

const call = H.Scripted.complete({ toolCalls: [{ name: "echo", params: { text: "a" } }] })

/** Runs one call of a tool that needs no approval, and returns the number of times its handler ran. */
const runCall = (change: (service: H.Approvals.Service) => H.Approvals.Service, mode?: PermissionMode.PermissionMode) =>
  Effect.gen(function* () {
    let ran = 0
    const handlers = toolkit.toLayer({
      echo: ({ text }) =>
        Effect.sync(() => {
          ran++
          return text
        })
    })
    const approvals = Layer.effect(H.Approvals.Approvals, Effect.map(H.Approvals.Approvals, change)).pipe(
      Layer.provide(H.Approvals.layerDeny())
    )
    const runtime = H.Runtime.layer({
      provider: H.Scripted.layer([call, H.Scripted.complete("done")]),
      tools: [H.Toolset.make("echo", toolkit, handlers)],
      approvals
    })
    const run = Effect.provideService(H.Agent.run({ prompt: "Go." }), PermissionMode.CurrentMode, mode)
    yield* Effect.provide(run, runtime)
    return ran
  })

describe("approvals whose decision was replaced", () => {
  it.effect("decide every call, also one that needs no approval", () =>
    Effect.gen(function* () {
      const refuse = () => Effect.succeed({ _tag: "Refusal", reason: "approval_denied", message: "not today" } as const)
      assert.strictEqual(yield* runCall((service) => service), 1)
      assert.strictEqual(yield* runCall((service) => ({ ...service, check: refuse })), 0)
    })
  )

  it.effect("run no call of a tool that may change something in plan mode", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* runCall((service) => service, "plan"), 0)
    })
  )
})
