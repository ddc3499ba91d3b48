// The files of tenants of config.yaml and of a server's keys: each has its own, and a directory is shared only if the
// settings say so.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import { createHermes } from "../../src/kit/entry/promise.ts"
import { locateWorkspace } from "../../src/store/TenantFolder.ts"
import { CurrentTenant } from "../../src/store/TenantScope.ts"
import * as Configured from "../support/configuredProgram.ts"
import { user, world } from "../support/servedAgent.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

describe("tenants of config.yaml", () => {
  it.live("have a directory each, which no other tenant and no shared directory reaches", () =>
    Effect.gen(function* () {
      const paths = yield* Path.Path
      const home = realpathSync(yield* temporaryDirectory)
      const named = realpathSync(yield* temporaryDirectory)
      writeFileSync(join(named, "named.txt"), "the files of named")
      const twins = realpathSync(yield* temporaryDirectory)
      const config = `
model: { provider: custom, default: large, base_url: http://127.0.0.1:9/v1, api_key: key-of-this-test-0123 }
tenants:
  acme: {}
  zeta: {}
  open: { workspace: shared }
  named: { workspace: ${named} }
  wrong: { workspace: ${named}-absent }
  castor: { workspace: ${twins} }
  pollux: { workspace: ${twins}, shares_workspace: true }
`
      yield* Effect.gen(function* () {
        const agent = yield* Agent.Agent
        const call = (tenant: string | undefined, name: string, args: unknown) =>
          Effect.map(Effect.provideService(agent.callTool({ name, args }), CurrentTenant, tenant), (outcome) =>
            JSON.stringify(outcome)
          )
        const read = (tenant: string | undefined, path: string) => call(tenant, "read_file", { path })
        yield* call("acme", "write_file", { path: "a.txt", content: "the files of acme" })
        const acme = locateWorkspace(paths, home, "acme")
        assert.strictEqual(readFileSync(join(acme, "a.txt"), "utf8"), "the files of acme")
        assert.include(yield* read("acme", join(acme, "a.txt")), "the files of acme")
        for (const tenant of ["zeta", "named", "open", undefined]) {
          const denied = yield* read(tenant, join(acme, "a.txt"))
          assert.notInclude(denied, "the files of acme", tenant)
          assert.match(denied, /outside of the workspace|belongs to a tenant/u, tenant)
          const listed = yield* call(tenant, "search_files", { pattern: "files of", path: join(home, "tenants") })
          assert.notInclude(listed, "the files of acme", tenant)
        }
        assert.include(yield* read("named", "named.txt"), "the files of named")
        assert.include(yield* read("wrong", "named.txt"), "Create it first")
        assert.include(yield* read("castor", "a.txt"), "is the workspace of tenant pollux, too")
        assert.include(yield* read("pollux", "a.txt"), "is the workspace of tenant castor, too")
        assert.isFalse(existsSync(`${named}-absent`))
        // Settings and keys of the server are outside of every workspace.
        assert.include(yield* read("acme", join(home, "config.yaml")), "is not read")
        assert.include(yield* read("acme", join(process.cwd(), "package.json")), "outside of the workspace")
        assert.include(yield* read("open", join(process.cwd(), "package.json")), "hermes-effect")
      }).pipe(Effect.provide(Configured.layer({ config, home })))
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})

describe("tenants of a server's keys", () => {
  it.live("work in their workspaces, and the other keys in the directory of the server", () =>
    Effect.gen(function* () {
      const root = realpathSync(yield* temporaryDirectory)
      const keys = ["acme", "zeta", "open", "free"].map((name) => ({
        name,
        key: Redacted.make(`${name}-key-of-this-test`),
        tenant: name === "free" ? undefined : name
      }))
      for (const name of ["acme", "zeta"]) {
        mkdirSync(join(root, name))
        writeFileSync(join(root, name, "a.txt"), `the files of ${name}`)
        writeFileSync(join(root, name, "AGENTS.md"), `Instructions of ${name}`)
      }
      const plays = {
        "read it": [{ calls: [["read_file", { path: "a.txt" }]] as const }, { text: "Read." }],
        "read of acme": [{ calls: [["read_file", { path: join(root, "acme/a.txt") }]] as const }, { text: "Read." }]
      }
      const tenants = [
        { id: "acme", workspace: join(root, "acme") },
        { id: "zeta", workspace: join(root, "zeta") },
        { id: "open", workspace: "shared" }
      ]
      const served = yield* world(plays, { keys }, (runtime) => Layer.provideMerge(runtime, Tenants.layerFrom(tenants)))
      writeFileSync(join(served.cwd, "a.txt"), "the files of the server")
      const ask = (name: string, prompt: string) =>
        Effect.promise(async () => {
          const before = served.seen.length
          const headers = { authorization: `Bearer ${name}-key-of-this-test` }
          const { status } = await served.fetched("/v1/chat/completions", {
            json: { messages: [user(prompt)] },
            headers
          })
          assert.strictEqual(status, 200)
          return JSON.stringify(served.seen.slice(before))
        })
      for (const [name, text] of [
        ["acme", "the files of acme"],
        ["zeta", "the files of zeta"],
        ["open", "the files of the server"],
        ["free", "the files of the server"]
      ] as const)
        assert.include(yield* ask(name, "read it"), text, name)
      assert.notInclude(yield* ask("zeta", "read of acme"), "the files of acme")
    }).pipe(Effect.scoped)
  )
})

describe("a tenant of createHermes", () => {
  it.live("works in the directory that the lookup names", () =>
    Effect.gen(function* () {
      const root = realpathSync(yield* temporaryDirectory)
      const hermes = createHermes({ model: "offline", cwd: root, tenants: (id) => ({ id, workspace: join(root, id) }) })
      mkdirSync(join(root, "acme"))
      yield* Effect.promise(async () => {
        assert.strictEqual((await hermes.run({ prompt: "Reply exactly hello", tenant: "acme" })).text, "hello")
        const refused: unknown = await hermes
          .run({ prompt: "Hello", tenant: "absent" })
          .catch((error: unknown) => error)
        assert.include(String(refused), "the workspace of tenant absent cannot be used")
        const outside: unknown = await hermes
          .run({ prompt: "Hello", tenant: "acme", cwd: root })
          .catch((error: unknown) => error)
        assert.include(String(outside), "is not in the workspace of tenant acme")
        await hermes.dispose()
      })
    }).pipe(Effect.scoped)
  )
})
