// Doubles: files in memory, commands of a script, recorders, repeatable runs, faults of tools, files and stores; and
// the rules of toolsets, middleware and consumers of hooks over those that come with the package.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Logging from "../../../src/agent/builtin/Logging.ts"
import * as Timing from "../../../src/agent/builtin/Timing.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as Chaos from "../../../src/kit/testing/Chaos.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as EnvironmentRules from "../../../src/kit/testing/EnvironmentRules.ts"
import * as MemoryFiles from "../../../src/kit/testing/MemoryFiles.ts"
import * as RunRules from "../../../src/kit/testing/RunRules.ts"
import * as ScriptedEnvironment from "../../../src/kit/testing/ScriptedEnvironment.ts"
import * as SessionSamples from "../../../src/kit/testing/SessionSamples.ts"
import * as TestRun from "../../../src/kit/testing/TestRun.ts"
import * as ToolRules from "../../../src/kit/testing/ToolRules.ts"
import { CommandEnvironment } from "../../../src/places/CommandEnvironment.ts"
import * as Todo from "../../../src/tools/builtin/Todo.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"

const broken = (results: ReadonlyArray<Conformance.Result>) =>
  results.flatMap(({ broken, name }) => (broken === undefined ? [] : [[name, broken.message]]))

describe("doubles", () => {
  it.live("files in memory keep the rules of files, but for those about commands", () =>
    Effect.gen(function* () {
      const subject = Layer.effect(
        EnvironmentRules.Subject,
        Effect.map(CommandEnvironment, (environment) => ({ environment, directory: "/tmp" }))
      ).pipe(Layer.provide(ScriptedEnvironment.layer()))
      const rules = EnvironmentRules.rules.filter(({ about }) => about === "files")
      assert.deepStrictEqual(
        broken(yield* Conformance.runRules(rules, subject)).map(([name]) => name),
        ["are those that commands see, as bytes", "are told by name, kind, size, mode and time", "may be temporary"]
      )
    })
  )

  it.effect("files in memory have links, kinds and times", () =>
    Effect.gen(function* () {
      const files = yield* MemoryFiles.make({ "/a/one": "1", "/a/b/two": new Uint8Array([50]) })
      yield* files.symlink("b/two", "/a/link")
      yield* files.symlink("/a/loop", "/a/loop")
      assert.strictEqual(yield* files.readFileString("/a/link"), "2")
      assert.strictEqual((yield* Effect.flip(files.readFile("/a/loop"))).reason._tag, "BadResource")
      assert.deepStrictEqual(yield* files.readDirectory("/a", { recursive: true }), [
        "one",
        "b",
        "b/two",
        "link",
        "loop"
      ])
      yield* files.link("/a/one", "/a/same")
      yield* files.writeFileString("/a/same", "both")
      assert.strictEqual(yield* files.readFileString("/a/b/../one"), "both")
      yield* files.utimes("/a/one", 5, 5)
      assert.strictEqual(Option.getOrThrow((yield* files.stat("/a/same")).mtime).getTime(), 5)
      assert.strictEqual((yield* Effect.flip(files.remove("/a"))).reason._tag, "BadResource")
      assert.deepStrictEqual(yield* files.glob("**/one", { root: "/a" }), ["one"])
    })
  )

  it.effect("commands do what the script says, and are told", () =>
    Effect.gen(function* () {
      const { spawner } = yield* CommandEnvironment
      const run = (line: string) =>
        Effect.scoped(
          Effect.gen(function* () {
            const handle = yield* spawner.spawn(ChildProcess.make("/bin/sh", ["-c", line], { cwd: "/work" }))
            return [
              yield* Stream.mkString(Stream.decodeText(handle.stdout)),
              yield* Stream.mkString(Stream.decodeText(handle.stderr)),
              Number(yield* handle.exitCode)
            ]
          })
        )
      assert.deepStrictEqual(yield* run("make test"), ["all good\n", "", 0])
      assert.deepStrictEqual(yield* run("git push origin"), ["", "denied\n", 1])
      assert.deepStrictEqual(yield* run("other"), ["", "/bin/sh: not in the script of this test\n", 127])
      const stopped = yield* Effect.scoped(
        Effect.gen(function* () {
          const handle = yield* spawner.spawn(ChildProcess.make("serve"))
          assert.isTrue(yield* handle.isRunning)
          yield* handle.kill()
          return Number(yield* handle.exitCode)
        })
      )
      assert.strictEqual(stopped, 143)
      const ran = yield* Effect.flatten(ScriptedEnvironment.Commands)
      assert.deepStrictEqual(
        ran.map(({ directory, line }) => `${directory ?? ""} ${line}`),
        ["/work /bin/sh -c make test", "/work /bin/sh -c git push origin", "/work /bin/sh -c other", " serve"]
      )
    }).pipe(
      Effect.provide(
        ScriptedEnvironment.layer({
          commands: [
            { line: "make test", out: "all good\n" },
            { line: /^git push/, err: "denied\n", code: 1 },
            { line: "serve", hangs: true }
          ]
        })
      )
    )
  )

  it.effect("recorders have the events and the hooks of a run, and a repeatable run its ids", () =>
    Effect.gen(function* () {
      const once = TestRun.runRepeatably(
        Effect.gen(function* () {
          const { all, events, onEvent, text } = TestRun.makeEventRecorder()
          const { hooks, payloads, told } = TestRun.makeHookRecorder()
          const model = Scripted.layer([Scripted.complete({ pieces: ["a ", "b"] })])
          yield* Agent.run({ prompt: "Say it.", sessionId: "s1", onEvent, streaming: true }).pipe(
            Effect.provide(Runtime.layer({ provider: model, hooks }))
          )
          assert.strictEqual(text(), "a b")
          assert.strictEqual(events("RunFinished").length, 1)
          assert.isAbove(all().length, 4)
          assert.deepStrictEqual(payloads("post_llm_call").length, 1)
          return [
            yield* Clock.currentTimeMillis,
            told().map(
              ({ name, payload }) =>
                `${name} ${String(payload["turn_id"] ?? "")} ${String(payload["api_request_id"] ?? "")}`
            )
          ] as const
        }),
        { at: 86_400_000, seed: "a" }
      )
      const [at, first] = yield* once
      assert.strictEqual(at, 86_400_000)
      assert.includeMembers(
        first.map((line) => line.split(" ")[0] ?? ""),
        ["pre_api_request", "post_api_request", "on_session_end"]
      )
      assert.deepStrictEqual((yield* once)[1], first)
    })
  )

  it.effect("tools, files and stores fail as often as they are told to", () =>
    Effect.gen(function* () {
      const source = Chaos.make({ seed: 1, rates: { failed: 0.5 } })
      const files = Chaos.wrapFiles(yield* MemoryFiles.make({ "/a": "1" }), source)
      const reads = yield* Effect.forEach(Array.from({ length: 40 }), () =>
        Effect.match(files.readFileString("/a"), { onFailure: ({ reason }) => reason._tag, onSuccess: (text) => text })
      )
      assert.deepStrictEqual(new Set(reads), new Set(["1", "Busy"]))
      assert.strictEqual(reads.filter((one) => one === "Busy").length, source.played.get("failed"))

      const writes = yield* SessionStore.SessionStore.use((store) =>
        Effect.forEach(
          Array.from({ length: 20 }, (_, at) => `s${at}`),
          (id) => Effect.exit(store.create(SessionSamples.makeNewSession(id)))
        )
      ).pipe(
        Effect.provide(Chaos.layerStore(SessionStore.layerMemory, Chaos.make({ seed: 2, rates: { failed: 0.5 } })))
      )
      assert.deepStrictEqual(new Set(writes.map(({ _tag }) => _tag)), new Set(["Success", "Failure"]))

      const Note = Tool.make("note", { description: "Takes a note", success: Schema.String })
      const toolkit = Toolkit.make(Note)
      let ran = 0
      const notes = Toolset.make("notes", toolkit, toolkit.toLayer({ note: () => Effect.sync(() => `noted ${++ran}`) }))
      const { events, onEvent } = TestRun.makeEventRecorder()
      yield* Agent.run({ prompt: "Note it.", onEvent }).pipe(
        Effect.provide(
          Runtime.layer({
            provider: Scripted.layer([
              Scripted.complete({ toolCalls: [{ name: "note", params: {} }] }),
              Scripted.complete("It failed.")
            ]),
            tools: [notes],
            middleware: [Chaos.makeToolMiddleware(Chaos.make({ seed: 3, rates: { failed: 1 } }))]
          })
        )
      )
      assert.deepStrictEqual([events("ToolFinished").map(({ status }) => status), ran], [["error"], 0])
    })
  )
})

describe("rules of toolsets, middleware and hooks", () => {
  const toolRules = <E>(made: Effect.Effect<ToolRules.TestedTools, E, Scope.Scope>) =>
    Effect.map(Conformance.runRules(ToolRules.rules, Layer.effect(ToolRules.Subject, made)), broken)

  it.live("toolsets that come with the package keep theirs", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* toolRules(
          ToolRules.bindSubject(Todo.toolset, [{ tool: "todo", params: {} }]).pipe(Effect.provide(Todo.layer))
        ),
        []
      )
    })
  )

  it.live("a toolset that breaks them is named with each", () =>
    Effect.gen(function* () {
      const Odd = Tool.make("odd name", {
        description: "",
        parameters: Schema.Struct({ n: Schema.Finite }),
        success: Schema.String
      })
      const toolkit = Toolkit.make(Odd)
      const odd = Toolset.make("odd", toolkit, toolkit.toLayer({ "odd name": () => Effect.die("never") }))
      const found = yield* toolRules(ToolRules.bindSubject(odd, [{ tool: "odd name", params: { n: 1 } }]))
      assert.includeMembers(
        found.map(([name]) => name),
        [
          "have names that every model API takes, each once",
          "say what a tool does",
          "of the examples succeed with results that are JSON"
        ]
      )
    })
  )

  const runRules = (
    rules: ReadonlyArray<Conformance.Rule<RunRules.Subject>>,
    runtime: RunRules.TestedRuntime["runtime"]
  ) =>
    Effect.map(Conformance.runRules(rules, Layer.succeed(RunRules.Subject, { runtime })), broken).pipe(
      Effect.provide(Logger.layer([]))
    )

  it.live("middleware that comes with the package keeps them; one that breaks them is named", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* runRules(RunRules.middleware, (parts) =>
          Runtime.layer({ ...parts, middleware: [Timing.make(), Logging.make()] })
        ),
        []
      )
      const again = Middleware.wrapToolCall({
        name: "again",
        wrap: (next) => (params) => Effect.andThen(next(params), next(params))
      })
      const found = yield* runRules(
        RunRules.middleware.filter(({ name }) => /once at most/.test(name)),
        (parts) => Runtime.layer({ ...parts, middleware: [again] })
      )
      assert.deepStrictEqual(
        found.map(([name]) => name),
        ["lets a tool run once at most"]
      )
    })
  )

  it.live("consumers of hooks keep them; one that fails is named with each run", () =>
    Effect.gen(function* () {
      const { hooks, told } = TestRun.makeHookRecorder()
      assert.deepStrictEqual(yield* runRules(RunRules.hooks, (parts) => Runtime.layer({ ...parts, hooks })), [])
      assert.isAbove(told().length, 20)
      const failing = Hooks.on("post_tool_call", () =>
        Effect.fail(new AiError.InternalProviderError({ description: "broken" }))
      )
      const found = yield* runRules(RunRules.hooks, (parts) => Runtime.layer({ ...parts, hooks: [failing] }))
      assert.isTrue(
        found.length > 0 && found.every(([name = ""]) => /change nothing/.test(name)),
        JSON.stringify(found)
      )
    })
  )
})
