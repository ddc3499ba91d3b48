/**
 * Rules for every environment, regardless of the machine that runs its commands: processes, files, ports and snapshots,
 * using only the service `places/CommandEnvironment`.
 *
 * **Details**
 *
 * The subject is a running environment and a directory in it ({@link Subject}). The environment needs `/bin/sh` and the
 * usual programs. A rule about terminals or snapshots passes if the environment reports that it does not support them.
 * Rules take seconds, because they wait in real time.
 *
 * **Example** (The rules of an environment as tests)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as FileSystem from "effect/FileSystem"
 * import * as Layer from "effect/Layer"
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import { CommandEnvironment } from "hermes-effect"
 * import { Conformance, EnvironmentRules } from "hermes-effect/testing"
 *
 * const subject = Layer.effect(EnvironmentRules.Subject, Effect.gen(function*() {
 *   const environment = yield* CommandEnvironment.CommandEnvironment
 *   const files = yield* FileSystem.FileSystem
 *   return { environment, directory: yield* files.makeTempDirectoryScoped() }
 * })).pipe(Layer.provide(CommandEnvironment.layerLocal), Layer.provide(NodeServices.layer))
 *
 * const names: Array<string> = []
 * const runner = { test: (name: string) => names.push(name), after: () => {} }
 * Conformance.register(runner, EnvironmentRules.rules, subject, { sharing: "all" })
 *
 * console.log(names[0])
 * // => commands: give output, standard error and the exit code apart
 * ```
 *
 * Source: `ARCHITECTURE.md` §3 and §7.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import type * as PlatformError from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as PseudoTerminal from "../../places/PseudoTerminal.ts"
import { ProcessEnvironment } from "../../base/platform/ProcessVariables.ts"
import * as Check from "./Check.ts"
import type * as Conformance from "./Conformance.ts"
import * as EnvironmentFileRules from "./EnvironmentFileRules.ts"
import {
  makeDirectoryRule,
  joinBytes,
  type Subject,
  readFailureTag,
  type Tools,
  waitUntil
} from "./EnvironmentSubject.ts"

export { Subject, type TestedEnvironment } from "./EnvironmentSubject.ts"

type Named = readonly [name: string, body: (tools: Tools) => Effect.Effect<void, unknown, Scope.Scope>]

const secret = "not-for-the-environment"

/** Name of the rule about the grace period after a signal. An environment that kills immediately is exempt from it. */
export const graceful = "have the time that a signal gives them to end by themselves"

const commands: ReadonlyArray<Named> = [
  [
    "give output, standard error and the exit code apart",
    Effect.fnUntraced(function* ({ finished }) {
      Check.equals(yield* finished("echo out; echo err >&2; exit 7"), { out: "out\n", err: "err\n", code: 7 })
      Check.equals(yield* finished("printf 'no line end'"), { out: "no line end", err: "", code: 0 })
    })
  ],
  [
    "stream while they run, and read what is written to them",
    Effect.fnUntraced(function* ({ start }) {
      const lines: Array<string> = []
      const handle = yield* start('while read -r line; do echo "got $line"; done; echo end', { stdin: "pipe" })
      const first = Stream.make("one\n", "two\n").pipe(Stream.encodeText)
      yield* Stream.run(first, handle.stdin).pipe(Effect.forkScoped)
      yield* Stream.runForEach(Stream.splitLines(Stream.decodeText(handle.stdout)), (line) =>
        Effect.sync(() => lines.push(line))
      )
      Check.equals(lines, ["got one", "got two", "end"])
    })
  ],
  [
    "see output before the end",
    Effect.fnUntraced(function* ({ at, files, start }) {
      const handle = yield* start(`echo first; while [ ! -e ${at("go")} ]; do sleep 0.05; done; echo second`)
      const seen: Array<string> = []
      yield* Stream.runForEach(Stream.decodeText(handle.stdout), (text) => {
        seen.push(text)
        return seen.length === 1 ? files.writeFileString(at("go"), "") : Effect.void
      })
      Check.equals(seen.join(""), "first\nsecond\n")
    })
  ],
  [
    "carry bytes as they are, megabytes of them, both ways",
    Effect.fnUntraced(function* ({ start }) {
      const bytes = new Uint8Array(3 * 1024 * 1024 + 17).map((_, index) => index * 31 + (index >> 8))
      const handle = yield* start("cat", { stdin: Stream.make(bytes) })
      const pieces = yield* Stream.runCollect(handle.stdout)
      Check.equals(joinBytes(pieces), bytes)
    })
  ],
  [
    "run in their directory, with their words as they are",
    Effect.fnUntraced(function* ({ directory, finished }) {
      const odd = 'it\'s "odd" $HOME `id` \\n ! * ü\nsecond line '
      const { out } = yield* finished("pwd; printf '%s' \"$ODD\"", { env: { PATH: "/usr/bin:/bin", ODD: odd } })
      Check.equals(out, `${directory}\n${odd}`)
    })
  ],
  [
    "run nothing in a directory that is missing",
    Effect.fnUntraced(function* ({ finished }) {
      const result = yield* Effect.result(finished("echo ran", { cwd: "/no/such/directory" }))
      if (result._tag === "Failure") Check.equals(result.failure.reason._tag, "NotFound")
      else Check.equals([result.success.out, result.success.code === 0], ["", false])
    })
  ],
  [
    "may have further pipes",
    Effect.fnUntraced(function* ({ start }) {
      const handle = yield* start("cat <&4; echo through three >&3", {
        additionalFds: {
          fd3: { type: "output" },
          fd4: { type: "input", stream: Stream.encodeText(Stream.make("through four")) }
        }
      })
      const collectText = (stream: Stream.Stream<Uint8Array, PlatformError.PlatformError>) =>
        Stream.mkString(Stream.decodeText(stream))
      Check.equals(
        yield* Effect.all([collectText(handle.stdout), collectText(handle.getOutputFd(3))], { concurrency: 2 }),
        ["through four", "through three\n"]
      )
    })
  ],
  [
    "are joined to a pipeline",
    Effect.fnUntraced(function* ({ directory, spawner }) {
      const makeShellCommand = (script: string) =>
        ChildProcess.make("/bin/sh", ["-c", script], { cwd: directory, env: { PATH: "/usr/bin:/bin" } })
      Check.equals(
        yield* spawner.string(
          makeShellCommand("printf 'b\\na\\n'").pipe(ChildProcess.pipeTo(makeShellCommand("sort")))
        ),
        "a\nb\n"
      )
    })
  ],
  [
    "have no input where they are given none",
    Effect.fnUntraced(function* ({ finished }) {
      Check.equals((yield* finished("read -r line || echo none")).out, "none\n")
    })
  ],
  [
    "get the variables that they are given, and nothing that only the program has",
    Effect.fnUntraced(function* ({ finished }) {
      const { out } = yield* Effect.provideService(
        finished("env", { env: { PATH: "/usr/bin:/bin", LANG: "C.UTF-8", GIVEN: "yes" } }),
        ProcessEnvironment,
        () => ({ PATH: "/usr/bin:/bin", LANG: "C.UTF-8", PRIVATE_VALUE: secret })
      )
      Check.excludes(out, secret)
      Check.includes(out, "GIVEN=yes\n")
      Check.includes(out, "LANG=C.UTF-8\n")
    })
  ],
  [
    "run beside each other",
    Effect.fnUntraced(function* ({ at, finished }) {
      const runUntilMet = (own: string, other: string) =>
        finished(
          `: > ${at(own)}; for i in $(seq 200); do [ -e ${at(other)} ] && echo met && exit; sleep 0.05; done; exit 1`
        )
      const results = yield* Effect.all([runUntilMet("a", "b"), runUntilMet("b", "a")], { concurrency: 2 })
      Check.equals(
        results.map(({ out }) => out),
        ["met\n", "met\n"]
      )
    })
  ],
  [
    "have ended when their shell has, whatever they left behind",
    Effect.fnUntraced(function* ({ start }) {
      const handle = yield* start("(sleep 20; echo late) & echo done")
      Check.equals(Number(yield* handle.exitCode), 0)
    })
  ],
  [
    "may have a terminal of their own: its size, what is typed on it, their exit code, their end",
    Effect.fnUntraced(function* ({ at, directory, files, finished, spawner }) {
      const env = { PATH: "/usr/bin:/bin", SHELL: "/no/such/shell", LINES: "1", COLUMNS: "1" }
      const maker = yield* PseudoTerminal.findMaker({ cwd: directory, env }).pipe(
        Effect.provideService(ChildProcessSpawner, spawner)
      )
      if (maker === undefined) {
        Check.equals(
          (yield* finished("command -v script || command -v python3")).out,
          "",
          "a program that makes terminals was not found"
        )
        return
      }
      const script =
        'tty -s && stty size; echo "it\'s $SHELL" "${LINES-}${COLUMNS-}"; read -r line; echo "got $line"; cat; exit 7'
      const shell = (yield* finished('printf %s "$SHELL"', { env })).out
      for (const size of [undefined, { rows: 50, columns: 132 }]) {
        const handle = yield* spawner.spawn(
          ChildProcess.make("/bin/sh", PseudoTerminal.buildShellArguments(maker, "/bin/sh", script, size), {
            cwd: directory,
            env,
            stdin: Stream.encodeText(Stream.make("typed\n"))
          })
        )
        const lines = (yield* Stream.mkString(Stream.decodeText(handle.stdout))).split("\n")
        Check.includesAll(lines, [size === undefined ? "24 80" : "50 132", `it's ${shell} `, "got typed"])
        Check.equals(Number(yield* handle.exitCode), 7)
      }
      yield* Effect.scoped(
        Effect.gen(function* () {
          const beat = `while :; do echo x >> ${at("typed")}; sleep 0.05; done`
          yield* spawner.spawn(
            ChildProcess.make("/bin/sh", PseudoTerminal.buildShellArguments(maker, "/bin/sh", beat), {
              cwd: directory,
              env,
              killSignal: "SIGKILL"
            })
          )
          yield* waitUntil(files.exists(at("typed")))
        })
      )
      const size = finished(`wc -c < ${at("typed")}`)
      const before = yield* size
      yield* Effect.sleep("300 millis")
      Check.equals((yield* size).out, before.out)
    })
  ],
  [
    graceful,
    Effect.fnUntraced(function* ({ at, files, start }) {
      const polite = yield* start(`trap 'echo bye; exit 3' TERM; : > ${at("ready")}; while :; do sleep 0.05; done`)
      yield* waitUntil(files.exists(at("ready")))
      yield* polite.kill({ killSignal: "SIGTERM", forceKillAfter: "10 seconds" })
      Check.equals(yield* Stream.mkString(Stream.decodeText(polite.stdout)), "bye\n")
    })
  ],
  [
    "end by force when they ignore a signal",
    Effect.fnUntraced(function* ({ at, files, start }) {
      const deaf = yield* start(`trap '' TERM; : > ${at("deaf")}; while :; do sleep 0.05; done`)
      yield* waitUntil(files.exists(at("deaf")))
      yield* deaf.kill({ killSignal: "SIGTERM", forceKillAfter: "200 millis" })
      Check.holds(!(yield* deaf.isRunning))
    })
  ],
  [
    "take everything below them along, also what left their group",
    Effect.fnUntraced(function* ({ at, files, finished, start }) {
      const buildHeartbeat = (name: string) => `while :; do echo x >> ${at(name)}; sleep 0.05; done`
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* start(`sh -c '${buildHeartbeat("child")}' & sh -c '(${buildHeartbeat("grandchild")}) &' & wait`)
          yield* waitUntil(
            Effect.zipWith(files.exists(at("child")), files.exists(at("grandchild")), (one, other) => one && other)
          )
        })
      )
      const size = finished(`cat ${at("child")} ${at("grandchild")} | wc -c`)
      const before = yield* size
      yield* Effect.sleep("300 millis")
      Check.equals((yield* size).out, before.out)
    })
  ]
]

/** Sends an HTTP request to a port on this machine. Returns `undefined` if there is no answer. */
const requestPort = (port: number): Effect.Effect<string | undefined> =>
  Effect.orElseSucceed(
    Effect.tryPromise((signal) => fetch(`http://127.0.0.1:${port}/`, { signal }).then((answer) => answer.text())),
    () => undefined
  )

const ports: ReadonlyArray<Named> = [
  [
    "on which a command listens are reached from this machine, until the scope ends",
    Effect.fnUntraced(function* ({ environment, finished, start }) {
      // The port is above the range that the system assigns automatically.
      const port = yield* Random.nextIntBetween(61_000, 65_000)
      const node =
        (yield* finished(`command -v node || [ -x '${environment.node}' ] && echo '${environment.node}'`)).out
          .trim()
          .split("\n")[0] ?? ""
      const server =
        `require("http").createServer((_, answer) => answer.end("heard")).listen(${port}, "127.0.0.1", ` +
        `() => console.log("ready"))`
      const plain =
        `while read -r line && [ "\${#line}" -gt 1 ]; do :; done; printf "HTTP/1.0 200 OK\\r\\nContent-Length: ` +
        `5\\r\\n\\r\\nheard"`
      const handle = yield* start(
        node === "" ? `echo ready; exec nc -ll -p ${port} -e /bin/sh -c '${plain}'` : `exec '${node}' -e '${server}'`
      )
      yield* Stream.runHead(handle.stdout)
      const forwarded = yield* Effect.scoped(
        Effect.gen(function* () {
          const address = yield* environment.forward(port)
          const heard = waitUntil(Effect.map(requestPort(address.port), (text) => text === "heard"))
          yield* heard
          yield* Effect.all([heard, heard, heard], { concurrency: 3 })
          return address
        })
      )
      if (forwarded.host === "127.0.0.1")
        Check.equals(yield* requestPort(forwarded.port), undefined, "the address is gone with its scope")
      Check.equals(yield* readFailureTag(Effect.scoped(environment.forward(70_000))), "BadResource")
    })
  ]
]

/** The rules, in the order of commands, files, ports and snapshots. */
export const rules: ReadonlyArray<Conformance.Rule<Subject>> = [
  ...commands.map(([name, body]) => makeDirectoryRule("commands", name, body)),
  ...EnvironmentFileRules.files,
  ...ports.map(([name, body]) => makeDirectoryRule("ports", name, body)),
  ...EnvironmentFileRules.snapshots
]
