// What a user types or pipes becomes the prompt, and a title finds its session, in runs of the real program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { program, run, sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import * as Ask from "../../models/provider/Ask.ts"

/** A model that answers everything, and the last user text that it was sent. */
const modelled = Effect.gen(function* () {
  const made = yield* machine
  const server = yield* Ask.mock
  server.on({ endpoint: "chat" }, { content: "answered" })
  made.keep("config.yaml", `model: { provider: custom, default: any, base_url: "${server.url}/v1", api_key: k }\n`)
  const asked = (): string => {
    const requests: unknown = server.getRequests().at(-1)?.body
    // The body of the mock's journal is the JSON that was sent.
    const { messages } = requests as {
      readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
    }
    const content = messages.findLast(({ role }) => role === "user")?.content
    return typeof content === "string" ? content : JSON.stringify(content)
  }
  return { ...made, asked }
})

describe("piped input", () => {
  it.live("beside a query it is attached to it", () =>
    Effect.gen(function* () {
      const { asked, start } = yield* modelled
      const ended = yield* start(["-Q", "-q", "What is wrong here?"], { stdin: "line 1\nline 2\n" })
      assert.deepInclude(ended, { code: 0, stdout: "answered\n" })
      assert.strictEqual(asked(), "What is wrong here?\n\n<stdin>\nline 1\nline 2\n</stdin>")
    })
  )

  it.live("beside -z too, whose stdout is the text alone, whose stderr is empty, and which asks nobody", () =>
    Effect.gen(function* () {
      const { asked, keep, put, start: hermes } = yield* modelled
      assert.deepInclude(yield* hermes(["-z", "What is wrong here?", "--max-turns", "3"], { stdin: "line 1\n" }), {
        code: 0,
        stdout: "answered\n",
        stderr: ""
      })
      assert.strictEqual(asked(), "What is wrong here?\n\n<stdin>\nline 1\n</stdin>")
      put("build/a.txt", "x")
      put(
        "turns.yaml",
        JSON.stringify({
          turns: [
            { tool_calls: [{ name: "terminal", arguments: { command: "rm -rf build && echo gone" } }] },
            { text: "done" }
          ]
        })
      )
      assert.deepInclude(yield* hermes(["-z", "go", "--script", "turns.yaml"]), {
        code: 0,
        stdout: "done\n",
        stderr: ""
      })
      // A run that fails is 2, with one line that says why.
      keep(
        "config.yaml",
        'model: { provider: custom, default: any, base_url: "http://127.0.0.1:9/v1", api_key: k }\nagent: { api_max_retries: 1 }\n'
      )
      const failed = yield* hermes(["-z", "go"])
      assert.deepInclude(failed, { code: 2, stdout: "" })
      assert.match(failed.stderr, /^Error: [^\n]*\n$/)
      assert.deepInclude(yield* hermes(["-z", "go", "--provider", "openai"]), {
        code: 2,
        stdout: "",
        stderr: "Error: -z with --provider also needs --model\n"
      })
    })
  )

  it.live("without a query it is the query", () =>
    Effect.gen(function* () {
      const { asked, start } = yield* modelled
      assert.deepInclude(yield* start(["-Q"], { stdin: "Say answered\n" }), { code: 0, stdout: "answered\n" })
      // Texts of users are trimmed on the wire.
      assert.strictEqual(asked(), "Say answered")
    })
  )

  it.live("through a pipe of the shell and from a file too; nothing, and /dev/null, change nothing", () =>
    Effect.gen(function* () {
      const { asked, cwd, home, put } = yield* modelled
      put("in.txt", "from a file")
      const sh = (line: string) =>
        run("sh", ["-c", line.replace("HERMES", `"${process.execPath}" "${program}"`)], { cwd, home })
      assert.deepInclude(yield* sh("(sleep 0.1; printf piped) | HERMES -Q -q ask"), { code: 0 })
      assert.strictEqual(asked(), "ask\n\n<stdin>\npiped\n</stdin>")
      assert.deepInclude(yield* sh("HERMES -Q -q ask < in.txt"), { code: 0 })
      assert.strictEqual(asked(), "ask\n\n<stdin>\nfrom a file\n</stdin>")
      for (const line of ["printf '' | HERMES -Q -q ask", "HERMES -Q -q ask < /dev/null", "HERMES -Q -q ask <&-"]) {
        assert.deepInclude(yield* sh(line), { code: 0 }, line)
        assert.strictEqual(asked(), "ask", line)
      }
    })
  )

  it.live("that is larger than a prompt may be is refused in one line", () =>
    Effect.gen(function* () {
      const { start } = yield* modelled
      const { code, stderr, stdout } = yield* start(["-Q", "-q", "sum"], { stdin: "x".repeat(1_100_000) })
      assert.deepStrictEqual([code, stdout], [2, ""])
      assert.strictEqual(
        stderr,
        "Error: stdin is larger than 1 MiB. Save it in a file and name the file in the prompt.\n"
      )
    })
  )

  it.live("a parent that never closes stdin does not keep the run waiting", () =>
    Effect.gen(function* () {
      const { asked, cwd, home } = yield* modelled
      const ended = yield* Effect.callback<{ readonly code: number | null; readonly stderr: string }>((resume) => {
        const child = spawn(process.execPath, [program, "-Q", "-q", "ask"], {
          cwd,
          env: { PATH: process.env["PATH"], HOME: cwd, HERMES_HOME: home },
          stdio: ["pipe", "ignore", "pipe"]
        })
        let stderr = ""
        child.stderr.setEncoding("utf8").on("data", (text: string) => void (stderr += text))
        child.once("close", (code) => resume(Effect.succeed({ code, stderr })))
        return Effect.sync(() => child.kill("SIGKILL"))
      })
      assert.strictEqual(ended.code, 0)
      assert.include(ended.stderr, "Nothing arrived on stdin for 3 s; continuing without it.")
      assert.strictEqual(asked(), "ask")
    })
  )
})

describe("a prompt as a word of the command line", () => {
  it.live("several words in quotes are the prompt, wherever they stand", () =>
    Effect.gen(function* () {
      const { asked, hermes } = yield* modelled
      for (const args of [
        ["fix the bug", "-Q"],
        ["-Q", "-m", "a b", "fix the bug"],
        ["chat", "fix the bug", "-Q"],
        ["-Q", "--yolo", "fix the bug"]
      ]) {
        assert.deepInclude(yield* hermes(args), { code: 0, stdout: "answered\n" }, args.join("|"))
        assert.strictEqual(asked(), "fix the bug")
      }
    })
  )

  it.live("one word is a command that does not exist", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const { code, stderr } = yield* hermes(["hello"])
      assert.deepStrictEqual(
        [code, stderr],
        [2, "Error: Unknown command \"hello\". To send it as a prompt: hermes -q 'hello'\n"]
      )
    })
  )
})

describe("a title", () => {
  it.live("is found as it was given, whatever its white space", () =>
    Effect.gen(function* () {
      const { hermes } = yield* modelled
      const id = sessionIdOf((yield* hermes(["-Q", "-q", "one"])).stderr)
      assert.deepInclude(yield* hermes(["sessions", "rename", id, "My  title"]), {
        code: 0,
        stdout: `${id} is now called My title\n`
      })
      for (const title of ["My  title", " My title", "My\ttitle"]) {
        assert.strictEqual(sessionIdOf((yield* hermes(["--resume", title, "-Q", "-q", "two"])).stderr), id)
      }
    })
  )
})
