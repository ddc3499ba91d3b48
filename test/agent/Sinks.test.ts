// A key that is planted wherever one can be comes out of no sink: hooks, traces, approval prompts, machine output, the
// terminal.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as ErrorLine from "../../src/program/cli/ErrorLine.ts"
import * as LogLine from "../../src/program/cli/LogLine.ts"
import { ConfigError } from "../../src/base/domain/AgentError.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { machine } from "../support/hermes.ts"
import * as Fake from "../support/fakeModel.ts"

const key = `sk-${"a1B2".repeat(10)}`
const password = "s3cretS3cret99"
const address = `postgres://app:${password}@db.example/x`

const Act = Tool.make("act", {
  parameters: Schema.Struct({ command: Schema.String, api_key: Schema.String }),
  success: Schema.Struct({ out: Schema.String, token: Schema.String })
}).annotate(Annotations.CommandArguments, ["command"])
const Fails = Tool.make("fails", { success: Schema.String })
const toolkit = Toolkit.make(Act, Fails)
const toolset = Toolset.make(
  "test",
  toolkit,
  toolkit.toLayer({
    act: () => Effect.succeed({ out: `export KEY=${key}\n${address}`, token: `${password}-and-more-of-it` }),
    fails: () => Effect.die(new Error(`no answer from ${address} with ${key}`))
  })
)

const names = [
  "on_session_start",
  "pre_llm_call",
  "pre_api_request",
  "post_api_request",
  "pre_tool_call",
  "post_tool_call",
  "transform_tool_result",
  "pre_approval_request",
  "post_approval_response",
  "transform_llm_output",
  "post_llm_call",
  "on_session_end"
] as const

const planted = (text: string): ReadonlyArray<string> => [key, password].filter((secret) => text.includes(secret))

describe("sinks", () => {
  it.effect("hooks and approval prompts", () => {
    const told = new Map<string, string>()
    const questions: Array<unknown> = []
    const fake = Fake.make(
      Fake.calls(
        Fake.call("1", "act", {
          command: `curl -H "Authorization: Bearer ${key}" ${address} && rm -rf build`,
          api_key: key
        }),
        Fake.call("2", "fails", {})
      ),
      Fake.text(`The key is ${key}.`)
    )
    const layer = Runtime.layer({
      provider: Layer.succeed(Provider, fake.provider),
      tools: [toolset],
      cwd: "/tmp",
      hooks: names.map((name) =>
        Hooks.fromPlain(name, (payload) => void told.set(name, (told.get(name) ?? "") + JSON.stringify(payload)))
      ),
      approvals: Approvals.layerCallback((question) => Effect.sync(() => (questions.push(question), "once")))
    })
    return Effect.gen(function* () {
      const events: Array<RunEvent> = []
      yield* Agent.run({
        prompt: `use ${key} at ${address}`,
        streaming: true,
        onEvent: (more) => Effect.sync(() => void events.push(...more))
      })
      assert.sameMembers(Array.from(told.keys()), [...names])
      for (const [name, text] of told) assert.deepStrictEqual(planted(text), [], name)
      assert.lengthOf(questions, 1)
      assert.deepStrictEqual(planted(JSON.stringify(questions)), [])
      const shown = events.filter(
        ({ _tag }) =>
          _tag === "TextDelta" || _tag === "ToolFinished" || _tag === "ToolProgress" || _tag === "RunFinished"
      )
      assert.deepStrictEqual(planted(JSON.stringify(shown)), [])
    }).pipe(Effect.provide(layer))
  })

  it("lines of the log and of errors", () => {
    assert.deepStrictEqual(planted(LogLine.render("Warn", [`failed at ${address}`, new Error(key)])), [])
    for (const error of [
      new ConfigError({ path: "x", message: `bad ${address} ${key}` }),
      new Error(`${address} ${key}`),
      `${key} ${address}`
    ]) {
      assert.deepStrictEqual(planted(ErrorLine.fromError(error).line), [])
    }
  })

  it.live("the program's output, its traces, and what it shows of sessions", () =>
    Effect.gen(function* () {
      const made = yield* machine
      made.keep("config.yaml", "plugins: { enabled: [observability/nemo_relay] }\n")
      made.put("notes.txt", `api_key: ${key}\n${address}\n`)
      made.put(
        "turns.yaml",
        JSON.stringify({
          turns: [
            {
              tool_calls: [
                { name: "terminal", arguments: { command: `echo ${key} ${address}; cat notes.txt` } },
                { name: "read_file", arguments: { path: "notes.txt" } }
              ]
            },
            { text: `It says ${key}.` }
          ]
        })
      )
      const env = {
        HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
        HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: made.at("traces"),
        HERMES_NEMO_RELAY_ATIF_ENABLED: "1",
        HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: made.at("traces")
      }
      const run = ["-q", "read notes", "--script", "turns.yaml"]
      for (const args of [
        [...run, "--format", "stream-json"],
        [...run, "-Q"]
      ]) {
        const { stderr, stdout } = yield* made.hermes(args, { env })
        assert.include(stdout, "sk-a…", stderr)
        assert.deepStrictEqual(planted(stdout + stderr), [], args.join(" "))
      }
      const list = yield* made.hermes(["sessions", "export"])
      assert.include(list.stdout, "read_file")
      assert.deepStrictEqual(planted(list.stdout + list.stderr), [])
      const traces = readdirSync(made.at("traces"))
      assert.isAtLeast(traces.length, 2)
      for (const name of traces)
        assert.deepStrictEqual(planted(readFileSync(join(made.at("traces"), name), "utf8")), [], name)
    })
  )
})
