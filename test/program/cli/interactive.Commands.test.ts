// Commands of a conversation about what is beside it: clipboard, copies, files, themes, tools, and the program's own
// commands.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Theme from "../../../src/program/cli/render/Theme.ts"
import { splitWords } from "../../../src/program/cli/ProgramCalls.ts"
import { machine, program } from "../../support/hermes.ts"
import { session } from "../../support/interactiveSession.ts"
import * as Pseudo from "../../support/pseudoTerminal.ts"

describe("commands of a conversation", () => {
  it.effect("/copy gives an answer, or its code, to the terminal and to a program", () => {
    const copied: Array<string> = []
    const clipboard = {
      isInTmux: false,
      picture: Effect.undefined,
      put: (text: string) => Effect.sync(() => (copied.push(text), copied.length === 1 ? "xclip" : undefined))
    }
    return session({ clipboard }, ({ terminal, type, until }) =>
      Effect.gen(function* () {
        yield* type("/copy\r")
        yield* until("No answer to copy yet.")
        yield* type("show markdown\r")
        yield* until("That is all.")
        yield* type("/copy code\r")
        yield* until("characters by the terminal and xclip.")
        assert.strictEqual(copied[0], '{ "name": "hermes-effect" }\n')
        assert.include(terminal.written(), `\u001b]52;c;${Buffer.from(copied[0] ?? "").toString("base64")}\u0007`)
        yield* type("/copy\r")
        yield* until("characters by the terminal.")
        assert.include(copied[1], "# Answer")
        yield* type("/copy 2\r")
        yield* until("There are fewer than 2 answers.")
        yield* type("/copy all\r")
        yield* until("/copy takes nothing")
      })
    )
  })

  it.effect("/fork goes on in a copy, and the one before stays; without messages it says so", () =>
    session({}, ({ store, type, until }) =>
      Effect.gen(function* () {
        yield* type("/fork\r")
        yield* until("Nothing to fork")
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("/fork another way\r")
        yield* until("The conversation continues in session")
        yield* type("again\r")
        yield* until("You said: again")
        const [fork, before] = yield* store.list({ limit: 5 })
        assert.deepEqual([fork?.title, fork?.messageCount, before?.messageCount], ["another way", 4, 2])
      })
    )
  )

  it.effect("/theme changes what is on the screen; the words of an argument are listed as it is typed", () => {
    const saved: Array<string> = []
    const theme = {
      background: "dark",
      settings: { theme: "auto", themes: { mine: { base: "dark", accent: "bold #ff8800" } } },
      save: (name: string) => Effect.sync(() => (saved.push(name), "display.theme in config.yaml"))
    } as const
    return session({ theme, color: true }, ({ terminal, type, until }) =>
      Effect.gen(function* () {
        yield* type("/theme ")
        yield* until("high-contrast")
        assert.include(terminal.written(), Theme.query)
        yield* type("mi\t\r")
        yield* until("Theme: mine, for this session.")
        assert.include(terminal.written(), "\u001b[1;1;38;2;255;136;0m›")
        yield* type("/theme light always\r")
        yield* until("Theme: light, saved as display.theme in config.yaml.")
        assert.deepEqual(saved, ["light"])
        yield* type("/theme lihgt\r")
        yield* until('No theme "lihgt". Did you mean light?')
        // The terminal's answer decides as long as the theme is auto, and is no typed text.
        yield* type("/theme auto\r")
        yield* until("Theme: auto")
        yield* type("\u001b]11;rgb:ffff/ffff/ff")
        yield* type("ff\u001b\\hello\r")
        yield* until("You said: hello")
        assert.include(terminal.written(), "\u001b[1;38;5;25m›")
      })
    )
  })

  it.effect("/tools looks a tool up; a list that nothing fits, or without entries, says so", () =>
    session({}, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("\u0012")
        yield* until("The list is empty. Press Esc to go back.")
        yield* type("\u0003")
        yield* type("/tools\r")
        yield* until("❯ nap")
        yield* type("zzz")
        yield* until("No match. Press Esc to go back.")
        yield* type("\u0015wipe\r")
        yield* until("Wipes the table")
        yield* until("No arguments")
        yield* type("/mcp\r")
        yield* until("No MCP servers.")
        yield* type("/expotr\r")
        yield* until("Unknown command /expotr. Did you mean /export or /exit?")
      })
    )
  )

  it("words of an argument stay together in quotes", () =>
    assert.deepEqual(splitWords(`set display.theme "high contrast" 'a b' c`), [
      "set",
      "display.theme",
      "high contrast",
      "a b",
      "c"
    ]))

  it.live.skipIf(Pseudo.launcher === undefined)(
    "of the program run inside of it: /config, /doctor, /permissions, /export, /bug",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          if (Pseudo.launcher === undefined) return
          const { at, cwd, home, keep, put } = yield* machine
          const secret = "sk-live-4f9aQ2mZ7xLw0TbR"
          keep("config.yaml", 'permissions: { deny: ["terminal(git push:*)"] }\ndisplay: { theme: drak }\n')
          keep(".env", `OPENAI_API_KEY=${secret}\n`)
          put("turns.yaml", JSON.stringify({ turns: [{ text: `the key is ${secret}` }] }))
          const { exited, screen, type, until, written } = yield* Pseudo.open(
            Pseudo.launcher,
            `cd '${cwd}' && exec '${process.execPath}' '${program}' --script turns.yaml`,
            { HERMES_HOME: home, HOME: at("."), NO_COLOR: "1" },
            100
          )
          yield* until('unknown theme "drak": did you mean "dark"?')
          yield* type("/export\r")
          yield* until("Nothing to export")
          yield* type("go\r")
          yield* until("the key is ")
          yield* type("/config get display.theme\r")
          yield* until("drak\n")
          yield* type("/config set display.theme light\r")
          yield* until("set display.theme in config.yaml")
          yield* type("/config get no.such\r")
          yield* until('no setting "no.such"')
          yield* type("/permissions test git push\r")
          yield* until("deny")
          yield* type("/doctor\r")
          yield* until("✓ program")
          yield* type("/export html\r")
          yield* until("1 session is in")
          yield* type("/export html\r")
          yield* until("exists. Name another file")
          yield* type("/bug it does not start\r")
          yield* until("The report is in")
          yield* type("/quit\r")
          assert.strictEqual(yield* exited, 0, screen())
          const [report = ""] = readdirSync(join(home, "bug-reports"))
          const files = readdirSync(join(home, "bug-reports", report))
          assert.sameMembers(files, [
            "report.md",
            "doctor.txt",
            "settings.yaml",
            "permissions.txt",
            "plugins.txt",
            "session.jsonl"
          ])
          const all = files.map((file) => readFileSync(join(home, "bug-reports", report, file), "utf8")).join("\n")
          for (const part of ["# it does not start", "✓ program", "terminal(git push:*)", "the key is"])
            assert.include(all, part)
          const page = readdirSync(cwd).find((name) => name.endsWith(".html")) ?? ""
          assert.isTrue(existsSync(join(cwd, page)))
          for (const text of [all, readFileSync(join(cwd, page), "utf8"), written()]) assert.notInclude(text, secret)
        })
      )
  )
})
