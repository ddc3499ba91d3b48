// The work that a tenant adds to a turn, in counts: steps of the interpreter, statements of SQLite, requests to the
// ledger. How long it takes is the benchmark's.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import crypto from "node:crypto"
import { syncBuiltinESMExports } from "node:module"
import { makeLedgerWriter } from "../../src/agent/TenantLedgerWriter.ts"
import { makeSpending } from "../../src/agent/TenantSpending.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as H from "../../src/index.ts"
import { makeCacheKey } from "../../src/models/provider/CacheMarks.ts"
import * as TenantLedger from "../../src/store/tenants/TenantLedger.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { watchStatements } from "../support/watchStatements.ts"

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const toolkit = Toolkit.make(Echo)
const tools = [H.Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))]

/** Work of a run. */
interface Work {
  readonly steps: number
  readonly statements: number
  readonly requests: number
}

/** Counts the statements of an Effect, without checkpoints. */
const countStatements = <A, E, R>(effect: Effect.Effect<A, E, R>, count: () => void) =>
  Effect.scoped(
    Effect.andThen(
      watchStatements(({ sourceSQL }) => {
        if (!/wal_checkpoint|INTO record_parts/u.test(sourceSQL)) count()
      }),
      effect
    )
  )

/** Runs some turns of one tool call on a SQLite store, of a tenant if one is given. */
const runTurns = Effect.fnUntraced(function* (directory: string, turns: number, tenant?: Tenant) {
  const count = { steps: 0, statements: 0, requests: 0 }
  const script = Array.from({ length: turns }, (_, turn) =>
    H.Scripted.complete({ toolCalls: [{ name: "echo", params: { text: `text ${turn}` } }] })
  )
  const tracer = Tracer.make({
    span: (options) => new Tracer.NativeSpan(options),
    context: (primitive, fiber) => {
      count.steps++
      return primitive["~effect/Effect/evaluate"](fiber)
    }
  })
  const path = `${directory}/${tenant === undefined ? "none" : "tenant"}-${turns}`
  const ledger = Layer.effect(
    TenantLedger.TenantLedger,
    Effect.map(TenantLedger.TenantLedger, (one): TenantLedger.Service => {
      const countRequest = <A, E>(effect: Effect.Effect<A, E>) => Effect.suspend(() => (count.requests++, effect))
      return {
        ...one,
        reserve: (request) => countRequest(one.reserve(request)),
        settle: (id, settled) => countRequest(one.settle(id, settled))
      }
    })
  ).pipe(Layer.provide(TenantLedger.layerSqlite({ path: `${path}-tenants.db` })))
  const runtime = H.Runtime.layer({
    provider: H.Scripted.layer([...script, H.Scripted.complete("done")]),
    tools,
    maxIterations: turns + 1,
    store: H.SessionStore.layerSqlite({ path: `${path}.db` }),
    ...(tenant === undefined ? {} : { tenants: Tenants.layerFrom([tenant], ledger) })
  })
  const run = H.Agent.run({ prompt: "Go.", tenant: tenant?.id }).pipe(
    Effect.provideService(Tracer.Tracer, tracer),
    Effect.withTracerEnabled(false),
    Effect.provideService(Scheduler.PreventSchedulerYield, true),
    Effect.provide(runtime)
  )
  const { text } = yield* countStatements(run, () => void count.statements++)
  assert.strictEqual(text, "done")
  return count
})

/** Work of one turn. */
const measureTurn = Effect.fnUntraced(function* (tenant?: Tenant) {
  const directory = yield* temporaryDirectory
  const [short, long] = [yield* runTurns(directory, 10, tenant), yield* runTurns(directory, 30, tenant)]
  const perTurn = (field: keyof Work) => (long[field] - short[field]) / 20
  return { steps: perTurn("steps"), statements: perTurn("statements"), requests: perTurn("requests") }
})

describe("a turn of a tenant", () => {
  // The clock of the test stands still: calls follow one another fast.
  it.effect("takes few steps more than one without a tenant, and no statement", () =>
    Effect.gen(function* () {
      const without = yield* measureTurn()
      const within = yield* measureTurn({ id: "acme", perDay: { tokens: 1e9 }, perMonth: { tokens: 1e10 } })
      assert.deepStrictEqual([within.statements - without.statements, within.requests], [0, 0])
      // Six of the steps find out whose session it is.
      assert.isAtMost(within.steps - without.steps, 19)
    }).pipe(Effect.scoped)
  )

  it.effect("takes one transaction of seven statements if its calls are counted by the minute", () =>
    Effect.gen(function* () {
      const without = yield* measureTurn()
      const within = yield* measureTurn({ id: "acme", perDay: { tokens: 1e9 }, callsPerMinute: 1e9 })
      assert.deepStrictEqual([within.statements - without.statements, within.requests], [7, 1])
    }).pipe(Effect.scoped)
  )

  it("takes one digest for the cache key of a conversation", () => {
    const { hash } = crypto
    const digested: Array<unknown> = []
    crypto.hash = ((...args: Parameters<typeof hash>) => {
      digested.push(args[1])
      return hash(...args)
    }) as typeof hash // The overloads of `hash` differ in their last argument only.
    syncBuiltinESMExports()
    try {
      const makeKeys = (cacheTenant: string, conversationId: string): ReadonlySet<string | undefined> =>
        new Set(Array.from({ length: 50 }, () => makeCacheKey({ cacheTenant, conversationId })))
      const keys = [makeKeys("acme", "first"), makeKeys("acme", "second"), makeKeys("zeta", "first")]
      assert.strictEqual(new Set(keys.flatMap((some) => Array.from(some))).size, 3)
      assert.strictEqual(digested.length, 3)
    } finally {
      crypto.hash = hash
      syncBuiltinESMExports()
    }
  })

  it.effect("computes the prices of a model once, and not for each call", () =>
    Effect.gen(function* () {
      const ledger = yield* TenantLedger.TenantLedger
      const spending = makeSpending({ id: "acme", perDay: { dollars: 100 } }, ledger, yield* makeLedgerWriter(ledger))
      let computed = 0
      const computeNanos = ({ inputTokens, outputTokens, requestCount }: Usage.Usage): number => {
        computed++
        return inputTokens * 3 + outputTokens * 15 + requestCount * 1_000
      }
      const useCall = Effect.flatMap(
        spending.reserve({
          provider: "openai",
          model: "model",
          prompt: { bound: 1_001, estimate: 500 },
          wantedOutput: 100,
          computeNanos,
          reportWait: () => Effect.void
        }),
        ({ settle }) =>
          settle({ usage: { ...Usage.zero, inputTokens: 10, outputTokens: 1 }, nanos: 1_045, mostOutput: undefined })
      )
      yield* useCall
      const { reserved, spentToday } = yield* ledger.balance("acme")
      assert.deepStrictEqual([reserved.nanos, spentToday.nanos], [1_001 * 3 + 1_000 + 100 * 15, 0])
      const first = computed
      yield* Effect.repeat(useCall, { times: 48 })
      assert.deepStrictEqual([first, computed], [5, 5])
    }).pipe(Effect.scoped, Effect.provide(TenantLedger.layerMemory))
  )
})
