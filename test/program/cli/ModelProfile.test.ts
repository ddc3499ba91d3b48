// `hermes model profile`: what a refusal taught is shown, changed and forgotten.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { protocols } from "../../support/wireModel.ts"

/** A server that refuses `temperature`-like facts: an answer that is too long, and one parameter. */
const serve = Effect.gen(function* () {
  const limits: Array<number | undefined> = []
  const { url } = yield* HttpServer.make((request, response) => {
    if (!request.url.endsWith("/chat/completions")) return void HttpServer.json(response, 404, {})
    const { max_tokens } = JSON.parse(request.body)
    limits.push(max_tokens)
    if (max_tokens > 8_192)
      return void HttpServer.json(response, 400, {
        error: { message: "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]" }
      })
    HttpServer.json(response, 200, protocols.chat_completions.whole({ text: "hello" }))
  })
  return { limits, url: `${url}/v1` }
})

const start = Effect.gen(function* () {
  const { limits, url } = yield* serve
  const program = yield* machine
  const model = { provider: "custom", default: "m", base_url: url, max_tokens: 65_536, streaming: false }
  program.keep("config.yaml", JSON.stringify({ model }))
  const profile = (...args: ReadonlyArray<string>) => program.hermes(["model", "profile", ...args])
  return { ...program, limits, profile, url }
})

describe("hermes model profile", () => {
  it.live("shows what a refusal taught, with its words", () =>
    Effect.gen(function* () {
      const { hermes, home, limits, profile, url } = yield* start
      const before = yield* profile()
      assert.strictEqual(before.code, 0, before.stderr)
      assert.notInclude(before.stdout, "output_maximum")
      assert.strictEqual((yield* hermes(["chat", "-q", "hi"])).code, 0)
      const { stdout } = yield* profile()
      assert.match(stdout, /^m of custom\nwindow +\d+ +/)
      assert.match(stdout, /^output_maximum +8192 +refusal, \d{4}-\d{2}-\d{2}: Invalid max_tokens value/m)
      const shown = JSON.parse((yield* profile("--json")).stdout)
      assert.strictEqual(shown.route, `custom|m|chat_completions|${url}`)
      assert.deepInclude(
        shown.facts.find(({ fact }: { readonly fact: string }) => fact === "output_maximum"),
        { value: 8_192, source: "refusal" }
      )
      assert.include((yield* profile("--all")).stdout, "output_maximum")
      assert.notInclude(readFileSync(join(home, "cache", "model_profiles.json"), "utf8"), "no-key")
      assert.deepStrictEqual(limits, [65_536, 8_192])
    })
  )

  it.live("sets a fact, which the next run uses, and forgets it", () =>
    Effect.gen(function* () {
      const { hermes, limits, profile } = yield* start
      assert.strictEqual(
        (yield* profile("set", "output_maximum", "4096")).stdout,
        "output_maximum of m of custom is 4096\n"
      )
      assert.strictEqual((yield* profile("set", "parameter.max_tokens", "max_completion_tokens")).code, 0)
      assert.strictEqual((yield* hermes(["chat", "-q", "hi"])).code, 0)
      assert.deepStrictEqual(limits, [undefined])
      assert.match((yield* profile()).stdout, /^output_maximum +4096 +user, /m)
      assert.strictEqual((yield* profile("forget", "parameter.max_tokens")).stdout, "Forgot 1 fact about m of custom\n")
      assert.strictEqual((yield* hermes(["chat", "-q", "hi"])).code, 0)
      assert.deepStrictEqual(limits, [undefined, 4_096])
      assert.strictEqual((yield* profile("set", "window", "96000")).code, 0)
      assert.match((yield* profile()).stdout, /^window +96000 +learnt/m)
      assert.strictEqual((yield* profile("forget")).code, 0)
      assert.notMatch((yield* profile()).stdout, /learnt|user|refusal/)
    })
  )

  it.live("a fact that does not exist, and one that was not learnt, are one line and exit code 2", () =>
    Effect.gen(function* () {
      const { profile } = yield* start
      for (const [fact, value] of [
        ["output_maximum", "many"],
        ["form.with_wings", "true"],
        ["window", "large"],
        ["colour", "red"]
      ] as const) {
        const { code, stderr } = yield* profile("set", fact, value)
        assert.strictEqual(code, 2, stderr)
        assert.match(stderr, new RegExp(`${fact} cannot be ${value}: set `))
      }
      const { code, stderr } = yield* profile("forget", "output_maximum")
      assert.deepStrictEqual([code, stderr.includes("nothing named output_maximum was learnt")], [2, true])
    })
  )
})
