// Runs commands in a sandbox as the user of this process, as the suite of planted files starts it: one line of JSON for
// each command.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { join } from "node:path"
import { type Service } from "../../src/places/CommandEnvironment.ts"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import { CurrentProgram } from "../../src/base/platform/ProgramFiles.ts"

interface Task {
  readonly home: string
  readonly tree: string
  /** A module of the program that is attacked, and its script. */
  readonly module: string
  readonly script: string | undefined
  readonly writable: ReadonlyArray<string>
  readonly commands: ReadonlyArray<string>
  /** Program of the user that is started after each command. */
  readonly user: string
}

const task: Task = JSON.parse(process.argv[2] ?? "{}")

const runWith = Effect.fnUntraced(function* ({ spawner }: Service, command: string) {
  const handle = yield* spawner.spawn(
    ChildProcess.make("/bin/sh", ["-c", `exec 2>&1\n${command}`], {
      cwd: task.tree,
      stdin: "ignore",
      extendEnv: false,
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: task.home }
    })
  )
  const [out, code] = yield* Effect.all([Stream.mkString(Stream.decodeText(handle.stdout)), handle.exitCode], {
    concurrency: 2
  })
  return { out, code: Number(code) }
}, Effect.scoped)

const program = Effect.gen(function* () {
  const environment = yield* Sandbox.make({
    policy: "workspace-write",
    network: "none",
    home: task.home,
    writable: task.writable,
    hidden: [join(task.home, ".hermes")],
    shown: [],
    hidesEnvFiles: true,
    caches: {
      directory: join(task.home, ".hermes/cache/sandbox"),
      home: task.home,
      places: [".cache", ".npm", ".m2/repository"]
    }
  })
  for (const command of task.commands) {
    const ran = yield* runWith(environment, command)
    const moved = (yield* environment.planted?.take ?? Effect.succeed([])).map(({ path }) =>
      path.replace(`${task.tree}/`, "")
    )
    // The user himself, without a wall.
    const user = yield* Effect.scoped(
      Effect.gen(function* () {
        const spawner = environment.outside?.spawner
        if (spawner === undefined) return ""
        const handle = yield* spawner.spawn(
          ChildProcess.make("/bin/sh", ["-c", task.user], {
            cwd: task.tree,
            stdin: "ignore",
            extendEnv: false,
            env: { PATH: "/usr/bin:/bin", HOME: task.home, PAYLOADS: join(task.home, "ran") }
          })
        )
        return yield* Stream.mkString(Stream.decodeText(handle.all))
      })
    )
    process.stdout.write(`${JSON.stringify({ command, ...ran, moved, user })}\n`)
  }
}).pipe(
  Effect.scoped,
  Effect.provideService(CallDirectory, task.tree),
  Effect.provideService(CurrentProgram, { module: task.module, script: task.script, node: process.execPath }),
  Effect.provide(NodeServices.layer)
)

await Effect.runPromise(program)
