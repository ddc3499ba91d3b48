// Reviews after a turn: when they are due, what they may do, and whom they are charged to.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { BackgroundReviews } from "../../src/agent/BackgroundReview.ts"
import type { ReviewSettings, RunOptions } from "../../src/agent/RunInput.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { ModelCall } from "../../src/base/domain/ModelCall.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as MemoryStore from "../../src/tools/prompt/MemoryStore.ts"
import * as SkillStore from "../../src/tools/prompt/SkillStore.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as MemoryTool from "../../src/tools/builtin/MemoryTool.ts"
import * as SkillTools from "../../src/tools/builtin/SkillTools.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const id = SessionId.make("s1")

const isReview = ({ messages }: Pick<ModelCall, "messages">): boolean => messages.every(({ role }) => role !== "system")

const Look = Tool.make("look", {
  description: "Looks",
  parameters: Schema.Struct({ n: Schema.Number }),
  success: Schema.String
})
const looking = Toolkit.make(Look)
const lookToolset = Toolset.make("looking", looking, looking.toLayer({ look: () => Effect.succeed("seen") }))

const skillText = "---\nname: deploy\ndescription: Deploys the site. Use it to deploy.\n---\nRun make deploy."

interface World {
  /** Answers of the run, in order; the last one again and again. */
  readonly turns: ReadonlyArray<Fake.Turn>
  /** Answers of the reviews. */
  readonly review: ReadonlyArray<Fake.Turn>
  readonly reviews?: ReviewSettings
  readonly approvals?: Layer.Layer<Approvals.Approvals, never, Hooks.Hooks>
}

/** A runtime with memory and skills, whose model answers runs and reviews from two lists. */
const world = ({ approvals, review, reviews = { memoryTurns: 2 }, turns }: World) => {
  const own = [...turns]
  const side = [...review]
  const sides: Array<ModelCall> = []
  const mains: Array<ModelCall> = []
  const told: Array<string> = []
  const fake = Fake.make((request, options) =>
    Effect.suspend(() => {
      const asked = fake.asked.at(-1)
      if (asked === undefined) return Effect.die("nothing was prepared")
      const list = isReview(asked) ? side : own
      ;(isReview(asked) ? sides : mains).push(asked)
      const next = list.length > 1 ? list.shift() : list[0]
      return next === undefined ? Effect.die("no answer is left") : next(request, options)
    })
  )
  const stores = Layer.unwrap(
    Effect.map(temporaryDirectory, (directory) =>
      Layer.merge(
        MemoryStore.layer({ directory, database: `${directory}/state.db`, limits: { memory: 2_200, user: 1_375 } }),
        SkillStore.layer({ directory: `${directory}/skills`, database: `${directory}/state.db`, os: "linux" })
      )
    )
  ).pipe(Layer.provide(NodeServices.layer))
  const layer = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    tools: [MemoryTool.toolset, SkillTools.toolset, lookToolset],
    hooks: [Hooks.on("pre_tool_call", ({ tool_name }) => Effect.sync(() => void told.push(tool_name)))],
    reviews,
    approvals
  }).pipe(Layer.provideMerge(stores))
  return { layer, sides, mains, told }
}

const say = (prompt: string, more: Partial<RunOptions> = {}) => Agent.run({ prompt, sessionId: "s1", ...more })

const settled = BackgroundReviews.use((reviews) =>
  Effect.andThen(
    reviews.settled(id),
    Effect.map(reviews.take(id), (found) => found.map(({ text }) => text))
  )
)

const remember = Fake.calls(Fake.call("m1", "memory", { action: "add", target: "user", content: "likes tea" }))
const nothing = Fake.text("Nothing to save.")

describe("background review", () => {
  it.effect(
    "is due at every so many turns, has the tools for memory alone, and writes nothing into the session",
    () => {
      const { layer, mains, sides, told } = world({ turns: [Fake.text("Hello.")], review: [remember, nothing] })
      return Effect.gen(function* () {
        yield* say("I like tea")
        assert.deepStrictEqual(yield* settled, [])
        assert.lengthOf(sides, 0, "the first turn is none of it")
        yield* say("really")
        assert.deepStrictEqual(yield* settled, ["Background review: memory updated (1 change)."])
        assert.deepStrictEqual(
          sides[0]?.tools.map(({ name }) => name),
          ["memory"]
        )
        assert.include(JSON.stringify(sides[0]?.messages), "I like tea")
        assert.deepStrictEqual(yield* MemoryStore.MemoryStore.use((store) => store.entries("user")), ["likes tea"])
        assert.deepStrictEqual(told, ["memory"], "its calls take the way of every other")
        const messages = yield* SessionStore.use((store) => store.messages(id))
        assert.deepStrictEqual(
          messages.map(({ role }) => role),
          ["user", "assistant", "user", "assistant"]
        )
        assert.lengthOf(mains, 2)
        yield* say("and now?")
        yield* settled
        assert.lengthOf(sides, 2, "the counter begins anew")
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("counts for the session and the record as a side task, and not as a step of the run", () => {
    const { layer } = world({ turns: [Fake.text("Hello.")], review: [remember, nothing], reviews: { memoryTurns: 1 } })
    return Effect.gen(function* () {
      const result = yield* say("I like tea")
      assert.strictEqual(result.usage.requestCount, 1)
      yield* settled
      const store = yield* SessionStore
      assert.strictEqual(Option.getOrThrow(yield* store.get(id)).usage.requestCount, 3)
      const entries = yield* RunRecord.use((record) => Stream.runCollect(record.read({ sessionId: id })))
      const calls = entries.flatMap(({ event }) =>
        event._tag === "CallStarted" || event._tag === "CallEnded" ? [event] : []
      )
      assert.deepStrictEqual(calls, [], "its calls are no calls of the run")
      const asked = entries.flatMap(({ event }) => (event._tag === "AttemptStarted" ? [event] : []))
      assert.lengthOf(asked, 3)
      assert.isTrue(JSON.stringify(asked.slice(1)).includes("background_review"))
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not hold up the answer, and goes on when its run is over", () => {
    const gate = Deferred.makeUnsafe<void>()
    const { layer } = world({
      turns: [Fake.text("Hello.")],
      review: [(...given) => Effect.andThen(Deferred.await(gate), remember(...given)), nothing],
      reviews: { memoryTurns: 1 }
    })
    return Effect.gen(function* () {
      const reviews = yield* BackgroundReviews
      assert.strictEqual((yield* say("I like tea")).text, "Hello.")
      assert.deepStrictEqual(
        (yield* reviews.list).map(({ subjects }) => subjects),
        [["memory"]]
      )
      assert.strictEqual(
        (yield* say("and milk")).text,
        "Hello.",
        "the session is free, and there is one review at a time"
      )
      assert.lengthOf(yield* reviews.list, 1)
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual(yield* settled, ["Background review: memory updated (1 change)."])
    }).pipe(Effect.provide(layer))
  })

  it.effect("begins anew when the agent itself remembered, and is none after an empty or failed turn", () => {
    const own = Fake.calls(Fake.call("m1", "memory", { action: "add", content: "the site is built by make" }))
    const { layer, sides } = world({ turns: [own, Fake.text("Saved."), Fake.text("Hello.")], review: [nothing] })
    return Effect.gen(function* () {
      yield* say("remember how to build")
      yield* say("hello")
      yield* settled
      assert.lengthOf(sides, 0)
      yield* say("hello")
      yield* settled
      assert.lengthOf(sides, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("of skills is due after steps; what needs an approval is kept as a proposal, and nobody is asked", () => {
    const create = Fake.calls(Fake.call("k1", "skill_manage", { action: "create", name: "deploy", content: skillText }))
    const look = (n: number) => Fake.calls(Fake.call(`l${n}`, "look", { n }))
    const scene = {
      turns: [look(1), look(2), Fake.text("Done.")],
      review: [create, nothing],
      reviews: { skillSteps: 3 }
    }
    const denied = world(scene)
    const allowed = world({ ...scene, approvals: Approvals.layerCallback(() => Effect.succeed("once")) })
    return Effect.gen(function* () {
      yield* Effect.gen(function* () {
        yield* say("deploy it")
        assert.deepStrictEqual(yield* settled, [
          'Background review: skill "deploy" proposed: see `hermes skills proposed`.'
        ])
        const { catalogue, change, proposals } = yield* SkillStore.SkillStore
        const [only, ...more] = yield* proposals.list
        assert.deepStrictEqual([only?.change, more], [{ action: "create", name: "deploy", content: skillText }, []])
        assert.include(JSON.stringify(denied.sides[1]?.messages), only?.id ?? "no proposal")
        assert.deepStrictEqual(
          denied.sides[0]?.tools.map(({ name }) => name),
          ["skills_list", "skill_view", "skill_manage"]
        )
        assert.lengthOf((yield* catalogue).skills, 0)
        if (only !== undefined) yield* change(only.change)
        assert.deepStrictEqual(
          (yield* catalogue).skills.map(({ name }) => name),
          ["deploy"]
        )
      }).pipe(Effect.provide(denied.layer))
      yield* Effect.gen(function* () {
        yield* say("deploy it")
        yield* settled
        assert.lengthOf(
          (yield* SkillStore.SkillStore.use(({ catalogue }) => catalogue)).skills,
          0,
          "nobody is asked from the background"
        )
      }).pipe(Effect.provide(allowed.layer))
    })
  })

  it.effect("has no tools that the run did not have, and does not go beyond the budget of its run", () => {
    const { layer, sides } = world({
      turns: [Fake.text("Hello.")],
      review: [remember],
      reviews: { memoryTurns: 1, skillSteps: 1 }
    })
    return Effect.gen(function* () {
      yield* say("hello", { tools: { tool: (name) => name === "look" } })
      yield* settled
      assert.lengthOf(sides, 0, "neither memory nor skills are offered")
      yield* say("hello", { tools: { tool: (name) => name === "memory" } })
      yield* settled
      assert.deepStrictEqual(Array.from(new Set(sides.flatMap(({ tools }) => tools.map(({ name }) => name)))), [
        "memory"
      ])
      assert.lengthOf(sides, 8, "it has an end")
      sides.length = 0
      yield* say("hello", { budget: { tokens: 40 } })
      yield* settled
      assert.isBelow(sides.length, 3)
    }).pipe(Effect.provide(layer))
  })
})
