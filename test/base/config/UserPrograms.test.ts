// MCP servers and shell hooks behind the wall that their setting `sandbox` names, by the program; and keys in the
// environment of everything that the program starts.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, readFileSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { dirname, join } from "node:path"
import { isRelative } from "../../../src/base/config/UserPrograms.ts"
import { machine } from "../../support/hermesInProcess.ts"

const bwrap = spawnSync("bwrap", [
  "--unshare-user",
  "--unshare-net",
  "--unshare-pid",
  "--ro-bind",
  "/",
  "/",
  "--proc",
  "/proc",
  "true"
])
const stands = bwrap.status === 0

/**
 * Tries what a program may not, and says in one line what it could do: as the name of an MCP server, or as the context
 * of a hook.
 */
const probe = (outside: string, port: number) => `
import { writeFileSync } from "node:fs"
import { connect } from "node:net"
import { createInterface } from "node:readline"
const could = []
const attempt = (name, work) => { try { work(); could.push(name) } catch {} }
attempt("tree", () => writeFileSync("written-" + process.argv[2], ""))
// Where the machine of the test lies there is a directory of the sandbox's own: what counts is what is on the machine
// afterwards.
try { writeFileSync(${JSON.stringify(outside)} + "-" + process.argv[2], "") } catch {}
for (const name of Object.keys(process.env)) if (/API_KEY|SECRET|PASSWORD|_TOKEN/.test(name)) could.push(name)
await new Promise((done) => connect(${port}, "127.0.0.1").once("connect", () => { could.push("network"); done() }).once("error", done))
const report = "could: " + could.join(" ")
const say = (message) => process.stdout.write(JSON.stringify(message) + "\\n")
if (process.argv[3] === "hook") { say({ context: report }); process.exit(0) }
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line)
  if (method === "initialize") say({ jsonrpc: "2.0", id, result: { protocolVersion: "2024-11-05", capabilities: { tools: {} }, serverInfo: { name: report, version: "1" } } })
  else if (id !== undefined) say({ jsonrpc: "2.0", id, result: { tools: [] } })
})`

const listening = Effect.acquireRelease(
  Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
    const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1", () =>
      resume(Effect.succeed({ port: (server.address() as AddressInfo).port, close: () => server.close() }))
    )
  }),
  ({ close }) => Effect.sync(close)
)

const place = Effect.gen(function* () {
  const at = yield* machine
  const { port } = yield* listening
  const outside = join(dirname(at.home), "outside")
  const script = at.put("probe.mjs", probe(outside, port))
  const program = (name: string, ...more: ReadonlyArray<string>) => JSON.stringify([script, name, ...more])
  // Programs start in a folder that is trusted.
  const hermes: typeof at.hermes = (args, more = {}) =>
    at.hermes(args, { ...more, env: { HERMES_TRUST_FOLDER: at.cwd, ...more.env } })
  return { ...at, hermes, outside, script, program }
})

const live = (name: string, test: Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live.skipIf(!stands)(stands ? name : `${name} (not tested: no bubblewrap)`, () => Effect.scoped(test))

const planted = {
  OPENAI_API_KEY: "sk-planted",
  ANTHROPIC_API_KEY: "sk-planted",
  MY_SERVICE_SECRET: "planted",
  DB_PASSWORD: "planted",
  GH_TOKEN: "planted"
}

describe("an MCP server of the settings", () => {
  live(
    "runs as its user without a sandbox, and behind the wall that it is given",
    Effect.gen(function* () {
      const { at, hermes, keep, outside, program } = yield* place
      keep(
        "config.yaml",
        `mcp_servers:
  free: { command: ${process.execPath}, args: ${program("free")} }
  writer: { command: ${process.execPath}, args: ${program("writer")}, sandbox: workspace-write }
  reader: { command: ${process.execPath}, args: ${program("reader")}, sandbox: read-only }
  open: { command: ${process.execPath}, args: ${program("open")}, sandbox: { policy: read-only, network: all } }
`
      )
      const could = (name: string) =>
        Effect.map(
          hermes(["mcp", "test", name], { env: planted }),
          ({ stderr, stdout }) => /could:([^,]*)/.exec(stdout)?.[1]?.trim() ?? stderr
        )
      assert.deepStrictEqual(yield* Effect.forEach(["free", "writer", "reader", "open"], could), [
        "tree network 1",
        "tree 1",
        "1",
        "network 1"
      ])
      assert.deepStrictEqual(
        ["free", "writer", "reader", "open"].filter((name) => existsSync(at(`written-${name}`))),
        ["free", "writer"]
      )
      assert.deepStrictEqual(
        ["free", "writer", "reader", "open"].filter((name) => existsSync(`${outside}-${name}`)),
        ["free"]
      )
      const listed = (yield* hermes(["mcp", "list"])).stdout
      assert.match(listed, /free .*\(sandbox: full\)/)
      assert.match(listed, /open .*\(sandbox: read-only, network all\)/)
    })
  )

  live(
    "is started in a run as the settings say",
    Effect.gen(function* () {
      const { at, hermes, keep, outside, program } = yield* place
      keep(
        "config.yaml",
        `mcp_servers:
  writer: { command: ${process.execPath}, args: ${program("writer")}, sandbox: workspace-write }
`
      )
      assert.strictEqual((yield* hermes(["-q", "Reply exactly hello"])).code, 0)
      assert.deepStrictEqual([existsSync(at("written-writer")), existsSync(`${outside}-writer`)], [true, false])
    })
  )

  it.live("does not start where its wall is not understood", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, program } = yield* place
      keep(
        "config.yaml",
        `mcp_servers:\n  writer: { command: ${process.execPath}, args: ${program("writer")}, sandbox: { polcy: read-only } }\n`
      )
      const refused = yield* hermes(["mcp", "test", "writer"])
      assert.strictEqual(refused.code, 2)
      assert.include(refused.stderr, "mcp_servers.writer.sandbox")
      assert.isFalse(existsSync(at("written-writer")))
    }).pipe(Effect.scoped)
  )
})

describe("a shell hook", () => {
  live(
    "runs as its user without a sandbox, and behind the wall that it is given",
    Effect.gen(function* () {
      const { at, hermes, keep, outside, script } = yield* place
      const entry = (name: string, more: string) =>
        `    - { command: "${process.execPath} ${script} ${name} hook"${more} }\n`
      keep(
        "config.yaml",
        `hooks:
  pre_llm_call:
${entry("free", "")}${entry("writer", ", sandbox: workspace-write")}${entry("reader", ", sandbox: { policy: read-only }")}`
      )
      assert.strictEqual((yield* hermes(["--accept-hooks", "-q", "Reply exactly hello"], { env: planted })).code, 0)
      assert.deepStrictEqual(
        ["free", "writer", "reader"].filter((name) => existsSync(at(`written-${name}`))),
        ["free", "writer"]
      )
      assert.deepStrictEqual(
        ["free", "writer", "reader"].filter((name) => existsSync(`${outside}-${name}`)),
        ["free"]
      )
      const { stdout } = yield* hermes(["hooks", "test", "pre_llm_call"], { env: planted })
      assert.deepStrictEqual(
        Array.from(stdout.matchAll(/could: ([^"\\]*)/g), ([, could]) => could),
        ["tree network", "tree", ""]
      )
      assert.match((yield* hermes(["hooks", "list"])).stdout, /writer hook 60s sandbox workspace-write approved/)
      keep("config.yaml", `hooks:\n  pre_llm_call:\n${entry("none", ", sandbox: of-sand")}`)
      const refused = yield* hermes(["--accept-hooks", "-q", "Reply exactly hello"])
      assert.deepStrictEqual([refused.code, existsSync(at("written-none"))], [2, false])
      assert.include(
        refused.stderr,
        'expected full, workspace-write, read-only, or policy, network and hosts, got "of-sand"'
      )
    })
  )
})

describe("a word of a command line", () => {
  it("names a file of the working directory by a path, or as the script of an interpreter", () => {
    const named = (line: string) => line.split(" ").find(isRelative)
    assert.deepStrictEqual(
      [
        "./server",
        "tools/server -x",
        "npx ../x",
        "server .",
        "node server.js",
        "/usr/bin/python3.12 guard.py --strict",
        "sh run"
      ].map(named),
      ["./server", "tools/server", "../x", ".", "server.js", "guard.py", "run"]
    )
    for (const line of [
      "server --stdio",
      "npx -y @scope/server",
      "/opt/guard.sh strict",
      "node -e code",
      "python3 -m server",
      "node /opt/server.js",
      "uvx server",
      "git status"
    ]) {
      assert.isUndefined(named(line), line)
    }
  })
})

describe("commands in the text of a skill", () => {
  live(
    "run in the environment of the run's commands, with its wall and its approvals",
    Effect.gen(function* () {
      const { at, hermes, keep, outside, put } = yield* place
      keep("config.yaml", "skills: { inline_shell: true }\n")
      keep(
        "skills/probing/SKILL.md",
        `---\nname: probing\ndescription: d\n---\nSays: !\`echo $HERMES_SANDBOX; echo x > ${at("by-skill")}; echo x > ${outside}\`\nThen: !\`echo x > note\`\nAsks: !\`git push origin main\`\n`
      )
      put(
        "turns.yaml",
        "turns:\n  - { text: a, tool_calls: [{ name: skill_view, arguments: { name: probing } }] }\n  - { text: done }\n"
      )
      const { stdout } = yield* hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"], {
        env: { HERMES_TERMINAL__BACKEND: "" }
      })
      assert.include(stdout, "Says: workspace-write")
      assert.match(stdout, /Asks: \[not run: BLOCKED: this needs an approval/)
      assert.isFalse(existsSync(at("../.hermes/skills/probing/note")), "the directory of a skill is only read")
      assert.deepStrictEqual([existsSync(at("by-skill")), existsSync(outside)], [true, false])
    })
  )
})

describe("a program of the user's own", () => {
  const dump = (path: string) => `#!/bin/sh\nenv > '${path}'\nexit 1\n`
  const keysIn = (path: string) =>
    readFileSync(path, "utf8")
      .split("\n")
      .flatMap((line) => /^(\w+)=.*planted/.exec(line)?.[1] ?? [])
      .toSorted()

  it.live("git gets the tokens of forges and no other key, the editor gets none", () =>
    Effect.gen(function* () {
      const { at, hermes, put, start } = yield* machine
      // Beside the working tree: a program of the tree is not the user's.
      chmodSync(put("../bin/git", dump(at("git-saw"))), 0o755)
      chmodSync(put("bin/edit", dump(at("editor-saw"))), 0o755)
      const env = { ...planted, PATH: `${at("../bin")}:${process.env["PATH"]}`, EDITOR: at("bin/edit") }
      assert.strictEqual((yield* hermes(["plugins", "install", "https://example.invalid/plugin.git"], { env })).code, 1)
      assert.deepStrictEqual(keysIn(at("git-saw")), ["GH_TOKEN"])
      assert.notStrictEqual((yield* start(["config", "edit"], { env })).code, 0)
      assert.deepStrictEqual(keysIn(at("editor-saw")), [])
    }).pipe(Effect.scoped)
  )
})
