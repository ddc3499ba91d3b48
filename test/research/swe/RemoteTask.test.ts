// A task on another machine, by a real ssh server of this one: the workspace goes there and comes back as a patch, and
// nothing stays.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import {
  Agent,
  Approvals,
  CommandEnvironment,
  Runtime,
  Scripted,
  SessionStore,
  TerminalTools,
  ToolRegistry
} from "../../../src/index.ts"
import { SshHost } from "../../../src/kit/entry/environments.ts"
import { SweRun, TaskFolder } from "../../../src/kit/entry/swe.ts"
import type { SweTask } from "../../../src/research/swe/SweTask.ts"
import { sshReason, sshServer } from "../../support/containerMachine.ts"
import { makeLastingDirectory } from "../../support/temporaryDirectory.ts"
import { commandsFor, instances, makeRepositories } from "./bundledTasks.ts"

const [instance] = instances.filter(({ instance_id: id }) => id === "byte-units")

const left = (): ReadonlyArray<string> => readdirSync(tmpdir()).filter((name) => /^hermes-swe-\w{8}$/.test(name))

describe("a task on another machine", () => {
  it.live.skipIf(sshReason !== undefined || process.env["HERMES_TEST_SWE"] !== "1")(
    `is solved there, and evaluated${sshReason === undefined ? "" : ` (not tested: ${sshReason})`}`,
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const server = yield* sshServer
          const root = yield* Effect.acquireRelease(
            Effect.sync(() => makeLastingDirectory("swe-remote-")),
            (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
          )
          if (instance === undefined) throw new Error("the bundled task is gone")
          const [row] = makeRepositories(root, [instance])
          const environment = SshHost.layer({
            host: "127.0.0.1",
            user: server.user,
            port: server.port,
            key: server.key,
            extraArguments: server.known,
            directory: "/",
            lifetime: Duration.minutes(1)
          })
          const layerOf = (commands: ReadonlyArray<string>) =>
            Runtime.layer({
              provider: Scripted.layer(
                commands.map((command) => Scripted.complete({ toolCalls: [{ name: "terminal", params: { command } }] }))
              ),
              environment,
              tools: [TerminalTools.toolset],
              approvals: Approvals.layerCallback(() => Effect.succeed("once" as const))
            })
          const task: SweTask = {
            id: "byte-units",
            digest: "",
            instruction: instance.problem_statement,
            source: { _tag: "Commit", repository: `${root}/bundled__byte-units`, commit: row?.base_commit ?? "" },
            prefix: "",
            image: undefined,
            setup: undefined,
            agentSeconds: undefined,
            check: {
              command: "test -f src/bytes.js && test ! -e test/bytes.test.js && test -s data/sample.bin",
              timeoutSeconds: 60,
              testPatch: undefined,
              expected: { failToPass: [], passToPass: [] },
              folder: undefined
            }
          }
          const before = left()
          const open = Effect.fnUntraced(function* (commands: ReadonlyArray<string>) {
            const services = yield* Layer.build(layerOf(commands))
            return {
              agent: Context.get(services, Agent.Agent),
              store: Context.get(services, SessionStore.SessionStore),
              registry: Context.get(services, ToolRegistry.ToolRegistry),
              environment: Context.get(yield* Layer.build(environment), CommandEnvironment.CommandEnvironment)
            }
          })
          const context = yield* Effect.context<NodeServices.NodeServices>()
          const run = (task: SweTask, commands: ReadonlyArray<string>) =>
            Effect.scoped(
              SweRun.run(task, { maxIterations: 15, approvals: "approve", setupSeconds: 60 }, () => Effect.void)
            ).pipe(
              Effect.provideService(SweRun.SweRuntime, {
                open: () =>
                  Effect.updateContext(open(commands), (given: Context.Context<import("effect/Scope").Scope>) =>
                    Context.merge(context, given)
                  )
              })
            )
          const solved = yield* run(task, ["pwd; rm test/bytes.test.js", ...commandsFor(instance).slice(1)])
          assert.deepInclude(solved.fields, { completed: true, exit: "final_output" })
          assert.deepInclude(solved.evaluated, { status: "resolved" })
          assert.include(solved.patch, "GIT binary patch")
          assert.include(solved.patch, "deleted file mode")
          assert.match(JSON.stringify(solved.fields["conversations"]), /\/hermes-swe-\w{8}\b/)
          assert.deepStrictEqual(left(), before)

          const folder = `${root}/greet`
          mkdirSync(`${folder}/tests`, { recursive: true })
          writeFileSync(
            `${folder}/tests/test.sh`,
            'test "$(cat /app/out.txt)" = hello && echo 1 > /logs/verifier/reward.txt\n'
          )
          const greet = yield* run(
            {
              ...task,
              id: "greet",
              instruction: "Write hello to /app/out.txt.",
              source: { _tag: "Empty" },
              check: {
                command: `bash ${TaskFolder.testsDirectory}/tests/test.sh`,
                timeoutSeconds: 60,
                testPatch: undefined,
                expected: { failToPass: [], passToPass: [] },
                folder: { path: folder, workdir: "/app" }
              }
            },
            [`echo hello > out.txt; echo ${SweRun.sentinel}`]
          )
          assert.deepInclude(greet.evaluated, { status: "resolved", reward: 1 })
          assert.match(
            JSON.stringify(greet.fields["conversations"]),
            /Write hello to \/[^ ]*\/hermes-swe-\w{8}\/out\.txt/
          )
          assert.include(greet.patch, "+hello")
          assert.deepStrictEqual(left(), before)
        })
      ).pipe(Effect.provide(NodeServices.layer))
  )
})
