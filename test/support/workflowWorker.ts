// A process that executes the workflow of `workflowSamples.ts` until it is killed, or until the given executions are
// over. Arguments: sqlite or postgres, path or address, file of traces, executions to start and wait for.
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { writeSync } from "node:fs"
import { WorkflowRuns } from "../../src/kit/entry/workflow.ts"
import { makeOrder } from "./workflowSamples.ts"

const [kind = "", place = "", traces = "", ...ids] = process.argv.slice(2)

const order = makeOrder(traces)
const layer =
  kind === "sqlite"
    ? WorkflowRuns.layerSqlite({ path: place, workflows: [order] })
    : WorkflowRuns.layerPostgres({ url: Redacted.make(place), workflows: [order] })

const program = Effect.gen(function* () {
  for (const id of ids) yield* WorkflowRuns.start(order, { id, input: { name: id, count: 3 } })
  writeSync(1, "ready\n")
  if (ids.length === 0) return yield* Effect.never
  for (const id of ids) writeSync(1, `${yield* WorkflowRuns.wait(order, id)}\n`)
})

await Effect.runPromise(Effect.provide(program, layer))
process.exit(0)
