/**
 * Tenants of an application: the lookup of their limits, and the ledger that keeps them.
 *
 * **Details**
 *
 * A run with a `tenant` reserves the largest cost of each model call before the call, and settles it afterwards
 * (`models/routing/Spending`). This includes the calls of children, side tasks, retries and answers that broke off.
 * Nothing else has to be checked: calls in flight cannot overrun a limit. If an allowance leaves no room for a call,
 * the run ends with exit `budget_exhausted`, limit `allowance` and the time at which the allowance is free again.
 *
 * Ends of calls are written with the next reservation of the tenant, or after a second, so that a call takes one
 * statement of the store.
 *
 * **Gotchas**
 *
 * If the ledger cannot be read or written, no model call is made.
 *
 * **Example** (A tenant with a daily allowance)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, Scripted } from "hermes-effect"
 * import { Tenants } from "hermes-effect/tenants"
 *
 * const tenants = Tenants.layerFrom([{ id: "acme", perDay: { tokens: 100 } }])
 * const runtime = Runtime.layer({ provider: Scripted.layer([Scripted.complete("Hello")]), tenants })
 *
 * const program = Agent.run({ prompt: "Say hello", tenant: "acme" }).pipe(
 *   Effect.map(({ exit, limit }) => `${exit}: ${limit}`)
 * )
 *
 * console.log(await Effect.runPromise(Effect.provide(program, runtime)))
 * // => budget_exhausted: allowance
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { type SessionStoreError, TenantRefused } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import {
  add,
  type Allowance,
  type Amounts,
  formatTenant,
  nothing,
  type Tenant,
  toNanos
} from "../base/domain/Tenant.ts"
import * as Usage from "../base/domain/Usage.ts"
import * as Spending from "../models/routing/SpendingPort.ts"
import * as TenantLedger from "../store/tenants/TenantLedger.ts"
import { AllowedTools } from "../tools/ToolRegistry.ts"
import { type Service, Tenants } from "./Tenancy.ts"

export type { Allowance, AssumedPrices, Tenant } from "../base/domain/Tenant.ts"
export { type Service, Tenants } from "./Tenancy.ts"

/** Finds a tenant by its id; `undefined` if it is unknown. */
export type Lookup<R = never> = (id: string) => Effect.Effect<Tenant | undefined, never, R>

/** Time until a reservation expires whose process died, in milliseconds. */
const expiresIn = 120_000

/** Time after which the ends of calls are written if no other call follows, in milliseconds. */
const settleDelay = 1_000

/** Number of hexadecimal digits of an id of a reservation or a place. */
const placeIdLength = 24

/** Least number of output tokens for which a call is made. */
const leastOutput = 64

const million = 1_000_000

const toLimits = ({ callsPerMinute, perDay, perMonth }: Tenant): TenantLedger.Limits => ({
  dayTokens: perDay?.tokens,
  dayNanos: perDay?.dollars === undefined ? undefined : toNanos(perDay.dollars),
  monthTokens: perMonth?.tokens,
  monthNanos: perMonth?.dollars === undefined ? undefined : toNanos(perMonth.dollars),
  callsPerMinute
})

const limitsMoney = ({ perDay, perMonth, perRun }: Tenant): boolean =>
  [perDay, perMonth, perRun].some((allowance) => allowance?.dollars !== undefined)

const makeSpentError = (
  tenant: string,
  spent: Pick<TenantLedger.Spent, "kind"> & { readonly period: "run" | "day" | "month"; readonly freeAt?: number }
): TenantRefused => {
  const when = spent.freeAt === undefined ? "" : `; it is free again at ${new Date(spent.freeAt).toISOString()}`
  return new TenantRefused({
    tenant,
    reason: "allowance",
    message:
      `the allowance of tenant ${tenant} for the ${spent.period} leaves no room for a model call ` +
      `(${spent.kind})${when}`,
    ...spent
  })
}

/** Returns the cost of usage in nanodollars by the tenant's policy for unknown prices; `undefined` if it refuses. */
const priceUsage = (tenant: Tenant, nanos: number | undefined, usage: Usage.Usage): number | undefined => {
  if (nanos !== undefined) return nanos
  const { unknownPrices = "refuse" } = tenant
  if (unknownPrices === "refuse") return limitsMoney(tenant) ? undefined : 0
  const prompt = Usage.countTotalTokens(usage) - usage.outputTokens
  return Math.ceil(toNanos(unknownPrices.input * prompt + unknownPrices.output * usage.outputTokens) / million)
}

/** Allowance of one run, which this process keeps. */
interface RunAllowance {
  spent: Amounts
  reserved: Amounts
}

const subtract = (a: Amounts, b: Amounts): Amounts => ({ tokens: a.tokens - b.tokens, nanos: a.nanos - b.nanos })

/** Returns the output tokens for which the allowance of a run has room, and the kind that bounds them. */
const findRunRoom = (
  allowance: Allowance,
  { reserved, spent }: RunAllowance,
  prompt: Amounts,
  outputNanos: number
): { readonly output: number; readonly kind: "tokens" | "cost" } => {
  const used = add(add(spent, reserved), prompt)
  const tokens = allowance.tokens === undefined ? Infinity : allowance.tokens - used.tokens
  const left = allowance.dollars === undefined ? Infinity : toNanos(allowance.dollars) - used.nanos
  const money =
    left === Infinity ? Infinity : outputNanos > 0 ? Math.floor(left / outputNanos) : left < 0 ? -1 : Infinity
  return tokens <= money ? { output: tokens, kind: "tokens" } : { output: money, kind: "cost" }
}

/** The ends of calls that are not written yet, and the reservations in flight. */
const makeLedgerWriter = Effect.fnUntraced(function* (ledger: TenantLedger.Service) {
  const scope = yield* Effect.scope
  const pending = new Map<string, Array<TenantLedger.Settlement>>()
  const inFlight = new Set<string>()
  let renewing: Fiber.Fiber<void> | undefined

  const takePending = (tenant: string): ReadonlyArray<TenantLedger.Settlement> => {
    const settled = pending.get(tenant) ?? []
    pending.delete(tenant)
    return settled
  }
  /** Returns settlements that could not be written, so that the next write includes them. */
  const putBack = (tenant: string, settled: ReadonlyArray<TenantLedger.Settlement>): void => {
    if (settled.length > 0) pending.set(tenant, [...settled, ...(pending.get(tenant) ?? [])])
  }
  const flush = (tenant: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const settled = takePending(tenant)
      if (settled.length === 0) return Effect.void
      return Effect.catch(ledger.settle(tenant, settled), (error) => {
        putBack(tenant, settled)
        return Effect.logWarning(`The usage of tenant ${tenant} is not written yet: ${error.message}`)
      })
    })
  const renewAll = Effect.suspend(() =>
    inFlight.size === 0
      ? Effect.void
      : Effect.catch(ledger.renew(Array.from(inFlight), expiresIn), (error) =>
          Effect.logWarning(`The reservations of model calls are not renewed: ${error.message}`)
        )
  )
  const renew = Effect.asVoid(Effect.schedule(renewAll, Schedule.spaced(expiresIn / 3)))
  yield* Effect.addFinalizer(() => Effect.forEach(Array.from(pending.keys()), flush, { discard: true }))

  return {
    takePending,
    putBack,
    flush,
    hold: (id: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        inFlight.add(id)
        if (renewing !== undefined) return Effect.void
        return Effect.map(Effect.forkIn(renew, scope), (fiber) => {
          renewing = fiber
        })
      }),
    release: (id: string): void => {
      inFlight.delete(id)
    },
    settle: (tenant: string, settlement: TenantLedger.Settlement): Effect.Effect<void> =>
      Effect.suspend(() => {
        inFlight.delete(settlement.id)
        const waiting = pending.get(tenant)
        if (waiting !== undefined) {
          waiting.push(settlement)
          return Effect.void
        }
        pending.set(tenant, [settlement])
        return Effect.asVoid(Effect.forkIn(Effect.delay(flush(tenant), settleDelay), scope))
      })
  }
})

type LedgerWriter = Effect.Success<ReturnType<typeof makeLedgerWriter>>

/** Reserves a call in the ledger, and waits while the calls of the minute are used up. */
const reserveInLedger = (
  ledger: TenantLedger.Service,
  writer: LedgerWriter,
  request: Omit<TenantLedger.ReserveRequest, "settled">,
  reportWait: (millis: number) => Effect.Effect<void>
): Effect.Effect<number, TenantRefused | SessionStoreError> =>
  Effect.suspend(() => {
    const settled = writer.takePending(request.tenant)
    return ledger.reserve({ ...request, settled }).pipe(
      Effect.onError(() => Effect.sync(() => writer.putBack(request.tenant, settled))),
      Effect.flatMap((decision): Effect.Effect<number, TenantRefused | SessionStoreError> => {
        switch (decision._tag) {
          case "Reserved":
            return Effect.succeed(decision.output)
          case "Spent": {
            const { freeAt, kind, period } = decision
            return Effect.fail(makeSpentError(request.tenant, { freeAt, kind, period }))
          }
          case "Paced":
            return Effect.andThen(
              Effect.andThen(reportWait(decision.waitMillis), Effect.sleep(decision.waitMillis)),
              reserveInLedger(ledger, writer, request, reportWait)
            )
        }
      })
    )
  })

/** Creates the ledger of one run. */
const makeSpending = (tenant: Tenant, ledger: TenantLedger.Service, writer: LedgerWriter): Spending.Spending => {
  const limits = toLimits(tenant)
  const run: RunAllowance = { spent: nothing, reserved: nothing }
  return {
    tenant: tenant.id,
    reserve: (planned) =>
      Effect.gen(function* () {
        const price = (usage: Usage.Usage) => priceUsage(tenant, planned.computeNanos(usage), usage)
        const promptNanos = price({ ...Usage.zero, inputTokens: planned.promptTokens })
        const millionNanos = price({ ...Usage.zero, outputTokens: million })
        if (promptNanos === undefined || millionNanos === undefined) {
          return yield* new TenantRefused({
            tenant: tenant.id,
            reason: "price",
            message:
              `the price of ${planned.model} is unknown, and tenant ${tenant.id} has a limit in dollars: ` +
              "set the price of the model, or unknownPrices of the tenant"
          })
        }
        const prompt: Amounts = { tokens: planned.promptTokens, nanos: promptNanos }
        const outputNanos = millionNanos / million
        const wanted = Math.max(1, planned.wantedOutput)
        const least = Math.min(leastOutput, wanted)
        const room = findRunRoom(tenant.perRun ?? {}, run, prompt, outputNanos)
        if (room.output < least) return yield* makeSpentError(tenant.id, { kind: room.kind, period: "run" })
        const asked = Math.min(wanted, room.output)
        const computeHold = (output: number): Amounts => ({
          tokens: prompt.tokens + output,
          nanos: prompt.nanos + Math.ceil(output * outputNanos)
        })
        const first = computeHold(asked)
        run.reserved = add(run.reserved, first)
        const id = yield* Ids.makeHex(placeIdLength)
        yield* writer.hold(id)
        const giveUp = Effect.sync(() => {
          run.reserved = subtract(run.reserved, first)
          writer.release(id)
        })
        const request = {
          tenant: tenant.id,
          id,
          limits,
          prompt,
          outputNanos,
          leastOutput: least,
          wantedOutput: asked,
          expiresIn
        }
        const output = yield* Effect.onError(reserveInLedger(ledger, writer, request, planned.reportWait), () => giveUp)
        return {
          output,
          settle: ({ nanos, usage }) =>
            Effect.suspend(() => {
              const outputTokens = usage.outputTokens
              const inputTokens = Usage.countTotalTokens(usage) - outputTokens
              const used = { tokens: inputTokens + outputTokens, nanos: priceUsage(tenant, nanos, usage) ?? 0 }
              run.reserved = subtract(run.reserved, first)
              run.spent = add(run.spent, used)
              return writer.settle(tenant.id, {
                id,
                model: planned.model,
                inputTokens,
                outputTokens,
                nanos: used.nanos
              })
            })
        }
      })
  }
}

/** Creates the tenants over a ledger. */
export const make = Effect.fnUntraced(function* <R = never>(
  lookup: Lookup<R>
): Effect.fn.Return<Service, never, TenantLedger.TenantLedger | Scope.Scope | R> {
  const ledger = yield* TenantLedger.TenantLedger
  const services = yield* Effect.context<R>()
  const writer = yield* makeLedgerWriter(ledger)

  const findTenant = (id: string) =>
    Effect.flatMap(Effect.provide(lookup(id), services), (tenant) =>
      tenant === undefined
        ? Effect.fail(
            new TenantRefused({ tenant: id, reason: "unknown", message: `there is no tenant ${formatTenant(id)}` })
          )
        : Effect.succeed(tenant)
    )

  const enter = ({ id: tenant }: Tenant, runs: number) =>
    Effect.gen(function* () {
      const id = yield* Ids.makeHex(placeIdLength)
      const isFree = yield* ledger.enter(tenant, id, runs, expiresIn)
      if (isFree) return yield* Effect.as(writer.hold(id), id)
      return yield* new TenantRefused({
        tenant,
        reason: "busy",
        message: `tenant ${tenant} has ${runs} runs at the same time already: try again when one ends`
      })
    })

  const leave = (id: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      writer.release(id)
      return Effect.catch(ledger.leave(id), (error) => Effect.logWarning(error.message))
    })

  const holdPlace = <A, E, R>(tenant: Tenant, effect: Effect.Effect<A, E, R>) =>
    tenant.concurrentRuns === undefined
      ? effect
      : Effect.acquireUseRelease(enter(tenant, tenant.concurrentRuns), () => effect, leave)

  const boundCalls = <A, E, R>(tenant: Tenant, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    effect.pipe(
      Effect.provideService(Spending.CurrentSpending, makeSpending(tenant, ledger, writer)),
      Effect.provideService(AllowedTools, tenant.tools),
      Effect.ensuring(writer.flush(tenant.id))
    )

  return {
    within: (id, effect) => Effect.flatMap(findTenant(id), (tenant) => holdPlace(tenant, boundCalls(tenant, effect))),
    bound: (id, effect) => Effect.flatMap(findTenant(id), (tenant) => boundCalls(tenant, effect)),
    balance: (tenant) => Effect.andThen(writer.flush(tenant), ledger.balance(tenant)),
    usage: (filter) =>
      Effect.andThen(filter?.tenant === undefined ? Effect.void : writer.flush(filter.tenant), ledger.usage(filter)),
    remove: (tenant) => Effect.andThen(writer.flush(tenant), ledger.remove(tenant))
  }
})

/** Options of {@link layer}. */
export interface Options<R = never> {
  readonly lookup: Lookup<R>
  /** Ledger of the spending. Defaults to one in memory. */
  readonly ledger?: Layer.Layer<TenantLedger.TenantLedger> | undefined
}

/** Provides the tenants that an application looks up, for example in its own database. */
export const layer = <R = never>({
  ledger = TenantLedger.layerMemory,
  lookup
}: Options<R>): Layer.Layer<Tenants, never, R> => Layer.provide(Layer.effect(Tenants, make(lookup)), ledger)

/** Provides the tenants of a list. */
export const layerFrom = (
  tenants: ReadonlyArray<Tenant>,
  ledger?: Layer.Layer<TenantLedger.TenantLedger>
): Layer.Layer<Tenants> => {
  const byId = new Map(tenants.map((tenant) => [tenant.id, tenant]))
  return layer({ lookup: (id) => Effect.sync(() => byId.get(id)), ledger })
}
