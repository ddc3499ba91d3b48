// A run whose tools work in a sandbox, and what the settings of the program make of one.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import * as Config from "../../src/base/config/Config.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import { Home } from "../../src/base/config/Environment.ts"
import { Settings } from "../../src/base/config/Settings.ts"
import {
  Agent,
  Approvals,
  FileTools,
  type RunEvent,
  Runtime,
  Sandbox,
  Scripted,
  TerminalTools
} from "../../src/index.ts"
import { ExecuteCode } from "../../src/kit/entry/tools/code.ts"
import { Urls } from "../../src/kit/entry/tools/web.ts"
import * as SandboxSettings from "../../src/tools/environment/SandboxSettings.ts"
import { makeLastingDirectory, markAsRepository } from "../support/temporaryDirectory.ts"

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

const project = Effect.acquireRelease(
  Effect.sync(() => {
    const home = makeLastingDirectory("sandbox-")
    markAsRepository(join(home, "project"))
    return home
  }),
  (home) => Effect.sync(() => rmSync(home, { recursive: true, force: true }))
)

describe("a run in a sandbox", () => {
  it.live.skipIf(!stands)(
    "has terminal, file tools, scripts and background processes on one machine, and says what stopped a command",
    () =>
      Effect.gen(function* () {
        const home = yield* project
        const tree = join(home, "project")
        const script = Scripted.layer([
          Scripted.complete({
            toolCalls: [{ name: "write_file", params: { path: "/tmp/data.txt", content: "from the tool\n" } }]
          }),
          Scripted.complete({ toolCalls: [{ name: "terminal", params: { command: "cat /tmp/data.txt > copy.txt" } }] }),
          Scripted.complete({ toolCalls: [{ name: "terminal", params: { command: `touch ${home}/planted` } }] }),
          Scripted.complete({
            toolCalls: [
              {
                name: "execute_code",
                params: {
                  language: "javascript",
                  code: `import { writeFileSync } from "node:fs"\nwriteFileSync("script.txt", read_file({ path: "copy.txt" }).content)\ntry { writeFileSync("${home}/planted", "") } catch (error) { console.log(error.code) }`
                }
              }
            ]
          }),
          Scripted.complete({
            toolCalls: [
              {
                name: "terminal",
                params: { command: `touch ${home}/planted; echo done > /tmp/background`, background: true }
              }
            ]
          }),
          Scripted.complete({
            toolCalls: [
              {
                name: "terminal",
                params: {
                  command:
                    "for i in $(seq 200); do [ -e /tmp/background ] && cat /tmp/background && exit; sleep 0.05; done; exit 1"
                }
              }
            ]
          }),
          Scripted.complete("done")
        ])
        const environment = Sandbox.layer({
          policy: "workspace-write",
          network: "none",
          home,
          writable: [],
          hidden: [],
          shown: [],
          hidesEnvFiles: true
        })
        const results: Array<string> = []
        const asked: Array<string> = []
        const last = (tool: string) => results.findLast((text) => text.includes(`"name":"${tool}"`)) ?? ""
        const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
          Effect.sync(() => {
            for (const event of events) if (event._tag === "ToolFinished") results.push(JSON.stringify(event))
          })
        const runtime = Runtime.layer({
          provider: script,
          environment,
          cwd: tree,
          approvals: Approvals.layerCallback((question) =>
            Effect.sync(() => {
              asked.push(JSON.stringify(question))
              return question.description.includes("outside of the sandbox") ? ("deny" as const) : ("once" as const)
            })
          ),
          tools: [FileTools.toolset, TerminalTools.toolset, ExecuteCode.toolset]
        })
        const { text } = yield* Effect.provide(Agent.run({ prompt: "go", onEvent }), runtime)
        assert.strictEqual(text, "done", results.join("\n"))
        assert.strictEqual(readFileSync(join(tree, "copy.txt"), "utf8"), "from the tool\n", results.join("\n"))
        assert.include(readFileSync(join(tree, "script.txt"), "utf8"), "from the tool")
        assert.isFalse(existsSync(join(home, "planted")))
        assert.deepStrictEqual(
          asked.filter((question) => question.includes("outside of the working tree")),
          [],
          "the wall stops it: nobody is asked before"
        )
        const stopped = results.find((text) => text.includes("sandbox_note")) ?? ""
        assert.include(stopped, "the sandbox lets commands write below the working tree and in /tmp only")
        assert.include(last("execute_code"), "EROFS")
        assert.include(last("terminal"), "done")
      })
  )
})

const mapped = (values: Readonly<Record<string, unknown>>) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const fence = Urls.make({
      resolve: (host) => Effect.succeed([host === "inside.example.com" ? "10.0.0.1" : "93.184.216.34"])
    })
    return SandboxSettings.selectSandboxOptions(
      settings,
      { environment: yield* Environment.Environment, home: yield* Home },
      fence
    )
  }).pipe(
    Effect.provide(Config.layerFromFile(values)),
    Effect.provide(
      Layer.mergeAll(Home.layerAt("/home/ada/.hermes"), Environment.Environment.layerIn({ HOME: "/home/ada" }))
    ),
    Effect.provide(NodeServices.layer)
  )

describe("terminal.sandbox", () => {
  it.effect("hides the credentials and the home directory of hermes, and is absent for the backend local", () =>
    Effect.gen(function* () {
      assert.isUndefined(yield* mapped({ terminal: { backend: "local" } }))
      assert.isUndefined(yield* mapped({ terminal: { sandbox: { policy: "full" } } }))
      const options = yield* mapped({ terminal: { sandbox: { write: ["~/build"], hide: ["/srv/private"] } } })
      assert.deepInclude(options, {
        policy: "workspace-write",
        home: "/home/ada",
        hidesEnvFiles: true,
        shown: ["/home/ada/.hermes/skills"]
      })
      assert.isObject(options?.network)
      assert.strictEqual((yield* mapped({ terminal: { sandbox: { policy: "read-only" } } }))?.network, "none")
      assert.includeMembers(
        [...(options?.hidden ?? [])],
        [
          "/home/ada/.ssh",
          "/home/ada/.aws",
          "/home/ada/.npmrc",
          "/home/ada/.mozilla",
          "/home/ada/.hermes",
          "/srv/private"
        ]
      )
      assert.deepStrictEqual(options?.writable, ["/home/ada/build"])
      assert.deepInclude(options?.caches, { directory: "/home/ada/.hermes/cache/sandbox", home: "/home/ada" })
      assert.includeMembers([...(options?.caches?.places ?? [])], [".cache", ".npm"])
      const shared = yield* mapped({ terminal: { sandbox: { write: ["~/.cache/", "~/go"] } } })
      assert.notIncludeMembers(
        [...(shared?.caches?.places ?? [])],
        [".cache", "go/pkg/mod"],
        "a cache that is named is the shared one"
      )
    })
  )

  it.effect("admits the hosts that it names, at public addresses", () =>
    Effect.gen(function* () {
      const options = yield* mapped({
        terminal: { backend: "sandbox", sandbox: { network: "hosts", hosts: ["registry.npmjs.org", "*.example.com"] } }
      })
      const network = options?.network
      if (network === undefined || typeof network === "string") return assert.fail("no hosts")
      const said = (host: string) =>
        Effect.match(network.addresses(host, 443), {
          onFailure: (reason) => reason,
          onSuccess: (addresses) => addresses.join()
        })
      assert.deepStrictEqual(
        ["registry.npmjs.org", "api.example.com", "example.com", "registry.npmjs.org.evil.net"].map(network.isListed),
        [true, true, false, false]
      )
      assert.strictEqual(yield* said("registry.npmjs.org"), "93.184.216.34")
      assert.include(yield* said("inside.example.com"), "private")
    })
  )
})
