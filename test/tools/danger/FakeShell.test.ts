// The hostile commands through the whole path of a tool call, to a shell that runs nothing: without a wall and with
// nobody to ask none may arrive there, and none of the floor where approvals are off.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { Agent, Approvals, CommandEnvironment, Runtime, Scripted, TerminalTools } from "../../../src/index.ts"
import * as ScriptedEnvironment from "../../../src/kit/testing/ScriptedEnvironment.ts"
import { hostile } from "./hostile.ts"
import { hostileDisguised } from "./hostileDisguised.ts"
import { hostileMore } from "./hostileMore.ts"
import { hostileSelf } from "./hostileSelf.ts"
import { looks } from "./reading.ts"

const all = [...hostile, ...hostileMore, ...hostileDisguised, ...hostileSelf]

/** Commands of one answer of the model. */
const together = 100

/** Those of the commands that the shell is given by a run. */
const arrived = (commands: ReadonlyArray<string>, policy: Parameters<typeof Approvals.layerDeny>[0] = {}) =>
  Effect.gen(function* () {
    const services = yield* Layer.build(
      ScriptedEnvironment.layer({ files: { "/work/a.txt": "a" }, commands: [{ line: /^/ }] })
    )
    const turns = Array.from({ length: Math.ceil(commands.length / together) }, (_, turn) =>
      Scripted.complete({
        toolCalls: commands
          .slice(turn * together, (turn + 1) * together)
          .map((command) => ({ name: "terminal", params: { command } }))
      })
    )
    const runtime = Runtime.layer({
      provider: Scripted.layer([...turns, Scripted.complete("done")]),
      environment: Layer.succeed(
        CommandEnvironment.CommandEnvironment,
        Context.get(services, CommandEnvironment.CommandEnvironment)
      ),
      cwd: "/work",
      approvals: Approvals.layerDeny(policy),
      tools: [TerminalTools.toolset]
    })
    yield* Effect.provide(Agent.run({ prompt: "go" }), runtime)
    const ran = yield* Context.get(services, ScriptedEnvironment.Commands)
    return commands.filter((command) => ran.some(({ line }) => line.endsWith(` ${command}`)))
  }).pipe(Effect.scoped, Effect.provide(Logger.layer([])))

describe("a shell that runs nothing", () => {
  it.live("is given no hostile command where nobody can be asked, and every one that only looks", () =>
    Effect.gen(function* () {
      // The tool itself refuses one that leaves a process behind.
      assert.deepStrictEqual(
        yield* arrived(looks),
        looks.filter((command) => command !== "sleep 1 & wait")
      )
      assert.deepStrictEqual(yield* arrived(all.map(([command]) => command)), [])
    })
  )

  it.live("is given no command of the floor where approvals are off", () =>
    Effect.gen(function* () {
      const floor = all.filter(([, , gravity]) => gravity === "floor").map(([command]) => command)
      assert.deepStrictEqual(yield* arrived([...floor, "rm -r build"], { mode: "off" }), ["rm -r build"])
    })
  )
})
