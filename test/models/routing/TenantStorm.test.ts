// Two tenants at a shared key, over the wire: the calls of one are refused or not answered until the calls of the other
// have ended, so that a call that had to wait for them would never end.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Configured from "../../support/configuredProgram.ts"
import { answerText, keyedServer } from "../../support/keyedServer.ts"

const key = "shared-key-0123456789abcdef"

const write = (url: string): string => `
model: { provider: custom, default: m, base_url: ${url}, api_key: ${key} }
tenants: { acme: {}, zeta: {} }
`

const refusal = JSON.stringify({ error: { message: "Too many requests", type: "rate_limit_error", code: null } })

describe("calls of a tenant at a shared key end", () => {
  for (const trouble of ["refused", "slow"] as const)
    it.live(`while the calls of another are ${trouble}`, () =>
      Effect.gen(function* () {
        const events: Array<string> = []
        const held: Array<() => void> = []
        let isOver = false
        const server = yield* keyedServer({
          [key]: (call, response) => {
            const end = () => answerText(call, response, "done")
            if (isOver || call.body.includes("of zeta")) return end()
            events.push("acme asks")
            if (trouble === "slow") held.push(end)
            else response.writeHead(429, { "content-type": "application/json", "retry-after": "1" }).end(refusal)
          }
        })
        const ask = (tenant: string) =>
          Effect.tap(Agent.run({ prompt: `Write the report of ${tenant}`, tenant }), () =>
            Effect.sync(() => events.push(`${tenant} ends`))
          )
        yield* Effect.gen(function* () {
          const storm = yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.forkChild(ask("acme")))
          // Only after the trouble has begun.
          while (!events.includes("acme asks")) yield* Effect.sleep("10 millis")
          for (let count = 0; count < 3; count++) yield* ask("zeta")
          assert.notInclude(events, "acme ends")
          isOver = true
          for (const end of held) end()
          yield* trouble === "slow" ? Effect.forEach(storm, Fiber.join) : Effect.forEach(storm, Fiber.interrupt)
        }).pipe(Effect.provide(Configured.layer({ config: write(server.url) })))
        assert.strictEqual(events.filter((event) => event === "zeta ends").length, 3)
      }).pipe(Effect.scoped)
    )
})
