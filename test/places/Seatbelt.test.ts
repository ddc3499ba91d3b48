// The wall of macOS on a machine that has none: the text of its profiles and the words of its commands, and a program
// in the place of sandbox-exec that runs them unconfined. No test gives a profile to a system.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import { join } from "node:path"
import * as Config from "../../src/base/config/Config.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import { Home } from "../../src/base/config/Environment.ts"
import { CurrentMode } from "../../src/base/config/PermissionMode.ts"
import { Settings } from "../../src/base/config/Settings.ts"
import { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"
import { CallConversation, CallDirectory } from "../../src/base/domain/CallContext.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import { sortRules } from "../../src/places/SandboxRules.ts"
import * as Seatbelt from "../../src/places/Seatbelt.ts"
import * as ConfiguredEnvironment from "../../src/tools/ConfiguredEnvironment.ts"
import * as SandboxSettings from "../../src/tools/environment/SandboxSettings.ts"
import { sandboxExec } from "../support/sandboxExec.ts"
import { makeLastingDirectory, temporaryDirectory } from "../support/temporaryDirectory.ts"

/** Lines of a profile behind those that every one has. */
const own = (profile: string): ReadonlyArray<string> => {
  const lines = profile.split("\n")
  return lines.slice(lines.indexOf('(allow file-write* (subpath "/dev/fd"))') + 1, -1)
}

describe("a profile of Seatbelt", () => {
  it("says the rules in their order, and keeps written directories at their paths", () => {
    const rules = sortRules([
      { path: "/Users/ada/.ssh", allows: "nothing" },
      { path: "/Users/ada/project", allows: "write" },
      { path: "/Users/ada/project/.env", allows: "nothing", isFile: true },
      { path: "/Users/ada/project/.git/hooks", allows: "read" },
      { path: "/Users/ada/project/.git/commondir", allows: "read", isAbsent: true },
      { path: '/Users/ada/a b/"x"', allows: "write" }
    ])
    assert.deepStrictEqual(own(Seatbelt.renderProfile(rules, "none", undefined)), [
      '(allow file-read* file-write* (subpath "/Users/ada/project"))',
      '(deny file-read* file-write* (subpath "/Users/ada/.ssh"))',
      '(allow file-read* file-write* (subpath "/Users/ada/a b/\\"x\\""))',
      '(allow file-read* file-write* (subpath "/Users/ada/project/.git"))',
      '(deny file-read* file-write* (literal "/Users/ada/project/.env"))',
      '(allow file-read* (subpath "/Users/ada/project/.git/hooks"))',
      '(deny file-write* (subpath "/Users/ada/project/.git/hooks"))',
      '(deny file-write* (regex #"^/Users/ada/project/\\.git/[cC][oO][mM][mM][oO][nN][dD][iI][rR]$"))',
      '(deny file-write-create file-write-unlink (literal "/Users/ada/project") (literal "/Users/ada/a b/\\"x\\"") (literal "/Users/ada/project/.git"))'
    ])
  })

  it("denies what it does not allow, and neither keychain, preferences, launcher nor tables of processes are allowed", () => {
    const text = Seatbelt.renderProfile([], "none", undefined)
    assert.isTrue(text.startsWith("(version 1)\n(deny default)\n"))
    for (const name of [
      "securityd",
      "SecurityServer",
      "cfprefsd",
      "launchservices",
      "pasteboard",
      "trustd",
      "appleevent",
      "kern.proc",
      "file-link",
      "network-outbound"
    ]) {
      assert.notInclude(text, name)
    }
    // Each form stands on one line and is closed there.
    for (const line of text.trimEnd().split("\n"))
      assert.strictEqual(line.split("(").length, line.split(")").length, line)
  })

  it("lets the network be none, a proxy, or every address and no socket file but the resolver's", () => {
    const network = (kind: Seatbelt.ProfileNetwork) => own(Seatbelt.renderProfile([], kind, undefined))
    assert.deepStrictEqual(network("none"), [])
    assert.deepStrictEqual(network({ proxyPort: 3128 }), ['(allow network-outbound (remote ip "localhost:3128"))'])
    assert.deepStrictEqual(network("all"), [
      '(allow network-outbound (remote ip "*:*") (literal "/private/var/run/mDNSResponder"))',
      '(allow network-bind network-inbound (local ip "*:*"))',
      "(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)) (socket-domain AF_ROUTE))",
      '(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.SystemConfiguration.DNSConfiguration") (global-name "com.apple.networkd") (global-name "com.apple.trustd.agent"))'
    ])
  })

  it("lets sockets be in the directory of temporary files only", () => {
    assert.deepStrictEqual(own(Seatbelt.renderProfile([], "none", "/t")), [
      '(allow network-bind network-inbound (local unix-socket (subpath "/t")))',
      '(allow network-outbound (remote unix-socket (subpath "/t")))'
    ])
  })
})

/**
 * A home with secrets, a project in it that is a repository with one below, and a sandbox over a program that plays
 * `sandbox-exec`.
 */
const machine = (change: (options: Sandbox.Options) => Sandbox.Options = (options) => options) =>
  Effect.gen(function* () {
    const home = yield* Effect.acquireRelease(
      Effect.sync(() => makeLastingDirectory("seatbelt-")),
      (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
    )
    const tree = join(home, "project")
    const put = (name: string, text: string) => {
      mkdirSync(join(home, name, ".."), { recursive: true })
      writeFileSync(join(home, name), text)
    }
    put(".ssh/id_ed25519", "PRIVATE KEY")
    put("project/.git/config", "[core]")
    put("project/.git/hooks/pre-commit", "")
    put("project/.env", "PRIVATE")
    put("project/lib/.git/config", "[core]")
    put("cache/x", "")
    const { program, starts } = yield* sandboxExec
    const context = yield* Layer.build(
      Sandbox.layer(
        change({
          policy: "workspace-write",
          network: "none",
          home,
          writable: [join(home, "cache")],
          hidden: [join(home, ".ssh")],
          shown: [],
          hidesEnvFiles: true
        })
      )
    ).pipe(Effect.provideService(Sandbox.Wall, Seatbelt.makeSeatbelt(program)))
    const environment = yield* Effect.provideContext(CommandEnvironment, context)
    const run = (command: ChildProcess.StandardCommand) =>
      Effect.scoped(
        Effect.gen(function* () {
          const handle = yield* environment.spawner.spawn(command)
          const [out, code] = yield* Effect.all([Stream.mkString(Stream.decodeText(handle.stdout)), handle.exitCode], {
            concurrency: 2
          })
          return { out, code: Number(code) }
        })
      ).pipe(Effect.provideService(CallDirectory, tree))
    const sh = (script: string) =>
      run(ChildProcess.make("/bin/sh", ["-c", script], { cwd: tree, env: { PATH: "/usr/bin:/bin" } }))
    /** What stands for the sandbox's own directory in a text. */
    const plain = (text: string) => text.replace(/\/[^"\s]*\/hermes-sandbox-[^/"\s]+/g, "BASE").replaceAll(home, "HOME")
    /** Words of the last start, with its profile. */
    const last = () => {
      const [option = "", profile = "", ...words] = starts().at(-1) ?? []
      return { option, profile: own(profile).map(plain), words }
    }
    return { home, tree, environment, run, sh, last, plain }
  })

const live = (name: string, test: Effect.Effect<void, unknown, Effect.Services<ReturnType<typeof machine>>>) =>
  it.live(name, () => Effect.scoped(test).pipe(Effect.provide(NodeServices.layer)))

const kept = ["HOME/project", "HOME/project/lib"].flatMap((tree) => [
  `(allow file-read* (literal "${tree}/.git/config"))`,
  `(deny file-write* (literal "${tree}/.git/config"))`
])

describe("a command behind Seatbelt", () => {
  live(
    "is one of sandbox-exec with the profile of its directory",
    Effect.gen(function* () {
      const { last, sh } = yield* machine()
      assert.deepStrictEqual(yield* sh("exit 7"), { out: "", code: 7 })
      const { option, profile, words } = last()
      assert.deepStrictEqual([option, words], ["-p", ["/bin/sh", "-c", "exit 7"]])
      assert.deepStrictEqual(
        profile.filter((line) => line.includes("network")),
        [
          '(allow network-bind network-inbound (local unix-socket (subpath "BASE/0/tmp")))',
          '(allow network-outbound (remote unix-socket (subpath "BASE/0/tmp")))'
        ]
      )
      const written = profile.filter((line) => line.startsWith("(allow file-read* file-write*"))
      assert.sameMembers(
        written,
        [
          "HOME/project",
          "HOME/cache",
          "BASE/0/tmp",
          "HOME/project/.git",
          "HOME/project/lib",
          "HOME/project/lib/.git"
        ].map((path) => `(allow file-read* file-write* (subpath "${path}"))`)
      )
      assert.includeMembers(
        [...profile],
        [
          ...kept,
          '(deny file-write* (subpath "HOME/project/.git/hooks"))',
          '(deny file-write* (subpath "HOME/project/lib/.git/hooks"))',
          '(deny file-write* (subpath "HOME/project/.hermes"))',
          '(deny file-read* file-write* (literal "HOME/project/.env"))',
          '(deny file-read* file-write* (subpath "HOME/.ssh"))',
          '(deny file-read* file-write* (subpath "BASE"))'
        ]
      )
      const ends = profile.at(-1) ?? ""
      for (const path of [
        "HOME/project",
        "HOME/project/.git",
        "HOME/project/lib",
        "HOME/project/lib/.git",
        "BASE/0/tmp",
        "HOME/cache"
      ])
        assert.include(ends, `(literal "${path}")`)
      // A directory of temporary files is allowed behind the one that is hidden and holds it.
      assert.isAbove(
        profile.indexOf('(allow file-read* file-write* (subpath "BASE/0/tmp"))'),
        profile.indexOf('(deny file-read* file-write* (subpath "BASE"))')
      )
    })
  )

  live(
    "writes temporary files only under the policy to read and in a run that plans",
    Effect.gen(function* () {
      const reading = yield* machine((options) => ({ ...options, policy: "read-only" }))
      yield* reading.sh("true")
      const planning = yield* machine()
      yield* Effect.provideService(planning.sh("true"), CurrentMode, "plan")
      for (const { last } of [reading, planning]) {
        assert.deepStrictEqual(
          last().profile.filter((line) => line.startsWith("(allow file-read* file-write*")),
          ['(allow file-read* file-write* (subpath "BASE/0/tmp"))']
        )
      }
    })
  )

  live(
    "has a directory of temporary files of its conversation, no sockets of agents, and its own words",
    Effect.gen(function* () {
      const { environment, last, plain, run, sh } = yield* machine()
      const variables = yield* run(
        ChildProcess.make("env", [], {
          env: { PATH: "/usr/bin:/bin", SSH_AUTH_SOCK: "/agent", DOCKER_HOST: "unix:///x" }
        })
      )
      assert.deepStrictEqual(
        variables.out
          .trimEnd()
          .split("\n")
          .map(plain)
          .filter((line) => !/^(?:_|PWD|SHLVL|OLDPWD|HERMES_PROCESS_MARK)=/.test(line))
          .toSorted(),
        ["HERMES_SANDBOX=workspace-write", "PATH=/usr/bin:/bin", "TMPDIR=BASE/0/tmp", "TMPPREFIX=BASE/0/tmp/zsh"]
      )
      assert.strictEqual(
        plain((yield* Effect.provideService(sh('printf %s "$TMPDIR"'), CallConversation, "other")).out),
        "BASE/1/tmp"
      )
      assert.match(yield* environment.files.makeTempDirectory({ prefix: "p-" }), /\/0\/tmp\/p-[^/]+$/)
      yield* run(ChildProcess.make("echo", ["a", "&&", "pwd"], { shell: true }))
      assert.deepStrictEqual(last().words, ["/bin/sh", "-c", "echo a && pwd"])
    })
  )

  live(
    "reaches the proxy of its hosts by a port, and every address where all of the network is given",
    Effect.gen(function* () {
      const server = yield* Effect.acquireRelease(
        Effect.promise(
          () =>
            new Promise<Server>((resolve) => {
              const server = createServer((request, response) => response.end(`REACHED ${request.headers.host}`))
              server.listen(0, "127.0.0.1", () => resolve(server))
            })
        ),
        (server) => Effect.sync(() => server.close())
      )
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const hosts = yield* machine((options) => ({
        ...options,
        network: {
          setting: "terminal.sandbox.hosts",
          isListed: (host) => host === "allowed.test",
          addresses: () => Effect.succeed(["127.0.0.1"])
        }
      }))
      const get = (host: string) =>
        `"${process.execPath}" -e 'fetch("http://${host}:${port}/").then(async (r) => console.log(r.status, await r.text()), () => console.log("FAILED"))'; echo "$HTTP_PROXY"`
      const [answer, proxy = ""] = (yield* hosts.sh(get("allowed.test"))).out.split("\n")
      assert.strictEqual(answer, `200 REACHED allowed.test:${port}`)
      assert.include((yield* hosts.sh(get("other.test"))).out, "FAILED")
      assert.include(
        [...hosts.last().profile],
        `(allow network-outbound (remote ip "localhost:${new URL(proxy).port}"))`
      )
      const all = yield* machine((options) => ({ ...options, network: "all" }))
      assert.strictEqual((yield* all.sh('echo "$HTTP_PROXY"')).out, "\n")
      assert.include(all.last().profile.join("\n"), '(allow network-bind network-inbound (local ip "*:*"))')
    })
  )

  live(
    "that was stopped is told from one that failed",
    Effect.gen(function* () {
      const { environment } = yield* machine()
      const reason = (output: string) => environment.explain(output, [])?.setting
      assert.deepStrictEqual(
        [
          "touch: /etc/x: Operation not permitted",
          "Error: EPERM: operation not permitted, open '/x'",
          "sandbox-exec: sandbox_apply: Operation not permitted",
          "Error: connect EPERM 127.0.0.1:80",
          "curl: (6) Could not resolve host: a.test",
          "Error: listen EPERM: operation not permitted 127.0.0.1:3000",
          "cat: /root/x: Permission denied",
          "1 test failed"
        ].map(reason),
        [
          "terminal.sandbox.write",
          "terminal.sandbox.write",
          "terminal.sandbox.write",
          "terminal.sandbox.network",
          "terminal.sandbox.network",
          "terminal.sandbox.network",
          undefined,
          undefined
        ]
      )
      assert.strictEqual(
        environment.explain("Operation not permitted", [])?.reason,
        "the sandbox lets commands write below the working tree and in $TMPDIR only"
      )
      assert.include(environment.description ?? "", "only the working tree and $TMPDIR can be written")
    })
  )

  live(
    "leaves nothing of the sandbox behind",
    Effect.gen(function* () {
      const tree = yield* Effect.scoped(
        Effect.gen(function* () {
          const { home, sh, tree } = yield* machine()
          yield* sh("echo x > made")
          assert.sameMembers(readdirSync(tree), [".env", ".git", ".hermes", "lib", "made"])
          return { home, names: () => readdirSync(home) }
        })
      )
      assert.throws(tree.names)
    })
  )
})

describe("the home directory on macOS", () => {
  it("has its key stores and browser profiles hidden, and of its caches those of package managers written", () => {
    const { caches, hidden } = SandboxSettings.listUserPlaces("darwin")
    for (const name of [
      "Library/Keychains",
      "Library/Cookies",
      "Library/Application Support/Google/Chrome",
      "Library/Application Support/Firefox",
      ".orbstack"
    ])
      assert.include([...hidden], name)
    assert.notInclude([...caches], "Library/Caches")
    assert.deepStrictEqual(
      SandboxSettings.listUserPlaces("linux").hidden.filter((name) => name.startsWith("Library")),
      []
    )
  })
})

describe("hermes doctor on macOS", () => {
  /** The place that the settings choose over a program that plays `sandbox-exec`. */
  const found = (program: string, home: string) => {
    const host = Layer.mergeAll(Home.layerAt(home), Environment.Environment.layerIn({ HOME: home })).pipe(
      Layer.provide(NodeServices.layer)
    )
    return Effect.gen(function* () {
      const at = { environment: yield* Environment.Environment, home: yield* Home }
      const settings = yield* Settings
      const status = yield* ConfiguredEnvironment.checkStatus(settings, at)
      const choice = yield* ConfiguredEnvironment.choose(settings, at)
      return { status, isSandbox: choice.layer !== undefined, description: choice.description }
    }).pipe(
      Effect.provide([host, Config.layerFromFile({ terminal: {} }), NodeServices.layer, Logger.layer([])]),
      Effect.provideService(Sandbox.Wall, Seatbelt.makeSeatbelt(program))
    )
  }

  it.live("says which wall there is, and what of it was never tried", () =>
    Effect.gen(function* () {
      const { program } = yield* sandboxExec
      const { description, isSandbox, status } = yield* found(program, yield* temporaryDirectory)
      assert.deepStrictEqual(status, {
        level: "warning",
        text: "Seatbelt, workspace-write, network: the hosts of terminal.sandbox.hosts, others are asked about: its profile was compared as text and never tried on a Mac by its tests: what it keeps commands from, the programs that it lets start, and file tools by /.vol"
      })
      assert.isTrue(isSandbox)
      assert.include(description ?? "", "$TMPDIR")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live("takes no wall that is missing, that keeps nothing, or that lets nothing start", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const play = (name: string, script: string) => {
        const program = join(directory, name)
        writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
        return program
      }
      const text = (program: string) =>
        Effect.map(found(program, directory), ({ isSandbox, status }) => [isSandbox, status.level, status.text])
      const remedy =
        "Remedy: start hermes outside of another sandbox, on a macOS that has sandbox-exec, or set terminal.backend to local to run commands without a sandbox"
      assert.deepStrictEqual(yield* text(join(directory, "none")), [
        false,
        "warning",
        `commands run without one: ${directory}/none is missing. ${remedy}`
      ])
      assert.deepStrictEqual(yield* text(play("open", 'shift 2; exec "$@"')), [
        false,
        "warning",
        `commands run without one: a command read what is hidden. ${remedy}`
      ])
      const unread =
        'shift 2; for word; do case $word in */hermes-sandbox-*/outside) rm "$word" ;; esac; done; exec "$@"'
      assert.deepStrictEqual(yield* text(play("unread", unread)), [
        false,
        "warning",
        `commands run without one: a command wrote outside of it. ${remedy}`
      ])
      const nested = "sandbox-exec: sandbox_apply: Operation not permitted"
      assert.deepStrictEqual(yield* text(play("nested", `echo '${nested}' >&2; exit 71`)), [
        false,
        "warning",
        `commands run without one: ${nested}. ${remedy}`
      ])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
