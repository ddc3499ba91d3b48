/**
 * Actions of `hermes cluster`.
 *
 * A runner reports its progress on stderr and writes nothing to stdout. Ctrl+C and SIGTERM hand its runs over to the
 * other runners; `drain` lets the runs finish first, for at most `cluster.drain_timeout_seconds`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Agent } from "../../agent/Agent.ts"
import * as Cluster from "../../serve/cluster/Cluster.ts"
import * as ClusterDatabase from "../../serve/cluster/ClusterDatabase.ts"
import * as ClusterMarks from "../../serve/cluster/ClusterMarks.ts"
import * as DurableRun from "../../serve/cluster/DurableRun.ts"
import * as Members from "../../serve/cluster/Members.ts"
import * as Config from "../../base/config/Config.ts"
import { Home } from "../../base/config/Environment.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import { Exit, isCompletedExit } from "../../base/domain/RunEvent.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { layerPostgres, SessionStore } from "../../store/SessionStore.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import * as ClusterAgents from "./ClusterAgents.ts"
import * as ClusterBatch from "./ClusterBatch.ts"
import * as ClusterEval from "./ClusterEval.ts"
import type { RunnerFlags, SubmitFlags } from "./ClusterCommand.ts"
import * as ClusterRollouts from "./ClusterRollouts.ts"
import * as ClusterRows from "./ClusterRows.ts"
import * as RunLimits from "./RunLimits.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import * as ClusterSwe from "./ClusterSwe.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { EndSignal, failed, makeSilentFailure, makeWorkFailure, makeUsageFailure } from "./Failure.ts"
import { printLine, printNote, Output, renderTable, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const isClusterError = Schema.is(Cluster.ClusterError)

/** Runs an effect with the database of the cluster. */
const withDatabase = <A, E, R>(url: Redacted.Redacted, work: Effect.Effect<A, E | Cluster.ClusterError, R>) =>
  Effect.provide(work, ClusterDatabase.layer(url, 3)).pipe(
    Effect.catchIf(isClusterError, (error) => Effect.fail(ClusterSettings.toClusterFailure(error)))
  )

const loaded = Effect.gen(function* () {
  const { settings, warnings } = yield* CommandSettings.load
  yield* printWarnings(warnings)
  return { settings, url: yield* ClusterSettings.requireDatabaseUrl(settings) }
})

/** Runs a runner until it is asked to end. */
export const startRunner = Effect.fn("hermes cluster runner")(
  function* (flags: RunnerFlags) {
    const output = yield* Output
    yield* output.protect
    const { settings, url } = yield* loaded
    const { cluster } = settings
    const concurrency = flags.concurrency ?? cluster.concurrency
    if (concurrency < 1) return yield* makeUsageFailure(`--concurrency ${concurrency} is too small: pass 1 or more`)
    const home = yield* Home
    const paths = yield* Path.Path
    // One connection pool is shared by all services of the cluster.
    const database = Layer.succeedContext(yield* Layer.build(ClusterDatabase.layer(url)))
    const mode = Layer.succeed(InteractiveMode, makeUnattended("cluster", settings.approvals.unattendedMode))
    const marks = Layer.succeedContext(yield* Layer.build(Layer.provide(ClusterMarks.layer, database)))
    const store = Layer.succeedContext(yield* Layer.build(layerPostgres({ url })))
    const agents = yield* Effect.provide(
      ClusterAgents.make(settings, { script: flags.script, store, surroundings: Layer.merge(marks, mode) }),
      database
    )
    const { services } = agents.mine
    const limits = { tokens: cluster.budgetTokens, dollars: cluster.budgetDollars }
    const counted = ClusterMarks.layerBudget(limits).pipe(Layer.provide([database, store]))
    const budget = Context.get(yield* Layer.build(counted), ClusterMarks.ClusterBudget)
    const platform = yield* Effect.context<ClusterRows.RunnerServices>()
    const around = Context.add(platform, InteractiveMode, makeUnattended("cluster", settings.approvals.unattendedMode))
    const makeRowHandler = <Input>(kind: ClusterRows.RowKind<Input>) =>
      ClusterRows.makeHandler(kind, agents.open, around, paths.join(home.root, "cluster"))
    const { makeRunnerLayerOnDatabase } = yield* Effect.promise(() => import("../../serve/cluster/ClusterLayers.ts"))
    const joined = yield* Layer.build(
      makeRunnerLayerOnDatabase({
        concurrency,
        retentionDays: cluster.retentionDays,
        handlers: {
          [Cluster.turnKind]: (work) => Effect.provideContext(DurableRun.makeTurnHandler(agents.ofTurn)(work), around),
          [ClusterBatch.kind]: makeRowHandler(ClusterBatch.rowKind),
          [ClusterEval.kind]: makeRowHandler(ClusterEval.rowKind),
          [ClusterSwe.kind]: makeRowHandler(ClusterSwe.rowKind),
          [ClusterRollouts.kind]: makeRowHandler(ClusterRollouts.rowKind)
        },
        admit: () => budget.exhausted
      }).pipe(
        Layer.provide(database),
        Layer.provide(Layer.succeedContext(Context.pick(Agent, SessionStore, RunRecord)(services)))
      )
    )
    const { close, drained, name } = Context.get(joined, Cluster.Runner)
    if (cluster.runsCron) {
      const { serve } = yield* Effect.promise(() => import("./CronRuns.ts"))
      yield* Effect.forkScoped(
        Effect.provide(
          Effect.catch(serve({ script: flags.script, store }), ({ message }) => Effect.logError(message)),
          marks
        )
      )
    }
    yield* printNote(`Runner ${name}: ${concurrency} runs at a time. Press Ctrl+C to hand them over.`)
    const end = yield* Effect.raceFirst(
      Effect.as(drained, "drained" as const),
      Effect.as(yield* EndSignal.pipe(Effect.map((signal) => Effect.scoped(signal))), "signal" as const)
    )
    if (end === "signal") return yield* printNote("Handing the runs over to the other runners.")
    yield* printNote("Draining: no new runs start; current runs may finish.")
    const isDone = yield* Effect.timeoutOption(close, `${cluster.drainTimeoutSeconds} seconds`)
    yield* printNote(
      Option.isSome(isDone)
        ? "Drained."
        : `Not all runs ended within ${cluster.drainTimeoutSeconds} s; the others continue on other runners.`
    )
  },
  Effect.catchTag("ClusterError", (error) => Effect.fail(ClusterSettings.toClusterFailure(error))),
  Effect.scoped,
  Effect.provide(CommandSettings.surroundings)
)

const formatDuration = (seconds: number): string => {
  if (seconds < 120) return `${seconds} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`
}

/** Maximum number of failed runs listed by `status`. */
const mostFailures = 5

/** Prints the status of the cluster. */
export const showStatus = Effect.fn("hermes cluster status")(
  function* ({ json, runner }: { readonly json: boolean; readonly runner: Option.Option<string> }) {
    const { settings, url } = yield* loaded
    if (Option.isSome(runner)) {
      const found = (yield* withDatabase(url, Members.list)).find(
        ({ address, host, isAlive }) => isAlive && (host === runner.value || address.startsWith(runner.value))
      )
      return yield* found === undefined
        ? makeWorkFailure(`runner "${runner.value}" is not active`)
        : printLine(`${found.address} is ${found.isDraining ? "draining" : "at work"}.`)
    }
    const { budgetDollars, budgetTokens } = settings.cluster
    const { members, used } = yield* withDatabase(url, Effect.all({ members: Members.list, used: ClusterMarks.used }))
    const { counts, failures } = yield* Cluster.Cluster.use(({ counts, failures }) =>
      Effect.all({ counts, failures: failures(mostFailures) })
    ).pipe(
      Effect.provide(Cluster.layerClient({ url })),
      Effect.catchTag("ClusterError", (error) => Effect.fail(ClusterSettings.toClusterFailure(error)))
    )
    if (json)
      return yield* printLine(
        SafeText.toJson(
          {
            runners: members,
            runs: counts,
            failures,
            used,
            budget: { tokens: budgetTokens ?? null, dollars: budgetDollars ?? null }
          },
          2
        )
      )
    const runners = members.map(({ address, concurrency, isAlive, isDraining, running, seconds, version }) => [
      address,
      version,
      !isAlive ? "gone" : isDraining ? "draining" : "at work",
      `${running} of ${concurrency}`,
      formatDuration(seconds)
    ])
    yield* printLine(
      members.length === 0
        ? "No runner is active. Start one with `hermes cluster runner`."
        : renderTable([["RUNNER", "VERSION", "STATE", "RUNS", "SINCE"], ...runners])
    )
    if (counts.length > 0) {
      const shown = counts.map(({ batch, failed, finished, running, suspended, waiting }) => [
        SafeText.toLine(batch),
        ...[waiting, suspended, running, finished, failed].map(String)
      ])
      const titles = ["BATCH", "WAITING", "SUSPENDED", "RUNNING", "FINISHED", "FAILED"]
      yield* printLine(`\n${renderTable([titles, ...shown])}`)
    }
    if (failures.length > 0) {
      yield* printLine(
        `\n${renderTable([["FAILED LAST", "SESSION", "REASON"], ...failures.map(({ id, message, sessionId }) => [id, sessionId, message].map(SafeText.toLine))])}`
      )
    }
    if (used.tokens > 0 || budgetTokens !== undefined || budgetDollars !== undefined) {
      yield* printLine(
        `\nUsed: ${used.tokens}${budgetTokens === undefined ? "" : ` of ${budgetTokens}`} tokens, ` +
          `$${used.dollars.toFixed(2)}${budgetDollars === undefined ? "" : ` of $${budgetDollars}`}`
      )
    }
  },
  Effect.scoped,
  Effect.provide(CommandSettings.surroundings)
)

/** Number of failed runs that are listed by default. */
const listedFailures = 50

/** Lists the runs that failed and were not started again. */
export const listFailed = Effect.fn("hermes cluster failed")(function* ({
  json,
  limit = listedFailures
}: {
  readonly json: boolean
  readonly limit: number | undefined
}) {
  if (limit < 1) return yield* makeUsageFailure(`--limit ${limit} is too small: pass 1 or more`)
  const { url } = yield* loaded
  const found = yield* Cluster.Cluster.use(({ failures }) => failures(limit)).pipe(
    Effect.provide(Cluster.layerClient({ url })),
    Effect.catchTag("ClusterError", (error) => Effect.fail(ClusterSettings.toClusterFailure(error)))
  )
  if (json) return yield* printLine(SafeText.toJson(found, 2))
  if (found.length === 0) return yield* printNote("No run has failed.")
  const rows = found.map(({ batch, id, message, sessionId }) => [id, batch, sessionId, message].map(SafeText.toLine))
  yield* printLine(
    `${renderTable([["RUN", "BATCH", "SESSION", "REASON"], ...rows])}\n\nStart one again: hermes cluster retry RUN`
  )
}, Effect.provide(CommandSettings.surroundings))

/** Asks runners to end. */
export const drain = Effect.fn("hermes cluster drain")(function* ({
  all,
  runner
}: {
  readonly all: boolean
  readonly runner: Option.Option<string>
}) {
  const { url } = yield* loaded
  const which = Option.getOrUndefined(runner)
  if (all === (which !== undefined))
    return yield* makeUsageFailure("pass a runner listed by `hermes cluster status`, or --all")
  const count = yield* withDatabase(url, Members.requestDrain(which))
  if (count === 0)
    return yield* which === undefined
      ? printNote("No runner is active.")
      : makeWorkFailure(`no runner "${which}": list them with \`hermes cluster status\``)
  yield* printLine(count === 1 ? "1 runner was asked to stop." : `${count} runners were asked to stop.`)
}, Effect.provide(CommandSettings.surroundings))

const isExit = Schema.is(Exit)

/** Returns true if a run ended without a complete answer, for example at a limit. */
const isIncompleteExit = (exit: string): boolean => isExit(exit) && !isCompletedExit(exit)

/** Submits a prompt. */
export const submit = Effect.fn("hermes cluster submit")(function* (flags: SubmitFlags) {
  const { agent, id, prompt, seed, session, wait } = flags
  if (prompt.trim() === "") return yield* makeUsageFailure("the prompt is empty: say what the agent should do")
  const budget = yield* RunLimits.readBudget(flags)
  const agentFile =
    agent === undefined
      ? undefined
      : yield* Effect.flatMap(
          Effect.promise(() => import("./AgentChoice.ts")),
          ({ choose }) => choose(agent, true)
        )
  const { settings, warnings } = yield* Config.load(Flags.toConfigOptions({ ...(yield* hermes), agentFile }))
  yield* printWarnings(warnings)
  const url = yield* ClusterSettings.requireDatabaseUrl(settings)
  const sessionId = session ?? (yield* Ids.makeSessionId)
  const name = id ?? (yield* Ids.makeSessionId)
  const { clientOver } = yield* Effect.promise(() => import("../../serve/cluster/ClusterLayers.ts"))
  const ended = yield* withDatabase(
    url,
    Effect.gen(function* () {
      const digest = yield* ClusterAgents.storeSubmittedAgent(settings, agentFile)
      return yield* Effect.provide(
        Effect.gen(function* () {
          const turn = { agent: digest, id: name, sessionId, prompt, budget, seed }
          const known = yield* Cluster.submit(Cluster.makeTurnRequest(turn))
          if (known !== undefined || !wait) return known
          return (yield* Cluster.waitForOutcomes([name])).get(name)
        }),
        clientOver
      )
    })
  )
  yield* printNote(`run: ${name}  session: ${sessionId}`)
  if (ended === undefined) return yield* printNote("Submitted. `hermes cluster status` shows its progress.")
  if (ended.status === "failed") return yield* makeWorkFailure(ended.message ?? "the run failed")
  const result = Json.readFields(Json.parseOrKeep(ended.output ?? "{}"))
  yield* printLine(SafeText.sanitise(Json.readWord(result["text"])))
  const exit = Json.readWord(result["exit"])
  if (isIncompleteExit(exit)) {
    yield* printNote(`The run has no complete answer: ${exit.replaceAll("_", " ")}.`)
    return yield* makeSilentFailure(failed)
  }
}, Effect.provide(CommandSettings.surroundings))
