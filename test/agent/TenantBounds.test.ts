// The bound of a tenant's spending against a provider that charges as much as it can: prompts of one token for each
// byte, whole answers for calls that break off or report nothing, dear kinds of tokens, and limits of answers that a
// protocol raises. The provider's own account is compared with the allowance.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Prompt from "effect/ai/Prompt"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import * as TenantLedgerWriter from "../../src/agent/TenantLedgerWriter.ts"
import * as TenantSpending from "../../src/agent/TenantSpending.ts"
import type { ModelCall, ModelRequest } from "../../src/base/domain/ModelCall.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as PromptBound from "../../src/models/routing/PromptBound.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import type { PlannedCall } from "../../src/models/routing/SpendingPort.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Memory from "../../src/store/tenants/MemoryTenantLedger.ts"
import { isLong } from "../support/effort.ts"
import * as Fake from "../support/fakeModel.ts"

const acme = (more: Partial<Tenant> = {}): Tenant => ({ id: "acme", ...more })

/** Numbers that look random and follow from a seed. */
const makeRandom = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

const countBytes = (call: ModelCall | undefined): number =>
  Buffer.byteLength((call?.messages ?? []).map(({ content }) => JSON.stringify(content)).join(""))

const networkFailure = Fake.failure(new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "" }))

/** A provider that charges one token for each byte of a prompt, and whole answers for calls without an account. */
const makeDearProvider = (seed: number) => {
  const random = makeRandom(seed)
  let charged = 0
  const fake: Fake.Fake = Fake.make((_, options) =>
    Effect.gen(function* () {
      const call = fake.asked.at(-1)
      const input = countBytes(call)
      const output = call?.maxOutputTokens ?? 0
      const kind = random()
      const used = Math.ceil(output * random())
      yield* Effect.yieldNow
      if (kind < 0.1) return yield* Effect.fail(Fake.failure(new AiError.InvalidRequestError({ description: "no" })))
      const answer = Fake.textAnswer("x".repeat(Math.min(used, 300)))
      if (kind < 0.7) {
        charged += input + used
        return { ...answer, usage: Usage.toResponse({ input, output: used }) }
      }
      // The provider reports nothing of these calls, and charges the most that they can cost.
      charged += input + output
      if (kind < 0.8) return yield* Effect.fail(networkFailure)
      if (kind < 0.9) return yield* Effect.interrupt
      yield* (
        options?.onPart?.([
          Response.makePart("text-start", { id: "1" }),
          Response.makePart("text-delta", { id: "1", delta: "Half an answer" })
        ]) ?? Effect.void
      )
      return yield* Effect.fail(networkFailure)
    })
  )
  return { fake, readCharged: () => charged }
}

const runtimeWith = (fake: Fake.Fake, tenant: Tenant, retry = RetryPolicy.make({ attempts: 2, base: 0 })) =>
  Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    retry,
    tenants: Tenants.layerFrom([tenant]),
    maxOutputTokens: 400
  }).pipe(Layer.provide(NodeServices.layer))

/** The runtime's tenants, which its type does not name. */
const withTenants = <A, E, R>(effect: Effect.Effect<A, E, R | Tenants.Tenants>) =>
  // `Runtime.layer` passes on the layer of its option.
  effect as Effect.Effect<A, E, R>

describe("the allowance of a tenant", () => {
  for (const seed of isLong ? [1, 7, 42] : [1]) {
    it.live(`is not overrun by a dear provider whose calls break off, and is used (seed ${seed})`, () => {
      const { fake, readCharged } = makeDearProvider(seed)
      const allowance = 100_000
      const run = (prompt: string) =>
        Effect.exit(Agent.run({ prompt, tenant: "acme", streaming: true }).pipe(Effect.timeout("4 minutes")))
      return Effect.gen(function* () {
        const random = makeRandom(seed)
        const prompts = Array.from({ length: 300 }, () =>
          "数字と漢字は三バイト 12345 😀 ".repeat(Math.ceil(random() * 8))
        )
        yield* Effect.forEach(prompts, run, { concurrency: 40 })
        assert.isAtMost(readCharged(), allowance)
        const { reserved, spentToday } = yield* Tenants.Tenants.use((tenants) => tenants.balance("acme"))
        assert.strictEqual(reserved.tokens, 0)
        assert.isAtMost(spentToday.tokens, allowance)
        assert.isAtLeast(spentToday.tokens, readCharged())
        assert.isAtLeast(spentToday.tokens, allowance * 0.95)
      }).pipe(withTenants, Effect.provide(runtimeWith(fake, acme({ perDay: { tokens: allowance } }))))
    })
  }

  it.effect("pays the answer that a protocol makes longer than it was granted, or makes no call", () => {
    const fake = Fake.make(Fake.text("done"))
    const sent: Array<unknown> = []
    const raising = {
      ...fake.provider,
      prepare: (call: ModelCall) =>
        Effect.succeed({ model: "fake-1", max_tokens: Math.max(5_000, call.maxOutputTokens ?? 0) }),
      execute: (request: ModelRequest) => {
        sent.push(request["max_tokens"])
        return Effect.succeed(Fake.textAnswer("done"))
      }
    }
    const runWith = (tokens: number) =>
      Effect.provide(
        Agent.run({ prompt: "go", tenant: "acme" }),
        runtimeWith({ ...fake, provider: raising }, acme({ perDay: { tokens } }))
      )
    return Effect.gen(function* () {
      assert.deepInclude(yield* runWith(4_000), { exit: "budget_exhausted", limit: "allowance" })
      assert.deepStrictEqual(sent, [])
      assert.strictEqual((yield* runWith(8_000)).exit, "text_response")
      assert.deepStrictEqual(sent, [5_000])
    })
  })

  it.effect("keeps the beginning of an answer whose continuation it refuses", () => {
    const fake = Fake.make(() =>
      Effect.succeed({
        ...Fake.answer([Response.makePart("text", { text: "The first half, " })], "length"),
        usage: Usage.toResponse({ input: 500, output: 400 })
      })
    )
    return Effect.gen(function* () {
      const { exit, text } = yield* Agent.run({ prompt: "go", tenant: "acme" })
      assert.strictEqual(exit, "budget_exhausted")
      assert.match(text, /^The first half, \n\nStopped: the allowance of tenant acme for the day/u)
    }).pipe(Effect.provide(runtimeWith(fake, acme({ perDay: { tokens: 1_400 } }))))
  })

  it.effect("ends a run that waits for calls in flight when the run is interrupted", () => {
    const fake = Fake.make(() => Effect.never)
    return Effect.gen(function* () {
      const first = yield* Effect.forkChild(Agent.run({ prompt: "go", tenant: "acme" }))
      while (fake.executed.length === 0) yield* Effect.yieldNow
      const second = yield* Effect.forkChild(Agent.run({ prompt: "go", tenant: "acme" }))
      for (let at = 0; at < 100; at++) yield* Effect.yieldNow
      yield* Fiber.interrupt(second)
      assert.strictEqual(fake.executed.length, 1)
      yield* Fiber.interrupt(first)
    }).pipe(Effect.provide(runtimeWith(fake, acme({ perDay: { tokens: 1_400 } }))))
  })

  it.effect("is refused to a tenant whose limits are not numbers", () =>
    Effect.gen(function* () {
      const fake = Fake.make(Fake.text("done"))
      for (const tenant of [
        acme({ perDay: { tokens: Number.NaN } }),
        acme({ perMonth: { dollars: -1 } }),
        acme({ callsPerMinute: 0 }),
        acme({ retentionDays: -1 }),
        acme({ unknownPrices: { input: Number.NaN, output: 1 } }),
        acme({ unknownPrices: { input: 1, output: -1 } }),
        // Values of a lookup that is not typed.
        acme(JSON.parse('{"models":"fake-1-large"}')),
        acme(JSON.parse('{"tools":"file"}')),
        acme(JSON.parse('{"maxMode":"root"}'))
      ]) {
        const error = yield* Effect.flip(
          Effect.provide(Agent.run({ prompt: "go", tenant: "acme" }), runtimeWith(fake, tenant))
        )
        assert.deepInclude(error, { _tag: "TenantRefused", reason: "limits" })
      }
      assert.strictEqual(fake.executed.length, 0)
    })
  )
})

describe("the reservation of a call", () => {
  /** Reserves one call, and returns what the ledger holds and what it counts after `used`. */
  const reserveOnce = (tenant: Tenant, planned: Partial<PlannedCall>, usage: Partial<Usage.Usage>, nanos?: number) =>
    Effect.gen(function* () {
      const ledger = Memory.make()
      const spending = TenantSpending.makeSpending(tenant, ledger, yield* TenantLedgerWriter.makeLedgerWriter(ledger))
      const grant = yield* spending.reserve({
        provider: "p",
        model: "m",
        prompt: { bound: 1_000, estimate: 300 },
        wantedOutput: 500,
        computeNanos: () => 0,
        reportWait: () => Effect.void,
        ...planned
      })
      const { reserved } = yield* ledger.balance("acme")
      yield* grant.settle({ usage: { ...Usage.zero, ...usage }, nanos, mostOutput: undefined })
      yield* Effect.yieldNow
      return { reserved, settle: grant.output }
    }).pipe(Effect.scoped)

  const dear = (usage: Usage.Usage): number =>
    usage.requestCount * 7_000 + usage.inputTokens * 10 + usage.cacheWriteTokens * 20 + usage.outputTokens * 50

  it.effect("includes the price of the request, and of prompts that are written to a cache", () =>
    Effect.gen(function* () {
      const { reserved } = yield* reserveOnce(acme({ perDay: { dollars: 1 } }), { computeNanos: dear }, {})
      assert.deepStrictEqual(reserved, { tokens: 1_500, nanos: 7_000 + 1_000 * 20 + 500 * 50 })
    })
  )

  /** Settles one call, and returns what counts against the limits. */
  const settleOnce = (usages: ReadonlyArray<Partial<Usage.Usage>>, nanos?: number) =>
    Effect.gen(function* () {
      const ledger = Memory.make()
      const writer = yield* TenantLedgerWriter.makeLedgerWriter(ledger)
      const spending = TenantSpending.makeSpending(acme({ perDay: { dollars: 1 } }), ledger, writer)
      const planned = { provider: "p", model: "m", prompt: { bound: 1_000, estimate: 300 }, wantedOutput: 500 }
      const grant = yield* spending.reserve({ ...planned, computeNanos: dear, reportWait: () => Effect.void })
      for (const usage of usages)
        yield* grant.settle({ usage: { ...Usage.zero, ...usage }, nanos, mostOutput: undefined })
      yield* writer.flush("acme")
      return (yield* ledger.balance("acme")).spentToday
    }).pipe(Effect.scoped)

  it.effect("is not settled with amounts that are no amounts", () =>
    Effect.gen(function* () {
      const held = { tokens: 1_500, nanos: 7_000 + 1_000 * 20 + 500 * 50 }
      const none = yield* settleOnce([{ inputTokens: Number.NaN, outputTokens: Number.NaN }], Number.NaN)
      assert.isAtLeast(none.tokens, held.tokens)
      assert.isAtLeast(none.nanos, held.nanos)
      assert.deepStrictEqual(yield* settleOnce([{ inputTokens: -50, outputTokens: -50 }], -1_000), {
        tokens: 0,
        nanos: 0
      })
      const most = yield* settleOnce([{ inputTokens: Infinity, outputTokens: 1e300 }], Infinity)
      for (const amount of [most.tokens, most.nanos]) assert.isTrue(Number.isSafeInteger(amount) && amount > held.nanos)
      assert.deepStrictEqual(yield* settleOnce([{ inputTokens: 1.5 }], 2.5), { tokens: 2, nanos: 3 })
    })
  )

  it.effect("is settled once", () =>
    Effect.gen(function* () {
      const once = yield* settleOnce([{ inputTokens: 10, outputTokens: 10 }], 5)
      assert.deepStrictEqual(yield* settleOnce([{ inputTokens: 10, outputTokens: 10 }, {}], 5), once)
    })
  )

  it.effect("of a run has no more room after a call that is settled twice", () =>
    Effect.gen(function* () {
      const ledger = Memory.make()
      const writer = yield* TenantLedgerWriter.makeLedgerWriter(ledger)
      const spending = TenantSpending.makeSpending(acme({ perRun: { tokens: 2_000 } }), ledger, writer)
      const planned = { provider: "p", model: "m", prompt: { bound: 1_000, estimate: 300 }, wantedOutput: 500 }
      const reserve = spending.reserve({ ...planned, computeNanos: () => 0, reportWait: () => Effect.void })
      const used = { usage: { ...Usage.zero, inputTokens: 1_000 }, nanos: 0, mostOutput: undefined }
      const { settle } = yield* reserve
      yield* settle(used)
      yield* settle({ ...used, usage: Usage.zero })
      const refused = yield* Effect.flip(reserve)
      assert.deepInclude(refused, { _tag: "TenantRefused", period: "run" })
    }).pipe(Effect.scoped)
  )

  it.effect("counts an answer whose output its provider did not count", () =>
    Effect.gen(function* () {
      const answer = { ...Fake.textAnswer("x".repeat(3_000)), usage: Usage.toResponse({ input: 10, output: 0 }) }
      const fake = Fake.make(() => Effect.succeed(answer))
      const { spentToday } = yield* Effect.gen(function* () {
        yield* Agent.run({ prompt: "go", tenant: "acme" })
        return yield* Tenants.Tenants.use((tenants) => tenants.balance("acme"))
      }).pipe(withTenants, Effect.provide(runtimeWith(fake, acme({ perDay: { tokens: 1_000_000 } }))))
      assert.isAtLeast(spentToday.tokens, 400)
    })
  )

  it.effect("is an estimate if the tenant wants that", () =>
    Effect.gen(function* () {
      const { reserved } = yield* reserveOnce(acme({ reserve: "estimate" }), {}, {})
      assert.strictEqual(reserved.tokens, 800)
    })
  )
})

describe("the bound of a prompt", () => {
  const message = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
  const tools: ModelCall["tools"] = []
  const call = (messages: ReadonlyArray<Prompt.Message>): ModelCall => ({
    messages,
    tools,
    toolChoice: "auto",
    responseFormat: { type: "text" },
    stream: false
  })

  it("is at least the number of its bytes", () => {
    for (const text of ["plain", "漢字", "😀😀", "\ud83d", "\u0000\u0001\n\t", '"\\', "é"]) {
      const bound = PromptBound.boundPrompt("route", call([message(text)]))
      assert.isAtLeast(bound, Buffer.byteLength(JSON.stringify(text)), text)
    }
  })

  it("uses the count of the same beginning by the same route, and the bytes of the rest", () => {
    const messages = [message("a".repeat(4_000)), message("b".repeat(400))]
    const longer = call([...messages, message("c".repeat(100))])
    const bytes = PromptBound.boundPrompt("route", longer)
    PromptBound.noteCounted("route", call(messages), 1_000)
    const bound = PromptBound.boundPrompt("route", longer)
    assert.isBelow(bound, 1_400)
    assert.isAtLeast(bound, 1_100)
    assert.strictEqual(PromptBound.boundPrompt("other", longer), bytes)
    // A conversation with other messages before the counted end.
    const other = call([message("z".repeat(4_000)), ...longer.messages.slice(1)])
    assert.strictEqual(PromptBound.boundPrompt("route", other), bytes)
  })
})
