import assert from "node:assert/strict"
import { test } from "node:test"
import { Emitter } from "../src/emitter.js"

const seen = (setup) => {
  const list = []
  const emitter = new Emitter()
  setup(emitter, (name) => (value) => list.push(`${name}${value}`))
  return { emitter, list }
}
test("tells listeners in order", () => {
  const { emitter, list } = seen((emitter, note) => {
    emitter.on("x", note("a"))
    emitter.on("x", note("b"))
  })
  emitter.emit("x", 1)
  assert.deepEqual(list, ["a1", "b1"])
})
test("once is once", () => {
  const { emitter, list } = seen((emitter, note) => emitter.once("x", note("a")))
  emitter.emit("x", 1)
  emitter.emit("x", 2)
  assert.deepEqual(list, ["a1"])
})
test("the listener behind a once is told", () => {
  const { emitter, list } = seen((emitter, note) => {
    emitter.once("x", note("a"))
    emitter.on("x", note("b"))
  })
  emitter.emit("x", 1)
  assert.deepEqual(list, ["a1", "b1"])
})
test("a listener that is added by a listener waits for the next event", () => {
  const { emitter, list } = seen((emitter, note) => emitter.once("x", () => emitter.on("x", note("late"))))
  emitter.emit("x", 1)
  assert.deepEqual(list, [])
})
