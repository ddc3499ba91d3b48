// Approvals for good as rules: which rule a question offers, that it is written beside what stands there, and what it
// covers from then on.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Config from "../../../src/base/config/Config.ts"
import * as FolderTrust from "../../../src/base/config/FolderTrust.ts"
import * as Ids from "../../../src/base/domain/Ids.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import * as ApprovalOrder from "../../../src/tools/approval/ApprovalOrder.ts"
import type { Approver } from "../../../src/tools/approval/Approver.ts"
import type { Question, Reply } from "../../../src/tools/approval/ApprovalRequest.ts"
import * as Permissions from "../../../src/tools/approval/Permissions.ts"
import { ToolContext } from "../../../src/tools/ToolContext.ts"

const scene = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.realPath(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-test-" }))
  const file = `${root}/config.yaml`
  yield* fs.makeDirectory(`${root}/work`)
  yield* fs.writeFileString(file, 'permissions:\n  # mine\n  deny: ["terminal(npm publish:*)"]\n')
  const variables = { HOME: root, HERMES_HOME: root }
  /** A program: its approvals, and the question that was asked last. */
  const program = Effect.gen(function* () {
    const last: { question: Question | undefined; reply: Reply } = { question: undefined, reply: { choice: "deny" } }
    const approver: Approver = {
      surface: "test",
      order: "all at once",
      answer: (asked) =>
        Effect.sync(() => {
          last.question = asked
          return last.reply
        })
    }
    const lost: Array<string> = []
    const approvals = ApprovalOrder.make({
      hooks: yield* Hooks.make(),
      approver,
      policy: { unknownCommands: "ask" },
      store: { add: (entries) => Effect.sync(() => void lost.push(...entries)) },
      permissions: yield* Permissions.make
    })
    const check = Effect.fnUntraced(function* (call: Approvals.Call, answer: Reply, session = "s") {
      Object.assign(last, { question: undefined, reply: answer })
      const context = {
        sessionId: Ids.SessionId.make(session),
        turnId: Ids.TurnId.make("t"),
        taskId: Ids.TaskId.make("k"),
        cwd: `${root}/work`
      }
      const decided = yield* Effect.provideService(
        approvals.check({ ...call, sessionKey: session }),
        ToolContext,
        context
      )
      return {
        by: decided._tag === "Permit" ? decided.by : decided._tag === "Refusal" ? decided.reason : "waits",
        rules: last.question?.rules,
        isAsked: last.question !== undefined
      }
    })
    return { check, lost }
  })
  const under = <A, E, R>(work: Effect.Effect<A, E, R>) =>
    work.pipe(
      Effect.provide(FolderTrust.layer.pipe(Layer.provideMerge(Config.layerAll()))),
      Effect.provideService(ProcessVariables, variables)
    )
  return { file, fs, program, root, under }
})

const line = (command: string): Approvals.Call => ({ tool: "terminal", args: { command } })
const always: Reply = { choice: "always" }
const deny: Reply = { choice: "deny" }

describe("an approval for good", () => {
  it.effect(
    "is a rule that the question names, written beside what stands in the file, and holds at once and for the next program",
    () =>
      Effect.gen(function* () {
        const { file, fs, program, root, under } = yield* scene
        const other: Approvals.Call = {
          tool: "mcp__notes__add",
          args: { text: "a" },
          concerns: [{ key: "mcp__notes__add may change or delete things", permanent: true }]
        }
        const outside = (path: string): Approvals.Call => ({
          tool: "write_file",
          args: { path },
          concerns: [
            { key: `write outside of the working tree: ${path}`, permanent: true, target: { kind: "path", text: path } }
          ]
        })
        const host: Approvals.Call = {
          tool: "web_extract",
          args: { urls: ["https://example.com/a"] },
          concerns: [
            {
              key: "request to example.com, a host that is not approved",
              permanent: true,
              target: { kind: "host", text: "example.com" }
            }
          ]
        }
        yield* under(
          Effect.gen(function* () {
            const { check, lost } = yield* program
            const branch = yield* check(line("git branch -D one"), { choice: "always", prefix: true })
            assert.deepEqual(branch.rules, {
              file,
              exact: ["terminal(git branch -D one)"],
              prefix: ["terminal(git branch:*)"]
            })
            assert.deepInclude(yield* check(line("git branch -D two && ls"), deny, "another"), {
              by: "permission",
              isAsked: false
            })
            assert.deepEqual((yield* check(line("make all"), always)).rules, {
              file,
              exact: ["terminal(make all)"],
              prefix: ["terminal(make all:*)"]
            })
            assert.deepInclude(yield* check(line("make all X=1"), deny, "another"), { isAsked: true })
            assert.deepEqual((yield* check(outside(`${root}/notes.md`), always)).rules, {
              file,
              exact: [`write_file(${root}/notes.md)`],
              prefix: undefined
            })
            assert.deepInclude(yield* check(outside(`${root}/notes.md`), deny, "another"), { isAsked: false })
            assert.deepEqual((yield* check(other, always)).rules, {
              file,
              exact: ["mcp__notes__add"],
              prefix: undefined
            })
            assert.deepInclude(yield* check({ ...other, args: { text: "b" } }, deny, "another"), {
              by: "permission",
              isAsked: false
            })
            assert.deepEqual((yield* check(host, always)).rules?.exact, ["web(example.com)"])
            assert.deepInclude(yield* check({ ...host, args: { urls: ["https://example.com/b"] } }, deny, "another"), {
              isAsked: false
            })
            // What a command reaches is lifted by the rule of the host, the command itself is not.
            const curl = yield* check(
              { ...line("curl https://example.com/c"), concerns: host.concerns },
              deny,
              "another"
            )
            assert.deepEqual([curl.isAsked, curl.rules?.exact], [true, ["terminal(curl https://example.com/c)"]])
            assert.deepEqual(lost, [])
          })
        )
        assert.strictEqual(
          yield* fs.readFileString(file),
          `permissions:\n  # mine\n  deny: ["terminal(npm publish:*)"]\n  allow:\n    - terminal(git branch:*)\n    - terminal(make all)\n    - write_file(${root}/notes.md)\n    - mcp__notes__add\n    - web(example.com)\n`
        )
        yield* under(
          Effect.gen(function* () {
            const { check } = yield* program
            assert.deepInclude(yield* check(line("git branch -D three"), deny), { by: "permission", isAsked: false })
            assert.deepInclude(yield* check(line("npm publish"), always), { by: "approval_denied", isAsked: false })
          })
        )
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("is an entry of the allow-list where no rule stands for exactly that", () =>
    Effect.gen(function* () {
      const { program, root, under } = yield* scene
      yield* under(
        Effect.gen(function* () {
          const { check, lost } = yield* program
          const quoted = 'make "a b"'
          const both = "git branch -D one; git branch -D two"
          for (const [call, entry] of [
            [line(quoted), `command: ${quoted}`],
            [line(both), `command: ${both}`],
            // Lifted by no rule: a file that something runs later.
            [
              {
                tool: "write_file",
                args: { path: `${root}/.bashrc` },
                concerns: [
                  {
                    key: "change of a file that runs when a shell starts",
                    permanent: true,
                    target: { kind: "path", text: `${root}/.bashrc` }
                  }
                ]
              },
              `path: ${root}/.bashrc`
            ]
          ] satisfies ReadonlyArray<readonly [Approvals.Call, string]>) {
            assert.deepEqual((yield* check(call, always)).rules, undefined, entry)
            assert.strictEqual(lost.at(-1), entry)
          }
        })
      )
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
