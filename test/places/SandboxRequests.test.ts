// What the sandbox does not let a command do is asked about, by the ordinary approvals: hosts, and to run outside.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawnSync } from "node:child_process"
import { existsSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import { join } from "node:path"
import { Agent, Approvals, type RunEvent, Runtime, Sandbox, Scripted, TerminalTools } from "../../src/index.ts"
import { Permissions } from "../../src/kit/entry/approvals.ts"
import { ExecuteCode } from "../../src/kit/entry/tools/code.ts"
import { bubblewrap } from "../../src/places/Bubblewrap.ts"
import { makeSeatbelt } from "../../src/places/Seatbelt.ts"
import type { ApprovalsLayer } from "../../src/program/runtime/AgentLayer.ts"
import * as InteractiveMode from "../../src/tools/approval/InteractiveMode.ts"
import type { Question } from "../../src/tools/approval/ApprovalRequest.ts"
import { sandboxExec } from "../support/sandboxExec.ts"
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

const server = Effect.acquireRelease(
  Effect.promise(
    () =>
      new Promise<Server>((resolve) => {
        const server = createServer((_, response) => response.end("REACHED"))
        server.listen(0, "127.0.0.1", () => resolve(server))
      })
  ),
  (server) => Effect.sync(() => server.close())
).pipe(
  Effect.map((server) => {
    const address = server.address()
    return typeof address === "object" && address !== null ? address.port : 0
  })
)

type Call = { readonly name: string; readonly params: Readonly<Record<string, unknown>> }

/** Runs commands and other calls one after another in one session; their results, and the questions. */
const commands = (
  home: string,
  lines: ReadonlyArray<string | Call>,
  approvals: (asked: Array<Question>) => ApprovalsLayer,
  wall = bubblewrap,
  isListed: (host: string) => boolean = () => false
) =>
  Effect.gen(function* () {
    const script = Scripted.layer([
      ...lines.map((line) =>
        Scripted.complete({
          toolCalls: [typeof line === "string" ? { name: "terminal", params: { command: line } } : line]
        })
      ),
      Scripted.complete("done")
    ])
    const environment = Sandbox.layer({
      policy: "workspace-write",
      network: { setting: "terminal.sandbox.hosts", isListed, addresses: () => Effect.succeed(["127.0.0.1"]) },
      home,
      writable: [],
      hidden: [],
      shown: [],
      hidesEnvFiles: true
    }).pipe(Layer.provide(Layer.succeed(Sandbox.Wall, wall)))
    const asked: Array<Question> = []
    const results: Array<string> = []
    const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
      Effect.sync(() => {
        for (const event of events) if (event._tag === "ToolFinished") results.push(event.output)
      })
    const runtime = Runtime.layer({
      provider: script,
      environment,
      cwd: join(home, "project"),
      approvals: approvals(asked),
      tools: [TerminalTools.toolset, ExecuteCode.toolset]
    })
    yield* Effect.provide(Agent.run({ prompt: "go", onEvent }), runtime)
    return { asked, results }
  })

const answering = (choice: string) => (asked: Array<Question>) =>
  Approvals.layerCallback((question) =>
    Effect.sync(() => {
      asked.push(question)
      return choice
    })
  )

const get = (host: string, port: number) =>
  `"${process.execPath}" -e 'fetch("http://${host}:${port}/").then(async (r) => { console.log(await r.text()); process.exitCode = r.ok ? 0 : 1 }, (e) => { console.log(e.message); process.exitCode = 1 })'`

describe("a host that is not listed", () => {
  it.live.skipIf(!stands)("is asked about by name; a yes for the session holds for the next command", () =>
    Effect.gen(function* () {
      const home = yield* project
      const port = yield* server
      const { asked, results } = yield* commands(
        home,
        [get("one.test", port), get("one.test", port), get("two.test", port)],
        answering("session")
      )
      assert.deepStrictEqual(
        results.map((text) => text.includes("REACHED")),
        [true, true, true],
        results.join("\n")
      )
      assert.deepStrictEqual(
        asked.map(({ choices, targets }) => [targets, choices.includes("always")]),
        [
          [[{ kind: "host", text: `one.test:${port}` }], true],
          [[{ kind: "host", text: `two.test:${port}` }], true]
        ]
      )
    })
  )

  it.live.skipIf(!stands)("is asked about once for all requests of a command, and anew for the next", () =>
    Effect.gen(function* () {
      const home = yield* project
      const port = yield* server
      const three = `${get("one.test", port)} && ${get("one.test", port)} && ${get("one.test", port)}`
      const { asked, results } = yield* commands(home, [three, get("one.test", port)], answering("once"))
      assert.deepStrictEqual(
        results.map((text) => text.split("REACHED").length - 1),
        [3, 1],
        results.join("\n")
      )
      assert.lengthOf(asked, 2)
    })
  )

  it.live.skipIf(!stands)("is not reached without a yes, and the model is told which it was", () =>
    Effect.gen(function* () {
      const home = yield* project
      const port = yield* server
      for (const approvals of [
        answering("deny"),
        () => Approvals.layerDeny(),
        () => Approvals.layerDeny({ yolo: true })
      ]) {
        const { asked, results } = yield* commands(home, [get("one.test", port)], approvals)
        assert.notInclude(results[0] ?? "", "REACHED")
        assert.include(
          results[0] ?? "",
          "the sandbox did not let one.test be reached. Do not work around it: tell the user what needs more, who can change terminal.sandbox.hosts."
        )
        assert.isAtMost(asked.length, 1, "nobody is asked to run it outside as well")
      }
    })
  )
})

describe("a host that is listed", () => {
  it.live.skipIf(!stands)("is reached without a question, unless a rule denies it", () =>
    Effect.gen(function* () {
      const home = yield* project
      const port = yield* server
      const listed = (host: string): boolean => host === "one.test"
      const open = yield* commands(home, [get("one.test", port)], answering("deny"), bubblewrap, listed)
      assert.include(open.results[0], "REACHED")
      assert.isEmpty(open.asked)
      const rules = Layer.effect(
        Permissions.Permissions,
        Permissions.fromSettings({ allow: [], ask: [], deny: [`web(one.test:${port})`] })
      )
      const denied = yield* commands(
        home,
        [get("one.test", port)],
        () => Layer.provide(Approvals.layerDeny(), rules),
        bubblewrap,
        listed
      )
      assert.notInclude(denied.results[0], "REACHED")
    })
  )
})

describe("a command that the sandbox stopped", () => {
  it.live.skipIf(!stands)("runs outside when that is approved: for its prefix, in this session", () =>
    Effect.gen(function* () {
      const home = yield* project
      const lines = [
        `git init ${home}/one`,
        `git init ${home}/two`,
        `touch ${home}/three`,
        `touch ${home}/three`,
        `touch ${home}/four`
      ]
      const { asked, results } = yield* commands(home, lines, answering("session"))
      assert.deepStrictEqual(
        ["one/.git", "two/.git", "three", "four"].map((name) => existsSync(join(home, name))),
        [true, true, true, true],
        results.join("\n")
      )
      assert.include(results[0] ?? "", "was approved to run again outside of it")
      assert.deepStrictEqual(
        asked.map(({ choices, targets }) => [...targets.map(({ kind, text }) => `${kind}: ${text}`), ...choices]),
        [
          ["prefix: git init", "once", "session", "deny"],
          [`command: touch ${home}/three`, "once", "session", "deny"],
          [`command: touch ${home}/four`, "once", "session", "deny"]
        ]
      )
      assert.match(
        asked[0]?.description ?? "",
        /^run outside of the sandbox, because the sandbox lets commands write below the working tree and in \/tmp only$/
      )
    })
  )

  it.live.skipIf(!stands)("stays stopped without a yes, where nobody can be asked, and where approvals are off", () =>
    Effect.gen(function* () {
      const home = yield* project
      const cases: ReadonlyArray<readonly [(asked: Array<Question>) => ApprovalsLayer, RegExp]> = [
        [answering("deny"), /the user denied this/],
        [() => Approvals.layerDeny(), /no user can be asked here/],
        [() => Approvals.layerDeny({ yolo: true }), /no user was asked to let it out of the sandbox/]
      ]
      for (const [approvals, said] of cases) {
        const { results } = yield* commands(home, [`touch ${home}/planted`], approvals)
        assert.match(results[0] ?? "", said)
        assert.isFalse(existsSync(join(home, "planted")))
      }
      const headless = Effect.provideService(
        commands(home, [`touch ${home}/planted`], answering("once")),
        InteractiveMode.InteractiveMode,
        InteractiveMode.makeUnattended("single query")
      )
      const { asked, results } = yield* headless
      assert.deepStrictEqual([asked, existsSync(join(home, "planted"))], [[], false])
      assert.match(results[0] ?? "", /no user can be asked here \(single query\)/)
    })
  )

  it.live.skipIf(!stands)("is judged whole before it leaves: what the wall had stopped is in the question", () =>
    Effect.gen(function* () {
      const home = yield* project
      const line = `head -c 9 ${home}/.aws/credentials; touch ${home}/planted`
      const { asked } = yield* commands(home, [line], answering("deny"))
      assert.strictEqual(asked.length, 1, "behind the wall it needs no question")
      assert.deepStrictEqual(
        asked[0]?.keys.map((key) => key.replace(/ (?:for|of) .*/, "")),
        ["reading", "run outside"]
      )
      assert.isFalse(existsSync(join(home, "planted")))
    })
  )

  it.live.skipIf(!stands)(
    "is asked about with the settings for which git would run a program outside, where the wall did not keep them",
    () =>
      Effect.gen(function* () {
        const home = yield* project
        const nested = join(home, "project/nested")
        markAsRepository(nested)
        writeFileSync(join(nested, ".git/config"), "[core]\n\tfsmonitor = touch planted\n")
        const call: Call = {
          name: "terminal",
          params: { command: `git status; touch ${home}/planted`, workdir: "nested" }
        }
        const { asked } = yield* commands(home, [call, `touch ${home}/planted`], answering("deny"))
        assert.deepStrictEqual(
          asked.map(({ keys }) => keys.filter((key) => key.startsWith("git"))),
          [[`git that runs a program: fsmonitor in the settings of ${nested}`], []]
        )
      })
  )

  const inBackground = (command: string): Call => ({ name: "terminal", params: { command, background: true } })
  const wait: Call = { name: "process", params: { action: "wait", session_id: "proc_" } }

  it.live.skipIf(!stands)("in the background is asked about when it is looked at, and starts again outside", () =>
    Effect.gen(function* () {
      const home = yield* project
      const arrived = `for i in $(seq 400); do [ -e ${home}/planted ] && exit 0; sleep 0.05; done; exit 1`
      const { asked, results } = yield* commands(
        home,
        [inBackground(`touch ${home}/planted`), wait, arrived, { name: "process", params: { action: "list" } }],
        answering("once")
      )
      assert.match(results[1] ?? "", /approved to run again outside of it, and runs now as proc_/)
      assert.include(results[2] ?? "", `"exit_code":0`)
      assert.deepStrictEqual(
        asked.map(({ targets }) => targets),
        [[{ kind: "command", text: `touch ${home}/planted (in ${home}/project)` }]]
      )
      assert.strictEqual(results[3]?.match(/"session_id"/g)?.length, 2)
    })
  )

  it.live.skipIf(!stands)(
    "in the background stays stopped without a yes: it is asked about once, and the model is told",
    () =>
      Effect.gen(function* () {
        const home = yield* project
        const lines = [inBackground(`touch ${home}/planted`), wait, wait]
        const denied = yield* commands(home, lines, answering("deny"))
        const headless = yield* commands(home, lines, () => Approvals.layerDeny())
        assert.lengthOf(denied.asked, 1)
        for (const {
          results: [, first = "", second = ""]
        } of [denied, headless]) {
          assert.include(first, "terminal.sandbox.write")
          assert.include(second, "terminal.sandbox.write")
        }
        assert.match(headless.results[1] ?? "", /no user can be asked here/)
        assert.isFalse(existsSync(join(home, "planted")))
      })
  )

  it.live.skipIf(!stands)(
    "as a script of execute_code runs again outside with a yes, and is explained without one",
    () =>
      Effect.gen(function* () {
        const home = yield* project
        const script: Call = {
          name: "execute_code",
          params: {
            language: "javascript",
            code: `import { writeFileSync } from "node:fs"\nwriteFileSync("${home}/planted", "")\nconsole.log("made it")`
          }
        }
        const headless = yield* commands(home, [script], () => Approvals.layerDeny())
        assert.match(headless.results[0] ?? "", /no user can be asked here.*terminal\.sandbox\.write/)
        assert.isFalse(existsSync(join(home, "planted")))
        const { asked, results } = yield* commands(home, [script], answering("once"))
        assert.lengthOf(asked, 1)
        assert.include(results[0] ?? "", "made it")
        assert.include(results[0] ?? "", "approved to run again outside of it")
        assert.isTrue(existsSync(join(home, "planted")))
      })
  )
})

describe("a command that the sandbox of macOS stopped", () => {
  it.live(
    "is asked about and runs again outside, at once, in the background and as a script; or the model is told",
    () =>
      Effect.gen(function* () {
        const home = yield* project
        const { program, starts } = yield* sandboxExec
        const wall = makeSeatbelt(program)
        // The program in the place of sandbox-exec stops nothing: the command says what the system would.
        const script = `if [ -n "$HERMES_SANDBOX" ]; then echo "touch: Operation not permitted" >&2; exit 1; fi; echo done $0`
        const code =
          "if (process.env.HERMES_SANDBOX) throw Object.assign(new Error('EPERM: operation not permitted, open'), { code: 'EPERM' })\nconsole.log('made it')"
        const lines: ReadonlyArray<string | Call> = [
          `sh -c '${script}' at-once`,
          { name: "terminal", params: { command: `sh -c '${script}' behind`, background: true } },
          { name: "process", params: { action: "wait", session_id: "proc_" } },
          { name: "execute_code", params: { language: "javascript", code } }
        ]
        const approved = yield* commands(home, lines, answering("once"), wall)
        assert.lengthOf(approved.asked, 3)
        assert.include(approved.results[0] ?? "", "done at-once")
        assert.match(approved.results[2] ?? "", /approved to run again outside of it, and runs now as proc_/)
        assert.include(approved.results[3] ?? "", "made it")
        const before = starts().length
        const headless = yield* commands(home, lines, () => Approvals.layerDeny(), wall)
        for (const at of [0, 2, 3])
          assert.match(
            headless.results[at] ?? "",
            /the sandbox lets commands write below the working tree and in \$TMPDIR only.*terminal\.sandbox\.write/s
          )
        // The trial of the wall, and one start of each command: none ran again.
        assert.strictEqual(
          starts()
            .slice(before)
            .filter(([, , ...words]) => words.join(" ").includes("HERMES_SANDBOX")).length,
          2
        )
      })
  )
})

describe("a file that a command planted", () => {
  const line = "mkdir .vscode && echo '{}' > .vscode/tasks.json"

  it.live.skipIf(!stands)("stays when that is approved, and is held from then on", () =>
    Effect.gen(function* () {
      const home = yield* project
      const { asked, results } = yield* commands(home, [line, "echo x > .vscode/tasks.json"], answering("once"))
      assert.deepStrictEqual(asked[0]?.keys, [
        `keep ${home}/project/.vscode, from which programs run something later, and which a command made`
      ])
      assert.match(results[0] ?? "", /"set_aside":"The user lets these files stay: [^"]*\.vscode\."/)
      assert.deepStrictEqual(
        asked[1]?.keys.map((key) => key.slice(0, 26)),
        ["run outside of the sandbox"],
        "a change of it is stopped at the wall"
      )
      assert.isTrue(existsSync(join(home, "project/.vscode/tasks.json")))
    })
  )

  it.live.skipIf(!stands)(
    "is renamed without a yes, and the model is told; a file tool writes it with its own question",
    () =>
      Effect.gen(function* () {
        for (const approvals of [
          answering("deny"),
          () => Approvals.layerDeny(),
          () => Approvals.layerDeny({ yolo: true })
        ]) {
          const home = yield* project
          const { results } = yield* commands(home, [line], approvals)
          assert.match(
            results[0] ?? "",
            /"set_aside":"The sandbox renamed files [^"]*project\/\.vscode \(now \.vscode\.set-aside\)\. Do not work around it/
          )
          assert.deepStrictEqual(
            ["project/.vscode", "project/.vscode.set-aside/tasks.json"].map((name) => existsSync(join(home, name))),
            [false, true]
          )
        }
      })
  )

  it.live.skipIf(!stands)("by a script and by a process in the background is set aside too", () =>
    Effect.gen(function* () {
      const home = yield* project
      const script: Call = {
        name: "execute_code",
        params: { language: "javascript", code: `import { writeFileSync } from "node:fs"; writeFileSync(".envrc", "")` }
      }
      const background: Call = { name: "terminal", params: { command: "echo x > .npmrc", background: true } }
      const { results } = yield* commands(
        home,
        [script, background, { name: "process", params: { action: "wait", session_id: "proc_" } }],
        () => Approvals.layerDeny()
      )
      assert.match(results[0] ?? "", /\.envrc \(now \.envrc\.set-aside\)/)
      assert.match(results[2] ?? "", /\.npmrc \(now \.npmrc\.set-aside\)/)
      assert.isFalse(existsSync(join(home, "project/.npmrc")))
    })
  )
})
