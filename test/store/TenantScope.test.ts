// Sessions of a tenant in every store: another tenant finds them as little as missing ones, with the same results and
// the same errors, and the owner of the application finds all.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import * as RunRecords from "../../src/store/RunRecord.ts"
import { SessionActivity } from "../../src/store/SessionActivity.ts"
import { SessionBackup } from "../../src/store/SessionBackup.ts"
import * as SessionImport from "../../src/store/SessionImport.ts"
import { SessionMaintenance } from "../../src/store/SessionMaintenance.ts"
import { SessionRetention } from "../../src/store/SessionRetention.ts"
import { SessionSearch } from "../../src/store/SessionSearch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { CurrentTenant, formatTenantFolder } from "../../src/store/TenantScope.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"

let server: Server | undefined
let folder = ""
let count = 0

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "hermes-scope-"))
  if (missing === undefined) server = await startServer()
})

afterAll(async () => {
  await server?.remove()
  rmSync(folder, { recursive: true, force: true })
})

const stores = {
  memory: () => Layer.provideMerge(RunRecords.layerDefault, SessionStore.layerMemory),
  sqlite: () => SessionStore.layerSqlite({ path: join(folder, `${++count}.db`) }),
  postgres: () => SessionStore.layerPostgres({ url: Redacted.make(server?.url(`scope_${++count}`) ?? "") })
} as const

const own = SessionId.make("session-of-acme")
const none = SessionId.make("session-of-none")

const makeSession = (id: SessionId, title: string) => ({
  id,
  source: "library",
  provider: "p",
  model: "m",
  systemPrompt: "You help.",
  title,
  cwd: "/tmp/acme"
})

const message = Prompt.userMessage({ content: [Prompt.textPart({ text: "the harbour of acme" })] })

const as = (tenant: string | undefined) => Effect.provideService(CurrentTenant, tenant)

/** Creates a session of acme with a message and an entry of the record. */
const prepare = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  yield* store.create(makeSession(own, "Acme's harbour"))
  yield* store.append(own, [message])
  const record = yield* RunRecord
  yield* record.append([
    { sessionId: own, turnId: TurnId.make("t1"), at: 1, event: { _tag: "SessionEnded", reason: "done" } }
  ])
}).pipe(as("acme"))

/** Everything that a reader or a writer sees of a session. Ids are replaced, so that results can be compared. */
const observe = (id: SessionId) =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const { search } = yield* SessionSearch
    const record = yield* RunRecord
    const writes: Record<string, Effect.Effect<unknown, unknown>> = {
      append: store.append(id, [message]),
      begin: store.begin(id, ["c1"]),
      end: store.end(id, "done"),
      rename: store.rename(id, "Other"),
      remove: store.remove(id),
      recordUsage: store.recordUsage(id, {
        provider: "p",
        model: "m",
        usage: Usage.zero,
        cost: { usd: 0, status: "unknown", source: "none" }
      }),
      continueIn: store.continueIn(id, {
        id: SessionId.make("next"),
        provider: "p",
        model: "m",
        systemPrompt: "",
        messages: [],
        endReason: "done"
      }),
      resolve: store.resolve(id),
      prefix: store.resolve(id.slice(0, 12))
    }
    const refused: Record<string, string> = {}
    for (const [name, write] of Object.entries(writes)) {
      const error = yield* Effect.flip(write)
      refused[name] = String(error).replaceAll(id, "ID").replaceAll(id.slice(0, 12), "PREFIX")
    }
    return {
      get: yield* store.get(id),
      messages: yield* store.messages(id),
      readable: yield* store.readable(id),
      begun: yield* store.begun(id),
      isNewest: (yield* store.newest(id)) === id,
      usage: yield* store.usageByModel(id),
      steps: yield* store.listSteps(id),
      list: yield* store.list(),
      questions: yield* store.listQuestions({ sessionId: id }),
      answered: yield* store.answerQuestions(id, [{ questionId: "q1", answer: "x", by: undefined, answeredAt: 1 }]),
      hits: yield* search("harbour"),
      hitsOf: yield* search("harbour", { sessionId: id }),
      latest: (yield* Effect.flip(store.resolve("latest")))._tag,
      titled: (yield* Effect.flip(store.resolve("Acme's harbour")))._tag,
      record: yield* Stream.runCollect(record.read({ sessionId: id })),
      wholeRecord: yield* Stream.runCollect(record.read()),
      refused
    }
  })

for (const [name, makeStore] of Object.entries(stores)) {
  describe.skipIf(name === "postgres" && missing !== undefined)(`the sessions of a tenant in ${name}`, () => {
    it.live("are for another tenant like sessions that do not exist", () =>
      Effect.gen(function* () {
        yield* prepare
        const foreign = yield* observe(own).pipe(as("zeta"))
        const missingOne = yield* observe(none).pipe(as("zeta"))
        assert.deepStrictEqual(foreign, missingOne)
        assert.deepStrictEqual(foreign.list, [])
        assert.isAtLeast(Object.keys(foreign.refused).length, 9)
      }).pipe(Effect.provide(makeStore()))
    )

    it.live("are found by the tenant and by the owner of the application", () =>
      Effect.gen(function* () {
        yield* prepare
        const store = yield* SessionStore.SessionStore
        const { search } = yield* SessionSearch
        for (const tenant of ["acme", undefined]) {
          const found = yield* Effect.all({
            list: Effect.map(store.list(), (all) => all.map(({ id, tenant }) => [id, tenant])),
            messages: Effect.map(store.messages(own), ({ length }) => length),
            hits: Effect.map(search("harbour"), (hits) => hits.map(({ sessionId }) => sessionId)),
            titled: Effect.map(store.resolve("Acme's harbour"), ({ id }) => id),
            prefix: Effect.map(store.resolve("session-of"), ({ id }) => id),
            latest: Effect.map(store.resolve("latest"), ({ id }) => id)
          }).pipe(as(tenant))
          assert.deepStrictEqual(found, {
            list: [[own, "acme"]],
            messages: 1,
            hits: [own],
            titled: own,
            prefix: own,
            latest: own
          })
        }
      }).pipe(Effect.provide(makeStore()))
    )

    it.live("leave their titles to the other tenants", () =>
      Effect.gen(function* () {
        yield* prepare
        const store = yield* SessionStore.SessionStore
        const mine = SessionId.make("session-of-zeta")
        yield* store.create(makeSession(mine, "Mine")).pipe(as("zeta"))
        yield* store.rename(mine, "Acme's harbour").pipe(as("zeta"))
        const refused = yield* Effect.flip(store.create(makeSession(none, "Acme's harbour"))).pipe(as("zeta"))
        assert.include(refused.message, mine)
        assert.strictEqual((yield* store.resolve("Acme's harbour").pipe(as("zeta"))).id, mine)
      }).pipe(Effect.provide(makeStore()))
    )

    it.live("cannot be taken over by creating or owning their id, and their continuations stay the tenant's", () =>
      Effect.gen(function* () {
        yield* prepare
        const store = yield* SessionStore.SessionStore
        const taken = yield* Effect.flip(Effect.scoped(store.acquire(own))).pipe(as("zeta"))
        const created = yield* Effect.flip(store.create(makeSession(own, "Zeta"))).pipe(as("zeta"))
        assert.strictEqual(taken.message, created.message)
        const next = yield* store.continueIn(own, {
          id: SessionId.make("next"),
          provider: "p",
          model: "m",
          systemPrompt: "",
          messages: [],
          endReason: "done"
        })
        assert.strictEqual(next.tenant, "acme")
        // A tenant cannot choose another tenant for its session.
        const chosen = yield* store
          .create({ ...makeSession(SessionId.make("z"), "Z"), tenant: "acme" })
          .pipe(as("zeta"))
        assert.strictEqual(chosen.tenant, "zeta")
      }).pipe(Effect.provide(makeStore()))
    )
  })
}

describe("what concerns all sessions of a store", () => {
  it.live("shows a tenant its own activity, and refuses statistics and backups", () =>
    Effect.gen(function* () {
      yield* prepare
      const activity = yield* SessionActivity
      const maintenance = yield* SessionMaintenance
      const retention = yield* SessionRetention
      const backup = yield* SessionBackup
      const record = yield* RunRecord
      const observe = Effect.gen(function* () {
        return {
          since: (yield* Stream.runCollect(activity.since(0))).length,
          spoken: (yield* activity.spoken({ since: 0, until: Number.MAX_SAFE_INTEGER })).size,
          prompts: (yield* activity.prompts([own])).size,
          running: (yield* activity.running).size,
          expired: (yield* retention.expired({ before: Number.MAX_SAFE_INTEGER })).length,
          unread: (yield* record.unread({ sessionId: own })).damaged
        }
      })
      const running = (yield* SessionStore.SessionStore).acquire(own).pipe(as("acme"))
      yield* Effect.gen(function* () {
        yield* running
        const nothing = { since: 0, spoken: 0, prompts: 0, running: 0, expired: 0, unread: 0 }
        assert.deepStrictEqual(yield* observe.pipe(as("zeta")), nothing)
        const all = yield* observe
        assert.deepStrictEqual(yield* observe.pipe(as("acme")), all)
        assert.isAbove(all.since, 0)
        assert.strictEqual(all.prompts, 1)
      }).pipe(Effect.scoped)
      assert.strictEqual((yield* retention.prune({ before: Number.MAX_SAFE_INTEGER }).pipe(as("zeta"))).removed, 0)
      const refused: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
        maintenance.stats,
        maintenance.optimize,
        retention.compact,
        backup.count,
        backup.read(() => Effect.void),
        backup.write(Stream.empty, { replace: true })
      ]
      for (const one of refused) assert.include(String(yield* Effect.flip(one.pipe(as("acme")))), "all tenants")
      assert.strictEqual((yield* (yield* SessionStore.SessionStore).messages(own)).length, 1)
    }).pipe(Effect.provide(stores.sqlite()))
  )

  it.live("gives an imported session to the tenant that adds it", () =>
    Effect.gen(function* () {
      yield* prepare
      const store = yield* SessionStore.SessionStore
      const { add } = yield* SessionMaintenance
      const [session] = yield* store.list()
      assert.isDefined(session)
      if (session === undefined) return
      const id = SessionId.make("added")
      const added = { ...session, id, title: "Added" }
      const foreign = { ...added, continues: own, parentId: own }
      yield* Effect.flip(add(foreign, [message]).pipe(as("zeta")))
      yield* add(added, [message]).pipe(as("zeta"))
      assert.strictEqual((yield* store.list({ tenant: "zeta" }))[0]?.id, id)
    }).pipe(Effect.provide(stores.sqlite()))
  )

  it.live("keeps the titles of imported sessions, unless their tenant has one of that name", () =>
    Effect.gen(function* () {
      yield* prepare
      const line = (id: string, tenant: string | null): string =>
        JSON.stringify({
          id,
          source: "cli",
          title: "Acme's harbour",
          provider: "p",
          model: "m",
          cwd: null,
          parent_id: null,
          tenant,
          started_at: 1,
          ended_at: null,
          end_reason: null,
          usage: {
            input_tokens: 0,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            request_count: 0
          },
          system_prompt: "",
          messages: []
        })
      const text = [line("of-acme", "acme"), line("of-zeta", "zeta"), line("of-none", null)].join("\n")
      const { added, notes } = yield* SessionImport.addSessions(text, { newIds: false })
      assert.lengthOf(added, 3)
      assert.deepStrictEqual(notes, [`line 1: the title "Acme's harbour" is taken; session of-acme has none`])
      // Within the work for a tenant all of them are its own.
      const own = yield* SessionImport.addSessions([line("a", "acme"), line("b", null)].join("\n"), {
        newIds: false
      }).pipe(as("beta"))
      assert.deepStrictEqual(own.notes, [`line 2: the title "Acme's harbour" is taken; session b has none`])
    }).pipe(Effect.provide(stores.sqlite()))
  )

  it.live("gives an id that another process uses again to its new tenant alone", () =>
    Effect.gen(function* () {
      const path = join(folder, `${++count}.db`)
      const first = yield* Layer.build(SessionStore.layerSqlite({ path }))
      const second = yield* Layer.build(SessionStore.layerSqlite({ path }))
      yield* prepare.pipe(Effect.provide(first))
      yield* Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        yield* store.remove(own)
        yield* store.create(makeSession(own, "Zeta's")).pipe(as("zeta"))
        yield* store.append(own, [message, message]).pipe(as("zeta"))
      }).pipe(Effect.provide(second))
      const read = SessionStore.SessionStore.use((store) => store.messages(own)).pipe(Effect.provide(first))
      assert.deepStrictEqual(yield* read.pipe(as("acme")), [])
      assert.strictEqual((yield* read.pipe(as("zeta"))).length, 2)
    }).pipe(Effect.scoped)
  )
})

describe("the removal of a conversation", () => {
  it.live("removes nothing of another tenant", () =>
    Effect.gen(function* () {
      yield* prepare
      const { remove } = yield* SessionMaintenance
      assert.strictEqual(yield* remove(own).pipe(as("zeta")), 0)
      assert.strictEqual(yield* remove(own).pipe(as("acme")), 1)
    }).pipe(Effect.provide(stores.sqlite()))
  )
})

describe("the folder of a tenant", () => {
  it("is its own for every name, and stays in its place", () => {
    const names = ["acme", "Acme", "../acme", "a/b", "a\\b", "", ".", "..", "漢字", "x".repeat(200), "con"]
    const folders = names.map(formatTenantFolder)
    assert.strictEqual(new Set(folders.map((one) => one.toLowerCase())).size, names.length)
    for (const one of folders) assert.match(one, /^[a-z0-9_-]{1,64}$/u)
  })
})
