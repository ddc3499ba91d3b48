import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as SseReader from "../../../src/models/provider/SseReader.ts"

const body = (chunks: ReadonlyArray<string | Uint8Array>) => {
  const state = { left: false }
  const stream = async function* () {
    try {
      for (const chunk of chunks) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk
    } finally {
      state.left = true
    }
  }
  return { state, stream: stream() }
}

const readAll = (chunks: ReadonlyArray<string | Uint8Array>) =>
  Effect.promise(async () => {
    const out: Array<ReadonlyArray<SseReader.SseEvent>> = []
    for await (const events of SseReader.readEvents(body(chunks).stream)) out.push(events)
    return out
  })

const data = (events: ReadonlyArray<ReadonlyArray<SseReader.SseEvent>>) => events.map((some) => some.map((e) => e.data))

describe("SseReader", () => {
  it.effect("gives the events of each chunk as one array", () =>
    Effect.gen(function* () {
      const events = yield* readAll(["data: 1\n\ndata: 2\n\n", "event: a\ndata: 3\n\n"])
      assert.deepStrictEqual(events, [
        [
          { event: undefined, data: "1" },
          { event: undefined, data: "2" }
        ],
        [{ event: "a", data: "3" }]
      ])
    })
  )

  it.effect("is the same wherever the bytes are cut, for every line end", () =>
    Effect.gen(function* () {
      const text =
        '\ufeff: hello\nid: 7\nevent: ä\ndata: {"ö":\ndata:"€😀"}\nretry: 3\n\n\ndata\n\ndata:  x\n\ndata: [DONE]\n\ndata: no\n\n'
      const expected = [
        { event: "ä", data: '{"ö":\n"€😀"}' },
        { event: undefined, data: " x" }
      ]
      for (const end of ["\n", "\r\n", "\r"]) {
        const bytes = Buffer.from(text.replaceAll("\n", end))
        for (let size = 1; size <= bytes.length; size++) {
          const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
            bytes.subarray(i * size, (i + 1) * size)
          )
          assert.deepStrictEqual((yield* readAll(chunks)).flat(), expected, `${JSON.stringify(end)} ${size}`)
        }
      }
    })
  )

  it.effect("the end of the body completes the last event", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(data(yield* readAll(["data: 1\n\ndata: 2"])), [["1"], ["2"]])
      assert.deepStrictEqual(data(yield* readAll(["data: 1\n\ndata: [DONE]"])), [["1"]])
      assert.deepStrictEqual(data(yield* readAll(["data: 1\n"])), [["1"]])
      assert.deepStrictEqual(yield* readAll([]), [])
    })
  )

  it.effect("leaves the body at [DONE] and when its reader leaves", () =>
    Effect.gen(function* () {
      const finished = body(["data: 1\n\ndata: [DONE]\n\n", "data: 2\n\n"])
      const left = body(["data: 1\n\n", "data: 2\n\n"])
      yield* Effect.promise(async () => {
        for await (const _ of SseReader.readEvents(finished.stream));
        for await (const _ of SseReader.readEvents(left.stream)) break
      })
      assert.isTrue(finished.state.left)
      assert.isTrue(left.state.left)
    })
  )

  it.effect("an error of the body reaches the reader", () =>
    Effect.gen(function* () {
      const broken = async function* () {
        yield Buffer.from("data: 1\n\n")
        throw new Error("cut")
      }
      const reader = SseReader.readEvents(broken())
      yield* Effect.promise(() => reader.next())
      const error = yield* Effect.promise(() =>
        reader.next().then(
          () => undefined,
          (cause: Error) => cause
        )
      )
      assert.strictEqual(error?.message, "cut")
    })
  )

  for (const [what, chunk] of [
    ["a line", "x".repeat(1024 * 1024)],
    ["an event", `data: ${"x".repeat(1024 * 1024)}\n`]
  ] as const) {
    it.effect(`${what} without an end fails after a bounded number of bytes`, () =>
      Effect.gen(function* () {
        let read = 0
        const endless = async function* () {
          for (;;) {
            read += chunk.length
            yield Buffer.from(chunk)
          }
        }
        const reader = SseReader.readEvents(endless())
        const error = yield* Effect.promise(() =>
          reader.next().then(
            () => undefined,
            (cause: unknown) => cause
          )
        )
        assert(AiError.isAiError(error) && error.reason._tag === "InvalidResponseError")
        assert.include(error.reason.message, "larger than 32 MiB")
        assert.isBelow(read, SseReader.maxEventBytes * 1.1)
      })
    )
  }
})
