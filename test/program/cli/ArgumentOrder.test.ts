import { assert, describe, it } from "@effect/vitest"
import { rewrite } from "../../../src/program/cli/ArgumentOrder.ts"

const words = (line: string): ReadonlyArray<string> => line.split(" ")

describe("Argv", () => {
  const cases: ReadonlyArray<readonly [string, ReadonlyArray<string>, ReadonlyArray<string>]> = [
    ["a prompt may begin with a dash", ["-q", "- a list"], ["--query=- a list"]],
    ["so may that of the long form", ["chat", "--query", "--help"], ["chat", "--query=--help"]],
    ["a prompt may be empty", ["-q", ""], ["--query="]],
    ["flags in one word keep their order", ["-Qvq", "-1"], ["-Q", "-v", "--query=-1"]],
    [
      "a prompt of a script may begin with a dash",
      ["-t", "file", "-z", "- a list"],
      ["-t", "file", "--oneshot-prompt=- a list"]
    ],
    ["--oneshot with words behind it is one, too", ["--oneshot", "fix it"], ["--oneshot-prompt=fix it"]],
    ["--oneshot beside a query has no words", ["--oneshot", "-q", "fix it"], ["--oneshot", "--query=fix it"]],
    ["a flag without its value is left to the parser", words("chat -q"), words("chat -q")],
    ["a name behind -c is its value", words("-c refactoring chat"), words("--continue=refactoring chat")],
    ["a command behind -c is none", words("-c chat"), words("-c chat")],
    ["a flag behind -c is none", words("--continue -q hi"), words("--continue --query=hi")],
    [
      "underscores in names are dashes",
      words("--ignore_user_config --max_turns=3"),
      words("--ignore-user-config --max-turns=3")
    ],
    ["those in values stay", words("--model=a_b"), words("--model=a_b")],
    ["earlier names of commands are replaced", words("-m x plugins uninstall p"), words("-m x plugins remove p")],
    ["and of subcommands", words("plugins ls --json"), words("plugins list --json")],
    ["research has one word in front", words("-m x batch run -q"), words("-m x lab batch run -q")],
    ["a session is an argument", words("sessions show --json --session-id x"), words("sessions show x --json")],
    ["with any of its flags", words("-m y trace view --session=x"), words("-m y trace view x")],
    ["behind the title of another", words("sessions rename New --session x"), words("sessions rename x New")],
    ["a search has a flag for it", words("sessions search a --session x"), words("sessions search a --session-id x")],
    ["a missing session is left to the parser", words("sessions show --session"), words("sessions show")],
    ["another command keeps its flag", words("trace convert f --session x"), words("trace convert f --session x")],
    ["a session is resumed by a flag", words("sessions resume x"), words("--resume x")],
    ["a prompt is no command", ["-q", "batch rm"], ["--query=batch rm"]],
    ["nothing behind -- is touched", ["chat", "--", "-q", "a_b", "--x_y"], ["chat", "--", "-q", "a_b", "--x_y"]]
  ]
  for (const [name, argv, expected] of cases) {
    it(`${name}`, () =>
      assert.deepStrictEqual(rewrite(argv, ["chat", "config", "plugins", "batch", "sessions", "trace"]), expected))
  }
})
