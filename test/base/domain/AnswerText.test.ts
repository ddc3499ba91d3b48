// Arguments of calls on their way to every reader of a run: the terminal, events, protocols.
import { assert, describe, it } from "@effect/vitest"
import * as AnswerText from "../../../src/base/domain/AnswerText.ts"
import { makeParamsDelta, type StreamPart } from "../../../src/base/domain/ModelCall.ts"
import { redactKeys } from "../../../src/base/domain/Redaction.ts"
import { selectedForeignKeys } from "../../support/plantedKeys.ts"

const key = selectedForeignKeys.find(([name]) => name === "telegram")?.[1] ?? ""
const args = JSON.stringify({ command: `curl ${key} here` })

/** The arguments of a call as a reader puts them together. */
const shownOf = (parts: ReadonlyArray<StreamPart>, id: string): string =>
  parts.map((part) => (part.type === "tool-params-delta" && part.id === id ? part.delta : "")).join("")

const seen = (redact: boolean, pieces: ReadonlyArray<StreamPart>): ReadonlyArray<StreamPart> => {
  const watcher = AnswerText.makeWatcher(redact)
  return [...pieces.flatMap((piece) => watcher.see([piece])), ...watcher.end()]
}

describe("arguments of a call that come in pieces", () => {
  it("show no key, wherever it was cut, and lose nothing else", () => {
    const whole = redactKeys(args)
    assert.notInclude(whole, key)
    for (let at = 0; at <= args.length; at++) {
      assert.strictEqual(
        shownOf(seen(true, [makeParamsDelta("a", args.slice(0, at)), makeParamsDelta("a", args.slice(at))]), "a"),
        whole,
        `${at}`
      )
    }
    assert.strictEqual(
      shownOf(
        seen(
          true,
          Array.from(args, (letter) => makeParamsDelta("a", letter))
        ),
        "a"
      ),
      whole
    )
  })

  it("are held for each call, and pass as they are where nothing is redacted", () => {
    const both = Array.from(args).flatMap((letter) => [makeParamsDelta("a", letter), makeParamsDelta("b", letter)])
    const shown = seen(true, both)
    assert.strictEqual(shownOf(shown, "a"), redactKeys(args))
    assert.strictEqual(shownOf(shown, "b"), redactKeys(args))
    assert.deepStrictEqual(seen(false, both), both)
  })
})
