// The tree of a run's record: what stands where, what an attempt was sent, and the same tree entry by entry and from a
// store.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Delegate, RunRecord, Runtime, Scripted, Toolset } from "../../src/index.ts"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import type * as RecordEvent from "../../src/base/domain/RecordEvent.ts"
import * as Content from "../../src/observe/otel/Content.ts"
import * as RunTree from "../../src/observe/RunTree.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
const echo = Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))

const recorded = (turns: ReadonlyArray<Scripted.Turn>, prompts: ReadonlyArray<string> = ["go"]) =>
  Effect.gen(function* () {
    let sessionId: string | undefined
    for (const prompt of prompts) {
      const result: { readonly sessionId: string } = yield* Agent.run({
        prompt,
        ...(sessionId === undefined ? {} : { sessionId })
      })
      sessionId = result.sessionId
    }
    return yield* RunRecord.RunRecord.use((record) => Stream.runCollect(record.read()))
  }).pipe(
    Effect.provide(
      Runtime.layer({
        provider: Scripted.layer(turns),
        tools: [echo, Delegate.toolset],
        retry: RetryPolicy.make({ base: 0, cap: 0 })
      })
    )
  )

describe("RunTree", () => {
  it.effect("steps hold their attempts and calls; a failed attempt and its repetition are one step", () =>
    Effect.gen(function* () {
      const { roots } = RunTree.fromEntries(
        yield* recorded([
          Scripted.fail(new AiError.InternalProviderError({ description: "busy" })),
          Scripted.complete({ toolCalls: [{ name: "echo", params: { text: "a" } }] }),
          Scripted.complete({
            toolCalls: [
              { name: "echo", params: { text: "b" } },
              { name: "nope", params: {} }
            ]
          }),
          Scripted.complete("done")
        ])
      )
      const [run] = roots
      assert.strictEqual(roots.length, 1)
      assert.deepStrictEqual(
        run?.steps.map(({ attempts, calls, number }) => [
          number,
          attempts.map(({ end }) => end?.status),
          calls.map(({ name }) => name)
        ]),
        [
          [1, ["failed", "answered"], ["echo"]],
          [2, ["answered"], ["echo", "nope"]],
          [3, ["answered"], []]
        ]
      )
      const calls = run?.steps.flatMap((step) => step.calls) ?? []
      assert.deepStrictEqual(
        calls.map(({ end, result, start }) => [start !== undefined, end?.status, result?.isFailure]),
        [
          [true, "ok", false],
          // A call beside an unknown tool does not run.
          [false, "cancelled", true],
          [false, "error", true]
        ]
      )
      assert.strictEqual(run?.end?.exit, "text_response")
      assert.isAbove(run?.asides.length ?? 0, 0)
    })
  )

  it.effect("a request resolves to the messages and tools that were sent", () =>
    Effect.gen(function* () {
      const tree = RunTree.fromEntries(
        yield* recorded(
          [
            Scripted.complete({ toolCalls: [{ name: "echo", params: { text: "a" } }] }),
            Scripted.complete("one"),
            Scripted.complete("two")
          ],
          ["1", "2"]
        )
      )
      const last = tree.roots[1]?.steps[0]?.attempts[0]
      assert.isDefined(last)
      if (last === undefined) return
      const { messages, names, tools } = tree.request(last)
      assert.deepStrictEqual(
        messages.map((message) => message?.role),
        ["system", "user", "assistant", "tool", "assistant", "user"]
      )
      assert.deepStrictEqual(names.slice(1), [0, 1, 2, 3, 4])
      assert.isString(names[0])
      assert.includeMembers(
        tools.map(({ name }) => name),
        ["echo", "delegate_task"]
      )
      assert.deepStrictEqual(
        tree.conversation(last.run.sessionId).map(({ origin }) => origin),
        ["user", "model", "tool", "model", "user", "model"]
      )
    })
  )

  it("the summary of a compaction is fresh to the first attempt that is sent it, in its run and in the session that goes on, and whole in the span", () => {
    const message = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
    const answer = Prompt.assistantMessage({
      content: [Prompt.textPart({ text: "a".repeat(Content.maxRepeatedChars) })]
    })
    const entries = (
      session: string,
      ...events: ReadonlyArray<RecordEvent.RecordEvent>
    ): ReadonlyArray<RecordEvent.Entry> =>
      events.map((event) => ({
        at: 1,
        sessionId: SessionId.make(session),
        turnId: TurnId.make(event._tag === "ReplayBegun" || "copyOf" in event || "source" in event ? "begun" : "t"),
        event
      }))
    const asked = (
      apiRequestId: string,
      step: number,
      messages: ReadonlyArray<RecordEvent.Reference>
    ): RecordEvent.RecordEvent => ({
      _tag: "AttemptStarted",
      apiRequestId,
      step,
      attempt: 0,
      route: { provider: "p", model: "m", apiMode: "chat_completions" },
      messages,
      parameters: {}
    })
    const said = (origin: RecordEvent.Origin, message: Prompt.Message, position: number): RecordEvent.RecordEvent => ({
      _tag: "MessageAppended",
      origin,
      position,
      message
    })
    const own = RunTree.fromEntries(
      entries(
        "s",
        said("user", message("go"), 0),
        said("model", answer, 1),
        said("user", message("and now"), 2),
        { _tag: "MessageAppended", origin: "runtime", id: "n", message: message("the note") },
        asked("a", 1, [[0, 2]]),
        asked("b", 2, ["n", [1, 2]]),
        asked("c", 3, ["n", [1, 2]])
      )
    )
    const shown = (tree: RunTree.Tree) =>
      (tree.roots[0]?.steps ?? [])
        .flatMap(({ attempts }) => attempts)
        .map((attempt) =>
          String(Content.makeInputAttributes(tree.sent(attempt), undefined)["gen_ai.input.messages"]).includes(
            "the note"
          )
        )
    assert.deepStrictEqual(shown(own), [false, true, false])
    const source = SessionId.make("s")
    const next = RunTree.fromEntries([
      ...entries("next", { _tag: "ReplayBegun", source, position: 3, changed: ["compression"] }),
      {
        at: 1,
        sessionId: SessionId.make("next"),
        turnId: TurnId.make("begun"),
        event: said("runtime", message("the note"), 0)
      },
      ...entries(
        "next",
        {
          _tag: "MessageAppended",
          origin: "model",
          position: 1,
          copyOf: { sessionId: source, position: 1 },
          message: answer
        },
        said("user", message("more"), 2),
        asked("d", 1, [[0, 2]]),
        asked("e", 2, [[0, 2]])
      )
    ])
    assert.deepStrictEqual(shown(next), [true, false])
  })

  it("the newest messages of an attempt are those of its request, backwards, without system prompts and lost ones", () => {
    const at = { at: 1, sessionId: SessionId.make("s"), turnId: TurnId.make("t") }
    const message = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
    const system = (content: string) => Prompt.systemMessage({ content })
    const tree = RunTree.make()
    const keep = (
      message: Prompt.Message | undefined,
      place: { readonly position: number } | { readonly id: string }
    ): void => void tree.add({ ...at, event: { _tag: "MessageAppended", origin: "user", message, ...place } })
    const attempt = (apiRequestId: string, messages: ReadonlyArray<RecordEvent.Reference>): RunTree.Attempt => {
      const [change] = tree
        .add({
          ...at,
          event: {
            _tag: "AttemptStarted",
            apiRequestId,
            step: 1,
            attempt: 0,
            route: { provider: "p", model: "m", apiMode: "chat_completions" },
            messages,
            parameters: {}
          }
        })
        .filter(({ _tag }) => _tag === "Opened")
        .slice(-1)
      return change?._tag === "Opened" && change.node.kind === "attempt"
        ? change.node
        : assert.fail("an attempt begins")
    }
    const agrees = (one: RunTree.Attempt): void => {
      const { messages } = tree.request(one)
      const { count, newest, said, system } = tree.sent(one)
      const others = messages.filter((message) => message !== undefined && message.role !== "system")
      assert.strictEqual(count, messages.length)
      assert.strictEqual(said, others.length)
      assert.deepStrictEqual(
        system,
        messages.filter((message) => message?.role === "system")
      )
      const shown: Array<Prompt.Message> = []
      newest((message) => shown.push(message) > 0)
      assert.deepStrictEqual(shown, others.toReversed())
      const [first] = shown.splice(0)
      newest((message) => shown.push(message) < 1)
      assert.deepStrictEqual(shown, first === undefined ? [] : [first])
    }
    keep(system("be good"), { id: "h1" })
    keep(message("context"), { id: "h2" })
    for (const position of [0, 1, 2, 3, 5, 7])
      keep(position === 2 ? system("stored") : message(`m${position}`), { position })
    keep(undefined, { position: 4 })
    const first = attempt("a", ["h1", [0, 3], 5, "h2", "lost"])
    const second = attempt("b", ["h1", [0, 9]])
    agrees(first)
    agrees(second)
    // A rewritten context puts other messages at known positions, and one that was missing comes late.
    keep(message("rewritten"), { position: 2 })
    keep(system("late"), { position: 6 })
    agrees(first)
    agrees(second)
    agrees(attempt("c", ["h1", [3, 7], 2]))
  })

  it.effect("a child stands under its call, and what it did in its own run", () =>
    Effect.gen(function* () {
      const { roots } = RunTree.fromEntries(
        yield* recorded([
          Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { goal: "look" } }] }),
          Scripted.complete({ toolCalls: [{ name: "echo", params: { text: "b" } }] }),
          Scripted.complete("found"),
          Scripted.complete("done")
        ])
      )
      assert.strictEqual(roots.length, 1)
      const [child] = roots[0]?.steps[0]?.calls[0]?.children ?? []
      assert.strictEqual(child?.end?.status, "completed")
      assert.deepStrictEqual(
        child?.run?.steps.map(({ calls }) => calls.map(({ name }) => name)),
        [["echo"], []]
      )
      assert.strictEqual(child?.run?.child, child)
    })
  )

  it.effect("every node is opened once and closed once", () =>
    Effect.gen(function* () {
      const entries = yield* recorded([
        Scripted.complete({
          toolCalls: [
            { name: "delegate_task", params: { goal: "look" } },
            { name: "echo", params: { text: "a" } }
          ]
        }),
        Scripted.complete("found"),
        Scripted.complete("done")
      ])
      const tree = RunTree.make()
      const changes = entries.flatMap((entry) => tree.add(entry))
      const nodes = (tag: "Opened" | "Closed") =>
        changes.flatMap((change) => (change._tag === tag ? [change.node] : []))
      assert.strictEqual(new Set(nodes("Opened")).size, nodes("Opened").length)
      assert.strictEqual(new Set(nodes("Closed")).size, nodes("Closed").length)
      const over = new Set(nodes("Closed"))
      assert.deepStrictEqual(
        nodes("Opened")
          .filter((node) => !over.has(node))
          .map(({ kind }) => kind),
        []
      )
      assert.strictEqual(over.size, nodes("Opened").length)
      const [root] = tree.roots
      if (root !== undefined) tree.forget(root)
      assert.strictEqual(tree.roots.length, 0)
    })
  )
})
