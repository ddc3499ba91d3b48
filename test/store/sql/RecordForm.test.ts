// The short form of record entries: what it leaves out is read again, and what the session does not store stays.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { Entry, RecordEvent } from "../../../src/base/domain/RecordEvent.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as RecordForm from "../../../src/store/sql/RecordForm.ts"
import * as StoredForm from "../../../src/store/StoredForm.ts"

const turnId = TurnId.make("session:turn")
const request = `${turnId}:api:1`
const makeEntry = (event: RecordEvent, sessionId = "session"): Entry => ({
  sessionId: SessionId.make(sessionId),
  turnId,
  at: 1,
  event
})
const text = "The file has three exports."
const message = Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
const appended = makeEntry({ _tag: "MessageAppended", origin: "model", position: 3, apiRequestId: request, message })
const makeAttempt = (answer: string, apiRequestId = request): RecordEvent => ({
  _tag: "AttemptEnded",
  apiRequestId,
  status: "answered",
  answer: [{ type: "text", text: answer }]
})
const makeEnd = (answer: string): RecordEvent => ({
  _tag: "RunEnded",
  exit: "text_response",
  text: answer,
  steps: 1,
  usage: Usage.zero,
  cost: { usd: null, status: "unknown", source: "none" }
})

/** Writes entries, and reads them with the message at position 3. */
const passThrough = (entries: ReadonlyArray<Entry>) => {
  const shorten = RecordForm.makeShorten()
  const envelope = Result.getOrThrow(StoredForm.encode(message))
  // One write for each entry but the first two, which a step writes together.
  const bodies = [entries.slice(0, 2), ...entries.slice(2).map((entry) => [entry])].flatMap((part) =>
    Result.getOrThrow(shorten(part))
  )
  return bodies.map(({ body, position }, index) => {
    const kind = entries[index]?.event._tag ?? ""
    const row = { kind, turn_id: turnId, body, envelope: position === 3 ? envelope : null }
    return {
      body,
      position,
      read: StoredForm.getValue(StoredForm.readEvent(RecordForm.readBody(row), row.envelope ?? undefined, 1))
    }
  })
}

describe("the short form of record entries", () => {
  it("leaves out texts that are messages of the session, and reads them again", () => {
    const entries = [makeEntry(makeAttempt(text)), appended, makeEntry(makeEnd(text))]
    const read = passThrough(entries)
    for (const { body, position } of read) {
      assert.notInclude(body, text)
      assert.notInclude(body, "_tag")
      assert.notInclude(body, turnId)
      assert.strictEqual(position, 3)
    }
    assert.deepStrictEqual(
      read.map(({ read }) => (read._tag === "Some" ? read.value : undefined)),
      entries.map(({ event }) => event)
    )
  })

  it("retains texts that differ from the message, and ids of requests of other runs", () => {
    const entries = [
      makeEntry(makeAttempt("An answer that a wrapper replaced.")),
      appended,
      makeEntry(makeEnd("A text that a listener replaced.")),
      makeEntry(makeAttempt(text, "another:api:1"))
    ]
    const read = passThrough(entries)
    assert.deepStrictEqual(
      read.map(({ position }) => position),
      [null, 3, null, null]
    )
    assert.deepStrictEqual(
      read.map(({ read }) => (read._tag === "Some" ? read.value : undefined)),
      entries.map(({ event }) => event)
    )
  })

  it("retains texts of another session", () => {
    const [attempt] = passThrough([makeEntry(makeAttempt(text), "other"), appended])
    assert.strictEqual(attempt?.position, null)
    assert.include(attempt?.body ?? "", text)
  })

  it("reads rows of the long form", () => {
    const event = makeAttempt(text)
    const row = { kind: "AttemptEnded", turn_id: turnId, body: JSON.stringify(event), envelope: null }
    assert.deepStrictEqual(RecordForm.readBody(row), event)
  })
})
