// Runs whose tools work in a container or on another machine, and what is said when a machine cannot be had.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import * as NodeServices from "@effect/platform-node/NodeServices"
import type { Platform } from "../../src/base/platform/ChildProcesses.ts"
import { spawn, spawnSync } from "node:child_process"
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { userInfo } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import * as Config from "../../src/base/config/Config.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import { Home } from "../../src/base/config/Environment.ts"
import { Settings } from "../../src/base/config/Settings.ts"
import type { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"
import { Agent, Approvals, FileTools, type RunEvent, Runtime, Scripted, TerminalTools } from "../../src/index.ts"
import { Container, SshHost } from "../../src/kit/entry/environments.ts"
import { ResultText } from "../../src/kit/entry/tools.ts"
import { ExecuteCode } from "../../src/kit/entry/tools/code.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import * as ConfiguredEnvironment from "../../src/tools/ConfiguredEnvironment.ts"
import { built, engine, sshReason, sshServer } from "../support/containerMachine.ts"
import { makeLastingDirectory, markAsRepository } from "../support/temporaryDirectory.ts"

const docker = engine("docker")
afterAll(docker.dispose)

const project = Effect.acquireRelease(
  Effect.sync(() => {
    const home = makeLastingDirectory("remote-")
    markAsRepository(join(home, "project"))
    writeFileSync(join(home, "project/.git/config"), "[core]\n")
    return home
  }),
  (home) => Effect.sync(() => rmSync(home, { recursive: true, force: true }))
)

type Call = readonly [name: string, params: Readonly<Record<string, unknown>>, id?: string]

/** Results of the calls that a model makes one after the other. */
const results = Effect.fnUntraced(function* <E>(
  environment: Layer.Layer<CommandEnvironment, E, Platform>,
  cwd: string,
  calls: ReadonlyArray<Call>
) {
  const found: Array<string> = []
  const provider = Scripted.layer([
    ...calls.map(([name, params, id]) =>
      Scripted.complete({ toolCalls: [{ name, params, ...(id === undefined ? {} : { id }) }] })
    ),
    Scripted.complete("done")
  ])
  const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
    Effect.sync(() => {
      for (const event of events) if (event._tag === "ToolFinished") found.push(JSON.stringify(event))
    })
  const runtime = Runtime.layer({
    provider,
    environment,
    cwd,
    resultLimits: { perResult: 20_000, perTurn: 100_000 },
    approvals: Approvals.layerCallback(() => Effect.succeed("once" as const)),
    tools: [FileTools.toolset, TerminalTools.toolset, ExecuteCode.toolset]
  })
  const { text } = yield* Effect.provide(Agent.run({ prompt: "go", onEvent }), runtime)
  assert.strictEqual(text, "done")
  return found
})

/** A result that is kept in a file of this machine is read there by the file tools. */
const longResult = Effect.fnUntraced(function* <E>(
  environment: Layer.Layer<CommandEnvironment, E, Platform>,
  cwd: string,
  directory: string
) {
  const path = join(directory, "long.txt")
  const found = yield* results(environment, cwd, [
    ["terminal", { command: "seq 1 5000" }, "long"],
    ["read_file", { path, offset: 4_000, limit: 4 }],
    ["search_files", { pattern: "^4999", path }]
  ]).pipe(Effect.provide(Layer.provide(ResultText.layerFile(directory), NodeServices.layer)))
  assert.include(found[0], `saved to: ${path}`)
  assert.include(found[1], "|4000")
  assert.include(found[2], "4999")
})

const calls: ReadonlyArray<Call> = [
  ["write_file", { path: "data.txt", content: "alpha\nbeta\n" }],
  ["terminal", { command: "cat data.txt; pwd" }],
  ["patch", { mode: "replace", path: "data.txt", old_string: "beta", new_string: "gamma" }],
  ["search_files", { pattern: "gam", path: "." }],
  ["read_file", { path: "data.txt" }],
  ["terminal", { command: "sleep 30", timeout: 1 }],
  [
    "terminal",
    { command: "echo working; while [ ! -e stop ]; do sleep 0.1; done; echo finished > ended", background: true }
  ],
  ["terminal", { command: "touch stop; while [ ! -e ended ]; do sleep 0.1; done; cat ended", workdir: "." }],
  ["terminal", { command: "exit 3", workdir: "/no/such" }]
]

const judge = (found: ReadonlyArray<string>, cwd: string) => {
  const [
    written = "",
    said = "",
    patched = "",
    searched = "",
    read = "",
    slow = "",
    background = "",
    ended = "",
    missing = ""
  ] = found
  assert.include(written, '\\"verified\\":true')
  assert.include(said, `alpha\\\\nbeta\\\\n${cwd}`)
  assert.notInclude(patched, '"isFailure":true')
  assert.include(searched, "gamma")
  assert.include(read, "gamma")
  assert.include(slow, "Command timed out after 1 s")
  assert.include(background, "proc_")
  assert.include(ended, "finished")
  assert.include(missing, "workdir /no/such does not exist")
}

const live = (
  name: string,
  reason: string | undefined,
  effect: Effect.Effect<void, unknown, Scope.Scope | NodeServices.NodeServices>
) =>
  it.live.skipIf(reason !== undefined)(reason === undefined ? name : `${name} (not tested: ${reason})`, () =>
    Effect.provide(Effect.scoped(effect), ChildProcesses.layer)
  )

describe("a run in a container", () => {
  live(
    "has terminal, file tools and background processes on one machine",
    docker.reason,
    Effect.gen(function* () {
      const home = yield* project
      const cwd = join(home, "project")
      const environment = Container.layer({
        ...Container.defaults,
        binary: docker.engine?.program,
        image: docker.engine?.image ?? "",
        home
      })
      const found = yield* results(environment, cwd, [
        ...calls,
        ["execute_code", { code: "console.log(1)", language: "javascript" }],
        ["terminal", { command: "ls /proc/1/root/home; touch /outside; ls -a /" }]
      ])
      judge(found, cwd)
      assert.include(found[9] ?? "", "node is not installed")
      assert.deepStrictEqual(
        [readFileSync(join(cwd, "data.txt"), "utf8"), existsSync("/outside")],
        ["alpha\ngamma\n", false]
      )
    })
  )

  live(
    "can read a result that was too long for the conversation",
    docker.reason,
    Effect.gen(function* () {
      const home = yield* project
      const environment = Container.layer({
        ...Container.defaults,
        binary: docker.engine?.program,
        image: docker.engine?.image ?? "",
        home
      })
      yield* longResult(environment, join(home, "project"), join(home, "kept"))
    })
  )

  live(
    "goes on where the image is missing, and says so",
    docker.reason,
    Effect.gen(function* () {
      const home = yield* project
      const environment = Container.layer({
        ...Container.defaults,
        binary: docker.engine?.program,
        image: "hermes-suite-none:1",
        home
      })
      const [said = ""] = yield* results(environment, join(home, "project"), [["terminal", { command: "echo hi" }]])
      assert.include(said, "the image hermes-suite-none:1 is not there: run `docker pull hermes-suite-none:1`")
    })
  )
})

describe("a run on another machine", () => {
  live(
    "has terminal, file tools and background processes there, in its directory",
    sshReason,
    Effect.gen(function* () {
      const { key, known, port, user } = yield* sshServer
      const home = yield* project
      const directory = join(home, "project")
      const environment = SshHost.layer({
        host: "127.0.0.1",
        user,
        port,
        key,
        directory,
        extraArguments: known,
        lifetime: Duration.minutes(1)
      })
      judge(yield* results(environment, home, calls), directory)
    })
  )

  live(
    "can read a result that was too long for the conversation, and `~` is the home directory there",
    sshReason,
    Effect.gen(function* () {
      const { key, known, port, user } = yield* sshServer
      const home = yield* project
      const environment = SshHost.layer({
        host: "127.0.0.1",
        user,
        port,
        key,
        directory: home,
        extraArguments: known,
        lifetime: Duration.minutes(1)
      })
      yield* longResult(environment, home, join(home, "kept"))
      const { home: there } = yield* built(environment)
      assert.strictEqual(yield* there, userInfo().homedir)
    })
  )

  live(
    "leaves nothing there",
    sshReason,
    Effect.gen(function* () {
      const { key, known, port, user } = yield* sshServer
      const directory = yield* project
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { spawner } = yield* built(
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
          const handle = yield* spawner.spawn(
            ChildProcess.make(
              "/bin/sh",
              ["-c", `sh -c 'while :; do echo x >> beat; sleep 0.05; done' & echo started; wait`],
              { cwd: directory, stdin: "ignore", env: { PATH: "/usr/bin:/bin" } }
            )
          )
          yield* Stream.runHead(handle.stdout)
        })
      )
      const size = () => (existsSync(join(directory, "beat")) ? readFileSync(join(directory, "beat")).length : 0)
      const before = size()
      yield* Effect.sleep("300 millis")
      assert.strictEqual(size(), before)
    })
  )

  live(
    "says why it cannot be reached",
    sshReason,
    Effect.gen(function* () {
      const { directory, key, known, port, user } = yield* sshServer
      const message = (options: Partial<SshHost.Options>) =>
        Effect.scoped(
          Effect.gen(function* () {
            const { files } = yield* built(
              SshHost.layer({
                host: "127.0.0.1",
                user,
                port,
                key,
                directory: "/",
                extraArguments: known,
                lifetime: Duration.minutes(1),
                ...options
              })
            )
            return (yield* Effect.flip(files.stat("/"))).reason.description ?? ""
          })
        )
      assert.strictEqual(
        yield* message({ extraArguments: ["-F", "/dev/null", "-o", "UserKnownHostsFile=/dev/null"] }),
        `${user}@127.0.0.1:${port}: the key of the host is not known or has changed: check it, and connect once by \`ssh -p ${port} ${user}@127.0.0.1\``
      )
      const other = join(directory, "other")
      spawnSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", other])
      assert.include(yield* message({ key: other }), "no key is accepted")
      assert.match(yield* message({ port: 1 }), /127\.0\.0\.1:1 cannot be reached: .*Connection refused/)
      const refusal = (options: Partial<SshHost.Options>) =>
        Effect.map(
          Effect.flip(built(SshHost.layer({ host: "127.0.0.1", lifetime: Duration.minutes(1), ...options }))),
          (error) => error.message
        )
      assert.include(yield* refusal({ host: "-oProxyCommand=touch /tmp/x" }), "is not the name of a host")
      assert.include(yield* refusal({ key: "/no/such/key" }), "terminal.ssh_key: there is no /no/such/key")
    })
  )

  live(
    "that broke off is reached again, and the next call is told",
    sshReason,
    Effect.gen(function* () {
      const { endSessions, key, known, port, user } = yield* sshServer
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
      const { files, spawner } = environment
      const handle = yield* spawner.spawn(
        ChildProcess.make("/bin/sh", ["-c", "echo started; sleep 20"], {
          cwd: directory,
          stdin: "ignore",
          env: { PATH: "/usr/bin:/bin" }
        })
      )
      yield* Stream.runHead(handle.stdout)
      endSessions()
      assert.notStrictEqual(Number(yield* handle.exitCode), 0)
      assert.strictEqual((yield* files.stat(directory)).type, "Directory")
      const notice = yield* environment.notice
      assert.include(notice ?? "", "The connection to 127.0.0.1 broke while the command ran")
      assert.include(notice ?? "", "was opened again")
    })
  )
})

describe("a program that is killed", () => {
  /** Kills a program in which a command runs, and waits until the command has ended. */
  const survived = Effect.fnUntraced(function* (directory: string, args: ReadonlyArray<string>) {
    const child = spawn(process.execPath, [join(import.meta.dirname, "../support/remoteCrash.ts"), ...args], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    yield* Effect.promise(() => new Promise((resolve) => child.stdout.once("data", resolve)))
    child.kill("SIGKILL")
    const beat = join(directory, "beat")
    const size = () => (existsSync(beat) ? readFileSync(beat).length : 0)
    for (let round = 0; round < 100; round++) {
      const before = size()
      yield* Effect.sleep("200 millis")
      if (size() === before) return false
    }
    return true
  })

  live(
    "takes its container along",
    docker.reason,
    Effect.gen(function* () {
      const directory = yield* project
      const { image = "", program = "" } = docker.engine ?? {}
      assert.isFalse(yield* survived(directory, ["docker", directory, program, image]))
      const left = () =>
        spawnSync(program, ["ps", "--all", "--quiet", "--filter", `label=hermes.tree=${directory}`], {
          encoding: "utf8"
        }).stdout.trim()
      for (let round = 0; round < 100 && left() !== ""; round++) yield* Effect.sleep("100 millis")
      assert.strictEqual(left(), "")
    })
  )

  live(
    "takes its commands on another machine along",
    sshReason,
    Effect.gen(function* () {
      const { key, known, port, user } = yield* sshServer
      const directory = yield* project
      assert.isFalse(yield* survived(directory, ["ssh", directory, user, String(port), key, ...known]))
      // The socket of a client that was killed stays; nobody listens there any more.
      for (const name of readdirSync("/tmp").filter((entry) => entry.startsWith("hermes-ssh-"))) {
        const isOpen =
          spawnSync("ssh", ["-S", join("/tmp", name, "s"), "-O", "check", "any"], { stdio: "ignore" }).status === 0
        if (!isOpen && existsSync(join("/tmp", name, "s"))) rmSync(join("/tmp", name), { recursive: true })
      }
    })
  )
})

const choice = (terminal: Readonly<Record<string, unknown>>, findImage?: (tree: string) => string | undefined) =>
  Effect.gen(function* () {
    return yield* ConfiguredEnvironment.choose(yield* Settings, {
      environment: yield* Environment.Environment,
      home: yield* Home,
      findImage
    })
  }).pipe(
    Effect.provide(Config.layerFromFile({ terminal })),
    Effect.provide(
      Layer.mergeAll(Home.layerAt("/home/ada/.hermes"), Environment.Environment.layerIn({ HOME: "/home/ada" }))
    ),
    Effect.provide(NodeServices.layer)
  )

/** Writes an engine that notes the arguments of `run` in `log` and refuses the start. */
const writeRefusingEngine = (home: string) => {
  const log = join(home, "arguments")
  const binary = join(home, "docker")
  writeFileSync(
    binary,
    `#!/bin/sh\ncase $1 in --version) echo "Docker version 28.0";; info) echo 28;; ps) ;; run) printf '%s\\n' "$@" > ${log}; echo refused >&2; exit 125;; esac\n`
  )
  chmodSync(binary, 0o755)
  return { binary, log }
}

describe("terminal.backend", () => {
  it.live("makes a container or a connection of the settings, or says what is missing", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const refusal = (terminal: Readonly<Record<string, unknown>>) =>
          Effect.map(Effect.flip(choice(terminal)), ({ message }) => message)
        assert.include(yield* refusal({ backend: "ssh" }), "terminal.ssh_host: terminal.backend is ssh: set the host")
        assert.include(
          yield* refusal({ backend: "ssh", ssh_host: "h", cwd: "src" }),
          'terminal.cwd: "src" is not an absolute directory of h'
        )
        assert.include(
          yield* refusal({ backend: "docker", sandbox: { network: "hosts" } }),
          "a container cannot be limited to some hosts"
        )
        assert.include(
          (yield* choice({ backend: "docker", docker_image: "debian:12" })).description ?? "",
          "a container of the image debian:12"
        )
        assert.include(
          (yield* choice({ backend: "ssh", ssh_host: "build", cwd: "~/src" })).description ?? "",
          "the machine build, in ~/src"
        )
        assert.strictEqual((yield* choice({ backend: "ssh", ssh_host: "build" })).directory, "~ on build")
      })
    )
  )

  it.live("gives an engine what the settings say", () =>
    Effect.provide(
      Effect.scoped(
        Effect.gen(function* () {
          const home = yield* project
          const { binary, log } = writeRefusingEngine(home)
          const { layer } = yield* choice({
            backend: "docker",
            docker_binary: binary,
            docker_image: "debian:12",
            docker_volumes: [`${home}:/data:ro`, "cache:/cache"],
            docker_extra_args: ["--hostname", "box"],
            docker_run_as_host_user: false,
            container_cpu: 1.5,
            container_memory: 256,
            container_disk: 100,
            container_pids: 64,
            sandbox: { network: "all" }
          })
          const [said = ""] = yield* results(layer ?? assert.fail("no layer"), join(home, "project"), [
            ["terminal", { command: "true" }]
          ])
          assert.include(said, "the container was not started: refused")
          const text = readFileSync(log, "utf8").replaceAll("\n", " ")
          for (const part of [
            "run --interactive --rm --pull never",
            "--cap-drop ALL --security-opt no-new-privileges --pids-limit 64 --memory 256m --memory-swap 256m --cpus 1.5 --storage-opt size=100m",
            `--mount type=bind,source=${join(home, "project")},target=${join(home, "project")} `,
            `--mount type=bind,source=${home},target=/data,readonly`,
            "--mount type=volume,source=cache,target=/cache",
            "--hostname box --entrypoint /bin/sh debian:12"
          ])
            assert.include(text, part)
          for (const part of ["--network", "--user", "--privileged"]) assert.notInclude(text, part)
        })
      ),
      ChildProcesses.layer
    )
  )

  it.live("starts the image of a working tree instead of the image of the settings", () =>
    Effect.provide(
      Effect.scoped(
        Effect.gen(function* () {
          const home = yield* project
          const { binary, log } = writeRefusingEngine(home)
          const { layer } = yield* choice(
            { backend: "docker", docker_binary: binary, docker_image: "debian:12" },
            (tree) => (tree === join(home, "project") ? "task:7" : undefined)
          )
          yield* results(layer ?? assert.fail("no layer"), join(home, "project"), [["terminal", { command: "true" }]])
          assert.include(readFileSync(log, "utf8").replaceAll("\n", " "), "--entrypoint /bin/sh task:7")
        })
      ),
      ChildProcesses.layer
    )
  )
})
