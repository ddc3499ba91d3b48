// How a run that is not a completed one is described, on the command line and in a conversation.
import { assert, describe, it } from "@effect/vitest"
import { describeEnding } from "../../../src/program/cli/QueryEnding.ts"
import * as Turn from "../../../src/program/cli/interactive/Turn.ts"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { Exit, Limit, RunResult } from "../../../src/base/domain/RunEvent.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"

const ended = (exit: Exit, limit?: Limit): RunResult => ({
  _tag: "RunFinished",
  sessionId: SessionId.make("s1"),
  turnId: TurnId.make("t1"),
  exit,
  ...(limit === undefined ? {} : { limit }),
  text: "",
  steps: 2,
  provider: "p",
  model: "m",
  usage: Usage.zero,
  cost: Cost.toSpent(Cost.nothing)
})

describe("the end of a run that used up a limit", () => {
  it("names the limit and its setting", () => {
    const cases: ReadonlyArray<readonly [Limit, string]> = [
      ["tokens", "the number of tokens for the run is used up: raise agent.run_budget_tokens"],
      ["cost", "the money for the run is used up: raise agent.run_budget_dollars"],
      ["time", "the time for the run is used up: raise agent.run_budget_seconds (--run-budget)"],
      ["tool_calls", "the number of tool calls for the run is used up: raise agent.run_budget_tool_calls"]
    ]
    for (const [limit, words] of cases) {
      const result = ended("budget_exhausted", limit)
      assert.strictEqual(
        describeEnding(result),
        `stopped, because ${words}, or continue with \`hermes chat --resume s1\``
      )
      assert.match(
        Turn.describeEnding(result) ?? "",
        /^Stopped, because the .* for the run is used up\. Type "continue" to continue\.$/
      )
    }
    assert.match(
      describeEnding(ended("max_iterations_reached", "iterations")) ?? "",
      /^stopped after 2 model calls .* raise --max-turns/
    )
    assert.match(
      Turn.describeEnding(ended("max_iterations_reached", "iterations")) ?? "",
      /^Stopped after 2 model calls/
    )
  })

  it("says nothing of a completed run", () => {
    assert.isUndefined(describeEnding(ended("text_response")))
    assert.isUndefined(Turn.describeEnding(ended("text_response")))
  })
})
