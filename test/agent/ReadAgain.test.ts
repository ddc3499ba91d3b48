// A file that is read again: "unchanged" is said to the conversation that has the text, and to nobody else.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as CompactionPort from "../../src/models/routing/CompactionPort.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { NestedCalls, ToolContext } from "../../src/tools/ToolContext.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { fails, http } from "../models/routing/support.ts"
import * as Fake from "../support/fakeModel.ts"
import { machine } from "../support/hermesInProcess.ts"

const Script = Tool.make("script", {
  parameters: Schema.Struct({ path: Schema.String, times: Schema.Int, write: Schema.optionalKey(Schema.String) }),
  success: Schema.Array(Schema.String),
  dependencies: [ToolContext]
})
const toolkit = Toolkit.make(Script)

/** Reads a file as a script of the model does, so many times. */
const scripts = Toolset.make(
  "scripts",
  toolkit,
  toolkit.toLayer({
    script: ({ path, times, write }) =>
      Effect.gen(function* () {
        const run = yield* NestedCalls
        if (run === undefined) return []
        if (write !== undefined) {
          yield* run(
            Prompt.toolCallPart({
              id: "w",
              name: "write_file",
              params: { path, content: write },
              providerExecuted: false
            })
          )
          return []
        }
        return yield* Effect.forEach(
          Array.from({ length: times }, (_, index) => index),
          (index) =>
            Effect.map(
              run(
                Prompt.toolCallPart({ id: `n${index}`, name: "read_file", params: { path }, providerExecuted: false })
              ),
              ({ output }) => String(output)
            )
        )
      })
  })
)

/** A model that answers when somebody else wrote the file. */
const changes =
  (path: string): Fake.Turn =>
  () =>
    Effect.map(
      Effect.promise(() =>
        import("node:fs/promises").then(({ writeFile }) => writeFile(path, "some words of the file, theirs\n"))
      ),
      () => Fake.callsAnswer(Fake.call("x1", "script", { path, times: 1 }))
    )

const read = (path: string, id = "c1") => Fake.calls(Fake.call(id, "read_file", { path }))
const script = (path: string, times = 1) => Fake.calls(Fake.call("c1", "script", { path, times }))

/** One agent over a file; `turns` are what its model does, the last of each run is a text. */
const scene = Effect.fnUntraced(function* (
  turns: (path: string) => ReadonlyArray<Fake.Turn>,
  {
    compaction = CompactionPort.none,
    ...more
  }: { readonly hooks?: ReadonlyArray<Hook>; readonly compaction?: CompactionPort.Service } = {}
) {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped({ prefix: "hermes-read-" })
  const path = `${directory}/a.txt`
  yield* fs.writeFileString(path, "some words of the file\nand more of them\n")
  const fake = Fake.make(...turns(path))
  const context = yield* Layer.build(
    Runtime.layer({
      provider: Layer.succeed(Provider, fake.provider),
      tools: [FileTools.toolset, scripts, Delegate.toolset],
      ...more
    }).pipe(Layer.provide(Layer.succeed(CompactionPort.CompactionPort, compaction)))
  )
  const agent = yield* Effect.provideContext(Agent.Agent, context)
  /** What the model was told of its calls in the newest request. */
  const told = () =>
    (fake.asked.at(-1)?.messages ?? []).flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [kindOf(String(part.result))] : []))
        : []
    )
  const results = () =>
    (fake.asked.at(-1)?.messages ?? []).flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [String(part.result)] : []))
        : []
    )
  return { agent, fs, path, told, results }
})

const kindOf = (result: string): string =>
  result.includes('"unchanged"') ? "unchanged" : result.includes("some words of the file") ? "text" : "other"

const transform = () =>
  Hooks.on("transform_tool_result", ({ result }) =>
    Effect.succeed(String(result).includes("some words") ? "nothing to see" : undefined)
  )

const done = Fake.text("done")

describe("a file that is read again", () => {
  it.effect("by the same conversation is unchanged, and changed is given", () =>
    Effect.gen(function* () {
      const { agent, fs, path, told } = yield* scene((path) => [read(path), read(path, "c2"), done, read(path), done])
      const { sessionId } = yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(told(), ["text", "unchanged"])
      yield* fs.writeFileString(path, "some words of the file, and others\n")
      yield* agent.run({ prompt: "go", sessionId })
      assert.deepStrictEqual(told(), ["text", "unchanged", "text"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("after a script read it is given: the conversation never had it", () =>
    Effect.gen(function* () {
      const { agent, told } = yield* scene((path) => [script(path, 5), read(path, "c2"), done])
      yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(told(), ["text", "text"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("by a script is given each time, also after the conversation read it", () =>
    Effect.gen(function* () {
      const { agent, told } = yield* scene((path) => [read(path), script(path, 6), read(path, "c3"), done])
      yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(told(), ["text", "text", "unchanged"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("by a child agent is given to it, and its parent still has its own", () =>
    Effect.gen(function* () {
      const given: Array<ReadonlyArray<string>> = []
      const seen =
        (turn: Fake.Turn): Fake.Turn =>
        (request, options) => {
          given.push(told())
          return turn(request, options)
        }
      const child = Fake.calls(Fake.call("d1", "delegate_task", { goal: "read it", toolsets: ["file"] }))
      const { agent, told } = yield* scene((path) => [
        read(path),
        child,
        read(path, "k1"),
        seen(done),
        read(path, "c3"),
        done
      ])
      yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(given, [["text"]])
      assert.deepStrictEqual(told(), ["text", "other", "unchanged"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect(
    "by a script, or written by one, is not what the conversation knows: its own edit says that the file changed",
    () =>
      Effect.gen(function* () {
        const write = (path: string) => Fake.calls(Fake.call("w1", "write_file", { path, content: "mine" }))
        const edit = (path: string) => Fake.calls(Fake.call("c2", "script", { path, times: 1, write: "theirs" }))
        const scripted = yield* scene((path) => [read(path), edit(path), write(path), done])
        yield* scripted.agent.run({ prompt: "go" })
        assert.include(scripted.results().at(-1), "changed")
        const alone = yield* scene((path) => [read(path), script(path), write(path), done])
        yield* alone.agent.run({ prompt: "go" })
        assert.notInclude(alone.results().at(-1), "changed")
        const read2 = yield* scene((path) => [read(path), changes(path), script(path), write(path), done], {
          hooks: []
        })
        yield* read2.agent.run({ prompt: "go" })
        assert.include(read2.results().at(-1), "changed", "what a script read is not read by the model")
      }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("by another program is given, whichever session it names", () =>
    Effect.gen(function* () {
      const { agent, path, told } = yield* scene((path) => [read(path), done, read(path), done])
      const { sessionId } = yield* agent.run({ prompt: "go" })
      for (let times = 0; times < 6; times++) {
        const call = { name: "read_file", args: { path }, ...(times % 2 === 0 ? {} : { sessionId }) }
        const { isFailure, output } = yield* agent.callTool(call)
        assert.deepStrictEqual([isFailure, kindOf(String(output))], [false, "text"])
      }
      yield* agent.run({ prompt: "again", sessionId })
      assert.deepStrictEqual(told(), ["text", "unchanged"])
      yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(told(), [], "another conversation")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("after a compaction took its text away is given, in the same run and in the next one", () =>
    Effect.gen(function* () {
      const overflow = fails(
        http(
          400,
          "This model's maximum context length is 32768 tokens. However, your messages resulted in 40000 tokens."
        )
      )
      const waits = yield* Deferred.make<void>()
      // Keeps the system message and the question.
      const compaction: CompactionPort.Service = {
        compact: ({ messages }) => Effect.succeed(messages.filter(({ role }) => role === "system" || role === "user"))
      }
      const { agent, told } = yield* scene(
        (path) => [read(path), overflow, read(path, "c2"), read(path, "c3"), done, read(path, "c4"), done],
        { compaction }
      )
      const fiber = yield* Effect.forkChild(
        agent.run({
          prompt: "go",
          onEvent: (events) =>
            events.some(({ _tag }) => _tag === "Waiting")
              ? Effect.asVoid(Deferred.succeed(waits, undefined))
              : Effect.void
        })
      )
      yield* Deferred.await(waits)
      yield* TestClock.adjust("1 minute")
      const { sessionId } = yield* Fiber.join(fiber)
      assert.deepStrictEqual(told(), ["text", "unchanged"])
      yield* agent.run({ prompt: "again", sessionId })
      // The session in which it goes on holds the text of the second reading, which is not given again.
      assert.deepStrictEqual(told(), ["text", "unchanged", "unchanged"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("after a run was cut before it had the text is given", () =>
    Effect.gen(function* () {
      const reached = Deferred.makeUnsafe<void>()
      const cut = { on: true }
      const hook = Hooks.on("transform_tool_result", () =>
        cut.on ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never) : Effect.succeed(undefined)
      )
      const { agent, told } = yield* scene((path) => [read(path), read(path, "c2"), done], { hooks: [hook] })
      const fiber = yield* Effect.forkChild(agent.run({ prompt: "go", sessionId: "s1" }))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      cut.on = false
      yield* agent.run({ prompt: "again", sessionId: "s1" })
      assert.deepStrictEqual(told(), ["other", "text"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live("in a session that another process resumes is given, first, and then not again", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* machine
      put("a.txt", "some words of the file\n")
      const turns = (count: number): string =>
        JSON.stringify({
          turns: [
            ...Array.from({ length: count }, () => ({
              tool_calls: [{ name: "read_file", arguments: { path: "a.txt" } }]
            })),
            { text: "done" }
          ]
        })
      const results = Effect.fnUntraced(function* (count: number, ...args: ReadonlyArray<string>) {
        put("turns.yaml", turns(count))
        const { stdout } = yield* hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json", ...args])
        return stdout
          .split("\n")
          .filter((line) => line.includes('"tool_result"'))
          .map((line) => kindOf(String(JSON.parse(line).output)))
      })
      assert.deepStrictEqual(yield* results(2), ["text", "unchanged"])
      assert.deepStrictEqual(yield* results(2, "--continue"), ["text", "unchanged"])
      assert.deepStrictEqual(yield* results(1, "--continue"), ["text"])
    }).pipe(Effect.scoped)
  )

  it.effect("after a hook put something else in its place is given", () =>
    Effect.gen(function* () {
      const changed = yield* scene((path) => [read(path), read(path, "c2"), done], { hooks: [transform()] })
      yield* changed.agent.run({ prompt: "go" })
      assert.deepStrictEqual(changed.told(), ["other", "other"])
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
