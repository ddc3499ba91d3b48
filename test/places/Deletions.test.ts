// Deletions inside of a working tree, in the sandbox: what an undo brings back needs no approval, what it does not
// cover is asked about with the reason.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { execFileSync, spawnSync } from "node:child_process"
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import {
  Agent,
  Approvals,
  type RunEvent,
  Runtime,
  Sandbox,
  Scripted,
  SessionStore,
  TerminalTools
} from "../../src/index.ts"
import { ChangeSets } from "../../src/kit/entry/sessions.ts"
import { FileUndo } from "../../src/kit/entry/tools/files.ts"
import * as InteractiveMode from "../../src/tools/approval/InteractiveMode.ts"
import { makeLastingDirectory } from "../support/temporaryDirectory.ts"

const stands =
  spawnSync("bwrap", [
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "true"
  ]).status === 0

const git = (tree: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", ...args], {
    stdio: "ignore",
    env: { PATH: process.env["PATH"], GIT_CONFIG_GLOBAL: "/dev/null" }
  })

const megabyte = 1024 * 1024

/** A project with a file of each kind. */
const project = Effect.acquireRelease(
  Effect.sync(() => {
    const home = makeLastingDirectory("deletions-")
    const tree = join(home, "project")
    const put = (name: string, content: string | Uint8Array) => {
      mkdirSync(join(tree, name, ".."), { recursive: true })
      writeFileSync(join(tree, name), content)
    }
    put(".gitignore", "dist/\nnode_modules/\ndata/\n*.log\nkept.txt\n")
    put("src/a.ts", "export const a = 1\n")
    put("src/inner/b.ts", "export const b = 2\n")
    put("src/picture.png", Uint8Array.of(0, 137, 80, 255, 10, 13))
    put("src/run.sh", "#!/bin/sh\n")
    chmodSync(join(tree, "src/run.sh"), 0o755)
    put("src/own.txt", "mine")
    chmodSync(join(tree, "src/own.txt"), 0o600)
    symlinkSync("a.ts", join(tree, "src/link.ts"))
    symlinkSync("/nowhere", join(tree, "src/broken"))
    mkdirSync(join(tree, "src/empty/deeper"), { recursive: true })
    put("src/debug.log", "ignored, and below src")
    put("kept.txt", "tracked, though it is ignored")
    put("other.txt", "other")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "add", "-f", "kept.txt")
    git(tree, "commit", "-qm", "first")
    put("data/local.db", Uint8Array.of(1, 2, 3, 0))
    put("dist/app.js", "built")
    put("node_modules/x/index.js", "fetched")
    put("notes.log", "a log")
    put("untracked.txt", "not in git")
    put("old/one.orig", "1")
    put("old/two.txt", "2")
    return { home, tree, put }
  }),
  ({ home }) => Effect.sync(() => rmSync(home, { recursive: true, force: true }))
)

/** All of a tree but what git keeps, and the place of a sandbox: kind, permissions and bytes. */
const pictureOf = (tree: string): Record<string, string> => {
  const found: Record<string, string> = {}
  const walk = (at: string) => {
    for (const name of readdirSync(join(tree, at)).toSorted()) {
      const path = join(at, name)
      const info = lstatSync(join(tree, path))
      const mode = (info.mode & 0o777).toString(8)
      if (path === ".git" || path === ".hermes") continue
      if (info.isSymbolicLink()) found[path] = `link ${readlinkSync(join(tree, path))}`
      else if (info.isDirectory()) {
        found[path] = `directory ${mode}`
        walk(path)
      } else
        found[path] = `${mode} ${info.size > megabyte ? info.size : readFileSync(join(tree, path)).toString("base64")}`
    }
  }
  walk("")
  return found
}

interface Call {
  readonly name: string
  readonly params: Record<string, unknown>
}

const world = Effect.gen(function* () {
  const { home, put, tree } = yield* project
  const environment = Layer.succeedContext(
    yield* Layer.build(
      Sandbox.layer({
        policy: "workspace-write",
        network: "none",
        home,
        writable: [],
        hidden: [],
        shown: [],
        hidesEnvFiles: true
      })
    ).pipe(Effect.provide(NodeServices.layer))
  )
  const store = SessionStore.layerSqlite({ path: join(home, "state.db") }).pipe(Layer.provide(NodeServices.layer))
  const runtime = (
    commands: ReadonlyArray<string | Call>,
    asked: Array<string>,
    params: Record<string, unknown> = {}
  ) =>
    Runtime.layer({
      provider: Scripted.layer([
        ...commands.map((command) =>
          Scripted.complete({
            toolCalls: [typeof command === "string" ? { name: "terminal", params: { command, ...params } } : command]
          })
        ),
        Scripted.complete("done")
      ]),
      environment,
      cwd: tree,
      store,
      changes: { directory: join(home, "changes"), home },
      approvals: Approvals.layerCallback(({ description }) =>
        Effect.sync(() => {
          asked.push(description)
          return "deny" as const
        })
      ),
      tools: [TerminalTools.toolset]
    })
  const run = Effect.fnUntraced(function* (commands: ReadonlyArray<string | Call>, params?: Record<string, unknown>) {
    const asked: Array<string> = []
    const told: Array<RunEvent.RunEvent> = []
    const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) => Effect.sync(() => void told.push(...events))
    const { sessionId } = yield* Effect.provide(Agent.run({ prompt: "go", onEvent }), runtime(commands, asked, params))
    const notices = told.flatMap((event) => (event._tag === "Notice" ? [event.message] : []))
    const results = told.flatMap((event) => (event._tag === "ToolFinished" ? [event.output] : []))
    return { asked, notices, results, sessionId }
  })
  const undo = (sessionId: Parameters<typeof ChangeSets.readHistory>[0]) =>
    Effect.gen(function* () {
      const undo = yield* FileUndo.FileUndo
      const set = ChangeSets.findUndoTarget(yield* ChangeSets.readHistory(sessionId))
      if (Option.isNone(set)) return { changed: [], left: [] }
      return yield* undo.apply(yield* undo.plan(set.value, "undo"), { isOverwriting: false })
    }).pipe(Effect.provide(runtime([], [])))
  return { home, put, run, tree, undo }
})

/** Deletions that an undo brings back whole, each with a file that it takes away; one run makes those of a list. */
const covered: ReadonlyArray<ReadonlyArray<readonly [command: string, gone: string]>> = [
  [
    ["cd src && rm -rf inner", "src/inner/b.ts"],
    ["rmdir src/empty/deeper", "src/empty/deeper"],
    ["rm notes.log src/own.txt", "notes.log"],
    ["sh -c 'rm -rf data'", "data/local.db"],
    ["find . -name '*.orig' -delete", "old/one.orig"],
    ["find old -name '*.txt' | xargs rm -f", "old/two.txt"],
    ["rm -rf node_modules dist", "node_modules/x/index.js"],
    ["rm -rf src", "src/a.ts"],
    ["mv other.txt untracked.txt", "other.txt"]
  ],
  [
    ["rm -r src/inner dist && true", "dist/app.js"],
    ["rm -rf old/*", "old/one.orig"],
    ["python3 -c \"import os; os.remove('other.txt')\"", "other.txt"],
    ["git clean -fd", "untracked.txt"],
    ["git clean -fdx", "data/local.db"],
    ["find src -type f -delete", "src/picture.png"]
  ],
  [
    ["find old -name 'one*' -exec rm -rf {} +", "old/one.orig"],
    ["rm -rf src/empty data *.log", "notes.log"],
    ["rm *", "other.txt"],
    ["rm -rf ./*", "src/a.ts"]
  ]
]

/** Commands that undo does not cover, each with what its question says. */
const asking: ReadonlyArray<readonly [command: string, reason: RegExp]> = [
  ["rm -rf large", /recursive delete, not covered by undo: large\/film\.mp4 \(33 MB\)$/],
  ["rm large/film.mp4", /delete of files, not covered by undo: large\/film\.mp4 \(33 MB\)$/],
  ["rm -rf many", /not covered by undo: many \(2001 files, /],
  ["rm -rf .git", /not covered by undo: \.git \(a repository of git\)$/],
  ["rm -rf clone", /not covered by undo: clone\/\.git \(a repository of git\)$/],
  ['rm -rf "$PWD"', /^recursive delete, not covered by undo: its files are known only when it runs$/],
  ["rm -rf ../project", /not covered by undo: all of the working tree$/],
  ["rm -rf ../neighbour", /not covered by undo: .*neighbour \(outside of the working tree\)$/],
  ["rm -rf keys", /not covered by undo: keys\/id_rsa \(it may hold credentials\)$/],
  ['for d in src old; do rm -rf "$d"; done', /its files are known only when it runs$/],
  ["find . -type f -exec rm {} \\;", /not covered by undo: all of the working tree$/],
  ["rm -rf ~/work", /not covered by undo: .*\/work \(outside of the working tree\)$/],
  ["find old -print0 | xargs -0 -I% sh -c 'rm -rf %'", /its files are known only when it runs$/],
  ["find . -delete", /not covered by undo: all of the working tree$/],
  ["git reset --hard HEAD~1", /\(git reset --hard\), not covered by undo: the branch moves$/],
  ["git stash drop", /loss of stashed changes/],
  ["shred -u other.txt", /cannot be undone/]
]

describe("a deletion inside of the working tree, in the sandbox", () => {
  it.live.skipIf(!stands)("is not asked about where an undo brings every byte back", () =>
    Effect.gen(function* () {
      const { put, run, tree, undo } = yield* world
      const before = pictureOf(tree)
      for (const list of covered) {
        const { asked, notices, results, sessionId } = yield* run(list.map(([command]) => command))
        assert.deepStrictEqual(asked, [])
        const left = pictureOf(tree)
        assert.deepStrictEqual(
          list.filter(([, gone]) => gone in left).map(([command]) => command),
          [],
          results.join("\n")
        )
        assert.match(notices.join("\n"), /^\d+ files? deleted; undo with \/undo/m)
        assert.deepStrictEqual((yield* undo(sessionId)).left, [])
        assert.deepStrictEqual(pictureOf(tree), before)
      }
      // git gives files that it writes the permissions that it knows.
      chmodSync(join(tree, "src/own.txt"), 0o644)
      const commands = ["git reset --hard", "git checkout -- .", "git restore ."]
      put("kept.txt", "changed, though it is ignored")
      put("src/a.ts", "changed\n")
      const changed = pictureOf(tree)
      for (const command of commands) {
        const { asked, sessionId } = yield* run([command])
        assert.deepStrictEqual(asked, [], command)
        assert.strictEqual(readFileSync(join(tree, "kept.txt"), "utf8"), "tracked, though it is ignored", command)
        yield* undo(sessionId)
        assert.deepStrictEqual(pictureOf(tree), changed, command)
      }
    })
  )

  it.live.skipIf(!stands)("is asked about, with the reason, where no undo covers it", () =>
    Effect.gen(function* () {
      const { put, run, tree } = yield* world
      put("large/film.mp4", "")
      truncateSync(join(tree, "large/film.mp4"), 31 * megabyte)
      for (let at = 0; at <= 2_000; at++) put(`many/${at}`, "")
      put("clone/.git/HEAD", "ref: refs/heads/main\n")
      put("keys/id_rsa", "key")
      for (const name of ["neighbour", "work"]) mkdirSync(join(tree, "..", name))
      const before = pictureOf(tree)
      const all = yield* run(asking.map(([command]) => command))
      assert.lengthOf(all.asked, asking.length, all.asked.join("\n"))
      for (const [index, [command, reason]] of asking.entries()) assert.match(all.asked[index] ?? "", reason, command)
      const { asked } = yield* run(["rm -rf src"], { background: true })
      assert.match(asked.join("\n"), /not covered by undo: it runs in the background$/)
      const { results } = yield* Effect.provideService(
        run(["rm -rf large"]),
        InteractiveMode.InteractiveMode,
        InteractiveMode.makeUnattended("single query")
      )
      assert.match(
        results.join(),
        /needs an approval \(recursive delete, not covered by undo: large\/film\.mp4 \(33 MB\)\), and no user can be asked here/
      )
      assert.deepStrictEqual(pictureOf(tree), before)
    })
  )

  it.live.skipIf(!stands)(
    "asks about each that a process in the background would make, also where it is typed in pieces",
    () =>
      Effect.gen(function* () {
        const { run, tree } = yield* world
        const before = pictureOf(tree)
        const started = { name: "terminal", params: { command: "bash", background: true } }
        const typed = (action: string, data: string): Call => ({
          name: "process",
          params: { action, session_id: "proc", data }
        })
        for (const command of [
          "rm other.txt",
          "rm $(ls *.txt)",
          "bash -c 'rm other.txt'",
          'while read f; do rm "$f"; done'
        ]) {
          const { asked } = yield* run([command], { background: true })
          assert.match(asked.join("\n"), /delete of files, not covered by undo: it runs in the background$/, command)
        }
        const inputs: ReadonlyArray<ReadonlyArray<Call>> = [
          [typed("submit", "rm other.txt")],
          [typed("submit", 'while read f; do rm "$f"; done')],
          [typed("write", "r"), typed("submit", "m other.txt")],
          [typed("write", "rm "), typed("submit", "other.txt")],
          [typed("submit", "echo \x15rm other.txt")],
          [typed("submit", "os.remove('other.txt')")],
          [typed("write", "git res"), typed("submit", "et --hard")]
        ]
        for (const calls of inputs) {
          const { asked } = yield* run([started, ...calls])
          assert.match(
            asked.join("\n"),
            /not covered by undo: it is typed into a process in the background$/m,
            JSON.stringify(calls)
          )
        }
        const { asked, results } = yield* run([
          started,
          typed("submit", "echo rm"),
          typed("submit", "y"),
          typed("submit", "ls")
        ])
        assert.deepStrictEqual(asked, [], results.join("\n"))
        assert.deepStrictEqual(pictureOf(tree), before)
      })
  )

  it.live.skipIf(!stands)("leaves out what a tool makes again where it does not fit, and says so", () =>
    Effect.gen(function* () {
      const { put, run, tree, undo } = yield* world
      put("node_modules/y/large.node", "")
      truncateSync(join(tree, "node_modules/y/large.node"), 80 * megabyte)
      const { asked, notices, sessionId } = yield* run(["rm -rf node_modules dist src"])
      assert.deepStrictEqual(asked, [])
      assert.match(
        notices.join("\n"),
        /files deleted; undo with \/undo .*Deleted and not kept, as it can be made again: node_modules\./
      )
      yield* undo(sessionId)
      assert.deepStrictEqual(readdirSync(tree).toSorted(), [
        ".git",
        ".gitignore",
        ".hermes",
        "data",
        "dist",
        "kept.txt",
        "notes.log",
        "old",
        "other.txt",
        "src",
        "untracked.txt"
      ])
    })
  )
})
