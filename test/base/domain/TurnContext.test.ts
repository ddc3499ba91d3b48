// Context of one turn is kept with the first answer of the turn, and belongs to the message before it.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as TurnContext from "../../../src/base/domain/TurnContext.ts"

const hash = (text: string): string => `${text.length}`

const text = (value: string) => [Prompt.textPart({ text: value })]

const say = (value: string) => Prompt.userMessage({ content: text(value) })

const question = say("what is it?")

const context = TurnContext.makeContext(question, ["it rains"], "s", hash)

const answer = (options: Prompt.ProviderOptions = {}) =>
  Prompt.assistantMessage({ content: text("rain"), options: TurnContext.addToOptions(options, context) })

const texts = (messages: ReadonlyArray<Prompt.Message>) => messages.map(Conversation.readText)

describe("the context of a turn", () => {
  it("is placed before the message that opened the turn, and the message object is the same each time", () => {
    const stored = [say("hello"), question, answer(), say("and then?")]
    const restored = TurnContext.restoreContexts(stored, hash)
    assert.deepStrictEqual(texts(restored.messages), ["hello", "it rains\nwhat is it?", "rain", "and then?"])
    assert.deepStrictEqual([...restored.replaced.values()], [question])
    assert.strictEqual(TurnContext.restoreContexts(stored, hash).messages[1], restored.messages[1])
    assert.deepStrictEqual(restored.recordedIn("s"), restored.messages.slice(1, 2))
    assert.deepStrictEqual(restored.recordedIn("another"), [])
  })

  it("is not placed before another message, or where nobody asked for it", () => {
    const moved = [say("a note in its place"), answer()]
    assert.deepStrictEqual(TurnContext.restoreContexts(moved, hash).messages, moved)
    const alone = [answer()]
    assert.deepStrictEqual(TurnContext.restoreContexts(alone, hash).messages, alone)
    const stored = [question, answer()]
    assert.strictEqual(TurnContext.restoreContexts(stored, undefined).messages, stored)
  })

  it("is left out of a message that leaves the session, with nothing else", () => {
    const broken = answer(Conversation.brokenOff)
    assert.deepStrictEqual(TurnContext.withoutContext(broken).options, Conversation.brokenOff)
    assert.deepStrictEqual(TurnContext.withoutContext(answer()).options, {})
    assert.strictEqual(TurnContext.withoutContext(question), question)
  })

  it("is not placed before a message with files", () => {
    const picture = Prompt.userMessage({
      content: [...text("look"), Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1]) })]
    })
    assert.strictEqual(TurnContext.addToMessage(picture, ["it rains"]), picture)
  })
})
