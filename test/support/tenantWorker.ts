// A process that makes runs of one tenant over a ledger that other processes share. Arguments: kind of the ledger
// (sqlite or postgres), its path or address, number of runs, daily allowance in tokens. It prints the tokens that its
// model counted. With 0 runs it begins one call that never ends, and prints `begun`.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { writeSync } from "node:fs"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import { toResponse } from "../../src/base/domain/Usage.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as TenantLedger from "../../src/store/tenants/TenantLedger.ts"
import * as Fake from "./fakeModel.ts"

const [kind = "", place = "", runs = "0", allowance = "0"] = process.argv.slice(2)

let spent = 0
const fake = Fake.make(() =>
  Effect.gen(function* () {
    if (runs === "0") {
      writeSync(1, "begun\n")
      return yield* Effect.never
    }
    const asked = fake.asked.at(-1)?.maxOutputTokens ?? 0
    yield* Effect.sleep(1)
    const output = Math.ceil(Math.min(asked, 400) * 0.9)
    // Fewer tokens of the prompt than were reserved.
    spent += 300 + output
    return { ...Fake.textAnswer("done"), usage: toResponse({ input: 300, output }) }
  })
)

const ledger =
  kind === "postgres"
    ? TenantLedger.layerPostgres({ url: Redacted.make(place), connections: 4 })
    : TenantLedger.layerSqlite({ path: place })
const runtime = Runtime.layer({
  provider: Layer.succeed(Provider, fake.provider),
  retry: RetryPolicy.none,
  maxOutputTokens: 500,
  tenants: Tenants.layerFrom([{ id: "acme", perDay: { tokens: Number(allowance) } }], ledger)
}).pipe(Layer.provide(NodeServices.layer))

const run = Agent.run({ prompt: "go", tenant: "acme" })
const program = Effect.gen(function* () {
  yield* Effect.forEach(Array.from({ length: Math.max(1, Number(runs)) }), () => run, { concurrency: 20 })
  // Calls in flight held more than they used: runs go on until nothing is left.
  while ((yield* run).exit === "text_response");
})

await Effect.runPromise(Effect.provide(program, runtime))
writeSync(1, `${spent}\n`)
