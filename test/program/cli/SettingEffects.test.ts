// Settings whose effect is small: each changes what the real program does.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import * as playedModel from "../../support/playedModel.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { sessions } from "../../support/stateDatabase.ts"

describe("a setting", () => {
  it.live("agent.environment_hint is part of a new session's system prompt", () =>
    Effect.gen(function* () {
      const { hermes, home, keep, put } = yield* machine
      put("hi.yaml", "turns: [{ text: hi }]")
      keep("config.yaml", "agent: { environment_hint: This is the build machine of the lab. }\n")
      assert.deepInclude(yield* hermes(["-Q", "-q", "hi", "--script", "hi.yaml"]), { code: 0, stdout: "hi\n" })
      const [first] = yield* sessions(home)
      assert.include(first?.session.systemPrompt ?? "", "\n\nThis is the build machine of the lab.\n\n")
    })
  )

  it.live("output_schema of an agent file binds the answer, and its JSON is the text of the run", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      const { seen, url } = yield* playedModel.make({
        "does not fit the JSON Schema": [{ text: '{ "color": "blue" }' }],
        color: [{ text: '{ "colour": "red" }' }]
      })
      keep(
        "config.yaml",
        `model: { provider: custom, default: m, base_url: "${url}/v1", api_key: key-of-this-test-only, context_length: 100000 }\n`
      )
      yield* hermes(["trust", "add", "."])
      const agent = "type: agent\nname: painter\n"
      put(
        "painter.yaml",
        `${agent}output_schema: { type: object, properties: { color: { type: string } }, required: [color] }\n`
      )
      const ended = yield* hermes(["-z", "which color?", "--agent", "painter.yaml"])
      assert.deepStrictEqual([ended.code, ended.stdout], [0, '{ "color": "blue" }\n'], ended.stderr)
      assert.deepInclude(seen[0]?.response_format, { type: "json_schema" })
      put("odd.yaml", `${agent}output_schema: { if: { type: string }, then: { minLength: 1 } }\n`)
      const refused = yield* hermes(["-z", "which color?", "--agent", "odd.yaml"])
      assert.strictEqual(refused.code, 2)
      assert.match(refused.stderr, /odd\.yaml: line 3: output_schema: is not a valid JSON Schema/)
    })
  )

  it.live("agent.stop_tools, and stop_tools of an agent file, end a run with the result of the tool, exit code 0", () =>
    Effect.gen(function* () {
      const { hermes, home, keep, put } = yield* machine
      put(
        "run.yaml",
        "turns:\n  - { text: a, tool_calls: [{ name: todo, arguments: { todos: [{ id: '1', content: x, status: pending }] } }] }\n  - { text: never }\n"
      )
      keep("config.yaml", "agent: { stop_tools: [todo, tood] }\n")
      const ended = yield* hermes(["-q", "go", "--script", "run.yaml", "--format", "stream-json"])
      const last = JSON.parse(ended.stdout.trim().split("\n").at(-1) ?? "")
      assert.deepInclude(last, { type: "result", exit_code: 0 }, ended.stderr)
      assert.match(JSON.stringify(last), /\\"content\\": \\"x\\"/)
      assert.notInclude(ended.stdout, "never")
      assert.strictEqual(ended.stderr.match(/stop_tools: there is no tool "tood" \(did you mean todo\?\)/g)?.length, 1)
      keep("config.yaml", "{}\n")
      keep("stop.yaml", "type: agent\nname: a\nstop_tools: [todo]\n")
      const filed = yield* hermes(["chat", "-Q", "-q", "go", "--script", "run.yaml", "--agent", `${home}/stop.yaml`])
      assert.strictEqual(filed.code, 0, filed.stderr)
      assert.include(filed.stdout, '"content": "x"')
      assert.notInclude(filed.stdout, "never")
    })
  )

  it.live("plugins.hook_callback_timeout is how long a hook that may answer is waited for; 0 is no deadline", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      put(
        "run.yaml",
        "turns:\n  - { text: a, tool_calls: [{ name: terminal, arguments: { command: echo ran } }] }\n  - { text: done }\n"
      )
      keep("plugins/slow/plugin.yaml", "name: slow\n")
      keep(
        "plugins/slow/index.js",
        `export const register = (ctx) => ctx.registerHook("pre_tool_call", () =>
          new Promise((resolve) => setTimeout(() => { console.error("answered"); resolve({ action: "block", message: "not today" }) }, 1500)))\n`
      )
      const run = (timeout: string) => {
        keep("config.yaml", `plugins: { enabled: [slow], hook_callback_timeout: ${timeout} }\n`)
        return hermes(["-q", "go", "--script", "run.yaml", "--format", "stream-json"])
      }
      const short = yield* run("0.2")
      assert.match(short.stderr + short.stdout, /pre_tool_call: .*slow.* took longer than 200ms/)
      const none = yield* run("0")
      assert.notMatch(none.stderr + none.stdout, /took longer/)
      assert.include(none.stdout, "not today")
    })
  )

  it.live(
    "prefill_messages_file stands between the system prompt and the conversation of each call, and is not stored",
    () =>
      Effect.gen(function* () {
        const server = yield* HttpServer.make(({ url }, response) =>
          url.endsWith("/chat/completions")
            ? HttpServer.json(response, 200, {
                choices: [{ message: { role: "assistant", content: "Fine." }, finish_reason: "stop" }]
              })
            : HttpServer.json(response, 404, {})
        )
        const { hermes, home, keep } = yield* machine
        const examples = [
          { role: "user", content: "2 + 2" },
          { role: "assistant", content: "four" }
        ]
        keep("examples.json", JSON.stringify(examples))
        keep(
          "config.yaml",
          `prefill_messages_file: examples.json
model: { provider: custom, default: m, base_url: "${server.url}/v1", api_key: k, context_length: 100000, streaming: false }
`
        )
        assert.deepInclude(yield* hermes(["-Q", "-q", "3 + 3"]), { code: 0, stdout: "Fine.\n" })
        const [asked] = server.requests.filter(({ url }) => url.endsWith("/chat/completions"))
        const messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }> = JSON.parse(
          asked?.body ?? "{}"
        ).messages
        assert.deepStrictEqual(
          messages.map(({ content, role }) => (role === "system" ? role : [role, content])),
          ["system", ["user", "2 + 2"], ["assistant", "four"], ["user", "3 + 3"]]
        )
        const [stored] = yield* sessions(home)
        assert.notInclude(JSON.stringify(stored), "2 + 2")
      })
  )

  it.live("prefill_messages_file that cannot be used is one line with the remedy, and nothing is asked", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      keep("config.yaml", "prefill_messages_file: examples.json\n")
      const ask = hermes(["-Q", "-q", "Reply with exactly: hi"])
      const refused = (why: string) => ({
        code: 2,
        stdout: "",
        stderr: `Error: prefill_messages_file: ${home}/examples.json: ${why}\n`
      })
      assert.deepInclude(yield* ask, refused("cannot be read: no such file or directory"))
      keep("examples.json", '[{ "role": "system", "content": "x" }]')
      assert.deepInclude(
        yield* ask,
        refused('expected a JSON list of { "role": "user" or "assistant", "content": "…" }')
      )
    })
  )
})
