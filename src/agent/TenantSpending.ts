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
import { memoize } from "effect/Function"
import * as Semaphore from "effect/Semaphore"
import { type SessionStoreError, TenantRefused } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import {
  add,
  type Allowance,
  type Amounts,
  formatTenant,
  nothing,
  subtractAmounts,
  type Tenant,
  toNanos
} from "../base/domain/Tenant.ts"
import * as Usage from "../base/domain/Usage.ts"
import * as Spending from "../models/routing/SpendingPort.ts"
import type { TenantRoutes } from "../models/routing/TenantRoutes.ts"
import type * as TenantLedger from "../store/tenants/TenantLedger.ts"
import { limitsMoney, toLimits } from "./TenantLimits.ts"
import type * as TenantLeases from "./TenantLeases.ts"
import { announceEnd, expiresIn, idLength, type LedgerWriter, type WaitingLine } from "./TenantLedgerWriter.ts"

/** Time after which a waiting call asks the ledger again if no call of this process has ended, in milliseconds. */
const pollEvery = 500

/**
 * Time for which the first waiting call of a tenant waits without an end of another call, in milliseconds. Reservations
 * of processes that died have expired by then.
 */
const patience = expiresIn + 30_000

/** Least number of output tokens for which a call is made. */
const leastOutput = 64

const million = 1_000_000

const makeSpentError = (
  tenant: string,
  spent: Pick<TenantLedger.Spent, "kind"> & { readonly period: "run" | "day" | "month"; readonly freeAt?: number }
): TenantRefused => {
  const when = spent.freeAt === undefined ? "" : `; it is free again at ${new Date(spent.freeAt).toISOString()}`
  return new TenantRefused({
    tenant,
    reason: "allowance",
    message:
      `the allowance of tenant ${formatTenant(tenant)} for the ${spent.period} leaves no room for a model call ` +
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

/** Prices of a model in nanodollars: of a million tokens of each kind, and of a request. `undefined` if unknown. */
interface ModelPrices {
  readonly input: number | undefined
  readonly output: number | undefined
  readonly cached: ReadonlyArray<number>
  readonly request: number
}

/** Finds the prices by which a function computes costs, once for each function. */
const findPrices = memoize((computeNanos: Spending.PlannedCall["computeNanos"]): ModelPrices => {
  const computePrice = (usage: Partial<Usage.Usage>): number | undefined => computeNanos({ ...Usage.zero, ...usage })
  return {
    input: computePrice({ inputTokens: million }),
    output: computePrice({ outputTokens: million }),
    cached: [computePrice({ cacheWriteTokens: million }), computePrice({ cacheReadTokens: million })].filter(
      (price) => price !== undefined
    ),
    request: computePrice({ requestCount: 1 }) ?? 0
  }
})

/** Prices a planned call by its dearest kind of prompt tokens; `undefined` if the tenant refuses unknown prices. */
const priceCall = (tenant: Tenant, { computeNanos, prompt }: Spending.PlannedCall): CallPrice | undefined => {
  const tokens = tenant.reserve === "estimate" ? prompt.estimate : prompt.bound
  const { cached, request, ...known } = findPrices(computeNanos)
  const input = priceUsage(tenant, known.input, { ...Usage.zero, inputTokens: million })
  const output = priceUsage(tenant, known.output, { ...Usage.zero, outputTokens: million })
  if (input === undefined || output === undefined) return undefined
  const nanos = Math.ceil((Math.max(input, ...cached) * tokens) / million) + request
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
  writer.writePending(request.tenant, (settled) => ledger.reserve({ ...request, settled, whenHeld }))

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

/** Reserves a call in the ledger, and waits while the calls of the minute are used up. */
const reserveInLedger = Effect.fnUntraced(function* (reserving: Reserving, isWithinCall: boolean) {
  const { reportWait, request } = reserving
  while (true) {
    const decision = yield* decideCall(reserving, isWithinCall)
    if (decision._tag === "Reserved") return decision
    if (decision._tag === "Spent") {
      const { freeAt, kind, period } = decision
      return yield* makeSpentError(request.tenant, { freeAt, kind, period })
    }
    const wait = decision._tag === "Paced" ? decision.waitMillis : pollEvery
    yield* reportWait(wait)
    yield* Effect.interruptible(Effect.sleep(wait))
  }
})

/** Output tokens of a call: the least and the largest number that it needs. */
interface NeededOutput {
  readonly least: number
  readonly wanted: number
}

/** Room in the allowance of a run. */
interface RunRoom {
  readonly output: number
  readonly kind: "tokens" | "cost"
  /** True if the room is larger when calls in flight have ended. */
  readonly isHeld: boolean
}

const findRoomBeside = (
  { perRun = {} }: Tenant,
  { reserved, spent }: RunAllowance,
  { outputNanos, prompt }: CallPrice,
  { least, wanted }: NeededOutput
): RunRoom => {
  const alone = findRunRoom(perRun, add(spent, prompt), outputNanos)
  const room = findRunRoom(perRun, add(add(spent, reserved), prompt), outputNanos)
  return {
    output: Math.min(wanted, room.output),
    kind: room.kind,
    isHeld: alone.output >= least && room.output < Math.min(wanted, alone.output)
  }
}

/** Waits for room in the allowance of the run. Returns the output tokens for which it has room. */
const waitForRunRoom = Effect.fnUntraced(function* (
  tenant: Tenant,
  run: RunAllowance,
  price: CallPrice,
  needed: NeededOutput,
  isWithinCall: boolean
) {
  const deadline = (yield* Clock.currentTimeMillis) + patience
  while (true) {
    const { isHeld, kind, output } = findRoomBeside(tenant, run, price, needed)
    const left = deadline - (yield* Clock.currentTimeMillis)
    if (isHeld && !isWithinCall && left > 0) {
      yield* Effect.interruptible(Effect.raceFirst(Deferred.await(run.ended), Effect.sleep(left)))
      continue
    }
    if (output < needed.least) return yield* makeSpentError(tenant.id, { kind, period: "run" })
    return output
  }
})

const makePriceError = ({ id }: Tenant, model: string): TenantRefused =>
  new TenantRefused({
    tenant: id,
    reason: "price",
    message:
      `the price of ${model} is unknown, and tenant ${formatTenant(id)} has a limit in dollars: ` +
      "set the price of the model, or unknownPrices of the tenant"
  })

/** Returns the refusal of a model that a tenant may not call. */
const refuseModel = ({ id, models }: Tenant, { model, provider }: Spending.PlannedCall): TenantRefused | undefined =>
  models === undefined || models.includes(model) || models.includes(`${provider}/${model}`)
    ? undefined
    : new TenantRefused({
        tenant: id,
        reason: "model",
        message: `tenant ${formatTenant(id)} may not call ${provider}/${model}: choose one of ${models.join(", ")}`
      })

const computeHeld = ({ outputNanos, prompt }: CallPrice, output: number): Amounts => ({
  tokens: prompt.tokens + output,
  nanos: prompt.nanos + Math.ceil(output * outputNanos)
})

/** Largest amount of one call, in tokens or nanodollars. The sums of a ledger are 64-bit integers. */
const mostOfCall = 1e15

/** Returns an amount as a whole number of at least 0. An amount that is not a number counts as reserved. */
const toAmount = (value: number, reserved: number): number =>
  Number.isNaN(value) ? reserved : Math.min(mostOfCall, Math.max(0, Math.ceil(value)))

/** A call that is planned, with its price. */
interface PricedCall {
  readonly planned: Spending.PlannedCall
  readonly price: CallPrice
  readonly needed: NeededOutput
}

/** Returns the end of a call. Usage without a price costs what was reserved for its tokens. */
const computeEnd = (
  tenant: Tenant,
  { planned: { model }, price }: PricedCall,
  output: number,
  used: Spending.UsedTokens | undefined
): TenantLeases.CallEnd => {
  if (used === undefined) return { usage: undefined, spent: nothing }
  const { mostOutput, nanos, usage } = used
  const { outputNanos, prompt } = price
  const inputTokens = toAmount(Usage.countPromptTokens(usage), prompt.tokens)
  const outputTokens = toAmount(usage.outputTokens, output)
  const reserved = Math.ceil((inputTokens * prompt.nanos) / Math.max(1, prompt.tokens) + outputTokens * outputNanos)
  const cost = toAmount(priceUsage(tenant, nanos, usage) ?? reserved, reserved)
  return {
    usage: { model, calls: 1, inputTokens, outputTokens, nanos: cost },
    spent:
      mostOutput === undefined || tenant.reserve === "estimate"
        ? { tokens: inputTokens + outputTokens, nanos: cost }
        : computeHeld(price, Math.min(output, mostOutput))
  }
}

/** Plans a call; returns its refusal if the tenant may not make it. */
const planCall = (tenant: Tenant, planned: Spending.PlannedCall): PricedCall | TenantRefused => {
  const refused = refuseModel(tenant, planned)
  if (refused !== undefined) return refused
  const price = priceCall(tenant, planned)
  if (price === undefined) return makePriceError(tenant, planned.model)
  const wanted = Math.max(1, Math.floor(planned.wantedOutput))
  return { planned, price, needed: { wanted, least: planned.requiredOutput ?? Math.min(leastOutput, wanted) } }
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

  const endHold = (held: Amounts, spent: Amounts): void => {
    run.reserved = subtractAmounts(run.reserved, held)
    run.spent = add(run.spent, spent)
    run.ended = announceEnd(run.ended)
  }
  const makeGrant = (lease: TenantLeases.Lease, call: PricedCall, held: Amounts, output: number): Spending.Grant => {
    let isSettled = false
    return {
      output,
      settle: (used) =>
        Effect.suspend(() => {
          if (isSettled) return Effect.void
          isSettled = true
          const end = computeEnd(tenant, call, output, used)
          endHold(held, end.spent)
          return writer.endCall(lease, end)
        })
    }
  }

  /** Uses the room of an earlier reservation; `undefined` if the call has to wait or the ledger has to be asked. */
  const reuseLease = (call: PricedCall, at: number, isWithinCall: boolean): Spending.Grant | undefined => {
    const { isHeld, output } = findRoomBeside(tenant, run, call.price, call.needed)
    if (isHeld || output < call.needed.least) return undefined
    // Calls that wait for room are first.
    if (!isWithinCall && writer.hasLine(tenant.id)) return undefined
    const need = computeHeld(call.price, output)
    const lease = writer.takeLease(tenant.id, { need, limits, at })
    if (lease === undefined) return undefined
    run.reserved = add(run.reserved, need)
    return makeGrant(lease, call, need, output)
  }

  const reserveCall = Effect.fnUntraced(function* (call: PricedCall, isWithinCall: boolean) {
    const { needed, planned, price } = call
    const asked = yield* waitForRunRoom(tenant, run, price, needed, isWithinCall)
    const held = computeHeld(price, asked)
    run.reserved = add(run.reserved, held)
    const id = yield* Ids.makeHex(idLength)
    const room = { need: held, limits, at: yield* Clock.currentTimeMillis }
    const request: PlannedRequest = {
      ...price,
      tenant: tenant.id,
      id,
      limits,
      leastOutput: needed.least,
      wantedOutput: asked,
      expiresIn,
      spareCalls: writer.countSpareCalls(tenant.id, room)
    }
    const reserving = { ledger, writer, request, reportWait: planned.reportWait }
    const granted = yield* Effect.onExit(reserveInLedger(reserving, isWithinCall), (exit) => {
      if (exit._tag === "Success") return Effect.void
      endHold(held, nothing)
      return writer.giveUp(tenant.id, id)
    })
    const need = computeHeld(price, granted.output)
    const at = yield* Clock.currentTimeMillis
    const lease = yield* writer.openLease({ id, tenant: tenant.id, held: granted.held }, { need, limits, at })
    return makeGrant(lease, call, held, granted.output)
  })
  const reservePlanned: Spending.Spending["reserve"] = (planned) =>
    Effect.withFiber((fiber) => {
      const call = planCall(tenant, planned)
      if (call instanceof TenantRefused) return Effect.fail(call)
      const isWithinCall = fiber.getRef(Spending.HoldsReservation)
      const reused = reuseLease(call, fiber.getRef(Clock.Clock).currentTimeMillisUnsafe(), isWithinCall)
      return reused === undefined ? Effect.uninterruptible(reserveCall(call, isWithinCall)) : Effect.succeed(reused)
    })
  return { tenant: tenant.id, routes, reserve: reservePlanned }
}
