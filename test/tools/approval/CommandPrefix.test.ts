// Which commands an approval of a prefix may be granted for, and what it then covers.
import { assert, describe, it } from "@effect/vitest"
import * as CommandPrefix from "../../../src/tools/approval/CommandPrefix.ts"
import { lookalikes, prefixed, unprefixed } from "./prefixLines.ts"

const covers = (prefix: string, line: string): boolean =>
  CommandPrefix.makeMatcher([CommandPrefix.parseGlob(CommandPrefix.toGlob(prefix)) ?? []])(line)

describe("CommandPrefix", () => {
  it("is the program and its subcommand", () => {
    for (const [line, prefix] of prefixed) assert.strictEqual(CommandPrefix.findPrefix(line), prefix, line)
  })

  it("is none for what runs another program, for more than one command, and for what is not written out", () => {
    for (const line of unprefixed) assert.isUndefined(CommandPrefix.findPrefix(line), line.slice(0, 80))
  })

  it("covers its own commands and nothing that has no prefix, whatever it begins with", () => {
    for (const [line, prefix] of prefixed) assert.isTrue(covers(prefix, line), line)
    const shapes = unprefixed.filter(
      (line) =>
        !/^(?:git (?:stash|config|bisect|rebase)|docker (?:run|exec|compose)|npm |pnpm |uv |bundle |kubectl )/.test(
          line
        )
    )
    for (const line of shapes) assert.isFalse(covers("git push", line), line.slice(0, 80))
    for (const [prefix, line] of lookalikes) assert.isFalse(covers(prefix, line), line)
  })

  it("reads a glob of words and a last star as a prefix, and no other", () => {
    assert.deepStrictEqual(CommandPrefix.parseGlob("git push *"), ["git", "push"])
    for (const glob of ["*", " *", "git push*", "git * *", "gi? *", "git push", "git  push *", "command: x"])
      assert.isUndefined(CommandPrefix.parseGlob(glob), glob)
  })

  it("takes a line for plain when its words are all there is to it", () => {
    for (const line of [
      "git push",
      "git push && git push",
      "git push 2>&1",
      "git push 2>/dev/null",
      "/usr/bin/git push",
      "A=b",
      "git commit -F - <<EOF\nx\nEOF"
    ]) {
      assert.isTrue(CommandPrefix.isPlainLine(line), line)
    }
    for (const line of [
      "git push > x",
      "git push >> x",
      "git push < x",
      "A=b git push",
      "./git push",
      "x && /tmp/git push",
      "git push >&x",
      "git push 2> /dev/null/../x",
      "git push > $X"
    ]) {
      assert.isFalse(CommandPrefix.isPlainLine(line), line)
    }
  })
})
