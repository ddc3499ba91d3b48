// The keys of the calls of tenants, over the wire: of a server, of scheduled jobs, of batches and of the runners of a
// cluster. A prompt names its tenant, so that each call of the model shows for which tenant it is.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { ServerResponse } from "node:http"
import * as Cluster from "../../../src/serve/cluster/Cluster.ts"
import { type Ended, machine } from "../../support/hermes.ts"
import { answerCall, answerText, type KeyedCall, keyedServer } from "../../support/keyedServer.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { until } from "../../support/runnerWorld.ts"
import { serve } from "../../support/servedProgram.ts"

const keys = {
  shared: "shared-key-0123456789abcdef",
  acme: "acme-key-9876543210fedcba",
  zeta: "zeta-key-5678901234abcdef"
}
const env = {
  ACME_KEY: keys.acme,
  ALICE: "alice-of-acme-0123456789",
  BOB: "bob-of-zeta-0123456789",
  CAROL: "carol-of-plain-0123456789"
}

const write = (url: string): string => `
model: { provider: custom, default: large, base_url: ${url}, api_key: ${keys.shared} }
tenants:
  acme:
    routes:
      - { provider: custom, model: small, base_url: ${url}, key_env: ACME_KEY }
  zeta:
    routes:
      - { provider: custom, model: small, base_url: ${url}, api_keys: [${keys.zeta}] }
  plain: {}
server:
  keys:
    alice: { key_env: ALICE, tenant: acme }
    bob: { key_env: BOB, tenant: zeta }
    carol: { key_env: CAROL, tenant: plain }
`

const names = ["acme", "zeta", "plain"] as const

const keyOf: Readonly<Record<string, string>> = { acme: keys.acme, zeta: keys.zeta, plain: keys.shared }

/** Answers with the text, or first delegates if the prompt says so. */
const answer = (call: KeyedCall, response: ServerResponse): void => {
  const name = /Report of (\w+)/u.exec(call.body)?.[1] ?? ""
  if (call.body.includes(`delegate Report of ${name}`) && !call.body.includes('"role":"tool"'))
    return answerCall(call, response, "delegate_task", { goal: `Check the Report of ${name}` })
  answerText(call, response, `Done-for-${name}`)
}

const startModel = keyedServer(Object.fromEntries(Object.values(keys).map((key) => [key, answer])))

/** Checks the key of each call, and that each tenant has made as many calls as expected at least. */
const checkCalls = (calls: ReadonlyArray<KeyedCall>, least: number, tenants: ReadonlyArray<string> = names): void => {
  const counts = new Map<string, number>()
  for (const { body, key } of calls) {
    const named = new Set(Array.from(body.matchAll(/Report of (\w+)/gu), ([, name]) => name ?? ""))
    assert.strictEqual(named.size, 1, body)
    for (const name of named) {
      assert.strictEqual(key, keyOf[name], body)
      counts.set(name, (counts.get(name) ?? 0) + 1)
    }
  }
  assert.sameMembers(Array.from(counts.keys()), [...tenants])
  for (const [name, count] of counts) assert.isAtLeast(count, least, name)
}

const assertEnded = ({ code, stderr, stdout }: Ended): void => assert.strictEqual(code, 0, `${stdout}${stderr}`)

describe("each call of a tenant has its own key", () => {
  it.live("on a server, in all APIs, with the title and the sub-agent of a turn", () =>
    Effect.gen(function* () {
      const model = yield* startModel
      const { hermes, keep } = yield* machine
      keep("config.yaml", write(model.url))
      const server = yield* serve(hermes, env)
      const clients = { acme: env.ALICE, zeta: env.BOB, plain: env.CAROL }
      const post = async (name: (typeof names)[number], path: string, body: object): Promise<void> => {
        const { status, text } = await server.post(path, clients[name], body)
        assert.strictEqual(status, 200, text)
        assert.include(text, `Done-for-${name}`)
      }
      const requests = names.flatMap((name) => {
        const content = `Write the Report of ${name}`
        const messages = [{ role: "user", content }]
        return Array.from({ length: 4 }, () => [
          post(name, "/chat/completions", { messages }),
          post(name, "/chat/completions", { messages: [{ role: "user", content: `delegate Report of ${name}` }] }),
          post(name, "/responses", { input: content }),
          post(name, "/messages", { model: "hermes", max_tokens: 100, messages, stream: true })
        ]).flat()
      })
      yield* Effect.promise(() => Promise.all(requests))
      // One call for each request, and two more for each delegation.
      checkCalls(model.calls, 4 * 6)
      assert.isAtLeast(model.calls.filter(({ body }) => body.includes("Check the Report")).length, 3 * 4)
    }).pipe(Effect.scoped)
  )

  it.live("in scheduled jobs, and rows of a batch have the key of the owner", () =>
    Effect.gen(function* () {
      const model = yield* startModel
      const { hermes, keep, put } = yield* machine
      keep("config.yaml", write(model.url))
      const run = (...args: ReadonlyArray<string>) => Effect.map(hermes(args, { env }), assertEnded)
      for (const name of names)
        yield* run("cron", "create", "every 2h", `delegate Report of ${name}`, "--name", name, "--tenant", name)
      for (const name of names) yield* run("cron", "run", name)
      checkCalls(model.calls, 3)
      const before = model.calls.length
      put("rows.jsonl", JSON.stringify({ prompt: "Write the Report of plain" }))
      yield* run("batch", "run", "--dataset_file", "rows.jsonl", "--batch_size", "1", "--run_name", "r")
      checkCalls(model.calls.slice(before), 1, ["plain"])
    })
  )
})

describe.skipIf(missing !== undefined)("each call of a tenant on runners", () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  it.live("has its own key, also on the runner that continues the work of a killed one", () =>
    Effect.gen(function* () {
      const held: Array<() => void> = []
      let isOpen = false
      const model = yield* keyedServer(
        Object.fromEntries(
          Object.values(keys).map((key) => [
            key,
            (call: KeyedCall, response: ServerResponse) =>
              void (isOpen ? answer(call, response) : held.push(() => answer(call, response)))
          ])
        )
      )
      const databaseUrl = server.url("tenant_calls")
      const start = Effect.gen(function* () {
        const { hermes, keep } = yield* machine
        keep("config.yaml", write(model.url))
        let kill = () => {}
        yield* Effect.forkScoped(
          hermes(["cluster", "runner", "--concurrency", "3"], {
            env: { ...env, HERMES_CLUSTER__DATABASE_URL: databaseUrl },
            onStart: (child) => (kill = () => void child.kill("SIGKILL"))
          })
        )
        return { kill: () => kill() }
      })
      const ids = names.flatMap((name) => [1, 2, 3].map((index) => `${name}-${index}`))
      yield* Effect.gen(function* () {
        for (const id of ids) {
          const [tenant = ""] = id.split("-")
          const prompt = `delegate Report of ${tenant}`
          yield* Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt, tenant }))
        }
        const first = yield* start
        yield* until(() => held.length >= 3)
        yield* start
        yield* until(() => held.length >= 6)
        first.kill()
        isOpen = true
        for (const respond of held) respond()
        const outcomes = yield* Cluster.waitForOutcomes(ids)
        for (const id of ids)
          assert.deepInclude(outcomes.get(id), { status: "finished" }, JSON.stringify(outcomes.get(id)))
      }).pipe(Effect.provide(Cluster.layerClient({ url: Redacted.make(databaseUrl) }), { local: true }))
      checkCalls(model.calls, 9)
    }).pipe(Effect.scoped)
  )
})
