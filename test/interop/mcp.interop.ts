// The conformance suites of MCP: that of servers against `/mcp` of the agent's server, that of clients against the
// program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { join } from "node:path"
import * as playedModel from "../support/playedModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { world } from "../support/servedAgent.ts"

const suite = join(import.meta.dirname, "node_modules/@modelcontextprotocol/conformance/dist/index.js")

/** Runs the suite; the text is all that it wrote. */
const conformance = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.callback<{ readonly code: number | null; readonly text: string }>((resume) => {
    const child = spawn(process.execPath, [suite, ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"]
    })
    let text = ""
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (more: string) => (text += more))
    child.once("close", (code) => resume(Effect.succeed({ code, text })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const tool = (name: string, run: Effect.Effect<string, string>) => ({
  name,
  description: name,
  parameters: { properties: {} },
  readOnly: true,
  run: () => run
})

const tools = [
  tool("test_simple_text", Effect.succeed("This is a simple text response for testing.")),
  tool("test_error_handling", Effect.fail("This tool intentionally returns an error for testing"))
]

/** Scenarios of servers that apply. */
const served = [
  "server-initialize",
  "ping",
  "tools-list",
  "tools-call-simple-text",
  "tools-call-error",
  "server-sse-multiple-streams",
  "dns-rebinding-protection"
]

/**
 * Scenarios that do not, by what they are about: the server offers tools whose results are text, and declares nothing
 * else.
 */
const notServed: Readonly<Record<string, ReadonlyArray<string>>> = {
  "logging is not offered": ["logging-set-level", "tools-call-with-logging"],
  "completion is not offered": ["completion-complete"],
  "results of tools are text": [
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content"
  ],
  "tools tell no progress": ["tools-call-with-progress"],
  "the server asks its client nothing": [
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums"
  ],
  "resources are not offered": [
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe"
  ],
  "prompts are not offered": [
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image"
  ]
}

const testTool = ["mcp__it__test_tool", {}] as const

/** Scenarios of clients that apply, with the call that an agent makes. */
const clients: Readonly<Record<string, readonly [name: string, args: Record<string, unknown>]>> = {
  initialize: ["none", {}],
  tools_call: ["mcp__it__add_numbers", { a: 5, b: 3 }],
  "sse-retry": ["mcp__it__test_reconnection", {}],
  "auth/metadata-default": testTool,
  "auth/metadata-var1": testTool,
  "auth/metadata-var2": testTool,
  "auth/scope-from-scopes-supported": testTool,
  "auth/scope-omitted-when-undefined": testTool,
  "auth/scope-retry-limit": testTool,
  "auth/token-endpoint-auth-basic": testTool,
  "auth/token-endpoint-auth-post": testTool,
  "auth/token-endpoint-auth-none": testTool,
  "auth/pre-registration": testTool,
  "elicitation-sep1034-client-defaults": ["mcp__it__test_client_elicitation_defaults", {}],
  "auth/metadata-var3": testTool,
  "auth/basic-cimd": testTool,
  "auth/scope-from-www-authenticate": testTool,
  "auth/scope-step-up": testTool,
  "auth/2025-03-26-oauth-endpoint-fallback": testTool,
  "auth/resource-mismatch": testTool,
  "auth/offline-access-scope": testTool,
  "auth/offline-access-not-supported": testTool,
  "auth/client-credentials-jwt": testTool,
  "auth/client-credentials-basic": testTool
}

/**
 * Those that do not. The metadata in the first names an issuer that it is not found at (RFC 8414 §3.3): the official
 * client refuses it, and this one does not switch that off. The second exchanges the token of an identity provider, to
 * which this program has no login.
 */
const notPlayed = ["auth/2025-03-26-oauth-metadata-backcompat", "auth/cross-app-access-complete-flow"]

describe("the conformance suite of MCP", () => {
  it.live("every scenario of servers that applies passes, and no other does unnoticed", () =>
    Effect.gen(function* () {
      const { url } = yield* world({}, { open: true, mcpTools: tools })
      const { text } = yield* conformance(["server", "--url", `${url}/mcp`, "--output-dir", yield* temporaryDirectory])
      const rows = Array.from(
        text.matchAll(/^([✓✗]) ([\w-]+): \d+ passed/gmu),
        ([, mark, name]) => [name ?? "", mark] as const
      )
      assert.deepStrictEqual(
        rows.flatMap(([name, mark]) => (mark === "✓" ? [name] : [])),
        served,
        text
      )
      assert.sameMembers(
        rows.flatMap(([name, mark]) => (mark === "✗" ? [name] : [])),
        Object.values(notServed).flat()
      )
    })
  )

  it.live("every scenario of clients applies, or has a reason", () =>
    Effect.gen(function* () {
      const { text } = yield* conformance(["list", "--client"])
      const listed = Array.from(text.matchAll(/^ {2}- (\S+) \[/gmu), ([, name]) => name)
      assert.sameMembers(listed, [...Object.keys(clients), ...notPlayed])
    })
  )

  for (const [scenario, call] of Object.entries(clients)) {
    it.live(`the program passes "${scenario}" of clients`, () =>
      Effect.gen(function* () {
        const { url } = yield* playedModel.make({ "use the tool": [{ calls: [call] }, { text: "Done." }] })
        const command = `${process.execPath} ${join(import.meta.dirname, "mcpClient.ts")}`
        const { code, text } = yield* conformance(
          ["client", "--command", command, "--scenario", scenario, "--timeout", "120000"],
          { INTEROP_MODEL: `${url}/v1` }
        )
        assert.strictEqual(code, 0, text)
        assert.match(text, /OVERALL: PASSED/u)
      })
    )
  }
})
