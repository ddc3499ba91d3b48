// Who decides whether a call runs, in which order, and what observers are told of it.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { ConfigError } from "../../../src/base/domain/AgentError.ts"
import { CurrentTenant } from "../../../src/store/TenantScope.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Correlation from "../../../src/hooks/Correlation.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import * as ApprovalOrder from "../../../src/tools/approval/ApprovalOrder.ts"
import * as AllowList from "../../../src/tools/approval/AllowList.ts"
import { makeCallbackApprover, makePendingQueue } from "../../../src/tools/approval/Approver.ts"
import { InteractiveMode, makeUnattended } from "../../../src/tools/approval/InteractiveMode.ts"
import type { Question } from "../../../src/tools/approval/ApprovalRequest.ts"
import { hostile } from "../danger/hostile.ts"
import { unprefixed } from "./prefixLines.ts"

const dangerous = "rm -rf build"

const call = (command: string): Approvals.Call => ({ tool: "terminal", args: { command } })

const inSession =
  (id: string) =>
  <A>(effect: Effect.Effect<A>): Effect.Effect<A> =>
    Effect.provideService(effect, Correlation.Correlation, { ...Correlation.none, session_id: SessionId.make(id) })

/** Approvals whose approver answers `answers` one after another, and what was asked and told. */
const scene = Effect.fnUntraced(function* (answers: ReadonlyArray<unknown>, options: Partial<Approvals.Options> = {}) {
  const hooks = yield* Hooks.make()
  const events: Array<Readonly<Record<string, unknown>>> = []
  yield* hooks.register(
    Hooks.observer(
      { label: "recorder" },
      {
        pre_approval_request: (event) => Effect.sync(() => void events.push({ event: "pre", ...event })),
        post_approval_response: (event) => Effect.sync(() => void events.push({ event: "post", ...event }))
      }
    )
  )
  const questions: Array<Question> = []
  const approver = makeCallbackApprover((question) =>
    Effect.suspend(() => {
      const answer = answers[questions.length]
      questions.push(question)
      return answer === "silence" ? Effect.never : Effect.succeed(answer)
    })
  )
  const approvals = ApprovalOrder.make({ hooks, approver, ...options })
  const check = (command: string, session = "s1") => inSession(session)(approvals.check(call(command)))
  const told = () =>
    events.map(({ event, choice }) => (choice === undefined ? event : `${String(event)} ${String(choice)}`))
  return { approvals, check, questions, events, told }
})

const blocked = (result: Approvals.Permit | Approvals.Refusal | Approvals.SuspendedApproval) =>
  result._tag === "Refusal" ? result.reason : result._tag === "Suspended" ? "waits" : result.by

describe("Approvals", () => {
  it.effect("asks nothing about what is not dangerous", () =>
    Effect.gen(function* () {
      const { check, questions, told } = yield* scene([])
      assert.strictEqual(blocked(yield* check("ls -la")), "nothing found")
      assert.deepStrictEqual([questions, told()], [[], []])
    })
  )

  it.effect("keeps the floor against yolo, off, allow-list and approval", () =>
    Effect.gen(function* () {
      for (const policy of [{ yolo: true }, { mode: "off" as const }, { allow: ["*"] }, {}]) {
        const { check, questions } = yield* scene(["always"], { policy })
        assert.strictEqual(blocked(yield* check("rm -rf /")), "hardline")
        assert.strictEqual(blocked(yield* check("echo 'unclosed")), "hardline")
        assert.lengthOf(questions, 0)
      }
    })
  )

  it.effect("keeps the operator's globs against yolo, for every command of a line", () =>
    Effect.gen(function* () {
      const { check } = yield* scene([], { policy: { yolo: true, deny: ["git push*"] } })
      assert.strictEqual(blocked(yield* check("git push origin main")), "approval_denied")
      assert.strictEqual(blocked(yield* check("cd x && GIT PUSH")), "approval_denied")
      assert.strictEqual(blocked(yield* check("sh -c 'git push'")), "approval_denied")
      assert.strictEqual(blocked(yield* check("git log")), "nothing found")
    })
  )

  it.effect("runs dangerous commands under yolo, for all or for one session", () =>
    Effect.gen(function* () {
      const { approvals, check } = yield* scene(["deny"])
      yield* approvals.setYolo("s1", true)
      assert.strictEqual(blocked(yield* check(dangerous)), "yolo")
      assert.strictEqual(blocked(yield* check(dangerous, "s2")), "approval_denied")
    })
  )

  it.effect("allows a line only when every command of it is on the list", () =>
    Effect.gen(function* () {
      const { check } = yield* scene(["deny", "deny"], { policy: { allow: ["rm -rf build"] } })
      assert.strictEqual(blocked(yield* check(dangerous)), "allow-list")
      assert.strictEqual(blocked(yield* check("rm -rf build; rm -rf src")), "approval_denied")
    })
  )

  it.effect("stores nothing for the other tenants in the work for a tenant", () =>
    Effect.gen(function* () {
      const kept: Array<ReadonlyArray<string>> = []
      const store = { add: (keys: ReadonlyArray<string>) => Effect.sync(() => void kept.push(keys)) }
      const { check, questions } = yield* scene(["always", "deny", "deny"], { store })
      const checkAs = (tenant: string | undefined, session: string) =>
        Effect.provideService(check(dangerous, session), CurrentTenant, tenant)
      assert.strictEqual(blocked(yield* checkAs("acme", "s1")), "user")
      assert.strictEqual(blocked(yield* checkAs("acme", "s1")), "remembered")
      assert.strictEqual(blocked(yield* checkAs("zeta", "s2")), "approval_denied")
      assert.strictEqual(blocked(yield* checkAs(undefined, "s3")), "approval_denied")
      assert.deepStrictEqual(kept, [])
      assert.deepStrictEqual(questions[0]?.choices, ["once", "session", "deny"])
    })
  )

  it.effect("remembers nothing, the session, or everything, by the choice", () =>
    Effect.gen(function* () {
      const kept: Array<ReadonlyArray<string>> = []
      const store = { add: (keys: ReadonlyArray<string>) => Effect.sync(() => void kept.push(keys)) }
      const { check, questions } = yield* scene(["once", "session", "always"], { store })
      yield* check(dangerous)
      yield* check(dangerous)
      assert.lengthOf(questions, 2)
      assert.strictEqual(blocked(yield* check(dangerous)), "remembered")
      yield* check(dangerous, "s2")
      assert.lengthOf(questions, 3)
      assert.strictEqual(blocked(yield* check(dangerous, "s3")), "remembered")
      assert.deepStrictEqual(kept, [["command: rm -rf build"]])
    })
  )

  it.effect("holds for one command, never for a kind of danger", () =>
    Effect.gen(function* () {
      const { check, questions } = yield* scene(["session", "deny", "deny", "deny", "session", "deny"])
      assert.strictEqual(blocked(yield* check("rm -r a")), "user")
      assert.strictEqual(blocked(yield* check("rm -r a")), "remembered")
      for (const other of ["rm -r b", "rm -r a b", "rm -r A"])
        assert.strictEqual(blocked(yield* check(other)), "approval_denied", other)
      assert.strictEqual(blocked(yield* check("git push --force")), "user")
      assert.strictEqual(blocked(yield* check("git push --force origin main")), "approval_denied")
      assert.lengthOf(questions, 6)
      assert.deepStrictEqual(questions[0]?.targets, [{ kind: "command", text: "rm -r a" }])
      assert.deepStrictEqual(questions[0]?.keys, ["recursive delete"])
    })
  )

  it.effect("holds for commands with the same prefix where that was granted: single ones, in this session", () =>
    Effect.gen(function* () {
      const prefix = { choice: "session", prefix: true }
      const { check, questions } = yield* scene([prefix, ...unprefixed.map(() => "deny"), "deny", "deny"])
      assert.strictEqual(blocked(yield* check("git push --force")), "user")
      assert.deepStrictEqual(questions[0]?.prefix, { kind: "prefix", text: "git push" })
      assert.strictEqual(blocked(yield* check("git push --force origin main")), "remembered")
      assert.strictEqual(blocked(yield* check("git push origin --delete x")), "remembered")
      for (const other of [
        "git push --force && git push --force",
        "git push --force > out",
        "git push --force $(id)",
        "git -C /x push --force",
        "GIT_SSH=id git push --force"
      ]) {
        assert.strictEqual(blocked(yield* check(other)), "approval_denied", other)
      }
      for (const line of unprefixed) assert.notStrictEqual(blocked(yield* check(line)), "remembered", line.slice(0, 80))
      assert.strictEqual(blocked(yield* check("git branch -D x")), "approval_denied")
      assert.strictEqual(blocked(yield* check("git push --force", "s2")), "approval_denied")
    })
  )

  it.effect(
    "keeps a prefix for good as a glob that it reads again, and offers none where it would say too little",
    () =>
      Effect.gen(function* () {
        const kept: Array<string> = []
        const store = { add: (entries: ReadonlyArray<string>) => Effect.sync(() => void kept.push(...entries)) }
        const { approvals, check, questions } = yield* scene(
          [{ choice: "always", prefix: true }, "deny", "deny", { choice: "session", prefix: true }, "deny"],
          { store }
        )
        yield* check("git push --force")
        assert.deepStrictEqual(kept, ["git push *"])
        assert.strictEqual(blocked(yield* check("git push -f", "s2")), "remembered")
        const restarted = yield* scene([], { policy: { allow: kept } })
        assert.strictEqual(blocked(yield* restarted.check("git push --force")), "allow-list")
        assert.strictEqual(blocked(yield* restarted.check("git push --force; git push --force")), "approval_timeout")
        assert.strictEqual(blocked(yield* restarted.check("git push --force > out")), "approval_timeout")
        const elsewhere = {
          ...call("git push --force"),
          concerns: [{ key: "write outside of the working tree: /opt/x", permanent: true }]
        }
        assert.strictEqual(blocked(yield* restarted.approvals.check(elsewhere)), "approval_timeout")
        yield* approvals.check({
          ...call("git branch -D x"),
          concerns: [{ key: "write outside of the working tree: /opt/x", permanent: true }]
        })
        yield* check("rm -rf build")
        assert.deepStrictEqual(
          questions.map(({ prefix }) => prefix?.text),
          ["git push", undefined, undefined]
        )
        // What was not offered is not granted: the answer holds for the command alone.
        assert.strictEqual(blocked(yield* check("rm -rf a")), "user")
        assert.strictEqual(blocked(yield* check("rm -rf a")), "remembered")
        assert.strictEqual(blocked(yield* check("rm -rf b")), "approval_denied")
      })
  )

  it.effect(
    "a prefix holds for no danger that comes from elsewhere in the command, unless an operator wrote it for such a program",
    () =>
      Effect.gen(function* () {
        const lines = ["git clone -c core.fsmonitor=./x https://example.com/r", "git commit --author 'sk' -m \u202e"]
        const { check, questions } = yield* scene(
          lines.flatMap(() => [{ choice: "session", prefix: true }, "deny"]),
          { policy: { allow: ["git clone *", "git commit *", "python3 *"] } }
        )
        for (const line of lines) {
          assert.strictEqual(blocked(yield* check(line)), "user", line)
          assert.isUndefined(questions.at(-1)?.prefix, line)
          assert.strictEqual(blocked(yield* check(`${line} --quiet`)), "approval_denied", line)
        }
        assert.strictEqual(blocked(yield* check("python3 -c 'print(1)'")), "allow-list")
      })
  )

  it.effect("keeps the floor against every prefix", () =>
    Effect.gen(function* () {
      const allow = [
        "rm *",
        "dd *",
        "git *",
        "git push *",
        "mkfs.ext4 *",
        "shutdown *",
        "systemctl *",
        "kill *",
        "sudo *",
        "bash *",
        "find *",
        "chmod *"
      ]
      const { approvals, check } = yield* scene([], { policy: { allow } })
      for (const [line, , gravity] of hostile) {
        if (gravity === "floor") assert.strictEqual(blocked(yield* check(line)), "hardline", line)
      }
      assert.strictEqual(blocked(yield* approvals.check(call("git push; rm -rf /"))), "hardline")
    })
  )

  it.effect(
    "a glob of an operator allows no file that is read or written, no variable that is set and no program of another place",
    () =>
      Effect.gen(function* () {
        const { check } = yield* scene([], { policy: { allow: ["git push*", "rm -rf*"] } })
        for (const line of ["git push --force", "git push --force && rm -rf build", "git push --force 2>/dev/null"]) {
          assert.strictEqual(blocked(yield* check(line)), "allow-list", line)
        }
        for (const line of [
          "git push --force > x",
          "GIT_SSH_COMMAND=x git push --force",
          "./git push --force",
          "git push --force < x",
          "rm -rf build >> x"
        ]) {
          assert.strictEqual(blocked(yield* check(line)), "approval_timeout", line)
        }
      })
  )

  it.effect(
    "holds for one directory, for one call of a tool with its arguments, and for the reason that was shown",
    () =>
      Effect.gen(function* () {
        const { approvals } = yield* scene(["session", "deny", "session", "deny", "deny"])
        const check = (tool: string, args: Record<string, unknown>, ...keys: ReadonlyArray<string>) =>
          Effect.map(approvals.check({ tool, args, concerns: keys.map((key) => ({ key, permanent: true })) }), blocked)
        assert.strictEqual(yield* check("terminal", { command: "rm -r a", workdir: "/x" }), "user")
        assert.strictEqual(yield* check("terminal", { command: "rm -r a", workdir: "/y" }), "approval_denied")
        assert.strictEqual(yield* check("drop", { table: "a" }, "drop may change or delete things"), "user")
        assert.strictEqual(yield* check("drop", { table: "a" }, "drop may change or delete things"), "remembered")
        assert.strictEqual(yield* check("drop", { table: "b" }, "drop may change or delete things"), "approval_denied")
        assert.strictEqual(yield* check("drop", { table: "a" }, "scanner: odd"), "approval_denied")
      })
  )

  it.effect("kept for good it is the command as it stands: its stars are letters, and no secret is written down", () =>
    Effect.gen(function* () {
      const { check } = yield* scene(["deny", "deny", "deny"], { policy: { allow: ["command: rm -r build/*"] } })
      assert.strictEqual(blocked(yield* check("rm -r build/*")), "remembered")
      for (const other of ["rm -r build/x", "rm -r build/x src", "RM -r build/*"])
        assert.strictEqual(blocked(yield* check(other)), "approval_denied", other)
      const secret = yield* scene(["always"])
      yield* secret.check(`rm -r a; echo sk-${"a1B2".repeat(10)}`)
      assert.deepStrictEqual(secret.questions[0]?.choices, ["once", "session", "deny"])
    })
  )

  it("drops entries of the list that name a kind of danger, and says so once", () => {
    const list = AllowList.parse([
      "recursive delete",
      "publish asks for an approval",
      "change of system configuration",
      "git push*",
      "kill *",
      "command: x"
    ])
    assert.deepStrictEqual(list.dropped, [
      "recursive delete",
      "publish asks for an approval",
      "change of system configuration"
    ])
    assert.deepStrictEqual(list.globs, ["git push*", "kill *"])
    assert.match(AllowList.renderNotice(list) ?? "", /^command_allowlist: "recursive delete", .* are ignored\. /)
    assert.isUndefined(AllowList.renderNotice(AllowList.parse(["git push*", "command: recursive delete"])))
  })

  it.effect("lets an approval hold for the process when it can not be kept", () =>
    Effect.gen(function* () {
      const store = { add: () => Effect.fail(new ConfigError({ path: "command_allowlist", message: "no" })) }
      const { check, questions } = yield* scene(["always"], { store })
      yield* check(dangerous)
      assert.strictEqual(blocked(yield* check(dangerous, "s2")), "remembered")
      assert.lengthOf(questions, 1)
    })
  )

  it.effect("denies what is answered with an unknown word, or with a failure", () =>
    Effect.gen(function* () {
      const { check } = yield* scene(["maybe"])
      assert.strictEqual(blocked(yield* check(dangerous)), "approval_denied")
      const failing = yield* scene([], { approver: makeCallbackApprover(() => Effect.fail("no line")) })
      assert.strictEqual(blocked(yield* failing.check(dangerous)), "approval_denied")
      const dying = yield* scene([], { approver: makeCallbackApprover(() => Effect.die("bug")) })
      assert.strictEqual(blocked(yield* dying.check(dangerous)), "approval_denied")
    })
  )

  it.effect("hands the reason of a denial to the model", () =>
    Effect.gen(function* () {
      const { check } = yield* scene([{ choice: "deny", reason: "keep the cache" }])
      const result = yield* check(dangerous)
      assert.include(result._tag === "Refusal" ? result.message : "", "keep the cache")
      assert.include(result._tag === "Refusal" ? result.message : "", "Do not retry")
    })
  )

  it.effect("takes silence for deny", () =>
    Effect.gen(function* () {
      const { check, told } = yield* scene(["silence", null])
      const fiber = yield* Effect.forkChild(check(dangerous))
      yield* TestClock.adjust("61 seconds")
      assert.strictEqual(blocked(yield* Fiber.join(fiber)), "approval_timeout")
      assert.strictEqual(blocked(yield* check(dangerous)), "approval_timeout")
      assert.deepStrictEqual(told(), ["pre", "post timeout", "pre", "post timeout"])
    })
  )

  it.effect("closes the request of an interrupted run", () =>
    Effect.gen(function* () {
      const { check, told } = yield* scene(["silence"])
      const fiber = yield* Effect.forkChild(check(dangerous), { startImmediately: true })
      yield* Effect.yieldNow
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(told(), ["pre", "post timeout"])
    })
  )

  it.effect("denies without a question where nobody is", () =>
    Effect.gen(function* () {
      const { approvals, check, told, events } = yield* scene(["once"], { approver: undefined })
      const alone = yield* check(dangerous)
      assert.strictEqual(blocked(alone), "approval_denied")
      const child = yield* approvals
        .check(call(dangerous))
        .pipe(Effect.provideService(InteractiveMode, makeUnattended("child agent")))
      assert.strictEqual(blocked(child), "approval_denied")
      assert.deepStrictEqual(told(), ["pre", "post deny", "pre", "post deny"])
      assert.strictEqual(events[2]?.["surface"], "child agent")
    })
  )

  it.effect("never prompts in a child, and approves there only when it was told to", () =>
    Effect.gen(function* () {
      const { approvals, questions } = yield* scene(["always"])
      const denied = yield* Effect.provideService(
        approvals.check(call(dangerous)),
        InteractiveMode,
        makeUnattended("child agent")
      )
      const allowed = yield* Effect.provideService(
        approvals.check(call(dangerous)),
        InteractiveMode,
        makeUnattended("child agent", "approve")
      )
      assert.deepStrictEqual([blocked(denied), blocked(allowed)], ["approval_denied", "unattended"])
      assert.lengthOf(questions, 0)
    })
  )

  it.effect("asks about concerns that are not in the text, and offers no approval for good for some", () =>
    Effect.gen(function* () {
      const kept: Array<unknown> = []
      const store = { add: (keys: ReadonlyArray<string>) => Effect.sync(() => void kept.push(keys)) }
      const { approvals, questions } = yield* scene(["always"], { store })
      const finding: Approvals.Call = {
        ...call("curl https://exаmple.com"),
        concerns: [{ key: "scanner: homograph", permanent: false }]
      }
      const result = yield* inSession("s1")(approvals.check(finding))
      assert.strictEqual(result._tag === "Permit" ? result.choice : undefined, "session")
      assert.notInclude(questions[0]?.choices ?? [], "always")
      assert.deepStrictEqual(kept, [])
    })
  )

  it.effect("keeps a denial by glob for tools too, by their name or their arguments", () =>
    Effect.gen(function* () {
      const { approvals } = yield* scene([], { policy: { deny: ["mcp_mail_*", "*secret.txt*", "publish"] } })
      const tool = (name: string, args: Record<string, unknown>) =>
        Effect.map(approvals.check({ tool: name, args }), blocked)
      assert.strictEqual(yield* tool("mcp_mail_send", {}), "approval_denied")
      assert.strictEqual(yield* tool("read_file", { path: "a/secret.txt" }), "approval_denied")
      assert.strictEqual(yield* tool("publish", { version: 2 }), "approval_denied")
      assert.strictEqual(yield* tool("read_file", { path: "a/public.txt" }), "nothing found")
    })
  )

  it.effect("judges a command where the call puts it", () =>
    Effect.gen(function* () {
      const { approvals } = yield* scene(["deny", "deny", "deny", "deny"])
      const at = (workdir: string, command: string) =>
        Effect.map(approvals.check({ tool: "terminal", args: { command, workdir } }), blocked)
      assert.strictEqual(yield* at("sub dir's", "ls -la"), "nothing found")
      assert.strictEqual(yield* at("elsewhere", "git show"), "approval_denied")
      assert.strictEqual(yield* at("~/.aws", "cat credentials"), "approval_denied")
      assert.strictEqual(yield* at("/", "rm -rf *"), "hardline")
    })
  )

  it.effect("judges what is typed into a process, where a lone quote is only a word", () =>
    Effect.gen(function* () {
      const { approvals, questions } = yield* scene(["deny", "deny", "deny"], { policy: { unknownCommands: "allow" } })
      const typed = (data: string) =>
        Effect.map(approvals.check({ tool: "process", args: { action: "write", data } }), blocked)
      assert.strictEqual(yield* typed("rm -rf build\n"), "approval_denied")
      assert.strictEqual(yield* typed("rm -rf /\n"), "hardline")
      assert.strictEqual(yield* typed("it's fine\n"), "nothing found")
      assert.lengthOf(questions, 1)
      const strict = yield* scene(["deny", "deny"])
      const check = (data: string, isConfined: boolean) =>
        Effect.map(strict.approvals.check({ tool: "process", args: { action: "write", data }, isConfined }), blocked)
      assert.strictEqual(yield* check("f src\n", false), "approval_denied")
      assert.strictEqual(yield* check("f src\n", true), "nothing found")
    })
  )

  it.effect("reads an answer in any case and with blanks around it", () =>
    Effect.gen(function* () {
      const { check } = yield* scene([" Session\n"])
      assert.strictEqual(blocked(yield* check(dangerous)), "user")
      assert.strictEqual(blocked(yield* check(dangerous)), "remembered")
    })
  )

  it.effect("shows all of a long command, and offers nothing for good when one concern forbids it", () =>
    Effect.gen(function* () {
      const { approvals, questions } = yield* scene(["deny"])
      const long = call(`rm -rf build ${"x".repeat(5_000)}`)
      yield* approvals.check({ ...long, concerns: [{ key: "scanner: odd", permanent: false }] })
      assert.strictEqual(questions[0]?.command, `rm -rf build ${"x".repeat(5_000)}`)
      assert.deepStrictEqual(questions[0]?.keys, ["recursive delete", "scanner: odd"])
      assert.notInclude(questions[0]?.choices ?? [], "always")
    })
  )

  it.effect("knows what was approved for good before this process, and tools that are on the list", () =>
    Effect.gen(function* () {
      const { approvals, check, questions } = yield* scene(["deny"], {
        policy: { allow: ["command: rm -rf build", "publish"] }
      })
      assert.strictEqual(blocked(yield* check(dangerous)), "remembered")
      const concerns = [{ key: "publish may change or delete things", permanent: true }]
      assert.strictEqual(blocked(yield* approvals.check({ tool: "publish", args: {}, concerns })), "allow-list")
      assert.strictEqual(blocked(yield* approvals.check({ tool: "unpublish", args: {}, concerns })), "approval_denied")
      assert.lengthOf(questions, 1)
    })
  )

  it.effect("asks nothing inside a container, not even about the floor of the host", () =>
    Effect.gen(function* () {
      const { approvals, questions } = yield* scene(["deny"], { policy: { deny: ["rm*"] } })
      assert.strictEqual(blocked(yield* approvals.check({ ...call("rm -rf /"), contained: true })), "contained")
      assert.lengthOf(questions, 0)
    })
  )

  it.effect("has a mode for each session, and forgets a session altogether", () =>
    Effect.gen(function* () {
      const { approvals, check, questions } = yield* scene(["session", "deny", "deny", "deny", "deny"])
      yield* approvals.setMode("s1", "off")
      assert.strictEqual(blocked(yield* check(dangerous)), "off")
      yield* approvals.setMode("s1", "manual")
      assert.strictEqual(blocked(yield* check(dangerous)), "user")
      assert.strictEqual(blocked(yield* check(dangerous)), "remembered")
      yield* approvals.forget("s1")
      assert.strictEqual(blocked(yield* check(dangerous)), "approval_denied")
      yield* approvals.setYolo("s1", true)
      yield* approvals.forget("s1")
      assert.strictEqual(blocked(yield* check(dangerous)), "approval_denied")
      yield* approvals.setMode("s1", "off")
      yield* approvals.forget("s1")
      assert.strictEqual(blocked(yield* check(dangerous)), "approval_denied")
      yield* approvals.setYolo("s1", true)
      yield* approvals.setYolo("s1", false)
      assert.strictEqual(blocked(yield* check(dangerous)), "approval_denied")
      assert.lengthOf(questions, 5)
    })
  )

  it.effect("remembers under the key of whoever asks, where it is not the session", () =>
    Effect.gen(function* () {
      const { approvals, questions, events } = yield* scene(["session", "deny"])
      const keyed = (sessionKey: string) => inSession("s1")(approvals.check({ ...call(dangerous), sessionKey }))
      assert.strictEqual(blocked(yield* keyed("chat-7")), "user")
      assert.strictEqual(blocked(yield* keyed("chat-7")), "remembered")
      assert.strictEqual(blocked(yield* keyed("chat-8")), "approval_denied")
      assert.lengthOf(questions, 2)
      assert.deepInclude(events[0], { session_id: "s1", session_key: "chat-7" })
    })
  )

  it.effect("asks about what is no call, and counts memory, mode and yolo there too", () =>
    Effect.gen(function* () {
      const { approvals, questions } = yield* scene([{ choice: "deny", reason: "not now" }, "session"])
      const request = {
        tool: "memory",
        command: "remember this",
        concerns: [{ key: "looks like an instruction", permanent: false }]
      }
      const ask = inSession("s1")(approvals.request(request))
      assert.deepStrictEqual(yield* ask, { outcome: "deny", by: "user", reason: "not now" })
      assert.strictEqual((yield* ask).outcome, "session")
      assert.strictEqual((yield* ask).outcome, "session")
      assert.lengthOf(questions, 2)
      yield* approvals.setYolo("s2", true)
      assert.deepStrictEqual(yield* inSession("s2")(approvals.request(request)), { outcome: "once", by: "yolo" })
      yield* approvals.setMode("s3", "off")
      assert.deepStrictEqual(yield* inSession("s3")(approvals.request(request)), { outcome: "once", by: "off" })
      assert.lengthOf(questions, 2)
    })
  )

  it.effect(
    "asks a person where the mode is smart and there is no model, and not the model where the mode is manual",
    () =>
      Effect.gen(function* () {
        const smart = yield* scene(["deny"], { policy: { mode: "smart" } })
        assert.strictEqual(blocked(yield* smart.check(dangerous)), "approval_denied")
        assert.lengthOf(smart.questions, 1)
        const manual = yield* scene(["deny"], { judge: { judge: () => Effect.succeed("approve" as const) } })
        assert.strictEqual(blocked(yield* manual.check(dangerous)), "approval_denied")
        assert.deepStrictEqual([smart.events[0]?.["surface"], manual.events[0]?.["surface"]], ["callback", "callback"])
      })
  )

  it.effect("never lets a model judge where nobody is there", () =>
    Effect.gen(function* () {
      const { approvals, events } = yield* scene([], {
        policy: { mode: "smart" },
        judge: { judge: () => Effect.succeed("approve" as const) }
      })
      const result = yield* Effect.provideService(
        approvals.check(call(dangerous)),
        InteractiveMode,
        makeUnattended("cron")
      )
      assert.strictEqual(blocked(result), "approval_denied")
      assert.strictEqual(events[0]?.["surface"], "cron")
    })
  )

  it.effect("counts denials of the judge in a row only", () =>
    Effect.gen(function* () {
      const rulings = ["deny", "deny", "approve", "deny"] as const
      let at = 0
      const judge = { judge: () => Effect.sync(() => rulings[at++] ?? "escalate") }
      const { approvals, check } = yield* scene([], { policy: { mode: "smart" }, judge })
      const results = yield* Effect.forEach(rulings, () => check(dangerous))
      yield* approvals.forget("s1")
      at = 0
      results.push(yield* check(dangerous), yield* check(dangerous))
      yield* approvals.forget("s1")
      at = 0
      results.push(yield* check(dangerous))
      assert.isFalse(results.some((result) => result._tag === "Refusal" && result.message.includes("STOP")))
    })
  )

  it.effect("lets the questions of two sessions stand side by side at a terminal", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      let shown = 0
      const approvals = ApprovalOrder.make({
        hooks,
        approver: {
          surface: "cli",
          order: "one at a time",
          answer: () =>
            Effect.andThen(
              Effect.sync(() => void shown++),
              Effect.never
            )
        }
      })
      yield* Effect.forEach(["s1", "s2"], (id) => Effect.forkChild(inSession(id)(approvals.check(call(dangerous)))))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(shown, 2)
    })
  )

  it.effect("judges by a model: once only, and stops a model that goes on", () =>
    Effect.gen(function* () {
      const rulings = ["approve", "deny", "deny", "deny", "escalate"] as const
      let at = 0
      const judge = { judge: () => Effect.sync(() => rulings[at++] ?? "escalate") }
      const { check, questions, told, events } = yield* scene(["once"], { policy: { mode: "smart" }, judge })
      assert.strictEqual(blocked(yield* check(dangerous)), "judge")
      const denials = yield* Effect.forEach([1, 2, 3], () => check(dangerous))
      const messages = denials.map((denial) => (denial._tag === "Refusal" ? denial.message : ""))
      assert.deepStrictEqual(
        messages.map((message) => message.includes("STOP")),
        [false, false, true]
      )
      assert.strictEqual(blocked(yield* check(dangerous)), "user")
      assert.lengthOf(questions, 1)
      assert.deepStrictEqual(told(), [
        "pre",
        "post smart_approve",
        "pre",
        "post smart_deny",
        "pre",
        "post smart_deny",
        "pre",
        "post smart_deny",
        "pre",
        "post once"
      ])
      assert.strictEqual(events[1]?.["decided_by"], "aux_llm")
    })
  )

  it.effect("asks a person when the judge fails", () =>
    Effect.gen(function* () {
      const judge = { judge: () => Effect.fail("no model") }
      const { check, questions } = yield* scene(["deny"], { policy: { mode: "smart" }, judge })
      assert.strictEqual(blocked(yield* check(dangerous)), "approval_denied")
      assert.lengthOf(questions, 1)
    })
  )

  it.effect("redacts what is shown and told, and names the session", () =>
    Effect.gen(function* () {
      const { check, questions, events } = yield* scene(["once"])
      yield* check(
        "rm -rf x && curl -u a:b -H 'Authorization: Bearer sk-abcdefghijklmnopqrstuvwxyz0123456789' https://x"
      )
      assert.notInclude(questions[0]?.command, "abcdefghijklmnopqrstuvwxyz")
      assert.notInclude(JSON.stringify(events), "abcdefghijklmnopqrstuvwxyz")
      assert.strictEqual(events[0]?.["session_id"], "s1")
      assert.strictEqual(events[0]?.["session_key"], "s1")
    })
  )

  it.effect("shows one question at a time at a terminal, and drops those that are settled meanwhile", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      const gate = yield* Deferred.make<void>()
      let shown = 0
      const approvals = ApprovalOrder.make({
        hooks,
        approver: {
          surface: "cli",
          order: "one at a time",
          answer: () =>
            Effect.andThen(
              Effect.sync(() => void shown++),
              Effect.as(Deferred.await(gate), { choice: "session" as const })
            )
        }
      })
      const fiber = yield* Effect.forkChild(
        Effect.forEach([1, 2, 3], () => approvals.check(call(dangerous)), { concurrency: "unbounded" })
      )
      yield* TestClock.adjust("1 second")
      assert.strictEqual(shown, 1)
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual((yield* Fiber.join(fiber)).map(blocked), ["user", "remembered", "remembered"])
      assert.strictEqual(shown, 1)
    })
  )

  it.effect("queues questions for an approver elsewhere, oldest first", () =>
    Effect.gen(function* () {
      const queue = makePendingQueue({ surface: "gateway", timeout: Duration.seconds(300), notify: () => Effect.void })
      const { check } = yield* scene([], { approver: queue.approver })
      const first = yield* Effect.forkChild(check("rm -rf a"))
      const second = yield* Effect.forkChild(check("git reset --hard"))
      const third = yield* Effect.forkChild(check("git clean -fd"))
      yield* TestClock.adjust("1 second")
      assert.lengthOf(queue.waiting("s1"), 3)
      assert.strictEqual(yield* queue.resolve("s1", { choice: "once" }, "oldest"), 1)
      assert.strictEqual(blocked(yield* Fiber.join(first)), "user")
      assert.strictEqual(yield* queue.resolve("s1", { choice: "deny" }, "all"), 2)
      assert.strictEqual(blocked(yield* Fiber.join(second)), "approval_denied")
      assert.strictEqual(blocked(yield* Fiber.join(third)), "approval_denied")
      const late = yield* Effect.forkChild(check("rm -rf a"))
      yield* TestClock.adjust("299 seconds")
      assert.lengthOf(queue.waiting("s1"), 1)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(blocked(yield* Fiber.join(late)), "approval_timeout")
      assert.lengthOf(queue.waiting("s1"), 0)
    })
  )

  it.effect("denies a question that could not be delivered, and wakes all when a session starts anew", () =>
    Effect.gen(function* () {
      const broken = makePendingQueue({
        surface: "gateway",
        timeout: Duration.seconds(300),
        notify: () => Effect.fail("offline")
      })
      const one = yield* scene([], { approver: broken.approver })
      assert.strictEqual(blocked(yield* one.check(dangerous)), "approval_denied")
      const queue = makePendingQueue({ surface: "gateway", timeout: Duration.seconds(300), notify: () => Effect.void })
      const two = yield* scene([], { approver: queue.approver })
      const fiber = yield* Effect.forkChild(two.check(dangerous))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* queue.reset("s1"), 1)
      assert.strictEqual(blocked(yield* Fiber.join(fiber)), "approval_denied")
    })
  )
})
