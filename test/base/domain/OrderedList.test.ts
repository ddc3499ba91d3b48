// The order of a list to which several layers contribute: positions decide, never the time of an addition.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as OrderedList from "../../../src/base/domain/OrderedList.ts"

interface Named {
  readonly name: string
}

const kind: OrderedList.ListKind<Named> = { path: "Test.layerAdd", noun: "entry", getName: ({ name }) => name }
const named = (name: string): Named => ({ name })
const add = (position: OrderedList.Position, ...names: ReadonlyArray<string>): OrderedList.Addition<Named> => ({
  position,
  entries: names.map(named)
})

/** Every order of a list. */
const permute = <A>(list: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  list.length === 0
    ? [[]]
    : list.flatMap((one, index) => permute(list.toSpliced(index, 1)).map((rest) => [one, ...rest]))

/** The names in order, which every order of the additions has to give. */
const arranged = (list: ReadonlyArray<string>, additions: ReadonlyArray<OrderedList.Addition<Named>>) => {
  const results = permute(additions).map((order) => {
    const { entries, problem } = OrderedList.arrange(kind, list.map(named), order)
    return { names: entries.map(({ name }) => name).join(" "), problem: problem?.message }
  })
  const [first] = results
  for (const result of results) assert.deepStrictEqual(result, first)
  return first
}

describe("OrderedList", () => {
  it("positions decide the order, in every order of the additions", () => {
    assert.deepStrictEqual(
      arranged(
        ["a", "b"],
        [
          add("outermost", "o2"),
          add("outermost", "o1", "o3"),
          add("innermost", "i1"),
          add({ before: "b" }, "bb"),
          add({ after: "a" }, "aa")
        ]
      ),
      { names: "o1 o3 o2 a aa bb b i1", problem: undefined }
    )
  })

  it("an addition may name an entry of another addition", () => {
    assert.deepStrictEqual(
      arranged(
        ["a"],
        [add({ after: "x" }, "y"), add({ before: "x" }, "w"), add({ before: "a" }, "x"), add({ after: "y" }, "z")]
      ),
      { names: "w x y z a", problem: undefined }
    )
  })

  it("of several entries with a name, before is the first and after the last", () => {
    assert.deepStrictEqual(arranged(["a", "b", "a"], [add({ before: "a" }, "x"), add({ after: "a" }, "y")]), {
      names: "x a b a y",
      problem: undefined
    })
  })

  it("a name that no entry has is an error with the nearest name", () => {
    assert.strictEqual(
      arranged(["logging", "audit"], [add({ before: "loging" }, "x")])?.problem,
      'entry "x" is placed before "loging": there is no entry with this name, did you mean "logging"?'
    )
    assert.strictEqual(
      arranged([], [add({ after: "logging" }, "x"), add("innermost", "y")])?.problem,
      'entry "x" is placed after "logging": there is no entry with this name (known: y, x)'
    )
  })

  it("positions that depend on each other are an error", () => {
    assert.strictEqual(
      arranged(["a"], [add({ before: "y" }, "x"), add({ before: "x" }, "y")])?.problem,
      'entry "x" is placed before "y", whose own place depends on it: give one of them another position'
    )
    assert.include(arranged(["a"], [add({ before: "x" }, "x")])?.problem, "whose own place depends on it")
  })

  it("two additions at one position with the same names are an error, and one entry twice is not", () => {
    assert.strictEqual(
      arranged(["a"], [add("outermost", "x"), add("outermost", "x")])?.problem,
      "two additions at the position outermost have the same names (x): name them differently, or place one before or " +
        "after an entry"
    )
    const entries = [named("x")]
    const twice = [
      { entries, position: "outermost" as const },
      { entries: [...entries], position: "outermost" as const }
    ]
    assert.strictEqual(OrderedList.arrange(kind, [], twice).problem, undefined)
  })

  it("no order of additions changes the result, for random lists", () => {
    let seed = 7
    const draw = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below
    const names = ["a", "b", "c", "d"]
    const drawName = (): string => names[draw(names.length)] ?? ""
    const drawPosition = (): OrderedList.Position => {
      const name = drawName()
      return ([{ before: name }, { after: name }, "outermost", "innermost"] as const)[draw(4)] ?? "innermost"
    }
    for (let round = 0; round < 300; round++) {
      const list = Array.from({ length: draw(3) }, drawName)
      // Entries have names of their own in part, so that no two additions at one position are the same.
      const additions = Array.from({ length: 1 + draw(4) }, (_, index) => add(drawPosition(), drawName(), `x${index}`))
      const result = arranged(list, additions)
      assert.strictEqual(
        result?.names.split(" ").filter((name) => name !== "").length,
        list.length + 2 * additions.length
      )
    }
  })

  it.effect("parts follow each other, and entries leave with their scope", () =>
    Effect.gen(function* () {
      let seen = ""
      const list = OrderedList.make(kind, (entries) => void (seen = entries.map(({ name }) => name).join(" ")))
      const scope = yield* Scope.make()
      yield* list.append(named("last"), "last")
      yield* Scope.provide(list.append(named("plugin"), "first"), scope)
      yield* list.add([named("b")], { after: "a" })
      assert.strictEqual(seen, "plugin b last")
      yield* list.append(named("a"), "listed")
      yield* list.add([named("out")], "outermost")
      assert.strictEqual(seen, "plugin out a b last")
      yield* list.settle
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(seen, "out a b last")
    })
  )

  it.effect("a position is checked when the list settles, and at once after that", () =>
    Effect.gen(function* () {
      const list = OrderedList.make(kind, () => {})
      yield* list.add([named("x")], { before: "later" })
      assert.include((yield* Effect.flip(list.settle)).message, 'before "later"')
      yield* list.append(named("later"), "listed")
      yield* list.settle
      const refused = yield* Effect.flip(Effect.scoped(list.add([named("y")], { before: "latr" })))
      assert.deepStrictEqual([refused._tag, refused.path], ["ConfigError", "Test.layerAdd"])
      assert.include(refused.message, 'did you mean "later"?')
      assert.deepStrictEqual(
        list.entries().map(({ name }) => name),
        ["x", "later"]
      )
    })
  )
})
