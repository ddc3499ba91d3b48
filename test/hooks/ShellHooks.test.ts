import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { existsSync, readFileSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expandHome, splitWords } from "../../src/hooks/ShellHookProcess.ts"
import * as Config from "../../src/hooks/ShellHookConfig.ts"
import * as Consent from "../../src/hooks/ShellHookConsent.ts"
import * as Process from "../../src/hooks/ShellHookProcess.ts"
import * as ShellHooks from "../../src/hooks/ShellHooks.ts"
import { toolCall, toolDone, turn, withWarnings } from "./support/events.ts"
import { place, platform, registered } from "./support/scripts.ts"

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    // A zombie is dead and waits for somebody to notice.
    return !existsSync(`/proc/${pid}/stat`) || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return false
  }
}

const until = (condition: () => boolean) =>
  Effect.sync(condition).pipe(Effect.repeat({ until: (done) => done, schedule: Schedule.spaced("20 millis") }))

const hook = (command: string, more: Partial<Config.ShellHook> = {}): Config.ShellHook => ({
  event: "pre_tool_call",
  command,
  matcher: undefined,
  timeoutSeconds: 60,
  sandbox: "full",
  ...more
})

describe("words", () => {
  it("splits as a POSIX shell quotes, and does nothing else that a shell does", () => {
    assert.deepStrictEqual(splitWords(`a  b\t'c d' "e \\"f\\" \\n" g\\ h '' "$X" *`), [
      "a",
      "b",
      "c d",
      `e "f" \\n`,
      "g h",
      "",
      "$X",
      "*"
    ])
    assert.deepStrictEqual(splitWords(""), [])
    for (const broken of ["'a", `"a`, "a\\"]) assert.isUndefined(splitWords(broken))
    assert.deepStrictEqual(expandHome("~/x ~ ~other a~", "/home/me"), ["/home/me/x", "/home/me", "~other", "a~"])
  })
})

describe("ShellHookConfig", () => {
  it("what can not be used is left out with one line that says where and why", () => {
    const { hooks, warnings } = Config.decode({
      pre_tool_cal: [{ command: "a" }],
      post_tool_call: { command: "a" },
      pre_tool_call: ["a", { command: " " }, { command: "ok", matcher: 5 }]
    })
    assert.deepStrictEqual(
      hooks.map(({ command }) => command),
      ["ok"]
    )
    assert.deepStrictEqual(warnings, [
      "hooks.pre_tool_cal: no such event, did you mean pre_tool_call?; the entry is skipped",
      "hooks.post_tool_call: not a list; the entry is skipped",
      "hooks.pre_tool_call[0]: needs a `command`; the entry is skipped",
      "hooks.pre_tool_call[1]: needs a `command`; the entry is skipped",
      "hooks.pre_tool_call[2].matcher: not the name or pattern of a tool; the matcher is ignored"
    ])
    assert.deepStrictEqual(Config.decode(undefined), { hooks: [], warnings: [] })
    assert.strictEqual(Config.decode([]).warnings.length, 1)
  })
})

describe("running a shell hook", () => {
  it.live("it reads the event from its input, in its own directory, without credentials in its environment", () =>
    Effect.gen(function* () {
      const { directory, file, script, settings } = yield* place
      script("dump.sh", "cat > input.json; env > environment")
      const hooks = yield* registered(
        settings(
          { pre_tool_call: [{ command: "~/dump.sh" }] },
          {
            environment: {
              PATH: process.env["PATH"],
              HOME: directory,
              OPENAI_API_KEY: "sk-1",
              AWS_SECRET_ACCESS_KEY: "s",
              GH_TOKEN: "t",
              LANG: "C"
            }
          }
        )
      )
      yield* hooks.ask("pre_tool_call", () => toolCall)
      assert.deepStrictEqual(JSON.parse(file("input.json")), {
        hook_event_name: "pre_tool_call",
        tool_name: "terminal",
        tool_input: { command: "ls" },
        session_id: toolCall.session_id,
        cwd: directory,
        extra: {
          telemetry_schema_version: "hermes.observer.v1",
          task_id: toolCall.task_id,
          turn_id: toolCall.turn_id,
          api_request_id: toolCall.api_request_id,
          tool_call_id: toolCall.tool_call_id,
          middleware_trace: []
        }
      })
      const environment = file("environment")
      assert.include(environment, "LANG=C")
      for (const name of ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GH_TOKEN"]) assert.notInclude(environment, name)
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("one that does not read its input, or writes far too much, is no trouble", () =>
    Effect.gen(function* () {
      const { script, settings } = yield* place
      const command = script("loud.sh", `exec 0<&-; yes | head -c 3000000; yes | head -c 3000000 >&2`)
      const ran = yield* Process.runProgram(hook(command), "x".repeat(1_000_000), settings({}))
      assert.strictEqual(ran._tag, "Exited")
      if (ran._tag === "Exited") assert.strictEqual(ran.stdout.length, 1_048_576)
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("at its timeout it is stopped with everything that it started, even when it will not", () =>
    Effect.gen(function* () {
      const { file, has, script, settings } = yield* place
      const command = script("deaf.sh", `trap '' TERM; sleep 60 & echo $! > child; echo $$ > self; wait; sleep 60`)
      const ran = yield* Process.runProgram(hook(command, { timeoutSeconds: 1 }), "", settings({}))
      assert.deepStrictEqual(ran, { _tag: "TimedOut", seconds: 1 })
      if (has("self")) {
        yield* until(() => !isAlive(Number(file("self"))) && !isAlive(Number(file("child"))))
      }
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("interrupting the run stops it", () =>
    Effect.gen(function* () {
      const { file, has, script, settings } = yield* place
      script("slow.sh", `echo $$ > self.tmp; mv self.tmp self; sleep 60`)
      const hooks = yield* registered(settings({ pre_tool_call: [{ command: "./slow.sh" }] }))
      const fiber = yield* Effect.forkChild(hooks.ask("pre_tool_call", () => toolCall))
      yield* until(() => has("self"))
      yield* Fiber.interrupt(fiber)
      yield* until(() => !isAlive(Number(file("self"))))
      assert.isFalse(isAlive(Number(file("self"))))
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("what it leaves running does not hold up the answer", () =>
    Effect.gen(function* () {
      const { file, script, settings } = yield* place
      const command = script("leaves.sh", `sleep 60 & echo $! > child; echo '{"action":"block","message":"no"}'`)
      const ran = yield* Process.runProgram(hook(command), "", settings({}))
      assert.strictEqual(ran._tag === "Exited" ? ran.stdout.trim() : "", `{"action":"block","message":"no"}`)
      yield* until(() => !isAlive(Number(file("child"))))
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("a failure of its own is warned about once, and its output still counts", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const { script, settings } = yield* place
        const command = script("fails.sh", `echo 'no disk' >&2; echo '{"context":"still here"}'; exit 3`)
        const hooks = yield* registered(settings({ pre_llm_call: [{ command }] }))
        assert.strictEqual(yield* hooks.ask("pre_llm_call", () => turn), "still here")
        assert.strictEqual(yield* hooks.ask("pre_llm_call", () => turn), "still here")
        assert.deepStrictEqual(warnings, [`shell hook "${command}" on pre_llm_call exited with 3: no disk`])
      }).pipe(Effect.scoped, Effect.provide(platform))
    )
  )
})

describe("consent", () => {
  it.live("a hook that nobody agreed to does not run, and says how to change that", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const { has, script, settings } = yield* place
        const command = script("touch.sh", "touch ran")
        const hooks = yield* registered(settings({ post_tool_call: [{ command }] }, { accept: false }))
        assert.isFalse(hooks.has("post_tool_call"))
        yield* hooks.emit("post_tool_call", () => toolDone)
        assert.isFalse(has("ran"))
        assert.deepStrictEqual(warnings, [
          `shell hook "${command}" on post_tool_call is skipped: it is not approved; ` +
            "approve it in a terminal, or with --accept-hooks"
        ])
      }).pipe(Effect.scoped, Effect.provide(platform))
    )
  )

  it.live("who is asked once and agrees is not asked again; who refuses is asked the next time", () =>
    Effect.gen(function* () {
      const { has, script, settings } = yield* place
      const command = script("touch.sh", "touch ran")
      const asked: Array<string> = []
      const answering = (answer: boolean) =>
        settings(
          { post_tool_call: [{ command }] },
          {
            accept: false,
            confirm: (hook, consent) =>
              Effect.sync(() => {
                asked.push(`${hook.event} ${consent}`)
                return answer
              })
          }
        )
      assert.isFalse((yield* withWarnings(() => registered(answering(false)))).has("post_tool_call"))
      yield* registered(answering(true))
      const hooks = yield* registered(answering(true))
      yield* hooks.emit("post_tool_call", () => toolDone)
      assert.isTrue(has("ran"))
      assert.deepStrictEqual(asked, ["post_tool_call unseen", "post_tool_call unseen"])
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("a program that changed is asked about again, also when its time was set back", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const { file, script, settings } = yield* place
        const path = script("guard.py", "touch one")
        utimesSync(path, 1_700_000_000, 1_700_000_000)
        const block = { post_tool_call: [{ command: "sh guard.py" }] }
        yield* registered(settings(block))
        const [entry] = JSON.parse(file("home/shell-hooks-allowlist.json")).approvals
        assert.deepInclude(entry, { event: "post_tool_call", command: "sh guard.py" })
        assert.strictEqual(entry.script_mtime_at_approval, "2023-11-14T22:13:20.000Z")
        assert.match(entry.fingerprint, /^[0-9a-f]{64}$/)

        const hooks = yield* registered(settings(block, { accept: false }))
        writeFileSync(path, "touch two")
        utimesSync(path, 1_700_000_000, 1_700_000_000)
        yield* hooks.emit("post_tool_call", () => toolDone)
        assert.throws(() => file("one"))
        assert.throws(() => file("two"))
        assert.match(String(warnings[0]), /its program changed since it was approved/)
        const shell = yield* ShellHooks.make(settings(block))
        assert.deepStrictEqual(
          (yield* shell.list).map(({ consent }) => consent),
          ["changed"]
        )
      }).pipe(Effect.scoped, Effect.provide(platform))
    )
  )

  it.live("concurrent approvals are all kept, and so is what another program wrote into an entry", () =>
    Effect.gen(function* () {
      const { file, home, settings } = yield* place
      writeFileSync(
        join(home, Consent.fileName),
        JSON.stringify({
          approvals: [
            {
              event: "on_session_end",
              command: "old",
              approved_at: "2026-01-01T00:00:00Z",
              script_mtime_at_approval: null,
              by: "me"
            }
          ]
        })
      )
      const commands = Array.from({ length: 8 }, (_, index) => `true ${index}`)
      const stores = yield* Effect.all(
        commands.map((command) => ShellHooks.make(settings({ pre_tool_call: [{ command }] })))
      )
      yield* Effect.forEach(stores, (store) => store.hooks, { concurrency: "unbounded" })
      const { approvals } = JSON.parse(file("home/shell-hooks-allowlist.json"))
      assert.sameMembers(
        approvals.map((entry: { readonly command: string }) => entry.command),
        ["old", ...commands]
      )
      assert.strictEqual(approvals[0].by, "me")
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("a file that can not be read approves nothing and is not overwritten", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const { file, home, settings } = yield* place
        writeFileSync(join(home, Consent.fileName), "{")
        const shell = yield* ShellHooks.make(settings({ pre_tool_call: [{ command: "true" }] }, { accept: false }))
        assert.deepStrictEqual(yield* shell.hooks, [])
        assert.match(String(warnings[0]), /cannot be used; correct or remove it/)
        const error = yield* Effect.flip(shell.revoke("true"))
        assert.strictEqual(error._tag, "ConsentError")
        assert.strictEqual(file("home/shell-hooks-allowlist.json"), "{")
      }).pipe(Effect.scoped, Effect.provide(platform))
    )
  )
})

describe("hermes hooks", () => {
  it.live("test runs what is approved and matches, and shows what it said", () =>
    Effect.gen(function* () {
      const { script, settings } = yield* place
      const guard = script("guard.sh", `grep -q '"force":true' && echo '{"decision":"block","reason":"forced"}'; true`)
      const shell = yield* ShellHooks.make(
        settings(
          { pre_tool_call: [{ command: guard, matcher: "terminal" }, { command: `${guard} other` }] },
          { confirm: (hook) => Effect.succeed(hook.command === guard), accept: false }
        )
      )
      yield* withWarnings(() => shell.hooks)
      const fine = yield* shell.test("pre_tool_call")
      assert.deepStrictEqual(
        fine.map(({ consent, matches, ran, said }) => [consent, matches, ran?._tag, said]),
        [
          ["approved", true, "Exited", undefined],
          ["unseen", true, undefined, undefined]
        ]
      )
      const forced = yield* shell.test("pre_tool_call", { payload: { args: { force: true } } })
      assert.deepStrictEqual(forced[0]?.said, { action: "block", message: "forced" })
      const other = yield* shell.test("pre_tool_call", { tool: "read_file" })
      assert.deepStrictEqual([other[0]?.matches, other[0]?.ran], [false, undefined])
      const error = yield* Effect.flip(shell.test("pre_toolcall"))
      assert.strictEqual(error.message, `no hook "pre_toolcall": did you mean pre_tool_call?`)
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("revoke forgets a command on all events, and it no longer runs", () =>
    Effect.gen(function* () {
      const { settings } = yield* place
      const block = { pre_tool_call: [{ command: "true" }], on_session_end: [{ command: "true" }] }
      const shell = yield* ShellHooks.make(settings(block))
      yield* shell.hooks
      assert.strictEqual(yield* shell.revoke("true"), 2)
      assert.strictEqual(yield* shell.revoke("true"), 0)
      assert.deepStrictEqual(
        (yield* shell.list).map(({ consent }) => consent),
        ["unseen", "unseen"]
      )
    }).pipe(Effect.scoped, Effect.provide(platform))
  )

  it.live("doctor finds what does not start, fails, hangs, talks nonsense or is not approved", () =>
    Effect.gen(function* () {
      const { directory, script, settings } = yield* place
      writeFileSync(join(directory, "plain.sh"), "#!/bin/sh\n")
      const block = {
        pre_tool_call: [
          { command: script("good.sh", 'echo \'{"action":"block"}\'') },
          { command: "/not/there" },
          { command: "./plain.sh" },
          { command: script("bad.sh", "exit 2") },
          { command: script("hangs.sh", "exec sleep 60"), timeout: 1 },
          { command: script("chats.sh", "echo hello") },
          { command: `sh -c 'true` }
        ]
      }
      const shell = yield* ShellHooks.make(settings(block))
      yield* shell.hooks
      const problems = (yield* shell.doctor).map(({ problems }) => problems.join("; "))
      assert.deepStrictEqual(problems[0], "")
      assert.match(String(problems[1]), /^did not start: NotFound/)
      assert.match(String(problems[2]), /^did not start: PermissionDenied/)
      assert.strictEqual(problems[3], "exited with 2")
      assert.strictEqual(problems[4], "took longer than 1s and was stopped")
      assert.strictEqual(problems[5], "its output has no meaning for pre_tool_call: hello")
      assert.strictEqual(problems[6], "did not start: the command cannot be read: is a quote missing?")
      yield* shell.revoke("/not/there")
      assert.deepStrictEqual((yield* shell.doctor)[1]?.problems, ["not approved: it does not run"])
    }).pipe(Effect.scoped, Effect.provide(platform))
  )
})
