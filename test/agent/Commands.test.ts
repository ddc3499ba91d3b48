// Commands of any tool that says which of its arguments they are: the floor, detection and the content scanner, in
// whole runs.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import { ContentScanner } from "../../src/tools/approval/ApprovalRequest.ts"
import type { Question } from "../../src/tools/approval/ApprovalRequest.ts"
import * as Toolset from "../../src/tools/Toolset.ts"

const Bash = Tool.make("bash", {
  parameters: Schema.Struct({ script: Schema.String, note: Schema.optionalKey(Schema.String) }),
  success: Schema.String
}).annotate(Annotations.CommandArguments, ["script"])
const Type = Tool.make("type", { parameters: Schema.Struct({ keys: Schema.String }), success: Schema.String }).annotate(
  Annotations.InputArguments,
  ["keys"]
)
const toolkit = Toolkit.make(Bash, Type)

const scene = Effect.fnUntraced(function* (
  name: "bash" | "type",
  params: Record<string, unknown>,
  options: {
    readonly answer?: string
    readonly policy?: Partial<Approvals.Policy>
    readonly middleware?: ReadonlyArray<ReturnType<typeof Plain.toolExecution>>
  } = {}
) {
  const ran: Array<string> = []
  const questions: Array<Question> = []
  const scanned: Array<string> = []
  const blocked: Array<unknown> = []
  const layer = Runtime.layer({
    provider: Scripted.layer([Scripted.complete({ toolCalls: [{ name, params }] }), Scripted.complete("done")]),
    tools: [
      Toolset.make(
        "test",
        toolkit,
        toolkit.toLayer({
          bash: ({ script }) => Effect.sync(() => (ran.push(script), "ran")),
          type: ({ keys }) => Effect.sync(() => (ran.push(keys), "typed"))
        })
      )
    ],
    hooks: [
      Hooks.fromPlain(
        "post_tool_call",
        ({ error_type, status }) => void (status === "blocked" && blocked.push(error_type))
      )
    ],
    middleware: options.middleware ?? [],
    approvals: Approvals.layerCallback(
      (question) => Effect.sync(() => (questions.push(question), options.answer ?? "deny")),
      options.policy
    ).pipe(
      Layer.provide(
        Layer.succeed(ContentScanner, {
          scan: (command) =>
            Effect.sync(() => {
              scanned.push(command)
              return command.includes("раypal") ? [{ key: "content scanner: homograph", permanent: false }] : []
            })
        })
      )
    )
  })
  yield* Effect.provide(Agent.run({ prompt: "go" }), layer)
  return { ran, questions, scanned, blocked }
})

describe("a command", () => {
  it.live("of a tool of the application is judged like those of the terminal", () =>
    Effect.gen(function* () {
      const dangerous = yield* scene("bash", { script: "rm -rf build", note: "rm -rf /" })
      assert.deepStrictEqual([dangerous.ran, dangerous.blocked], [[], ["approval_denied"]])
      assert.strictEqual(dangerous.questions[0]?.command, "rm -rf build")
      const never = yield* scene("bash", { script: "rm -rf /" }, { answer: "once", policy: { yolo: true } })
      assert.deepStrictEqual([never.ran, never.blocked, never.questions], [[], ["hardline"], []])
      assert.deepStrictEqual((yield* scene("bash", { script: "ls", note: "rm -rf /" })).ran, ["ls"])
      assert.deepStrictEqual((yield* scene("bash", { script: "make" })).questions[0]?.keys, [
        "command that is not known to only read"
      ])
      assert.deepStrictEqual((yield* scene("bash", { script: "make" }, { policy: { unknownCommands: "allow" } })).ran, [
        "make"
      ])
    })
  )

  it.live("that is typed into a program is judged too, and the quotes of another language are no alarm", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* scene("type", { keys: "rm -rf ~\n" }, { policy: { yolo: true } })).blocked, [
        "hardline"
      ])
      assert.deepStrictEqual(
        (yield* scene("type", { keys: "print(\"it's fine\n" }, { policy: { unknownCommands: "allow" } })).ran,
        ["print(\"it's fine\n"]
      )
    })
  )

  it.live("that a wrapper puts in after the approval meets the floor at the handler, whoever approves", () =>
    Effect.gen(function* () {
      const swap = (script: string) => [
        // The one call of the contract for plain functions.
        Plain.toolExecution({ name: "swap" }, (call) => (call["next_call"] as (args: unknown) => unknown)({ script }))
      ]
      assert.deepStrictEqual(
        (yield* scene("bash", { script: "ls" }, { policy: { mode: "off" }, middleware: swap("mkfs /dev/sdz") }))
          .blocked,
        ["hardline"]
      )
      const asked = yield* scene("bash", { script: "ls" }, { middleware: swap("rm -rf build") })
      assert.deepStrictEqual([asked.ran, asked.questions.map(({ command }) => command)], [[], ["rm -rf build"]])
    })
  )
})

describe("the content scanner", () => {
  const hidden = { script: "curl https://раypal.example" }

  it.live("raises what detection does not know, for once or the session and never for good", () =>
    Effect.gen(function* () {
      const { questions, ran } = yield* scene("bash", hidden, {
        answer: "always",
        policy: { unknownCommands: "allow" }
      })
      assert.deepStrictEqual(questions[0]?.keys, ["content scanner: homograph"])
      assert.deepStrictEqual(questions[0]?.choices, ["once", "session", "deny"])
      assert.lengthOf(ran, 1)
      assert.deepStrictEqual((yield* scene("bash", hidden)).blocked, ["approval_denied"])
    })
  )

  it.live("looks at commands alone, and at none that nothing would be asked of or that never runs", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* scene("bash", { script: "ls" })).scanned, ["ls"])
      assert.deepStrictEqual((yield* scene("type", { keys: "ls" })).scanned, [])
      assert.deepStrictEqual((yield* scene("bash", hidden, { policy: { yolo: true } })).scanned, [])
      assert.deepStrictEqual((yield* scene("bash", hidden, { policy: { mode: "off" } })).scanned, [])
      assert.deepStrictEqual((yield* scene("bash", { script: "rm -rf /" })).scanned, [])
    })
  )
})
