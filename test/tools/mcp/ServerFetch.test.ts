// Requests for an MCP server with an address: they stay at its host, whatever it answers.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Urls from "../../../src/tools/fence/Urls.ts"
import * as ServerFetch from "../../../src/tools/mcp/ServerFetch.ts"
import { webServer } from "../../support/webServer.ts"
import { connected, section } from "./support/servers.ts"

interface Sent {
  readonly url: string
  readonly method: string
  readonly body: unknown
  readonly authorization: string | null
}

/** `fetch` that answers by the path of a request, and keeps what was sent. */
const fake = (answers: Readonly<Record<string, readonly [status: number, location: string]>>) => {
  const sent: Array<Sent> = []
  const fetch: ServerFetch.Fetch = (url, init = {}) => {
    const { href } = new URL(url)
    sent.push({
      url: href,
      method: init.method ?? "GET",
      body: init.body ?? null,
      authorization: new Headers(init.headers).get("authorization")
    })
    assert.strictEqual(init.redirect, "manual")
    const [status, location] = answers[href] ?? []
    return Promise.resolve(
      location === undefined ? new Response("ok") : new Response(null, { status: status ?? 302, headers: { location } })
    )
  }
  return { fetch, sent }
}

const configured = "https://mcp.example/mcp"

const asked = Effect.fnUntraced(function* (
  answers: Parameters<typeof fake>[0],
  url = configured,
  policy: Pick<Urls.Policy, "hosts" | "unknownHosts"> = Urls.strict,
  hostsOfLogin: ReadonlyArray<string> = []
) {
  const { fetch, sent } = fake(answers)
  const within = ServerFetch.make(fetch, {
    server: "x",
    url: new URL(configured),
    isAdmitted: ServerFetch.makeHostTest(policy, () => Promise.resolve(hostsOfLogin))
  })
  const init = {
    method: "POST",
    body: "{}",
    headers: { authorization: "Bearer t", "content-type": "application/json" }
  }
  const exit = yield* Effect.result(
    Effect.tryPromise({ try: () => within(url, init), catch: (error) => (error instanceof Error ? error.message : "") })
  )
  return { sent, failure: exit._tag === "Failure" ? exit.failure : undefined }
})

describe("a redirect of an MCP server", () => {
  it.effect("within its host is followed, with the body where it is to be kept", () =>
    Effect.gen(function* () {
      const kept = yield* asked({ [configured]: [307, "/v2"] })
      assert.deepStrictEqual(
        kept.sent.map(({ body, method, url }) => [url, method, body]),
        [
          [configured, "POST", "{}"],
          ["https://mcp.example/v2", "POST", "{}"]
        ]
      )
      const seen = yield* asked({ [configured]: [303, "/v2"] })
      assert.deepStrictEqual(
        seen.sent.map(({ body, method }) => [method, body]),
        [
          ["POST", "{}"],
          ["GET", null]
        ]
      )
    })
  )

  it.effect("to another host, another port or plain http is refused, and nothing is sent there", () =>
    Effect.gen(function* () {
      for (const location of [
        "https://other.example/mcp",
        "https://mcp.example:8443/mcp",
        "http://mcp.example/mcp",
        "//other.example/",
        "http://169.254.169.254/"
      ]) {
        const { failure, sent } = yield* asked({ [configured]: [307, location] })
        assert.lengthOf(sent, 1, location)
        assert.match(failure ?? "", /^it redirects to .* put that address into mcp_servers\.x\.url if you trust it$/)
      }
    })
  )

  it.effect("without an end is refused", () =>
    Effect.gen(function* () {
      const { failure, sent } = yield* asked({ [configured]: [307, configured] })
      assert.isAtMost(sent.length, 10)
      assert.include(failure, "redirects more than")
    })
  )

  it.live("is refused by the client too, in a line that names the setting", () =>
    Effect.gen(function* () {
      const bodies: Array<string> = []
      const other = yield* webServer((_request, response, body) => {
        bodies.push(body)
        response.writeHead(500).end()
      })
      const url = yield* webServer((_request, response) => response.writeHead(307, { location: `${other}/mcp` }).end())
      const { servers } = yield* connected({
        x: section({ url: `${url}/mcp`, headers: { "x-api-key": "a-key-of-the-server" } })
      })
      const [status] = yield* servers.status
      assert.deepStrictEqual([status?.state, bodies], ["failed", []])
      assert.include(status?.message, `it redirects to ${other}`)
      assert.include(status?.message, "mcp_servers.x.url")
    })
  )
})

describe("another host that the client asks", () => {
  const elsewhere = "https://login.example/.well-known/oauth-authorization-server"

  it.effect("is refused unless it is of the login, listed, or the gate is open", () =>
    Effect.gen(function* () {
      const refused = yield* asked({}, elsewhere)
      assert.deepStrictEqual(refused.sent, [])
      assert.include(
        refused.failure,
        "its login is at login.example, a host that is not approved: run `hermes mcp login x`, or add web(login.example)"
      )
      for (const [policy, hosts] of [
        [Urls.strict, ["login.example"]],
        [{ ...Urls.strict, hosts: ["*.example"] }, []],
        [{ ...Urls.strict, unknownHosts: "allow" }, []]
      ] as const) {
        assert.lengthOf((yield* asked({}, elsewhere, policy, hosts)).sent, 1)
      }
    })
  )
})
