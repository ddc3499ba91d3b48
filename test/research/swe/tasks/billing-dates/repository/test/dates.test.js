import assert from "node:assert/strict"
import { test } from "node:test"
import { addMonths } from "../src/dates.js"

test("a plain month", () => assert.equal(addMonths("2026-03-15", 1), "2026-04-15"))
test("over a year", () => assert.equal(addMonths("2026-12-01", 2), "2027-02-01"))
test("the end of January", () => assert.equal(addMonths("2026-01-31", 1), "2026-02-28"))
test("a leap year", () => assert.equal(addMonths("2028-01-31", 1), "2028-02-29"))
test("back over a year", () => assert.equal(addMonths("2026-03-31", -13), "2025-02-28"))
