/**
 * Steps of a workflow with their code, and the types of a sequence of them.
 */
import * as Effect from "effect/Effect"
import * as Pipeable from "effect/Pipeable"
import { enterStep, type Place, type StepServices, type StepState, type ValueSchema } from "./StepExecution.ts"
import type { StepKind, StepShape, WorkflowShape } from "./StepGraph.ts"
import type { StepFailed, StepLimitReached } from "./WorkflowError.ts"

/** Failures that any workflow can end with. */
export type StepFailure = StepFailed | StepLimitReached

/** A step with its code. */
export interface StepNode<out E, out R> {
  readonly name: string
  /** Kind of the step; `result` for a function of the state, which is not a step of the graph. */
  readonly kind: StepKind | "result"
  readonly detail?: string | undefined
  readonly blocks: ReadonlyArray<{ readonly label: string; readonly nodes: ReadonlyArray<StepNode<E, R>> }>
  /** Schemas of the step's values, a part of the definition's digest. */
  readonly schemas: ReadonlyArray<ValueSchema<unknown>>
  /** Schemas of the step's failures. */
  readonly errors: ReadonlyArray<ValueSchema<unknown>>
  /** Workflows that the step starts. */
  readonly children: ReadonlyArray<AnyWorkflow<R>>
  readonly run: (state: StepState, place: Place) => Effect.Effect<unknown, E | StepFailure, R | StepServices>
}

/** Steps in order, with the type of their last value. */
export interface StepSequence<out Last, out E, out R> {
  readonly nodes: ReadonlyArray<StepNode<E, R>>
  /** Type of the last value; never set. */
  readonly "~last"?: Last
}

/** Steps in order. `State` is the values that the next step may read, by name. */
export interface Block<in out State extends object, out Last, out E, out R>
  extends StepSequence<Last, E, R>, Pipeable.Pipeable {
  /** Type of the state; never set. */
  readonly "~state"?: (state: State) => State
}

/** The first block of a sequence, without steps. */
export type Start<State extends object> = Block<State, unknown, never, never>

/** Builds the steps inside a step. */
export type Body<State extends object, A, E, R> = (start: Start<State>) => StepSequence<A, E, R>

/** The state after a step. */
export type Extend<State extends object, Name extends string, A> = {
  readonly [Key in keyof State | Name]: Key extends Name ? A : Key extends keyof State ? State[Key] : never
}

/** A workflow without its types of values. */
export interface AnyWorkflow<out R = unknown> {
  readonly name: string
  readonly version: number
  readonly tag: string
  /** Digest of the definition, without its code. */
  readonly digest: string
  /** The graph of the workflow. */
  readonly shape: WorkflowShape
  readonly nodes: ReadonlyArray<StepNode<unknown, R>>
  readonly inputSchema: ValueSchema<unknown>
  readonly outputSchema: ValueSchema<unknown>
  readonly failureSchema: ValueSchema<unknown>
}

/** Definition of a workflow. `E` is the failures of its steps, and `R` the services that they need. */
export interface Workflow<in out Input, in out Output, in out E, out R> extends AnyWorkflow<R> {
  readonly nodes: ReadonlyArray<StepNode<E, R>>
  readonly inputSchema: ValueSchema<Input>
  readonly outputSchema: ValueSchema<Output>
  readonly failureSchema: ValueSchema<E | StepFailure>
  /** Types of the values; never set. */
  readonly "~types"?: (input: Input, output: Output, error: E) => readonly [Input, Output, E]
}

const makeBlock = <State extends object, Last, E, R>(
  nodes: ReadonlyArray<StepNode<E, R>>
): Block<State, Last, E, R> => ({
  nodes,
  pipe() {
    return Pipeable.pipeArguments(this, arguments)
  }
})

/** Adds a node to a block. The caller's types describe the state of the next step. */
export const appendNode = <Next extends object, Last, E, R>(
  self: StepSequence<unknown, E, R>,
  node: StepNode<E, R>
): Block<Next, Last, E, R> => makeBlock([...self.nodes, node])

/** The first block of a sequence. */
export const makeStart = <State extends object>(): Start<State> => makeBlock([])

/** Makes a node. Absent parts are empty. */
export const makeNode = <E, R>({
  blocks = [],
  children = [],
  errors = [],
  schemas = [],
  ...rest
}: Pick<StepNode<E, R>, "kind" | "name" | "run"> & Partial<StepNode<E, R>>): StepNode<E, R> => ({
  ...rest,
  blocks,
  children,
  errors,
  schemas
})

/** Runs steps in order, and returns the value of the last one. */
export const runNodes = <E, R>(
  nodes: ReadonlyArray<StepNode<E, R>>,
  state: StepState,
  place: Place
): Effect.Effect<unknown, E | StepFailure, R | StepServices> =>
  Effect.gen(function* () {
    let values = state
    let last: unknown = undefined
    for (const { kind, name, run } of nodes) {
      const value = yield* run(values, place)
      if (kind === "sleep") continue
      last = value
      if (kind !== "result") values = { ...values, [name]: value }
    }
    return last
  })

/** Runs the steps inside a step. `mark` distinguishes the rounds of a loop and the items of a list. */
export const runInner = <E, R>(
  nodes: ReadonlyArray<StepNode<E, R>>,
  state: StepState,
  place: Place,
  name: string,
  mark?: string
): Effect.Effect<unknown, E | StepFailure, R | StepServices> => runNodes(nodes, state, enterStep(place, name, mark))

/** Lists all nodes, with those inside other nodes. */
export const listNodes = <E, R>(nodes: ReadonlyArray<StepNode<E, R>>): ReadonlyArray<StepNode<E, R>> =>
  nodes.flatMap((node) => [node, ...node.blocks.flatMap((block) => listNodes(block.nodes))])

/** Returns the steps of a graph. */
export const toShapes = (nodes: ReadonlyArray<StepNode<unknown, unknown>>): ReadonlyArray<StepShape> =>
  nodes.flatMap(({ blocks, detail, kind, name }) =>
    kind === "result"
      ? []
      : [
          {
            name,
            kind,
            ...(detail === undefined ? {} : { detail }),
            branches: blocks.map((block) => ({ label: block.label, steps: toShapes(block.nodes) }))
          }
        ]
  )
