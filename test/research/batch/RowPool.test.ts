import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { systemError } from "effect/PlatformError"
import * as TestClock from "effect/testing/TestClock"
import { appendFileSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as RowJournal from "../../../src/research/batch/RowJournal.ts"
import * as RowPool from "../../../src/research/batch/RowPool.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const rows = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `r${index}`, digest: `d${index}` }))
const done = () => Effect.succeed(RowPool.makeFinishedResult({ answer: 1 }))
const lines = (path: string) =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line): Record<string, unknown> => JSON.parse(line))
const idsIn = (directory: string) => lines(join(directory, "results.jsonl")).map(({ row_id }) => row_id)
const test = <A, E>(work: Effect.Effect<A, E, FileSystem.FileSystem | Path.Path | Scope.Scope>) =>
  Effect.provide(work, NodeServices.layer)

describe("RowPool", () => {
  it.effect("each row is finished once, so many at a time, and a second run does only what is missing", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const together = yield* Deferred.make<void>()
        let running = 0
        let most = 0
        const asked: Array<string> = []
        const work = ({ id }: RowJournal.RowKey) =>
          Effect.gen(function* () {
            asked.push(id)
            most = Math.max(most, ++running)
            if (running === 3) yield* Deferred.succeed(together, undefined)
            yield* Deferred.await(together)
            running--
            return RowPool.makeFinishedResult({ answer: id }, { costUsd: 0.5, tokens: 10 })
          })
        const first = yield* RowPool.run({
          rows: rows(5),
          journal: yield* RowJournal.open({ directory }),
          run: work,
          concurrency: 3
        })
        assert.deepStrictEqual([first.finished, first.before, first.costUsd, first.tokens, most], [5, 0, 2.5, 50, 3])
        const second = yield* RowPool.run({ rows: rows(8), journal: yield* RowJournal.open({ directory }), run: work })
        assert.deepStrictEqual([second.finished, second.before], [3, 5])
        assert.deepStrictEqual(
          asked.toSorted(),
          rows(8).map(({ id }) => id)
        )
        assert.deepStrictEqual(
          idsIn(directory).toSorted(),
          rows(8).map(({ id }) => id)
        )
      })
    )
  )

  it.effect("a row whose content changed is run again, and its last result counts", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        yield* RowPool.run({ rows: rows(2), journal: yield* RowJournal.open({ directory }), run: done })
        const journal = yield* RowJournal.open({ directory })
        const changed = [{ id: "r0", digest: "other" }, ...rows(2).slice(1)]
        const { finished } = yield* RowPool.run({
          rows: changed,
          journal,
          run: () => Effect.succeed(RowPool.makeFinishedResult({ answer: 2 }))
        })
        assert.strictEqual(finished, 1)
        const results = yield* Stream.runCollect(journal.results)
        assert.deepStrictEqual(
          results.map(({ fields, id }) => [id, fields["answer"]]),
          [
            ["r1", 1],
            ["r0", 2]
          ]
        )
      })
    )
  )

  it.effect("a failing row waits twice as long before each further attempt", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const minutes: Array<number> = []
        const run = () =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            // Writing the journal takes a few of the seconds below.
            minutes.push(Math.round(now / 60_000))
            return Effect.fail("no answer")
          })
        const journal = yield* RowJournal.open({ directory })
        const fiber = yield* Effect.forkChild(
          RowPool.run({ rows: rows(1), journal, run, retries: 3, retryDelay: "10 minutes" })
        )
        const summary = yield* Effect.raceFirst(
          Fiber.join(fiber),
          Effect.forever(Effect.andThen(TestClock.adjust("10 seconds"), TestClock.withLive(Effect.sleep(5))))
        )
        assert.deepStrictEqual(summary.failures, [
          { id: "r0", attempts: 4, message: "no answer", kind: "infrastructure" }
        ])
        assert.strictEqual(summary.retried, 3)
        const waits = minutes.slice(1).map((minute, index) => minute - (minutes[index] ?? 0))
        assert.deepStrictEqual(
          waits.map((wait) => Math.round(wait / 10) * 10),
          [10, 20, 40]
        )
      })
    )
  )

  it.effect("a failing row is retried, then noted, and run again by the next run; others go on", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const attempts: Array<number> = []
        const run = ({ id }: RowJournal.RowKey, { goesOn, number }: RowPool.Attempt) => {
          if (id !== "r1") return done()
          assert.isFalse(goesOn)
          attempts.push(number)
          return number === 1 ? Effect.die(new Error("a\n  defect")) : number < 5 ? Effect.fail("no answer") : done()
        }
        const fiber = yield* Effect.forkChild(
          RowPool.run({ rows: rows(3), journal: yield* RowJournal.open({ directory }), run, retries: 2 })
        )
        // The files are really written, so the clock is moved until the end.
        const first = yield* Effect.raceFirst(
          Fiber.join(fiber),
          Effect.forever(Effect.andThen(TestClock.adjust("1 second"), TestClock.withLive(Effect.sleep(5))))
        )
        assert.deepStrictEqual(first.failures, [
          { id: "r1", attempts: 3, message: "no answer", kind: "infrastructure" }
        ])
        assert.deepStrictEqual([first.finished, first.failed, first.retried], [2, 1, 2])
        const journal = yield* RowJournal.open({ directory })
        const second = yield* RowPool.run({ rows: rows(3), journal, run, retries: 0 })
        assert.strictEqual(second.failed, 1)
        const third = yield* RowPool.run({ rows: rows(3), journal, run, retries: 0 })
        assert.deepStrictEqual([third.finished, third.before], [1, 2])
        assert.deepStrictEqual(attempts, [1, 2, 3, 4, 5])
        const errors = lines(join(directory, "attempts.jsonl"))
          .filter(({ event }) => event === "fail")
          .map(({ error }) => error)
        assert.deepStrictEqual(errors, ["a defect", "no answer", "no answer", "no answer"])
      })
    )
  )

  it.effect("interruption writes nothing of rows in flight, and the next run goes on with their attempts", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const started = yield* Deferred.make<void>()
        const fiber = yield* Effect.forkChild(
          RowPool.run({
            rows: rows(3),
            journal: yield* RowJournal.open({ directory }),
            run: ({ id }) =>
              id === "r0" ? done() : Effect.andThen(Deferred.succeed(started, undefined), Effect.never),
            concurrency: 1
          })
        )
        yield* Deferred.await(started)
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(idsIn(directory), ["r0"])
        const seen: Array<string> = []
        yield* RowPool.run({
          rows: rows(3),
          journal: yield* RowJournal.open({ directory }),
          run: ({ id }, { goesOn, number }) =>
            Effect.andThen(
              Effect.sync(() => seen.push(`${id} ${number} ${goesOn}`)),
              done()
            )
        })
        assert.deepStrictEqual(seen, ["r1 1 true", "r2 1 false"])
      })
    )
  )

  it.effect("a row during whose attempt five processes died is failed; an interrupted process does not count", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const record = (id: string, event: string) =>
          appendFileSync(
            join(directory, "attempts.jsonl"),
            `${JSON.stringify({ row_id: id, row_digest: id.replace("r", "d"), event, attempt: 1 })}\n`
          )
        for (let time = 0; time < 5; time++) {
          record("r0", "begin")
          record("r1", "begin")
          if (time === 3) record("r1", "leave")
        }
        const begun: Array<string> = []
        const run = ({ id }: RowJournal.RowKey, { goesOn, number }: RowPool.Attempt) => {
          begun.push(`${id} ${number} ${goesOn}`)
          return done()
        }
        const runAgain = Effect.flatMap(RowJournal.open({ directory }), (journal) =>
          RowPool.run({ rows: rows(2), journal, run })
        )
        const { failures, finished } = yield* runAgain
        assert.deepStrictEqual(
          failures.map(({ id, message }) => `${id}: ${message}`),
          ["r0: the process ended 5 times during this attempt; it is not continued"]
        )
        assert.deepStrictEqual([finished, begun], [1, ["r1 1 true"]])
        // The next run begins a new attempt, as at any failed row.
        assert.strictEqual((yield* runAgain).finished, 1)
        assert.deepStrictEqual(begun, ["r1 1 true", "r0 2 false"])
      })
    )
  )

  it.effect("an interrupted row is left open, and continues", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const journal = yield* RowJournal.open({ directory })
        const begun = yield* Deferred.make<void>()
        const fiber = yield* Effect.forkChild(
          RowPool.run({
            rows: rows(1),
            journal,
            run: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
          })
        )
        yield* Deferred.await(begun)
        yield* Fiber.interrupt(fiber)
        const [attempt] = (yield* RowJournal.open({ directory })).attempts.values()
        assert.deepStrictEqual([attempt?.isOpen, attempt?.deaths], [true, 0])
      })
    )
  )

  it.effect("half a line of a crash is cut off; damage in the middle is told, and its row runs again", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const path = join(directory, "results.jsonl")
        writeFileSync(path, `{"row_id":"r0","row_digest":"d0"}\n{"row_id":"r1","row_digest":"d1",\n`)
        appendFileSync(path, `{"row_id":"r2","row_di`)
        const journal = yield* RowJournal.open({ directory })
        assert.strictEqual(journal.problems.length, 1)
        assert.match(journal.problems[0] ?? "", /results.jsonl line 2: not readable/)
        const { before, finished } = yield* RowPool.run({ rows: rows(3), journal, run: done })
        assert.deepStrictEqual([before, finished], [1, 2])
        const results = yield* Stream.runCollect(journal.results)
        assert.deepStrictEqual(results.map(({ id }) => id).toSorted(), ["r0", "r1", "r2"])
      })
    )
  )

  it.effect("a file of somebody else is refused and left as it is; what a crash left of a first line is not", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const path = join(directory, "results.jsonl")
        for (const text of [`{"id":"a","prompt":"x"}\n{"id":"b"`, "# Notes, without an end", "\n\nx\n"]) {
          writeFileSync(path, text)
          const { message } = yield* Effect.flip(RowJournal.open({ directory }))
          assert.strictEqual(
            message,
            `${path} is there and has no results: it is left as it is; name another file or directory`
          )
          assert.strictEqual(readFileSync(path, "utf8"), text)
        }
        for (const text of ["", "\n", `{"row_`, `{"row_id":"r0","row`, `{"row_id":"r0","row_digest":\n`]) {
          writeFileSync(path, text)
          assert.strictEqual((yield* RowJournal.open({ directory })).entries.size, 0)
        }
      })
    )
  )

  it.effect("a full disk ends the run with a remedy, leaves whole lines, and the next run does the rest", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const fs = yield* FileSystem.FileSystem
        let left = 2
        const full: FileSystem.FileSystem = {
          ...fs,
          open: (path, options) =>
            Effect.map(fs.open(path, options), (file) => ({
              ...file,
              [FileSystem.FileTypeId]: FileSystem.FileTypeId,
              stat: file.stat,
              sync: file.sync,
              writeAll: (bytes: Uint8Array) =>
                !path.endsWith("results.jsonl") || left-- > 0
                  ? file.writeAll(bytes)
                  : Effect.andThen(
                      file.writeAll(bytes.slice(0, 7)),
                      Effect.fail(
                        systemError({
                          _tag: "Unknown",
                          module: "FileSystem",
                          method: "write",
                          pathOrDescriptor: path,
                          cause: Object.assign(new Error("write"), { code: "ENOSPC" })
                        })
                      )
                    )
            }))
        }
        const broken = yield* Effect.flip(
          Effect.provideService(
            Effect.flatMap(RowJournal.open({ directory }), (journal) =>
              RowPool.run({ rows: rows(5), journal, run: done, concurrency: 1 })
            ),
            FileSystem.FileSystem,
            full
          )
        )
        assert.match(
          broken.message,
          /results\.jsonl cannot be written: no space left on the device; finished rows are safe: free some space, then resume/
        )
        assert.deepStrictEqual(idsIn(directory), ["r0", "r1"])
        const { before, finished } = yield* RowPool.run({
          rows: rows(5),
          journal: yield* RowJournal.open({ directory }),
          run: done
        })
        assert.deepStrictEqual([before, finished], [2, 3])
      })
    )
  )

  it.effect(
    "cost, tokens and time of a run: rows in flight end where the limit is, go on in the next run, and the others are not begun",
    () =>
      test(
        Effect.gen(function* () {
          const told = { costUsd: 0.02, tokens: 10 }
          for (const [limits, reason] of [
            [{ costUsd: 0.05 }, "the limit of $0.05 is reached"],
            [{ tokens: 30 }, "the limit of 30 tokens is reached"],
            [{ duration: Duration.seconds(5) }, "the limit of 5 s is reached"]
          ] as const) {
            const directory = yield* temporaryDirectory
            const started = yield* Deferred.make<void>()
            const running = yield* Effect.forkChild(
              RowPool.run({
                rows: rows(6),
                journal: yield* RowJournal.open({ directory }),
                concurrency: 2,
                limits,
                // r0 is done and says what it told; r1 waits; r2 tells twice.
                run: ({ id }, _, tell) => {
                  if (id === "r0") return Effect.as(tell(told), RowPool.makeFinishedResult({ answer: 1 }, told))
                  if (id === "r1") return Effect.never
                  return Effect.andThen(
                    Effect.andThen(tell(told), tell(told)),
                    Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
                  )
                }
              })
            )
            yield* Deferred.await(started).pipe(Effect.raceFirst(Fiber.await(running)))
            if ("duration" in limits) yield* TestClock.adjust("5 seconds")
            const { costUsd, finished, running: inFlight, stopped, tokens } = yield* Fiber.join(running)
            assert.deepStrictEqual([finished, tokens, inFlight, stopped], [1, 30, 0, reason])
            assert.closeTo(costUsd ?? 0, 0.06, 1e-9)
            const seen: Array<string> = []
            yield* RowPool.run({
              rows: rows(6),
              journal: yield* RowJournal.open({ directory }),
              concurrency: 1,
              run: ({ id }, { goesOn, number }) =>
                Effect.andThen(
                  Effect.sync(() => seen.push(`${id} ${number} ${goesOn}`)),
                  done()
                )
            })
            assert.deepStrictEqual(seen, ["r1 1 true", "r2 1 true", "r3 1 false", "r4 1 false", "r5 1 false"])
          }
          const none = yield* RowPool.run({
            rows: rows(2),
            journal: yield* RowJournal.open({ directory: yield* temporaryDirectory }),
            run: done,
            limits: { costUsd: 0 }
          })
          assert.deepStrictEqual([none.finished, none.stopped], [0, "the limit of $0 is reached"])
        })
      )
  )

  it.effect("a failed attempt counts with what it used, before it is tried again", () =>
    test(
      Effect.gen(function* () {
        const attempts: Array<number> = []
        const { failed, stopped, tokens } = yield* RowPool.run({
          rows: rows(1),
          journal: yield* RowJournal.open({ directory: yield* temporaryDirectory }),
          limits: { tokens: 10 },
          retryDelay: 0,
          run: (_, { number }, tell) => {
            attempts.push(number)
            return Effect.andThen(tell({ tokens: 6 }), Effect.fail("no answer"))
          }
        })
        assert.deepStrictEqual(
          [attempts, failed, tokens, stopped],
          [[1, 2], 0, 12, "the limit of 10 tokens is reached"]
        )
      })
    )
  )

  it.effect("limits: the time of a row, a reason to stop, rows of one key in turn", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const late = yield* Effect.forkChild(
          RowPool.run({
            rows: rows(1),
            journal: yield* RowJournal.open({ directory }),
            run: () => Effect.never,
            timeout: "5 seconds",
            onFailure: () => "fail"
          })
        )
        const end = yield* Effect.raceFirst(
          Fiber.join(late),
          Effect.forever(Effect.andThen(TestClock.adjust("1 second"), TestClock.withLive(Effect.sleep(5))))
        )
        assert.deepStrictEqual(
          end.failures.map(({ message }) => message),
          ["the row took longer than its limit of 5 s"]
        )
        const journal = yield* RowJournal.open({ directory })
        const stopped = yield* RowPool.run({
          rows: rows(9),
          journal,
          run: done,
          concurrency: 1,
          stopWhen: ({ finished }) => (finished >= 4 ? "enough" : undefined)
        })
        assert.deepStrictEqual([stopped.finished, stopped.stopped], [4, "enough"])
        const fatal = yield* RowPool.run({
          rows: rows(9),
          journal,
          run: () => Effect.fail("bad key"),
          concurrency: 1,
          onFailure: () => "stop"
        })
        assert.deepStrictEqual([fatal.failed, fatal.stopped], [1, "bad key"])
        const busy = new Set<string>()
        yield* RowPool.run({
          rows: rows(9),
          journal,
          concurrency: 3,
          sequentialBy: ({ id }) => Number(id.slice(1)) % 2,
          run: ({ id }) =>
            Effect.gen(function* () {
              const key = String(Number(id.slice(1)) % 2)
              assert.isFalse(busy.has(key))
              busy.add(key)
              yield* Effect.yieldNow
              busy.delete(key)
              return RowPool.makeDiscardedResult("nothing in it")
            })
        })
        assert.strictEqual(
          Array.from(journal.entries.values()).filter(({ discarded }) => discarded === "nothing in it").length,
          5
        )
      })
    )
  )

  it.effect("progress tells rate, estimate and cost", () =>
    test(
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const seen: Array<RowPool.Progress> = []
        yield* RowPool.run({
          rows: rows(4),
          journal: yield* RowJournal.open({ directory }),
          concurrency: 1,
          run: () => Effect.as(TestClock.adjust("30 seconds"), RowPool.makeFinishedResult({}, { costUsd: 1 })),
          onProgress: (progress) => Effect.sync(() => seen.push(progress))
        })
        const half = seen.find(({ finished, running }) => finished === 2 && running === 0)
        assert.deepInclude(half, {
          total: 4,
          millis: 60_000,
          ratePerMinute: 2,
          remainingMillis: 60_000,
          costUsd: 2,
          expectedCostUsd: 4
        })
      })
    )
  )
})
