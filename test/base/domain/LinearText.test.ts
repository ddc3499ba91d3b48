// Text of models, tools, pages and people is read in time linear in its length, wherever it passes a pattern.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Markdown from "../../../src/program/cli/render/Markdown.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as LogLine from "../../../src/program/cli/LogLine.ts"
import * as Redaction from "../../../src/base/domain/Redaction.ts"
import * as Secrets from "../../../src/base/domain/Secrets.ts"
import * as TextHygiene from "../../../src/base/domain/TextHygiene.ts"
import * as SkillFile from "../../../src/tools/prompt/SkillFile.ts"
import * as Pattern from "../../../src/tools/builtin/search/ContentSearch.ts"
import * as V4A from "../../../src/tools/builtin/patch/V4A.ts"
import * as ArgumentRepair from "../../../src/tools/calls/ArgumentRepair.ts"
import * as Injection from "../../../src/base/domain/Injection.ts"
import { steepness } from "../../support/growth.ts"

const units = [
  " ",
  "\t",
  "\n",
  "a",
  "-",
  "--",
  "--I",
  "`",
  "#",
  "<",
  "<TITLE",
  "<script ",
  "<!--ignore ",
  "[system note: context ",
  "cookie:K",
  "token=",
  "sk-",
  "eyJ",
  "://",
  "=",
  '"',
  "'",
  "{",
  "[",
  "\\",
  '\\"',
  "curl $",
  "cat .",
  "A",
  "0",
  "AKIA",
  "0:a",
  ";password=",
  "<think>",
  "</think>",
  "<memory-context>",
  "-----BEGIN PRIVATE KEY-----",
  "_KEY=",
  "Bearer ",
  "é",
  "\u200b",
  "[a](",
  "[1,]",
  "}",
  ", "
]

const markdown = await Effect.runPromise(Markdown.load("render"))

const rendered = (text: string): string => {
  const renderer = markdown({ mode: "render", paint: Paint.plain, columns: () => 80 })
  return renderer.push(text) + renderer.end()
}

const markdownUnits = [
  "> ",
  "- a\n",
  "  - a\n",
  "1. ",
  "* ",
  "- - ",
  "| a ",
  "|-|\n",
  "| a |\n",
  "~~~\n",
  "[a](",
  "**_",
  "    a\n",
  "a\n\n",
  "> a\n",
  "a\n> ",
  "[x]: y\n"
]

const readers: Readonly<Record<string, (text: string) => unknown>> = {
  // Each text has a registry of its own, so that no result is cached.
  "Redaction.redactText": (text) => Redaction.redactText(text, Secrets.make()),
  "Redaction.redactKeys": Redaction.redactKeys,
  "TextHygiene.stripFences": TextHygiene.stripFences,
  "Injection.scan": (text) => Injection.scan(text, "web"),
  "Injection.scan, of a file": (text) => Injection.scan(text, "context file"),
  "Injection.scan, of a skill": (text) => Injection.scan(text, "skill"),
  "SkillFile.findWarnings": SkillFile.findWarnings,
  Markdown: (text) => rendered(text),
  "Markdown, one line": (text) => rendered(text.replaceAll("\n", " ")),
  "Markdown, heading": (text) => rendered(`# ${text.replaceAll("\n", " ")}x\t`),
  "Markdown, code": (text) => rendered(`\`\`\`\n${text}x`),
  "LogLine.render": (text) => LogLine.render("Info", text),
  "ArgumentRepair.repair": ArgumentRepair.repair,
  "V4A.parse": (text) =>
    V4A.parse(`*** Begin Patch\n*** Move File: ${text} -> ${text}\n*** Add File:${text}\n*** End Patch`),
  "Pattern.compile": Pattern.compile,
  "Pattern.isBounded": (text) => Pattern.isBounded(text.slice(0, 4_096))
}

describe("LinearText", () => {
  for (const [name, read] of Object.entries(readers)) {
    it(`${name} does not do the work of a square`, () => {
      const isMarkdown = name.startsWith("Markdown")
      // A rendered text costs more for each character.
      const size = isMarkdown ? 24_000 : 64_000
      const found = (isMarkdown ? [...units, ...markdownUnits] : units).flatMap((unit) => {
        const ratio = steepness(read, (size) => unit.repeat(Math.ceil(size / unit.length)), size, 40_000)
        return ratio === undefined ? [] : [`${JSON.stringify(unit)}: ${Math.round(ratio)} times the work of its pieces`]
      })
      assert.deepStrictEqual(found, [])
    })
  }

  it("finds the work of a square, and takes none other for one", () => {
    const spaces = (size: number) => `${" ".repeat(size)}x`
    assert.isAbove(steepness((text) => /\s+$/.test(text), spaces, 8_000, 0) ?? 0, 6)
    assert.isUndefined(steepness((text) => /(?<!\s)\s+$/.test(text), spaces, 8_000, 0))
  })

  it("refuses a search pattern that is too long to be judged", () => {
    assert.isTrue(Result.isFailure(Pattern.compile("a".repeat(5_000))))
  })
})
