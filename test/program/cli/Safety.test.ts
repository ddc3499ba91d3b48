// What the settings say about safety, in runs of the program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, readdirSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { machine } from "../../support/hermesInProcess.ts"

const key = `sk-${"a1B2".repeat(10)}`

type Calls = ReadonlyArray<readonly [name: string, params: Record<string, unknown>]>

/** A script of turns: these calls, one after the other, then an answer. */
const turns = (calls: Calls): string =>
  JSON.stringify({
    turns: [...calls.map(([name, params]) => ({ tool_calls: [{ name, arguments: params }] })), { text: "done" }]
  })

/** Runs the calls; what their results were, as the program's listeners get them. */
const scene = Effect.fnUntraced(function* (
  config: string,
  calls: Calls,
  files: Readonly<Record<string, string>> = {},
  args: ReadonlyArray<string> = [],
  env: Readonly<Record<string, string>> = {}
) {
  const made = yield* machine
  made.keep("config.yaml", config.replaceAll("HOME", made.home))
  made.put("turns.yaml", turns(calls))
  for (const [name, content] of Object.entries(files)) made.put(name, content)
  const ended = yield* made.hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json", ...args], {
    env: { PLANTED_API_KEY: key, ...env }
  })
  const lines = ended.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>) // one object per line
  const outputs = lines.flatMap((line) => (line["type"] === "tool_result" ? [String(line["output"])] : []))
  return { ...made, ...ended, outputs }
})

describe("security", () => {
  it.live("redact_secrets: keys in results are masked, unless the user says otherwise", () =>
    Effect.gen(function* () {
      const files = { "notes.txt": `the key is ${key}\n` }
      const masked = yield* scene(
        "{}",
        [
          ["read_file", { path: "notes.txt" }],
          ["terminal", { command: "cat notes.txt" }]
        ],
        files
      )
      assert.notInclude(masked.stdout + masked.stderr, key)
      assert.include(masked.outputs[0], "sk-a…")
      assert.include(masked.outputs[1], "sk-a…")
      const open = yield* scene("security: { redact_secrets: false }", [["read_file", { path: "notes.txt" }]], files)
      assert.include(open.outputs[0], key)
    })
  )

  it.live("tirith_path: the scanner blocks what nobody is there to allow, and nothing else", () =>
    Effect.gen(function* () {
      const made = yield* machine
      const tirith = made.keep(
        "tirith",
        '#!/bin/sh\nfor last; do :; done\ncase "$last" in *evil*) echo \'{"findings":[{"rule_id":"homograph"}]}\'; exit 1;; esac\n'
      )
      chmodSync(tirith, 0o755)
      made.keep("config.yaml", `security: { tirith_path: ${JSON.stringify(tirith)} }\n`)
      made.put(
        "turns.yaml",
        turns([
          ["terminal", { command: "echo evil > evil.txt" }],
          ["terminal", { command: "echo good > good.txt" }]
        ])
      )
      const { stdout } = yield* made.hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"])
      assert.include(stdout, "homograph")
      assert.sameMembers(readdirSync(made.cwd), ["turns.yaml", "good.txt"])
    })
  )

  it.live("write_safe_root and the fence of files hold for write_file and patch", () =>
    Effect.gen(function* () {
      const { cwd, home, outputs } = yield* scene(
        "security: { write_safe_root: [/nowhere] }",
        [
          ["write_file", { path: "b.txt", content: "x" }],
          ["write_file", { path: "~/.bashrc", content: "x" }],
          ["patch", { path: "HOME/config.yaml", old_string: "a", new_string: "b" }],
          ["read_file", { path: "../.hermes/.env" }]
        ],
        { "a.txt": "a" }
      )
      assert.isTrue(
        outputs.every(
          (output) => output.includes("not written") || output.includes("not read") || output.includes("no such file")
        ),
        outputs.join("\n")
      )
      assert.include(outputs[0], "confined")
      assert.sameMembers(readdirSync(cwd), ["a.txt", "turns.yaml"])
      assert.notInclude(readdirSync(join(home, "..")), ".bashrc")
    })
  )
})

describe("the working tree", () => {
  it.live("writes outside of it ask, by file tools and by commands, and are denied where nobody is there", () =>
    Effect.gen(function* () {
      const elsewhere = "/opt/nobody-made-this-directory"
      const { cwd, outputs } = yield* scene(
        "{}",
        [
          ["write_file", { path: `${elsewhere}/a.txt`, content: "x" }],
          ["patch", { mode: "patch", patch: `*** Begin Patch\n*** Add File: ${elsewhere}/b.txt\n+x\n*** End Patch` }],
          ["terminal", { command: `mkdir -p ${elsewhere} && echo x > ${elsewhere}/c.txt` }],
          ["write_file", { path: ".git/hooks/pre-commit", content: "x" }],
          ["write_file", { path: ".vscode/tasks.json", content: "{}" }],
          ["terminal", { command: "mkdir -p .husky; echo x > .husky/pre-commit" }],
          ["write_file", { path: "in.txt", content: "x" }]
        ],
        {},
        [],
        { HERMES_APPROVALS__UNKNOWN_COMMANDS: "ask" }
      )
      for (const output of outputs.slice(0, 6)) assert.include(output, "BLOCKED: this needs an approval", output)
      for (const output of outputs.slice(0, 2)) assert.include(output, "write outside of the working tree")
      assert.include(outputs[2], "command that is not known to only read")
      assert.sameMembers(readdirSync(cwd), ["turns.yaml", "in.txt"])
    })
  )

  it.live("a link inside of it that leads outside does not hide where a file is", () =>
    Effect.gen(function* () {
      const made = yield* machine
      symlinkSync("/opt", join(made.cwd, "link"))
      made.put("turns.yaml", turns([["write_file", { path: "link/nobody-made-this.txt", content: "x" }]]))
      const { stdout } = yield* made.hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"])
      assert.include(stdout, "write outside of the working tree: /opt/nobody-made-this.txt")
    })
  )

  it.live("the home directory of hermes is not written by the file tools, plugins and consents included", () =>
    Effect.gen(function* () {
      const { home, outputs } = yield* scene("plugins: { enabled: [known] }", [
        ["write_file", { path: "~/.hermes/plugins/known/index.js", content: "evil" }],
        ["write_file", { path: "../.hermes/shell-hooks-allowlist.json", content: "{}" }],
        ["write_file", { path: "~/.hermes/memories/MEMORY.md", content: "evil" }]
      ])
      for (const output of outputs) assert.include(output, "not written")
      assert.notInclude(readdirSync(home), "memories")
    })
  )
})

describe("limits", () => {
  it.live("file_read_max_chars and tool_output: what a tool gives is cut as the settings say", () =>
    Effect.gen(function* () {
      const config = "file_read_max_chars: 200\ntool_output: { max_bytes: 1000, max_lines: 3, max_line_length: 7 }\n"
      const { outputs } = yield* scene(
        config,
        [
          ["read_file", { path: "long.txt" }],
          ["read_file", { path: "wide.txt", limit: 100 }],
          ["terminal", { command: "seq 1 100000" }]
        ],
        { "long.txt": "0123456789\n".repeat(5), "wide.txt": "abcdefg\n".repeat(4) }
      )
      assert.include(outputs[0], "Lines 1 to 3 of 5")
      assert.include(outputs[0], "Cut at 7 characters")
      assert.include(outputs[1], "Lines 1 to 3 of 4")
      assert.isBelow(outputs[2]?.length ?? Infinity, 1_500)
    })
  )

  it.live("a result that is too long is kept in the home directory for its owner alone, and can be read back", () =>
    Effect.gen(function* () {
      const config = "tool_output: { max_bytes: 300000 }\n"
      const { home, outputs } = yield* scene(config, [["terminal", { command: "seq 1 40000" }]])
      assert.include(outputs[0], "<persisted-output>")
      const [name = ""] = readdirSync(join(home, "cache", "results"))
      assert.include(outputs[0], join(home, "cache", "results", name))
      assert.include(readFileSync(join(home, "cache", "results", name), "utf8"), "40000")
    })
  )
})
