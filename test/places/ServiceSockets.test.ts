// Sockets of services outside of the working tree, and directories that killed runs left: the one is covered, the other
// removed.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner, make as makeSpawner } from "effect/process/ChildProcessSpawner"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:net"
import { join } from "node:path"
import { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import { parseSocketPaths } from "../../src/places/SandboxNetwork.ts"
import { makeDefaults } from "../../src/places/ResourceLimits.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import * as ProcessIdentity from "../../src/base/platform/ProcessIdentity.ts"
import { getCurrentProcess } from "../../src/base/platform/ProcessIdentity.ts"
import { makeLastingDirectory, temporaryDirectory } from "../support/temporaryDirectory.ts"

const stands =
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

const lastingDirectory = Effect.acquireRelease(
  Effect.sync(() => makeLastingDirectory("sockets-")),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

const client =
  "const c = require('net').connect(process.argv[1]); c.on('error', (e) => console.log(e.code)); c.on('data', (d) => console.log(String(d)))"

describe("unix sockets", () => {
  it.live.skipIf(!stands)("that are gone when the sandbox starts do not prevent its start", () =>
    Effect.gen(function* () {
      const home = yield* lastingDirectory
      const other = join(home, "service")
      mkdirSync(other)
      const socket = join(other, "a.sock")
      yield* listening(socket)
      const inner = yield* ChildProcessSpawner
      let starts = 0
      const removing = makeSpawner((command) =>
        Effect.suspend(() => {
          if (command._tag === "StandardCommand" && command.args.includes(socket)) {
            starts++
            rmSync(other, { recursive: true, force: true })
          }
          return inner.spawn(command)
        })
      )
      const layer = Sandbox.layer({
        policy: "workspace-write",
        network: "none",
        home,
        writable: [],
        hidden: [],
        shown: [],
        hidesEnvFiles: true
      })
      yield* Layer.build(layer).pipe(Effect.provideService(ChildProcessSpawner, removing))
      assert.strictEqual(starts, 1)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live.skipIf(!stands)("that go away between two commands do not prevent the second", () =>
    Effect.gen(function* () {
      const home = yield* lastingDirectory
      const tree = join(home, "tree")
      const other = join(home, "service")
      mkdirSync(tree)
      mkdirSync(other)
      yield* listening(join(other, "a.sock"))
      const layer = Sandbox.layer({
        policy: "read-only",
        network: "none",
        home,
        writable: [],
        hidden: [],
        shown: [],
        hidesEnvFiles: true
      })
      const { spawner } = yield* Effect.provideContext(CommandEnvironment, yield* Layer.build(layer))
      const command = ChildProcess.make("/bin/sh", ["-c", "echo ran; exec 2>&1"], { cwd: tree, env: {} })
      const runCommand = spawner.spawn(command).pipe(
        Effect.flatMap(({ all }) => Stream.mkString(Stream.decodeText(all))),
        Effect.provideService(CallDirectory, tree),
        Effect.scoped
      )
      assert.strictEqual(yield* runCommand, "ran\n")
      rmSync(other, { recursive: true, force: true })
      assert.strictEqual(yield* runCommand, "ran\n")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live.skipIf(!stands)("of the machine are not reached, those of the working tree and of commands are", () =>
    Effect.gen(function* () {
      const home = yield* lastingDirectory
      const tree = join(home, "tree")
      const other = join(home, "service")
      mkdirSync(tree)
      mkdirSync(other)
      const places = [join(other, "a.sock"), join(tree, "b.sock"), join(other, "named.sock")]
      yield* Effect.forEach(places, listening)
      const layer = Sandbox.layer({
        policy: "workspace-write",
        network: "none",
        home,
        writable: [join(other, "named.sock")],
        hidden: [],
        shown: [],
        hidesEnvFiles: true
      })
      const { spawner } = yield* Effect.provideContext(CommandEnvironment, yield* Layer.build(layer))
      const connect = (path: string) =>
        spawner.spawn(ChildProcess.make(process.execPath, ["-e", client, path], { cwd: tree, env: {} })).pipe(
          Effect.flatMap(({ stdout }) => Stream.mkString(Stream.decodeText(stdout))),
          Effect.provideService(CallDirectory, tree),
          Effect.scoped
        )
      const said = yield* Effect.forEach(places, connect)
      assert.notInclude(said[0], "PRIVATE")
      assert.deepStrictEqual(said.slice(1), ["PRIVATE\n", "PRIVATE\n"])
      const own =
        "const n = require('net'); const s = n.createServer((c) => c.end('OWN')); s.listen('/tmp/own.sock', () => " +
        "n.connect('/tmp/own.sock').on('data', (d) => { console.log(String(d)); s.close() }))"
      const handle = yield* spawner
        .spawn(ChildProcess.make(process.execPath, ["-e", own], { cwd: tree, env: {} }))
        .pipe(Effect.provideService(CallDirectory, tree))
      assert.strictEqual(yield* Stream.mkString(Stream.decodeText(handle.stdout)), "OWN\n")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it("are read from the list of the kernel", () => {
    const line = (flags: string, type: string, path: string) =>
      `0000000000000000: 00000002 00000000 ${flags} ${type} 01 12345 ${path}`
    const text = [
      "Num       RefCount Protocol Flags    Type St Inode Path",
      line("00010000", "0001", "/opt/a b.sock"),
      line("00000000", "0001", "/opt/connected.sock"),
      line("00000000", "0002", "/opt/log"),
      line("00010000", "0001", "@abstract"),
      line("00010000", "0005", "/opt/packet"),
      ""
    ].join("\n")
    assert.deepStrictEqual(parseSocketPaths(text), ["/opt/a b.sock", "/opt/log", "/opt/packet"])
  })
})

describe("directories of killed runs", () => {
  it.live("are removed, and no others", () =>
    Effect.gen(function* () {
      const root = yield* temporaryDirectory
      const me = getCurrentProcess()
      const [host = "", , namespace = ""] = me.machine.split(" ")
      const ended = spawnSync("true").pid
      const owners = {
        "x-dead": { ...me, pid: ended },
        "x-reused": { ...me, startTime: "1" },
        "x-boot": { ...me, machine: `${host} another-boot ${namespace}` },
        "x-host": { ...me, machine: "another host-boot ns" },
        "y-dead": { ...me, pid: ended }
      }
      for (const [name, owner] of Object.entries(owners)) {
        mkdirSync(join(root, name, "0/tmp"), { recursive: true })
        writeFileSync(join(root, name, "owner"), JSON.stringify(owner))
      }
      mkdirSync(join(root, "x-mine"))
      yield* ProcessIdentity.markAsOwn(join(root, "x-mine"))
      mkdirSync(join(root, "x-new"))
      symlinkSync(join(root, "y-dead"), join(root, "x-link"))
      // What a link in it names stays.
      symlinkSync(join(root, "y-dead"), join(root, "x-dead/0/tmp/link"))
      yield* ProcessIdentity.removeAbandoned(root, "x-")
      const left = ["x-dead", "x-reused", "x-boot", "x-host", "y-dead", "x-mine", "x-new", "x-link"].filter((name) =>
        existsSync(join(root, name))
      )
      assert.deepStrictEqual(left, ["x-host", "y-dead", "x-mine", "x-new", "x-link"])
      assert.isTrue(existsSync(join(root, "y-dead/0/tmp")))
    }).pipe(Effect.scoped)
  )
})

describe("limits of a sandbox that has none in the settings", () => {
  it("are those of the machine", () => {
    const { memoryMb = 0, processes } = makeDefaults()
    assert.isAtLeast(memoryMb, 1000)
    assert.strictEqual(processes, 2000)
  })
})
