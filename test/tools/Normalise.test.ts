// The calls of a message as they will be stored and run: each step, their order, and what they leave alone.
import { assert, describe, it } from "@effect/vitest"
import * as Response from "effect/ai/Response"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import type { ContentPart } from "../../src/base/domain/ModelCall.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Normalise from "../../src/tools/calls/Normalise.ts"
import type { Snapshot } from "../../src/tools/ToolRegistry.ts"
import type { BoundTool } from "../../src/tools/Toolset.ts"
import { prop } from "../support/property.ts"

const bound = (tool: Tool.Any): BoundTool => ({
  toolset: "test",
  tool,
  definition: { name: tool.name, description: "", parameters: Tool.getJsonSchema(tool) },
  facts: Annotations.readFacts(tool),
  run: () => assert.fail("nothing is run here")
})

const Read = Tool.make("read_file", {
  parameters: Schema.Struct({ path: Schema.String, limit: Schema.optionalKey(Schema.Int) })
})
const Delegate = Tool.make("delegate_task", { parameters: Schema.Struct({ goal: Schema.String }) })
const Remove = Tool.make("remove_file", { parameters: Schema.Struct({ path: Schema.String }) }).annotate(
  Tool.Destructive,
  true
)
const known = new Map([Read, Delegate, Remove].map((tool) => [tool.name as string, bound(tool)]))

const tools: Snapshot = {
  definitions: [],
  get: (name) => known.get(name),
  names: Array.from(known.keys()),
  withheld: (name) => (name === "read_files" ? "not here" : undefined)
}

const call = (name: string, params: unknown, id = "c"): ContentPart =>
  Response.makePart("tool-call", { id, name, params, providerExecuted: false })

const text = Response.makePart("text", { text: "hm" })

const calls = (parts: ReadonlyArray<ContentPart>, delegations = 1) => {
  const { changes, parts: kept, truncated } = Normalise.normalise(parts, tools, { delegations })
  return {
    calls: kept.flatMap((part) => (part.type === "tool-call" ? [[part.name, part.params]] : [])),
    changes: changes.length,
    truncated
  }
}

describe("the calls of a message", () => {
  it("T97 (ARCHITECTURE §7: one by default) delegations are capped, the rest and the order stay", () => {
    const parts = [
      call("delegate_task", { goal: "a" }),
      call("delegate_task", { goal: "b" }),
      call("read_file", { path: "x" }),
      call("delegate_task", { goal: "c" }),
      call("delegate_task", { goal: "d" }),
      call("delegate_task", { goal: "e" })
    ]
    assert.deepStrictEqual(calls(parts, 3).calls, [
      ["delegate_task", { goal: "a" }],
      ["delegate_task", { goal: "b" }],
      ["read_file", { path: "x" }],
      ["delegate_task", { goal: "c" }]
    ])
    assert.deepStrictEqual(calls(parts).calls, [
      ["delegate_task", { goal: "a" }],
      ["read_file", { path: "x" }]
    ])
  })

  it("what needs nothing is given back as it is", () => {
    const parts = [text, call("read_file", { path: "x", limit: 5 })]
    assert.strictEqual(Normalise.normalise(parts, tools, { delegations: 1 }).parts, parts)
  })

  it("names come before arguments, arguments before values, values before repeats", () => {
    assert.deepStrictEqual(
      calls([call("ReadFile_tool", '{"path":"x","limit":"5",}'), call("read_file", { path: "x", limit: 5 })]),
      { calls: [["read_file", { path: "x", limit: 5 }]], changes: 4, truncated: false }
    )
  })

  it("a call that repeats another in another order of keys is left out, at any depth", () => {
    const parts = [
      call("read_file", { path: "x", limit: 5, more: { a: [1, { b: 2, c: 3 }], d: 4 } }),
      call("read_file", { limit: 5, more: { d: 4, a: [1, { c: 3, b: 2 }] }, path: "x" }),
      call("read_file", { limit: 5, more: { d: 4, a: [{ c: 3, b: 2 }, 1] }, path: "x" })
    ]
    assert.lengthOf(calls(parts).calls, 2)
  })

  it("calls that share an id are told apart", () => {
    const two = [
      { ...call("read_file", { path: "a" }), id: "call_0" },
      { ...call("read_file", { path: "b" }), id: "call_0" }
    ]
    const { changes, parts } = Normalise.normalise(two, tools, { delegations: 1 })
    assert.deepStrictEqual(
      parts.map((part) => (part.type === "tool-call" ? part.id : "")),
      ["call_0", "call_0_2"]
    )
    assert.strictEqual(changes.length, 1)
  })

  it("a misspelled delegation counts as one", () => {
    assert.deepStrictEqual(calls([call("DelegateTask", { goal: "a" }), call("delegate_task", { goal: "b" })]).calls, [
      ["delegate_task", { goal: "a" }]
    ])
  })

  it("a name that a run may not use is not taken for another, nor a typing error for a tool that deletes", () => {
    assert.deepStrictEqual(calls([call("read_files", { path: "x" })]).calls, [["read_files", { path: "x" }]])
    assert.deepStrictEqual(calls([call("remov_file", { path: "x" })]).calls, [["remov_file", { path: "x" }]])
  })

  it("a cut call makes the whole answer cut, a malformed one stays to be answered", () => {
    assert.isTrue(calls([call("read_file", { path: "x" }), call("read_file", '{"path": "y')]).truncated)
    assert.deepStrictEqual(calls([call("read_file", "{path}")]), {
      calls: [["read_file", "{path}"]],
      changes: 0,
      truncated: false
    })
  })

  it("calls that the provider ran itself are none of ours", () => {
    const own = Response.makePart("tool-call", { id: "p", name: "search", params: "{", providerExecuted: true })
    const parts = [own, own]
    assert.strictEqual(Normalise.normalise(parts, tools, { delegations: 0 }).parts, parts)
  })

  const Name = Schema.Literals(["read_file", "Read-File", "delegate_task", "remove_file", "zzz", ""])
  prop("once is enough", [Schema.Array(Schema.Tuple([Name, Schema.Json]))], ([given]) => {
    const once = Normalise.normalise(
      given.map(([name, params]) => call(name, params)),
      tools,
      { delegations: 2 }
    )
    assert.deepStrictEqual(Normalise.normalise(once.parts, tools, { delegations: 2 }), {
      parts: once.parts,
      truncated: false,
      changes: [],
      notes: new Map()
    })
  })
})
