// Settings of a repository for which git runs a program where a command only looks.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Agent, Approvals, Runtime, Scripted, TerminalTools } from "../../../src/index.ts"
import * as RepositorySettings from "../../../src/tools/fence/RepositorySettings.ts"
import { makeLastingDirectory } from "../../support/temporaryDirectory.ts"

const git = (cwd: string, ...args: ReadonlyArray<string>) => {
  const { status, stderr, stdout } = spawnSync("git", ["-c", "user.name=a", "-c", "user.email=a@a.example", ...args], {
    cwd,
    encoding: "utf8"
  })
  assert.strictEqual(status, 0, stderr)
  return stdout.trim()
}

const repository = Effect.acquireRelease(
  Effect.sync(() => {
    const root = makeLastingDirectory("repository-")
    git(root, "init", "-q")
    writeFileSync(join(root, "a.txt"), "a")
    git(root, "add", "a.txt")
    git(root, "commit", "-q", "-m", "a")
    return root
  }),
  (root) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
)

const found = (cwd: string, own?: string) =>
  Effect.provide(RepositorySettings.findReasons(cwd, own), NodeServices.layer)

/** A submodule that the index of a repository names. */
const submodule = (root: string, name: string) => {
  const inner = join(root, name)
  mkdirSync(inner)
  git(inner, "init", "-q")
  git(inner, "commit", "-q", "--allow-empty", "-m", "a")
  git(root, "update-index", "--add", "--cacheinfo", `160000,${git(inner, "rev-parse", "HEAD")},${name}`)
  return inner
}

describe("settings of a repository", () => {
  it("are known by their keys, wherever they stand", () => {
    const runs = [
      "[core]\n\tfsmonitor = .git/x\n",
      "[CORE]\nFsMonitor=x",
      "[core] fsmonitor = x\n",
      '[diff "a"]\n  textconv = x',
      "[diff]\n external = x",
      '[diff "a"] command=x',
      '[filter "a"]\nclean = x',
      '[filter "a"]\nprocess=x',
      "[core]\npager=x",
      "[pager]\nlog = x",
      "[include]\npath = ../x",
      '[includeIf "gitdir:/"]\npath=x',
      "[gpg]\nprogram = x",
      "[core]\na = b \\\n[user]\nfsmonitor = x",
      "[core]\r\nfsmonitor = x\r\n",
      "[extensions]\npartialclone = origin",
      '[filter "lfs"]\nclean = git-lfs clean -- %f; x'
    ]
    assert.deepStrictEqual(
      runs.filter((config) => RepositorySettings.findProgramKey(config, "looking") === undefined),
      []
    )
    const plain =
      '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = true\n[remote "origin"]\n\turl = https://a.example/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n\tremote = origin\n# pager = x\n[user]\n\tname = a\n[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n[core]\n\tsshCommand = ssh -i x\n'
    assert.isUndefined(RepositorySettings.findProgramKey(plain, "looking"))
    assert.strictEqual(RepositorySettings.findProgramKey(plain, "all"), "sshcommand")
  })

  it.live(
    "are looked for upward, in hooks, in linked trees and in submodules, and found in none of git's own making",
    () =>
      Effect.gen(function* () {
        const root = yield* repository
        mkdirSync(join(root, "src"))
        assert.deepStrictEqual(yield* found(join(root, "src")), [])
        for (const version of ["2", "4"]) {
          git(root, "update-index", "--index-version", version)
          assert.deepStrictEqual(yield* found(root), [], version)
        }
        const inner = submodule(root, "inner")
        assert.deepStrictEqual(RepositorySettings.readSubmodules(readFileSync(join(root, ".git/index"))), ["inner"])
        assert.deepStrictEqual(yield* found(root), [])
        appendFileSync(join(inner, ".git/config"), "[core]\n\tfsmonitor = ./x\n")
        assert.deepStrictEqual(yield* found(root), [`fsmonitor in the settings of ${inner}`])
        assert.deepStrictEqual(yield* found(root, root), [`fsmonitor in the settings of ${inner}`])
        rmSync(inner, { recursive: true })
        git(root, "worktree", "add", "-q", join(root, "linked"))
        writeFileSync(join(root, ".git/hooks/post-index-change"), "")
        assert.deepStrictEqual(yield* found(join(root, "linked")), [join(root, ".git/hooks/post-index-change")])
        rmSync(join(root, ".git/hooks/post-index-change"))
        git(root, "config", "diff.a.textconv", "x")
        assert.deepStrictEqual(yield* found(root), [`textconv in the settings of ${root}`])
        assert.deepStrictEqual(yield* found(root, root), [], "the wall kept the settings of the tree itself")
        writeFileSync(join(root, ".git/index"), "x")
        assert.match((yield* found(root, root))[0] ?? "", /index .* cannot be read/)
        const bare = join(root, "bare")
        git(root, "init", "-q", "--bare", bare)
        appendFileSync(join(bare, "config"), "[core]\n\tpager = x\n")
        assert.deepStrictEqual(yield* found(bare), [`pager in the settings of ${bare}`])
      })
  )

  it.live("make git status a question where no wall stands", () =>
    Effect.gen(function* () {
      const root = yield* repository
      const asked: Array<string> = []
      const run = Effect.provide(
        Agent.run({ prompt: "go" }),
        Runtime.layer({
          provider: Scripted.layer([
            Scripted.complete({ toolCalls: [{ name: "terminal", params: { command: "git status" } }] }),
            Scripted.complete("done")
          ]),
          cwd: root,
          approvals: Approvals.layerCallback(({ description }) =>
            Effect.sync(() => {
              asked.push(description)
              return "deny"
            })
          ),
          tools: [TerminalTools.toolset]
        })
      )
      yield* run
      assert.deepStrictEqual(asked, [])
      git(root, "config", "core.fsmonitor", "touch planted")
      yield* run
      assert.deepStrictEqual(asked, [`git that runs a program: fsmonitor in the settings of ${root}`])
    })
  )

  it.live("finds git behind quotes, and in the script of a shell", () =>
    Effect.gen(function* () {
      const root = yield* repository
      git(root, "config", "core.fsmonitor", "touch planted")
      for (const line of [
        "git status",
        "bash -c 'git status'",
        'g"i"t status',
        "bash -c 'gi''t status'",
        "ls && \\g\\it status"
      ]) {
        const concerns = yield* Effect.provide(RepositorySettings.findCommandConcerns(line, root), NodeServices.layer)
        assert.lengthOf(concerns, 1, line)
      }
      assert.deepStrictEqual(
        yield* Effect.provide(RepositorySettings.findCommandConcerns("ls -la", root), NodeServices.layer),
        []
      )
    })
  )
})
