// Files that a session changed, shown and put back: by `hermes sessions` and by the commands of a conversation.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { commands } from "../../../src/program/cli/interactive/ChangeCommands.ts"
import type { Dialog } from "../../../src/program/cli/interactive/Dialog.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as LiveSession from "../../../src/serve/host/LiveSession.ts"
import { Approvals, FileTools, Runtime, Scripted, SessionStore, TerminalTools } from "../../../src/index.ts"
import { sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const script = [
  "turns:",
  '  - { text: I write, tool_calls: [{ name: write_file, arguments: { path: notes.txt, content: "two\\n" } }] }',
  '  - { text: I run, tool_calls: [{ name: terminal, arguments: { command: "rm old.txt; echo made > new.txt" } }] }',
  "  - { text: Done }"
].join("\n")

const changed = Effect.gen(function* () {
  const at = yield* machine
  at.put("notes.txt", "one\n")
  at.put("old.txt", "old\n")
  at.put("run.yaml", script)
  const first = yield* at.hermes([
    "chat",
    "-q",
    "change the files",
    "--script",
    "run.yaml",
    "-t",
    "file,terminal",
    "--yolo"
  ])
  const text = (name: string) => (existsSync(join(at.cwd, name)) ? readFileSync(join(at.cwd, name), "utf8") : undefined)
  return { ...at, first, text, id: sessionIdOf(first.stderr) }
})

describe("hermes sessions", () => {
  it.live("a run shows what it changes, and diff shows it again", () =>
    Effect.gen(function* () {
      const { first, hermes, id } = yield* changed
      assert.strictEqual(first.code, 0, first.stderr)
      assert.include(first.stderr, "  notes.txt +1 -1\n  @@ -1 +1 @@\n  -one\n  +two\n")
      assert.include(first.stderr, "  old.txt -1\n")
      const { code, stdout } = yield* hermes(["sessions", "diff", id])
      assert.strictEqual(code, 0)
      assert.include(stdout, "+1 -1\n@@ -1 +1 @@\n-one\n+two\n")
      const json = JSON.parse((yield* hermes(["sessions", "diff", "latest", "--json"])).stdout)
      assert.deepStrictEqual(
        json.map(({ added, path, removed }: Record<string, unknown>) => [
          String(path).split("/").at(-1),
          added,
          removed
        ]),
        [
          ["notes.txt", 1, 1],
          ["new.txt", 1, 0],
          ["old.txt", 0, 1]
        ]
      )
      assert.include((yield* hermes(["sessions", "diff", id, "--list"])).stdout, "change the files")
      assert.deepInclude(yield* hermes(["sessions", "diff", id, "--run", "7"]), { code: 2 })
    })
  )

  it.live("undo puts files back, and refuses what was changed since with its difference and an exit code", () =>
    Effect.gen(function* () {
      const { hermes, id, put, text } = yield* changed
      put("notes.txt", "mine\n")
      const refused = yield* hermes(["sessions", "undo", id])
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "it was changed since")
      assert.include(refused.stderr, "-mine\n")
      assert.include(
        refused.stderr,
        "nothing was changed: 1 file was changed since. Pass --force to overwrite, or --keep"
      )
      assert.deepStrictEqual([text("notes.txt"), text("old.txt"), text("new.txt")], ["mine\n", undefined, "made\n"])
      const kept = yield* hermes(["sessions", "undo", id, "--keep"])
      assert.deepInclude(kept, { code: 0 })
      assert.include(kept.stdout, 'Undone: 2 files of "change the files"')
      assert.include(kept.stdout, "Not changed: ")
      assert.deepStrictEqual([text("notes.txt"), text("old.txt"), text("new.txt")], ["mine\n", "old\n", undefined])
      assert.deepInclude(yield* hermes(["sessions", "undo", id]), { code: 1 })
      assert.deepInclude(yield* hermes(["sessions", "undo", id, "--redo"]), { code: 0 })
      assert.deepStrictEqual([text("notes.txt"), text("old.txt"), text("new.txt")], ["mine\n", undefined, "made\n"])
      assert.deepInclude(yield* hermes(["sessions", "undo", id, "--force"]), { code: 0 })
      assert.deepStrictEqual([text("notes.txt"), text("old.txt")], ["one\n", "old\n"])
      assert.deepInclude(yield* hermes(["sessions", "undo", id, "--force", "--keep"]), { code: 2 })
      assert.deepInclude(yield* hermes(["sessions", "undo", "nobody"]), { code: 2 })
    })
  )

  it.live("stream-json tells of each changed file", () =>
    Effect.gen(function* () {
      const at = yield* machine
      at.put("run.yaml", script)
      const { stdout } = yield* at.hermes([
        "chat",
        "-q",
        "go",
        "--script",
        "run.yaml",
        "-t",
        "file",
        "--format",
        "stream-json"
      ])
      const [change] = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
        .filter(({ type }) => type === "file_change")
      assert.deepInclude(change, {
        change: "created",
        by: "tool",
        added: 1,
        removed: 0,
        diff: "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+two\n"
      })
    })
  )
})

/** A conversation with a live session and a screen of lines; each message makes the calls that stand for it. */
const conversation = Effect.fnUntraced(function* (
  turns: ReadonlyArray<ReadonlyArray<readonly [string, Readonly<Record<string, unknown>>]>>
) {
  const home = yield* temporaryDirectory
  const cwd = join(home, "project")
  mkdirSync(cwd)
  const context = yield* Layer.build(
    Runtime.layer({
      provider: Scripted.layer(
        turns.flatMap((calls) => [
          ...calls.map(([name, params]) => Scripted.complete({ toolCalls: [{ name, params }] })),
          Scripted.complete("done")
        ])
      ),
      cwd,
      store: SessionStore.layerSqlite({ path: join(home, "state.db") }).pipe(Layer.provide(NodeServices.layer)),
      changes: { directory: join(home, "changes"), home },
      approvals: Approvals.layerCallback(() => Effect.succeed("once" as const)),
      tools: [FileTools.toolset, TerminalTools.toolset]
    })
  )
  const live = yield* Effect.provideContext(LiveSession.make({ cwd }), context)
  // Without one the model would be asked for it.
  yield* live.rename("titled")
  const said: Array<string> = []
  const listed: Array<string> = []
  const size = { columns: 80, rows: 24 }
  const screen = {
    asidePaint: Paint.plain,
    size: () => size,
    say: (text: string) => void said.push(text),
    live: (view: (room: typeof size) => { readonly lines: ReadonlyArray<string> }) =>
      void listed.push(...view(size).lines)
  }
  const keys: Array<string> = []
  const keyboard = {
    pending: () => false,
    next: Effect.suspend(() => {
      const name = keys.shift()
      return name === undefined ? Cause.done() : Effect.succeed({ _tag: "Key", name })
    })
  }
  // The commands use no more of a dialogue.
  const dialog = { live, screen, keyboard } as unknown as Dialog
  return {
    live,
    text: (name: string) => (existsSync(join(cwd, name)) ? readFileSync(join(cwd, name), "utf8") : undefined),
    put: (name: string, content: string) => writeFileSync(join(cwd, name), content),
    prompts: Effect.map(live.messages, (messages) =>
      messages.flatMap((message) =>
        message.role === "user" ? [message.content.map((part) => (part.type === "text" ? part.text : "")).join("")] : []
      )
    ),
    send: Effect.fnUntraced(function* (prompt: string) {
      const reader = yield* live.subscribe()
      yield* live.send({ prompt })
      for (
        let event = yield* reader.take;
        event._tag !== "TurnEnded" || event.turn.message.prompt !== prompt;
        event = yield* reader.take
      );
    }, Effect.scoped),
    listed,
    /** Types a command, and then keys for what it asks. */
    type: Effect.fnUntraced(function* (line: string, ...answer: ReadonlyArray<string>) {
      keys.splice(0, keys.length, ...answer)
      const [name = "", ...rest] = line.split(" ")
      const command = commands.find((one) => one.name === name) ?? assert.fail(`no /${name}`)
      said.length = 0
      // The services of a program that the commands do not use are left out.
      yield* Effect.provideContext(command.run(rest.join(" "), dialog), context as never) as Effect.Effect<unknown>
      return said.join("")
    })
  }
})

describe("a conversation", () => {
  const turns = [
    [["write_file", { path: "a", content: "1\n" }]],
    [
      ["write_file", { path: "a", content: "2\n" }],
      ["terminal", { command: "echo x > b" }]
    ]
  ] as const

  it.live("/undo goes back turn by turn, files and messages, and /redo forward", () =>
    Effect.gen(function* () {
      const { prompts, send, text, type } = yield* conversation(turns)
      yield* send("first")
      yield* send("second")
      assert.include(yield* type("diff"), "b +1\n")
      assert.include(yield* type("diff session"), "+2")
      const list = yield* type("checkpoints")
      assert.match(list, /1 {2}first {2}1 file \+1/)
      assert.match(list, /2 {2}second {2}2 files \+2 -1/)
      assert.include(yield* type("undo"), 'Undone: 2 files of "second" (')
      assert.deepStrictEqual([text("a"), text("b"), yield* prompts], ["1\n", undefined, ["first"]])
      yield* type("undo")
      assert.deepStrictEqual([text("a"), yield* prompts], [undefined, []])
      assert.include(yield* type("undo"), "Nothing to undo.")
      yield* type("redo")
      assert.deepStrictEqual([text("a"), yield* prompts], ["1\n", ["first"]])
      yield* type("redo")
      assert.deepStrictEqual([text("a"), text("b"), yield* prompts], ["2\n", "x\n", ["first", "second"]])
      assert.include(yield* type("redo"), "Nothing to redo")
      yield* type("undo 1")
      assert.deepStrictEqual([text("a"), text("b"), yield* prompts], [undefined, undefined, []])
    }).pipe(Effect.scoped)
  )

  it.live("/undo asks before it overwrites, and takes files and messages back apart", () =>
    Effect.gen(function* () {
      const { listed, prompts, put, send, text, type } = yield* conversation(turns)
      yield* send("first")
      yield* send("second")
      put("a", "mine\n")
      const asked = yield* type("undo")
      assert.include(asked, "a: it was changed since. Undo would make this change:\n@@ -1 +1 @@\n-mine\n+1\n")
      assert.include(asked, "Nothing was changed.")
      assert.includeMembers(
        listed.map((row) => row.trimEnd()),
        ["❯ Change nothing", "  Leave it        undo the rest: 1 file", "  Overwrite it    later changes are lost"]
      )
      assert.include(yield* type("undo", "enter"), "Nothing was changed.")
      assert.deepStrictEqual([text("a"), text("b"), yield* prompts], ["mine\n", "x\n", ["first", "second"]])
      yield* type("undo files", "down", "enter")
      assert.deepStrictEqual([text("a"), text("b"), yield* prompts], ["mine\n", undefined, ["first", "second"]])
      yield* type("redo files")
      yield* type("undo conversation")
      assert.deepStrictEqual([text("a"), text("b"), yield* prompts], ["mine\n", "x\n", ["first"]])
      yield* type("redo")
      yield* type("undo files", "down", "down", "enter")
      assert.strictEqual(text("a"), "1\n")
      assert.include(yield* type("undo sideways"), "/undo takes files or conversation")
    }).pipe(Effect.scoped)
  )
})
