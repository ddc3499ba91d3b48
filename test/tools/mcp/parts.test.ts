import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as BoundedFetch from "../../../src/tools/mcp/McpSdkClient.ts"
import * as Framing from "../../../src/tools/mcp/Framing.ts"
import * as ServerConfig from "../../../src/tools/mcp/ServerConfig.ts"

const bytes = (text: string) => new TextEncoder().encode(text)

describe("framing", () => {
  it("gives whole lines, however the bytes are cut, and signs of several bytes with them", () => {
    const whole = bytes('één\n{"a":1}\n\nrest')
    for (let size = 1; size <= whole.length; size++) {
      const frame = Framing.make(100)
      const lines: Array<Framing.Line> = []
      for (let at = 0; at < whole.length; at += size) lines.push(...frame(whole.subarray(at, at + size)))
      assert.deepStrictEqual(
        lines,
        ["één", '{"a":1}', ""].map((text) => ({ _tag: "Line", text }))
      )
    }
  })

  it("keeps the two ends of a line that is too long, and goes on with the next", () => {
    const frame = Framing.make(5000)
    const long = `{"jsonrpc":"2.0","id":7,"x":"${"y".repeat(20_000)}"}`
    const [first, second] = [...frame(bytes(long.slice(0, 9000))), ...frame(bytes(`${long.slice(9000)}\nnext\n`))]
    assert.strictEqual(first?._tag, "TooLong")
    assert.strictEqual(first?._tag === "TooLong" ? Framing.readAnsweredId(first) : undefined, 7)
    assert.deepStrictEqual(second, { _tag: "Line", text: "next" })
  })

  it("reads the id at either end, and none out of the middle", () => {
    assert.strictEqual(Framing.readAnsweredId({ head: '{"id":"a",', tail: "" }), "a")
    assert.strictEqual(Framing.readAnsweredId({ head: '{"result":', tail: ',"id":12}' }), 12)
    assert.strictEqual(Framing.readAnsweredId({ head: '{"result":', tail: ',"id":12,"jsonrpc":"2.0"}' }), 12)
    assert.isUndefined(Framing.readAnsweredId({ head: '{"result":{"id":3,', tail: '"}}' }))
  })
})

describe("names", () => {
  it("are cleaned, bounded and each their own", () => {
    assert.strictEqual(ServerConfig.formatToolName("my server", "do it/now"), "mcp__my_server__do_it_now")
    const names = ServerConfig.formatToolNames("s", ["a.b", "a_b", "a b", "x".repeat(100), `${"x".repeat(100)}y`])
    assert.strictEqual(new Set(names).size, 5)
    for (const name of names) assert.match(name, /^[A-Za-z0-9_-]{1,64}$/)
    assert.deepStrictEqual(
      ServerConfig.formatToolNames("s", ["a.b", "a_b"]),
      ServerConfig.formatToolNames("s", ["a.b", "a_b"])
    )
  })

  it("are filtered by globs, and include wins", () => {
    const both = ServerConfig.makeNameFilter(["read_*", "a?c"], ["*"])
    assert.deepStrictEqual(["read_x", "abc", "ac", "write", "xread_"].filter(both), ["read_x", "abc"])
    assert.deepStrictEqual(["a.b", "axb"].filter(ServerConfig.makeNameFilter(undefined, ["a.b"])), ["axb"])
    assert.isTrue(ServerConfig.makeNameFilter(undefined, [])("anything"))
  })
})

describe("fetch with bounds", () => {
  const fetching = (type: string, chunks: ReadonlyArray<string>) =>
    Effect.promise(async () => {
      const answer = () =>
        Promise.resolve(
          new Response(new Blob(chunks.map((chunk) => chunk)).stream(), { headers: { "content-type": type } })
        )
      const response = await BoundedFetch.makeBoundedFetch(answer, 1000)("http://localhost/")
      return response.text().then(
        (text) => text.length,
        () => "cut"
      )
    })

  it.live("bounds a body, and in a stream of events each event", () =>
    Effect.gen(function* () {
      const event = `data: ${"x".repeat(500)}\r\n\r\n`
      assert.strictEqual(yield* fetching("application/json", ["x".repeat(1000)]), 1000)
      assert.strictEqual(yield* fetching("application/json", ["x".repeat(600), "x".repeat(600)]), "cut")
      assert.strictEqual(
        yield* fetching(
          "text/event-stream",
          Array.from({ length: 50 }, () => event)
        ),
        event.length * 50
      )
      assert.strictEqual(yield* fetching("text/event-stream", [event, `data: ${"x".repeat(2000)}`]), "cut")
    })
  )
})
