// Markdown as terminal text: what each construct becomes, and that it does not matter how the text was cut.
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Markdown from "../../../src/program/cli/render/Markdown.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Width from "../../../src/program/cli/render/Width.ts"
import { prop } from "../../support/property.ts"

const makers = {
  render: await Effect.runPromise(Markdown.load("render")),
  strip: await Effect.runPromise(Markdown.load("strip")),
  raw: await Effect.runPromise(Markdown.load("raw"))
}

const make = (options: Markdown.Options): Markdown.Renderer => makers[options.mode](options)

const render = (text: string, options: Markdown.Options): string => {
  const renderer = make(options)
  return renderer.push(text) + renderer.end()
}

const shown = (text: string, mode: Markdown.Mode = "render", columns?: number): string =>
  render(text, { mode, paint: Paint.plain, columns: () => columns })

const painted = (text: string, options: Paint.Options = { color: true, hyperlinks: false }): string =>
  render(text, { mode: "render", paint: Paint.make(options), columns: () => undefined })

describe("Markdown render", () => {
  it("takes the marks of headings, emphasis and code away", () => {
    assert.strictEqual(shown("# A *b* **c** `d` ##\n\nText ***e***"), "A b c d\n\nText e\n")
  })

  it("styles what it took the marks from, each piece for itself", () => {
    assert.strictEqual(painted("**a b** `c`"), "\u001b[1ma\u001b[0m \u001b[1mb\u001b[0m \u001b[36mc\u001b[0m\n")
    assert.strictEqual(painted("~~a~~"), "\u001b[9ma\u001b[0m\n")
    assert.strictEqual(painted("# a"), "\u001b[1;35ma\u001b[0m\n")
  })

  it("shows lists with their nesting and their numbers", () => {
    assert.strictEqual(shown("- a\n  * b\n    1. c\n2) d\n+ e"), "• a\n  • b\n    1. c\n2) d\n+ e\n")
  })

  it("shows code as it is, with its language above", () => {
    assert.strictEqual(
      shown("```ts\nconst a = `**b**`\n\n\tif (x)\n```\nafter"),
      "  ── ts\n  const a = `**b**`\n\n  \tif (x)\nafter\n"
    )
  })

  it("knows code inside of lists, right behind a bullet, in quotes, and without an end", () => {
    assert.strictEqual(shown("1. a\n   ```\n   b\n   ```\n2. c"), "1. a\n     b\n2. c\n")
    assert.strictEqual(shown("- ```\n  b\n  ```\n- c"), "•\n    b\n• c\n")
    assert.strictEqual(shown("> ```\n> # a\n> ```\n> b"), "│   # a\n│ b\n")
    assert.strictEqual(shown("> ```\n> a\n# b"), "│   a\nb\n")
    assert.strictEqual(shown("```\n# a"), "  # a\n")
    assert.strictEqual(shown("````\n```\n````"), "  ```\n")
  })

  it("shows quotes and rules", () => {
    assert.strictEqual(shown("> a\n>\n> > b\n\n---\n* * *"), `│ a\n│\n│ │ b\n\n${"─".repeat(40)}\n${"─".repeat(40)}\n`)
  })

  it("lays tables out by the columns that characters take", () => {
    assert.strictEqual(
      shown("| a | b | c |\n|:--|:-:|--:|\n| 漢字 | x | 1 |\n| `p|q` | **y** | 23 | 4 |\nafter"),
      "a    │ b │      c\n─────┼───┼───────\n漢字 │ x │      1\np|q  │ y │ 23 | 4\nafter\n"
    )
  })

  it("breaks the cells of a table that is too wide, and lists the rows of one that fits in no way", () => {
    assert.strictEqual(
      shown("| name | text |\n|-|-|\n| a | some words that are long |", "render", 20),
      "name │ text\n─────┼──────────────\na    │ some words\n     │ that are long\n"
    )
    assert.strictEqual(
      shown("| aaaaaa | bbbbbb |\n|-|-|\n| 1 | 2 |\n| 3 | 4 |", "render", 11),
      "aaaaaa: 1\nbbbbbb: 2\n\naaaaaa: 3\nbbbbbb: 4\n"
    )
  })

  it("a line with bars that no table follows is text", () => {
    assert.strictEqual(shown("| a **b** |\ntext | more"), "| a b |\ntext | more\n")
  })

  it("shows where links lead, once", () => {
    assert.strictEqual(
      shown("[a **b**](https://x.y/z_(1)) <https://q.r> [c](d.md)"),
      "a b (https://x.y/z_(1)) https://q.r c (d.md)\n"
    )
    assert.strictEqual(shown("[https://x.y](https://x.y/) ![pic](a.png)"), "https://x.y pic (a.png)\n")
  })

  it("hides a link behind its text only where that can deceive nobody", () => {
    const link = (text: string) => painted(text, { color: false, hyperlinks: true })
    assert.strictEqual(link("[docs](https://x.y)"), "\u001b]8;;https://x.y\u001b\\docs\u001b]8;;\u001b\\\n")
    assert.strictEqual(link("[bank.com](https://evil.com)"), "bank.com (https://evil.com)\n")
    assert.strictEqual(link("[run](javascript:alert)"), "run (javascript:alert)\n")
  })

  it("breaks lines between words and indents what follows", () => {
    assert.strictEqual(shown("one two three four", "render", 9), "one two\nthree\nfour\n")
    assert.strictEqual(shown("- one two three", "render", 9), "• one two\n  three\n")
    assert.strictEqual(shown("> one two three", "render", 9), "│ one two\n│ three\n")
    assert.strictEqual(shown("漢字かな、交じり文", "render", 8), "漢字か\nな、交じ\nり文\n")
    assert.strictEqual(shown("👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧", "render", 4), "👨‍👩‍👧👨‍👩‍👧\n👨‍👩‍👧\n")
  })

  it("leaves a word that fits nowhere whole, so that it can be copied", () => {
    assert.strictEqual(
      shown("see https://example.com/long/path ok", "render", 12),
      "see\nhttps://example.com/long/path\nok\n"
    )
  })

  it("never breaks code", () => {
    assert.strictEqual(shown("```\none two three four\n```", "render", 9), "  one two three four\n")
  })
})

describe("Markdown keeps what is no Markdown", () => {
  const plain = [
    "2*3*4 and x**2 + y**2",
    "snake_case_name and __init__.py",
    "src/**/*.ts and test/**/*.ts",
    "def f(*args, **kwargs): return args",
    "char *p, *q; r = a * b * c;",
    "a < b && c > d, 5 <div> &lt;",
    "C:\\temp\\new \\[x\\] \\(y\\) \\d+\\.",
    "an unclosed `tick, an unclosed **star, a lone [bracket] (and this)",
    "#hashtag 1.5 -5 ~5 ~/x +1",
    "email@example.com, 10:30, a|b",
    '{"a": [1, 2], "b": {"c": null}}'
  ]
  for (const text of plain) {
    it(`as it is: ${text}`, () => {
      assert.strictEqual(shown(text), `${text}\n`)
      assert.strictEqual(shown(text, "strip"), `${text}\n`)
    })
  }

  it("line ends, blank lines and indentation", () => {
    assert.strictEqual(shown("\n\na\nb\n\n\n    c\n\td\n\n"), "a\nb\n\n\n    c\n\td\n")
  })
})

describe("Markdown strip", () => {
  it("takes the marks away and keeps the layout in plain characters", () => {
    assert.strictEqual(
      shown("# A\n* **b** ~~c~~\n> d\n```ts\n  e\n```\n| x |\n|-|\n| y |\n***", "strip"),
      "A\n- b ~~c~~\n> d\n  e\nx\n-\ny\n---\n"
    )
  })
})

describe("Markdown raw", () => {
  it("is the text, ended by a line end", () => {
    assert.strictEqual(shown("\n# A  \n**b", "raw"), "\n# A  \n**b\n")
    assert.strictEqual(shown("a\n", "raw"), "a\n")
    assert.strictEqual(shown("", "raw"), "")
  })
})

describe("Markdown and control characters", () => {
  it("no escape sequence of the model's gets out, in any form", () => {
    for (const mode of ["render", "strip", "raw"] as const) {
      assert.strictEqual(shown("a\u001b[31mb\u009b2Jc\u0007d\u001b]0;e\u0007", mode), "a␛[31mb\ufffd2Jc␇d␛]0;e␇\n")
      assert.strictEqual(shown("a\r\nb\rc", mode), "a\nb␍c\n")
    }
  })

  it("characters that turn text around are left out", () => {
    assert.strictEqual(shown("rm \u202efdp.txt\u2066 -rf"), "rm fdp.txt -rf\n")
  })
})

const atoms = [
  "a",
  "b",
  " ",
  "  ",
  "\n",
  "\n\n",
  "*",
  "**",
  "***",
  "_",
  "__",
  "`",
  "``",
  "```",
  "```ts\n",
  "~~",
  "~~~\n",
  "[",
  "](",
  "http://x.y",
  "<https://a.b>",
  ")",
  "!",
  "|",
  "|-|-|\n",
  "| a | b |\n",
  "- ",
  "* ",
  "1. ",
  "> ",
  "# ",
  "## ",
  "#",
  "---\n",
  "\\",
  "\u001b[31m",
  "\r",
  "\r\n",
  "\t",
  "漢字",
  "。",
  "👨‍👩‍👧",
  "👨",
  "\u200d",
  "e",
  "\u0301",
  "\ud83d",
  "\ude00",
  "☑",
  "\ufe0f",
  "word",
  "longwordlongwordlongword",
  "src/**/*.ts",
  "x**2",
  "__init__",
  ".",
  ":",
  "    ",
  "한글",
  "<",
  "\u009b",
  "🇩🇪",
  "🇩",
  "\u202e",
  "(",
  '"',
  "\u0000"
]

const texts = Arbitrary.map(Arbitrary.array(Arbitrary.schema(Schema.Literals(atoms)), { maxLength: 30 }), (parts) =>
  parts.join("")
)
const anyText = Arbitrary.schema(Schema.String)
const cuts = Arbitrary.array(Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4 }))), {
  minLength: 1
})

const inPieces = (text: string, sizes: ReadonlyArray<number>, options: Markdown.Options): string => {
  const renderer = make(options)
  let out = ""
  for (let at = 0, index = 0; at < text.length; index++) {
    const size = sizes[index % sizes.length] ?? 1
    out += renderer.push(text.slice(at, at + size))
    at += size
  }
  return out + renderer.end()
}

describe("Markdown of any text", () => {
  const modes: ReadonlyArray<Markdown.Mode> = ["render", "strip", "raw"]
  const paints = [Paint.plain, Paint.make({ color: true, hyperlinks: true })]
  const columns = [undefined, 12, 40]
  const each = modes.flatMap((mode) =>
    paints.flatMap((paint) => columns.map((columns) => ({ mode, paint, columns: () => columns })))
  )

  prop("is the same in one piece and in pieces of any cut", [texts, cuts], ([text, sizes]) => {
    for (const options of each) {
      assert.strictEqual(inPieces(text, sizes, options), render(text, options))
    }
  })

  prop("is the same for text that is nothing in particular", [anyText, cuts], ([text, sizes]) => {
    for (const options of each) {
      assert.strictEqual(inPieces(text, sizes, options), render(text, options))
    }
  })

  prop(
    "holds no control character but line ends, tabs and what Paint writes, and ends with a line end",
    [texts],
    ([text]) => {
      for (const options of each) {
        const out = render(text, options)
        assert.notMatch(Paint.strip(out), /(?![\n\t])\p{Cc}/u)
        assert.isTrue(out === "" || out.endsWith("\n"))
        if (!options.paint.color) assert.notInclude(out, "\u001b")
      }
    }
  )

  prop("loses no letter of what was said", [texts], ([text]) => {
    const letters = (value: string): string => value.replaceAll(/[^ab漢字한글]/gu, "")
    const out = render(text, { mode: "strip", paint: Paint.plain, columns: () => undefined })
    // A link's address is shown once where it is the text too; a language of a code block is no part of the text.
    const said = text.replaceAll(/http:\/\/x\.y|<https:\/\/a\.b>/g, "")
    if (said === text && !/`{3}|~{3}|<br/.test(text)) assert.strictEqual(letters(out), letters(text))
  })

  prop("fits the terminal, except for words that fit no line and code", [texts], ([text]) => {
    const out = render(text, { mode: "render", paint: Paint.plain, columns: () => 40 })
    if (/`{3}|~{3}|\t/.test(text)) return
    for (const line of out.split("\n")) {
      assert.isTrue(Width.measure(line) <= 40 || !/\S\s+\S/u.test(line.trim()), line)
    }
  })
})

describe("Markdown is linear", () => {
  it("in text that opens what it never closes", () => {
    for (const open of ["*a ", "`a ", "[", "[a](", "**_", "| a ", "~~a", "<http://", "> ", "\\"]) {
      const text = open.repeat(5000)
      const out = shown(text)
      assert.isAbove(out.length, text.length / 4)
    }
  })
})
