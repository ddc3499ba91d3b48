// A value that is read while it arrives is, at each moment, a part of the value that it becomes.
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as PartialJson from "../../../src/base/domain/PartialJson.ts"
import { prop } from "../../support/property.ts"

const isPart = (part: unknown, whole: unknown): boolean => {
  if (typeof part === "string" && typeof whole === "string") return whole.startsWith(part)
  if (Array.isArray(part))
    return Array.isArray(whole) && part.length <= whole.length && part.every((item, at) => isPart(item, whole[at]))
  if (typeof part === "object" && part !== null)
    return (
      typeof whole === "object" &&
      whole !== null &&
      Object.entries(part).every(
        ([key, value]) => Object.hasOwn(whole, key) && isPart(value, (whole as Record<string, unknown>)[key])
      )
    )
  return Object.is(part, whole)
}

const cut = (text: string, length: number): ReadonlyArray<string> =>
  text.length === 0 ? [] : [text.slice(0, length), ...cut(text.slice(length), length)]

const readAll = (
  pieces: ReadonlyArray<string>
): { readonly snapshots: ReadonlyArray<unknown>; readonly last: unknown } => {
  const reader = PartialJson.makeReader()
  const snapshots = pieces.flatMap((piece) =>
    PartialJson.readMore(reader, piece) ? [PartialJson.takeSnapshot(reader)] : []
  )
  return { snapshots, last: PartialJson.takeSnapshot(reader) }
}

describe("a value that arrives in pieces", () => {
  prop(
    "is a part of the final value after each piece, and equals it in the end",
    [Schema.Json, Schema.Literals([1, 2, 3, 7, 40]), Schema.Literals([0, 2])],
    ([value, length, indent]) => {
      const text = JSON.stringify({ value }, undefined, indent)
      const whole: unknown = JSON.parse(text)
      const { last, snapshots } = readAll(cut(text, length))
      assert.deepStrictEqual(last, whole)
      for (const snapshot of snapshots) assert.isTrue(isPart(snapshot, whole), JSON.stringify({ snapshot, whole }))
    },
    { arbitrary: { runs: 300 } }
  )

  it("keeps snapshots as they were", () => {
    const reader = PartialJson.makeReader()
    PartialJson.readMore(reader, '{"a":[1,')
    const before = PartialJson.takeSnapshot(reader)
    PartialJson.readMore(reader, "2,3]}")
    assert.deepStrictEqual([before, PartialJson.takeSnapshot(reader)], [{ a: [1] }, { a: [1, 2, 3] }])
  })

  it("shows no number before its end, and no name without a value", () => {
    const reader = PartialJson.makeReader()
    const read = (text: string) => {
      PartialJson.readMore(reader, text)
      return PartialJson.takeSnapshot(reader)
    }
    assert.deepStrictEqual(read('{"a": 12'), {})
    assert.deepStrictEqual(read('3, "b'), { a: 123 })
    assert.deepStrictEqual(read('c": tr'), { a: 123 })
    assert.deepStrictEqual(read("ue}"), { a: 123, bc: true })
  })

  it("reads escapes that are cut anywhere", () => {
    const text = JSON.stringify({ a: 'tab\t quote" back\\ line\n \u0001 é 😀' })
    assert.deepStrictEqual(readAll(cut(text, 1)).last, JSON.parse(text))
    const escaped = '{"a":"\\u00e9\\ud83d\\ude00\\/"}'
    assert.deepStrictEqual(readAll(cut(escaped, 1)).last, JSON.parse(escaped))
  })

  it("ignores the opening of a code fence and what follows the value", () => {
    assert.deepStrictEqual(readAll(["```json\n", '{"a":1}', "\n```\n{}"]).last, { a: 1 })
  })

  it("stops at text that is not JSON, and gives nothing for prose", () => {
    assert.deepStrictEqual(readAll(['{"a": 1, "b": nonsense, "c": 2}']).last, { a: 1 })
    assert.isUndefined(readAll(["Let me look at the weather first."]).last)
  })

  it("has no way to the prototype", () => {
    const { last } = readAll(['{"__proto__":{"polluted":true},"constructor":1}'])
    assert.deepStrictEqual(Object.keys(last as object), ["__proto__", "constructor"])
    assert.notProperty({}, "polluted")
  })

  it("reads no deeper than its bound", () => {
    const deep = "[".repeat(100_000)
    assert.isArray(readAll([deep]).last)
  })

  it("reads 100 kB in small pieces without copying what is finished", () => {
    const text = JSON.stringify({ rows: Array.from({ length: 2_000 }, (_, row) => ({ row, text: "x".repeat(30) })) })
    const { last, snapshots } = readAll(cut(text, 400))
    assert.deepStrictEqual(last, JSON.parse(text))
    const [early, late] = [snapshots[3], snapshots.at(-1)] as ReadonlyArray<{ readonly rows: ReadonlyArray<unknown> }>
    assert.strictEqual(early?.rows[0], late?.rows[0])
  })
})
