// `--safe-mode`: a run without anything that the user, a project or others added, whatever the settings say.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { protocols } from "../../support/wireModel.ts"

describe("--safe-mode", () => {
  it.live("uses neither settings, plugins, hooks and MCP servers nor the user's and the project's texts", () =>
    Effect.gen(function* () {
      const { at, hermes, home, keep, put } = yield* machine
      const bodies: Array<string> = []
      const server = yield* HttpServer.make(({ body }, response) => {
        bodies.push(body)
        // The protocol's whole answer is an object.
        HttpServer.json(response, 200, protocols.chat_completions.whole({ text: "hello" }) as object)
      })
      const traces = join(home, "traces")
      const trace = (name: string): string => `require("fs").appendFileSync(${JSON.stringify(join(traces, name))}, "x")`
      keep("traces/.keep", "")
      keep("SOUL.md", "I am Soulful.")
      keep("memories/USER.md", "likes tea\n")
      put("AGENTS.md", "Rules of the project.")
      for (const directory of ["plugins", "bundled"]) {
        keep(`${directory}/spy/plugin.yaml`, "name: spy\nkind: backend\n")
        keep(`${directory}/spy/index.cjs`, `exports.register = () => { ${trace("plugin")} }`)
      }
      keep(
        "config.yaml",
        JSON.stringify({
          plugins: { enabled: ["spy"] },
          agent: { reasoning_effort: "high" },
          display: { streaming: false },
          hooks: { on_session_start: [{ command: `${process.execPath} -e '${trace("hook")}'` }] },
          mcp_servers: { spy: { command: process.execPath, args: ["-e", trace("mcp")] } }
        })
      )
      const run = (...flags: ReadonlyArray<string>) =>
        hermes(
          [
            ...flags,
            "-Q",
            "-q",
            "hi",
            "--provider",
            "custom",
            "--base-url",
            `${server.url}/v1`,
            "-m",
            "m",
            "--accept-hooks"
          ],
          { env: { HERMES_BUNDLED_PLUGINS: join(home, "bundled"), HERMES_MODEL__STREAMING: "false" } }
        )
      const safe = yield* run("--safe-mode")
      assert.deepInclude(safe, { code: 0, stdout: "hello\n" }, safe.stderr)
      assert.deepStrictEqual(readdirSync(traces), [".keep"])
      for (const text of ["Soulful", "likes tea", "Rules of the project"]) assert.notInclude(bodies[0], text)

      const usual = yield* run()
      assert.deepInclude(usual, { code: 0, stdout: "hello\n" }, usual.stderr)
      assert.deepStrictEqual(readdirSync(traces).toSorted(), [".keep", "hook", "mcp", "plugin"])
      for (const text of ["Soulful", "likes tea", "Rules of the project"]) assert.include(bodies.at(-1), text)

      put("agent.yaml", "name: a\n")
      const refused = yield* run("--safe-mode", "--agent", "agent.yaml")
      assert.deepInclude(refused, {
        code: 2,
        stdout: "",
        stderr: "Error: --safe-mode does not use agent files: leave out --agent\n"
      })
      assert.isFalse(existsSync(at("plugin")))
    })
  )
})
