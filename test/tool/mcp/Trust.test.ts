// Tools of an MCP server in the real program, where nobody can be asked: which of them run.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { machine } from "../../support/hermesInProcess.ts"
import { protocols } from "../../support/wireModel.ts"
import * as HttpServer from "../../provider/HttpServer.ts"

const fixture = fileURLToPath(new URL("support/fixtureServer.ts", import.meta.url))

/** Has the model call one tool of the server in a single query, and gives what it was told and what the server did. */
const asked = Effect.fnUntraced(function*(tool: string, trust: string | undefined) {
  const { at, hermes, keep } = yield* machine
  const ask = { calls: [{ id: "c1", name: `mcp__x__${tool}`, args: "{\"n\":1}" }] }
  const { stream, whole } = protocols.chat_completions
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!url.endsWith("/chat/completions")) return void HttpServer.json(response, 404, {})
    const turn = body.includes("\"role\":\"tool\"") ? { text: "done" } : ask
    if (body.includes("\"stream\":true")) stream(turn, response)
    else HttpServer.json(response, 200, whole(turn))
  })
  const file = at("did.txt")
  keep("config.yaml", `model: { provider: custom, default: m, base_url: "${server.url}/v1", api_key: k, context_length: 100000 }
mcp_servers:
  x:
    command: ${process.execPath}
    args: [${JSON.stringify(fixture)}, good, ${JSON.stringify(file)}]
${trust === undefined ? "" : `    trust: ${trust}\n`}`)
  const { code, stderr } = yield* hermes(["chat", "-Q", "-q", "go"])
  const told = server.requests.findLast(({ body }) => body.includes("\"role\":\"tool\""))?.body ?? ""
  return { code, stderr, told, did: existsSync(file) ? readFileSync(file, "utf8") : "" }
})

describe("tools of an MCP server where nobody can be asked", () => {
  it.live("one that says nothing of itself is denied, and the model and the log say what to do", () =>
    Effect.gen(function*() {
      const { code, did, stderr, told } = yield* asked("slow", undefined)
      assert.deepStrictEqual([code, did], [0, ""], stderr)
      assert.include(told, "no user can be asked here")
      assert.include(told, "list slow in mcp_servers.x.trust.tools")
      assert.include(stderr, "mcp__x__slow may change or delete things")
    }))

  for (const trust of ["{ tools: [slow] }", "{ tools: [\"s*\"] }", "full"]) {
    it.live(`one that the settings trust runs: ${trust}`, () =>
      Effect.gen(function*() {
        const { code, did, stderr } = yield* asked("slow", trust)
        assert.deepStrictEqual([code, did], [0, "start 1\nend 1\n"], stderr)
      }))
  }

  it.live("one that another is trusted beside is denied", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* asked("slow", "{ tools: [plain] }")).did, "")
    }))

  it.live("one that only reads runs", () =>
    Effect.gen(function*() {
      assert.include((yield* asked("look_up_", undefined)).told, "look up! ")
    }))

  it.live("a trust that is none of them is one line", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* asked("slow", "everything")
      assert.strictEqual(code, 2)
      assert.match(stderr, /mcp_servers\.x\.trust.*full, untrusted, or tools/)
      assert.strictEqual(stderr.trimEnd().split("\n").length, 1)
    }))
})
