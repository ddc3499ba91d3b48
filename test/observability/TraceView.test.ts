// The page of a trace: what is in it, what can not be, and what it does with ten thousand events.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Agent from "../../src/agent/Agent.ts"
import * as AtifConvert from "../../src/observability/AtifConvert.ts"
import * as Atof from "../../src/observability/Atof.ts"
import * as Trace from "../../src/observability/Trace.ts"
import * as Diff from "../../src/observability/trace/Diff.ts"
import { script } from "../../src/observability/trace/PageScript.ts"
import { draft, place } from "../../src/observability/trace/Row.ts"
import * as TraceHook from "../../src/observability/TraceHook.ts"
import * as TraceView from "../../src/observability/TraceView.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as Page from "./support/page.ts"
import * as Runs from "./support/runs.ts"

const recorded = (turns: ReadonlyArray<Scripted.Turn>, prompt = "go") =>
  Effect.gen(function*() {
    const { events, sink } = Runs.collector()
    yield* Effect.scoped(Effect.gen(function*() {
      const hook = yield* TraceHook.make(Runs.agent, [sink])
      yield* Effect.provide(Agent.run({ prompt, sessionId: "s1" }), Runs.runtime(turns, [hook]).layer)
    }))
    return events
  })

const ofEvents = (events: ReadonlyArray<Atof.Event>, name = "run"): TraceView.Named => ({ name, trace: { _tag: "Events", events, faults: [] } })
const ofTrajectory = (events: ReadonlyArray<Atof.Event>, name = "run"): TraceView.Named => {
  const [trajectory] = AtifConvert.convert(events).trajectories
  assert.isDefined(trajectory)
  return { name, trace: Trace.ofTrajectory(trajectory) }
}

const many = (count: number): ReadonlyArray<Atof.Event> => {
  const events: Array<Atof.Event> = []
  let at = 1_700_000_000_000_000
  const add = (half: string, category: string, uuid: string, parent: string | null, data: unknown) =>
    events.push(Result.getOrThrow(Atof.decode({
      kind: "scope", atof_version: "0.1", scope_category: half, category, uuid, parent_uuid: parent, timestamp: at += 1000, name: category, attributes: [], data
    })))
  add("start", "agent", "A", null, null)
  const messages: Array<object> = []
  for (let n = 0; events.length < count; n++) {
    messages.push({ role: "user", content: `message ${n}` })
    add("start", "llm", `L${n}`, "A", { messages: messages.slice(-20) })
    add("end", "llm", `L${n}`, "A", { content: `answer ${n}` })
    add("start", "tool", `T${n}`, "A", { n })
    add("end", "tool", `T${n}`, "A", "ok")
  }
  add("end", "agent", "A", null, null)
  return events
}

describe("rows", () => {
  it.effect("of events and of their trajectory tell of the same calls, times and tokens, parallel ones in lanes", () =>
    Effect.gen(function*() {
      const events = yield* recorded(Runs.parallel)
      for (const named of [ofEvents(events), ofTrajectory(events)]) {
        const { rows } = TraceView.data([named]).runs[0] ?? { rows: [] }
        const tools = rows.filter(({ kind }) => kind === "tool")
        assert.deepStrictEqual(tools.map(({ lane, name, status }) => [name, lane, status]), [["slow", 0, "ok"], ["echo", 1, "ok"]])
        assert.isTrue(tools.every((row) => row.end > row.start && rows[row.parent]?.kind === "agent"))
        const [llm] = rows.filter(({ kind }) => kind === "llm")
        assert.deepInclude(llm, { promptTokens: 720, completionTokens: 80, cachedTokens: 200, text: "both" })
        assert.deepStrictEqual(rows.filter(({ kind }) => kind === "user").map(({ text }) => text), ["go"])
      }
    }))

  it.effect("of events keep each message of repeated requests once", () =>
    Effect.gen(function*() {
      const events = yield* recorded(Runs.parallel)
      const { pool, runs } = TraceView.data([ofEvents(events)])
      const requests = runs[0]?.rows.filter(({ kind }) => kind === "llm").map((row) => row.details.find(({ title }) => title === "Messages")?.parts)
      assert.deepStrictEqual(requests?.[1]?.slice(0, 2), requests?.[0])
      assert.strictEqual(new Set(pool).size, pool.length)
    }))

  it("of what was cut are open until the stream ends", () => {
    const events = many(6).slice(0, 4)
    const { rows } = TraceView.data([ofEvents(events)]).runs[0] ?? { rows: [] }
    assert.deepStrictEqual(rows.map(({ kind, status }) => [kind, status]), [["agent", "open"], ["llm", "ok"], ["tool", "open"]])
  })
})

describe("the difference of two runs", () => {
  const rows = (...names: ReadonlyArray<string>) =>
    place(names.map((name, id) => draft({ id, kind: "tool", name: name.slice(0, 1), text: name })))
  const told = (a: ReadonlyArray<string>, b: ReadonlyArray<string>) => Diff.diff(rows(...a), rows(...b)).map(({ state }) => state)

  it("is the shortest, in order", () => {
    assert.deepStrictEqual(told(["a", "b", "c"], ["a", "b", "c"]), ["same", "same", "same"])
    assert.deepStrictEqual(told(["a", "b1", "c"], ["a", "b2", "c"]), ["same", "changed", "same"])
    assert.deepStrictEqual(told(["a", "b", "c", "d"], ["a", "c", "x", "d"]), ["same", "removed", "same", "added", "same"])
    assert.deepStrictEqual(told([], ["a"]), ["added"])
    assert.deepStrictEqual(told(["a"], []), ["removed"])
    assert.deepStrictEqual(told("abcabba".split(""), "cbabac".split("")).filter((state) => state === "same").length, 4)
  })

  it("holds every row of both once", () => {
    const a = "abcdefgahbcidajkb".split("")
    const b = "bxcdaefyghaibcjdk".split("")
    const changes = Diff.diff(rows(...a), rows(...b))
    assert.deepStrictEqual(changes.flatMap(({ left }) => left < 0 ? [] : [left]), a.map((_, index) => index))
    assert.deepStrictEqual(changes.flatMap(({ right }) => right < 0 ? [] : [right]), b.map((_, index) => index))
  })

  it("of runs with nothing in common is given up, not waited for", () => {
    const a = Array.from({ length: 5000 }, (_, index) => draft({ id: index, kind: "tool", name: `a${index}` }))
    const b = Array.from({ length: 5000 }, (_, index) => draft({ id: index, kind: "tool", name: `b${index}` }))
    const changes = Diff.diff(place(a), place(b))
    assert.strictEqual(changes.length, 10_000)
  })
})

describe("the page", () => {
  const evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!-- \u2028 ' \" & ${x} `"

  it.effect("holds what was said as data alone, and forbids itself every network", () =>
    Effect.gen(function*() {
      const events = yield* recorded([
        Scripted.complete({ text: evil, toolCalls: [{ id: "c", name: "echo", params: { text: evil } }] }),
        Scripted.complete(evil)
      ], evil)
      for (const named of [ofEvents(events, evil), ofTrajectory(events, evil)]) {
        const html = yield* TraceView.page([named, named])
        assert.notInclude(html, "<img")
        assert.strictEqual(html.match(/<script/gu)?.length, 2)
        assert.strictEqual(html.match(/<\/script/gu)?.length, 2)
        const json = /<script type="application\/json" id="data">([^<>]*)<\/script>/u.exec(html)?.[1] ?? ""
        assert.notInclude(json, "\u2028")
        assert.notMatch(html.replace(json, "").replace(/<title>[^<]*<\/title>/u, ""), /(src|href)=/u)
        assert.match(html, /content="default-src 'none'; script-src 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}=';/u)
        assert.include(JSON.stringify(Page.dataOf(html)), "onerror=alert(2)")
        const byId = Page.open(html)
        assert.include(byId("room").textContent, "<img src=x onerror=alert(2)>")
      }
      assert.notMatch(script, /innerHTML|outerHTML|insertAdjacent|document\.write|eval|fetch|XMLHttp|import\(/u)
    }))

  it.effect("draws what is in sight of ten thousand events, finds, filters and shows", () =>
    Effect.gen(function*() {
      const html = yield* TraceView.page([ofEvents(many(10_000))])
      assert.isBelow(html.length, 8_000_000)
      const byId = Page.open(html)
      const room = byId("room")
      assert.match(byId("count").textContent, /^5001 of 5001$/u)
      assert.isBelow(room.children.length, 60)
      byId("list").scrollTop = 100_000
      byId("list").fire("scroll")
      assert.isBelow(room.children.length, 60)
      assert.notInclude(room.textContent, "answer 1 ")

      const search = Object.assign(byId("search"), { value: "MESSAGE 1234" })
      search.fire("input")
      assert.strictEqual(byId("count").textContent, "20 of 5001", "each request that has the message")
      Object.assign(search, { value: "answer 1234" }).fire("input")
      assert.strictEqual(room.children.length, 1)
      room.children[0]?.fire("click")
      assert.include(byId("detail").textContent, "message 1234")
      Object.assign(search, { value: "" }).fire("input")

      const tool = byId("kinds").children.find((button) => button.textContent === "tool")
      tool?.fire("click")
      assert.strictEqual(byId("count").textContent, "2501 of 5001")
      byId("failed").fire("click")
      assert.strictEqual(byId("count").textContent, "0 of 5001")
      byId("failed").fire("click")
      tool?.fire("click")
      byId("list").scrollTop = 0
      byId("list").fire("scroll")
      room.children[0]?.children[0]?.fire("click")
      assert.strictEqual(byId("count").textContent, "1 of 5001", "what is in a folded row is away")
      byId("list").fire("keydown", { key: "ArrowDown" })
      assert.include(byId("detail").textContent, "agent")
    }))

  it.effect("begins with the difference when there are two runs, and shows both sides of a row", () =>
    Effect.gen(function*() {
      const one = yield* recorded([Scripted.complete("first answer")])
      const other = yield* recorded([Scripted.complete("second answer")])
      const byId = Page.open(yield* TraceView.page([ofTrajectory(one, "one"), ofTrajectory(other, "other")]))
      assert.deepStrictEqual(byId("views").children.map(({ textContent }) => textContent), ["one", "other", "difference"])
      assert.match(byId("sums").textContent, /1 changed, 0 removed, 0 added$/u)
      const changed = byId("room").children.find(({ className }) => className.includes("changed"))
      changed?.fire("click")
      assert.include(byId("detail").textContent, "first answer")
      assert.include(byId("detail").textContent, "second answer")
      byId("views").children[1]?.fire("click")
      assert.notInclude(byId("room").textContent, "first answer")
    }))
})
