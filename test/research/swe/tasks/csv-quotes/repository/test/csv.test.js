import assert from "node:assert/strict"
import { test } from "node:test"
import { rows } from "../src/csv.js"

test("plain cells", () => assert.deepEqual(rows("a,b\nc,d\n"), [["a", "b"], ["c", "d"]]))
test("empty cells", () => assert.deepEqual(rows("a,,c"), [["a", "", "c"]]))
test("commas in quotes", () => assert.deepEqual(rows('"a,b",c'), [["a,b", "c"]]))
test("line breaks in quotes", () => assert.deepEqual(rows('"a\nb",c\nd,e'), [["a\nb", "c"], ["d", "e"]]))
test("doubled quotes", () => assert.deepEqual(rows('"say ""hi""",x'), [['say "hi"', "x"]]))
