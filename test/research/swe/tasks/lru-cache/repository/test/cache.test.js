import assert from "node:assert/strict"
import { test } from "node:test"
import { Cache } from "../src/cache.js"

test("keeps what fits", () => {
  const cache = new Cache(2)
  cache.set("a", 1)
  cache.set("b", 2)
  assert.equal(cache.get("a"), 1)
  assert.equal(cache.get("b"), 2)
})
test("throws out the oldest", () => {
  const cache = new Cache(1)
  cache.set("a", 1)
  cache.set("b", 2)
  assert.equal(cache.get("a"), undefined)
})
test("reading is use", () => {
  const cache = new Cache(2)
  cache.set("a", 1)
  cache.set("b", 2)
  cache.get("a")
  cache.set("c", 3)
  assert.equal(cache.get("a"), 1)
  assert.equal(cache.get("b"), undefined)
})
test("writing again is use", () => {
  const cache = new Cache(2)
  cache.set("a", 1)
  cache.set("b", 2)
  cache.set("a", 3)
  cache.set("c", 4)
  assert.equal(cache.get("a"), 3)
})
