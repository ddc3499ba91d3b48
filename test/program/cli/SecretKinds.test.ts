// The real program holds a key of every kind that is selected. Files, commands, background processes, a plugin, an MCP
// server, children and the model itself repeat every one in every form, and keys of the same kinds that nobody holds:
// nothing of them is in anything that the program writes, sends or keeps.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync } from "node:fs"
import { collector } from "../../observe/support/collector.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine, sessionIdOf } from "../../support/hermes.ts"
import { selectedKeys as plantedKeys } from "../../support/plantedKeys.ts"
import { everything, filesOf, found, foundInFiles, plantedText } from "../../support/secretSearch.ts"
import { protocols, type WireCall } from "../../support/wireModel.ts"

const key = (at: number): string => plantedKeys[at]?.[1] ?? ""

/** A server of the protocol by hand: it describes itself, logs and answers with every value. */
const mcpServer = (planted: string) => `
import { readFileSync } from "node:fs"
import { createInterface } from "node:readline"
const text = readFileSync(${JSON.stringify(planted)}, "utf8")
process.stderr.write(text)
const results = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "planted", version: "1" } }),
  "tools/list": () => ({ tools: [{ name: "leak", description: "Reads. " + text.split("\\n")[0], inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } }] }),
  "tools/call": () => ({ content: [{ type: "text", text }], structuredContent: { text, [text.slice(0, 200)]: 1 } })
}
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line)
  const result = results[method]
  if (id !== undefined) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...(result === undefined ? { error: { code: -32601, message: "no " + text } } : { result: result(params) }) }) + "\\n")
})
`

/** A plugin whose tools, hooks, middleware and log say every value. */
const plugin = (planted: string) => `
import { readFileSync } from "node:fs"
const text = readFileSync(${JSON.stringify(planted)}, "utf8")
export const register = (ctx) => {
  console.log(text)
  console.error(text)
  const tool = (name, handler) => ctx.registerTool({ name, description: name, parameters: { type: "object", properties: {} }, readonly: true, handler })
  tool("plain", () => ({ text, deep: { list: [text] }, api: "x" }))
  tool("broken", () => { throw new Error(text) })
  ctx.registerHook("post_tool_call", () => { throw new Error(text) })
  ctx.registerMiddleware("llm_request", () => { throw new Error(text) })
}`

interface Asked {
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  readonly stream?: boolean
  readonly tools?: ReadonlyArray<unknown>
}

const call = (id: string, name: string, args: object): WireCall => ({ id, name, args: JSON.stringify(args) })

/** The files that the values stand in, each short enough to be read whole. */
const pages = Array.from({ length: 6 }, (_, at) =>
  plantedText((at * plantedKeys.length) / 6, ((at + 1) * plantedKeys.length) / 6)
)

const world = Effect.gen(function* () {
  const made = yield* machine
  const planted = made.put("planted/all.txt", everything)
  pages.forEach((page, at) => made.put(`planted/page${at}.txt`, page))
  made.put("planted/server.mjs", mcpServer(planted))
  made.keep("plugins/planted/plugin.yaml", "name: planted\n")
  made.keep("plugins/planted/index.js", plugin(planted))
  const hook = made.keep("hook.sh", `#!/bin/sh\ncat >> ${made.at("hooks.log")}\necho >> ${made.at("hooks.log")}\n`)
  chmodSync(hook, 0o700)
  const traces = yield* collector()
  const sent: Array<string> = []
  const reads = pages.map((_, at) => call(`r${at}`, "read_file", { path: `planted/page${at}.txt` }))
  const steps: ReadonlyArray<ReadonlyArray<WireCall>> = [
    reads,
    [
      call("t1", "terminal", { command: "cat planted/all.txt" }),
      call("t2", "terminal", { command: "cat planted/all.txt; cat planted/all.txt >&2; sleep 1; exit 3" }),
      call("t3", "terminal", { command: "cat planted/all.txt; sleep 300", background: true }),
      call("s1", "search_files", { pattern: ".", path: "planted/page1.txt", limit: 2000 }),
      call("p1", "plain", {}),
      call("p2", "broken", {}),
      call("m1", "mcp__planted__leak", {}),
      call("d1", "delegate_task", { goal: "look around" })
    ],
    [call("l1", "process", { action: "list" })]
  ]
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!url.endsWith("/chat/completions")) return HttpServer.json(response, 404, { error: { message: everything } })
    sent.push(body)
    const { messages, stream } = JSON.parse(body) as Asked
    const text = JSON.stringify(messages)
    const turn = (): Parameters<typeof protocols.chat_completions.stream>[0] => {
      const results = messages.filter(({ role }) => role === "tool").length
      if (text.includes("look around") && !text.includes("begin here")) {
        return results === 0
          ? { calls: [call("c1", "read_file", { path: "planted/page0.txt" })] }
          : { text: `The child saw:\n${everything}` }
      }
      const asked = messages.filter(({ role }) => role === "assistant").length
      const id = /proc_\w+/.exec(text)?.[0]
      if (asked === 3 && id !== undefined) {
        return {
          calls: [
            call("l2", "process", { action: "log", session_id: id, limit: 5000 }),
            call("l3", "process", { action: "poll", session_id: id }),
            call("l4", "process", { action: "kill", session_id: id })
          ]
        }
      }
      return steps[asked] === undefined
        ? { thought: everything, text: `I found this.\n${everything}\nThat is all.` }
        : { calls: steps[asked] }
    }
    if (stream === true) protocols.chat_completions.stream(turn(), response)
    else HttpServer.json(response, 200, protocols.chat_completions.whole(turn()))
  })
  const events = [
    "pre_api_request",
    "post_api_request",
    "api_request_error",
    "pre_tool_call",
    "post_tool_call",
    "post_llm_call",
    "on_session_end",
    "subagent_start",
    "subagent_stop"
  ]
  const env: Record<string, string> = {
    HERMES_ACCEPT_HOOKS: "1",
    HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
    HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: made.at("atof"),
    HERMES_NEMO_RELAY_ATIF_ENABLED: "1",
    HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: made.at("atif"),
    OTEL_EXPORTER_OTLP_ENDPOINT: traces.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true",
    HERMES_LANGFUSE_PUBLIC_KEY: "pk-lf-1",
    HERMES_LANGFUSE_SECRET_KEY: "sk-lf-1",
    HERMES_LANGFUSE_BASE_URL: traces.url,
    HERMES_LANGFUSE_MAX_CHARS: "1000000"
  }
  // Two of the settings, the others in turn of the process and of the file.
  plantedKeys.slice(2).forEach(([, value], at) => {
    if (at % 2 === 0) env[`PLANTED_${at}_TOKEN`] = value
  })
  made.keep(
    ".env",
    plantedKeys
      .slice(2)
      .map(([, value], at) => (at % 2 === 1 ? `PLANTED_${at}_TOKEN='${value}'\n` : ""))
      .join("")
  )
  made.keep(
    "config.yaml",
    [
      "model:",
      "  provider: custom",
      "  default: m",
      `  base_url: ${server.url}/v1`,
      `  api_key: ${key(0)}`,
      "  context_length: 2000000",
      "network:",
      "  stream_retries: 0",
      "agent:",
      "  api_max_retries: 1",
      "mcp_servers:",
      "  planted:",
      `    command: ${process.execPath}`,
      `    args: [${made.at("planted/server.mjs")}]`,
      `    env: { PLANTED_SERVER_TOKEN: ${key(1)} }`,
      "plugins:",
      "  enabled: [planted, observability/trace, observability/langfuse, observability/otel]",
      "hooks:",
      ...events.flatMap((event) => [`  ${event}:`, `    - command: ${hook}`]),
      ""
    ].join("\n")
  )
  return { ...made, traces, sent, program: (...args: ReadonlyArray<string>) => made.hermes(args, { env }) }
})

const userFiles = /\/config\.yaml$|\/\.env$|\/planted\/|\/plugins\/planted\//

/** A request to the model without the words of the model itself. */
const withoutAnswers = (body: string): string => {
  const { messages, ...rest } = JSON.parse(body) as Asked
  return JSON.stringify({ ...rest, messages: messages.filter(({ role }) => role !== "assistant") })
}

describe("keys of many kinds", () => {
  it.live("are in no sink of a run that repeats them in every form", () =>
    Effect.gen(function* () {
      const { at, cwd, home, program, sent, traces } = yield* world
      const leaks: Array<string> = []
      const search = (sink: string, text: string) => {
        assert.isAbove(text.length, 0, `${sink} is empty`)
        leaks.push(...found(text).map((one) => `${sink}: ${one}`))
      }
      const { code, stderr, stdout } = yield* program(
        "chat",
        "-v",
        "--yolo",
        "--format",
        "stream-json",
        "--record",
        at("cassette.jsonl"),
        "-q",
        "begin here"
      )
      assert.strictEqual(code, 0, stderr.slice(-2000))
      for (const [name, text] of Object.entries({ stdout, stderr })) search(name, text)
      search("requests to the model", sent.map(withoutAnswers).join("\n"))
      search(
        "langfuse",
        traces.requests
          .filter(({ path }) => path.includes("otel"))
          .map(({ body }) => body)
          .join("\n")
      )
      search(
        "otlp",
        traces.requests
          .filter(({ path }) => path.startsWith("/v1"))
          .map(({ body }) => body)
          .join("\n")
      )
      leaks.push(...foundInFiles([home, cwd], userFiles))
      const id = sessionIdOf(stderr) || /"session_id":"([^"]+)"/.exec(stdout)?.[1] || ""
      for (const command of [
        ["sessions", "list"],
        ["sessions", "show", id],
        ["sessions", "export", "-"],
        ["trace", "view", id, "--output", at("trace.html"), "--no-open"],
        ["config", "show"],
        ["doctor"]
      ]) {
        const shown = yield* program(...command)
        search(command.slice(0, 2).join(" "), shown.stdout + shown.stderr)
      }
      leaks.push(...foundInFiles([home, cwd], userFiles))
      const written = [...filesOf(home), ...filesOf(cwd)].join("\n")
      for (const sink of ["hooks.log", "cassette.jsonl", "state.db", "/atof/", "/atif/"]) assert.include(written, sink)
      assert.include(stdout, "That is all.")
      assert.deepStrictEqual(Array.from(new Set(leaks)), [])
    })
  )

  it.live("are in no refusal of a provider that repeats them, whole or cut", () =>
    Effect.gen(function* () {
      const { cwd, hermes, home, keep } = yield* machine
      const server = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 401, { error: { message: `Incorrect API key: ${everything}` } })
      )
      keep(".env", plantedKeys.map(([, value], at) => `PLANTED_${at}_TOKEN='${value}'\n`).join(""))
      keep(
        "config.yaml",
        `model:\n  provider: custom\n  default: m\n  base_url: ${server.url}/v1\n  api_key: ${key(0)}\n  context_length: 100000\n`
      )
      for (const view of [["-v"], ["--format", "stream-json"]]) {
        const { code, stderr, stdout } = yield* hermes(["chat", ...view, "-q", "hello"])
        assert.strictEqual(code, 1)
        assert.include(stdout + stderr, "Incorrect API key")
        assert.deepStrictEqual(found(stdout + stderr), [], view.join(" "))
      }
      assert.deepStrictEqual(foundInFiles([home, cwd], userFiles), [])
    })
  )

  it.live("are in no question whether a command may run: not in the judge's request, in hooks, in the log", () =>
    Effect.gen(function* () {
      const { at, cwd, hermes, home, keep } = yield* machine
      const judged: Array<string> = []
      // A command as a model may write it; the longest is shown in part.
      const commands = [0, 1, 2].map(
        (part) =>
          `rm -r ./scratch; cat <<'END'\n${plantedText((part * plantedKeys.length) / 3, (part * plantedKeys.length) / 3 + 12)}\nEND`
      )
      const server = yield* HttpServer.make(({ body, url }, response) => {
        if (!url.endsWith("/chat/completions"))
          return HttpServer.json(response, 404, { error: { message: "not here" } })
        const { messages, stream } = JSON.parse(body) as Asked
        const isJudge = JSON.stringify(messages[0]).includes("You guard a user's computer")
        if (isJudge) judged.push(body)
        const turn = isJudge
          ? { text: "DENY" }
          : messages.some(({ role }) => role === "tool")
            ? { text: "done" }
            : { calls: commands.map((command, index) => call(`t${index}`, "terminal", { command })) }
        if (stream === true) protocols.chat_completions.stream(turn, response)
        else HttpServer.json(response, 200, protocols.chat_completions.whole(turn))
      })
      const hook = keep("hook.sh", `#!/bin/sh\ncat >> ${at("hooks.log")}\n`)
      chmodSync(hook, 0o700)
      keep(".env", plantedKeys.map(([, value], at) => `PLANTED_${at}_TOKEN='${value}'\n`).join(""))
      keep(
        "config.yaml",
        `approvals:\n  mode: smart\nhooks_auto_accept: true\nhooks:\n${[
          "pre_approval_request",
          "post_approval_response"
        ]
          .map((event) => `  ${event}:\n    - command: ${hook}\n`)
          .join(
            ""
          )}model:\n  provider: custom\n  default: m\n  base_url: ${server.url}/v1\n  api_key: ${key(0)}\n  context_length: 1000000\n`
      )
      const { code, stderr, stdout } = yield* hermes(["chat", "-v", "-q", "tidy up"])
      assert.strictEqual(code, 0, stderr.slice(-1000))
      assert.isAbove(judged.length, 0)
      assert.include(filesOf(cwd).join("\n"), "hooks.log")
      assert.deepStrictEqual(found(judged.join("\n")), [], "judge")
      assert.deepStrictEqual(found(stdout + stderr), [], "shown")
      assert.deepStrictEqual(foundInFiles([home, cwd], userFiles), [])
    })
  )

  it.live("are not in what a scheduled script prints, is kept of it, or is told of its failure", () =>
    Effect.gen(function* () {
      const { cwd, hermes, home, keep, put } = yield* machine
      const planted = put("planted/all.txt", everything)
      keep(".env", plantedKeys.map(([, value], at) => `PLANTED_${at}_TOKEN='${value}'\n`).join(""))
      keep("scripts/good.sh", `cat ${planted}\n`)
      keep("scripts/bad.sh", `cat ${planted} >&2\nexit 3\n`)
      for (const name of ["good", "bad"]) {
        yield* hermes(["cron", "create", "every 2h", "--script", `${name}.sh`, "--no-agent", "--name", name])
        const { stderr, stdout } = yield* hermes(["cron", "run", name])
        assert.include(stdout + stderr, "jwt")
        assert.deepStrictEqual(found(stdout + stderr), [], name)
      }
      assert.deepStrictEqual(foundInFiles([home, cwd], /\/config\.yaml$|\/\.env$|\/planted\/|\/scripts\//), [])
    })
  )
})
