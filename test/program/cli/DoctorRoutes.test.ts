import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { fingerprint } from "../../../src/base/platform/Digest.ts"
import { machine } from "../../support/hermesInProcess.ts"

const custom = (port: number) => `{ provider: custom, default: m, base_url: "http://127.0.0.1:${port}/v1" }`

const lines = (stdout: string, subject: string) =>
  stdout.split("\n").filter((line) => line.slice(2).startsWith(subject))

describe("hermes doctor, models", () => {
  it.live("shows each route in its order, with the state of its keys and its breaker, and no key", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep(
        "config.yaml",
        `model: ${custom(1)}\nopenrouter: { api_keys: [sk-or-first-secret, sk-or-second-secret] }\n` +
          "fallback_providers:\n  - { provider: openrouter, model: a/b }\n  - { provider: groq, model: c }\n"
      )
      const { code, stdout } = yield* hermes(["doctor"])
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(lines(stdout, "model"), [
        "✓ model     m of custom by chat_completions at http://127.0.0.1:1/v1, no key, breaker closed"
      ])
      assert.deepStrictEqual(lines(stdout, "fallback"), [
        "✓ fallback  a/b of openrouter by chat_completions at https://openrouter.ai/api/v1, 2 keys, breaker closed",
        "! fallback  the fallback groq (c) is left out: no API key for Groq: set GROQ_API_KEY (or fallback_providers[1].api_key)"
      ])
      assert.deepStrictEqual(lines(stdout, "retries"), ["✓ retries   3 attempts, waits of 5-7.5, 10-15 s"])
      assert.notInclude(stdout, "secret")
    })
  )

  it.live("says which keys rest, for how long and why", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "model: { provider: openrouter, default: a/b }\nopenrouter: { api_keys: [one, two] }\n")
      const until = Date.now() + 3_000_000
      const rests = (reason: string) => ({ until, reason, used: 1 })
      keep(
        "credential-pools.json",
        JSON.stringify({
          version: 1,
          pools: {
            openrouter: { keys: { [fingerprint("one")]: rests("billing"), [fingerprint("two")]: rests("auth") } }
          }
        })
      )
      const { stdout } = yield* hermes(["doctor"])
      assert.match(
        stdout,
        /^! model .*2 keys, key 1 rests for (49|50)m[ \d]*s? \(billing\), key 2 rests for .* \(auth\)$/m
      )
    })
  )

  it.live("finds what a run would refuse, in fallbacks too", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", `model: ${custom(1)}\nfallback_providers: [{ provider: opnrouter, model: a/b }]\n`)
      const unknown = yield* hermes(["doctor"])
      assert.strictEqual(unknown.code, 1)
      assert.match(unknown.stdout, /^✗ model .*unknown provider "opnrouter": did you mean "openrouter"/m)
    })
  )

  it.live("shows that somebody is logged in, and what is wrong with the file of it", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "model: { provider: openai-codex, default: gpt-5-codex }\n")
      const login = { access_token: "a-secret", refresh_token: "r-secret", expires_at: Date.now() + 7_200_000 }
      keep("auth.json", JSON.stringify({ version: 1, logins: { "openai-codex": login } }))
      const { code, stdout } = yield* hermes(["doctor"])
      assert.strictEqual(code, 0)
      assert.match(stdout, /^✓ model .*a key is set$/m)
      assert.match(
        stdout,
        /^✓ login {5}to ChatGPT; the token is valid for (2h|1h 59m|2h 1m).* and is renewed before it expires$/m
      )
      assert.notInclude(stdout, "secret")
      keep("auth.json", "{")
      const broken = yield* hermes(["doctor"])
      assert.deepStrictEqual(lines(broken.stdout, "login"), [])
      assert.match(
        broken.stdout,
        /^✗ model .*auth\.json: cannot be read: correct it, or remove it and run `hermes model login`$/m
      )
    })
  )
})
