// The question about a command on a real terminal: the prefix is offered, granted and kept, and never covers more.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { machine, program } from "../../support/hermes.ts"
import * as Pseudo from "../../support/pseudoTerminal.ts"

const turns = (...commands: ReadonlyArray<string>): string =>
  JSON.stringify({
    turns: [
      ...commands.map((command) => ({ tool_calls: [{ name: "terminal", arguments: { command } }] })),
      { text: "that was all" }
    ]
  })

const started = (launch: NonNullable<typeof Pseudo.launcher>) =>
  Effect.gen(function* () {
    const { at, cwd, hermes, home, keep, put } = yield* machine
    keep("config.yaml", "display: { show_reasoning: false }\n")
    const open = (commands: ReadonlyArray<string>) => {
      put("turns.yaml", turns(...commands))
      return Pseudo.open(launch, `cd '${cwd}' && exec '${process.execPath}' '${program}' --script turns.yaml`, {
        HERMES_HOME: home,
        HOME: at("."),
        NO_COLOR: "1"
      })
    }
    return { hermes, home, open, put }
  })

describe("a question about a command", () => {
  // Where no terminal can be made, the tests of the service are all there is.
  if (Pseudo.launcher === undefined) return
  const launch = Pseudo.launcher

  it.live("offers its prefix for the session and for good, and keeps it as a rule", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { hermes, home, open, put } = yield* started(launch)
        const first = yield* open([
          "git branch -D one",
          "git branch -D two",
          "git branch -D three; git branch -D four",
          "git branch -D five"
        ])
        yield* first.until("›")
        yield* first.type("go\r")
        yield* first.until("│ $ git branch -D one")
        yield* first.until("3 Allow commands that begin with `git branch` for this session")
        yield* first.until(`5 Allow from now on: terminal(git branch:*) (permissions.allow in`)
        yield* Effect.sleep("700 millis")
        yield* first.type("3\r")
        // The second one is not asked about, the compound one is.
        yield* first.until("│ $ git branch -D three; git branch -D four")
        assert.notInclude(first.screen(), "│ $ git branch -D two")
        assert.notMatch(first.screen(), /three[^]*commands that begin with/)
        yield* Effect.sleep("700 millis")
        yield* first.type("n\r")
        yield* first.until("that was all")
        assert.notInclude(first.screen(), "│ $ git branch -D five")
        yield* first.type("/quit\r")
        yield* first.exited
        assert.notInclude(readFileSync(`${home}/config.yaml`, "utf8"), "git branch")

        const second = yield* open(["git branch -D one"])
        yield* second.until("›")
        yield* second.type("go\r")
        yield* second.until("5 Allow from now on")
        yield* Effect.sleep("700 millis")
        yield* second.type("5\r")
        yield* second.until("that was all")
        yield* second.type("/quit\r")
        yield* second.exited
        assert.include(readFileSync(`${home}/config.yaml`, "utf8"), "- terminal(git branch:*)")

        // Where nobody can be asked, what was kept runs and everything else does not.
        put(
          "turns.yaml",
          turns(
            "git branch -D six",
            "git branch -D six && git branch -D seven",
            "git branch -D six > out.txt",
            "git reset --hard"
          )
        )
        const { stdout } = yield* hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"])
        const outputs = stdout
          .split("\n")
          .filter((line) => line.includes('"tool_result"'))
          .map((line) => String(JSON.parse(line).output))
        assert.deepStrictEqual(
          outputs.map((output) => output.includes("BLOCKED")),
          [false, false, true, true]
        )
      })
    )
  )
})
