// Sessions of tenants and the work of others on them: the owner of the application works for the tenant of a session,
// and no tenant meets what tools keep by the id of a session of another one.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { mkdirSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as ChangeSets from "../../src/store/ChangeSets.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { CurrentTenant } from "../../src/store/TenantScope.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as MemoryTool from "../../src/tools/builtin/MemoryTool.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"
import * as MemoryStore from "../../src/tools/prompt/MemoryStore.ts"
import * as Fake from "../support/fakeModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const runtimeWith = (
  fake: Fake.Fake,
  directory: string,
  tenants: ReadonlyArray<Tenant>,
  store = SessionStore.layerMemory
) => {
  const limits = Tenants.layerFrom(tenants)
  return Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    retry: RetryPolicy.none,
    tools: [MemoryTool.toolset, FileTools.toolset, Todo.toolset],
    store,
    tenants: limits
  }).pipe(
    Layer.provideMerge(limits),
    Layer.provideMerge(
      MemoryStore.layer({ directory, database: `${directory}/state.db`, limits: { memory: 2_200, user: 1_375 } })
    ),
    Layer.provideMerge(NodeServices.layer)
  )
}

/** Results of the tools in the last request. */
const readResults = (fake: Fake.Fake): string =>
  JSON.stringify(fake.asked.at(-1)?.messages.filter(({ role }) => role === "tool"))

describe("the owner's run on a session of a tenant", () => {
  it.live("works with the memory, the files and the limits of the tenant", () =>
    Effect.gen(function* () {
      const root = realpathSync(yield* temporaryDirectory)
      const workspace = join(root, "acme")
      mkdirSync(workspace)
      writeFileSync(join(workspace, "notes.txt"), "the harbour of acme")
      const remember = { action: "add", target: "memory", content: "Acme sails on Mondays" }
      const fake = Fake.make(
        Fake.text("Hello."),
        Fake.calls(Fake.call("c1", "memory", remember), Fake.call("c2", "read_file", { path: "notes.txt" })),
        Fake.text("Done.")
      )
      yield* Effect.gen(function* () {
        const { sessionId } = yield* Agent.run({ prompt: "Hello", tenant: "acme" })
        yield* Agent.run({ prompt: "Remember", sessionId })
        assert.include(readResults(fake), "the harbour of acme")
        const memory = yield* MemoryStore.MemoryStore
        assert.deepStrictEqual(yield* memory.entries("memory"), [])
        const balance = yield* Effect.flatMap(Tenants.Tenants, (tenants) => tenants.balance("acme"))
        assert.strictEqual(balance.spentToday.tokens, 45)
        const agent = yield* Agent.Agent
        const direct = yield* agent.callTool({ name: "read_file", args: { path: "notes.txt" }, sessionId })
        assert.isFalse(direct.isFailure, JSON.stringify(direct))
      }).pipe(Effect.provide(runtimeWith(fake, root, [{ id: "acme", workspace }])))
    }).pipe(Effect.scoped)
  )

  it.live("is refused when the tenant is gone, and ends at its allowance", () =>
    Effect.gen(function* () {
      const root = yield* temporaryDirectory
      const fake = Fake.make(Fake.text("Hello."))
      const store = SessionStore.layerSqlite({ path: join(root, "state.db") })
      const { sessionId } = yield* Effect.provide(
        Agent.run({ prompt: "Hello", tenant: "acme" }),
        runtimeWith(fake, root, [{ id: "acme" }], store)
      )
      const again = Agent.run({ prompt: "And now?", sessionId })
      const gone = yield* Effect.flip(Effect.provide(again, runtimeWith(fake, root, [{ id: "zeta" }], store)))
      assert.deepInclude(gone, { _tag: "TenantRefused", reason: "unknown", tenant: "acme" })
      const limited = [{ id: "acme", perDay: { tokens: 10 } }]
      const ended = yield* Effect.provide(again, runtimeWith(fake, root, limited, store))
      assert.deepInclude(ended, { exit: "budget_exhausted", limit: "allowance" })
      assert.lengthOf(fake.executed, 1)
    }).pipe(Effect.scoped)
  )
})

describe("the changes of a tenant's session", () => {
  it.live("are undone for the tenant and the owner, and do not exist for another tenant", () =>
    Effect.gen(function* () {
      const root = realpathSync(yield* temporaryDirectory)
      const workspace = join(root, "acme")
      mkdirSync(workspace)
      const fake = Fake.make(
        Fake.calls(Fake.call("c1", "write_file", { path: "notes.txt", content: "the harbour of acme" })),
        Fake.text("Done.")
      )
      yield* Effect.gen(function* () {
        const { sessionId } = yield* Agent.run({ prompt: "Write", tenant: "acme" })
        const countAs = (tenant: string | undefined) =>
          Effect.map(Effect.provideService(ChangeSets.readHistory(sessionId), CurrentTenant, tenant), (history) => [
            Option.isSome(ChangeSets.findUndoTarget(history)),
            JSON.stringify(history).includes("notes")
          ])
        assert.deepStrictEqual(yield* countAs("zeta"), [false, false])
        for (const tenant of ["acme", undefined]) assert.deepStrictEqual(yield* countAs(tenant), [true, true])
      }).pipe(Effect.provide(runtimeWith(fake, root, [{ id: "acme", workspace }, { id: "zeta" }])))
    }).pipe(Effect.scoped)
  )
})

describe("an id of a session", () => {
  it.live("that was not stored after its run is closed to other tenants, with what the tools keep by it", () =>
    Effect.gen(function* () {
      const root = yield* temporaryDirectory
      const todos = { todos: [{ id: "1", content: "the harbour of acme", status: "pending" }] }
      const fake = Fake.make(
        Fake.calls(Fake.call("c1", "todo", todos)),
        Fake.text("Done."),
        Fake.calls(Fake.call("c2", "todo", {})),
        Fake.text("Done.")
      )
      yield* Effect.gen(function* () {
        const sessionId = "shared-name"
        yield* Agent.run({ prompt: "Plan", tenant: "acme", sessionId })
        const refused = yield* Effect.flip(Agent.run({ prompt: "Plan", tenant: "zeta", sessionId }))
        assert.deepInclude(refused, { _tag: "SessionStoreError", operation: "create" })
        assert.include(refused.message, "exists already")
        assert.lengthOf(fake.asked, 2)
        yield* Agent.run({ prompt: "Read it", tenant: "acme", sessionId })
        assert.include(readResults(fake), "the harbour of acme")
        // The owner's ids are closed to tenants as well, and a refused run leaves them as they are.
        yield* Agent.run({ prompt: "Plan", sessionId: "of-owner" })
        yield* Effect.flip(Agent.run({ prompt: "Plan", tenant: "zeta", sessionId: "of-owner" }))
        yield* Agent.run({ prompt: "Plan", sessionId: "of-owner" })
      }).pipe(Effect.provide(runtimeWith(fake, root, [{ id: "acme" }, { id: "zeta" }], SessionStore.layerNone)))
    }).pipe(Effect.scoped)
  )
})
