// The guide of the terminal names every command, key and mode that there is, and no other.
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as BuiltinCommands from "../../../src/program/cli/interactive/BuiltinCommands.ts"
import * as PermissionMode from "../../../src/base/config/PermissionMode.ts"
import { root } from "../../support/sources.ts"

const guide = readFileSync(join(root, "scratchpad/guides/terminal.md"), "utf8")

/** A part of the guide, by its heading. */
const section = (heading: string): string => guide.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? ""

describe("the guide of the terminal", () => {
  it("lists the commands of a conversation", () => {
    const known = BuiltinCommands.commands.map(({ name }) => name)
    const rows = section("Commands")
      .split("\n")
      .filter((line) => line.startsWith("| "))
    const listed = rows.flatMap((row) => Array.from(row.matchAll(/`\/(\w+)`/g), ([, name = ""]) => name))
    assert.deepStrictEqual(listed.toSorted(), known.toSorted())
  })

  it("lists the modes of permission, and those that Shift+Tab goes through", () => {
    assert.deepStrictEqual(
      Array.from(section("Modes").matchAll(/^\| `(\w+)` \|/gm), ([, name]) => name),
      Array.from(PermissionMode.all)
    )
    assert.include(section("Modes"), `from \`${PermissionMode.cycled[0]}\` to \`${PermissionMode.cycled.at(-1)}\``)
  })

  it("lists the keys of the help", () => {
    const help = readFileSync(join(root, "src/program/cli/interactive/BuiltinCommands.ts"), "utf8")
    const keys = Array.from(help.matchAll(/^ +\["((?:Alt|Ctrl|Shift)\+[^"]+|Enter|Esc|Tab)", "/gm), ([, names = ""]) =>
      names.split(", ")
    )
      .flat()
      .map((name) => name.replace("\\\\ ", ""))
    assert.isAbove(keys.length, 9)
    assert.deepStrictEqual(
      keys.filter((key) => !section("Keys").includes(key)),
      []
    )
  })
})
