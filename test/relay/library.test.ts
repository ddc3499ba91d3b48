// The plugin in this process, over the native library: what its own exporters write of runs, one after another and at
// once.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { AsyncLocalStorage } from "node:async_hooks"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import { record, RunRecorder } from "../../src/base/domain/RunRecorder.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as Library from "../../src/observe/relay/Library.ts"
import * as Provider from "../../src/models/provider/Provider.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Delegation from "../../src/tools/builtin/Delegate.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../observe/support/relay.ts"
import * as Runs from "../observe/support/runs.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const exporters = (directory: string, atif = join(directory, "atif")) => `version = 1

[[components]]
kind = "observability"
enabled = true

[components.config]
version = 1

[components.config.atof]
enabled = true
output_directory = "${join(directory, "atof")}"
filename = "events.jsonl"
mode = "overwrite"

[components.config.atif]
enabled = true
output_directory = "${atif}"
filename_template = "trajectory-{session_id}.json"
agent_name = "Hermes Agent"
agent_version = "local"

`

const adaptive = `[[components]]
kind = "adaptive"
enabled = true

[components.config.tool_parallelism]
mode = "observe_only"
`

/** How calls are recorded, and the configuration for it. */
const ways = [
  ["shown", exporters],
  ["executed", (directory: string) => exporters(directory) + adaptive]
] as const

interface Written {
  readonly stream: Atof.Stream
  readonly text: string
  readonly trajectories: ReadonlyArray<
    Atif.Trajectory & { readonly extra?: { readonly nemo_relay?: { readonly session_id?: string } } | null }
  >
  /** The events that the plugin's own recorder made of the same runs. */
  readonly own: Atof.Stream
  readonly warnings: ReadonlyArray<string>
}

const files = (folder: string): ReadonlyArray<string> =>
  existsSync(folder)
    ? readdirSync(folder)
        .toSorted()
        .map((name) => readFileSync(join(folder, name), "utf8"))
    : []

/** What the library wrote of what happens in `use`. */
const withRelay = <A, E>(
  toml: (directory: string) => string,
  use: (parts: Fake.Opened, directory: string) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const file = join(directory, "plugins.toml")
    writeFileSync(file, toml(directory))
    const warnings: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === "Warn") warnings.push(String(message))
    })
    const trace = {
      agent: Runs.agent,
      atof: { directory, filename: "own.jsonl", mode: "append" } as const,
      atif: undefined
    }
    const value = yield* Effect.scoped(
      Effect.flatMap(Fake.open({ trace, pluginsToml: file }), (parts) => use(parts, directory))
    ).pipe(Effect.provide(Logger.layer([logger])), Effect.provide(NodeServices.layer))
    const [text = ""] = files(join(directory, "atof"))
    const ownFile = join(directory, "own.jsonl")
    const written: Written = {
      stream: Atof.parse(text),
      text,
      trajectories: files(join(directory, "atif")).map((content) => JSON.parse(content)),
      own: Atof.parse(existsSync(ownFile) ? readFileSync(ownFile, "utf8") : ""),
      warnings
    }
    return { value, directory, ...written }
  })

const run = (
  parts: Fake.Opened,
  turns: ReadonlyArray<Scripted.Turn>,
  sessionId = "s1",
  hooks: ReadonlyArray<Hook> = []
) =>
  Effect.provide(
    Agent.run({ prompt: "go", sessionId }),
    Runs.runtime(turns, hooks, parts.middleware, [], { record: parts.record }).layer
  )

const errors = (value: unknown) => AtifCheck.check(value).filter(({ severity }) => severity === "error")

/** The only thing that is odd in a stream of the library: its own root, which it never tells of. */
const assertSound = (stream: Atof.Stream): void =>
  assert.deepStrictEqual(
    Atof.check(stream).filter(({ message }) => message !== "events are in a scope that is not in the stream"),
    []
  )

/** What of a step does not depend on clocks and on ids that each recorder makes by itself. */
/** What calls side by side gave, in an order that does not depend on which of them was faster. */
const inOrder = <A extends { readonly id: string | null | undefined }>(results: ReadonlyArray<A>): ReadonlyArray<A> =>
  results.toSorted((a, b) => (String(a.id) < String(b.id) ? -1 : 1))

const essence = ({ steps, subagent_trajectories: children }: Atif.Trajectory): unknown => ({
  steps: steps.map(({ message, metrics, model_name, observation, reasoning_content, source, tool_calls }) => ({
    source,
    message,
    model_name,
    reasoning_content,
    metrics,
    calls: tool_calls?.map(({ arguments: args, function_name: name, tool_call_id: id }) => ({ id, name, args })),
    results:
      observation &&
      inOrder(
        observation.results.map(({ content, source_call_id: id, subagent_trajectory_ref: refs }) => ({
          id,
          content,
          refs: refs?.map(({ session_id }) => session_id)
        }))
      )
  })),
  children: children?.map(essence)
})

const Echoing = Tool.make("echo", {
  parameters: Schema.Struct({ text: Schema.String, deep: Schema.Unknown }),
  success: Schema.String
})
const echoKit = Toolkit.make(Echoing)
const echoing = Toolset.make(
  "echoing",
  echoKit,
  echoKit.toLayer({ echo: ({ text }) => Effect.succeed(text.slice(0, 2000)) })
)

/**
 * The same with ids of children, which are new in each run, by their order, and without how long they took; the
 * stand-in counts the digits of that among the tokens of the prompt.
 */
const named = (value: unknown): unknown => {
  const known: Array<string> = []
  return JSON.parse(
    JSON.stringify(value)
      .replaceAll(/duration_seconds\\*":[\d.]+/gu, "duration_seconds")
      .replaceAll(/prompt_tokens":\d+/gu, 'prompt_tokens":0')
      .replaceAll(/\d{8}_\d{6}_[0-9a-f]{6}/gu, (id) => {
        if (!known.includes(id)) known.push(id)
        return `child ${known.indexOf(id)}`
      })
  )
}

describe("a configuration of the first generation", () => {
  it.live("64 is converted, and both files appear; given to the library as it stands it is refused", () =>
    Effect.gen(function* () {
      const { stream, trajectories, warnings } = yield* withRelay(exporters, (parts) => run(parts, Runs.parallel))
      assertSound(stream)
      assert.strictEqual(trajectories.length, 1)
      assert.deepStrictEqual(warnings, [])
      const library = yield* Library.load
      const raw = {
        version: 1,
        components: [
          {
            kind: "observability",
            enabled: true,
            config: { version: 1, atof: { enabled: true, output_directory: "x" } }
          }
        ]
      }
      const refused = yield* Effect.flip(Effect.tryPromise(() => library.initialize(raw, "/nowhere/plugins.toml")))
      assert.match(String(refused.cause), /version|not/u)
    })
  )

  it.live("65 and 151 that the library refuses is a warning; the run stands, and so does our own file", () =>
    Effect.gen(function* () {
      const { own, stream, value, warnings } = yield* withRelay(
        (directory) =>
          exporters(directory).replace(
            'filename_template = "trajectory-{session_id}.json"',
            'filename_template = "trajectory.json"'
          ),
        (parts) => run(parts, Runs.parallel)
      )
      assert.strictEqual(value.text, "parallel tools complete.")
      assert.strictEqual(warnings.length, 1)
      assert.match(warnings[0] ?? "", /NeMo Relay could not be set up/u)
      assert.deepStrictEqual(stream.events, [])
      assert.deepStrictEqual(Atof.check(own), [])
    })
  )

  it.live("71 the user's own configuration is not inherited", () =>
    Effect.gen(function* () {
      const elsewhere = yield* temporaryDirectory
      const folder = join(process.env["XDG_CONFIG_HOME"] ?? "", "nemo-relay")
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, "plugins.toml"), exporters(elsewhere))
      const { stream, warnings } = yield* withRelay(exporters, (parts) => run(parts, Runs.parallel))
      assert.isAbove(stream.events.length, 0)
      assert.deepStrictEqual([readdirSync(elsewhere), warnings], [[], []])
      writeFileSync(join(folder, "plugins.toml"), "")
    })
  )

  it.live(
    "73 an ATIF directory that can not be written is a warning when the session closes, and the run's result stands",
    () =>
      Effect.gen(function* () {
        const { stream, value, warnings } = yield* withRelay(
          (directory) => {
            writeFileSync(join(directory, "taken"), "")
            return exporters(directory, join(directory, "taken", "atif"))
          },
          (parts) => run(parts, Runs.parallel)
        )
        assert.strictEqual(value.text, "parallel tools complete.")
        assert.isAbove(warnings.length, 0)
        assert.match(warnings.join("\n"), /NeMo Relay (did not deliver everything|could not be set up)/u)
        assertSound(stream)
        const after = yield* withRelay(exporters, (parts) => run(parts, Runs.parallel))
        assert.strictEqual(after.trajectories.length, 1, "and the next session has it again")
      })
  )

  it.live("152 two sessions in turn are both in the file, also when it is one that is begun anew", () =>
    Effect.gen(function* () {
      const { stream, trajectories } = yield* withRelay(exporters, (parts) =>
        Effect.forEach(["one", "two"], (id) =>
          // The session ends with its runtime.
          run(parts, [Scripted.complete(id)], id)
        )
      )
      assertSound(stream)
      const sessions = stream.events
        .filter((event) => event.kind === "scope" && event.category === "agent")
        .map(({ metadata }) => metadata?.["session_id"])
      assert.deepStrictEqual(sessions, ["one", "one", "two", "two"])
      assert.strictEqual(trajectories.length, 2)
    })
  )
})

for (const [way, toml] of ways) {
  describe(`calls that are ${way}`, () => {
    it.live("67 and 74 are in the stream once, in order, and the library's trajectory is sound", () =>
      Effect.gen(function* () {
        const { stream, trajectories } = yield* withRelay(toml, (parts) => run(parts, Runs.parallel))
        assertSound(stream)
        const scopes = stream.events.flatMap((event) =>
          event.kind === "scope" ? [`${event.category} ${event.scope_category}`] : []
        )
        assert.deepStrictEqual(scopes, [
          "agent start",
          "llm start",
          "llm end",
          "tool start",
          "tool start",
          "tool end",
          "tool end",
          "llm start",
          "llm end",
          "agent end"
        ])
        assert.deepStrictEqual(
          stream.events.flatMap((event) => (event.kind === "mark" ? [[event.name, event.data]] : [])),
          [
            ["hermes.turn.start", null],
            ["hermes.turn.end", null],
            ["hermes.session.end", null]
          ]
        )
        const ends = stream.events.filter(
          (event) => event.kind === "scope" && event.category !== "agent" && event.scope_category === "end"
        )
        assert.isTrue(ends.every(({ metadata }) => metadata?.["status"] === "ok"))
        for (const trajectory of trajectories) assert.deepStrictEqual(errors(trajectory), [])
        assert.strictEqual(trajectories[0]?.extra?.nemo_relay?.session_id, "s1")
      })
    )

    it.live("the library's stream converts to what our own stream of the same run converts to", () =>
      Effect.gen(function* () {
        // Without exporters in the configuration ours write; the library's stream is taken from a second run of the
        // script.
        const theirs = yield* withRelay(toml, (parts) => run(parts, Runs.parallel))
        const ours = yield* withRelay(
          () => adaptive,
          (parts) => run(parts, Runs.parallel)
        )
        const [first] = AtifConvert.convert(theirs.stream.events).trajectories
        const [second] = AtifConvert.convert(ours.own.events).trajectories
        assert.isDefined(first)
        assert.isDefined(second)
        if (first !== undefined && second !== undefined) assert.deepStrictEqual(essence(first), essence(second))
      })
    )

    it.live("the library's stream tells whole texts, failed calls and children as our own does", () =>
      Effect.gen(function* () {
        const long = "long line of text\n".repeat(6000)
        const deep = Array.from({ length: 20 }).reduce<object>((inner) => ({ inner }), { text: "here" })
        const turns: ReadonlyArray<Scripted.Turn> = [
          Scripted.complete({
            text: long,
            reasoning: long,
            toolCalls: [
              { id: "c1", name: "echo", params: { text: long, deep } },
              { id: "c2", name: "read_file", params: { path: "nowhere" } }
            ]
          }),
          Scripted.complete({ toolCalls: [{ id: "c3", name: "delegate_task", params: { goal: "one" } }] }),
          Scripted.complete({ toolCalls: [{ id: "c1", name: "read_file", params: { path: "library.test.ts" } }] }),
          Scripted.complete("found"),
          Scripted.complete(`done ${long}`)
        ]
        const go = ({ middleware, record }: Fake.Opened) =>
          Effect.provide(
            Agent.run({ prompt: `go ${long}`, sessionId: "s1", cwd: import.meta.dirname }),
            Runtime.layer({
              provider: Scripted.layer([...turns]),
              record,
              middleware,
              tools: [echoing, FileTools.toolset, Delegation.toolset]
            })
          )
        const theirs = yield* withRelay(toml, go)
        const ours = yield* withRelay(() => "", go)
        assertSound(theirs.stream)
        const [first] = AtifConvert.convert(theirs.stream.events).trajectories
        const [second] = AtifConvert.convert(ours.own.events).trajectories
        assert.isDefined(second)
        assert.include(JSON.stringify(second), JSON.stringify(long).slice(1, -1))
        assert.deepStrictEqual(first && named(essence(first)), second && named(essence(second)))
        // A child is in the call that delegated to it.
        const scopes = theirs.stream.events.flatMap((event) =>
          event.kind === "scope" && event.scope_category === "start" ? [event] : []
        )
        const [, child] = scopes.filter(({ category }) => category === "agent")
        assert.strictEqual(child?.metadata?.["parent_tool_call_id"], "c3")
      })
    )

    it.live("a request of more than two megabytes is told as our own stream tells it", () =>
      Effect.gen(function* () {
        const texts = Array.from({ length: 3 }, (_, n) => Prompt.textPart({ text: `see ${n} `.repeat(120_000) }))
        const go = ({ middleware, record }: Fake.Opened) =>
          Effect.provide(
            Agent.run({ prompt: texts, sessionId: "s1" }),
            Runtime.layer({ provider: Scripted.layer([Scripted.complete("seen")]), record, middleware })
          )
        const theirs = yield* withRelay(toml, go)
        const ours = yield* withRelay(() => "", go)
        const [first] = AtifConvert.convert(theirs.stream.events).trajectories
        const [second] = AtifConvert.convert(ours.own.events).trajectories
        const call = theirs.stream.events.find(
          (event) => event.kind === "scope" && event.category === "llm" && event.scope_category === "start"
        )
        assert.include(JSON.stringify(call?.data), "see 2 ".repeat(120_000).trimEnd())
        assert.isTrue(JSON.stringify(first && essence(first)) === JSON.stringify(second && essence(second)))
      })
    )

    it.live("14 that no JSON can express do not end the process", () =>
      Effect.gen(function* () {
        const cycle: Record<string, unknown> = { big: 10n, when: new Date(0), nothing: undefined, half: "\ud800" }
        cycle["self"] = cycle
        for (let n = 0; n < 10_000; n++) cycle["deep"] = { deep: cycle["deep"] }
        const { stream, text, value } = yield* withRelay(toml, ({ middleware, record }) => {
          const wild = (request: object) => ({ ...request, extra_body: cycle })
          return Effect.provide(
            Agent.run({ prompt: "go", sessionId: "s1" }),
            Runtime.layer({
              provider: Scripted.layer([Scripted.complete("ok")]),
              record,
              middleware: [rewriting(wild), ...middleware]
            })
          )
        })
        assert.strictEqual(value.text, "ok")
        assertSound(stream)
        assert.include(text, "circular")
        assert.include(text, '"big":"10"')
      })
    )

    it.live("19 keep a secret out of the library's files", () =>
      Effect.gen(function* () {
        const secret = `sk-${"proj-abcdefghijklmnopqrstuvwxyz0123456789"}`
        const { text, trajectories } = yield* withRelay(toml, ({ middleware, record }) => {
          const leaky = (request: object) => ({
            ...request,
            api_key: secret,
            extra_headers: { authorization: `Bearer ${secret}` }
          })
          return Effect.provide(
            Agent.run({ prompt: `my key is ${secret}` }),
            Runtime.layer({
              provider: Scripted.layer([Scripted.complete(`so it is ${secret}`)]),
              record,
              middleware: [rewriting(leaky), ...middleware]
            })
          )
        })
        assert.isAbove(text.length, 0)
        assert.strictEqual(trajectories.length, 1)
        assert.notInclude(text + JSON.stringify(trajectories), secret)
      })
    )

    it.live("161 that fail do so with their own error, which the library's stream tells of", () =>
      Effect.gen(function* () {
        const { stream, value } = yield* withRelay(toml, (parts) =>
          Effect.flip(run(parts, [Scripted.fail(new AiError.InvalidRequestError({ description: "bad words" }))]))
        )
        assert.isTrue(AiError.isAiError(value))
        assert.strictEqual(AiError.isAiError(value) && value.reason._tag, "InvalidRequestError")
        assertSound(stream)
        const end = stream.events.find(
          (event) => event.kind === "scope" && event.category === "llm" && event.scope_category === "end"
        )
        assert.strictEqual(end?.metadata?.["status"], "error")
        // Of a call that it is only shown the library says OK, whatever it is told.
        if (way === "executed") assert.strictEqual(end?.metadata?.["otel.status_code"], "ERROR")
        assert.include(JSON.stringify(end), "bad words")
      })
    )

    it.live("are in the asynchronous context of whoever runs the agent", () =>
      Effect.gen(function* () {
        const context = new AsyncLocalStorage<string>()
        const seen: Array<string | undefined> = []
        const look = () => Effect.sync(() => String(seen.push(context.getStore())))
        const probe = Middleware.llmExecution({
          name: "probe",
          wrap: (next) => (request) => Effect.andThen(look(), next(request))
        })
        const handlers = delegates.toLayer({ delegate: look })
        yield* withRelay(toml, ({ middleware, record }) => {
          const turns = [
            Scripted.complete({ toolCalls: [{ id: "c", name: "delegate", params: { goal: "g" } }] }),
            Scripted.complete("ok")
          ]
          const tools = [Toolset.make("delegates", delegates, handlers)]
          const layer = Runtime.layer({
            provider: Scripted.layer(turns),
            tools,
            record,
            middleware: [...middleware, probe]
          })
          return Effect.promise(() =>
            context.run("theirs", () => Effect.runPromise(Effect.provide(Agent.run({ prompt: "go" }), layer)))
          )
        })
        assert.deepStrictEqual(seen, ["theirs", "theirs", "theirs"])
      })
    )

    it.live("55 and 70 fifty sessions at once, each with two children at once, are fifty right trees", () =>
      Effect.gen(function* () {
        const sessions = Array.from({ length: 50 }, (_, index) => `session-${index}`)
        const { stream, trajectories } = yield* withRelay(toml, (parts) => delegating(parts, sessions))
        assertSound(stream)
        const { trajectories: trees } = AtifConvert.convert(stream.events)
        assert.deepStrictEqual(trees.map(({ session_id: id }) => id).toSorted(), sessions.toSorted())
        for (const tree of trees) {
          assert.deepStrictEqual(errors(tree), [])
          const own = tree.session_id ?? ""
          const step = tree.steps.find((one) => one.tool_calls)
          const refs = step?.observation?.results.map((result) => [
            result.source_call_id,
            result.subagent_trajectory_ref?.map((ref) => ref.session_id)
          ])
          assert.deepStrictEqual(refs?.toSorted(), [
            [`${own}-a`, [`${own}-a-child`]],
            [`${own}-b`, [`${own}-b-child`]]
          ])
          assert.deepStrictEqual(tree.subagent_trajectories?.map((child) => child.steps.at(-1)?.message).toSorted(), [
            `${own}-a-child done`,
            `${own}-b-child done`
          ])
          assert.strictEqual(tree.steps.at(-1)?.message, `${own} done`)
        }
        assert.strictEqual(trajectories.length, 50)
        for (const trajectory of trajectories) {
          assert.deepStrictEqual(errors(trajectory), [])
          const own = trajectory.extra?.nemo_relay?.session_id ?? ""
          assert.deepStrictEqual(trajectory.subagent_trajectories?.map((child) => child.session_id).toSorted(), [
            `${own}-a-child`,
            `${own}-b-child`
          ])
        }
      })
    )
  })
}

describe("what others have registered with the library", () => {
  const outcomes = (turns: ReadonlyArray<Scripted.Turn>) =>
    Effect.gen(function* () {
      const done: Array<readonly [result: unknown, status: string]> = []
      const watch = Hooks.on("post_tool_call", ({ result, status }) =>
        Effect.sync(() => void done.push([result, status]))
      )
      const written = yield* withRelay(ways[1][1], (parts) => run(parts, turns, "s1", [watch]))
      return { done, ...written }
    })
  const echo = [
    Scripted.complete({ toolCalls: [{ id: "c", name: "echo", params: { text: "own" } }] }),
    Scripted.complete("end")
  ]
  const registered = (add: () => void, remove: () => void) =>
    Effect.acquireRelease(Effect.sync(add), () => Effect.sync(remove))

  it.live("a guardrail that rejects a call keeps it from running; the model is told why, and the stream says so", () =>
    Effect.gen(function* () {
      const relay = yield* Effect.promise(() => import("nemo-relay-node"))
      yield* registered(
        () =>
          relay.registerToolConditionalExecutionGuardrail("no-echo", 1, (name) =>
            name === "echo" ? "not today" : null
          ),
        () => void relay.deregisterToolConditionalExecutionGuardrail("no-echo")
      )
      const { done, stream, value, warnings } = yield* outcomes(echo)
      assert.strictEqual(value.text, "end")
      assert.strictEqual(done[0]?.[1], "blocked")
      assert.include(JSON.stringify(done[0]?.[0]), "not today")
      assert.deepStrictEqual(warnings, [])
      assert.deepStrictEqual(
        stream.events.filter((event) => event.kind === "scope" && event.category === "tool"),
        []
      )
    })
  )

  it.live("157 an intercept that changes arguments and result changes what runs and what the model gets", () =>
    Effect.gen(function* () {
      const relay = yield* Effect.promise(() => import("nemo-relay-node"))
      yield* registered(
        () =>
          relay.registerToolExecutionIntercept("louder", 1, async (_context, next) => ({
            result: `${(await next({ text: "theirs" })).result}!`
          })),
        () => void relay.deregisterToolExecutionIntercept("louder")
      )
      const { done, stream } = yield* outcomes(echo)
      assert.deepStrictEqual(done, [["theirs!", "ok"]])
      assertSound(stream)
    })
  )
})

/** Middleware that gives every request something more. */
const rewriting = (change: (request: object) => Record<string, unknown>): Middleware.LlmRequest =>
  Middleware.llmRequest({
    name: "more",
    rewrite: (request) => Effect.succeed(Middleware.replacePayload(change(request)))
  })

const Delegate = Tool.make("delegate", {
  description: "Has somebody else do it",
  parameters: Schema.Struct({ goal: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const delegates = Toolkit.make(Delegate)

/** A provider for many sessions at once: each has a script of its own. */
const perSession = (scripts: Readonly<Record<string, ReadonlyArray<Scripted.Turn>>>) =>
  Layer.effect(
    Provider.Provider,
    Effect.gen(function* () {
      const made = new Map<string, Provider.Service>()
      for (const [id, turns] of Object.entries(scripts)) made.set(id, (yield* Scripted.make(turns)).provider)
      const { provider: base } = yield* Scripted.make([])
      return {
        ...base,
        // Which session a request is of stands in it, for the provider's cache.
        execute: (request, options) => (made.get(String(request["prompt_cache_key"])) ?? base).execute(request, options)
      }
    })
  )

/**
 * Sessions at once, each with a model that delegates twice in one step; children are told of as delegation tells of
 * them.
 */
const delegating = (parts: Fake.Opened, sessions: ReadonlyArray<string>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const scripts = sessions.flatMap((id): ReadonlyArray<readonly [string, ReadonlyArray<Scripted.Turn>]> => [
        [
          id,
          [
            Scripted.complete({
              toolCalls: ["a", "b"].map((name) => ({
                id: `${id}-${name}`,
                name: "delegate",
                params: { goal: `${id}-${name}` }
              }))
            }),
            Scripted.complete(`${id} done`)
          ]
        ],
        ...["a", "b"].map((name) => [`${id}-${name}-child`, [Scripted.complete(`${id}-${name}-child done`)]] as const)
      ])
      const runtime = Deferred.makeUnsafe<Context.Context<Agent.Agent>>()
      const handlers = delegates.toLayer({
        delegate: ({ goal }) => {
          const sessionId = Ids.SessionId.make(`${goal}-child`)
          const child = { subagentId: `sa-${goal}`, sessionId }
          return Effect.gen(function* () {
            yield* record((recorder) =>
              recorder.write({ _tag: "ChildStarted", callId: goal, ...child, goal, role: "leaf", background: false })
            )
            yield* Effect.flatMap(RunRecorder, (recorder) => recorder?.flush ?? Effect.void)
            yield* Effect.provide(Agent.run({ prompt: goal, sessionId }), yield* Deferred.await(runtime))
            yield* record((recorder) =>
              recorder.write({ _tag: "ChildEnded", ...child, status: "completed", durationMillis: 1 })
            )
            return '{"status":"completed"}'
          }).pipe(Effect.orDie)
        }
      })
      const context = yield* Layer.build(
        Runtime.layer({
          provider: perSession(Object.fromEntries(scripts)),
          tools: [Toolset.make("delegates", delegates, handlers)],
          record: parts.record,
          middleware: parts.middleware
        })
      )
      yield* Deferred.succeed(runtime, context)
      yield* Effect.forEach(sessions, (id) => Effect.provide(Agent.run({ prompt: "go", sessionId: id }), context), {
        concurrency: "unbounded",
        discard: true
      })
    })
  )
