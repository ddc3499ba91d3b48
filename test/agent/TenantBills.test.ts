// Bills of generated runs of several tenants: retries, refused requests, broken streams, interrupted runs, children and
// side tasks. Each attempt that a provider sees is on the bill of its tenant once, with the usage that it counted.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { ModelResponse } from "../../src/base/domain/ModelCall.ts"
import { toResponse } from "../../src/base/domain/Usage.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import { Auxiliary } from "../../src/models/routing/Auxiliary.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import { CurrentSpending } from "../../src/models/routing/SpendingPort.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as TenantLedger from "../../src/store/tenants/TenantLedger.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

/** Numbers that look random and follow from a seed. */
const makeRandom = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

/** The provider's account of one tenant. */
interface Account {
  attempts: number
  input: number
  output: number
  /** Attempts whose usage the provider did not report. */
  unknown: number
}

const tenants = ["acme", "globex", "zeta"]

const Look = Tool.make("look", {
  description: "Asks another model",
  parameters: Schema.Struct({ at: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const looking = Toolkit.make(Look)
const askSideModel = Auxiliary.use((auxiliary) =>
  Effect.map(
    auxiliary.call("vision", {
      messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "look" })] })],
      // The ids of a call matter to its record only.
      context: { sessionId: SessionId.make("s1"), taskId: undefined, turnId: undefined } as never
    }),
    ({ text }) => text
  )
)
/** A runtime has the service for its tools, which its type does not say. A side task may fail. */
const sideTask = Effect.orElseSucceed(askSideModel as Effect.Effect<string, unknown>, () => "nothing")
const look = Toolset.make("looking", looking, looking.toLayer({ look: () => sideTask }))

/** A provider with random answers, and its accounts. */
const makeProvider = (random: () => number, isReliable: boolean) => {
  const accounts = new Map(tenants.map((id): readonly [string, Account] => [id, makeAccount()]))
  let calls = 0
  const answerWith = (account: Account, answer: ModelResponse): ModelResponse => {
    const [input, output] = [1 + Math.floor(random() * 200), 1 + Math.floor(random() * 90)]
    account.input += input
    account.output += output
    return { ...answer, usage: toResponse({ input, output }) }
  }
  const fake: Fake.Fake = Fake.make((_, options) =>
    Effect.gen(function* () {
      const tools = (fake.asked.at(-1)?.tools ?? []).map(({ name }) => name)
      const account = accounts.get((yield* CurrentSpending)?.tenant ?? "") ?? assert.fail("a call without a tenant")
      account.attempts++
      const kind = random()
      if (kind < 0.15) {
        const description = "overloaded"
        return yield* Effect.fail(Fake.failure(new AiError.InternalProviderError({ description })))
      }
      if (!isReliable && kind < 0.35) {
        account.unknown++
        yield* options?.onPart?.([Response.makePart("text-start", { id: "1" })]) ?? Effect.void
        yield* options?.onPart?.([Response.makePart("text-delta", { id: "1", delta: "The harbour" })]) ?? Effect.void
        if (kind < 0.25) yield* Effect.sleep(Math.floor(random() * 20_000))
        const reason = new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "" })
        return yield* Effect.fail(Fake.failure(reason))
      }
      const id = `c${++calls}`
      if (kind < 0.55 && tools.includes("look"))
        return answerWith(account, Fake.callsAnswer(Fake.call(id, "look", { at: id })))
      if (kind < 0.65 && tools.includes("delegate_task"))
        return answerWith(account, Fake.callsAnswer(Fake.call(id, "delegate_task", { goal: id })))
      return answerWith(account, Fake.textAnswer("done"))
    })
  )
  return { accounts, layer: Layer.succeed(Provider, fake.provider) }
}

const makeAccount = (): Account => ({ attempts: 0, input: 0, output: 0, unknown: 0 })

/** Makes runs, interrupts some of them, and returns the accounts of the provider and the bills. */
const generateRuns = Effect.fnUntraced(function* (
  seed: number,
  isReliable: boolean,
  ledger: Layer.Layer<TenantLedger.TenantLedger>
) {
  const random = makeRandom(seed)
  const { accounts, layer } = makeProvider(random, isReliable)
  const list = tenants.map((id) => ({ id, perDay: { tokens: 1e9 } }))
  const runtime = Runtime.layer({
    provider: layer,
    retry: RetryPolicy.make({ attempts: 3, base: 0 }),
    tools: [look, Delegate.toolset],
    maxIterations: 6
  }).pipe(Layer.provideMerge(Tenants.layerFrom(list, ledger)), Layer.provide(NodeServices.layer))
  const bills = yield* Effect.gen(function* () {
    const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
    for (let run = 0; run < 12; run++)
      fibers.push(
        yield* Effect.forkChild(Agent.run({ prompt: `go ${run}`, tenant: tenants[run % 3], streaming: true }))
      )
    for (let round = 0; fibers.some((fiber) => fiber.pollUnsafe() === undefined); round++) {
      assert.isBelow(round, 10_000)
      yield* TestClock.adjust(Math.floor(random() * 2_000))
      const cut = isReliable || round % 2 === 0 ? undefined : fibers[Math.floor(random() * 12)]
      if (cut !== undefined) yield* Fiber.interrupt(cut)
    }
    return yield* Tenants.Tenants.use((service) => service.usage())
  }).pipe(Effect.provide(runtime))
  return { accounts, bills }
})

const checkBills = ({ accounts, bills }: Effect.Success<ReturnType<typeof generateRuns>>, label: string): number => {
  let unknown = 0
  for (const [tenant, account] of accounts) {
    const sums = bills
      .filter((row) => row.tenant === tenant)
      .reduce(
        (sum, { calls, inputTokens, outputTokens }) => ({
          calls: sum.calls + calls,
          inputTokens: sum.inputTokens + inputTokens,
          outputTokens: sum.outputTokens + outputTokens
        }),
        { calls: 0, inputTokens: 0, outputTokens: 0 }
      )
    assert.strictEqual(sums.calls, account.attempts, `${label} ${tenant}`)
    if (account.unknown === 0)
      assert.deepInclude(sums, { inputTokens: account.input, outputTokens: account.output }, `${label} ${tenant}`)
    else assert.isAbove(sums.inputTokens + sums.outputTokens, account.input + account.output, `${label} ${tenant}`)
    unknown += account.unknown
  }
  return unknown
}

const first = Number(process.env["SEED"] ?? 1)

describe("the bills of tenants", () => {
  for (const isReliable of [true, false])
    it.effect(
      `have each attempt once ${isReliable ? "and what was counted" : "with broken and interrupted calls"}`,
      () =>
        Effect.gen(function* () {
          const directory = yield* temporaryDirectory
          let unknown = 0
          for (let seed = first; seed < first + 8; seed++) {
            const path = join(directory, `${seed}.db`)
            const ledger = seed % 2 === 0 ? TenantLedger.layerMemory : TenantLedger.layerSqlite({ path })
            unknown += checkBills(yield* generateRuns(seed, isReliable, ledger), `seed ${seed}`)
          }
          assert.strictEqual(unknown > 0, !isReliable)
        }).pipe(Effect.scoped)
    )
})
