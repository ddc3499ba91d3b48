// The proxy of a sandbox on a port, which every user of the machine reaches: nothing without the password of the
// sandbox.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createServer, request, type Server } from "node:http"
import { connect } from "node:net"
import { HostRequests } from "../../src/places/CommandEnvironment.ts"
import * as SandboxNetwork from "../../src/places/SandboxNetwork.ts"

const server = Effect.acquireRelease(
  Effect.promise(
    () =>
      new Promise<Server>((resolve) => {
        const server = createServer((_, response) => response.end("REACHED"))
        server.listen(0, "127.0.0.1", () => resolve(server))
      })
  ),
  (server) => Effect.sync(() => server.close())
).pipe(
  Effect.map((server) => {
    const address = server.address()
    return typeof address === "object" && address !== null ? address.port : 0
  })
)

const authorization = (password: string | undefined): Record<string, string> =>
  password === undefined ? {} : { "proxy-authorization": `Basic ${Buffer.from(`call:${password}`).toString("base64")}` }

/** Asks a proxy for a page, and for a tunnel; returns both statuses. */
const statusesOf = (proxy: number, target: string, password?: string) =>
  Effect.promise(() =>
    Promise.all([
      new Promise<number>((resolve, reject) => {
        const headers = { ...authorization(password), connection: "close" }
        const asked = request({ host: "127.0.0.1", port: proxy, path: `http://${target}/`, headers }, (response) => {
          response.resume().once("end", () => resolve(response.statusCode ?? 0))
        })
        asked.once("error", reject).end()
      }),
      new Promise<number>((resolve, reject) => {
        const headers = Object.entries(authorization(password))
          .map(([name, value]) => `${name}: ${value}\r\n`)
          .join("")
        const socket = connect(proxy, "127.0.0.1", () => socket.write(`CONNECT ${target} HTTP/1.1\r\n${headers}\r\n`))
        socket.once("error", reject).once("data", (bytes) => {
          socket.destroy()
          resolve(Number(/^HTTP\/1\.1 (\d+)/u.exec(bytes.toString("utf8"))?.[1]))
        })
      })
    ])
  )

const makeProxy = SandboxNetwork.openProxy(
  { host: "127.0.0.1", port: 0 },
  {
    setting: "terminal.sandbox.hosts",
    isListed: (host) => host === "listed.test",
    addresses: () => Effect.succeed(["127.0.0.1"])
  }
).pipe(Effect.map(({ caller, port }) => ({ caller, port: port ?? 0 })))

describe("the proxy of a sandbox on a port", () => {
  it.live("reaches listed hosts for its own commands alone", () =>
    Effect.gen(function* () {
      const target = `listed.test:${yield* server}`
      const own = yield* makeProxy
      const other = yield* makeProxy
      // A command that no user is asked about has a password too.
      const password = yield* own.caller
      assert.isDefined(password)
      assert.deepStrictEqual(yield* statusesOf(own.port, target, password), [200, 200])
      assert.deepStrictEqual(yield* statusesOf(own.port, target), [407, 407])
      assert.deepStrictEqual(yield* statusesOf(own.port, target, `${password?.slice(0, -2)}x`), [403, 403])
      assert.deepStrictEqual(yield* statusesOf(own.port, target, yield* other.caller), [403, 403])
    })
  )

  it.live("goes on for a process that its call left behind, which asks for no other host any more", () =>
    Effect.gen(function* () {
      const port = yield* server
      const asked: Array<string> = []
      const requests = { refused: new Set<string>(), ask: (host: string) => Effect.sync(() => asked.push(host) > 0) }
      const own = yield* makeProxy
      const password = yield* Effect.scoped(
        Effect.gen(function* () {
          const password = yield* Effect.provideService(own.caller, HostRequests, requests)
          assert.deepStrictEqual(yield* statusesOf(own.port, `other.test:${port}`, password), [200, 200])
          return password
        })
      )
      assert.deepStrictEqual(asked, ["other.test"])
      assert.deepStrictEqual(yield* statusesOf(own.port, `listed.test:${port}`, password), [200, 200])
      assert.deepStrictEqual(yield* statusesOf(own.port, `other.test:${port}`, password), [403, 403])
    })
  )
})
