// Names and pages that a server on the loopback answers to, on every kind of route.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { connect } from "node:net"
import { world } from "../../support/servedAgent.ts"

const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" })

const routes = (id: string) =>
  [
    ["GET", "/v1/models"],
    ["GET", `/v1/sessions/${id}/events`],
    ["POST", "/mcp"],
    ["GET", "/metrics"],
    ["GET", "/openapi.json"],
    ["GET", "/health"]
  ] as const

/** Sends a request as it is written, and gives its status and code; a stream of events is left at its beginning. */
const raw = (port: number, method: string, path: string, headers: ReadonlyArray<string>) =>
  new Promise<readonly [number, string | undefined]>((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => {
      const more =
        method === "POST"
          ? [
              "content-type: application/json",
              "accept: application/json, text/event-stream",
              `content-length: ${body.length}`
            ]
          : []
      socket.write(
        [
          `${method} ${path} HTTP/1.1`,
          ...headers,
          ...more,
          "connection: close",
          "",
          method === "POST" ? body : ""
        ].join("\r\n")
      )
    })
    let text = ""
    const done = () => {
      resolve([Number(/^HTTP\/1\.1 (\d+)/u.exec(text)?.[1]), /"code":"(\w+)"/u.exec(text)?.[1]])
      socket.destroy()
    }
    socket.on("data", (piece) => {
      text += piece.toString()
      if (text.includes(": connected")) done()
    })
    socket.on("end", done)
    socket.on("error", reject)
  })

describe("names and pages", () => {
  it.live("of the loopback are answered with any port; others, several, and none are refused, on every route", () =>
    Effect.gen(function* () {
      const { fetched, url } = yield* world(
        {},
        {
          // Admission by names and origins is all that such a server has.
          open: true,
          allowedHosts: ["agent.example"],
          allowedOrigins: ["https://page.example"],
          mcpTools: [
            { name: "echo", description: "Echo", parameters: {}, readOnly: true, run: () => Effect.succeed("echo") }
          ]
        }
      )
      const port = Number(new URL(url).port)
      const own = `host: 127.0.0.1:${port}`
      const answered: ReadonlyArray<ReadonlyArray<string>> = [
        [own],
        [`host: localhost:${port}`],
        ["host: LOCALHOST:1"],
        [`host: [::1]:${port}`],
        ["host: [::1]"],
        ["host: 127.9.9.9:80"],
        ["host: agent.example"],
        ["host: Agent.Example:8443"],
        [own, `origin: http://127.0.0.1:${port}`],
        [own, "origin: https://page.example"]
      ]
      const names: ReadonlyArray<ReadonlyArray<string>> = [
        ["host: evil.example"],
        [`host: evil.example:${port}`],
        [`host: 127.0.0.1.evil.example:${port}`],
        [`host: localhost.evil.example:${port}`],
        [`host: evil.example/127.0.0.1:${port}`],
        [`host: 127.0.0.1@evil.example:${port}`],
        ["host: 192.0.2.1"],
        ["host: [2001:db8::1]:80"],
        ["host:"]
      ]
      const pages: ReadonlyArray<ReadonlyArray<string>> = [
        [own, "origin: https://evil.example"],
        [own, "origin: null"],
        [own, "origin: "],
        [own, "origin: http://127.0.0.1:1"],
        [own, `origin: http://localhost:${port}`],
        [own, `origin: http://127.0.0.1:${port}.evil.example`],
        [own, "origin: https://page.example.evil.example"],
        [own, "origin: http://page.example"]
      ]
      yield* Effect.promise(async () => {
        const {
          body: { id }
        } = await fetched("/v1/sessions", { json: {} })
        for (const [method, path] of routes(id)) {
          const said = (headers: ReadonlyArray<string>) => raw(port, method, path, headers)
          for (const headers of answered)
            assert.deepStrictEqual([path, headers, await said(headers)], [path, headers, [200, undefined]])
          for (const headers of names)
            assert.deepStrictEqual([path, headers, await said(headers)], [path, headers, [403, "forbidden_host"]])
          for (const headers of pages)
            assert.deepStrictEqual([path, headers, await said(headers)], [path, headers, [403, "forbidden_origin"]])
          // HTTP/1.1 wants one name: what has none, or several, is no request.
          assert.deepStrictEqual([path, await said([])], [path, [400, undefined]])
        }
      })
    })
  )
})
