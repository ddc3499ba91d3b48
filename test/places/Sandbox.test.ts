// The wall itself, tried from inside: commands that want out, over bubblewrap. Where the machine has none, the tests
// say so and check that nothing runs.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as PlatformErrors from "effect/PlatformError"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { spawnSync } from "node:child_process"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { createServer as createHttpServer, type Server as HttpServer } from "node:http"
import { createServer } from "node:net"
import { join } from "node:path"
import { CurrentMode } from "../../src/base/config/PermissionMode.ts"
import { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"
import { CallConversation, CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import * as WorkingTree from "../../src/places/WorkingTree.ts"
import { makeLastingDirectory, markAsRepository, temporaryDirectory } from "../support/temporaryDirectory.ts"

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
const stands = bwrap.status === 0

/** Outside of the directories for temporary files, of which a sandbox has its own. */
const homeDirectory = Effect.acquireRelease(
  Effect.sync(() => {
    return makeLastingDirectory("sandbox-")
  }),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

/** A home with secrets, and a project in it that is a repository. */
const machine = Effect.map(homeDirectory, (home) => {
  const tree = join(home, "project")
  const put = (name: string, text: string) => {
    mkdirSync(join(home, name, ".."), { recursive: true })
    writeFileSync(join(home, name), text)
  }
  put(".ssh/id_ed25519", "PRIVATE KEY")
  put(".npmrc", "//registry/:_authToken=PRIVATE TOKEN")
  put(".hermes/.env", "PRIVATE SETTING")
  put(".hermes/skills/pdf/run.sh", "echo skill")
  put(".bashrc", "# theirs")
  put("other/notes.txt", "readable")
  put("project/.git/config", "[core]")
  put("project/.git/hooks/pre-commit", "#!/bin/sh")
  put("project/.hermes/agent.yaml", "type: agent")
  put("project/.env", "PRIVATE PROJECT")
  put("project/.env.example", "KEY=")
  put("project/a.txt", "one\n")
  return {
    home,
    tree,
    read: (name: string) => readFileSync(join(home, name), "utf8"),
    has: (name: string) => existsSync(join(home, name))
  }
})

const optionsOf = (home: string): Sandbox.Options => ({
  policy: "workspace-write",
  network: "none",
  home,
  writable: [],
  hidden: [join(home, ".ssh"), join(home, ".npmrc"), join(home, ".hermes"), join(home, ".absent")],
  shown: [join(home, ".hermes/skills")],
  hidesEnvFiles: true
})

const inSandbox = (
  change: (options: Sandbox.Options) => Sandbox.Options = (options) => options,
  given: typeof machine = machine
) =>
  Effect.gen(function* () {
    const at = yield* given
    const context = yield* Layer.build(Sandbox.layer(change(optionsOf(at.home))))
    const environment = yield* Effect.provideContext(CommandEnvironment, context)
    const { files, spawner } = environment
    const sh = (script: string, directory = at.tree) =>
      Effect.scoped(
        Effect.gen(function* () {
          const handle = yield* spawner.spawn(
            ChildProcess.make("/bin/sh", ["-c", `exec 2>&1\n${script}`], {
              cwd: directory,
              env: { PATH: "/usr/bin:/bin", HOME: at.home }
            })
          )
          const [out, code] = yield* Effect.all([Stream.mkString(Stream.decodeText(handle.stdout)), handle.exitCode], {
            concurrency: 2
          })
          return { out, code: Number(code) }
        })
      ).pipe(Effect.provideService(CallDirectory, directory))
    const inTree = <A, E>(effect: Effect.Effect<A, E>) => Effect.provideService(effect, CallDirectory, at.tree)
    return { ...at, environment, files, sh, inTree }
  })

const live = (name: string, test: Effect.Effect<void, unknown, Scope.Scope | NodeServices.NodeServices>) =>
  it.live.skipIf(!stands)(
    stands ? name : `${name} (not tested: bubblewrap ${bwrap.error?.message ?? bwrap.stderr.toString().trim()})`,
    () => Effect.scoped(test).pipe(Effect.provide(NodeServices.layer))
  )

describe("commands", () => {
  live(
    "write below the working tree and in temporary directories of their own, and nowhere else",
    Effect.gen(function* () {
      const { has, home, sh, tree } = yield* inSandbox()
      const temporary = `/tmp/hermes-test-${process.pid}`
      const { out } = yield* sh(`
      echo two > b.txt && echo tree
      echo x > ${temporary} && echo tmp
      echo x > ${home}/.bashrc && echo BASHRC
      echo x > ${home}/new && echo HOME
      echo x > /etc/hermes-escape && echo ETC
      ln -s ${home}/.bashrc link && echo x > link && echo LINK
      ln ${home}/other/notes.txt hard && echo HARD
      mount -o remount,rw / && echo REMOUNT
      cat ${home}/other/notes.txt`)
      assert.deepStrictEqual(
        out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)),
        ["tree", "tmp", "readable"]
      )
      assert.deepStrictEqual(
        [has("project/b.txt"), has("new"), existsSync("/etc/hermes-escape"), existsSync(temporary)],
        [true, false, false, false]
      )
      assert.strictEqual(
        (yield* sh(`cat ${temporary}`)).out,
        "x\n",
        "the next command has the same temporary directory"
      )
      assert.strictEqual((yield* sh("cat b.txt", tree)).out, "two\n")
    })
  )

  live(
    "change nothing from which something runs later",
    Effect.gen(function* () {
      const { has, read, sh } = yield* inSandbox()
      const { out } = yield* sh(`
      echo x > .git/hooks/pre-commit && echo HOOK
      echo x > .git/hooks/post-commit && echo NEW
      echo x > .git/config && echo CONFIG
      mv .git .git2 && echo MOVED
      rm -rf .git && echo REMOVED
      mv .hermes gone && echo MOVED
      echo x > .hermes/agent.yaml && echo AGENT
      echo x > .git/index && echo index`)
      assert.deepStrictEqual(
        out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)),
        ["index"]
      )
      assert.deepStrictEqual(
        [read("project/.git/config"), read("project/.hermes/agent.yaml"), has("project/.git/hooks/post-commit")],
        ["[core]", "type: agent", false]
      )
    })
  )

  live(
    "lets commands of an agent that plans read only, and the next one write again",
    Effect.gen(function* () {
      const { has, sh } = yield* inSandbox()
      const planned = yield* Effect.provideService(
        sh("echo x > planned.txt; echo $HERMES_SANDBOX; cat /tmp/none; echo y > /tmp/y && cat /tmp/y"),
        CurrentMode,
        "plan"
      )
      assert.match(planned.out, /Read-only file system[^]*read-only[^]*y/)
      yield* sh("echo x > later.txt")
      assert.deepEqual([has("project/planned.txt"), has("project/later.txt")], [false, true])
    })
  )

  live(
    "of two conversations see nothing of each other's temporary files",
    Effect.gen(function* () {
      const { sh } = yield* inSandbox()
      const as = (conversation: string, script: string) =>
        Effect.map(Effect.provideService(sh(script), CallConversation, conversation), ({ out }) => out)
      yield* as("one", "echo one > /tmp/x; echo one > /var/tmp/y")
      assert.strictEqual(
        yield* as("two", "ls -A /tmp/x /var/tmp/y 2>&1 | grep -c 'No such file'; echo two > /tmp/x"),
        "2\n"
      )
      assert.strictEqual(yield* as("one", "cat /tmp/x /var/tmp/y"), "one\none\n")
    })
  )

  live(
    "see a home directory that lies in /tmp where they start in it, and neither write it nor see its secrets",
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      mkdirSync(join(home, ".ssh"))
      writeFileSync(join(home, ".ssh/key"), "planted")
      writeFileSync(join(home, "notes.txt"), "notes")
      const context = yield* Layer.build(Sandbox.layer({ ...optionsOf(home), hidden: [join(home, ".ssh")], shown: [] }))
      const { spawner } = yield* Effect.provideContext(CommandEnvironment, context)
      const out = yield* Effect.scoped(
        Effect.flatMap(
          spawner.spawn(
            ChildProcess.make(
              "/bin/sh",
              ["-c", "cat notes.txt; cat .ssh/key 2>/dev/null; touch new 2>/dev/null && echo NEW"],
              { cwd: home }
            )
          ),
          ({ stdout }) => Stream.mkString(Stream.decodeText(stdout))
        )
      ).pipe(Effect.provideService(CallDirectory, home))
      assert.strictEqual(out, "notes")
    })
  )

  live(
    "make nothing from which something runs later, where there was nothing",
    Effect.gen(function* () {
      const at = yield* machine
      const { has, home } = at
      yield* Effect.scoped(
        Effect.gen(function* () {
          const given = yield* inSandbox(undefined, Effect.succeed(at))
          const bare = join(given.home, "bare")
          mkdirSync(bare)
          rmSync(join(given.tree, ".git/hooks"), { recursive: true })
          const { out } = yield* given.sh(`
        mkdir -p .git/hooks && echo x > .git/hooks/post-commit && echo HOOK
        printf ../evil > .git/commondir && echo made`)
          assert.deepStrictEqual(
            [out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)), given.has("project/.git/commondir")],
            [["made"], false]
          )
          const fresh = yield* given.sh(
            `
        mkdir -p .git/hooks && echo x > .git/hooks/post-commit
        rm -r .git/hooks; rmdir .git && echo REMOVED
        mv .hermes gone && echo MOVED
        echo x > .hermes/config.yaml && echo AGENT
        echo x > file && echo file`,
            bare
          )
          assert.deepStrictEqual(
            fresh.out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)),
            ["file"]
          )
          assert.deepStrictEqual(readdirSync(bare).toSorted(), [".git", ".hermes", "file"])
          const refused = yield* Effect.flip(
            Effect.provideService(
              given.files.writeFileString(join(given.tree, ".git/commondir"), "x"),
              CallDirectory,
              given.tree
            )
          )
          assert.strictEqual(refused.reason._tag, "PermissionDenied")
          writeFileSync(join(bare, ".hermes/theirs"), "")
        })
      )
      assert.deepStrictEqual(
        [existsSync(join(home, "bare/.git")), existsSync(join(home, "bare/.hermes/theirs")), has("project/.git/hooks")],
        [false, true, false],
        "what stood in for it is gone, but for what somebody put there"
      )
    })
  )

  live(
    "make a repository where there is none, which is kept without what runs programs",
    Effect.gen(function* () {
      const { files, home, sh } = yield* inSandbox()
      const bare = join(home, "bare")
      mkdirSync(bare)
      const first = yield* sh(
        `
      git init -q . && git config user.name a && git config user.email a@a.example
      git config core.fsmonitor "touch planted"; git config alias.x "!touch planted"; git config remote.o.url https://a.example/a.git; git config include.path ../evil
      printf '[user]\n\tname = b\\\n[core]\n\tpager = touch planted\n[filter "f"]\n\tclean = x\n\tremote = x\n' >> .git/config
      echo "touch planted" > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change
      ln -s ${home}/.npmrc .git/description2; rm -r .git/info; ln -s ${home}/other .git/info; printf ../evil > .git/commondir; rm .git/commondir
      echo one > one && git -c core.fsmonitor=false add one && git -c core.fsmonitor=false commit -qm one && echo made`,
        bare
      )
      assert.include(first.out, "made", first.out)
      const config = readFileSync(join(bare, ".git/config"), "utf8")
      assert.notMatch(config, /planted|include|alias|filter|pager|evil|clean/)
      assert.match(
        config,
        /\[core\]\n[^[]*repositoryformatversion = 0[^]*email = a@a\.example[^]*url = https:\/\/a\.example\/a\.git/
      )
      assert.deepStrictEqual(
        ["hooks/post-index-change", "description2", "info", "commondir"].filter((name) =>
          existsSync(join(bare, ".git", name))
        ),
        []
      )
      const { stderr, stdout } = spawnSync("git", ["log", "--format=%s %an", "--stat"], { cwd: bare, encoding: "utf8" })
      assert.match(stdout, /^one .*\n\n one \| 1 \+/, stderr)
      const next = yield* sh(
        "echo two > two && git add two && git commit -qm two && git log --format=%s; echo x >> .git/config && echo CONFIG; echo x > .git/hooks/post-commit && echo HOOK",
        bare
      )
      assert.deepStrictEqual(
        next.out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)),
        ["two", "one"],
        next.out
      )
      const denied = yield* Effect.flip(
        Effect.provideService(files.writeFileString(join(bare, ".git/config"), "x"), CallDirectory, bare)
      )
      assert.strictEqual(denied.reason._tag, "PermissionDenied")
      mkdirSync(join(home, "plain"))
      yield* sh("mkdir .git/objects; ln -s ../../.npmrc .git/config; echo x > .git/HEAD", join(home, "plain"))
      assert.deepStrictEqual(readdirSync(join(home, "plain/.git")), [], "what is no repository goes with the command")
    })
  )

  live(
    "rename nothing that holds what is kept",
    Effect.gen(function* () {
      const { home, read, sh } = yield* inSandbox((options) => ({
        ...options,
        hidden: [...options.hidden, join(options.home ?? "", "project/a/b/secret")]
      }))
      const put = (name: string, text: string) => {
        mkdirSync(join(home, name, ".."), { recursive: true })
        writeFileSync(join(home, name), text)
      }
      put("project/.git/worktrees/two/commondir", "../..\n")
      put("project/.git/modules/sub/config", "[core]")
      put("project/a/b/secret/key", "PRIVATE")
      const { out } = yield* sh(`
      echo x > .git/worktrees/two/commondir && echo COMMON
      mv .git/worktrees .git/w && echo MOVED
      mv .git/worktrees/two .git/worktrees/t && echo MOVED
      mkdir .git/worktrees/three && echo MADE
      echo x > .git/modules/sub/config && echo MODULE
      mv a c && echo MOVED
      mv a/b a/c && echo MOVED
      echo x > a/b/other && echo other`)
      const later = yield* sh("cat */*/secret/key */secret/key */b/secret/key")
      assert.deepStrictEqual(
        out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)),
        ["other"]
      )
      assert.notInclude(later.out, "PRIVATE")
      assert.strictEqual(read("project/.git/worktrees/two/commondir"), "../..\n")
    })
  )

  live(
    "see no credentials, no sockets of services and no other process",
    Effect.gen(function* () {
      const { home, sh } = yield* inSandbox()
      const { out } = yield* sh(`
      cat ${home}/.ssh/id_ed25519 ${home}/.npmrc ${home}/.hermes/.env .env
      ls -A ${home}/.ssh /run
      touch ${home}/.ssh/planted && echo PLANTED
      cp -r ${home} /tmp/all 2>/dev/null; grep -r PRIVATE /tmp/all
      kill -9 ${process.pid} && echo KILLED
      cat /proc/${process.pid}/environ && echo ENVIRON
      unshare --user --map-root-user true && echo NAMESPACE
      cat .env.example; sh ${home}/.hermes/skills/pdf/run.sh`)
      assert.notInclude(out, "PRIVATE")
      assert.deepStrictEqual(
        out.split("\n").filter((line) => /^[A-Z]+$/.test(line)),
        []
      )
      assert.include(out, "KEY=")
      assert.include(out, "skill\n")
    })
  )

  live(
    "reach each other by the network, and nothing else",
    Effect.gen(function* () {
      const { sh } = yield* inSandbox()
      const server = yield* Effect.acquireRelease(
        Effect.promise(
          () =>
            new Promise<ReturnType<typeof createServer>>((resolve) => {
              const server = createServer((socket) => socket.end("OUTSIDE"))
              server.listen(0, "127.0.0.1", () => resolve(server))
            })
        ),
        (server) => Effect.sync(() => server.close())
      )
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const read = (at: string) =>
        `"${process.execPath}" -e 'require("net").connect(${at}, "127.0.0.1").on("data", (d) => console.log(String(d))).on("error", (e) => console.log(e.code))'`
      assert.include((yield* sh(read(String(port)))).out, "ECONNREFUSED")
      yield* Effect.forkScoped(
        sh(
          `"${process.execPath}" -e 'require("net").createServer((s) => { s.end("INSIDE"); process.exit() }).listen(4567, "127.0.0.1", () => require("fs").writeFileSync("/tmp/ready", ""))'`
        )
      )
      assert.include((yield* sh(`while [ ! -e /tmp/ready ]; do sleep 0.05; done; ${read("4567")}`)).out, "INSIDE")
    })
  )

  live(
    "reach the hosts that are admitted, through the proxy",
    Effect.gen(function* () {
      const server = yield* Effect.acquireRelease(
        Effect.promise(
          () =>
            new Promise<HttpServer>((resolve) => {
              const server = createHttpServer((request, response) =>
                response.end(`${request.method} ${request.headers.host} ${request.url}`)
              )
              server.listen(0, "127.0.0.1", () => resolve(server))
            })
        ),
        (server) => Effect.sync(() => server.close())
      )
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const { environment, sh } = yield* inSandbox((options) => ({
        ...options,
        network: {
          setting: "terminal.sandbox.hosts",
          isListed: (host) => host === "allowed.test",
          addresses: () => Effect.succeed(["127.0.0.1"])
        }
      }))
      const get = (host: string) =>
        `"${process.execPath}" -e 'fetch("http://${host}:${port}/a?b=1").then(async (r) => console.log(r.status, await r.text()), (e) => console.log("FAILED", e.cause?.message))'`
      assert.strictEqual((yield* sh(get("allowed.test"))).out, `200 GET allowed.test:${port} /a?b=1\n`)
      assert.include((yield* sh(get("other.test"))).out, "FAILED")
      const plain = (url: string) =>
        `"${process.execPath}" -e 'const [, port] = /:(\\d+)$/.exec(process.env.HTTP_PROXY); require("http").get({ host: "127.0.0.1", port, path: "${url}" }, (r) => r.on("data", (d) => console.log(r.statusCode, String(d))))'`
      assert.strictEqual((yield* sh(plain(`http://allowed.test:${port}/x`))).out, `200 GET allowed.test:${port} /x\n`)
      assert.strictEqual(
        (yield* sh(plain("http://other.test/"))).out,
        "403 refused by the sandbox: other.test is not among terminal.sandbox.hosts\n\n"
      )
      assert.include((yield* sh(plain("/etc/passwd"))).out, "403 refused by the sandbox: only requests")
      assert.strictEqual(
        environment.explain("", ["other.test"])?.reason,
        "the sandbox did not let other.test be reached"
      )
      assert.isUndefined(environment.explain("read it", []))
      // A tunnel, as for HTTPS; and straight past the proxy.
      const tunnel = (target: string) =>
        `"${process.execPath}" -e 'const [, port] = /:(\\d+)$/.exec(process.env.HTTPS_PROXY); const s = require("net").connect(port, "127.0.0.1", () => s.write("CONNECT ${target} HTTP/1.1\\r\\n\\r\\n")); s.once("data", (d) => { console.log(String(d).split("\\r\\n")[0]); s.write("GET /in HTTP/1.1\\r\\nhost: inside\\r\\nconnection: close\\r\\n\\r\\n"); s.on("data", (d) => console.log(String(d).split("\\r\\n").at(-1))) })'`
      assert.strictEqual(
        (yield* sh(tunnel(`allowed.test:${port}`))).out,
        "HTTP/1.1 200 Connection established\nGET inside /in\n"
      )
      assert.match((yield* sh(tunnel(`evil.test:${port}`))).out, /^HTTP\/1\.1 403 Forbidden\n/)
      assert.match((yield* sh(tunnel("nonsense"))).out, /^HTTP\/1\.1 403 Forbidden\n/)
      assert.include(
        (yield* sh(
          `NODE_USE_ENV_PROXY= "${process.execPath}" -e 'fetch("http://127.0.0.1:${port}/").then(() => console.log("REACHED"), (e) => console.log(e.cause?.code))'`
        )).out,
        "ECONNREFUSED"
      )
    })
  )

  live(
    "leave nothing running, and end with their own exit code",
    Effect.gen(function* () {
      const { has, sh } = yield* inSandbox()
      assert.strictEqual((yield* sh("exit 7")).code, 7)
      yield* sh("(setsid sh -c 'sleep 1; touch survived' >/dev/null 2>&1 &) ; exit 0")
      yield* sh("sleep 1.2")
      assert.isFalse(has("project/survived"))
    })
  )

  live(
    "write a working tree that lies in a directory for temporary files",
    Effect.gen(function* () {
      const { sh } = yield* inSandbox()
      const directory = realpathSync(yield* temporaryDirectory)
      const { out } = yield* sh(
        `echo one > a && cat a; ls -A ${join(directory, "..")} | grep -c hermes-sandbox`,
        directory
      )
      assert.deepStrictEqual([out, readFileSync(join(directory, "a"), "utf8")], ["one\n0\n", "one\n"])
    })
  )

  live(
    "see nothing of the sandbox itself where temporary files of this machine stand elsewhere",
    Effect.gen(function* () {
      const { home } = yield* machine
      const elsewhere = join(home, "temporary")
      mkdirSync(elsewhere)
      const fs = yield* FileSystem.FileSystem
      const moved = FileSystem.FileSystem.of({
        ...fs,
        makeTempDirectoryScoped: (options) => fs.makeTempDirectoryScoped({ ...options, directory: elsewhere })
      })
      const found = Effect.gen(function* () {
        assert.isUndefined(yield* Sandbox.findObstacle(optionsOf(home)))
        const { files, inTree, sh } = yield* inSandbox(
          undefined,
          Effect.succeed({ home, tree: join(home, "project"), read: () => "", has: () => false })
        )
        yield* inTree(files.writeFileString("/tmp/from-tool", "tool"))
        assert.strictEqual((yield* sh(`cat /tmp/from-tool; ls -A ${elsewhere}/hermes-sandbox-*`)).out, "tool")
      })
      yield* Effect.provideService(found, FileSystem.FileSystem, moved)
    })
  )

  live(
    "take an empty .git and .hermes that a killed sandbox left for none, and take them away at the end",
    Effect.gen(function* () {
      const directory = realpathSync(yield* temporaryDirectory)
      mkdirSync(join(directory, "inner"))
      mkdirSync(join(directory, ".git"))
      mkdirSync(join(directory, ".hermes"))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sh } = yield* inSandbox()
          yield* sh("echo one > x; mkdir -p .git/hooks", directory)
          yield* sh("echo two > ../y", join(directory, "inner"))
        })
      )
      assert.deepStrictEqual(readdirSync(directory).toSorted(), ["inner", "x"])
    })
  )

  live(
    "cannot change settings and hooks of repositories below the tree that were there before, and work in them otherwise",
    Effect.gen(function* () {
      const { home, read, sh, tree } = yield* inSandbox()
      const settings = "[core]\n\trepositoryformatversion = 0\n"
      for (const name of ["packages/clone", "module"]) {
        mkdirSync(join(tree, name, ".git"), { recursive: true })
        writeFileSync(join(tree, name, name === "module" ? ".git/../pointer" : ".git/config"), settings)
      }
      for (const name of ["objects", "refs"]) mkdirSync(join(tree, "packages/clone/.git", name))
      writeFileSync(join(tree, "packages/clone/.git/HEAD"), "ref: refs/heads/main\n")
      rmSync(join(tree, "module/.git"), { recursive: true })
      writeFileSync(join(tree, "module/.git"), "gitdir: ../.git/modules/module\n")
      const { out } = yield* sh(
        [
          "cd packages/clone; echo x >> .git/config; echo x > .git/hooks/post-commit; mv .git/config .git/c",
          "echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm made && git log --format=%s; mv .git old; rm -rf .git",
          'cd ../../module; echo gitdir: /evil > .git; rm .git; cd ..; git init -q fresh && echo "[alias]" >> fresh/.git/config && echo own'
        ].join("\n")
      )
      yield* sh("cd packages/clone; echo ../evil > .git/commondir")
      assert.match(out, /^made$/m)
      assert.match(out, /^own$/m)
      assert.isAtLeast(out.split("\n").filter((line) => /Read-only|busy|cannot/i.test(line)).length, 6, out)
      assert.strictEqual(read("project/packages/clone/.git/config"), settings)
      assert.strictEqual(read("project/module/.git"), "gitdir: ../.git/modules/module\n")
      assert.deepStrictEqual(
        ["hooks/post-commit", "commondir", "c"].filter((name) =>
          existsSync(join(home, "project/packages/clone/.git", name))
        ),
        []
      )
    })
  )

  live(
    "cannot change settings and hooks of a repository that an earlier command made below the tree, nor can file tools",
    Effect.gen(function* () {
      const { files, has, inTree, read, sh, tree } = yield* inSandbox()
      const made = yield* sh("git init -q --template= packages/fresh && cp -r packages/fresh copy && echo made")
      assert.strictEqual(made.out, "made\n")
      const settings = ["packages/fresh", "copy"].map((name) => read(`project/${name}/.git/config`))
      const { out } = yield* sh(
        [
          "for r in packages/fresh copy; do echo x >> $r/.git/config; mkdir -p $r/.git/hooks; echo x > $r/.git/hooks/pre-commit; git -C $r config core.fsmonitor evil; rm -f $r/.git/config; mv $r/.git $r/g; mv $r $r-gone; done",
          "cd copy && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm made && git log --format=%s"
        ].join("\n")
      )
      assert.match(out, /^made$/m)
      assert.deepStrictEqual(
        ["packages/fresh", "copy"].map((name) => read(`project/${name}/.git/config`)),
        settings
      )
      assert.deepStrictEqual(
        [
          "copy/.git/hooks/pre-commit",
          "packages/fresh/.git/hooks/pre-commit",
          "copy-gone",
          "packages/fresh-gone"
        ].filter((name) => has(`project/${name}`)),
        []
      )
      // One that nobody looked for yet.
      mkdirSync(join(tree, "new/.git/hooks"), { recursive: true })
      const refused = (effect: Effect.Effect<unknown, PlatformError>) =>
        Effect.map(Effect.flip(inTree(effect)), ({ reason }) => reason._tag)
      assert.deepStrictEqual(
        yield* Effect.all([
          refused(files.writeFileString(join(tree, "copy/.git/config"), "x")),
          ...["config", "CONFIG", "config.worktree", "commondir", "hooks/pre-commit", "modules/a/config"].map((name) =>
            refused(files.writeFileString(join(tree, "new/.git", name), "x"))
          ),
          refused(files.makeDirectory(join(tree, "other/.git"), { recursive: true })),
          refused(files.writeFileString(join(tree, "packages/.git"), "gitdir: /evil")),
          refused(files.rename(join(tree, "new/.git"), join(tree, "new/g"))),
          refused(files.symlink("/evil", join(tree, "new/.git/commondir")))
        ]),
        Array.from({ length: 11 }, () => "PermissionDenied")
      )
      yield* inTree(files.writeFileString(join(tree, "new/.git/HEAD"), "ref: refs/heads/main"))
    })
  )

  live(
    "cannot change those of a repository that another command made, which still runs",
    Effect.gen(function* () {
      const { read, sh } = yield* inSandbox()
      yield* Effect.forkScoped(sh("git init -q fresh && touch made; while [ ! -e done ]; do sleep 0.05; done"))
      yield* sh("while [ ! -e made ]; do sleep 0.05; done")
      const settings = read("project/fresh/.git/config")
      yield* sh("echo x >> fresh/.git/config; git -C fresh config core.fsmonitor evil; touch done")
      assert.strictEqual(read("project/fresh/.git/config"), settings)
    })
  )

  live(
    "write nothing where the tree holds the home directory, or where the policy is to read",
    Effect.gen(function* () {
      const atHome = yield* inSandbox()
      assert.include((yield* atHome.sh("echo x > new && echo WROTE", atHome.home)).out, "Read-only file system")
      const reading = yield* inSandbox((options) => ({ ...options, policy: "read-only" }))
      assert.include(
        (yield* reading.sh("cat a.txt; echo x > a.txt && echo WROTE; echo x > /tmp/x && echo tmp")).out,
        "one\n"
      )
      assert.strictEqual(reading.read("project/a.txt"), "one\n")
    })
  )
})

describe("file tools", () => {
  live(
    "see what commands see",
    Effect.gen(function* () {
      const { files, home, inTree, sh, tree } = yield* inSandbox()
      yield* inTree(files.writeFileString("/tmp/from-tool", "tool"))
      assert.strictEqual((yield* sh("cat /tmp/from-tool; echo command > /tmp/from-command")).out, "tool")
      assert.strictEqual(yield* inTree(files.readFileString("/tmp/from-command")), "command\n")
      assert.strictEqual(yield* inTree(files.realPath("/tmp/from-tool")), "/tmp/from-tool")
      assert.match(yield* inTree(files.makeTempDirectory({ prefix: "p-" })), /^\/tmp\/p-/)
      yield* inTree(files.writeFileString(join(tree, "made.txt"), "x"))
      assert.strictEqual(yield* inTree(files.readFileString(join(home, "other/notes.txt"))), "readable")
    })
  )

  live(
    "are refused what commands are refused",
    Effect.gen(function* () {
      const { files, home, inTree, read, tree } = yield* inSandbox()
      symlinkSync(join(home, ".ssh"), join(tree, "keys"))
      symlinkSync(join(home, ".bashrc"), join(tree, "rc"))
      symlinkSync("/etc/hermes-dangling", join(tree, "dangling"))
      const refused = (effect: Effect.Effect<unknown, PlatformError>) =>
        Effect.map(Effect.flip(inTree(effect)), ({ reason }) => reason._tag)
      const reasons = yield* Effect.all([
        refused(files.readFileString(join(home, ".ssh/id_ed25519"))),
        refused(files.readFileString(join(tree, "keys/id_ed25519"))),
        refused(files.readFileString(join(tree, ".env"))),
        refused(files.writeFileString(join(home, ".bashrc"), "x")),
        refused(files.writeFileString(join(tree, "rc"), "x")),
        refused(files.writeFileString(join(tree, "dangling"), "x")),
        refused(files.writeFileString(join(tree, ".git/hooks/pre-commit"), "x")),
        refused(files.writeFileString(join(tree, ".hermes/new.yaml"), "x")),
        refused(files.remove(join(tree, ".git"), { recursive: true })),
        refused(files.rename(join(tree, ".hermes"), join(tree, "gone"))),
        refused(files.link(join(home, "other/notes.txt"), join(tree, "hard"))),
        refused(files.copy(home, join(tree, "all"))),
        refused(files.writeFileString("/etc/hermes-escape", "x"))
      ])
      assert.deepStrictEqual([...new Set(reasons)], ["PermissionDenied"])
      assert.deepStrictEqual([read(".bashrc"), read("project/.git/hooks/pre-commit")], ["# theirs", "#!/bin/sh"])
      assert.deepStrictEqual(
        (yield* inTree(files.readDirectory(home, { recursive: true }))).filter((name) =>
          /id_ed25519|\.npmrc|\.hermes\/\.env/.test(name)
        ),
        []
      )
    })
  )
})

describe("the files of git", () => {
  it.effect("are named once, also where there is no configuration yet", () =>
    Effect.gen(function* () {
      const tree = yield* temporaryDirectory
      markAsRepository(tree)
      const rules = yield* WorkingTree.listRules(tree, { policy: "workspace-write", hidesEnvFiles: true })
      assert.deepStrictEqual(
        rules.map(({ allows, path }) => `${allows} ${path}`),
        [`write ${realpathSync(tree)}`, `read ${realpathSync(join(tree, ".git"))}`]
      )
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("fail where it is not known whether there are any", () =>
    Effect.gen(function* () {
      const busy = PlatformErrors.systemError({
        _tag: "Unknown",
        module: "FileSystem",
        method: "lstat",
        description: "EMFILE"
      })
      const fs = FileSystem.layerNoop({ lstat: () => Effect.fail(busy) })
      assert.strictEqual(yield* Effect.flip(Effect.provide(WorkingTree.findGitFiles("/project"), fs)), busy)
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("a wall that does not stand", () => {
  live(
    "is one that cannot tell whether a hidden path is there",
    Effect.gen(function* () {
      const { home } = yield* machine
      const fs = yield* FileSystem.FileSystem
      const busy = PlatformErrors.systemError({
        _tag: "Unknown",
        module: "FileSystem",
        method: "stat",
        description: "EMFILE"
      })
      const failing = FileSystem.FileSystem.of({
        ...fs,
        stat: (path) => (path.endsWith(".ssh") ? Effect.fail(busy) : fs.stat(path))
      })
      const error = yield* Effect.flip(
        Layer.build(Sandbox.layer(optionsOf(home))).pipe(Effect.provideService(FileSystem.FileSystem, failing))
      )
      assert.include(error.message, "the sandbox cannot start")
    })
  )

  it.effect("is one line that names the remedy, and nothing runs", () =>
    Effect.gen(function* () {
      const bare = FileSystem.layerNoop({ exists: () => Effect.succeed(false) })
      const error = yield* Effect.flip(Effect.scoped(Layer.build(Sandbox.layer(optionsOf("/home/ada"))))).pipe(
        Effect.provide(bare)
      )
      assert.strictEqual(error.path, "terminal.backend")
      assert.strictEqual(
        error.message,
        "terminal.backend: the sandbox cannot start: bwrap is not installed. Remedy: install the package bubblewrap and allow user namespaces, or set terminal.backend to local to run commands without a sandbox"
      )
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
