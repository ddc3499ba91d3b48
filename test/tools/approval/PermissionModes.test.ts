// Modes of permission: calls by mode, with and without rules, and what a child of a run may do.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as InheritedLimits from "../../../src/base/config/InheritedLimits.ts"
import * as PermissionMode from "../../../src/base/config/PermissionMode.ts"
import * as Ids from "../../../src/base/domain/Ids.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import * as ApprovalOrder from "../../../src/tools/approval/ApprovalOrder.ts"
import { makeCallbackApprover } from "../../../src/tools/approval/Approver.ts"
import { InteractiveMode, makeUnattended, variables } from "../../../src/tools/approval/InteractiveMode.ts"
import * as Permissions from "../../../src/tools/approval/Permissions.ts"
import { ToolContext } from "../../../src/tools/ToolContext.ts"

const context = {
  sessionId: Ids.SessionId.make("s"),
  turnId: Ids.TurnId.make("t"),
  taskId: Ids.TaskId.make("k"),
  cwd: "/work/app"
}

const scene = Effect.fnUntraced(function* (
  rules: Readonly<Record<"allow" | "ask" | "deny", ReadonlyArray<string>>>,
  policy: Partial<Approvals.Policy> = {}
) {
  let asked = 0
  const hooks = yield* Hooks.make()
  const approver = makeCallbackApprover(() =>
    Effect.sync(() => {
      asked++
      return "deny"
    })
  )
  const judge = { judge: () => Effect.succeed("approve" as const) }
  const approvals = ApprovalOrder.make({
    hooks,
    approver,
    judge,
    policy,
    permissions: yield* Permissions.fromSettings(rules)
  })
  const decide = Effect.fnUntraced(function* (call: Approvals.Call) {
    asked = 0
    const answer = yield* Effect.provideService(approvals.check(call), ToolContext, context)
    return answer._tag === "Permit" ? (answer.by === "judge" ? "judge" : "allow") : asked > 0 ? "ask" : "deny"
  })
  return { approvals, decide }
})

const line = (command: string): Approvals.Call => ({ tool: "terminal", args: { command } })

const write = (path: string, reason?: string): Approvals.Call => ({
  tool: "write_file",
  args: { path },
  isReadonly: false,
  concerns:
    reason === undefined ? [] : [{ key: `${reason}: ${path}`, permanent: true, target: { kind: "path", text: path } }]
})

const rules = { allow: ["terminal(make check)"], ask: ["terminal(git fetch:*)"], deny: ["terminal(git push:*)"] }

/** A call, and its decision in plan, ask, edits, auto and yolo. */
const table: ReadonlyArray<readonly [name: string, call: Approvals.Call, decisions: string]> = [
  ["a command that only reads", line("git status && ls"), "allow allow allow allow allow"],
  ["a command", line("make"), "deny ask ask judge allow"],
  ["an allowed command", line("make check"), "deny allow allow allow allow"],
  ["a command that a rule asks about", line("git fetch"), "deny ask ask judge allow"],
  ["a refused command", line("cd x && git push"), "deny deny deny deny deny"],
  ["a command that never runs", line("rm -rf /"), "deny deny deny deny deny"],
  ["reading of a file", { tool: "read_file", args: { path: "a" }, isReadonly: true }, "allow allow allow allow allow"],
  ["an edit", write("/work/app/src/a.ts"), "deny allow allow allow allow"],
  [
    "an edit of what runs later",
    write("/work/app/.vscode/tasks.json", "change of a file from which tools run commands"),
    "deny ask allow judge allow"
  ],
  [
    "an edit of git's hooks",
    write("/work/app/.git/hooks/pre-commit", "change of git hooks"),
    "deny ask ask judge allow"
  ],
  [
    "an edit of a nested repository",
    write("/work/app/lib/.git/config", "change of git configuration"),
    "deny ask ask judge allow"
  ],
  [
    "an edit of the project's rules",
    write("/work/app/.hermes/config.yaml", "change of a file from which tools run commands"),
    "deny ask ask judge allow"
  ],
  ["an edit outside", write("/srv/x", "write outside of the working tree"), "deny ask ask judge allow"],
  [
    "an edit of a start-up file outside",
    write("/home/me/.bashrc", "change of a file that runs when a shell starts"),
    "deny ask ask judge allow"
  ],
  [
    "a destructive tool",
    {
      tool: "deploy",
      args: {},
      concerns: [{ key: "may change", permanent: true, target: { kind: "tool", text: "deploy" } }]
    },
    "deny ask ask judge allow"
  ],
  ["a tool of which nothing is said", { tool: "lookup", args: {} }, "deny allow allow allow allow"],
  [
    "a tool that says that it reads",
    { tool: "mcp__a__b", args: {}, isReadonly: true },
    "allow allow allow allow allow"
  ],
  [
    "a tool that says that it writes",
    { tool: "read_file", args: {}, isReadonly: false },
    "deny allow allow allow allow"
  ],
  [
    "typing into a program",
    { tool: "process", args: { action: "write", data: "ls" }, isReadonly: false },
    "deny allow allow allow allow"
  ],
  ["a script", { tool: "execute_code", args: { code: "1" }, isReadonly: false }, "deny allow allow allow allow"],
  ["a call in a container", { ...line("make"), contained: true }, "deny allow allow allow allow"],
  ["the list of what is to do", { tool: "todo", args: {}, isReadonly: false }, "allow allow allow allow allow"],
  ["a child agent", { tool: "delegate_task", args: {}, isReadonly: false }, "allow allow allow allow allow"]
]

describe("Modes of permission", () => {
  for (const [name, call, decisions] of table) {
    it.effect(`decide about ${name}`, () =>
      Effect.gen(function* () {
        const { decide } = yield* scene(rules)
        const found = yield* Effect.forEach(PermissionMode.all, (mode) =>
          Effect.provideService(decide(call), PermissionMode.CurrentMode, mode)
        )
        assert.strictEqual(found.join(" "), decisions)
      })
    )
  }

  it.effect("hold in place of the policy, in both directions, and as the policy's own where no run has one", () =>
    Effect.gen(function* () {
      const yolo = yield* scene(rules, { yolo: true, mode: "off" })
      assert.strictEqual(
        yield* Effect.provideService(yolo.decide(line("make")), PermissionMode.CurrentMode, "plan"),
        "deny"
      )
      assert.strictEqual(
        yield* Effect.provideService(yolo.decide(line("make")), PermissionMode.CurrentMode, "ask"),
        "ask"
      )
      assert.strictEqual(yield* yolo.decide(line("make")), "allow")
      const plan = yield* scene(rules, { mode: "off", permissionMode: "plan" })
      assert.strictEqual(yield* plan.decide(line("make")), "deny")
      yield* plan.approvals.setMode("", "ask")
      assert.strictEqual(yield* plan.decide(line("make")), "ask")
    })
  )

  it.effect("of a live session hold from the next call on, where the run has none of its own", () =>
    Effect.gen(function* () {
      const { decide } = yield* scene(rules, { mode: "off" })
      let mode: PermissionMode.PermissionMode | undefined = "plan"
      const call = Effect.provideService(decide(line("make")), PermissionMode.LiveMode, () => mode)
      assert.strictEqual(yield* call, "deny")
      mode = "ask"
      assert.strictEqual(yield* call, "ask")
      mode = undefined
      assert.strictEqual(yield* call, "allow")
      mode = "yolo"
      assert.strictEqual(yield* Effect.provideService(call, PermissionMode.CurrentMode, "plan"), "deny")
    })
  )

  it.effect("permit no more than the loosest one, whichever way they were chosen", () =>
    Effect.gen(function* () {
      const within = (loosest: PermissionMode.PermissionMode) =>
        Effect.provideService(PermissionMode.LoosestMode, loosest)
      const yolo = yield* scene(rules, { yolo: true, mode: "off" })
      const call = yolo.decide(line("make"))
      assert.strictEqual(yield* within("plan")(call), "deny")
      assert.strictEqual(yield* within("ask")(call), "ask")
      assert.strictEqual(yield* within("yolo")(call), "allow")
      const chosen = Effect.provideService(call, PermissionMode.CurrentMode, "yolo")
      assert.strictEqual(yield* within("ask")(chosen), "ask")
      const strict = yield* scene(rules, { mode: "off", permissionMode: "plan" })
      assert.strictEqual(yield* within("edits")(strict.decide(line("make"))), "deny")
    })
  )

  it.effect("tell the model to present its plan", () =>
    Effect.gen(function* () {
      const { approvals } = yield* scene(rules)
      const answer = yield* Effect.provideService(approvals.check(line("make")), PermissionMode.CurrentMode, "plan")
      assert.include(answer._tag === "Refusal" ? answer.message : "", "present your plan")
    })
  )

  it.effect("are those of the parent for a child agent, also in the background", () =>
    Effect.gen(function* () {
      const { decide } = yield* scene(rules, { mode: "off" })
      const child = decide(line("make")).pipe(
        Effect.provideService(InteractiveMode, makeUnattended("child agent", "approve"))
      )
      assert.strictEqual(yield* Effect.provideService(child, PermissionMode.CurrentMode, "plan"), "deny")
      const forked = Effect.flatMap(Effect.forkDetach(child), Fiber.join)
      assert.strictEqual(yield* Effect.provideService(forked, PermissionMode.CurrentMode, "plan"), "deny")
    })
  )

  it.effect("go on in programs that a run starts, never looser than their own settings", () =>
    Effect.gen(function* () {
      const modeFor = (settings: InheritedLimits.Limits["mode"], mode: PermissionMode.PermissionMode | undefined) =>
        variables.pipe(
          Effect.provideService(InheritedLimits.Current, { ...InheritedLimits.strictest, mode: settings }),
          Effect.provideService(PermissionMode.CurrentMode, mode),
          Effect.map((given) => InheritedLimits.readLimits(given)?.mode)
        )
      assert.deepStrictEqual(
        yield* Effect.all([
          modeFor("off", undefined),
          modeFor("off", "plan"),
          modeFor("off", "auto"),
          modeFor("manual", "yolo"),
          modeFor("smart", "edits")
        ]),
        ["off", "manual", "smart", "manual", "manual"]
      )
    })
  )

  it("map to the values of approvals.mode, never to a looser one", () => {
    assert.deepStrictEqual(PermissionMode.all.map(PermissionMode.toApprovals), [
      "manual",
      "manual",
      "manual",
      "smart",
      "off"
    ])
    assert.deepStrictEqual((["manual", "smart", "off"] as const).map(PermissionMode.fromApprovals), [
      "ask",
      "auto",
      "yolo"
    ])
    assert.strictEqual(PermissionMode.fromSettings({ mode: "off", defaultMode: "plan" }), "plan")
  })
})
