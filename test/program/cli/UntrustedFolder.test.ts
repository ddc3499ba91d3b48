// A folder that nobody trusted, opened by the program: nothing of it runs, and of all that could have an effect nothing
// is read. Each part leaves a canary where it is used, and is used once the folder is trusted.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, realpathSync } from "node:fs"
import { program } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"

const stands =
  spawnSync("bwrap", [
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "true"
  ]).status === 0

const touching = (name: string) =>
  `import { writeFileSync } from "node:fs"\nwriteFileSync(${JSON.stringify(name)}, "")\n`

/** A repository with everything that a folder can bring, and a user whose settings would take it. */
const hostile = Effect.gen(function* () {
  const at = yield* machine
  const canary = (name: string) => at.at(`canary-${name}`)
  at.put(".git/HEAD", "ref: refs/heads/main\n")
  at.put(
    ".hermes/config.yaml",
    `agent: { environment_hint: CANARY-SETTING }\nhooks:\n  on_session_start:\n    - command: touch ${canary("settings-hook")}\nmcp_servers:\n  theirs: { command: touch, args: [${canary("settings-mcp")}] }\n`
  )
  at.put("config.yaml", "agent: { environment_hint: CANARY-SETTING }\n")
  at.put(".mcp.json", JSON.stringify({ mcpServers: { theirs: { command: "touch", args: [canary("mcp-json")] } } }))
  at.put(".env", "HERMES_AGENT__ENVIRONMENT_HINT=CANARY-SETTING\n")
  at.put(".hermes/.env", "HERMES_AGENT__ENVIRONMENT_HINT=CANARY-SETTING\n")
  at.put(".hermes/SOUL.md", "CANARY-SOUL")
  at.put(".hermes/skills/theirs/SKILL.md", "---\nname: theirs\ndescription: CANARY-SKILL\n---\nbody\n")
  at.put(".agents/skills/others/SKILL.md", "---\nname: others\ndescription: CANARY-SKILL\n---\nbody\n")
  at.put(".hermes/agents/theirs.yaml", "type: agent\nname: theirs\nsystem_prompt: CANARY-AGENT\n")
  at.put(".hermes/plugins/mine/plugin.yaml", "name: mine\n")
  at.put(".hermes/plugins/mine/index.js", `${touching(canary("plugin"))}export const register = () => {}\n`)
  at.put(
    "node_modules/hermes-plugin-theirs/package.json",
    JSON.stringify({
      name: "hermes-plugin-theirs",
      version: "1.0.0",
      type: "module",
      main: "index.js",
      keywords: ["hermes-plugin"]
    })
  )
  at.put(
    "node_modules/hermes-plugin-theirs/index.js",
    `${touching(canary("package"))}export const register = () => {}\n`
  )
  at.put("middleware.mjs", `${touching(canary("middleware"))}export default () => ({})\n`)
  // What `npx` does: it runs what the directory has before anything else.
  at.put("server.js", `require("node:fs").writeFileSync(${JSON.stringify(canary("mcp-directory"))}, "")\n`)
  chmodSync(at.put("hook.sh", `#!/bin/sh\ntouch ${canary("hook")}\n`), 0o755)
  at.put("AGENTS.md", "CANARY-CONTEXT: text for the model")
  at.keep(
    "config.yaml",
    `plugins:
  enabled: [mine, hermes-plugin-theirs]
  packages: [hermes-plugin-theirs]
hooks:
  on_session_start:
    - command: ./hook.sh
mcp_servers:
  here: { command: ${process.execPath}, args: [-e, 'require(process.cwd() + "/server.js")'] }
  named: { command: ${process.execPath}, args: [./server.js] }
`
  )
  const env = { HERMES_ENABLE_PROJECT_PLUGINS: "1", HERMES_ACCEPT_HOOKS: "1" }
  return {
    ...at,
    run: (args: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
      at.hermes(args, { env: { ...env, ...more } })
  }
})

const canaries = [
  "settings-hook",
  "settings-mcp",
  "mcp-json",
  "plugin",
  "package",
  "middleware",
  "mcp-directory",
  "hook"
]

describe("a folder that is not trusted", () => {
  it.live("runs nothing and says nothing but its text for the model, whatever is opened in it", () =>
    Effect.gen(function* () {
      const { at, run } = yield* hostile
      const left = () => canaries.filter((name) => existsSync(at(`canary-${name}`)))
      const said: Array<string> = []
      for (const args of [
        ["-q", "Reply exactly hello"],
        ["skills", "list"],
        ["plugins", "list"],
        ["agents", "list"],
        ["mcp", "list"],
        ["hooks", "list"],
        ["doctor"],
        ["prompt", "show"]
      ]) {
        const { stderr, stdout } = yield* run(args)
        said.push(stdout, stderr)
        assert.deepStrictEqual(left(), [], args.join(" "))
      }
      const all = said.join("\n")
      assert.deepStrictEqual(Array.from(new Set(all.match(/CANARY-[A-Z]+/g))), ["CANARY-CONTEXT"])
      // Each refusal is a line with the remedy.
      for (const what of [
        "\\.hermes/plugins is not used",
        "\\.hermes/skills is not used",
        "mcp_servers\\.named: \\./server\\.js is a file of this folder",
        "hooks\\.on_session_start: \\./hook\\.sh is a file of this folder",
        "MCP servers start in an empty directory"
      ]) {
        assert.match(all, new RegExp(`${what}.*\`hermes trust add `), what)
      }
      assert.match(
        (yield* run(["-q", "hi", "--agent", "theirs"])).stderr,
        /theirs\.yaml is not used: its folder is not trusted/
      )
      assert.deepStrictEqual(left(), [])
    })
  )

  it.live("has its effects once it is trusted, for good or by the variable", () =>
    Effect.gen(function* () {
      const { cwd, at, run } = yield* hostile
      yield* run(["-q", "Reply exactly hello"], { HERMES_TRUST_FOLDER: cwd })
      assert.deepStrictEqual(
        canaries.filter((name) => existsSync(at(`canary-${name}`))),
        ["plugin", "package", "mcp-directory", "hook"]
      )
      yield* run(["trust", "add"])
      const { stdout } = yield* run(["prompt", "show"])
      assert.include(stdout, "CANARY-SKILL")
      const agents = (yield* run(["agents", "list"])).stdout
      assert.deepStrictEqual([agents.includes("theirs"), agents.includes("not trusted")], [true, false])
      assert.strictEqual(
        (yield* run(["-Q", "-q", "Reply exactly hello", "--agent", "theirs"], { HERMES_MODEL__PROVIDER: "offline" }))
          .code,
        0
      )
    })
  )

  const turns = `turns:\n  - { text: a, tool_calls: [{ name: terminal, arguments: { command: "touch written" } }] }\n  - { text: b, tool_calls: [{ name: write_file, arguments: { path: made, content: x } }] }\n  - { text: done }\n`

  it.live.skipIf(!stands)(
    "is only read by commands and file tools, unless the settings name a policy; a plain folder is written",
    () =>
      Effect.gen(function* () {
        const { at, cwd, keep, put, hermes } = yield* machine
        const go = (env: Readonly<Record<string, string>> = {}) =>
          hermes(["-Q", "-q", "go", "--script", "turns.yaml"], { env: { HERMES_TERMINAL__BACKEND: "", ...env } })
        const written = () => ["written", "made"].filter((name) => existsSync(at(name)))
        put("turns.yaml", turns)
        put(".hermes/skills/theirs/SKILL.md", "---\nname: theirs\ndescription: d\n---\nbody\n")
        const first = yield* go()
        assert.deepStrictEqual([first.code, written()], [0, []])
        assert.match(
          first.stderr,
          /^Warning: commands and file tools only read here: .*\/work\/\.hermes\/skills is not trusted\. Look at it, then run `hermes trust add .*\/work`, or set HERMES_TRUST_FOLDER for one run$/m
        )
        assert.match(
          (yield* hermes(["doctor"], { env: { HERMES_TERMINAL__BACKEND: "" } })).stdout,
          /✓ sandbox +bubblewrap, read-only, .*is not trusted/
        )
        const trusted = yield* go({ HERMES_TRUST_FOLDER: cwd })
        assert.deepStrictEqual(written(), ["written", "made"], trusted.stderr)
        assert.notInclude(trusted.stderr, "only read here")
        const other = yield* machine
        other.put("turns.yaml", turns)
        yield* other.hermes(["-Q", "-q", "go", "--script", "turns.yaml"], { env: { HERMES_TERMINAL__BACKEND: "" } })
        assert.deepStrictEqual([existsSync(other.at("written")), existsSync(other.at("made"))], [true, true])
        keep("config.yaml", "terminal: { sandbox: { policy: workspace-write } }\n")
        const set = yield* go()
        assert.notInclude(set.stderr, "only read here")
      })
  )

  it.live.skipIf(!stands)("is only read by a job that works in it, and a job beside it is not held", () =>
    Effect.gen(function* () {
      const theirs = yield* machine
      const { at, hermes, put } = yield* machine
      theirs.put(".hermes/skills/theirs/SKILL.md", "---\nname: theirs\ndescription: d\n---\nbody\n")
      put("turns.yaml", turns)
      const run = (name: string) =>
        hermes(["cron", "run", name, "--script", "turns.yaml"], { env: { HERMES_TERMINAL__BACKEND: "" } })
      yield* hermes(["cron", "create", "every 2h", "go", "--name", "there", "--workdir", theirs.cwd])
      yield* hermes(["cron", "create", "every 2h", "go", "--name", "here", "--workdir", at(".")])
      const there = yield* run("there")
      assert.deepStrictEqual(
        ["written", "made"].filter((name) => existsSync(theirs.at(name))),
        [],
        there.stderr
      )
      assert.match(there.stderr, /only read here: .*\.hermes\/skills is not trusted/)
      const here = yield* run("here")
      assert.isTrue(existsSync(at("written")), here.stderr)
    })
  )

  it.live.skipIf(launcher === undefined)("is asked about once at the terminal", () =>
    Effect.scoped(
      Effect.gen(function* () {
        if (launcher === undefined) return
        const { cwd, hermes, home, put } = yield* machine
        put(".hermes/skills/theirs/SKILL.md", "---\nname: theirs\ndescription: d\n---\nbody\n")
        const start = open(
          launcher,
          `cd ${cwd} && exec ${process.execPath} ${program} chat`,
          { HOME: realpathSync(`${home}/..`), HERMES_HOME: home, HERMES_MODEL__PROVIDER: "offline" },
          200
        )
        const first = yield* start
        yield* first.until("Trust the files of")
        assert.include(first.screen(), ".hermes/skills can name programs and instructions.")
        yield* first.type("y")
        yield* first.until("/help")
        assert.include((yield* hermes(["trust", "list"])).stdout, cwd)
        const second = yield* start
        yield* second.until("/help")
        assert.notInclude(second.screen(), "Trust the files of")
      })
    )
  )
})
