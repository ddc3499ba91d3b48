// `hermes model` as a user runs it, with models over HTTP or none.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"

const completion = {
  id: "c-1",
  object: "chat.completion",
  model: "tiny-1-2026",
  choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "length" }],
  usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 }
}

const server = HttpServer.make(({ headers, url }, response) => {
  if (url === "/v1/models") {
    return HttpServer.json(response, 200, {
      data: [
        { id: "tiny-1", max_model_len: 65_536 },
        { id: "other", max_model_len: 8_192 }
      ]
    })
  }
  if (url !== "/v1/chat/completions") return HttpServer.json(response, 404, {})
  return headers.authorization === "Bearer right"
    ? HttpServer.json(response, 200, completion)
    : HttpServer.json(response, 401, { error: { message: "Incorrect API key provided", code: "invalid_api_key" } })
})

const withModel = (key: string) =>
  Effect.gen(function* () {
    const user = yield* machine
    const { requests, url } = yield* server
    user.keep(
      "config.yaml",
      `# mine\nmodel:\n  provider: custom\n  default: tiny-1\n  base_url: ${url}/v1\n  api_key: ${key}\n`
    )
    return { ...user, requests, url }
  })

describe("hermes model", () => {
  it.live("shows what is known of the model, and no secret", () =>
    Effect.gen(function* () {
      const { hermes } = yield* withModel("sekret-key-123456")
      const shown = yield* hermes(["model"])
      assert.deepInclude(shown, { code: 0, stderr: "" })
      assert.match(shown.stdout, /^model {6}tiny-1$/m)
      assert.match(shown.stdout, /^window {5}65536 tokens \(local\)$/m)
      assert.match(shown.stdout, /^key {8}set$/m)
      assert.notInclude(shown.stdout, "sekret")
      const json = JSON.parse((yield* hermes(["model", "--json"])).stdout)
      assert.deepInclude(json, { provider: "custom", model: "tiny-1", context_length: 65_536, key: "set" })
    })
  )

  it.live(
    "without a model, and where it cannot ask, it ends with one line; with the stand-in chosen it shows that",
    () =>
      Effect.gen(function* () {
        const { hermes, keep } = yield* machine
        assert.deepInclude(yield* hermes(["model"], { env: { HERMES_MODEL__PROVIDER: "auto" } }), {
          code: 2,
          stdout: "",
          stderr:
            "Error: no model is set up: run `hermes model` in a terminal, or `hermes model set NAME --provider PROVIDER`\n"
        })
        assert.deepInclude(JSON.parse((yield* hermes(["model", "--json"])).stdout), { provider: "offline" })
        keep("config.yaml", "model: { provider: offline }\n")
        const shown = yield* hermes(["model"])
        assert.deepInclude(shown, { code: 0, stderr: "" })
        assert.match(shown.stdout, /^provider {3}offline/m)
      })
  )

  it.live("lists what the provider lists", () =>
    Effect.gen(function* () {
      const { hermes } = yield* withModel("right")
      assert.strictEqual((yield* hermes(["model", "list"])).stdout, "tiny-1  65536 tokens\nother   8192 tokens\n")
      assert.strictEqual((yield* hermes(["model", "list", "--search", "OTH"])).stdout, "other  8192 tokens\n")
    })
  )

  it.live("tries it by the shortest call, and explains a refusal", () =>
    Effect.gen(function* () {
      const { hermes, requests } = yield* withModel("right")
      const tried = yield* hermes(["model", "test"])
      assert.strictEqual(tried.code, 0)
      assert.match(tried.stdout, /^tiny-1 of custom answers as tiny-1-2026: \d+ ms, 1 token\n$/)
      assert.strictEqual(
        JSON.parse(requests.find(({ url }) => url.endsWith("completions"))?.body ?? "{}").max_tokens,
        1
      )
      const wrong = yield* withModel("wrong")
      const refused = yield* wrong.hermes(["model", "test"])
      assert.deepInclude(refused, { code: 1, stdout: "" })
      assert.match(refused.stderr, /^Error: tiny-1 \(custom\) does not answer: auth: HTTP 401/)
    })
  )

  it.live("sets it in the file, beside what stands there, and refuses what can not be meant", () =>
    Effect.gen(function* () {
      const { hermes, url } = yield* withModel("right")
      const changed = yield* hermes(["model", "set", "other"])
      assert.deepInclude(changed, { code: 0 })
      assert.include(changed.stdout, "other of custom is now the main model")
      assert.include((yield* hermes(["model"])).stdout, "other")
      assert.include((yield* hermes(["config", "get", "model.base_url"])).stdout, url)
      const unknown = yield* hermes(["model", "set", "m", "--provider", "opnrouter"])
      assert.strictEqual(unknown.code, 2)
      assert.include(unknown.stderr, 'did you mean "openrouter"')
      assert.include((yield* hermes(["model"])).stdout, "other")
    })
  )
})
