// What a Langfuse server gets of real runs, and what becomes of a run when it gets nothing.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as AiError from "effect/ai/AiError"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as LangfusePlugin from "../../src/observe/LangfusePlugin.ts"
import * as Generation from "../../src/observe/langfuse/Generation.ts"
import * as LangfuseSettings from "../../src/observe/langfuse/LangfuseSettings.ts"
import * as RunTelemetry from "../../src/observe/RunTelemetry.ts"
import * as Usage from "../../src/base/domain/Usage.ts"
import * as Digest from "../../src/base/platform/Digest.ts"
import type { Plugin } from "../../src/agent/plugin/Plugin.ts"
import * as Offline from "../../src/models/provider/Offline.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import type { RunRecord } from "../../src/store/RunRecord.ts"
import * as Approvals from "../../src/tools/Approvals.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import { withWarnings } from "../hooks/support/events.ts"
import { scaleRuns } from "../support/effort.ts"
import { machine } from "../support/hermes.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { all, type Answer, collector, ingest, json, names, type Seen } from "./support/collector.ts"
import * as Runs from "./support/runs.ts"

const keys = { publicKey: "pk-lf-1", secretKey: Redacted.make("sk-lf-planted-2") }

type Plugins = readonly [Plugin<RunRecord>]

/** The trace id that others compute from a seed. */
const traceIdOf = (seed: string): string => Digest.toHex(seed, 32)

/** A collector, and runs whose traces are there when the runs are done. */
const traced = <A, E>(
  options: Omit<LangfuseSettings.Options, "publicKey" | "secretKey">,
  runs: (plugins: Plugins) => Effect.Effect<A, E>,
  answer?: (index: number) => Answer
) =>
  Effect.gen(function* () {
    const server = yield* collector(answer)
    const value = yield* runs([LangfusePlugin.make({ ...keys, baseUrl: server.url, ...options })])
    for (const request of server.requests) ingest(request, "pk-lf-1:sk-lf-planted-2")
    return { ...server, value }
  })

const run = (turns: ReadonlyArray<Scripted.Turn>, input: Parameters<typeof Agent.run>[0]) => (plugins: Plugins) =>
  Effect.provide(Agent.run(input), Runs.runtime(turns, [], [], plugins).layer)

const meta = (seen: Seen | undefined, name: string) => seen?.at[`langfuse.observation.metadata.${name}`]

describe("Langfuse", () => {
  it.live("a turn with parallel tools: chain, generations, tools, usage, and what the tools gave in the output", () =>
    Effect.gen(function* () {
      const { trees } = yield* traced(
        { environment: "staging", release: "v7", userId: "ada", tags: ["nightly"] },
        run(Runs.parallel, { prompt: "both please", sessionId: "s1" })
      )
      const [root, ...more] = trees()
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(root && names(root), [
        "Hermes turn",
        "LLM call 1",
        "Tool: slow",
        "Tool: echo",
        "LLM call 2"
      ])
      assert.strictEqual(root?.span.traceId, traceIdOf("s1::s1"), "which others can compute")
      for (const one of root === undefined ? [] : all(root)) {
        assert.deepInclude(one.at, {
          "session.id": "s1",
          "user.id": "ada",
          "langfuse.environment": "staging",
          "langfuse.release": "v7",
          "langfuse.trace.name": "Hermes turn",
          "langfuse.trace.tags": ["hermes", "langfuse", "nightly"]
        })
      }
      assert.deepInclude(root?.at, { "langfuse.observation.type": "chain", "langfuse.trace.input": "both please" })
      assert.deepStrictEqual(json(root, "langfuse.trace.output"), {
        content: "parallel tools complete.",
        tool_calls: ["alpha", "beta"].map((text, index) => ({
          id: `call_${text}`,
          type: "function",
          name: index === 0 ? "slow" : "echo",
          arguments: { text },
          function: { name: index === 0 ? "slow" : "echo", arguments: { text }, output: text },
          output: text
        }))
      })
      const [first, slow, echo, second] = root?.children ?? []
      assert.deepStrictEqual(json(first, "langfuse.observation.usage_details"), {
        input: 520,
        output: 80,
        cache_read_input_tokens: 200,
        reasoning_tokens: 4,
        total: 800
      })
      assert.deepInclude(json(first, "langfuse.observation.output"), { content: "both", reasoning: "two are better" })
      assert.strictEqual(meta(first, "finish_reason"), "tool_calls")
      assert.strictEqual(meta(first, "tool_call_count"), "2")
      assert.include(String(first?.at["langfuse.observation.input"]), "both please")
      assert.deepInclude(slow?.at, { "langfuse.observation.type": "tool", "langfuse.observation.output": "alpha" })
      assert.deepStrictEqual([meta(slow, "status"), meta(echo, "tool_call_id")], ["ok", "call_beta"])
      assert.isTrue(
        BigInt(slow?.span.endTimeUnixNano ?? 0) > BigInt(echo?.span.endTimeUnixNano ?? 0),
        "they ended as they ended"
      )
      assert.include(JSON.stringify(json(second, "langfuse.observation.input")), "beta")
    })
  )

  it.live("enabled twice for one project is one warning, and every observation once", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const plugin = () => LangfusePlugin.make({ ...keys, baseUrl: server.url })
      const { layer } = Runs.runtime([Scripted.complete("x")], [], [], [plugin(), plugin(), RunTelemetry.makePlugin()])
      const warnings = yield* withWarnings((warnings) =>
        Effect.as(Effect.provide(Agent.run({ prompt: "hi" }), layer), warnings)
      )
      assert.deepStrictEqual(
        [...warnings],
        ["Two plugins would export the same spans; they are exported once: enable observability/langfuse once."]
      )
      assert.deepStrictEqual(
        server
          .spans()
          .map(({ name }) => name)
          .toSorted(),
        ["Hermes turn", "LLM call 1"]
      )
    })
  )

  it("a request that middleware rewrote has its system prompt and its arguments whole, in the form of every provider", () => {
    const [prompt, args] = [
      "be kind. ".repeat(3000),
      { path: "a".repeat(20_000), deep: { a: { b: { c: { d: { e: "here" } } } } } }
    ]
    const bodies: ReadonlyArray<Readonly<Record<string, unknown>>> = [
      {
        messages: [
          { role: "system", content: prompt },
          { role: "user", content: "hello" },
          {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "c", type: "function", function: { name: "echo", arguments: JSON.stringify(args) } }]
          },
          { role: "tool", tool_call_id: "c", content: "1" }
        ]
      },
      {
        system: [{ type: "text", text: prompt }],
        messages: [
          { role: "user", content: [{ type: "text", text: "hello" }] },
          { role: "assistant", content: [{ type: "tool_use", id: "c", name: "echo", input: args }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "1" }] }
        ]
      },
      {
        instructions: prompt,
        input: [
          { role: "user", content: [{ type: "input_text", text: "hello" }] },
          { type: "function_call", call_id: "c", name: "echo", arguments: JSON.stringify(args) },
          { type: "function_call_output", call_id: "c", output: "1" }
        ]
      },
      {
        system: [{ text: prompt }],
        messages: [
          { role: "user", content: [{ text: "hello" }] },
          { role: "assistant", content: [{ toolUse: { toolUseId: "c", name: "echo", input: args } }] },
          { role: "user", content: [{ toolResult: { toolUseId: "c", content: [{ text: "1" }] } }] }
        ]
      }
    ]
    for (const body of bodies) {
      const [system, user, assistant, tool] = Generation.toRewrittenInput(body, 100)
      assert.deepStrictEqual(system, { role: "system", content: prompt })
      assert.deepStrictEqual(user, { role: "user", content: "hello" })
      assert.deepStrictEqual(assistant, {
        role: "assistant",
        content: "",
        tool_calls: [
          { id: "c", type: "function", name: "echo", arguments: args, function: { name: "echo", arguments: args } }
        ]
      })
      assert.deepInclude(tool, { role: "tool", tool_call_id: "c" })
    }
    const picture = {
      role: "user",
      content: [
        { type: "text", text: "see" },
        { type: "image", source: { type: "base64", data: "QUJD".repeat(5000) } }
      ]
    }
    assert.deepStrictEqual(Generation.toRewrittenInput({ messages: [picture] }, 100), [
      {
        role: "user",
        content: [
          { type: "text", text: "see" },
          { type: "image", omitted: true }
        ]
      }
    ])
  })

  it.live("a call is priced where the runtime knows a price", () =>
    Effect.gen(function* () {
      const { trees } = yield* traced({}, (plugins) =>
        Effect.provide(Agent.run({ prompt: "Reply exactly ok" }), Runtime.layer({ plugins }))
      )
      assert.deepStrictEqual(
        json(trees()[0]?.children[0], "langfuse.observation.cost_details"),
        { total: 0 },
        "the stand-in is free"
      )
    })
  )

  it.live("an answer that streams says when it began to", () =>
    Effect.gen(function* () {
      const { trees } = yield* traced({}, run([Scripted.complete("one two three")], { prompt: "hi", streaming: true }))
      const call = trees()[0]?.children[0]
      const first = Date.parse(String(call?.at["langfuse.observation.completion_start_time"]))
      assert.isAtLeast(first, Math.floor(Number(call?.span.startTimeUnixNano) / 1e6) - 1)
      assert.isAtMost(first, Math.ceil(Number(call?.span.endTimeUnixNano) / 1e6) + 1)
    })
  )

  it.live("attempts that failed are generations of their own, with what went wrong", () =>
    Effect.gen(function* () {
      const error = new AiError.InvalidRequestError({ description: "no such model" })
      const { trees } = yield* traced({}, (plugins) =>
        Effect.exit(run([Scripted.fail(error)], { prompt: "hi" })(plugins))
      )
      const [root] = trees()
      assert.deepStrictEqual(root && names(root), ["Hermes turn", "LLM call 1"])
      assert.deepInclude(root?.children[0]?.at, { "langfuse.observation.level": "ERROR" })
      assert.include(String(root?.children[0]?.at["langfuse.observation.status_message"]), "no such model")
      assert.deepStrictEqual(root?.children[0]?.span.status.code, 2)
      assert.deepStrictEqual([root?.at["langfuse.observation.level"], meta(root, "exit")], ["ERROR", "failed"])
    })
  )

  it.live("an approval is a guardrail of its tool call, with who decided what", () =>
    Effect.gen(function* () {
      const call = { id: "c1", name: "terminal", params: { command: "rm -rf ./build-that-is-not-there" } }
      const layer = (plugins: Plugins) =>
        Runtime.layer({
          provider: Scripted.layer([Scripted.complete({ toolCalls: [call] }), Scripted.complete("done")]),
          tools: [TerminalTools.toolset],
          plugins,
          approvals: Approvals.layerCallback(() => Effect.succeed("deny"))
        })
      const { trees } = yield* traced({}, (plugins) => Effect.provide(Agent.run({ prompt: "clean" }), layer(plugins)))
      const [root] = trees()
      const tool = root?.children[1]
      const approval = tool?.children[0]
      assert.strictEqual(tool?.name, "Tool: terminal")
      assert.deepInclude(approval?.at, {
        "langfuse.observation.type": "guardrail",
        "langfuse.observation.output": "deny",
        "langfuse.observation.level": "WARNING"
      })
      assert.deepInclude(json(approval, "langfuse.observation.input"), { command: call.params.command })
      assert.deepStrictEqual(
        [tool?.at["langfuse.observation.level"], meta(tool, "error_type")],
        ["WARNING", "approval_denied"]
      )
    })
  )

  it.live("many sessions at once, each with a child, make as many right trees", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const count = scaleRuns(50)
      for (let n = 0; n < count; n++) writeFileSync(join(directory, `file${n}.txt`), `content ${n}\n`)
      const prompt = (n: number) =>
        `Use delegate_task exactly once. Ask the child subagent to use the read_file tool exactly once to read file${n}.txt. ` +
        `After the child returns, reply with exactly: session ${n} is done.`
      const { trees } = yield* traced({}, (plugins) =>
        Effect.forEach(
          Array.from({ length: count }, (_, n) => n),
          (n) => Agent.run({ prompt: prompt(n), sessionId: `session-${n}`, cwd: directory }),
          { concurrency: "unbounded" }
        ).pipe(
          Effect.provide(
            Runtime.layer({ provider: Offline.layer(), tools: [FileTools.toolset, Delegate.toolset], plugins })
          )
        )
      )
      const found = trees()
      assert.strictEqual(found.length, count)
      assert.strictEqual(new Set(found.map(({ span }) => span.traceId)).size, count)
      for (const root of found) {
        const session = String(root.at["session.id"])
        const n = session.slice("session-".length)
        assert.deepStrictEqual(names(root), [
          "Hermes turn",
          "LLM call 1",
          ["Tool: delegate_task", ["Subagent: leaf", "LLM call 1", "Tool: read_file", "LLM call 2"]],
          "LLM call 2"
        ])
        assert.isTrue(
          all(root).every(
            ({ at, span }) => at["session.id"] === session && span.traceId === traceIdOf(`${session}::${session}`)
          )
        )
        const read = root.children[1]?.children[0]?.children[1]
        assert.deepInclude(json(read, "langfuse.observation.input"), { path: `file${n}.txt` })
        assert.include(String(read?.at["langfuse.observation.output"]), `content ${n}`)
        assert.include(String(root.at["langfuse.observation.output"]), `session ${n} is done.`)
      }
    })
  )

  it.live("an interrupted run is sent, with all that was open in it", () =>
    Effect.gen(function* () {
      const { trees } = yield* traced({}, (plugins) =>
        Effect.gen(function* () {
          const { hanging, layer } = Runs.runtime(
            [Scripted.complete({ toolCalls: [{ id: "c", name: "hang" }] })],
            [],
            [],
            plugins
          )
          const fiber = yield* Effect.forkChild(Effect.provide(Agent.run({ prompt: "wait" }), layer))
          yield* Deferred.await(hanging)
          yield* Fiber.interrupt(fiber)
        })
      )
      const [root] = trees()
      assert.deepStrictEqual(root && names(root), ["Hermes turn", "LLM call 1", "Tool: hang"])
      assert.strictEqual(meta(root?.children[1], "status"), "cancelled")
      assert.deepStrictEqual([meta(root, "interrupted"), root?.at["langfuse.observation.level"]], ["true", "WARNING"])
    })
  )

  it.live("sampling is by session: all of one, or nothing", () =>
    Effect.gen(function* () {
      const sessions = Array.from({ length: 40 }, (_, n) => `s${n}`)
      const { trees } = yield* traced({ sampleRate: 0.5 }, (plugins) =>
        Effect.forEach(sessions, (sessionId) =>
          Effect.andThen(
            run(Runs.parallel, { prompt: "a", sessionId })(plugins),
            run([Scripted.complete("x")], { prompt: "b", sessionId })(plugins)
          )
        )
      )
      const found = new Set(trees().map(({ at }) => at["session.id"]))
      const expected = sessions.filter((id) => Number.parseInt(traceIdOf(`${id}::${id}`).slice(0, 8), 16) < 2 ** 31)
      assert.deepStrictEqual([...found].toSorted(), expected.toSorted())
      assert.strictEqual(trees().length, expected.length * 2)
      const none = yield* traced({ sampleRate: 0 }, run([Scripted.complete("x")], { prompt: "b" }))
      assert.deepStrictEqual(none.requests, [])
    })
  )

  it.live("no secret goes out, and no more than it should of anything", () =>
    Effect.gen(function* () {
      const planted = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
      const { requests, trees } = yield* traced(
        { maxChars: 100 },
        run(
          [
            Scripted.complete({ toolCalls: [{ id: "c", name: "echo", params: { text: `api_key=${planted}` } }] }),
            Scripted.complete("z".repeat(5000))
          ],
          { prompt: `use ${planted}` }
        )
      )
      const sent = requests.map(({ body }) => body).join("")
      assert.notInclude(sent, planted)
      assert.notInclude(sent, "planted-2")
      assert.include(String(trees()[0]?.at["langfuse.observation.output"]), "... [truncated 4900 chars]")
    })
  )
})

describe("a Langfuse server in trouble", () => {
  const one = run([Scripted.complete("fine")], { prompt: "hi" })
  const told = (answer: (index: number) => Answer, runs = one) =>
    withWarnings((warnings) =>
      Effect.map(traced({}, runs, answer), ({ requests, value }) => ({
        requests,
        text: value.text,
        warnings: [...warnings]
      }))
    )

  it.live("that refuses the keys is told to the user once, and not asked again", () =>
    Effect.gen(function* () {
      const { requests, text, warnings } = yield* told(
        () => ({ status: 401 }),
        (plugins) =>
          Effect.provide(
            Effect.andThen(Effect.repeat(Agent.run({ prompt: "hi" }), { times: 1 }), Agent.run({ prompt: "hi" })),
            Runs.runtime(
              ["fine", "fine", "fine"].map((text) => Scripted.complete(text)),
              [],
              [],
              plugins
            ).layer
          )
      )
      assert.strictEqual(text, "fine")
      assert.isAtMost(requests.length, 2)
      assert.strictEqual(warnings.length, 1)
      assert.match(
        warnings[0] ?? "",
        /refuses the credentials.*check HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY/u
      )
      assert.notInclude(warnings[0] ?? "", "sk-lf")
    })
  )

  it.live("that is busy is asked again", () =>
    Effect.gen(function* () {
      const { requests, warnings } = yield* told((index) =>
        index === 0 ? { status: 503, headers: { "retry-after": "0" } } : {}
      )
      assert.deepStrictEqual(warnings, [])
      assert.strictEqual(requests[0]?.body, requests[1]?.body)
    })
  )

  it.live("that is down, or takes nothing, is one warning", () =>
    Effect.gen(function* () {
      const bad = yield* told(() => ({ status: 400 }))
      assert.deepStrictEqual([bad.text, bad.warnings.length], ["fine", 1])
      assert.match(bad.warnings[0] ?? "", /status 400/u)
      const some = yield* told(() => ({
        body: JSON.stringify({ partialSuccess: { rejectedSpans: "2", errorMessage: "too old" } })
      }))
      assert.match(some.warnings[0] ?? "", /2 spans were rejected: too old/u)
      const inProtobuf = (bytes: ReadonlyArray<number>) =>
        told(() => ({ headers: { "content-type": "application/x-protobuf" }, body: Buffer.from(bytes) }))
      const message = [...Buffer.from("too old \u00e4")]
      const partial = [8, 0xac, 2, 18, message.length, ...message]
      const other = yield* inProtobuf([10, partial.length, ...partial])
      assert.match(other.warnings[0] ?? "", /300 spans were rejected: too old \u00e4$/u)
      // A success that says nothing, an unknown field before it, a negative length, and one that is cut off.
      const fine = [
        [],
        [10, 0],
        [16, 5],
        [10, 2, 8, 0],
        [10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        [13, 1, 2, 3, 4],
        [10, 9, 18],
        [0xff]
      ]
      for (const bytes of fine) assert.deepStrictEqual((yield* inProtobuf(bytes)).warnings, [], bytes.join())
      const down = yield* withWarnings((warnings) =>
        one([LangfusePlugin.make({ ...keys, baseUrl: "http://127.0.0.1:1" })]).pipe(
          Effect.map(({ text }) => [text, warnings.length, warnings[0] ?? ""] as const)
        )
      )
      assert.deepStrictEqual(down.slice(0, 2), ["fine", 1])
      assert.match(down[2], /traces are lost.*cannot be reached.*check HERMES_LANGFUSE_BASE_URL/u)
    })
  )

  it.live("that never answers holds up neither the run nor, for long, the end", () =>
    Effect.gen(function* () {
      const { text, warnings } = yield* told(() => "hang")
      assert.strictEqual(text, "fine")
      assert.match(warnings[0] ?? "", /some traces were not sent/u)
    })
  )
})

describe("usage", () => {
  const used = { ...Usage.zero, inputTokens: 100, outputTokens: 50, cacheReadTokens: 800, reasoningTokens: 30 }

  it("has the keys of Langfuse's price list for the family of the model", () => {
    for (const model of ["gpt-5.1", "openai/gpt-4o-mini", "o3", "gemini-2.5-pro"])
      assert.deepStrictEqual(
        Generation.toUsageCounters(used, model),
        { input: 100, output: 20, input_cached_tokens: 800, output_reasoning_tokens: 30, total: 950 },
        model
      )
    for (const model of ["claude-opus-4-6", "anthropic.claude-3-5-sonnet", "qwen3-max", "offline"])
      assert.deepStrictEqual(
        Generation.toUsageCounters(used, model),
        { input: 100, output: 50, cache_read_input_tokens: 800, reasoning_tokens: 30, total: 950 },
        model
      )
  })
})

describe("the program with observability/langfuse", () => {
  it.live("is enabled by its key, and traces what the variables say", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const { hermes } = yield* machine
      const env = {
        HERMES_LANGFUSE_PUBLIC_KEY: "pk-lf-1",
        HERMES_LANGFUSE_SECRET_KEY: "sk-lf-2",
        HERMES_LANGFUSE_BASE_URL: `${server.url}/`
      }
      const enabled = yield* hermes(["plugins", "enable", "observability/langfuse"])
      assert.strictEqual(enabled.code, 0, enabled.stderr)
      const list = yield* hermes(["plugins", "list"])
      assert.match(list.stdout, /langfuse/u)
      const ended = yield* hermes(["chat", "-Q", "-q", "Reply exactly ok"], { env })
      assert.deepStrictEqual([ended.code, ended.stdout], [0, "ok\n"], ended.stderr)
      for (const request of server.requests) ingest(request, "pk-lf-1:sk-lf-2")
      const [root] = server.trees()
      assert.deepStrictEqual(root && names(root), ["Hermes turn", "LLM call 1"])
      assert.deepStrictEqual([meta(root, "platform"), meta(root, "source")], ["cli", "hermes"])
      const without = yield* hermes(["chat", "-Q", "-q", "Reply exactly ok"])
      assert.strictEqual(without.stdout, "ok\n")
      assert.strictEqual(without.stderr.match(/langfuse/gu)?.length, 2, without.stderr)
      assert.match(
        without.stderr,
        /set HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY, or disable observability\/langfuse/u
      )
    })
  )
})
