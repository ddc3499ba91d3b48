// References of model calls: exact, whatever of their messages changes.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { SessionId, TurnId } from "../../src/domain/Ids.ts"
import * as RunRecorder from "../../src/domain/RunRecorder.ts"

const said = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

const recorder = (history: ReadonlyArray<Prompt.Message>) =>
  RunRecorder.make({
    sessionId: SessionId.make("s"),
    turnId: TurnId.make("t"),
    history,
    now: () => 0,
    hash: (text) => `#${text.length}`,
    sink: () => Effect.void
  })

describe("references of a model call", () => {
  it("name a message that was replaced in the middle", () => {
    const [a, b, c] = [said("a"), said("b"), said("c")]
    const { references } = recorder([a, b, c])
    assert.deepStrictEqual(references([a, b, c]), [[0, 2]])
    const other = said("something else")
    const [first, middle, last] = references([a, other, c])
    assert.deepStrictEqual([first, typeof middle, last], [0, "string", 2])
    assert.deepStrictEqual(references([a, b, c]), [[0, 2]])
  })

  it("follow a list that grows, shrinks and is copied", () => {
    const all = Array.from({ length: 5 }, (_, index) => said(String(index)))
    const { references } = recorder(all)
    assert.deepStrictEqual(references(all.slice(0, 3)), [[0, 2]])
    assert.deepStrictEqual(references(all), [[0, 4]])
    assert.deepStrictEqual(references(all.slice(0, 2)), [[0, 1]])
    assert.deepStrictEqual(references([]), [])
    assert.deepStrictEqual(references(all.slice(1)), [[1, 4]])
  })
})
