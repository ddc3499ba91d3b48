// `hermes tools`: its list, and `enable | disable` with the real program as a child process.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { machine } from "../../support/hermesInProcess.ts"
import { summariseDescription } from "../../../src/program/cli/ToolsCommand.ts"

it("a tool is told in its first sentence, and what a list follows ends like one", () => {
  assert.strictEqual(summariseDescription("Reads a file. Then more."), "Reads a file.")
  assert.strictEqual(summariseDescription("Asks the user when:\n- it must\n- it may"), "Asks the user when.")
  assert.strictEqual(summariseDescription("One:two three"), "One:two three")
})

describe("hermes tools", () => {
  it.live("disable keeps a toolset from runs, enable gives it back, and brings one that was not chosen", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      keep("config.yaml", "toolsets: [file, todo]\n")
      const file = join(home, "config.yaml")
      assert.strictEqual((yield* hermes(["tools", "disable", "todo"])).code, 0)
      const { stdout } = yield* hermes(["tools", "--summary"])
      assert.include(stdout, "+ file: 4 of 4 tools\n")
      assert.include(stdout, "- todo: 0 of 1 tools\n")
      yield* hermes(["tools", "enable", "todo", "terminal"])
      assert.strictEqual(
        readFileSync(file, "utf8").replaceAll(/\s+/g, " ").trim(),
        "toolsets: - file - todo - terminal"
      )
    })
  )

  it.live("a platform has its own list; what can not be done is one line, and changes nothing", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      for (const args of [
        ["disable", "webb"],
        ["disable", "web", "--platform", "cron"]
      ]) {
        const { code, stderr } = yield* hermes(["tools", ...args])
        assert.strictEqual(code, 2)
        assert.match(stderr, /^Error: [^\n]+\n$/)
      }
      assert.isFalse(existsSync(join(home, "config.yaml")))
      yield* hermes(["tools", "enable", "kanban", "--platform", "cron"])
      assert.match(
        readFileSync(join(home, "config.yaml"), "utf8"),
        /^platform_toolsets:\n {2}cron:\n {4}- hermes-cli\n {4}- kanban\n$/
      )
      yield* hermes(["tools", "disable", "web"])
      const { code, stderr } = yield* hermes(["tools", "enable", "web", "--platform", "cron"])
      assert.deepStrictEqual([code, stderr], [2, "Error: web is disabled for all: enable it without --platform\n"])
    })
  )
})
