// A process that takes a lease again and again, as every part of the program does, and writes down when it had it. Each
// look at the table is followed by a pause, in which any other process could slip in.
// Arguments: database, lease, journal, rounds, milliseconds of the pause, "die" to end by kill -9 while holding the
// lease.
import * as Effect from "effect/Effect"
import { appendFileSync } from "node:fs"
import * as Leases from "../../src/base/platform/Leases.ts"
import { slowLeases } from "./slowLeases.ts"

const [path = "", name = "", journal = "", rounds = "1", pause = "0", ending = ""] = process.argv.slice(2)
slowLeases(Number(pause))

const note = (what: string) => Effect.sync(() => appendFileSync(journal, `${process.pid} ${what}\n`))

const program = Effect.gen(function* () {
  const leases = yield* Leases.Leases
  for (let round = 0; round < Number(rounds); round++) {
    yield* leases.during(name, () =>
      Effect.gen(function* () {
        yield* note("in")
        if (ending === "die") process.kill(process.pid, "SIGKILL")
        yield* Effect.sleep(40)
        yield* note("out")
      })
    )
  }
})

await Effect.runPromise(Effect.provide(program, Leases.layer(path)))
