/**
 * Questions of workflows: a step asks and suspends its execution, and any process answers by id.
 *
 * **Details**
 *
 * This is the only module that knows how a question is stored and answered. The answer is a durable deferred: the first
 * answer that the engine stores counts, and every other answer is refused. The value is checked by the JSON Schema of
 * the question before it is stored, so that a process without the workflow's code can answer. An answer that the
 * workflow's own schema refuses all the same is asked for again, in the next round.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import * as DurableDeferred from "effect/workflow/DurableDeferred"
import { WorkflowEngine, WorkflowInstance } from "effect/workflow/WorkflowEngine"
import * as AnswerFormat from "../../../base/domain/AnswerFormat.ts"
import type { ClusterError } from "../Cluster.ts"
import * as AgentQuestions from "./AgentQuestions.ts"
import { makeEngineWorkflow } from "./EngineWorkflow.ts"
import { type Place, runStored, type StepServices, toPath, type ValueSchema } from "./StepExecution.ts"
import { makeDeferred } from "./StepAnswers.ts"
import { AnswerRefused, type StepFailed } from "./WorkflowError.ts"
import { WorkflowStore } from "./WorkflowStore.ts"

/** A question of a workflow. */
export interface AskedQuestion<A> {
  readonly name: string
  readonly prompt: string
  readonly schema: ValueSchema<A>
}

/** Asks a question, and suspends the execution until it is answered. */
export const askQuestion = <A>(
  place: Place,
  { name, prompt, schema }: AskedQuestion<A>
): Effect.Effect<A, StepFailed, StepServices> =>
  Effect.gen(function* () {
    const { execution } = place
    const path = toPath(place, name)
    const codec = Schema.toCodecJson(schema)
    const decode = AnswerFormat.makeDecoder(codec)
    const store = yield* WorkflowStore
    let problem = ""
    for (let round = 1; ; round++) {
      const shown = problem === "" ? prompt : `${prompt}\n\nThe last answer could not be read: ${problem}`
      yield* runStored(place, {
        name: `${name} asked ${round}`,
        kind: "question",
        output: Schema.Void,
        isInner: true,
        execute: () =>
          Effect.orDie(
            Effect.andThen(
              store.ask({
                execution,
                question: path,
                round,
                prompt: shown,
                schema: Schema.toJsonSchemaDocument(codec)
              }),
              store.beginStep(execution, {
                path,
                name,
                kind: "question",
                state: "waiting",
                attempts: round,
                sessionId: undefined
              })
            )
          )
      })
      const { value } = yield* DurableDeferred.await(makeDeferred(path, round))
      const decoded = yield* Effect.result(decode(value))
      if (decoded._tag === "Failure") {
        problem = decoded.failure
        continue
      }
      yield* runStored(place, {
        name: `${name} answered`,
        kind: "question",
        output: Schema.Void,
        isInner: true,
        execute: () =>
          Effect.orDie(
            Effect.andThen(store.closeQuestion(execution, path, round), store.endStep(execution, path, "done"))
          )
      })
      return decoded.success
    }
  })

const describeProblem = (schema: unknown, value: unknown): Effect.Effect<string | undefined> =>
  Effect.suspend(() => {
    // The store returns the document that `ask` wrote.
    const document = schema as Parameters<typeof SchemaRepresentation.fromJsonSchemaDocument>[0]
    const decode = Schema.decodeUnknownEffect(
      // A schema that was read from a JSON Schema needs no services.
      SchemaRepresentation.fromJsonSchemaDocument(document, { patterns: "ignore" }) as Schema.Codec<unknown>,
      { errors: "all" }
    )
    return Effect.match(decode(value), {
      onFailure: ({ message }) => AnswerFormat.shortenProblem(message),
      onSuccess: () => undefined
    })
  }).pipe(
    // A schema that JSON Schema cannot express is checked by the workflow alone.
    Effect.catchDefect(() => Effect.succeed(undefined))
  )

/** An answer to a question, as JSON. */
export interface GivenAnswer {
  /** Id of the execution. */
  readonly id: string
  /** Place of the question, as listed: its name, or a path such as `answers[2]/approve`. */
  readonly question: string
  readonly answer: unknown
}

/** Answers a question of any execution in the store. Each question takes one answer. */
export const giveAnswer = Effect.fnUntraced(function* ({
  answer,
  id,
  question
}: GivenAnswer): Effect.fn.Return<void, AnswerRefused | ClusterError, WorkflowEngine | WorkflowStore> {
  const store = yield* WorkflowStore
  const engine = yield* WorkflowEngine
  const makeRefusal = (reason: AnswerRefused["reason"], message: string) =>
    new AnswerRefused({ id, question, reason, message })
  const execution = yield* store.get(id)
  const asked = yield* store.question(id, question)
  if (execution === undefined || asked === undefined) {
    const open = (yield* store.openQuestions(id)).map((one) => one.question)
    return yield* makeRefusal(
      "unknown",
      execution === undefined
        ? `there is no execution ${id}: list the open questions`
        : `execution ${id} has not asked "${question}": ` +
            (open.length === 0 ? "no question is open" : `open: ${open.join(", ")}`)
    )
  }
  if (execution.state !== "running") {
    return yield* makeRefusal(
      "late",
      `execution ${id} is ${execution.state}: its question "${question}" takes no answer`
    )
  }
  const answered = makeRefusal("answered", `question "${question}" of execution ${id} was answered before`)
  if (asked.isAnswered) return yield* answered
  const problem = yield* Option.match(AgentQuestions.readSessionQuestion(asked), {
    onNone: () => describeProblem(asked.schema, answer),
    onSome: (known) => AgentQuestions.describeMistake(known, answer)
  })
  if (problem !== undefined)
    return yield* makeRefusal("invalid", `the answer to "${question}" has another form than its schema: ${problem}`)
  const workflow = makeEngineWorkflow(execution)
  const executionId = yield* workflow.executionId({ id, input: null })
  const deferred = makeDeferred(question, asked.round)
  const own = (yield* Random.nextInt).toString(36)
  const given = { id: `${own}${(yield* Random.nextInt).toString(36)}`, value: answer }
  yield* engine.deferredDone(deferred, {
    workflowName: workflow._tag,
    executionId,
    deferredName: deferred.name,
    exit: Exit.succeed(given)
  })
  const stored = yield* Effect.provideService(
    engine.deferredResult(deferred),
    WorkflowInstance,
    WorkflowInstance.initial(workflow, executionId)
  )
  const winner = Option.getOrUndefined(stored)
  if (winner !== undefined && Exit.isSuccess(winner) && winner.value.id !== given.id) return yield* answered
  yield* store.closeQuestion(id, question, asked.round)
  yield* store.announce
})
