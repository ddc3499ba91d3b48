// A file that is read again: "unchanged" is said to the conversation that has the text, and to nobody else.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { Provider } from "../../src/provider/Provider.ts"
import * as Runtime from "../../src/Runtime.ts"
import { NestedCalls } from "../../src/tool/builtin/code/CodeSettings.ts"
import * as Files from "../../src/tool/builtin/Files.ts"
import { ToolContext } from "../../src/tool/ToolContext.ts"
import * as Toolset from "../../src/tool/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Script = Tool.make("script", {
  parameters: Schema.Struct({ path: Schema.String, times: Schema.Int }),
  success: Schema.Array(Schema.String),
  dependencies: [ToolContext]
})
const toolkit = Toolkit.make(Script)

/** Reads a file as a script of the model does, so many times. */
const scripts = Toolset.make("scripts", toolkit, toolkit.toLayer({
  script: ({ path, times }) =>
    Effect.gen(function*() {
      const run = yield* NestedCalls
      if (run === undefined) return []
      return yield* Effect.forEach(Array.from({ length: times }, (_, index) => index), (index) =>
        Effect.map(
          run(Prompt.toolCallPart({ id: `n${index}`, name: "read_file", params: { path }, providerExecuted: false })),
          ({ output }) => String(output)
        ))
    })
}))

const read = (path: string, id = "c1") => Fake.calls(Fake.call(id, "read_file", { path }))
const script = (path: string, times = 1) => Fake.calls(Fake.call("c1", "script", { path, times }))

/** One agent over a file; `turns` are what its model does, the last of each run is a text. */
const scene = Effect.fnUntraced(function*(
  turns: (path: string) => ReadonlyArray<Fake.Turn>,
  more: { readonly hooks?: ReadonlyArray<ReturnType<typeof transform>> } = {}
) {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped({ prefix: "hermes-read-" })
  const path = `${directory}/a.txt`
  yield* fs.writeFileString(path, "some words of the file\nand more of them\n")
  const fake = Fake.make(...turns(path))
  const context = yield* Layer.build(Runtime.layer({ provider: Layer.succeed(Provider, fake.provider), tools: [Files.toolset, scripts], ...more }))
  const agent = yield* Effect.provideContext(Agent.Agent, context)
  /** What the model was told of its calls in the newest request. */
  const told = () =>
    (fake.asked.at(-1)?.messages ?? []).flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => part.type === "tool-result" ? [kindOf(String(part.result))] : [])
        : [])
  return { agent, fs, path, told }
})

const kindOf = (result: string): string =>
  result.includes("\"unchanged\"") ? "unchanged" : result.includes("some words of the file") ? "text" : "other"

const transform = () =>
  Hooks.on("transform_tool_result", ({ result }) => Effect.succeed(String(result).includes("some words") ? "nothing to see" : undefined))

const done = Fake.text("done")

describe("a file that is read again", () => {
  it.effect("by the same conversation is unchanged, and changed is given", () =>
    Effect.gen(function*() {
      const { agent, fs, path, told } = yield* scene((path) => [read(path), read(path, "c2"), done, read(path), done])
      const { sessionId } = yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(told(), ["text", "unchanged"])
      yield* fs.writeFileString(path, "some words of the file, and others\n")
      yield* agent.run({ prompt: "go", sessionId })
      assert.deepStrictEqual(told(), ["text", "unchanged", "text"])
    }).pipe(Effect.provide(NodeServices.layer)))

  it.effect("after a script read it is given: the conversation never had it", () =>
    Effect.gen(function*() {
      const { agent, told } = yield* scene((path) => [script(path, 5), read(path, "c2"), done])
      yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(told(), ["text", "text"])
    }).pipe(Effect.provide(NodeServices.layer)))

  it.effect("by a script is given each time, also after the conversation read it", () =>
    Effect.gen(function*() {
      const { agent, told } = yield* scene((path) => [read(path), script(path, 6), read(path, "c3"), done])
      yield* agent.run({ prompt: "go" })
      assert.deepStrictEqual(told(), ["text", "text", "unchanged"])
    }).pipe(Effect.provide(NodeServices.layer)))

  it.effect("by another program is given, whichever session it names", () =>
    Effect.gen(function*() {
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
    }).pipe(Effect.provide(NodeServices.layer)))

  it.effect("after a hook put something else in its place is given", () =>
    Effect.gen(function*() {
      const changed = yield* scene((path) => [read(path), read(path, "c2"), done], { hooks: [transform()] })
      yield* changed.agent.run({ prompt: "go" })
      assert.deepStrictEqual(changed.told(), ["other", "other"])
    }).pipe(Effect.provide(NodeServices.layer)))
})
