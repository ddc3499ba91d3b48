// `hermes mcp`, by the real program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { program } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { connected, section } from "./support/servers.ts"

const fixture = fileURLToPath(new URL("support/fixtureServer.ts", import.meta.url))

describe("hermes mcp", () => {
  it.live("adds, lists, tries and removes a server", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      keep("config.yaml", "# mine\nmodel:\n  default: x # kept\n")
      const config = () => readFileSync(join(home, "config.yaml"), "utf8")
      const added = yield* hermes([
        "mcp",
        "add",
        "mine",
        "--command",
        process.execPath,
        "--arg",
        fixture,
        "--arg",
        "good",
        "--env",
        "A_TOKEN=b=c"
      ])
      assert.strictEqual(added.code, 0, added.stderr)
      assert.include(config(), "default: x # kept")
      const listed = yield* hermes(["mcp", "list"])
      assert.include(listed.stdout, "+ mine")
      assert.notInclude(listed.stdout, "b=c")
      const tried = yield* hermes(["mcp", "test", "mine"])
      assert.include(tried.stdout, "fixture 1, protocol 2024-11-05: 9 tools")
      const again = yield* hermes(["mcp", "add", "mine", "--url", "http://localhost/mcp"])
      assert.deepStrictEqual([again.code, again.stderr.split("\n").length], [2, 2])
      assert.strictEqual((yield* hermes(["mcp", "remove", "mine"])).code, 0)
      assert.notInclude(config(), "mine:")
      assert.strictEqual((yield* hermes(["mcp", "remove", "mine"])).code, 2)
    })
  )

  it.live("says in one line what can not be added, and writes nothing", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      for (const args of [
        ["x"],
        ["x", "--command", "a", "--url", "http://b"],
        ["../x", "--command", "a"],
        ["x", "--url", "nonsense"],
        ["x", "--command", "a", "--env", "novalue"],
        ["x", "--url", "http://b", "--arg", "c"]
      ]) {
        const { code, stderr } = yield* hermes(["mcp", "add", ...args])
        assert.deepStrictEqual([code, stderr.trimEnd().split("\n").length], [2, 1], args.join(" "))
      }
      assert.isFalse(existsSync(join(home, "config.yaml")))
    })
  )

  it.live("a server that can not be reached is one line and exit 1", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "mcp_servers:\n  gone:\n    command: no-such-program-anywhere\n")
      const { code, stderr, stdout } = yield* hermes(["mcp", "test", "gone"])
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(stderr, /^Error: MCP server "gone": program.*\n$/)
    })
  )

  it.live("serves the agent and read-only tools to another program", () =>
    Effect.gen(function* () {
      const { cwd, home, put } = yield* machine
      const file = put("a.txt", "some words")
      const { call, snapshot } = yield* connected({
        h: section({
          command: process.execPath,
          args: [program, "mcp", "serve", "--provider", "offline", "--tools", "read_file"],
          cwd,
          env: { HERMES_HOME: home },
          trust: "annotations"
        })
      })
      const { get, names } = yield* snapshot
      assert.deepStrictEqual(names, ["mcp__h__hermes_ask", "mcp__h__read_file"])
      assert.strictEqual(get("mcp__h__read_file")?.facts.readonly, true)
      const { output } = yield* call("mcp__h__hermes_ask", { prompt: "Reply with exactly: well done" })
      const id = /\[session_id: (\S+)\]/.exec(String(output))?.[1]
      assert.include(String(output), "well done")
      const next = yield* call("mcp__h__hermes_ask", { prompt: "Reply with exactly: again", session_id: id })
      assert.include(String(next.output), `session_id: ${id}`)
      assert.isTrue((yield* call("mcp__h__hermes_ask", {})).isFailure)
      assert.include(String((yield* call("mcp__h__read_file", { path: file })).output), "some words")
    })
  )

  it.live("does not offer a tool that may write", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const { code, stderr } = yield* hermes(["mcp", "serve", "--tools", "write_file"])
      assert.strictEqual(code, 2)
      assert.include(stderr, "may write, so only the agent can use it")
    })
  )
})
