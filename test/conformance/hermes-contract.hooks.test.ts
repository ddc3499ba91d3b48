// Cases of cases-hermes-contract.md that the hooks room can prove by itself. Names begin with the case number.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Response from "effect/ai/Response"
import { ToolCallId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as Settings from "../../src/base/config/Config.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import * as ApiPayload from "../../src/hooks/ApiPayload.ts"
import * as Correlation from "../../src/hooks/Correlation.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Sanitizer from "../../src/hooks/Sanitizer.ts"
import * as Config from "../../src/hooks/ShellHookConfig.ts"
import * as Process from "../../src/hooks/ShellHookProcess.ts"
import * as PairedEvents from "../../src/hooks/PairedEvents.ts"
import * as ToolOutcome from "../../src/hooks/ToolOutcome.ts"
import {
  apiAnswer,
  apiError,
  apiRequest,
  approvalAsked,
  approvalGiven,
  output,
  terminal,
  toolCall,
  toolDone,
  toolResult,
  turn,
  withWarnings
} from "../hooks/support/events.ts"
import { place, platform, registered } from "../hooks/support/scripts.ts"

const unread = (): never => {
  throw new Error("nobody listens")
}

/** Hooks with plain functions on one event. */
const listening = <const Name extends string>(name: Name, ...answers: ReadonlyArray<() => unknown>) =>
  Effect.gen(function* () {
    const hooks = yield* Hooks.make()
    for (const answer of answers) yield* hooks.register(Hooks.fromPlain(name, answer))
    return hooks
  })

const thrower = (error: Error) => (): never => {
  throw error
}

describe("hooks around tools", () => {
  it.effect("53 post_tool_call and transform_tool_result carry the same duration; pre_tool_call carries none", () =>
    Effect.gen(function* () {
      const seen: Array<readonly [string, object]> = []
      const hooks = yield* Hooks.make()
      for (const name of ["pre_tool_call", "post_tool_call", "transform_tool_result"] as const) {
        yield* hooks.register(Hooks.fromPlain(name, (event) => void seen.push([name, event])))
      }
      yield* hooks.ask("pre_tool_call", () => toolCall)
      yield* hooks.emit("post_tool_call", () => toolDone)
      yield* hooks.ask("transform_tool_result", () => toolResult)
      const identity = [
        "telemetry_schema_version",
        "tool_name",
        "args",
        "task_id",
        "session_id",
        "tool_call_id",
        "turn_id",
        "api_request_id"
      ]
      const outcome = ["result", "duration_ms", "status", "error_type", "error_message"]
      assert.deepStrictEqual(
        seen.map(([name]) => name),
        ["pre_tool_call", "post_tool_call", "transform_tool_result"]
      )
      assert.sameMembers(Object.keys(seen[0]?.[1] ?? {}), [...identity, "middleware_trace"])
      assert.sameMembers(Object.keys(seen[1]?.[1] ?? {}), [...identity, ...outcome, "middleware_trace"])
      assert.sameMembers(Object.keys(seen[2]?.[1] ?? {}), [...identity, ...outcome])
    })
  )

  it.effect("55 without listeners nothing is dispatched and nothing is made", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      assert.isFalse(hooks.has("post_tool_call"))
      yield* hooks.emit("post_tool_call", unread)
      assert.isUndefined(yield* hooks.ask("transform_tool_result", unread))
    })
  )

  it.effect("59 a pre_api_request listener that raises does not stop the provider call", () =>
    withWarnings(() =>
      Effect.gen(function* () {
        const hooks = yield* listening("pre_api_request", thrower(new Error("down")))
        const called = yield* PairedEvents.bracket(Effect.succeed("answer"), hooks, {
          open: ["pre_api_request", () => apiRequest],
          close: () => ["post_api_request", () => apiAnswer]
        })
        assert.strictEqual(called, "answer")
      })
    )
  )
})

describe("dispatch and returns", () => {
  it.effect("61 every payload has telemetry_schema_version; a caller's own value is kept", () =>
    Effect.gen(function* () {
      const versions: Array<unknown> = []
      const hooks = yield* Hooks.make()
      yield* hooks.register(
        Hooks.fromPlain("post_tool_call", (event) => void versions.push(event.telemetry_schema_version))
      )
      yield* hooks.emit("post_tool_call", () => toolDone)
      yield* hooks.invoke("post_tool_call", () => ({ ...toolDone, telemetry_schema_version: "mine" }))
      assert.deepStrictEqual(versions, ["hermes.observer.v1", "mine"])
    })
  )

  it.effect("62 values are collected in order without nulls, and a failure is one warning", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* listening(
          "post_tool_call",
          () => 1,
          () => null,
          thrower(new Error("no")),
          () => 0
        )
        assert.deepStrictEqual(yield* hooks.invoke("post_tool_call", () => ({})), [1, 0])
        assert.strictEqual(warnings.length, 1)
      })
    )
  )

  it.effect("64 the interruption of the run propagates out of a listener", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const hooks = yield* Hooks.make()
      yield* hooks.register(
        Hooks.on("post_tool_call", () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never))
      )
      const fiber = yield* Effect.forkChild(hooks.emit("post_tool_call", () => toolDone))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )

  it.effect("65 an unknown name is a warning that names it, and can still be reached", () =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const hooks = yield* listening("on_banana", () => "ripe")
        assert.include(warnings[0], "on_banana")
        assert.deepStrictEqual(yield* hooks.invoke("on_banana", () => ({})), ["ripe"])
      })
    )
  )

  it.effect("67 the first block wins, and every listener is asked", () =>
    Effect.gen(function* () {
      let asked = 0
      const answering = (answer: unknown) => () => {
        asked++
        return answer
      }
      const hooks = yield* listening(
        "pre_tool_call",
        answering({ action: "allow" }),
        answering({ action: "block", message: "first" }),
        answering({ action: "block", message: "second" })
      )
      assert.deepStrictEqual(yield* hooks.ask("pre_tool_call", () => toolCall), { action: "block", message: "first" })
      assert.strictEqual(asked, 3)
    })
  )

  it("68 a block gives {error: M}, status blocked and plugin_block", () => {
    assert.deepStrictEqual(ToolOutcome.toBlockedOutcome("plugin_block", "M"), {
      status: "blocked",
      error_type: "plugin_block",
      error_message: "M",
      result: `{"error":"M"}`
    })
  })

  it.effect("71 contexts are joined by a blank line; what says nothing is left out", () =>
    Effect.gen(function* () {
      const answers = [{ context: "A" }, "B", "  ", { context: "" }, 5, { other: 1 }]
      const hooks = yield* listening("pre_llm_call", ...answers.map((answer) => () => answer))
      assert.strictEqual(yield* hooks.ask("pre_llm_call", () => turn), "A\n\nB")
    })
  )

  it.effect("76 transform_tool_result: the first string wins, and an empty one is a string", () =>
    Effect.gen(function* () {
      const some = yield* listening(
        "transform_tool_result",
        () => null,
        () => ({}),
        () => "first",
        () => "second"
      )
      assert.strictEqual(yield* some.ask("transform_tool_result", () => toolResult), "first")
      const empty = yield* listening("transform_tool_result", () => "")
      assert.strictEqual(yield* empty.ask("transform_tool_result", () => toolResult), "")
      const emptyOutput = yield* listening("transform_terminal_output", () => "")
      assert.strictEqual(yield* emptyOutput.ask("transform_terminal_output", () => terminal), "")
      const text = yield* listening(
        "transform_llm_output",
        () => "",
        () => "said"
      )
      assert.strictEqual(yield* text.ask("transform_llm_output", () => output), "said")
    })
  )

  it.effect("77 post_tool_call and transform_tool_result see the original result; the former's return is ignored", () =>
    Effect.gen(function* () {
      const results: Array<unknown> = []
      const hooks = yield* Hooks.make()
      for (const name of ["post_tool_call", "transform_tool_result"] as const) {
        yield* hooks.register(
          Hooks.fromPlain(name, (event) => {
            results.push(event.result)
            return `from ${name}`
          })
        )
      }
      assert.isUndefined(yield* hooks.emit("post_tool_call", () => toolDone))
      assert.strictEqual(yield* hooks.ask("transform_tool_result", () => toolResult), "from transform_tool_result")
      assert.deepStrictEqual(results, [toolDone.result, toolDone.result])
    })
  )

  it.effect("86 an approve directive is read; a rule_key that is no name is left out", () =>
    Effect.gen(function* () {
      for (const rule of [null, "", "  ", 5]) {
        const hooks = yield* listening("pre_tool_call", () => ({ action: "approve", message: "sure?", rule_key: rule }))
        assert.deepStrictEqual(yield* hooks.ask("pre_tool_call", () => toolCall), {
          action: "approve",
          message: "sure?"
        })
      }
      const named = yield* listening("pre_tool_call", () => ({ action: "approve", rule_key: "git" }))
      assert.deepStrictEqual(yield* named.ask("pre_tool_call", () => toolCall), { action: "approve", rule_key: "git" })
    })
  )
})

describe("API payloads, ids, sanitiser", () => {
  it.effect(
    "92 api_request_error has its status, retries, reason, error and request, and no top-level error_message",
    () =>
      Effect.gen(function* () {
        let seen: object = {}
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.fromPlain("api_request_error", (event) => void (seen = event)))
        yield* hooks.emit("api_request_error", () => apiError)
        assert.deepInclude(seen, {
          status_code: 429,
          retry_count: 0,
          max_retries: 3,
          retryable: true,
          reason: "rate_limit",
          error: { type: "RateLimitError", message: "slow down" }
        })
        assert.property(Reflect.get(seen, "request"), "body")
        assert.notProperty(seen, "error_message")
      })
  )

  it("94 usage has the documents' counters and their sums (ARCHITECTURE §7 adds two aliases); none is null", () => {
    const usage = ApiPayload.toUsageCounters(
      Usage.toResponse({ input: 10, output: 5, cacheRead: 3, cacheWrite: 2, reasoning: 1 })
    )
    assert.deepStrictEqual(usage, {
      input_tokens: 10,
      output_tokens: 5,
      cache_read_tokens: 3,
      cache_write_tokens: 2,
      reasoning_tokens: 1,
      request_count: 1,
      prompt_tokens: 15,
      total_tokens: 20,
      completion_tokens: 5,
      cache_creation_tokens: 2
    })
    assert.isNull(
      ApiPayload.toUsageCounters(
        new Response.Usage({
          inputTokens: { uncached: undefined, total: undefined, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: undefined, text: undefined, reasoning: undefined }
        })
      )
    )
  })

  it("95 a tool call of an answer is readable structured data", () => {
    const { response } = ApiPayload.toAnswerFields({
      parts: [
        Response.makePart("text", { text: "let me see" }),
        Response.makePart("tool-call", {
          id: "call_1",
          name: "terminal",
          params: { command: "ls" },
          providerExecuted: false
        })
      ],
      finishReason: "tool-calls",
      usage: Usage.toResponse({ input: 1, output: 1 }),
      model: "gpt-test-1",
      id: "r1",
      raw: undefined
    })
    assert.deepInclude(Sanitizer.sanitize(response), {
      model: "gpt-test-1",
      finish_reason: "tool_calls",
      assistant_message: {
        role: "assistant",
        content: "let me see",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "terminal", arguments: `{"command":"ls"}` } }]
      }
    })
  })

  it("97 depth 8 is intact and depth 9 is a marker, whatever is there", () => {
    let mapping: unknown = "leaf"
    for (let level = 12; level > 0; level--) mapping = { [`d${level}`]: mapping }
    const path = Array.from({ length: 9 }, (_, index) => `d${index + 1}`)
    const at = (value: unknown, keys: ReadonlyArray<string>): unknown =>
      keys.reduce<unknown>((inner, key) => Object(inner)[key], value)
    const clean = Sanitizer.sanitize(mapping)
    assert.strictEqual(at(clean, path), "<object depth limit>")
    assert.deepStrictEqual(at(clean, path.slice(0, 8)), { d9: "<object depth limit>" })
    let list: unknown = 5
    for (let level = 0; level < 9; level++) list = [list]
    assert.include(JSON.stringify(Sanitizer.sanitize(list)), "<number depth limit>")
  })

  it("98 a string longer than 8000 characters is cut with a note of how much", () => {
    assert.strictEqual(Sanitizer.sanitize("x".repeat(8_001)), `${"x".repeat(8_000)}...[truncated 1 chars]`)
    assert.strictEqual(Sanitizer.sanitize("x".repeat(8_000)), "x".repeat(8_000))
  })

  it("100 sensitive keys are redacted in every spelling (ARCHITECTURE §7 redacts token, secret and password too)", () => {
    const keys = [
      "Api-Key",
      "X-API-KEY",
      "authorization",
      "Proxy-Authorization",
      "Cookie",
      "Set-Cookie",
      "openai_api_key",
      "token",
      "access_token",
      "password",
      "secret",
      "client_secret",
      "apikey"
    ]
    const clean = Sanitizer.sanitize(
      Object.fromEntries(keys.map((key) => [key, key === "Set-Cookie" ? null : "value"]))
    )
    assert.deepStrictEqual(clean, Object.fromEntries(keys.map((key) => [key, "<redacted>"])))
    const counters = { max_tokens: 5, usage: { total_tokens: 3, input_tokens: 2 }, token_count: 1 }
    assert.deepStrictEqual(Sanitizer.sanitize(counters), counters)
  })

  it("101 keys become strings and bytes their size", () => {
    assert.deepStrictEqual(Sanitizer.sanitize(new Map([[5, new Uint8Array(3)]])), { 5: "<3 bytes>" })
  })

  it("103 what is too long after the second pass becomes a preview of exactly the cap", () => {
    const body = Array.from({ length: 60 }, () => "x".repeat(900))
    const clean = Object(Sanitizer.sanitize({ method: "POST", body: { messages: body, more: body } }, 1_000))
    assert.sameMembers(Object.keys(clean), ["_truncated", "original_type", "preview"])
    assert.deepInclude(clean, { _truncated: true, original_type: "object" })
    assert.strictEqual(clean.preview.length, 1_000)
    const large = Object(Sanitizer.sanitize({ body: Array.from({ length: 30 }, () => "x".repeat(3_000)) }))
    assert.strictEqual(large.body[0], `${"x".repeat(1_000)}...[truncated 2000 chars]`, "the second pass suffices")
  })

  it.effect(
    "104 the cap comes from the environment: no less than 1000, and one line for what is no number (ARCHITECTURE §7 overrides 50000)",
    () =>
      Effect.gen(function* () {
        const settings = (text: string) =>
          Settings.resolve({
            file: undefined,
            environment: Environment.make({ HERMES_PLUGIN_PAYLOAD_MAX_CHARS: text }),
            flags: []
          })
        const { settings: least, warnings } = yield* settings("10")
        assert.strictEqual(least.plugins.payloadMaxChars, 1_000)
        assert.deepStrictEqual(warnings, ["HERMES_PLUGIN_PAYLOAD_MAX_CHARS: 10 is out of bounds, using 1000"])
        for (const [text, chars] of [
          [" 60000 ", 60_000],
          ["", 50_000]
        ] as const) {
          assert.strictEqual((yield* settings(text)).settings.plugins.payloadMaxChars, chars)
        }
        assert.strictEqual(
          (yield* Effect.flip(settings("abc"))).message,
          'HERMES_PLUGIN_PAYLOAD_MAX_CHARS: expected an integer, got "abc"'
        )
      })
  )

  it("106 without an explicit status it is read from the result", () => {
    const error = { status: "error", error_type: "tool_error", error_message: "x" } as const
    const ok = { status: "ok", error_type: null, error_message: null } as const
    assert.deepStrictEqual(ToolOutcome.fromResult(`{"error":"x"}`), error)
    assert.deepStrictEqual(ToolOutcome.fromResult({ error: "x" }), error)
    for (const fine of [`{"error":null}`, `{"error":""}`, "not json", `[{"error":"x"}]`, `{"error":"x"`, undefined]) {
      assert.deepStrictEqual(ToolOutcome.fromResult(fine), ok)
    }
  })

  it("91 each attempt of a step has an id of its own, the first as the contract writes it (ARCHITECTURE §7 overrides one id per step)", () => {
    const turnId = TurnId.make("s:1")
    assert.strictEqual(Correlation.makeApiRequestId(turnId, 2, 0), "s:1:api:2")
    assert.notStrictEqual(Correlation.makeApiRequestId(turnId, 2, 1), Correlation.makeApiRequestId(turnId, 2, 0))
    assert.notStrictEqual(Correlation.makeApiRequestId(turnId, 2, 1), Correlation.makeApiRequestId(turnId, 21, 0))
  })
})

describe("approvals", () => {
  it.effect(
    "110 the question and the answer carry the command, its patterns and where it was asked (ARCHITECTURE §7 adds session_id)",
    () =>
      Effect.gen(function* () {
        const seen: Array<object> = []
        const hooks = yield* Hooks.make()
        yield* hooks.register(Hooks.fromPlain("pre_approval_request", (event) => void seen.push(event)))
        yield* hooks.register(Hooks.fromPlain("post_approval_response", (event) => void seen.push(event)))
        yield* PairedEvents.bracket(Effect.void, hooks, {
          open: ["pre_approval_request", () => approvalAsked],
          close: () => ["post_approval_response", () => approvalGiven]
        })
        const fields = [
          "telemetry_schema_version",
          "session_id",
          "turn_id",
          "tool_call_id",
          "command",
          "description",
          "pattern_key",
          "pattern_keys",
          "session_key",
          "surface"
        ]
        assert.sameMembers(Object.keys(seen[0] ?? {}), fields)
        assert.sameMembers(Object.keys(seen[1] ?? {}), [...fields, "choice"])
        assert.deepInclude(seen[1], { choice: "once", session_key: "cli:1", surface: "cli" })
      })
  )

  it.effect("113 what happens inside a tool call has that call's ids; calls side by side do not mix theirs", () =>
    Effect.gen(function* () {
      const both = yield* Deferred.make<void>()
      let started = 0
      const tool = (id: string) =>
        Effect.gen(function* () {
          if (++started === 2) yield* Deferred.succeed(both, undefined)
          yield* Deferred.await(both)
          return (yield* Correlation.Correlation).tool_call_id
        }).pipe(
          Effect.provideService(Correlation.Correlation, { ...Correlation.none, tool_call_id: ToolCallId.make(id) })
        )
      assert.deepStrictEqual(yield* Effect.all([tool("a"), tool("b")], { concurrency: 2 }), ["a", "b"])
      assert.strictEqual((yield* Correlation.Correlation).tool_call_id, "")
    })
  )
})

describe("shell hooks", () => {
  const ask = (body: string, more: object = {}) =>
    withWarnings((warnings) =>
      Effect.gen(function* () {
        const { script, settings } = yield* place
        const command = body === "" ? "/not/there" : script("hook.sh", body)
        const hooks = yield* registered(settings({ pre_tool_call: [{ command, ...more }] }))
        return [yield* hooks.ask("pre_tool_call", () => toolCall), warnings.length] as const
      }).pipe(Effect.scoped, Effect.provide(platform))
    )

  it.live("133 a directive blocks, also at exit code 1; what says nothing does not", () =>
    Effect.gen(function* () {
      const block = { action: "block", message: "r" } as const
      assert.deepStrictEqual(yield* ask(`echo '{"decision":"block","reason":"r"}'`), [block, 0])
      assert.deepStrictEqual(yield* ask(`echo '{"decision":"block","reason":"r"}'; exit 1`), [block, 1])
      assert.deepStrictEqual(yield* ask(`echo '{"action":"block"}'`), [
        { ...block, message: "Blocked by shell hook." },
        0
      ])
      assert.deepStrictEqual(yield* ask("echo '{'"), [undefined, 0])
      assert.deepStrictEqual(yield* ask(":"), [undefined, 0])
      assert.deepStrictEqual(yield* ask("exec sleep 60", { timeout: 1 }), [undefined, 1])
      assert.deepStrictEqual(yield* ask(""), [undefined, 1])
    })
  )

  it("133 action is looked at before decision, and only its own text counts", () => {
    const said = (value: object) => Process.readDirective("pre_tool_call", JSON.stringify(value))
    const message = "Blocked by shell hook."
    assert.deepStrictEqual(said({ action: "block", decision: "block", reason: "r" }), { action: "block", message })
    assert.deepStrictEqual(said({ action: "allow", decision: "block", reason: "r" }), { action: "block", message: "r" })
    for (const text of [" ", 5, null]) {
      assert.deepStrictEqual(said({ action: "block", message: text }), { action: "block", message })
    }
    assert.isUndefined(said({ context: "c" }))
    assert.deepStrictEqual(Process.readDirective("pre_llm_call", `{"context":"c","action":"block"}`), { context: "c" })
    for (const text of [`{"context":" "}`, `{"context":5}`, `["c"]`, `"c"`]) {
      assert.isUndefined(Process.readDirective("pre_llm_call", text))
    }
  })

  it("134 a matcher is a full match, an invalid one is literal, and off tools it is dropped with a warning", () => {
    const matching = (matcher: string, event = "pre_tool_call") => {
      const {
        hooks: [hook],
        warnings
      } = Config.decode({ [event]: [{ command: "x", matcher }] })
      return { fires: (tool: string) => hook !== undefined && Config.makeToolMatcher(hook)(tool), warnings }
    }
    const one = matching(" terminal ")
    assert.deepStrictEqual(["terminal", "terminals", "a terminal"].map(one.fires), [true, false, false])
    const two = matching("terminal|web", "post_tool_call")
    assert.deepStrictEqual(["terminal", "web", "webs", "aweb"].map(two.fires), [true, true, false, false])
    const broken = matching("web(")
    assert.deepStrictEqual(["web(", "web"].map(broken.fires), [true, false])
    const off = matching("terminal", "pre_llm_call")
    assert.isTrue(off.fires("anything"))
    assert.strictEqual(off.warnings.length, 1)
  })

  it("136 timeouts are clamped, and the same hook counts once", () => {
    const timeouts = [9999, "thirty", 0, 1.5, undefined, 10].map(
      (timeout) =>
        Config.decode({ pre_tool_call: [{ command: "x", ...(timeout === undefined ? {} : { timeout }) }] }).hooks[0]
          ?.timeoutSeconds
    )
    assert.deepStrictEqual(timeouts, [300, 60, 60, 60, 60, 10])
    const { hooks } = Config.decode({
      pre_tool_call: [{ command: "x" }, { command: "x" }, { command: "x", matcher: "web" }]
    })
    assert.deepStrictEqual(
      hooks.map(({ matcher }) => matcher),
      [undefined, "web"]
    )
  })

  it.live("137 when a plugin and a shell hook block the same call, the plugin's message wins", () =>
    Effect.gen(function* () {
      const { script, settings } = yield* place
      const command = script("block.sh", `echo '{"action":"block","message":"shell"}'`)
      const hooks = yield* listening("pre_tool_call", () => ({ action: "block", message: "plugin" }))
      yield* registered(settings({ pre_tool_call: [{ command }] }), hooks)
      assert.deepStrictEqual(yield* hooks.ask("pre_tool_call", () => toolCall), { action: "block", message: "plugin" })
    }).pipe(Effect.scoped, Effect.provide(platform))
  )
})
