import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Clarifier, type Question } from "../../src/tools/builtin/Clarifier.ts"
import * as Clarify from "../../src/tools/builtin/Clarify.ts"
import { callTool } from "../support/callTool.ts"

const clarify = (params: unknown) => callTool(Clarify.toolset, "clarify", params)

const asked = (answer: ReadonlyArray<string> | undefined, questions: Array<Question> = []) =>
  Effect.provideService(Clarifier, (question) =>
    Effect.sync(() => {
      questions.push(question)
      return answer
    })
  )

describe("clarify", () => {
  it.effect("gives the answer with the question and its choices", () =>
    Effect.gen(function* () {
      const { body } = yield* clarify({ question: "Which?", choices: ["a", "b"] }).pipe(asked(["b"]))
      assert.deepStrictEqual(body, { question: "Which?", choices_offered: ["a", "b"], user_response: "b" })
    })
  )

  it.effect("several questions, and several answers to one", () =>
    Effect.gen(function* () {
      const questions: Array<Question> = []
      const { body } = yield* clarify({
        questions: [{ question: "One?" }, { question: "Two?", choices: ["x", "y"], multi_select: true }]
      }).pipe(asked(["x", "y"], questions))
      assert.deepStrictEqual(body["answers"], [
        { question: "One?", choices_offered: [], user_response: "x" },
        { question: "Two?", choices_offered: ["x", "y"], user_response: ["x", "y"] }
      ])
      assert.lengthOf(questions, 2)
    })
  )

  it.effect("what can not be asked is an error, and nobody is bothered", () =>
    Effect.gen(function* () {
      const questions: Array<Question> = []
      for (const params of [
        {},
        { question: " " },
        { question: "?", choices: ["1", "2", "3", "4", "5"] },
        { questions: Array.from({ length: 6 }, () => ({ question: "?" })) },
        { questions: [{ question: "fine?" }, { question: "" }] }
      ]) {
        assert.isTrue((yield* clarify(params).pipe(asked(["a"], questions))).isFailure)
      }
      assert.isEmpty(questions)
    })
  )

  it.effect("no answer is an error that tells the model to go on", () =>
    Effect.gen(function* () {
      const { body, isFailure } = yield* clarify({ question: "Which?" }).pipe(asked(undefined))
      assert.isTrue(isFailure)
      assert.include(String(body["hint"]), "decide by yourself")
    })
  )
})
