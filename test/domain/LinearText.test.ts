// Text of models, tools, pages and people is read in time linear in its length, wherever it passes a pattern.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Block from "../../src/cli/render/Block.ts"
import * as LogLine from "../../src/cli/LogLine.ts"
import * as Redaction from "../../src/domain/Redaction.ts"
import * as TextFences from "../../src/domain/TextFences.ts"
import * as Pattern from "../../src/tool/builtin/search/Pattern.ts"
import * as V4A from "../../src/tool/builtin/patch/V4A.ts"
import * as ArgumentRepair from "../../src/tool/calls/ArgumentRepair.ts"
import * as Injection from "../../src/tool/fence/Injection.ts"

const units = [
  " ", "\t", "\n", "a", "-", "--", "--I", "`", "#", "<", "<TITLE", "<script ", "<!--ignore ", "[system note: context ", "cookie:K", "token=", "sk-", "eyJ", "://",
  "=", "\"", "'", "{", "[", "\\", "\\\"", "curl $", "cat .", "A", "0", "AKIA", "0:a", ";password=", "<think>", "</think>", "<memory-context>",
  "-----BEGIN PRIVATE KEY-----", "_KEY=", "Bearer ", "é", "\u200b"
]

const readers: Readonly<Record<string, (text: string) => unknown>> = {
  "Redaction.redactText": Redaction.redactText,
  "Redaction.redactKeys": Redaction.redactKeys,
  "TextFences.strip": TextFences.strip,
  "Injection.scan": (text) => Injection.scan(text, "web"),
  "Injection.scan, of a file": (text) => Injection.scan(text, "context file"),
  "Block.of": (text) => Block.of(text.replaceAll("\n", " "), true),
  "Block.of, heading": (text) => Block.of(`# ${text.replaceAll("\n", " ")}x\t`, true),
  "Block.closes": (text) => Block.closes({ char: "`", count: 3, indent: "", language: "" }, `${text}x`, true),
  "LogLine.render": (text) => LogLine.render("Info", text),
  "ArgumentRepair.repair": ArgumentRepair.repair,
  "V4A.parse": (text) => V4A.parse(`*** Begin Patch\n*** Move File: ${text} -> ${text}\n*** Add File:${text}\n*** End Patch`),
  "Pattern.compile": Pattern.compile,
  "Pattern.isBounded": (text) => Pattern.isBounded(text.slice(0, 4_096))
}

const cost = (read: (text: string) => unknown, text: string): number => {
  const before = process.threadCpuUsage()
  read(text)
  const { system, user } = process.threadCpuUsage(before)
  return user + system
}

describe("LinearText", () => {
  for (const [name, read] of Object.entries(readers)) {
    it(`${name} does not do the work of a square`, { timeout: 60_000 }, () => {
      const found = units.flatMap((unit) => {
        const at = (size: number) => unit.repeat(Math.ceil(size / unit.length))
        if (cost(read, at(64_000)) < 40_000) return []
        const least = (text: string) => Math.min(cost(read, text), cost(read, text), cost(read, text))
        const ratio = least(at(64_000)) / Math.max(1_000, least(at(8_000)))
        return ratio > 24 ? [`${JSON.stringify(unit)}: ${Math.round(ratio)} times the work for 8 times the text`] : []
      })
      assert.deepStrictEqual(found, [])
    })
  }

  it("refuses a search pattern that is too long to be judged", () => {
    assert.isTrue(Result.isFailure(Pattern.compile("a".repeat(5_000))))
  })
})
