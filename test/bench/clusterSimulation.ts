// `npm run simulate:cluster`: sessions on many machines by a simulated clock, with the costs that `bench:cluster`
// measures: what they reach in an hour, which part is used up first, the statements and connections of the database, and
// the bytes that it stores. Arguments: sessions, machines, cores of the database, model calls a minute that the provider
// takes (0: any number), runs at a time of a runner, connections that the database takes.
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Semaphore from "effect/Semaphore"
import * as TestClock from "effect/testing/TestClock"

const [
  sessions = 10_000,
  machines = 100,
  databaseCores = 16,
  callsPerMinute = 0,
  concurrency = 32,
  maxConnections = 2_000
] = process.argv.slice(2).map(Number)

/** A session makes ten model calls of four seconds, each with tool calls of half a second; costs of a step in ms. */
const steps = 10
const modelMillis = 4_000
const toolMillis = 500
const runnerCpu = 14
const databaseCpu = 9
/** Statements of a session beside its steps, and of a step: the answer with its calls, and their results. */
const sessionStatements = 16
const stepStatements = 2
/** A way to the database and back, over a network of a data centre. */
const roundTrip = 0.5
/** Statements of a runner's timers in a second, and the time of one on the database in ms. */
const pollsPerSecond = 2.2
const pollCpu = 0.6
/** Bytes that a session and a step add to tables with their indexes, and to the log of changes. */
const stored = { session: 7_000, step: 2_800 }
const logged = { session: 9_000, step: 6_500 }
/** Of one machine. */
const cores = 2
/** Connections of a runner: without work, and at most. */
const idleConnections = 6
const connections = 18

/** A part of the cluster that does some work at a time. */
const makePart = (name: string, units: number) => {
  const permits = Semaphore.makeUnsafe(units)
  const part = {
    name,
    units,
    /** Milliseconds of work done. */
    busy: 0,
    use: (millis: number) =>
      permits.withPermit(
        Effect.andThen(
          Effect.sync(() => void (part.busy += millis)),
          Effect.sleep(millis)
        )
      )
  }
  return part
}

const simulation = Effect.gen(function* () {
  const database = makePart(`${databaseCores} processors of the database`, databaseCores)
  const provider = makePart("the rate of the provider", 1)
  const runners = Array.from({ length: machines }, () => ({
    cpu: makePart(`${cores} processors of a runner`, cores),
    slots: Semaphore.makeUnsafe(concurrency),
    millis: 0
  }))
  const session = (index: number) => {
    // Shards are chosen by a hash, so that some runners get more than others.
    const runner = runners[(Math.imul(index + 1, 2_654_435_761) >>> 8) % machines]
    if (runner === undefined) return Effect.void
    const step = Effect.gen(function* () {
      yield* runner.cpu.use(runnerCpu)
      yield* database.use(databaseCpu)
      if (callsPerMinute > 0) yield* provider.use(60_000 / callsPerMinute)
      yield* Effect.sleep(stepStatements * roundTrip + modelMillis + toolMillis)
    })
    return runner.slots.withPermit(
      Effect.gen(function* () {
        const began = yield* Clock.currentTimeMillis
        yield* Effect.sleep(sessionStatements * roundTrip)
        yield* Effect.repeat(step, { times: steps - 1 })
        runner.millis += (yield* Clock.currentTimeMillis) - began
      })
    )
  }
  // The timers of all runners use the database too.
  const polls = Effect.forever(
    Effect.andThen(Effect.sleep("1 second"), database.use((machines * pollsPerSecond * pollCpu) / databaseCores))
  )
  yield* Effect.forkScoped(
    Effect.forEach(
      Array.from({ length: databaseCores }, (_, core) => core),
      () => polls,
      { concurrency: "unbounded", discard: true }
    )
  )
  const fiber = yield* Effect.forkChild(
    Effect.forEach(
      Array.from({ length: sessions }, (_, index) => index),
      session,
      { concurrency: "unbounded", discard: true }
    )
  )
  while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("10 seconds")
  yield* Fiber.join(fiber)
  const millis = yield* Clock.currentTimeMillis
  const busiest = runners.toSorted((a, b) => b.millis - a.millis)[0]
  const shares: ReadonlyArray<readonly [string, number]> = [
    [database.name, database.busy / database.units / millis],
    ...(callsPerMinute > 0 ? [[provider.name, provider.busy / millis] as const] : []),
    [`${cores} processors of the busiest runner`, Math.max(...runners.map(({ cpu }) => cpu.busy)) / cores / millis],
    [`${concurrency} runs at a time of the busiest runner`, (busiest?.millis ?? 0) / concurrency / millis],
    [
      "runs at a time of all runners",
      runners.reduce((sum, runner) => sum + runner.millis, 0) / concurrency / machines / millis
    ]
  ]
  const sessionsAnHour = Math.round((sessions / millis) * 3_600_000)
  process.stdout.write(
    `${sessions} sessions of ${steps} model calls (${modelMillis} ms) on ${machines} machines: ` +
      `${(millis / 1000).toFixed(0)} s, ${sessionsAnHour} sessions an hour\n`
  )
  const statements = sessions * (sessionStatements + steps * stepStatements)
  const polled = machines * pollsPerSecond
  const toMegabytes = ({ session, step }: typeof stored): string =>
    ((sessions * (session + steps * step)) / 1_000_000).toFixed(0)
  process.stdout.write(
    `  ${Math.round(statements / (millis / 1000))} statements a second of sessions, ${polled.toFixed(0)} of timers\n` +
      `  ${toMegabytes(stored)} MB in tables, ${toMegabytes(logged)} MB in the log of changes\n` +
      `  ${machines * idleConnections} connections to the database without work, ${machines * connections} at most, ` +
      `${machines * connections > maxConnections ? "more than" : "of"} ${maxConnections}\n`
  )
  for (const [name, share] of shares.toSorted((a, b) => b[1] - a[1]))
    process.stdout.write(`  ${(share * 100).toFixed(0).padStart(3)} % of ${name}\n`)
})

await Effect.runPromise(Effect.scoped(Effect.provide(simulation, TestClock.layer())))
