// The headers that the OpenAI SDK gets in the program behave as those of `fetch`.
import { assert, describe, it } from "@effect/vitest"
import * as SdkGlobals from "../../../src/base/platform/web/SdkGlobals.ts"

type Made = Headers | SdkGlobals.Headers
type Act = (headers: Made) => unknown

const acts: ReadonlyArray<readonly [string, Act]> = [
  ["append", (headers) => headers.append("X-Two", " b\t")],
  ["append another", (headers) => headers.append("x-two", "c")],
  ["set", (headers) => headers.set("AUTHORIZATION", "Bearer k")],
  ["get", (headers) => headers.get("authorization")],
  ["get none", (headers) => headers.get("absent")],
  ["has", (headers) => headers.has("Authorization")],
  ["delete", (headers) => headers.delete("x-ONE")],
  ["delete none", (headers) => headers.delete("absent")],
  ["empty value", (headers) => headers.set("empty", "")],
  ["latin", (headers) => headers.set("latin", "caf\u00e9")],
  ["name of no token", (headers) => headers.set("a b", "1")],
  ["empty name", (headers) => headers.get("")],
  ["line in a value", (headers) => headers.set("x", "a\r\nInjected: 1")],
  ["line at the end of a value", (headers) => headers.set("trimmed", "a\r\n")],
  ["null in a value", (headers) => headers.append("x", "a\0b")],
  ["wide character", (headers) => headers.append("x", "\u20ac")],
  ["members", (headers) => [Array.from(headers), Array.from(headers.keys()), Array.from(headers.values())]],
  [
    "each",
    (headers) => {
      const seen: Array<string> = []
      headers.forEach((value, name) => seen.push(`${name}=${value}`))
      return seen
    }
  ],
  ["tag", (headers) => Object.prototype.toString.call(headers)]
]

const runAct = (act: Act, headers: Made): unknown => {
  try {
    return act(headers)
  } catch (error) {
    return error instanceof TypeError ? "TypeError" : error
  }
}

describe("SdkGlobals.Headers", () => {
  it("does what the headers of Node do", () => {
    for (const init of [undefined, { "X-One": "1", a: "2" }, [["X-One", "1"]] satisfies Array<[string, string]>]) {
      const own = new SdkGlobals.Headers(init)
      const native = new Headers(init)
      for (const [name, act] of acts) {
        assert.deepStrictEqual(runAct(act, own), runAct(act, native), name)
        assert.deepStrictEqual(Array.from(own), Array.from(native), name)
      }
    }
  })

  it("does not name a value that it refuses", () => {
    assert.throws(() => new SdkGlobals.Headers({ authorization: "sk-secret\n1" }), /^(?!.*secret).*characters/)
  })
})
