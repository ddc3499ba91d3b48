// Start of a command in the sandbox beside a bare one: `npm run bench:sandbox`. The two alternate, fifty of each;
// medians and the least are shown, of the time that passes and of what the file tools pay for a look at a file. The
// first command, which starts the network, is apart. Between two commands stands a moment, as a model's answer does:
// the look for repositories after a command is over then.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { join } from "node:path"
import { homedir } from "node:os"
import { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import { credentialDirectories, credentialFiles } from "../../src/tools/fence/SensitivePaths.ts"

const rounds = 50
const tree = join(import.meta.dirname, "../..")
const home = homedir()

const start = (spawner: ChildProcessSpawner["Service"]) =>
  Effect.scoped(
    Effect.gen(function* () {
      const handle = yield* spawner.spawn(
        ChildProcess.make("/bin/sh", ["-c", 'exec "$0" -c "$1" 2>&1', "/bin/bash", "true"], {
          cwd: tree,
          env: { PATH: "/usr/bin:/bin" },
          stdin: "ignore",
          stderr: "ignore",
          detached: true
        })
      )
      yield* handle.exitCode
    })
  )

const program = Effect.gen(function* () {
  const outer = yield* ChildProcessSpawner
  const host = yield* FileSystem.FileSystem
  const { files, spawner } = yield* CommandEnvironment
  const times = new Map<string, Array<number>>()
  const timed = <A, E, R>(name: string, effect: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      const since = performance.now()
      return Effect.tap(
        effect,
        Effect.sync(() => void times.set(name, [...(times.get(name) ?? []), performance.now() - since]))
      )
    })
  yield* timed("first sandboxed command", start(spawner))
  for (let round = 0; round < rounds; round++) {
    yield* Effect.sleep("200 millis")
    yield* timed("bare command", start(outer))
    yield* Effect.sleep("200 millis")
    yield* timed("sandboxed command", start(spawner))
    yield* timed("bare look at a file", host.stat(join(tree, "package.json")))
    yield* timed("sandboxed look at a file", files.stat(join(tree, "package.json")))
  }
  for (const [name, list] of times) {
    const sorted = list.toSorted((a, b) => a - b)
    process.stdout.write(
      `${name.padEnd(26)} median ${(sorted[sorted.length >> 1] ?? 0).toFixed(2).padStart(7)} ms, least ${(sorted[0] ?? 0).toFixed(2).padStart(7)} ms\n`
    )
  }
})

await Effect.runPromise(
  program.pipe(
    Effect.provideService(CallDirectory, tree),
    Effect.provide(
      Sandbox.layerTried({
        policy: "workspace-write",
        network: { setting: "terminal.sandbox.hosts", isListed: () => false, addresses: () => Effect.succeed([]) },
        home,
        writable: [".cache", ".npm"].map((name) => join(home, name)),
        hidden: [...credentialDirectories, ...credentialFiles].map((name) => join(home, name)),
        shown: [],
        hidesEnvFiles: true
      })
    ),
    Effect.provide(NodeServices.layer)
  )
)
