import { assert, it, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as PlatformError from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as TestClock from "effect/testing/TestClock"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import { ProcessEnvironment } from "../../src/base/platform/ProcessVariables.ts"
import { StopRequested } from "../../src/tools/ToolContext.ts"
import { TerminalSettings } from "../../src/tools/builtin/BuiltinSettings.ts"
import { bench, isAlive, nodeLayer } from "../support/terminalTools.ts"
import { eventually } from "../support/waiting.ts"

/** A shell, a child that ignores SIGTERM, and a grandchild in a session of its own; all of them write their pid. */
const stubbornTree = [
  "trap '' TERM",
  "echo $$ >> pids",
  "bash -c \"trap '' TERM; echo \\$\\$ >> pids; setsid bash -c \\\"trap '' TERM; echo \\\\\\$\\\\\\$ >> pids; sleep 1000\\\"; true\"",
  "true"
].join("\n")

const allGone = (pids: ReadonlyArray<number>) =>
  eventually(
    `${pids.join(" ")} are gone`,
    Effect.map(Effect.forEach(pids, isAlive), (alive) => !alive.includes(true))
  )

layer(nodeLayer)("terminal", (it) => {
  it.effect("joins stdout and stderr in the order in which they were written", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { body } = yield* b.terminal("for i in 1 2 3; do echo out$i; echo err$i >&2; done")
      assert.strictEqual(body["output"], "out1\nerr1\nout2\nerr2\nout3\nerr3")
    })
  )

  it.effect(
    "runs in the session's directory, or in workdir, which may be relative to it or to the home directory",
    () =>
      Effect.gen(function* () {
        const b = yield* bench
        yield* b.terminal("mkdir -p sub/deeper")
        assert.strictEqual((yield* b.terminal("pwd")).body["output"], b.dir)
        assert.strictEqual((yield* b.terminal("pwd", { workdir: "sub/deeper" })).body["output"], b.at("sub/deeper"))
        assert.strictEqual((yield* b.terminal("pwd", { workdir: b.at("sub") })).body["output"], b.at("sub"))
        const { body } = yield* b
          .terminal("pwd", { workdir: "~/deeper" })
          .pipe(Effect.provideService(ProcessEnvironment, () => ({ HOME: b.at("sub") })))
        assert.strictEqual(body["output"], b.at("sub/deeper"))
      })
  )

  it.effect("says that a working directory does not exist or is none, and runs nothing", () =>
    Effect.gen(function* () {
      const b = yield* bench
      yield* b.put("file", "")
      for (const background of [false, true]) {
        const missing = yield* b.terminal("touch ../ran", { workdir: "nowhere", background })
        assert.isTrue(missing.isFailure)
        assert.strictEqual(missing.body["exit_code"], -1)
        assert.include(String(missing.body["error"]), `${b.at("nowhere")} does not exist`)
        const file = yield* b.terminal("touch ran", { workdir: "file", background })
        assert.include(String(file.body["error"]), "is not a directory")
      }
      assert.isFalse(yield* b.exists("ran"))
      const gone = yield* b.call("terminal", { command: "true" }, { cwd: b.at("gone") })
      assert.include(String(gone.body["error"]), `${b.at("gone")} does not exist`)
    })
  )

  it.effect("gives a command no input and no terminal", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { body } = yield* b.terminal("cat; tty; [ -t 1 ] || echo none")
      assert.strictEqual(body["output"], "not a tty\nnone")
    })
  )

  it.effect(
    "gives a command a terminal of 80x24 when one is asked for, without the variables that no command has",
    () =>
      Effect.gen(function* () {
        const b = yield* bench
        const { body } = yield* b
          .terminal(
            "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size; cat; printf '\\033[31mred\\033[0m\\n'; echo \"$SHELL$OPENAI_API_KEY\" >&2; exit 7",
            { pty: true }
          )
          .pipe(
            Effect.provideService(ProcessEnvironment, () => ({
              PATH: process.env["PATH"],
              SHELL: "/no/such/shell",
              OPENAI_API_KEY: "sk-not-for-commands"
            }))
          )
        assert.deepStrictEqual(body, { output: "24 80\nred\n/no/such/shell", exit_code: 7, error: null })
        assert.strictEqual((yield* b.terminal("kill -KILL $$", { pty: true })).body["exit_code"], 137)
      })
  )

  it.effect("types on the terminal of a background process, and takes everything on it down", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const id = yield* b.start('read -r name; echo "hello $name"; cat; echo ended; exit 3', { pty: true })
      yield* b.process("submit", { session_id: id, data: "Ann" })
      yield* eventually(
        "it answers",
        Effect.map(b.process("poll", { session_id: id }), ({ body }) =>
          String(body["output_preview"]).includes("hello Ann")
        )
      )
      yield* b.process("close", { session_id: id })
      const { body } = yield* b.process("wait", { session_id: id })
      // What is typed before the terminal is set up is echoed as terminals do.
      assert.deepStrictEqual(
        [body["exit_code"], String(body["output"]).replace("\r", "")],
        [3, "Ann\nhello Ann\nended"]
      )
      const stubborn = yield* b.start(stubbornTree, { pty: true })
      const pids = yield* b.pids("pids", 3)
      yield* b.process("kill", { session_id: stubborn })
      yield* allGone(pids)
    })
  )

  it.effect("says that there is no terminal where nothing makes one, and runs the command without", () =>
    Effect.gen(function* () {
      const b = yield* bench
      yield* b.terminal("mkdir bin; printf '#!/bin/sh\\nexit 1\\n' | tee bin/script > bin/python3; chmod +x bin/*")
      const { body } = yield* b
        .terminal("tty", { pty: true })
        .pipe(Effect.provideService(ProcessEnvironment, () => ({ PATH: `${b.at("bin")}:/usr/bin:/bin` })))
      assert.strictEqual(body["output"], "not a tty")
      assert.include(String(body["pty_note"]), "no pseudo-terminal")
    })
  )

  it.effect("every call is a fresh shell", () =>
    Effect.gen(function* () {
      const b = yield* bench
      yield* b.terminal("cd /; export MARK=1")
      assert.strictEqual((yield* b.terminal('echo "$MARK$(pwd)"')).body["output"], b.dir)
    })
  )

  it.effect("takes a command with quotes, newlines, here-documents and syntax errors as bash does", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { body } = yield* b.terminal(
        "cat <<'EOF'\n$HOME \"quoted\" 'too' é\nEOF\n[[ abc == a* ]] && echo bash $# $0"
      )
      assert.strictEqual(body["output"], "$HOME \"quoted\" 'too' é\nbash 0 /bin/bash")
      const broken = yield* b.terminal("echo 'unclosed")
      assert.isFalse(broken.isFailure)
      assert.strictEqual(broken.body["exit_code"], 2)
      assert.include(String(broken.body["output"]), "line 1")
    })
  )

  it.effect("a command that fails is a success of the tool; one that dies of a signal has 128 + its number", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const failed = yield* b.terminal("echo no >&2; exit 7")
      assert.isFalse(failed.isFailure)
      assert.strictEqual(failed.text, '{"output":"no","exit_code":7,"error":null}')
      const killed = yield* b.terminal("kill -KILL $$")
      assert.strictEqual(killed.body["exit_code"], 137)
      assert.include(String(killed.body["exit_code_meaning"]), "SIGKILL")
    })
  )

  it.effect("replaces what is not UTF-8 and strips escape sequences", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { body } = yield* b.terminal("printf 'a\\377b \\033[31mred\\033[0m'")
      assert.strictEqual(body["output"], "a\ufffdb red")
    })
  )

  it.effect("reads an output of any size in bounded memory and shows its head and tail", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const before = process.memoryUsage().rss
      const { body } = yield* b.terminal("echo first; yes | head -c 300000000; echo last")
      const grown = process.memoryUsage().rss - before
      const output = String(body["output"])
      assert.isTrue(output.startsWith("first\ny\ny\n"))
      assert.isTrue(output.endsWith("y\ny\nlast"))
      assert.include(output, "of 300000011 bytes of output left out here")
      assert.isBelow(output.length, 50_500)
      assert.isBelow(grown, 200_000_000)
    })
  )

  it.effect("the limit of the output is a setting", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { body } = yield* b
        .terminal("printf '0123456789%.0s' 1 2 3 4 5 6 7 8 9 10")
        .pipe(
          Effect.updateContext((context: Context.Context<never>) =>
            Context.add(context, TerminalSettings, { ...Context.get(context, TerminalSettings), outputChars: 20 })
          )
        )
      assert.match(String(body["output"]), /^01234567\n\n\[\.\.\. 80 of 100 bytes [^]*\n\n890123456789$/)
    })
  )

  it.effect("runs calls side by side, each with its own output", () =>
    Effect.gen(function* () {
      const b = yield* bench
      // Each waits for all the others: run one after the other, they would never end.
      const answers = yield* Effect.forEach(
        [0, 1, 2, 3, 4, 5],
        (n) => b.terminal(`touch at${n}; until [ $(ls at* | wc -l) = 6 ]; do sleep 0.01; done; echo ${n}`),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        answers.map(({ body }) => body["output"]),
        ["0", "1", "2", "3", "4", "5"]
      )
    })
  )

  it.effect("keeps credentials out of the environment of a command, and everything else in", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { body } = yield* b
        .terminal('echo "[$OPENAI_API_KEY$GITHUB_TOKEN$DB_PASSWORD] $PLAIN"; env')
        .pipe(
          Effect.provideService(ProcessEnvironment, () => ({
            PATH: process.env["PATH"],
            OPENAI_API_KEY: "kPv93-model",
            GITHUB_TOKEN: "kPv93-forge",
            DB_PASSWORD: "kPv93-database",
            PLAIN: "plain"
          }))
        )
      assert.isTrue(String(body["output"]).startsWith("[] plain\n"))
      // Values that no path of this machine contains: PATH and PWD are in the output, too.
      assert.notInclude(String(body["output"]), "kPv93")
    })
  )

  it.effect("what would be left running is not run, and the model is told what to do instead", () =>
    Effect.gen(function* () {
      const b = yield* bench
      for (const command of ["touch ran & sleep 1", "nohup touch ran", "touch ran; npm run dev"]) {
        const { body, isFailure } = yield* b.terminal(command)
        assert.isTrue(isFailure)
        assert.strictEqual(body["exit_code"], -1)
        assert.include(String(body["error"]), "background=true")
      }
      const background = yield* b.terminal("nohup touch ran &", { background: true })
      assert.isTrue(background.isFailure)
      assert.isFalse(yield* b.exists("ran"))
    })
  )

  it.effect("a command that is longer than the system takes is refused with a remedy", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const longest = yield* b.terminal(`: ${"x".repeat(128 * 1024 - 3)}`)
      assert.strictEqual(longest.body["exit_code"], 0)
      const { body, isFailure } = yield* b.terminal(`: ${"x".repeat(128 * 1024 - 2)}`)
      assert.isTrue(isFailure)
      assert.include(String(body["error"]), "write it to a file")
      assert.isTrue((yield* b.terminal("echo a\0b")).isFailure)
      const environment = yield* b
        .terminal("true")
        .pipe(Effect.provideService(ProcessEnvironment, () => ({ BIG: "x".repeat(200_000) })))
      assert.include(String(environment.body["error"]), "E2BIG")
    })
  )

  it.effect("a timeout takes the whole tree down, even what ignores SIGTERM or left the process group", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const fiber = yield* b.terminal(stubbornTree, { timeout: 5 }).pipe(Effect.forkChild)
      const pids = yield* b.pids("pids", 3)
      yield* TestClock.adjust("5 seconds")
      const { body } = yield* Fiber.join(fiber)
      assert.strictEqual(body["exit_code"], 124)
      yield* allGone(pids)
    })
  )

  it.effect("interruption takes the whole tree down and stays interruption", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const fiber = yield* b.terminal(stubbornTree).pipe(Effect.forkChild)
      const pids = yield* b.pids("pids", 3)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every((reason) => reason._tag === "Interrupt"))
      yield* allGone(pids)
    })
  )

  it.effect("a run that is asked to stop gets what the command wrote, with exit code 130 and a marker", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const stop = yield* Deferred.make<void>()
      const fiber = yield* b.untilTimeout("echo partial; exec sleep 1000", "partial", 600).pipe(
        Effect.flatMap(({ fiber }) => Effect.andThen(Deferred.succeed(stop, undefined), Fiber.join(fiber))),
        Effect.provideService(StopRequested, Deferred.await(stop))
      )
      assert.deepStrictEqual(fiber.body, { output: "partial\n[Command interrupted]", exit_code: 130, error: null })
    })
  )

  it.effect("shows the end of the output while the command runs", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const { fiber, progress } = yield* b.untilTimeout("echo working; exec sleep 1000", "working", 600)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(progress, '{"output":"working\\n","exit_code":null,"error":null}')
    })
  )

  it.effect("a command whose time is over before it wrote anything says only that", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const fiber = yield* b.terminal("touch ready; exec sleep 1000").pipe(Effect.forkChild)
      yield* eventually("the command runs", b.exists("ready"))
      yield* TestClock.adjust("179 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 seconds")
      const { body } = yield* Fiber.join(fiber)
      assert.strictEqual(body["output"], "[Command timed out after 180 s and was stopped]")
    })
  )

  const environmentOver = (spawner: ChildProcessSpawner["Service"]) =>
    Layer.fresh(CommandEnvironment.layerLocal).pipe(Layer.provide(Layer.succeed(ChildProcessSpawner, spawner)))

  const flaky = (failures: number, code: string) =>
    Effect.map(ChildProcessSpawner, (spawner) => {
      const times: Array<number> = []
      return {
        times,
        spawner: ChildProcessSpawner.of({
          ...spawner,
          spawn: (command) =>
            Effect.flatMap(
              TestClock.testClockWith((clock) => Effect.sync(() => clock.currentTimeMillisUnsafe())),
              (now) => {
                times.push(now)
                return times.length <= failures
                  ? Effect.fail(
                      PlatformError.systemError({
                        _tag: "Unknown",
                        module: "ChildProcess",
                        method: "spawn",
                        cause: Object.assign(new Error(code), { code })
                      })
                    )
                  : spawner.spawn(command)
              }
            )
        })
      }
    })

  it.effect("a start that fails for want of a resource is tried again after 2, 4 and 8 seconds", () =>
    Effect.gen(function* () {
      const { spawner, times } = yield* flaky(3, "EAGAIN")
      const b = yield* Effect.provide(bench, environmentOver(spawner))
      const fiber = yield* b.terminal("echo there").pipe(Effect.forkChild)
      yield* eventually(
        "it was tried",
        Effect.sync(() => times.length > 0)
      )
      yield* TestClock.adjust("14 seconds")
      assert.strictEqual((yield* Fiber.join(fiber)).body["output"], "there")
      assert.deepStrictEqual(
        times.map((time) => time - (times[0] ?? 0)),
        [0, 2000, 6000, 14_000]
      )
    })
  )

  it.effect("after three retries the model is told, and a lasting failure is told at once", () =>
    Effect.gen(function* () {
      const busy = yield* flaky(9, "EMFILE")
      const b = yield* Effect.provide(bench, environmentOver(busy.spawner))
      const fiber = yield* b.terminal("echo there").pipe(Effect.forkChild)
      yield* eventually(
        "it was tried",
        Effect.sync(() => busy.times.length > 0)
      )
      yield* TestClock.adjust("14 seconds")
      const { body, isFailure } = yield* Fiber.join(fiber)
      assert.isTrue(isFailure)
      assert.include(String(body["error"]), "EMFILE")
      assert.strictEqual(busy.times.length, 4)

      const broken = yield* flaky(9, "ENOENT")
      const other = yield* Effect.provide(bench, environmentOver(broken.spawner))
      assert.isTrue((yield* other.terminal("echo there")).isFailure)
      assert.strictEqual(broken.times.length, 1)
    })
  )

  it.effect("the model is told of every parameter", () =>
    Effect.gen(function* () {
      const b = yield* bench
      for (const { parameters } of b.definitions) {
        const properties = Predicate.hasProperty(parameters, "properties") ? parameters.properties : undefined
        assert.isTrue(Predicate.isObject(properties))
        for (const [name, schema] of Object.entries(properties ?? {})) {
          assert.match(JSON.stringify(schema), /"description":"[^"]{20}/, name)
        }
      }
      const [terminal] = b.definitions
      assert.deepStrictEqual(
        Predicate.hasProperty(terminal?.parameters, "required") ? terminal.parameters.required : [],
        ["command"]
      )
    })
  )
})

// On the real clock: what is waited for here is the quiet of a pipe.
it.live("a process that outlives its command does not hold the result, and is not left behind", () =>
  Effect.gen(function* () {
    const b = yield* bench
    const { body } = yield* b.terminal("sh -c 'sleep 1000 & echo $! > pids'; echo done")
    assert.deepStrictEqual(body, { output: "done", exit_code: 0, error: null })
    yield* allGone(yield* b.pids("pids", 1))
    yield* b.terminal("trap '' HUP; sh -c 'sleep 1000 & echo $! > onTerminal'", { pty: true })
    yield* allGone(yield* b.pids("onTerminal", 1))
  }).pipe(Effect.scoped, Effect.provide(nodeLayer))
)
