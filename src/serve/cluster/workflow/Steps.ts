/**
 * Workflows from steps: agents, effects, questions, branches, loops and pauses, typed from end to end, and durable with
 * the store of their executions.
 *
 * **Details**
 *
 * A definition is a value. Each step has a name, reads the values of the steps before it by name, and adds its own. The
 * value of each step is stored once. An execution whose process is killed continues in another process after the last
 * stored value ({@link "./WorkflowRuns.ts"}). Steps inside a branch, a loop or a list see the values outside of it, and
 * the value of such a block is the value of its last step.
 *
 * **Gotchas**
 *
 * The work of a {@link step} that was running when its process was killed runs again. Pass `call.key` to services that
 * recognise a repeated request. The session of an {@link agent} is its log: stored answers and results are not produced
 * again.
 *
 * Functions of the state (`prompt`, `items`, `when`, `result`) may run several times, so they must not have effects.
 *
 * A changed definition needs a new `version`. Executions that are running continue with the definition of their
 * version, which the processes list beside the new one until they are over.
 *
 * **Example** (Two steps and a question)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import { Runtime } from "hermes-effect"
 * import { Steps, WorkflowRuns } from "hermes-effect/workflow"
 *
 * const greeting = Steps.make("greeting", {
 *   version: 1,
 *   input: Schema.Struct({ name: Schema.String }),
 *   output: Schema.String,
 *   steps: (start) =>
 *     start.pipe(
 *       Steps.agent("draft", { prompt: ({ input }) => `Reply exactly hello ${input.name}` }),
 *       Steps.question("approve", { prompt: ({ draft }) => `Send "${draft}"?`, answer: Schema.Boolean }),
 *       Steps.result(({ approve, draft }) => (approve ? draft : "nothing"))
 *     )
 * })
 *
 * const program = Effect.gen(function*() {
 *   yield* WorkflowRuns.start(greeting, { id: "first", input: { name: "Ada" } })
 *   const { question } = yield* WorkflowRuns.waitForQuestion("first")
 *   yield* WorkflowRuns.answer({ id: "first", question, answer: true })
 *   return yield* WorkflowRuns.wait(greeting, "first")
 * })
 *
 * const layer = WorkflowRuns.layerMemory({ workflows: [greeting] })
 * console.log(await Effect.runPromise(program.pipe(Effect.provide(layer), Effect.provide(Runtime.layer()))))
 * // => hello Ada
 * ```
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { WorkflowEngine, WorkflowInstance } from "effect/workflow/WorkflowEngine"
import { makeTypedWorkflow, toTag } from "./EngineWorkflow.ts"
import { computeValue, retryStored, runStored, toPath, waitFor } from "./StepExecution.ts"
import type { StepCall, ValueSchema } from "./StepExecution.ts"
import * as StepGraph from "./StepGraph.ts"
import {
  type AnyWorkflow,
  appendNode,
  type Block,
  type Body,
  type Extend,
  listNodes,
  makeNode,
  makeStart,
  type StepFailure,
  toShapes,
  type Workflow
} from "./StepNodes.ts"
import * as StepQuestions from "./StepQuestions.ts"
import { StepFailed, StepLimitReached } from "./WorkflowError.ts"
import { WorkflowStore } from "./WorkflowStore.ts"

export {
  addAgent as agent,
  type AgentNeeds,
  type AgentOptions,
  type AgentRunOptions,
  addHandoff as handoff,
  type HandoffAgent,
  type HandoffAnswer,
  type HandoffOptions
} from "./AgentSteps.ts"
export {
  addBranches as all,
  addChoice as branch,
  addForEach as forEach,
  addLoop as loop,
  addCondition as when
} from "./StepBlocks.ts"
export type { StepCall, ValueSchema } from "./StepExecution.ts"
export type { StepBranch, StepKind, StepShape, WorkflowShape } from "./StepGraph.ts"
export type {
  AnyWorkflow,
  Block,
  Body,
  Extend,
  Start,
  StepFailure,
  StepNode,
  StepSequence,
  Workflow
} from "./StepNodes.ts"

/** Definition of a workflow. */
export interface Definition<Input, Output, E, R> {
  /** Whole number that increases with each change of the definition. */
  readonly version: number
  readonly input: ValueSchema<Input>
  readonly output: ValueSchema<Output>
  /** Builds the steps. The value of the last one is the output. */
  readonly steps: Body<{ readonly input: Input }, NoInfer<Output>, E, R>
}

const makeWorkflow = <Input, Output, E = never, R = never>(
  name: string,
  { input, output, steps, version }: Definition<Input, Output, E, R>
): Workflow<Input, Output, E, R> => {
  const { nodes } = steps(makeStart<{ readonly input: Input }>())
  const all = listNodes(nodes)
  const shape = { name, version, steps: toShapes(nodes) }
  StepGraph.checkShape(shape)
  return {
    name,
    version,
    tag: toTag(name, version),
    shape,
    nodes,
    inputSchema: input,
    outputSchema: output,
    failureSchema: makeFailureSchema<E>(new Set(all.flatMap((node) => node.errors))),
    digest: StepGraph.computeDigest(
      shape,
      [input, output, ...all.flatMap((node) => node.schemas)].map((schema) => toJsonSchema(schema))
    )
  }
}

const makeFailureSchema = <E>(errors: ReadonlySet<ValueSchema<unknown>>): ValueSchema<E | StepFailure> => {
  const union: Schema.Constraint = Schema.Union([StepFailed, StepLimitReached, ...errors])
  // The schemas of all failures of the steps are members of the union.
  return union as ValueSchema<E | StepFailure>
}

const toJsonSchema = (schema: ValueSchema<unknown>): unknown => {
  try {
    return Schema.toJsonSchemaDocument(Schema.toCodecJson(schema))
  } catch {
    // Without a JSON Schema, the form of the value is not a part of the digest.
    return "opaque"
  }
}

const describeWorkflow = ({ name, nodes, version }: AnyWorkflow): StepGraph.WorkflowShape => ({
  name,
  version,
  steps: toShapes(nodes)
})

/** Returns the graph of a workflow as Mermaid text. */
export const toMermaid = (workflow: AnyWorkflow): string => StepGraph.toMermaid(describeWorkflow(workflow))

/** Work of a {@link addStep}. */
export interface StepOptions<State, A, E, R> {
  readonly output: ValueSchema<A>
  /** Schema of the failures of `run`. Without it, `run` cannot fail. */
  readonly error?: ValueSchema<E> | undefined
  readonly run: (state: NoInfer<State>, call: StepCall) => Effect.Effect<NoInfer<A>, NoInfer<E>, R>
  /** Schedule by which failed work is repeated. Its pauses are durable. No repetition by default. */
  readonly retry?: Schedule.Schedule<unknown, NoInfer<E> | StepFailed> | undefined
}

const addStep =
  <const Name extends string, State extends object, A, E = never, R = never>(
    name: Exclude<Name, keyof State>,
    { error, output, retry, run }: StepOptions<State, A, E, R>
  ) =>
  <Last, E1, R1>(
    self: Block<State, Last, E1, R1>
  ): Block<Extend<State, Name, A>, A, E | E1, Exclude<R, Scope.Scope | WorkflowEngine | WorkflowInstance> | R1> =>
    appendNode<Extend<State, Name, A>, A, E | E1, Exclude<R, Scope.Scope | WorkflowEngine | WorkflowInstance> | R1>(
      self,
      makeNode<E, Exclude<R, Scope.Scope | WorkflowEngine | WorkflowInstance>>({
        name,
        kind: "step",
        schemas: [output],
        errors: error === undefined ? [] : [error],
        run: (state, place) => {
          const work = runStored(place, {
            name,
            kind: "step",
            output,
            error,
            // The state has the values of the earlier steps, with the types of the block.
            execute: (call) => run(state as State, call)
          })
          return retry === undefined ? work : retryStored(work, toPath(place, name), retry)
        }
      })
    )

const addQuestion =
  <const Name extends string, State extends object, A>(
    name: Exclude<Name, keyof State>,
    {
      answer,
      prompt
    }: { readonly prompt: string | ((state: NoInfer<State>) => string); readonly answer: ValueSchema<A> }
  ) =>
  <Last, E, R>(self: Block<State, Last, E, R>): Block<Extend<State, Name, A>, A, E, R> =>
    appendNode<Extend<State, Name, A>, A, E, R>(
      self,
      makeNode<never, never>({
        name,
        kind: "question",
        schemas: [answer],
        run: (state, place) =>
          Effect.flatMap(
            // The state has the values of the earlier steps, with the types of the block.
            computeValue(toPath(place, name), () => (typeof prompt === "string" ? prompt : prompt(state as State))),
            (text) => StepQuestions.askQuestion(place, { name, prompt: text, schema: answer })
          )
      })
    )

const addPause =
  <State extends object>(name: string, duration: Duration.Input | ((state: NoInfer<State>) => Duration.Input)) =>
  <Last, E, R>(self: Block<State, Last, E, R>): Block<State, Last, E, R> =>
    appendNode<State, Last, E, R>(
      self,
      makeNode<never, never>({
        name,
        kind: "sleep",
        run: (state, place) =>
          Effect.gen(function* () {
            const path = toPath(place, name)
            const store = yield* WorkflowStore
            const entry = { path, name, kind: "sleep", attempts: 1, sessionId: undefined } as const
            yield* runStored(place, {
              name: `${name} begun`,
              kind: "sleep",
              isInner: true,
              output: Schema.Void,
              execute: () => Effect.orDie(store.beginStep(place.execution, { ...entry, state: "waiting" }))
            })
            const time = yield* computeValue(path, () =>
              // The state has the values of the earlier steps, with the types of the block.
              typeof duration === "function" ? duration(state as State) : duration
            )
            yield* waitFor(path, time)
            yield* Effect.orDie(store.endStep(place.execution, path, "done"))
          })
      })
    )

const setResult =
  <State extends object, A>(compute: (state: NoInfer<State>) => A) =>
  <Last, E, R>(self: Block<State, Last, E, R>): Block<State, A, E, R> =>
    appendNode<State, A, E, R>(
      self,
      makeNode<never, never>({
        name: "result",
        kind: "result",
        // The state has the values of the earlier steps, with the types of the block.
        run: (state, place) => computeValue(toPath(place, "result"), () => compute(state as State))
      })
    )

const addChildWorkflow =
  <const Name extends string, State extends object, Input, Output, E, R>(
    name: Exclude<Name, keyof State>,
    {
      input,
      workflow
    }: { readonly workflow: Workflow<Input, Output, E, R>; readonly input: (state: NoInfer<State>) => NoInfer<Input> }
  ) =>
  <Last, E1, R1>(self: Block<State, Last, E1, R1>): Block<Extend<State, Name, Output>, Output, E | E1, R | R1> =>
    appendNode<Extend<State, Name, Output>, Output, E | E1, R | R1>(
      self,
      makeNode<E, R>({
        name,
        kind: "child",
        detail: workflow.name,
        errors: [workflow.failureSchema],
        children: [workflow],
        run: (state, place) =>
          Effect.gen(function* () {
            const path = toPath(place, name)
            const store = yield* WorkflowStore
            const id = `${place.execution}/${path}`
            // The state has the values of the earlier steps, with the types of the block.
            const value = yield* computeValue(path, () => input(state as State))
            yield* runStored(place, {
              name: `${name} started`,
              kind: "child",
              isInner: true,
              output: Schema.Void,
              execute: () =>
                Effect.orDie(
                  Effect.andThen(
                    store.add({ id, workflow: workflow.name, version: workflow.version, digest: workflow.digest }),
                    store.beginStep(place.execution, {
                      path,
                      name,
                      kind: "child",
                      state: "running",
                      attempts: 1,
                      sessionId: undefined
                    })
                  )
                )
            })
            const engine = makeTypedWorkflow(workflow.tag, {
              input: workflow.inputSchema as Schema.Codec<Input, unknown>,
              output: workflow.outputSchema as Schema.Codec<Output, unknown>,
              failure: workflow.failureSchema as Schema.Codec<E | StepFailure, unknown>
            })
            const output = yield* Effect.tapError(engine.execute({ id, input: value }), (error) =>
              Effect.orDie(
                store.endStep(place.execution, path, "failed", error instanceof Error ? error.message : name)
              )
            )
            yield* Effect.orDie(store.endStep(place.execution, path, "done"))
            return output
          })
      })
    )

/**
 * Adds another workflow as a step. It runs as an execution under the id of this one and the name of the step, and its
 * failures are failures of this workflow.
 */
export const child = addChildWorkflow

/** Adds a pause. It ends at its time even if the process is replaced meanwhile. It has no value. */
export const sleep = addPause

/** Adds a question. The execution waits, without a place in a process, until any process answers it by id. */
export const question = addQuestion

/** Adds an effect as a step. Its value is stored once. A failure, after the repetitions, ends the execution. */
export const step = addStep

/** Returns the graph of a workflow as data. */
export const describe = describeWorkflow

/** Replaces the last value of a block by a function of its state. It is not a step and is not stored. */
export const result = setResult

/**
 * Makes a workflow. Throws with one line if a name is malformed or two steps have the same name, also in different
 * blocks.
 */
export const make = makeWorkflow
