// The removal of a tenant: its sessions, jobs, files and usage, and nothing of another tenant; a session in use stops it,
// and its repetition removes the rest. Files of tenants are read and removed by tenant.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as TenantRemoval from "../../src/agent/TenantRemoval.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as ChangeContents from "../../src/store/ChangeContents.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { CurrentTenant, formatTenantFolder } from "../../src/store/TenantScope.ts"
import * as TenantLedger from "../../src/store/tenants/TenantLedger.ts"
import * as CronJobs from "../../src/tools/cron/CronJobs.ts"
import * as ResultText from "../../src/tools/ResultText.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

let server: Server | undefined
let count = 0

beforeAll(async () => {
  if (missing === undefined) server = await startServer()
})
afterAll(async () => {
  await server?.remove()
})

const runAs = (tenant: string) => Effect.provideService(CurrentTenant, tenant)

const makeStores = (kind: "memory" | "sqlite" | "postgres", directory: string) => {
  if (kind === "memory") return Layer.merge(SessionStore.layerMemory, TenantLedger.layerMemory)
  if (kind === "sqlite")
    return Layer.merge(
      SessionStore.layerSqlite({ path: join(directory, "state.db") }),
      TenantLedger.layerSqlite({ path: join(directory, "tenants.db") })
    )
  const url = Redacted.make(server?.url(`removal_${++count}`) ?? "")
  return Layer.merge(SessionStore.layerPostgres({ url }), TenantLedger.layerPostgres({ url }))
}

const sessionOf = { acme: SessionId.make("20250102_030405_aaaaaa"), zeta: SessionId.make("20250102_030405_bbbbbb") }

/** Stores data of each kind for both tenants. */
const prepare = Effect.fnUntraced(function* (directory: string) {
  const exports = join(directory, "exports")
  mkdirSync(join(exports, "more"), { recursive: true })
  for (const tenant of ["acme", "zeta"] as const) {
    const id = sessionOf[tenant]
    yield* Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      yield* store.create({ id, source: "library", provider: "p", model: "m", systemPrompt: "" })
      const { keep } = yield* ResultText.ResultKeeper
      yield* keep("call_1", `the harbour of ${tenant}`)
      const bytes = new TextEncoder().encode(`contents of ${tenant}`)
      const contents = yield* ChangeContents.ChangeContents
      assert.isUndefined(yield* contents?.keep(ChangeContents.computeHash(bytes), bytes) ?? Effect.succeed("none"))
    }).pipe(runAs(tenant))
    const jobs = yield* CronJobs.CronJobs
    yield* jobs.create({ name: tenant, prompt: "Report", schedule: "every 2h", tenant })
    const ledger = yield* TenantLedger.TenantLedger
    yield* ledger.reserve({
      tenant,
      id: tenant,
      limits: {},
      prompt: { tokens: 100, nanos: 0 },
      outputNanos: 0,
      leastOutput: 1,
      wantedOutput: 100,
      expiresIn: 60_000,
      settled: [],
      whenHeld: "wait"
    })
    const usage = [{ model: "m", calls: 1, inputTokens: 80, outputTokens: 20, nanos: 1 }]
    yield* ledger.settle(tenant, [{ id: tenant, usage, spent: { tokens: 100, nanos: 1 } }])
    mkdirSync(join(directory, "memories", "tenants", formatTenantFolder(tenant)), { recursive: true })
    writeFileSync(join(directory, "memories", "tenants", formatTenantFolder(tenant), "MEMORY.md"), tenant)
    for (const name of [`hermes-atif-${id}.json`, `more/${id}.2.json`, `${id}x.json`, "notes.txt"])
      writeFileSync(join(exports, name), tenant)
  }
})

const listParts = (directory: string, outputs: Array<string>) =>
  [
    TenantRemoval.makeJobPart((id) => Effect.sync(() => void outputs.push(id))),
    TenantRemoval.makeExportPart("exports", join(directory, "exports")),
    TenantRemoval.sessions,
    TenantRemoval.makeFolderPart("memory files", join(directory, "memories")),
    TenantRemoval.makeFolderPart("long results", join(directory, "results")),
    TenantRemoval.makeFolderPart("contents", join(directory, "contents")),
    TenantRemoval.usage
  ] as const

for (const kind of ["memory", "sqlite", "postgres"] as const) {
  describe.skipIf(kind === "postgres" && missing !== undefined)(`a tenant in ${kind}`, () => {
    const withWorld = <A, E>(
      use: (
        directory: string
      ) => Effect.Effect<A, E, TenantRemoval.Needs<ReturnType<typeof listParts>[number]> | NodeServices.NodeServices>
    ) =>
      Effect.flatMap(temporaryDirectory, (directory) =>
        Effect.provide(
          use(directory),
          Layer.mergeAll(
            ResultText.layerFile(join(directory, "results")),
            ChangeContents.layerFile(join(directory, "contents"))
          ).pipe(
            Layer.provideMerge(makeStores(kind, directory)),
            Layer.provideMerge(CronJobs.layerMemory),
            Layer.provideMerge(NodeServices.layer)
          )
        )
      ).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

    it.live("is removed everywhere, and no other tenant is", () =>
      withWorld((directory) =>
        Effect.gen(function* () {
          yield* prepare(directory)
          const outputs: Array<string> = []
          const remove = TenantRemoval.removeTenant("acme", listParts(directory, outputs))
          const removed = yield* remove
          assert.deepStrictEqual(removed, {
            jobs: 1,
            exports: 2,
            sessions: 1,
            "memory files": 1,
            "long results": 1,
            contents: 1,
            "rows of usage": 1
          })
          assert.strictEqual(outputs.length, 1)
          // Nothing is left, and a repetition finds nothing.
          assert.deepStrictEqual(new Set(Object.values(yield* remove)), new Set([0]))
          const store = yield* SessionStore.SessionStore
          assert.deepStrictEqual(
            (yield* store.list()).map(({ id }) => id),
            [sessionOf.zeta]
          )
          const { jobs } = yield* (yield* CronJobs.CronJobs).list
          assert.deepStrictEqual(
            jobs.map(({ tenant }) => tenant),
            ["zeta"]
          )
          assert.deepStrictEqual(
            (yield* TenantLedger.TenantLedger.use((one) => one.usage())).map(({ tenant }) => tenant),
            ["zeta"]
          )
          for (const folder of ["memories", "results", "contents"])
            assert.deepStrictEqual(readdirSync(join(directory, folder, "tenants")), [formatTenantFolder("zeta")])
          assert.sameMembers(readdirSync(join(directory, "exports"), { recursive: true }).map(String), [
            "more",
            `more/${sessionOf.zeta}.2.json`,
            `hermes-atif-${sessionOf.zeta}.json`,
            `${sessionOf.acme}x.json`,
            `${sessionOf.zeta}x.json`,
            "notes.txt"
          ])
        })
      )
    )

    it.live("is removed from documents, streams and their images, also after a removal that was cut off", () =>
      withWorld((directory) =>
        Effect.gen(function* () {
          yield* prepare(directory)
          const folder = join(directory, "exports")
          const [own, shared, others] = ["a", "b", "c"].map((letter) => `images/${letter.repeat(32)}.png`)
          mkdirSync(join(folder, "images"))
          for (const image of [own, shared, others]) writeFileSync(join(folder, image ?? ""), "x")
          const { acme, zeta } = sessionOf
          writeFileSync(join(folder, `hermes-atif-${acme}-2.json`), JSON.stringify({ path: own, other: shared }))
          writeFileSync(join(folder, `hermes-atif-${zeta}.json`), JSON.stringify({ path: others, other: shared }))
          const makeEvent = (uuid: string, parent: string | null, more: object = {}) =>
            JSON.stringify({ kind: "scope", uuid, parent_uuid: parent, ...more })
          const scope = (id: string) => ({ metadata: { session_id: id } })
          const old = [makeEvent("1", null, scope(acme)), makeEvent("2", null, scope(zeta))]
          const text = "the harbour 漢字"
          const newer = [
            makeEvent("3", "1", { data: { text, path: own } }),
            makeEvent("4", "2", { data: { text, path: shared } }),
            makeEvent("5", "3"),
            makeEvent("1", null)
          ]
          writeFileSync(join(folder, "events.jsonl.1"), `${old.join("\n")}\n`)
          // The last line has no end yet.
          writeFileSync(join(folder, "events.jsonl"), newer.join("\n"))
          const parts = [
            TenantRemoval.makeExportPart("exports", folder),
            TenantRemoval.makeStreamPart("events", folder, "events.jsonl")
          ] as const
          const readFile = (name: string) => readFileSync(join(folder, name), "utf8")
          const size = readFile("events.jsonl").length
          // A removal that was cut off has blanked the last events.
          const cut = readFile("events.jsonl").split("\n")
          writeFileSync(join(folder, "events.jsonl"), [...cut.slice(0, 3), " ".repeat(cut[3]?.length ?? 0)].join("\n"))
          assert.deepStrictEqual(yield* TenantRemoval.removeTenant("acme", parts), { exports: 3, events: 3 })
          assert.deepStrictEqual(yield* TenantRemoval.removeTenant("acme", parts), { exports: 0, events: 0 })
          assert.sameMembers(
            readdirSync(join(folder, "images")).map((name) => `images/${name}`),
            [shared, others]
          )
          const left = (name: string) =>
            readFile(name)
              .split("\n")
              .filter((line) => line.trim() !== "")
          assert.deepStrictEqual(left("events.jsonl.1"), [old[1]])
          assert.deepStrictEqual(left("events.jsonl"), [newer[1]])
          assert.isAtLeast(readFile("events.jsonl").length, size)
        })
      )
    )

    it.live("is removed from a document that another process writes before the sessions are gone", () =>
      withWorld((directory) =>
        Effect.gen(function* () {
          yield* prepare(directory)
          const folder = join(directory, "exports")
          const late = `hermes-atif-${sessionOf.acme}-3.json`
          const exported = TenantRemoval.makeExportPart("exports", folder)
          const write = {
            name: "late",
            remove: () =>
              Effect.as(
                Effect.sync(() => writeFileSync(join(folder, late), "acme")),
                1
              )
          }
          const parts = [exported, write, TenantRemoval.sessions, exported] as const
          assert.deepInclude(yield* TenantRemoval.removeTenant("acme", parts), { exports: 3, sessions: 1 })
          assert.isFalse(existsSync(join(folder, late)))
          assert.isTrue(existsSync(join(folder, `hermes-atif-${sessionOf.zeta}.json`)))
        })
      )
    )

    it.live("with a session in use is left from there on, and removed by a repetition", () =>
      withWorld((directory) =>
        Effect.gen(function* () {
          yield* prepare(directory)
          const remove = TenantRemoval.removeTenant("acme", listParts(directory, []))
          const store = yield* SessionStore.SessionStore
          const stopped = yield* Effect.scoped(
            Effect.andThen(runAs("acme")(store.acquire(sessionOf.acme)), Effect.flip(remove))
          )
          assert.deepInclude(stopped, {
            _tag: "TenantRemovalStopped",
            part: "sessions",
            removed: { jobs: 1, exports: 2 }
          })
          assert.include(stopped.message, sessionOf.acme)
          assert.strictEqual((yield* store.list()).length, 2)
          assert.isTrue(existsSync(join(directory, "memories", "tenants", formatTenantFolder("acme"))))
          assert.deepInclude(yield* remove, { jobs: 0, sessions: 1, "long results": 1, "rows of usage": 1 })
        })
      )
    )

    it.live("reads neither results nor contents of another tenant", () =>
      withWorld((directory) =>
        Effect.gen(function* () {
          yield* prepare(directory)
          const listResults = Effect.gen(function* () {
            const { kept = Effect.undefined } = yield* ResultText.ResultKeeper
            return (yield* kept)?.directories ?? []
          })
          const hash = ChangeContents.computeHash(new TextEncoder().encode("contents of acme"))
          const read = Effect.flatMap(ChangeContents.ChangeContents, (one) => one?.read(hash) ?? Effect.undefined)
          const ofAcme = join("results", "tenants", formatTenantFolder("acme"))
          assert.isFalse(
            (yield* runAs("zeta")(listResults)).some((one) => ofAcme.includes(one) || one.endsWith("results"))
          )
          assert.isTrue((yield* runAs("acme")(listResults)).some((one) => one.endsWith(ofAcme)))
          assert.isUndefined(yield* runAs("zeta")(read))
          // The owner of the application undoes changes of tenants.
          for (const reader of [runAs("acme")(read), read]) assert.isDefined(yield* reader)
          // Another tenant's results of the same call do not show in its file name.
          const { keep } = yield* ResultText.ResultKeeper
          assert.match(yield* runAs("new")(keep("call_1", "mine")), /call_1\.txt$/u)
        })
      )
    )
  })
}
