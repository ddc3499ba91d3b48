/**
 * The `Cluster` service, based on the stored runs, the inbox of sessions and the workflow engine.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import { CurrentTenant } from "../../store/TenantScope.ts"
import { Cluster, ClusterError, turnKind } from "./Cluster.ts"
import * as ClusterScope from "./ClusterScope.ts"
import { Inbox } from "./Inbox.ts"
import * as RunForms from "./RunForms.ts"
import { cancelledOutcome } from "./RunOutcomes.ts"
import * as Runs from "./Runs.ts"
import { repeatAfterLoss } from "./StorageLoss.ts"
import { submitUndelivered, computeExecutionId, RunWorkflow, wakeAnswered, wakeTurn } from "./RunWorkflow.ts"

const decodeRequest = Schema.decodeUnknownOption(Schema.fromJsonString(RunForms.Request))

/** Reads the request of a run from its workflow. */
const readRequest = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const executionId = yield* computeExecutionId(id)
  const [row] = yield* Effect.orDie(sql<{ readonly payload: string }>`
    SELECT payload FROM cluster_messages WHERE tag = 'run' AND entity_id = ${executionId}`)
  return row === undefined ? undefined : Option.getOrUndefined(decodeRequest(row.payload))
})

/** Returns the id of the next attempt of a run: `a` becomes `a~2`, and `a~2` becomes `a~3`. */
const makeRetryId = (id: string): string => {
  const [, base = id, number = "1"] = /^(.*)~(\d+)$/su.exec(id) ?? []
  return `${base}~${Number(number) + 1}`
}

/** Sends a message to the running turn of a session. */
const steerTurn = Effect.fnUntraced(function* (sessionId: string, text: string) {
  const runs = yield* Runs.Runs
  const inbox = yield* Inbox
  const running = yield* runs.findRunning(sessionId, turnKind)
  if (running === undefined) return yield* ClusterScope.makeIdleError(sessionId)
  yield* inbox.send({ sessionId, kind: "steer", body: text })
  if ((yield* runs.find(running))?.state !== "done") return running
  // The turn ended meanwhile, and its runner may not have seen the message.
  const request = yield* readRequest(running)
  if (request !== undefined) {
    const left = yield* inbox.read(sessionId, "steer")
    yield* repeatAfterLoss(submitUndelivered(request, left))
  }
  return running
})

/** Number of runs that are removed in one transaction. */
const removedTogether = 500

/** Cancels the runs of a tenant that are not over, and removes all of them. */
const removeTenantRuns = Effect.fnUntraced(function* (
  runs: Runs.Service,
  cancel: Cluster["Service"]["cancel"],
  tenant: string,
  sessions: ReadonlyArray<string> = []
) {
  const listRuns = runs.ofTenant(tenant, sessions)
  for (const { id, state } of yield* listRuns) if (state !== "done") yield* cancel(id)
  const all = yield* listRuns
  const executions = yield* Effect.forEach(all, ({ id }) => computeExecutionId(id))
  const running = all.filter(({ state }) => state !== "done").length
  // A workflow that is ending still writes its end.
  const active = Math.max(running, yield* runs.countOpenWorkflows(executions))
  if (active > 0)
    return yield* new ClusterError({
      message: `${active} of the tenant's runs were asked to stop and have not ended: try again in a few seconds`
    })
  for (let at = 0; at < all.length; at += removedTogether)
    yield* runs.remove(all.slice(at, at + removedTogether), executions.slice(at, at + removedTogether))
  return all.length
})

/** Makes the queries over the runs of the tenant for which a fiber works, or over all runs. */
const makeTenantQueries = (
  runs: Runs.Service
): Pick<Cluster["Service"], "counts" | "failures" | "outcomes" | "suspended"> => ({
  outcomes: (ids) => Effect.flatMap(CurrentTenant, (tenant) => runs.outcomes(ids, tenant)),
  suspended: (ids) => Effect.flatMap(CurrentTenant, (tenant) => runs.suspended(ids, tenant)),
  counts: Effect.flatMap(CurrentTenant, runs.counts),
  failures: (most) => Effect.flatMap(CurrentTenant, (tenant) => runs.failures(most, tenant))
})

/** Provides the `Cluster` service. */
export const layer: Layer.Layer<Cluster, never, Inbox | Runs.Runs | SqlClient.SqlClient | WorkflowEngine> =
  Layer.effect(
    Cluster,
    Effect.gen(function* () {
      const runs = yield* Runs.Runs
      const inbox = yield* Inbox
      const services = yield* Effect.context<Inbox | Runs.Runs | SqlClient.SqlClient | WorkflowEngine>()
      const startWorkflow = (request: RunForms.Request) =>
        RunWorkflow.execute(request, { discard: true }).pipe(Effect.provideContext(services), repeatAfterLoss)
      /** Ends a run that has no attempt. Returns false if it is running or over. */
      const endWaiting = Effect.fnUntraced(function* (id: string) {
        if (!(yield* runs.finishWaiting(id, cancelledOutcome))) return false
        const { starts = 0 } = (yield* runs.find(id)) ?? {}
        // Its workflow ends, instead of waiting for a turn that it does not take, or for answers.
        yield* repeatAfterLoss(Effect.provideContext(Effect.andThen(wakeTurn(id), wakeAnswered(id, starts)), services))
        // A workflow that pauses between two attempts ends later; the next turn does not wait for that.
        const { next } = yield* runs.findNextTurn(id)
        if (next !== undefined) yield* repeatAfterLoss(Effect.provideContext(wakeTurn(next), services))
        return true
      })
      const service: Cluster["Service"] = {
        submit: Effect.fnUntraced(function* (request) {
          const known = yield* runs.add(request)
          if (known !== undefined) return known
          yield* startWorkflow(request)
          return undefined
        }),
        cancel: Effect.fnUntraced(function* (id) {
          const run = yield* runs.find(id)
          if (run === undefined) return yield* ClusterScope.makeUnknownRunError(id)
          if (run.state === "done") return false
          if (yield* endWaiting(id)) return true
          if ((yield* runs.find(id))?.state === "done") return false
          yield* inbox.send({ sessionId: run.sessionId, kind: "cancel", body: id })
          // The attempt may have been suspended meanwhile, and does not read the message.
          yield* endWaiting(id)
          return true
        }),
        steer: (sessionId, text) => Effect.provideContext(steerTurn(sessionId, text), services),
        resume: Effect.fnUntraced(function* (id) {
          const run = yield* runs.find(id)
          if (run !== undefined) yield* repeatAfterLoss(Effect.provideContext(wakeAnswered(id, run.starts), services))
        }),
        retry: Effect.fnUntraced(function* (id) {
          const run = yield* runs.find(id)
          const makeRefusal = (message: string) => Effect.fail(new ClusterError({ message }))
          if (run === undefined) return yield* makeRefusal(`there is no run ${id}: check its id`)
          const known = run.retriedAs === undefined ? undefined : yield* runs.find(run.retriedAs)
          if (known?.state === "done") return yield* makeRefusal(`run ${id} was started again before, as ${known.id}`)
          if (run.outcome?.status !== "failed")
            return yield* makeRefusal(
              `run ${id} is ${run.state === "done" ? "finished" : run.state}: only a failed run starts again`
            )
          const request = yield* Effect.provideContext(readRequest(id), services)
          if (request === undefined) return yield* makeRefusal(`the content of run ${id} was removed: submit it again`)
          const again = { ...request, id: known?.id ?? makeRetryId(id) }
          // A process that died here left the new run without its workflow.
          if (known === undefined && !(yield* runs.addRetry(id, again)))
            return yield* makeRefusal(`run ${id} was started again by another process`)
          yield* startWorkflow(again)
          return again.id
        }),
        find: runs.find,
        ...makeTenantQueries(runs),
        removeTenant: (tenant, sessions) => removeTenantRuns(runs, service.cancel, tenant, sessions)
      }
      return ClusterScope.scopeCluster(service, (sessionId) => runs.findRunning(sessionId, turnKind))
    })
  )
