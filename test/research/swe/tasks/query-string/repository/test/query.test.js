import assert from "node:assert/strict"
import { test } from "node:test"
import { parse } from "../src/query.js"

const plain = (query) => ({ ...parse(query) })
test("single values", () => assert.deepEqual(plain("?a=1&b=2"), { a: "1", b: "2" }))
test("encoded values", () => assert.deepEqual(plain("a=%C3%A4"), { a: "ä" }))
test("repeated names are lists", () => assert.deepEqual(plain("tag=a&tag=b"), { tag: ["a", "b"] }))
test("plus is a space", () => assert.deepEqual(plain("q=red+shoes"), { q: "red shoes" }))
test("names without a value", () => assert.deepEqual(plain("new&a=1"), { new: "", a: "1" }))
test("equals signs in a value", () => assert.deepEqual(plain("a=b=c"), { a: "b=c" }))
