import { assert, layer } from "@effect/vitest"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { StopRequested } from "../../src/tools/ToolContext.ts"
import { bench, isAlive, nodeLayer, session } from "../support/terminalTools.ts"
import { eventually } from "../support/waiting.ts"

const allGone = (pids: ReadonlyArray<number>) =>
  eventually(
    `${pids.join(" ")} are gone`,
    Effect.map(Effect.forEach(pids, isAlive), (alive) => !alive.includes(true))
  )

const stubbornPair =
  "trap '' TERM; echo $$ >> pids; bash -c \"trap '' TERM; echo \\$\\$ >> pids; sleep 1000; true\"; true"

layer(nodeLayer)("process", (it) => {
  it.effect("write, submit and close reach the process's input", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const session_id = yield* b.start("cat; echo over")
      assert.deepStrictEqual((yield* b.process("write", { session_id, data: "a€" })).body, {
        session_id,
        status: "ok",
        bytes_written: 4
      })
      assert.strictEqual((yield* b.process("submit", { session_id, data: "b" })).body["bytes_written"], 2)
      yield* b.process("submit", { session_id })
      yield* eventually(
        "cat answers",
        Effect.map(b.process("log", { session_id }), ({ body }) => body["output"] === "a€b\n")
      )
      yield* b.process("close", { session_id })
      const { body } = yield* b.process("wait", { session_id })
      assert.deepStrictEqual(body, { session_id, status: "exited", exit_code: 0, output: "a€b\n\nover" })
      const late = yield* b.process("write", { session_id, data: "x" })
      assert.isTrue(late.isFailure)
      assert.strictEqual(late.body["status"], "error")
      assert.include(String(late.body["error"]), "exit code 0")
    })
  )

  it.effect("a process that closed its input does not disturb the runtime", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const session_id = yield* b.start("exec <&-; touch closed; until [ -e go ]; do sleep 0.01; done; echo fine")
      yield* eventually("it closed its input", b.exists("closed"))
      for (let n = 0; n < 5; n++) yield* b.process("submit", { session_id, data: "x".repeat(100_000) })
      yield* b.put("go", "")
      const { body } = yield* b.process("wait", { session_id })
      assert.strictEqual(body["output"], "fine")
    })
  )

  it.effect("poll shows state and the end of the output, list the processes of the session", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const startedAt = DateTime.formatIso(yield* DateTime.now)
      const session_id = yield* b.start("seq 1 2000; until [ -e go ]; do sleep 0.01; done; exit 2")
      yield* eventually(
        "it has printed",
        Effect.map(b.process("poll", { session_id }), ({ body }) => String(body["output_preview"]).endsWith("\n2000"))
      )
      yield* TestClock.adjust("90 seconds")
      const { body } = yield* b.process("poll", { session_id })
      assert.deepStrictEqual(Object.keys(body), [
        "session_id",
        "command",
        "status",
        "pid",
        "uptime_seconds",
        "output_preview"
      ])
      assert.strictEqual(body["uptime_seconds"], 90)
      assert.isAtMost(String(body["output_preview"]).length, 1000)
      yield* b.put("go", "")
      yield* b.process("wait", { session_id })
      const { body: list } = yield* b.process("list")
      assert.deepStrictEqual(list, {
        processes: [
          {
            session_id,
            command: body["command"],
            cwd: b.dir,
            pid: body["pid"],
            status: "exited",
            exit_code: 2,
            started_at: startedAt,
            uptime_seconds: 90
          }
        ]
      })
      const other = yield* b.call("process", { action: "list" }, { session: "s2" })
      assert.deepStrictEqual(other.body, { processes: [] })
    })
  )

  it.effect("log shows the last 200 lines, or a window of lines by offset and limit", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const session_id = yield* b.start("seq 0 999; printf unfinished")
      yield* b.process("wait", { session_id })
      const numbers = (from: number, to: number) =>
        Array.from({ length: to - from + 1 }, (_, n) => String(from + n)).join("\n")
      const log = (params: Record<string, unknown>) =>
        Effect.map(b.process("log", { session_id, ...params }), ({ body }) => body)
      assert.deepStrictEqual(yield* log({}), {
        session_id,
        status: "exited",
        exit_code: 0,
        output: `${numbers(801, 999)}\nunfinished`,
        total_lines: 1001,
        showing: "lines 801 to 1000"
      })
      assert.strictEqual((yield* log({ offset: 10, limit: 3 }))["output"], "10\n11\n12")
      assert.strictEqual((yield* log({ offset: 0, limit: 2 }))["showing"], "lines 0 to 1")
      assert.strictEqual((yield* log({ limit: 1 }))["output"], "unfinished")
      assert.strictEqual((yield* log({ offset: 2000 }))["showing"], "no lines")
    })
  )

  it.effect("log keeps counting lines that are no longer kept", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const session_id = yield* b.start("seq -f '%07.0f' 0 199999")
      yield* b.process("wait", { session_id })
      const last = (yield* b.process("log", { session_id, limit: 1 })).body
      assert.strictEqual(last["output"], "0199999")
      assert.strictEqual(last["total_lines"], 200_000)
      const early = (yield* b.process("log", { session_id, offset: 0, limit: 1 })).body
      const first = Number(early["output"])
      assert.isAbove(first, 100_000)
      assert.strictEqual(early["showing"], `lines ${first} to ${first}`)
      assert.strictEqual(early["note"], `Lines before ${first} are no longer kept.`)
      const much = (yield* b.process("log", { session_id, limit: 100_000 })).body
      assert.strictEqual(String(much["output"]).length, 50_000)
      assert.include(String(much["note"]), "ask for fewer lines")
    })
  )

  it.effect("wait gives up after its timeout, and the process runs on", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const session_id = yield* b.start("echo up; exec sleep 1000")
      const fiber = yield* b.process("wait", { session_id, timeout: 5000 }).pipe(Effect.forkChild)
      yield* eventually(
        "it is up",
        Effect.map(b.process("poll", { session_id }), ({ body }) => body["output_preview"] === "up")
      )
      yield* TestClock.adjust("600 seconds")
      assert.deepStrictEqual((yield* Fiber.join(fiber)).body, {
        session_id,
        status: "timeout",
        output: "up",
        note: "It still runs after 600 s, the longest that wait waits."
      })
      assert.strictEqual((yield* b.process("poll", { session_id })).body["status"], "running")
      const stop = yield* Deferred.make<void>()
      yield* Deferred.succeed(stop, undefined)
      const stopped = yield* b
        .process("wait", { session_id })
        .pipe(Effect.provideService(StopRequested, Deferred.await(stop)))
      assert.strictEqual(stopped.body["status"], "interrupted")
    })
  )

  it.effect("kill takes the whole tree down; a second one says that it has ended", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const session_id = yield* b.start(stubbornPair)
      const pids = yield* b.pids("pids", 2)
      const { body } = yield* b.process("kill", { session_id })
      assert.strictEqual(body["status"], "killed")
      assert.strictEqual(body["exit_code"], 137)
      yield* allGone(pids)
      assert.deepStrictEqual((yield* b.process("kill", { session_id })).body, {
        session_id,
        status: "already_exited",
        exit_code: 137
      })
    })
  )

  it.effect("a unique prefix of an id is enough; another session needs the whole id", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const first = yield* b.start("true")
      const prefix = first.slice(0, 8)
      assert.strictEqual((yield* b.process("poll", { session_id: prefix })).body["session_id"], first)
      const foreign = yield* b.call("process", { action: "poll", session_id: prefix }, { session: "s2" })
      assert.isTrue(foreign.isFailure)
      assert.strictEqual(foreign.body["status"], "not_found")
      assert.include(String(foreign.body["error"]), "list")
      const exact = yield* b.call("process", { action: "poll", session_id: first }, { session: "s2" })
      assert.strictEqual(exact.body["session_id"], first)
      const second = yield* b.start("true")
      const both = yield* b.process("poll", { session_id: "proc_" })
      assert.isTrue(both.isFailure)
      assert.include(String(both.body["error"]), `${first}, ${second}`)
      assert.isTrue((yield* b.process("poll")).isFailure)
      assert.isTrue((yield* b.process("write", { session_id: first })).isFailure)
    })
  )

  it.effect("a process outlives the turn that started it, and not the runtime", () =>
    Effect.gen(function* () {
      const runtime = yield* Scope.make()
      const b = yield* Scope.provide(bench, runtime)
      const turn = yield* Effect.andThen(b.start(stubbornPair), Effect.never).pipe(Effect.forkChild)
      const pids = yield* b.pids("pids", 2)
      yield* Fiber.interrupt(turn)
      assert.deepStrictEqual(yield* Effect.forEach(pids, isAlive), [true, true])
      yield* Scope.close(runtime, Exit.void)
      yield* allGone(pids)
    })
  )

  it.effect("tells of its end when it was asked to, and only then", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const silent = yield* b.start("true")
      yield* b.process("wait", { session_id: silent })
      const command = "echo result; exit 4"
      const started = yield* b.terminal(command, { background: true, notify_on_complete: true })
      assert.strictEqual(started.body["notify_on_complete"], true)
      const event = yield* b.events.take(session("s1"))
      assert.deepStrictEqual(event, {
        _tag: "ProcessCompleted",
        processId: String(started.body["session_id"]),
        sessionId: session("s1"),
        taskId: event.taskId,
        command,
        at: event.at,
        exitCode: 4,
        reason: "exited",
        output: "result\n"
      })
      const session_id = yield* b.start("exec sleep 1000", { notify_on_complete: true })
      yield* b.process("kill", { session_id })
      const killed = yield* b.events.take(session("s1"))
      assert.isTrue(killed._tag === "ProcessCompleted" && killed.reason === "killed" && killed.exitCode === 143)
      assert.deepStrictEqual(yield* b.events.drain(session("s1")), [])
    })
  )

  it.effect("tells of watched output, and stops watching a noisy process", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const started = yield* b.terminal("cat", { background: true, watch_patterns: ["ready", "FAIL"] })
      assert.deepStrictEqual(started.body["watch_patterns"], ["ready", "FAIL"])
      const session_id = started.body["session_id"]
      const say = Effect.fnUntraced(function* (data: string) {
        yield* b.process("submit", { session_id, data })
        yield* eventually(
          `cat says ${data}`,
          Effect.map(b.process("log", { session_id, limit: 1 }), ({ body }) => body["output"] === data)
        )
      })
      yield* say("nothing")
      yield* say("server ready 0")
      const first = yield* b.events.take(session("s1"))
      assert.isTrue(
        first._tag === "WatchMatched" &&
          first.pattern === "ready" &&
          first.lines[0] === "server ready 0" &&
          first.suppressed === 0
      )
      for (const round of [1, 2]) {
        yield* say(`FAIL ${round}a`)
        assert.deepStrictEqual(yield* b.events.drain(session("s1")), [])
        yield* TestClock.adjust("15 seconds")
        yield* say(`FAIL ${round}b`)
        const next = yield* b.events.take(session("s1"))
        assert.isTrue(next._tag === "WatchMatched" && next.pattern === "FAIL" && next.suppressed === 1)
      }
      yield* say("FAIL 3")
      assert.strictEqual((yield* b.events.take(session("s1")))._tag, "WatchDemoted")
      yield* TestClock.adjust("60 seconds")
      yield* say("ready again")
      yield* b.process("close", { session_id })
      // Demoted to completion only: its end is told, although nobody had asked for that.
      const events = [yield* b.events.take(session("s1")), ...(yield* b.events.drain(session("s1")))]
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["ProcessCompleted"]
      )
    })
  )

  it.effect("runs 64 processes at the same time at most", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const answers = yield* Effect.forEach(
        Array.from({ length: 65 }),
        () => b.terminal("exec sleep 1000", { background: true }),
        { concurrency: "unbounded" }
      )
      const refused = answers.filter(({ isFailure }) => isFailure)
      assert.strictEqual(refused.length, 1)
      assert.include(String(refused[0]?.body["error"]), "64 background processes are running already")
    })
  )

  it.effect("keeps 64 processes that have ended, for seven days", () =>
    Effect.gen(function* () {
      const b = yield* bench
      const listed = Effect.map(b.process("list"), ({ body }) =>
        Array.isArray(body["processes"]) ? body["processes"].length : -1
      )
      const ids = yield* Effect.forEach(Array.from({ length: 66 }), () => b.start("true"), { concurrency: 4 })
      yield* Effect.forEach(ids, (session_id) => b.process("wait", { session_id }))
      assert.strictEqual(yield* listed, 64)
      const running = yield* b.start("exec sleep 1000")
      assert.strictEqual(yield* listed, 65)
      yield* TestClock.adjust("7 days")
      assert.strictEqual(yield* listed, 65)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* listed, 1)
      assert.strictEqual((yield* b.process("poll", { session_id: running })).body["status"], "running")
    })
  )
})
