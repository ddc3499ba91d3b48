// What a run of one tenant reaches of another tenant: nothing. Sessions, search, memory and skills of the same runtime,
// and the models and tools that a tenant may use.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import { BackgroundWork } from "../../src/agent/BackgroundWork.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as LiveSession from "../../src/serve/host/LiveSession.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { CurrentTenant } from "../../src/store/TenantScope.ts"
import * as MemoryTool from "../../src/tools/builtin/MemoryTool.ts"
import * as SessionSearchTool from "../../src/tools/builtin/SessionSearchTool.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as MemoryStore from "../../src/tools/prompt/MemoryStore.ts"
import * as SkillStore from "../../src/tools/prompt/SkillStore.ts"
import * as Fake from "../support/fakeModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const tenants: ReadonlyArray<Tenant> = [{ id: "acme" }, { id: "zeta" }]

const runtimeWith = (fake: Fake.Fake, directory: string, all: ReadonlyArray<Tenant> = tenants) =>
  Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    retry: RetryPolicy.none,
    tools: [MemoryTool.toolset, SessionSearchTool.toolset, TerminalTools.toolset],
    store: SessionStore.layerMemory,
    tenants: Tenants.layerFrom(all)
  }).pipe(
    Layer.provideMerge(
      MemoryStore.layer({ directory, database: `${directory}/state.db`, limits: { memory: 2_200, user: 1_375 } })
    ),
    Layer.provideMerge(NodeServices.layer)
  )

/** Results of the tools in the last request. */
const readResults = (fake: Fake.Fake): string =>
  JSON.stringify(fake.asked.at(-1)?.messages.filter(({ role }) => role === "tool"))

describe("a run of a tenant", () => {
  it.effect("does not continue, change or find the session of another tenant", () =>
    Effect.gen(function* () {
      const search = Fake.call("c1", "session_search", { query: "harbour" })
      const fake = Fake.make(Fake.text("The harbour is blue."), Fake.calls(search), Fake.text("done"))
      yield* Effect.gen(function* () {
        const { sessionId } = yield* Agent.run({ prompt: "Tell me about the harbour", tenant: "acme" })
        const refused = yield* Effect.flip(Agent.run({ prompt: "And now?", tenant: "zeta", sessionId }))
        assert.deepInclude(refused, { _tag: "SessionStoreError", operation: "create" })
        assert.strictEqual(fake.executed.length, 1)
        yield* Agent.run({ prompt: "Search", tenant: "zeta" })
        assert.notInclude(readResults(fake), "blue")
        const store = yield* SessionStore.SessionStore
        assert.strictEqual((yield* store.messages(sessionId)).length, 2)
        const listed = yield* Effect.provideService(store.list(), CurrentTenant, "zeta")
        assert.deepStrictEqual(
          listed.map(({ tenant }) => tenant),
          ["zeta"]
        )
      }).pipe(Effect.provide(runtimeWith(fake, yield* temporaryDirectory)))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("opens no session of another tenant as a live session", () =>
    Effect.gen(function* () {
      const fake = Fake.make(Fake.text("The harbour is blue."), Fake.text("Still."))
      yield* Effect.gen(function* () {
        const { sessionId } = yield* Agent.run({ prompt: "Tell me about the harbour", tenant: "acme" })
        const readAs = (tenant: string | undefined) =>
          Effect.gen(function* () {
            const live = yield* LiveSession.make({ session: { id: sessionId }, input: { tenant } })
            // The title of a session that is not stored yet is set when it begins.
            if (tenant === "zeta") yield* live.rename("Mine")
            return [(yield* live.messages).length, (yield* live.known)?.id, (yield* live.known)?.title]
          }).pipe(Effect.scoped)
        assert.deepStrictEqual(yield* readAs("zeta"), [0, undefined, undefined])
        assert.deepStrictEqual(yield* readAs("acme"), [2, sessionId, undefined])
        assert.deepStrictEqual(yield* readAs(undefined), [2, sessionId, undefined])
        const record = yield* RunRecord
        const countEnds = Effect.map(
          Stream.runCollect(record.read({ sessionId, kinds: ["SessionEnded"] })),
          ({ length }) => length
        )
        // A session that a run opened ends once.
        assert.strictEqual(yield* countEnds, 1)
        yield* Agent.run({ prompt: "And now?", tenant: "acme", sessionId })
        yield* readAs("zeta")
        assert.strictEqual(yield* countEnds, 1)
        yield* readAs("acme")
        assert.strictEqual(yield* countEnds, 2)
      }).pipe(Effect.provide(runtimeWith(fake, yield* temporaryDirectory)))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("neither lists nor stops the background work of another tenant, and takes no reports of it", () =>
    Effect.gen(function* () {
      const fake = Fake.make(Fake.text("The harbour is blue."))
      yield* Effect.gen(function* () {
        const { sessionId } = yield* Agent.run({ prompt: "Tell me about the harbour", tenant: "acme" })
        const background = yield* BackgroundWork
        const { callTool } = yield* Agent.Agent
        const start = (command: string) =>
          callTool({
            name: "terminal",
            args: { command, background: true, notify_on_complete: true },
            sessionId,
            cwd: "/tmp",
            tenant: "acme"
          })
        assert.isFalse((yield* start("sleep 600")).isFailure)
        const listAs = (tenant: string | undefined) =>
          Effect.provideService(
            Effect.all([background.list(sessionId), background.take(sessionId), background.takeNotices(sessionId)]),
            CurrentTenant,
            tenant
          )
        const countAs = (tenant: string | undefined) =>
          Effect.map(listAs(tenant), (all) => all.map(({ length }) => length))
        assert.deepStrictEqual(yield* countAs("zeta"), [0, 0, 0])
        assert.deepStrictEqual(yield* countAs("acme"), [1, 0, 0])
        const [[item]] = yield* listAs(undefined)
        const stopAs = (tenant: string) =>
          Effect.provideService(background.stop(sessionId, item?.id ?? ""), CurrentTenant, tenant)
        assert.isUndefined(yield* stopAs("zeta"))
        const pollAs = (tenant: string | undefined) =>
          callTool({ name: "process", args: { action: "poll", session_id: item?.id }, tenant, cwd: "/tmp" })
        assert.include(JSON.stringify((yield* pollAs("zeta")).output), "not_found")
        assert.include(JSON.stringify((yield* pollAs("acme")).output), "running")
        assert.include(JSON.stringify((yield* pollAs(undefined)).output), "running")
        assert.deepStrictEqual(yield* Effect.provideService(background.stopAll(sessionId), CurrentTenant, "zeta"), [])
        // It does not wait for the process either.
        yield* Effect.provideService(background.settled(sessionId), CurrentTenant, "zeta")
        assert.strictEqual((yield* stopAs("acme"))?.id, item?.id)
        yield* start("echo blue")
        yield* Effect.provideService(background.arrived(sessionId), CurrentTenant, "acme")
        assert.deepStrictEqual(yield* countAs("zeta"), [0, 0, 0])
        assert.include(JSON.stringify(yield* listAs("acme")), "blue")
      }).pipe(Effect.provide(runtimeWith(fake, yield* temporaryDirectory)))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("finds its own sessions", () =>
    Effect.gen(function* () {
      const search = Fake.call("c1", "session_search", { query: "harbour" })
      const fake = Fake.make(Fake.text("The harbour is blue."), Fake.calls(search), Fake.text("done"))
      yield* Effect.gen(function* () {
        yield* Agent.run({ prompt: "Tell me about the harbour", tenant: "acme" })
        yield* Agent.run({ prompt: "Search", tenant: "acme" })
        assert.include(readResults(fake), "blue")
      }).pipe(Effect.provide(runtimeWith(fake, yield* temporaryDirectory)))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("has its own memory", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const remember = Fake.call("c1", "memory", { action: "add", target: "memory", content: "The harbour is blue" })
      const fake = Fake.make(Fake.calls(remember), Fake.text("done"))
      const memories = Effect.gen(function* () {
        const memory = yield* MemoryStore.MemoryStore
        const read = (tenant: string | undefined) =>
          Effect.provideService(memory.entries("memory"), CurrentTenant, tenant)
        return [yield* read("acme"), yield* read("zeta"), yield* read(undefined)]
      })
      yield* Effect.gen(function* () {
        yield* Agent.run({ prompt: "Remember it", tenant: "acme" })
        assert.deepStrictEqual(yield* memories, [["The harbour is blue"], [], []])
        const fs = yield* FileSystem.FileSystem
        assert.strictEqual((yield* fs.readDirectory(`${directory}/tenants`)).length, 1)
      }).pipe(Effect.provide(runtimeWith(fake, directory)))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("changes no skills, which all tenants share", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const content = "---\nname: greet\ndescription: Greets\n---\nSay hello."
      const change = SkillStore.SkillStore.use((store) => store.change({ action: "create", name: "greet", content }))
      const layer = SkillStore.layer({ directory, database: `${directory}/state.db`, os: "linux" })
      yield* Effect.gen(function* () {
        const refused = yield* Effect.flip(Effect.provideService(change, CurrentTenant, "acme"))
        assert.strictEqual(refused._tag, "SkillRefused")
        assert.include((yield* change).path, "greet")
      }).pipe(Effect.provide(layer))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("calls no model that its tenant may not use, and names those it may", () =>
    Effect.gen(function* () {
      const fake = Fake.make(Fake.text("done"))
      const directory = yield* temporaryDirectory
      const runWith = (models: ReadonlyArray<string>) =>
        Effect.provide(
          Agent.run({ prompt: "go", tenant: "acme" }),
          runtimeWith(fake, directory, [{ id: "acme", models }])
        )
      const refused = yield* Effect.flip(runWith(["fake-2", "other/fake-1"]))
      assert.deepInclude(refused, { _tag: "TenantRefused", reason: "model" })
      assert.include(refused.message, "fake-2, other/fake-1")
      assert.strictEqual(fake.executed.length, 0)
      assert.strictEqual((yield* runWith(["fake-1"])).exit, "text_response")
      assert.strictEqual((yield* runWith(["fake/fake-1"])).exit, "text_response")
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
