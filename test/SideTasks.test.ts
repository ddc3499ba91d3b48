// Side tasks in whole runs: of a runtime that an application makes.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../src/agent/Agent.ts"
import { SessionId } from "../src/base/domain/Ids.ts"
import type { ModelCall } from "../src/base/domain/ModelCall.ts"
import type { RunEvent } from "../src/base/domain/RunEvent.ts"
import * as Hooks from "../src/hooks/Hooks.ts"
import * as Middleware from "../src/middleware/Middleware.ts"
import { Provider } from "../src/models/provider/Provider.ts"
import { Auxiliary } from "../src/models/routing/Auxiliary.ts"
import * as Runtime from "../src/program/Runtime.ts"
import { SessionStore } from "../src/store/SessionStore.ts"
import { ApprovalJudge } from "../src/tools/approval/ApprovalJudge.ts"
import * as Approvals from "../src/tools/Approvals.ts"
import { SideModel } from "../src/tools/builtin/SideModel.ts"
import * as Delegate from "../src/tools/builtin/Delegate.ts"
import * as Vision from "../src/tools/builtin/Vision.ts"
import * as Toolset from "../src/tools/Toolset.ts"
import * as Fake from "./support/fakeModel.ts"

const pixel = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

const look = Fake.calls(Fake.call("v1", "vision_analyze", { image_url: pixel, question: "What is it?" }))

const Push = Tool.make("push", {
  description: "Pushes",
  parameters: Schema.Struct({ to: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const pushing = Toolkit.make(Push)

const providerOf = (fake: Fake.Fake) => Layer.succeed(Provider, fake.provider)

const isSide = ({ messages }: ModelCall): boolean => messages.every(({ role }) => role !== "system")

const resultsOf = (call: ModelCall | undefined): string =>
  JSON.stringify(call?.messages.filter(({ role }) => role === "tool") ?? [])

describe("side tasks of a runtime", () => {
  it.effect(
    "a tool that needs another look gets it from the runtime's own provider, through its hooks and middleware",
    () => {
      const fake = Fake.make(look, Fake.text("a black pixel"), Fake.text("It is a pixel."))
      const platforms: Array<string> = []
      const wrapped: Array<string> = []
      const runtime = Runtime.layer({
        provider: providerOf(fake),
        tools: [Vision.toolset],
        hooks: [Hooks.on("pre_api_request", ({ platform }) => Effect.sync(() => void platforms.push(platform)))],
        middleware: [
          Middleware.llmExecution({
            name: "seen",
            wrap:
              (next, { platform }) =>
              (request) => {
                wrapped.push(platform)
                return next(request)
              }
          })
        ]
      })
      return Effect.gen(function* () {
        const result = yield* Agent.run({ prompt: "Look" })
        assert.strictEqual(result.text, "It is a pixel.")
        const [, side, after] = fake.asked
        assert.isTrue(side !== undefined && isSide(side))
        const shown = side?.messages.flatMap(({ content }) =>
          typeof content === "string" ? [content] : content.map(({ type }) => type)
        )
        assert.deepStrictEqual(shown, ["text", "file"])
        assert.include(resultsOf(after), "a black pixel")
        assert.deepStrictEqual(platforms, ["library", "auxiliary:vision", "library"])
        assert.deepStrictEqual(wrapped, platforms)
        assert.strictEqual(result.usage.requestCount, 3, "the side task is in the sums of the run")
        const used = yield* Auxiliary.use(({ used }) => used)
        assert.deepInclude(used.get("vision")?.usage, { requestCount: 1, inputTokens: 10 })
        const store = yield* SessionStore
        assert.strictEqual((yield* store.usageByModel(result.sessionId))[0]?.usage.requestCount, 3)
      }).pipe(Effect.provide(runtime))
    }
  )

  it.effect(
    "their tokens are in the sums of a run that fails or is interrupted after them, and of the runs above",
    () => {
      const refused = Fake.failure(new AiError.AuthenticationError({ kind: "InvalidKey" }))
      const reached = Deferred.makeUnsafe<void>()
      const hangs: Fake.Turn = () => Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
      const delegated = Fake.calls(Fake.call("d1", "delegate_task", { goal: "look", toolsets: ["vision"] }))
      const runtimeOf = (...turns: ReadonlyArray<Fake.Turn>) =>
        Runtime.layer({ provider: providerOf(Fake.make(...turns)), tools: [Vision.toolset, Delegate.toolset] })
      const requests = Effect.gen(function* () {
        const store = yield* SessionStore
        return Option.getOrThrow(yield* store.get(SessionId.make("s1"))).usage.requestCount
      })
      const reported = (spent: Array<string>) => (events: ReadonlyArray<RunEvent>) =>
        Effect.sync(() => {
          for (const event of events)
            if (event._tag === "UsageReported") spent.push(event.origin?.replace(/^sa-.*/, "child") ?? "run")
        })
      return Effect.gen(function* () {
        const failed: Array<string> = []
        yield* Effect.gen(function* () {
          yield* Effect.flip(Agent.run({ prompt: "Look", sessionId: "s1", onEvent: reported(failed) }))
          assert.strictEqual(yield* requests, 2)
        }).pipe(Effect.provide(runtimeOf(look, Fake.text("a black pixel"), () => Effect.fail(refused))))
        assert.deepStrictEqual(failed, ["run", "vision"])
        const cut: Array<string> = []
        yield* Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(Agent.run({ prompt: "Look", sessionId: "s1", onEvent: reported(cut) }))
          yield* Deferred.await(reached)
          yield* Fiber.interrupt(fiber)
          assert.strictEqual(yield* requests, 3)
        }).pipe(Effect.provide(runtimeOf(delegated, look, Fake.text("a black pixel"), hangs)))
        assert.deepStrictEqual(cut, ["run", "child", "child"])
      })
    }
  )

  it.effect("an application's own side model goes before", () => {
    const fake = Fake.make(look, Fake.text("done"))
    const own = Layer.succeed(SideModel, (task) => Effect.succeed(`seen by my own ${task}`))
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "Look" })
      assert.include(resultsOf(fake.asked[1]), "seen by my own vision")
    }).pipe(
      Effect.provide(Runtime.layer({ provider: providerOf(fake), tools: [Vision.toolset] }).pipe(Layer.provide(own)))
    )
  })

  it.effect("a stand-in looks at nothing: the tool says so, and what to configure", () => {
    const scripted = Fake.make(look, Fake.text("done"))
    const offline = { ...scripted.provider, info: { ...scripted.provider.info, provider: "offline", model: "offline" } }
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "Look" })
      assert.strictEqual(scripted.asked.length, 2)
      assert.include(resultsOf(scripted.asked[1]), "Set auxiliary.vision.provider")
    }).pipe(Effect.provide(Runtime.layer({ provider: Layer.succeed(Provider, offline), tools: [Vision.toolset] })))
  })

  const smart = (...turns: ReadonlyArray<Fake.Turn>) => {
    const fake = Fake.make(Fake.calls(Fake.call("p1", "push", { to: "main" })), ...turns)
    const pushed: Array<string> = []
    const handlers = pushing.toLayer({ push: ({ to }) => Effect.sync(() => (pushed.push(to), "pushed")) })
    const runtime = Runtime.layer({
      provider: providerOf(fake),
      tools: [Toolset.make("git", pushing, handlers)],
      approvals: Approvals.layerSmart()
    })
    return { fake, pushed, runtime }
  }

  it.effect("the judge of smart approvals is a side task: it approves once", () => {
    const { fake, pushed, runtime } = smart(Fake.text("APPROVE"), Fake.text("done"))
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "Push it" })
      assert.deepStrictEqual(pushed, ["main"])
      assert.include(JSON.stringify(fake.asked[1]?.messages), "You guard a user's computer")
      const used = yield* Auxiliary.use(({ used }) => used)
      assert.deepStrictEqual([...used.keys()], ["approval"])
    }).pipe(Effect.provide(runtime))
  })

  it.effect("what the judge denies does not run, and what it leaves open nobody allows here", () => {
    const denied = smart(Fake.text("DENY"), Fake.text("done"))
    const open = smart(Fake.text("ESCALATE"), Fake.text("done"))
    return Effect.gen(function* () {
      yield* Effect.provide(Agent.run({ prompt: "Push it" }), denied.runtime)
      yield* Effect.provide(Agent.run({ prompt: "Push it" }), open.runtime)
      assert.deepStrictEqual([...denied.pushed, ...open.pushed], [])
      assert.include(resultsOf(denied.fake.asked[2]), "denied")
    })
  })

  it.effect("a judge of the application's own goes before", () => {
    const { pushed, runtime } = smart(Fake.text("done"))
    const judge = Layer.succeed(ApprovalJudge, { judge: () => Effect.succeed("approve" as const) })
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "Push it" })
      assert.deepStrictEqual(pushed, ["main"])
    }).pipe(Effect.provide(runtime.pipe(Layer.provide(judge))))
  })
})
