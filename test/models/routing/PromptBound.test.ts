// The bound of a prompt, and the work that it takes: each message is measured once.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import { boundPrompt, boundText, noteCounted } from "../../../src/models/routing/PromptBound.ts"

const textFormat = { type: "text" } as const

/** Creates a message, and counts the reads of its text. */
const makeMessage = (text: string, count: () => void): Prompt.Message => {
  const part = Prompt.textPart({ text })
  Object.defineProperty(part, "text", {
    enumerable: true,
    get: () => {
      count()
      return text
    }
  })
  const message = Prompt.userMessage({ content: [] })
  return Object.assign(Object.create(null), message, { content: [part] })
}

describe("the bound of a prompt", () => {
  it("measures each message once while the prompt grows, with and without counts of a provider", () => {
    for (const isCounted of [false, true]) {
      let reads = 0
      const tools: ReadonlyArray<never> = []
      const messages: Array<Prompt.Message> = []
      const bounds: Array<number> = []
      for (let at = 0; at < 50; at++) {
        messages.push(makeMessage(`text ${at}`, () => reads++))
        const call = { messages: messages.slice(), tools, contextEdits: undefined, responseFormat: textFormat }
        bounds.push(boundPrompt("route", call))
        if (isCounted) noteCounted("route", call, 10 * (at + 1))
      }
      assert.strictEqual(reads, 50)
      const fresh = messages.map((message) => ({ ...message }))
      const whole = boundPrompt("route", {
        messages: fresh,
        tools,
        contextEdits: undefined,
        responseFormat: textFormat
      })
      if (isCounted) assert.isBelow(bounds.at(-1) ?? Infinity, whole)
      else assert.strictEqual(bounds.at(-1), whole)
    }
  })

  it("of a changed prompt counts the messages that replaced others", () => {
    const [a, b, c] = ["one", "two", "a longer one"].map((text) => makeMessage(text, () => {}))
    assert.isTrue(a !== undefined && b !== undefined && c !== undefined)
    if (a === undefined || b === undefined || c === undefined) return
    const bound = (messages: ReadonlyArray<Prompt.Message>): number =>
      boundPrompt("other", { messages, tools: [], contextEdits: undefined, responseFormat: textFormat })
    const both = bound([a, b])
    assert.strictEqual(bound([a, c]) - both, boundText("a longer one") - boundText("two"))
    assert.strictEqual(bound([a, b]), both)
  })

  it("of a text is its bytes as JSON, whatever its characters", () => {
    const texts = [
      "",
      "plain text ~",
      'quotes " and \\ here',
      "lines\nand\ttabs\u0001",
      "ä ß €",
      "漢字",
      "😀",
      "\ud800",
      "\x7f"
    ]
    for (const text of texts)
      assert.isAtLeast(boundText(text), Buffer.byteLength(JSON.stringify(text)) - (text === "\ud800" ? 4 : 0), text)
    assert.strictEqual(boundText("plain"), 7)
    assert.strictEqual(boundText('"'), 4)
    assert.strictEqual(boundText("漢"), 5)
  })
})
