// A real HTTP server on a free loopback port, for one test.
import * as Effect from "effect/Effect"
import type { Scope } from "effect/Scope"
import { createServer } from "node:http"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"

export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
  readonly socket: Socket
}

export interface HttpServer {
  readonly url: string
  readonly requests: Array<Received>
}

const read = async (request: IncomingMessage): Promise<string> => {
  let body = ""
  request.setEncoding("utf8")
  for await (const chunk of request) body += chunk
  return body
}

/** Answers each request with `handler`; gone at the end of the test, with all its connections. */
export const make = (
  handler: (request: Received, response: ServerResponse) => void
): Effect.Effect<HttpServer, never, Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const requests: Array<Received> = []
        const server = createServer(async (request, response) => {
          const received: Received = {
            method: request.method ?? "",
            url: request.url ?? "",
            headers: request.headers,
            body: await read(request),
            socket: request.socket
          }
          requests.push(received)
          handler(received, response)
        })
        await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
        return { server, requests }
      }),
      ({ server }) =>
        Effect.promise(async () => {
          server.closeAllConnections()
          await new Promise<void>((resolve) => server.close(() => resolve()))
        })
    ),
    ({ server, requests }) => {
      // A TCP server that listens has an AddressInfo.
      const { port } = server.address() as AddressInfo
      return { url: `http://127.0.0.1:${port}`, requests }
    }
  )

/** A body of server-sent events. */
export const sse = (...data: ReadonlyArray<unknown>): string =>
  data.map((item) => `data: ${typeof item === "string" ? item : JSON.stringify(item)}\n\n`).join("")

/** Answers with JSON. */
export const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))
