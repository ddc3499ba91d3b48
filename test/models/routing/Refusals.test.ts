// Recorded refusals (`test/models/exchanges/refusals.jsonl`), one in a line, with the decision that each must lead to.
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import * as Schema from "effect/Schema"
import * as Classification from "../../../src/models/routing/Classification.ts"
import * as StatedLimits from "../../../src/models/routing/classification/StatedLimits.ts"
import * as Recovery from "../../../src/models/routing/Recovery.ts"
import * as WindowProbing from "../../../src/models/routing/WindowProbing.ts"
import * as S from "./support.ts"

const Refusal = Schema.Struct({
  from: Schema.String,
  status: Schema.Finite,
  message: Schema.String,
  code: Schema.optionalKey(Schema.String),
  param: Schema.optionalKey(Schema.String),
  /** Size of the refused call; without it nothing is known about the call. */
  call: Schema.optionalKey(
    Schema.Struct({
      tokens: Schema.Finite,
      window: Schema.Finite,
      messages: Schema.Finite,
      output: Schema.optionalKey(Schema.Finite)
    })
  ),
  expect: Schema.Struct({
    reason: Recovery.Reason,
    /** Output limit of the next attempt. */
    cap: Schema.optionalKey(Schema.Finite),
    /** True if the output limit applies to all calls of the route. */
    lasting: Schema.optionalKey(Schema.Boolean),
    /** True if the next attempt has no output limit. */
    omit: Schema.optionalKey(Schema.Boolean),
    /** Window that the refusal states, or null if it does not state one. */
    window: Schema.optionalKey(Schema.NullOr(Schema.Finite)),
    excess: Schema.optionalKey(Schema.Boolean)
  })
})

const rows = readFileSync(new URL("../exchanges/refusals.jsonl", import.meta.url), "utf8")
  .trim()
  .split("\n")
  .map((line) => Schema.decodeUnknownSync(Schema.fromJsonString(Refusal))(line))

describe("recorded refusals", () => {
  for (const { call, code, expect, from, message, param, status } of rows) {
    it(`${from}`, () => {
      const error = S.http(status, message, {
        ...(code === undefined ? {} : { code }),
        ...(param === undefined ? {} : { param })
      })
      const decision = Classification.classify(error, call)
      assert.strictEqual(decision.reason, expect.reason, Classification.explainDecision(error, call))
      const lower = decision.recoveries.find(({ _tag }) => _tag === "LowerOutputCap")
      assert.deepStrictEqual(
        lower,
        expect.cap === undefined
          ? undefined
          : { _tag: "LowerOutputCap", to: expect.cap, ...(expect.lasting === true ? { lasting: true } : {}) }
      )
      if (expect.omit === true) assert.strictEqual(decision.recoveries[0]?._tag, "AdaptParameters")
      if (expect.window === undefined) return
      const stated = WindowProbing.readStatedLimit(message)
      assert.deepStrictEqual(
        stated,
        expect.excess === true
          ? { _tag: "Excess" }
          : expect.window === null
            ? { _tag: "Nothing" }
            : { _tag: "Tokens", tokens: expect.window }
      )
    })
  }

  it("a number that cannot be a window is not one", () =>
    assert.deepStrictEqual(WindowProbing.readStatedLimit("limit of context length 12"), { _tag: "Nothing" }))

  it("a long message is read at its beginning and its end, so that no endpoint can stop the process", () => {
    const [limit, other] = ["maximum context length is 8192 tokens. ", "1,".repeat(50_000)]
    const tokens = { _tag: "Tokens", tokens: 8_192 } as const
    assert.deepStrictEqual(WindowProbing.readStatedLimit(`${limit}${"1,".repeat(5_000)}`), tokens)
    assert.deepStrictEqual(WindowProbing.readStatedLimit(`${"1,".repeat(5_000)} ${limit}`), tokens)
    assert.deepStrictEqual(WindowProbing.readStatedLimit(`${"x".repeat(5_000)}${limit}${"x".repeat(5_000)}`), {
      _tag: "Nothing"
    })
    assert.deepStrictEqual(WindowProbing.readStatedLimit(other), { _tag: "Nothing" })
  })

  it("no refusal of a short conversation without a number makes the window smaller", () => {
    for (const { message } of rows) {
      const { inputMaximum, window } = StatedLimits.readLimits(message.toLowerCase())
      if (window !== undefined || inputMaximum !== undefined) continue
      const learnt = WindowProbing.learnWindow("context_overflow", message, 200_000, 300)
      assert.deepStrictEqual(learnt, { window: 200_000, stated: false }, message)
    }
  })
})
