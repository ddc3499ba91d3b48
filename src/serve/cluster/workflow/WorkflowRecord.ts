/**
 * The course of workflow executions in the run record: their definition, the state of each step, their end. An
 * execution has a session of the source `workflow`, whose entries the studio draws.
 *
 * **Details**
 *
 * Nothing is recorded if the context of the workflows has no session store with a run record. A record that cannot be
 * written changes nothing about the execution.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { SessionId, TurnId } from "../../../base/domain/Ids.ts"
import type { RecordEvent } from "../../../base/domain/RecordEvent.ts"
import type { WorkflowStep } from "../../../base/domain/WorkflowEvents.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import { RunRecord } from "../../../store/RunRecord.ts"
import { SessionStore } from "../../../store/SessionStorePort.ts"
import type { StepShape } from "./StepGraph.ts"
import type { AnyWorkflow } from "./StepNodes.ts"
import type { Service } from "./WorkflowStore.ts"

/** Returns the session of an execution. */
const toSessionId = (execution: string): SessionId => SessionId.make(`workflow_${execution}`)

/** Appends entries of an execution to the record. */
type WriteEntry = (execution: string, event: RecordEvent) => Effect.Effect<void>

/** Lists the steps of a definition in order, each with the step and the branch that contain it. */
const listSteps = (
  steps: ReadonlyArray<StepShape>,
  within?: NonNullable<WorkflowStep["within"]>
): ReadonlyArray<WorkflowStep> =>
  steps.flatMap(({ branches, detail, kind, name }) => [
    { name, kind, ...(detail === undefined ? {} : { detail }), ...(within === undefined ? {} : { within }) },
    ...branches.flatMap(({ label, steps }) => listSteps(steps, { step: name, branch: label }))
  ])

/** Makes the function that writes entries, if the context has a session store with a run record. */
const makeWriter = Effect.gen(function* () {
  const record = Option.getOrUndefined(yield* Effect.serviceOption(RunRecord))
  const sessions = Option.getOrUndefined(yield* Effect.serviceOption(SessionStore))
  if (record === undefined || sessions === undefined) return undefined
  const writeEntry: WriteEntry = (execution, event) =>
    Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const sessionId = toSessionId(execution)
      const known = yield* sessions.get(sessionId)
      if (Option.isNone(known))
        yield* sessions.create({ id: sessionId, source: "workflow", provider: "", model: "", systemPrompt: "" })
      yield* record.append([{ sessionId, turnId: TurnId.make(`${sessionId}:workflow`), at, event }])
    }).pipe(
      // Another process may have created the session first. The state of the workflow itself is stored elsewhere.
      Effect.catch((error) => Effect.logDebug(`a step of a workflow is not recorded: ${error.message}`))
    )
  return writeEntry
})

/** Returns the store of workflows, which also records what it stores. */
export const recordSteps = (store: Service): Effect.Effect<Service> =>
  Effect.map(makeWriter, (write): Service => {
    if (write === undefined) return store
    /** Steps that began, for their entries at the end. */
    const begun = new Map<string, Parameters<Service["beginStep"]>[1]>()
    return {
      ...store,
      beginStep: (id, step) => {
        begun.set(`${id} ${step.path}`, step)
        const { attempts, kind, name, path, sessionId, state } = step
        const entry = {
          path,
          name,
          kind,
          attempts,
          state,
          ...(sessionId === undefined ? {} : { stepSession: sessionId })
        }
        return Effect.andThen(store.beginStep(id, step), write(id, { _tag: "StepChanged", ...entry }))
      },
      endStep: (id, path, state, message) => {
        const known = begun.get(`${id} ${path}`)
        begun.delete(`${id} ${path}`)
        const name =
          known?.name ??
          path
            .split("/")
            .at(-1)
            ?.replace(/[#[].*$/u, "") ??
          path
        const event: RecordEvent = {
          _tag: "StepChanged",
          path,
          name,
          kind: known?.kind ?? "step",
          attempts: known?.attempts ?? 1,
          state,
          ...(message === undefined ? {} : { message: Redaction.redactText(message) }),
          ...(known?.sessionId === undefined ? {} : { stepSession: known.sessionId })
        }
        return Effect.andThen(store.endStep(id, path, state, message), write(id, event))
      },
      finish: (id, state, outcome) =>
        Effect.tap(store.finish(id, state, outcome), (isEnded) => {
          for (const key of begun.keys()) if (key.startsWith(`${id} `)) begun.delete(key)
          return isEnded ? write(id, { _tag: "WorkflowEnded", state }) : Effect.void
        })
    }
  })

/** Records the definition of an execution, when its code starts for the first time. It starts again after each wait. */
export const recordStart = Effect.fnUntraced(function* (execution: string, { name, shape, version }: AnyWorkflow) {
  const sessions = Option.getOrUndefined(yield* Effect.serviceOption(SessionStore))
  const write = yield* makeWriter
  if (sessions === undefined || write === undefined) return
  const known = yield* Effect.orElseSucceed(sessions.get(toSessionId(execution)), Option.none)
  if (Option.isSome(known)) return
  yield* write(execution, { _tag: "WorkflowStarted", workflow: name, version, steps: listSteps(shape.steps) })
})

/** Records that an execution was cancelled. */
export const recordCancellation = (execution: string): Effect.Effect<void> =>
  Effect.flatMap(
    makeWriter,
    (write) => write?.(execution, { _tag: "WorkflowEnded", state: "cancelled" }) ?? Effect.void
  )
