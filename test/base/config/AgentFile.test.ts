// Agent files: what each key makes, what is refused and in which words, and that nothing is read before the folder is
// trusted.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as AgentFile from "../../../src/base/config/AgentFile.ts"
import * as Config from "../../../src/base/config/Config.ts"
import { Environment, Home, make as makeEnvironment } from "../../../src/base/config/Environment.ts"
import { FolderTrust, layer as trustLayer } from "../../../src/base/config/FolderTrust.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const world = Effect.gen(function* () {
  const root = realpathSync(yield* temporaryDirectory)
  const put = (name: string, text: string): string => {
    const path = join(root, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    return path
  }
  mkdirSync(join(root, "project"))
  const layer = Layer.mergeAll(trustLayer, Environment.layerIn({ KEY: "sk-agent-0123456789", N: "7" })).pipe(
    Layer.provide(Home.layerAt(join(root, ".hermes"))),
    Layer.provideMerge(NodeServices.layer)
  )
  yield* FolderTrust.use(({ trust }) => trust(join(root, "project"))).pipe(Effect.provide(layer))
  const load = (path: string) => Effect.provide(AgentFile.load(path), layer)
  return {
    root,
    put,
    load,
    agent: (text: string) => load(put("project/agent.yaml", text)),
    wrong: (text: string) =>
      Effect.map(Effect.flip(load(put("project/agent.yaml", text))), ({ message }) =>
        message
          .replaceAll(join(root, "project", "agent.yaml"), "agent.yaml")
          .replaceAll(root, "ROOT")
          .split("\n")
      )
  }
})

const settingsOf = ({ settings }: AgentFile.AgentFile) =>
  Object.fromEntries(settings.map(({ key, value }) => [key, value]))

const start = "type: agent\nname: a\n"

describe("AgentFile", () => {
  it.live("the agent of the lifecycle document loads as printed", () =>
    Effect.gen(function* () {
      const { agent } = yield* world
      const read = yield* agent(`type: agent
name: my_agent
llm_config:
  model: gpt-4o-mini
middlewares:
- import: my_project.middleware:AuditMiddleware
  params:
    log_file: "/tmp/audit.log"
- import: nexau.archs.main_sub.execution.middleware.logging:LoggingMiddleware
`)
      assert.deepInclude(read, { name: "my_agent", tools: undefined, subAgents: [] })
      assert.deepStrictEqual(settingsOf(read), { "model.default": "gpt-4o-mini" })
      assert.deepStrictEqual(read.middlewares, [
        { import: "my_project.middleware:AuditMiddleware", params: { log_file: "/tmp/audit.log" } },
        { import: "nexau.archs.main_sub.execution.middleware.logging:LoggingMiddleware" }
      ])
    })
  )

  it.live("T131 every key is read: settings, references, prompts from files, tools, sub-agents", () =>
    Effect.gen(function* () {
      const { agent, put, root } = yield* world
      put("project/prompts/main.md", "You are the ${variables.x} of prompts.\n")
      put(
        "project/sub/reviewer.yaml",
        `${start.replace("a\n", "reviewer\n")}description: reads code\nsystem_prompt: [You read., You judge.]\ntools: [read_file]\nllm_config: { model: small }\n`
      )
      const read = yield* agent(`type: agent
name: lead
description: leads
variables: { steps: 5, where: { host: "127.0.0.1" } }
system_prompt: prompts/main.md
system_prompt_type: file
system_prompt_suffix: In \${this_file_dir}.
llm_config:
  model: m
  provider: custom
  base_url: http://\${variables.where.host}/v1
  api_key: \${env.KEY}
  api_type: openai_chat_completion
  max_tokens: 100
  temperature: 0
  stream: false
  timeout: 30
  max_retries: 2
  reasoning_effort: low
tools: [file, { name: web_search }]
stop_tools: [complete_task]
sub_agents:
- { name: reviewer, config_path: sub/reviewer.yaml }
middlewares: [logging]
max_iterations: \${variables.steps}
max_context_tokens: "\${env:N}"
max_running_subagents: 2
retry_attempts: 4
tool_call_mode: structured
`)
      assert.deepInclude(read, {
        name: "lead",
        description: "leads",
        systemPrompt: "You are the ${variables.x} of prompts.\n",
        systemPromptSuffix: `In ${root}/project.`,
        temperature: 0,
        tools: ["file", "web_search"],
        stopTools: ["complete_task"],
        middlewares: [{ import: "logging" }]
      })
      assert.deepStrictEqual(settingsOf(read), {
        "model.default": "m",
        "model.provider": "custom",
        "model.base_url": "http://127.0.0.1/v1",
        "model.api_key": "sk-agent-0123456789",
        "model.api_mode": "chat_completions",
        "model.max_tokens": 100,
        "model.streaming": false,
        "network.request_timeout_seconds": 30,
        "agent.reasoning_effort": "low",
        "agent.max_turns": 5,
        "model.context_length": 7,
        "delegation.max_concurrent_children": 2,
        "agent.api_max_retries": read.settings.findLast(({ key }) => key === "agent.api_max_retries")?.value
      })
      const [sub] = read.subAgents
      assert.strictEqual(sub?.name, "reviewer")
      assert.deepInclude(sub?.agent, {
        description: "reads code",
        systemPrompt: "You read.\n\nYou judge.",
        tools: ["read_file"]
      })
    })
  )

  it.live("everything that is wrong is told at once, with its line; no value of a key is shown", () =>
    Effect.gen(function* () {
      const { wrong } = yield* world
      assert.deepStrictEqual(
        yield* wrong(`type: robot
nmae: x
llm_config:
  modle: m
  api_key: 5
  top_p: 1
  temperature: hot
  api_type: \${env.NONE}
stop_tools: submit
tools: file
sub_agents:
- { name: "a b", config_path: x.yaml }
- name: b
middlewares:
- { import: logging, parms: {} }
max_iterations: 0
`),
        [
          "agent.yaml: line 8: llm_config.api_type: ${env.NONE} is not set: set NONE in the environment or in .env",
          'agent.yaml: line 2: nmae: unknown key; did you mean "name"?',
          "agent.yaml: line 1: type: expected one of agent, got another text",
          "agent.yaml: name is missing: give the agent one",
          "agent.yaml: line 16: max_iterations: expected a positive integer, got 0",
          'agent.yaml: line 4: llm_config.modle: unknown key; did you mean "model"?',
          "agent.yaml: line 6: llm_config.top_p: not supported in agent files: requests carry temperature alone; rewrite them in a middleware, or remove it",
          "agent.yaml: line 5: llm_config.api_key: expected a text, got 5",
          "agent.yaml: line 8: llm_config.api_type: expected one of openai_chat_completion, openai_responses, anthropic_chat_completion, gemini_rest, chat_completions, codex_responses, anthropic_messages, bedrock_converse, got another text",
          "agent.yaml: line 7: llm_config.temperature: expected a number from 0 to 2, got another text",
          "agent.yaml: line 10: tools: expected a list, got another text",
          'agent.yaml: line 15: middlewares[0].parms: unknown key; did you mean "params"?',
          "agent.yaml: line 9: stop_tools: expected a list, got another text",
          "agent.yaml: line 12: sub_agents[0].name: expected letters, digits, - and _",
          "agent.yaml: line 13: sub_agents[1].config_path: expected a text, got nothing"
        ]
      )
      assert.deepStrictEqual(yield* wrong("- a\n"), [
        "agent.yaml: expected a mapping of keys such as type, name and system_prompt"
      ])
      assert.deepStrictEqual(yield* wrong(`${start}a: [\n`), [
        "agent.yaml: line 3, column 4: the list that opens here has no end, or an entry without a comma: add ] or ,"
      ])
      assert.deepStrictEqual(
        yield* wrong(`# ${"${env.NOT_SET}"}\n${start}sub_agents:\n- { name: me, config_path: agent.yaml }\n`),
        ["agent.yaml: line 5: sub_agents[0].config_path: this is the file itself"]
      )
    })
  )

  it.live("mcp_servers are those of config.yaml by another spelling; what is wrong is told with its place", () =>
    Effect.gen(function* () {
      const { agent, put, wrong } = yield* world
      const read = yield* agent(`${start}mcp_servers:
- { name: look, type: stdio, command: node, args: [server.mjs], env: { TOKEN: "\${env.KEY}" }, timeout: 5 }
- { name: far, type: http, url: "https://mcp.example/mcp", headers: { X-Key: k } }
- { name: narrow, command: look, sandbox: { policy: read-only, network: none } }
`)
      const loaded = yield* Config.resolve({
        file: { mcp_servers: { own: { command: "own" }, far: { command: "not both" } } },
        environment: makeEnvironment({}),
        flags: [],
        agent: read.settings
      })
      const { far, look, narrow, own } = loaded.settings.mcpServers
      assert.deepStrictEqual(
        [look?.sandbox, narrow?.sandbox, own?.sandbox],
        ["workspace-write", { policy: "read-only", network: "none" }, "full"]
      )
      assert.deepInclude(look, { command: "node", args: ["server.mjs"], timeout: 5 })
      assert.strictEqual(Redacted.value(look?.env["TOKEN"] as Redacted.Redacted), "sk-agent-0123456789")
      assert.deepStrictEqual([far?.url, far?.command], ["https://mcp.example/mcp", undefined])
      assert.strictEqual(own?.command, "own")
      put("project/sub.yaml", `${start}mcp_servers: [{ name: x, command: x }]\n`)
      assert.deepStrictEqual(
        yield* wrong(`${start}mcp_servers:
- { name: a b, command: x }
- { name: c, type: http, command: x }
- { name: d, type: tcp, comand: x }
- { name: e }
sub_agents:
- { name: s, config_path: sub.yaml }
`),
        [
          "agent.yaml: line 4: mcp_servers[0].name: expected letters, digits, - and _",
          "agent.yaml: line 5: mcp_servers[1].url: expected a text, got nothing",
          'agent.yaml: line 6: mcp_servers[2].comand: unknown key; did you mean "command"?',
          "agent.yaml: line 6: mcp_servers[2].type: expected one of stdio, http, sse, got another text",
          "agent.yaml: line 6: mcp_servers[2]: expected a command to start, or the url of a server that runs",
          "agent.yaml: line 7: mcp_servers[3]: expected a command to start, or the url of a server that runs",
          "ROOT/project/sub.yaml: line 3: mcp_servers[0]: not supported for a sub-agent: name the server in the file of the main agent"
        ]
      )
    })
  )

  it.live("sub-agents: their errors come along, names differ, settings of the run are the parent's", () =>
    Effect.gen(function* () {
      const { put, wrong } = yield* world
      put("project/s.yaml", `${start}llm_config: { timeout: 3 }\nmax_running_subagents: 2\n`)
      put("project/t.yaml", start)
      assert.deepStrictEqual(
        yield* wrong(
          `${start}sub_agents:\n- { name: s, config_path: s.yaml }\n- { name: s, config_path: t.yaml }\n- { name: u, config_path: tt.yaml }\n`
        ),
        [
          'agent.yaml: line 5: sub_agents[1].name: two sub-agents are named "s": rename one of them',
          "ROOT/project/s.yaml: line 4: max_running_subagents: not supported for a sub-agent: set it in the file of the main agent, or remove it",
          "ROOT/project/s.yaml: line 3: llm_config.timeout: not supported for a sub-agent: set it in the file of the main agent, or remove it",
          "ROOT/project/tt.yaml: no such file or directory; did you mean t.yaml?"
        ]
      )
    })
  )

  it.live("nothing is read from a folder that is not trusted, be it by a link, a prompt or a sub-agent", () =>
    Effect.gen(function* () {
      const { load, put, root, wrong } = yield* world
      put("foreign/agent.yaml", "{{ no yaml")
      put("foreign/secret.md", "secret")
      const refused = `ROOT/foreign/agent.yaml is not used: its folder is not trusted. Look at it, then run \`hermes trust add ROOT/foreign\``
      assert.strictEqual(
        (yield* Effect.flip(load(join(root, "foreign/agent.yaml")))).message.replaceAll(root, "ROOT"),
        refused
      )
      symlinkSync(join(root, "foreign/agent.yaml"), join(root, "project/link.yaml"))
      assert.strictEqual(
        (yield* Effect.flip(load(join(root, "project/link.yaml")))).message.replaceAll(root, "ROOT"),
        refused
      )
      assert.deepStrictEqual(yield* wrong(`${start}sub_agents: [{ name: x, config_path: ../foreign/agent.yaml }]\n`), [
        refused
      ])
      assert.deepStrictEqual(yield* wrong(`${start}system_prompt_type: file\nsystem_prompt: ../foreign/secret.md\n`), [
        `agent.yaml: line 4: system_prompt: ${refused.replaceAll("agent.yaml", "secret.md")}`
      ])
    })
  )
})
