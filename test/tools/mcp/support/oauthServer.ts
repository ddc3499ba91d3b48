// An MCP server behind OAuth, and the authorization server of it, at one address or at two: on loopback, with tokens
// that can be made old.
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

interface Grant {
  readonly challenge: string
  readonly redirect: string
}

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  let body = ""
  for await (const chunk of request) body += String(chunk)
  return body
}

/** The server, until the scope ends, and what became of it; `isApart` logs in at a host of its own. */
const serverOf = (isApart: boolean) =>
  Effect.acquireRelease(
    Effect.callback<{
      readonly url: string
      readonly asked: Array<string>
      /** Requests to the host of logins, where that is another one. */
      readonly askedApart: Array<string>
      readonly loginHost: () => string
      readonly expire: () => void
      readonly close: () => void
      /** What a user's browser does with the page of a login. */
      readonly agree: (page: string, change?: (back: URL) => void) => Promise<number>
    }>((resume) => {
      const asked: Array<string> = []
      const askedApart: Array<string> = []
      let loginBase: string | undefined
      const grants = new Map<string, Grant>()
      let token = "token-1"
      let count = 1
      const handle = (request: IncomingMessage, response: ServerResponse): void => {
        void (async () => {
          const base = `http://${request.headers.host}`
          if (base === loginBase) askedApart.push(request.url ?? "")
          const url = new URL(request.url ?? "/", base)
          const json = (status: number, value: unknown, headers: Record<string, string> = {}): void => {
            response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value))
          }
          const body = await bodyOf(request)
          if (url.pathname !== "/mcp") asked.push(url.pathname)
          if (url.pathname.startsWith("/.well-known/oauth-protected-resource")) {
            return json(200, { resource: `${base}/mcp`, authorization_servers: [loginBase ?? base] })
          }
          if (url.pathname.startsWith("/.well-known/")) {
            return json(200, {
              issuer: base,
              authorization_endpoint: `${base}/authorize`,
              token_endpoint: `${base}/token`,
              registration_endpoint: `${base}/register`,
              response_types_supported: ["code"],
              grant_types_supported: ["authorization_code", "refresh_token"],
              code_challenge_methods_supported: ["S256"],
              token_endpoint_auth_methods_supported: ["none"]
            })
          }
          if (url.pathname === "/register") return json(201, { ...JSON.parse(body), client_id: "client-1" })
          if (url.pathname === "/authorize") {
            grants.set("code-1", {
              challenge: url.searchParams.get("code_challenge") ?? "",
              redirect: url.searchParams.get("redirect_uri") ?? ""
            })
            const back = new URL(url.searchParams.get("redirect_uri") ?? "")
            back.searchParams.set("code", "code-1")
            back.searchParams.set("state", url.searchParams.get("state") ?? "")
            return response.writeHead(302, { location: back.href }).end()
          }
          if (url.pathname === "/token") {
            const form = new URLSearchParams(body)
            if (form.get("grant_type") === "refresh_token") {
              if (form.get("refresh_token") !== "refresh-1") return json(400, { error: "invalid_grant" })
            } else {
              const grant = grants.get(form.get("code") ?? "")
              const verifier = createHash("sha256")
                .update(form.get("code_verifier") ?? "")
                .digest("base64url")
              if (grant === undefined || verifier !== grant.challenge || form.get("redirect_uri") !== grant.redirect) {
                return json(400, { error: "invalid_grant" })
              }
            }
            token = `token-${++count}`
            return json(200, {
              access_token: token,
              token_type: "Bearer",
              expires_in: 3600,
              refresh_token: "refresh-1"
            })
          }
          if (url.pathname !== "/mcp") return json(404, {})
          if (request.headers.authorization !== `Bearer ${token}`) {
            const metadata = `${base}/.well-known/oauth-protected-resource/mcp`
            return json(
              401,
              { error: "unauthorized" },
              { "www-authenticate": `Bearer resource_metadata="${metadata}"` }
            )
          }
          if (request.method !== "POST") return response.writeHead(405).end()
          const { id, method } = JSON.parse(body) as { id?: number; method: string }
          if (id === undefined) return response.writeHead(202).end()
          if (method === "initialize") {
            return json(200, {
              jsonrpc: "2.0",
              id,
              result: {
                protocolVersion: "2025-06-18",
                capabilities: { tools: {} },
                serverInfo: { name: "guarded", version: "1" }
              }
            })
          }
          if (method === "tools/list") {
            return json(200, {
              jsonrpc: "2.0",
              id,
              result: { tools: [{ name: "secret", inputSchema: { type: "object" } }] }
            })
          }
          return json(200, { jsonrpc: "2.0", id, error: { code: -32601, message: "no such method" } })
        })()
      }
      const server = createServer(handle)
      const apart = createServer(handle)
      if (isApart) {
        apart.listen(0, "127.0.0.1", () => {
          const address = apart.address()
          loginBase = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
        })
      }
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(
          Effect.succeed({
            url: `http://127.0.0.1:${port}/mcp`,
            asked,
            askedApart,
            loginHost: () => new URL(loginBase ?? "").host,
            expire: () => {
              token = "nobody has this"
            },
            close: () => {
              for (const one of isApart ? [server, apart] : [server]) {
                one.close()
                one.closeAllConnections()
              }
            },
            agree: async (page, change) => {
              const answer = await fetch(page, { redirect: "manual" })
              const back = new URL(answer.headers.get("location") ?? "")
              change?.(back)
              return (await fetch(back)).status
            }
          })
        )
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** One address for both. */
export const oauthServer = serverOf(false)

/** A server whose logins are at another host. */
export const oauthServerApart = serverOf(true)
