import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type AddressInfo, createServer, type Socket } from "node:net"
import * as ChatCompletions from "../../../src/models/provider/ChatCompletions.ts"
import * as HttpTransport from "../../../src/base/platform/HttpTransport.ts"
import type { Options } from "../../../src/base/platform/ModelTransport.ts"
import { silentCode } from "../../../src/base/platform/AnswerLimits.ts"
import * as Ask from "../../models/provider/Ask.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"

const makeTransport = async (options?: Options) => (await HttpTransport.loadTransport())(options)

const client = (readTimeoutMillis: number) =>
  Effect.acquireRelease(
    Effect.promise(() => makeTransport({ readTimeoutMillis })),
    (fetch) => Effect.sync(fetch.close)
  )

const codeOf = (promise: Promise<unknown>) =>
  Effect.promise(() =>
    promise.then(
      () => "did not fail",
      (error: NodeJS.ErrnoException) => error.code ?? error.message
    )
  )

const events = { "content-type": "text/event-stream" }

describe("HttpTransport deadlines", () => {
  it.effect("a stream that sends no byte any more ends, and its connection with it", () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const server = yield* HttpServer.make((_, response) => {
        response.once("close", closed.resolve)
        response.writeHead(200, events).write("data: 1\n\n")
      })
      const fetch = yield* client(40)
      const response = yield* Effect.promise(() => fetch(server.url, { method: "POST", body: "x" }))
      assert.strictEqual(yield* codeOf(response.text()), silentCode)
      yield* Effect.promise(() => closed.promise)
    })
  )

  it.effect("an answer in one piece may take its time between bytes", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => {
        response.writeHead(200, { "content-type": "application/json" }).write("[")
        setTimeout(() => response.end("1]"), 150)
      })
      const fetch = yield* client(20)
      const response = yield* Effect.promise(() => fetch(server.url, { method: "POST", body: "x" }))
      assert.deepStrictEqual(yield* Effect.promise(() => response.json()), [1])
    })
  )

  it.effect("a connection that has served a stream is not ended while it waits for the next request", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => response.writeHead(200, events).end("data: 1\n\n"))
      const fetch = yield* client(1000)
      const once = Effect.promise(async () => (await fetch(server.url, { method: "POST", body: "x" })).text())
      yield* once
      yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 1500)))
      yield* once
      assert.strictEqual(new Set(server.requests.map(({ socket }) => socket)).size, 1)
    })
  )

  it.effect("a provider says who fell silent, for how long, and which setting waits longer", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => {
        response
          .writeHead(200, events)
          .write(`data: ${JSON.stringify({ choices: [{ delta: { content: "Hel" } }] })}\n\n`)
      })
      const provider = yield* ChatCompletions.make({
        provider: "custom",
        model: "m",
        apiMode: "chat_completions",
        baseUrl: server.url,
        readTimeoutMillis: 40
      })
      const request = yield* provider.prepare(Ask.call("Hi", { stream: true }))
      const error = yield* Effect.flip(provider.execute(request))
      assert.match(
        error.message,
        /127\.0\.0\.1:\d+ stopped sending in the middle of its answer .*network\.stream_read_timeout_seconds/
      )
    })
  )

  it.effect("an answer that does not begin in the time of its request is given up, one that did begin is not", () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const server = yield* HttpServer.make(({ url }, response) => {
        if (url === "/late") return void response.once("close", closed.resolve)
        response.writeHead(200).write("[")
        setTimeout(() => response.end("1]"), 4_500)
      })
      const fetch = yield* Effect.acquireRelease(
        Effect.promise(() => makeTransport()),
        (fetch) => Effect.sync(fetch.close)
      )
      const slow = fetch(server.url, {}, 4_000)
      const error = yield* Effect.flip(
        Effect.tryPromise({ try: () => fetch(`${server.url}/late`, {}, 20), catch: (error) => error })
      )
      assert.strictEqual(error instanceof Error ? error.name : error, "TimeoutError")
      yield* Effect.promise(() => closed.promise)
      assert.deepStrictEqual(yield* Effect.promise(async () => (await slow).json()), [1])
    })
  )

  it.effect.each([
    ["a failure", 500, {}],
    ["a redirect", 307, { location: "/" }]
  ] as const)("an answer that is %s and stops in the middle is given up too", ([, status, headers]) =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const server = yield* HttpServer.make((_, response) => {
        response.once("close", closed.resolve)
        response.writeHead(status, headers).write("{")
      })
      const fetch = yield* Effect.acquireRelease(
        Effect.promise(() => makeTransport()),
        (fetch) => Effect.sync(fetch.close)
      )
      const error = yield* Effect.flip(
        Effect.tryPromise({ try: () => fetch(server.url, {}, 100), catch: (error) => error })
      )
      assert.strictEqual(error instanceof Error ? error.name : error, "TimeoutError")
      yield* Effect.promise(() => closed.promise)
    })
  )

  it.effect("a request that may wait long does not make one that may not wait longer", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make(() => {})
      const fetch = yield* Effect.acquireRelease(
        Effect.promise(() => makeTransport()),
        (fetch) => Effect.sync(fetch.close)
      )
      const nameOf = (promise: Promise<unknown>) =>
        Effect.promise(() =>
          promise.then(
            () => "did not fail",
            (error: Error) => error.name
          )
        )
      const long = nameOf(fetch(server.url, { signal: AbortSignal.timeout(1_000) }, 600_000))
      const short = yield* nameOf(fetch(server.url, { signal: AbortSignal.timeout(60_000) }, 20))
      assert.deepStrictEqual([short, yield* long], ["TimeoutError", "TimeoutError"])
    })
  )

  it.effect("a connection whose handshake is never answered is given up", () =>
    Effect.gen(function* () {
      const sockets = new Set<Socket>()
      const server = yield* Effect.acquireRelease(
        Effect.promise(async () => {
          const server = createServer((socket) => {
            sockets.add(socket)
            socket.on("error", () => {})
          })
          await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
          return server
        }),
        (server) =>
          Effect.promise(async () => {
            for (const socket of sockets) socket.destroy()
            await new Promise<void>((resolve) => server.close(() => resolve()))
          })
      )
      // A TCP server that listens has an AddressInfo.
      const { port } = server.address() as AddressInfo
      const fetch = yield* Effect.acquireRelease(
        Effect.promise(() => makeTransport({ connectTimeoutMillis: 50 })),
        (fetch) => Effect.sync(fetch.close)
      )
      const failed = fetch(`https://127.0.0.1:${port}`, { method: "POST", body: "x" })
      assert.strictEqual(yield* codeOf(failed), "UND_ERR_CONNECT_TIMEOUT")
    })
  )
})
