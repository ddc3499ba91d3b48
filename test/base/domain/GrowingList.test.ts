// Folds of lists that grow at their end: the state of a list is the same however the list came to be, and costs what is
// new.
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as GrowingList from "../../../src/base/domain/GrowingList.ts"
import { prop } from "../../support/property.ts"

interface Item {
  readonly name: number
}

/** A fold that writes its items down, and each item that it is given. */
const recording = () => {
  const added: Array<number> = []
  const fold = GrowingList.fold<Item, Array<number>>({
    begin: () => [],
    add: (state, { name }) => {
      added.push(name)
      state.push(name)
    },
    copy: (state) => state.slice()
  })
  return { added, fold }
}

const Change = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("push"), count: Schema.Literals([1, 2, 3]) }),
  Schema.Struct({ kind: Schema.Literal("pop") }),
  Schema.Struct({ kind: Schema.Literal("replace"), at: Schema.Literals([0, 1, 2, 5]) }),
  Schema.Struct({ kind: Schema.Literal("remove"), at: Schema.Literals([0, 1, 2, 5]) })
])

const change = (items: Array<Item>, step: typeof Change.Type, next: () => Item): void => {
  switch (step.kind) {
    case "push":
      for (let count = 0; count < step.count; count++) items.push(next())
      break
    case "pop":
      items.pop()
      break
    case "replace":
      if (step.at < items.length) items[step.at] = next()
      break
    case "remove":
      items.splice(step.at, 1)
  }
}

describe("GrowingList.fold", () => {
  it("retains the states of the lists that were used last, and makes those of others again when memory was needed", async () => {
    setFlagsFromString("--expose-gc")
    const collect = runInNewContext("gc") as () => void
    const { added, fold } = recording()
    const lists = Array.from({ length: 128 }, (_, name): ReadonlyArray<Item> => [{ name }])
    for (const list of lists) fold(list)
    // The first use of a list adds its items to a copy, the second one to the state.
    for (const list of lists) fold(list)
    const before = added.length
    for (let tries = 0; tries < 4; tries++) {
      await new Promise((done) => setImmediate(done))
      collect()
    }
    for (const list of lists.slice(64)) assert.deepStrictEqual(fold(list), [list[0]?.name])
    assert.strictEqual(added.length, before)
    for (const list of lists.slice(0, 64)) assert.deepStrictEqual(fold(list), [list[0]?.name])
    assert.isAbove(added.length, before)
  })

  prop(
    "the state is that of the whole list, whatever lists came before it",
    [Schema.Array(Change).check(Schema.isMaxLength(30))],
    ([changes]) => {
      const { fold } = recording()
      const items: Array<Item> = []
      let serial = 0
      for (const step of changes) {
        change(items, step, () => ({ name: serial++ }))
        assert.deepStrictEqual(
          fold(items),
          items.map(({ name }) => name)
        )
      }
    }
  )

  it("a list that grows costs its new items, twice at most", () => {
    const { added, fold } = recording()
    const items: Array<Item> = []
    for (let name = 0; name < 100; name++) {
      items.push({ name })
      fold(items)
    }
    assert.strictEqual(added.length, 199)
    assert.deepStrictEqual(added.slice(-2), [98, 99])
  })

  it("a last item that is replaced each time costs no more", () => {
    const { added, fold } = recording()
    const items: Array<Item> = []
    for (let name = 0; name < 100; name++) {
      items.push({ name })
      fold([...items, { name: -1 }])
    }
    assert.deepStrictEqual(added.slice(-3), [98, 99, -1])
  })

  it("runs of one session, whose newest messages are other objects in the next run, cost the same each time", () => {
    const { added, fold } = recording()
    const stored: Array<Item> = [{ name: 0 }]
    const costs: Array<number> = []
    for (let run = 1; run <= 100; run++) {
      const before = added.length
      const own = [0, 1, 2].map((step) => ({ name: 3 * run + step }))
      for (const length of [1, 1, 2, 3]) {
        const items = [...stored, ...own.slice(0, length)]
        assert.deepStrictEqual(
          fold(items),
          items.map(({ name }) => name)
        )
      }
      costs.push(added.length - before)
      stored.push(...own.map(({ name }) => ({ name })))
    }
    assert.strictEqual(costs.at(-1), costs[5])
  })

  it("a state belongs to its caller", () => {
    const { fold } = recording()
    const items = [{ name: 1 }, { name: 2 }]
    fold(items).push(7)
    fold(items).push(8)
    assert.deepStrictEqual(fold(items), [1, 2])
  })

  it("an item that fails is not half in the next state", () => {
    let fails = true
    const fold = GrowingList.fold<Item, Array<number>>({
      begin: () => [],
      add: (state, { name }) => {
        state.push(name)
        if (name === 2 && fails) throw new Error("cannot be read")
      },
      copy: (state) => state.slice()
    })
    const items = [{ name: 1 }, { name: 2 }, { name: 3 }]
    fold(items.slice(0, 1))
    assert.throws(() => fold(items))
    assert.throws(() => fold(items))
    fails = false
    assert.deepStrictEqual(fold(items), [1, 2, 3])
  })
})
