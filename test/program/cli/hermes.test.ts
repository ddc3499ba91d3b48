// The real program, as a user runs it: own home directory, real files, a real shell, models over HTTP or none.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import * as Ask from "../../models/provider/Ask.ts"
import { program, run, sessionIdOf, programFromSources } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { sessions } from "../../support/stateDatabase.ts"

const parallelPrompt =
  "Use exactly two read_file tool calls in the same assistant message. Read alpha.txt and beta.txt. " +
  "Do not call terminal. After both tool results are available, reply with exactly: parallel tools complete."
const terminalPrompt =
  "Use the terminal tool exactly once to run printf middleware_execution_ok. " +
  "Then reply with exactly the command output."

/** The commands as the Relay document prints them. */
const parallelArgs = ["--toolsets", "file", "--max-turns", "8", "--quiet", "--accept-hooks"]
const terminalArgs = ["--toolsets", "terminal", "--max-turns", "4", "--quiet", "--accept-hooks"]

const workshop = Effect.tap(machine, ({ put }) =>
  Effect.sync(() => {
    put("alpha.txt", "docs_parallel_alpha_function\n")
    put("beta.txt", "docs_parallel_beta_function\n")
  })
)

/** A port that nobody listens at any more. */
const closedPort = Effect.promise<number>(
  () =>
    new Promise((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const address = server.address()
        server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
      })
    })
)

describe("the prompts of the Relay document", () => {
  it.live("answered by a model behind an address of the user's own", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* workshop
      const server = yield* Ask.mock
      server.on(
        { userMessage: "read_file", hasToolResult: false },
        {
          toolCalls: [
            { id: "call_alpha", name: "read_file", arguments: '{"path":"alpha.txt"}' },
            { id: "call_beta", name: "read_file", arguments: '{"path":"beta.txt"}' }
          ]
        }
      )
      server.on({ userMessage: "read_file", hasToolResult: true }, { content: "parallel tools complete." })
      server.on(
        { userMessage: "terminal tool", hasToolResult: false },
        {
          toolCalls: [
            { id: "call_terminal", name: "terminal", arguments: '{"command":"printf middleware_execution_ok"}' }
          ]
        }
      )
      server.on({ userMessage: "terminal tool", hasToolResult: true }, { content: "middleware_execution_ok" })
      keep(
        "config.yaml",
        `model:\n  provider: custom\n  default: qwen3.6:35b\n  base_url: ${server.url}/v1\n  api_key: ollama\n`
      )
      const model = ["--provider", "custom", "--model", "qwen3.6:35b"]

      const parallel = yield* hermes(["chat", "--query", parallelPrompt, ...model, ...parallelArgs])
      assert.deepInclude(parallel, { code: 0, stdout: "parallel tools complete.\n" })
      assert.strictEqual(parallel.stderr, `session_id: ${sessionIdOf(parallel.stderr)}\n`)

      const terminal = yield* hermes(["chat", "--query", terminalPrompt, ...model, ...terminalArgs])
      assert.deepInclude(terminal, { code: 0, stdout: "middleware_execution_ok\n" })

      const [second, first] = yield* sessions(home)
      assert.isDefined(first)
      assert.isDefined(second)
      assert.deepStrictEqual(
        [first, second].map(({ session }) => [session.source, session.provider, session.model, session.endReason]),
        Array.from({ length: 2 }, () => ["cli", "custom", "qwen3.6:35b", "text_response"])
      )
      const tools = first.messages.filter(({ role }) => role === "tool")
      assert.include(JSON.stringify(tools), "docs_parallel_alpha_function")
      assert.include(JSON.stringify(tools), "docs_parallel_beta_function")
    })
  )

  it.live("answered by the stand-in that was asked for", () =>
    Effect.gen(function* () {
      const { hermes } = yield* workshop
      const parallel = yield* hermes(["chat", "--query", parallelPrompt, ...parallelArgs])
      assert.deepInclude(parallel, { code: 0, stdout: "parallel tools complete.\n" })
      assert.match(parallel.stderr, /^session_id: \S+\n$/)

      const terminal = yield* hermes(["chat", "--query", terminalPrompt, ...terminalArgs])
      assert.deepInclude(terminal, { code: 0, stdout: "middleware_execution_ok\n" })
    })
  )
})

describe("a conversation over several starts", () => {
  it.live("--resume and --continue go on with what was said, in the directory that it was about", () =>
    Effect.gen(function* () {
      const { at, cwd, hermes, home, put } = yield* workshop
      put("turns.yaml", "turns: [{ match: number, text: noted }]")
      put(
        "later/turns.yaml",
        "turns: [{ match: again, tool_calls: [{ name: terminal, arguments: { command: pwd } }] }, { text: done }]"
      )
      const first = yield* hermes(["-Q", "-q", "the number is 7", "--script", "turns.yaml"])
      const id = sessionIdOf(first.stderr)
      const args = ["-q", "again", "-Q", "--script", at("later/turns.yaml")]
      const second = yield* hermes([...args, "--resume", id.slice(0, -2)], { cwd: at("later") })
      assert.deepInclude(second, { code: 0, stdout: "done\n" })
      assert.deepStrictEqual(second.stderr.split("\n"), [
        `Note: session ${id} belongs to another folder; its tools work in ${cwd}`,
        `session_id: ${id}`,
        ""
      ])
      const third = yield* hermes([...args, "-c"])
      assert.strictEqual(sessionIdOf(third.stderr), id)
      const [session, ...others] = yield* sessions(home)
      assert.deepStrictEqual(others, [])
      assert.isDefined(session)
      const roles = session.messages.map(({ role }) => role).join(" ")
      assert.strictEqual(roles, "user assistant user assistant tool assistant user assistant tool assistant")
      assert.include(JSON.stringify(session.messages[4]), `${cwd}\\"`)
    })
  )

  it.live("sessions are listed, shown, named and exported, secrets left out", () =>
    Effect.gen(function* () {
      const { at, hermes, put } = yield* machine
      put("turns.yaml", "turns: [{ text: the key is sk-proj-abcdefghijklmnopqrstuvwx0123456789 }]")
      const id = sessionIdOf(
        (yield* hermes(["-Q", "-q", "what is the key?", "--script", "turns.yaml", "--source", "demo"])).stderr
      )
      assert.deepInclude(yield* hermes(["sessions", "rename", id, "Keys"]), {
        code: 0,
        stdout: `${id} is now called Keys\n`
      })
      const list = yield* hermes(["sessions"])
      assert.match(list.stdout, new RegExp(`^${id} .* demo +offline +2 messages +Keys +this folder\n$`))
      const shown = yield* hermes(["sessions", "show", "Keys"])
      assert.include(shown.stdout, "You: what is the key?")
      assert.include(shown.stdout, "Agent: the key is ")
      const exported = yield* hermes(["sessions", "export", "--format", "jsonl", "-o", "out.jsonl"])
      assert.strictEqual(exported.stdout, "1 session is in out.jsonl\n")
      const [line = "", ...more] = readFileSync(at("out.jsonl"), "utf8").trimEnd().split("\n")
      assert.deepStrictEqual(more, [])
      const record = JSON.parse(line)
      assert.deepInclude(record, { id, source: "demo", title: "Keys", end_reason: "text_response", message_count: 2 })
      assert.strictEqual(record.messages.length, 2)
      assert.notInclude(shown.stdout + line, "abcdefghijklmnop")
    })
  )
})

describe("prompts", () => {
  it.live("one that begins with a dash, and one from stdin, arrive word for word", () =>
    Effect.gen(function* () {
      const { hermes, home, put, start } = yield* machine
      put("turns.yaml", "turns: [{ text: ok }]")
      const piped = "  zwei Zeilen\nüber Grün\n"
      assert.strictEqual((yield* hermes(["-Q", "-q", "- a list", "--script", "turns.yaml"])).code, 0)
      assert.strictEqual(
        (yield* start(["-Q", "--query-file", "-", "--script", "turns.yaml"], { stdin: piped })).code,
        0
      )
      const asked = (yield* sessions(home)).map(({ messages }) => messages[0]?.content[0])
      assert.deepStrictEqual(
        asked.map((part) => (typeof part === "object" && part.type === "text" ? part.text : part)),
        [piped, "- a list"]
      )
    })
  )
})

describe("an image", () => {
  it.live("goes to the model beside the query", () =>
    Effect.gen(function* () {
      const { at, hermes } = yield* machine
      const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
      writeFileSync(at("dot.png"), Buffer.from(pixel, "base64"))
      const server = yield* Ask.mock
      server.onMessage("what", { content: "a dot" })
      const model = ["--provider", "custom", "-m", "m", "--base-url", `${server.url}/v1`]
      assert.deepInclude(yield* hermes(["-Q", "-q", "what is it?", "--image", "dot.png", ...model]), {
        code: 0,
        stdout: "a dot\n"
      })
      assert.include(JSON.stringify(server.getLastRequest()?.body), `data:image/png;base64,${pixel}`)
    })
  )
})

describe("the settings", () => {
  it.live("are changed in the user's editor, and checked afterwards", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "agent: { max_turns: 5 }\n")
      assert.deepInclude(yield* hermes(["config", "edit"], { env: { EDITOR: "sed -i s/5/x/" } }), {
        code: 2,
        stdout: "",
        stderr: 'Error: config.yaml: agent.max_turns: expected a positive integer, got "x"\n'
      })
    })
  )
})

describe("what can go wrong", () => {
  it.live("a run that used up its turns is not a completed one", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* workshop
      put(
        "turns.yaml",
        "turns:\n  - tool_calls: [{ name: read_file, arguments: { path: alpha.txt } }]\n  - text: I read alpha and ran out of turns.\n"
      )
      const { code, stderr, stdout } = yield* hermes([
        "-Q",
        "-q",
        "read all",
        "--max-turns",
        "1",
        "--script",
        "turns.yaml"
      ])
      const id = sessionIdOf(stderr)
      assert.strictEqual(stdout, "I read alpha and ran out of turns.\n")
      assert.strictEqual(
        stderr,
        `session_id: ${id}\nError: stopped after 1 model call without a final answer: raise --max-turns, or continue with ` +
          `\`hermes chat --resume ${id}\`\n`
      )
      assert.strictEqual(code, 1)
    })
  )

  it.live("a run whose time is over ends with a summary, names the limit, and is not a completed one", () =>
    Effect.gen(function* () {
      const { hermes, home, put } = yield* workshop
      put(
        "turns.yaml",
        "turns:\n  - tool_calls: [{ name: terminal, arguments: { command: sleep 60 } }]\n  - text: I was woken.\n"
      )
      const { code, stderr, stdout } = yield* hermes([
        "-Q",
        "-q",
        "sleep",
        "--run-budget",
        "1",
        "--script",
        "turns.yaml"
      ])
      const id = sessionIdOf(stderr)
      assert.strictEqual(stdout, "I was woken.\n")
      assert.strictEqual(
        stderr,
        `session_id: ${id}\nError: stopped, because the time for the run is used up: raise agent.run_budget_seconds ` +
          `(--run-budget), or continue with \`hermes chat --resume ${id}\`\n`
      )
      assert.strictEqual(code, 1)
      const [session] = yield* sessions(home)
      assert.strictEqual(session?.session.endReason, "budget_exhausted")
      assert.deepStrictEqual(
        session?.messages.map(({ role }) => role),
        ["user", "assistant", "tool", "assistant"]
      )
    })
  )

  it.live("tool calls and tokens are limited by settings", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* workshop
      put(
        "turns.yaml",
        "turns:\n  - tool_calls: [{ name: read_file, arguments: { path: alpha.txt } }, { name: read_file, arguments: { path: beta.txt } }]\n" +
          "  - text: I read one.\n"
      )
      yield* hermes(["config", "set", "agent.run_budget_tool_calls", "1"])
      const { code, stderr, stdout } = yield* hermes(["-Q", "-q", "read all", "--script", "turns.yaml"])
      assert.strictEqual(stdout, "I read one.\n")
      assert.include(stderr, "the number of tool calls for the run is used up: raise agent.run_budget_tool_calls")
      assert.strictEqual(code, 1)
      yield* hermes(["config", "set", "agent.run_budget_tool_calls", "8"])
      yield* hermes(["config", "set", "agent.run_budget_tokens", "1"])
      const tokens = yield* hermes(["-Q", "-q", "read all", "--script", "turns.yaml"])
      assert.include(tokens.stderr, "the number of tokens for the run is used up: raise agent.run_budget_tokens")
    })
  )

  it.live("a configuration that can not be used is one line and code 2, also in stream-json", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      assert.deepInclude(yield* hermes(["-Q", "-q", "hi", "--provider", "custom", "--model", "m"]), {
        code: 2,
        stdout: "",
        stderr: 'Error: the provider "custom" needs an address: set model.base_url (or OPENAI_BASE_URL)\n'
      })
      keep("config.yaml", "agent: { max_turns: many }\n")
      const line = 'config.yaml: agent.max_turns: expected a positive integer, got "many"'
      const { code, stderr, stdout } = yield* hermes(["-q", "hi", "--format", "stream-json"])
      assert.deepStrictEqual([code, stderr], [2, `Error: ${line}\n`])
      const [init, result, ...more] = stdout
        .trimEnd()
        .split("\n")
        .map((text) => JSON.parse(text))
      assert.deepStrictEqual(more, [])
      assert.deepInclude(init, { type: "system", subtype: "init" })
      assert.deepInclude(result, { type: "result", exit_code: 2, text: "", error: line, session_id: init.session_id })
      assert.isFalse(existsSync(`${home}/state.db`))
      // The same file does not matter where it is ignored.
      assert.strictEqual((yield* hermes(["-Q", "-q", "Reply exactly: ok", "--ignore_user_config"])).stdout, "ok\n")
    })
  )

  it.live(
    "a model that the provider does not have, and a host that is not there, are one line; the session is kept",
    () =>
      Effect.gen(function* () {
        const { hermes, home } = yield* machine
        const server = yield* Ask.mock
        server.onMessage("hi", {
          error: { message: "model 'nope' not found", type: "not_found_error", code: "model_not_found" },
          status: 404
        })
        const model = ["--provider", "custom", "--model", "nope", "-Q", "-q", "hi"]
        const wrong = yield* hermes([...model, "--base-url", `${server.url}/v1`])
        assert.deepStrictEqual([wrong.code, wrong.stdout], [1, ""])
        assert.match(
          wrong.stderr,
          /^session_id: \S+\nError: [^\n]*has no model "nope"[^\n]*: choose another with --model\n$/
        )
        const gone = yield* hermes([...model, "--base-url", `http://127.0.0.1:${yield* closedPort}/v1`], {
          env: { HERMES_AGENT__API_MAX_RETRIES: "1" }
        })
        assert.deepStrictEqual([gone.code, gone.stdout], [1, ""])
        assert.match(
          gone.stderr,
          /Error: nothing listens at 127\.0\.0\.1:\d+: start the server or correct the base URL\n$/
        )
        assert.deepStrictEqual(
          (yield* sessions(home)).map(({ messages, session }) => [session.endReason, messages.length]),
          [
            ["failed", 1],
            ["failed", 1]
          ]
        )
      })
  )

  it.live("unknown toolsets are warned about; without a known one nothing runs", () =>
    Effect.gen(function* () {
      const { hermes, home, put } = yield* machine
      put("turns.yaml", "turns: [{ text: ok }]")
      const some = yield* hermes(["-Q", "-q", "hi", "-t", "browser,terminal,flie", "--script", "turns.yaml"])
      assert.deepInclude(some, { code: 0, stdout: "ok\n" })
      assert.match(
        some.stderr,
        /^Warning: unknown toolset "flie" is ignored: did you mean "file"\?\nNote: toolset "browser" has no tools in this version\nsession_id: \S+\n$/
      )
      assert.deepInclude(yield* hermes(["-Q", "-q", "hi", "-t", "nope", "--script", "turns.yaml"]), {
        code: 2,
        stdout: ""
      })
      assert.strictEqual((yield* sessions(home)).length, 1)
    })
  )

  it.live("a reader that went away ends nothing", () =>
    Effect.gen(function* () {
      const { cwd, hermes: _, home, put } = yield* machine
      put("turns.yaml", `turns: [{ text: "${"word ".repeat(40_000)}" }]`)
      const command = `"${process.execPath}" "${program}" -q go --script turns.yaml | head -c 4; echo " \${PIPESTATUS[0]}"`
      const { stderr, stdout } = yield* run("bash", ["-c", command], { cwd, home })
      assert.strictEqual(stdout, "word 0\n")
      assert.match(stderr, /^session_id: \S+\n$/)
      const [session] = yield* sessions(home)
      assert.strictEqual(session?.session.endReason, "text_response")
    })
  )

  it.live("what others print, and what they leave unhandled, is on stderr", () =>
    Effect.gen(function* () {
      const { put, start } = yield* machine
      put("turns.yaml", "turns: [{ text: ok, delay_ms: 300 }]")
      put(
        "noise.mjs",
        `const before = process.stdout.write
         const timer = setInterval(() => {
           if (process.stdout.write === before) return
           clearInterval(timer)
           console.log("noise")
           for (const _ of [1, 2]) Promise.reject(new Error("oops"))
         }, 5)`
      )
      const { code, stderr, stdout } = yield* start(["-Q", "-q", "hi", "--script", "turns.yaml"], {
        env: { NODE_OPTIONS: "--import ./noise.mjs" }
      })
      assert.deepStrictEqual([code, stdout], [0, "ok\n"])
      const said = stderr.split("\n").filter((line) => !line.startsWith("session_id: "))
      assert.deepStrictEqual(said, ["noise", "Warning: unhandled promise rejection: oops", ""])
    })
  )
})

describe("shell hooks", () => {
  it.live("run where they were accepted, and are left out with a warning where nobody can be asked", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      put("turns.yaml", "turns: [{ text: ok }]")
      const script = put("told.sh", "#!/bin/sh\ncat > told.json\n")
      keep("config.yaml", `hooks: { on_session_end: [{ command: "sh ${script}" }] }\n`)
      const args = ["-Q", "-q", "hi", "--script", "turns.yaml"]
      const refused = yield* hermes(args)
      assert.deepInclude(refused, { code: 0, stdout: "ok\n" })
      assert.match(refused.stderr, /^Warning: [^\n]*told\.sh[^\n]*\nsession_id: \S+\n$/)
      assert.isFalse(existsSync(at("told.json")))
      const accepted = yield* hermes([...args, "--accept-hooks"])
      assert.match(accepted.stderr, /^session_id: \S+\n$/)
      assert.include(readFileSync(at("told.json"), "utf8"), "text_response")
    })
  )
})

describe("recordings", () => {
  it.live("what was recorded plays again without a model", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* workshop
      put(
        "turns.yaml",
        "turns:\n  - tool_calls: [{ name: read_file, arguments: { path: alpha.txt } }]\n  - text: It says docs_parallel_alpha_function.\n"
      )
      const args = ["-Q", "-q", "read alpha.txt"]
      const recorded = yield* hermes([...args, "--script", "turns.yaml", "--record", "run.jsonl"])
      const played = yield* hermes([...args, "--replay", "run.jsonl"])
      assert.deepInclude(played, { code: 0, stdout: "It says docs_parallel_alpha_function.\n" })
      assert.strictEqual(played.stdout, recorded.stdout)
      const other = yield* hermes(["-Q", "-q", "read beta.txt", "--replay", "run.jsonl"])
      assert.deepStrictEqual([other.code, other.stdout], [1, ""])
      assert.include(other.stderr, "is not the recorded one")
      assert.deepInclude(yield* hermes(["-q", "a", "-Q", "--replay", "none.jsonl"]), {
        code: 2,
        stderr: "Error: none.jsonl: no such file\n"
      })
    })
  )
})

describe("a start", () => {
  /** Tells on exit what was loaded: files by their place, and the parts of Node. */
  const spy = `
    import { registerHooks } from "node:module"
    const files = []
    registerHooks({ load: (url, context, next) => { if (url.startsWith("file:")) files.push(url); return next(url, context) } })
    process.on("exit", () => process.stderr.write(JSON.stringify({ files, node: process.moduleLoadList })))
  `

  const loaded = Effect.fnUntraced(function* (args: ReadonlyArray<string>, program = programFromSources) {
    const { put, start } = yield* machine
    put("spy.mjs", spy)
    put("turns.yaml", "turns: [{ text: answered }]\n")
    const { code, stderr: written } = yield* start(args, {
      env: { NODE_OPTIONS: "--import ./spy.mjs", NODE_DISABLE_COMPILE_CACHE: "1" },
      program
    })
    const stderr = written.slice(written.indexOf('{"files"'))
    assert.strictEqual(code, 0)
    const { files, node } = JSON.parse(stderr)
    return { files: files.map(String), node: node.map(String) } as { files: Array<string>; node: Array<string> }
  })

  const heavy =
    /\/(openai|@anthropic-ai|@aws-sdk|@smithy|undici)\/|src\/(program\/Runtime|agent\/(?!plugin\/)|store|models\/provider|tools)\b/

  it.live("for the version loads the version", () =>
    Effect.gen(function* () {
      const { files, node } = yield* loaded(["--version"])
      assert.deepStrictEqual(
        files.flatMap((file) => /\/src\/(.*)$/.exec(file)?.[1] ?? []),
        ["bin.js", "require-node.js", "main.ts", "base/domain/Version.ts"]
      )
      assert.deepStrictEqual(
        files.filter((file) => file.includes("/node_modules/")),
        []
      )
      assert.deepStrictEqual(
        node.filter((name) => name.includes("sqlite")),
        []
      )
    })
  )

  it.live("for help loads no SDK, no SQLite and nothing of the runtime", () =>
    Effect.gen(function* () {
      const { files, node } = yield* loaded(["--help"])
      assert.deepStrictEqual(
        files.filter((file) => heavy.test(file)),
        []
      )
      assert.deepStrictEqual(
        node.filter((name) => name.includes("sqlite")),
        []
      )
    })
  )

  const isBundled = program !== programFromSources
  /** Names of files without their hashes. */
  const chunks = (files: ReadonlyArray<string>): ReadonlyArray<string> =>
    files
      .filter((file) => !file.endsWith("/spy.mjs"))
      .map((file) => file.replace(/^.*\//, "").replace(/-[\w-]{8}\.js$/, ""))
      .toSorted()

  it.live.runIf(isBundled)(
    "of the bundle for the version loads two files of a line each, for help the one of all commands, or its text",
    () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(chunks((yield* loaded(["--version"], program)).files), ["main.js", "version"])
        assert.deepStrictEqual(chunks((yield* loaded(["--help"], program)).files), ["main.js"])
        assert.deepStrictEqual(chunks((yield* loaded(["help"], program)).files), [
          "main.js",
          "rolldown-runtime",
          "start",
          "version"
        ])
      })
  )

  it.live.runIf(isBundled)("of the bundle prints the same help as its commands do", () =>
    Effect.gen(function* () {
      const { start } = yield* machine
      const [stored, made] = yield* Effect.all([start(["--help"], { program }), start(["help"], { program })])
      assert.deepStrictEqual(stored, made)
    })
  )

  it.live.runIf(isBundled)(
    "of the bundle for a query loads no SDK, no transport and no server where it needs none",
    () =>
      Effect.gen(function* () {
        const { files, node } = yield* loaded(["-Q", "-q", "go", "--script", "turns.yaml"], program)
        assert.deepStrictEqual(
          chunks(files).filter((name) => /^(?:openai|sdk|dist-cjs|undici|StudioServer|acp|NodeRedis)$/.test(name)),
          []
        )
        assert.deepStrictEqual(
          node.filter((name) => /(?:^| )(?:http2?|worker_threads|cluster)$|deps\/undici/.test(name)),
          []
        )
        // What every prompt loads is one file beside those of every command.
        assert.strictEqual(
          chunks(files).join(" "),
          "Completion ReceivedRequest RoutedModelRouter Scenario Service common dist main.js query rolldown-runtime " +
            "start version"
        )
      })
  )
})

describe("what there is", () => {
  it.live("hermes tools shows the tools, and which of them a run gets", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const { code, stdout } = yield* hermes(["tools", "list", "--json", "-t", "file", "--provider", "openrouter"])
      assert.strictEqual(code, 0)
      const sets: ReadonlyArray<{ toolset: string; tools: ReadonlyArray<{ name: string; selected: boolean }> }> =
        JSON.parse(stdout)
      const selected = sets.flatMap(({ tools }) => tools.flatMap(({ name, selected }) => (selected ? [name] : [])))
      assert.sameMembers(selected, ["read_file", "write_file", "patch", "search_files"])
      assert.includeMembers(
        sets.map(({ toolset }) => toolset),
        ["file", "terminal", "todo"]
      )
    })
  )

  it.live("hermes doctor tells every wrong value and whether there is a key, never the key", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const fresh = yield* hermes(["doctor"], { env: { HERMES_MODEL__PROVIDER: "auto" } })
      assert.strictEqual(fresh.code, 0)
      assert.match(fresh.stdout, /^✓ program .*\n✓ home .*\n✓ settings .*\n! model .*\n✓ sandbox .*\n✓ sessions .*\n$/)
      keep(".env", "OPENROUTER_API_KEY=sk-or-v1-0123456789abcdef0123456789abcdef\n")
      const keyed = yield* hermes(["doctor", "--provider", "openrouter", "-m", "qwen/qwen3"])
      assert.include(
        keyed.stdout,
        "✓ model     qwen/qwen3 of openrouter by chat_completions at https://openrouter.ai/api/v1, a key is set"
      )
      assert.notInclude(keyed.stdout + keyed.stderr, "0123456789abcdef")
      keep("config.yaml", "agent: { max_turns: many }\ncompression: { threshold: 7 }\n")
      const wrong = yield* hermes(["doctor"])
      assert.deepInclude(wrong, { code: 1, stderr: "Error: 2 problems were found\n" })
      assert.include(wrong.stdout, "✗ settings  config.yaml: agent.max_turns: ")
      assert.include(wrong.stdout, "✗ settings  config.yaml: compression.threshold: ")
    })
  )
})
