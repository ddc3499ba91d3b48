// The walls of a sandbox in the work for a tenant: its workspace is written, and the directories of others are hidden.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { CallDirectory, CurrentWorkspace, type Workspace } from "../../src/base/domain/CallContext.ts"
import * as SandboxFiles from "../../src/places/SandboxFiles.ts"
import * as SandboxPlaces from "../../src/places/SandboxPlaces.ts"
import { findRule } from "../../src/places/SandboxRules.ts"
import { makeLastingDirectory, markAsRepository } from "../support/temporaryDirectory.ts"

/** A home of hermes with workspaces of two tenants, inside of a repository, with a named workspace beside it. */
const machine = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => makeLastingDirectory("workspace-rules-")),
    (root) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
  ),
  (root) => {
    const put = (name: string, text = "text"): string => {
      mkdirSync(join(root, name, ".."), { recursive: true })
      writeFileSync(join(root, name), text)
      return join(root, name)
    }
    markAsRepository(root)
    const home = join(root, ".hermes")
    const acme = join(home, "tenants/acme/workspace")
    return {
      root,
      home,
      acme,
      named: join(root, "customers/acme"),
      own: put(".hermes/tenants/acme/workspace/notes.txt"),
      ofZeta: put(".hermes/tenants/zeta/workspace/notes.txt"),
      ownNamed: put("customers/acme/notes.txt"),
      ofZetaNamed: put("customers/zeta/notes.txt"),
      ofRuntime: put("server/app.ts"),
      repository: (markAsRepository(join(root, "customers/acme/repo")), put("customers/acme/repo/main.ts"))
    }
  }
)

const makePlaces = Effect.fnUntraced(function* (home: string, root: string) {
  const temporary = { directory: "/tmp", rules: [], sources: [] }
  const places = yield* SandboxPlaces.makeRules(
    {
      policy: "workspace-write",
      home: join(root, "..", "no-user"),
      writable: [],
      hidden: [home],
      shown: [],
      hidesEnvFiles: true
    },
    Effect.succeed(temporary),
    "mounted"
  )
  const files = SandboxFiles.make({
    host: yield* FileSystem.FileSystem,
    path: yield* Path.Path,
    rules: places.rules,
    temporary: Effect.succeed("/tmp"),
    admitWrite: places.watch.admit
  })
  const as =
    (workspace: Workspace, directory = workspace.directory) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      effect.pipe(Effect.provideService(CallDirectory, directory), Effect.provideService(CurrentWorkspace, workspace))
  return { ...places, files, as }
})

describe("the walls of a tenant with a workspace", () => {
  it.live("let its files be written, and hide the files of others and of the runtime", () =>
    Effect.gen(function* () {
      const at = yield* machine
      const { as, rules } = yield* makePlaces(at.home, at.root)
      for (const [workspace, own, others] of [
        [{ directory: at.acme, hidden: [join(at.home, "tenants")] }, at.own, [at.ofZeta, at.home]],
        [
          { directory: at.named, hidden: [join(at.root, "customers"), join(at.root, "server")] },
          at.ownNamed,
          [at.ofZetaNamed, at.ofRuntime, at.ofZeta, at.own]
        ]
      ] as const) {
        const list = yield* as(workspace)(rules)
        assert.strictEqual(findRule(list, own)?.allows, "write")
        for (const other of others) assert.strictEqual(findRule(list, other)?.allows, "nothing", other)
        // The repository around the workspace is not its tree.
        assert.notStrictEqual(findRule(list, join(at.root, "README.md"))?.allows, "write")
      }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live("show the workspace, and let the repository of the call be written", () =>
    Effect.gen(function* () {
      const at = yield* machine
      const { as, rules } = yield* makePlaces(at.home, at.root)
      const workspace = { directory: at.named, hidden: [join(at.root, "customers")] }
      const list = yield* as(workspace, join(at.named, "repo"))(rules)
      assert.strictEqual(findRule(list, at.repository)?.allows, "write")
      assert.strictEqual(findRule(list, at.ownNamed)?.allows, "read")
      assert.strictEqual(findRule(list, at.ofZetaNamed)?.allows, "nothing")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live("hold the files of the tools behind links, and differ between tenants in the same second", () =>
    Effect.gen(function* () {
      const at = yield* machine
      const { as, files } = yield* makePlaces(at.home, at.root)
      symlinkSync(at.ofZetaNamed, join(at.named, "link"))
      const inside = as({ directory: at.named, hidden: [join(at.root, "customers")] })
      for (const refused of [
        files.readFileString(join(at.named, "link")),
        files.readFileString(at.ofZetaNamed),
        files.writeFileString(join(at.named, "link"), "planted"),
        files.writeFileString(at.ofRuntime, "planted"),
        files.readDirectory(join(at.root, "customers/zeta"))
      ])
        assert.strictEqual((yield* Effect.flip(inside(refused)))._tag, "PlatformError")
      yield* inside(files.writeFileString(at.ownNamed, "changed"))
      assert.strictEqual(readFileSync(at.ownNamed, "utf8"), "changed")
      const ofZeta = as({ directory: join(at.root, "customers/zeta"), hidden: [join(at.root, "customers")] })
      assert.strictEqual(yield* ofZeta(files.readFileString(at.ofZetaNamed)), "text")
      yield* Effect.flip(ofZeta(files.readFileString(at.ownNamed)))
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
