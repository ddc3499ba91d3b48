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
      if (argv[0] === "chat")
        assert.include(
          stdout.replaceAll(/\s+/g, " "),
          "Ignore config.yaml, plugins, shell hooks, MCP servers, SOUL.md, project files and memory"
        )
    })
  )

  it.effect("that of the program fits on two screens, with the commands by use", () =>
    Effect.gen(function* () {
      const { stdout } = yield* cli("--help")
      const lines = stdout.trimEnd().split("\n")
      assert.isAtMost(lines.length, 2 * 24)
      const headings = lines.filter((line) => /^[A-Z ]+$/.test(line))
      assert.deepStrictEqual(headings, ["USAGE", "EVERYDAY", "FOR PROGRAMMERS", "FOR RESEARCH", "FLAGS"])
      assert.notMatch(stdout, /^ {2}(?:batch|eval|swe|rl) /m)
    })
  )

  it.effect("research is behind one word, and its commands work without it", () =>
    Effect.gen(function* () {
      const { stdout } = yield* cli("lab", "--help")
      for (const name of ["batch", "eval", "swe", "rl"]) {
        assert.match(stdout, new RegExp(`^ {2}${name} `, "m"))
        assert.deepStrictEqual(yield* cli(name, "--help"), yield* cli("lab", name, "--help"))
        assert.deepStrictEqual(yield* cli("help", name), yield* cli("lab", name, "--help"))
      }
    })
  )

  it.effect("several unknown words are suggested as one prompt, quoted for a shell", () =>
    Effect.gen(function* () {
      for (const [words, line] of [
        [["fix", "the", "bug"], `Unknown command "fix". To send it as a prompt: hermes -q 'fix the bug'`],
        [["fix", "it's"], `Unknown command "fix". To send it as a prompt: hermes -q 'fix it'\\''s'`],
        [["chat", "fix", "$HOME"], `Unknown command "fix". To send it as a prompt: hermes -q 'fix $HOME'`]
      ] as const) {
        const { code, stderr } = yield* cli(...words)
        assert.deepStrictEqual([code, stderr], [2, `Error: ${line}\n`])
      }
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
