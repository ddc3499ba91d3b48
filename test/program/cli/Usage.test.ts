// Command lines that mean nothing: one line that says what to write instead, and exit code 2.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { cli } from "./capture.ts"

describe("a command line that can not be used", () => {
  const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
    [["chat", "--modle", "x"], "unknown flag --modle: did you mean --mode, --model or --api-mode?"],
    [["--toolset", "x"], "unknown flag --toolset: did you mean --toolsets?"],
    [["--xyzzy"], "unknown flag --xyzzy: run `hermes --help` for a list"],
    [["-q", "hi", "chat"], "--query belongs after the command: hermes chat --query …"],
    [["chat", "hello"], `Unknown command "hello". To send it as a prompt: hermes -q 'hello'`],
    [["chat", "--max-turns", "many"], '--max-turns "many" is invalid: expected a whole number'],
    [["chat", "--run-budget", "long"], '--run-budget "long" is invalid: expected a number of seconds'],
    [["chat", "--format", "xml"], '--format "xml" is invalid: expected "text" | "stream-json"'],
    [["chat", "-m"], "--model needs a value: NAME"],
    [["chat", "-q"], "--query needs a value: TEXT"],
    [["config", "get"], "<key> is missing: run `hermes config get --help`"],
    [["-q", "  "], "--query is empty: pass a prompt"],
    [["-q", "a", "--query-file", "b"], "--query and --query-file cannot be combined"],
    [["-q", "a", "-r", "x", "-c"], "--resume and --continue cannot be combined"],
    [["-q", "a", "--script", "x", "--replay", "y"], "--script and --replay cannot be combined"],
    [["--query-file", "/nowhere/at/all"], "cannot read --query-file /nowhere/at/all: file not found"],
    [["-q", "a", "--image", "notes.txt"], "unsupported image type of --image notes.txt: use PNG, JPEG, GIF or WebP"],
    [["--image", "a.png"], "--image needs a prompt: add -q TEXT or --query-file PATH"],
    [["--format", "stream-json"], "--format stream-json needs a prompt: add -q TEXT or --query-file PATH"],
    [["-Q"], "--quiet needs a prompt: add -q TEXT or --query-file PATH"],
    [["resume", "x"], 'unknown command "resume" of hermes: continue a session with `hermes --resume SESSION`'],
    [
      ["resume", "the", "work"],
      `Unknown command "resume". To send it as a prompt: hermes -q 'resume the work' (did you mean restore?)`
    ],
    [
      ["sessions", "latest"],
      'unknown command "latest" of hermes sessions: show a session with `hermes sessions show latest`, continue it with `hermes --resume latest`'
    ],
    [["sessions", "show", "--session"], "<session> is missing: run `hermes sessions show --help`"],
    [[], "Not a terminal. Pass a prompt with -q TEXT, or pipe one."]
  ]
  for (const [argv, line] of cases) {
    it.effect(["hermes", ...argv].join(" "), () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* cli(...argv), { code: 2, stdout: "", stderr: `Error: ${line}\n` })
      })
    )
  }

  it.effect("an unknown command is three short lines where there is a likely correction, else one", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* cli("chta"), {
        code: 2,
        stdout: "",
        stderr: 'Error: unknown command "chta" of hermes\nDid you mean chat?\nHelp: hermes --help\n'
      })
      assert.deepStrictEqual(yield* cli("config", "gte"), {
        code: 2,
        stdout: "",
        stderr: 'Error: unknown command "gte" of hermes config\nDid you mean get?\nHelp: hermes config --help\n'
      })
      assert.deepStrictEqual(yield* cli("xyzzy"), {
        code: 2,
        stdout: "",
        stderr: `Error: Unknown command "xyzzy". To send it as a prompt: hermes -q 'xyzzy'\n`
      })
    })
  )
})

describe("a command line that asks for words", () => {
  it.effect("help and version are on stdout, with code 0", () =>
    Effect.gen(function* () {
      for (const argv of [["--version"], ["-V"], ["chat", "--version"]]) {
        assert.deepStrictEqual(yield* cli(...argv), { code: 0, stdout: "hermes 0.1.0\n", stderr: "" })
      }
      const help = yield* cli("chat", "--help")
      assert.strictEqual(help.code, 0)
      for (const flag of [
        "--query, -q TEXT",
        "--quiet, -Q",
        "--format",
        "--resume, -r SESSION",
        "--ignore-user-config"
      ]) {
        assert.include(help.stdout, flag)
      }
      assert.strictEqual(help.stderr, "")
    })
  )

  it.effect("a shell's completions name every command", () =>
    Effect.gen(function* () {
      for (const shell of ["bash", "zsh", "fish"]) {
        const { code } = yield* cli("--completions", shell)
        assert.strictEqual(code, 0)
      }
    })
  )
})
