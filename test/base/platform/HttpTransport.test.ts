import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { execFileSync } from "node:child_process"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import { brotliCompressSync, createGzip, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import * as HttpTransport from "../../../src/base/platform/HttpTransport.ts"
import type { Options } from "../../../src/base/platform/ModelTransport.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"

const makeTransport = async (options?: Options) => (await HttpTransport.loadTransport())(options)

const client = Effect.acquireRelease(
  Effect.promise(() => makeTransport()),
  (fetch) => Effect.sync(fetch.close)
)

const post = (body: string | Uint8Array, extra: RequestInit = {}): RequestInit => ({ method: "POST", body, ...extra })

const proxyNames = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].flatMap((name) => [name, name.toLowerCase()])

/** Sets the variables of proxies, and no others of them, until the scope closes. */
const environment = (variables: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = proxyNames.map((name) => [name, process.env[name]] as const)
      for (const name of proxyNames) delete process.env[name]
      Object.assign(process.env, variables)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      })
  )

const failure = (promise: Promise<unknown>): Effect.Effect<Error> =>
  Effect.promise(() =>
    promise.then(
      () => new Error("did not fail"),
      (error: Error) => error
    )
  )

describe("HttpTransport", () => {
  it("leaves the dispatcher of the application's own fetch as it is, and lets undici work for the application", () => {
    const path = fileURLToPath(new URL("../../../src/base/platform/HttpTransport.ts", import.meta.url))
    const undici = import.meta.resolve("undici")
    const program = `
      const name = Symbol.for("undici.globalDispatcher.1")
      const before = { dispatch: () => { throw new Error("of the application") } }
      if (process.argv[2] === "own") globalThis[name] = before
      const { loadTransport } = await import(process.argv[1])
      const [make] = await Promise.all([loadTransport(), loadTransport()])
      make().close()
      const { getGlobalDispatcher } = await import(${JSON.stringify(undici)})
      const kept = globalThis[name] === (process.argv[2] === "own" ? before : undefined)
      console.log(kept, typeof getGlobalDispatcher().dispatch, await fetch("data:,").then((answer) => answer.status))`
    for (const state of ["own", "none"]) {
      const args = ["--input-type=module", "-e", program, path, state]
      assert.strictEqual(execFileSync(process.execPath, args, { encoding: "utf8" }), "true function 200\n")
    }
  })

  it.effect("sends strings and bytes with their length, and headers of every form", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => response.end("ok"))
      const fetch = yield* client
      for (const init of [
        post("héllo", { headers: new Headers({ "X-One": "1" }) }),
        post(Buffer.from("héllo"), { headers: { "X-One": "1" } }),
        post("héllo", { headers: [["X-One", "1"]] })
      ]) {
        const response = yield* Effect.promise(() => fetch(`${server.url}/a?b=c`, init))
        assert.strictEqual(yield* Effect.promise(() => response.text()), "ok")
      }
      assert.deepStrictEqual(
        server.requests.map((request) => [
          request.method,
          request.url,
          request.body,
          request.headers["content-length"],
          request.headers["x-one"]
        ]),
        [1, 2, 3].map(() => ["POST", "/a?b=c", "héllo", "6", "1"])
      )
    })
  )

  it.effect("keeps a connection for the next request", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => response.end("{}"))
      const fetch = yield* client
      for (let i = 0; i < 3; i++) {
        yield* Effect.promise(async () => (await fetch(server.url, post("x"))).json())
        // The pool hears of a free connection one turn of the event loop after the end of its answer.
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      assert.strictEqual(new Set(server.requests.map((request) => request.socket)).size, 1)
    })
  )

  it.effect("keeps the connection of a stream that was left just before its end", () =>
    Effect.gen(function* () {
      const text = "data: 1\n\ndata: [DONE]\n\n"
      // One write, so that all of it is here when the reader leaves.
      const server = yield* HttpServer.make((_, response) =>
        response.writeHead(200, { "content-length": text.length }).end(text)
      )
      const fetch = yield* client
      const first = yield* Effect.promise(() => fetch(server.url, post("x")))
      yield* Effect.promise(async () => {
        for await (const _ of first.body ?? []) break
      })
      // The rest runs out in the background; a request behind it waits for nothing.
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      yield* Effect.promise(async () => (await fetch(server.url, post("x"))).text())
      assert.strictEqual(new Set(server.requests.map((request) => request.socket)).size, 1)
    })
  )

  it.effect("closes the connection of a stream that goes on after its reader has left", () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const server = yield* HttpServer.make((_, response) => {
        response.once("close", closed.resolve)
        const write = (): void => {
          while (!response.destroyed && response.write("x".repeat(16_384)));
          if (!response.destroyed) response.once("drain", write)
        }
        write()
      })
      const fetch = yield* client
      const response = yield* Effect.promise(() => fetch(server.url, post("x")))
      yield* Effect.promise(async () => {
        for await (const _ of response.body ?? []) break
      })
      yield* Effect.promise(() => closed.promise)
    })
  )

  it.effect("an abort closes the socket, before the answer and in the middle of its body", () =>
    Effect.gen(function* () {
      const waiting: Array<() => void> = []
      const arrived = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const closed = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      let count = 0
      const server = yield* HttpServer.make((_, response) => {
        const at = count++
        response.once("close", () => closed[at]?.resolve())
        if (at === 1) response.write("data: 1\n\n")
        waiting.push(() => response.end())
        arrived[at]?.resolve()
      })
      const fetch = yield* client

      const early = new AbortController()
      const pending = fetch(server.url, post("x", { signal: early.signal }))
      yield* Effect.promise(() => arrived[0]?.promise ?? Promise.resolve())
      early.abort()
      assert.strictEqual((yield* failure(pending)).name, "AbortError")
      yield* Effect.promise(() => closed[0]?.promise ?? Promise.resolve())

      const late = new AbortController()
      const response = yield* Effect.promise(() => fetch(server.url, post("x", { signal: late.signal })))
      const reader = response.body?.[Symbol.asyncIterator]()
      assert.isDefined(reader)
      yield* Effect.promise(() => reader.next())
      const next = reader.next()
      late.abort()
      assert.strictEqual((yield* failure(next)).name, "AbortError")
      yield* Effect.promise(() => closed[1]?.promise ?? Promise.resolve())
    })
  )

  it.effect("an aborted signal sends nothing", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => response.end())
      const fetch = yield* client
      const error = yield* failure(fetch(server.url, post("x", { signal: AbortSignal.abort() })))
      assert.strictEqual(error.name, "AbortError")
      assert.strictEqual(server.requests.length, 0)
    })
  )

  it.effect("decodes every encoding that it offers, and several of them, whole and as a stream", () =>
    Effect.gen(function* () {
      const text = "ä".repeat(10_000)
      const encodings: Record<string, (text: string) => Uint8Array> = {
        gzip: gzipSync,
        deflate: deflateSync,
        "raw-deflate": deflateRawSync,
        br: brotliCompressSync,
        zstd: zstdCompressSync,
        "gzip, br": (text) => brotliCompressSync(gzipSync(text))
      }
      const server = yield* HttpServer.make((request, response) => {
        const name = decodeURIComponent(request.url.slice(1))
        response.writeHead(200, { "content-encoding": name.replace("raw-", "") }).end(encodings[name]?.(text))
      })
      const fetch = yield* client
      for (const name of Object.keys(encodings)) {
        const whole = yield* Effect.promise(() => fetch(`${server.url}/${encodeURIComponent(name)}`, post("x")))
        const again = yield* Effect.promise(() => fetch(`${server.url}/${encodeURIComponent(name)}`, post("x")))
        assert.strictEqual(new TextDecoder().decode(yield* Effect.promise(() => again.arrayBuffer())), text)
        assert.strictEqual(yield* Effect.promise(() => whole.text()), text)
        const streamed = yield* Effect.promise(() => fetch(`${server.url}/${encodeURIComponent(name)}`, post("x")))
        const chunks: Array<Uint8Array> = []
        yield* Effect.promise(async () => {
          for await (const chunk of streamed.body ?? []) chunks.push(chunk)
        })
        assert.strictEqual(Buffer.concat(chunks).toString(), text)
      }
    })
  )

  it.effect("an encoded stream is readable before it ends", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => {
        response.writeHead(200, { "content-encoding": "gzip" })
        const gzip = createGzip()
        gzip.pipe(response)
        gzip.write("data: 1\n\n")
        gzip.flush()
      })
      const fetch = yield* client
      const response = yield* Effect.promise(() => fetch(server.url, post("x")))
      const item = yield* Effect.promise(
        () => response.body?.[Symbol.asyncIterator]().next() ?? Promise.reject(new Error())
      )
      assert.strictEqual(Buffer.from(item.value ?? []).toString(), "data: 1\n\n")
    })
  )

  it.effect("a proxy of the environment is used for other hosts, never for this machine", () =>
    Effect.gen(function* () {
      const proxy = yield* HttpServer.make((_, response) => response.end("by proxy"))
      const server = yield* HttpServer.make((_, response) => response.end("direct"))
      yield* environment({ HTTP_PROXY: proxy.url })
      const fetch = yield* client
      const text = (url: string) => Effect.promise(async () => (await fetch(url, post("x"))).text())
      assert.strictEqual(yield* text(server.url), "direct")
      assert.strictEqual(yield* text("http://model.invalid/v1"), "by proxy")
      assert.strictEqual(proxy.requests[0]?.url, "http://model.invalid/v1")
    })
  )

  it.effect("a proxy for HTTPS is asked for a tunnel, and no request is sent where it refuses", () =>
    Effect.gen(function* () {
      const asked: Array<string | undefined> = []
      const proxy = yield* Effect.acquireRelease(
        Effect.callback<Server>((resume) => {
          const server = createServer((_, response) => void response.end("not a tunnel"))
          server.on("connect", ({ url }, socket) => {
            asked.push(url)
            socket.end("HTTP/1.1 403 Forbidden\r\n\r\n")
          })
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => void server.close())
      )
      // A TCP server that listens has an AddressInfo.
      yield* environment({ HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` })
      const fetch = yield* client
      const error = yield* failure(fetch("https://model.invalid/v1", post("x")))
      assert.deepStrictEqual([error.name, Reflect.get(error, "code")], ["Error", "ERR_PROXY_TUNNEL"])
      assert.include(error.message, "name the host in NO_PROXY")
      assert.deepStrictEqual(asked, ["model.invalid:443"])
    })
  )

  it.effect("hosts of NO_PROXY are asked without the proxy", () =>
    Effect.gen(function* () {
      const proxy = yield* HttpServer.make((_, response) => response.end("by proxy"))
      // Another name of this machine: nothing listens there.
      const url = "http://127.0.0.2:9/v1"
      const asked = (noProxy: string) =>
        Effect.gen(function* () {
          yield* environment({ HTTP_PROXY: proxy.url, NO_PROXY: noProxy })
          const fetch = yield* client
          return yield* Effect.exit(Effect.tryPromise(async () => (await fetch(url, post("x"))).text()))
        }).pipe(Effect.scoped)
      assert.deepStrictEqual(yield* asked("other.invalid"), Exit.succeed("by proxy"))
      assert.isTrue(Exit.isFailure(yield* asked("other.invalid,127.0.0.2")))
      assert.lengthOf(proxy.requests, 1)
    })
  )

  it.effect("an answer that is no success is a genuine Response", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 429, { error: "slow down" }, { "retry-after": "3" })
      )
      const fetch = yield* client
      const response = yield* Effect.promise(() => fetch(server.url, post("x")))
      assert.instanceOf(response, Response)
      assert.strictEqual(response.status, 429)
      assert.strictEqual(response.headers.get("Retry-After"), "3")
      assert.deepStrictEqual(yield* Effect.promise(() => response.json()), { error: "slow down" })
    })
  )

  it.effect("301, 302 and 303 turn a POST into a GET on the same origin, without its body", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((request, response) => {
        if (request.url === "/end") response.end(`${request.method}${request.body}`)
        else response.writeHead(Number(request.url.slice(1)), { location: "/end" }).end()
      })
      const fetch = yield* client
      for (const status of [301, 302, 303]) {
        const response = yield* Effect.promise(() => fetch(`${server.url}/${status}`, post("body")))
        assert.strictEqual(yield* Effect.promise(() => response.text()), "GET")
      }
    })
  )

  it.effect("307 and 308 are followed on the same origin with their body, and nowhere else", () =>
    Effect.gen(function* () {
      const other = yield* HttpServer.make((_, response) => response.end("stolen"))
      const server = yield* HttpServer.make((request, response) => {
        if (request.url === "/end") response.end(request.body)
        else
          response
            .writeHead(request.url === "/away" ? 307 : 308, {
              location: request.url === "/away" ? `${other.url}/x` : request.url === "/loop" ? "/loop" : "/end"
            })
            .end()
      })
      const fetch = yield* client
      const followed = yield* Effect.promise(() => fetch(`${server.url}/start`, post("body")))
      assert.strictEqual(yield* Effect.promise(() => followed.text()), "body")
      assert.isTrue(followed.redirected)
      const away = yield* Effect.promise(() => fetch(`${server.url}/away`, post("body")))
      assert.strictEqual(away.status, 307)
      assert.strictEqual(other.requests.length, 0)
      const loop = yield* Effect.promise(() => fetch(`${server.url}/loop`, post("body")))
      assert.strictEqual(loop.status, 308)
    })
  )

  it.effect("a request that the server had read is not sent again when its connection breaks", () =>
    Effect.gen(function* () {
      let count = 0
      const server = yield* HttpServer.make((request, response) => {
        count++
        if (count === 2) request.socket.resetAndDestroy()
        else response.end("ok")
      })
      const fetch = yield* client
      const ask = () => fetch(server.url, post("x")).then((response) => response.text())
      assert.strictEqual(yield* Effect.promise(ask), "ok")
      assert.propertyVal(yield* failure(ask()), "code", "ECONNRESET")
      assert.strictEqual(yield* Effect.promise(ask), "ok")
      assert.strictEqual(server.requests.length, 3)
    })
  )

  it.effect("a kept connection that the server has closed meanwhile costs no failure", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => response.end("ok"))
      const fetch = yield* client
      for (let i = 0; i < 3; i++) {
        const response = yield* Effect.promise(() => fetch(server.url, post("x")))
        assert.strictEqual(yield* Effect.promise(() => response.text()), "ok")
        const { socket } = server.requests.at(-1) ?? {}
        yield* Effect.promise(() => new Promise<void>((resolve) => socket?.once("close", () => resolve()).destroy()))
        yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 20)))
      }
      assert.strictEqual(server.requests.length, 3)
    })
  )

  it.effect("connection errors have a code", () =>
    Effect.gen(function* () {
      const fetch = yield* client
      const gone = yield* Effect.scoped(HttpServer.make((_, response) => response.end()))
      const error = yield* failure(fetch(gone.url, post("x")))
      assert.propertyVal(error, "code", "ECONNREFUSED")
    })
  )

  it.effect("a body that is cut short is an error", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((request, response) => {
        response.writeHead(200, { "content-length": "100" })
        response.write("half")
        setImmediate(() => request.socket.destroy())
      })
      const fetch = yield* client
      const response = yield* Effect.promise(() => fetch(server.url, post("x")))
      assert.propertyVal(yield* failure(response.text()), "code", "UND_ERR_SOCKET")
    })
  )

  it.effect("headers are found in any case", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) =>
        response.writeHead(200, { "X-Request-Id": "r1", "Set-Cookie": ["a", "b"] }).end()
      )
      const fetch = yield* client
      const { headers } = yield* Effect.promise(() => fetch(server.url, post("x")))
      assert.strictEqual(headers.get("X-REQUEST-ID"), "r1")
      assert.isTrue(headers.has("x-request-id"))
      assert.isNull(headers.get("constructor"))
      assert.strictEqual(new Map(headers.entries()).get("set-cookie"), "a, b")
    })
  )

  it.effect("refuses bodies and addresses that it can not send safely", () =>
    Effect.gen(function* () {
      const fetch = yield* client
      assert.instanceOf(yield* failure(fetch("http://user:pass@127.0.0.1/", post("x"))), TypeError)
      assert.instanceOf(yield* failure(fetch("file:///etc/passwd")), TypeError)
      assert.instanceOf(yield* failure(fetch("http://127.0.0.1/", { method: "POST", body: new FormData() })), TypeError)
    })
  )
})
