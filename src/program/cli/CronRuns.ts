/**
 * Actions of `hermes cron run | tick | serve`: runs jobs, each in a separate runtime with the provider and model stored
 * in the job.
 *
 * The settings are read again for each job. If they cannot be read, the scheduler continues with the defaults, and each
 * job reports the error. Results are written to stdout, failures to stderr; the exit code is 1 if a job failed.
 *
 * Source: `hermes-product.md` §1.6 and §2.5.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import { Agent } from "../../agent/Agent.ts"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import * as ConfiguredSkills from "../../tools/ConfiguredSkills.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { type Ask, JobAgent, type Resume, selectTools } from "../../research/cron/JobAgent.ts"
import * as JobFiles from "../../research/cron/JobFiles.ts"
import { Delivery, type JobOutcome, type DeliveredResult } from "../../research/cron/JobRun.ts"
import * as JobTick from "../../research/cron/JobTick.ts"
import { readWaitState } from "../../research/cron/JobWait.ts"
import { layerPostgres } from "../../store/SessionStore.ts"
import type { Job } from "../../tools/cron/Job.ts"
import * as JobDraft from "../../tools/cron/JobDraft.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import { surroundings } from "./CommandSettings.ts"
import { scheduledJobs } from "./ClusterSettings.ts"
import { toCronFailure } from "./CronCommand.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { failed, makeSilentFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { printNote, Output } from "./ProgramOutput.ts"
import type { Start } from "../runtime/ProgramStart.ts"
import { findStore } from "../runtime/StoredSessions.ts"
import { Program } from "./Program.ts"
import * as SafeText from "./render/SafeText.ts"

type RunSources = Pick<Start, "script" | "store">

const toJobBlocked = (error: unknown): JobFiles.JobBlocked =>
  new JobFiles.JobBlocked({ message: ErrorLine.fromError(error).line })

/** Creates a runtime for each job. */
const makeJobAgents = (options: Config.Options, own: RunSources) =>
  Layer.effect(
    JobAgent,
    Effect.gen(function* () {
      const program = yield* Program
      const environment = yield* Environment
      const context = yield* Effect.context<Environment | FileSystem.FileSystem | Home>()
      const findJobStore = ({ cluster: { databaseUrl, runsCron } }: Values) =>
        own.store ??
        (runsCron && databaseUrl !== undefined ? layerPostgres({ url: databaseUrl, connections: 4 }) : undefined)
      const openJobAgent = Effect.fnUntraced(function* (job: Job) {
        const loaded = yield* Effect.mapError(Config.load(options), toJobBlocked)
        const settings = JobDraft.applyModel(loaded.settings, environment, job.model)
        const store = findJobStore(settings)
        const runtime = yield* Effect.mapError(
          Layer.build(program.layer(settings, { ...own, folder: job.workdir, store })),
          toJobBlocked
        )
        const agent = Context.get(runtime, Agent)
        const tools = yield* selectTools(job, Context.get(runtime, ToolRegistry), {
          toolsets: settings.platformToolsets["cron"] ?? settings.toolsets,
          disabled: settings.disabledToolsets,
          maySchedule: settings.cron.jobsMaySchedule
        })
        const shared = { cwd: job.workdir, tools, tenant: job.tenant, maxIterations: settings.agent.maxTurns }
        const askAgent: Ask = (asked) => agent.run({ ...asked, ...shared })
        const resumeRun: Resume = (sessionId) => agent.resume({ sessionId, platform: "cron", ...shared })
        return { askAgent, resumeRun }
      })
      const readWait = Effect.fnUntraced(function* (sessionId: string) {
        const { settings } = yield* Config.load(options)
        const layer = findJobStore(settings) ?? (yield* findStore(settings, true)).layer
        return yield* Effect.provide(readWaitState(sessionId), layer)
      })
      const openInside = (job: Job) =>
        Effect.updateContext(openJobAgent(job), (given: Context.Context<Scope.Scope>) => Context.merge(context, given))
      return {
        open: (job) => Effect.map(openInside(job), ({ askAgent }) => askAgent),
        openWaiting: (job) => Effect.map(openInside(job), ({ resumeRun }) => resumeRun),
        readWait: (_, sessionId) => Effect.provideContext(Effect.mapError(readWait(sessionId), toJobBlocked), context)
      }
    })
  )

const toTickSettings = (
  { approvals, cron }: Values,
  places: JobFiles.Places,
  skills: JobTick.Settings["skills"]
): JobTick.Settings => ({
  places,
  skills,
  approvals: approvals.cronMode,
  preflight: cron.preflight,
  maySchedule: cron.jobsMaySchedule,
  scriptTimeoutSeconds: cron.scriptTimeoutSeconds,
  runTimeoutSeconds: cron.runTimeoutSeconds,
  maxParallel: cron.maxParallelJobs
})

/** Loads the settings, or the defaults if they cannot be read. Each job reports the error itself. */
const loadLenientSettings = (options: Config.Options) =>
  Config.load(options).pipe(
    Effect.map(({ settings }) => settings),
    Effect.catch(() => Effect.provide(Settings, Config.layerFromFile()))
  )

const formatResult = ({ job, output, text }: DeliveredResult, isWrapped: boolean): string => {
  const clean = SafeText.sanitise(Redaction.redactText(text))
  if (!isWrapped) return clean
  const title = SafeText.toLine(`Scheduled job ${job.name} (${job.id})`)
  const whole = output === undefined ? [] : [`[${output}]`]
  return [title, "-".repeat(Math.min(60, title.length)), clean, ...whole, ""].join("\n")
}

/** Provides the services that all ways of running jobs share. */
const withJobServices = <A, E, R>(
  own: RunSources,
  work: (settings: JobTick.Settings, values: Values) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const output = yield* Output
    yield* output.protect
    const options = Flags.toConfigOptions(yield* hermes)
    const values = yield* loadLenientSettings(options)
    const home = yield* Home
    const skills = yield* ConfiguredSkills.make(values, { environment: yield* Environment, home })
    const settings = toTickSettings(values, home, skills)
    const deliverResult = (shown: DeliveredResult): Effect.Effect<void> => {
      const text = formatResult(shown, values.cron.wrapResponse)
      return shown.isFailure ? output.err(`${text}\n`) : output.out(`${text}\n`)
    }
    return yield* work(settings, values).pipe(
      Effect.provideService(Delivery, deliverResult),
      Effect.provide(Layer.merge(scheduledJobs, makeJobAgents(options, own)))
    )
  }).pipe(Effect.scoped, Effect.provide(surroundings))

const isFailure = ({ status }: JobOutcome): boolean => status === "error" || status === "blocked"

/** Runs one job now. */
export const runNow = Effect.fn("hermes cron run")(function* ({ job, ...own }: RunSources & { readonly job: string }) {
  const run = yield* withJobServices(own, (settings) =>
    Effect.catchTag(JobTick.runNow(job, settings), ["CronRefused", "CronStoreError"], toCronFailure)
  )
  if (run.status === "silent") yield* printNote(`${run.job.name} has nothing to report`)
  if (isFailure(run)) return yield* makeSilentFailure(failed)
})

const recordLook = Effect.fnUntraced(function* (settings: JobTick.Settings) {
  const now = yield* Clock.currentTimeMillis
  yield* Effect.catch(JobFiles.recordLook(settings.places, now), ({ message }) => Effect.logWarning(message))
})

/** Runs the jobs that are due. */
export const tick = Effect.fn("hermes cron tick")(function* (own: RunSources) {
  const runs = yield* withJobServices(own, (settings) =>
    Effect.andThen(recordLook(settings), Effect.catchTag(JobTick.runOnce(settings), "CronStoreError", toCronFailure))
  )
  if (runs.some(isFailure)) return yield* makeSilentFailure(failed)
})

/** Runs the jobs that are due, every minute. */
export const serve = Effect.fn("hermes cron serve")(function* (own: RunSources) {
  yield* printNote("Checking for due jobs every minute. Press Ctrl+C to stop.")
  return yield* withJobServices(own, (settings) =>
    Effect.flatMap(Effect.context<FileSystem.FileSystem | Path.Path>(), (context) =>
      JobTick.runForever(settings, Effect.provideContext(recordLook(settings), context))
    )
  )
})
