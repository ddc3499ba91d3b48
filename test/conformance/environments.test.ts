// One suite for every environment, over real engines and daemons where this machine has them.
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll } from "vitest"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import * as Container from "../../src/places/Container.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import * as Seatbelt from "../../src/places/Seatbelt.ts"
import * as SshHost from "../../src/places/SshHost.ts"
import { built, engine, sshReason, sshServer } from "../support/containerMachine.ts"
import { conformance, graceful, type MakeSubject } from "../support/environmentConformance.ts"
import { sandboxExec } from "../support/sandboxExec.ts"
import { makeLastingDirectory, markAsRepository } from "../support/temporaryDirectory.ts"

/** Outside of the directories for temporary files, of which some environments have their own. */
const project = Effect.acquireRelease(
  Effect.sync(() => {
    const directory = makeLastingDirectory("environment-")
    markAsRepository(directory)
    writeFileSync(join(directory, ".git/config"), "[core]\n")
    return directory
  }),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

const bwrap = spawnSync("bwrap", [
  "--unshare-user",
  "--unshare-net",
  "--unshare-pid",
  "--ro-bind",
  "/",
  "/",
  "--proc",
  "/proc",
  "true"
])

conformance(
  "local",
  Effect.gen(function* () {
    return { environment: yield* built(CommandEnvironment.layerLocal), directory: yield* project }
  })
)

conformance(
  "sandbox",
  Effect.gen(function* () {
    const directory = yield* project
    const environment = yield* built(
      Sandbox.layer({
        policy: "workspace-write",
        network: "none",
        home: undefined,
        writable: [],
        hidden: [],
        shown: [],
        hidesEnvFiles: true
      })
    )
    return { environment, directory }
  }),
  {
    reason: bwrap.status === 0 ? undefined : "bubblewrap does not work here",
    exception: { rule: graceful, why: "what is stopped in the sandbox is killed at once" }
  }
)

conformance(
  "sandbox of macOS, by a program that stands for sandbox-exec",
  Effect.gen(function* () {
    const directory = yield* project
    const { program } = yield* sandboxExec
    const environment = yield* built(
      Sandbox.layer({
        policy: "workspace-write",
        network: "none",
        home: undefined,
        writable: [],
        hidden: [],
        shown: [],
        hidesEnvFiles: true
      })
    ).pipe(Effect.provideService(Sandbox.Wall, Seatbelt.makeSeatbelt(program)))
    return { environment, directory }
  })
)

for (const kind of ["docker", "podman"] as const) {
  const found = engine(kind)
  afterAll(found.dispose)
  const make: MakeSubject = Effect.gen(function* () {
    const environment = yield* built(
      Container.layer({
        ...Container.defaults,
        binary: found.engine?.program,
        image: found.engine?.image ?? "",
        home: undefined
      })
    )
    return { environment, directory: yield* project }
  })
  conformance(kind, make, found)
}

conformance(
  "ssh",
  Effect.gen(function* () {
    const { key, known, port, user } = yield* sshServer
    const directory = yield* project
    const environment = yield* built(
      SshHost.layer({
        host: "127.0.0.1",
        user,
        port,
        key,
        directory,
        extraArguments: known,
        lifetime: Duration.minutes(1)
      })
    )
    return { environment, directory }
  }),
  { reason: sshReason }
)
