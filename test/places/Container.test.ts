// Containers, tried from inside and from outside: what they keep apart, what they leave behind, and what is said when
// one cannot be had.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import type * as NodeServices from "@effect/platform-node/NodeServices"
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll } from "vitest"
import { CallConversation, CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as Container from "../../src/places/Container.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import { built, engine } from "../support/containerMachine.ts"
import { makeLastingDirectory, temporaryDirectory } from "../support/temporaryDirectory.ts"

const docker = engine("docker")
afterAll(docker.dispose)
const image = docker.engine?.image ?? ""
const program = docker.engine?.program ?? "docker"

type Needs = Scope.Scope | NodeServices.NodeServices

const provided = <E>(effect: Effect.Effect<void, E, Needs>) =>
  Effect.provide(Effect.scoped(effect), ChildProcesses.layer)

const live = (name: string, effect: Effect.Effect<void, unknown, Needs>) =>
  it.live.skipIf(docker.engine === undefined)(
    docker.engine === undefined ? `${name} (not tested: ${docker.reason})` : name,
    () => provided(effect)
  )

const run = (...args: ReadonlyArray<string>) => spawnSync(program, args, { encoding: "utf8" }).stdout.trim()

/** A home with secrets, and a project in it that is a repository. */
const machine = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      return makeLastingDirectory("container-")
    }),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  ),
  (home) => {
    const put = (name: string, text: string) => {
      mkdirSync(join(home, name, ".."), { recursive: true })
      writeFileSync(join(home, name), text)
    }
    put(".ssh/id_ed25519", "PRIVATE KEY")
    put("project/.git/config", "[core]")
    put("project/.git/hooks/pre-commit", "#!/bin/sh")
    put("project/.hermes/agent.yaml", "type: agent")
    put("project/.env", "PRIVATE PROJECT")
    put("project/a.txt", "one\n")
    put("skills/run.sh", "echo skill")
    return { home, tree: join(home, "project") }
  }
)

const inContainer = (change: (options: Container.Options) => Container.Options = (options) => options) =>
  Effect.gen(function* () {
    const { home, tree } = yield* machine
    const environment = yield* built(
      Container.layer(change({ ...Container.defaults, binary: program, image, home, readable: [join(home, "skills")] }))
    )
    const inTree = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provideService(effect, CallDirectory, tree)
    const sh = (script: string, options: ChildProcess.CommandOptions = {}) =>
      inTree(
        Effect.scoped(
          Effect.gen(function* () {
            const handle = yield* environment.spawner.spawn(
              ChildProcess.make("/bin/sh", ["-c", `exec 2>&1\n${script}`], { cwd: tree, stdin: "ignore", ...options })
            )
            const [out, code] = yield* Effect.all(
              [Stream.mkString(Stream.decodeText(handle.stdout)), handle.exitCode],
              { concurrency: 2 }
            )
            return { out, code: Number(code) }
          })
        )
      )
    const containers = () =>
      run("ps", "--all", "--quiet", "--filter", `label=hermes.tree=${tree}`)
        .split("\n")
        .filter((id) => id !== "")
    return { containers, environment, home, inTree, sh, tree }
  })

const words = (out: string) => out.split("\n").filter((line) => /^[A-Za-z]+$/.test(line))

describe("a container", () => {
  live(
    "has no file of this machine but the working tree, no socket of the engine, no privilege and no network",
    Effect.gen(function* () {
      const { environment, home, sh, tree } = yield* inContainer()
      const { out } = yield* sh(`
      cat ${home}/.ssh/id_ed25519 .env /etc/shadow && echo READ
      ls /var/run/docker.sock /run/docker.sock && echo SOCKET
      mount -t tmpfs none /mnt && echo MOUNT
      mknod /tmp/disk b 8 0 && echo DEVICE
      chown 1:1 a.txt && echo CHOWN
      nsenter -t 1 -m true 2>/dev/null; ls /host && echo HOST
      kill -9 ${process.pid} && echo KILLED
      wget -T 2 -q -O - http://1.1.1.1 && echo NETWORK
      ping -c 1 -w 1 127.0.0.2 && echo PING
      grep -q NoNewPrivs:.1 /proc/self/status && echo noprivileges
      grep CapEff /proc/self/status
      cat a.txt; sh ${home}/skills/run.sh; echo x > ${home}/skills/new && echo SKILL`)
      assert.notInclude(out, "PRIVATE")
      assert.deepStrictEqual(words(out), ["noprivileges", "one", "skill"])
      assert.include(out, "CapEff:\t0000000000000000")
      assert.isTrue(existsSync(tree))
      assert.include(
        environment.explain("wget: bad address 'example.com'", [])?.reason ?? "",
        "the container has no network"
      )
      assert.isUndefined(environment.explain("not found", []))
    })
  )

  live(
    "writes the working tree as the caller, and nothing from which something runs later",
    Effect.gen(function* () {
      const { environment, inTree, sh, tree } = yield* inContainer()
      const { out } = yield* sh(`
      echo two > b.txt && echo tree
      echo x > .git/hooks/pre-commit && echo HOOK
      echo x > .git/config && echo CONFIG
      rm -rf .git/hooks && echo REMOVED
      mv .hermes gone && echo MOVED
      echo x > .hermes/agent.yaml && echo AGENT
      echo x > .git/index && echo index
      echo $HOME; echo kept > $HOME/f && cat $HOME/f`)
      assert.deepStrictEqual(words(out), ["tree", "index", "kept"])
      assert.include(out, "/home/hermes\n")
      assert.deepStrictEqual(
        [readFileSync(join(tree, "b.txt"), "utf8"), statSync(join(tree, "b.txt")).uid],
        ["two\n", process.getuid?.()]
      )
      assert.deepStrictEqual(
        [readFileSync(join(tree, ".git/config"), "utf8"), readFileSync(join(tree, ".hermes/agent.yaml"), "utf8")],
        ["[core]", "type: agent"]
      )
      yield* sh("rm -rf .git/hooks; mkdir -p .git/hooks; echo x > .git/hooks/post-commit; mv .git moved; mkdir .git")
      assert.deepStrictEqual(
        [existsSync(join(tree, ".git/hooks/post-commit")), existsSync(join(tree, "moved"))],
        [false, false]
      )
      // A link that leads out of the tree leads nowhere on this machine: files are those of the container.
      symlinkSync("/etc/hostname", join(tree, "out"))
      assert.notStrictEqual(
        yield* inTree(environment.files.readFileString(join(tree, "out"))),
        readFileSync("/etc/hostname", "utf8")
      )
      assert.strictEqual(yield* inTree(environment.files.readFileString(join(tree, "b.txt"))), "two\n")
    })
  )

  live(
    "makes no hooks where there are none, and leaves no placeholder",
    Effect.gen(function* () {
      const { containers, sh, tree } = yield* inContainer((options) => ({ ...options, lifetime: Duration.millis(100) }))
      rmSync(join(tree, ".git/hooks"), { recursive: true })
      yield* sh("echo x > .git/hooks/post-commit; mkdir .git/hooks; echo x > .git/commondir")
      assert.isFalse(existsSync(join(tree, ".git/hooks/post-commit")))
      for (let round = 0; round < 200 && (containers().length > 0 || existsSync(join(tree, ".git/hooks"))); round++)
        yield* Effect.sleep("50 millis")
      assert.deepStrictEqual(
        [existsSync(join(tree, ".git/hooks")), existsSync(join(tree, ".git/commondir"))],
        [false, false]
      )
    })
  )

  live(
    "holds its bounds: a fork bomb ends in it, and a variable of this program is not in it",
    Effect.gen(function* () {
      const { containers, sh } = yield* inContainer((options) => ({
        ...options,
        limits: { processes: 40, memory: 64 },
        variables: { FIXED: "yes" }
      }))
      // It takes every process that the container may have, and nothing of this machine.
      const { out } = yield* sh("b() { b | b & }; b; wait; sleep 1")
      assert.match(out, /can't fork|Cannot fork|temporarily unavailable/)
      assert.strictEqual((yield* sh("echo alive")).out, "alive\n")
      assert.strictEqual(
        (yield* sh("head -c 200000000 /dev/zero | tail -c 199999999 | wc -c; echo end")).out.trim().split("\n").at(-1),
        "end"
      )
      assert.strictEqual(
        run(
          "inspect",
          "--format",
          "{{.HostConfig.PidsLimit}} {{.HostConfig.Memory}} {{.HostConfig.NetworkMode}} {{.HostConfig.CapDrop}}",
          ...containers()
        ),
        `40 ${64 * 1024 * 1024} none [ALL]`
      )
      const variables = yield* sh("env; cat /proc/1/environ | tr '\\0' '\\n'", {
        env: { GIVEN: "yes", HOME: "/home/of-this-machine", PATH: `/home/of-this-machine/bin:${process.env["PATH"]}` }
      })
      assert.include(variables.out, "FIXED=yes\n")
      assert.include(variables.out, "GIVEN=yes\n")
      assert.notInclude(variables.out, "/home/of-this-machine")
      for (const name of ["VITEST", "SSH_AUTH_SOCK", "npm_config_registry"])
        assert.notInclude(variables.out, `${name}=`)
    })
  )

  live(
    "is one for a working tree, and gone with its runtime",
    Effect.gen(function* () {
      let containers: () => ReadonlyArray<string> = () => []
      yield* Effect.scoped(
        Effect.gen(function* () {
          const made = yield* inContainer()
          containers = made.containers
          yield* Effect.all([made.sh("true"), made.sh("true"), made.inTree(made.environment.files.stat(made.tree))], {
            concurrency: 3
          })
          assert.lengthOf(containers(), 1)
          yield* Effect.provideService(made.environment.files.stat(made.tree), CallDirectory, join(made.tree, "sub"))
          assert.lengthOf(containers(), 1)
          // What runs on when the runtime ends.
          yield* made.inTree(made.environment.spawner.spawn(ChildProcess.make("sleep", ["100"], { cwd: made.tree })))
        })
      )
      assert.deepStrictEqual(containers(), [])
    })
  )

  live(
    "that ended under a command is started again, and the next call is told",
    Effect.gen(function* () {
      const { containers, environment, inTree, sh, tree } = yield* inContainer()
      yield* sh("echo x > /tmp/kept")
      const running = yield* inTree(
        environment.spawner.spawn(
          ChildProcess.make("/bin/sh", ["-c", "echo started; sleep 100"], { cwd: tree, stdin: "ignore" })
        )
      )
      yield* Stream.runHead(running.stdout)
      run("kill", ...containers())
      assert.notStrictEqual(Number(yield* running.exitCode), 0)
      const { out } = yield* sh("cat /tmp/kept || echo fresh")
      assert.include(out, "fresh")
      const notice = yield* environment.notice
      assert.include(notice ?? "", "The container ended while the command ran")
      assert.include(notice ?? "", "A new container was started, because the last one had ended")
      assert.isUndefined(yield* environment.notice)
    })
  )

  live(
    "belongs to one conversation, which its child agents share",
    Effect.gen(function* () {
      const { containers, sh, tree } = yield* inContainer()
      rmSync(join(tree, ".git/hooks"), { recursive: true })
      const inConversation = <A, E, R>(name: string, effect: Effect.Effect<A, E, R>) =>
        Effect.provideService(effect, CallConversation, name)
      yield* inConversation("one", sh("echo one > /tmp/own; echo shared > shared"))
      assert.strictEqual(
        (yield* inConversation("two", sh("cat /tmp/own shared"))).out,
        "cat: can't open '/tmp/own': No such file or directory\nshared\n"
      )
      assert.strictEqual((yield* inConversation("one", sh("cat /tmp/own"))).out, "one\n")
      assert.strictEqual(containers().length, 2)
      const [first = ""] = containers()
      run("kill", first)
      // Nothing is put in the place of the hooks while another container stands.
      for (const name of ["one", "two"])
        assert.notInclude(
          (yield* inConversation(name, sh("mkdir -p .git/hooks; echo x > .git/hooks/post-checkout && echo WRITTEN")))
            .out,
          "WRITTEN"
        )
    })
  )

  live(
    "that is not used is removed",
    Effect.gen(function* () {
      const { containers, environment, sh } = yield* inContainer((options) => ({
        ...options,
        lifetime: Duration.millis(100)
      }))
      yield* sh("true")
      for (let round = 0; round < 200 && containers().length > 0; round++) yield* Effect.sleep("50 millis")
      assert.deepStrictEqual(containers(), [])
      yield* sh("true")
      assert.include(yield* environment.notice ?? "", "was not used for")
    })
  )

  live(
    "may work on a copy of the tree, and may keep its home directory",
    Effect.gen(function* () {
      yield* Effect.addFinalizer(() =>
        Effect.sync(() =>
          run("volume", "rm", "--force", ...run("volume", "ls", "--quiet", "--filter", "name=hermes-home-").split("\n"))
        )
      )
      const { environment, inTree, sh, tree } = yield* inContainer((options) => ({
        ...options,
        workspace: "copy",
        isPersistent: true
      }))
      const { out } = yield* sh("cat a.txt; echo changed > a.txt; cat a.txt .env; echo note > $HOME/note")
      assert.include(out, "one\nchanged\n")
      assert.notInclude(out, "PRIVATE")
      assert.strictEqual(yield* inTree(environment.files.readFileString(join(tree, "a.txt"))), "changed\n")
      assert.strictEqual(readFileSync(join(tree, "a.txt"), "utf8"), "one\n")
      const again = yield* built(
        Container.layer({ ...Container.defaults, binary: program, image, home: undefined, isPersistent: true })
      )
      assert.strictEqual(yield* inTree(again.files.readFileString("/home/hermes/note")), "note\n")
    })
  )

  live(
    "says which image or which mount is missing, and the next command may have it",
    Effect.gen(function* () {
      const message = (change: (options: Container.Options) => Container.Options) =>
        Effect.scoped(
          Effect.flatMap(inContainer(change), ({ sh }) =>
            Effect.map(Effect.flip(sh("true")), ({ reason }) => reason.description ?? "")
          )
        )
      assert.strictEqual(
        yield* message((options) => ({ ...options, image: "hermes-suite-none:1" })),
        "the image hermes-suite-none:1 is not there: run `docker pull hermes-suite-none:1`, or set terminal.docker_image"
      )
      assert.strictEqual(
        yield* message((options) => ({ ...options, volumes: ["/no/such:/data"] })),
        "terminal.docker_volumes: /no/such does not exist: create it, or take it out of the setting"
      )
      assert.include(yield* message((options) => ({ ...options, volumes: ["data"] })), '"data" is not source:target')
      assert.include(
        yield* message((options) => ({ ...options, home: `${options.home}/project` })),
        "holds your home directory"
      )
      const directory = yield* temporaryDirectory
      const { sh } = yield* inContainer((options) => ({ ...options, volumes: [`${directory}/later:/data:ro`] }))
      assert.strictEqual((yield* Effect.result(sh("true")))._tag, "Failure")
      mkdirSync(join(directory, "later"))
      assert.deepStrictEqual(
        (yield* sh("[ -d /data ] && echo there; echo x > /data/x && echo WRITTEN")).out.split("\n").at(0),
        "there"
      )
    })
  )

  live(
    "that a program left behind is removed by the next one",
    Effect.gen(function* () {
      const owner = (pid: string) =>
        readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim() +
        `:${/\d+/.exec(spawnSync("readlink", ["/proc/self/ns/pid"], { encoding: "utf8" }).stdout)?.[0]}:${pid}:1`
      const gone = run(
        "run",
        "--detach",
        "--network",
        "none",
        "--label",
        `hermes.owner=${owner("4194304")}`,
        "--entrypoint",
        "/bin/sleep",
        image,
        "100"
      )
      const elsewhere = run(
        "run",
        "--detach",
        "--network",
        "none",
        "--label",
        "hermes.owner=another-machine:1:4194304:1",
        "--entrypoint",
        "/bin/sleep",
        image,
        "100"
      )
      yield* Effect.addFinalizer(() => Effect.sync(() => run("rm", "--force", gone, elsewhere)))
      yield* inContainer()
      for (let round = 0; round < 200 && run("ps", "--all", "--quiet", "--filter", `id=${gone}`) !== ""; round++)
        yield* Effect.sleep("50 millis")
      assert.strictEqual(run("ps", "--all", "--quiet", "--filter", `id=${gone}`), "")
      assert.notStrictEqual(run("ps", "--all", "--quiet", "--filter", `id=${elsewhere}`), "")
    })
  )
})

describe("an engine that cannot be used stops the run with a remedy", () => {
  /** A program that answers as an engine would. */
  const engineThat = (script: string) =>
    Effect.map(temporaryDirectory, (directory) => {
      const path = join(directory, "docker")
      writeFileSync(path, `#!/bin/sh\n${script}\n`)
      chmodSync(path, 0o755)
      return path
    })
  const refusal = (binary: string) =>
    Effect.map(
      Effect.flip(built(Container.layer({ ...Container.defaults, binary, image: "any", home: undefined }))),
      ({ message }) => message
    )

  it.live("when it is not there", () =>
    provided(
      Effect.gen(function* () {
        assert.strictEqual(
          yield* refusal("/no/such/docker"),
          "terminal.backend: docker cannot be used: /no/such/docker cannot be run. Remedy: name the program of Docker or Podman by terminal.docker_binary, or set terminal.backend to sandbox or local"
        )
      })
    )
  )

  it.live("when its daemon does not answer", () =>
    provided(
      Effect.gen(function* () {
        const binary = yield* engineThat(
          `[ "$1" = --version ] && { echo "Docker version 28.0"; exit 0; }; echo "Cannot connect to the Docker daemon" >&2; exit 1`
        )
        assert.include(
          yield* refusal(binary),
          `${binary} does not answer: Cannot connect to the Docker daemon. Remedy: start the Docker daemon`
        )
      })
    )
  )

  it.live("and a start that fails says why", () =>
    provided(
      Effect.gen(function* () {
        const binary = yield* engineThat(
          `case $1 in --version) echo "Docker version 28.0";; info) echo 28;; ps) ;; run) echo "docker: Error response from daemon: --storage-opt is supported only for overlay over xfs with 'pquota' mount option." >&2; exit 125;; esac`
        )
        const directory = yield* temporaryDirectory
        const environment = yield* built(
          Container.layer({
            ...Container.defaults,
            binary,
            image: "any",
            home: undefined,
            limits: { processes: 1, disk: 100 }
          })
        )
        const error = yield* Effect.flip(
          Effect.provideService(environment.files.stat(directory), CallDirectory, directory)
        )
        assert.strictEqual(
          error.reason.description,
          "terminal.container_disk: the storage of the engine has no quotas: leave it out"
        )
      })
    )
  )
})
