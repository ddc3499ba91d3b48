/**
 * The ledger of one run of a tenant: reserves the largest cost of its model calls, and settles what they used.
 *
 * **Details**
 *
 * A call for which calls in flight leave too little room waits until one of them ends. The calls of a tenant that wait
 * in one process do so in order, and the first of them asks the ledger. A call within another call does not wait,
 * because the other call holds its room until then.
 *
 * A reservation is not interruptible, so that none is lost, but its waits are.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import * as PermissionMode from "../base/config/PermissionMode.ts"
import { type SessionStoreError, TenantRefused } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import {
  add,
  type Allowance,
  type Amounts,
  nothing,
  subtractAmounts,
  type Tenant,
  toNanos
} from "../base/domain/Tenant.ts"
import * as Usage from "../base/domain/Usage.ts"
import * as Spending from "../models/routing/SpendingPort.ts"
import type { TenantRoutes } from "../models/routing/TenantRoutes.ts"
import type * as TenantLedger from "../store/tenants/TenantLedger.ts"
import { announceEnd, expiresIn, type LedgerWriter, type WaitingLine } from "./TenantLedgerWriter.ts"

/** Time after which a waiting call asks the ledger again if no call of this process has ended, in milliseconds. */
const pollEvery = 500

/**
 * Time for which the first waiting call of a tenant waits without an end of another call, in milliseconds. Reservations
 * of processes that died have expired by then.
 */
const patience = expiresIn + 30_000

/** Number of hexadecimal digits of an id of a reservation or a place. */
export const idLength = 24

/** Least number of output tokens for which a call is made. */
const leastOutput = 64

const million = 1_000_000

const isLimit = (value: number | undefined): boolean => value === undefined || value >= 0

const isList = (value: unknown): boolean => value === undefined || Array.isArray(value)

const isMode = (value: unknown): boolean => value === undefined || PermissionMode.all.some((mode) => mode === value)

/**
 * Describes the first limit of a tenant that is not of its type or is less than 0, for a lookup that returns such a
 * value.
 */
const findInvalidLimit = (tenant: Tenant): string | undefined => {
  const { callsPerMinute, concurrentRuns, perDay, perMonth, perRun, unknownPrices } = tenant
  const prices = typeof unknownPrices === "object" ? [unknownPrices.input, unknownPrices.output] : []
  const limits: ReadonlyArray<readonly [name: string, isValid: boolean]> = [
    ...Object.entries({ perRun, perDay, perMonth }).flatMap(([name, allowance]) => [
      [`${name}.tokens`, isLimit(allowance?.tokens)] as const,
      [`${name}.dollars`, isLimit(allowance?.dollars)] as const
    ]),
    ["callsPerMinute", callsPerMinute === undefined || callsPerMinute >= 1],
    ["concurrentRuns", isLimit(concurrentRuns)],
    ["retentionDays", isLimit(tenant.retentionDays)],
    ["unknownPrices", prices.every((price) => Number.isFinite(price) && price >= 0)],
    ["tools", isList(tenant.tools)],
    ["models", isList(tenant.models)],
    ["maxMode", isMode(tenant.maxMode)]
  ]
  return limits.find(([, isValid]) => !isValid)?.[0]
}

/** Fails if a limit of a tenant is not valid. */
export const checkLimits = (tenant: Tenant): Effect.Effect<Tenant, TenantRefused> => {
  const invalid = findInvalidLimit(tenant)
  return invalid === undefined
    ? Effect.succeed(tenant)
    : Effect.fail(
        new TenantRefused({
          tenant: tenant.id,
          reason: "limits",
          message: `the limit ${invalid} of tenant ${tenant.id} is not valid: correct it where tenants are stored`
        })
      )
}

/** Returns a whole number of units of a limit; `undefined` for an infinite one. */
const toWhole = (limit: number | undefined): number | undefined =>
  limit === undefined || limit === Infinity ? undefined : Math.floor(limit)

const toNanosLimit = (dollars: number | undefined): number | undefined =>
  dollars === undefined || dollars === Infinity ? undefined : toNanos(dollars)

const toLimits = ({ callsPerMinute, perDay, perMonth }: Tenant): TenantLedger.Limits => ({
  dayTokens: toWhole(perDay?.tokens),
  dayNanos: toNanosLimit(perDay?.dollars),
  monthTokens: toWhole(perMonth?.tokens),
  monthNanos: toNanosLimit(perMonth?.dollars),
  callsPerMinute: toWhole(callsPerMinute)
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
  const prompt = Usage.countPromptTokens(usage)
  return Math.ceil(toNanos(unknownPrices.input * prompt + unknownPrices.output * usage.outputTokens) / million)
}

/** Largest cost of a prompt, and the price of an output token in nanodollars. */
interface CallPrice {
  readonly prompt: Amounts
  readonly outputNanos: number
}

/** Prices a planned call by its dearest kind of prompt tokens; `undefined` if the tenant refuses unknown prices. */
const priceCall = (tenant: Tenant, { computeNanos, prompt }: Spending.PlannedCall): CallPrice | undefined => {
  const tokens = tenant.reserve === "estimate" ? prompt.estimate : prompt.bound
  const computePrice = (usage: Partial<Usage.Usage>): number | undefined => {
    const whole = { ...Usage.zero, ...usage }
    return priceUsage(tenant, computeNanos(whole), whole)
  }
  const input = computePrice({ inputTokens: tokens, requestCount: 1 })
  const output = computePrice({ outputTokens: million })
  if (input === undefined || output === undefined) return undefined
  const cached = [
    computePrice({ cacheWriteTokens: tokens, requestCount: 1 }),
    computePrice({ cacheReadTokens: tokens, requestCount: 1 })
  ]
  const nanos = Math.max(input, ...cached.map((cost) => cost ?? 0))
  return { prompt: { tokens, nanos }, outputNanos: output / million }
}

/** Allowance of one run, which this process keeps. */
interface RunAllowance {
  spent: Amounts
  reserved: Amounts
  /** Completed when a call of the run ends. */
  ended: Deferred.Deferred<void>
}

/** Returns the output tokens for which the allowance of a run has room, and the kind that bounds them. */
const findRunRoom = (
  allowance: Allowance,
  used: Amounts,
  outputNanos: number
): { readonly output: number; readonly kind: "tokens" | "cost" } => {
  const tokens = allowance.tokens === undefined ? Infinity : Math.floor(allowance.tokens) - used.tokens
  const left = allowance.dollars === undefined ? Infinity : toNanos(allowance.dollars) - used.nanos
  const money =
    left === Infinity ? Infinity : outputNanos > 0 ? Math.floor(left / outputNanos) : left < 0 ? -1 : Infinity
  return tokens <= money ? { output: tokens, kind: "tokens" } : { output: money, kind: "cost" }
}

/** A request without the parts that change while a call waits. */
type PlannedRequest = Omit<TenantLedger.ReserveRequest, "settled" | "whenHeld">

/** Access to the ledger for one call. */
interface Reserving {
  readonly ledger: TenantLedger.Service
  readonly writer: LedgerWriter
  readonly request: PlannedRequest
  readonly reportWait: (millis: number) => Effect.Effect<void>
}

const askLedger = (
  { ledger, request, writer }: Reserving,
  whenHeld: "wait" | "shrink"
): Effect.Effect<TenantLedger.Decision, SessionStoreError> =>
  Effect.suspend(() => {
    const settled = writer.takePending(request.tenant)
    return Effect.onError(ledger.reserve({ ...request, settled, whenHeld }), () =>
      Effect.sync(() => writer.putBack(request.tenant, settled))
    )
  })

/** Waits for the ends of calls in flight, as the first call of its line. */
const waitForEnds = Effect.fnUntraced(function* (reserving: Reserving, line: WaitingLine) {
  let since = yield* Clock.currentTimeMillis
  while (true) {
    const { ended } = line
    const now = yield* Clock.currentTimeMillis
    const decision = yield* askLedger(reserving, now - since < patience ? "wait" : "shrink")
    if (decision._tag !== "Held") return decision
    const isEnded = yield* Effect.interruptible(
      Effect.raceFirst(Effect.as(Deferred.await(ended), true), Effect.as(Effect.sleep(pollEvery), false))
    )
    if (isEnded) since = yield* Clock.currentTimeMillis
  }
})

const waitInLine = (reserving: Reserving): Effect.Effect<TenantLedger.Decision, SessionStoreError> =>
  Effect.suspend(() => {
    const { reportWait, request, writer } = reserving
    const line = writer.openLine(request.tenant)
    const waited = Effect.acquireUseRelease(
      Effect.interruptible(Semaphore.take(line.turn, 1)),
      () => waitForEnds(reserving, line),
      () => Semaphore.release(line.turn, 1)
    )
    return Effect.ensuring(
      Effect.andThen(reportWait(pollEvery), waited),
      Effect.sync(() => writer.closeLine(request.tenant, line))
    )
  })

/** Decides about a call, after its wait for calls in flight unless it is part of one. */
const decideCall = (
  reserving: Reserving,
  isWithinCall: boolean
): Effect.Effect<TenantLedger.Decision, SessionStoreError> => {
  if (isWithinCall) return askLedger(reserving, "shrink")
  if (reserving.writer.hasLine(reserving.request.tenant)) return waitInLine(reserving)
  return Effect.flatMap(askLedger(reserving, "wait"), (decision) =>
    decision._tag === "Held" ? waitInLine(reserving) : Effect.succeed(decision)
  )
}

/** Reserves a call in the ledger, and waits while the calls of the minute are used up. Returns the granted output. */
const reserveInLedger = Effect.fnUntraced(function* (reserving: Reserving, isWithinCall: boolean) {
  const { reportWait, request } = reserving
  while (true) {
    const decision = yield* decideCall(reserving, isWithinCall)
    if (decision._tag === "Reserved") return decision.output
    if (decision._tag === "Spent") {
      const { freeAt, kind, period } = decision
      return yield* makeSpentError(request.tenant, { freeAt, kind, period })
    }
    const wait = decision._tag === "Paced" ? decision.waitMillis : pollEvery
    yield* reportWait(wait)
    yield* Effect.interruptible(Effect.sleep(wait))
  }
})

/** Takes room in the allowance of the run. Returns the output tokens for which it has room. */
const takeRunRoom = Effect.fnUntraced(function* (
  tenant: Tenant,
  run: RunAllowance,
  { outputNanos, prompt }: CallPrice,
  { isWithinCall, least, wanted }: { readonly least: number; readonly wanted: number; readonly isWithinCall: boolean }
) {
  const allowance = tenant.perRun ?? {}
  const deadline = (yield* Clock.currentTimeMillis) + patience
  while (true) {
    const alone = findRunRoom(allowance, add(run.spent, prompt), outputNanos)
    const room = findRunRoom(allowance, add(add(run.spent, run.reserved), prompt), outputNanos)
    const isHeld = alone.output >= least && room.output < Math.min(wanted, alone.output)
    const left = deadline - (yield* Clock.currentTimeMillis)
    if (isHeld && !isWithinCall && left > 0) {
      yield* Effect.interruptible(Effect.raceFirst(Deferred.await(run.ended), Effect.sleep(left)))
      continue
    }
    if (room.output < least) return yield* makeSpentError(tenant.id, { kind: room.kind, period: "run" })
    return Math.min(wanted, room.output)
  }
})

const makePriceError = ({ id }: Tenant, model: string): TenantRefused =>
  new TenantRefused({
    tenant: id,
    reason: "price",
    message:
      `the price of ${model} is unknown, and tenant ${id} has a limit in dollars: ` +
      "set the price of the model, or unknownPrices of the tenant"
  })

/** Fails if a tenant may not call a model. */
const checkModel = (
  { id, models }: Tenant,
  { model, provider }: Spending.PlannedCall
): Effect.Effect<void, TenantRefused> =>
  models === undefined || models.includes(model) || models.includes(`${provider}/${model}`)
    ? Effect.void
    : Effect.fail(
        new TenantRefused({
          tenant: id,
          reason: "model",
          message: `tenant ${id} may not call ${provider}/${model}: choose one of ${models.join(", ")}`
        })
      )

/** A reservation for a call, and its end. */
interface Hold {
  readonly id: string
  readonly model: string
  readonly price: CallPrice
  readonly output: number
}

const computeHeld = ({ outputNanos, prompt }: CallPrice, output: number): Amounts => ({
  tokens: prompt.tokens + output,
  nanos: prompt.nanos + Math.ceil(output * outputNanos)
})

/** Largest amount of one call, in tokens or nanodollars. The sums of a ledger are 64-bit integers. */
const mostOfCall = 1e15

/** Returns an amount as a whole number of at least 0. An amount that is not a number counts as reserved. */
const toAmount = (value: number, reserved: number): number =>
  Number.isNaN(value) ? reserved : Math.min(mostOfCall, Math.max(0, Math.ceil(value)))

/** Returns the settlement of a call. Usage without a price costs what was reserved for its tokens. */
const makeSettlement = (
  tenant: Tenant,
  { id, model, output, price }: Hold,
  { mostOutput, nanos, usage }: Spending.UsedTokens
): TenantLedger.Settlement => {
  const { outputNanos, prompt } = price
  const inputTokens = toAmount(Usage.countPromptTokens(usage), prompt.tokens)
  const outputTokens = toAmount(usage.outputTokens, output)
  const reserved = Math.ceil((inputTokens * prompt.nanos) / Math.max(1, prompt.tokens) + outputTokens * outputNanos)
  const cost = toAmount(priceUsage(tenant, nanos, usage) ?? reserved, reserved)
  const settlement = { id, model, inputTokens, outputTokens, nanos: cost }
  return mostOutput === undefined || tenant.reserve === "estimate"
    ? settlement
    : { ...settlement, atMost: computeHeld(price, Math.min(output, mostOutput)) }
}

/** Creates the ledger of one run. */
export const makeSpending = (
  tenant: Tenant,
  ledger: TenantLedger.Service,
  writer: LedgerWriter,
  routes?: TenantRoutes
): Spending.Spending => {
  const limits = toLimits(tenant)
  const run: RunAllowance = { spent: nothing, reserved: nothing, ended: Deferred.makeUnsafe() }

  const endHold = (held: Amounts, settlement: TenantLedger.Settlement) =>
    Effect.suspend(() => {
      const { atMost, inputTokens, nanos, outputTokens } = settlement
      run.reserved = subtractAmounts(run.reserved, held)
      run.spent = add(run.spent, atMost ?? { tokens: inputTokens + outputTokens, nanos })
      run.ended = announceEnd(run.ended)
      return writer.settle(tenant.id, settlement)
    })

  const reserveCall = Effect.fnUntraced(function* (planned: Spending.PlannedCall) {
    yield* checkModel(tenant, planned)
    const price = priceCall(tenant, planned)
    if (price === undefined) return yield* makePriceError(tenant, planned.model)
    const isWithinCall = yield* Spending.HoldsReservation
    const wanted = Math.max(1, Math.floor(planned.wantedOutput))
    const least = planned.requiredOutput ?? Math.min(leastOutput, wanted)
    const asked = yield* takeRunRoom(tenant, run, price, { least, wanted, isWithinCall })
    const held = computeHeld(price, asked)
    run.reserved = add(run.reserved, held)
    const id = yield* Ids.makeHex(idLength)
    const hold = { id, model: planned.model, price }
    const noUsage = { id, model: planned.model, inputTokens: 0, outputTokens: 0, nanos: 0 }
    const request: PlannedRequest = {
      tenant: tenant.id,
      id,
      limits,
      prompt: price.prompt,
      outputNanos: price.outputNanos,
      leastOutput: least,
      wantedOutput: asked,
      expiresIn
    }
    yield* writer.hold(id)
    const reserving = { ledger, writer, request, reportWait: planned.reportWait }
    const output = yield* Effect.onExit(reserveInLedger(reserving, isWithinCall), (exit) =>
      exit._tag === "Success" ? Effect.void : endHold(held, noUsage)
    )
    let isSettled = false
    return {
      output,
      settle: (used: Spending.UsedTokens) =>
        Effect.suspend(() => {
          if (isSettled) return Effect.void
          isSettled = true
          return endHold(held, makeSettlement(tenant, { ...hold, output }, used))
        })
    }
  })
  return { tenant: tenant.id, routes, reserve: (planned) => Effect.uninterruptible(reserveCall(planned)) }
}
