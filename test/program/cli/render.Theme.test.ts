// Themes: the look of a role, looks of the settings, and the background that a terminal tells.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Paint from "../../../src/program/cli/render/Paint.ts"
import * as Theme from "../../../src/program/cli/render/Theme.ts"

describe("a theme", () => {
  it("says how a role looks, and another one from now on; shapes and plain roles stay as they are", () => {
    const theme = Theme.makeCurrentTheme()
    const paint = Paint.make({ color: true, hyperlinks: false, theme })
    assert.strictEqual(paint.text("x", "bold", "muted"), "\u001b[1;2mx\u001b[0m")
    assert.strictEqual(paint.text("x", "red"), paint.text("x", "error"))
    theme.value = Theme.makeHighContrast("dark")
    assert.strictEqual(paint.text("x", "muted"), "x")
    assert.strictEqual(paint.text("x", "bold", "muted"), "\u001b[1mx\u001b[0m")
    theme.value = Theme.light
    assert.strictEqual(paint.text("x", "accent"), "\u001b[38;5;25mx\u001b[0m")
    assert.strictEqual(Paint.strip(paint.text("x", "accent")), "x")
  })

  it("of the settings changes some roles of a built-in one", () => {
    const themes = { mine: { base: "light", accent: "bold #ff8800", muted: "default", error: "no colour" } } as const
    const { codes, name } = Result.getOrThrow(Theme.find("mine", { themes }, "dark"))
    assert.deepEqual(
      [name, codes.accent, codes.muted, codes.error, codes.link],
      ["mine", "1;38;2;255;136;0", "", Theme.light.codes.error, Theme.light.codes.link]
    )
    assert.deepEqual(Theme.find("auto", { themes }, "light"), Result.succeed(Theme.light))
    assert.deepEqual(Theme.find("drak", { themes }, "light"), Result.fail("drak"))
    // No name of the language itself is a theme.
    assert.deepEqual(Theme.find("constructor", { themes }, "dark"), Result.fail("constructor"))
  })

  it.each([
    ["red", "31"],
    ["bright-red", "91"],
    ["208", "38;5;208"],
    ["256", undefined],
    ["underline dim cyan", "4;2;36"],
    ["bold", "1"],
    ["#12345", undefined],
    ["red bold", undefined],
    ["default", ""],
    ["bold default", undefined],
    ["", undefined],
    ["constructor", undefined]
  ])("reads the look %j as %j", (look, codes) => assert.strictEqual(Theme.parseCodes(look), codes))

  it("follows the background that a terminal tells", () => {
    assert.strictEqual(Theme.parseBackground("11;rgb:ffff/ffff/ffff"), "light")
    assert.strictEqual(Theme.parseBackground("11;rgb:1e/1e/2e"), "dark")
    assert.strictEqual(Theme.parseBackground("11;rgba:ff/ff/f0/ff"), "light")
    assert.strictEqual(Theme.parseBackground("10;rgb:0/0/0"), undefined)
    assert.deepEqual(
      ["15;0", "0;15", "0;default;7", "12;8", "", undefined].map((COLORFGBG) => Theme.readBackground({ COLORFGBG })),
      ["dark", "light", "light", "dark", "dark", "dark"]
    )
  })
})
