// The page of a trace: what is in it, what can not be, and what it does with ten thousand events.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { execFile } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import * as Agent from "../../src/agent/Agent.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as Trace from "../../src/observe/Trace.ts"
import * as Diff from "../../src/observe/trace/Diff.ts"
import { script } from "#pages/trace"
import { makeDraft, arrangeRows } from "../../src/observe/trace/Row.ts"
import * as TraceView from "../../src/observe/TraceView.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import { root } from "../support/sources.ts"
import * as Page from "./support/page.ts"
import * as Runs from "./support/runs.ts"

const recorded = (turns: ReadonlyArray<Scripted.Turn>, prompt = "go") =>
  Effect.gen(function* () {
    const { events, plugin } = Runs.collector()
    yield* Effect.provide(Agent.run({ prompt, sessionId: "s1" }), Runs.runtime(turns, [], [], [plugin]).layer)
    return events
  })

const ofEvents = (events: ReadonlyArray<Atof.Event>, name = "run"): TraceView.NamedTrace => ({
  name,
  trace: { _tag: "Events", events, faults: [] }
})
const ofTrajectory = (events: ReadonlyArray<Atof.Event>, name = "run"): TraceView.NamedTrace => {
  const [trajectory] = AtifConvert.convert(events).trajectories
  assert.isDefined(trajectory)
  return { name, trace: Trace.fromTrajectory(trajectory) }
}

const many = (count: number): ReadonlyArray<Atof.Event> => {
  const events: Array<Atof.Event> = []
  let at = 1_700_000_000_000_000
  const add = (half: string, category: string, uuid: string, parent: string | null, data: unknown) =>
    events.push(
      Result.getOrThrow(
        Atof.decode({
          kind: "scope",
          atof_version: "0.1",
          scope_category: half,
          category,
          uuid,
          parent_uuid: parent,
          timestamp: (at += 1000),
          name: category,
          attributes: [],
          data
        })
      )
    )
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
    Effect.gen(function* () {
      const events = yield* recorded(Runs.parallel)
      for (const named of [ofEvents(events), ofTrajectory(events)]) {
        const { rows } = TraceView.buildData([named]).runs[0] ?? { rows: [] }
        const tools = rows.filter(({ kind }) => kind === "tool")
        assert.deepStrictEqual(
          tools.map(({ lane, name, status }) => [name, lane, status]),
          [
            ["slow", 0, "ok"],
            ["echo", 1, "ok"]
          ]
        )
        assert.isTrue(tools.every((row) => row.end > row.start && rows[row.parent]?.kind === "agent"))
        const [llm] = rows.filter(({ kind }) => kind === "llm")
        assert.deepInclude(llm, { promptTokens: 720, completionTokens: 80, cachedTokens: 200, text: "both" })
        assert.deepStrictEqual(
          rows.filter(({ kind }) => kind === "user").map(({ text }) => text),
          ["go"]
        )
      }
    })
  )

  it.effect("of events keep each message of repeated requests once", () =>
    Effect.gen(function* () {
      const events = yield* recorded(Runs.parallel)
      const { pool, runs } = TraceView.buildData([ofEvents(events)])
      const requests = runs[0]?.rows
        .filter(({ kind }) => kind === "llm")
        .map((row) => row.details.find(({ title }) => title === "Messages")?.parts)
      assert.deepStrictEqual(requests?.[1]?.slice(0, 2), requests?.[0])
      assert.strictEqual(new Set(pool).size, pool.length)
    })
  )

  it("of what was cut are open until the stream ends", () => {
    const events = many(6).slice(0, 4)
    const { rows } = TraceView.buildData([ofEvents(events)]).runs[0] ?? { rows: [] }
    assert.deepStrictEqual(
      rows.map(({ kind, status }) => [kind, status]),
      [
        ["agent", "open"],
        ["llm", "ok"],
        ["tool", "open"]
      ]
    )
  })
})

describe("the difference of two runs", () => {
  const rows = (...names: ReadonlyArray<string>) =>
    arrangeRows(names.map((name, id) => makeDraft({ id, kind: "tool", name: name.slice(0, 1), text: name })))
  const told = (a: ReadonlyArray<string>, b: ReadonlyArray<string>) =>
    Diff.compareRows(rows(...a), rows(...b)).map(({ state }) => state)

  it("is the shortest, in order", () => {
    assert.deepStrictEqual(told(["a", "b", "c"], ["a", "b", "c"]), ["same", "same", "same"])
    assert.deepStrictEqual(told(["a", "b1", "c"], ["a", "b2", "c"]), ["same", "changed", "same"])
    assert.deepStrictEqual(told(["a", "b", "c", "d"], ["a", "c", "x", "d"]), [
      "same",
      "removed",
      "same",
      "added",
      "same"
    ])
    assert.deepStrictEqual(told([], ["a"]), ["added"])
    assert.deepStrictEqual(told(["a"], []), ["removed"])
    assert.deepStrictEqual(told("abcabba".split(""), "cbabac".split("")).filter((state) => state === "same").length, 4)
  })

  it("holds every row of both once", () => {
    const a = "abcdefgahbcidajkb".split("")
    const b = "bxcdaefyghaibcjdk".split("")
    const changes = Diff.compareRows(rows(...a), rows(...b))
    assert.deepStrictEqual(
      changes.flatMap(({ left }) => (left < 0 ? [] : [left])),
      a.map((_, index) => index)
    )
    assert.deepStrictEqual(
      changes.flatMap(({ right }) => (right < 0 ? [] : [right])),
      b.map((_, index) => index)
    )
  })

  it("of runs with nothing in common is given up, not waited for", () => {
    const a = Array.from({ length: 5000 }, (_, index) => makeDraft({ id: index, kind: "tool", name: `a${index}` }))
    const b = Array.from({ length: 5000 }, (_, index) => makeDraft({ id: index, kind: "tool", name: `b${index}` }))
    const changes = Diff.compareRows(arrangeRows(a), arrangeRows(b))
    assert.strictEqual(changes.length, 10_000)
  })
})

describe("the page", () => {
  const evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!-- \u2028 ' \" & ${x} `"

  it.effect("holds what was said as data alone, and forbids itself every network", () =>
    Effect.gen(function* () {
      const events = yield* recorded(
        [
          Scripted.complete({ text: evil, toolCalls: [{ id: "c", name: "echo", params: { text: evil } }] }),
          Scripted.complete(evil)
        ],
        evil
      )
      for (const named of [ofEvents(events, evil), ofTrajectory(events, evil)]) {
        const html = yield* TraceView.renderPage([named, named])
        assert.notInclude(html, "<img")
        assert.strictEqual(html.match(/<script/gu)?.length, 2)
        assert.strictEqual(html.match(/<\/script/gu)?.length, 2)
        const json = /<script type="application\/json" id="data">([^<>]*)<\/script>/u.exec(html)?.[1] ?? ""
        assert.notInclude(json, "\u2028")
        assert.notMatch(html.replace(json, "").replace(/<title>[^<]*<\/title>/u, ""), /(src|href)=/u)
        assert.match(
          html,
          /content="default-src 'none'; script-src 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}=';/u
        )
        assert.include(JSON.stringify(Page.dataOf(html)), "onerror=alert(2)")
        const page = Page.open(html)
        page.byId("changes").click()
        assert.include(page.byId("room").textContent, "<img src=x onerror=alert(2)>")
      }
      assert.notMatch(script, /innerHTML|outerHTML|insertAdjacent|document\.write|eval|fetch|XMLHttp|import\(/u)
    })
  )

  it.effect("draws what is in sight of ten thousand events, finds, filters and shows", () =>
    Effect.gen(function* () {
      const html = yield* TraceView.renderPage([ofEvents(many(10_000))])
      assert.isBelow(html.length, 8_000_000)
      const page = Page.open(html)
      const { byId, fire } = page
      const room = byId("room")
      assert.strictEqual(byId("count").textContent, "5,001 rows")
      assert.isBelow(room.children.length, 60)
      byId("list").scrollTop = 100_000
      fire(byId("list"), "scroll")
      assert.isBelow(room.children.length, 60)
      assert.notInclude(room.textContent, "answer 1 ")

      const looksFor = (text: string): void => fire(Object.assign(byId("search"), { value: text }), "input")
      looksFor("MESSAGE 1234")
      assert.strictEqual(byId("count").textContent, "20 of 5,001", "each request that has the message")
      looksFor("answer 1234")
      assert.strictEqual(room.children.length, 1)
      room.children[0]?.click()
      assert.include(byId("detail").textContent, "message 1234")
      looksFor("")

      const tools = page.all(".chip").find(({ textContent }) => textContent.includes("Tools"))
      tools?.click()
      assert.strictEqual(byId("count").textContent, "2,501 of 5,001")
      tools?.click()
      byId("list").scrollTop = 0
      fire(byId("list"), "scroll")
      page.all(".fold")[0]?.click()
      assert.strictEqual(byId("count").textContent, "1 of 5,001", "what is in a folded row is away")
      fire(byId("list"), "keydown", { key: "ArrowDown" })
      assert.include(byId("detail").textContent, "agent")
      fire(byId("list"), "keydown", { key: "ArrowRight" })
      assert.strictEqual(byId("count").textContent, "5,001 rows", "unfolded")
    })
  )

  it("has a script whose names and types a browser knows", async () => {
    const folder = mkdtempSync(join(tmpdir(), "hermes-page-"))
    try {
      writeFileSync(join(folder, "page.js"), script)
      writeFileSync(
        join(folder, "tsconfig.json"),
        JSON.stringify({
          compilerOptions: {
            allowJs: true,
            checkJs: true,
            noEmit: true,
            target: "es2024",
            lib: ["es2024", "dom", "dom.iterable"],
            types: [],
            strict: false,
            noUnusedLocals: true,
            noUnusedParameters: true,
            moduleDetection: "force"
          },
          files: ["page.js"]
        })
      )
      const found = await promisify(execFile)(process.execPath, [
        join(root, "node_modules/typescript/bin/tsc"),
        "-p",
        folder
      ]).then(
        () => "",
        (error: { readonly stdout: string }) => error.stdout
      )
      assert.strictEqual(found, "")
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it.effect("has no secret in it, whoever wrote the trace", () =>
    Effect.gen(function* () {
      const secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
      const events = [
        ["start", "agent", "A", null, null],
        ["start", "llm", "L", "A", { messages: [{ role: "user", content: `my key is ${secret}` }], api_key: secret }],
        ["end", "llm", "L", "A", { content: secret }],
        ["end", "agent", "A", null, null]
      ].map(([half, category, uuid, parent, data], index) =>
        Result.getOrThrow(
          Atof.decode({
            kind: "scope",
            atof_version: "0.1",
            scope_category: half,
            category,
            uuid,
            parent_uuid: parent,
            timestamp: 1_700_000_000_000_000 + index,
            name: category,
            attributes: [],
            data
          })
        )
      )
      const html = yield* TraceView.renderPage([ofEvents(events)])
      assert.notInclude(html, "abcdefghijklmnopqrstuvwxyz")
      assert.include(html, "my key is")
    })
  )

  it.effect("opens at the row that the address names", () =>
    Effect.gen(function* () {
      const html = yield* TraceView.renderPage([ofEvents(many(400))])
      assert.include(Page.open(html, "#view=0&row=100").one(".row.on").textContent, "tool")
      assert.strictEqual(Page.open(html, "#view=7&row=x").all(".row.on").length, 0, "an address of another page")
    })
  )

  it.effect("names two runs of one title apart", () =>
    Effect.gen(function* () {
      const run = (sessionId: string) =>
        ofEvents(
          [
            Result.getOrThrow(
              Atof.decode({
                kind: "scope",
                atof_version: "0.1",
                scope_category: "start",
                category: "agent",
                uuid: sessionId,
                parent_uuid: null,
                timestamp: 1_700_000_000_000_000,
                name: "agent",
                attributes: [],
                data: null,
                metadata: { session_id: sessionId }
              })
            )
          ],
          "fix the build"
        )
      const tabs = (html: string) =>
        Page.open(html)
          .all("[role=tab]")
          .map(({ textContent }) => textContent)
      assert.deepStrictEqual(tabs(yield* TraceView.renderPage([run("s1"), run("s2")])), [
        "fix the build (s1)",
        "fix the build (s2)",
        "Difference"
      ])
      assert.deepStrictEqual(tabs(yield* TraceView.renderPage([run("s1"), run("s1")])), [
        "fix the build (s1) #1",
        "fix the build (s1) #2",
        "Difference"
      ])
    })
  )

  it.effect("begins with the difference when there are two runs, and shows both sides of a row", () =>
    Effect.gen(function* () {
      const one = yield* recorded([Scripted.complete("first answer")])
      const other = yield* recorded([Scripted.complete("second answer")])
      const page = Page.open(yield* TraceView.renderPage([ofTrajectory(one, "one"), ofTrajectory(other, "other")]))
      const tabs = page.all("[role=tab]")
      assert.deepStrictEqual(
        tabs.map(({ textContent }) => textContent),
        ["one", "other", "Difference"]
      )
      assert.match(page.byId("sums").textContent, /1 changed0 removed0 added$/u)
      assert.strictEqual(page.all(".row").length, 1, "changes alone at first")
      page.one(".row.changed").click()
      assert.include(
        page
          .all(".minus")
          .map(({ textContent }) => textContent)
          .join(""),
        "first answer"
      )
      assert.include(
        page
          .all(".plus")
          .map(({ textContent }) => textContent)
          .join(""),
        "second answer"
      )
      tabs[1]?.click()
      assert.notInclude(page.byId("room").textContent, "first answer")
    })
  )
})
