// Cost of the snapshots around a command, on a tree of 5,000 files: the first, one in which nothing changed, one with a
// changed file, and a program that finds the states of the last one.
import * as NodePath from "@effect/platform-node/NodePath"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CommandEnvironment, layerLocal } from "../../src/places/CommandEnvironment.ts"
import * as TreeSnapshot from "../../src/places/TreeSnapshot.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"

const files = Number(process.argv[2] ?? 5_000)
const home = mkdtempSync(join(tmpdir(), "hermes-bench-"))
const tree = join(home, "tree")
for (let index = 0; index < files; index++) {
  const directory = join(tree, `d${index % 100}`, `e${index % 7}`)
  mkdirSync(directory, { recursive: true })
  writeFileSync(join(directory, `f${index}.ts`), `export const value${index} = "${"x".repeat(index % 4_000)}"\n`)
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const before = performance.now()
    yield* effect
    return performance.now() - before
  })

const median = (values: ReadonlyArray<number>): string =>
  `${(values.toSorted((one, other) => one - other)[values.length >> 1] ?? 0).toFixed(0)} ms`

const measure = Effect.gen(function* () {
  const environment = yield* CommandEnvironment
  const options: TreeSnapshot.Options = { directory: join(home, "states"), apart: [], home, isHidden: () => false }
  const rounds = Array.from({ length: 11 }, (_, index) => index)
  yield* Effect.scoped(
    Effect.gen(function* () {
      const { take } = yield* TreeSnapshot.make(environment, options)
      print(`${files} files: first snapshot        ${median([yield* timed(take(tree))])}`)
      print(
        `command that changes nothing       ${median(yield* Effect.forEach(rounds, () => timed(Effect.flatMap(take(tree), ({ since }) => since))))}`
      )
      print(
        `command that changes one file      ${median(
          yield* Effect.forEach(rounds, (round) =>
            timed(
              Effect.flatMap(take(tree), ({ since }) => {
                writeFileSync(join(tree, "changed"), String(round))
                return since
              })
            )
          )
        )}`
      )
    })
  )
  yield* Effect.scoped(
    Effect.gen(function* () {
      const { take } = yield* TreeSnapshot.make(environment, options)
      print(`first snapshot of the next program ${median([yield* timed(take(tree))])}`)
    })
  )
  const bytes = readdirSync(options.directory, { recursive: true }).reduce(
    (sum, name) => sum + statSync(join(options.directory, String(name))).size,
    0
  )
  print(`states on disk                     ${(bytes / 1024 / 1024).toFixed(1)} MiB`)
})

await Effect.runPromise(
  measure.pipe(Effect.provide(Layer.mergeAll(layerLocal, NodePath.layer).pipe(Layer.provide(ChildProcesses.layer))))
)
rmSync(home, { recursive: true, force: true })
