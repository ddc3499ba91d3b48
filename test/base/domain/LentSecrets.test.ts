// Values that a registry hides for its parts: the same places as a search for one value after the other finds.
import { assert, describe, it } from "@effect/vitest"
import * as LentSecrets from "../../../src/base/domain/LentSecrets.ts"

/** Numbers that look random and follow from a seed. */
const makeRandom = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

const makeText = (random: () => number, length: number): string =>
  Array.from({ length }, () => "abé漢"[Math.floor(random() * 4)]).join("")

describe("values that are lent", () => {
  for (const count of [1, 8, 9, 200])
    it(`${count} are found in one pass as one after the other`, () => {
      for (let seed = 1; seed <= 40; seed++) {
        const random = makeRandom(seed)
        const lent = LentSecrets.makeLentValues(count, () => "*")
        const values: Array<string> = []
        // The first values are removed by later ones.
        for (let at = 0; at < count + 3; at++) {
          const value = makeText(random, 4 + Math.floor(random() * 8))
          lent.addValue(value)
          const before = values.indexOf(value)
          if (before !== -1) values.splice(before, 1)
          values.push(value)
        }
        const kept = values.slice(-count)
        assert.strictEqual(lent.countValues(), kept.length)
        const text = makeText(random, 300) + (kept[0] ?? "") + makeText(random, 50) + (kept.at(-1) ?? "").slice(0, 3)
        const hidden = Array.from({ length: text.length }, () => false)
        for (const value of kept)
          for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1))
            hidden.fill(true, at, at + value.length)
        const found = Array.from({ length: text.length }, () => false)
        for (const [from, end] of lent.findPlaces(text)) if (end <= text.length) found.fill(true, from, end)
        assert.deepStrictEqual(found, hidden, `seed ${seed}`)
        // The beginning of a value at the end of the text may continue.
        const open = Array.from({ length: text.length }, (_, at) => at).filter((at) =>
          kept.some((value) => value.length > text.length - at && value.startsWith(text.slice(at)))
        )
        const begun = lent.findPlaces(text).flatMap(([from, end]) => (end > text.length ? [from] : []))
        assert.deepStrictEqual(begun, open, `seed ${seed}`)
        const shown = lent.replaceAll(text)
        for (const value of kept) assert.notInclude(shown, value, `seed ${seed}`)
        // Runs of hidden characters are shown as marks, and the rest is unchanged.
        if (count > 8)
          assert.strictEqual(
            shown.replaceAll(/\*+/gu, ""),
            Array.from({ length: text.length }, (_, at) => (hidden[at] === true ? "" : text[at])).join("")
          )
      }
    })
})
