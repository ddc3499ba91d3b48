// The judge's work grows with the length of a command, not with its square or cube: measured over a text and
// over its pieces, for every program that a rule names and for texts that slow readers down.
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import * as Danger from "../../../src/tools/danger/Danger.ts"
import { steepness } from "../../support/growth.ts"

const folder = new URL("../../../src/tools/danger/", import.meta.url)

/** Every word of the rules' own source: the names of programs, flags and verbs that they look for. */
const words = Array.from(
  new Set(
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .flatMap((file) => {
        const code = readFileSync(new URL(file, folder), "utf8").replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "")
        return Array.from(code.matchAll(/["'`(|^:\s]([a-z][a-z0-9.-]{1,20})(?=["'`)|:?\s$])/g), ([, word = ""]) => word)
      })
  )
)

/** What a pattern that backtracks would read again and again. */
const units = [
  "a",
  "-",
  "c",
  "e0",
  "=",
  "/",
  "//",
  "/..",
  "*",
  "[",
  "(",
  ")",
  ".",
  ":",
  "!",
  "~",
  "@",
  "%",
  "\\",
  "'a'",
  " ",
  "\t",
  "\n\n",
  "where ",
  "everyone",
  "delete from x ",
  "update x set ",
  "drop ",
  "exec ",
  "system( ",
  "$(shell ",
  "/sh ",
  "s/",
  "e ",
  ";e ",
  "aA",
  "--a ",
  "D:/",
  "#",
  "?",
  "0"
] as const

/** Words between blanks and orders of a shell. */
const lists = [
  "a ",
  "-c ",
  "-e ",
  "-d @x ",
  "-exec ",
  "--index-url ",
  "-H a ",
  "x=1 ",
  "$x ",
  '"a" ',
  "'a' ",
  "{a,b} ",
  "> a ",
  "< a ",
  "/* ",
  "+x a ",
  "a; ",
  "a && ",
  "a | ",
  "a\n",
  "$(a) ",
  "`a` ",
  "${x%a} ",
  "((a)) ",
  "\\a",
  '"$x" ',
  "x=$x$x; "
] as const

const quoted = (text: string): string => `'${text.replaceAll("'", '"')}'`

/** Texts whose cost is that of a square of their size. */
const steep = (name: string, at: (size: number) => string, size: number): ReadonlyArray<string> => {
  const ratio = steepness(Danger.judge, at, size, 10_000)
  return ratio === undefined ? [] : [`${name}: ${Math.round(ratio)} times the work of its pieces`]
}

const repeated = (unit: string, size: number): string => unit.repeat(Math.ceil(size / unit.length))

/** The expressions of the judge and of its reader of shells, as they stand in the sources. */
const expressions = ["../../../src/tools/danger/", "../../../src/tools/shell/"].flatMap((place) => {
  const folder = new URL(place, import.meta.url)
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => {
      const code = readFileSync(new URL(file, folder), "utf8").replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "")
      const literal =
        /(?<=[=(,:!&|?[{;\s])\/((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])*)\/([dgimsuvy]*)(?=[\s.,;)\]:?]|$)/gm
      return Array.from(code.matchAll(literal), ([, source = "", flags = ""]) => ({
        file,
        source,
        flags: flags.replace(/[gy]/g, "")
      }))
    })
})

/** What an expression looks for first: a text of it that repeats is what it may read again and again. */
const headOf = (source: string): string => /[a-z]{2,}/.exec(source.replaceAll(/\\[a-z]/g, ""))?.[0] ?? ""

describe("Growth", () => {
  it("reads a text of any kind in time linear in its length, by every expression of the rules", () => {
    assert.isAbove(expressions.length, 250)
    const found = expressions.flatMap(({ file, flags, source }) => {
      const pattern = new RegExp(source, flags)
      const texts = ["", `${headOf(source)} `].flatMap((head) =>
        units.map((unit) => (size: number) => head + repeated(unit, size))
      )
      // A short text first: the work of a cube does not end over a long one.
      const slow = texts.find((at) =>
        [800, 16_000].some((size) => steepness((text) => pattern.test(text), at, size, 10_000) !== undefined)
      )
      return slow === undefined ? [] : [`${file}: /${source}/ over ${JSON.stringify(slow(16))}`]
    })
    assert.deepStrictEqual(found, [])
  })

  it("names enough programs to be a test of every rule", () => {
    assert.isAbove(words.length, 800)
    for (const word of ["sed", "psql", "curl", "find", "git", "nc", "chmod", "docker", "xargs"])
      assert.include(words, word)
  })

  it("judges an argument of any kind in time linear in its length, for every program", () => {
    const found = words.flatMap((word) =>
      steep(word, (size) => `${word} ${units.map((unit) => quoted(repeated(unit, size))).join(" ")}`, 1_000)
    )
    assert.deepStrictEqual(found, [])
  })

  it("judges long lists of words, orders and redirections in linear time", () => {
    const found = ["", "find . ", "curl https://x.y ", "pip install "].flatMap((before) =>
      lists.flatMap((unit) => steep(before + unit, (size) => before + repeated(unit, size), 6_000))
    )
    assert.deepStrictEqual(found, [])
  })

  it("reads the words of an array once, however often one of them is used", () => {
    const uses = (size: number): string => `x=(${"a ".repeat(size / 4)}); echo ${"${x[9]} ".repeat(size / 16)}`
    assert.deepStrictEqual(steep("array", uses, 96_000), [])
    assert.deepStrictEqual(Danger.judge("x=(rm -rf /); ${x[0]} ${x[1]} ${x[2]}").floor?.gravity, "floor")
  })

  it("takes text off variables, and takes what is left by a glob for unknown", () => {
    const trims = (times: number) =>
      (["#", "##", "%", "%%"] as const).map(
        (operator) => `x=${"a".repeat(64)}; echo ${`\${x${operator}${"*a".repeat(15)}*b} `.repeat(times)}`
      )
    assert.deepStrictEqual(
      trims(1).flatMap((_, index) => steep("trim", (size) => trims(size)[index] ?? "", 800)),
      []
    )
    const trimmed = (value: string, expansion: string): ReadonlyArray<string> =>
      Danger.judge(`x=${value}; echo "\${x${expansion}}"`).commands.filter((command) => command.startsWith("echo"))
    const cases: ReadonlyArray<readonly [expansion: string, left: string]> = [
      ["%.tar.gz", "a/b/c"],
      ["%%.gz", "a/b/c.tar"],
      ["#a/", "b/c.tar.gz"],
      ["##x", "a/b/c.tar.gz"],
      ["#*/", ""],
      ["%.*", ""],
      ["%[gz]", ""]
    ]
    for (const [expansion, left] of cases)
      assert.deepStrictEqual(trimmed("a/b/c.tar.gz", expansion), [`echo ${left}`], expansion)
  })

  it("judges the sed script that once took half a minute", () => {
    const script = (size: number): string => `sed 's${"/a".repeat(size / 2)}' file`
    assert.deepStrictEqual(steep("sed", script, 48_000), [])
    assert.deepStrictEqual(
      steep("sed s0e0", (size) => `sed 's0${"e0".repeat(size / 2)}'`, 48_000),
      []
    )
    for (const runs of ["s/a/b/e", "s|a|b|ge", "s1a1b1e", "s///e", "s/a/b/e\np", "s/a;b/c/e", "s/a/b/e;p"]) {
      assert.isNotEmpty(Danger.selectAskedFindings(Danger.judge(`sed '${runs}' file`), "ask"), runs)
    }
    for (const plain of ["s/a/b/g", "s/e/e/", "s/a/b/;s/c/d/", "/e/d"]) {
      assert.deepStrictEqual(Danger.selectAskedFindings(Danger.judge(`sed '${plain}' file`), "ask"), [], plain)
    }
  })

  it("never throws at the largest text that is judged, and never passes a larger one", () => {
    for (const unit of ["${x}", "$(a)", "a ", '"$x"', "a;", "\\a", "> a "]) {
      for (const [before, after] of [
        ['echo "', '"'],
        ["x=(", ")"]
      ] as const) {
        const room = Danger.maxLength - before.length - after.length
        Danger.judge(before + unit.repeat(Math.floor(room / unit.length)) + after)
      }
    }
    assert.isDefined(Danger.judge("a".repeat(Danger.maxLength + 1)).floor)
  })
})
