// What every environment does, whichever machine its commands run on: processes and files, through the port alone.
import { assert, layer } from "@effect/vitest"
import * as NodePath from "@effect/platform-node/NodePath"
import type * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as PlatformError from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { mkdtempSync, rmSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CallDirectory, type Service } from "../../src/environment/CommandEnvironment.ts"
import * as TreeSnapshot from "../../src/environment/TreeSnapshot.ts"
import * as PseudoTerminal from "../../src/environment/PseudoTerminal.ts"
import * as ChildProcesses from "../../src/platform/ChildProcesses.ts"
import { ProcessEnvironment } from "../../src/platform/ProcessVariables.ts"

/** An environment that stands, and a directory in it that can be written: a working tree. */
export interface Subject {
  readonly environment: Service
  readonly directory: string
}

export type MakeSubject = Effect.Effect<Subject, unknown, Scope.Scope | NodeServices.NodeServices>

const secret = "sk-not-for-the-environment"

/** Helpers of one test. */
const tools = ({ directory, environment }: Subject) => {
  const { files, spawner } = environment
  const start = (script: string, options: ChildProcess.CommandOptions = {}) =>
    spawner.spawn(ChildProcess.make("/bin/sh", ["-c", script], { cwd: directory, stdin: "ignore", env: { PATH: "/usr/bin:/bin" }, ...options }))
  const finished = (script: string, options: ChildProcess.CommandOptions = {}) =>
    Effect.scoped(Effect.gen(function*() {
      const handle = yield* start(script, options)
      const text = (stream: Stream.Stream<Uint8Array, PlatformError.PlatformError>) => Stream.mkString(Stream.decodeText(stream))
      const [out, err, code] = yield* Effect.all([text(handle.stdout), text(handle.stderr), handle.exitCode], { concurrency: "unbounded" })
      return { out, err, code: Number(code) }
    }))
  const at = (name: string) => `${directory}/${name}`
  return { start, finished, at, files, directory, spawner, environment }
}

type Tools = ReturnType<typeof tools>

const tagOf = <A>(effect: Effect.Effect<A, PlatformError.PlatformError>) => Effect.map(Effect.flip(effect), ({ reason }) => reason._tag)

/** The rule that the sandbox has an exception of. */
export const graceful = "have the time that a signal gives them to end by themselves"

const processes: ReadonlyArray<readonly [string, (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>]> = [
  ["give output, standard error and the exit code apart", Effect.fnUntraced(function*({ finished }) {
    assert.deepStrictEqual(yield* finished("echo out; echo err >&2; exit 7"), { out: "out\n", err: "err\n", code: 7 })
    assert.deepStrictEqual(yield* finished("printf 'no line end'"), { out: "no line end", err: "", code: 0 })
  })],
  ["stream while they run, and read what is written to them", Effect.fnUntraced(function*({ start }) {
    const lines: Array<string> = []
    const handle = yield* start("while read -r line; do echo \"got $line\"; done; echo end", { stdin: "pipe" })
    const first = Stream.make("one\n", "two\n").pipe(Stream.encodeText)
    yield* Stream.run(first, handle.stdin).pipe(Effect.forkScoped)
    yield* Stream.runForEach(Stream.splitLines(Stream.decodeText(handle.stdout)), (line) => Effect.sync(() => lines.push(line)))
    assert.deepStrictEqual(lines, ["got one", "got two", "end"])
  })],
  ["see output before the end", Effect.fnUntraced(function*({ at, files, start }) {
    const handle = yield* start(`echo first; while [ ! -e ${at("go")} ]; do sleep 0.05; done; echo second`)
    const seen: Array<string> = []
    yield* Stream.runForEach(Stream.decodeText(handle.stdout), (text) => {
      seen.push(text)
      return seen.length === 1 ? files.writeFileString(at("go"), "") : Effect.void
    })
    assert.strictEqual(seen.join(""), "first\nsecond\n")
  })],
  ["carry bytes as they are, megabytes of them, both ways", Effect.fnUntraced(function*({ start }) {
    const bytes = new Uint8Array(3 * 1024 * 1024 + 17).map((_, index) => index * 31 + (index >> 8))
    const handle = yield* start("cat", { stdin: Stream.make(bytes) })
    const pieces = yield* Stream.runCollect(handle.stdout)
    assert.deepStrictEqual(Buffer.compare(Buffer.concat(pieces), bytes), 0)
  })],
  ["run in their directory, with their words as they are", Effect.fnUntraced(function*({ directory, finished }) {
    const odd = "it's \"odd\" $HOME `id` \\n ! * ü\nsecond line "
    const { out } = yield* finished("pwd; printf '%s' \"$ODD\"", { env: { PATH: "/usr/bin:/bin", ODD: odd } })
    assert.strictEqual(out, `${directory}\n${odd}`)
  })],
  ["run nothing in a directory that is missing", Effect.fnUntraced(function*({ finished }) {
    const result = yield* Effect.result(finished("echo ran", { cwd: "/no/such/directory" }))
    if (result._tag === "Failure") assert.strictEqual(result.failure.reason._tag, "NotFound")
    else assert.deepStrictEqual([result.success.out, result.success.code === 0], ["", false])
  })],
  ["may have further pipes", Effect.fnUntraced(function*({ start }) {
    const handle = yield* start("cat <&4; echo through three >&3", {
      additionalFds: { fd3: { type: "output" }, fd4: { type: "input", stream: Stream.encodeText(Stream.make("through four")) } }
    })
    const text = (stream: Stream.Stream<Uint8Array, PlatformError.PlatformError>) => Stream.mkString(Stream.decodeText(stream))
    assert.deepStrictEqual(yield* Effect.all([text(handle.stdout), text(handle.getOutputFd(3))], { concurrency: 2 }), ["through four", "through three\n"])
  })],
  ["are joined to a pipeline", Effect.fnUntraced(function*({ directory, spawner }) {
    const words = (script: string) => ChildProcess.make("/bin/sh", ["-c", script], { cwd: directory, env: { PATH: "/usr/bin:/bin" } })
    assert.strictEqual(yield* spawner.string(words("printf 'b\\na\\n'").pipe(ChildProcess.pipeTo(words("sort")))), "a\nb\n")
  })],
  ["have no input where they are given none", Effect.fnUntraced(function*({ finished }) {
    assert.strictEqual((yield* finished("read -r line || echo none")).out, "none\n")
  })],
  ["get the variables that they are given, and nothing that only the program has", Effect.fnUntraced(function*({ finished }) {
    const { out } = yield* Effect.provideService(
      finished("env", { env: { PATH: "/usr/bin:/bin", LANG: "C.UTF-8", GIVEN: "yes" } }),
      ProcessEnvironment,
      () => ({ PATH: "/usr/bin:/bin", LANG: "C.UTF-8", PRIVATE_VALUE: secret })
    )
    assert.notInclude(out, secret)
    assert.include(out, "GIVEN=yes\n")
    assert.include(out, "LANG=C.UTF-8\n")
  })],
  ["run beside each other", Effect.fnUntraced(function*({ at, finished }) {
    const pair = (own: string, other: string) => finished(`: > ${at(own)}; for i in $(seq 200); do [ -e ${at(other)} ] && echo met && exit; sleep 0.05; done; exit 1`)
    const results = yield* Effect.all([pair("a", "b"), pair("b", "a")], { concurrency: 2 })
    assert.deepStrictEqual(results.map(({ out }) => out), ["met\n", "met\n"])
  })],
  ["have ended when their shell has, whatever they left behind", Effect.fnUntraced(function*({ start }) {
    const handle = yield* start("(sleep 20; echo late) & echo done")
    assert.strictEqual(Number(yield* handle.exitCode), 0)
  })],
  ["may have a terminal of their own: its size, what is typed on it, their exit code, their end", Effect.fnUntraced(function*({ at, directory, files, finished, spawner }) {
    const env = { PATH: "/usr/bin:/bin", SHELL: "/no/such/shell", LINES: "1", COLUMNS: "1" }
    const maker = yield* PseudoTerminal.find({ cwd: directory, env }).pipe(Effect.provideService(ChildProcessSpawner, spawner))
    if (maker === undefined) {
      assert.strictEqual((yield* finished("command -v script || command -v python3")).out, "", "a program that makes terminals was not found")
      return
    }
    const script = "tty -s && stty size; echo \"it's $SHELL\" \"${LINES-}${COLUMNS-}\"; read -r line; echo \"got $line\"; cat; exit 7"
    const shell = (yield* finished("printf %s \"$SHELL\"", { env })).out
    for (const size of [undefined, { rows: 50, columns: 132 }]) {
      const handle = yield* spawner.spawn(ChildProcess.make("/bin/sh", PseudoTerminal.shellArguments(maker, "/bin/sh", script, size), {
        cwd: directory,
        env,
        stdin: Stream.encodeText(Stream.make("typed\n"))
      }))
      const lines = (yield* Stream.mkString(Stream.decodeText(handle.stdout))).split("\n")
      assert.includeMembers(lines, [size === undefined ? "24 80" : "50 132", `it's ${shell} `, "got typed"])
      assert.strictEqual(Number(yield* handle.exitCode), 7)
    }
    yield* Effect.scoped(Effect.gen(function*() {
      const beat = `while :; do echo x >> ${at("typed")}; sleep 0.05; done`
      yield* spawner.spawn(ChildProcess.make("/bin/sh", PseudoTerminal.shellArguments(maker, "/bin/sh", beat), { cwd: directory, env, killSignal: "SIGKILL" }))
      yield* until(files.exists(at("typed")))
    }))
    const size = finished(`wc -c < ${at("typed")}`)
    const before = yield* size
    yield* Effect.sleep("300 millis")
    assert.strictEqual((yield* size).out, before.out)
  })],
  [graceful, Effect.fnUntraced(function*({ at, files, start }) {
    const polite = yield* start(`trap 'echo bye; exit 3' TERM; : > ${at("ready")}; while :; do sleep 0.05; done`)
    yield* until(files.exists(at("ready")))
    yield* polite.kill({ killSignal: "SIGTERM", forceKillAfter: "10 seconds" })
    assert.strictEqual(yield* Stream.mkString(Stream.decodeText(polite.stdout)), "bye\n")
  })],
  ["end by force when they ignore a signal", Effect.fnUntraced(function*({ at, files, start }) {
    const deaf = yield* start(`trap '' TERM; : > ${at("deaf")}; while :; do sleep 0.05; done`)
    yield* until(files.exists(at("deaf")))
    yield* deaf.kill({ killSignal: "SIGTERM", forceKillAfter: "200 millis" })
    assert.isFalse(yield* deaf.isRunning)
  })],
  ["take everything below them along, also what left their group", Effect.fnUntraced(function*({ at, files, finished, start }) {
    const beat = (name: string) => `while :; do echo x >> ${at(name)}; sleep 0.05; done`
    yield* Effect.scoped(Effect.gen(function*() {
      yield* start(`sh -c '${beat("child")}' & sh -c '(${beat("grandchild")}) &' & wait`)
      yield* until(Effect.zipWith(files.exists(at("child")), files.exists(at("grandchild")), (one, other) => one && other))
    }))
    const size = finished(`cat ${at("child")} ${at("grandchild")} | wc -c`)
    const before = yield* size
    yield* Effect.sleep("300 millis")
    assert.strictEqual((yield* size).out, before.out)
  })]
]

/** Says a text to a port of this machine and reads until the other side ends. */
const talk = (port: number, text: string): Effect.Effect<string> =>
  Effect.callback((resume) => {
    let said = ""
    const socket = connect(port, "127.0.0.1", () => socket.write(text))
    socket.on("data", (bytes) => (said += String(bytes))).on("error", () => {}).on("close", () => resume(Effect.succeed(said)))
    return Effect.sync(() => socket.destroy())
  })

const ports: ReadonlyArray<readonly [string, (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>]> = [
  ["on which a command listens are reached from this machine, until the scope ends", Effect.fnUntraced(function*({ environment, finished, start }) {
    // Above those that the system gives by itself.
    const port = 61_000 + (process.pid + environment.name.length * 7) % 4_000
    const has = (yield* finished(`command -v node || [ -x '${process.execPath}' ] && echo ${process.execPath}`)).out.trim().split("\n")[0] ?? ""
    const server = `require("net").createServer((s) => s.once("data", (d) => s.end("heard " + d))).listen(${port}, "127.0.0.1", () => console.log("ready"))`
    const handle = yield* start(has === "" ? `echo ready; exec nc -ll -p ${port} -e /bin/sh -c 'read -r line; echo "heard $line"'` : `exec '${has}' -e '${server}'`)
    yield* Stream.runHead(handle.stdout)
    const forwarded = yield* Effect.scoped(Effect.gen(function*() {
      const address = yield* environment.forward(port)
      const heard = talk(address.port, "hello\n")
      yield* until(Effect.map(heard, (text) => text.trim() === "heard hello"))
      assert.deepStrictEqual((yield* Effect.all(Array.from({ length: 3 }, () => until(Effect.map(heard, (text) => text.trim() === "heard hello"))), { concurrency: 3 })).length, 3)
      return address
    }))
    if (forwarded.host === "127.0.0.1") assert.strictEqual(yield* talk(forwarded.port, "hello\n"), "", "the address is gone with its scope")
    assert.strictEqual(yield* tagOf(Effect.scoped(environment.forward(70_000))), "BadResource")
  })]
]

const snapshots: ReadonlyArray<readonly [string, (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>]> = [
  ["tell which files a command made, changed and removed, with what was in them", Effect.fnUntraced(function*({ at, directory, environment, files, finished }) {
    const storage = mkdtempSync(join(tmpdir(), "hermes-trees-"))
    yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(storage, { recursive: true, force: true })))
    const { take } = yield* TreeSnapshot.make(environment, { directory: storage, apart: [], home: undefined, isHidden: (path) => path.endsWith(".env") }).pipe(
      Effect.provide(NodePath.layer)
    )
    yield* files.writeFileString(at("changed"), "one\n")
    yield* files.writeFileString(at("removed"), "gone\n")
    yield* files.writeFileString(at("same"), "same\n")
    const before = yield* take(directory)
    yield* finished("echo two > changed; rm removed; mkdir sub; printf 'a b' > 'sub/new file'; ln -s same link; echo KEY > .env; chmod +x same; touch -d @0 same")
    const { changes, unseen } = yield* before.since
    const text = (content: Uint8Array | undefined) => content === undefined ? undefined : new TextDecoder().decode(content)
    const found = changes.map(({ after, before, path }) => [path.slice(path.indexOf(`${directory.split("/").at(-1)}/`)), text(before?.content), text(after?.content)]).toSorted()
    const own = directory.split("/").at(-1)
    if (changes.length === 0) return assert.match(unseen.join(), /has no git/)
    assert.deepStrictEqual(found, [
      [`${own}/changed`, "one\n", "two\n"],
      [`${own}/link`, undefined, "same"],
      [`${own}/removed`, "gone\n", undefined],
      [`${own}/same`, "same\n", "same\n"],
      [`${own}/sub/new file`, undefined, "a b"]
    ])
    assert.deepStrictEqual([(yield* (yield* take(directory)).since).changes, unseen], [[], []])
  })]
]

const until = <E>(condition: Effect.Effect<boolean, E>): Effect.Effect<void, E> =>
  Effect.flatMap(condition, (holds) => holds ? Effect.void : Effect.andThen(Effect.sleep("50 millis"), until(condition)))

const files: ReadonlyArray<readonly [string, (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>]> = [
  ["are those that commands see, as bytes", Effect.fnUntraced(function*({ at, files, finished }) {
    const bytes = Uint8Array.from({ length: 1024 }, (_, index) => index % 256)
    yield* files.writeFile(at("bytes"), bytes)
    assert.deepStrictEqual(Array.from(yield* files.readFile(at("bytes"))), Array.from(bytes))
    assert.strictEqual((yield* finished("cksum < bytes")).out, (yield* finished("cat bytes | cksum")).out)
    yield* finished("printf 'from a command' > said")
    assert.strictEqual(yield* files.readFileString(at("said")), "from a command")
    yield* files.writeFileString(at("empty"), "")
    assert.strictEqual((yield* files.readFile(at("empty"))).length, 0)
  })],
  ["are long, and read in pieces and from the middle", Effect.fnUntraced(function*({ at, files }) {
    const bytes = new Uint8Array(1_500_000).map((_, index) => index * 7 + (index >> 10))
    yield* files.writeFile(at("long"), bytes)
    assert.strictEqual(Buffer.compare(yield* files.readFile(at("long")), bytes), 0)
    const pieces = yield* Stream.runCollect(files.stream(at("long"), { chunkSize: 50_000 }))
    assert.strictEqual(Buffer.compare(Buffer.concat(pieces), bytes), 0)
    const middle = yield* Stream.runCollect(files.stream(at("long"), { offset: 700_001, bytesToRead: 9 }))
    assert.deepStrictEqual(Array.from(Buffer.concat(middle)), Array.from(bytes.subarray(700_001, 700_010)))
  })],
  ["are told by name, kind, size, mode and time", Effect.fnUntraced(function*({ at, files, finished }) {
    yield* finished("mkdir -p 'dir with space/sub'; printf 12345 > 'dir with space/f'; chmod 640 'dir with space/f'; ln -s f 'dir with space/link'; printf x > 'dir with space/.hidden'; printf y > 'dir with space/new\nline'")
    const list = yield* files.readDirectoryEntries(at("dir with space"))
    assert.deepStrictEqual(
      list.map(({ name, type }) => `${name} ${type}`).toSorted(),
      [".hidden File", "f File", "link SymbolicLink", "new\nline File", "sub Directory"]
    )
    const info = yield* files.stat(at("dir with space/f"))
    assert.deepStrictEqual([info.type, Number(info.size), info.mode & 0o777], ["File", 5, 0o640])
    assert.isTrue(Math.abs(Option.getOrThrow(info.mtime).getTime() - Date.now()) < 3_600_000)
    assert.strictEqual((yield* files.lstat(at("dir with space/link"))).type, "SymbolicLink")
    assert.strictEqual((yield* files.stat(at("dir with space/link"))).type, "File")
    assert.deepStrictEqual((yield* files.readDirectory(at("."), { recursive: true })).toSorted().slice(0, 2), ["dir with space", "dir with space/.hidden"])
  })],
  ["are made, renamed, linked, copied and removed", Effect.fnUntraced(function*({ at, files }) {
    yield* files.makeDirectory(at("a/b/c"), { recursive: true })
    yield* files.writeFileString(at("a/one"), "1", { mode: 0o600 })
    assert.strictEqual((yield* files.stat(at("a/one"))).mode & 0o777, 0o600)
    yield* files.writeFileString(at("a/two"), "2")
    yield* files.rename(at("a/one"), at("a/two"))
    assert.strictEqual(yield* files.readFileString(at("a/two")), "1")
    yield* files.symlink("two", at("a/link"))
    assert.deepStrictEqual([yield* files.readLink(at("a/link")), yield* files.realPath(at("a/../a/link"))], ["two", at("a/two")])
    yield* files.copyFile(at("a/two"), at("a/copy"))
    yield* files.copy(at("a"), at("whole"))
    assert.strictEqual(yield* files.readFileString(at("whole/copy")), "1")
    yield* files.writeFileString(at("a/two"), "+more", { flag: "a" })
    assert.strictEqual(yield* files.readFileString(at("a/link")), "1+more")
    yield* files.truncate(at("a/two"), 1)
    assert.strictEqual(yield* files.readFileString(at("a/two")), "1")
    yield* files.chmod(at("a/two"), 0o755)
    assert.strictEqual((yield* files.stat(at("a/two"))).mode & 0o777, 0o755)
    yield* files.remove(at("a"), { recursive: true })
    assert.isFalse(yield* files.exists(at("a")))
    yield* files.remove(at("a"), { recursive: true, force: true })
  })],
  ["are written through an open file, and made once only", Effect.fnUntraced(function*({ at, files }) {
    yield* Effect.scoped(Effect.gen(function*() {
      const file = yield* files.open(at("draft"), { flag: "wx" })
      yield* file.writeAll(new TextEncoder().encode("one "))
      yield* file.writeAll(new TextEncoder().encode("two"))
      yield* file.sync
    }))
    assert.strictEqual(yield* files.readFileString(at("draft")), "one two")
    assert.strictEqual(yield* tagOf(Effect.scoped(files.open(at("draft"), { flag: "wx" }))), "AlreadyExists")
    assert.strictEqual(yield* tagOf(files.writeFileString(at("draft"), "x", { flag: "wx" })), "AlreadyExists")
  })],
  ["fail as files of this machine do", Effect.fnUntraced(function*({ at, files }) {
    yield* files.writeFileString(at("file"), "x")
    const missing = [files.readFile(at("none")), files.stat(at("none")), files.realPath(at("none")), files.readDirectory(at("none")), files.remove(at("none")), files.rename(at("none"), at("x")), Effect.scoped(files.open(at("none"))), files.writeFileString(at("none/file"), "x"), files.makeDirectory(at("none/dir"))]
    assert.deepStrictEqual([...new Set(yield* Effect.forEach(missing, (effect) => tagOf(Effect.asVoid<unknown, PlatformError.PlatformError, never>(effect))))], ["NotFound"])
    yield* files.makeDirectory(at("dir"))
    assert.strictEqual(yield* tagOf(files.makeDirectory(at("dir"))), "AlreadyExists")
    assert.strictEqual(yield* tagOf(files.readFile(at("dir"))), "BadResource")
    assert.strictEqual(yield* tagOf(files.stat(at("file/below"))), "BadResource")
  })],
  ["may be temporary", Effect.fnUntraced(function*({ files, finished }) {
    const path = yield* Effect.scoped(Effect.gen(function*() {
      const directory = yield* files.makeTempDirectoryScoped({ prefix: "suite-" })
      assert.match(directory, /\/suite-[^/]+$/)
      assert.strictEqual((yield* finished(`[ -d ${directory} ] && echo there`)).out, "there\n")
      return directory
    }))
    assert.isFalse(yield* files.exists(path))
  })]
]

class Tested extends Context.Service<Tested, Subject>()("test/environmentConformance/Tested") {}

/** Runs the suite on an environment; each test has a directory of its own in it. `reason` says why this machine has none. */
export const conformance = (
  name: string,
  make: MakeSubject,
  { exception, reason }: { readonly reason?: string | undefined; readonly exception?: { readonly rule: string; readonly why: string } } = {}
): void => {
  const title = reason === undefined ? name : `${name} (not tested: ${reason})`
  layer(Layer.effect(Tested, Effect.orDie(make)).pipe(Layer.provideMerge(ChildProcesses.layer)), { excludeTestServices: true, timeout: 60_000 })(title, (it) => {
    let tests = 0
    const test = (kind: string, rule: string, body: (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>) => {
      const isException = rule === exception?.rule
      const own = `t${++tests}`
      return it.effect.skipIf(reason !== undefined || isException)(`${kind} ${rule}${isException ? ` (exception: ${exception.why})` : ""}`, () =>
        Effect.gen(function*() {
          const { directory, environment } = yield* Tested
          const inside = `${directory}/${own}`
          yield* Effect.scoped(Effect.andThen(environment.files.makeDirectory(inside), body(tools({ environment, directory: inside })))).pipe(
            Effect.provideService(CallDirectory, inside)
          )
        }), { timeout: 60_000 })
    }
    for (const [rule, body] of processes) test("commands", rule, body)
    for (const [rule, body] of files) test("files", rule, body)
    for (const [rule, body] of ports) test("ports", rule, body)
    for (const [rule, body] of snapshots) test("snapshots", rule, body)
  })
}
