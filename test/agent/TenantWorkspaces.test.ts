// The workspace of a tenant: its tools work there and nowhere else, whatever the model, the caller or a link names.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as TenantRemoval from "../../src/agent/TenantRemoval.ts"
import * as TenantWorkspaces from "../../src/agent/TenantWorkspaces.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import type { RunInput } from "../../src/agent/RunInput.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { locateWorkspace } from "../../src/store/TenantFolder.ts"
import { CurrentTenant } from "../../src/store/TenantScope.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as SystemPrompt from "../../src/tools/prompt/SystemPrompt.ts"
import * as Path from "effect/Path"
import * as Fake from "../support/fakeModel.ts"

/** A directory with a workspace for each of two tenants, and a file beside them. */
const places = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "hermes-workspaces-")))),
    (root) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
  ),
  (root) => {
    const put = (name: string, text: string): void => {
      mkdirSync(join(root, name, ".."), { recursive: true })
      writeFileSync(join(root, name), text)
    }
    put("acme/notes.txt", "the harbour of acme")
    put("acme/below/deep.txt", "deep harbour")
    put("zeta/notes.txt", "the mill of zeta")
    put("server.txt", "the secret of the server")
    return { root, put, acme: join(root, "acme"), zeta: join(root, "zeta") }
  }
)

const runtimeWith = (fake: Fake.Fake, tenants: Layer.Layer<Tenants.Tenants>) =>
  Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    retry: RetryPolicy.none,
    approvals: Approvals.layerCallback(() => Effect.succeed("once" as const)),
    tools: [FileTools.toolset, TerminalTools.toolset, ExecuteCode.toolset],
    store: SessionStore.layerMemory,
    tenants
  }).pipe(Layer.provideMerge(NodeServices.layer))

/** Runs calls for a tenant, one after the other, and returns their results. */
const runCalls = Effect.fnUntraced(function* (
  tenants: ReadonlyArray<Tenant>,
  calls: ReadonlyArray<readonly [tool: string, params: unknown]>,
  input: Omit<Partial<RunInput>, "prompt"> = {}
) {
  const turns = calls.map(([tool, params], index) => Fake.calls(Fake.call(`c${index}`, tool, params)))
  const fake = Fake.make(...turns, Fake.text("done"))
  const asked = Agent.run({ prompt: "Work", tenant: "acme", ...input })
  yield* Effect.provide(asked, runtimeWith(fake, Tenants.layerFrom(tenants)))
  const messages = fake.asked.at(-1)?.messages ?? []
  return messages.filter(({ role }) => role === "tool").map((message) => JSON.stringify(message))
})

const both = ({ acme, zeta }: { readonly acme: string; readonly zeta: string }): ReadonlyArray<Tenant> => [
  { id: "acme", workspace: acme },
  { id: "zeta", workspace: zeta }
]

/** Returns the refusal of a run. */
const refuseRun = (tenants: ReadonlyArray<Tenant>, input: Omit<Partial<RunInput>, "prompt"> = {}) => {
  const fake = Fake.make(Fake.text("done"))
  return Effect.map(
    Effect.flip(
      Effect.provide(
        Agent.run({ prompt: "Work", tenant: "acme", ...input }),
        runtimeWith(fake, Tenants.layerFrom(tenants))
      )
    ),
    (error) => {
      assert.strictEqual(fake.asked.length, 0)
      assert.deepInclude(error, { _tag: "TenantRefused", reason: "workspace", tenant: "acme" })
      return String(error.message)
    }
  )
}

describe("the tools of a tenant with a workspace", () => {
  it.live("read, write and search its files", () =>
    Effect.gen(function* () {
      const at = yield* places
      const results = yield* runCalls(both(at), [
        ["read_file", { path: "notes.txt" }],
        ["read_file", { path: join(at.acme, "below/deep.txt") }],
        ["write_file", { path: "made/new.txt", content: "made" }],
        ["search_files", { pattern: "harbour" }]
      ])
      assert.include(results[0], "the harbour of acme")
      assert.include(results[1], "deep harbour")
      assert.strictEqual(readFileSync(join(at.acme, "made/new.txt"), "utf8"), "made")
      assert.include(results[3], "below/deep.txt")
    }).pipe(Effect.scoped)
  )

  it.live("neither read nor write what is outside, by any name", () =>
    Effect.gen(function* () {
      const at = yield* places
      symlinkSync(at.zeta, join(at.acme, "link"))
      symlinkSync(join(at.root, "server.txt"), join(at.acme, "server-link.txt"))
      symlinkSync(join(at.zeta, "planted.txt"), join(at.acme, "dangling"))
      const outside = [
        "../zeta/notes.txt",
        join(at.zeta, "notes.txt"),
        join(at.acme, "../zeta/notes.txt"),
        "link/notes.txt",
        "server-link.txt",
        "../server.txt",
        `${at.acme}-other/notes.txt`,
        "/var/lib/other.txt"
      ]
      const results = yield* runCalls(both(at), [
        ...outside.map((path) => ["read_file", { path }] as const),
        ...outside.map((path) => ["write_file", { path, content: "planted" }] as const),
        ["write_file", { path: "dangling", content: "planted" }],
        ["patch", { mode: "replace", path: "link/notes.txt", old_string: "mill", new_string: "planted" }],
        ["search_files", { pattern: "mill", path: ".." }],
        ["search_files", { pattern: "mill", path: at.zeta }],
        ["search_files", { pattern: "mill", path: "link" }],
        ["search_files", { pattern: "secret|mill" }]
      ])
      for (const [index, result] of results.slice(0, -1).entries())
        assert.include(result, "outside of the workspace", `call ${index}`)
      for (const result of results) {
        assert.notInclude(result, "mill of zeta")
        assert.notInclude(result, "secret of the server")
      }
      assert.strictEqual(readFileSync(join(at.zeta, "notes.txt"), "utf8"), "the mill of zeta")
      assert.isFalse(existsSync(join(at.zeta, "planted.txt")))
      assert.strictEqual(readFileSync(join(at.root, "server.txt"), "utf8"), "the secret of the server")
    }).pipe(Effect.scoped)
  )

  it.live("run no program without a sandbox", () =>
    Effect.gen(function* () {
      const at = yield* places
      const planted = join(at.root, "planted")
      const results = yield* runCalls(both(at), [
        ["terminal", { command: `touch ${planted}` }],
        ["terminal", { command: `touch ${planted}`, background: true }],
        [
          "execute_code",
          { language: "javascript", code: `import("node:fs").then((fs) => fs.writeFileSync("${planted}", ""))` }
        ]
      ])
      for (const result of results) assert.include(result, "there is no sandbox")
      assert.isFalse(existsSync(planted))
    }).pipe(Effect.scoped)
  )

  it.live("are not limited if the tenant shares the directory of the runtime", () =>
    Effect.gen(function* () {
      const at = yield* places
      for (const workspace of ["shared", undefined]) {
        const tenants = [{ id: "acme", workspace }, { id: "zeta" }]
        const results = yield* runCalls(
          tenants,
          [
            ["read_file", { path: "notes.txt" }],
            ["terminal", { command: "pwd" }]
          ],
          { cwd: at.zeta }
        )
        assert.include(results[0], "the mill of zeta")
        assert.include(results[1], at.zeta)
      }
    }).pipe(Effect.scoped)
  )

  it.live("work in the workspace when a tool is called directly", () =>
    Effect.gen(function* () {
      const at = yield* places
      const fake = Fake.make(Fake.text("done"))
      yield* Effect.gen(function* () {
        const agent = yield* Agent.Agent
        const read = (path: string, cwd?: string) =>
          Effect.provideService(
            agent.callTool({ name: "read_file", args: { path }, ...(cwd === undefined ? {} : { cwd }) }),
            CurrentTenant,
            "acme"
          )
        assert.include(JSON.stringify((yield* read("notes.txt")).output), "the harbour of acme")
        assert.include(JSON.stringify((yield* read("deep.txt", join(at.acme, "below"))).output), "deep harbour")
        assert.include(JSON.stringify(yield* read("notes.txt", at.zeta)), "not in the workspace of tenant acme")
        assert.include(JSON.stringify(yield* read(join(at.zeta, "notes.txt"))), "outside of the workspace")
      }).pipe(Effect.provide(runtimeWith(fake, Tenants.layerFrom(both(at)))))
    }).pipe(Effect.scoped)
  )
})

describe("the directory of a run with a workspace", () => {
  it.live("is the workspace, or a directory in it", () =>
    Effect.gen(function* () {
      const at = yield* places
      for (const [cwd, file] of [
        [undefined, "notes.txt"],
        [at.acme, "notes.txt"],
        [join(at.acme, "below"), "deep.txt"],
        ["below", "deep.txt"]
      ] as const) {
        const [result] = yield* runCalls(both(at), [["read_file", { path: file }]], { cwd })
        assert.include(result, "harbour", String(cwd))
      }
    }).pipe(Effect.scoped)
  )

  it.live("is refused outside of it", () =>
    Effect.gen(function* () {
      const at = yield* places
      symlinkSync(at.zeta, join(at.acme, "link"))
      for (const cwd of [at.zeta, at.root, "/", "..", join(at.acme, "link"), "link", `${at.acme}-other`])
        assert.include(
          yield* refuseRun(both(at), { cwd }),
          `the directory ${cwd} is not in the workspace of tenant acme`
        )
    }).pipe(Effect.scoped)
  )

  it.live("has the instructions of the workspace in the system prompt, and no others", () =>
    Effect.gen(function* () {
      const at = yield* places
      mkdirSync(join(at.root, ".git"))
      at.put("AGENTS.md", "Serve all tenants.")
      at.put("acme/AGENTS.md", "Sail on Mondays.")
      const fake = Fake.make(Fake.text("done"))
      yield* Effect.gen(function* () {
        yield* Agent.run({ prompt: "Work", tenant: "acme", cwd: join(at.acme, "below") })
        const agent = yield* Agent.Agent
        const layers = yield* Effect.provideService(agent.promptLayers(), CurrentTenant, "acme")
        for (const text of [JSON.stringify(fake.asked[0]?.messages[0]), SystemPrompt.render(layers)]) {
          assert.notInclude(text, "Serve all tenants")
          assert.include(text, at.acme)
        }
        assert.include(SystemPrompt.render(layers), "Sail on Mondays")
      }).pipe(
        Effect.provide(
          runtimeWith(fake, Tenants.layerFrom(both(at))).pipe(
            Layer.provide(Layer.provide(SystemPrompt.layerSources({ project: true }), NodeServices.layer))
          )
        )
      )
    }).pipe(Effect.scoped)
  )
})

describe("a workspace", () => {
  const refusalOf = (tenant: Tenant, known: ReadonlyArray<Tenant> = [], options: TenantWorkspaces.Options = {}) =>
    Effect.gen(function* () {
      const workspaces = yield* TenantWorkspaces.makeWorkspaces({ ...options, known })
      return (yield* Effect.flip(workspaces.resolve(tenant))).message
    })

  it.live("that does not exist, is no directory or is relative is refused", () =>
    Effect.gen(function* () {
      const at = yield* places
      const cases = [
        [join(at.root, "absent"), "no such file or directory. Create it first"],
        [join(at.root, "server.txt"), "is not a directory"],
        ["acme", "is not an absolute directory"],
        ["", "is not an absolute directory"]
      ] as const
      for (const [workspace, problem] of cases)
        assert.include(yield* refuseRun([{ id: "acme", workspace }]), problem, workspace)
      assert.isFalse(existsSync(join(at.root, "absent")))
    }).pipe(Effect.scoped)
  )

  it.live("that holds the runtime's directory, a home or data of hermes is refused", () =>
    Effect.gen(function* () {
      const at = yield* places
      assert.include(yield* refusalOf({ id: "acme", workspace: "/" }), "holds the directory of the runtime")
      const own = { id: "acme", workspace: process.cwd() }
      assert.include(yield* refusalOf(own), "shared to share that directory")
      const apart = [join(at.acme, "below")]
      assert.include(yield* refusalOf({ id: "acme", workspace: at.acme }, [], { apart }), "not apart from the data")
      const inside = { id: "acme", workspace: join(at.acme, "below") }
      assert.include(yield* refusalOf(inside, [], { apart: [at.acme] }), "not apart from the data")
    }).pipe(Effect.scoped)
  )

  it.live("is shared by tenants that both state it, and by no others", () =>
    Effect.gen(function* () {
      const at = yield* places
      symlinkSync(at.acme, join(at.root, "other-name"))
      const zeta = { id: "zeta", workspace: at.acme }
      const other = { id: "acme", workspace: join(at.root, "other-name") }
      const shares = { sharesWorkspace: true }
      for (const [one, two] of [
        [other, zeta],
        [{ ...other, ...shares }, zeta],
        [other, { ...zeta, ...shares }]
      ] as const)
        assert.include(yield* refusalOf(one, [two]), "is the workspace of tenant zeta, too")
      const workspaces = yield* TenantWorkspaces.makeWorkspaces({ known: [{ ...zeta, ...shares }] })
      const found = yield* workspaces.resolve({ ...other, ...shares })
      assert.strictEqual(found?.directory, at.acme)
      assert.notInclude(found?.hidden ?? [], at.acme)
    }).pipe(Effect.scoped)
  )

  it.live("is not inside of the one of another tenant, which may be known by a lookup", () =>
    Effect.gen(function* () {
      const at = yield* places
      const below = join(at.acme, "below")
      const workspaces = yield* TenantWorkspaces.makeWorkspaces({})
      yield* workspaces.resolve({ id: "acme", workspace: at.acme })
      const inside = yield* Effect.flip(workspaces.resolve({ id: "zeta", workspace: below }))
      assert.include(inside.message, "is inside of the workspace of tenant acme")
      // A tenant whose directory changed leaves the old one to others.
      yield* workspaces.resolve({ id: "acme", workspace: at.zeta })
      yield* workspaces.resolve({ id: "zeta", workspace: below })
      const around = yield* Effect.flip(workspaces.resolve({ id: "acme", workspace: at.acme }))
      assert.include(around.message, "holds the workspace of tenant zeta")
    }).pipe(Effect.scoped)
  )

  it.live("is made in the folder of a tenant that names none, and is removed with it", () =>
    Effect.gen(function* () {
      const at = yield* places
      const paths = yield* Path.Path
      const folder = join(at.root, "home")
      const workspaces = yield* TenantWorkspaces.makeWorkspaces({ folder, apart: [folder] })
      const resolve = (id: string) => Effect.map(workspaces.resolve({ id }), (found) => found?.directory ?? "")
      const [acme, zeta] = [yield* resolve("acme"), yield* resolve("zeta")]
      assert.strictEqual(acme, locateWorkspace(paths, folder, "acme"))
      assert.notStrictEqual(acme, zeta)
      assert.include((yield* workspaces.resolve({ id: "acme" }))?.hidden ?? [], zeta)
      at.put("home/keep.txt", "kept")
      writeFileSync(join(acme, "a.txt"), "a")
      symlinkSync(at.zeta, join(acme, "link"))
      const removed = yield* TenantRemoval.removeTenant("acme", [TenantRemoval.makeFolderPart("files", folder)])
      assert.isAtLeast(removed["files"] ?? 0, 1)
      assert.isFalse(existsSync(acme))
      for (const kept of [zeta, join(folder, "keep.txt"), join(at.zeta, "notes.txt")]) assert.isTrue(existsSync(kept))
      // A link in its place would lead the tools elsewhere.
      mkdirSync(join(acme, ".."), { recursive: true })
      symlinkSync(at.zeta, acme)
      assert.include((yield* Effect.flip(workspaces.resolve({ id: "acme" }))).message, "is a link")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live("of a lookup is made for each tenant below the folder of the application", () =>
    Effect.gen(function* () {
      const at = yield* places
      const folder = join(at.root, "customers")
      const tenants = Tenants.layer({ lookup: (id) => Effect.succeed({ id }), workspaces: folder })
      const fake = Fake.make(
        Fake.calls(Fake.call("c1", "write_file", { path: "a.txt", content: "of acme" })),
        Fake.text("done"),
        Fake.calls(Fake.call("c2", "read_file", { path: "a.txt" })),
        Fake.text("done")
      )
      yield* Effect.gen(function* () {
        yield* Agent.run({ prompt: "Write", tenant: "acme" })
        yield* Agent.run({ prompt: "Read", tenant: "zeta" })
      }).pipe(Effect.provide(runtimeWith(fake, tenants)))
      assert.include(JSON.stringify(fake.asked.at(-1)?.messages), "no such file")
      assert.notInclude(JSON.stringify(fake.asked.at(-1)?.messages), "of acme")
    }).pipe(Effect.scoped)
  )
})

describe("tenants without workspaces", () => {
  it.effect("are reported once when a second one works in the directory of the runtime", () => {
    const logged: Array<string> = []
    const logger = Logger.make(({ message }) => void logged.push(String(message)))
    const tenants: ReadonlyArray<Tenant> = [
      { id: "acme" },
      { id: "zeta" },
      { id: "third" },
      { id: "stated", workspace: "shared" }
    ]
    return Effect.gen(function* () {
      const { within } = yield* Tenants.Tenants
      for (const id of ["stated", "acme", "acme"]) yield* within(id, Effect.void)
      assert.deepStrictEqual(logged, [])
      for (const id of ["zeta", "third", "acme", "zeta"]) yield* within(id, Effect.void)
      assert.strictEqual(logged.length, 1)
      assert.match(logged[0] ?? "", /^Tenants acme and zeta have no workspace.* set `workspaces`/u)
    }).pipe(Effect.provide(Tenants.layerFrom(tenants)), Effect.provide(Logger.layer([logger])))
  })
})
