// Trust of folders: by real path and owner, with what lies in them, up to another repository.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { mkdirSync, readFileSync, realpathSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Home, ProcessVariables } from "../../../src/base/config/Environment.ts"
import { fileName, FolderTrust, layer as trustLayer, makeUntrustedError } from "../../../src/base/config/FolderTrust.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const worldOf = (variables: (root: string) => Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const root = realpathSync(yield* temporaryDirectory)
    const folder = (name: string): string => {
      mkdirSync(join(root, name), { recursive: true })
      return join(root, name)
    }
    const layer = trustLayer.pipe(
      Layer.provide(Home.layerAt(join(root, ".hermes"))),
      Layer.provide(Layer.succeed(ProcessVariables, { HOME: root, ...variables(root) })),
      Layer.provide(NodeServices.layer)
    )
    return {
      root,
      folder,
      file: join(root, ".hermes", fileName),
      layer,
      trust: yield* Effect.provide(FolderTrust, layer)
    }
  })

const world = worldOf(() => ({}))

describe("FolderTrust", () => {
  it.live("a folder is trusted once, with what lies in it, and forgotten again", () =>
    Effect.gen(function* () {
      const { file, folder, trust } = yield* world
      const project = folder("a project")
      assert.isFalse(yield* trust.isTrusted(project))
      assert.deepStrictEqual(yield* trust.list, [])
      const entry = yield* trust.trust(project)
      assert.deepInclude(entry, { path: project, owner: statSync(project).uid })
      assert.isTrue(yield* trust.isTrusted(project))
      assert.isTrue(yield* trust.isTrusted(folder("a project/agents/deep")))
      assert.isFalse(yield* trust.isTrusted(folder("a project two")))
      assert.isFalse(yield* trust.isTrusted(join(project, "no such folder")))
      yield* trust.trust(project)
      assert.strictEqual((yield* trust.list).length, 1)
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      assert.isTrue(yield* trust.forget(project))
      assert.isFalse(yield* trust.forget(project))
      assert.isFalse(yield* trust.isTrusted(project))
    })
  )

  it.live(
    "HERMES_TRUST_FOLDER trusts the folder of an absolute path, with what lies in it, and is not written down",
    () =>
      Effect.gen(function* () {
        const { folder, root, trust } = yield* worldOf((root) => ({ HERMES_TRUST_FOLDER: join(root, "project") }))
        folder("project/deep")
        folder("project/cloned/.git")
        const judged = (...names: ReadonlyArray<string>) =>
          Effect.forEach(names, (name) => trust.isTrusted(join(root, name)))
        assert.deepStrictEqual(yield* judged("project", "project/deep", "project/cloned", ".", "project two"), [
          true,
          true,
          false,
          false,
          false
        ])
        assert.deepStrictEqual(yield* trust.list, [])
        for (const named of [".", "project", "/", "", "/no such folder"]) {
          const other = yield* worldOf((root) => ({ HERMES_TRUST_FOLDER: named === "." ? root : named }))
          assert.isFalse(yield* other.trust.isTrusted(other.folder("project")), named)
        }
      })
  )

  it.live(
    "parts of a project are withheld until it is trusted; what is not there, and the home directory, is none",
    () =>
      Effect.gen(function* () {
        const { folder, root, trust } = yield* world
        const cwd = folder("project/src")
        folder("project/.git/refs")
        assert.deepStrictEqual(yield* trust.withheld(cwd), [])
        const parts = [
          folder("project/src/.agents/skills"),
          folder("project/.hermes/agents"),
          folder("project/.hermes/plugins")
        ]
        assert.deepStrictEqual(yield* trust.withheld(cwd), parts)
        yield* trust.trust(join(root, "project"))
        assert.deepStrictEqual(yield* trust.withheld(cwd), [])
        folder(".hermes/skills")
        assert.deepStrictEqual(yield* trust.withheld(root), [])
      })
  )

  it.live("a link is as trusted as the folder that it names; a folder in the place of another one is not", () =>
    Effect.gen(function* () {
      const { folder, root, trust } = yield* world
      const project = folder("project")
      const other = folder("other")
      symlinkSync(project, join(root, "link"))
      yield* trust.trust(join(root, "link"))
      assert.isTrue(yield* trust.isTrusted(project))
      symlinkSync(other, join(project, "out"))
      assert.isFalse(yield* trust.isTrusted(join(project, "out")))
      renameSync(project, join(root, "moved"))
      assert.isFalse(yield* trust.isTrusted(join(root, "moved")))
      assert.isFalse(yield* trust.isTrusted(join(root, "link")))
      assert.isTrue(yield* trust.forget(project))
    })
  )

  it.live("a repository inside of a trusted folder is not trusted with it", () =>
    Effect.gen(function* () {
      const { folder, trust } = yield* world
      const projects = folder("projects")
      folder("projects/.git/refs")
      yield* trust.trust(projects)
      assert.isTrue(yield* trust.isTrusted(projects))
      const cloned = folder("projects/vendor/cloned")
      folder("projects/vendor/cloned/.git/refs")
      assert.isFalse(yield* trust.isTrusted(cloned))
      assert.isFalse(yield* trust.isTrusted(folder("projects/vendor/cloned/agents")))
      assert.isTrue(yield* trust.isTrusted(folder("projects/vendor")))
      assert.strictEqual(yield* trust.findOwnProject(folder("projects/vendor/cloned/agents")), cloned)
      assert.strictEqual(yield* trust.findOwnProject(folder("projects/vendor")), projects)
      // An empty one is none to git: it widens no question, and still ends trust.
      const beside = folder("projects/beside")
      folder("projects/beside/.git")
      assert.strictEqual(yield* trust.findOwnProject(beside), projects)
      assert.isFalse(yield* trust.isTrusted(beside))
    })
  )

  it.live("another owner, of the folder or of one inside it, is not trusted", () =>
    Effect.gen(function* () {
      const { folder, root, trust } = yield* world
      const project = folder("project")
      const inner = folder("project/inner")
      yield* trust.trust(project)
      const owned = (changed: string) =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          const stat: typeof fs.stat = (path) =>
            Effect.map(fs.stat(path), (info) => (path === changed ? { ...info, uid: Option.some(4711) } : info))
          const layer = trustLayer.pipe(
            Layer.provide(Home.layerAt(join(root, ".hermes"))),
            Layer.provide(Layer.succeed(FileSystem.FileSystem, { ...fs, stat })),
            Layer.provide(NodeServices.layer)
          )
          return yield* Effect.provide(FolderTrust, layer)
        }).pipe(Effect.provide(NodeServices.layer))
      assert.isFalse(yield* (yield* owned(project)).isTrusted(project))
      assert.isFalse(yield* (yield* owned(inner)).isTrusted(inner))
      assert.isTrue(yield* (yield* owned(inner)).isTrusted(project))
    })
  )

  it.live("the program's home directory is trusted; / and the user's directory cannot be", () =>
    Effect.gen(function* () {
      const { folder, root, trust } = yield* world
      assert.isTrue(yield* trust.isTrusted(folder(".hermes/agents")))
      for (const wide of ["/", root, join(root, "..")]) {
        assert.match(
          (yield* Effect.flip(trust.trust(wide))).message,
          /: this folder holds everything else too: trust the folder of the project$/
        )
      }
      writeFileSync(join(root, "file"), "")
      assert.include((yield* Effect.flip(trust.trust(join(root, "file")))).message, "this is not a folder")
      assert.include(
        (yield* Effect.flip(trust.trust(join(root, "none")))).message,
        "none: cannot be trusted: no such file or directory"
      )
      assert.deepStrictEqual(yield* trust.list, [])
    })
  )

  it.live("a list that cannot be read trusts nothing, and is not overwritten", () =>
    Effect.gen(function* () {
      const { file, folder, trust } = yield* world
      const project = folder("project")
      yield* trust.trust(project)
      writeFileSync(file, '{"folders": [')
      assert.isFalse(yield* trust.isTrusted(project))
      assert.match(
        (yield* Effect.flip(trust.trust(project))).message,
        /trusted-folders\.json cannot be used; correct or remove it: /
      )
      assert.strictEqual(readFileSync(file, "utf8"), '{"folders": [')
      writeFileSync(file, JSON.stringify({ folders: [{ path: project, owner: null, trusted_at: "x", note: "mine" }] }))
      assert.isFalse(yield* trust.isTrusted(project), "no owner was recorded")
      const other = folder("other")
      yield* trust.trust(other)
      assert.include(readFileSync(file, "utf8"), '"note": "mine"')
    })
  )

  it("the refusal of a file is one line with the command", () => {
    assert.strictEqual(
      makeUntrustedError("/w/p/agent.yaml", "/w/p").message,
      "/w/p/agent.yaml is not used: its folder is not trusted. Look at it, then run `hermes trust add /w/p`"
    )
    assert.include(makeUntrustedError("/w/a b/x", "/w/a b").message, '`hermes trust add "/w/a b"`')
  })
})
