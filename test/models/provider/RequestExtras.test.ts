import { assert, describe, it } from "@effect/vitest"
import * as Exchange from "../../../src/models/provider/Exchange.ts"

describe("Extras of a request", () => {
  it("a request without extras is its own body", () => {
    const request = { model: "m" }
    assert.strictEqual(Exchange.splitExtras(request).body, request)
  })

  it("extra_body wins, key by key; headers and query are taken out", () => {
    const request = {
      model: "m",
      options: { a: 1, b: 2 },
      extra_body: { options: { c: 3 }, top_k: 1 },
      extra_headers: { "x-a": 1, "x-b": null, "x-c": undefined },
      extra_query: { q: "1" }
    }
    assert.deepStrictEqual(Exchange.splitExtras(request), {
      body: { model: "m", options: { c: 3 }, top_k: 1 },
      headers: { "x-a": "1", "x-b": null },
      query: { q: "1" }
    })
    assert.deepStrictEqual(request.options, { a: 1, b: 2 })
  })

  it("what is no object stays, for the API to name it", () => {
    assert.deepStrictEqual(
      Exchange.splitExtras({ model: "m", extra_body: "x", extra_headers: [1], extra_query: undefined }),
      { body: { model: "m", extra_body: "x", extra_headers: [1] }, headers: undefined, query: undefined }
    )
  })

  it("__proto__ is data", () => {
    const { body } = Exchange.splitExtras({ extra_body: JSON.parse('{"__proto__":{"polluted":true},"a":1}') })
    assert.notProperty({}, "polluted")
    assert.strictEqual(Object.getPrototypeOf(body), Object.prototype)
    assert.strictEqual(JSON.stringify(body), '{"__proto__":{"polluted":true},"a":1}')
    const bare = Object.assign(Object.create(null), { a: 1 })
    assert.deepStrictEqual(Exchange.splitExtras({ extra_body: bare }).body, { a: 1 })
  })
})
