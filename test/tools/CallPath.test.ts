// Every call of a tool takes the same path: by the text of the sources, and for the callers that are no model.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { NestedCalls, ToolContext } from "../../src/tools/ToolContext.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { sources } from "../support/sources.ts"

/** The sources without their comments, whose examples run agents. */
const all = sources().map((source) => ({ ...source, text: source.text.replaceAll(/\/\*\*[^]*?\*\//g, "") }))

/** `file: receiver` of every call of a method on something that is no module. */
const callsOf = (method: string) =>
  all.flatMap(({ path, text }) =>
    Array.from(
      text.matchAll(new RegExp(String.raw`(?<![\w.])([a-z]\w*)\s*\.${method}\(`, "g")),
      ([, receiver]) => `${path}: ${receiver}`
    )
  )

describe("calls of tools, in the sources", () => {
  it("the handler of a toolkit is called by its toolset alone", () => {
    assert.deepStrictEqual(
      callsOf("handle").filter((call) => !call.endsWith(": listener") && !call.startsWith("hooks/")),
      ["tools/ToolHandler.ts: handled"]
    )
    assert.deepStrictEqual(
      all.filter(({ text }) => text.includes("ToolHandler.")).map(({ path }) => path),
      ["tools/Toolset.ts"]
    )
  })

  it("a bound tool is run by the execution of a call, and by what wraps one tool", () => {
    const others =
      /agent|^hermes$|command|lifecycle|scope|transaction|^(?:owner|stack|storage|shell|database|place|kind|this)$/
    assert.deepStrictEqual(
      Array.from(new Set(callsOf("run").filter((call) => !others.test(call.split(": ")[1] ?? "")))).toSorted(),
      [
        "agent/plugin/PlainTool.ts: bound",
        // A tool that is offered over MCP, with a bound on its mode.
        // Rules for whoever writes a tool: it is called as it is.
        "kit/testing/ToolRules.ts: bound",
        "serve/server/agent/AgentServer.ts: tool",
        "tools/ToolExecution.ts: bound",
        "tools/Toolset.ts: bound",
        "tools/mcp/McpHost.ts: tool"
      ]
    )
    const taken = all.filter(({ text }) =>
      /\{[^{}=]*\brun\b[^{}=]*\}(?::\s*BoundTool)?\s*(?:=\s*(?:bound|tool|tools)\b|:\s*BoundTool)/.test(text)
    )
    assert.deepStrictEqual(
      taken.map(({ path }) => path),
      []
    )
  })

  it("a batch is run by the loop, and one call by whoever calls for somebody else", () => {
    const users = (name: string) =>
      all.filter(({ text }) => text.includes(`ToolCalls.${name}(`)).map(({ path }) => path)
    assert.deepStrictEqual([users("run"), users("runOne")], [["agent/StepCalls.ts"], ["agent/CallTool.ts"]])
  })
})

const Count = Tool.make("count", { parameters: Schema.Struct({ n: Schema.Int }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const Script = Tool.make("script", { success: Schema.String, dependencies: [ToolContext] }).annotate(
  Tool.Readonly,
  true
)
const toolkit = Toolkit.make(Count, Script)

const setup = () => {
  const seen: Array<string> = []
  const note = (line: string) => Effect.sync(() => void seen.push(line))
  const fake = Fake.make(Fake.calls(Fake.call("c1", "script", {})), Fake.text("done"))
  const handlers = toolkit.toLayer({
    count: ({ n }) => Effect.as(note(`ran ${n}`), `the key is sk-proj-Zk3mQ8vT1xW5yB7nC2dF4gH6jK9pL0rS`),
    script: () =>
      Effect.gen(function* () {
        const run = yield* NestedCalls
        const part = Prompt.toolCallPart({ id: "n1", name: "count", params: { n: "7" }, providerExecuted: false })
        return run === undefined ? "nothing" : String((yield* run(part)).output)
      })
  })
  const layer = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    tools: [Toolset.make("test", toolkit, handlers)],
    hooks: [
      Hooks.on("pre_tool_call", ({ args, tool_name }) => note(`pre ${tool_name} ${JSON.stringify(args)}`)),
      Hooks.on("post_tool_call", ({ status, tool_name }) => note(`post ${tool_name} ${status}`))
    ],
    middleware: [
      Middleware.toolRequest({
        name: "request",
        rewrite: (_, { toolName }) => Effect.as(note(`request ${toolName}`), Middleware.unchanged)
      }),
      Middleware.toolExecution({
        name: "execution",
        wrap:
          (next, { toolName }) =>
          () =>
            Effect.andThen(note(`execution ${toolName}`), next())
      })
    ]
  }).pipe(Layer.provide(NodeServices.layer))
  return { fake, layer, seen }
}

const path = ["request count", 'pre count {"n":7}', "execution count", "ran 7", "post count ok"]

describe("calls that no model makes", () => {
  it.effect("Agent.callTool: coerced, seen once by everybody, redacted", () => {
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const { callTool } = yield* Agent.Agent
      for (const args of [{ n: "7" }, '{"n":"7"}']) {
        seen.length = 0
        const { isFailure, output } = yield* callTool({ name: "count", args })
        assert.deepStrictEqual([isFailure, String(output).includes("Zk3mQ8vT1xW5yB7nC2dF4gH6")], [false, false])
        assert.include(String(output), "the key is")
        assert.deepStrictEqual(seen, path)
      }
    }).pipe(Effect.provide(layer))
  })

  it.effect("Agent.callTool: a session that does not exist is an error, and nothing runs", () => {
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const { callTool, run } = yield* Agent.Agent
      assert.deepStrictEqual(yield* callTool({ name: "count", args: { n: 1 }, sessionId: "nobody" }), {
        output: JSON.stringify({
          error: 'Unknown session_id "nobody". Leave it out to call the tool outside of a session.'
        }),
        isFailure: true
      })
      assert.deepStrictEqual(seen, [])
      const { sessionId } = yield* run({ prompt: "go" })
      assert.isFalse((yield* callTool({ name: "count", args: { n: 1 }, sessionId })).isFailure)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a tool of a tool: the same path inside of the call that makes it", () => {
    const { fake, layer, seen } = setup()
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(seen, ["request script", "pre script {}", "execution script", ...path, "post script ok"])
      const told = JSON.stringify(fake.asked.at(-1)?.messages)
      assert.notInclude(told, "Zk3mQ8vT1xW5yB7nC2dF4gH6")
    }).pipe(Effect.provide(layer))
  })
})
