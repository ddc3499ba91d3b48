// ATOF: what a line may hold, what a file of a run holds, and what is left when something goes wrong.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Deferred from "effect/Deferred"
import * as Logger from "effect/Logger"
import * as Result from "effect/Result"
import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as AtofWriter from "../../src/observe/AtofWriter.ts"
import * as TracePlugin from "../../src/observe/TracePlugin.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { eventually } from "../support/waiting.ts"
import * as RecordEntries from "./support/recordEntries.ts"
import * as Runs from "./support/runs.ts"

const recorded = (turns: ReadonlyArray<Scripted.Turn>) =>
  Effect.gen(function* () {
    const { events, plugin } = Runs.collector()
    yield* Effect.provide(Agent.run({ prompt: "go", sessionId: "s1" }), Runs.runtime(turns, [], [], [plugin]).layer)
    return events
  })

const mark = (name: string, extra: object = {}) => ({
  kind: "mark",
  atof_version: "0.1",
  uuid: name,
  timestamp: 1,
  name,
  ...extra
})

const written = (
  options: Partial<AtofWriter.Options> & { readonly directory: string },
  batches: ReadonlyArray<ReadonlyArray<Atof.Event>>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const writer = yield* AtofWriter.make({ filename: "events.jsonl", mode: "append", ...options })
      for (const batch of batches) yield* writer.write(batch)
    })
  ).pipe(Effect.provide(NodeServices.layer))

const event = (name: string): Atof.Event => Result.getOrThrow(Atof.decode(mark(name)))

describe("a stream of a run", () => {
  it.effect("1 and 2 has whole events, each scope a start and a later end with the same words", () =>
    Effect.gen(function* () {
      const events = yield* recorded(Runs.parallel)
      const open = new Map<string, Atof.ScopeEvent>()
      let last = 0
      for (const one of events) {
        const read = Result.getOrThrow(Atof.decode(JSON.parse(Result.getOrThrow(Atof.encode(one)))))
        assert.strictEqual(read.atof_version, "0.1")
        const at = Atof.toMicros(read.timestamp)
        assert.isAbove(at, last)
        last = at
        if (read.kind === "mark") continue
        const start = open.get(read.uuid)
        if (read.scope_category === "start") {
          assert.isUndefined(start)
          open.set(read.uuid, read)
          continue
        }
        assert.isDefined(start)
        for (const key of ["name", "category", "attributes", "parent_uuid"] as const) {
          assert.deepStrictEqual(read[key], start?.[key], key)
        }
        open.delete(read.uuid)
      }
      assert.strictEqual(open.size, 0)
    })
  )

  it.effect("4, 5, 7 one root, every parent is there, models are named, marks have no scope fields", () =>
    Effect.gen(function* () {
      const events = yield* recorded(Runs.parallel)
      const scopes = events.filter((one) => one.kind === "scope")
      const roots = scopes.filter((one) => one.parent_uuid === null && one.scope_category === "start")
      assert.deepStrictEqual(
        roots.map(({ category }) => category),
        ["agent"]
      )
      assert.deepInclude(roots[0]?.metadata, { session_id: "s1", version: "1.2.3" })
      const ids = new Set(scopes.map(({ uuid }) => uuid))
      for (const one of events) assert.isTrue(one.parent_uuid === null || ids.has(one.parent_uuid ?? ""))
      for (const one of scopes.filter(({ category }) => category === "llm")) {
        assert.strictEqual(one.category_profile?.["model_name"], "scripted")
      }
      const marks = events.filter((one) => one.kind === "mark")
      assert.deepStrictEqual(
        marks.map(({ name }) => name),
        ["hermes.turn.start", "hermes.turn.end", "hermes.session.end"]
      )
      for (const one of marks) {
        assert.notProperty(one, "scope_category")
        assert.notProperty(one, "attributes")
        assert.isNull(one.data)
      }
    })
  )

  it.effect("11 parallel calls: both starts precede both ends, ends as they complete, ids in both places", () =>
    Effect.gen(function* () {
      const tools = (yield* recorded(Runs.parallel)).filter((one) => one.kind === "scope" && one.category === "tool")
      assert.deepStrictEqual(
        tools.map((one) => [
          one.kind === "scope" && one.scope_category,
          one.category_profile?.["tool_call_id"],
          one.metadata?.["tool_call_id"]
        ]),
        [
          ["start", "call_alpha", "call_alpha"],
          ["start", "call_beta", "call_beta"],
          ["end", "call_beta", "call_beta"],
          ["end", "call_alpha", "call_alpha"]
        ]
      )
      assert.deepStrictEqual(
        tools.map(({ data }) => data),
        [{ text: "alpha" }, { text: "beta" }, "beta", "alpha"]
      )
      assert.strictEqual(tools[3]?.metadata?.["status"], "ok")
    })
  )

  it.effect("an answer is there in both forms, as converters and as the document read it", () =>
    Effect.gen(function* () {
      const [end] = (yield* recorded(Runs.parallel)).filter(
        (one) => one.kind === "scope" && one.category === "llm" && one.scope_category === "end"
      )
      const calls = [
        { id: "call_alpha", name: "slow", arguments: '{"text":"alpha"}' },
        { id: "call_beta", name: "echo", arguments: '{"text":"beta"}' }
      ]
      const said = { role: "assistant", content: "both", reasoning_content: "two are better" }
      const message = {
        ...said,
        tool_calls: calls.map(({ id, ...rest }) => ({ id, type: "function", function: rest }))
      }
      assert.deepStrictEqual(end?.data_schema, { name: "openai/chat-completions", version: "1" })
      assert.deepInclude(end?.data, {
        choices: [{ index: 0, message, finish_reason: "tool_calls" }],
        assistant_message: { ...said, tool_calls: calls },
        finish_reason: "tool_calls"
      })
    })
  )

  it.effect("an interrupted run ends its open scopes", () =>
    Effect.gen(function* () {
      const { events, plugin } = Runs.collector()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { hanging, layer } = Runs.runtime(
            [Scripted.complete({ toolCalls: [{ id: "c1", name: "hang", params: {} }] })],
            [],
            [],
            [plugin]
          )
          const fiber = yield* Effect.forkChild(Effect.provide(Agent.run({ prompt: "go" }), layer))
          yield* Deferred.await(hanging)
          yield* Fiber.interrupt(fiber)
        })
      )
      const scopes = events.filter((one) => one.kind === "scope")
      assert.strictEqual(scopes.length % 2, 0)
      const tool = scopes.findLast(({ category }) => category === "tool")
      assert.deepInclude(tool?.metadata, { status: "cancelled", error_type: "keyboard_interrupt" })
    })
  )

  it("55 children are under the call that delegated to them, however their events interleave", () => {
    const record = RecordEntries.make(Runs.agent)
    const [c1, c2] = ["c1", "c2"].map((id) => ({ id, name: "delegate_task", args: { goal: id } }))
    const [k1, k2] = [
      ["k1", "first"],
      ["k2", "second"]
    ].map(([session = "", goal = ""]) => ({ session, goal, subagentId: `sa-${session}` }))
    if (c1 === undefined || c2 === undefined || k1 === undefined || k2 === undefined)
      return assert.fail("there are two")
    record.begin("p", "go")
    record.ask("p", { calls: [c1, c2] })
    record.call("p", c1)
    record.call("p", c2)
    record.child("p", "c2", k2)
    record.child("p", "c1", k1)
    record.begin("k1", "first", { ...k1, session: "p", callId: "c1" })
    record.begin("k2", "second", { ...k2, session: "p", callId: "c2" })
    for (const child of [k1, k2]) {
      record.ask(child.session, { text: `done ${child.goal}` })
      record.end(child.session)
    }
    record.childEnded("p", k2)
    record.result("p", c2, "{}")
    record.childEnded("p", k1)
    record.result("p", c1, "{}")
    record.close()
    const { events } = record
    const starts = events.filter((one) => one.kind === "scope" && one.scope_category === "start")
    const id = (callId: string) => starts.find((one) => one.category_profile?.["tool_call_id"] === callId)?.uuid
    const children = starts.filter(
      (one) => one.kind === "scope" && one.category === "agent" && one.parent_uuid !== null
    )
    assert.deepStrictEqual(
      children.map((one) => [one.metadata?.["session_id"], one.parent_uuid]),
      [
        ["k1", id("c1")],
        ["k2", id("c2")]
      ]
    )
    const started = events.find(({ name }) => name === "hermes.subagent.start")
    assert.deepInclude(started?.metadata, {
      parent_session_id: "p",
      session_id: "k2",
      subagent_id: "sa-k2",
      child_role: "leaf",
      parent_trajectory_id: "p",
      child_trajectory_id: "k2"
    })
    const stopped = events.find(({ name }) => name === "hermes.subagent.stop")
    assert.deepInclude(stopped?.metadata, { child_status: "completed", session_id: "k2" })
    assert.deepStrictEqual(Atof.check({ events: Atof.sortByTime(events), faults: [] }), [])
  })

  it("a session that was given up ends after its children in the background, each in one scope; one that goes on meanwhile stays open", () => {
    const record = RecordEntries.make(Runs.agent)
    const delegate = { id: "d", name: "delegate_task", args: { goal: "g" } }
    const child = { session: "k", goal: "g", subagentId: "sa" }
    record.begin("p", "go")
    record.ask("p", { calls: [delegate] })
    record.call("p", delegate)
    record.child("p", "d", child)
    record.result("p", delegate, "dispatched")
    record.end("p")
    record.giveUp("p")
    record.begin("k", "g", { ...child, session: "p", callId: "d" })
    record.ask("k", { text: "done" })
    record.end("k")
    record.childEnded("p", child)
    const scopes = record.events.flatMap((one) =>
      one.kind === "scope" && one.category === "agent" ? [[one.metadata?.["session_id"], one.scope_category]] : []
    )
    assert.deepStrictEqual(scopes, [
      ["p", "start"],
      ["k", "start"],
      ["k", "end"],
      ["p", "end"]
    ])
    assert.deepStrictEqual(Atof.check({ events: Atof.sortByTime(record.events), faults: [] }), [])
    record.close()
    assert.strictEqual(record.events.at(-1)?.metadata?.["session_id"], "p")
  })

  it("20 a denied approval is a mark under its call (the call keeps its pair, ARCHITECTURE §7: closing events)", () => {
    const record = RecordEntries.make(Runs.agent)
    const terminal = { id: "c", name: "terminal" }
    record.begin("s", "go")
    record.ask("s", { calls: [terminal] })
    record.approve("s", "c", "rm -rf x", "deny")
    record.result("s", terminal, "no", "blocked", "approval_denied")
    const { events } = record
    const asked = events.find(({ name }) => name === "hermes.approval.request")
    const answered = events.find(({ name }) => name === "hermes.approval.response")
    const ended = events.findLast((one) => one.kind === "scope" && one.category === "tool")
    assert.deepInclude(answered?.metadata, { choice: "deny", command: "rm -rf x", tool_call_id: "c" })
    assert.deepInclude(ended?.metadata, { status: "blocked", error_type: "approval_denied" })
    assert.deepStrictEqual([asked?.parent_uuid, answered?.parent_uuid], [ended?.uuid, ended?.uuid])
  })
})

describe("a line", () => {
  it("8 a custom category without subtype is refused and not written", () => {
    assert.isTrue(Result.isFailure(Atof.decode(mark("x", { category: "custom" }))))
    assert.isTrue(Result.isFailure(Atof.encode({ ...event("x"), category: "custom" } as Atof.Event)))
    const unsorted = { ...event("x"), kind: "scope", scope_category: "start", category: "tool" }
    const line = Atof.encode({ ...unsorted, attributes: ["streaming", "parallel", "streaming"] } as Atof.Event)
    assert.deepStrictEqual(JSON.parse(Result.getOrThrow(line)).attributes, ["parallel", "streaming"])
    assert.isTrue(Result.isSuccess(Atof.decode(mark("x", { category: "custom", category_profile: { subtype: "a" } }))))
  })

  it("16 both forms of a timestamp sort by instant, ties as they came", () => {
    const at = (name: string, timestamp: string | number) => JSON.stringify(mark(name, { timestamp }))
    const text = [
      at("c", "2026-05-31T00:15:08.956804+00:00"),
      at("a", 1780186508956732),
      at("d", "2026-05-31T02:15:08.956804123+02:00"),
      at("b", "2026-05-31T00:15:08.956732Z")
    ].join("\n")
    assert.deepStrictEqual(
      Atof.parse(text).events.map(({ name }) => name),
      ["a", "b", "c", "d"]
    )
  })

  it("17 what is no event is a fault that names its line; the rest is read, with the keys that nobody knows", () => {
    const bad = [
      mark("naive", { timestamp: "2026-05-31T00:15:08" }),
      mark("float", { timestamp: 1.5 }),
      mark("major", { atof_version: "1.0" }),
      mark("scope", { attributes: [] }),
      mark("meta", { metadata: [] }),
      mark("parent", { parent_uuid: "" }),
      { ...mark("kind"), kind: "span" },
      { ...mark("scope"), kind: "scope", scope_category: "Start", category: "llm" },
      { ...mark("scope"), kind: "scope", scope_category: "start", category: "" }
    ]
    const text = [
      JSON.stringify(mark("ok", { novel: { a: 1 } })),
      ...bad.map((one) => JSON.stringify(one)),
      '{"kind":"ma'
    ].join("\n")
    const { events, faults } = Atof.parse(text)
    assert.deepStrictEqual(
      events.map((one) => ({ ...one })["novel" as never]),
      [{ a: 1 }]
    )
    assert.deepStrictEqual(
      faults.map(({ line }) => line),
      [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    )
    assert.match(faults[0]?.message ?? "", /^line 2: .*timestamp/u)
    assert.match(faults[9]?.message ?? "", /cut or is damaged/u)
  })

  it("a version 0.9 and a category that nobody knows are read", () => {
    assert.isTrue(
      Result.isSuccess(
        Atof.decode({ ...mark("x"), atof_version: "0.9", kind: "scope", scope_category: "start", category: "quantum" })
      )
    )
  })
})

describe("a file", () => {
  it.live("is appended to, after a line feed where the last line was cut", () =>
    Effect.gen(function* () {
      const directory = join(yield* temporaryDirectory, "deep", "er")
      const path = join(directory, "events.jsonl")
      yield* written({ directory }, [[event("a")], [event("b"), event("c")]])
      assert.strictEqual(statSync(path).mode & 0o777, 0o600)
      appendFileSync(path, '{"kind":"mark","na')
      yield* written({ directory }, [[event("d")]])
      const text = readFileSync(path, "utf8")
      assert.isTrue(text.endsWith("\n"))
      const { events, faults } = Atof.parse(text)
      assert.deepStrictEqual(
        events.map(({ name }) => name),
        ["a", "b", "c", "d"]
      )
      assert.deepStrictEqual(
        faults.map(({ line }) => line),
        [4]
      )
    })
  )

  it.live("is overwritten with the first event, and left alone without one", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const path = join(directory, "events.jsonl")
      writeFileSync(path, "old\n")
      yield* written({ directory, mode: "overwrite" }, [[]])
      assert.strictEqual(readFileSync(path, "utf8"), "old\n")
      yield* written({ directory, mode: "overwrite" }, [[event("a")], [event("b")]])
      assert.deepStrictEqual(
        Atof.parse(readFileSync(path, "utf8")).events.map(({ name }) => name),
        ["a", "b"]
      )
    })
  )

  it.live("gives way to the next one when it is full, and keeps as many as it should", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const names = Array.from({ length: 40 }, (_, index) => `e${index}`)
      yield* written({ directory, maxBytes: 500, maxFiles: 3 }, [names.map(event)])
      const files = readdirSync(directory).toSorted()
      assert.deepStrictEqual(files, ["events.jsonl", "events.jsonl.1", "events.jsonl.2", "events.jsonl.3"])
      const kept = files.toReversed().flatMap((file) => {
        const text = readFileSync(join(directory, file), "utf8")
        assert.isAtMost(text.length, 500)
        return text
          .trimEnd()
          .split("\n")
          .map((line) => (JSON.parse(line) as { name: string }).name)
      })
      assert.deepStrictEqual(kept, names.slice(-kept.length))
    })
  )

  it.live("whose directory is there makes none, and one whose directory was removed goes on in a new one", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const fs = yield* FileSystem.FileSystem
      let made = 0
      const counting = FileSystem.FileSystem.of({
        ...fs,
        makeDirectory: (...of) =>
          Effect.andThen(
            Effect.sync(() => made++),
            fs.makeDirectory(...of)
          )
      })
      const path = join(directory, "events.jsonl")
      yield* Effect.gen(function* () {
        const writer = yield* AtofWriter.make({ directory, filename: "events.jsonl", mode: "append" })
        yield* writer.write([event("a")])
        yield* eventually(
          "the first event",
          Effect.sync(() => existsSync(path))
        )
        assert.strictEqual(made, 0)
        rmSync(directory, { recursive: true })
        yield* writer.write([event("b")])
      }).pipe(Effect.scoped, Effect.provideService(FileSystem.FileSystem, counting))
      assert.deepStrictEqual(
        Atof.parse(readFileSync(path, "utf8")).events.map(({ name }) => name),
        ["b"]
      )
      assert.strictEqual(made, 1)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live("that can not be written is one warning, and the run goes on", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      writeFileSync(join(directory, "taken"), "")
      const warnings: Array<string> = []
      const log = Logger.make(({ message }) => {
        warnings.push(String(message))
      })
      yield* written({ directory: join(directory, "taken") }, [[event("a")], [event("b")]]).pipe(
        Effect.provide(Logger.layer([log]))
      )
      assert.strictEqual(warnings.length, 1)
      assert.match(warnings[0] ?? "", /cannot be written to .*taken/u)
    })
  )

  it.live("of a live run holds what the run told", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const tracing = TracePlugin.make({
        agent: Runs.agent,
        atof: { directory, filename: "run.jsonl", mode: "append" },
        atif: undefined
      })
      yield* Effect.provide(Agent.run({ prompt: "go" }), Runs.runtime(Runs.parallel, [], [], [tracing]).layer)
      const { events, faults } = Atof.parse(readFileSync(join(directory, "run.jsonl"), "utf8"))
      assert.deepStrictEqual(faults, [])
      assert.strictEqual(events.length, 2 + 4 + 4 + 3)
      assert.isTrue(existsSync(directory))
    })
  )
})
