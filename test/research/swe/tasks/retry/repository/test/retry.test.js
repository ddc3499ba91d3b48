import assert from "node:assert/strict"
import { test } from "node:test"
import { retry } from "../src/retry.js"

test("gives the first success", async () => assert.equal(await retry(3, async () => "yes"), "yes"))
test("tries again", async () => {
  let calls = 0
  assert.equal(await retry(3, async () => {
    if (++calls < 2) throw new Error("no")
    return calls
  }), 2)
})
test("no more than so many times", async () => {
  let calls = 0
  await retry(3, async () => {
    calls++
    throw new Error("no")
  }).catch(() => {})
  assert.equal(calls, 3)
})
test("fails with the last error", async () => {
  let calls = 0
  await assert.rejects(retry(2, async () => {
    throw new Error(`no ${++calls}`)
  }), /no 2/)
})
test("no wait behind the last attempt", async () => {
  let waits = 0
  await retry(3, async () => {
    throw new Error("no")
  }, async () => waits++).catch(() => {})
  assert.equal(waits, 2)
})
