// Help: within 80 columns, and by its other names.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { version } from "../../../src/base/domain/Version.ts"
import { cli } from "./capture.ts"

describe("help", () => {
  it.effect.each([
    ["--help"],
    ["chat", "--help"],
    ["sessions", "--help"],
    ["mcp", "add", "--help"],
    ["cron", "create", "--help"],
    ["help", "trace"]
  ])("%s fits 80 columns and loses no word", (argv) =>
    Effect.gen(function* () {
      const { code, stderr, stdout } = yield* cli(...argv)
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.deepStrictEqual(
        stdout.split("\n").filter((line) => line.length > 80),
        []
      )
      assert.match(stdout, /(^|\n\n)USAGE\n/)
      if (argv[0] === "--help")
        assert.include(
          stdout.replaceAll(/\s+/g, " "),
          "Ignore config.yaml, plugins, shell hooks, MCP servers, SOUL.md, project files and memory"
        )
    })
  )

  it.effect("hermes help and hermes version are the flags of their names", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* cli("help"), yield* cli("--help"))
      assert.deepStrictEqual(yield* cli("help", "sessions"), yield* cli("sessions", "--help"))
      assert.deepStrictEqual(yield* cli("version"), { code: 0, stdout: `hermes ${version}\n`, stderr: "" })
      const { code, stderr } = yield* cli("help", "sesions")
      assert.strictEqual(code, 2)
      assert.include(stderr, "sessions")
    })
  )
})
