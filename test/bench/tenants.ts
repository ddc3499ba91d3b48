// Many tenants over one Postgres database, used by two processes whose model calls fail, break off and report nothing:
// `node test/bench/tenants.ts [tenants] [runs]`, 200 and 5 by default. Fails if the provider charged a tenant more than
// its allowance, or if less than 95 % of the allowance was used, calls with unknown ends included. Prints the statements
// of the ledger for each call.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as AiError from "effect/ai/AiError"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { text } from "node:stream/consumers"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import { toResponse } from "../../src/base/domain/Usage.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import { CurrentSpending } from "../../src/models/routing/SpendingPort.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as TenantLedger from "../../src/store/tenants/TenantLedger.ts"
import * as Fake from "../support/fakeModel.ts"
import { startServer } from "../support/postgresServer.ts"

const allowance = 30_000
const mostOutput = 500

/** What one process saw. */
interface Seen {
  /** Tokens that the provider charged, by tenant. */
  readonly charged: Record<string, number>
  calls: number
  statements: number
}

const countStatements = (ledger: TenantLedger.Service, seen: Seen): TenantLedger.Service => {
  const count = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      seen.statements++
      return effect
    })
  return {
    ...ledger,
    reserve: (request) => count(ledger.reserve(request)),
    settle: (tenant, settled) => count(ledger.settle(tenant, settled)),
    renew: (ids, expiresIn) => count(ledger.renew(ids, expiresIn))
  }
}

/** A provider that charges one token for each byte, and the most for calls of which it reports nothing. */
const makeProvider = (seen: Seen): Fake.Fake => {
  const fake: Fake.Fake = Fake.make(() =>
    Effect.gen(function* () {
      const call = fake.asked.at(-1)
      const { tenant = "" } = (yield* CurrentSpending) ?? {}
      const input = Buffer.byteLength(JSON.stringify(call?.messages.map(({ content }) => content)))
      const most = call?.maxOutputTokens ?? 0
      const used = Math.ceil(most * Math.random())
      const kind = Math.random()
      seen.calls++
      yield* Effect.sleep(Math.random() * 4)
      if (kind < 0.05) return yield* Effect.fail(Fake.failure(new AiError.InvalidRequestError({ description: "no" })))
      const isKnown = kind < 0.9
      seen.charged[tenant] = (seen.charged[tenant] ?? 0) + input + (isKnown ? used : most)
      if (isKnown) return { ...Fake.textAnswer("done"), usage: toResponse({ input, output: used }) }
      const reason = new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "" })
      return yield* Effect.fail(Fake.failure(reason))
    })
  )
  return fake
}

const work = async (url: string, tenants: number, runs: number): Promise<void> => {
  const seen: Seen = { charged: {}, calls: 0, statements: 0 }
  const names = Array.from({ length: tenants }, (_, at) => `tenant-${at}`)
  const ledger = Layer.effect(
    TenantLedger.TenantLedger,
    Effect.map(TenantLedger.TenantLedger, (one) => countStatements(one, seen))
  ).pipe(Layer.provide(TenantLedger.layerPostgres({ url: Redacted.make(url), connections: 4 })))
  const runtime = Runtime.layer({
    provider: Layer.succeed(Provider, makeProvider(seen).provider),
    retry: RetryPolicy.make({ attempts: 2, base: 0 }),
    maxOutputTokens: mostOutput,
    tenants: Tenants.layerFrom(
      names.map((id) => ({ id, perDay: { tokens: allowance } })),
      ledger
    )
  }).pipe(Layer.provide(NodeServices.layer))
  const useUp = (tenant: string) =>
    Effect.gen(function* () {
      for (let isLeft = true; isLeft;) {
        const end = yield* Effect.exit(Agent.run({ prompt: "Work for me, 漢字 😀", tenant }))
        isLeft = end._tag === "Failure" || end.value.limit !== "allowance"
      }
    })
  const lines = names.flatMap((tenant) => Array.from({ length: runs }, () => useUp(tenant)))
  await Effect.runPromise(Effect.provide(Effect.all(lines, { concurrency: 200, discard: true }), runtime))
  process.stdout.write(JSON.stringify(seen))
}

const startWorker = async (args: ReadonlyArray<string>): Promise<Seen> => {
  const child = spawn(process.execPath, [import.meta.filename, "work", ...args], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const [output] = await Promise.all([text(child.stdout), once(child, "close")])
  return JSON.parse(output) as Seen // Written by `work`.
}

const [mode = "200", ...rest] = process.argv.slice(2)

if (mode === "work") {
  const [url = "", tenants = "0", runs = "0"] = rest
  await work(url, Number(tenants), Number(runs))
} else {
  const [tenants, runs] = [mode, rest[0] ?? "5"]
  const server = await startServer()
  try {
    const began = Date.now()
    const args = [server.url("tenants"), tenants, runs]
    const seen = await Promise.all([startWorker(args), startWorker(args)])
    const spent = Array.from({ length: Number(tenants) }, (_, at) =>
      seen.reduce((sum, { charged }) => sum + (charged[`tenant-${at}`] ?? 0), 0)
    )
    const calls = seen.reduce((sum, one) => sum + one.calls, 0)
    const statements = seen.reduce((sum, one) => sum + one.statements, 0)
    const counted = await Effect.runPromise(
      Effect.forEach(spent, (_, at) =>
        TenantLedger.TenantLedger.use((ledger) =>
          Effect.map(ledger.balance(`tenant-${at}`), ({ spentToday }) => spentToday.tokens)
        )
      ).pipe(Effect.provide(TenantLedger.layerPostgres({ url: Redacted.make(server.url("tenants")) })))
    )
    const share = (tokens: number): string => `${((tokens / allowance) * 100).toFixed(1)} %`
    process.stdout.write(
      `${tenants} tenants, 2 processes, ${calls} calls in ${((Date.now() - began) / 1000).toFixed(1)} s; charged of each ` +
        `allowance: ${share(Math.min(...spent))} to ${share(Math.max(...spent))}, counted: ` +
        `${share(Math.min(...counted))} to ${share(Math.max(...counted))}; ` +
        `${(statements / calls).toFixed(2)} statements a call\n`
    )
    if (spent.some((one) => one > allowance)) throw new Error("a tenant has spent more than its allowance")
    if (counted.some((one, at) => one > allowance || one < (spent[at] ?? 0)))
      throw new Error("the ledger has counted more than an allowance, or less than the provider charged")
    if (counted.some((one) => one < allowance * 0.95)) throw new Error("less than 95 % of an allowance was used")
  } finally {
    await server.remove()
  }
}
