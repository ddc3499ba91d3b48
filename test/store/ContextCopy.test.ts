import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Prune from "../../src/tools/prompt/compaction/Prune.ts"
import * as ContextCopy from "../../src/store/ContextCopy.ts"

const user = (...parts: ReadonlyArray<Prompt.UserMessagePart>) => Prompt.userMessage({ content: parts })
const text = (value: string) => Prompt.textPart({ text: value })
const calls = (...ids: ReadonlyArray<string>) =>
  Prompt.assistantMessage({
    content: ids.map((id) =>
      Prompt.toolCallPart({ id, name: "look", params: { at: id.repeat(600) }, providerExecuted: false })
    )
  })
const result = (id: string, said: string) =>
  Prompt.toolMessage({
    content: [Prompt.toolResultPart({ id, name: "look", isFailure: false, result: said, providerExecuted: false })]
  })

const picture = user(text("look here"), Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1, 2, 3]) }))
const source = [
  user(text("go on")),
  calls("a", "b"),
  result("b", "long ".repeat(100)),
  result("a", "short"),
  picture,
  user(text("go on")),
  user(text("go on"))
]
const positions = (messages: ReadonlyArray<Prompt.Message>) =>
  ContextCopy.findCopies(messages, source).map(({ isChanged, position }) => (isChanged ? [position] : position))

describe("copies of messages", () => {
  it("have the same object for their original, whatever else says the same", () => {
    assert.deepStrictEqual(positions([source[0], source[6]].flatMap((message) => message ?? [])), [0, 6])
  })

  it("are found where results, arguments and pictures were left out, and results of one answer stand in another order", () => {
    const shortened = Prune.prune(source, 0, source.length)
    assert.deepStrictEqual(
      positions([shortened[1], shortened[3], shortened[2], shortened[4]].flatMap((message) => message ?? [])),
      [[1], 3, [2], [4]]
    )
  })

  it("are none where nothing says the same: a summary", () => {
    const copies = ContextCopy.findCopies([user(text("go on")), user(text("a summary")), ...source.slice(4)], source)
    assert.deepStrictEqual(
      copies.map(({ position }) => position),
      [0, undefined, 4, 5, 6]
    )
    assert.deepStrictEqual(ContextCopy.listRemoved(copies, source.length), [[1, 3]])
  })
})
