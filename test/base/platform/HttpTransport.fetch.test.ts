// One list of exchanges for three transports: ours do what the platform's `fetch` does. Where we mean to differ, the
// case says so.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ServerResponse } from "node:http"
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import * as FetchTransport from "../../../src/base/platform/FetchTransport.ts"
import * as HttpTransport from "../../../src/base/platform/HttpTransport.ts"
import type { Options } from "../../../src/base/platform/ModelTransport.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"

const makeTransport = async (options?: Options) => (await HttpTransport.loadTransport())(options)

const text = "ä🙂 ".repeat(5_000)
const encodings: Record<string, (text: string | Uint8Array) => Uint8Array> = {
  gzip: gzipSync,
  deflate: deflateSync,
  "deflate-raw": deflateRawSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync
}

/** Gives up the request that the server hangs on. */
let giveUp = (): void => {}

/** Answers by the path of the request. */
const answer = ({ method, socket, url, body }: HttpServer.Received, response: ServerResponse): void => {
  const [, kind = "", detail = ""] = url.split("/")
  switch (kind) {
    case "encoded": {
      const names = detail.split("+")
      const sent = names.reduce<string | Uint8Array>((data, name) => encodings[name]?.(data) ?? data, text)
      return void response
        .writeHead(200, { "content-encoding": names.map((name) => name.replace("-raw", "")).join(", ") })
        .end(sent)
    }
    case "status":
      return void response
        .writeHead(Number(detail), { "x-kind": "status" })
        .end(Number(detail) === 204 || Number(detail) === 304 ? undefined : `status ${detail}`)
    case "large":
      return void response.writeHead(Number(detail)).end(Buffer.alloc(3 * 1024 * 1024, "long "))
    case "redirect":
      return void response.writeHead(Number(detail), { location: "/seen" }).end("elsewhere")
    case "seen":
      return void response.end(`${method} ${body}`)
    case "pieces":
      response.write("one ")
      setImmediate(() => response.write("two "))
      return void setTimeout(() => response.end("three"), 5)
    case "cut":
      response.writeHead(200, { "content-length": "100" }).write("half")
      return void setTimeout(() => socket.destroy(), 5)
    case "nothing":
      return void socket.destroy()
    case "hang":
      if (detail === "body") response.writeHead(200).write("begun")
      return void setTimeout(giveUp, 20)
    case "headers":
      return void response
        .writeHead(200, { "X-Mixed": "a", "set-cookie": ["b", "c"], "content-type": "text/plain" })
        .end("ok")
    default:
      return void response.end("\ufeffwith a mark")
  }
}

interface Case {
  readonly path: string
  readonly init?: RequestInit
}

const post: RequestInit = { method: "POST", body: "sent" }

const cases: ReadonlyArray<Case> = [
  ...Object.keys(encodings).map((name) => ({ path: `/encoded/${name}` })),
  { path: "/encoded/gzip+br" },
  { path: "/encoded/deflate+gzip", init: post },
  { path: "/encoded/zstd+gzip" },
  ...[200, 400, 529].map((status) => ({ path: `/large/${status}`, init: post })),
  ...[201, 204, 304, 400, 404, 429, 500, 503].map((status) => ({ path: `/status/${status}`, init: post })),
  ...[301, 302, 303, 307, 308].flatMap((status) => [
    { path: `/redirect/${status}` },
    { path: `/redirect/${status}`, init: post }
  ]),
  { path: "/pieces" },
  { path: "/cut", init: post },
  { path: "/nothing", init: post },
  { path: "/hang", init: post },
  { path: "/hang/body", init: post },
  { path: "/headers" },
  { path: "/mark" }
]

type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** What a caller sees of an exchange. Messages of failures are the transport's own. */
const seen = async (fetch: Fetch, url: string, { init = {}, path }: Case): Promise<unknown> => {
  const abort = new AbortController()
  giveUp = () => abort.abort(new DOMException("given up", "TimeoutError"))
  let response: Response | undefined
  try {
    response = await fetch(`${url}${path}`, { ...init, signal: abort.signal })
    const { headers, ok, redirected, status } = response
    // Where nothing was followed it is the caller's own.
    const address = redirected ? response.url : ""
    const body = await response.text()
    return {
      status,
      ok,
      redirected,
      address,
      body,
      headers: ["x-kind", "x-mixed", "set-cookie", "content-type"].map((name) => headers.get(name))
    }
  } catch (error) {
    return {
      failed: response === undefined ? "before the answer" : "in the body",
      isTimeout: error instanceof Error && error.name === "TimeoutError"
    }
  }
}

describe("HttpTransport beside fetch", () => {
  it.live("gives the same answers and failures, and sends as many requests", () =>
    Effect.gen(function* () {
      const ours = yield* Effect.acquireRelease(
        Effect.promise(() => makeTransport()),
        (fetch) => Effect.sync(fetch.close)
      )
      const overFetch = FetchTransport.fromFetch(fetch)
      const observe = Effect.fnUntraced(function* (fetch: Fetch, one: Case) {
        const server = yield* HttpServer.make(answer)
        const result = JSON.stringify(yield* Effect.promise(() => seen(fetch, server.url, one))).replaceAll(
          server.url,
          ""
        )
        return { result, requests: server.requests.map(({ body, method, url }) => `${method} ${url} ${body}`) }
      }, Effect.scoped)
      for (const one of cases) {
        const name = `${one.init?.method ?? "GET"} ${one.path}`
        const expected = { name, ...(yield* observe(fetch, one)) }
        assert.deepStrictEqual({ name, ...(yield* observe(ours, one)) }, expected)
        const { result, ...rest } = { name, ...(yield* observe(overFetch, one)) }
        // A `Response` that is made from another one does not say whether it was redirected.
        const withoutAddress = (text: string): string =>
          text.replace(/"redirected":true,"address":"[^"]*"/u, '"redirected":false,"address":""')
        assert.deepStrictEqual({ ...rest, result }, { ...expected, result: withoutAddress(expected.result) })
      }
    })
  )

  it.live("holds the server back while nobody reads, and loses nothing of it", () =>
    Effect.gen(function* () {
      const chunk = Buffer.alloc(64 * 1024, "x")
      const total = 400
      let written = 0
      const server = yield* HttpServer.make((_, response) => {
        const write = (): void => {
          while (written < total) {
            written++
            if (!response.write(chunk)) return void response.once("drain", write)
          }
          response.end()
        }
        write()
      })
      const ours = yield* Effect.acquireRelease(
        Effect.promise(() => makeTransport()),
        (fetch) => Effect.sync(fetch.close)
      )
      const response = yield* Effect.promise(() => ours(server.url))
      let before = -1
      while (before !== written) {
        before = written
        yield* Effect.sleep(100)
      }
      assert.isBelow(written, total)
      let bytes = 0
      yield* Effect.promise(async () => {
        for await (const piece of response.body ?? []) bytes += piece.length
      })
      assert.strictEqual(bytes, total * chunk.length)
    })
  )
})
