// Cases 79 and 80 of `contract/cases-hermes-product.md`, and the limits of a compression.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Duration from "effect/Duration"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Turn } from "../../../src/research/batch/ShareGpt.ts"
import * as CompressFiles from "../../../src/research/compress/CompressFiles.ts"
import * as TrajectoryCompressor from "../../../src/research/compress/TrajectoryCompressor.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const options: TrajectoryCompressor.Options = { targetTokens: 1000, summaryTokens: 50, protectLast: 4, attempts: 3 }

/** A trajectory of so many calls, each turn of about so many tokens. */
const trajectory = (calls: number, tokens = 50): ReadonlyArray<Turn> => [
  { from: "system", value: "tools" },
  { from: "human", value: "the task" },
  ...Array.from({ length: calls }, (_, index): ReadonlyArray<Turn> => [
    { from: "gpt", value: `call ${index} ${"g".repeat(tokens * 4)}` },
    { from: "tool", value: `result ${index} ${"t".repeat(tokens * 4)}` }
  ]).flat(),
  { from: "gpt", value: "done" }
]

const summarise: TrajectoryCompressor.Summariser<never, never> = () =>
  Effect.succeed({ text: "It read some files.", isCut: false })

describe("TrajectoryCompressor", () => {
  it.effect("79: a trajectory under the target is unchanged", () =>
    Effect.gen(function* () {
      const turns = trajectory(2)
      const { metrics, turns: after } = yield* TrajectoryCompressor.compress(turns, options, () => Effect.die("asked"))
      assert.deepStrictEqual(after, turns)
      assert.deepInclude(metrics, { was_compressed: false, skipped_under_target: true, tokens_saved: 0 })
    })
  )

  it.effect(
    "80: the protected turns are unchanged, no result is without its call, and no more is replaced than is needed",
    () =>
      Effect.gen(function* () {
        for (let calls = 3; calls < 60; calls++) {
          for (const protectLast of [0, 1, 3, 4, 5]) {
            const turns = trajectory(calls)
            const { metrics, turns: after } = yield* TrajectoryCompressor.compress(
              turns,
              { ...options, protectLast },
              summarise
            )
            if (metrics.skipped_under_target) continue
            const at = after.findIndex(({ value }) => value.startsWith(TrajectoryCompressor.label))
            assert.strictEqual(after[at]?.from, "human")
            assert.isTrue(after[0]?.value.startsWith("tools\n\nSome of the earlier turns"))
            assert.deepStrictEqual(after.slice(1, 4), turns.slice(1, 4))
            if (protectLast > 0) assert.deepStrictEqual(after.slice(-protectLast), turns.slice(-protectLast))
            after.forEach((turn, index) => {
              if (turn.from !== "tool") return
              assert.strictEqual(
                after[index - 1]?.value.split(" ")[1],
                turn.value.split(" ")[1],
                `${calls} calls, ${protectLast} protected`
              )
            })
            const region = metrics.compressed_region
            assert.isNotNull(region)
            // One exchange less would not have been enough.
            const left =
              TrajectoryCompressor.estimateTokens(turns) -
              TrajectoryCompressor.estimateTokens(turns.slice(region?.start, (region?.end ?? 0) - 2)) +
              options.summaryTokens
            if (!metrics.still_over_limit) assert.isAbove(left, options.targetTokens)
          }
        }
      })
  )

  it.effect("a summary that is cut by its length, empty or failing is tried again, then a placeholder", () =>
    Effect.gen(function* () {
      let asked = 0
      const answers: ReadonlyArray<TrajectoryCompressor.Summary> = [
        { text: "half", isCut: true },
        { text: " ", isCut: false }
      ]
      const never = () => Effect.suspend(() => Effect.fromNullishOr(answers[asked++]))
      const fiber = yield* Effect.forkChild(TrajectoryCompressor.compress(trajectory(30), options, never), {
        startImmediately: true
      })
      yield* TestClock.adjust("1 minute")
      const { metrics, problem, turns } = yield* Fiber.join(fiber)
      assert.isString(problem)
      assert.deepInclude(metrics, { summary_calls: 3, summary_errors: 3, is_placeholder: true })
      assert.match(
        turns.find(({ value }) => value.startsWith("[CONTEXT"))?.value ?? "",
        /no summary of them could be made/
      )
    })
  )

  it.effect("a summary is tried again after 2 seconds, and after twice as long each further time", () =>
    Effect.gen(function* () {
      const times: Array<number> = []
      const fail = () =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          times.push(now)
          return Effect.fail(new Error("no answer"))
        })
      const fiber = yield* Effect.forkChild(
        TrajectoryCompressor.compress(trajectory(30), { ...options, attempts: 4 }, fail),
        { startImmediately: true }
      )
      yield* TestClock.adjust("1 minute")
      const { problem } = yield* Fiber.join(fiber)
      assert.strictEqual(problem, "no answer")
      assert.deepStrictEqual(times, [0, 2000, 6000, 14_000])
    })
  )

  it.effect("files: rows keep their order and fields, slow ones are dropped, lines that cannot be read are told", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const input = join(directory, "rows.jsonl")
      const row = (id: string, calls: number) =>
        JSON.stringify({ row_id: id, conversations: trajectory(calls), kept: 1 })
      writeFileSync(input, `${row("small", 1)}\n{broken\n${row("slow", 40)}\n${row("big", 30)}\n`)
      const problems: Array<string> = []
      const base = {
        ...options,
        input,
        output: undefined,
        concurrency: 2,
        timeout: Duration.seconds(300),
        samplePercent: undefined,
        seed: 42,
        onProgress: () => Effect.void,
        onProblem: (text: string) => Effect.sync(() => problems.push(text))
      }
      const dry = yield* CompressFiles.run<never, never>({ ...base, summarise: undefined })
      assert.deepInclude(dry.sums, { rows: 3, compressed: 2, unchanged: 1, unreadable: 1 })
      assert.isFalse(existsSync(join(directory, "rows-compressed.jsonl")))
      // The clock goes on when the slow one is the only one under way: another one would miss its time with it.
      const begun = new Set<string>()
      const fiber = yield* Effect.forkChild(
        CompressFiles.run<never, never>({
          ...base,
          summarise: (text, tokens) =>
            Effect.suspend(() => {
              const isSlow = text.length > 11_000
              begun.add(isSlow ? "slow" : "big")
              return isSlow ? Effect.never : summarise(text, tokens)
            })
        })
      )
      const end = yield* Effect.raceFirst(
        Fiber.join(fiber),
        Effect.forever(
          Effect.andThen(
            Effect.suspend(() => (begun.size === 2 ? TestClock.adjust("100 seconds") : Effect.void)),
            TestClock.withLive(Effect.sleep(5))
          )
        )
      )
      assert.deepInclude(end.sums, { rows: 3, compressed: 1, unchanged: 1, dropped: 1 })
      const written = readFileSync(join(directory, "rows-compressed.jsonl"), "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line))
      assert.deepStrictEqual(
        written.map(({ kept, row_id }) => [row_id, kept]),
        [
          ["small", 1],
          ["big", 1]
        ]
      )
      assert.isTrue(
        problems.some((text) => /line 2: no conversations/.test(text)) &&
          problems.some((text) => /line 3: took longer than 5m; dropped/.test(text)),
        problems.join("\n")
      )
      assert.deepInclude(JSON.parse(readFileSync(join(directory, "compression_metrics.json"), "utf8")), {
        trajectories: 3,
        dropped_by_timeout: 1
      })
      // The merged file of a batch run has what its parts have.
      const run = join(directory, "run")
      mkdirSync(run)
      for (const name of ["run.json", "attempts.jsonl"]) writeFileSync(join(run, name), "{}\n")
      for (const name of ["batch_0.jsonl", "trajectories.jsonl"]) writeFileSync(join(run, name), `${row("small", 1)}\n`)
      assert.deepInclude((yield* CompressFiles.run<never, never>({ ...base, input: run, summarise: undefined })).sums, {
        rows: 1,
        unreadable: 0
      })
      const same = yield* Effect.flip(CompressFiles.run<never, never>({ ...base, output: input, summarise: undefined }))
      assert.match(same.message, /is the input: name another file/)
      const half = () => CompressFiles.run<never, never>({ ...base, samplePercent: 50, summarise: undefined })
      assert.strictEqual((yield* half()).sums.rows, (yield* half()).sums.rows)
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
