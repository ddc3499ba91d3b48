// Composition of a runtime: services that an application gives are the ones that are used.
import { assert, describe, it } from "@effect/vitest"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as TestClock from "effect/testing/TestClock"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import {
  Agent,
  AgentError,
  Approvals,
  FileTools,
  Hooks,
  Middleware,
  Plugin,
  RunContext,
  Runtime,
  Scripted,
  SessionStore,
  TerminalTools,
  Toolset
} from "../../src/index.ts"

/** The platform's file system with `/project` in another place; `asked` gets the names of what is called. */
const moved = (place: string, asked: Array<string> = []) =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (files) => {
      const there = (value: unknown): unknown =>
        typeof value === "string" ? value.replace(/^\/project(?=\/|$)/, place) : value
      return new Proxy(files, {
        get: (target, name) => {
          const member: unknown = Reflect.get(target, name)
          if (typeof member !== "function") return member
          const call = (...args: ReadonlyArray<unknown>): unknown => {
            asked.push(String(name))
            return Reflect.apply(member, target, args.map(there))
          }
          return name === "realPath"
            ? (path: string) =>
                Effect.map(files.realPath(String(there(path))), (real) => real.replace(place, "/project"))
            : call
        }
      })
    })
  ).pipe(Layer.provide(NodeFileSystem.layer))

const yes = Approvals.layerCallback(() => Effect.succeed({ decision: "once" }))

/** A spawner whose commands all write one line; `started` gets the directories that they were started in. */
const fakeSpawner = (started: Array<string | undefined>) =>
  Layer.succeed(
    ChildProcessSpawner.ChildProcessSpawner,
    ChildProcessSpawner.make((command) =>
      Effect.sync(() => {
        assert(command._tag === "StandardCommand")
        started.push(command.options.cwd)
        return ChildProcessSpawner.makeHandle({
          pid: ChildProcessSpawner.ProcessId(1),
          exitCode: Effect.succeed(ChildProcessSpawner.ExitCode(0)),
          isRunning: Effect.succeed(false),
          kill: () => Effect.void,
          stdin: Sink.drain,
          stdout: Stream.make(new TextEncoder().encode("from the fake\n")),
          stderr: Stream.empty,
          all: Stream.empty,
          getInputFd: () => Sink.drain,
          getOutputFd: () => Stream.empty,
          unref: Effect.succeed(Effect.void)
        })
      })
    )
  )

describe("Runtime", () => {
  it.effect("a runtime leaves the standard streams of its process alone", () =>
    Effect.gen(function* () {
      const listeners = () =>
        [process.stdin, process.stdout].flatMap((stream) =>
          stream.eventNames().map((name) => `${String(name)} ${stream.listenerCount(name)}`)
        )
      const before = listeners()
      yield* Agent.run({ prompt: "Reply exactly ok" }).pipe(
        Effect.andThen(Effect.sync(() => assert.deepStrictEqual(listeners(), before))),
        Effect.provide(Runtime.layer())
      )
    })
  )

  it.live("files are read and written in the file system that the application gives", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryDirectory
      writeFileSync(join(folder, "notes.txt"), "alpha\n")
      const script = Scripted.layer([
        Scripted.complete({ toolCalls: [{ name: "read_file", params: { path: "/project/notes.txt" } }] }),
        Scripted.complete({
          toolCalls: [{ name: "write_file", params: { path: "/project/new.txt", content: "beta\n" } }]
        }),
        Scripted.complete("done")
      ])
      const results: Array<string> = []
      yield* Agent.run({
        prompt: "go",
        cwd: "/project",
        onEvent: (events) =>
          Effect.sync(() => {
            for (const event of events) if (event._tag === "ToolFinished") results.push(event.status)
          })
      }).pipe(
        Effect.provide(
          Runtime.layer({ provider: script, tools: [FileTools.toolset], approvals: yes }).pipe(
            Layer.provide(moved(folder))
          )
        )
      )
      assert.deepStrictEqual(results, ["ok", "ok"])
      assert.strictEqual(readFileSync(join(folder, "new.txt"), "utf8"), "beta\n")
    })
  )

  it.live("commands are started by the spawner that the application gives", () =>
    Effect.gen(function* () {
      const started: Array<string | undefined> = []
      const outputs: Array<unknown> = []
      const script = Scripted.layer([
        Scripted.complete({ toolCalls: [{ name: "terminal", params: { command: "echo hello" } }] }),
        Scripted.complete("done")
      ])
      yield* Agent.run({
        prompt: "go",
        onEvent: (events) =>
          Effect.sync(() => {
            for (const event of events)
              if (event._tag === "ToolFinished") outputs.push(JSON.parse(String(event.output)))
          })
      }).pipe(
        Effect.provide(
          Runtime.layer({ provider: script, tools: [TerminalTools.toolset], approvals: yes }).pipe(
            Layer.provide(fakeSpawner(started))
          )
        )
      )
      assert.strictEqual(started.length, 1)
      assert.deepStrictEqual(outputs, [{ output: "from the fake", exit_code: 0, error: null }])
    })
  )

  it.live(
    "patches, long results and the directories of commands are in the file system that the application gives",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporaryDirectory
        mkdirSync(join(folder, "sub"))
        writeFileSync(join(folder, "notes.txt"), "alpha\n")
        const long = "long ".repeat(40_000)
        const Long = Tool.make("long", { description: "A long text", success: Schema.String }).annotate(
          Tool.Readonly,
          true
        )
        const longKit = Toolkit.make(Long)
        const script = Scripted.layer([
          Scripted.complete({
            toolCalls: [
              {
                name: "patch",
                params: { mode: "replace", path: "/project/notes.txt", old_string: "alpha", new_string: "beta" }
              }
            ]
          }),
          Scripted.complete({ toolCalls: [{ name: "long", params: {} }] }),
          Scripted.complete({
            toolCalls: [{ name: "terminal", params: { command: "true", workdir: "/project/sub" } }]
          }),
          Scripted.complete({
            toolCalls: [{ name: "terminal", params: { command: "true", workdir: "/project/missing" } }]
          }),
          Scripted.complete("done")
        ])
        const results: Array<readonly [name: string, status: string]> = []
        const outputs: Array<string> = []
        const asked: Array<string> = []
        const started: Array<string | undefined> = []
        yield* Agent.run({
          prompt: "go",
          cwd: "/project",
          onEvent: (events) =>
            Effect.sync(() => {
              for (const event of events) {
                if (event._tag !== "ToolFinished") continue
                results.push([event.name, event.status])
                outputs.push(String(event.output))
              }
            })
        }).pipe(
          Effect.provide(
            Runtime.layer({
              provider: script,
              tools: [
                FileTools.toolset,
                TerminalTools.toolset,
                Toolset.make("long", longKit, longKit.toLayer({ long: () => Effect.succeed(long) }))
              ],
              approvals: yes
            }).pipe(Layer.provide([moved(folder, asked), fakeSpawner(started)]))
          )
        )
        assert.deepStrictEqual(
          results,
          [
            ["patch", "ok"],
            ["long", "ok"],
            ["terminal", "ok"],
            ["terminal", "error"]
          ],
          outputs.join("\n")
        )
        assert.strictEqual(readFileSync(join(folder, "notes.txt"), "utf8"), "beta\n")
        assert.isBelow(outputs[1]?.length ?? Infinity, long.length)
        assert.include(asked, "makeTempDirectoryScoped")
        assert.include(asked, "writeFileString")
        assert.deepStrictEqual(started, ["/project/sub"])
      })
  )

  it.effect("clock and random are those that the application gives", () =>
    Effect.gen(function* () {
      const at = Date.UTC(2031, 6, 5, 12)
      yield* TestClock.setTime(at)
      const runs = (seed: string) =>
        Effect.gen(function* () {
          const ids: Array<string> = []
          const listener = Hooks.on("pre_llm_call", ({ turn_id }) => Effect.sync(() => void ids.push(turn_id)))
          const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello", sessionId: "s" }).pipe(
            Effect.provide(Runtime.layer({ hooks: [listener] }))
          )
          assert.strictEqual(sessionId, "s")
          return ids
        }).pipe(Random.withSeed(seed))
      const [one, again, other] = [yield* runs("a"), yield* runs("a"), yield* runs("b")]
      assert.deepStrictEqual([one.length, again], [1, one])
      assert.notDeepEqual(other, one)
      const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" }).pipe(Effect.provide(Runtime.layer()))
      const local = new Date(at)
      assert.match(sessionId, new RegExp(`^${local.getFullYear()}07`))
    })
  )

  it.live("one session has one run at a time, whichever runtime over its database is asked", () =>
    Effect.gen(function* () {
      const path = join(yield* temporaryDirectory, "state.db")
      const entered = yield* Deferred.make<void>()
      const Wait = Tool.make("wait", { description: "Waits", success: Schema.String }).annotate(Tool.Readonly, true)
      const kit = Toolkit.make(Wait)
      const runtime = (handler: Effect.Effect<string>) =>
        Runtime.layer({
          provider: Scripted.layer([
            Scripted.complete({ toolCalls: [{ name: "wait", params: {} }] }),
            Scripted.complete("done")
          ]),
          store: Layer.fresh(SessionStore.layerSqlite({ path })),
          tools: [Toolset.make("wait", kit, kit.toLayer({ wait: () => handler }))]
        })
      const run = Agent.run({ prompt: "go", sessionId: "s" })
      const first = yield* Effect.forkChild(
        Effect.provide(run, runtime(Effect.andThen(Deferred.succeed(entered, undefined), Effect.never)), {
          local: true
        })
      )
      yield* Deferred.await(entered)
      const busy = yield* Effect.flip(Effect.provide(run, runtime(Effect.succeed("x")), { local: true }))
      assert.deepInclude(busy, { _tag: "SessionBusy", sessionId: "s" })
      yield* Fiber.interrupt(first)
      const free = yield* Effect.provide(run, runtime(Effect.succeed("x")), { local: true })
      assert.strictEqual(free.text, "done")
    })
  )

  class Overspent extends Schema.TaggedError<Overspent>()("Overspent", { calls: Schema.Int }) {}
  class Clerk extends Context.Service<Clerk, Agent.Service<Overspent>>()("test/Clerk") {}

  it.effect(
    "middleware that fails is given to the runtime, whose agent is the only one and has plugins like any other",
    () =>
      Effect.gen(function* () {
        let seen = 0
        const counting = Plugin.fromValue({
          name: "counting",
          middleware: [
            Middleware.wrapModelCall({
              name: "count",
              wrap: (next) => (params) =>
                Effect.suspend(() => {
                  seen++
                  return next(params)
                })
            })
          ]
        })
        let calls = 0
        const limit = Middleware.wrapModelCall<never, Overspent>({
          name: "limit",
          wrap: (next) => (params) =>
            Effect.flatMap(
              Effect.sync(() => ++calls),
              (count) => {
                const answer = next(params)
                return count > 1 ? Effect.andThen(new Overspent({ calls: count }), answer) : answer
              }
            )
        })
        const runtime = Runtime.make(Clerk, {
          middleware: [limit],
          plugins: [counting],
          provider: Scripted.layer([Scripted.complete("one"), Scripted.complete("two")])
        })
        yield* Effect.gen(function* () {
          const clerk = yield* Clerk
          assert.strictEqual((yield* clerk.run({ prompt: "a" })).text, "one")
          const error = yield* Effect.flip(clerk.run({ prompt: "b" }))
          assert.deepInclude(error, { _tag: "Overspent", calls: 2 })
          assert.isFalse(Schema.is(AgentError.AgentError)(error))
          assert.strictEqual(seen, 2)
          assert.isTrue(Option.isNone(yield* Effect.serviceOption(Agent.Agent)))
        }).pipe(Effect.provide(runtime))
      })
  )

  class Tenant extends RunContext.Key<Tenant, { readonly name: string }>()("test/Tenant") {}
  class Desk extends Context.Service<Desk, Agent.Service<never, Tenant>>()("test/Desk") {}

  it.live("what belongs to a run is read by its tools, middleware and hooks, and by nobody else's", () =>
    Effect.gen(function* () {
      const who = Tool.make("who", {
        description: "The tenant",
        success: Schema.String,
        dependencies: [Tenant]
      }).annotate(Tool.Readonly, true)
      const toolkit = Toolkit.make(who)
      const seen: Array<readonly [where: string, tenant: string]> = []
      const note = (where: string) => Effect.map(Tenant, ({ name }) => void seen.push([where, name]))
      const inline = Hooks.on("post_tool_call", () => note("hook"))
      const queued = Hooks.observer({ label: "queued", mode: "queued" }, { post_tool_call: () => note("queue") })
      const middleware = Middleware.toolRequest({
        name: "note",
        rewrite: () => Effect.as(note("middleware"), Middleware.unchanged)
      })
      const tools = Toolset.make(
        "tenants",
        toolkit,
        toolkit.toLayer({
          who: () =>
            Effect.tap(
              Tenant.useSync(({ name }) => name),
              () => note("tool")
            )
        })
      )
      const turn = [Scripted.complete({ toolCalls: [{ name: "who", params: {} }] }), Scripted.complete("done")]
      const runtime = Runtime.make(Desk, {
        provider: Scripted.layer([...turn, ...turn]),
        tools: [tools],
        hooks: [inline, queued],
        middleware: [middleware]
      })
      yield* Effect.gen(function* () {
        const desk = yield* Desk
        for (const name of ["acme", "globex"]) {
          yield* desk.run({ prompt: "who", context: Tenant.context({ name }) })
        }
        const call = { name: "who", args: {} }
        assert.isTrue((yield* desk.callTool(call)).isFailure)
        assert.deepInclude(yield* desk.callTool({ ...call, context: Tenant.context({ name: "initech" }) }), {
          isFailure: false
        })
      }).pipe(Effect.provide(runtime))
      const of = (tenant: string) => seen.flatMap(([where, name]) => (name === tenant ? [where] : [])).toSorted()
      for (const name of ["acme", "globex", "initech"])
        assert.deepStrictEqual(of(name), ["hook", "middleware", "queue", "tool"], name)
    })
  )
})
