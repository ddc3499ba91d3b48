// The status line: its parts, what is left out where there is no room, and that it follows the session.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as TestClock from "effect/testing/TestClock"
import * as StatusLine from "../../../src/program/cli/interactive/StatusLine.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Width from "../../../src/program/cli/render/Width.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { Entry, RecordEvent } from "../../../src/base/domain/RecordEvent.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import { RunRecord } from "../../../src/store/RunRecord.ts"
import type { SessionStore } from "../../../src/store/SessionStore.ts"
import type { StatusFacts } from "../../../src/serve/host/LiveStatus.ts"
import { session } from "../../support/interactiveSession.ts"

const facts: StatusFacts = {
  model: "gpt-5",
  effort: "high",
  mode: "ask",
  contextTokens: 84_000,
  window: 200_000,
  tokens: 123_456,
  cost: Cost.toSpent(Cost.fromReportedUsd(0.12)),
  cwd: "/home/anna/project",
  branch: "main",
  background: 2,
  questions: 1,
  cacheLoss: undefined
}

const long = SessionId.make("20260101_000009_cccccc")

/** Stores a session whose last request had 84,000 tokens, 24,000 of which were cached. */
const keepLongSession = Effect.fnUntraced(function* (store: SessionStore["Service"]) {
  yield* store.create({ id: long, source: "cli", systemPrompt: "", provider: "fake", model: "fake-1" })
  yield* store.append(long, [Prompt.userMessage({ content: [Prompt.textPart({ text: "earlier" })] })])
  const { append } = yield* RunRecord
  const at = yield* Clock.currentTimeMillis
  const entry = (event: RecordEvent): Entry => ({ sessionId: long, turnId: TurnId.make("turn-1"), at, event })
  const call = (id: string, input: number, cacheRead: number): ReadonlyArray<Entry> =>
    [
      {
        _tag: "AttemptStarted",
        apiRequestId: id,
        step: 1,
        attempt: 0,
        route: { provider: "fake", model: "fake-1", apiMode: "chat_completions" },
        messages: [],
        parameters: {}
      } as const,
      {
        _tag: "AttemptEnded",
        apiRequestId: id,
        status: "answered",
        answer: [],
        usage: { ...Usage.zero, inputTokens: input, cacheReadTokens: cacheRead },
        cost: { usd: 0.1, status: "estimated", source: "official_docs_snapshot" },
        promptRates: { input: 3, cacheRead: 0.3 }
      } as const
    ].map(entry)
  yield* append([
    entry({
      _tag: "RunStarted",
      version: 1,
      source: "cli",
      platform: "cli",
      provider: "fake",
      model: "fake-1",
      cwd: "/tmp",
      resumed: false
    }),
    ...call("1", 84_000, 0),
    ...call("2", 60_000, 24_000)
  ])
})

const line = (columns: number, changes: Partial<StatusFacts> = {}, compactAt: number | undefined = 0.5): string =>
  StatusLine.renderLines(
    {
      status: { facts: () => ({ ...facts, ...changes }), follow: () => undefined, refresh: Effect.void },
      compactAt,
      home: "/home/anna"
    },
    columns,
    Paint.plain
  ).join("\n")

describe("StatusLine", () => {
  it("shows everything where there is room, and leaves out what matters least", () => {
    assert.strictEqual(
      line(140),
      "  1 waiting · gpt-5 · high · ask · 42% of 200k · compacts at 50% · 123.5k tokens · $0.12 · 2 in background · main · ~/project"
    )
    assert.strictEqual(line(80), "  1 waiting · gpt-5 · ask · 42% of 200k · $0.12 · 2 in background")
    assert.strictEqual(line(40), "  1 waiting · gpt-5 · 2 in background")
    assert.strictEqual(line(20), "  1 waiting · gpt-5")
    for (let columns = 12; columns < 160; columns++) assert.isBelow(Width.measure(line(columns)), columns)
  })

  it("says nothing that is not known", () => {
    const unknown = {
      contextTokens: undefined,
      tokens: 0,
      questions: 0,
      background: 0,
      effort: undefined,
      branch: undefined,
      cost: Cost.toSpent(Cost.nothing)
    }
    assert.strictEqual(line(140, unknown), "  gpt-5 · ask · ~/project")
    assert.strictEqual(
      line(140, { ...unknown, contextTokens: 1234, window: undefined }),
      "  gpt-5 · ask · 1.2k context · ~/project"
    )
    assert.notInclude(StatusLine.renderLines(undefined, 80, Paint.plain).join(""), "gpt")
  })

  it("warns before a message that pays for the whole prefix again, before it names the model", () => {
    const cacheLoss = { reason: "cache expired", tokens: 84_000, price: 0.2268 } as const
    assert.include(line(140, { cacheLoss }), "1 waiting · cache expired: 84.0k tokens again, ~$0.23 · gpt-5 · high")
    assert.strictEqual(line(80, { cacheLoss }), "  1 waiting · cache expired: 84.0k tokens again, ~$0.23 · gpt-5")
    assert.strictEqual(line(50, { cacheLoss, questions: 0 }), "  cache expired: 84.0k tokens again, ~$0.23")
    assert.strictEqual(
      line(50, { cacheLoss: { ...cacheLoss, reason: "another model", price: undefined }, questions: 0 }),
      "  another model: 84.0k tokens again · gpt-5"
    )
  })

  it.effect("warns when the cache has expired while the user waits, until the message is sent", () =>
    session({ status: { compactAt: 0.5, home: undefined } }, ({ later, screen, store, type, until }) =>
      Effect.gen(function* () {
        yield* keepLongSession(store)
        yield* until("fake-1 · ask · /tmp")
        yield* type(`/resume ${long}\r`)
        yield* until("Resumed")
        yield* TestClock.adjust("4 minutes")
        assert.notInclude(screen(), "cache expired")
        yield* later("cache expired: 84.0k tokens again · fake-1")
        yield* type("/usage\r")
        yield* until("Cache misses")
        assert.include(screen(), "a changed prefix: 1 call, 60.0k tokens again, $0.16 more")
        yield* type("talk\r")
        yield* until("Well,")
        assert.notInclude(screen().split("\n").slice(-3).join("\n"), "cache expired")
      })
    )
  )

  it.effect("follows the session: what it used, a question that waits, a new session", () =>
    session({ status: { compactAt: 0.5, home: undefined } }, ({ later, screen, type, until }) =>
      Effect.gen(function* () {
        yield* until("fake-1 · ask · /tmp")
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* until("fake-1 · ask · 15 context · 15 tokens · /tmp")
        yield* type("ask me\r")
        yield* until("1 waiting · fake-1")
        yield* type("1\r")
        yield* until("Both slept well.")
        yield* later("45 tokens")
        assert.notInclude(screen(), "1 waiting")
        yield* type("/new\r")
        yield* until("New session")
        yield* until("fake-1 · ask · /tmp")
        yield* type("/resume 20260101_000000\r")
        yield* until("Resumed")
        yield* later("fake-1 · ask · 45 tokens")
      })
    )
  )

  it.effect("shows the mode: Shift+Tab goes through them, /mode sets one, /approve ends planning", () =>
    session({ status: { compactAt: 0.5, home: undefined } }, ({ type, until }) =>
      Effect.gen(function* () {
        yield* until("fake-1 · ask")
        for (const mode of ["edits", "auto", "plan"]) {
          yield* type("\u001b[Z")
          yield* until(`fake-1 · ${mode}`)
        }
        yield* type("/approve edits\r")
        yield* until("You said: The plan is approved. Carry it out now.")
        yield* until("fake-1 · edits")
        yield* type("/mode yolo\r")
        yield* until("Mode: yolo (skip approvals; the deny lists still apply).")
        yield* type("/mode fast\r")
        yield* until("/mode takes one of plan, ask, edits, auto or yolo.")
        yield* type("/approve\r")
        yield* until("Not in plan mode: there is no plan to approve.")
      })
    )
  )
})
