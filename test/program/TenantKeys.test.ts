// Tenants of config.yaml and of `createHermes` with their own keys, over the wire: the server counts which key made
// which call, and no file of the program has a key.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { generateText } from "ai"
import * as Agent from "../../src/agent/Agent.ts"
import { languageModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes } from "../../src/kit/entry/promise.ts"
import type { HermesTenants } from "../../src/kit/promise/PlainTenants.ts"
import * as Configured from "../support/configuredProgram.ts"
import { keyedServer } from "../support/keyedServer.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const keys = {
  shared: "shared-key-0123456789abcdef",
  acme: "acme-key-9876543210fedcba",
  title: "acme-title-1357924680bdf",
  listed: "globex-key-5678901234abcd"
}

const write = (url: string): string => `
model: { provider: custom, default: large, base_url: ${url}, api_key: ${keys.shared} }
agent: { api_max_retries: 1 }
tenants:
  acme:
    routes:
      - { provider: custom, model: small, base_url: ${url}, key_env: ACME_KEY }
    auxiliary:
      title: { provider: custom, model: tiny, base_url: ${url}, api_key: ${keys.title} }
  globex:
    routes:
      - { provider: custom, model: small, base_url: ${url}, api_keys: [${keys.listed}] }
  plain: {}
  unset:
    routes:
      - { provider: custom, model: small, base_url: ${url}, key_env: NOT_SET_KEY }
`

/** Returns all text of the files below a folder. */
const readAll = (folder: string): string =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "config.yaml")
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"))
    .join("\n")

describe("tenants of config.yaml", () => {
  it.live("call with their own keys, which no file of the program has", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const server = yield* keyedServer({
          [keys.shared]: "shared",
          // The key comes back in the answer.
          [keys.acme]: `acme with ${keys.acme} and ${Buffer.from(keys.acme).toString("base64")}`,
          [keys.listed]: 401
        })
        const home = yield* temporaryDirectory
        const ask = (tenant: string) => Agent.run({ prompt: "go", tenant })
        yield* Effect.gen(function* () {
          assert.include((yield* ask("acme")).text, "acme with ")
          assert.strictEqual((yield* ask("plain")).text, "shared")
          assert.notInclude(JSON.stringify(yield* Effect.exit(ask("globex"))), keys.listed)
          const unset = yield* Effect.flip(ask("unset"))
          assert.include(unset.message, "tenants.unset.routes[0]: the variable NOT_SET_KEY is not set")
        }).pipe(Effect.provide(Configured.layer({ config: write(server.url), env: { ACME_KEY: keys.acme }, home })))
        assert.deepStrictEqual(server.count(), {
          [`${keys.acme} small`]: 1,
          [`${keys.shared} large`]: 1,
          [`${keys.listed} small`]: 1
        })
        const text = readAll(home)
        assert.include(text, "acme with ")
        for (const key of Object.values(keys)) {
          assert.notInclude(text, key)
          assert.notInclude(text, Buffer.from(key).toString("base64"))
        }
      })
    )
  )
})

describe("tenants of createHermes", () => {
  it.live("call with their own keys, and are refused if a key is not set", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const server = yield* keyedServer({ [keys.shared]: "shared", [keys.acme]: "acme" })
        const at = { provider: "custom", baseUrl: server.url }
        const tenants: HermesTenants = (id) => ({
          id,
          model: { ...at, model: "small", apiKey: id === "acme" ? keys.acme : undefined }
        })
        yield* Effect.promise(async () => {
          const hermes = createHermes({ model: { ...at, model: "large", apiKey: keys.shared }, tenants })
          assert.strictEqual((await hermes.run({ prompt: "go", tenant: "acme" })).text, "acme")
          assert.strictEqual((await hermes.run({ prompt: "go" })).text, "shared")
          const model = languageModel(hermes.forTenant("acme"))
          assert.strictEqual((await generateText({ model, prompt: "go" })).text, "acme")
          const refused = await hermes.run({ prompt: "go", tenant: "globex" }).catch((error: unknown) => error)
          assert.include(String(refused), "routes[0].apiKey is empty")
          await hermes.dispose()
        })
        assert.deepStrictEqual(server.count(), { [`${keys.acme} small`]: 2, [`${keys.shared} large`]: 1 })
      })
    )
  )
})
