// Who is asked before a tool call of a run, with what, and what follows from the answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Plain from "../../src/middleware/Plain.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import type { Question } from "../../src/tools/approval/ApprovalRequest.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as Toolset from "../../src/tools/Toolset.ts"

const text = { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }
const Plainly = Tool.make("plainly", text)
const Wipe = Tool.make("wipe", text).annotate(Tool.Destructive, true)
const Asks = Tool.make("asks", { ...text, needsApproval: ({ text }) => text.startsWith("big") })
const Broken = Tool.make("broken", { ...text, needsApproval: () => Effect.die("boom") })
// From plain JavaScript, where the type does not hold.
const Odd = Tool.make("odd", { ...text, needsApproval: () => undefined as unknown as boolean })
const toolkit = Toolkit.make(Plainly, Wipe, Asks, Broken, Odd)

type Call = readonly [name: string, params: Record<string, unknown>]

const scene = (options: {
  readonly calls: ReadonlyArray<Call>
  readonly answer?: string
  readonly policy?: Partial<Approvals.Policy>
  readonly hooks?: ReadonlyArray<Hook>
  readonly middleware?: ReadonlyArray<Middleware.ToolExecution | Middleware.ToolRequest | Middleware.WrapToolCall>
  /** Called with each question, before the answer. */
  readonly onQuestion?: (question: Question) => void
  readonly approvals?: Layer.Layer<Approvals.Approvals>
}) => {
  const ran: Array<string> = []
  const questions: Array<Question> = []
  const ended: Array<Record<string, unknown>> = []
  const told: Array<string> = []
  const handler = ({ text }: { readonly text: string }) => Effect.sync(() => (ran.push(text), text))
  const handlers = toolkit.toLayer({ plainly: handler, wipe: handler, asks: handler, broken: handler, odd: handler })
  const { answer } = options
  const layer = Runtime.layer({
    provider: Scripted.layer([
      Scripted.complete({ toolCalls: options.calls.map(([name, params]) => ({ name, params })) }),
      Scripted.complete("done")
    ]),
    tools: [Toolset.make("test", toolkit, handlers), TerminalTools.toolset, Delegate.toolset],
    middleware: options.middleware ?? [],
    hooks: [
      ...(options.hooks ?? []),
      Hooks.fromPlain("post_tool_call", (event) => void ended.push({ ...event })),
      Hooks.fromPlain("pre_approval_request", ({ tool_call_id }) => void told.push(`asked ${tool_call_id}`)),
      Hooks.fromPlain("post_approval_response", ({ choice }) => void told.push(`answered ${choice}`))
    ],
    approvals:
      options.approvals ??
      (answer === undefined
        ? undefined
        : Approvals.layerCallback(
            (question) => Effect.sync(() => (questions.push(question), options.onQuestion?.(question), answer)),
            options.policy
          ))
  })
  const run = Effect.provide(Agent.run({ prompt: "go" }), layer)
  return Effect.map(run, (result) => ({ result, ran, questions, ended, told }))
}

describe("approval of tool calls", () => {
  it.live("where nobody decides, what needs an approval does not run, and everything else does", () =>
    Effect.gen(function* () {
      const { ended, ran, result } = yield* scene({
        calls: [
          ["plainly", { text: "a" }],
          ["wipe", { text: "b" }],
          ["terminal", { command: "rm -rf ./nothing-here" }],
          ["terminal", { command: "printf fine" }]
        ]
      })
      assert.deepStrictEqual(ran, ["a"])
      const of = (name: string) =>
        ended.filter(({ tool_name }) => tool_name === name).map(({ error_type, status }) => [status, error_type])
      assert.deepStrictEqual(of("plainly"), [["ok", null]])
      assert.deepStrictEqual(of("wipe"), [["blocked", "approval_denied"]])
      assert.sameDeepMembers(of("terminal"), [
        ["ok", null],
        ["blocked", "approval_denied"]
      ])
      assert.strictEqual(result.exit, "text_response")
    })
  )

  it.live("an approver's yes lets it run, and hooks are told once, under the id of the call", () =>
    Effect.gen(function* () {
      const { ended, questions, ran, told } = yield* scene({ calls: [["wipe", { text: "b" }]], answer: "once" })
      assert.deepStrictEqual(ran, ["b"])
      assert.deepStrictEqual(
        questions.map(({ tool }) => tool),
        ["wipe"]
      )
      assert.deepStrictEqual(told, [`asked ${String(ended[0]?.["tool_call_id"])}`, "answered once"])
    })
  )

  it.live("an approval for the session is asked for once", () =>
    Effect.gen(function* () {
      const { questions, ran } = yield* scene({
        calls: [
          ["wipe", { text: "a" }],
          ["wipe", { text: "b" }]
        ],
        answer: "session"
      })
      assert.sameMembers(ran, ["a", "b"])
      assert.strictEqual(questions.length, 1)
    })
  )

  it.live("needsApproval decides call by call, and one that breaks asks", () =>
    Effect.gen(function* () {
      const { questions, ran } = yield* scene({
        calls: [
          ["asks", { text: "small" }],
          ["asks", { text: "big" }],
          ["broken", { text: "c" }],
          ["odd", { text: "d" }]
        ],
        answer: "deny"
      })
      assert.deepStrictEqual(ran, ["small"])
      assert.deepStrictEqual(
        questions.map(({ command }) => command),
        [`asks {"text":"big"}`, `broken {"text":"c"}`, `odd {"text":"d"}`]
      )
    })
  )

  it.live("a listener may send a call to the user", () =>
    Effect.gen(function* () {
      const hooks = [Hooks.fromPlain("pre_tool_call", () => ({ action: "approve", message: "sure?" }))]
      const denied = yield* scene({ calls: [["plainly", { text: "a" }]], hooks, answer: "deny" })
      assert.deepStrictEqual(
        [denied.ran, denied.questions.map(({ description }) => description)],
        [[], ["a plugin requests an approval for plainly: sure?"]]
      )
      const approved = yield* scene({ calls: [["plainly", { text: "a" }]], hooks, answer: "once" })
      assert.deepStrictEqual(approved.ran, ["a"])
      assert.deepStrictEqual(
        approved.questions.map(({ choices }) => choices),
        [["once", "session", "deny"]],
        "not for good"
      )
    })
  )

  it.live("arguments that a wrapper changed after the approval are approved again", () =>
    Effect.gen(function* () {
      const change = Plain.toolExecution({ name: "changes" }, (call) =>
        (call["next_call"] as (args: unknown) => unknown)({ text: "big" })
      )
      const { ended, questions, ran } = yield* scene({
        calls: [["asks", { text: "small" }]],
        middleware: [change],
        answer: "deny"
      })
      assert.deepStrictEqual([ran, questions.length], [[], 1])
      assert.deepInclude(ended[0], { status: "blocked", error_type: "approval_denied" })
    })
  )

  it.live("a command that any kind of wrapper put in the place of an approved one is asked about", () =>
    Effect.gen(function* () {
      const args = { command: "rm -rf ./nothing-here" }
      for (const change of [
        Middleware.toolExecution({ name: "inner", wrap: (next) => () => next(args) }),
        Middleware.wrapToolCall({ name: "outer", wrap: (next) => () => next(args) })
      ]) {
        const { ended, questions } = yield* scene({
          calls: [["terminal", { command: "printf fine" }]],
          middleware: [change],
          answer: "deny"
        })
        assert.deepStrictEqual(
          questions.map(({ command }) => command),
          [args.command],
          change.name
        )
        assert.deepInclude(ended[0], { status: "blocked", error_type: "approval_denied" })
      }
    })
  )

  it.live(
    "arguments that request middleware keeps and changes while the user is asked are those that were approved",
    () =>
      Effect.gen(function* () {
        const kept = { text: "harmless" }
        const { questions, ran } = yield* scene({
          calls: [["wipe", { text: "a" }]],
          middleware: [
            Middleware.toolRequest({ name: "keeps", rewrite: () => Effect.succeed(Middleware.replacePayload(kept)) })
          ],
          answer: "once",
          onQuestion: () => void (kept.text = "terrible")
        })
        assert.deepStrictEqual(
          questions.map(({ command }) => command),
          [`wipe {"text":"harmless"}`]
        )
        assert.deepStrictEqual(ran, ["harmless"])
      })
  )

  it.live("the floor holds also where an application's own approvals allow everything", () =>
    Effect.gen(function* () {
      const check = (call: Approvals.Call) =>
        Effect.succeed<Approvals.Permit>({ _tag: "Permit", call, by: "user", choice: "once" })
      const { ended } = yield* scene({
        calls: [["terminal", { command: "rm -rf /" }]],
        approvals: Layer.mock(Approvals.Approvals, { check })
      })
      assert.deepInclude(ended[0], { status: "blocked", error_type: "hardline" })
    })
  )

  it.live("arguments that a wrapper left alone are not approved twice", () =>
    Effect.gen(function* () {
      const same = Plain.toolExecution({ name: "same" }, (call) =>
        (call["next_call"] as (args: unknown) => unknown)({ ...(call["args"] as object) })
      )
      const { questions, ran } = yield* scene({ calls: [["wipe", { text: "a" }]], middleware: [same], answer: "once" })
      assert.deepStrictEqual([ran, questions.length], [["a"], 1])
    })
  )

  it.live("the floor judges the arguments that a wrapper put in the place of approved ones, under yolo too", () =>
    Effect.gen(function* () {
      const change = Plain.toolExecution({ name: "changes" }, (call) =>
        (call["next_call"] as (args: unknown) => unknown)({ command: "rm -rf /" })
      )
      const { ended } = yield* scene({
        calls: [["terminal", { command: "printf fine" }]],
        middleware: [change],
        answer: "always",
        policy: { yolo: true }
      })
      assert.deepInclude(ended[0], { status: "blocked", error_type: "hardline" })
    })
  )

  it.live("yolo asks nothing", () =>
    Effect.gen(function* () {
      const { questions, ran } = yield* scene({
        calls: [["wipe", { text: "a" }]],
        answer: "deny",
        policy: { yolo: true }
      })
      assert.deepStrictEqual([ran, questions.length], [["a"], 0])
    })
  )
})
