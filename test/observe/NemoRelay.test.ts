// NeMo Relay as a plugin, over a stand-in for its library: what the library is asked, and what becomes of what it does.
// The real library runs in test/relay, in processes of its own.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { hash } from "node:crypto"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import type { RecordEvent } from "../../src/base/domain/RecordEvent.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as NemoRelayPlugin from "../../src/observe/NemoRelayPlugin.ts"
import * as Library from "../../src/observe/relay/Library.ts"
import * as TracePlugin from "../../src/observe/TracePlugin.ts"
import * as TraceSettings from "../../src/observe/TraceSettings.ts"
import { HiddenVariables, takeOver } from "../../src/base/platform/ProcessVariables.ts"
import * as Plugin from "../../src/agent/plugin/Plugin.ts"
import type { RunRecord } from "../../src/store/RunRecord.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { picture } from "../support/generatedPlans.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as Fake from "./support/relay.ts"
import * as Runs from "./support/runs.ts"
import { isClockWarning } from "../support/clockWarnings.ts"

const adaptive = `[[components]]
kind = "adaptive"
enabled = true

[components.config.tool_parallelism]
mode = "observe_only"
`

const exporters = (directory: string) => `version = 1

[[components]]
kind = "observability"
enabled = true

[components.config]
version = 1

[components.config.atof]
enabled = true
output_directory = "${join(directory, "toml-atof")}"
filename = "events.jsonl"
mode = "overwrite"

[components.config.atif]
enabled = true
output_directory = "${join(directory, "toml-atif")}"
filename_template = "trajectory-{session_id}.json"
agent_name = "Hermes Agent"
agent_version = "local"

`

interface Given {
  readonly wishes?: Fake.Wishes
  readonly toml?: (directory: string) => string
  /** The variables of our own exporters, with their directory. */
  readonly exports?: boolean
}

/** The plugin's parts over a stand-in, for the time of `use`; and what it warned of. */
const withRelay = <A, E>(
  { exports: isExporting = false, toml, wishes }: Given,
  use: (parts: Fake.Opened, fake: ReturnType<typeof Fake.make>, directory: string) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const fake = Fake.make(wishes)
    const warnings: Array<string> = []
    const file = join(directory, "plugins.toml")
    if (toml !== undefined) writeFileSync(file, toml(directory))
    const variables: Record<string, string> = isExporting
      ? {
          ATOF_ENABLED: "1",
          ATOF_OUTPUT_DIRECTORY: directory,
          ATOF_FILENAME: "own.jsonl",
          ATIF_ENABLED: "1",
          ATIF_OUTPUT_DIRECTORY: directory
        }
      : {}
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === "Warn" && !isClockWarning(message)) warnings.push(String(message))
    })
    const value = yield* Effect.scoped(
      Effect.gen(function* () {
        const parts = yield* Fake.open(
          {
            trace: TraceSettings.fromVariables((name) => variables[name.slice("HERMES_NEMO_RELAY_".length)]),
            pluginsToml: toml === undefined ? undefined : file
          },
          fake.load
        )
        return yield* use(parts, fake, directory)
      })
    ).pipe(Effect.provide(Logger.layer([logger])), Effect.provide(NodeServices.layer))
    return { value, fake, warnings, directory, files: readdirSync(directory).toSorted() }
  })

const own = (directory: string) => Atof.parse(readFileSync(join(directory, "own.jsonl"), "utf8"))

const started: RecordEvent = {
  _tag: "RunStarted",
  version: 1,
  source: "cli",
  platform: "cli",
  provider: "p",
  model: "m",
  cwd: "/",
  resumed: false
}
const parent = { turnId: Ids.TurnId.make("t"), subagentId: "sa-0", goal: "goal", depth: 1 }
const ended: RecordEvent = { _tag: "SessionEnded", reason: "shutdown" }

const begin = ({ write }: Fake.Opened, id: string) => write(id, started)
const finish = ({ write }: Fake.Opened, id: string) => write(id, ended)

/** A run with a model that calls two tools at once and then answers. */
const run = (
  parts: Fake.Opened,
  turns: ReadonlyArray<Scripted.Turn> = Runs.parallel,
  sessionId = "s1",
  hooks: ReadonlyArray<Hook> = []
) =>
  Effect.provide(
    Agent.run({ prompt: "go", sessionId }),
    Runs.runtime(turns, hooks, parts.middleware, [], { record: parts.record }).layer
  )

describe("events", () => {
  it.effect("140 and 141 are scopes, calls and marks, in order, with their own instants", () =>
    Effect.gen(function* () {
      const { fake } = yield* withRelay({}, (parts) => run(parts))
      const [root] = fake.of("push")
      assert.strictEqual(root?.name, "hermes-session-s1")
      assert.deepInclude(root?.metadata, { session_id: "s1", trajectory_id: "s1" })
      assert.deepStrictEqual(fake.calls(), [
        "push hermes-session-s1",
        "llm scripted",
        "llm end",
        "tool slow",
        "tool echo",
        "tool end",
        "tool end",
        "llm scripted",
        "llm end",
        "pop"
      ])
      assert.isTrue(fake.asked.every(({ micros, what }) => what === "flush" || Number(micros) > 0))
      assert.isTrue([...fake.of("llm"), ...fake.of("tool")].every(({ parent }) => parent === root?.uuid))
      assert.deepStrictEqual(
        fake.of("event").map(({ data, name }) => [name, data]),
        [
          ["hermes.turn.start", null],
          ["hermes.turn.end", null],
          ["hermes.session.end", null]
        ]
      )
      assert.deepInclude(fake.of("llm end")[0]?.metadata, { status: "ok", "otel.status_code": "OK" })
    })
  )

  it.effect(
    "an attempt that failed ends with its error in the metadata, in a sub-agent and with a partial answer too",
    () =>
      Effect.gen(function* () {
        const failure = { type: "RateLimitError", message: "slow down", status: 429 }
        const attempt = (answer: ReadonlyArray<{ readonly type: "text"; readonly text: string }>) =>
          [
            {
              _tag: "AttemptStarted",
              apiRequestId: "r",
              step: 1,
              attempt: 0,
              route: { provider: "p", model: "m", apiMode: "chat_completions" },
              messages: [],
              parameters: {}
            },
            { _tag: "AttemptEnded", apiRequestId: "r", status: "failed", answer, failure }
          ] as const
        const { fake } = yield* withRelay({}, ({ write }) =>
          Effect.gen(function* () {
            yield* write("P", started)
            yield* write("C", { ...started, parent: { ...parent, sessionId: Ids.SessionId.make("P") } }, ...attempt([]))
            yield* write("P", ...attempt([{ type: "text", text: "half" }]))
          })
        )
        const [inner, outer] = fake.of("llm end")
        assert.deepInclude(inner?.metadata, { error: failure })
        assert.deepInclude(outer?.metadata, { error: failure })
        // Readers take whatever is in the data for an answer.
        assert.strictEqual(inner?.data, null)
        assert.include(JSON.stringify(outer?.data), "half")
        assert.notInclude(JSON.stringify(outer?.data), "slow down")
      })
  )

  for (const [how, toml] of [
    ["shown", undefined],
    ["executed", () => adaptive]
  ] as const) {
    it.effect(`14 what no JSON can express reaches the library as what can be said of it, when calls are ${how}`, () =>
      Effect.gen(function* () {
        const cycle: Record<string, unknown> = { big: 10n, when: new Date(0), nothing: undefined }
        cycle["self"] = cycle
        for (let n = 0; n < 10_000; n++) cycle["deep"] = { deep: cycle["deep"] }
        const wild = Middleware.llmRequest({
          name: "wild",
          rewrite: (request) => Effect.succeed(Middleware.replacePayload({ ...request, extra_body: cycle }))
        })
        const { fake } = yield* withRelay(toml === undefined ? {} : { toml }, ({ middleware, record }) =>
          Effect.provide(
            Agent.run({ prompt: "go" }),
            Runtime.layer({
              provider: Scripted.layer([Scripted.complete("ok")]),
              record,
              middleware: [wild, ...middleware]
            })
          )
        )
        assert.include(JSON.stringify(fake.of(toml === undefined ? "llm" : "llm execute")), '"big":"10"')
        for (const { data, metadata } of fake.asked)
          assert.deepStrictEqual(JSON.parse(JSON.stringify([data, metadata])), [data, metadata])
      })
    )
  }

  it.effect("142 an end without a beginning is a pair: each call is told once, with its outcome", () =>
    Effect.gen(function* () {
      const { fake } = yield* withRelay({}, ({ write }) =>
        write("s1", started, {
          _tag: "CallEnded",
          callId: "c",
          name: "nobody",
          status: "blocked",
          ran: false,
          reason: "unknown_tool",
          durationMillis: 0,
          output: "no"
        })
      )
      assert.deepStrictEqual(fake.calls(), ["push hermes-session-s1", "tool nobody", "tool end", "pop"])
      assert.deepInclude(fake.of("tool end")[0]?.metadata, {
        status: "blocked",
        reason: "unknown_tool",
        tool_call_id: "c",
        "otel.status_code": "ERROR"
      })
    })
  )

  it.effect("143 approvals are marks of their session (ARCHITECTURE §7: they carry its id)", () =>
    Effect.gen(function* () {
      const { fake } = yield* withRelay({}, ({ write }) =>
        write(
          "s1",
          started,
          { _tag: "CallStarted", callId: "c", name: "terminal", args: {}, apiRequestId: "r", parallel: false },
          {
            _tag: "ApprovalDecided",
            callId: "c",
            subject: "rm x",
            choice: "deny",
            description: "removes",
            waitedMillis: 0
          }
        )
      )
      const [root] = fake.of("push")
      assert.deepStrictEqual(
        fake.of("event").map(({ metadata, name, parent }) => [name, parent === root?.uuid, metadata["choice"]]),
        [
          ["hermes.approval.request", true, undefined],
          ["hermes.approval.response", true, "deny"]
        ]
      )
    })
  )

  it.effect("145 and 146 a child is a scope under its parent's, and says which call it belongs to", () =>
    Effect.gen(function* () {
      const child = Ids.SessionId.make("C")
      const { fake } = yield* withRelay({}, ({ write }) =>
        Effect.gen(function* () {
          yield* write(
            "P",
            started,
            { _tag: "CallStarted", callId: "d", name: "delegate_task", args: {}, apiRequestId: "r", parallel: false },
            {
              _tag: "ChildStarted",
              callId: "d",
              subagentId: "sa-0",
              sessionId: child,
              goal: "goal",
              role: "leaf",
              background: false
            }
          )
          yield* write("C", started)
          yield* write("P", {
            _tag: "ChildEnded",
            subagentId: "sa-0",
            sessionId: child,
            status: "completed",
            durationMillis: 1
          })
        })
      )
      const [parent, inner] = fake.of("push")
      assert.strictEqual(inner?.parent, parent?.uuid)
      assert.deepInclude(inner?.metadata, {
        session_id: "C",
        trajectory_id: "C",
        parent_trajectory_id: "P",
        nemo_relay_scope_role: "subagent",
        subagent_id: "sa-0",
        parent_session_id: "P",
        parent_tool_call_id: "d"
      })
      const marks = fake.of("event").filter(({ name }) => name.startsWith("hermes.subagent"))
      assert.deepStrictEqual(
        marks.map(({ parent: within }) => within),
        [parent?.uuid, parent?.uuid]
      )
      assert.deepInclude(marks[0]?.metadata, {
        parent_trajectory_id: "P",
        child_trajectory_id: "C",
        child_role: "leaf",
        subagent_id: "sa-0"
      })
      assert.deepInclude(marks[1]?.metadata, { child_status: "completed" })
      assert.deepStrictEqual(
        fake.calls().slice(-2),
        ["tool end", "pop"],
        "the child's scope is closed before its parent's"
      )
    })
  )

  it.effect("prompts, requests, arguments and results are whole, at the instants of the record", () =>
    Effect.gen(function* () {
      const long = "long ".repeat(4000)
      const many = Array.from({ length: 120 }, (_, index) => `value ${index}`)
      const turns = [
        Scripted.complete({ toolCalls: [{ id: "c", name: "echo", params: { text: long, many } }] }),
        Scripted.complete(long)
      ]
      const { fake } = yield* withRelay({}, (parts) => run(parts, turns))
      assert.deepStrictEqual(fake.of("tool")[0]?.data, { text: long, many })
      assert.strictEqual(fake.of("tool end")[0]?.data, long)
      assert.include(JSON.stringify(fake.of("llm")[1]?.data), JSON.stringify(long))
      assert.include(JSON.stringify(fake.of("llm end")[1]?.data), long)
      const instants = fake.asked.flatMap(({ micros }) => (typeof micros === "number" ? [micros] : []))
      assert.deepStrictEqual(
        instants,
        instants.toSorted((a, b) => a - b)
      )
      assert.strictEqual(new Set(instants).size, instants.length)
    })
  )

  it.effect("what the library refuses is one warning, and the run and our own files stand", () =>
    Effect.gen(function* () {
      const { directory, value, warnings } = yield* withRelay(
        { wishes: { refuses: new Error("no") }, exports: true },
        (parts) => run(parts)
      )
      assert.strictEqual(value.text, "parallel tools complete.")
      assert.deepStrictEqual(warnings, ["NeMo Relay refused an event: no"])
      assert.deepStrictEqual(Atof.check(own(directory)), [])
    })
  )
})

describe("beside the trace plugin", () => {
  const both = (
    plugins: (
      trace: TraceSettings.TraceSettings,
      load: ReturnType<typeof Fake.make>["load"]
    ) => ReadonlyArray<Plugin.Plugin<RunRecord | FileSystem.FileSystem | Path.Path>>
  ) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const warnings: Array<string> = []
      const trace = TraceSettings.fromVariables(
        (name) =>
          (
            {
              ATOF_ENABLED: "1",
              ATOF_OUTPUT_DIRECTORY: directory,
              ATOF_FILENAME: "own.jsonl",
              ATIF_ENABLED: "1",
              ATIF_OUTPUT_DIRECTORY: directory
            } as Record<string, string>
          )[name.slice("HERMES_NEMO_RELAY_".length)]
      )
      const { layer } = Runs.runtime(Runs.parallel, [], [], plugins(trace, Fake.make().load))
      yield* Effect.scoped(Effect.provide(Agent.run({ prompt: "go", sessionId: "s1" }), layer)).pipe(
        Effect.provide(
          Logger.layer([
            Logger.make(({ logLevel, message }) => {
              if (logLevel === "Warn" && !isClockWarning(message)) warnings.push(String(message))
            })
          ])
        ),
        Effect.provide(NodeServices.layer)
      )
      return { stream: own(directory), warnings }
    })
  const relay = (trace: TraceSettings.TraceSettings, load: ReturnType<typeof Fake.make>["load"]) =>
    Plugin.make({
      name: "observability/nemo_relay",
      build: NemoRelayPlugin.open({ trace, pluginsToml: undefined }, load)
    })

  it.effect("each event is written once, and one warning says that two plugins would write it, in either order", () =>
    Effect.gen(function* () {
      const alone = yield* both((trace) => [TracePlugin.make(trace)])
      assert.deepStrictEqual(alone.warnings, [])
      for (const plugins of [
        yield* both((trace, load) => [TracePlugin.make(trace), relay(trace, load)]),
        yield* both((trace, load) => [relay(trace, load), TracePlugin.make(trace)])
      ]) {
        assert.deepStrictEqual(plugins.warnings, [
          "Two plugins would write the same ATOF and ATIF files; they are written once: enable observability/trace or observability/nemo_relay, not both."
        ])
        assert.deepStrictEqual(Atof.check(plugins.stream), [])
        assert.deepStrictEqual(
          plugins.stream.events.map(({ name }) => name),
          alone.stream.events.map(({ name }) => name)
        )
      }
    })
  )
})

describe("the library", () => {
  it.effect("68 and 139 that is not there is one warning, and our own writers write", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const warnings: Array<string> = []
      let loads = 0
      const load = Effect.suspend(() => {
        loads++
        return Effect.fail(
          new Library.NoLibrary({
            message: "NeMo Relay is not installed here: `npm install nemo-relay-node`",
            cause: "none"
          })
        )
      })
      const variables: Record<string, string> = {
        HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
        HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: directory
      }
      yield* Effect.scoped(
        Effect.gen(function* () {
          const parts = yield* Fake.open(
            { trace: TraceSettings.fromVariables((name) => variables[name]), pluginsToml: undefined },
            load
          )
          assert.deepStrictEqual(parts.middleware, [])
          yield* run(parts)
          yield* run(parts, Runs.parallel, "s2")
        })
      ).pipe(
        Effect.provide(
          Logger.layer([
            Logger.make(({ message }) => {
              if (!isClockWarning(message)) warnings.push(String(message))
            })
          ])
        ),
        Effect.provide(NodeServices.layer)
      )
      assert.strictEqual(loads, 1)
      assert.deepStrictEqual(warnings, [
        "NeMo Relay is not installed here: `npm install nemo-relay-node`; files that HERMES_NEMO_RELAY_* ask for are written without it"
      ])
      assert.deepStrictEqual(Atof.check(Atof.parse(readFileSync(join(directory, "hermes-atof.jsonl"), "utf8"))), [])
    })
  )
})

describe("a plugins.toml", () => {
  it.effect(
    "64 and 148 of the first generation is given to the library in its current form; its directories are there, our writers rest",
    () =>
      Effect.gen(function* () {
        const { directory, fake, files, warnings } = yield* withRelay({ toml: exporters, exports: true }, (parts) =>
          run(parts)
        )
        assert.deepStrictEqual(fake.configs, [
          {
            version: 1,
            components: [
              {
                kind: "observability",
                enabled: true,
                config: {
                  version: 4,
                  atof: {
                    enabled: true,
                    sinks: [
                      {
                        type: "file",
                        output_directory: join(directory, "toml-atof"),
                        filename: "events.jsonl",
                        mode: "overwrite"
                      }
                    ]
                  },
                  atif: {
                    enabled: true,
                    output_directory: join(directory, "toml-atif"),
                    filename_template: "trajectory-{session_id}.json",
                    agent_name: "Hermes Agent",
                    agent_version: "local",
                    model_name: "scripted"
                  }
                }
              }
            ]
          }
        ])
        assert.deepStrictEqual(files, ["plugins.toml", "toml-atif", "toml-atof"])
        assert.deepStrictEqual(warnings, [])
        assert.deepStrictEqual(fake.calls().slice(-4), ["pop", "flush", "stop injecting hermes-effect.status", "close"])
      })
  )

  it.effect(
    "71 is the only one: the library is given the name of a file that is not there in the place of the user's",
    () =>
      Effect.gen(function* () {
        const { fake } = yield* withRelay({ toml: exporters }, (parts) => run(parts))
        assert.strictEqual(fake.files.length, 1)
        assert.isFalse(existsSync(fake.files[0] ?? ""))
      })
  )

  it.effect(
    "149 each exporter of it takes the place of ours by itself (ARCHITECTURE §7), a bare adaptive one of none",
    () =>
      Effect.gen(function* () {
        const only = (name: string) => () =>
          `[[components]]\nkind = "observability"\n[components.config]\nversion = 4\n[components.config.${name}]\nenabled = true\n`
        const atof = yield* withRelay({ toml: only("atof"), exports: true }, (parts) => run(parts))
        assert.deepStrictEqual(atof.files, ["hermes-atif-s1.json", "plugins.toml"])
        const atif = yield* withRelay({ toml: only("atif"), exports: true }, (parts) => run(parts))
        assert.deepStrictEqual(atif.files, ["own.jsonl", "plugins.toml"])
        const neither = yield* withRelay({ toml: () => adaptive, exports: true }, (parts) => run(parts))
        assert.deepStrictEqual(neither.files, ["hermes-atif-s1.json", "own.jsonl", "plugins.toml"])
        assert.deepStrictEqual(
          Atof.check(own(neither.directory)),
          [],
          "our own stream has each call once, also when the library executes them"
        )
      })
  )

  for (const [what, toml] of [
    ["is no TOML", "version = "],
    ["is empty", "# nothing\n"]
  ] as const) {
    it.effect(`65 that ${what} is one warning, and our own writers write`, () =>
      Effect.gen(function* () {
        const { directory, fake, value, warnings } = yield* withRelay({ toml: () => toml, exports: true }, (parts) =>
          run(parts)
        )
        assert.strictEqual(value.text, "parallel tools complete.")
        assert.deepStrictEqual(fake.configs, [])
        assert.strictEqual(warnings.length, 1)
        assert.match(
          warnings[0] ?? "",
          /^the NeMo Relay configuration .*plugins\.toml cannot be used: .*are written without it$/u
        )
        assert.deepStrictEqual(Atof.check(own(directory)), [])
      })
    )
  }

  it.effect("65 that the library refuses is one warning with its words, and our own writers write", () =>
    Effect.gen(function* () {
      const wishes = { initialize: () => Promise.reject(new Error("invalid config: mode")) }
      const { directory, fake, warnings } = yield* withRelay(
        { toml: (at) => exporters(at) + adaptive, exports: true, wishes },
        (parts) => run(parts)
      )
      assert.strictEqual(warnings.length, 1)
      assert.match(warnings[0] ?? "", /could not be set up from .* \(invalid config: mode\)/u)
      assert.deepStrictEqual(Atof.check(own(directory)), [])
      assert.deepStrictEqual(fake.of("llm execute"), [], "and nothing is executed by it")
      assert.strictEqual(fake.of("llm").length, 2)
    })
  )

  it.effect(
    "151 that fails for one session is tried again for the next; our writer has the one and not the other",
    () =>
      Effect.gen(function* () {
        const wishes = {
          initialize: (before: number) => (before === 0 ? Promise.reject(new Error("not yet")) : Promise.resolve())
        }
        const { directory, fake } = yield* withRelay({ toml: exporters, exports: true, wishes }, (parts) =>
          Effect.gen(function* () {
            for (const id of ["one", "two"]) yield* run(parts, [Scripted.complete("ok")], id)
          })
        )
        assert.strictEqual(fake.configs.length, 2)
        assert.deepStrictEqual(
          new Set(own(directory).events.map(({ metadata }) => metadata?.["session_id"])),
          new Set(["one"])
        )
      })
  )

  it.effect("152 sessions in turn turn it on twice, and the second time adds to the files; overlapping ones once", () =>
    Effect.gen(function* () {
      const inTurn = yield* withRelay({ toml: exporters }, (parts) =>
        Effect.forEach(["one", "two"], (id) => Effect.andThen(begin(parts, id), finish(parts, id)))
      )
      assert.deepStrictEqual(
        inTurn.fake.calls().filter((call) => /^(push|pop|initialize|close)/u.test(call)),
        [
          "initialize",
          "push hermes-session-one",
          "pop",
          "close",
          "initialize",
          "push hermes-session-two",
          "pop",
          "close"
        ]
      )
      const modes = inTurn.fake.configs.map((config) => /"mode":"(\w+)"/u.exec(JSON.stringify(config))?.[1])
      assert.deepStrictEqual(modes, ["overwrite", "append"])
      const overlapping = yield* withRelay({ toml: exporters }, (parts) =>
        Effect.gen(function* () {
          yield* Effect.all([begin(parts, "one"), begin(parts, "two")], { concurrency: "unbounded" })
          yield* finish(parts, "one")
          yield* finish(parts, "two")
        })
      )
      const calls = overlapping.fake.calls()
      assert.deepStrictEqual(
        [calls.filter((call) => call === "initialize").length, calls.filter((call) => call === "close").length],
        [1, 1]
      )
      assert.strictEqual(calls.at(-1), "close")
    })
  )

  it.effect(
    "73, 154 and 167 whose closing fails is a warning; nothing after it is left out, and the next session has it again",
    () =>
      Effect.gen(function* () {
        const wishes = { close: () => Promise.reject(new Error("ATIF export failed")) }
        const { fake, warnings } = yield* withRelay({ toml: exporters, wishes }, (parts) =>
          Effect.forEach(["one", "two"], (id) => Effect.andThen(begin(parts, id), finish(parts, id)))
        )
        assert.deepStrictEqual(warnings, ["NeMo Relay did not deliver everything: ATIF export failed"])
        assert.deepStrictEqual(
          fake.of("push").map(({ name }) => name),
          ["hermes-session-one", "hermes-session-two"]
        )
        assert.strictEqual(fake.configs.length, 2)
        const calls = fake.calls()
        assert.isBelow(calls.indexOf("pop"), calls.indexOf("flush"))
        assert.isBelow(calls.indexOf("flush"), calls.indexOf("close"))
      })
  )

  it.effect("stays on for the next session while a child of the one before is not done", () =>
    Effect.gen(function* () {
      const { fake } = yield* withRelay({ toml: exporters }, (parts) =>
        Effect.gen(function* () {
          const sessionId = Ids.SessionId.make("child")
          yield* begin(parts, "one")
          yield* parts.write("one", {
            _tag: "ChildStarted",
            subagentId: "sa-0",
            sessionId,
            goal: "g",
            role: "leaf",
            background: true
          })
          yield* begin(parts, "child")
          yield* finish(parts, "one")
          yield* Effect.andThen(begin(parts, "two"), finish(parts, "two"))
        })
      )
      assert.deepStrictEqual(
        fake.calls().filter((call) => /^(initialize|push|pop|close)/u.test(call)),
        [
          "initialize",
          "push hermes-session-one",
          "push hermes-session-child",
          "push hermes-session-two",
          "pop",
          "pop",
          "pop",
          "close"
        ]
      )
    })
  )

  it.effect(
    "of a second runtime in the same process is refused by the library; that one goes on with its own files",
    () =>
      Effect.gen(function* () {
        const fake = Fake.make()
        const asked = (times: number) => Effect.repeat(Effect.yieldNow, { until: () => fake.configs.length === times })
        const directory = yield* temporaryDirectory
        const file = join(directory, "plugins.toml")
        writeFileSync(file, exporters(directory))
        const trace = {
          agent: Runs.agent,
          atof: { directory, filename: "own.jsonl", mode: "append" } as const,
          atif: undefined
        }
        yield* Effect.scoped(
          Effect.gen(function* () {
            const first = yield* Fake.open({ trace, pluginsToml: file }, fake.load)
            const second = yield* Fake.open({ trace, pluginsToml: file }, fake.load)
            yield* begin(first, "one")
            yield* asked(1)
            yield* run(second, [Scripted.complete("ok")], "two")
            yield* asked(2)
            yield* finish(first, "one")
            yield* finish(second, "two")
          })
        ).pipe(Effect.provide(NodeServices.layer))
        assert.deepStrictEqual([fake.configs.length, fake.of("initialize").length], [2, 1])
        assert.isTrue(own(directory).events.every(({ metadata }) => metadata?.["session_id"] === "two"))
      })
  )

  it.effect(
    "the library finds hidden variables that it reads by itself, those that the document names, while it is there",
    () =>
      Effect.gen(function* () {
        const planted = { HV_HEADER: "one", HV_SIGNING: "two", HV_OTHER: "three", OTEL_EXPORTER_OTLP_HEADERS: "four" }
        yield* Effect.acquireRelease(
          Effect.sync(() => Object.assign(process.env, planted)),
          () => Effect.sync(() => Object.keys(planted).forEach((name) => Reflect.deleteProperty(process.env, name)))
        )
        const hidden = takeOver((name) => Object.hasOwn(planted, name))
        const shown = () => Object.keys(planted).filter((name) => process.env[name] !== undefined)
        let seen: ReadonlyArray<string> = []
        const toml = (at: string) => `${exporters(at)}
[[components.config.atof.sinks]]
type = "stream"
url = "http://127.0.0.1:9"
header_env = { x-key = "HV_HEADER" }

[[components.config.atif.storage]]
type = "s3"
bucket = "b"
secret_access_key_var = "HV_SIGNING"
`
        yield* withRelay({ toml, wishes: { initialize: async () => void (seen = shown()) } }, (parts) =>
          run(parts)
        ).pipe(Effect.provideService(HiddenVariables, hidden))
        assert.deepStrictEqual(seen, ["HV_HEADER", "HV_SIGNING", "OTEL_EXPORTER_OTLP_HEADERS"])
        assert.deepStrictEqual(shown(), [])
      })
  )

  it.effect("what the library finds odd in it is said, except that the user's own file is not there", () =>
    Effect.gen(function* () {
      const diagnostics = [
        { code: "plugin.configuration_file_missing", message: "explicit plugin configuration file does not exist" },
        { code: "observability.unknown_field", message: "field 'bogus' is not recognized" }
      ]
      const { warnings } = yield* withRelay(
        { toml: (at) => `${exporters(at)}[[dynamic_plugins]]\nplugin_id = "x"\n`, wishes: { diagnostics } },
        (parts) => run(parts)
      )
      assert.deepStrictEqual(warnings, [
        '"dynamic_plugins" of the NeMo Relay configuration is not supported here and is left out',
        "NeMo Relay: field 'bogus' is not recognized"
      ])
    })
  )
})

describe("managed execution", () => {
  const managed = (wishes: Fake.Wishes, turns?: ReadonlyArray<Scripted.Turn>) =>
    withRelay({ toml: () => adaptive, wishes }, (parts) => Effect.exit(run(parts, turns)))

  const echo = (text: string): Scripted.Turn =>
    Scripted.complete({ toolCalls: [{ id: "c", name: "echo", params: { text } }] })

  /** What became of the calls of tools. */
  const results = (
    wishes: Fake.Wishes,
    turns: ReadonlyArray<Scripted.Turn> = [echo("own"), Scripted.complete("end")]
  ) => {
    const done: Array<{ readonly result: unknown; readonly status: string }> = []
    const watch = Hooks.on("post_tool_call", ({ result, status }) =>
      Effect.sync(() => {
        done.push({ result, status })
      })
    )
    return Effect.map(
      withRelay({ toml: () => adaptive, wishes }, (parts) => Effect.exit(run(parts, turns, "s1", [watch]))),
      ({ fake, warnings }) => ({ fake, warnings, results: done })
    )
  }

  it.effect("pictures are described beside the words of the user and the result, played or executed", () =>
    Effect.gen(function* () {
      const Draws = Tool.make("draws", {
        success: Schema.String,
        toModelOutput: (text) => [Prompt.textPart({ text }), Prompt.filePart({ mediaType: "image/gif", data: picture })]
      })
      const kit = Toolkit.make(Draws)
      const drawing = Toolset.make("drawing", kit, kit.toLayer({ draws: () => Effect.succeed("drawn") }))
      const prompt = [Prompt.textPart({ text: "go" }), Prompt.filePart({ mediaType: "image/gif", data: picture })]
      const turns = [
        Scripted.complete({ toolCalls: [{ id: "c", name: "draws", params: {} }] }),
        Scripted.complete("end")
      ]
      const drawn = (given: Given) =>
        withRelay(given, ({ middleware, record }) =>
          Effect.provide(
            Agent.run({ prompt, sessionId: "s1" }),
            Runtime.layer({ provider: Scripted.layer(turns), tools: [drawing], middleware, record })
          )
        )
      const images = [{ media_type: "image/gif", size: picture.length, digest: `sha256:${hash("sha256", picture)}` }]
      const { fake: played } = yield* drawn({})
      assert.deepStrictEqual(played.of("event", "hermes.turn.start")[0]?.metadata["images"], images)
      assert.deepStrictEqual(played.of("tool end")[0]?.metadata["images"], images)
      const { fake: executed } = yield* drawn({ toml: () => adaptive })
      assert.deepStrictEqual(executed.of("event", "hermes.turn.start")[0]?.metadata["images"], images)
      assert.deepStrictEqual(executed.of("event", "hermes.result.stored")[0]?.metadata["images"], images)
    })
  )

  it.effect("67 and 158 each call is one execution of the library and no other span; marks are as ever", () =>
    Effect.gen(function* () {
      const { fake, value, warnings } = yield* managed({})
      assert.strictEqual(value._tag === "Success" && value.value.text, "parallel tools complete.")
      assert.deepStrictEqual(
        fake
          .calls()
          .filter((call) => /^(llm|tool)/u.test(call))
          .toSorted(),
        [
          "llm execute scripted",
          "llm execute scripted",
          "llm executed scripted",
          "llm executed scripted",
          "tool execute echo",
          "tool execute slow",
          "tool executed echo",
          "tool executed slow"
        ]
      )
      assert.deepStrictEqual(
        fake.of("event").map(({ name }) => name),
        ["hermes.turn.start", "hermes.turn.end", "hermes.session.end"]
      )
      const [root] = fake.of("push")
      assert.isTrue(
        [...fake.of("llm execute"), ...fake.of("tool execute")].every(({ parent }) => parent === root?.uuid)
      )
      assert.deepStrictEqual(warnings, [])
    })
  )

  it.effect(
    "155 and 166 the library is told the request, the answer in both forms, and where it belongs (its name is the provider: the document's excerpt)",
    () =>
      Effect.gen(function* () {
        const { fake } = yield* managed({})
        const [asked] = fake.of("llm execute")
        assert.strictEqual(asked?.name, "scripted")
        assert.deepInclude(asked?.metadata, {
          session_id: "s1",
          provider: "scripted",
          api_mode: "chat_completions",
          mode: "observe_only",
          api_call_count: 1
        })
        assert.include(JSON.stringify(asked?.data), '"messages"')
        const answer = fake.of("llm executed")[0]?.data as Record<string, unknown>
        assert.deepInclude(answer, {
          finish_reason: "tool_calls",
          content: "both",
          reasoning_content: "two are better"
        })
        assert.deepInclude(answer["assistant_message"], {
          role: "assistant",
          content: "both",
          reasoning_content: "two are better"
        })
        assert.strictEqual((answer["usage"] as { prompt_tokens: number }).prompt_tokens, 720)
      })
  )

  it.effect("155 a request that a component changes is the one that is sent", () =>
    Effect.gen(function* () {
      const provider = Scripted.layer([Scripted.complete("end")])
      const wishes: Fake.Wishes = {
        llm: (next, request) => next(JSON.parse(JSON.stringify(request).replaceAll('"go"', '"went"')))
      }
      const { value } = yield* withRelay({ toml: () => adaptive, wishes }, ({ middleware, record }) =>
        Effect.andThen(
          Agent.run({ prompt: "go", sessionId: "s1" }),
          Effect.flatMap(Scripted.Inspection, ({ requests }) => requests)
        ).pipe(Effect.provide(Layer.merge(Runtime.layer({ provider, record, middleware }), provider)))
      )
      assert.include(JSON.stringify(value[0]), '"went"')
      assert.notInclude(JSON.stringify(value[0]), '"go"')
    })
  )

  it.effect("157 a tool gets the arguments that a component changed, and the model the result that one changed", () =>
    Effect.gen(function* () {
      const both = yield* results({
        tool: async (next) => ({ result: `${String((await next({ text: "theirs" })).result)}, changed` })
      })
      assert.deepStrictEqual(both.results, [{ result: "theirs, changed", status: "ok" }])
      assert.deepInclude(both.fake.of("tool execute")[0]?.metadata, {
        tool_call_id: "c",
        mode: "observe_only",
        session_id: "s1"
      })
      const plain = yield* results({})
      assert.deepStrictEqual(plain.results, [{ result: "own", status: "ok" }])
    })
  )

  it.effect("a result that the model gets in part is told whole, and then as the session has it", () =>
    Effect.gen(function* () {
      const long = "a line\n".repeat(20_000)
      const { fake } = yield* results({}, [echo(long), Scripted.complete("end")])
      assert.strictEqual(fake.of("tool executed")[0]?.data, long)
      const [told] = fake.of("event", "hermes.result.stored")
      assert.deepInclude(told?.metadata, { session_id: "s1", tool_call_id: "c" })
      assert.match(String(told?.metadata["content"]), /^<persisted-output>\n[\s\S]*<\/persisted-output>$/u)
      assert.include(JSON.stringify(fake.of("llm execute")[1]?.data), "persisted-output")
      const { fake: short } = yield* results({})
      assert.deepStrictEqual(short.of("event", "hermes.result.stored"), [])
    })
  )

  it.effect(
    "155 an answer that a component changed is the one that goes on, and so is one that it gave in the model's stead",
    () =>
      Effect.gen(function* () {
        const changed = yield* managed(
          { llm: async (next, request) => ({ ...((await next(request)) as object), content: "changed" }) },
          [Scripted.complete("own")]
        )
        assert.strictEqual(changed.value._tag === "Success" && changed.value.value.text, "changed")
        const body = {
          model: "cache",
          choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "from the cache" } }]
        }
        const instead = yield* managed({ llm: () => Promise.resolve(body) }, [])
        assert.strictEqual(instead.value._tag === "Success" && instead.value.value.text, "from the cache")
      })
  )

  it.effect("160 a library that executes no tools executes model calls alone; tools are spans", () =>
    Effect.gen(function* () {
      const { fake } = yield* managed({ lacks: ["toolCallExecuteAsync"] })
      assert.deepStrictEqual([fake.of("llm execute").length, fake.of("llm").length], [2, 0])
      assert.deepStrictEqual([fake.of("tool").length, fake.of("tool end").length], [2, 2])
      const none = yield* managed({ lacks: ["toolCallExecuteAsync", "llmCallExecuteAsync"] })
      assert.deepStrictEqual([none.fake.of("llm").length, none.fake.of("tool").length], [2, 2])
    })
  )

  const limited = Scripted.fail(new AiError.InvalidRequestError({ description: "bad words" }))

  it.effect("161 and 164 the provider's own error goes up, not what the library made of it", () =>
    Effect.gen(function* () {
      const bare = yield* withRelay({}, (parts) => Effect.flip(run(parts, [limited])))
      const wrapped = yield* withRelay({ toml: () => adaptive }, (parts) => Effect.flip(run(parts, [limited])))
      assert.isTrue(AiError.isAiError(wrapped.value))
      assert.deepStrictEqual(wrapped.value, bare.value)
    })
  )

  it.effect("163 another error of the library after a failure is a translation of it", () =>
    Effect.gen(function* () {
      const { value } = yield* withRelay(
        {
          toml: () => adaptive,
          wishes: { llm: (next, request) => next(request).catch(() => Promise.reject(new Error("policy: no"))) }
        },
        (parts) => Effect.flip(run(parts, [limited]))
      )
      assert.deepInclude(value, { _tag: "TranslatedFailure", middleware: "observability/nemo_relay" })
      assert.strictEqual(value.message, "policy: no")
    })
  )

  it.effect("an error of the library before a call is fail-open, after it the value stands; both are warnings", () =>
    Effect.gen(function* () {
      const before = yield* results({ tool: () => Promise.reject(new Error("broken")) })
      assert.deepStrictEqual(before.results, [{ result: "own", status: "ok" }])
      assert.match(before.warnings.join(), /nemo_relay" failed \(broken\); the call continues without it/u)
      const after = yield* results({ tool: (next, args) => next(args).then(() => Promise.reject(new Error("late"))) })
      assert.deepStrictEqual(after.results, [{ result: "own", status: "ok" }])
      assert.match(after.warnings.join(), /\(late\); the result from below is kept/u)
    })
  )

  it.effect("a guardrail of the library that rejects a call vetoes it", () =>
    Effect.gen(function* () {
      const {
        results: [result],
        warnings
      } = yield* results({ tool: () => Promise.reject(new Error("guardrail rejected: not today")) })
      assert.strictEqual(result?.status, "blocked")
      assert.include(JSON.stringify(result?.result), "not today")
      assert.deepStrictEqual(warnings, [])
    })
  )

  it.effect("an interrupted call is told to the library as one, before its session ends", () =>
    Effect.gen(function* () {
      const { fake } = yield* withRelay({ toml: () => adaptive }, (parts) =>
        Effect.gen(function* () {
          const { hanging, layer } = Runs.runtime(
            [Scripted.complete({ toolCalls: [{ id: "c", name: "hang" }] })],
            [],
            parts.middleware,
            [],
            { record: parts.record }
          )
          const fiber = yield* Effect.forkChild(Effect.provide(Agent.run({ prompt: "go", sessionId: "s1" }), layer))
          yield* Deferred.await(hanging)
          yield* Fiber.interrupt(fiber)
        })
      )
      const ends = fake.calls().filter((call) => /^(tool|pop|close)/u.test(call))
      assert.deepStrictEqual(ends, [
        "tool execute hang",
        "tool failed hang: internal error: interrupted",
        "pop",
        "close"
      ])
    })
  )

  it.effect("a call is executed once, whatever the library does with it", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const { results: got } = yield* results({
        tool: async (next, args) => {
          const first = await next(args)
          await next(args).catch((error: unknown) => seen.push(String(error)))
          return first
        }
      })
      assert.deepStrictEqual(got, [{ result: "own", status: "ok" }])
      assert.match(seen.join(), /executed once/u)
    })
  )
})
