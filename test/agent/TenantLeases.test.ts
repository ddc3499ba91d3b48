// Generated calls of several processes over one ledger: calls that overlap, fail, report nothing and contain other
// calls, requests that are lost and answers that are lost, and processes that die. The account of the provider is
// compared with the allowances, and the bills with the usage of each call.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { join } from "node:path"
import * as TenantLedgerWriter from "../../src/agent/TenantLedgerWriter.ts"
import * as TenantSpending from "../../src/agent/TenantSpending.ts"
import { SessionStoreError } from "../../src/base/domain/AgentError.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import { HoldsReservation, type Spending } from "../../src/models/routing/SpendingPort.ts"
import * as Memory from "../../src/store/tenants/MemoryTenantLedger.ts"
import * as Postgres from "../../src/store/tenants/PostgresTenantLedger.ts"
import * as Sqlite from "../../src/store/tenants/SqliteTenantLedger.ts"
import type { Service } from "../../src/store/tenants/TenantLedgerPort.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

let server: Server | undefined
let count = 0

beforeAll(async () => {
  if (missing === undefined) server = await startServer()
})
afterAll(async () => {
  await server?.remove()
})

/** Numbers that look random and follow from a seed. */
const makeRandom = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

type Random = ReturnType<typeof makeRandom>

const inputPrice = 3
const outputPrice = 11

/** Amounts that a call may use, or has used. */
interface Amount {
  readonly tokens: number
  readonly nanos: number
}

const priceTokens = (input: number, output: number): Amount => ({
  tokens: input + output,
  nanos: input * inputPrice + output * outputPrice
})

/** A call whose end its process knows. Its id is the name of its model. */
interface EndedCall {
  readonly tenant: string
  readonly process: Process
  readonly inputTokens: number
  readonly outputTokens: number
  readonly nanos: number
}

/** A process of the application. */
interface Process {
  readonly ledger: Service
  readonly writer: TenantLedgerWriter.LedgerWriter
  readonly scope: Scope.Closeable
  isKilled: boolean
}

/** Everything that happened. */
interface World {
  readonly random: Random
  /** Amounts that the provider charged, or may have charged, by tenant. */
  readonly charged: Map<string, Amount>
  readonly ended: Map<string, EndedCall>
  /** True while requests and answers may be lost. */
  isFaulty: boolean
  calls: number
}

const lost = new SessionStoreError({ operation: "test", message: "the connection is lost" })

/** Loses some requests before they reach the ledger, and the answers of some others. */
const loseSome = (world: World, ledger: Service, isKilled: () => boolean): Service => {
  const send = <A>(effect: Effect.Effect<A, SessionStoreError>): Effect.Effect<A, SessionStoreError> =>
    Effect.suspend(() => {
      const chance = world.random()
      if (isKilled()) return Effect.fail(lost)
      if (!world.isFaulty) return effect
      const result =
        chance < 0.06 ? Effect.fail(lost) : chance < 0.12 ? Effect.andThen(effect, Effect.fail(lost)) : effect
      // Requests may overtake one another.
      return Effect.delay(result, Math.floor(world.random() * (world.random() < 0.7 ? 20 : 3_000)))
    })
  return {
    ...ledger,
    reserve: (request) => send(ledger.reserve(request)),
    settle: (tenant, settled) => send(ledger.settle(tenant, settled)),
    renew: (ids, expiresIn) => send(ledger.renew(ids, expiresIn))
  }
}

const startProcess = Effect.fnUntraced(function* (world: World, ledger: Service) {
  const scope = yield* Scope.make()
  const faulty = loseSome(world, ledger, () => process.isKilled)
  const writer = yield* Scope.provide(TenantLedgerWriter.makeLedgerWriter(faulty), scope)
  const process: Process = { ledger: faulty, writer, scope, isKilled: false }
  return process
})

const charge = ({ charged }: World, tenant: string, { nanos, tokens }: Amount): void => {
  const before = charged.get(tenant) ?? { tokens: 0, nanos: 0 }
  charged.set(tenant, { tokens: before.tokens + tokens, nanos: before.nanos + nanos })
}

/** Makes a call, with another call within some of them. Returns false if the tenant has no allowance left. */
const makeCall = (
  world: World,
  process: Process,
  tenant: Tenant,
  spending: Spending,
  isWithin = false
): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const { random } = world
    const model = `call-${++world.calls}`
    const bound = 20 + Math.floor(random() * (random() < 0.5 ? 60 : 900))
    const reserved = yield* Effect.exit(
      spending.reserve({
        provider: "p",
        model,
        prompt: { bound, estimate: bound },
        wantedOutput: 1 + Math.floor(random() * (random() < 0.5 ? 100 : 1_500)),
        computeNanos: (usage) => priceTokens(Usage.countPromptTokens(usage), usage.outputTokens).nanos,
        reportWait: () => Effect.void
      })
    )
    if (Exit.isFailure(reserved)) {
      const isSpent = Exit.isFailure(reserved) && String(reserved.cause).includes("leaves no room")
      return !isSpent && !process.isKilled
    }
    const { output, settle } = reserved.value
    if (!isWithin && random() < 0.15) yield* makeCall(world, process, tenant, spending, true)
    yield* Effect.sleep(Math.floor(random() * (random() < 0.6 ? 40 : random() < 0.6 ? 2_500 : 90_000)))
    const most = priceTokens(bound, output)
    if (process.isKilled) {
      charge(world, tenant.id, most)
      return false
    }
    const kind = random()
    if (kind < 0.1) {
      world.ended.set(model, { tenant: tenant.id, process, inputTokens: 0, outputTokens: 0, nanos: 0 })
      yield* settle({ usage: Usage.zero, nanos: 0, mostOutput: undefined })
      return true
    }
    const [inputTokens, outputTokens] = [Math.floor(random() * (bound + 1)), Math.floor(random() * (output + 1))]
    const used = priceTokens(inputTokens, outputTokens)
    const isKnown = kind < 0.85
    charge(world, tenant.id, isKnown ? used : most)
    world.ended.set(model, { tenant: tenant.id, process, inputTokens, outputTokens, nanos: used.nanos })
    yield* settle({
      usage: { ...Usage.zero, inputTokens, outputTokens },
      nanos: used.nanos,
      mostOutput: isKnown ? undefined : Infinity
    })
    return true
  }).pipe(Effect.provideService(HoldsReservation, isWithin))

const makeRuns = (world: World, process: Process, tenant: Tenant) =>
  Effect.gen(function* () {
    for (let run = 0; run < 2; run++) {
      const spending = TenantSpending.makeSpending(tenant, process.ledger, process.writer)
      const calls = 2 + Math.floor(world.random() * 14)
      for (let call = 0; call < calls; call++)
        if (!(yield* makeCall(world, process, tenant, spending)) && world.random() < 0.8) return
      yield* Effect.sleep(world.random() < 0.5 ? 0 : Math.floor(world.random() * 3_000))
    }
  })

/** Lets the clock run until the fibers have ended, and kills a process on the way. */
const runClock = Effect.fnUntraced(function* (
  world: World,
  fibers: ReadonlyArray<Fiber.Fiber<void>>,
  killed: Process | undefined
) {
  const killAt = Math.floor(world.random() * 60)
  for (let round = 0; fibers.some((fiber) => fiber.pollUnsafe() === undefined); round++) {
    assert.isBelow(round, 100_000)
    if (round === killAt && killed !== undefined) killed.isKilled = true
    yield* TestClock.adjust(Math.floor(world.random() * (world.random() < 0.8 ? 30 : 4_000)))
    // The answers of a database come outside the clock.
    yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
  }
  for (const fiber of fibers) yield* Fiber.join(fiber)
})

/** Compares the provider's account and the bills of a world with its ledger. */
const checkWorld = Effect.fnUntraced(function* (
  world: World,
  ledger: Service,
  tenants: ReadonlyArray<Tenant>,
  label: string
) {
  for (const { id, perDay } of tenants) {
    const charged = world.charged.get(id) ?? { tokens: 0, nanos: 0 }
    const { reserved, spentToday } = yield* Effect.orDie(ledger.balance(id))
    assert.deepStrictEqual(reserved, { tokens: 0, nanos: 0 }, label)
    for (const [name, limit] of [
      ["tokens", perDay?.tokens ?? Infinity],
      ["nanos", (perDay?.dollars ?? Infinity) * 1e9]
    ] as const) {
      assert.isAtMost(spentToday[name], limit, `${label} ${id}: counted ${name}`)
      assert.isAtLeast(spentToday[name], charged[name], `${label} ${id}: charged ${name}`)
    }
  }
  const rows = new Map((yield* Effect.orDie(ledger.usage())).map((row) => [row.model, row]))
  for (const [model, { inputTokens, nanos, outputTokens, process, tenant }] of world.ended) {
    const row = rows.get(model)
    rows.delete(model)
    // A process that dies may not have written its last ends.
    if (row === undefined && process.isKilled) continue
    assert.deepInclude(row, { tenant, calls: 1, inputTokens, outputTokens, nanos }, `${label} ${model}`)
  }
  assert.deepStrictEqual(Array.from(rows.keys()), [], `${label}: usage without a call`)
})

const generateWorld = Effect.fnUntraced(function* (seed: number, ledger: Service) {
  const world: World = { random: makeRandom(seed), charged: new Map(), ended: new Map(), isFaulty: true, calls: 0 }
  const { random } = world
  const sizes = { acme: 20_000, globex: 150_000, zeta: 2_000_000 }
  const tenants = Object.entries(sizes).map(([id, size]): Tenant => {
    const tokens = 3_000 + Math.floor(random() * size)
    return { id, perDay: { tokens, ...(random() < 0.5 ? { dollars: (tokens * 7) / 1e9 } : {}) } }
  })
  const processes = [yield* startProcess(world, ledger), yield* startProcess(world, ledger)]
  const fibers: Array<Fiber.Fiber<void>> = []
  for (const process of processes)
    for (const tenant of tenants)
      for (let run = 0; run < 3; run++) fibers.push(yield* Effect.forkChild(makeRuns(world, process, tenant)))
  yield* runClock(world, fibers, random() < 0.7 ? processes[1] : undefined)
  world.isFaulty = false
  for (const { scope } of processes) yield* Scope.close(scope, Exit.void)
  // Reservations of the process that was killed expire.
  yield* TestClock.adjust("3 minutes")
  yield* checkWorld(world, ledger, tenants, `seed ${seed}`)
  return world.calls
})

/** A ledger in Postgres whose connections have the real clock. */
const openPostgres = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const url = Redacted.make(server?.url(`leases_${++count}`) ?? "")
  const time = Effect.sync(() => clock.currentTimeMillisUnsafe())
  const ledger = yield* Postgres.open({ url, clock: time }).pipe(TestClock.withLive)
  return {
    ...ledger,
    reserve: (request) => TestClock.withLive(ledger.reserve(request)),
    settle: (tenant, settled) => TestClock.withLive(ledger.settle(tenant, settled)),
    renew: (ids, expiresIn) => TestClock.withLive(ledger.renew(ids, expiresIn))
  } satisfies Service
})

const first = Number(process.env["SEED"] ?? 1)

describe("calls of several processes with failures and kills", () => {
  const silent = Logger.layer([])
  for (const [kind, seeds] of [
    ["memory", 12],
    ["sqlite", 6],
    ["postgres", 3]
  ] as const) {
    it.effect.skipIf(kind === "postgres" && missing !== undefined)(
      `never cost more than the allowance in ${kind}, and each is billed once`,
      () =>
        Effect.gen(function* () {
          yield* TestClock.setTime(Date.UTC(2026, 10, 10))
          const directory = yield* temporaryDirectory
          let calls = 0
          for (let seed = first; seed < first + seeds; seed++) {
            yield* TestClock.setTime(Date.UTC(2026, 10, 10 + (seed % 18)))
            const ledger =
              kind === "memory"
                ? Memory.make()
                : kind === "sqlite"
                  ? yield* Sqlite.open(join(directory, `${seed}.db`))
                  : yield* openPostgres
            calls += yield* generateWorld(seed, ledger)
          }
          assert.isAbove(calls, seeds * 50)
        }).pipe(Effect.scoped, Effect.provide(silent as Layer.Layer<never>))
    )
  }
})
