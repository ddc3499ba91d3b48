// The interactive session on a real terminal, as far as this machine can make one.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"
import { commandOf } from "../../support/runScript.ts"

const quoted = (command: ReadonlyArray<string>): string =>
  command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ")

const program = quoted(commandOf("interactiveProgram.ts", ["render", "0"]))

describe("a terminal", () => {
  it("shows colours and links as far as the environment says that it can", () => {
    const shows = (terminal: boolean, env: Paint.Environment) => {
      const { color, hyperlinks } = Paint.detectCapabilities(terminal, env)
      return [color, hyperlinks]
    }
    assert.deepStrictEqual(shows(true, { TERM: "xterm" }), [true, false])
    assert.deepStrictEqual(shows(true, { TERM: "xterm", NO_COLOR: "1" }), [false, false])
    assert.deepStrictEqual(shows(true, { TERM: "xterm", NO_COLOR: "" }), [true, false])
    assert.deepStrictEqual(shows(true, { TERM: "dumb", TERM_PROGRAM: "WezTerm" }), [false, false])
    assert.deepStrictEqual(shows(true, { TERM: "xterm", TERM_PROGRAM: "WezTerm" }), [true, true])
    assert.deepStrictEqual(shows(true, { TERM: "xterm", TERM_PROGRAM: "WezTerm", TMUX: "x" }), [true, false])
    assert.deepStrictEqual(shows(false, { TERM: "xterm", FORCE_HYPERLINK: "1" }), [false, false])
  })

  // Where no terminal can be made, the tests through the ports are all there is.
  if (launcher === undefined) return
  const launch = launcher

  it.live("a prompt, its answer, a turn that is stopped, the next one, and out", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { exited, screen, type, until } = yield* open(launch, `exec ${program}`, { NO_COLOR: "1" })
        yield* until("›")
        yield* type("show markdown\r")
        yield* until("That is all.")
        assert.include(screen(), "Key     │         Value\n────────┼──────────────\nname    │ hermes-effect")
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("\u0003")
        yield* until("Stopped.")
        yield* type("next one\r")
        yield* until("You said: next one")
        yield* type("/quit\r")
        assert.strictEqual(yield* exited, 0)
        assert.include(screen(), "Resume this session with:\n  hermes --resume ")
        assert.include(screen(), "3 by you")
      })
    )
  )

  it.live("leaving by Ctrl+C gives 130 and the terminal back as it was", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const line = `before=$(stty -g); ${program}; echo "code $?"; test "$before" = "$(stty -g)" && echo "as it was"`
        const { exited, type, until, written } = yield* open(launch, line)
        yield* until("›")
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("\u0003\u0003")
        yield* until("code 130")
        yield* until("as it was")
        yield* exited
        assert.isAbove(written().lastIndexOf("\u001b[?2004l"), written().lastIndexOf("\u001b[?2004h"))
        assert.isAbove(written().lastIndexOf("\u001b[?25h"), written().lastIndexOf("\u001b[?25l"))
      })
    )
  )
})
