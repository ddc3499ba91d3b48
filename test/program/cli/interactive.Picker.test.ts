// Lists to choose from: commands behind a slash, files behind an at sign, sessions, the history; and files that are
// attached.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as Prompt from "effect/ai/Prompt"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Completions from "../../../src/program/cli/interactive/Completions.ts"
import * as FuzzyMatch from "../../../src/program/cli/interactive/FuzzyMatch.ts"
import * as PromptLine from "../../../src/program/cli/interactive/PromptLine.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Width from "../../../src/program/cli/render/Width.ts"
import type { SessionStore } from "../../../src/store/SessionStore.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { session } from "../../support/interactiveSession.ts"
import { markAsRepository, temporaryDirectory } from "../../support/temporaryDirectory.ts"

const up = "\u001b[A"
const down = "\u001b[B"
const esc = "\u001b"
const ctrlR = "\u0012"

describe("FuzzyMatch", () => {
  const files = [
    "src/cli/Agent.ts",
    "src/agent/Agent.ts",
    "README.md",
    "src/agent/README.md",
    "docs/a/g/e.md",
    "src/tool/Agents.test.ts"
  ]
  const best = (query: string): ReadonlyArray<string> => FuzzyMatch.rank(query, files, (file) => file, 3)

  it("finds characters in their order, and puts what stands together and in the name first", () => {
    assert.deepStrictEqual(best("readme"), ["README.md", "src/agent/README.md"])
    assert.deepStrictEqual(best("AGENT.ts"), ["src/cli/Agent.ts", "src/agent/Agent.ts", "src/tool/Agents.test.ts"])
    assert.strictEqual(best("sagrd")[0], "src/agent/README.md")
    assert.deepStrictEqual(best("xyz"), [])
    assert.deepStrictEqual(best(""), files.slice(0, 3))
  })
})

describe("Completions", () => {
  const tokenAt = (text: string, cursor = text.length) => Completions.findToken({ text, cursor })

  it("are offered for a word that begins with a sign, and for nothing else", () => {
    assert.deepStrictEqual(tokenAt("/re"), { kind: "command", from: 0, query: "re" })
    assert.deepStrictEqual(tokenAt("look at @src/x"), { kind: "file", from: 8, query: "src/x" })
    assert.deepStrictEqual(tokenAt("@"), { kind: "file", from: 0, query: "" })
    for (const text of ["a /re", "mail me@example", "@a b", "", "/tmp/x"])
      assert.strictEqual(tokenAt(text), undefined, text)
    assert.strictEqual(tokenAt("/resume", 2), undefined)
  })

  it("rows are never wider than the terminal, and show what is marked", () => {
    const choices = Array.from({ length: 30 }, (_, index) => ({
      label: `/command${index} [ARGUMENT]`,
      detail: "漢字 ".repeat(40),
      value: index
    }))
    for (const columns of [20, 40, 60, 80, 140]) {
      for (const selected of [0, 15, 29]) {
        const rows = PromptLine.renderRows(choices, selected, { columns, rows: 24 }, Paint.plain)
        assert.isAtMost(rows.length, 8)
        assert.strictEqual(rows.filter((row) => row.startsWith("❯ /command" + String(selected))).length, 1)
        for (const row of rows) assert.isBelow(Width.measure(row), columns)
      }
    }
  })
})

describe("a list below the line", () => {
  it.effect("shows commands with their arguments and what they do; arrows and Enter take one, Tab completes it", () =>
    session({}, ({ screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("/st")
        const shown = yield* until("/stop [ID]")
        assert.match(shown, /❯ \/status +Show the state of this session/)
        yield* type("\t")
        yield* until("› /status")
        yield* type("\u0015/")
        yield* until("❯ /help")
        yield* type(`${down}${down}${up}`)
        yield* until("❯ /new [TITLE]")
        yield* type("\t")
        yield* until("› /new")
        yield* type("My talk\r")
        yield* until("› /new My talk\n\nNew session")
        yield* type(`/${down}${down}${up}`)
        yield* until("❯ /new [TITLE]")
        yield* type("\r")
        yield* until("New session", 2)
        yield* type("/us")
        yield* until("❯ /usage")
        yield* type(`${down}${up}\r`)
        yield* until("Model calls")
        assert.notInclude(screen(), "❯")
      })
    )
  )

  it.effect("is put away by Esc, and what was typed is sent as it is", () =>
    session({}, ({ screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("/us")
        yield* until("❯ /usage")
        yield* type(esc)
        yield* TestClock.adjust("60 millis")
        yield* type("\r")
        yield* until("Model calls")
        assert.notInclude(screen(), "❯")
      })
    )
  )

  it.effect("shows files but for those that .gitignore names; the one that is picked is attached", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const cwd = yield* temporaryDirectory
        mkdirSync(join(cwd, "src"))
        writeFileSync(join(cwd, ".gitignore"), "dist\n")
        markAsRepository(cwd)
        mkdirSync(join(cwd, "dist"))
        writeFileSync(join(cwd, "dist", "harbour.js"), "no")
        writeFileSync(
          join(cwd, "src", "harbour.ts"),
          Array.from({ length: 30 }, (_, index) => `const line${index + 1} = 1`).join("\n")
        )
        writeFileSync(join(cwd, "big.txt"), "x".repeat(300_000))
        yield* session(
          { about: { version: "0.1.0", provider: "fake", model: "fake-1", cwd } },
          ({ model, screen, type, until }) =>
            Effect.gen(function* () {
              yield* type("explain @harb")
              yield* until("❯ src/harbour.ts")
              assert.notInclude(screen(), "dist/harbour.js")
              yield* type("\r")
              yield* until("› explain @src/harbour.ts")
              yield* type("and @big.txt and me@example.com\r")
              yield* until("big.txt is too large to attach (293 KiB). The agent can read it.")
              yield* until("You said: explain @src/harbour.ts and @big.txt")
              const asked = JSON.stringify(model.asked[0]?.messages.at(-1))
              assert.include(asked, '<file path=\\"src/harbour.ts\\">\\nconst line1 = 1\\n')
              assert.include(asked, "const line30 = 1\\n</file>")
              assert.notInclude(screen(), "line30 = 1\n›")
              yield* type("only @src/harbour.ts:10-11\r")
              yield* until("You said: only")
              const range = JSON.stringify(model.asked[1]?.messages.at(-1))
              assert.include(range, 'lines=\\"10-11\\">\\nconst line10 = 1\\nconst line11 = 1\\n</file>')
            })
        )
      })
    ).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("lists in place of the prompt", () => {
  it.effect("/resume lets the user choose a session by its title, and Esc goes back", () =>
    session(
      {
        prepare: (store) =>
          Effect.forEach(["Harbour plans", "Old talk", "Something else"], (title, index) => {
            const id = SessionId.make(`20251231_12000${index}_cccccc`)
            return Effect.andThen(
              store.create({
                id,
                source: "cli",
                provider: "fake",
                model: "fake-1",
                systemPrompt: "You are a test.",
                title
              }),
              store.append(id, [Prompt.userMessage({ content: [Prompt.textPart({ text: `about ${title}` })] })])
            )
          })
      },
      ({ screen, type, until }) =>
        Effect.gen(function* () {
          yield* type("/resume\r")
          yield* until("Sessions · type to search")
          yield* type("zzz")
          yield* until("No match. Press Esc to go back.")
          yield* type(esc)
          yield* TestClock.adjust("60 millis")
          yield* type("/resume\r")
          yield* until("Sessions · type to search")
          yield* type("harb")
          yield* until("❯ Harbour plans")
          yield* type("\r")
          yield* until('Resumed "Harbour plans"')
          assert.notInclude(screen(), "type to search")
        })
    )
  )

  it.effect("/resume has the sessions of this folder, all with Ctrl+A, and asks before it changes the folder", () => {
    const addSession = (store: SessionStore["Service"], id: string, prompt: string, cwd: string) =>
      Effect.andThen(
        store.create({
          id: SessionId.make(id),
          source: "cli",
          provider: "fake",
          model: "fake-1",
          systemPrompt: "You are a test.",
          cwd,
          branch: "harbour"
        }),
        store.append(SessionId.make(id), [Prompt.userMessage({ content: [Prompt.textPart({ text: prompt })] })])
      )
    return session(
      {
        folder: { path: "/tmp", holds: (directory) => Effect.succeed(directory === "/tmp") },
        prepare: (store) =>
          Effect.andThen(
            addSession(store, "20251231_120000_cccccc", "about the harbour", "/tmp"),
            addSession(store, "20251231_120001_cccccc", "about the station", "/")
          )
      },
      ({ screen, type, until }) =>
        Effect.gen(function* () {
          // A new conversation names the last session of its folder.
          yield* until("last here: about the harbour (harbour), ")
          yield* type("/resume\r")
          assert.include(yield* until("Ctrl+A all folders"), "❯ about the harbour")
          assert.notInclude(screen(), "about the station")
          yield* type("\u0001")
          yield* until("Sessions of all folders")
          yield* type("station\r")
          yield* until("This session belongs to another folder: /")
          yield* type(`${down}\r`)
          yield* type("/sessions\r")
          const narrow = yield* until("1 more in other folders: /sessions all")
          assert.notInclude(narrow, "Resumed")
          assert.include(narrow, "about the harbour")
          yield* type("/resume 20251231_120001_cccccc\r")
          yield* until("❯ Resume it")
          yield* type("\r")
          yield* until("It belongs to another folder (/).")
        })
    )
  })

  it.effect("Ctrl+R finds what was sent before", () =>
    session({}, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("the first thing\r")
        yield* until("You said: the first thing")
        yield* type("another matter\r")
        yield* until("You said: another matter")
        yield* type(ctrlR)
        yield* until("❯ another matter")
        yield* type("first")
        yield* until("❯ the first thing")
        yield* type("\r")
        yield* until("› the first thing", 2)
        yield* type("\r")
        yield* until("You said: the first thing", 2)
        assert.strictEqual(model.asked.length, 3)
      })
    )
  )

  it.effect("does not attach what the file tools would not read, by any name, and masks secrets in a text", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const home = yield* temporaryDirectory
        const cwd = join(home, "project")
        mkdirSync(cwd)
        mkdirSync(join(home, ".ssh"))
        writeFileSync(join(home, ".ssh", "id_ed25519"), "PLANTED PRIVATE KEY")
        symlinkSync(join(home, ".ssh", "id_ed25519"), join(cwd, "notes.txt"))
        writeFileSync(join(cwd, "code.ts"), 'const key = "sk-abcdefghijklmnopqrstuvwx"\n')
        const places = { home, homes: [home], agentHomes: [], safeRoots: [] }
        yield* session(
          { about: { version: "0.1.0", provider: "fake", model: "fake-1", cwd }, places },
          ({ model, screen, type, until }) =>
            Effect.gen(function* () {
              yield* type("see @~/.ssh/id_ed25519 and @../.ssh/id_ed25519 and @notes.txt and @code.ts \r")
              yield* until("You said: see")
              for (const name of ["~/.ssh/id_ed25519", "../.ssh/id_ed25519", "notes.txt"])
                assert.include(screen(), `${name} is not attached: it holds credentials.`)
              const asked = JSON.stringify(model.asked[0]?.messages.at(-1))
              assert.include(asked, '<file path=\\"code.ts\\">')
              assert.notInclude(asked, "PLANTED")
              assert.notInclude(asked, "sk-abcdefghijklmnopqrstuvwx")
            })
        )
      })
    ).pipe(Effect.provide(NodeServices.layer))
  )
})
