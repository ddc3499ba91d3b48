import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as DotEnv from "../../../src/base/config/DotEnv.ts"
import { prop } from "../../support/property.ts"

describe("DotEnv.parse", () => {
  it("takes quotes, export, comments, line breaks of any kind, and interpolates nothing", () => {
    const text = `﻿# keys
A=plain
export B=exported
  C = spaced   # why
D='single $HOME # "x" \\n'
E="double \\"q\\" \\n\\t\\\\ \\$5 $HOME \${HOME}"
F="two
lines"
G= # nothing
H=#no-comment-without-space
I=a#b
J="x" # comment
K=https://u:p@h/?a=b&c=d
not a line
=nothing
A=again`
    const expected = {
      A: "again",
      B: "exported",
      C: "spaced",
      D: 'single $HOME # "x" \\n',
      E: 'double "q" \n\t\\ $5 $HOME ${HOME}',
      F: "two\nlines",
      G: "",
      H: "#no-comment-without-space",
      I: "a#b",
      J: "x",
      K: "https://u:p@h/?a=b&c=d"
    }
    assert.deepStrictEqual(DotEnv.parse(text), expected)
    assert.deepStrictEqual(DotEnv.parse(text.replaceAll("\n", "\r\n")), { ...expected, F: "two\r\nlines" })
  })

  it("an open quote takes nothing along", () => {
    assert.deepStrictEqual(DotEnv.parse('A="open\nB=2\n'), { A: '"open', B: "2" })
  })

  it("has no name that is not its own", () => {
    assert.deepStrictEqual(Object.keys(DotEnv.parse("__proto__=x\nA=1")), ["__proto__", "A"])
  })
})

describe("DotEnv.set", () => {
  it("changes one line and keeps the rest byte for byte", () => {
    const text = '# keys\nexport A=1 # one\nB="two\nlines"\nA=3\n\nC=4'
    assert.strictEqual(DotEnv.set(text, "B", "new"), "# keys\nexport A=1 # one\nB=new\nA=3\n\nC=4")
    assert.strictEqual(DotEnv.set(text, "A", "5"), '# keys\nexport A=1 # one\nB="two\nlines"\nA=5\n\nC=4')
    assert.strictEqual(DotEnv.set(text, "D", "it's"), `${text}\nD="it's"\n`)
    assert.strictEqual(DotEnv.set("", "A", "a b"), "A='a b'\n")
    assert.strictEqual(DotEnv.set("A=1\r\nB=2\r\n", "A", "x"), "A=x\r\nB=2\r\n")
  })

  it("unset removes every line of a name, and no other", () => {
    assert.strictEqual(DotEnv.unset("A=1\nB=2\nexport A='x\ny'\nAB=3\n", "A"), "B=2\nAB=3\n")
    assert.strictEqual(DotEnv.unset("A=1\n", "B"), "A=1\n")
  })

  prop(
    "what was set is read back, and the others are still there",
    [Schema.String, Schema.String],
    ([first, second]) => {
      const text = DotEnv.set(DotEnv.set("# x\n", "FIRST", first), "SECOND", second)
      assert.deepStrictEqual(DotEnv.parse(text), { FIRST: first, SECOND: second })
      assert.deepStrictEqual(DotEnv.parse(DotEnv.set(text, "FIRST", "z")), { FIRST: "z", SECOND: second })
      assert.strictEqual(DotEnv.unset(DotEnv.unset(text, "SECOND"), "FIRST"), "# x\n")
    },
    { arbitrary: { runs: 500 } }
  )
})
