// Children in the background: they outlive the run that sent them, and what they did comes back.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Prompt from "effect/ai/Prompt"
import * as Agent from "../../src/agent/Agent.ts"
import * as Background from "../../src/agent/Background.ts"
import { Children } from "../../src/agent/Children.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { InteractiveMode, makeUnattended } from "../../src/tools/approval/InteractiveMode.ts"
import { delegate, isChild, say, setup } from "../support/delegation.ts"

const background = { goal: "count the sheep", background: true }
const s1 = SessionId.make("s1")

const dispatched = Effect.fnUntraced(function* (sessionId: SessionId) {
  const messages = yield* (yield* SessionStore).messages(sessionId)
  const texts = messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => (part.type === "tool-result" ? [String(part.result)] : []))
      : []
  )
  return JSON.parse(texts.at(-1) ?? "null") as Record<string, unknown>
})

describe("delegation in the background", () => {
  it.effect("59 the child goes on when its parent is interrupted, and its result arrives as a new message", () => {
    const go = Deferred.makeUnsafe<void>()
    const asked = Deferred.makeUnsafe<void>()
    const { layer, prompts } = setup(({ prompt, results }) => {
      if (isChild(prompt)) return Effect.andThen(Deferred.await(go), say("seven sheep"))
      if (prompt.endsWith("what now?")) return say("seven, I hear")
      return results === 0 ? delegate(background) : Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
    })
    return Effect.gen(function* () {
      const children = yield* Children
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1" }))
      yield* Deferred.await(asked)
      const sent = yield* dispatched(s1)
      assert.deepInclude(sent, { status: "dispatched", goal: "count the sheep", mode: "background" })
      assert.match(String(sent["delegation_id"]), /^dlg_[0-9a-f]{12}$/)
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(
        (yield* children.list).map(({ delegationId }) => delegationId),
        [sent["delegation_id"]]
      )

      yield* Deferred.succeed(go, undefined)
      yield* children.arrived(s1)
      yield* Agent.run({ prompt: "what now?", sessionId: "s1" })
      const report = (yield* (yield* SessionStore).messages(s1)).flatMap((message) =>
        message.role === "user" ? message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])) : []
      )
      assert.strictEqual(report.length, 3)
      assert.match(
        report[1] ?? "",
        /^\[Report of the background delegation dlg_[0-9a-f]{12}: completed\]\nGoal: count the sheep\n/
      )
      assert.match(report[1] ?? "", /exit reason completed · 1 model call · 0 tool calls[^]*\n\nseven sheep$/)
      assert.strictEqual(prompts.filter(isChild).length, 1)
      assert.isEmpty(yield* children.take(s1))
    }).pipe(Effect.provide(layer))
  })

  it.effect("a report is told once, whoever brings it", () => {
    const { layer } = setup(({ prompt, results }) =>
      isChild(prompt) ? say("seven sheep") : prompt.startsWith("go") && results === 0 ? delegate(background) : say("ok")
    )
    return Effect.gen(function* () {
      const children = yield* Children
      yield* Agent.run({ prompt: "go", sessionId: "s1" })
      yield* children.arrived(s1)
      const [delivery] = yield* children.take(s1)
      if (delivery === undefined) return assert.fail("no report")
      yield* Agent.run({ prompt: Background.renderDelivery(delivery, true), sessionId: "s1" })
      yield* Agent.run({ prompt: "more", sessionId: "s1" })
      const users = (yield* (yield* SessionStore).messages(s1)).filter(({ role }) => role === "user")
      assert.strictEqual(users.length, 3)
    }).pipe(Effect.provide(layer))
  })

  it.effect("where nobody is there later, the child is waited for", () => {
    const { layer } = setup(({ prompt, results }) =>
      isChild(prompt) ? say("seven sheep") : results === 0 ? delegate(background) : say("ok")
    )
    return Effect.gen(function* () {
      yield* Effect.provideService(
        Agent.run({ prompt: "go", sessionId: "s1" }),
        InteractiveMode,
        makeUnattended("single query")
      )
      const { results } = (yield* dispatched(s1)) as { results: ReadonlyArray<{ summary: string }> }
      assert.deepStrictEqual(
        results.map(({ summary }) => summary),
        ["seven sheep"]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("more of them than may work at the same time are refused, not queued", () => {
    const { layer } = setup(
      ({ prompt }) => (isChild(prompt) ? Effect.never : delegate({ ...background, goal: `a${++count}` })),
      { settings: { maxIterations: 3, delegation: { maxConcurrentChildren: 2 } } }
    )
    let count = 0
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go", sessionId: "s1" })
      assert.include(String((yield* dispatched(s1))["error"]), "2 children work in the background already")
      assert.strictEqual((yield* (yield* Children).list).length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("closing the runtime interrupts them, and their sessions say so", () => {
    let interrupted = 0
    const { layer } = setup(({ prompt, results }) =>
      isChild(prompt)
        ? Effect.onInterrupt(Effect.never, () => Effect.sync(() => interrupted++))
        : results === 0
          ? delegate(background)
          : say("ok")
    )
    return Effect.gen(function* () {
      const store = yield* Effect.gen(function* () {
        yield* Agent.run({ prompt: "go", sessionId: "s1" })
        const own = yield* SessionStore
        while ((yield* own.list({ source: "subagent" })).length === 0) yield* Effect.yieldNow
        return own
      }).pipe(Effect.provide(layer), Effect.scoped)
      assert.strictEqual(interrupted, 1)
      assert.deepStrictEqual(
        (yield* store.list({ source: "subagent" })).map(({ endReason }) => endReason),
        ["interrupted"]
      )
    })
  })

  it.effect(
    "of a child whose process died the session is told when it is continued: what is known, and that it is not all",
    () => {
      const { layer } = setup(() => say("ok"))
      return Effect.gen(function* () {
        const store = yield* SessionStore
        const child = SessionId.make("c1")
        const place = { provider: "fake", model: "fake-1", systemPrompt: "", source: "cli" }
        const call = Prompt.toolCallPart({
          id: "d1",
          name: "delegate_task",
          params: background,
          providerExecuted: false
        })
        const output = JSON.stringify({
          status: "dispatched",
          delegation_id: "dlg_0123456789ab",
          goal: "count",
          session_id: "c1"
        })
        yield* store.create({ id: s1, ...place })
        yield* store.append(s1, [
          Prompt.userMessage({ content: [Prompt.textPart({ text: "go" })] }),
          Prompt.assistantMessage({ content: [call] }),
          Conversation.makeToolResult(call, { output, isFailure: false }),
          Prompt.assistantMessage({ content: [Prompt.textPart({ text: "It counts." })] })
        ])
        yield* store.create({ id: child, ...place, source: "subagent", parentId: s1 })
        yield* store.append(child, [Prompt.assistantMessage({ content: [Prompt.textPart({ text: "Three so far." })] })])
        yield* Agent.run({ prompt: "and?", sessionId: "s1" })
        yield* Agent.run({ prompt: "and now?", sessionId: "s1" })
        const told = (yield* store.messages(s1)).flatMap((message) =>
          message.role === "user" ? message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])) : []
        )
        assert.deepStrictEqual(
          told.map((text) => text.slice(0, 20)),
          ["go", "[Report of the backg", "and?", "and now?"]
        )
        assert.include(told[1], "dlg_0123456789ab: unknown]")
        assert.include(told[1], "Three so far.")
      }).pipe(Effect.provide(layer))
    }
  )
})
