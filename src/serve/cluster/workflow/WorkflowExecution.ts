/**
 * Executes workflows with the engine in the context: registers their definitions, and stores the end of each execution.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import type { ClusterError } from "../Cluster.ts"
import { SessionStore } from "../../../store/SessionStorePort.ts"
import * as AgentQuestions from "./AgentQuestions.ts"
import { makeTypedWorkflow } from "./EngineWorkflow.ts"
import type { StepServices } from "./StepExecution.ts"
import { type AnyWorkflow, listNodes, runNodes, type StepFailure, type Workflow } from "./StepNodes.ts"
import { WorkflowChanged } from "./WorkflowError.ts"
import * as WorkflowRecord from "./WorkflowRecord.ts"
import { type Service, WorkflowStore } from "./WorkflowStore.ts"

const makeOutcomeSchema = ({ failureSchema, outputSchema }: AnyWorkflow) =>
  Schema.fromJsonString(
    Schema.toCodecJson(
      Schema.Exit(
        outputSchema as Schema.Codec<unknown, unknown>,
        failureSchema as Schema.Codec<unknown, unknown>,
        Schema.Defect()
      )
    )
  )

/** Decodes the stored end of an execution. */
export const decodeOutcome = <Input, Output, E>(
  workflow: Workflow<Input, Output, E, unknown>,
  outcome: string
): Effect.Effect<Output, E | StepFailure> =>
  Effect.flatMap(
    Effect.orDie(Schema.decodeUnknownEffect(makeOutcomeSchema(workflow))(outcome)),
    // The schema of the outcome is made of the schemas of the workflow.
    (exit) => exit as Exit.Exit<Output, E | StepFailure>
  )

/** Executions whose code runs in this process, by their store. */
const activeByStore = new WeakMap<Service, Set<string>>()

const listActive = (store: Service): Set<string> => {
  const known = activeByStore.get(store) ?? new Set<string>()
  activeByStore.set(store, known)
  return known
}

/** Returns true if the code of an execution in a store runs in this process. */
export const isActive = (store: Service, id: string): boolean => listActive(store).has(id)

const recordedStores = new WeakMap<Service, Service>()

/** Returns the store of workflows, which also records what it stores. */
const recordStore = (store: Service): Effect.Effect<Service> =>
  Effect.suspend(() => {
    const known = recordedStores.get(store)
    if (known !== undefined) return Effect.succeed(known)
    return Effect.tap(WorkflowRecord.recordSteps(store), (recorded) =>
      Effect.sync(() => void recordedStores.set(store, recorded))
    )
  })

/** Registers one definition with the engine. */
const registerWorkflow = <R>(workflow: AnyWorkflow<R>) => {
  const { failureSchema, inputSchema, nodes, outputSchema, tag } = workflow
  const engine = makeTypedWorkflow(tag, {
    // Schemas of a definition decode and encode without services.
    input: inputSchema as Schema.Codec<unknown, unknown>,
    output: outputSchema as Schema.Codec<unknown, unknown>,
    failure: failureSchema as Schema.Codec<unknown, unknown>
  })
  const encode = Schema.encodeUnknownEffect(makeOutcomeSchema(workflow))
  return engine.toLayer(
    ({ id, input }) =>
      Effect.gen(function* () {
        const own = yield* WorkflowStore
        const store = yield* recordStore(own)
        const active = listActive(own)
        active.add(id)
        yield* WorkflowRecord.recordStart(id, workflow)
        return yield* runNodes(nodes, { input }, { execution: id, prefix: "", sessions: new Map() }).pipe(
          Effect.provideService(WorkflowStore, store),
          Effect.onExit((exit) => {
            active.delete(id)
            // The engine reports a suspension, and the move to another process, as interrupts.
            if (Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause)) return Effect.void
            return Effect.orDie(
              Effect.flatMap(encode(exit), (outcome) =>
                store.finish(id, Exit.isSuccess(exit) ? "finished" : "failed", outcome)
              )
            )
          })
        )
      }) as Effect.Effect<unknown, unknown, R | StepServices>
  )
}

/** Lists workflows with those that their steps start, each once. */
const listWithChildren = <R>(workflows: ReadonlyArray<AnyWorkflow<R>>): ReadonlyArray<AnyWorkflow<R>> => {
  const found = new Map<string, AnyWorkflow<R>>()
  const addWorkflow = (workflow: AnyWorkflow<R>): void => {
    const known = found.get(workflow.tag)
    if (known !== undefined && known.digest !== workflow.digest) {
      throw new Error(
        `two workflows are ${workflow.name}, version ${workflow.version}, and differ: ` +
          "increase the version of the new one"
      )
    }
    if (known !== undefined) return
    found.set(workflow.tag, workflow)
    // The type of the parent lists the services of its children.
    for (const node of listNodes(workflow.nodes)) (node.children as ReadonlyArray<AnyWorkflow<R>>).forEach(addWorkflow)
  }
  workflows.forEach(addWorkflow)
  return Array.from(found.values())
}

/** Fails if an execution is running whose definition is not listed any more, or has changed under the same version. */
const checkRunning = Effect.fnUntraced(function* (workflows: ReadonlyArray<AnyWorkflow>) {
  const store = yield* WorkflowStore
  for (const name of new Set(workflows.map((workflow) => workflow.name))) {
    const own = workflows.filter((workflow) => workflow.name === name)
    const running = yield* store.list({ state: "running", workflow: name })
    const other = running.find(
      ({ digest, version }) => !own.some((workflow) => workflow.version === version && workflow.digest === digest)
    )
    if (other === undefined) continue
    const executions = running.filter(({ digest }) => digest === other.digest).length
    const isSameVersion = own.some(({ version }) => version === other.version)
    const subject = `${executions} ${executions === 1 ? "execution" : "executions"} of version ${other.version}`
    return yield* new WorkflowChanged({
      workflow: name,
      version: other.version,
      executions,
      message:
        `workflow ${name}: ${subject} ${executions === 1 ? "is" : "are"} running with another definition: ` +
        (isSameVersion
          ? "increase the version of the changed definition, and list the earlier one beside it"
          : "list the definition of that version beside this one until they are over")
    })
  }
})

/** Executes workflows, for the lifetime of the scope. */
export const registerAll = <R>(
  workflows: ReadonlyArray<AnyWorkflow>
): Layer.Layer<never, ClusterError | WorkflowChanged, R | WorkflowEngine | WorkflowStore> =>
  Layer.unwrap(
    Effect.gen(function* () {
      // The caller's type lists the services of all workflows.
      const all = listWithChildren(workflows as ReadonlyArray<AnyWorkflow<R>>)
      yield* checkRunning(all)
      const hasAgents = all.some(({ nodes }) =>
        listNodes(nodes).some(({ kind }) => kind === "agent" || kind === "handoff")
      )
      const sessions = hasAgents ? yield* Effect.serviceOption(SessionStore) : Option.none()
      if (Option.isSome(sessions))
        yield* AgentQuestions.watchSessions.pipe(
          Effect.provideService(SessionStore, sessions.value),
          Effect.provideService(WorkflowStore, yield* recordStore(yield* WorkflowStore))
        )
      const [first, ...rest] = all.map((workflow) => registerWorkflow(workflow))
      return first === undefined ? Layer.empty : Layer.mergeAll(first, ...rest)
    })
  ) as Layer.Layer<never, ClusterError | WorkflowChanged, R | WorkflowEngine | WorkflowStore>
