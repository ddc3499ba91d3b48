// One action on a session whose runs wait (`suspendedWorld.ts`), in a process of its own. Its effects are lines of a file
// and of the output, and its end is the last line.
// Arguments: kind of the store, its place, file of traces, the action as JSON.
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { appendFileSync, writeSync } from "node:fs"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { type Action, perform } from "./suspendedWorld.ts"

const [kind = "", place = "", traces = "", action = ""] = process.argv.slice(2)

const trace = (line: string) =>
  Effect.andThen(
    Effect.sync(() => {
      appendFileSync(traces, `${line}\n`)
      writeSync(1, `${line}\n`)
    }),
    Effect.sleep(3)
  )

const store =
  kind === "sqlite"
    ? SessionStore.layerSqlite({ path: place })
    : SessionStore.layerPostgres({ url: Redacted.make(place), connections: 2 })

writeSync(1, "ready\n")
// The test writes the action.
const given = JSON.parse(action) as Action
writeSync(1, `end ${await Effect.runPromise(perform(store, trace, given))}\n`)
process.exit(0)
