// A process that does durable runs: `runner` is one of several over Postgres, until SIGTERM drains it; `sqlite` submits
// rows to itself and ends when they are over; `cron` runs scheduled jobs of the database. Its model answers by the last
// prompt of the conversation and what came after it, after a pause; its tools leave traces in a file, and are slow in
// rows of five digits: in the second one of each three, a call never ends. Arguments: kind, address or directory, runs
// at a time, file of traces, pause of the model in ms, rows (sqlite) or folder of workspaces (rows).
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { appendFileSync, writeSync } from "node:fs"
import { Agent, RunRecord, Runtime, SessionStore, Toolset } from "../../src/index.ts"
import { Cluster } from "../../src/kit/entry/cluster.ts"
import type { AgentRuntime } from "../../src/program/cli/ClusterAgents.ts"
import * as ClusterBatch from "../../src/program/cli/ClusterBatch.ts"
import * as ClusterRows from "../../src/program/cli/ClusterRows.ts"
import { Environment, Home } from "../../src/base/config/Environment.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as ClusterDatabase from "../../src/serve/cluster/ClusterDatabase.ts"
import * as ClusterJobs from "../../src/serve/cluster/ClusterJobs.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import { CronJobs } from "../../src/tools/cron/CronJobs.ts"
import * as Fake from "./fakeModel.ts"

const [kind = "", place = "", concurrency = "4", traces = "", pause = "5", rows = "0"] = process.argv.slice(2)

const trace = (line: string) => Effect.sync(() => appendFileSync(traces, `${line}\n`))
const say = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const tool = (name: string) =>
  Tool.make(name, { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(
  tool("note").annotate(Annotations.PathArguments, ["path"]),
  tool("step"),
  tool("again").annotate(Tool.Idempotent, true)
)
/** True for the call in which a test kills the process: it has to be there as long as that takes. */
const isCut = (path: string): boolean => {
  const row = /-(\d{5})-c$/.exec(path)?.[1]
  return row !== undefined && (Number(row) - 10_000) % 3 === 1
}
const leave = ({ path }: { readonly path: string }) =>
  trace(`begin ${path}`).pipe(
    Effect.andThen(isCut(path) ? Effect.never : Effect.sleep(/-\d{5}-/.test(path) ? 1_500 : Number(pause) / 2)),
    Effect.andThen(trace(`end ${path}`)),
    Effect.as(`did ${path}`)
  )

const fake = Fake.make()
const provider = Layer.succeed(Provider, {
  ...fake.provider,
  prepare: ({ messages, stream }) =>
    Effect.sync(() => {
      const asked = messages.findLastIndex(({ role }) => role === "user")
      const row = /row \d+/.exec(JSON.stringify(messages[asked]?.content ?? ""))?.[0]?.replace(" ", "-") ?? "?"
      return {
        model: "fake-1",
        messages: [],
        stream,
        row,
        results: messages.slice(asked).filter(({ role }) => role === "tool").length
      }
    }),
  execute: ({ results, row }) =>
    Effect.gen(function* () {
      yield* trace(`ask ${row} ${results}`)
      yield* Effect.sleep(Number(pause))
      const call = (id: string, name: string) => Fake.call(`${row}-${id}`, name, { path: `${row}-${id}` })
      if (results === 0) return Fake.callsAnswer(call("a", "note"), call("b", "note"))
      if (results === 2) return Fake.callsAnswer(call("c", "step"), call("d", "again"))
      return Fake.textAnswer(`done ${row}`)
    })
})

const store =
  kind === "sqlite"
    ? SessionStore.layerSqlite({ path: `${place}/state.db` })
    : SessionStore.layerPostgres({ url: Redacted.make(place), connections: 8 })
const agent = Runtime.layer({
  provider,
  store,
  tools: [Toolset.make("terminal", toolkit, toolkit.toLayer({ note: leave, step: leave, again: leave }))]
}).pipe(Layer.provideMerge(store))

const options = { concurrency: Number(concurrency) }

const alone = Effect.gen(function* () {
  const ids = Array.from({ length: Number(rows) }, (_, row) => `row-${row}`)
  yield* say("ready")
  for (const id of ids)
    yield* Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: id.replace("-", " "), batch: "test" }))
  yield* Cluster.waitForOutcomes(ids, (some) => say(`over ${some.size}`))
}).pipe(Effect.provide(Cluster.layerSqlite({ path: `${place}/cluster.db`, ...options }).pipe(Layer.provide(agent))))

const asked = Effect.callback<void>((resume) => {
  process.once("SIGTERM", () => resume(Effect.void))
})

const runner = Effect.gen(function* () {
  const { close, drained } = yield* Cluster.Runner
  yield* say("ready")
  yield* Effect.raceFirst(asked, drained)
  yield* close
  const { system, user } = process.cpuUsage()
  yield* say(`cpu ${Math.round((system + user) / 1000)}`)
}).pipe(Effect.provide(Cluster.layerRunner({ url: Redacted.make(place), ...options }).pipe(Layer.provide(agent))))

/** Takes each job that is due, and says when it has run. */
const cron = Effect.gen(function* () {
  const { claim, due, settle } = yield* CronJobs
  yield* say("ready")
  const one = Effect.fnUntraced(function* (id: string) {
    const claimed = yield* claim(id)
    if (claimed === undefined) return
    yield* trace(`begin ${claimed.job.name} ${process.pid}`)
    yield* Effect.sleep(Number(pause))
    yield* trace(`end ${claimed.job.name} ${process.pid}`)
    yield* settle(claimed, { status: "ok" })
  })
  return yield* Effect.forever(
    Effect.andThen(
      Effect.flatMap(due, (jobs) => Effect.forEach(jobs, ({ id }) => one(id), { concurrency: "unbounded" })),
      Effect.sleep("20 millis")
    )
  )
}).pipe(Effect.provide(ClusterJobs.layer), Effect.provide(ClusterDatabase.layer(Redacted.make(place), 4)))

/** A runner of the rows of batches. The agent of the submission is this one, whatever its content is. */
const rowRunner = Effect.gen(function* () {
  const services = yield* Layer.build(agent)
  const around = yield* Effect.context<ClusterRows.RunnerServices>()
  // The handler reads the disabled toolsets alone.
  const opened = { services, settings: { disabledToolsets: [] }, agentFile: undefined } as unknown as AgentRuntime
  const handlers = {
    [ClusterBatch.kind]: ClusterRows.makeHandler(ClusterBatch.rowKind, () => Effect.succeed(opened), around, rows)
  }
  yield* Layer.build(
    Cluster.layerRunner({ url: Redacted.make(place), ...options, handlers }).pipe(
      Layer.provide(
        Layer.succeedContext(Context.pick(Agent.Agent, SessionStore.SessionStore, RunRecord.RunRecord)(services))
      )
    )
  )
  yield* say("ready")
  yield* asked
}).pipe(
  Effect.scoped,
  Effect.provide([Environment.layerIn({}), Home.layerAt(rows)]),
  Effect.provide(NodeServices.layer)
)

const programs = { cron, rows: rowRunner, runner, sqlite: alone }
// Other kinds are errors of the test.
await Effect.runPromise(Effect.asVoid<void, unknown, never>(programs[kind as keyof typeof programs]))
process.exit(0)
