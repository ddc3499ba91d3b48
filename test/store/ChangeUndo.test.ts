// Changes of files by tools: told and kept, undone and made again, and never over what somebody changed since. Each run
// and each undo has a runtime of its own, as in programs that follow one another.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { spawnSync } from "node:child_process"
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import type { ConfigError } from "../../src/base/domain/AgentError.ts"
import type { Platform } from "../../src/base/platform/ChildProcesses.ts"
import {
  Agent,
  Approvals,
  type CommandEnvironment,
  FileTools,
  type Ids,
  type RunEvent,
  RunRecord,
  Runtime,
  Sandbox,
  Scripted,
  SessionStore,
  TerminalTools
} from "../../src/index.ts"
import { ChangeSets } from "../../src/kit/entry/sessions.ts"
import { ExecuteCode } from "../../src/kit/entry/tools/code.ts"
import { FileUndo } from "../../src/kit/entry/tools/files.ts"
import { makeLastingDirectory, markAsRepository, temporaryDirectory } from "../support/temporaryDirectory.ts"

type Call = readonly [name: string, params: Readonly<Record<string, unknown>>]

/** Programs that follow one another over the files below a home directory. */
const programsIn = (
  home: string,
  options: { readonly environment?: Layer.Layer<CommandEnvironment.CommandEnvironment, ConfigError, Platform> } = {}
) => {
  const tree = join(home, "project")
  mkdirSync(tree)
  const at = (name: string) => join(tree, name)
  const runtime = (calls: ReadonlyArray<Call>) =>
    Runtime.layer({
      provider: Scripted.layer([
        ...calls.map(([name, params]) => Scripted.complete({ toolCalls: [{ name, params }] })),
        Scripted.complete("done")
      ]),
      ...options,
      cwd: tree,
      store: SessionStore.layerSqlite({ path: join(home, "state.db") }).pipe(Layer.provide(NodeServices.layer)),
      changes: { directory: join(home, "changes"), home },
      approvals: Approvals.layerCallback(() => Effect.succeed("once" as const)),
      tools: [FileTools.toolset, TerminalTools.toolset, ExecuteCode.toolset]
    })
  return {
    home,
    tree,
    at,
    runtime,
    put: (name: string, content: string | Uint8Array) => {
      mkdirSync(join(at(name), ".."), { recursive: true })
      writeFileSync(at(name), content)
    },
    text: (name: string) => (existsSync(at(name)) ? readFileSync(at(name), "utf8") : undefined),
    /** A run that makes the calls one after the other; its changes as they were told. */
    run: Effect.fnUntraced(function* (calls: ReadonlyArray<Call>, sessionId?: Ids.SessionId) {
      const told: Array<RunEvent.RunEvent> = []
      const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) => Effect.sync(() => void told.push(...events))
      const result = yield* Effect.provide(
        Agent.run({ prompt: "go", onEvent, ...(sessionId === undefined ? {} : { sessionId }) }),
        runtime(calls)
      )
      const changes = told.flatMap((event) => (event._tag === "FileChanged" ? [event] : []))
      const notices = told.flatMap((event) => (event._tag === "Notice" ? [event.message] : []))
      return { ...result, changes, notices, told }
    }),
    /** Takes back, or makes again, what is next. */
    move: (direction: "undo" | "redo", sessionId: Ids.SessionId, isOverwriting = false) =>
      Effect.gen(function* () {
        const undo = yield* FileUndo.FileUndo
        const history = yield* ChangeSets.readHistory(sessionId)
        const set = direction === "undo" ? ChangeSets.findUndoTarget(history) : ChangeSets.findRedoTarget(history)
        if (Option.isNone(set)) return undefined
        const plan = yield* undo.plan(set.value, direction)
        return { plan, done: yield* undo.apply(plan, { isOverwriting }) }
      }).pipe(Effect.provide(runtime([])))
  }
}

const world = Effect.map(temporaryDirectory, (home) => programsIn(home))

const short = ({
  plan
}: {
  readonly plan: { readonly conflicts: ReadonlyArray<{ readonly path: string; readonly reason: string }> }
}) => plan.conflicts.map(({ path, reason }) => `${path.split("/").at(-1)}: ${reason}`)

describe("a change of a file", () => {
  it.live("is told and recorded with its difference, the call that made it, and both contents", () =>
    Effect.gen(function* () {
      const { at, home, put, run, runtime } = yield* world
      put("a.txt", "one\n")
      const { changes, sessionId } = yield* run([
        ["write_file", { path: "a.txt", content: "two\n" }],
        ["patch", { patch: "*** Begin Patch\n*** Add File: b.txt\n+new\n*** Delete File: a.txt\n*** End Patch" }],
        ["terminal", { command: "mkdir -p sub && echo made > sub/c.txt && cat sub/c.txt" }],
        ["terminal", { command: "cat b.txt" }]
      ])
      assert.deepStrictEqual(
        changes.map(({ added, by, callId, diff, path, removed }) => [path, by, callId, added, removed, diff]),
        [
          [at("a.txt"), "tool", "call_1_1", 1, 1, "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"],
          [at("b.txt"), "tool", "call_2_1", 1, 0, "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n"],
          [at("a.txt"), "tool", "call_2_1", 0, 1, "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n"],
          [at("sub/c.txt"), "command", "call_3_1", 1, 0, "--- /dev/null\n+++ b/sub/c.txt\n@@ -0,0 +1 @@\n+made\n"]
        ]
      )
      const [{ after, before } = assert.fail("no change")] = changes
      for (const [state, content] of [
        [before, "one\n"],
        [after, "two\n"]
      ] as const) {
        const file = join(home, "changes/contents", state?.hash?.slice(0, 2) ?? "", state?.hash ?? "")
        assert.deepStrictEqual(
          [readFileSync(file, "utf8"), statSync(file).mode & 0o077, state?.notKept],
          [content, 0, undefined]
        )
      }
      const recorded = yield* Effect.provide(
        RunRecord.RunRecord.use((record) => Stream.runCollect(record.read({ sessionId, kinds: ["FileChanged"] }))),
        runtime([])
      )
      assert.deepStrictEqual(
        recorded.map(({ event }) => ({ ...event })),
        changes.map((change) => ({ ...change }))
      )
    })
  )

  it.live("by a script is told once, whether the script or a tool that it called made it", () =>
    Effect.gen(function* () {
      const { at, run, tree } = yield* world
      const code = `import { writeFileSync } from "node:fs"\nwriteFileSync(${JSON.stringify(join(tree, "own"))}, "1")\nawait write_file({ path: "called", content: "2" })`
      const { changes } = yield* run([["execute_code", { language: "javascript", code }]])
      assert.deepStrictEqual(
        changes.map(({ by, path }) => [path, by]).toSorted(),
        [
          [at("called"), "tool"],
          [at("own"), "command"]
        ].toSorted()
      )
    })
  )

  it.live("has no secret in its difference, and no credentials are kept", () =>
    Effect.gen(function* () {
      const { home, put, run } = yield* world
      put(".env", "TOKEN=one\n")
      const key = `sk-ant-api03-${"x".repeat(60)}`
      const { changes } = yield* run([
        ["write_file", { path: "config.txt", content: `key = ${key}\n` }],
        ["terminal", { command: "echo TOKEN=two > .env" }]
      ])
      assert.deepStrictEqual(
        changes.map(({ path }) => path.split("/").at(-1)),
        ["config.txt"]
      )
      assert.notInclude(JSON.stringify(changes), key)
      for (const name of readdirSync(join(home, "changes/contents"), { recursive: true }))
        assert.notInclude(String(name), "TOKEN")
    })
  )

  it.live("costs a turn without tools nothing: no repository, no directory, no event", () =>
    Effect.gen(function* () {
      const { home, run } = yield* world
      const { changes } = yield* run([])
      assert.deepStrictEqual([changes, existsSync(join(home, "changes"))], [[], false])
      yield* run([
        ["terminal", { command: "ls" }],
        ["read_file", { path: "none" }]
      ])
      assert.isFalse(existsSync(join(home, "changes")))
    })
  )
})

describe("undo", () => {
  it.live("puts back what a run made, changed and removed, and redo makes it again", () =>
    Effect.gen(function* () {
      const { at, move, put, run, text, tree } = yield* world
      put("changed", "1")
      put("removed", "2")
      put("dir/a", "a")
      put("dir/b", "b")
      put("binary", Uint8Array.of(0, 255, 1))
      symlinkSync("changed", at("link"))
      const { sessionId } = yield* run([
        ["write_file", { path: "changed", content: "new" }],
        [
          "terminal",
          {
            command:
              "rm removed && mv dir moved && printf '\\0\\377\\2' > binary && ln -sfn removed link && mkdir -p deep/er && echo x > deep/er/made"
          }
        ],
        ["write_file", { path: "changed", content: "newer" }]
      ])
      const before = readdirSync(tree, { recursive: true }).toSorted()
      const undone = yield* move("undo", sessionId)
      assert.deepStrictEqual([undone?.plan.conflicts, undone?.done.left], [[], []])
      assert.deepStrictEqual(readdirSync(tree, { recursive: true }).toSorted(), [
        "binary",
        "changed",
        "dir",
        "dir/a",
        "dir/b",
        "link",
        "removed"
      ])
      assert.deepStrictEqual(
        [text("changed"), text("removed"), text("dir/b"), readlinkSync(at("link")), [...readFileSync(at("binary"))]],
        ["1", "2", "b", "changed", [0, 255, 1]]
      )
      yield* move("redo", sessionId)
      assert.deepStrictEqual(readdirSync(tree, { recursive: true }).toSorted(), before)
      assert.deepStrictEqual(
        [text("changed"), readlinkSync(at("link")), [...readFileSync(at("binary"))]],
        ["newer", "removed", [0, 255, 2]]
      )
      assert.isUndefined(yield* move("redo", sessionId))
      yield* move("undo", sessionId)
      assert.strictEqual(text("changed"), "1")
    })
  )

  it.live("never overwrites what somebody changed since, unless it is told to, and that can be redone too", () =>
    Effect.gen(function* () {
      const { at, move, put, run, text } = yield* world
      for (const name of ["a", "b", "c"]) put(name, `${name}1`)
      const { sessionId } = yield* run([["terminal", { command: "echo 2 > a; echo 2 > b; echo 2 > c; echo 2 > d" }]])
      put("a", "by hand")
      rmSync(at("b"))
      put("d", "mine now")
      const first = yield* move("undo", sessionId)
      assert.deepStrictEqual(first === undefined ? [] : short(first), [
        "a: it was changed since",
        "b: it was removed since",
        "d: it was changed since"
      ])
      assert.include(first?.plan.conflicts[0]?.diff, "-by hand")
      assert.deepStrictEqual([text("a"), text("b"), text("c"), text("d")], ["by hand", undefined, "c1", "mine now"])
      yield* move("redo", sessionId)
      assert.deepStrictEqual([text("a"), text("c")], ["by hand", "2\n"])
      const forced = yield* move("undo", sessionId, true)
      assert.deepStrictEqual(forced?.done.left, [])
      assert.deepStrictEqual([text("a"), text("b"), text("c"), text("d")], ["a1", "b1", "c1", undefined])
      yield* move("redo", sessionId)
      assert.deepStrictEqual([text("a"), text("b"), text("c"), text("d")], ["by hand", undefined, "2\n", "mine now"])
    })
  )

  it.live("goes back run by run, in a session that was resumed; a new run ends redo", () =>
    Effect.gen(function* () {
      const { move, put, run, text } = yield* world
      put("a", "0")
      const { sessionId } = yield* run([["write_file", { path: "a", content: "1" }]])
      yield* run(
        [
          ["write_file", { path: "a", content: "2" }],
          ["write_file", { path: "b", content: "2" }]
        ],
        sessionId
      )
      yield* move("undo", sessionId)
      assert.deepStrictEqual([text("a"), text("b")], ["1", undefined])
      yield* move("undo", sessionId)
      assert.deepStrictEqual([text("a"), text("b")], ["0", undefined])
      assert.isUndefined(yield* move("undo", sessionId))
      yield* move("redo", sessionId)
      assert.strictEqual(text("a"), "1")
      yield* run([["write_file", { path: "c", content: "3" }]], sessionId)
      assert.isUndefined(yield* move("redo", sessionId))
      yield* move("undo", sessionId)
      assert.deepStrictEqual([text("a"), text("c")], ["1", undefined])
    })
  )

  it.live("says which file it cannot put back: too large, or its content gone", () =>
    Effect.gen(function* () {
      const { at, home, move, put, run, text } = yield* world
      put("big", "")
      truncateSync(at("big"), 100 * 1024 * 1024)
      put("small", "1")
      put("other", "1")
      const { changes, sessionId } = yield* run([
        ["terminal", { command: "echo 2 > big; echo 2 > small; echo 2 > other" }]
      ])
      const big = changes.find(({ path }) => path === at("big"))
      assert.strictEqual(big?.before?.notKept, `it is too large (${100 * 1024 * 1024} bytes)`)
      const hash = changes.find(({ path }) => path === at("other"))?.before?.hash ?? ""
      rmSync(join(home, "changes/contents", hash.slice(0, 2)), { recursive: true })
      put("small", "2\n")
      const undone = yield* move("undo", sessionId)
      assert.deepStrictEqual(
        undone?.done.left.map(({ path, reason }) => [path, reason]),
        [
          [at("big"), `it is too large (${100 * 1024 * 1024} bytes)`],
          [at("other"), "its content is not kept any more"],
          [at("small"), "its content is not kept any more"]
        ].toSorted()
      )
      assert.deepStrictEqual([lstatSync(at("big")).size, text("other")], [2, "2\n"])
    })
  )

  it.live("writes nothing through a directory that became a link", () =>
    Effect.gen(function* () {
      const { at, home, move, put, run } = yield* world
      put("dir/a", "1")
      const { sessionId } = yield* run([["write_file", { path: "dir/a", content: "2" }]])
      mkdirSync(join(home, "elsewhere"))
      writeFileSync(join(home, "elsewhere/a"), "2")
      rmSync(at("dir"), { recursive: true })
      symlinkSync(join(home, "elsewhere"), at("dir"))
      const undone = yield* move("undo", sessionId)
      assert.deepStrictEqual(
        undone?.done.left.map(({ reason }) => reason),
        [`${at("dir")} is a link now`]
      )
      assert.strictEqual(readFileSync(join(home, "elsewhere/a"), "utf8"), "2")
    })
  )
})

describe("a question whether a file may be written", () => {
  it.live("shows the difference that the call would make, without secrets", () =>
    Effect.gen(function* () {
      const home = yield* Effect.acquireRelease(
        Effect.sync(() => makeLastingDirectory("question-")),
        (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
      )
      const tree = join(home, "project")
      markAsRepository(tree)
      writeFileSync(join(home, "outside"), "one\n")
      const asked: Array<string | undefined> = []
      const runtime = Runtime.layer({
        provider: Scripted.layer([
          Scripted.complete({
            toolCalls: [
              {
                name: "write_file",
                params: { path: join(home, "outside"), content: `two\nsk-ant-api03-${"x".repeat(60)}\n` }
              }
            ]
          }),
          Scripted.complete({
            toolCalls: [
              { name: "patch", params: { path: join(home, "outside"), old_string: "one", new_string: "three" } }
            ]
          }),
          Scripted.complete("done")
        ]),
        cwd: tree,
        approvals: Approvals.layerCallback(({ preview }) => Effect.sync(() => (asked.push(preview), "deny" as const))),
        tools: [FileTools.toolset]
      })
      yield* Effect.provide(Agent.run({ prompt: "go" }), runtime)
      const [written, patched] = asked
      assert.include(written, "-one\n+two\n+")
      assert.notInclude(written, "x".repeat(60))
      assert.include(patched, "-one\n+three\n")
    })
  )
})

const bwrap =
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

describe("in the sandbox", () => {
  it.live.skipIf(!bwrap)(
    `changes are found and undone behind its wall${bwrap ? "" : " (not tested: bubblewrap does not work here)"}`,
    () =>
      Effect.gen(function* () {
        const home = yield* Effect.acquireRelease(
          Effect.sync(() => makeLastingDirectory("walled-")),
          (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
        )
        const environment = Sandbox.layer({
          policy: "workspace-write",
          network: "none",
          home,
          writable: [],
          hidden: [join(home, "changes")],
          shown: [],
          hidesEnvFiles: true
        })
        const { at, move, put, run, text } = programsIn(home, { environment })
        markAsRepository(at(""))
        writeFileSync(at(".git/config"), "[core]\n")
        put("a", "1\n")
        put("dir/b", "1\n")
        symlinkSync("a", at("link"))
        const { changes, sessionId } = yield* run([
          ["write_file", { path: "a", content: "2\n" }],
          [
            "terminal",
            { command: "rm -r dir; chmod +x a; ln -sfn nowhere link; mkdir made; echo x > made/c; ls ../changes" }
          ]
        ])
        assert.deepStrictEqual(changes.map(({ by, path }) => `${path.split("/").at(-1)} ${by}`).toSorted(), [
          "a command",
          "a tool",
          "b command",
          "c command",
          "link command"
        ])
        yield* move("undo", sessionId)
        assert.deepStrictEqual(
          [text("a"), text("dir/b"), existsSync(at("made")), readlinkSync(at("link")), statSync(at("a")).mode & 0o111],
          ["1\n", "1\n", false, "a", 0]
        )
        yield* move("redo", sessionId)
        assert.deepStrictEqual(
          [text("a"), text("dir/b"), text("made/c"), readlinkSync(at("link")), statSync(at("a")).mode & 0o100],
          ["2\n", undefined, "x\n", "nowhere", 0o100]
        )
      })
  )
})
