// The limits that hold with every function that sends the requests of model calls, also with one that does not observe
// its signal.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { maxErrorBytes, silentCode } from "../../../src/base/platform/AnswerLimits.ts"
import * as FetchTransport from "../../../src/base/platform/FetchTransport.ts"
import type { Fetch } from "../../../src/base/platform/ModelTransport.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"

const address = "http://models.test/v1/chat"

/** The failure of a promise. */
const failureOf = (promise: Promise<unknown>): Promise<Error & { readonly code?: string }> =>
  promise.then(
    () => new Error("did not fail"),
    (error) => error
  )

/** A body that sends its pieces and never ends. */
const endless = (...pieces: ReadonlyArray<string>): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start: (controller) => {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece))
    }
  })

const neverAnswers: Fetch = () => new Promise(() => {})

describe("FetchTransport", () => {
  it("gives up an answer that does not begin in time", async () => {
    const { name } = await failureOf(FetchTransport.fromFetch(neverAnswers)(address, {}, 20))
    assert.strictEqual(name, "TimeoutError")
  })

  it("gives up an error answer that is not complete in time", async () => {
    const send = FetchTransport.fromFetch(async () => new Response(endless("half"), { status: 500 }))
    assert.strictEqual((await failureOf(send(address, {}, 20))).name, "TimeoutError")
  })

  it("ends an event stream that falls silent, and leaves its source", async () => {
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode("data: 1\n\n")),
      cancel: () => {
        cancelled = true
      }
    })
    const headers = { "content-type": "text/event-stream" }
    const send = FetchTransport.fromFetch(async () => new Response(body, { headers }), { readTimeoutMillis: 20 })
    const answer = await send(address)
    assert.strictEqual((await failureOf(answer.text())).code, silentCode)
    assert.isTrue(cancelled)
  })

  it("an abort ends the request and the reading of its body", async () => {
    const send = FetchTransport.fromFetch(neverAnswers)
    const before = new AbortController()
    const waiting = failureOf(send(address, { signal: before.signal }))
    before.abort(new Error("given up"))
    assert.strictEqual((await waiting).message, "given up")

    const during = new AbortController()
    const answer = await FetchTransport.fromFetch(async () => new Response(endless("half")))(address, {
      signal: during.signal
    })
    const reading = failureOf(answer.text())
    during.abort(new Error("given up"))
    assert.strictEqual((await reading).message, "given up")
  })

  it("an aborted signal sends nothing, and a closed client ends its requests", async () => {
    let sent = 0
    const send = FetchTransport.fromFetch(() => {
      sent++
      return new Promise(() => {})
    })
    await failureOf(send(address, { signal: AbortSignal.abort() }))
    assert.strictEqual(sent, 0)
    const waiting = failureOf(send(address))
    send.close()
    assert.strictEqual((await waiting).message, "the client was closed")
  })

  it("cuts the body of an error answer", async () => {
    const piece = new Uint8Array(1024 * 1024)
    let pieces = 0
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pieces++
        controller.enqueue(piece)
      }
    })
    const answer = await FetchTransport.fromFetch(async () => new Response(body, { status: 500 }))(address)
    assert.strictEqual((await answer.arrayBuffer()).byteLength, maxErrorBytes)
    assert.isBelow(pieces, 20)
  })

  it("an endless answer in one piece is an error", async () => {
    const piece = new Uint8Array(16 * 1024 * 1024)
    const body = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(piece) })
    const headers = { "content-type": "application/json" }
    const answer = await FetchTransport.fromFetch(async () => new Response(body, { headers }))(address)
    assert.strictEqual((await failureOf(answer.text())).message, "the answer is larger than 64 MiB")
  })

  it.effect("follows redirects to the same origin only, at most five times", () =>
    Effect.gen(function* () {
      const other = yield* HttpServer.make((_, response) => response.end("stolen"))
      const server = yield* HttpServer.make(({ body, url }, response) => {
        if (url === "/end") return void response.end(body)
        const location = url === "/away" ? `${other.url}/x` : url === "/loop" ? "/loop" : "/end"
        response.writeHead(307, { location }).end()
      })
      const send = FetchTransport.fromFetch(fetch)
      const ask = (path: string) =>
        Effect.promise(async () => {
          const answer = await send(server.url + path, {
            method: "POST",
            body: "sent",
            headers: { authorization: "secret" }
          })
          return [answer.status, await answer.text()]
        })
      assert.deepStrictEqual(yield* ask("/start"), [200, "sent"])
      assert.deepStrictEqual(yield* ask("/away"), [307, ""])
      assert.strictEqual(other.requests.length, 0)
      assert.deepStrictEqual(yield* ask("/loop"), [307, ""])
      assert.strictEqual(server.requests.filter(({ url }) => url === "/loop").length, 6)
    })
  )

  it("refuses addresses that it cannot send safely", async () => {
    const send = FetchTransport.fromFetch(neverAnswers)
    assert.match((await failureOf(send("ftp://models.test"))).message, /scheme/)
    assert.match((await failureOf(send("http://u:p@models.test"))).message, /credentials/)
  })
})
