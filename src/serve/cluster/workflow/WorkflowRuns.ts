/**
 * Executions of workflows: starts them, waits for them, answers their questions, and shows their state.
 *
 * **Details**
 *
 * {@link layerMemory} executes workflows for the lifetime of its scope. {@link layerSqlite} and {@link layerPostgres}
 * are durable: an execution whose process is killed continues with the next process, and values that are stored are not
 * computed again. Several processes may share a Postgres database; each execution runs in one of them at a time. Every
 * function takes the id of an execution, and works from any process that has the same store.
 *
 * **Gotchas**
 *
 * All processes that share a Postgres database list the same workflows, because any of them may continue an execution.
 *
 * **Example** (A workflow over a file)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import { Steps, WorkflowRuns } from "hermes-effect/workflow"
 *
 * const double = Steps.make("double", {
 *   version: 1,
 *   input: Schema.Int,
 *   output: Schema.Int,
 *   steps: (start) =>
 *     start.pipe(Steps.step("times", { output: Schema.Int, run: ({ input }) => Effect.succeed(2 * input) }))
 * })
 *
 * const program = Effect.andThen(
 *   WorkflowRuns.start(double, { id: "four", input: 4 }),
 *   WorkflowRuns.wait(double, "four")
 * )
 *
 * const layer = WorkflowRuns.layerSqlite({ path: "workflows.db", workflows: [double] })
 * console.log(await Effect.runPromise(Effect.provide(program, layer)))
 * // => 8
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as WorkflowEngine from "effect/workflow/WorkflowEngine"
import type { ClusterError } from "../Cluster.ts"
import { makeEngineWorkflow, makeTypedWorkflow } from "./EngineWorkflow.ts"
import * as StepGraph from "./StepGraph.ts"
import { type AnyWorkflow, type StepFailure, toShapes, type Workflow } from "./StepNodes.ts"
import * as StepQuestions from "./StepQuestions.ts"
import * as WorkflowExecution from "./WorkflowExecution.ts"
import { type AnswerRefused, ExecutionCancelled, ExecutionNotFound, type WorkflowChanged } from "./WorkflowError.ts"
import * as WorkflowRecord from "./WorkflowRecord.ts"
import * as WorkflowStore from "./WorkflowStore.ts"

export type { GivenAnswer } from "./StepQuestions.ts"
export {
  AnswerRefused,
  ExecutionCancelled,
  ExecutionNotFound,
  StepFailed,
  StepLimitReached,
  WorkflowChanged
} from "./WorkflowError.ts"
export type { Execution, ExecutionFilter, ExecutionState, Question, StepEntry } from "./WorkflowStore.ts"

/** Services that the workflows of a list need. */
export type Needs<Workflows extends ReadonlyArray<AnyWorkflow>> =
  Workflows[number] extends AnyWorkflow<infer R> ? R : never

/** An execution with the states of its steps, in the order in which they began. */
export interface ExecutionView extends WorkflowStore.Execution {
  readonly steps: ReadonlyArray<WorkflowStore.StepEntry>
}

/** Operations of the service. */
export interface Service {
  readonly engine: WorkflowEngine.WorkflowEngine["Service"]
  readonly store: WorkflowStore.Service
}

/** Service that executes workflows, or reaches the processes that do. */
export class WorkflowRuns extends Context.Service<WorkflowRuns, Service>()(
  "hermes-effect/cluster/workflow/WorkflowRuns"
) {}

/** Workflows that a process executes. */
export interface WorkflowList<Workflows extends ReadonlyArray<AnyWorkflow>> {
  readonly workflows: Workflows
}

/** Provides the service over an engine and a store. */
const served: Layer.Layer<WorkflowRuns, never, WorkflowEngine.WorkflowEngine | WorkflowStore.WorkflowStore> =
  Layer.effect(
    WorkflowRuns,
    Effect.gen(function* () {
      return { engine: yield* WorkflowEngine.WorkflowEngine, store: yield* WorkflowStore.WorkflowStore }
    })
  )

/** Executes workflows in memory, for the lifetime of the scope. */
export const layerMemory = <const Workflows extends ReadonlyArray<AnyWorkflow>>({
  workflows
}: WorkflowList<Workflows>): Layer.Layer<WorkflowRuns, never, Needs<Workflows>> =>
  served.pipe(
    Layer.provideMerge(WorkflowExecution.registerAll<Needs<Workflows>>(workflows)),
    Layer.provide(Layer.merge(WorkflowEngine.layerMemory, WorkflowStore.layerMemory)),
    // A store that is new has no executions of an earlier definition.
    Layer.orDie
  )

const layers = Effect.promise(() => import("./WorkflowLayers.ts"))

/** Executes workflows in one process over the SQLite file at `path`. Continues the executions of earlier processes. */
export const layerSqlite = <const Workflows extends ReadonlyArray<AnyWorkflow>>({
  path,
  workflows
}: WorkflowList<Workflows> & { readonly path: string }): Layer.Layer<
  WorkflowRuns,
  ClusterError | WorkflowChanged,
  Needs<Workflows>
> =>
  Layer.unwrap(
    Effect.map(layers, ({ makeSqliteEngine }) =>
      served.pipe(
        Layer.provideMerge(WorkflowExecution.registerAll<Needs<Workflows>>(workflows)),
        Layer.provide(makeSqliteEngine(path))
      )
    )
  )

/** Settings for a Postgres database that several processes share. */
export interface PostgresOptions {
  /** URL of the form `postgres://user:password@host:port/database?schema=name`; see `Cluster.ServerOptions`. */
  readonly url: Redacted.Redacted
}

/** Executes workflows over a Postgres database, as one of several processes. */
export const layerPostgres = <const Workflows extends ReadonlyArray<AnyWorkflow>>({
  url,
  workflows
}: WorkflowList<Workflows> & PostgresOptions): Layer.Layer<
  WorkflowRuns,
  ClusterError | WorkflowChanged,
  Needs<Workflows>
> =>
  Layer.unwrap(
    Effect.map(layers, ({ makePostgresEngine }) =>
      served.pipe(
        Layer.provideMerge(WorkflowExecution.registerAll<Needs<Workflows>>(workflows)),
        Layer.provide(makePostgresEngine(url))
      )
    )
  )

/** Reaches the executions in a Postgres database. It starts, answers and shows them, and executes none. */
export const layerClient = ({ url }: PostgresOptions): Layer.Layer<WorkflowRuns, ClusterError> =>
  Layer.unwrap(Effect.map(layers, ({ makePostgresClient }) => Layer.provide(served, makePostgresClient(url))))

/** Provides the engine and the store to an effect. */
const withServices = <A, E>(
  effect: Effect.Effect<A, E, WorkflowEngine.WorkflowEngine | WorkflowStore.WorkflowStore>
): Effect.Effect<A, E, WorkflowRuns> =>
  WorkflowRuns.use(({ engine, store }) =>
    effect.pipe(
      Effect.provideService(WorkflowEngine.WorkflowEngine, engine),
      Effect.provideService(WorkflowStore.WorkflowStore, store)
    )
  )

const toTypedWorkflow = <Input, Output, E>(workflow: Workflow<Input, Output, E, unknown>) =>
  makeTypedWorkflow(workflow.tag, {
    // Schemas of a definition decode and encode without services.
    input: workflow.inputSchema as Schema.Codec<Input, unknown>,
    output: workflow.outputSchema as Schema.Codec<Output, unknown>,
    failure: workflow.failureSchema as Schema.Codec<E | StepFailure, unknown>
  })

const makeNotFound = (id: string, message: string): ExecutionNotFound => new ExecutionNotFound({ id, message })

/** Returns the execution of a workflow, or fails if the id is unknown or belongs to another workflow. */
const findExecution = Effect.fnUntraced(function* (id: string, workflow?: AnyWorkflow) {
  const store = yield* WorkflowStore.WorkflowStore
  const execution = yield* store.get(id)
  if (execution === undefined) return yield* makeNotFound(id, `there is no execution ${id}: start it first`)
  if (workflow !== undefined && execution.workflow !== workflow.name) {
    return yield* makeNotFound(id, `execution ${id} belongs to workflow ${execution.workflow}, not to ${workflow.name}`)
  }
  return execution
})

/** Start of an execution. */
export interface StartOptions<Input> {
  /** Name of the execution. An id is executed only once, even if it is started several times. */
  readonly id: string
  readonly input: Input
}

const startExecution = <Input, Output, E, R>(
  workflow: Workflow<Input, Output, E, R>,
  { id, input }: StartOptions<NoInfer<Input>>
): Effect.Effect<void, ClusterError | ExecutionNotFound, WorkflowRuns> =>
  withServices(
    Effect.gen(function* () {
      const store = yield* WorkflowStore.WorkflowStore
      yield* store.add({ id, workflow: workflow.name, version: workflow.version, digest: workflow.digest })
      const { state, version } = yield* findExecution(id, workflow)
      if (state !== "running" || version !== workflow.version) return
      yield* toTypedWorkflow(workflow).execute({ id, input }, { discard: true })
      yield* store.announce
    })
  )

/** Schedule for reading the end of an execution, without a time limit. */
const looks = Schedule.spaced("100 millis")

const waitForEnd = <Input, Output, E, R>(
  workflow: Workflow<Input, Output, E, R>,
  id: string
): Effect.Effect<Output, ClusterError | E | ExecutionCancelled | ExecutionNotFound | StepFailure, WorkflowRuns> =>
  withServices(
    Effect.gen(function* () {
      const { outcome, state } = yield* Effect.repeat(findExecution(id, workflow), {
        until: (execution) => execution.state !== "running",
        schedule: looks
      })
      if (state === "cancelled" || outcome === undefined)
        return yield* new ExecutionCancelled({ id, message: `execution ${id} was cancelled` })
      return yield* WorkflowExecution.decodeOutcome(workflow, outcome)
    })
  )

/** Lists the open questions of an execution, or of all executions, the oldest first. */
export const listQuestions = (
  id?: string
): Effect.Effect<ReadonlyArray<WorkflowStore.Question>, ClusterError, WorkflowRuns> =>
  WorkflowRuns.use(({ store }) => store.openQuestions(id))

/** Waits until an execution asks a question, and returns it. Fails if the execution ends without one. */
export const waitForQuestion = (
  id: string
): Effect.Effect<WorkflowStore.Question, ClusterError | ExecutionNotFound, WorkflowRuns> =>
  withServices(
    Effect.gen(function* () {
      const store = yield* WorkflowStore.WorkflowStore
      const look = Effect.gen(function* () {
        const { state } = yield* findExecution(id)
        const [question] = yield* store.openQuestions(id)
        if (question === undefined && state !== "running")
          return yield* makeNotFound(id, `execution ${id} is ${state} without an open question`)
        return question
      })
      const found = yield* Effect.repeat(look, { until: (question) => question !== undefined, schedule: looks })
      // The repetition ends with a question alone.
      return found === undefined ? yield* Effect.never : found
    })
  )

const answerQuestion = (
  given: StepQuestions.GivenAnswer
): Effect.Effect<void, AnswerRefused | ClusterError, WorkflowRuns> => withServices(StepQuestions.giveAnswer(given))

const cancelExecution = (id: string): Effect.Effect<boolean, ClusterError | ExecutionNotFound, WorkflowRuns> =>
  withServices(
    Effect.gen(function* () {
      const store = yield* WorkflowStore.WorkflowStore
      const engine = yield* WorkflowEngine.WorkflowEngine
      const execution = yield* findExecution(id)
      if (!(yield* store.finish(id, "cancelled", undefined))) return false
      yield* WorkflowRecord.recordCancellation(id)
      const workflow = makeEngineWorkflow(execution)
      yield* engine.interruptUnsafe(workflow, yield* workflow.executionId({ id, input: null }))
      yield* store.announce
      return true
    })
  )

const viewExecution = (id: string): Effect.Effect<ExecutionView, ClusterError | ExecutionNotFound, WorkflowRuns> =>
  withServices(
    Effect.gen(function* () {
      const store = yield* WorkflowStore.WorkflowStore
      return { ...(yield* findExecution(id)), steps: yield* store.steps(id) }
    })
  )

const listExecutions = (
  filter: WorkflowStore.ExecutionFilter = {}
): Effect.Effect<ReadonlyArray<WorkflowStore.Execution>, ClusterError, WorkflowRuns> =>
  WorkflowRuns.use(({ store }) => store.list(filter))

/** Returns the graph of a workflow as Mermaid text, coloured by the states of the steps in an execution. */
export const toMermaid = (workflow: AnyWorkflow, { steps }: Pick<ExecutionView, "steps">): string =>
  StepGraph.toMermaid({ name: workflow.name, version: workflow.version, steps: toShapes(workflow.nodes) }, steps)

/**
 * Answers a question from any process. Each question takes one answer: a late, second or malformed one fails with
 * `AnswerRefused`.
 */
export const answer = answerQuestion

/** Cancels an execution and interrupts its running steps. Returns false if it was over. */
export const cancel = cancelExecution

/** Lists executions, the oldest first. */
export const list = listExecutions

/**
 * Starts an execution, and returns when it is stored. An id that was started before is not started again, whatever its
 * input is.
 */
export const start = startExecution

/** Returns the state of an execution with its steps. */
export const view = viewExecution

/** Waits until an execution is over, and returns its value or fails with its failure. */
export const wait = waitForEnd
