// The run record: whole, masked once, the same live, from memory and from SQLite, and as large as what is new.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { afterAll, assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { statSync, truncateSync, writeFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { Agent, Delegate, Ids, RunRecord, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import { type RecordEvent, RunRecordFile } from "../../src/kit/entry/observability.ts"
import { Auxiliary } from "../../src/kit/entry/routing.ts"
import { scaleRuns } from "../support/effort.ts"
import { foreignKeys } from "../support/plantedKeys.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
const echo = Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))

const call = (text: string) => Scripted.complete({ toolCalls: [{ name: "echo", params: { text } }] })

const readAll = (filter?: RunRecord.Filter) =>
  RunRecord.RunRecord.use((record) => Stream.runCollect(record.read(filter)))

const events = (entries: ReadonlyArray<RecordEvent.Entry>) => entries.map(({ event }) => event)

const of = <Tag extends RecordEvent.Kind>(entries: ReadonlyArray<RecordEvent.Entry>, tag: Tag) =>
  events(entries).filter(
    (event): event is Extract<RecordEvent.RecordEvent, { readonly _tag: Tag }> => event._tag === tag
  )

/** Without prototypes, and without members that are undefined. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

const recordFile = (path: string) => RunRecordFile.layer({ path }).pipe(Layer.provide(NodeServices.layer))

const withoutRepeatedContent = (entries: ReadonlyArray<RecordEvent.Entry>) => {
  const known = new Set<string>()
  return entries.filter((entry) => {
    const key = RunRecord.getContentKey(entry)
    const name = `${entry.sessionId} ${key}`
    if (key === undefined) return true
    return known.has(name) ? false : known.add(name).size > 0
  })
}

let server: Server | undefined
let schemas = 0
afterAll(() => server?.remove())
/** Tables of their own on a server that is started by the first who asks. */
const layerPostgres = Effect.promise(async () => {
  server ??= await startServer()
  return SessionStore.layerPostgres({ url: Redacted.make(server.url(`record${schemas++}`)), connections: 3 })
})

/** Number of steps of a long run. */
const longRun = scaleRuns(200)

/** Runs a body with each store, and with the entries that a listener gets. */
const withStores = (
  name: string,
  turns: ReadonlyArray<Scripted.Turn>,
  body: Effect.Effect<
    ReadonlyArray<RecordEvent.Entry>,
    unknown,
    Agent.Agent | Auxiliary.Auxiliary | RunRecord.RunRecord
  >
) => {
  for (const kind of ["memory", "SQLite", "JSON Lines", "Postgres"] as const) {
    it.effect.skipIf(kind === "Postgres" && missing !== undefined)(`${name} (${kind})`, () =>
      Effect.gen(function* () {
        const path = `${yield* temporaryDirectory}/state.db`
        const store =
          kind === "SQLite"
            ? SessionStore.layerSqlite({ path })
            : kind === "Postgres"
              ? yield* layerPostgres
              : SessionStore.layerMemory
        const record = kind === "JSON Lines" ? { record: recordFile(path) } : {}
        const runtime = Runtime.layer({
          provider: Scripted.layer(turns),
          tools: [echo, Delegate.toolset],
          store,
          ...record,
          retry: RetryPolicy.make({ base: 0, cap: 0 })
        })
        const heard: Array<RecordEvent.Entry> = []
        yield* Effect.gen(function* () {
          const record = yield* RunRecord.RunRecord
          yield* record.listen((entries) => void heard.push(...entries))
          const read = yield* body
          const sessions = new Set(read.map(({ sessionId }) => sessionId))
          // A listener hears the content that is kept once per session with each run that uses it.
          assert.deepStrictEqual(
            plain(read),
            plain(withoutRepeatedContent(heard.filter(({ sessionId }) => sessions.has(sessionId))))
          )
        }).pipe(Effect.provide(runtime))
      })
    )
  }
}

describe("RunRecord", () => {
  withStores(
    "a run with calls is there in its order, each message once",
    [
      Scripted.complete({
        toolCalls: [
          { name: "echo", params: { text: "a" } },
          { name: "echo", params: "[1, 2]" }
        ]
      }),
      Scripted.complete("done")
    ],
    Effect.gen(function* () {
      const { sessionId } = yield* Agent.run({ prompt: "go" })
      const entries = yield* readAll({ sessionId })
      assert.deepStrictEqual(
        entries.map(({ event: { _tag } }) => _tag),
        [
          "RunStarted",
          "MessageAppended",
          "ToolsOffered",
          "MessageAppended",
          "AttemptStarted",
          "AttemptEnded",
          "MessageAppended",
          "CallStarted",
          "MessageAppended",
          "CallEnded",
          "MessageAppended",
          "CallEnded",
          "AttemptStarted",
          "AttemptEnded",
          "MessageAppended",
          "RunEnded"
        ]
      )
      assert.deepStrictEqual(
        of(entries, "MessageAppended").map(({ origin, position }) => [origin, position]),
        [
          ["user", 0],
          ["runtime", undefined],
          ["model", 1],
          ["tool", 2],
          ["tool", 3],
          ["model", 4]
        ]
      )
      const byUser = yield* readAll({ sessionId, origins: ["user"], kinds: ["RunStarted", "MessageAppended"] })
      assert.deepStrictEqual(
        byUser.map(({ event }) => (event._tag === "MessageAppended" ? event.origin : event._tag)),
        ["RunStarted", "user"]
      )
      const [first, second] = of(entries, "AttemptStarted")
      const system = of(entries, "MessageAppended")[1]?.id ?? ""
      assert.deepStrictEqual(first?.messages, [system, 0])
      assert.deepStrictEqual(second?.messages, [system, [0, 3]])
      assert.strictEqual(second?.tools, of(entries, "ToolsOffered")[0]?.hash)
      assert.deepStrictEqual(
        of(entries, "CallEnded").map(({ ran, reason, status }) => [status, ran, reason]),
        [
          ["ok", true, undefined],
          ["error", false, "malformed_arguments"]
        ]
      )
      const [end] = of(entries, "RunEnded")
      assert.deepStrictEqual([end?.exit, end?.text, end?.steps], ["text_response", "done", 2])
      return entries
    })
  )

  const long = "ä€😀".repeat(25_000)
  withStores(
    "texts of 100 kB are whole in messages, arguments and results",
    [call(long), Scripted.complete(long)],
    Effect.gen(function* () {
      const { sessionId } = yield* Agent.run({ prompt: long })
      const entries = yield* readAll({ sessionId })
      const appended = of(entries, "MessageAppended").filter(({ position }) => position !== undefined)
      assert.strictEqual(appended.length, 4)
      for (const { message } of appended.filter((_, index) => index !== 2))
        assert.include(JSON.stringify(message), long)
      assert.deepStrictEqual(
        of(entries, "CallStarted").map(({ args }) => args),
        [{ text: long }]
      )
      assert.deepStrictEqual(of(entries, "AttemptEnded")[1]?.answer, [{ type: "text", text: long }])
      return entries
    })
  )

  withStores(
    "a step costs what is new in it: late steps are as large as the first ones",
    [...Array.from({ length: longRun }, (_, index) => call(`text ${1000 + index}`)), Scripted.complete("done")],
    Effect.gen(function* () {
      const { sessionId } = yield* Agent.run({ prompt: "go", maxIterations: longRun + 100 })
      const entries = yield* readAll({ sessionId })
      const sizes = of(entries, "AttemptStarted").map((event) => JSON.stringify(event).length)
      assert.strictEqual(sizes.length, longRun + 1)
      assert.isBelow(Math.max(...sizes) - Math.min(...sizes), 20)
      assert.strictEqual(of(entries, "ToolsOffered").length, 1)
      return entries
    })
  )

  withStores(
    "a failed attempt and its repetition are two attempts of one step, with the decision",
    [Scripted.fail(new AiError.InternalProviderError({ description: "busy" })), Scripted.complete("done")],
    Effect.gen(function* () {
      const { sessionId } = yield* Agent.run({ prompt: "go" })
      const entries = yield* readAll({ sessionId })
      assert.deepStrictEqual(
        of(entries, "AttemptStarted").map(({ attempt, step }) => [step, attempt]),
        [
          [1, 0],
          [1, 1]
        ]
      )
      const [failed, answered] = of(entries, "AttemptEnded")
      assert.strictEqual(failed?.status, "failed")
      assert.strictEqual(failed?.failure?.type, "InternalProviderError")
      assert.isTrue(failed?.failure?.retryable)
      assert.strictEqual(answered?.status, "answered")
      assert.isAbove(of(entries, "Waiting").length, 0)
      return entries
    })
  )

  withStores(
    "a run that is interrupted keeps what had come of its answer, and its end",
    [Scripted.hang({ text: "half an ans" })],
    Effect.gen(function* () {
      const agent = yield* Agent.Agent
      const seen = yield* Effect.scoped(
        Effect.gen(function* () {
          const started = Promise.withResolvers<void>()
          const fiber = yield* Effect.forkChild(
            agent.run({
              prompt: "go",
              streaming: true,
              onEvent: (events) =>
                Effect.sync(() => events.some(({ _tag }) => _tag === "TextDelta") && started.resolve())
            })
          )
          yield* Effect.promise(() => started.promise)
          yield* Fiber.interrupt(fiber)
          return yield* Fiber.await(fiber)
        })
      )
      assert.isTrue(Exit.hasInterrupts(seen))
      const entries = yield* readAll()
      assert.deepStrictEqual(
        of(entries, "AttemptEnded").map(({ answer, status }) => [status, answer]),
        [["interrupted", [{ type: "text", text: "half an ans" }]]]
      )
      assert.deepStrictEqual(
        of(entries, "RunEnded").map(({ exit }) => exit),
        ["interrupted"]
      )
      return entries
    })
  )

  withStores(
    "a resumed session names its old messages by position and writes none of them again",
    [Scripted.complete("one"), Scripted.complete("two")],
    Effect.gen(function* () {
      const { sessionId, turnId: first } = yield* Agent.run({ prompt: "1" })
      const { turnId: second } = yield* Agent.run({ prompt: "2", sessionId })
      const entries = yield* readAll({ sessionId })
      assert.deepStrictEqual(
        of(entries, "RunStarted").map(({ resumed }) => resumed),
        [false, true]
      )
      assert.deepStrictEqual(
        of(entries, "MessageAppended").flatMap(({ position }) => position ?? []),
        [0, 1, 2, 3]
      )
      assert.deepStrictEqual(
        of(entries, "AttemptStarted").map(({ messages }) => messages.slice(1)),
        [[0], [[0, 2]]]
      )
      const ofSecond = yield* readAll({ turnId: second })
      assert.deepStrictEqual(
        ofSecond.filter(({ turnId }) => turnId === first).map(({ event: { _tag } }) => _tag),
        ["ToolsOffered", "MessageAppended"]
      )
      return entries
    })
  )

  withStores(
    "a child is a run of its own under the call that made it",
    [
      Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { goal: "look" } }] }),
      Scripted.complete("found"),
      Scripted.complete("done")
    ],
    Effect.gen(function* () {
      const { sessionId, turnId } = yield* Agent.run({ prompt: "go" })
      const entries = yield* readAll()
      const [child] = of(entries, "ChildStarted")
      assert.deepStrictEqual(
        of(entries, "ChildEnded").map(({ sessionId, status, summary }) => [sessionId, status, summary]),
        [[child?.sessionId, "completed", "found"]]
      )
      const [started] = of(
        entries.filter((entry) => entry.sessionId === child?.sessionId),
        "RunStarted"
      )
      assert.deepInclude(started?.parent, { sessionId, turnId, callId: child?.callId ?? "", goal: "look", depth: 1 })
      // Nested runs are told in the order in which their steps are written.
      return entries.filter((entry) => entry.sessionId === sessionId)
    })
  )

  const key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
  withStores(
    "keys that a model or a tool says are masked",
    [call(key), Scripted.complete(`it is ${key}`)],
    Effect.gen(function* () {
      const { sessionId } = yield* Agent.run({ prompt: "go" })
      const entries = yield* readAll({ sessionId })
      assert.notInclude(JSON.stringify(entries), key)
      return entries
    })
  )

  withStores(
    "a side task of a session is recorded as one, in a run and after it",
    [Scripted.complete("done"), Scripted.complete("A title")],
    Effect.gen(function* () {
      const { sessionId, turnId } = yield* Agent.run({ prompt: "go" })
      const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "Title this" })] })]
      yield* Auxiliary.Auxiliary.use(({ call }) =>
        call("title", { messages, context: { sessionId, turnId, taskId: Ids.TaskId.make(sessionId) } })
      )
      const entries = yield* readAll({ sessionId })
      assert.deepStrictEqual(
        of(entries, "AttemptStarted").map(({ task }) => task),
        [undefined, "title"]
      )
      assert.deepStrictEqual(of(entries, "AttemptEnded")[1]?.answer, [{ type: "text", text: "A title" }])
      assert.deepStrictEqual(of(entries, "RunEnded").length, 1)
      return entries
    })
  )

  it.effect("a line that was cut is left out and counted, and the next one is whole", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/runs.jsonl`
      const run = (text: string) =>
        Effect.gen(function* () {
          const { sessionId } = yield* Agent.run({ prompt: "go" })
          const record = yield* RunRecord.RunRecord
          return { sessionId, all: yield* readAll(), unread: yield* record.unread() }
        }).pipe(
          Effect.provide(
            Runtime.layer({ provider: Scripted.layer([Scripted.complete(text)]), record: recordFile(path) })
          )
        )
      const first = yield* run("one")
      truncateSync(path, statSync(path).size - 20)
      const second = yield* run("two")
      assert.deepStrictEqual(second.unread, { newer: 0, damaged: 1, partial: 0 })
      assert.deepStrictEqual(
        of(second.all, "RunEnded").map(({ text }) => text),
        ["one", "two"]
      )
      // The last line is the end of the session, which comes when its runtime is closed.
      assert.deepStrictEqual(of(second.all, "SessionEnded"), [])
      assert.strictEqual(second.all.filter(({ sessionId }) => sessionId === first.sessionId).length, first.all.length)
    })
  )

  it.effect("a session that is removed takes its record along, and no other", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* Effect.gen(function* () {
        const { sessionId: first } = yield* Agent.run({ prompt: "1" })
        const { sessionId: second } = yield* Agent.run({ prompt: "2" })
        yield* SessionStore.SessionStore.use((store) => store.remove(first))
        const left = yield* readAll()
        assert.isAbove(left.length, 0)
        assert.deepStrictEqual(Array.from(new Set(left.map(({ sessionId }) => sessionId))), [second])
      }).pipe(
        Effect.provide(
          Runtime.layer({
            provider: Scripted.layer([Scripted.complete("one"), Scripted.complete("two")]),
            store: SessionStore.layerSqlite({ path })
          })
        )
      )
    })
  )

  it.effect("no key of any kind that a tool returns is in the rows", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const tool = Tool.make("keys", { success: Schema.String })
      const kit = Toolkit.make(tool)
      const lines = foreignKeys.map(([kind, key]) => `${kind}: ${key}`).join("\n")
      yield* Effect.provide(
        Agent.run({ prompt: "go" }),
        Runtime.layer({
          provider: Scripted.layer([
            Scripted.complete({ toolCalls: [{ name: "keys", params: {} }] }),
            Scripted.complete(lines)
          ]),
          tools: [Toolset.make("keys", kit, kit.toLayer({ keys: () => Effect.succeed(lines) }))],
          store: SessionStore.layerSqlite({ path })
        })
      )
      const database = new DatabaseSync(path)
      const rows = database
        .prepare("SELECT body FROM run_record UNION ALL SELECT envelope FROM messages")
        .all()
        .map((row) => String(row["body"]))
        .join("\n")
      database.close()
      assert.include(rows, "CallEnded")
      assert.deepStrictEqual(
        foreignKeys.filter(([, key]) => rows.includes(key)).map(([kind]) => kind),
        []
      )
    })
  )

  const known = { _tag: "Notice", level: "info", message: "known" }
  const ofOthers = [
    { version: 9, event: { ...known, since: "to come" } },
    { version: 9, event: { _tag: "Dream" } },
    { version: 9, event: { _tag: "Notice", text: 7 } },
    { version: 1, event: { _tag: "Dream" } },
    { version: 1, event: { _tag: "Notice" } }
  ]

  it.effect(
    "of a newer version what is known is read, the rest and what is damaged is left out, and each is counted",
    () =>
      Effect.gen(function* () {
        const path = `${yield* temporaryDirectory}/state.db`
        const store = SessionStore.layerSqlite({ path })
        const runtime = Runtime.layer({ provider: Scripted.layer([Scripted.complete("done")]), store })
        yield* Effect.gen(function* () {
          const { sessionId } = yield* Agent.run({ prompt: "go" })
          const before = yield* readAll({ sessionId })
          const database = new DatabaseSync(path)
          const add = database.prepare(
            "INSERT INTO run_record (session_id, turn_id, at, version, kind, body) VALUES (?, 't', 1, ?, ?, ?)"
          )
          for (const { event, version } of ofOthers) add.run(sessionId, version, event._tag, JSON.stringify(event))
          add.run(sessionId, 1, "Notice", '{"_tag":"No')
          database.close()
          const record = yield* RunRecord.RunRecord
          const after = yield* readAll({ sessionId })
          assert.deepStrictEqual(after.slice(0, -1), before)
          assert.deepStrictEqual<unknown>(after.at(-1)?.event, known)
          assert.deepStrictEqual(yield* record.unread({ sessionId }), { newer: 3, damaged: 2, partial: 1 })
          assert.deepStrictEqual(yield* record.unread({ sessionId: "another" }), { newer: 0, damaged: 0, partial: 0 })
        }).pipe(Effect.provide(runtime))
      })
  )

  it.effect("so it is in a file", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/runs.jsonl`
      const place = { sessionId: "s", turnId: "t", at: 1 }
      const lines = [
        ...ofOthers.map(({ event, version }) => JSON.stringify({ v: version, ...place, event })),
        JSON.stringify({ v: 9, place, event: known }),
        '{"v":1,"sess'
      ]
      writeFileSync(path, `${lines.join("\n")}\n`)
      yield* Effect.gen(function* () {
        const record = yield* RunRecord.RunRecord
        assert.deepStrictEqual<unknown>(yield* readAll(), [{ ...place, event: known }])
        assert.deepStrictEqual(yield* record.unread(), { newer: 4, damaged: 2, partial: 1 })
        assert.deepStrictEqual(
          yield* record.unread({ sessionId: "another" }),
          { newer: 1, damaged: 1, partial: 0 },
          "those that do not say where they belong"
        )
      }).pipe(Effect.provide(recordFile(path)))
    })
  )

  it.effect("what cannot be written is a gap in the record, and no failure of the run", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const store = SessionStore.layerSqlite({ path })
      const provider = Scripted.layer([Scripted.complete("one"), Scripted.complete("two"), Scripted.complete("three")])
      yield* Effect.gen(function* () {
        const run = (prompt: string, sessionId?: Ids.SessionId) =>
          Agent.run({ prompt, ...(sessionId === undefined ? {} : { sessionId }) })
        const { sessionId } = yield* run("1")
        const database = new DatabaseSync(path)
        database.exec("CREATE TRIGGER full BEFORE INSERT ON run_record BEGIN SELECT RAISE(ABORT, 'disk full'); END")
        assert.strictEqual((yield* run("2", sessionId)).exit, "text_response")
        database.exec("DROP TRIGGER full")
        database.close()
        yield* run("3", sessionId)
        const entries = yield* readAll({ sessionId })
        const [gap, ...more] = of(entries, "Gap")
        assert.strictEqual(more.length, 0)
        assert.strictEqual(gap?.entries, 7)
        assert.include(gap?.reason, "disk full")
        assert.deepStrictEqual(
          of(entries, "RunEnded").map(({ text }) => text),
          ["one", "three"]
        )
      }).pipe(Effect.provide(Runtime.layer({ provider, store })))
    })
  )

  it.effect("a transaction with the session is whole or not there, and is told once it is there", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const sessionId = Ids.SessionId.make("s")
      yield* Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const record = yield* RunRecord.RunRecord
        const heard: Array<string> = []
        yield* record.listen((entries) => void heard.push(...entries.map(({ event }) => event._tag)))
        yield* store.create({ id: sessionId, source: "test", provider: "p", model: "m", systemPrompt: "" })
        assert.strictEqual(store.together, record.together)
        const message = Prompt.userMessage({ content: [Prompt.textPart({ text: "hello" })] })
        const both = Effect.gen(function* () {
          const position = yield* store.append(sessionId, [message])
          yield* record.append([
            {
              sessionId,
              turnId: Ids.TurnId.make("t"),
              at: 1,
              event: { _tag: "MessageAppended", origin: "user", position, message }
            }
          ])
          assert.deepStrictEqual(heard, [])
        })
        const together = store.together ?? assert.fail("there are no transactions")
        assert.strictEqual(yield* Effect.flip(together(Effect.andThen(both, Effect.fail("no more")))), "no more")
        assert.deepStrictEqual([yield* store.messages(sessionId), yield* readAll({ sessionId }), heard], [[], [], []])
        yield* together(both)
        assert.deepStrictEqual(yield* store.messages(sessionId), [message])
        assert.deepStrictEqual(
          of(yield* readAll({ sessionId }), "MessageAppended").map((event) => event.message),
          [message]
        )
        assert.deepStrictEqual(heard, ["MessageAppended"])
      }).pipe(Effect.provide(SessionStore.layerSqlite({ path })))
    })
  )
})

describe("a record in a file with a bound", () => {
  it.live("loses its oldest entries, keeps what their sessions' newer ones name, and is read again whole", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/runs.jsonl`
      const maxBytes = 20_000
      const sessionId = Ids.SessionId.make("s")
      const entry = (at: number, event: RecordEvent.RecordEvent): RecordEvent.Entry => ({
        sessionId,
        turnId: Ids.TurnId.make("t"),
        at,
        event
      })
      const offered = entry(0, {
        _tag: "ToolsOffered",
        hash: "h",
        definitions: [{ name: "echo", description: "", parameters: {} }]
      })
      const notice = (at: number) =>
        entry(at, { _tag: "Notice", level: "info", message: `notice ${at} ${"x".repeat(500)}` })
      const bounded = RunRecordFile.layer({ path, maxBytes }).pipe(Layer.provide(NodeServices.layer))
      yield* Effect.provide(
        Effect.gen(function* () {
          const record = yield* RunRecord.RunRecord
          yield* record.append([offered])
          for (let at = 1; at <= 200; at++) {
            yield* record.append([notice(at)])
            assert.isAtMost(statSync(path).size, maxBytes)
          }
        }),
        bounded,
        { local: true }
      )
      const kept = yield* Effect.provide(readAll(), bounded, { local: true })
      assert.deepStrictEqual(kept[0], offered)
      const times = kept.slice(1).map(({ at }) => at)
      assert.isAbove(times.length, 10)
      assert.deepStrictEqual(
        times,
        Array.from({ length: times.length }, (_, index) => 200 - times.length + index + 1)
      )
    })
  )
})
