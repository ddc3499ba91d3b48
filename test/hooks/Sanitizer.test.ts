import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Sanitizer from "../../src/hooks/Sanitizer.ts"
import { prop } from "../support/property.ts"

class Client {
  readonly baseUrl = "http://127.0.0.1"
  readonly apiKey = "sk-abcdefghijklmnopqrstuvwx"
  readonly _socket = { open: true }
  get live(): string {
    throw new Error("asked a live object")
  }
  toJSON(): string {
    throw new Error("asked a live object")
  }
}

// Values that JSON can not express, or that fight back.
const hostile: Record<string, () => unknown> = {
  circular: () => {
    const loop: Record<string, unknown> = {}
    loop["self"] = loop
    return loop
  },
  wide: () => {
    let level: unknown = 1
    for (let i = 0; i < 9; i++) level = Array.from({ length: 200 }, () => level)
    return level
  },
  deep: () => {
    let level: unknown = 1
    for (let i = 0; i < 5_000; i++) level = { level }
    return level
  },
  getter: () => ({
    get a(): string {
      throw new Error("secret=hunter22222")
    },
    b: 1
  }),
  proxy: () =>
    new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error("no")
        }
      }
    ),
  revoked: () => {
    const { proxy, revoke } = Proxy.revocable([], {})
    revoke()
    return proxy
  },
  prototype: () => ({
    get [Symbol.toStringTag](): string {
      throw new Error("no")
    }
  }),
  bigint: () => 12n,
  hugeBigint: () => 7n ** 100_000n,
  symbol: () => Symbol("s"),
  function: () => () => 1,
  date: () => new Date(0),
  noDate: () => new Date(Number.NaN),
  map: () =>
    new Map<unknown, unknown>([
      ["a", 1],
      [{ key: 1 }, 2],
      [3, new Set([1])]
    ]),
  endlessMap: () =>
    new (class extends Map {
      override *[Symbol.iterator](): MapIterator<[unknown, unknown]> {
        for (;;) yield [1, 1]
      }
    })(),
  bytes: () => new Uint8Array(3),
  error: () => new TypeError("bad", { cause: new Error("worse") }),
  nan: () => [Number.NaN, Number.POSITIVE_INFINITY, -0],
  undefined: () => undefined,
  client: () => new Client(),
  redacted: () => Redacted.make("sesame"),
  promise: () => Promise.resolve(1),
  url: () => new URL("https://user:hunter22222@example.com/x"),
  proto: () => JSON.parse(`{"__proto__": {"polluted": true}, "constructor": 1}`),
  loneSurrogate: () => "\ud800",
  long: () => "x".repeat(8_001),
  many: () => Array.from({ length: 300 }, (_, index) => index),
  manyKeys: () => Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`key${index}`, index])),
  secretOnTheBorder: () => `${"x".repeat(7_990)} sk-abcdefghijklmnopqrstuvwx`,
  assignmentOnTheBorder: () => `${"x".repeat(7_991)}PASSWORD=hunter22222222222222222222`
}

// Programs that build a value of any shape: each step puts what came so far into something else.
const Step = Schema.Union([
  Schema.Struct({ put: Schema.Literals(["array", "object", "map", "set", "instance", "error"]) }),
  Schema.Struct({ with: Schema.Json, key: Schema.Literals(["a", "api_key", "max_tokens", "__proto__", "_x"]) }),
  Schema.Struct({ with: Schema.String.check(Schema.isMaxLength(40)), times: Schema.Literals([1, 300, 900]) }),
  Schema.Struct({ hostile: Schema.Literals(Object.keys(hostile)) })
])
const Program = Schema.Array(Step).check(Schema.isMaxLength(14))

const build = (program: typeof Program.Type): unknown => {
  let value: unknown
  for (const step of program) {
    if ("hostile" in step) value = [value, hostile[step.hostile]?.()]
    else if ("times" in step) value = { value, text: step.with.repeat(step.times) }
    else if ("with" in step) value = { [step.key]: step.with, value }
    else if (step.put === "array") value = [value, value]
    else if (step.put === "object") value = { value, same: value }
    else if (step.put === "map") value = new Map([["value", value]])
    else if (step.put === "set") value = new Set([value])
    else if (step.put === "instance") value = Object.assign(new Client(), { value })
    else value = new Error("failed", { cause: value })
  }
  return value
}

const isTruncated = (value: Schema.Json): boolean =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "_truncated")

const isFrozen = (value: unknown): boolean =>
  typeof value !== "object" || value === null || (Object.isFrozen(value) && Object.values(value).every(isFrozen))

const assertHolds = (value: unknown, maxChars?: number): void => {
  const clean = Sanitizer.sanitize(value, maxChars)
  const json = JSON.stringify(clean)
  const cap = maxChars ?? Sanitizer.defaultMaxChars
  assert.isString(json)
  assert.isTrue(isFrozen(clean))
  assert.notInclude(json, "hunter22222")
  assert.notInclude(json, "sk-abcde")
  if (isTruncated(clean)) {
    assert.strictEqual(Object(clean).preview.length, cap)
  } else {
    assert.isAtMost(json.length, cap)
    assert.deepStrictEqual(Sanitizer.sanitize(JSON.parse(json), maxChars), JSON.parse(json), "a fixed point")
  }
  assert.strictEqual(Sanitizer.sanitize(clean, maxChars), clean)
}

describe("Sanitizer", () => {
  it.each(Object.entries(hostile))("%s becomes JSON within the cap", (_, make) => {
    assert.doesNotThrow(() => assertHolds(make()))
    assert.doesNotThrow(() => assertHolds({ nested: [make()] }, 1_000))
  })

  prop(
    "anything becomes JSON within the cap, and stays what it became",
    { program: Program },
    ({ program }) => {
      assertHolds(build(program))
      assertHolds(build(program), 1_000)
      JSON.stringify(Sanitizer.copyField(build(program)))
    },
    { arbitrary: { runs: 150 } }
  )

  it("names what JSON can not express", () => {
    const clean = Sanitizer.sanitize({
      bytes: new Uint8Array(3),
      buffer: new ArrayBuffer(5),
      bigint: 12n,
      symbol: Symbol("s"),
      call: () => 1,
      date: new Date(0),
      nan: Number.NaN,
      nothing: undefined,
      list: [undefined],
      map: new Map<unknown, unknown>([
        ["a", 1],
        [5, 2]
      ]),
      set: new Set([1]),
      loop: hostile["circular"]?.(),
      getter: hostile["getter"]?.(),
      secret: Redacted.make("sesame"),
      held: Redacted.make("sesame"),
      url: new URL("http://127.0.0.1/")
    })
    assert.deepStrictEqual(clean, {
      bytes: "<3 bytes>",
      buffer: "<5 bytes>",
      bigint: "12",
      symbol: "Symbol(s)",
      call: "<function>",
      date: "1970-01-01T00:00:00.000Z",
      nan: "NaN",
      list: [null],
      map: { a: 1, 5: 2 },
      set: [1],
      loop: { self: "<circular>" },
      getter: { a: "<unreadable>", b: 1 },
      secret: "<redacted>",
      held: "<redacted>",
      url: "http://127.0.0.1/"
    })
  })

  it("takes an instance's own data and nothing that it would do", () => {
    assert.deepStrictEqual(Sanitizer.sanitize(new Client()), { baseUrl: "http://127.0.0.1", apiKey: "<redacted>" })
    assert.deepStrictEqual(Sanitizer.sanitize(Object.assign(new TypeError("bad"), { status: 400 })), {
      name: "TypeError",
      message: "bad",
      status: 400
    })
  })

  it("a key named like the prototype is data, and sets none", () => {
    const clean = Sanitizer.sanitize(hostile["proto"]?.())
    assert.strictEqual(JSON.stringify(clean), `{"__proto__":{"polluted":true},"constructor":1}`)
    assert.strictEqual(Object.getPrototypeOf(clean), Object.prototype)
  })

  it("a text of a hundred megabytes is bounded before it is looked at", () => {
    const text = `sk-abcdefghijklmnopqrstuvwx ${"a=".repeat(50_000_000)}`
    const clean = Sanitizer.sanitize({ text })
    assert.isBelow(JSON.stringify(clean).length, 8_100)
    assert.notInclude(JSON.stringify(clean), "sk-abcdefghijkl")
    assert.isBelow(JSON.stringify(Sanitizer.copyField({ text })).length, 1_001_000)
  })

  it("what is beyond the bound is not looked at, only counted", () => {
    const text = `${"x".repeat(9_000)} sk-abcdefghijklmnopqrstuvwx`
    assert.match(String(Sanitizer.sanitize(text)), /\.\.\.\[truncated 1028 chars\]$/)
  })

  it("a value that many objects share is not walked for ever", () => {
    let level: unknown = "leaf"
    for (let i = 0; i < 8; i++) level = Object.fromEntries(Array.from({ length: 200 }, (_, key) => [`k${key}`, level]))
    assertHolds(level)
    assert.isTrue(isTruncated(Sanitizer.copyField(level)))
  })

  it("something copied for another field is still bounded as a request", () => {
    const copied = Sanitizer.copyField({ text: "x".repeat(9_000) })
    assert.match(JSON.stringify(Sanitizer.sanitize(copied)), /truncated 1000 chars/)
  })
})
