// Snapshots of working trees on this machine: what a hostile repository cannot do with them, what they do not see, and
// what the user's own repository looks like afterwards.
import { assert, describe, it } from "@effect/vitest"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PlatformError from "effect/PlatformError"
import { ChildProcessSpawner, make as makeSpawner } from "effect/process/ChildProcessSpawner"
import { execFileSync } from "node:child_process"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { CommandEnvironment, layerLocal } from "../../src/places/CommandEnvironment.ts"
import * as TreeSnapshot from "../../src/places/TreeSnapshot.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const git = (tree: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
    env: { PATH: process.env["PATH"], GIT_CONFIG_GLOBAL: "/dev/null" }
  })

const world = Effect.gen(function* () {
  const home = yield* temporaryDirectory
  const tree = join(home, "project")
  mkdirSync(tree)
  const environment = yield* CommandEnvironment
  const options: TreeSnapshot.Options = {
    directory: join(home, "trees"),
    apart: [join(home, "project/own")],
    home,
    isHidden: (path) => path.endsWith(".pem")
  }
  const snapshots = yield* TreeSnapshot.make(environment, options)
  /** The changes that work makes: names with the contents before and after, `-` where none is kept. */
  const during = Effect.fnUntraced(function* (work: () => void) {
    const before = yield* snapshots.take(tree)
    work()
    const { changes, unseen } = yield* before.since
    const show = (state: TreeSnapshot.FileState | undefined) =>
      state === undefined
        ? ""
        : state.content === undefined
          ? `- ${state.size}`
          : new TextDecoder("latin1").decode(state.content)
    return {
      unseen,
      found: changes
        .map(({ after, before, path }) => [path.slice(tree.length + 1), show(before), show(after)].join("|"))
        .toSorted()
    }
  })
  const put = (name: string, text: string | Uint8Array) => {
    mkdirSync(join(tree, name, ".."), { recursive: true })
    writeFileSync(join(tree, name), text)
  }
  return { during, environment, home, options, put, snapshots, tree }
})

const live = <E>(
  name: string,
  effect: Effect.Effect<void, E, import("effect/Scope").Scope | CommandEnvironment | import("effect/Path").Path>
) =>
  it.live(name, () =>
    Effect.scoped(effect).pipe(
      Effect.provide(Layer.mergeAll(layerLocal, NodePath.layer).pipe(Layer.provide(ChildProcesses.layer)))
    )
  )

describe("a snapshot of a working tree", () => {
  live(
    "sees renamed directories, links, binary files, modes, and large files without their content",
    Effect.gen(function* () {
      const { during, put, tree } = yield* world
      put("dir/one", "1")
      put("dir/two", "2")
      put("file", "x")
      put("binary", Uint8Array.of(0, 1, 255))
      put("script", "#!/bin/sh\n")
      put("big", "")
      truncateSync(join(tree, "big"), 100 * 1024 * 1024)
      symlinkSync("file", join(tree, "link"))
      const { found } = yield* during(() => {
        renameSync(join(tree, "dir"), join(tree, "moved"))
        put("binary", Uint8Array.of(0, 2, 255))
        rmSync(join(tree, "link"))
        symlinkSync("script", join(tree, "link"))
        chmodSync(join(tree, "script"), 0o755)
        truncateSync(join(tree, "big"), 101 * 1024 * 1024)
        rmSync(join(tree, "file"))
        put("file/inside", "now a directory")
      })
      assert.deepStrictEqual(found, [
        `big|- ${100 * 1024 * 1024}|- ${101 * 1024 * 1024}`,
        "binary|\u0000\u0001ÿ|\u0000\u0002ÿ",
        "dir/one|1|",
        "dir/two|2|",
        "file/inside||now a directory",
        "file|x|",
        "link|file|script",
        "moved/one||1",
        "moved/two||2",
        "script|#!/bin/sh\n|#!/bin/sh\n"
      ])
    })
  )

  live(
    "leaves out what is ignored, secret, the program's own, and nested repositories, which it names",
    Effect.gen(function* () {
      const { during, put, tree } = yield* world
      git(tree, "init", "-q")
      put(".gitignore", "build/\n*.log\n")
      put(".git/info/exclude", "private\n")
      git(tree, "init", "-q", "nested")
      const { found, unseen } = yield* during(() => {
        for (const name of [
          "build/out",
          "a.log",
          "private",
          "key.pem",
          "node_modules/x/index.js",
          "own/state.db",
          "nested/file",
          "seen"
        ])
          put(name, "new")
      })
      assert.deepStrictEqual(found, ["seen||new"])
      assert.deepStrictEqual(unseen, ["nested repositories and unreadable files: nested/"])
    })
  )

  live(
    "keeps bytes as they are, and runs nothing that a repository names",
    Effect.gen(function* () {
      const { during, put, tree } = yield* world
      git(tree, "init", "-q")
      const ran = join(tree, "..", "RAN")
      const run = `sh -c 'echo x >> ${ran}; cat'`
      for (const [name, value] of [
        ["core.fsmonitor", run],
        ["filter.evil.clean", run],
        ["filter.evil.process", run],
        ["core.hooksPath", join(tree, "hooks")],
        ["core.sshCommand", run],
        ["diff.external", run],
        ["core.autocrlf", "true"]
      ])
        git(tree, "config", name ?? "", value ?? "")
      put("hooks/post-index-change", `#!/bin/sh\necho x >> ${ran}\n`)
      chmodSync(join(tree, "hooks/post-index-change"), 0o755)
      put(".gitattributes", "* text=auto eol=crlf filter=evil ident working-tree-encoding=UTF-16\n")
      git(tree, "init", "-q", "nested")
      git(join(tree, "nested"), "config", "core.fsmonitor", run)
      put("text", "one\r\ntwo\n$Id$\n")
      const { found } = yield* during(() => put("text", "one\n$Id$\r\n"))
      assert.deepStrictEqual(found, ["text|one\r\ntwo\n$Id$\n|one\n$Id$\r\n"])
      assert.isFalse(existsSync(ran))
      git(tree, "status")
      assert.isTrue(existsSync(ran), "an ordinary git would have run it")
    })
  )

  live(
    "leaves the user's index, refs, stash and configuration as they were",
    Effect.gen(function* () {
      const { during, put, tree } = yield* world
      git(tree, "init", "-q")
      put("a", "1")
      git(tree, "add", "a")
      git(tree, "commit", "-qm", "one")
      put("a", "2")
      git(tree, "stash")
      put("a", "3")
      git(tree, "add", "a")
      put("b", "not added")
      const all = () =>
        execFileSync("sh", ["-c", "find . -type f | sort | xargs cksum"], { cwd: join(tree, ".git"), encoding: "utf8" })
      const before = all()
      const { found } = yield* during(() => put("a", "4"))
      assert.deepStrictEqual(found, ["a|3|4"])
      assert.strictEqual(all(), before)
    })
  )

  live(
    "goes on in the next program, and beside another one",
    Effect.gen(function* () {
      const { environment, options, put, tree } = yield* world
      put("a", "1")
      const once = (text: string) =>
        Effect.scoped(
          Effect.gen(function* () {
            const before = yield* (yield* TreeSnapshot.make(environment, options)).take(tree)
            put("a", text)
            return (yield* before.since).changes.length
          })
        )
      assert.deepStrictEqual([yield* once("2"), yield* once("3")], [1, 1])
      assert.deepStrictEqual(yield* Effect.all([once("4"), once("5")], { concurrency: 2 }), [1, 1])
      const [repository = ""] = readdirSync(options.directory)
      assert.deepStrictEqual(
        readdirSync(join(options.directory, repository)).filter((name) => name.startsWith("index")),
        ["index"]
      )
    })
  )

  live(
    "reads the files where there is no git, within bounds, and says so",
    Effect.gen(function* () {
      const { environment, options, put, tree } = yield* world
      const none = makeSpawner(() =>
        Effect.fail(PlatformError.systemError({ _tag: "NotFound", module: "ChildProcess", method: "spawn" }))
      )
      const { take } = yield* TreeSnapshot.make(
        { trees: { ...environment.trees, spawner: ChildProcessSpawner.of(none) } },
        options
      )
      put("a", "1")
      put("gone", "x")
      put(".gitignore", "build/\n")
      put("big", new Uint8Array(2 * 1024 * 1024))
      const before = yield* take(tree)
      put("a", "2")
      put("build/out", "x")
      rmSync(join(tree, "gone"))
      const { changes, unseen } = yield* before.since
      assert.deepStrictEqual(
        changes.map(({ path }) => path.slice(tree.length + 1)),
        ["a", "gone"]
      )
      assert.deepStrictEqual(unseen, ["the contents of 1 large files (install git to keep them)"])
    })
  )

  live(
    "sees that a file changed which it cannot read, where there is no git, and says that it has no contents of it",
    Effect.gen(function* () {
      const {
        environment: { trees },
        options,
        put,
        tree
      } = yield* world
      const none = makeSpawner(() =>
        Effect.fail(PlatformError.systemError({ _tag: "NotFound", module: "ChildProcess", method: "spawn" }))
      )
      const denied = (path: string) =>
        Effect.fail(
          PlatformError.systemError({
            _tag: "PermissionDenied",
            module: "FileSystem",
            method: "readFile",
            pathOrDescriptor: path
          })
        )
      const files = {
        ...trees.files,
        readFile: (path: string) => (path.endsWith("locked") ? denied(path) : trees.files.readFile(path))
      }
      const { take } = yield* TreeSnapshot.make(
        { trees: { ...trees, files, spawner: ChildProcessSpawner.of(none) } },
        options
      )
      put("locked", "1")
      put("same", "1")
      const before = yield* take(tree)
      put("locked", "22")
      const { changes, unseen } = yield* before.since
      assert.deepStrictEqual(
        changes.map(({ after, before, path }) => [
          path.slice(tree.length + 1),
          before?.content,
          before?.size,
          after?.size
        ]),
        [["locked", undefined, 1, 2]]
      )
      assert.deepStrictEqual(unseen, ["the contents of 1 files that cannot be read"])
    })
  )

  live(
    "is not taken of a tree that holds the home directory, and says so",
    Effect.gen(function* () {
      const { home, snapshots } = yield* world
      const { unseen } = yield* (yield* snapshots.take(home)).since
      assert.deepStrictEqual(unseen, [`${home}, which holds your home directory`])
      assert.isFalse(existsSync(join(home, "trees")))
    })
  )
})
