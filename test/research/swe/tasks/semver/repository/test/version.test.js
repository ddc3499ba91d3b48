import assert from "node:assert/strict"
import { test } from "node:test"
import { compare } from "../src/version.js"

test("equal versions", () => assert.equal(compare("1.2.3", "1.2.3"), 0))
test("patches", () => assert.ok(compare("1.2.3", "1.2.4") < 0))
test("numbers are numbers", () => assert.ok(compare("1.10.0", "1.9.0") > 0))
test("a prerelease is older", () => assert.ok(compare("2.0.0-beta", "2.0.0") < 0))
test("prereleases by their parts", () => assert.ok(compare("1.0.0-rc.2", "1.0.0-rc.10") < 0))
