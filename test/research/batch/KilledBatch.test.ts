// A batch run that is killed (-9) at random and gone on with: each row once, and no side effect twice, counted outside
// of the program. `HERMES_TEST_ROWS` and `HERMES_TEST_KILLS` say how many (`npm run test:batch`: 2,000 and 10).
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { hermes, machine } from "../../support/hermes.ts"

const count = Number(process.env["HERMES_TEST_ROWS"] ?? 40)
const kills = Number(process.env["HERMES_TEST_KILLS"] ?? 2)
const seed = Number(process.env["HERMES_TEST_SEED"] ?? Date.now() % 100_000)

/** Numbers from 0 to 1, the same for the same seed. */
const random = (start: number) => {
  let state = start >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 0x1_0000_0000
  }
}

const lines = (path: string): ReadonlyArray<string> =>
  existsSync(path)
    ? readFileSync(path, "utf8")
        .split("\n")
        .filter((line) => line !== "")
    : []

interface Line {
  readonly row_id: string
  readonly discarded?: string
  readonly completed: boolean
  readonly conversations: ReadonlyArray<{ readonly from: string; readonly value: string }>
}

const pause = (millis: number) => Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, millis)))

describe("batch run", () => {
  it.live(
    `${count} rows, killed ${kills} times: each row once, no side effect twice`,
    () =>
      Effect.gen(function* () {
        const { cwd, home } = yield* machine
        const next = random(seed)
        const effects = join(cwd, "effects.txt")
        const ids = Array.from({ length: count }, (_, index) => `row${index}`)
        writeFileSync(
          join(cwd, "data.jsonl"),
          ids
            .map((id) => `${JSON.stringify({ id, prompt: `Run the command \`echo ${id} >> ${effects}\`` })}\n`)
            .join("")
        )
        const directory = join(cwd, "data", "killed")
        const files = () =>
          existsSync(directory) ? readdirSync(directory).filter((name) => /^batch_\d+\.jsonl$/.test(name)) : []
        const written = () => files().flatMap((name) => lines(join(directory, name)))
        const args = [
          "batch",
          "run",
          "--dataset_file=data.jsonl",
          "--batch_size=5",
          "--run_name=killed",
          "--distribution=terminal_only",
          "--keep-without-reasoning",
          "--resume"
        ]

        for (let kill = 1; kill <= kills; kill++) {
          const until = Math.floor(((kill - next()) * count) / (kills + 1))
          const ended = yield* Effect.raceFirst(
            hermes(args, {
              home,
              cwd,
              onStart: (child) =>
                void Effect.runPromise(
                  Effect.gen(function* () {
                    while (
                      child.exitCode === null &&
                      (written().length <= until || !existsSync(join(directory, "run.json")))
                    )
                      yield* pause(20)
                    yield* pause(next() * 40)
                    child.kill("SIGKILL")
                  })
                )
            }),
            Effect.as(pause(600_000), undefined)
          )
          assert.strictEqual(ended?.signal, "SIGKILL", `seed ${seed}: ${ended?.stderr ?? ""}`)
        }

        const last = yield* hermes(args, { home, cwd })
        assert.deepStrictEqual([last.code, last.signal], [0, null], `seed ${seed}: ${last.stderr}`)
        const rows = written().map((line): Line => JSON.parse(line))
        assert.deepStrictEqual(rows.map(({ row_id }) => row_id).toSorted(), ids.toSorted(), `seed ${seed}`)
        assert.deepStrictEqual(
          rows.filter(({ completed }) => !completed),
          []
        )
        // A call that may have happened is not made again, so its command ran once or, where it was cut off before,
        // never.
        const made = lines(effects)
        assert.strictEqual(
          new Set(made).size,
          made.length,
          `seed ${seed}: ${made.filter((line, index) => made.indexOf(line) !== index).join()}`
        )
        const untold = rows.filter(
          ({ conversations, row_id }) =>
            !made.includes(row_id) && !conversations.some(({ value }) => /may have happened|[Cc]ancelled/.test(value))
        )
        assert.deepStrictEqual(
          untold.map(({ row_id }) => row_id),
          [],
          `seed ${seed}`
        )
        assert.isAtLeast(made.length, count - kills * 4)
        const merged = lines(join(directory, "trajectories.jsonl")).map((line): Line => JSON.parse(line))
        assert.deepStrictEqual(merged.map(({ row_id }) => row_id).toSorted(), ids.toSorted())
      }).pipe(Effect.scoped),
    1_200_000
  )
})
