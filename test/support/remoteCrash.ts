// Runs a command without an end in a container or on another machine, says that it runs, and waits to be killed.
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { writeSync } from "node:fs"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as Container from "../../src/places/Container.ts"
import * as SshHost from "../../src/places/SshHost.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import { built } from "./containerMachine.ts"

const [kind = "", directory = "", first = "", second = "", third = "", ...rest] = process.argv.slice(2)

const environment =
  kind === "docker"
    ? built(Container.layer({ ...Container.defaults, binary: first, image: second, home: undefined }))
    : built(
        SshHost.layer({
          host: "127.0.0.1",
          user: first,
          port: Number(second),
          key: third,
          directory,
          extraArguments: rest,
          lifetime: Duration.minutes(1)
        })
      )

const program = Effect.scoped(
  Effect.gen(function* () {
    const { spawner } = yield* environment
    const handle = yield* spawner.spawn(
      ChildProcess.make("/bin/sh", ["-c", "sh -c 'while :; do echo x >> beat; sleep 0.05; done' & echo up; wait"], {
        cwd: directory,
        stdin: "ignore",
        env: { PATH: "/usr/bin:/bin" }
      })
    )
    yield* Stream.runHead(handle.stdout)
    writeSync(1, "ready\n")
    return yield* Effect.never
  })
)

await Effect.runPromise(Effect.provide(Effect.provideService(program, CallDirectory, directory), ChildProcesses.layer))
