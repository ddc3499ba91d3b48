/**
 * Implements `delegate_task` for an agent: each task gets a child with the run's hooks and middleware, a subset of its
 * tools, and a separate budget.
 *
 * **Details**
 *
 * Children run in parallel up to the limit, as fibers of the tool call: interrupting the call or the run interrupts
 * every descendant at once, and none outlives it. Reports of finished children are stored as the result of the call,
 * and the other children are reported as `interrupted`. A child that fails, exhausts its budget or time, or is stopped
 * individually produces a report, never a failed run; its siblings continue.
 *
 * A child that has to wait for an answer suspends the run of its parent, after its siblings have ended
 * (`ChildQuestions`).
 *
 * `subagent_start` is emitted for every child before the first one runs, `subagent_stop` after the last one ends, both
 * in the order of the tasks.
 *
 * A child in the background is a fiber of {@link Children} instead: it outlives the run that asked for it and is not
 * interrupted with it. The limits of that run (tokens, money, time) still apply to it.
 *
 * Source: `hermes-product.md` §3, `hermes-llm.md` §13.9, `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Ids from "../base/domain/Ids.ts"
import { redactKeys, RedactSecrets } from "../base/domain/Redaction.ts"
import { Secrets } from "../base/domain/Secrets.ts"
import { Correlation } from "../hooks/Correlation.ts"
import { CurrentCall } from "../tools/CallQuestions.ts"
import * as Delegator from "../tools/Delegator.ts"
import * as ResultText from "../tools/ResultText.ts"
import * as Child from "./Child.ts"
import * as ChildTools from "./ChildTools.ts"
import type { DelegationSettings } from "./RunInput.ts"
import { salvageOutput } from "./RunConversation.ts"
import * as ResumableDelegation from "./ResumableDelegation.ts"
import { emit, type RunState } from "./RunState.ts"
import { Services } from "./Services.ts"

/** Default delegation settings. */
const defaults = { maxSpawnDepth: 2, maxConcurrentChildren: 3, maxIterations: 50 } satisfies DelegationSettings

const refuseDelegation = (message: string) => Effect.fail(new Delegator.DelegationRefused({ message }))

const dispatchedNote =
  "The child works in the background. Do something else, or end your turn: its report comes as a message of its own. " +
  "Do not wait for it, and do not do its work."

/** Masks secrets in a task. A model wrote the task, and the child receives it, stores it and is identified by it. */
const withoutSecrets = Effect.fnUntraced(function* (task: Delegator.Task): Effect.fn.Return<Delegator.Task> {
  const secrets = yield* Secrets
  const mask = (yield* RedactSecrets) ? (text: string) => redactKeys(text, secrets) : secrets.mask
  return { ...task, goal: mask(task.goal), context: task.context === undefined ? undefined : mask(task.context) }
})

/** Creates the delegator of one run. */
export const make = Effect.fnUntraced(function* (
  parent: RunState,
  cwd: string,
  agent: Child.Agent
): Effect.fn.Return<Delegator.Service, never, Services> {
  const services = yield* Services
  const { children, registry, settings } = services
  const limits = { ...defaults, ...settings.delegation }
  const maxSpawnDepth = limits.maxSpawnDepth ?? defaults.maxSpawnDepth
  const maxConcurrentChildren = limits.maxConcurrentChildren ?? defaults.maxConcurrentChildren
  const depth = parent.lineage?.depth ?? 0
  const family: Child.Family = {
    parent,
    cwd,
    agent,
    depth: depth + 1,
    mayDelegate: depth + 1 < maxSpawnDepth,
    maxIterations: limits.maxIterations ?? defaults.maxIterations
  }

  const listToolsets = Effect.map(registry.list, (all) => all.map(({ toolset }) => toolset))

  /** Rejects invalid tasks before any child is started. */
  const admitTasks = Effect.fnUntraced(function* (tasks: ReadonlyArray<Delegator.Task>) {
    if (depth >= maxSpawnDepth) {
      return yield* refuseDelegation(`delegation ends at depth ${maxSpawnDepth}: do this work yourself`)
    }
    if (yield* children.isPaused) {
      return yield* refuseDelegation(
        "the user has paused delegation: do this work yourself, or say what you would delegate"
      )
    }
    if (tasks.length > maxConcurrentChildren) {
      return yield* refuseDelegation(
        `at most ${maxConcurrentChildren} tasks at once, and ${tasks.length} were given: send fewer, or merge some`
      )
    }
    const registered = yield* listToolsets
    for (const task of tasks) {
      const misnamed = ChildTools.describeUnknownToolset(task, registered)
      if (misnamed !== undefined) return yield* refuseDelegation(misnamed)
    }
    return registered
  })

  /** Returns the results of the children so far as the result of an interrupted call. */
  const salvageResults = Effect.fnUntraced(function* (callId: string, planned: ReadonlyArray<Child.Child>) {
    const results = yield* Effect.forEach(planned, (child) => Child.buildReport(family, child))
    const { output } = ResultText.renderResult(
      { output: { results }, isFailure: true },
      { foreign: false, redact: yield* RedactSecrets }
    )
    salvageOutput(parent, callId, output)
  })

  const runChildren = Effect.fnUntraced(function* (
    planned: ReadonlyArray<Child.Child>
  ): Effect.fn.Return<ReadonlyArray<Delegator.ChildReport>, never, Scope.Scope | Services> {
    const { tool_call_id: callId } = yield* Correlation
    const spans = yield* Effect.forEach(planned, (child) => Child.announce(child))
    yield* emit(parent, ...planned.map(Child.makeStartedEvent))
    return yield* Effect.forEach(planned, (child) => Child.run(family, child), {
      concurrency: maxConcurrentChildren
    }).pipe(
      Effect.onInterrupt(() => salvageResults(callId, planned)),
      Effect.ensuring(
        Effect.forEach(spans, (span, index) => {
          const child = planned[index]
          return child === undefined ? Effect.void : span.close(Child.makeStopEvent(child))
        })
      )
    )
  })

  const runTasks = Effect.fnUntraced(function* (tasks: ReadonlyArray<Delegator.Task>) {
    const call = yield* CurrentCall
    if (call === undefined || call.book.policy.unanswered === "deny") {
      const registered = yield* admitTasks(tasks)
      const wanted = yield* Effect.forEach(tasks, withoutSecrets)
      const planned = yield* Effect.forEach(wanted, (task, index) => Child.plan(family, task, index, registered))
      return yield* Effect.scoped(runChildren(planned))
    }
    const delegation = ResumableDelegation.openDelegation(call, parent.sessionId)
    // The tasks were admitted if they have begun.
    const registered = delegation.hasBegun ? yield* listToolsets : yield* admitTasks(tasks)
    const wanted = yield* Effect.forEach(tasks, withoutSecrets)
    const entries = yield* delegation.findChildren(wanted)
    const planned = yield* Effect.forEach(entries, ({ origin, report, task }, index) =>
      report === undefined ? Child.plan(family, task, index, registered, origin) : Effect.undefined
    )
    const running = planned.filter((child) => child !== undefined)
    const reports = yield* Effect.scoped(runChildren(running))
    return yield* delegation.finishDelegation(
      entries.map(({ report }, index) => {
        const child = planned[index]
        return { child, report: report ?? (child === undefined ? undefined : reports[running.indexOf(child)]) }
      })
    )
  })

  const dispatch = Effect.fnUntraced(function* (task: Delegator.Task) {
    const registered = yield* admitTasks([task])
    const { send } = children
    if (send === undefined)
      return yield* refuseDelegation("background work is not available here: delegate without background")
    const busy = (yield* children.list).filter(({ delegationId }) => delegationId !== undefined)
    if (busy.length >= maxConcurrentChildren) {
      return yield* refuseDelegation(
        `${busy.length} children work in the background already, which is the maximum: wait for one of their reports`
      )
    }
    const delegationId = `dlg_${yield* Ids.makeHex(12)}`
    const child = yield* Child.plan(family, task, 0, registered, { delegationId })
    yield* emit(parent, Child.makeStartedEvent(child))
    yield* send(
      Effect.scoped(
        Effect.gen(function* () {
          const span = yield* Child.announce(child)
          const report = yield* Effect.ensuring(
            Child.run(family, child),
            Effect.suspend(() => span.close(Child.makeStopEvent(child)))
          )
          return { delegationId, sessionId: parent.sessionId, goal: task.goal, report }
        })
      ).pipe(Effect.provideService(Services, services))
    )
    return {
      status: "dispatched",
      delegation_id: delegationId,
      goal: task.goal,
      mode: "background",
      session_id: child.sessionId,
      note: dispatchedNote
    } satisfies Delegator.Dispatched
  })

  return {
    delegate: (tasks) => Effect.provideService(runTasks(tasks), Services, services),
    dispatch: (task) => Effect.provideService(Effect.flatMap(withoutSecrets(task), dispatch), Services, services)
  }
})
