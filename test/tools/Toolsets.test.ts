import { assert, describe, it } from "@effect/vitest"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"
import * as Toolsets from "../../src/tools/Toolsets.ts"

const builtins = [FileTools.toolset, TerminalTools.toolset, Todo.toolset]

/** The tools that a choice leaves of the built-in ones and of some foreign ones. */
const chosen = (toolsets: ReadonlyArray<string>, more: Partial<Toolsets.ChoiceLists> = {}): ReadonlyArray<string> => {
  const foreign = more.foreign ?? []
  const { selection } = Toolsets.resolve({ toolsets, ...more })
  const all = [
    ...builtins.flatMap(({ name, tools }) => tools.map((tool) => [name, tool.name] as const)),
    ...foreign.map((name) => [name, `${name}-tool`] as const)
  ]
  return all.flatMap(([toolset, tool]) =>
    selection.toolset?.(toolset) === true && selection.tool?.(tool) === true ? [tool] : []
  )
}

const files = ["read_file", "write_file", "patch", "search_files"]

describe("Toolsets", () => {
  it("the built-in toolsets and their tools are in the catalogue", () => {
    for (const { name, tools } of builtins) {
      assert.sameMembers(
        tools.map((tool) => tool.name),
        [...Toolsets.listTools(name)]
      )
    }
  })

  it("a name chooses its tools, and nothing else", () => {
    assert.deepStrictEqual(chosen(["file"]), files)
    assert.deepStrictEqual(chosen(["todo", " terminal "]), ["terminal", "process", "todo"])
  })

  it("a composed toolset is its parts, to any depth", () => {
    assert.deepStrictEqual(chosen(["debugging"]), [...files, "terminal", "process"])
    assert.deepStrictEqual(chosen(["hermes-gateway"]), [...files, "terminal", "process", "todo"])
    assert.sameMembers(
      [...Toolsets.listTools("safe")],
      ["web_search", "web_extract", "vision_analyze", "image_generate"]
    )
    assert.notInclude([...Toolsets.listTools("hermes-acp")], "clarify")
    assert.include([...Toolsets.listTools("hermes-cli")], "clarify")
  })

  it("all and * are everything but the integrations that nobody gets without asking", () => {
    assert.deepStrictEqual(chosen(["*"]), chosen(["all"]))
    assert.deepStrictEqual(chosen(["all"]), [...files, "terminal", "process", "todo"])
  })

  it("what is disabled stays away, however it was asked for", () => {
    assert.deepStrictEqual(chosen(["all", "file", "debugging"], { disabled: ["file"] }), [
      "terminal",
      "process",
      "todo"
    ])
    assert.notInclude([...Toolsets.listTools("search")], "web_extract")
    assert.deepStrictEqual(chosen(["all"], { disabled: ["all"], foreign: ["mcp-github"] }), [])
  })

  it("a toolset of somebody else is chosen by its name, and by all", () => {
    const foreign = ["mcp-github", "weather"]
    assert.deepStrictEqual(chosen(["github"], { foreign }), ["mcp-github-tool"])
    assert.deepStrictEqual(chosen(["mcp-github", "weather"], { foreign }), ["mcp-github-tool", "weather-tool"])
    assert.deepStrictEqual(chosen(["todo"], { foreign }), ["todo"])
    assert.deepStrictEqual(chosen(["hermes-cli"], { foreign, disabled: ["github", "file", "terminal"] }), [
      "todo",
      "weather-tool"
    ])
  })

  it("a toolset of a plugin that is named like one of the catalogue without tools is chosen by that name", () => {
    const offers = (toolsets: ReadonlyArray<string>, name: string, disabled: ReadonlyArray<string> = []) =>
      Toolsets.resolve({ toolsets, disabled }).selection.toolset?.(name)
    assert.isTrue(offers(["discord"], "discord"))
    assert.isFalse(offers(["discord"], "discord", ["discord"]))
    assert.isFalse(offers(["hermes-cli"], "discord"), "nobody gets it without asking")
    assert.isTrue(offers(["hermes-cli"], "safe"))
    assert.isFalse(offers(["todo"], "hermes-cli"))
    assert.isTrue(offers(["web"], "web"), "its tools come with those of the catalogue")
  })

  it("a name that means nothing is told, with the one that it may have meant", () => {
    const { names, unknown } = Toolsets.resolve({ toolsets: ["file", "termnal", "constructor"] })
    assert.deepStrictEqual(names, ["file"])
    assert.deepStrictEqual(unknown, [
      { name: "termnal", nearest: "terminal" },
      { name: "constructor", nearest: undefined }
    ])
  })

  it("a known name without tools is no unknown one", () => {
    const { names, unknown } = Toolsets.resolve({ toolsets: ["delegation", "terminal"] })
    assert.deepStrictEqual(unknown, [])
    assert.deepStrictEqual(Toolsets.findEmptyNames(names, new Set(["terminal"])), ["delegation"])
  })

  it("a toolset that contains itself adds nothing twice", () => {
    const entries: Toolsets.Catalogue = {
      a: { tools: ["one"], includes: ["b"] },
      b: { tools: ["two"], includes: ["a", "c"] },
      c: { includes: ["c", "a"], without: ["a"] }
    }
    assert.sameMembers([...Toolsets.listTools("a", entries)], ["one", "two"])
    assert.sameMembers([...Toolsets.listTools("b", entries)], ["one", "two"])
    assert.sameMembers([...Toolsets.listTools("all", entries)], ["one", "two"])
  })
})
