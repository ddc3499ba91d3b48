// The branch of a folder is read from the files of its repository.
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as GitBranch from "../../../src/base/platform/GitBranch.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const put = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

const cases: ReadonlyArray<
  readonly [title: string, files: Readonly<Record<string, string>>, folder: string, branch: string | undefined]
> = [
  ["the folder of a repository", { ".git/HEAD": "ref: refs/heads/main\n" }, ".", "main"],
  ["a folder below it", { ".git/HEAD": "ref: refs/heads/topic/x\n", "src/a/b.ts": "" }, "src/a", "topic/x"],
  ["a missing folder below it", { ".git/HEAD": "ref: refs/heads/main\n" }, "gone/away", "main"],
  [
    "a linked working tree",
    { "tree/.git": "gitdir: ../main/.git/worktrees/tree\n", "main/.git/worktrees/tree/HEAD": "ref: refs/heads/two\n" },
    "tree",
    "two"
  ],
  ["a detached commit", { ".git/HEAD": `${"0123456789".repeat(4)}\n` }, ".", "01234567"],
  ["no repository", { "a.txt": "" }, ".", undefined],
  ["an unreadable HEAD", { ".git/HEAD": "\u0000\u0001nonsense" }, ".", undefined],
  ["a branch with a hostile length", { ".git/HEAD": `ref: refs/heads/${"x".repeat(50_000)}\n` }, ".", "x".repeat(255)],
  ["a huge HEAD", { ".git/HEAD": `ref: refs/heads/${"x".repeat(100_000)}\n` }, ".", undefined]
]

describe("GitBranch", () => {
  it.effect.each(cases)("%s", ([, files, folder, branch]) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      for (const [name, text] of Object.entries(files)) put(join(directory, name), text)
      assert.strictEqual(yield* GitBranch.readBranch(join(directory, folder)), branch)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a pipe in the place of a file is not read", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      mkdirSync(join(directory, ".git"))
      execFileSync("mkfifo", [join(directory, ".git/HEAD")])
      assert.strictEqual(yield* GitBranch.readBranch(directory), undefined)
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
