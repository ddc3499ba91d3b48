import { assert, describe, it } from "@effect/vitest"
import * as ThinkTags from "../../../src/models/provider/ThinkTags.ts"

const split = (pieces: ReadonlyArray<string>) => {
  let text = ""
  let reasoning = ""
  const tags = ThinkTags.make({
    text: (piece) => void (text += piece),
    reasoning: (piece) => void (reasoning += piece)
  })
  for (const piece of pieces) tags.read(piece)
  tags.end()
  return [text, reasoning]
}

const cases: ReadonlyArray<readonly [name: string, input: string, text: string, reasoning: string]> = [
  ["no tags", "just <b>text</b> a < b", "just <b>text</b> a < b", ""],
  ["a block before the answer", "<think>x</think>hi", "hi", "x"],
  ["white space after a block is dropped", "<think>\nx\n</think>\n\nhi", "hi", "\nx\n"],
  [
    "every name, in any case",
    "<THINKING>a</Thinking><thought>b</thought>\n<reasoning>c</reasoning><REASONING_SCRATCHPAD>d</REASONING_SCRATCHPAD>ok",
    "ok",
    "abcd"
  ],
  ["a block that never ends is reasoning to the end", "<think>abc", "", "abc"],
  [
    "a tag in the middle of a line is prose",
    "Use <think> in prose mid-line text",
    "Use <think> in prose mid-line text",
    ""
  ],
  ["a tag at the beginning of a later line counts", "hello\n  <think>x</think>\nworld", "hello\n  world", "x"],
  ["a closing tag without a block, at the beginning", "</think>hi", "hi", ""],
  ["a closing tag in prose stays", "the </think> tag", "the </think> tag", ""],
  ["other tags inside a block are reasoning", "<think>a </thought> <b> b</think>c", "c", "a </thought> <b> b"],
  ["an unfinished tag at the end is text", "a\n<thi", "a\n<thi", ""],
  ["an unfinished closing tag is reasoning", "<think>a</thi", "", "a</thi"],
  ["a longer word is no tag", "<thinker>x</thinker>", "<thinker>x</thinker>", ""]
]

describe("ThinkTags", () => {
  it("T113 tags that are split over deltas are none of the text", () => {
    assert.deepStrictEqual(split(["<thi", "nk>x</th", "ink>hi"]), ["hi", "x"])
  })

  for (const [name, input, text, reasoning] of cases) {
    it(`${name}, wherever it is cut`, () => {
      for (let size = 1; size <= input.length; size++) {
        const pieces = Array.from({ length: Math.ceil(input.length / size) }, (_, i) =>
          input.slice(i * size, (i + 1) * size)
        )
        assert.deepStrictEqual(split(pieces), [text, reasoning], JSON.stringify(pieces))
      }
    })
  }
})
