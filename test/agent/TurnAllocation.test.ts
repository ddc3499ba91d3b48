// Bytes that a turn allocates, which hardly depend on the machine: runs of the benchmark against its model server, each
// in a process whose young generation holds all of it. The bounds are what was measured and a seventh, as a slow
// machine optimises later; who lowers the cost lowers them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ChildProcess, fork } from "node:child_process"
import { join } from "node:path"
import { root } from "../support/sources.ts"
import { workloads } from "../bench/workloads.ts"

const message = <A>(child: ChildProcess): Effect.Effect<A> =>
  Effect.promise(
    () =>
      new Promise<A>((done, failed) => {
        child.once("exit", (code) => failed(new Error(`a process of the benchmark ended with ${code}`)))
        // Both ends are of the benchmark.
        child.once("message", (value) => done(value as A))
      })
  )

const started = (file: string, args: ReadonlyArray<string>, execArgv: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => fork(join(root, "test/bench", file), args, { execArgv: [...execArgv] })),
    (child) =>
      Effect.promise(
        () =>
          new Promise<void>((gone) => {
            if (child.exitCode !== null) return gone()
            child.once("exit", () => gone())
            child.kill("SIGTERM")
          })
      )
  )

const workload = workloads.find(({ name }) => name === "allocated")

const allocated = Effect.fnUntraced(function* (url: string, runner: string) {
  assert(workload?.fresh !== undefined)
  const child = yield* started("worker.ts", [runner, url, root], workload.fresh)
  yield* message(child)
  const answer = message<{ readonly value?: number; readonly error?: string }>(child)
  child.send({ workload: workload.name, millis: 0 })
  const { error, value } = yield* answer
  assert.isUndefined(error)
  assert(value !== undefined)
  return value
}, Effect.scoped)

describe("a turn of one tool call over HTTP", () => {
  for (const [runner, most] of [
    ["hermes-effect", 156_000],
    ["SQLite", 222_000],
    ["ten listeners", 210_000]
  ] as const) {
    it.live(`allocates at most ${most / 1000} kB (${runner})`, () =>
      Effect.gen(function* () {
        const server = yield* started("server.ts", [], [])
        const { port } = yield* message<{ readonly port: number }>(server)
        assert.isAtMost(yield* allocated(`http://127.0.0.1:${port}/v1`, runner), most)
      }).pipe(Effect.scoped)
    )
  }
})
