// `hermes model login` and what a run makes of it, against a login service and a model over HTTP.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { onceSaid } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"

const claims = (name: string, exp: number): string => {
  const payload = { exp, "https://api.openai.com/auth": { chatgpt_account_id: `account-${name}` } }
  return `h.${Buffer.from(JSON.stringify(payload)).toString("base64url")}.${name}`
}

const far = 4_000_000_000
const tokens = (name: string, exp = far) => ({ access_token: claims(name, exp), refresh_token: `refresh-${name}` })

const answer = HttpServer.sse(
  { type: "response.created", response: { id: "r", model: "gpt-5-codex", status: "in_progress", output: [] } },
  { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "Hello." },
  {
    type: "response.completed",
    response: {
      id: "r",
      model: "gpt-5-codex",
      status: "completed",
      output: [
        {
          type: "message",
          id: "m",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "Hello." }]
        }
      ],
      usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 }
    }
  }
)

/**
 * A login service that is asked `patience` times before the code was typed, and a model that takes the tokens in
 * `good`.
 */
const service = (options: {
  readonly patience: number
  readonly granted: object
  readonly renewed?: object | undefined
  readonly good: string
}) => {
  let polls = 0
  return HttpServer.make(({ body, headers, url }, response) => {
    switch (url) {
      case "/api/accounts/deviceauth/usercode":
        return HttpServer.json(response, 200, { device_auth_id: "d", user_code: "ABCD-1234", interval: 1 })
      case "/api/accounts/deviceauth/token":
        return ++polls < options.patience
          ? HttpServer.json(response, 403, {})
          : HttpServer.json(response, 200, { authorization_code: "a", code_verifier: "v" })
      case "/oauth/token":
        return new URLSearchParams(body).get("grant_type") === "authorization_code"
          ? HttpServer.json(response, 200, options.granted)
          : options.renewed === undefined
            ? HttpServer.json(response, 400, { error: "invalid_grant" })
            : HttpServer.json(response, 200, options.renewed)
      default:
        return headers.authorization?.endsWith(`.${options.good}`) === true
          ? response.writeHead(200, { "content-type": "text/event-stream" }).end(answer)
          : HttpServer.json(response, 401, { error: { message: "token expired", code: "invalid_token" } })
    }
  })
}

const user = Effect.fnUntraced(function* (
  options: Parameters<typeof service>[0],
  more: (url: string) => string = () => ""
) {
  const { requests, url } = yield* service(options)
  const machinery = yield* machine
  machinery.keep(
    "config.yaml",
    `model:\n  provider: openai-codex\n  default: gpt-5-codex\n  base_url: ${url}/backend-api/codex\n` +
      `providers:\n  openai-codex:\n    login_base_url: ${url}/\n${more(url)}`
  )
  const asked = () => requests.filter(({ url }) => url.endsWith("/responses"))
  return { ...machinery, requests, asked, auth: join(machinery.home, "auth.json"), url }
})

describe("hermes model login", () => {
  it.live("shows page and code, waits for them, and a run uses the token with the headers of its account", () =>
    Effect.gen(function* () {
      const { asked, auth, hermes, url } = yield* user({ patience: 2, granted: tokens("one"), good: "one" })
      const before = yield* hermes(["-q", "hi", "--quiet"])
      assert.strictEqual(before.code, 1, before.stderr)
      assert.include(before.stderr, "run `hermes model login`, or set CODEX_ACCESS_TOKEN")

      const login = yield* hermes(["model", "login"])
      assert.deepInclude(login, { code: 0, stdout: "You are logged in to ChatGPT\n" })
      assert.include(login.stderr, `Open ${url}/codex/device and type the code ABCD-1234\n`)
      assert.strictEqual(statSync(auth).mode & 0o777, 0o600)

      const run = yield* hermes(["-q", "hi", "--quiet"])
      assert.deepInclude(run, { code: 0, stdout: "Hello.\n" })
      assert.strictEqual(asked()[0]?.headers["chatgpt-account-id"], "account-one")
      assert.notInclude(run.stderr + (yield* hermes(["model"])).stdout, "account-one")

      assert.deepInclude(yield* hermes(["model", "logout"]), { code: 0 })
      assert.notInclude(readFileSync(auth, "utf8"), "refresh-one")
      assert.include((yield* hermes(["model", "logout"])).stdout, "Not logged in")
      assert.strictEqual((yield* hermes(["-q", "hi", "--quiet"])).code, 1)
    })
  )

  it.live("a token that is refused is renewed, and kept; the run goes on with it", () =>
    Effect.gen(function* () {
      const { asked, auth, hermes } = yield* user({
        patience: 1,
        granted: tokens("old"),
        renewed: tokens("new"),
        good: "new"
      })
      yield* hermes(["model", "login"])
      assert.deepInclude(yield* hermes(["-q", "hi", "--quiet"]), { code: 0, stdout: "Hello.\n" })
      assert.deepStrictEqual(
        asked().map(({ headers }) => headers["chatgpt-account-id"]),
        ["account-old", "account-new"]
      )
      assert.include(readFileSync(auth, "utf8"), "refresh-new")
    })
  )

  it.live("a token that has ended is renewed before it is used", () =>
    Effect.gen(function* () {
      const { asked, hermes } = yield* user({
        patience: 1,
        granted: tokens("old", 1),
        renewed: tokens("new"),
        good: "new"
      })
      yield* hermes(["model", "login"])
      assert.deepInclude(yield* hermes(["-q", "hi", "--quiet"]), { code: 0, stdout: "Hello.\n" })
      assert.strictEqual(asked().length, 1)
    })
  )

  it.live("where it can not be renewed, the next route answers", () =>
    Effect.gen(function* () {
      const { asked, hermes } = yield* user(
        { patience: 1, granted: tokens("old"), good: "spare" },
        (url) =>
          `fallback_providers:\n  - provider: openai-codex\n    model: gpt-5-codex\n    base_url: ${url}/spare\n    api_key: ${claims("spare", far)}\n`
      )
      yield* hermes(["model", "login"])
      const run = yield* hermes(["-q", "hi", "--quiet"])
      assert.deepInclude(run, { code: 0, stdout: "Hello.\n" }, run.stderr)
      assert.deepStrictEqual(
        asked().map(({ headers }) => headers["chatgpt-account-id"]),
        ["account-old", "account-spare"]
      )
      assert.include(run.stderr, "the renewal of the ChatGPT login was refused (HTTP 400): run `hermes model login`")
    })
  )

  it.live("an interruption ends the wait and leaves nothing behind", () =>
    Effect.gen(function* () {
      const { auth, start } = yield* user({ patience: 1_000, granted: tokens("one"), good: "one" })
      const ended = yield* start(["model", "login"], {
        onError: onceSaid("ABCD-1234", (child) => child.kill("SIGINT"))
      })
      assert.strictEqual(ended.code, 130)
      assert.isFalse(existsSync(auth))
    })
  )

  it.live("a provider that takes a key is told so, and a login service that is not there as well", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const other = yield* hermes(["model", "login", "--provider", "groq"])
      assert.strictEqual(other.code, 2)
      assert.include(other.stderr, "groq uses a key, not a login")
      keep("config.yaml", "providers:\n  openai-codex:\n    login_base_url: http://127.0.0.1:1\n")
      const away = yield* hermes(["model", "login"])
      assert.deepInclude(away, {
        code: 1,
        stderr: "Error: 127.0.0.1:1 cannot be reached: check the network, then run `hermes model login`\n"
      })
    })
  )
})
