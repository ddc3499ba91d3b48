// The parts of the screen on a real terminal: status line, lists, Esc, long pastes, title and bell, at several widths.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Width from "../../../src/program/cli/render/Width.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"
import { commandOf } from "../../support/runScript.ts"

const program = commandOf("interactiveProgram.ts", ["render", "0", "screen"])
  .map((word) => `'${word.replaceAll("'", "'\\''")}'`)
  .join(" ")

describe("the screen of a conversation", () => {
  // Where no terminal can be made, the tests through the ports are all there is.
  if (launcher === undefined) return
  const launch = launcher

  it.live.each([40, 100])(
    "with %i columns: status, list, paste, Esc, title and bell, and the terminal as it was",
    (columns) =>
      Effect.scoped(
        Effect.gen(function* () {
          const { exited, screen, type, until, written } = yield* open(
            launch,
            `exec ${program}`,
            { NO_COLOR: "1" },
            columns
          )
          yield* until("fake-1 · ask")
          yield* type("/stat")
          yield* until("❯ /status")
          yield* type(
            "\u0015\u001b[200~" +
              Array.from({ length: 200 }, (_, index) => `line ${index + 1}`).join("\n") +
              "\u001b[201~"
          )
          yield* until("[paste #1, 200 lines]")
          yield* type(" hang\r")
          yield* until("Let me think about")
          yield* type("\u001b")
          yield* until("Stopped.")
          yield* type("hello\r")
          yield* until("You said: hello")
          yield* until("15 context")
          for (const line of screen().split("\n")) assert.isAtMost(Width.measure(line), columns)
          yield* type("/quit\r")
          assert.strictEqual(yield* exited, 0)
          const all = written()
          assert.include(all, "\u001b]2;working: project · hermes\u0007")
          assert.isAbove(all.lastIndexOf("\u001b[23;0t"), all.lastIndexOf("\u001b]2;"))
          assert.include(all.replaceAll("hermes\u0007", ""), "\u0007")
        })
      )
  )
})
