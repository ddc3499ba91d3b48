import { createHermes } from "../../src/kit/entry/promise.ts"

// "offline" answers without a network. The function may read the application's database.
const hermes = createHermes({
  model: "offline",
  tenants: async (id) => (id === "acme" ? { id, perDay: { tokens: 100 }, concurrentRuns: 10 } : undefined)
})

const { exit, limit, freeAt, sessionId } = await hermes.run({ prompt: "Reply exactly hello", tenant: "acme" })
console.log(exit, limit, freeAt === undefined ? "" : "free again at the end of the day")
// => budget_exhausted allowance free again at the end of the day

const unknown = await hermes.run({ prompt: "Reply exactly hello", tenant: "nobody" }).catch((error) => error)
console.log(unknown.tag, unknown.message)
// => TenantRefused there is no tenant nobody

// The requests of a client reach the sessions of its tenant only, whatever ids they name.
console.log(await hermes.forTenant("zeta").readSession(sessionId))
// => undefined

await hermes.dispose()
