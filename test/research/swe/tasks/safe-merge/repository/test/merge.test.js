import assert from "node:assert/strict"
import { test } from "node:test"
import { merge } from "../src/merge.js"

test("settings win", () => assert.deepEqual(merge({ a: 1, b: 2 }, { b: 3 }), { a: 1, b: 3 }))
test("sections are merged", () => assert.deepEqual(merge({ a: { b: 1, c: 2 } }, { a: { c: 3 } }), { a: { b: 1, c: 3 } }))
test("defaults stay", () => {
  const defaults = { a: { b: 1 } }
  merge(defaults, { a: { b: 2 } })
  assert.deepEqual(defaults, { a: { b: 1 } })
})
test("prototypes stay", () => {
  merge({}, JSON.parse('{"__proto__": {"polluted": true}}'))
  assert.equal({}.polluted, undefined)
})
test("lists and null replace", () => assert.deepEqual(merge({ a: [1, 2], b: { c: 1 } }, { a: [3], b: null }), { a: [3], b: null }))
