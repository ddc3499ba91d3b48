// What retention removes and what it leaves, in the database and by the program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import { textSchema } from "../../src/base/domain/Question.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionRetention from "../../src/store/SessionRetention.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { sessionIdOf } from "../support/hermes.ts"
import { machine } from "../support/hermesInProcess.ts"
import { makeNewSession, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const days = (count: number) => count * 86_400_000

/** A database and its path. */
const withDatabase = <A, E>(
  body: (
    path: string
  ) => Effect.Effect<A, E, SessionStore.SessionStore | SessionRetention.SessionRetention | RunRecord.RunRecord>
) =>
  Effect.gen(function* () {
    const path = join(yield* temporaryDirectory, "state.db")
    return yield* Effect.provide(body(path), SessionStore.layerSqlite({ path }), { local: true })
  })

/** A session with one message, ended unless said otherwise. */
const talk = Effect.fnUntraced(function* (name: string, more: Parameters<typeof makeNewSession>[1] = {}, ended = true) {
  const store = yield* SessionStore.SessionStore
  const id = SessionId.make(name)
  yield* store.create(makeNewSession(name, more))
  yield* store.append(id, [makeUserMessage(`words of ${name}`)])
  yield* RunRecord.RunRecord.use((record) =>
    record.append([
      { sessionId: id, turnId: TurnId.make(`${name}:t`), at: 1, event: { _tag: "SessionEnded", reason: "shutdown" } }
    ])
  )
  if (ended) yield* store.end(id, "text_response")
})

const left = Effect.map(
  SessionStore.SessionStore.use((store) => store.list()),
  (all) => all.map(({ id }) => String(id)).toSorted()
)
const prune = (older: number, source?: string) =>
  Effect.flatMap(SessionRetention.computeCutoff(older), (before) => SessionRetention.prune({ before, source }, true))

describe("retention", () => {
  it.effect("removes ended sessions that are old, with messages, run record and search, and nothing else", () =>
    withDatabase((path) =>
      Effect.gen(function* () {
        yield* talk("old")
        yield* talk("open", {}, false)
        yield* talk("batch", { source: "batch" })
        yield* TestClock.adjust("60 days")
        yield* talk("later")
        yield* TestClock.adjust("31 days")
        assert.deepStrictEqual(yield* prune(90, "batch"), { removed: 1, kept: 0 })
        assert.deepStrictEqual(yield* prune(90), { removed: 1, kept: 0 })
        assert.deepStrictEqual(yield* left, ["later", "open"])
        const record = yield* RunRecord.RunRecord
        assert.deepStrictEqual(
          (yield* Stream.runCollect(record.read())).map(({ sessionId }) => String(sessionId)),
          ["open", "later"]
        )
        const rows = new DatabaseSync(path)
        assert.deepStrictEqual(
          rows.prepare("SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'batch OR old'").all(),
          []
        )
        assert.strictEqual(rows.prepare("SELECT count(*) AS count FROM messages").get()?.["count"], 2)
        rows.close()
      })
    )
  )

  it.effect(
    "removes a conversation whole: with its sub-agents, also one that was killed, and not while one of its sessions is young",
    () =>
      withDatabase(() =>
        Effect.gen(function* () {
          yield* talk("root")
          yield* talk("child", { parentId: SessionId.make("root"), source: "subagent" }, false)
          yield* talk("mother")
          yield* TestClock.adjust("50 days")
          yield* talk("daughter", { parentId: SessionId.make("mother"), source: "subagent" })
          yield* TestClock.adjust("50 days")
          const { expired } = yield* SessionRetention.SessionRetention
          assert.deepStrictEqual(
            (yield* expired({ before: days(10) })).map(({ id }) => String(id)),
            ["root"]
          )
          assert.deepStrictEqual(yield* prune(90), { removed: 1, kept: 0 })
          assert.deepStrictEqual(yield* left, ["daughter", "mother"])
        })
      )
  )

  it.effect("keeps a session that a run owns or a program has open, until it is given back", () =>
    withDatabase(() =>
      Effect.gen(function* () {
        yield* talk("running")
        yield* talk("shown")
        yield* TestClock.adjust("100 days")
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { hold } = yield* SessionRetention.SessionRetention
            yield* (yield* SessionStore.SessionStore).acquire(SessionId.make("running"))
            yield* hold(SessionId.make("shown"))
            assert.deepStrictEqual(yield* prune(90), { removed: 0, kept: 2 })
          })
        )
        assert.deepStrictEqual(yield* prune(90), { removed: 2, kept: 0 })
      })
    )
  )

  it.effect("keeps a conversation that waits for an answer, also one of a sub-agent", () =>
    withDatabase(() =>
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        yield* talk("waiting")
        yield* talk("parent")
        yield* talk("child", { parentId: SessionId.make("parent"), source: "subagent" })
        yield* talk("answered")
        for (const name of ["waiting", "child", "answered"]) {
          const sessionId = SessionId.make(name)
          const question = {
            id: `q-${name}`,
            sessionId,
            runId: TurnId.make("t"),
            callId: "c",
            kind: "text",
            title: "Who?",
            schema: textSchema,
            createdAt: 1
          } as const
          const questions = [{ question, place: "1", state: "open" }] as const
          yield* store.suspend(sessionId, { questions, callIds: [], reason: "suspended" })
        }
        yield* store.closeQuestions(SessionId.make("answered"), ["c"], "used")
        yield* TestClock.adjust("100 days")
        assert.deepStrictEqual(yield* prune(90), { removed: 1, kept: 0 })
        assert.deepStrictEqual(yield* left, ["child", "parent", "waiting"])
      })
    )
  )

  it.effect("beside a program runs once in the interval, and only where it was asked for", () =>
    withDatabase(() =>
      Effect.gen(function* () {
        const settings = { autoPrune: true, retentionDays: 90, vacuumAfterPrune: true, minIntervalHours: 24 }
        const retention = yield* SessionRetention.SessionRetention
        const due = retention.whenDue(days(1), Effect.succeed("ran"))
        yield* talk("old")
        yield* TestClock.adjust("100 days")
        assert.strictEqual(yield* due, "ran")
        assert.isUndefined(yield* due)
        yield* TestClock.adjust("1 day")
        assert.strictEqual(yield* due, "ran")
        yield* TestClock.adjust("1 day")
        const started = (more: Partial<SessionRetention.Settings>) =>
          Effect.provide(Effect.void, SessionRetention.layerAuto({ ...settings, ...more }, undefined))
        yield* started({ autoPrune: false })
        assert.deepStrictEqual(yield* left, ["old"])
        yield* started({})
        assert.deepStrictEqual(yield* left, [])
      })
    )
  )

  it.effect("gives the space back", () =>
    withDatabase((path) =>
      Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        yield* talk("old", {}, false)
        yield* store.append(
          SessionId.make("old"),
          Array.from({ length: 50 }, () => makeUserMessage("x".repeat(20_000)))
        )
        yield* store.end(SessionId.make("old"), "text_response")
        yield* TestClock.adjust("100 days")
        yield* prune(90)
        const rows = new DatabaseSync(path)
        assert.strictEqual(rows.prepare("PRAGMA freelist_count").get()?.["freelist_count"], 0)
        rows.close()
      })
    )
  )
})

describe("the program", () => {
  /** Makes sessions of a home directory look older. */
  const age = (home: string, ids: ReadonlyArray<string>) => {
    const rows = new DatabaseSync(join(home, "state.db"))
    for (const id of ids) {
      rows
        .prepare("UPDATE sessions SET updated_at = updated_at - ?, ended_at = ended_at - ? WHERE id = ?")
        .run(days(100), days(100), id)
    }
    rows.close()
  }
  const kept = (home: string): ReadonlyArray<unknown> => {
    const rows = new DatabaseSync(join(home, "state.db"))
    const all = rows
      .prepare("SELECT id FROM sessions")
      .all()
      .map(({ id }) => id)
    rows.close()
    return all
  }

  it.live("sessions prune lists, asks where somebody is there, and removes", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      const none = yield* hermes(["sessions", "prune", "--yes"])
      assert.deepInclude(none, { code: 0, stdout: "No ended session is older than 90 days\n", stderr: "" })
      const old = sessionIdOf((yield* hermes(["-Q", "-q", "Reply exactly one"])).stderr)
      const young = sessionIdOf((yield* hermes(["-Q", "-q", "Reply exactly two"])).stderr)
      age(home, [old])
      const listed = yield* hermes(["sessions", "prune", "--dry-run"])
      assert.match(listed.stdout, new RegExp(`^${old} .*\n\n1 session would be removed\n$`, "u"))
      assert.deepInclude(yield* hermes(["sessions", "prune"]), {
        code: 2,
        stdout: "",
        stderr: "Error: Not a terminal. Pass --yes to remove these sessions, or --dry-run to list them.\n"
      })
      assert.deepInclude(yield* hermes(["sessions", "prune", "--older-than", "101", "--yes"]), {
        code: 0,
        stdout: "No ended session is older than 101 days\n"
      })
      assert.deepInclude(yield* hermes(["sessions", "prune", "--yes"]), {
        code: 0,
        stdout: "Removed 1 session\n",
        stderr: ""
      })
      assert.deepStrictEqual(kept(home), [young])
      assert.include((yield* hermes(["sessions", "--help"])).stdout, "Remove ended sessions older than 90 days")
    })
  )

  it.live("with sessions.auto_prune removes at its start what is old, and never the session that it goes on with", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      const say = (...args: ReadonlyArray<string>) => hermes(["-Q", "-q", "Reply exactly ok", ...args])
      const ids = [sessionIdOf((yield* say()).stderr), sessionIdOf((yield* say()).stderr)]
      const [old = "", resumed = ""] = ids
      age(home, ids)
      keep("config.yaml", "sessions: { auto_prune: true, retention_days: 30 }\n")
      const run = yield* say("--resume", resumed)
      assert.deepInclude(run, { code: 0, stdout: "ok\n" })
      assert.notInclude(run.stderr, "not supported")
      assert.deepStrictEqual(kept(home), [resumed])
      assert.notStrictEqual(old, resumed)
    })
  )
})
