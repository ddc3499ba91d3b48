import assert from "node:assert/strict"
import { test } from "node:test"
import { readFileSync } from "node:fs"
import { format } from "../src/bytes.js"

test("bytes", () => assert.equal(format(512), "512 B"))
test("nothing", () => assert.equal(format(0), "0 B"))
test("a kibibyte", () => assert.equal(format(1024), "1 KiB"))
test("a fraction", () => assert.equal(format(1536), "1.5 KiB"))
test("negative sizes", () => assert.equal(format(-2048), "-2 KiB"))
test("the sample", () => assert.deepEqual([...readFileSync(new URL("../data/sample.bin", import.meta.url))], [0, 255, 1, 128]))
