// One session belongs to one process at a time.
import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ChildProcess } from "node:child_process"
import { existsSync } from "node:fs"
import { machine, sessionIdOf } from "../../support/hermes.ts"
import { sessions } from "../../support/stateDatabase.ts"

it.live("a session that another process works on is busy in one line, and free as soon as that process is dead", () =>
  Effect.gen(function* () {
    const { at, hermes, home, keep } = yield* machine
    keep("config.yaml", "model: { provider: offline, default: offline }\n")
    const started = yield* Deferred.make<{ readonly child: ChildProcess; readonly id: string }>()
    let stderr = ""
    const first = yield* Effect.forkChild(
      hermes(["-q", "Run the command: echo started > started; sleep 60"], {
        onError: (text) => (stderr = text),
        onStart: (child) => {
          const look = setInterval(() => {
            if (!existsSync(at("started"))) return
            clearInterval(look)
            Effect.runSync(Deferred.succeed(started, { child, id: sessionIdOf(stderr) }))
          }, 20)
          child.once("exit", () => clearInterval(look))
        }
      })
    )
    const { child, id } = yield* Deferred.await(started)
    const busy = yield* hermes(["-Q", "-q", "Reply exactly hello", "--resume", id])
    assert.deepStrictEqual(
      [busy.code, busy.stdout, busy.stderr],
      [1, "", `Error: session ${id} is busy in process ${child.pid}: wait for its run to end, or stop it\n`]
    )
    child.kill("SIGKILL")
    yield* Fiber.join(first)
    const free = yield* hermes(["-Q", "-q", "Reply exactly hello", "--resume", id])
    assert.deepStrictEqual([free.code, free.stdout], [0, "hello\n"], free.stderr)
    const [session] = yield* sessions(home)
    assert.deepStrictEqual(
      session?.messages.map(({ role }) => role),
      ["user", "assistant", "tool", "user", "assistant"]
    )
  })
)
