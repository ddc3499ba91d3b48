import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Redacted from "effect/Redacted"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as TestClock from "effect/testing/TestClock"
import * as CodexLogin from "../../../src/models/routing/CodexLogin.ts"
import * as TokenStore from "../../../src/models/routing/TokenStore.ts"
import * as HttpServer from "../provider/HttpServer.ts"

const scratch = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const claims = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")

/** A login service that knows how often it was asked. The user types the code after `patience` questions. */
const service = (patience = 2) => {
  const renewed: Array<string> = []
  let polls = 0
  const reply = (status: number, body: unknown) => Effect.succeed({ status, body })
  const http: CodexLogin.Http = {
    json: (url) =>
      url === CodexLogin.openAi.code
        ? reply(200, { device_auth_id: "d", user_code: "ABCD-1234", interval: "5" })
        : ++polls < patience
          ? reply(403, {})
          : reply(200, { authorization_code: "a", code_challenge: "c", code_verifier: "v" }),
    form: (_, { grant_type, refresh_token }) => {
      if (grant_type === "authorization_code") {
        return reply(200, { access_token: `h.${claims({ exp: 3_600 })}.s`, refresh_token: "r-0" })
      }
      renewed.push(refresh_token ?? "")
      const made = { access_token: `new-${renewed.length}`, refresh_token: `r-${renewed.length}`, expires_in: 3_600 }
      return Effect.andThen(Effect.yieldNow, reply(200, made))
    }
  }
  return { http, renewed, polls: () => polls }
}

const signedIn = Effect.fnUntraced(function* (home: string, patience?: number) {
  const remote = service(patience)
  const store = yield* TokenStore.openFile(home)
  const login = CodexLogin.make(store, remote.http)
  const shown: Array<CodexLogin.Invitation> = []
  const fiber = yield* Effect.forkChild(login.login((invitation) => Effect.sync(() => void shown.push(invitation))))
  yield* TestClock.adjust("30 seconds")
  yield* Fiber.join(fiber)
  return { ...remote, login, store, shown }
})

const valueOf = (token: Redacted.Redacted<string> | undefined) =>
  token === undefined ? undefined : Redacted.value(token)

describe("CodexLogin", () => {
  it.effect("shows the code, asks at the given pace, and keeps the tokens for their owner only", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = yield* scratch
      const { login, polls, shown } = yield* signedIn(home, 3)
      assert.deepStrictEqual(shown, [{ page: "https://auth.openai.com/codex/device", code: "ABCD-1234" }])
      assert.strictEqual(polls(), 3)
      const { mode } = yield* fs.stat(`${home}/${TokenStore.fileName}`)
      assert.strictEqual(mode & 0o777, 0o600)
      assert.isTrue(valueOf(yield* login.token)?.startsWith("h."))
      assert.notInclude(String(yield* login.token), "h.")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("renews five minutes before the end, once for all who ask", () =>
    Effect.gen(function* () {
      const { login, renewed } = yield* signedIn(yield* scratch)
      yield* TestClock.setTime(3_600_000 - 301_000)
      yield* login.token
      assert.deepStrictEqual(renewed, [])
      yield* TestClock.setTime(3_600_000 - 299_000)
      const tokens = yield* Effect.all([login.token, login.token, login.token], { concurrency: "unbounded" })
      assert.deepStrictEqual(tokens.map(valueOf), ["new-1", "new-1", "new-1"])
      assert.deepStrictEqual(renewed, ["r-0"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a refresh token goes to the service that issued it, whichever the settings name now", () =>
    Effect.gen(function* () {
      const store = yield* TokenStore.openFile(yield* scratch)
      const asked: Array<string> = []
      const http: CodexLogin.Http = {
        json: () => Effect.succeed({ status: 500, body: undefined }),
        form: (url) =>
          Effect.sync(
            () => (asked.push(url), { status: 200, body: { access_token: "new", refresh_token: "r-1", expires_in: 0 } })
          )
      }
      const tokens = { access: Redacted.make("old"), refresh: Redacted.make("r-0"), expiresAt: 0 }
      yield* store.set(CodexLogin.provider, { ...tokens, issuer: "http://127.0.0.1:7" })
      yield* CodexLogin.make(store, http, CodexLogin.makeEndpoints("http://127.0.0.1:8")).token
      assert.strictEqual((yield* store.get(CodexLogin.provider))?.issuer, "http://127.0.0.1:7")
      yield* store.set(CodexLogin.provider, tokens)
      yield* CodexLogin.make(store, http, CodexLogin.makeEndpoints("http://127.0.0.1:8")).token
      assert.deepStrictEqual(asked, ["http://127.0.0.1:7/oauth/token", "https://auth.openai.com/oauth/token"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a token that another process has renewed is taken from the store", () =>
    Effect.gen(function* () {
      const home = yield* scratch
      const { login, renewed } = yield* signedIn(home)
      yield* TestClock.setTime(3_600_000)
      const other = yield* TokenStore.openFile(home)
      yield* other.set(CodexLogin.provider, {
        access: Redacted.make("theirs"),
        refresh: Redacted.make("r-x"),
        expiresAt: 7_200_000
      })
      assert.strictEqual(valueOf(yield* login.token), "theirs")
      assert.deepStrictEqual(renewed, [])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a refresh token that another process uses at the same time is no end of the login", () =>
    Effect.gen(function* () {
      const home = yield* scratch
      const store = yield* TokenStore.openFile(home)
      const other = yield* TokenStore.openFile(home)
      const theirs = { access: Redacted.make("theirs"), refresh: Redacted.make("r-x"), expiresAt: 7_200_000 }
      const refusing: CodexLogin.Http = {
        json: () => Effect.succeed({ status: 500, body: undefined }),
        form: () =>
          Effect.as(Effect.orDie(other.set(CodexLogin.provider, theirs)), {
            status: 400,
            body: { error: "invalid_grant" }
          })
      }
      yield* store.set(CodexLogin.provider, {
        ...theirs,
        access: Redacted.make("old"),
        refresh: Redacted.make("r-0"),
        expiresAt: 0
      })
      assert.strictEqual(valueOf(yield* CodexLogin.make(store, refusing).token), "theirs")
      yield* store.set(CodexLogin.provider, { ...theirs, expiresAt: 0 })
      const error = yield* Effect.flip(CodexLogin.make(store, refusing).token)
      assert.strictEqual(
        error.message,
        "the renewal of the ChatGPT login was refused (HTTP 400): run `hermes model login`"
      )
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a refused token is renewed even if it looks good; without a login there is none", () =>
    Effect.gen(function* () {
      const { login, renewed } = yield* signedIn(yield* scratch)
      assert.strictEqual(valueOf(yield* login.refresh), "new-1")
      assert.deepStrictEqual(renewed, ["r-0"])
      yield* login.logout
      assert.isUndefined(yield* login.token)
      assert.include((yield* Effect.flip(login.refresh)).message, "not logged in")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a code that nobody types ends the login after a quarter of an hour", () =>
    Effect.gen(function* () {
      const login = CodexLogin.make(yield* TokenStore.openFile(yield* scratch), service(1_000_000).http)
      const fiber = yield* Effect.forkChild(Effect.flip(login.login(() => Effect.void)))
      yield* TestClock.adjust("15 minutes")
      assert.include((yield* Fiber.join(fiber)).message, "within 15 minutes")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a file that can not be understood is neither used nor overwritten, and its content is not shown", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = yield* scratch
      yield* fs.writeFileString(`${home}/${TokenStore.fileName}`, '{ "secret": "sk-very-secret"')
      const store = yield* TokenStore.openFile(home)
      const error = yield* Effect.flip(store.get("openai-codex"))
      assert.include(error.message, "remove it and run `hermes model login`")
      assert.notInclude(error.message, "very-secret")
      yield* Effect.flip(store.set("x", { access: Redacted.make("a"), refresh: Redacted.make("r"), expiresAt: 0 }))
      assert.include(yield* fs.readFileString(`${home}/${TokenStore.fileName}`), "very-secret")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live("speaks JSON and forms over real HTTP", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make(({ url }, response) =>
        url === "/code"
          ? HttpServer.json(response, 200, { device_auth_id: "d", user_code: "C", interval: 1 })
          : url === "/poll"
            ? HttpServer.json(response, 200, { authorization_code: "a&b", code_verifier: "v" })
            : HttpServer.json(response, 200, { access_token: "t", refresh_token: "r", expires_in: 60 })
      )
      const endpoints: CodexLogin.Endpoints = {
        ...CodexLogin.openAi,
        code: `${server.url}/code`,
        poll: `${server.url}/poll`,
        token: `${server.url}/token`
      }
      const client = yield* HttpClient.HttpClient
      const login = CodexLogin.make(
        yield* TokenStore.openFile(yield* scratch),
        CodexLogin.fromHttpClient(client),
        endpoints
      )
      yield* login.login(() => Effect.void)
      const [code, , token] = server.requests
      assert.deepStrictEqual(JSON.parse(code?.body ?? ""), { client_id: CodexLogin.openAi.clientId })
      assert.strictEqual(token?.headers["content-type"], "application/x-www-form-urlencoded")
      assert.strictEqual(new URLSearchParams(token?.body).get("code"), "a&b")
    }).pipe(Effect.provide([NodeServices.layer, FetchHttpClient.layer]))
  )
})
