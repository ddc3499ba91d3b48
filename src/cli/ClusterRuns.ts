/**
 * Actions of `hermes cluster`.
 *
 * A runner says on stderr what happens; nothing is on stdout. Ctrl+C and SIGTERM hand its runs over to the other runners; `drain` lets
 * them finish first, for `cluster.drain_timeout_seconds` at most.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type * as Redacted from "effect/Redacted"
import { Agent } from "../agent/Agent.ts"
import * as Cluster from "../cluster/Cluster.ts"
import * as ClusterDatabase from "../cluster/ClusterDatabase.ts"
import * as ClusterMarks from "../cluster/ClusterMarks.ts"
import * as Members from "../cluster/Members.ts"
import { Home } from "../config/Environment.ts"
import type { Values } from "../config/Settings.ts"
import * as Ids from "../domain/Ids.ts"
import * as Json from "../domain/Json.ts"
import { RunRecord } from "../session/RunRecord.ts"
import { SessionStore } from "../session/SessionStore.ts"
import { InteractiveMode, unattended } from "../tool/approval/InteractiveMode.ts"
import { ToolRegistry } from "../tool/ToolRegistry.ts"
import * as ClusterBatch from "./ClusterBatch.ts"
import type { RunnerFlags, SubmitFlags } from "./ClusterCommand.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { EndSignal, notDone, usage } from "./Failure.ts"
import { line, note, Output, table, warn } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as SafeText from "./render/SafeText.ts"

/** The database of the cluster, for a look or a word. */
const onDatabase = <A>(url: Redacted.Redacted, work: Effect.Effect<A, Cluster.ClusterError, ClusterDatabase.ClusterDatabase>) =>
  Effect.provide(work, ClusterDatabase.layer(url, 3)).pipe(Effect.catchTag("ClusterError", (error) => Effect.fail(ClusterSettings.told(error))))

const loaded = Effect.gen(function*() {
  const { settings, warnings } = yield* CommandSettings.load
  yield* warn(warnings)
  return { settings, url: yield* ClusterSettings.addressOf(settings) }
})

/** The agent of the settings over the store of the cluster, and the marks that all runners share. */
const agentOf = Effect.fnUntraced(function*(
  settings: Values,
  url: Redacted.Redacted,
  { script }: RunnerFlags,
  database: Layer.Layer<ClusterDatabase.ClusterDatabase>
) {
  const program = yield* Program
  return program.layer(settings, { script, server: url }).pipe(
    Layer.provide([Layer.provide(ClusterMarks.layer, database), Layer.succeed(InteractiveMode, unattended("cluster", settings.approvals.unattendedMode))])
  )
})

/** Does runs until it is told to end. */
export const runner = Effect.fn("hermes cluster runner")(function*(flags: RunnerFlags) {
  const output = yield* Output
  yield* output.protect
  const { settings, url } = yield* loaded
  const { cluster } = settings
  const concurrency = flags.concurrency ?? cluster.concurrency
  if (concurrency < 1) return yield* usage(`--concurrency ${concurrency} is too small: pass 1 or more`)
  const home = yield* Home
  const paths = yield* Path.Path
  // One pool of connections for everything that is the cluster's own.
  const database = Layer.succeedContext(yield* Layer.build(ClusterDatabase.layer(url)))
  const agent = yield* Layer.build(yield* agentOf(settings, url, flags, database))
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const limits = { tokens: cluster.budgetTokens, dollars: cluster.budgetDollars }
  const counted = ClusterMarks.budget(limits).pipe(Layer.provide([database, Layer.succeedContext(agent)]))
  const budget = Context.get(yield* Layer.build(counted), ClusterMarks.ClusterBudget)
  const work = Context.merge(services, agent).pipe(
    Context.add(InteractiveMode, unattended("cluster", settings.approvals.unattendedMode))
  )
  const { runnerOver } = yield* Effect.promise(() => import("../cluster/ClusterLayers.ts"))
  const joined = yield* Layer.build(runnerOver({
    concurrency,
    handlers: { [ClusterBatch.kind]: ClusterBatch.handler(work, paths.join(home.root, "cluster")) },
    admit: () => budget.exhausted
  }).pipe(Layer.provide(database), Layer.provide(Layer.succeedContext(
    Context.make(Agent, Context.get(work, Agent)).pipe(
      Context.add(SessionStore, Context.get(work, SessionStore)),
      Context.add(RunRecord, Context.get(work, RunRecord)),
      Context.add(ToolRegistry, Context.get(work, ToolRegistry)),
      Context.add(InteractiveMode, unattended("cluster", settings.approvals.unattendedMode))
    )
  ))))
  const { close, drained, name } = Context.get(joined, Cluster.Runner)
  if (cluster.runsCron) {
    const { serve } = yield* Effect.promise(() => import("./CronRuns.ts"))
    yield* Effect.forkScoped(Effect.catch(serve({ script: flags.script }), ({ message }) => Effect.logError(message)))
  }
  yield* note(`Runner ${name}: ${concurrency} runs at a time. Press Ctrl+C to hand them over.`)
  const end = yield* Effect.raceFirst(Effect.as(drained, "drained" as const), Effect.as(yield* EndSignal.pipe(Effect.map((signal) => Effect.scoped(signal))), "signal" as const))
  if (end === "signal") return yield* note("Handing the runs over to the other runners.")
  yield* note("Draining: nothing new is begun; what is under way may finish.")
  const isDone = yield* Effect.timeoutOption(close, `${cluster.drainTimeoutSeconds} seconds`)
  yield* note(Option.isSome(isDone) ? "Drained." : `Not all runs ended within ${cluster.drainTimeoutSeconds} s; the others go on elsewhere.`)
}, Effect.catchTag("ClusterError", (error) => Effect.fail(ClusterSettings.told(error))), Effect.scoped, Effect.provide(CommandSettings.surroundings))

const duration = (seconds: number): string => {
  if (seconds < 120) return `${seconds} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`
}

/** Shows the cluster. */
export const status = Effect.fn("hermes cluster status")(function*({ json }: { readonly json: boolean }) {
  const { settings, url } = yield* loaded
  const { budgetDollars, budgetTokens } = settings.cluster
  const { members, used } = yield* onDatabase(url, Effect.all({ members: Members.list, used: ClusterMarks.used }))
  const counts = yield* Cluster.Cluster.use(({ counts }) => counts).pipe(
    Effect.provide(Cluster.layerClient({ url })),
    Effect.catchTag("ClusterError", (error) => Effect.fail(ClusterSettings.told(error)))
  )
  if (json) return yield* line(SafeText.json({ runners: members, runs: counts, used, budget: { tokens: budgetTokens ?? null, dollars: budgetDollars ?? null } }, 2))
  const runners = members.map(({ address, concurrency, isAlive, isDraining, running, seconds, version }) => [
    address, version, !isAlive ? "gone" : isDraining ? "draining" : "at work", `${running} of ${concurrency}`, duration(seconds)
  ])
  yield* line(members.length === 0 ? "No runner is at work. Start one with `hermes cluster runner`." : table([["RUNNER", "VERSION", "STATE", "RUNS", "SINCE"], ...runners]))
  if (counts.length > 0) {
    const shown = counts.map(({ batch, failed, finished, running, waiting }) => [SafeText.line(batch), ...[waiting, running, finished, failed].map(String)])
    yield* line(`\n${table([["BATCH", "WAITING", "RUNNING", "FINISHED", "FAILED"], ...shown])}`)
  }
  if (used.tokens > 0 || budgetTokens !== undefined || budgetDollars !== undefined) {
    yield* line(`\nUsed: ${used.tokens}${budgetTokens === undefined ? "" : ` of ${budgetTokens}`} tokens, $${used.dollars.toFixed(2)}${budgetDollars === undefined ? "" : ` of $${budgetDollars}`}`)
  }
}, Effect.scoped, Effect.provide(CommandSettings.surroundings))

/** Asks runners to end. */
export const drain = Effect.fn("hermes cluster drain")(function*({ all, runner }: { readonly all: boolean; readonly runner: Option.Option<string> }) {
  const { url } = yield* loaded
  const which = Option.getOrUndefined(runner)
  if (all === (which !== undefined)) return yield* usage("name a runner of `hermes cluster status`, or pass --all")
  const count = yield* onDatabase(url, Members.askToDrain(which))
  if (count === 0) return yield* which === undefined ? note("No runner is at work.") : notDone(`no runner "${which}": list them with \`hermes cluster status\``)
  yield* line(count === 1 ? "1 runner is asked to end." : `${count} runners are asked to end.`)
}, Effect.provide(CommandSettings.surroundings))

/** Submits a prompt. */
export const submit = Effect.fn("hermes cluster submit")(function*({ id, prompt, session, wait }: SubmitFlags) {
  const { url } = yield* loaded
  if (prompt.trim() === "") return yield* usage("the prompt is empty: say what the agent should do")
  const sessionId = session ?? (yield* Ids.makeSessionId)
  const name = id ?? (yield* Ids.makeSessionId)
  const ended = yield* Effect.provide(Effect.gen(function*() {
    const known = yield* Cluster.submit(Cluster.turn({ id: name, sessionId, prompt }))
    if (known !== undefined || !wait) return known
    return (yield* Cluster.settled([name])).get(name)
  }), Cluster.layerClient({ url })).pipe(Effect.catchTag("ClusterError", (error) => Effect.fail(ClusterSettings.told(error))))
  yield* note(`run: ${name}  session: ${sessionId}`)
  if (ended === undefined) return yield* note("Submitted. `hermes cluster status` shows how it goes on.")
  if (ended.status === "failed") return yield* notDone(ended.message ?? "the run failed")
  const result = Json.fields(Json.parsed(ended.output ?? "{}"))
  yield* line(SafeText.text(Json.word(result["text"])))
}, Effect.provide(CommandSettings.surroundings))
