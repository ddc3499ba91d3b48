// The cases of the program's specification about the command line, with the real program; a child process where that is
// the subject.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Ask from "../models/provider/Ask.ts"
import { sessionIdOf } from "../support/hermes.ts"
import { machine } from "../support/hermesInProcess.ts"
import { sessions } from "../support/stateDatabase.ts"

const json = (line: string): Record<string, unknown> => JSON.parse(line)

const lines = (text: string): ReadonlyArray<Record<string, unknown>> => text.trimEnd().split("\n").map(json)

/** What is on stderr beside the session's id and the note about the stand-in. */
const complaints = (stderr: string): ReadonlyArray<string> =>
  stderr.split("\n").filter((line) => line !== "" && !line.startsWith("session_id: ") && !line.startsWith("Note: "))

const greeting = `turns: [{ text: hi }]`

describe("hermes-product.md, the command line", () => {
  it.live("1 Quiet with one query: stdout is the text and a line break, stderr has one session_id line", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* machine
      put("hi.yaml", greeting)
      const { code, stderr, stdout } = yield* hermes(["chat", "-q", "say hi", "--quiet", "--script", "hi.yaml"])
      assert.strictEqual(stdout, "hi\n")
      assert.match(stderr, /^session_id: \d{8}_\d{6}_[0-9a-f]{6}\n$/)
      assert.strictEqual(code, 0)
    })
  )

  it.live("2 Tool progress, streaming, reasoning and diffs of the configuration change nothing on stdout", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      keep(
        "config.yaml",
        "display: { tool_progress: verbose, streaming: true, show_reasoning: true, inline_diffs: true, show_cost: true }\n"
      )
      put("a.txt", "alpha\n")
      put(
        "turns.yaml",
        "turns:\n  - { text: Let me look., reasoning: hm, tool_calls: [{ name: read_file, arguments: { path: a.txt } }] }\n  - { text: hi }\n"
      )
      const { stderr, stdout } = yield* hermes(["-Q", "-q", "say hi", "--script", "turns.yaml"])
      assert.strictEqual(stdout, "hi\n")
      assert.deepStrictEqual(complaints(stderr), [
        "Warning: config.yaml: display.inline_diffs: not supported yet, has no effect; remove it"
      ])
    })
  )

  it.live("4 An interrupted run: exit code 130, the session has an end reason, no call stays open", () =>
    Effect.gen(function* () {
      const { at, cwd, home, start } = yield* machine
      const { code, stderr, stdout } = yield* start(
        [
          "chat",
          "-q",
          "Run the command: echo started > started; sleep 30",
          "--toolsets",
          "terminal",
          "--format",
          "stream-json"
        ],
        {
          onOutput: (stdout, child) => {
            if (!stdout.includes("tool_use")) return
            const wait = setInterval(() => {
              if (!existsSync(at("started"))) return
              clearInterval(wait)
              child.kill("SIGINT")
            }, 20)
          }
        }
      )
      assert.strictEqual(code, 130)
      const id = sessionIdOf(stderr)
      assert.deepStrictEqual(complaints(stderr), [`Error: interrupted: continue with \`hermes chat --resume ${id}\``])
      const found = lines(stdout)
      // A line of our own is the file that the command wrote, where a second is enough to find it.
      const types = found.map(({ type }) => type).filter((type) => type !== "file_change")
      assert.deepStrictEqual(types, ["system", "tool_use", "tool_result", "result"])
      assert.deepInclude(found.at(-1), { session_id: id, exit_code: 130 })
      const [session] = yield* sessions(home)
      assert.isDefined(session)
      const { endReason, id: stored, source } = session.session
      assert.deepStrictEqual(
        { endReason, stored, source, cwd: session.session.cwd },
        { endReason: "interrupted", stored: id, source: "cli", cwd }
      )
      assert.deepStrictEqual(
        session.messages.map(({ role }) => role),
        ["user", "assistant", "tool"]
      )
    })
  )

  it.live("5 No credentials: stdout is empty, stderr has one Error line, exit code 1", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      assert.deepInclude(yield* hermes(["-Q", "-q", "hi", "--provider", "openrouter", "--model", "x/y"]), {
        code: 1,
        stdout: "",
        stderr: "Error: no API key for OpenRouter: set OPENROUTER_API_KEY (or model.api_key)\n"
      })
    })
  )

  it.live("7 -m before the subcommand and none after it is used", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const server = yield* Ask.mock
      server.onMessage("hi", { content: "hello" })
      const { code, stdout } = yield* hermes([
        "-m",
        "model-before",
        "chat",
        "--provider",
        "custom",
        "--base-url",
        `${server.url}/v1`,
        "-q",
        "hi",
        "--format",
        "stream-json"
      ])
      assert.strictEqual(code, 0)
      assert.deepInclude(lines(stdout)[0], { type: "system", model: "model-before" })
      assert.strictEqual(server.getLastRequest()?.body?.model, "model-before")
    })
  )

  it.live("8 A query and a query file: usage error", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      assert.deepInclude(yield* hermes(["chat", "-q", "a", "--query-file", "b"]), {
        code: 2,
        stdout: "",
        stderr: "Error: --query and --query-file cannot be combined\n"
      })
      assert.isFalse(existsSync(home))
    })
  )

  it.live("16 stream-json: the text deltas together are the text of the result", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* machine
      put("a.txt", "alpha\n")
      put(
        "turns.json",
        JSON.stringify({
          turns: [
            { text: "Let me look. ", tool_calls: [{ id: "c1", name: "read_file", arguments: { path: "a.txt" } }] },
            { text: " It says:\n\n  α  \n", chunks: [" It", " says:\n", "\n  α", "  \n"] }
          ]
        })
      )
      const { code, stderr, stdout } = yield* hermes([
        "-q",
        "look",
        "--format",
        "stream-json",
        "--script",
        "turns.json"
      ])
      assert.strictEqual(code, 0)
      const found = lines(stdout)
      assert.deepStrictEqual(found[0]?.["subtype"], "init")
      assert.strictEqual(found[0]?.["session_id"], sessionIdOf(stderr))
      const text = found.flatMap(({ text, type }) => (type === "text" ? [text] : [])).join("")
      assert.strictEqual(text, "Let me look. \n\n It says:\n\n  α  \n")
      assert.strictEqual(found.at(-1)?.["text"], text)
      const result = found.find(({ type }) => type === "tool_result")
      assert.deepInclude(result, { name: "read_file", tool_call_id: "c1", is_error: false })
      assert.include(String(result?.["output"]), "alpha")
    })
  )

  it.live("17 stream-json without a query: exit code 2", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      assert.deepInclude(yield* hermes(["chat", "--format", "stream-json"]), { code: 2, stdout: "" })
    })
  )

  it.live("19 An id prefix that two sessions share: neither is opened, none is made, the candidates are named", () =>
    Effect.gen(function* () {
      const { hermes, home, put } = yield* machine
      put("hi.yaml", greeting)
      const ids: Array<string> = []
      for (const query of ["one", "two"]) {
        ids.push(sessionIdOf((yield* hermes(["-Q", "-q", query, "--script", "hi.yaml"])).stderr))
      }
      const before = yield* sessions(home)
      const { code, stderr, stdout } = yield* hermes(["-Q", "-q", "three", "--resume", "20", "--script", "hi.yaml"])
      assert.strictEqual(code, 2)
      assert.strictEqual(stdout, "")
      assert.match(stderr, /^Error: "20" is not unique: /)
      for (const id of ids) assert.include(stderr, id)
      assert.deepStrictEqual(yield* sessions(home), before)
    })
  )

  it.live("22 config set of a key that ends in _API_KEY: the value is in .env and not in the YAML", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      assert.deepInclude(yield* hermes(["config", "set", "OPENROUTER_API_KEY", "sk-or-v1-0123456789abcdef"]), {
        code: 0,
        stdout: "set OPENROUTER_API_KEY in .env\n",
        stderr: ""
      })
      assert.strictEqual(readFileSync(join(home, ".env"), "utf8"), "OPENROUTER_API_KEY=sk-or-v1-0123456789abcdef\n")
      assert.isFalse(existsSync(join(home, "config.yaml")))
    })
  )

  it.live("23 config set of a literal key with a dot: no nested mapping appears", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const yaml = `# mine\nproviders:\n  ollama:\n    models:\n      "qwen3.6:35b":\n        timeout_seconds: 5 # slow\n`
      const file = keep("config.yaml", yaml)
      const { code, stderr } = yield* hermes([
        "config",
        "set",
        "providers.ollama.models.qwen3.6:35b.timeout_seconds",
        "7"
      ])
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.strictEqual(readFileSync(file, "utf8"), yaml.replace("5 #", "7 #"))
    })
  )
})
