/**
 * An HTTP proxy on a socket file or a port of the loopback address, for programs without any other network access. Each
 * requested host is admitted or refused.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import type * as Http from "node:http"
import { connect } from "node:net"
import { type Duplex, pipeline } from "node:stream"

/** Reason for refusing a host. If `isCallerWanted` is true, a client that sent no password is asked for one. */
export type ProxyRefusal = string | { readonly reason: string; readonly isCallerWanted: boolean }

/**
 * Decides whether a host may be reached. Returns the current addresses of the host, or fails with a refusal. `caller`
 * is the password that the client sent.
 */
export type Admission = (
  host: string,
  port: number,
  caller: string | undefined
) => Effect.Effect<ReadonlyArray<string>, ProxyRefusal>

/** Creates a random password. */
export const makePassword = (): string => randomUUID()

/** Reads the password of a request; `undefined` if it is absent. */
const readCaller = ({ headers }: Http.IncomingMessage): string | undefined => {
  const encoded = /^basic +([a-z0-9+/=]+)$/i.exec(headers["proxy-authorization"] ?? "")?.[1]
  return encoded === undefined ? undefined : /^[^:]*:(.+)$/s.exec(Buffer.from(encoded, "base64").toString("utf8"))?.[1]
}

/**
 * Parses an authority such as `example.com:443` or `[::1]:443` into host and port. Returns `undefined` for any other
 * text.
 */
const parseAuthority = (text: string): { readonly host: string; readonly port: number } | undefined => {
  const [, v6, name, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:/?#@\s]+)):(\d{1,5})$/.exec(text) ?? []
  const host = v6 ?? name
  return host === undefined || Number(port) > 65_535 ? undefined : { host: host.toLowerCase(), port: Number(port) }
}

/** Joins two connections; if one ends, the other ends too. */
const joinConnections = (one: Duplex, other: Duplex): void => {
  // A broken connection ends both sides; the error is not reported.
  pipeline(one, other, () => void other.destroy())
  pipeline(other, one, () => void one.destroy())
}

/** Returns the HTTP status and headers of a refusal. */
const toRefusalStatus = (refused: ProxyRefusal, caller: string | undefined) =>
  typeof refused !== "string" && refused.isCallerWanted && caller === undefined
    ? { status: "407 Proxy Authentication Required", challenge: { "proxy-authenticate": 'Basic realm="sandbox"' } }
    : { status: "403 Forbidden", challenge: {} }

const renderReason = (refused: ProxyRefusal): string =>
  `refused by the sandbox: ${typeof refused === "string" ? refused : refused.reason}\n`

const renderRefusal = (refused: ProxyRefusal, caller: string | undefined): string => {
  const body = renderReason(refused)
  const { challenge, status } = toRefusalStatus(refused, caller)
  const more = Object.entries(challenge)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")
  return (
    `HTTP/1.1 ${status}\r\n${more}content-type: text/plain; charset=utf-8\r\ncontent-length: ` +
    `${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`
  )
}

/** Headers that apply only to the connection to the proxy. */
const hopByHop = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

/** Place to listen on: a socket file, or any free port of the loopback address. */
export type ListenPlace = { readonly path: string } | { readonly host: "127.0.0.1"; readonly port: 0 }

/**
 * Runs a proxy until the scope ends; open connections are then closed. Returns the port, if `place` is not a socket
 * file. Supports `CONNECT` and plain requests with an absolute URL. Fails with the system's error message if the place
 * cannot be used.
 */
export const listen = (place: ListenPlace, admit: Admission): Effect.Effect<number | undefined, string, Scope.Scope> =>
  Effect.gen(function* () {
    // Loaded on demand, because `node:http` also loads Node's `fetch`, which a program without a proxy does not need.
    const { createServer, request: requestOf } = yield* Effect.promise(() => import("node:http"))
    const run = Effect.runForkWith(yield* Effect.context())
    const open = new Set<Duplex>()
    const trackSocket = <Socket extends Duplex>(socket: Socket): Socket => {
      open.add(socket)
      socket.once("close", () => open.delete(socket))
      return socket
    }
    /**
     * Asks for admission to a host. Calls `then` with an address, or `refuse` with a reason, unless the client has
     * disconnected.
     */
    const requestAdmission = (
      client: Duplex,
      { caller, host, port }: { readonly caller: string | undefined; readonly host: string; readonly port: number },
      then: (address: string) => void,
      refuse: (refused: ProxyRefusal) => void
    ): void => {
      const fiber = run(
        Effect.map(Effect.result(admit(host, port, caller)), (answer) => {
          if (client.destroyed) return
          if (Result.isFailure(answer)) refuse(answer.failure)
          else if (answer.success[0] === undefined) refuse(`${host} has no address`)
          else then(answer.success[0])
        })
      )
      client.once("close", () => run(Fiber.interrupt(fiber)))
    }

    const server = createServer((request, response) => {
      const url = URL.parse(request.url ?? "")
      const caller = readCaller(request)
      const refuse = (refused: ProxyRefusal): void => {
        const { challenge, status } = toRefusalStatus(refused, caller)
        response
          .writeHead(Number(status.slice(0, 3)), {
            ...challenge,
            "content-type": "text/plain; charset=utf-8",
            connection: "close"
          })
          .end(renderReason(refused))
      }
      if (url === null || url.protocol !== "http:")
        return refuse("only requests with an http URL and CONNECT are served")
      const port = url.port === "" ? 80 : Number(url.port)
      const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !hopByHop.has(name)))
      requestAdmission(
        request.socket,
        { caller, host: url.hostname, port },
        (host) => {
          const onward = requestOf(
            {
              host,
              port,
              method: request.method,
              path: `${url.pathname}${url.search}`,
              headers: { ...headers, host: url.host },
              agent: false,
              setHost: false
            },
            (answer) => {
              response.writeHead(
                answer.statusCode ?? 502,
                Object.fromEntries(Object.entries(answer.headers).filter(([name]) => !hopByHop.has(name)))
              )
              pipeline(answer, response, () => void response.destroy())
            }
          )
          onward.once("socket", trackSocket)
          onward.once("error", () => void (response.headersSent ? response.destroy() : response.writeHead(502).end()))
          pipeline(request, onward, () => {})
        },
        refuse
      )
    })
    server.on("connection", trackSocket)
    server.on("connect", (request: Http.IncomingMessage, client: Duplex, first: Buffer) => {
      client.on("error", () => void client.destroy())
      const target = parseAuthority(request.url ?? "")
      const caller = readCaller(request)
      const refuse = (refused: ProxyRefusal): void => void client.end(renderRefusal(refused, caller))
      if (target === undefined) return refuse("the target is no host with a port")
      requestAdmission(
        client,
        { caller, ...target },
        (host) => {
          const onward = trackSocket(connect({ host, port: target.port }))
          onward.once(
            "error",
            () => void client.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
          )
          onward.once("connect", () => {
            client.write("HTTP/1.1 200 Connection established\r\n\r\n")
            onward.write(first)
            joinConnections(client, onward)
          })
        },
        refuse
      )
    })
    return yield* Effect.acquireRelease(
      Effect.callback<number | undefined, string>((resume) => {
        server.once("error", ({ message }) => resume(Effect.fail(message)))
        server.listen(place, () => {
          const address = server.address()
          resume(Effect.succeed(typeof address === "string" ? undefined : address?.port))
        })
      }),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          for (const socket of open) socket.destroy()
        })
    )
  })

/**
 * Source code of a program that forwards connections from a port of the loopback address to a socket file. The program
 * receives the path of the socket file as its argument. It prints `ready PORT`, and exits when its input ends.
 */
export const carrier = `
const net = require("node:net")
const server = net.createServer((client) => {
  const onward = net.connect(process.argv[1])
  for (const [one, other] of [[client, onward], [onward, client]]) {
    one.pipe(other)
    one.on("error", () => other.destroy()).on("close", () => other.destroy())
  }
})
server.listen(0, "127.0.0.1", () => console.log("ready " + server.address().port))
process.stdin.on("end", () => process.exit()).resume()
`
