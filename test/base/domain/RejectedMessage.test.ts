import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as StoredForm from "../../../src/store/StoredForm.ts"
import { makeUserMessage } from "../../support/sessionStoreConformance.ts"

describe("A rejected message", () => {
  const answer = Prompt.assistantMessage({ content: [Prompt.textPart({ text: "yes" })] })

  it("takes back the note and the user's message before it, and nothing else", () => {
    const kept = [makeUserMessage("a"), answer, makeUserMessage("b")]
    assert.deepStrictEqual(
      Conversation.withoutRejected([
        makeUserMessage("a"),
        answer,
        makeUserMessage("x"),
        Conversation.makeRejection("bad"),
        makeUserMessage("b")
      ]),
      kept
    )
    assert.deepStrictEqual(
      Conversation.withoutRejected([
        makeUserMessage("a"),
        answer,
        Conversation.makeRejection("bad"),
        makeUserMessage("b")
      ]),
      kept
    )
    assert.strictEqual(Conversation.withoutRejected(kept), kept)
  })

  it("is known again after it was stored", () => {
    const stored = Result.flatMap(StoredForm.encode(Conversation.makeRejection("bad")), StoredForm.decode)
    assert.deepStrictEqual(Conversation.withoutRejected([makeUserMessage("x"), Result.getOrThrow(stored)]), [])
  })
})
