// Background work of the real program on a real terminal, as far as this machine can make one.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { machine, program } from "../../support/hermes.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"
import { isAlive } from "../../support/terminalTools.ts"
import { eventually } from "../../support/waiting.ts"

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
const call = (name: string, args: unknown) => ({ name, arguments: args })

describe("background work of hermes chat", () => {
  // Where no terminal can be made, the tests through the ports are all there is.
  if (launcher === undefined) return
  const launch = launcher

  it.live(
    "a child works on while the prompt is there, is listed, and its report comes as a message; leaving ends the rest",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { at, cwd, home, put } = yield* machine
          put(
            "turns.json",
            JSON.stringify({
              turns: [
                { match: "begin", tool_calls: [call("delegate_task", { goal: "count the sheep", background: true })] },
                { match: "begin", text: "It is on its way." },
                {
                  match: "count the sheep",
                  tool_calls: [
                    call("terminal", { command: "touch counting; while [ ! -e go ]; do sleep 0.05; done; echo 7" })
                  ]
                },
                { match: "count the sheep", text: "Seven sheep." },
                { match: "Report of the background", text: "I hear of seven." },
                { match: "again", tool_calls: [call("delegate_task", { goal: "sleep long", background: true })] },
                { match: "again", text: "It sleeps." },
                { match: "sleep long", tool_calls: [call("terminal", { command: "echo $$ > pid; exec sleep 600" })] }
              ]
            })
          )
          const line = `cd ${quoted(cwd)}; exec ${quoted(process.execPath)} ${quoted(program)} chat --script turns.json`
          const { exited, screen, type, until } = yield* open(launch, line, {
            NO_COLOR: "1",
            HERMES_HOME: home,
            HOME: cwd
          })
          yield* until("›")
          yield* type("begin\r")
          yield* until("It is on its way.")
          yield* eventually(
            "it counts",
            Effect.sync(() => existsSync(at("counting")))
          )
          yield* type("/agents\r")
          yield* until("count the sheep · terminal, 1 tool call")
          put("go", "")
          yield* until("› [Report of the background delegation dlg_")
          yield* until("I hear of seven.")
          yield* type("again\r")
          yield* until("It sleeps.")
          yield* eventually(
            "it sleeps",
            Effect.sync(() => existsSync(at("pid")) && readFileSync(at("pid"), "utf8") !== "")
          )
          yield* type("/quit\r")
          assert.strictEqual(yield* exited, 0, screen())
          const pid = Number(readFileSync(at("pid"), "utf8"))
          yield* eventually(
            "it ended",
            Effect.map(isAlive(pid), (alive) => !alive)
          )
        })
      ).pipe(Effect.provide(NodeServices.layer))
  )
})
