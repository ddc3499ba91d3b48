// The ledgers of tenants: the same decisions in memory, in SQLite and in Postgres, limits that no calls in flight
// overrun, and processes that die.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Memory from "../../../src/store/tenants/MemoryTenantLedger.ts"
import * as Postgres from "../../../src/store/tenants/PostgresTenantLedger.ts"
import * as Sqlite from "../../../src/store/tenants/SqliteTenantLedger.ts"
import { type Amounts, formatDay } from "../../../src/base/domain/Tenant.ts"
import type {
  Decision,
  ModelUsage,
  ReserveRequest,
  Service,
  Settlement,
  UsageRow
} from "../../../src/store/tenants/TenantLedgerPort.ts"
import { scaleRuns } from "../../support/effort.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"

let server: Server | undefined
let folder = ""
let count = 0

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "hermes-tenants-"))
  if (missing === undefined) server = await startServer()
})

afterAll(async () => {
  await server?.remove()
  rmSync(folder, { recursive: true, force: true })
})

/** Ledgers without entries, by the name of the store. */
// Their pools have timers: the clock is set before they are opened.
const openAll = Effect.gen(function* () {
  const number = ++count
  const ledgers: Array<readonly [name: string, ledger: Service]> = [
    ["memory", Memory.make()],
    ["sqlite", yield* Sqlite.open(join(folder, `${number}.db`))]
  ]
  if (server !== undefined) {
    const url = Redacted.make(server.url(`tenants_${number}`))
    ledgers.push(["postgres", yield* Postgres.open({ url, clock: Clock.currentTimeMillis })])
  }
  return ledgers
})

const request = (id: string, more: Partial<ReserveRequest> = {}): ReserveRequest => ({
  tenant: "acme",
  id,
  limits: { dayTokens: 1000 },
  prompt: { tokens: 100, nanos: 10_000 },
  outputNanos: 600,
  leastOutput: 10,
  wantedOutput: 200,
  expiresIn: 60_000,
  settled: [],
  whenHeld: "shrink",
  ...more
})

/** Decision about {@link request} where there is room. */
const granted: Decision = { _tag: "Reserved", output: 200, held: { tokens: 300, nanos: 130_000 } }

/** The end of a reservation with one call. `atMost` counts in place of an unknown usage. */
const settlement = (
  id: string,
  { atMost, rest, ...more }: Partial<ModelUsage & { readonly atMost: Amounts }> & Pick<Settlement, "rest"> = {}
): Settlement => {
  const usage = { model: "m", calls: 1, inputTokens: 80, outputTokens: 20, nanos: 20_000, ...more }
  const { inputTokens, nanos, outputTokens } = usage
  return { id, usage: [usage], spent: atMost ?? { tokens: inputTokens + outputTokens, nanos }, rest }
}

/** Runs the same operations on all ledgers, and returns the results of the first if all are equal. */
const onAll = <A>(
  ledgers: ReadonlyArray<readonly [string, Service]>,
  body: (ledger: Service) => Effect.Effect<A, unknown>
) =>
  Effect.gen(function* () {
    const results: Array<A> = []
    for (const [name, ledger] of ledgers) {
      const result = yield* Effect.orDie(body(ledger))
      if (results.length > 0) assert.deepStrictEqual(result, results[0], name)
      results.push(result)
    }
    return results[0] as A
  })

/** Numbers that look random and follow from a seed. */
const makeRandom = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

describe("ledgers of tenants", () => {
  it("were compared on Postgres, too, where the machine has one", () => {
    assert.strictEqual(server === undefined, missing !== undefined)
  })

  it.effect(
    "reserve the largest cost, shrink the last answer to the room that is left, and name the end of the period",
    () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.UTC(2026, 10, 30, 12))
        const ledgers = yield* openAll
        const decisions = yield* onAll(ledgers, (ledger) =>
          Effect.forEach(["a", "b", "c", "d", "e"], (id) => ledger.reserve(request(id)))
        )
        assert.deepStrictEqual(decisions, [
          granted,
          granted,
          granted,
          // 900 of 1,000 are held: no room for a prompt of 100 and an answer of 10.
          { _tag: "Spent", period: "day", kind: "tokens", freeAt: Date.UTC(2026, 11, 1) },
          { _tag: "Spent", period: "day", kind: "tokens", freeAt: Date.UTC(2026, 11, 1) }
        ])
        const after = yield* onAll(ledgers, (ledger) =>
          Effect.gen(function* () {
            const decision = yield* ledger.reserve(
              request("f", { settled: [settlement("a"), settlement("b"), settlement("a")] })
            )
            yield* ledger.settle("acme", [settlement("b"), settlement("unknown")])
            return { decision, balance: yield* ledger.balance("acme"), usage: yield* ledger.usage() }
          })
        )
        assert.deepStrictEqual(after, {
          decision: granted,
          balance: {
            day: "2026-11-30",
            spentToday: { tokens: 200, nanos: 40_000 },
            spentThisMonth: { tokens: 200, nanos: 40_000 },
            reserved: { tokens: 600, nanos: 2 * (10_000 + 120_000) }
          },
          usage: [
            {
              tenant: "acme",
              day: "2026-11-30",
              model: "m",
              calls: 2,
              inputTokens: 160,
              outputTokens: 40,
              nanos: 40_000
            }
          ]
        })
      })
  )

  it.effect("let a call wait that fits when calls in flight end, and refuse one that never fits", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 30, 12))
      const ledgers = yield* openAll
      const reserve = (id: string, more: Partial<ReserveRequest> = {}) =>
        onAll(ledgers, (ledger) => ledger.reserve(request(id, { whenHeld: "wait", ...more })))
      for (const id of ["a", "b", "c"]) assert.deepStrictEqual(yield* reserve(id), granted)
      // 900 of 1,000 are held. Alone, the call would have its whole answer, or a shorter one.
      assert.deepStrictEqual(yield* reserve("d"), { _tag: "Held" })
      assert.deepStrictEqual(yield* reserve("d", { wantedOutput: 2000 }), { _tag: "Held" })
      assert.deepStrictEqual((yield* reserve("d", { prompt: { tokens: 995, nanos: 0 } }))._tag, "Spent")
      assert.deepStrictEqual(yield* reserve("d", { settled: [settlement("a")] }), granted)
    })
  )

  it.effect("count the most that a call may have cost if its provider reported nothing, and show the estimate", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 30, 12))
      const ledgers = yield* openAll
      const counted = yield* onAll(ledgers, (ledger) =>
        Effect.gen(function* () {
          yield* ledger.reserve(request("a"))
          yield* ledger.settle("acme", [settlement("a", { atMost: { tokens: 300, nanos: 130_000 } })])
          const { spentToday } = yield* ledger.balance("acme")
          const [row] = yield* ledger.usage()
          return { spentToday, usage: [row?.inputTokens, row?.outputTokens, row?.nanos] }
        })
      )
      assert.deepStrictEqual(counted, { spentToday: { tokens: 300, nanos: 130_000 }, usage: [80, 20, 20_000] })
    })
  )

  it.effect("hold room for further calls while all reservations are a small part of what is left", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 30, 12))
      const ledgers = yield* openAll
      const limits = { dayTokens: 96_000, monthNanos: 32 * 1_000_000 }
      const reserve = (id: string, more: Partial<ReserveRequest> = {}) =>
        onAll(ledgers, (ledger) => ledger.reserve(request(id, { limits, spareCalls: 3, ...more })))
      const hold = (calls: number) => ({ ...granted, held: { tokens: calls * 300, nanos: calls * 130_000 } })
      // The sums leave 3,000 tokens and 1,000,000 nanodollars for all reservations.
      assert.deepStrictEqual(yield* reserve("a"), hold(4))
      assert.deepStrictEqual(yield* reserve("b"), hold(3))
      assert.deepStrictEqual(yield* reserve("c"), hold(1))
      assert.deepStrictEqual(yield* reserve("d", { settled: [settlement("a")] }), hold(3))
      assert.deepStrictEqual(yield* reserve("e", { tenant: "other", limits: {} }), hold(4))
      const { reserved } = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual(reserved, { tokens: 7 * 300, nanos: 7 * 130_000 })
    })
  )

  it.effect("continue a reservation under another id, which expires with it, and count its ended calls once", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 10))
      const ledgers = yield* openAll
      const continued = settlement("a", { rest: { id: "a2", held: { tokens: 150, nanos: 60_000 } } })
      yield* onAll(ledgers, (ledger) => ledger.reserve(request("a")))
      yield* TestClock.adjust("20 seconds")
      yield* onAll(ledgers, (ledger) => ledger.settle("acme", [continued]))
      yield* onAll(ledgers, (ledger) => ledger.settle("acme", [continued]))
      const inFlight = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual([inFlight.spentToday.tokens, inFlight.reserved.tokens], [100, 150])
      yield* TestClock.adjust("50 seconds")
      const expired = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual([expired.spentToday.tokens, expired.reserved.tokens], [250, 0])
      yield* onAll(ledgers, (ledger) => ledger.settle("acme", [continued, settlement("a2", { inputTokens: 5 })]))
      const ended = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual([ended.spentToday.tokens, ended.reserved.tokens], [125, 0])
      const [usage] = yield* onAll(ledgers, (ledger) => ledger.usage())
      assert.deepInclude(usage, { calls: 2, inputTokens: 85, outputTokens: 40 })
      // An expired reservation is continued as an expired one.
      yield* onAll(ledgers, (ledger) => ledger.reserve(request("b")))
      yield* TestClock.adjust("61 seconds")
      assert.strictEqual((yield* onAll(ledgers, (ledger) => ledger.balance("acme"))).spentToday.tokens, 425)
      const late = settlement("b", { rest: { id: "b2", held: { tokens: 150, nanos: 60_000 } } })
      yield* onAll(ledgers, (ledger) => ledger.reserve(request("c", { settled: [late] })))
      const counted = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual([counted.spentToday.tokens, counted.reserved.tokens], [375, 300])
    })
  )

  it.effect("have no row of a tenant whose balance was read only", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 30, 23))
      const ledgers = yield* openAll
      const none = { tokens: 0, nanos: 0 }
      assert.deepStrictEqual(yield* onAll(ledgers, (ledger) => ledger.balance("unknown")), {
        day: "2026-11-30",
        spentToday: none,
        spentThisMonth: none,
        reserved: none
      })
      const rows = yield* onAll(ledgers, (ledger) => ledger.readRows)
      assert.deepStrictEqual(rows, { sums: [], reservations: [], usage: [] })
    }).pipe(Effect.scoped)
  )

  it.effect("begin a new day and month, and never go back", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 30, 23, 59))
      const ledgers = yield* openAll
      const limits = { dayTokens: 300, monthNanos: 200_000 }
      const reserveAndSettle = (ledger: Service, id: string) =>
        Effect.tap(
          ledger.reserve(request(id, { limits })),
          ledger.settle("acme", [settlement(id, { nanos: 150_000, inputTokens: 250 })])
        )
      yield* onAll(ledgers, (ledger) => reserveAndSettle(ledger, "a"))
      assert.deepStrictEqual(
        yield* onAll(ledgers, (ledger) => ledger.reserve(request("b", { limits: { monthNanos: 160_000 } }))),
        { _tag: "Spent", period: "month", kind: "cost", freeAt: Date.UTC(2026, 11, 1) }
      )
      yield* TestClock.setTime(Date.UTC(2026, 11, 1, 0, 1))
      assert.deepStrictEqual(yield* onAll(ledgers, (ledger) => ledger.reserve(request("c", { limits }))), granted)
      assert.strictEqual((yield* onAll(ledgers, (ledger) => ledger.balance("acme"))).day, "2026-12-01")
    })
  )

  it.effect("count what a dead process held as spent, and correct it when its settlement comes", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 10))
      const ledgers = yield* openAll
      yield* onAll(ledgers, (ledger) => ledger.reserve(request("dead")))
      yield* onAll(ledgers, (ledger) => ledger.reserve(request("alive")))
      yield* TestClock.adjust("50 seconds")
      yield* onAll(ledgers, (ledger) => ledger.renew(["alive"], 60_000))
      yield* TestClock.adjust("20 seconds")
      const expired = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual(
        [expired.spentToday, expired.reserved],
        [
          { tokens: 300, nanos: 130_000 },
          { tokens: 300, nanos: 130_000 }
        ]
      )
      yield* onAll(ledgers, (ledger) => ledger.settle("acme", [settlement("dead")]))
      const corrected = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual(corrected.spentToday, { tokens: 100, nanos: 20_000 })
    })
  )

  it.effect("pace calls by the minute, and bound the places of runs", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 10, 8, 0, 20))
      const ledgers = yield* openAll
      const limits = { callsPerMinute: 2 }
      const paced = yield* onAll(ledgers, (ledger) =>
        Effect.forEach(["a", "b", "c"], (id) => ledger.reserve(request(id, { limits })))
      )
      assert.deepStrictEqual(paced[2], { _tag: "Paced", waitMillis: 40_000 })
      yield* TestClock.adjust("40 seconds")
      assert.strictEqual((yield* onAll(ledgers, (ledger) => ledger.reserve(request("c", { limits }))))._tag, "Reserved")
      const enter = (id: string) => (ledger: Service) => ledger.enter("acme", id, 1, 60_000)
      assert.isTrue(yield* onAll(ledgers, enter("one")))
      assert.isTrue(yield* onAll(ledgers, enter("one")))
      assert.isFalse(yield* onAll(ledgers, enter("two")))
      yield* onAll(ledgers, (ledger) => ledger.leave("one"))
      assert.isTrue(yield* onAll(ledgers, enter("two")))
      yield* TestClock.adjust("2 minutes")
      assert.isTrue(yield* onAll(ledgers, enter("three")))
    })
  )

  it.effect("are the same after a backup, and a repeated or older one frees nothing", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 29, 12))
      const ledgers = yield* openAll
      const makeSome = (ledger: Service) =>
        Effect.gen(function* () {
          for (const id of ["a", "b", "c"]) yield* ledger.reserve(request(id))
          yield* ledger.reserve(request("x", { tenant: "globex" }))
          yield* ledger.settle("acme", [settlement("a")])
          return yield* ledger.readRows
        })
      const rows = yield* onAll(ledgers, makeSome)
      assert.deepStrictEqual([rows.sums.length, rows.reservations.length, rows.usage.length], [2, 3, 1])
      const restored = yield* openAll
      const before = yield* onAll(ledgers, (ledger) => ledger.balance("acme"))
      // The rows come from a file.
      const copy: typeof rows = JSON.parse(JSON.stringify(rows))
      for (const _ of ["once", "again"]) {
        yield* onAll(restored, (ledger) => ledger.addRows(copy))
        assert.deepStrictEqual(yield* onAll(restored, (ledger) => ledger.balance("acme")), before)
        const read = yield* onAll(restored, (ledger) => ledger.readRows)
        assert.deepStrictEqual(read, rows)
      }
      // 100 are spent and 600 are held of 1,000: there is room for one call, and not for a second one.
      const decisions = yield* onAll(restored, (ledger) =>
        Effect.all([ledger.reserve(request("d")), ledger.reserve(request("e"))])
      )
      assert.deepStrictEqual(
        decisions.map(({ _tag }) => _tag),
        ["Reserved", "Spent"]
      )
      // A process that lives on settles its call.
      yield* onAll(restored, (ledger) => ledger.settle("acme", [settlement("b"), settlement("d")]))
      yield* onAll(restored, (ledger) => ledger.addRows({ ...copy, reservations: [] }))
      const later = yield* onAll(restored, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual([later.spentToday.tokens, later.reserved.tokens], [300, 300])
      // An older backup, with another day and month.
      const older = copy.sums.map((row) => ({ ...row, day: "2026-10-31", dayTokens: 5_000, monthTokens: 9_000 }))
      yield* onAll(restored, (ledger) => ledger.addRows({ sums: older, reservations: [], usage: [] }))
      assert.deepStrictEqual(yield* onAll(restored, (ledger) => ledger.balance("acme")), later)
      // The call of a process that died is counted.
      yield* TestClock.adjust("2 minutes")
      const expired = yield* onAll(restored, (ledger) => ledger.balance("acme"))
      assert.deepStrictEqual([expired.spentToday.tokens, expired.reserved.tokens], [600, 0])
    })
  )

  it.effect("remove everything of a tenant, and nothing of another", () =>
    Effect.gen(function* () {
      const ledgers = yield* openAll
      for (const tenant of ["acme", "globex"]) {
        yield* onAll(ledgers, (ledger) => ledger.reserve(request(`${tenant}-1`, { tenant })))
        yield* onAll(ledgers, (ledger) =>
          ledger.reserve(request(`${tenant}-2`, { tenant, settled: [settlement(`${tenant}-1`)] }))
        )
        yield* onAll(ledgers, (ledger) => ledger.enter(tenant, `run-${tenant}`, 1, 60_000))
      }
      yield* onAll(ledgers, (ledger) => ledger.remove("acme"))
      // A process writes the end of a call late.
      yield* onAll(ledgers, (ledger) => ledger.settle("acme", [settlement("acme-2")]))
      const rows = yield* onAll(ledgers, (ledger) => ledger.readRows)
      for (const table of [rows.sums, rows.reservations, rows.usage])
        assert.deepStrictEqual(Array.from(new Set(table.map(({ tenant }) => tenant))), ["globex"])
      const left = yield* onAll(ledgers, (ledger) =>
        Effect.all({
          acme: ledger.balance("acme"),
          globex: ledger.balance("globex"),
          usage: ledger.usage(),
          free: ledger.enter("acme", "other", 1, 60_000),
          taken: ledger.enter("globex", "other-2", 1, 60_000)
        })
      )
      assert.deepStrictEqual([left.acme.spentThisMonth.tokens, left.acme.reserved.tokens], [0, 0])
      assert.deepStrictEqual([left.globex.spentThisMonth.tokens, left.globex.reserved.tokens], [100, 300])
      assert.deepStrictEqual(
        left.usage.map(({ tenant }) => tenant),
        ["globex"]
      )
      assert.deepStrictEqual([left.free, left.taken], [true, false])
    })
  )

  it.effect("decide alike over random operations of several tenants", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 30, 20))
      const ledgers = yield* openAll
      const random = makeRandom(7)
      const open: Array<readonly [tenant: string, id: string]> = []
      const steps = scaleRuns(400)
      let spare = 0
      /** Continues some of the reservations that are settled. */
      const continueSome = (tenant: string, id: string) => {
        if (random() < 0.7) return {}
        open.push([tenant, `${id}+`])
        return { rest: { id: `${id}+`, held: { tokens: 50, nanos: 700 } } }
      }
      for (let step = 0; step < steps; step++) {
        const tenant = random() < 0.5 ? "acme" : "globex"
        const settled = open.splice(0, Math.floor(random() * 2)).filter(([owner]) => owner === tenant)
        const more: Partial<ReserveRequest> = {
          tenant,
          limits: { dayTokens: 40_000, monthTokens: 65_000, dayNanos: 29_000_000, callsPerMinute: 40 },
          prompt: { tokens: Math.floor(random() * (random() < 0.3 ? 20 : 800)), nanos: Math.floor(random() * 90_000) },
          outputNanos: random() < 0.2 ? 0 : 0.5 + random() * 900,
          wantedOutput: 20 + Math.floor(random() * (random() < 0.3 ? 20 : 900)),
          settled: settled.map(([, id]) =>
            settlement(id, {
              inputTokens: Math.floor(random() * 700),
              nanos: Math.floor(random() * 300_000),
              ...continueSome(tenant, id)
            })
          ),
          spareCalls: Math.floor(random() * 12)
        }
        const decision = yield* onAll(ledgers, (ledger) => ledger.reserve(request(`r${step}`, more)))
        if (decision._tag === "Reserved") {
          open.push([tenant, `r${step}`])
          const need = (more.prompt?.tokens ?? 0) + decision.output
          if (decision.held.tokens > need) spare++
        }
        if (random() < 0.3) yield* TestClock.adjust(Math.floor(random() * 40 * 60_000))
        if (step % 20 === 0) yield* onAll(ledgers, (ledger) => ledger.balance(tenant))
      }
      const usage = yield* onAll(ledgers, (ledger) => ledger.usage({ from: "2026-11-30" }))
      assert.isAbove(usage.length, 1)
      assert.isAbove(spare, steps / 40)
    })
  )

  it.effect("bill each call in one of adjoining ranges of days, and never change a day that is over", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 28, 6))
      const ledgers = yield* openAll
      const random = makeRandom(11)
      const open: Array<readonly [tenant: string, id: string]> = []
      const billed = { calls: 0, inputTokens: 0, outputTokens: 0, nanos: 0 }
      let over: ReadonlyArray<UsageRow> = []
      for (let step = 0; step < 60; step++) {
        const tenant = ["acme", "globex", "zeta"][step % 3] ?? ""
        yield* onAll(ledgers, (ledger) => ledger.reserve(request(`r${step}`, { tenant, limits: {} })))
        open.push([tenant, `r${step}`])
        // Some of them have expired meanwhile, and are settled on another day.
        if (random() < 0.85) {
          const [[owner, id] = ["", ""]] = open.splice(0, 1)
          const used = {
            model: random() < 0.5 ? "large" : "small",
            inputTokens: Math.floor(random() * 100),
            outputTokens: Math.floor(random() * 200),
            nanos: Math.floor(random() * 130_000)
          }
          const repeated = [settlement(id, used), ...(random() < 0.3 ? [settlement(id, used)] : [])]
          yield* onAll(ledgers, (ledger) => ledger.settle(owner, repeated))
          billed.calls++
          for (const field of ["inputTokens", "outputTokens", "nanos"] as const) billed[field] += used[field]
        }
        const today = formatDay(yield* Clock.currentTimeMillis)
        const closed = (yield* onAll(ledgers, (ledger) => ledger.usage({ to: today }))).filter(({ day }) => day < today)
        assert.deepStrictEqual(
          closed.filter(({ day }) => over.some((row) => row.day === day)),
          over
        )
        over = closed
        yield* TestClock.adjust(Math.floor(random() * 7_200_000))
      }
      const all = yield* onAll(ledgers, (ledger) => ledger.usage())
      const days = Array.from(new Set(all.map(({ day }) => day)))
      assert.isAbove(days.length, 2)
      const ranges = [
        { to: "2026-11-28" },
        { from: "2026-11-29", to: "2026-11-29" },
        { from: "2026-11-30", to: "2026-11-30" },
        { from: "2026-12-01" }
      ]
      const parts = yield* Effect.forEach(ranges, (range) => onAll(ledgers, (ledger) => ledger.usage(range)))
      assert.deepStrictEqual(parts.flat(), all)
      const byTenant = yield* Effect.forEach(["acme", "globex", "zeta"], (tenant) =>
        onAll(ledgers, (ledger) => ledger.usage({ tenant }))
      )
      assert.sameDeepMembers(byTenant.flat(), [...all])
      const sum = { calls: 0, inputTokens: 0, outputTokens: 0, nanos: 0 }
      for (const row of all)
        for (const field of ["calls", "inputTokens", "outputTokens", "nanos"] as const) sum[field] += row[field]
      assert.deepStrictEqual(sum, billed)
    })
  )

  it.effect("are never overrun by calls in flight, and leave less than a twentieth unused", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 10))
      const ledgers = yield* openAll
      for (const [name, ledger] of ledgers) {
        const random = makeRandom(name.length)
        let spent = 0
        const budget = 200_000
        const run = (index: number) =>
          Effect.gen(function* () {
            for (let call = 0; ; call++) {
              const id = `${index}-${call}`
              const decision = yield* ledger.reserve(
                request(id, { limits: { dayTokens: budget }, prompt: { tokens: 300, nanos: 0 }, wantedOutput: 800 })
              )
              if (decision._tag !== "Reserved") return
              const held = 300 + decision.output
              // The call is in flight. One in ten dies, having cost all that it could.
              yield* Effect.yieldNow
              const isKilled = random() < 0.1
              const outputTokens = isKilled ? decision.output : Math.floor(random() * decision.output)
              spent += 300 + outputTokens
              assert.isAtMost(300 + outputTokens, held)
              if (isKilled) return
              yield* ledger.settle("acme", [settlement(id, { inputTokens: 300, outputTokens })])
            }
          })
        yield* Effect.forEach(
          Array.from({ length: 200 }, (_, index) => index),
          run,
          { concurrency: "unbounded" }
        )
        // Others use the rest.
        for (let index = 1000; index < 1010; index++) yield* run(index)
        assert.isAtMost(spent, budget, name)
        assert.isAtLeast(spent, budget * 0.95, name)
        const { reserved, spentToday } = yield* ledger.balance("acme")
        assert.isAtMost(reserved.tokens + spentToday.tokens, budget, name)
      }
    })
  )

  it.effect("do not let a tenant settle, repeat or enter by the ids of another tenant", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 29, 12))
      const ledgers = yield* openAll
      const result = yield* onAll(ledgers, (ledger) =>
        Effect.gen(function* () {
          yield* ledger.reserve(request("a"))
          const entered = [yield* ledger.enter("acme", "p", 1, 60_000), yield* ledger.enter("globex", "p", 1, 60_000)]
          // A settlement without usage would free the amounts that acme's call may still cost.
          const free = settlement("a", { inputTokens: 0, outputTokens: 0, nanos: 0 })
          yield* ledger.settle("globex", [free])
          yield* ledger.reserve(request("b", { tenant: "globex", settled: [free] }))
          const repeated = yield* Effect.exit(ledger.reserve(request("a", { tenant: "globex" })))
          const held = yield* ledger.balance("acme")
          yield* ledger.settle("acme", [settlement("a")])
          return {
            entered,
            again: yield* ledger.enter("acme", "q", 1, 60_000),
            repeated: repeated._tag,
            held: held.reserved.tokens,
            spent: (yield* ledger.balance("acme")).spentToday.tokens,
            other: yield* ledger.balance("globex"),
            usage: (yield* ledger.usage()).map(({ tenant }) => tenant)
          }
        })
      )
      assert.deepStrictEqual(result, {
        entered: [true, false],
        again: false,
        repeated: "Failure",
        held: 300,
        spent: 100,
        other: {
          day: "2026-11-29",
          spentToday: { tokens: 0, nanos: 0 },
          spentThisMonth: { tokens: 0, nanos: 0 },
          reserved: { tokens: 300, nanos: 130_000 }
        },
        usage: ["acme"]
      })
    })
  )
})
