/**
 * The toolset `clarify`: asks the user questions, with optional choices.
 *
 * **Details**
 *
 * A call contains one `question` with up to four `choices`, or up to five `questions`, which are asked one after
 * another. If no user can be asked (a single query, a batch, a child agent), the call fails at once and tells the model
 * to decide by itself.
 *
 * **Example** (A tool that asks the user)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { Clarifier, Clarify } from "hermes-effect/tools/planning"
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provideService(Clarifier.Clarifier, ({ choices }) => Effect.succeed(choices.slice(0, 1)))
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [Clarify.toolset] })))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Annotations from "../Annotations.ts"
import * as Toolset from "../Toolset.ts"
import { type Ask, Clarifier } from "./Clarifier.ts"
import * as Problem from "./file/Problem.ts"

const maxChoices = 4
const maxQuestions = 5

const QuestionParameter = Schema.Struct({
  question: Schema.String,
  choices: Schema.optionalKey(Schema.Array(Schema.String)),
  multi_select: Schema.optionalKey(Schema.Boolean)
})

const AnswerResult = Schema.Struct({
  question: Schema.String,
  choices_offered: Schema.Array(Schema.String),
  user_response: Schema.Union([Schema.String, Schema.Array(Schema.String)])
})

/** The tool `clarify`. */
export const tool = Tool.make("clarify", {
  description:
    "Ask the user for something that only they know and the task needs: which of several meanings, which " +
    "trade-off, a missing value. Do not ask what you can find out, nor for permission to run a tool.",
  parameters: Schema.Struct({
    question: Schema.optionalKey(Schema.String),
    choices: Schema.optionalKey(
      Schema.Array(Schema.String).annotate({ description: "Up to 4; the user can always give another answer" })
    ),
    multi_select: Schema.optionalKey(Schema.Boolean),
    questions: Schema.optionalKey(
      Schema.Array(QuestionParameter).annotate({ description: "Up to 5, in place of question" })
    )
  }),
  success: Schema.Union([AnswerResult, Schema.Struct({ answers: Schema.Array(AnswerResult) })]),
  failure: Problem.Failure,
  failureMode: "return"
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Annotations.Interactive, true)

const alone = "decide by yourself, say in your answer what you assumed, and do not ask again"

const checkQuestion = Effect.fnUntraced(function* ({
  choices = [],
  multi_select = false,
  question
}: typeof QuestionParameter.Type) {
  if (question.trim() === "") return yield* Problem.fail("the question is empty")
  if (choices.length > maxChoices)
    return yield* Problem.fail(`${choices.length} choices are too many: ${maxChoices} at most`)
  return { question: question.trim(), choices: choices.map((choice) => choice.trim()), multiple: multi_select }
})

const promptUser = Effect.fnUntraced(function* (ask: Ask, given: typeof QuestionParameter.Type) {
  const question = yield* checkQuestion(given)
  const answer = yield* ask(question)
  if (answer === undefined) return yield* Problem.fail("the user did not answer", { hint: alone })
  const [first = ""] = answer
  return {
    question: question.question,
    choices_offered: question.choices,
    user_response: question.multiple ? answer : first
  }
})

const toolkit = Toolkit.make(tool)

const handlers = toolkit.toLayer({
  clarify: Effect.fnUntraced(function* ({ question, questions, ...rest }) {
    const ask = yield* Clarifier
    if (ask === undefined) return yield* Problem.fail("no user can be asked in this run", { hint: alone })
    if (questions === undefined || questions.length === 0)
      return yield* promptUser(ask, { question: question ?? "", ...rest })
    if (questions.length > maxQuestions) {
      return yield* Problem.fail(`${questions.length} questions are too many: ${maxQuestions} at most`)
    }
    // All questions are checked first, so that the user is not asked any question if one is invalid.
    yield* Effect.forEach(questions, checkQuestion)
    return { answers: yield* Effect.forEach(questions, (given) => promptUser(ask, given)) }
  }, Problem.mapToFailure)
})

/** The toolset `clarify`. */
export const toolset: Toolset.Toolset = Toolset.make("clarify", toolkit, handlers)
