// A real terminal that breaks lines by itself (tmux), made narrower and wider in the middle of an answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import * as Width from "../../../src/program/cli/render/Width.ts"
import { commandOf } from "../../support/runScript.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { eventually } from "../../support/waiting.ts"

const program = commandOf("interactiveProgram.ts", ["render", "40", "screen"])
  .map((word) => `'${word.replaceAll("'", "'\\''")}'`)
  .join(" ")

const hasTmux = spawnSync("tmux", ["-V"], { stdio: "ignore" }).status === 0

describe("a terminal that changes its size", () => {
  it.live.skipIf(!hasTmux)(
    "keeps every word, breaks none, and has the screen at the new width; Ctrl+O has all of it",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const socket = join(yield* temporaryDirectory, "tmux")
          const tmux = (...args: ReadonlyArray<string>): string => {
            const { stderr, stdout } = spawnSync("tmux", ["-S", socket, "-f", "/dev/null", ...args], {
              encoding: "utf8",
              env: { ...process.env, TMUX: undefined }
            })
            if (stderr !== "") throw new Error(stderr)
            return stdout
          }
          const screen = () => tmux("capture-pane", "-p", "-t", "s").trimEnd()
          const history = () => tmux("capture-pane", "-p", "-S", "-", "-t", "s").trimEnd()
          const until = (text: string) =>
            eventually(
              text,
              Effect.sync(() => screen().includes(text))
            )
          const resize = (columns: number, rows: number) =>
            tmux("resize-window", "-t", "s", "-x", String(columns), "-y", String(rows))
          yield* Effect.acquireRelease(
            Effect.sync(() =>
              tmux("new-session", "-d", "-s", "s", "-x", "80", "-y", "30", `NO_COLOR=1 exec ${program}`)
            ),
            () => Effect.sync(() => spawnSync("tmux", ["-S", socket, "kill-server"], { stdio: "ignore" }))
          )
          yield* until("fake-1 · ask")
          tmux("send-keys", "-t", "s", "show markdown", "Enter")
          yield* until("• the name is")
          for (const [columns, rows] of [
            [40, 30],
            [60, 20],
            [25, 30],
            [40, 30]
          ] as const) {
            resize(columns, rows)
            yield* Effect.sleep(150)
          }
          yield* until("That is all.")
          yield* until("fake-1 · ask")
          const shown = screen().split("\n")
          assert.isTrue(
            shown.every((line) => Width.measure(line) <= 40),
            screen()
          )
          assert.include(
            screen(),
            [
              "• the name is hermes-effect, which is a",
              "  rather long name for a package, so",
              "  that this line has to be broken",
              "  somewhere",
              "• the version is 0.1.0"
            ].join("\n")
          )
          assert.strictEqual(screen().split("That is all.").length, 2, screen())
          // Nothing is lost that has scrolled away.
          for (const word of ["hermes 0.1.0", "show markdown", "Answer", "package.json"])
            assert.include(history(), word)
          resize(100, 30)
          yield* until(
            "• the name is hermes-effect, which is a rather long name for a package, so that this line has to be"
          )
          assert.strictEqual(screen().split("• the name is").length, 2, screen())
          resize(20, 12)
          yield* until("fake-1")
          tmux("send-keys", "-t", "s", "C-o")
          yield* until("↑↓")
          tmux("send-keys", "-t", "s", "g")
          yield* until("hermes 0.1.0")
          for (const line of screen().split("\n")) assert.isAtMost(Width.measure(line), 20, screen())
          tmux("send-keys", "-t", "s", "q")
          yield* until("fake-1")
          tmux("send-keys", "-t", "s", "/quit", "Enter")
          yield* eventually(
            "it ended",
            Effect.sync(
              () => spawnSync("tmux", ["-S", socket, "has-session", "-t", "s"], { stdio: "ignore" }).status !== 0
            )
          )
        })
      )
  )
})
