/**
 * One delegation of a call that can be suspended: finds the children of its earlier runs, and suspends the call if a
 * child waits for an answer.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as CallSuspension from "../base/domain/CallSuspension.ts"
import * as Ids from "../base/domain/Ids.ts"
import { isWaiting } from "../base/domain/Question.ts"
import type { AskingCall } from "../tools/CallQuestions.ts"
import * as Delegator from "../tools/Delegator.ts"
import type * as Child from "./Child.ts"
import * as ChildQuestions from "./ChildQuestions.ts"

/** A task with the data that earlier runs of its call stored. */
interface DelegatedTask {
  readonly task: Delegator.Task
  readonly origin: Child.ChildOrigin
  /** Report of a child that ended, or that still waits and does not run. */
  readonly report: Delegator.ChildReport | undefined
}

/** A task after the run of its child. */
interface EndedTask {
  /** Child that ran; `undefined` if its report was known. */
  readonly child: Child.Child | undefined
  readonly report: Delegator.ChildReport | undefined
}

const decodeReport = Schema.decodeUnknownOption(Delegator.ChildReport)

/** Creates the report of a child whose questions have no answer yet. It is never shown to the model. */
const makeWaitingReport = (index: number, sessionId: string): Delegator.ChildReport => ({
  task_index: index,
  status: "suspended",
  summary: "",
  api_calls: 0,
  duration_seconds: 0,
  model: "",
  exit_reason: "suspended",
  tokens: { input: 0, output: 0 },
  tool_trace: [],
  session_id: sessionId
})

/** Begins the next delegation of a call. `parentId` is the session of the call. */
export const openDelegation = (call: AskingCall, parentId: Ids.SessionId) => {
  const { book, callId, suspension } = call
  const delegation = ++call.delegated
  const formatKey = (index: number): string => `${delegation}.${index}`
  const stepName = ChildQuestions.formatChildrenStep(delegation)
  const begun = book.findStep(callId, stepName)
  const known = begun === undefined ? [] : ChildQuestions.readChildren(begun.value)

  /** Returns the tasks with their earlier children. The children of new tasks are stored before any of them runs. */
  const findChildren = Effect.fnUntraced(function* (
    tasks: ReadonlyArray<Delegator.Task>
  ): Effect.fn.Return<ReadonlyArray<DelegatedTask>> {
    const now = yield* Clock.currentTimeMillis
    const ids = yield* Effect.forEach(tasks, (_, index) =>
      Effect.gen(function* () {
        const earlier = known[index]
        if (earlier !== undefined) return earlier
        return { sessionId: yield* Ids.makeSessionId, subagentId: `sa-${index}-${yield* Ids.makeHex(8)}` }
      })
    )
    if (begun === undefined) yield* CallSuspension.runStep(suspension, book.storeStep(callId, stepName, ids))
    return tasks.map((task, index): DelegatedTask => {
      const key = formatKey(index)
      const earlier = known[index]
      const asked = ChildQuestions.listKnown(call, key)
      const stored = book.findStep(callId, ChildQuestions.formatReportStep(key))
      const doesWait = asked.length > 0 && asked.every((one) => isWaiting(one.stored, now))
      const report = doesWait
        ? makeWaitingReport(index, earlier?.sessionId ?? "")
        : Option.getOrUndefined(decodeReport(stored?.value))
      const asking = { policy: book.policy, known: asked }
      return { task, origin: { asking, ids: ids[index], mayHaveRun: earlier !== undefined }, report }
    })
  })

  /** Returns the reports, or suspends the call if a child waits. The reports of the others are stored then. */
  const finishDelegation = Effect.fnUntraced(function* (
    tasks: ReadonlyArray<EndedTask>
  ): Effect.fn.Return<ReadonlyArray<Delegator.ChildReport>> {
    const reports = tasks.flatMap(({ report }) => report ?? [])
    if (!reports.some(({ status }) => status === "suspended")) return reports
    yield* Effect.forEach(tasks, ({ child, report }, index) => {
      const isEnded = child !== undefined && report !== undefined && report.status !== "suspended"
      const step = book.storeStep(callId, ChildQuestions.formatReportStep(formatKey(index)), report)
      return isEnded ? CallSuspension.runStep(suspension, step) : Effect.void
    })
    tasks.forEach(({ child }, index) => {
      if (child === undefined) return
      const { asked, lineage, sessionId, task } = child
      const asking = { key: formatKey(index), sessionId, goal: task.goal, agent: lineage.agent }
      for (const one of asked) book.addPassed(ChildQuestions.toPassed(call, parentId, asking, one))
    })
    return yield* CallSuspension.suspendCall(suspension)
  })

  return { hasBegun: begun !== undefined, findChildren, finishDelegation }
}
