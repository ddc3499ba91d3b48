// Ways out of each wall that can run here, tried from inside against things that the test planted outside: what is
// reached is a defect. A way is tried by shell words that BusyBox knows too; each prints its name where it came
// through.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import type * as NodeServices from "@effect/platform-node/NodeServices"
import { spawn, spawnSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { createServer, type Server } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { randomUUID } from "node:crypto"
import { afterAll } from "vitest"
import { type Service } from "../../src/places/CommandEnvironment.ts"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as Container from "../../src/places/Container.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import { built, engine } from "../support/containerMachine.ts"
import { makeLastingDirectory } from "../support/temporaryDirectory.ts"

type Needs = Scope.Scope | NodeServices.NodeServices

const listening = (at: string) =>
  Effect.acquireRelease(
    Effect.promise(
      () =>
        new Promise<Server>((resolve) => {
          const server = createServer((socket) => socket.end("PRIVATE"))
          server.listen(at, () => resolve(server))
        })
    ),
    (server) => Effect.sync(() => server.close())
  )

const nobody = 65_534

/**
 * A machine with things that nobody inside may reach: a process with a secret, sockets, files, a program with the right
 * of its owner.
 */
const machine = Effect.gen(function* () {
  const home = yield* Effect.acquireRelease(
    Effect.sync(() => makeLastingDirectory("escapes-")),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  )
  const tree = join(home, "project")
  mkdirSync(join(tree, ".git/hooks"), { recursive: true })
  writeFileSync(join(tree, ".git/config"), "[core]\n")
  mkdirSync(join(home, ".ssh"))
  writeFileSync(join(home, ".ssh/key"), "PRIVATE")
  writeFileSync(join(home, "outside"), "theirs")
  const root = process.getuid?.() === 0
  // Its owner is another user where the test may say so.
  const program = spawnSync("sh", ["-c", "command -v busybox || command -v id"], { encoding: "utf8" }).stdout.trim()
  copyFileSync(program, join(tree, "busybox"))
  if (root) chownSync(join(tree, "busybox"), nobody, nobody)
  chmodSync(join(tree, "busybox"), 0o4755)
  const victim = yield* Effect.acquireRelease(
    Effect.sync(() => spawn("sleep", ["300"], { env: { PATH: "/usr/bin:/bin", VICTIM: "PRIVATE" }, stdio: "ignore" })),
    (victim) => Effect.sync(() => victim.kill("SIGKILL"))
  )
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "hermes-agent-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  )
  yield* listening(join(agent, "agent.sock"))
  yield* listening(join(home, ".ssh/agent.sock"))
  const abstract = `hermes-escape-${randomUUID()}`
  yield* listening(`\0${abstract}`)
  const pattern = readFileSync("/proc/sys/kernel/core_pattern", "utf8")
  return {
    abstract,
    agent: join(agent, "agent.sock"),
    home,
    pattern,
    pid: victim.pid ?? 0,
    tree,
    isAlive: () => victim.exitCode === null && victim.signalCode === null
  }
})

type Machine = Effect.Success<typeof machine>

/** Ways by name: a script that ends well where it came through. */
const ways = ({ abstract, agent, home, pattern, pid }: Machine): Readonly<Record<string, string>> => ({
  "right of the owner": `[ "$(./busybox id -u 2>/dev/null || ./busybox -u)" = ${process.getuid?.() === 0 ? nobody : 0} ]`,
  "new privileges": "! grep -q 'NoNewPrivs:.1' /proc/self/status",
  capabilities:
    "! grep -q 'CapEff:.0000000000000000' /proc/self/status || ! grep -q 'CapBnd:.0000000000000000' /proc/self/status",
  "other user": "su -c true nobody </dev/null",
  mount: "mount -t tmpfs none /mnt || mount -o remount,rw / || mount -o bind / /mnt",
  device: "mknod /tmp/disk b 8 0",
  "hard link": `ln ${home}/.ssh/key key || ln ${home}/outside outside`,
  "symbolic link": `ln -sf ${home} out && { echo x > out/new || cat out/.ssh/key; }`,
  "file outside": `echo x > ${home}/outside || echo x > ${home}/new || echo x > /etc/hermes-escape`,
  secret: `cat ${home}/.ssh/key`,
  "signal to a process": `kill -0 ${pid} && grep -q sleep /proc/${pid}/comm`,
  "environment of a process": "cat /proc/[0-9]*/environ 2>/dev/null | grep -q VICTIM",
  "root of a process": `for p in /proc/[0-9]*; do [ -e $p/root${home}/.ssh/key ] && exit 0; done; exit 1`,
  "working directory of a process": `for p in /proc/[0-9]*; do [ -e $p/cwd/outside ] && exit 0; done; exit 1`,
  // The value that is there: nothing changes where it is written.
  "setting of the kernel": `printf %s '${pattern.trim()}' > /proc/sys/kernel/core_pattern`,
  // Opened and not written.
  "key of the kernel": ": >> /proc/sysrq-trigger || : >> /proc/irq/default_smp_affinity",
  "socket of a container daemon":
    "[ -S /run/docker.sock ] || [ -S /var/run/docker.sock ] || [ -S /run/podman/podman.sock ] || [ -S /run/containerd/containerd.sock ]",
  "socket of an agent of keys": `[ -S ${agent} ] || [ -S ${home}/.ssh/agent.sock ] || [ -n "$SSH_AUTH_SOCK" ]`,
  "abstract socket": `grep -q ${abstract} /proc/net/unix`,
  "namespace of the machine": "nsenter -t 1 -m true && [ -e /run/docker.sock ]",
  "namespaces of its own": "unshare -Urm true"
})

/** Tries every way, each in a shell of its own; then every process that can be signalled is. */
const escapes = Effect.fnUntraced(function* (given: Machine, { spawner }: Service) {
  const tried = Object.entries(ways(given)).map(
    ([name, script]) => `( ${script} ) >/dev/null 2>&1 && echo 'CAME THROUGH ${name}'`
  )
  const handle = yield* spawner.spawn(
    ChildProcess.make("/bin/sh", ["-c", `${tried.join("\n")}\necho all tried; trap '' TERM; kill -TERM -1; exit 0`], {
      cwd: given.tree,
      stdin: "ignore",
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", SSH_AUTH_SOCK: given.agent }
    })
  )
  return yield* Stream.mkString(Stream.decodeText(handle.stdout))
}, Effect.scoped)

/** Where a wall stands, with what is no way out there. */
const holds = (
  name: string,
  reason: string | undefined,
  make: (given: Machine) => Effect.Effect<Service, unknown, Needs>,
  expected: ReadonlyArray<string> = []
) =>
  it.live.skipIf(reason !== undefined)(reason === undefined ? name : `${name} (not tested: ${reason})`, () =>
    Effect.gen(function* () {
      const given = yield* machine
      const environment = yield* make(given)
      const out = yield* Effect.provideService(escapes(given, environment), CallDirectory, given.tree)
      assert.deepStrictEqual(out.trimEnd().split("\n"), [...expected.map((way) => `CAME THROUGH ${way}`), "all tried"])
      assert.isTrue(given.isAlive())
      assert.strictEqual(readFileSync(join(given.home, "outside"), "utf8"), "theirs")
      assert.deepStrictEqual(
        ["new", "/etc/hermes-escape"].filter(
          (file) => existsSync(join(given.home, file)) || (file.startsWith("/") && existsSync(file))
        ),
        []
      )
    }).pipe(Effect.scoped, Effect.provide(ChildProcesses.layer))
  )

const bwrap =
  spawnSync("bwrap", [
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "true"
  ]).status === 0

const sandbox =
  (network: "none" | "all") =>
  ({ home }: Machine) =>
    built(
      Sandbox.layer({
        policy: "workspace-write",
        network,
        home,
        writable: [],
        hidden: [join(home, ".ssh")],
        shown: [],
        hidesEnvFiles: true
      })
    )

describe("no way leads out of", () => {
  holds("the sandbox", bwrap ? undefined : "bubblewrap does not work here", sandbox("none"))
  // It shares the network of the machine, and abstract sockets belong to that.
  holds(
    "the sandbox with all of the network, but to abstract sockets",
    bwrap ? undefined : "bubblewrap does not work here",
    sandbox("all"),
    ["abstract socket"]
  )

  for (const kind of ["docker", "podman"] as const) {
    const found = engine(kind)
    afterAll(found.dispose)
    holds(
      `a container of ${kind}`,
      found.reason,
      ({ home }) =>
        built(
          Container.layer({
            ...Container.defaults,
            binary: found.engine?.program,
            image: found.engine?.image ?? "",
            home
          })
        ),
      // Files of the container itself, at the same paths.
      ["symbolic link", "file outside"]
    )
  }
})
