// Which tools of an MCP server run: in the real program where nobody can be asked, and by trust, annotation and mode.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as PermissionMode from "../../../src/base/config/PermissionMode.ts"
import type * as RunEvent from "../../../src/base/domain/RunEvent.ts"
import { Agent, Runtime } from "../../../src/index.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import type { Question } from "../../../src/tools/approval/ApprovalRequest.ts"
import * as McpConnection from "../../../src/tools/mcp/McpConnection.ts"
import * as McpServers from "../../../src/tools/mcp/McpServers.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { protocols } from "../../support/wireModel.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { section } from "./support/servers.ts"

const fixture = fileURLToPath(new URL("support/fixtureServer.ts", import.meta.url))

/** Has the model call one tool of the server in a single query, and gives what it was told and what the server did. */
const asked = Effect.fnUntraced(function* (tool: string, trust: string | undefined) {
  const { at, hermes, keep } = yield* machine
  const ask = { calls: [{ id: "c1", name: `mcp__x__${tool}`, args: '{"n":1}' }] }
  const { stream, whole } = protocols.chat_completions
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!url.endsWith("/chat/completions")) return void HttpServer.json(response, 404, {})
    const turn = body.includes('"role":"tool"') ? { text: "done" } : ask
    if (body.includes('"stream":true')) stream(turn, response)
    else HttpServer.json(response, 200, whole(turn))
  })
  const file = at("did.txt")
  keep(
    "config.yaml",
    `model: { provider: custom, default: m, base_url: "${server.url}/v1", api_key: k, context_length: 100000 }
mcp_servers:
  x:
    command: ${process.execPath}
    args: [${JSON.stringify(fixture)}, good, ${JSON.stringify(file)}]
${trust === undefined ? "" : `    trust: ${trust}\n`}`
  )
  const { code, stderr } = yield* hermes(["chat", "-Q", "-q", "go"])
  const told = server.requests.findLast(({ body }) => body.includes('"role":"tool"'))?.body ?? ""
  return { code, stderr, told, did: existsSync(file) ? readFileSync(file, "utf8") : "" }
})

describe("tools of an MCP server where nobody can be asked", () => {
  it.live("one that says nothing of itself is denied, and the model and the log say what to do", () =>
    Effect.gen(function* () {
      const { code, did, stderr, told } = yield* asked("slow", undefined)
      assert.deepStrictEqual([code, did], [0, ""], stderr)
      assert.include(told, "no user can be asked here")
      assert.include(told, "list slow in mcp_servers.x.trust.tools")
      assert.include(stderr, "mcp__x__slow may change or delete things")
    })
  )

  for (const trust of ["{ tools: [slow] }", '{ tools: ["s*"] }', "full"]) {
    it.live(`one that the settings trust runs: ${trust}`, () =>
      Effect.gen(function* () {
        const { code, did, stderr } = yield* asked("slow", trust)
        assert.deepStrictEqual([code, did], [0, "start 1\nend 1\n"], stderr)
      })
    )
  }

  it.live("one that another is trusted beside is denied", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* asked("slow", "{ tools: [plain] }")).did, "")
    })
  )

  it.live("one that says that it only reads is denied too, and the model and the log say what to do", () =>
    Effect.gen(function* () {
      const { stderr, told } = yield* asked("look_up_", undefined)
      assert.notInclude(told, "look up! ")
      for (const text of [told, stderr]) {
        assert.include(
          text,
          "mcp__x__look_up_ says that it only reads, and its server is not trusted (to believe its server, set mcp_servers.x.trust to annotations)"
        )
      }
      assert.include((yield* asked("look_up_", "annotations")).told, "look up! ")
    })
  )

  it.live("a trust that is none of them is one line", () =>
    Effect.gen(function* () {
      const { code, stderr } = yield* asked("slow", "everything")
      assert.strictEqual(code, 2)
      assert.match(stderr, /mcp_servers\.x\.trust.*full, annotations, untrusted, or tools/)
      assert.strictEqual(stderr.trimEnd().split("\n").length, 1)
    })
  )
})

// `plain` says nothing of itself, `look up!` only reads, `add` destroys nothing.
const names = ["plain", "look up!", "add"] as const
type Name = (typeof names)[number]

const connector = Layer.succeed(McpConnection.McpConnector, {
  connect: () =>
    Effect.map(Queue.unbounded<void>(), (toolsChanged): McpConnection.Connection => ({
      protocol: "1",
      server: "fake",
      offers: { tools: true, resources: true, prompts: false },
      listTools: Effect.succeed([
        { name: "plain", inputSchema: {} },
        { name: "look up!", inputSchema: {}, annotations: { readOnlyHint: true } },
        { name: "add", inputSchema: {}, annotations: { destructiveHint: false } }
      ]),
      callTool: (name) =>
        Effect.succeed({ blocks: [{ type: "text", text: `ran ${name}` }], structured: undefined, isError: false }),
      listResources: Effect.succeed([]),
      readResource: (uri) => Effect.succeed([{ type: "text", text: `ran ${uri}` }]),
      listPrompts: Effect.succeed([]),
      getPrompt: () => Effect.succeed([]),
      ping: Effect.void,
      toolsChanged,
      closed: Effect.never
    }))
})

type Call = { readonly name: string; readonly params: Readonly<Record<string, unknown>> }

/** Has the model make calls one after another; what ran of them, and what was asked. */
const made = Effect.fnUntraced(function* (
  calls: ReadonlyArray<Call>,
  {
    choice,
    mode,
    trust
  }: { readonly trust: unknown; readonly mode?: PermissionMode.PermissionMode; readonly choice?: string }
) {
  const asked: Array<Question> = []
  const results: Array<string> = []
  const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
    Effect.sync(() => {
      for (const event of events) if (event._tag === "ToolFinished") results.push(event.output)
    })
  const answered = Approvals.layerCallback((question) =>
    Effect.sync(() => {
      asked.push(question)
      return choice
    })
  )
  const runtime = Runtime.layer({
    provider: Scripted.layer([
      ...calls.map((call) => Scripted.complete({ toolCalls: [call] })),
      Scripted.complete("done")
    ]),
    approvals: choice === undefined ? Approvals.layerDeny() : answered
  })
  const x = section({ url: "http://mcp.example/mcp", ...(trust === undefined ? {} : { trust }) })
  const layer = McpServers.layer({ x }).pipe(Layer.provide(connector), Layer.provideMerge(runtime))
  yield* Agent.run({ prompt: "go", onEvent }).pipe(
    Effect.provide(layer),
    Effect.provideService(PermissionMode.CurrentMode, mode)
  )
  return { asked, ran: results.map((text) => /ran (.+)/.exec(text)?.[1] ?? ""), results }
})

const tool = (name: Name, params: Call["params"] = {}): Call => ({
  name: `mcp__x__${name.replaceAll(/[^a-z]/g, "_")}`,
  params
})

const table: ReadonlyArray<readonly [trust: unknown, unasked: ReadonlyArray<Name>, planned: ReadonlyArray<Name>]> = [
  [undefined, [], []],
  ["untrusted", [], []],
  [{ tools: [] }, [], []],
  [{ tools: ["plain"] }, ["plain"], []],
  [{ tools: ["look*"] }, ["look up!"], ["look up!"]],
  ["annotations", ["look up!", "add"], ["look up!"]],
  [{ tools: ["plain"], annotations: true }, names, ["look up!"]],
  ["full", names, ["look up!"]]
]

describe("annotations of an MCP server", () => {
  for (const [trust, unasked, planned] of table) {
    it.live(`with trust: ${JSON.stringify(trust) ?? "none"}`, () =>
      Effect.gen(function* () {
        const calls = names.map((name) => tool(name))
        const ran = (list: ReadonlyArray<Name>) => names.map((name) => (list.includes(name) ? name : ""))
        assert.deepStrictEqual((yield* made(calls, { trust })).ran, ran(unasked), "nobody is there")
        const plan = yield* made(calls, { trust, mode: "plan" })
        assert.deepStrictEqual(plan.ran, ran(planned), "nobody is there, and it plans")
        if (!planned.includes("look up!"))
          assert.match(plan.results[1] ?? "", /BLOCKED \(plan mode\).*set mcp_servers\.x\.trust to annotations/)
        const attended = yield* made(calls, { trust, choice: "once" })
        assert.deepStrictEqual(
          [attended.ran, attended.asked.length],
          [[...names], names.length - unasked.length],
          "somebody says yes"
        )
        assert.deepStrictEqual(
          (yield* made(calls, { trust, choice: "once", mode: "plan" })).ran,
          ran(planned),
          "a plan"
        )
        const yolo = yield* made(calls, { trust, choice: "deny", mode: "yolo" })
        assert.deepStrictEqual([yolo.ran, yolo.asked.length], [[...names], 0], "yolo")
      })
    )
  }

  it.live("a yes for the session holds for a tool that says that it reads, and for one call of another", () =>
    Effect.gen(function* () {
      const { asked, ran } = yield* made(
        [
          tool("look up!", { n: 1 }),
          tool("look up!", { n: 2 }),
          tool("plain", { n: 1 }),
          tool("plain", { n: 1 }),
          tool("plain", { n: 2 })
        ],
        { trust: undefined, choice: "session" }
      )
      assert.lengthOf(
        ran.filter((name) => name !== ""),
        5
      )
      assert.deepStrictEqual(
        asked.map(({ targets }) => targets.map(({ kind }) => kind)),
        [["tool"], ["call"], ["call"]]
      )
    })
  )

  it.live("an address of another host that a resource is read by passes the gate; other resources are read", () =>
    Effect.gen(function* () {
      const read = (uri: string): Call => ({ name: "mcp__x__read_resource", params: { uri } })
      const calls = ["note://one", "http://mcp.example/two", "https://other.example/?d=anything"].map(read)
      for (const trust of [undefined, "full"]) {
        const denied = yield* made(calls, { trust })
        assert.deepStrictEqual(
          denied.ran.map((uri) => uri !== ""),
          [true, true, false],
          denied.results.join("\n")
        )
        assert.include(denied.results[2], "other.example, a host that is not approved")
        const { asked, ran } = yield* made(calls, { trust, choice: "once" })
        assert.deepStrictEqual(
          [ran.every((uri) => uri !== ""), asked.flatMap(({ targets }) => targets.map(({ text }) => text))],
          [true, ["other.example"]]
        )
      }
    })
  )
})
