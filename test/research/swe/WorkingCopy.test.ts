// Workspaces of tasks: nothing of the source is reachable but what the base commit has, and the patch has everything
// that changed.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import * as WorkingCopy from "../../../src/research/swe/WorkingCopy.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const git = (cwd: string, ...args: ReadonlyArray<string>): string =>
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", ...args], {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"]
  }).trim()

const put = (root: string, name: string, content: string | Uint8Array): void => {
  mkdirSync(dirname(join(root, name)), { recursive: true })
  writeFileSync(join(root, name), content)
}

/** A repository with a first commit, a later one that solves its problem, and files that are not committed. */
const repository = Effect.map(temporaryDirectory, (root) => {
  git(root, "init", "-q")
  put(root, "a.txt", "one\n")
  put(root, "gone.txt", "gone\n")
  put(root, ".gitignore", "ignored/\n")
  git(root, "add", "-A")
  git(root, "commit", "-qm", "first")
  const first = git(root, "rev-parse", "HEAD")
  put(root, "a.txt", "solved\n")
  git(root, "commit", "-qam", "solution")
  git(root, "tag", "later")
  put(root, "dirty.txt", "dirty\n")
  return { root, first, later: git(root, "rev-parse", "HEAD") }
})

const run = <A, E>(work: Effect.Effect<A, E, WorkingCopy.Needs | import("effect/Scope").Scope>) =>
  Effect.scoped(Effect.provide(work, NodeServices.layer))

describe("WorkingCopy", () => {
  it.effect("a workspace at a commit has its files and history, and nothing later of the source", () =>
    run(
      Effect.gen(function* () {
        const { first, later, root } = yield* repository
        const copy = yield* WorkingCopy.make({ _tag: "Commit", repository: root, commit: first.slice(0, 10) })
        assert.strictEqual(readFileSync(join(copy.directory, "a.txt"), "utf8"), "one\n")
        assert.isFalse(existsSync(join(copy.directory, "dirty.txt")))
        assert.strictEqual(git(copy.directory, "log", "--all", "--format=%H"), first)
        assert.strictEqual(git(copy.directory, "status", "--porcelain"), "")
        assert.throws(() => git(copy.directory, "cat-file", "-e", later))
        assert.strictEqual(git(copy.directory, "remote"), "")
        assert.strictEqual(yield* copy.patch, "")
      })
    )
  )

  it.effect(
    "a copy whose process was killed is removed; those of running ones, and directories that are no copies, stay",
    () =>
      run(
        Effect.gen(function* () {
          const copy = yield* WorkingCopy.make({ _tag: "Empty" })
          const owner: Record<string, unknown> = JSON.parse(readFileSync(join(copy.directory, "../owner.json"), "utf8"))
          const directory = yield* temporaryDirectory
          const left = {
            live: owner,
            dead: { ...owner, startTime: "1" },
            elsewhere: { ...owner, machine: "other", startTime: "1" },
            unknown: {}
          }
          for (const [name, value] of Object.entries(left))
            put(directory, `hermes-swe-${name}/owner.json`, JSON.stringify(value))
          put(directory, "hermes-swe-none/work/a.txt", "a\n")
          put(directory, "other-dead/owner.json", JSON.stringify(left.dead))
          assert.strictEqual(yield* WorkingCopy.removeAbandoned(directory), 1)
          assert.deepStrictEqual(readdirSync(directory).toSorted(), [
            "hermes-swe-elsewhere",
            "hermes-swe-live",
            "hermes-swe-none",
            "hermes-swe-unknown",
            "other-dead"
          ])
        })
      )
  )

  it.effect(
    "the patch has new, changed, removed, executable and binary files, applies elsewhere, and leaves out ignored ones",
    () =>
      run(
        Effect.gen(function* () {
          const { first, root } = yield* repository
          const source = { _tag: "Commit", repository: root, commit: first } as const
          const copy = yield* WorkingCopy.make(source)
          const at = (name: string): string => join(copy.directory, name)
          put(copy.directory, "a.txt", "two\n")
          put(copy.directory, "new/ünï code.txt", "new\n")
          put(copy.directory, "picture.bin", new Uint8Array([0, 255, 1, 2, 200]))
          put(copy.directory, "run.sh", "#!/bin/sh\n")
          chmodSync(at("run.sh"), 0o755)
          symlinkSync("a.txt", at("link"))
          put(copy.directory, "ignored/cache.txt", "cache\n")
          rmSync(at("gone.txt"))
          const patch = yield* copy.patch
          assert.notInclude(patch, "ignored")
          const other = yield* WorkingCopy.make(source)
          yield* other.apply(patch)
          assert.strictEqual(yield* other.patch, patch)
          assert.deepStrictEqual(readFileSync(join(other.directory, "picture.bin")), Buffer.from([0, 255, 1, 2, 200]))
          assert.strictEqual(readFileSync(join(other.directory, "new/ünï code.txt"), "utf8"), "new\n")
          assert.isFalse(existsSync(join(other.directory, "gone.txt")))
        })
      )
  )

  it.effect("commits, a reset, another configuration and a removed .git change nothing about the patch", () =>
    run(
      Effect.gen(function* () {
        const { first, root } = yield* repository
        const copy = yield* WorkingCopy.make({ _tag: "Commit", repository: root, commit: first })
        put(copy.directory, "a.txt", "two\n")
        git(copy.directory, "commit", "-qam", "mine")
        const mark = join(copy.directory, "..", "ran")
        put(copy.directory, "hook.sh", `#!/bin/sh\ntouch "${mark}"\ncat\n`)
        chmodSync(join(copy.directory, "hook.sh"), 0o755)
        put(copy.directory, ".gitattributes", "* filter=evil diff=evil\n")
        for (const name of ["filter.evil.clean", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor"])
          git(copy.directory, "config", name, "./hook.sh")
        const patch = yield* copy.patch
        assert.include(patch, "+two")
        assert.isFalse(existsSync(mark))
        rmSync(join(copy.directory, ".git"), { recursive: true })
        assert.strictEqual(yield* copy.patch, patch)
      })
    )
  )

  it.effect("text that is not UTF-8 is in the patch, byte for byte", () =>
    run(
      Effect.gen(function* () {
        const { first, root } = yield* repository
        const source = { _tag: "Commit", repository: root, commit: first } as const
        const copy = yield* WorkingCopy.make(source)
        const latin = new Uint8Array([99, 97, 102, 0xe9, 10])
        put(copy.directory, "latin.txt", latin)
        const other = yield* WorkingCopy.make(source)
        yield* other.apply(yield* copy.patch)
        assert.deepStrictEqual(new Uint8Array(readFileSync(join(other.directory, "latin.txt"))), latin)
      })
    )
  )

  it.effect("a directory is copied with ignored files, links as links, and repositories of its own below it", () =>
    run(
      Effect.gen(function* () {
        const { root } = yield* repository
        put(root, "ignored/dependency.js", "1\n")
        symlinkSync("a.txt", join(root, "link"))
        mkdirSync(join(root, "empty-repository"))
        git(join(root, "empty-repository"), "init", "-q")
        const copy = yield* WorkingCopy.make({ _tag: "Directory", path: root })
        assert.strictEqual(readFileSync(join(copy.directory, "ignored/dependency.js"), "utf8"), "1\n")
        assert.strictEqual(readFileSync(join(copy.directory, "dirty.txt"), "utf8"), "dirty\n")
        put(copy.directory, "link", "through\n")
        assert.strictEqual(readFileSync(join(root, "a.txt"), "utf8"), "solved\n")
        assert.deepStrictEqual(WorkingCopy.listPaths(yield* copy.patch), ["a.txt"])
        assert.strictEqual(git(copy.directory, "log", "--format=%s"), "Start")
      })
    )
  )

  it.effect("an empty workspace takes files too, and is gone with its scope", () =>
    run(
      Effect.gen(function* () {
        const { directory, patch } = yield* Effect.scoped(
          Effect.gen(function* () {
            const copy = yield* WorkingCopy.make({ _tag: "Empty" })
            put(copy.directory, "new.txt", "x\n")
            return { directory: copy.directory, patch: yield* copy.patch }
          })
        )
        assert.deepStrictEqual(WorkingCopy.listPaths(patch), ["new.txt"])
        assert.isFalse(existsSync(dirname(directory)))
      })
    )
  )

  it.effect("a patch that does not fit changes nothing and says why; one that leads out is refused", () =>
    run(
      Effect.gen(function* () {
        const { first, root } = yield* repository
        const copy = yield* WorkingCopy.make({ _tag: "Commit", repository: root, commit: first })
        const wrong = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+two\n"
        const { message } = yield* Effect.flip(copy.apply(wrong))
        assert.match(message, /^the patch does not apply: .*a\.txt/)
        const out = "--- /dev/null\n+++ b/../out.txt\n@@ -0,0 +1 @@\n+x\n"
        yield* Effect.flip(copy.apply(out))
        assert.isFalse(existsSync(join(copy.directory, "../out.txt")))
        assert.strictEqual(yield* copy.patch, "")
      })
    )
  )

  it.effect("files that a patch is about are restored: changed ones, removed ones, and new ones", () =>
    run(
      Effect.gen(function* () {
        const { first, root } = yield* repository
        const copy = yield* WorkingCopy.make({ _tag: "Commit", repository: root, commit: first })
        put(copy.directory, "a.txt", "two\n")
        put(copy.directory, "new.txt", "new\n")
        rmSync(join(copy.directory, "gone.txt"))
        yield* copy.restore(["a.txt", "gone.txt", "new.txt", "../base.git/HEAD"])
        assert.strictEqual(yield* copy.patch, "")
      })
    )
  )

  it.effect(
    "a repository without the commit, one that is none, and a directory that is not there are one line each",
    () =>
      run(
        Effect.gen(function* () {
          const { root } = yield* repository
          const none = yield* temporaryDirectory
          const of = (source: WorkingCopy.Source) =>
            Effect.map(Effect.flip(WorkingCopy.make(source)), ({ message }) => message)
          assert.strictEqual(
            yield* of({ _tag: "Commit", repository: root, commit: "abcdef1" }),
            `${root} has no commit "abcdef1": fetch it there, or correct base_commit`
          )
          assert.strictEqual(
            yield* of({ _tag: "Commit", repository: root, commit: "--all" }),
            `${root} has no commit "--all": fetch it there, or correct base_commit`
          )
          assert.match(yield* of({ _tag: "Commit", repository: none, commit: "HEAD" }), /is not a git repository/)
          assert.match(yield* of({ _tag: "Commit", repository: join(none, "x"), commit: "HEAD" }), /does not exist/)
          assert.match(yield* of({ _tag: "Directory", path: join(none, "x") }), /does not exist/)
        })
      )
  )
})
