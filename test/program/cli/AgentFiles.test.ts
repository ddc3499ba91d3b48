// `hermes chat --agent` and `hermes agents` in this process, over the real runtime of the program and models on the
// loopback.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { execute } from "../../../src/program/cli/CommandRunner.ts"
import { Program } from "../../../src/program/cli/Program.ts"
import { Output } from "../../../src/program/cli/ProgramOutput.ts"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine, program, withoutSandbox } from "../../support/hermes.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"
import { capture } from "./capture.ts"

interface Body {
  readonly model: string
  readonly temperature?: number
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  readonly tools?: ReadonlyArray<{ readonly function: { readonly name: string } }>
}

/** A model that gives each answer in its turn, then the last one again. */
const model = (...answers: ReadonlyArray<object>) => {
  const bodies: Array<{ readonly body: Body; readonly key: string | undefined }> = []
  return Effect.map(
    HttpServer.make((request, response) => {
      if (!request.url.endsWith("/chat/completions"))
        return void HttpServer.json(response, 404, { error: { message: "not here" } })
      const message = answers[Math.min(bodies.length, answers.length - 1)]
      // The program wrote it.
      bodies.push({ body: JSON.parse(request.body) as Body, key: request.headers.authorization })
      HttpServer.json(response, 200, {
        id: "x",
        model: "m",
        choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop" }],
        usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
      })
    }),
    ({ url }) => ({ url: `${url}/v1`, bodies })
  )
}

const calls = (name: string, args: object) => ({
  content: null,
  tool_calls: [{ id: "c-1", type: "function", function: { name, arguments: JSON.stringify(args) } }]
})

const desk = Effect.map(machine, (one) => ({
  ...one,
  hermes: (...argv: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const { output, stderr, stdout } = capture()
      const code = yield* execute(argv).pipe(
        Effect.provide(
          Layer.mergeAll(
            NodeServices.layer,
            Layer.succeed(Output, output),
            Layer.succeed(Program, { layer: Runtime.program }),
            Layer.succeed(ProcessVariables, {
              PATH: process.env["PATH"],
              HOME: join(one.home, ".."),
              HERMES_HOME: one.home,
              ...withoutSandbox
            })
          )
        )
      )
      return { code, stdout: stdout(), stderr: stderr() }
    })
}))

const systemOf = (body: Body | undefined): string => String(body?.messages[0]?.content)

describe("hermes chat --agent", () => {
  it.live(
    "nothing of a folder counts before it is trusted; then model, key, prompt, tools, middleware and sub-agents are the file's",
    () =>
      Effect.gen(function* () {
        const { at, cwd, hermes, home, keep, put } = yield* desk
        const own = yield* model({ content: "not asked" })
        const lead = yield* model(calls("Agent", { name: "reviewer", message: "look at it" }), { content: "all good" })
        const small = yield* model({ content: "reviewed" })
        keep(
          "config.yaml",
          `model:\n  provider: custom\n  default: own\n  base_url: ${own.url}\n  api_key: sk-of-the-user-0123456789\n  context_length: 128000\n`
        )
        const agent = put(
          "agent.yaml",
          `type: agent
name: lead
llm_config:
  model: lead-model
  base_url: ${lead.url}
  api_key: sk-of-the-agent-0123456789
  temperature: 0.25
system_prompt: You lead a crew.
tools: [todo, read_file]
sub_agents:
- { name: reviewer, config_path: agents/reviewer.yaml }
middlewares:
- import: ./audit.mjs#Audit
  params: { log: "\${this_file_dir}/audit.log" }
max_iterations: 4
`
        )
        put(
          "agents/reviewer.yaml",
          `type: agent
name: reviewer
description: reads what others wrote
llm_config: { model: small-model, base_url: "${small.url}", api_key: sk-of-the-sub-agent-0123456789 }
system_prompt: You review.
tools: [search_files]
middlewares:
- { import: ../audit.mjs#Audit, params: { log: "\${this_file_dir}/audit.log" } }
`
        )
        put(
          "audit.mjs",
          `import { appendFileSync } from "node:fs"
export class Audit {
  constructor({ log }) { this.log = log }
  before_model({ messages }) { appendFileSync(this.log, String(messages[0].content).split("\\n")[0] + "\\n") }
}
`
        )
        const run = () => hermes("chat", "-q", "is it good?", "-Q", "--agent", agent)
        assert.deepInclude(yield* run(), {
          code: 2,
          stdout: "",
          stderr: `Error: ${agent} is not used: its folder is not trusted. Look at it, then run \`hermes trust add ${cwd}\`\n`
        })
        assert.isFalse(existsSync(at("audit.log")))
        assert.strictEqual((yield* hermes("trust", "add", cwd)).code, 0)

        const checked = yield* hermes("agents", "check", agent)
        assert.strictEqual(checked.stderr, "")
        assert.strictEqual(
          checked.stdout,
          [
            `lead: ${agent}: ok, 1 middleware, tools todo, read_file`,
            `reviewer: ${at("agents/reviewer.yaml")}: ok, 1 middleware, tools search_files\n`
          ].join("\n")
        )

        const ran = yield* run()
        assert.deepStrictEqual([ran.code, ran.stdout], [0, "all good\n"], ran.stderr)
        assert.strictEqual(own.bodies.length, 0)
        const [first] = lead.bodies
        assert.strictEqual(lead.bodies.length, 2)
        assert.deepInclude(first?.body, { model: "lead-model", temperature: 0.25 })
        assert.strictEqual(first?.key, "Bearer sk-of-the-agent-0123456789")
        assert.isTrue(systemOf(first?.body).startsWith("You lead a crew."))
        assert.deepStrictEqual(first?.body.tools?.map((tool) => tool.function.name).toSorted(), [
          "Agent",
          "read_file",
          "todo"
        ])
        const [sub] = small.bodies
        assert.strictEqual(small.bodies.length, 1)
        assert.deepInclude(sub?.body, { model: "small-model" })
        assert.strictEqual(sub?.key, "Bearer sk-of-the-sub-agent-0123456789")
        assert.isTrue(systemOf(sub?.body).startsWith("You review."))
        assert.deepStrictEqual(
          sub?.body.tools?.map((tool) => tool.function.name),
          ["search_files"]
        )
        assert.isUndefined(sub?.body.temperature)
        assert.include(String(sub?.body.messages.at(-1)?.content), "look at it")
        assert.include(JSON.stringify(lead.bodies[1]?.body.messages), "reviewed")
        // The parent's middleware sees the child too, the child's own sees the child alone.
        assert.strictEqual(readFileSync(at("audit.log"), "utf8"), "You lead a crew.\nYou review.\nYou lead a crew.\n")
        assert.strictEqual(readFileSync(at("agents/audit.log"), "utf8"), "You review.\n")

        keep("agents/helper.yaml", "type: agent\nname: helper\ndescription: helps\n")
        keep("agents/wrong.yaml", "type: agent\nnmae: helper\n")
        const listed = yield* hermes("agents")
        assert.deepStrictEqual(listed.stdout.trimEnd().split("\n"), [
          "available  helper  user  helps",
          `wrong      wrong   user  ${join(home, "agents/wrong.yaml")}: line 2: nmae: unknown key; did you mean "name"?`
        ])
      })
  )

  it.live("what cannot be used is one line, and no model is asked", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* desk
      const own = yield* model({ content: "not asked" })
      keep(
        "config.yaml",
        `model:\n  provider: custom\n  default: own\n  base_url: ${own.url}\n  api_key: k\n  context_length: 128000\n`
      )
      const wrong = Effect.fnUntraced(function* (text: string) {
        const path = keep("agents/a.yaml", `type: agent\nname: a\n${text}`)
        const { code, stderr, stdout } = yield* hermes("chat", "-q", "hello", "-Q", "--agent", "a")
        assert.deepStrictEqual([code, stdout], [2, ""], stderr)
        assert.match(stderr, /^[^\n]*\n$/)
        return stderr.replace(`Error: ${path}: `, "")
      })
      assert.strictEqual(
        yield* wrong("tools: [read_fiel]\n"),
        'tools: there is no toolset or tool "read_fiel": did you mean "read_file"?\n'
      )
      assert.strictEqual(
        yield* wrong("middlewares: [loging]\n").pipe(Effect.map((line) => line.split(";")[0])),
        'line 3: middlewares[0].import: there is no middleware "loging"'
      )
      assert.strictEqual(
        yield* wrong("llm_config: { modle: x }\n"),
        'line 3: llm_config.modle: unknown key; did you mean "model"?\n'
      )
      assert.match(
        (yield* hermes("chat", "-q", "x", "--agent", "aa")).stderr,
        /^Error: no agent "aa": did you mean "a"\?\n$/
      )
      assert.match(
        (yield* hermes("agents", "check", join(home, "agents/b.yaml"))).stderr,
        /b\.yaml: no such file or directory; did you mean a\.yaml\?\n$/
      )
      assert.strictEqual(own.bodies.length, 0)
    })
  )

  it.live("a key of the user is not sent to the address of an agent file", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* desk
      const own = yield* model({ content: "not asked" })
      const other = yield* model({ content: "answered" })
      keep(
        "config.yaml",
        `model:\n  provider: custom\n  default: own\n  base_url: ${own.url}\n  api_key: sk-of-the-user-0123456789\n  context_length: 128000\n`
      )
      keep(
        "agents/a.yaml",
        `type: agent\nname: a\nllm_config: { base_url: "${other.url}", model: m }\nmax_context_tokens: 64000\n`
      )
      yield* hermes("chat", "-q", "hello", "-Q", "--agent", "a")
      assert.strictEqual(own.bodies.length, 0)
      assert.notInclude(JSON.stringify(other.bodies), "sk-of-the-user")
      keep("agents/b.yaml", "type: agent\nname: b\nllm_config: { model: other }\n")
      assert.strictEqual((yield* hermes("chat", "-q", "hello", "-Q", "--agent", "b")).code, 0)
      assert.deepInclude(own.bodies[0]?.body, { model: "other" })
      assert.strictEqual(own.bodies[0]?.key, "Bearer sk-of-the-user-0123456789")
    })
  )

  it.live("T125 LlmFailover, LongToolOutput and ContextCompaction of an agent file work end to end", () =>
    Effect.gen(function* () {
      const { at, cwd, hermes, home, keep, put } = yield* desk
      put("long.txt", `${Array.from({ length: 400 }, (_, line) => `line ${line} ${"word ".repeat(10)}`).join("\n")}\n`)
      const down = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 503, { error: { message: "down" } })
      )
      const backup = yield* model(
        calls("read_file", { path: at("long.txt") }),
        calls("search_files", { pattern: "line 39", path: cwd }),
        { content: "read" }
      )
      keep(
        "agents/a.yaml",
        `type: agent
name: a
llm_config: { model: m, base_url: "${down.url}/v1", api_key: sk-of-the-primary-0123456789 }
max_context_tokens: 100000
retry_attempts: 1
tools: [read_file, search_files]
middlewares:
- import: nexau.archs.main_sub.execution.middleware.llm_failover:LLMFailoverMiddleware
  params:
    fallback_providers:
    - { name: backup, llm_config: { base_url: "${backup.url}", api_key: sk-of-the-backup-0123456789 } }
- import: nexau.archs.main_sub.execution.middleware.long_tool_output:LongToolOutputMiddleware
  params: { max_output_chars: 2000, head_lines: 3, tail_lines: 2, temp_dir: "${at("outputs")}", bypass_tool_names: [search_files] }
- import: nexau.archs.main_sub.execution.middleware.context_compaction:ContextCompactionMiddleware
  params: { max_context_tokens: 4, keep_iterations: 1 }
`
      )
      const ran = yield* hermes("chat", "-q", "read it", "-Q", "--agent", "a")
      assert.deepStrictEqual([ran.code, ran.stdout], [0, "read\n"], ran.stderr)
      assert.strictEqual(backup.bodies.length, 3)
      assert.strictEqual(backup.bodies[0]?.key, "Bearer sk-of-the-backup-0123456789")
      const second = String(backup.bodies[1]?.body.messages.at(-1)?.content)
      assert.include(second, "[LongToolOutput: the output was truncated.")
      assert.isBelow(second.length, 2_500)
      const [saved = ""] = readdirSync(at("outputs"))
      assert.include(second, saved)
      assert.include(readFileSync(join(at("outputs"), saved), "utf8"), "line 200 ")
      const third = JSON.stringify(backup.bodies[2]?.body.messages)
      assert.include(third, "[Old tool result, compacted to save room]")
      assert.notInclude(String(backup.bodies[2]?.body.messages.at(-1)?.content), "LongToolOutput")
      assert.isTrue(existsSync(join(home, "state.db")))
    })
  )

  // Where no terminal can be made, nobody can be asked.
  if (launcher === undefined) return
  const launch = launcher

  it.live("a conversation asks once whether the folder is trusted; another answer than yes is the refusal", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { cwd, home, put } = yield* desk
        const agent = put("agent.yaml", "type: agent\nname: a\n")
        const chat = `cd '${cwd}'; '${process.execPath}' '${program}' chat --agent agent.yaml`
        const terminal = yield* open(
          launch,
          `${chat}; echo "code $?"; ${chat}`,
          { HOME: join(home, ".."), HERMES_HOME: home, NO_COLOR: "1", HERMES_MODEL__PROVIDER: "offline" },
          200
        )
        yield* terminal.until(`Trust the files of ${cwd}?`)
        yield* terminal.type("n")
        yield* terminal.until("code 2")
        assert.include(terminal.screen(), `${agent} is not used: its folder is not trusted.`)
        yield* terminal.type("y")
        yield* terminal.until("/help")
        assert.include(readFileSync(join(home, "trusted-folders.json"), "utf8"), JSON.stringify(cwd))
        yield* terminal.type("/quit\r")
        assert.strictEqual(yield* terminal.exited, 0, terminal.screen())
      })
    )
  )
})
