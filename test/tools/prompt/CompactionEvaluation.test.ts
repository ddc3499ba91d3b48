// What is known of long conversations after many compactions, for each engine and setting; `npm run eval:compaction`
// prints the table.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { scenarios } from "../../support/compactionScenarios.ts"
import { evaluate, setups } from "../../support/compactionEvaluation.ts"

describe("after compaction the task, constraints, files, errors, decisions and open questions are known, head and tail are the same", () => {
  for (const setup of setups) {
    it.effect(setup.name, () =>
      Effect.gen(function* () {
        for (const scenario of scenarios) {
          const { compactions, isHeadSame, isTailSame, lost, tokens, untested } = yield* evaluate(setup, scenario)
          assert.deepStrictEqual(lost, [], scenario.name)
          // The facts stood in what was left out; what the user said is never left to the provider.
          const said = setup.provider === undefined ? [] : ["task", "constraint", "constraint", "open question"]
          assert.deepStrictEqual(
            untested.map(({ kind }) => kind),
            said,
            scenario.name
          )
          assert.isAbove(compactions, 1)
          assert.isBelow(tokens.left, tokens.whole * 0.6)
          assert.isTrue(isHeadSame && isTailSame, scenario.name)
        }
      })
    )
  }
})
