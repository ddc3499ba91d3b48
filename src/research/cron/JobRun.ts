/**
 * One run of a job, from its requirements to its displayed result.
 *
 * **Details**
 *
 * First, the requirements of the job are checked: its directory, script, skills and model configuration. A problem is
 * reported once, before any model call. Then the script of the job runs. If the job uses no agent, the script's output
 * is the result. Otherwise the agent runs in a separate session, without interactive approvals and without job
 * creation.
 *
 * The result is written to a file and shown. An answer with a silence marker is not shown, and neither is the result of
 * a script that prints nothing. A failure is always shown.
 *
 * **Example** (Sending results to another system)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { JobRun } from "hermes-effect/jobs"
 *
 * export const posted = Effect.provideService(
 *   JobRun.Delivery,
 *   ({ job, text }) => Effect.logInfo(`${job.name}: ${text}`)
 * )
 * ```
 *
 * Source: `hermes-product.md` §2.5 ("a silence marker suppresses delivery"). It does not specify the text of the
 * marker.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Redaction from "../../base/domain/Redaction.ts"
import { isCompletedExit, type RunResult } from "../../base/domain/RunEvent.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import { InsideJob } from "../../tools/cron/CronContext.ts"
import { CronJobs } from "../../tools/cron/CronJobs.ts"
import { type Claim, type FinishedRun, formatAnswerCommand, type Job } from "../../tools/cron/Job.ts"
import { findInjection } from "../../tools/cron/JobDraft.ts"
import * as JobSchedule from "../../tools/cron/JobSchedule.ts"
import * as Injection from "../../base/domain/Injection.ts"
import type { Service as SkillStore } from "../../tools/prompt/SkillStore.ts"
import { JobAgent } from "./JobAgent.ts"
import * as JobFiles from "./JobFiles.ts"
import { JobBlocked } from "./JobFiles.ts"
import * as JobScript from "./JobScript.ts"
import type { ReadyState } from "./JobWait.ts"

/** Marker in the answer of a job that has nothing to report. */
const silentMarker = "[SILENT]"

/** Maximum number of characters of the output of a script or another job that the agent receives. */
const materialChars = 10_000

/** Text that is placed before the prompt, such as a skill or the output of a script. */
interface Material {
  readonly tag: "skill" | "script-output" | "job-output"
  readonly name: string
  readonly text: string
}

const closing = /<(\/?)(skill|script-output|job-output)\b/gi

const renderMaterial = ({ name, tag, text }: Material): string => {
  const shown = tag === "skill" ? text : TextCut.cutMiddle(text, materialChars)
  const warning = tag === "skill" ? undefined : Injection.findForeignWarning(text)
  const lines = [
    `<${tag} name="${name.replaceAll('"', "'")}">`,
    ...(warning === undefined ? [] : [warning]),
    shown.replaceAll(closing, "‹$1$2"),
    `</${tag}>`
  ]
  return lines.join("\n")
}

const lateAfter = 5 * 60_000

const renderHeading = ({ name, schedule }: Job, meant: number, now: number): string => {
  const at = JobSchedule.formatTime(meant, schedule.timezone)
  const late =
    now - meant > lateAfter ? ` It is ${JobSchedule.formatTime(now, schedule.timezone)} now, so it runs late.` : ""
  return (
    `[This is the scheduled job "${name}", meant for ${at}.${late} No user is present and no question will ` +
    "be answered: decide by yourself, " +
    "and answer with the result, which is shown as it is. If there is nothing worth reporting, " +
    "answer with " +
    `${silentMarker} and nothing else.]`
  )
}

/**
 * Builds the prompt of a job. Outputs of scripts and other jobs are each enclosed in tags that mark them as material.
 * Output that looks like instructions is accompanied by a warning.
 */
const buildPrompt = (
  job: Job,
  materials: ReadonlyArray<Material>,
  { meant, now }: { readonly meant: number; readonly now: number }
): string => {
  const own = job.prompt.trim() === "" ? "Follow the material above." : job.prompt
  return [renderHeading(job, meant, now), ...materials.map(renderMaterial), own].join("\n\n")
}

const isMarker = (line: string | undefined): boolean => line?.replaceAll(/[*_`\s]/g, "").toUpperCase() === silentMarker

/**
 * Returns true if an answer must not be shown because it consists of {@link silentMarker}, or begins or ends with a
 * line that does.
 */
const isSilent = (answer: string): boolean => {
  const lines = answer.split("\n").filter((line) => line.trim() !== "")
  return isMarker(lines[0]) || isMarker(lines.at(-1))
}

/** Settings for runs of jobs. */
export interface Settings {
  readonly places: JobFiles.Places
  /** Skills that jobs may use. If absent, a job that names a skill is blocked. */
  readonly skills?: Pick<SkillStore, "view"> | undefined
  /** Decision on tool calls that need an approval, from `approvals.cron_mode`. */
  readonly approvals: "deny" | "approve"
  /** True if a problem that prevents a job from running is reported only once. */
  readonly preflight: boolean
  readonly maySchedule: boolean
  readonly scriptTimeoutSeconds: number
  readonly runTimeoutSeconds: number
}

/** Result of a run that is shown to the user. */
export interface DeliveredResult {
  readonly job: Job
  readonly text: string
  readonly isFailure: boolean
  /** Path of the file with the result, if any. */
  readonly output: string | undefined
}

/** Delivers results in addition to their files. Does nothing by default. */
export const Delivery = Context.Reference<(shown: DeliveredResult) => Effect.Effect<void>>(
  "hermes-effect/runner/Delivery",
  { defaultValue: () => () => Effect.void }
)

interface Answer {
  readonly text: string
  readonly isSilent: boolean
  readonly sessionId?: string | undefined
  /** Reason why the result is incomplete. */
  readonly cut?: string | undefined
  /** True if the run waits for answers. The text then says how to answer; it is empty if that was said before. */
  readonly waits?: boolean | undefined
}

/** Reads the text of the skills that a job uses. */
const readSkills = (job: Job, { skills }: Settings): Effect.Effect<ReadonlyArray<Material>, JobBlocked> =>
  Effect.forEach(job.skills, (name) =>
    skills === undefined
      ? Effect.fail(
          new JobBlocked({ message: `there are no skills: remove "${name}" from the job with \`hermes cron edit\`` })
        )
      : Effect.mapBoth(skills.view(name), {
          onFailure: ({ message }) =>
            new JobBlocked({ message: `${message}; correct it, or remove it from the job with \`hermes cron edit\`` }),
          onSuccess: ({ text }) => ({ tag: "skill", name, text })
        })
  )

/** Checks and loads everything that a job requires, before anything is started. */
const prepareJob = Effect.fnUntraced(function* (job: Job, settings: Settings) {
  const problem = findInjection("the prompt", job.prompt)
  if (problem !== undefined) return yield* new JobBlocked({ message: problem })
  if (job.workdir !== undefined) yield* JobFiles.checkWorkdir(job.workdir)
  const script = job.script === undefined ? undefined : yield* JobFiles.findScript(settings.places, job.script)
  const skills = yield* readSkills(job, settings)
  const ask = job.no_agent ? undefined : yield* (yield* JobAgent).open(job)
  return { ask, script, skills }
})

/** Reads the latest outputs of the jobs that `context_from` lists. Deleted jobs and jobs that never ran are omitted. */
const readOtherOutputs = Effect.fnUntraced(function* (job: Job) {
  if (job.context_from.length === 0) return []
  const { jobs } = yield* (yield* CronJobs).list
  const found = yield* Effect.forEach(job.context_from, (id) => {
    const other = jobs.find((job) => job.id === id)
    const path = other?.last_output
    return other === undefined || path === undefined || path === null
      ? Effect.succeed([])
      : Effect.map(JobFiles.readBody(path), (text): ReadonlyArray<Material> =>
          text === undefined ? [] : [{ tag: "job-output", name: other.name, text }]
        )
  })
  return found.flat()
})

/** Runs the agent of a job without a user, and without the creation of jobs unless it is allowed. */
const runInside = <A, E, R>(work: Effect.Effect<A, E, R>, { id }: Job, { approvals, maySchedule }: Settings) =>
  work.pipe(
    Effect.provideService(InteractiveMode, makeUnattended("scheduled job", approvals)),
    Effect.provideService(InsideJob, { id, maySchedule })
  )

/** Renders the message about a run that waits. */
const renderWaiting = ({ questions = [], sessionId }: Pick<RunResult, "questions" | "sessionId">): string =>
  [
    `Waits for an answer in session ${sessionId}.`,
    ...questions.map(({ id, title }) => `  ${id}  ${title}`),
    `Answer: ${formatAnswerCommand(sessionId)}`,
    "The job continues at the next check for due jobs, and does not run again before."
  ].join("\n")

const toAnswer = (result: Pick<RunResult, "exit" | "questions" | "sessionId" | "text">): Answer => {
  const { exit, sessionId } = result
  if (exit === "suspended") return { text: renderWaiting(result), isSilent: false, sessionId, waits: true }
  const text = result.text.trim()
  const answer: Answer = { text, isSilent: isSilent(text), sessionId }
  if (!isCompletedExit(exit)) return { ...answer, cut: `the run ended early (${exit})` }
  return text === "" ? { ...answer, cut: "the model answered with nothing" } : answer
}

const performJob = Effect.fnUntraced(function* ({ job, meant }: Claim, settings: Settings) {
  const needs = yield* prepareJob(job, settings)
  const printed =
    needs.script === undefined
      ? undefined
      : yield* JobScript.run(needs.script, job.workdir, settings.scriptTimeoutSeconds)
  if (needs.ask === undefined) {
    const text = printed ?? ""
    return { text, isSilent: text === "" || isSilent(text) } satisfies Answer as Answer
  }
  const materials: ReadonlyArray<Material> = [
    ...needs.skills,
    ...(printed === undefined ? [] : [{ tag: "script-output" as const, name: job.script ?? "", text: printed }]),
    ...(yield* readOtherOutputs(job))
  ]
  const now = yield* Clock.currentTimeMillis
  const asked = needs.ask({ prompt: buildPrompt(job, materials, { meant, now }), source: "cron" })
  return toAnswer(yield* runInside(asked, job, settings))
}, Effect.scoped)

/** Continues the run of a job that waited, or takes the result that another process brought it to. */
const performRest = Effect.fnUntraced(function* ({ job }: Claim, state: ReadyState, settings: Settings) {
  if (state._tag === "Gone")
    return yield* Effect.fail(new Error("the session in which the run waited for an answer was deleted"))
  if (state._tag === "Ended") return toAnswer({ exit: "text_response", ...state })
  const resumeRun = yield* (yield* JobAgent).openWaiting(job)
  const result = yield* runInside(resumeRun(state.sessionId), job, settings).pipe(
    // Another process continues the run, and the next check finds its result.
    Effect.catchIf(
      (error) => error._tag === "SessionBusy",
      () => Effect.succeed(undefined)
    )
  )
  const later: Answer = { text: "", isSilent: true, sessionId: state.sessionId, waits: true }
  return result === undefined ? later : toAnswer(result)
}, Effect.scoped)

const describeCause = (cause: Cause.Cause<unknown>): string => {
  if (Cause.hasInterrupts(cause)) return "the run was interrupted"
  const error = Cause.squash(cause)
  const message = error instanceof Error ? error.message || error.name : String(error)
  return Redaction.redactText(message.replaceAll(/\s+/g, " ").trim())
}

type Result = FinishedRun & { readonly text: string }

const toResult = (exit: Exit.Exit<Answer, unknown>, { preflight }: Settings): Result => {
  if (Exit.isSuccess(exit)) {
    const { cut, isSilent, sessionId, text, waits } = exit.value
    if (waits === true) return { status: "waiting", sessionId, text }
    if (cut !== undefined) return { status: "error", error: cut, sessionId, text }
    return { status: isSilent ? "silent" : "ok", sessionId, text }
  }
  const error = describeCause(exit.cause)
  const isBlocked = preflight && !Cause.hasInterrupts(exit.cause) && Cause.squash(exit.cause) instanceof JobBlocked
  return { status: isBlocked ? "blocked" : "error", error, text: "" }
}

/**
 * Returns the text for the output file and the screen: the answer, and the reason if the answer is missing or
 * incomplete.
 */
const renderBody = ({ error, text }: Result): string =>
  [...(error === undefined ? [] : [`Failed: ${error}`]), ...(text === "" ? [] : [text])].join("\n\n")

const finishRun = Effect.fnUntraced(function* (
  claim: Claim,
  settings: Settings,
  began: number,
  exit: Exit.Exit<Answer, unknown>
) {
  const { job } = claim
  const jobs = yield* CronJobs
  const result = toResult(exit, settings)
  const body = renderBody(result)
  // A run that did not start writes no file, because otherwise a blocked job would write a file at each check. A run
  // that waits has no result yet.
  const output =
    result.status === "blocked" || result.status === "waiting"
      ? undefined
      : yield* JobFiles.writeOutput(settings.places, {
          jobId: job.id,
          began,
          facts: [
            ["job", `${job.name} (${job.id})`],
            ["meant for", JobSchedule.formatTime(claim.meant, job.schedule.timezone)],
            ["began", JobSchedule.toIso(began)],
            ["ended", JobSchedule.toIso(yield* Clock.currentTimeMillis)],
            ["status", result.status],
            ...(result.sessionId === undefined ? [] : [["session", result.sessionId] as const])
          ],
          body
        }).pipe(Effect.catch(({ message }) => Effect.as(Effect.logWarning(message), undefined)))
  const settled = yield* jobs.settle(claim, { ...result, output })
  const isFailure = result.error !== undefined
  const isSaidBefore = result.status === "waiting" && body === ""
  const isShown = result.status !== "silent" && !isSaidBefore && settled._tag === "Settled" && settled.isNews
  if (isShown) yield* (yield* Delivery)({ job, text: body, isFailure, output })
  return { job, status: result.status, error: result.error }
})

/** Outcome of a run of a job. */
export interface JobOutcome {
  readonly job: Job
  readonly status: FinishedRun["status"]
  readonly error: string | undefined
}

const renewEvery = Duration.minutes(1)

/** Schedule of the renewals of a claim, until the job ends or the claim is lost. */
const renewals = Schedule.spaced(renewEvery)

/** Does the work of a claimed job. The claim is always released. An interrupted run counts as failed. */
const runWork = Effect.fnUntraced(function* <E, R>(
  claim: Claim,
  settings: Settings,
  work: Effect.Effect<Answer, E, R>
) {
  const jobs = yield* CronJobs
  const began = yield* Clock.currentTimeMillis
  // If the job file cannot be written at the moment, the renewal is retried before the lease expires.
  const renewed = Effect.catch(jobs.renew(claim), ({ message }) => Effect.as(Effect.logWarning(message), true))
  const renewing = renewed.pipe(
    Effect.repeat({ while: (isOurs) => isOurs, schedule: renewals }),
    Effect.delay(renewEvery),
    Effect.andThen(Effect.interrupt)
  )
  const bounded = Effect.timeoutOrElse(work, {
    duration: Duration.seconds(settings.runTimeoutSeconds),
    orElse: () => Effect.fail(new Cause.TimeoutError(`the run was ended after ${settings.runTimeoutSeconds} s`))
  })
  return yield* Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.exit(restore(Effect.raceFirst(bounded, renewing))), (exit) =>
      Effect.tap(finishRun(claim, settings, began, exit), () =>
        Exit.hasInterrupts(exit) ? Effect.interrupt : Effect.void
      )
    )
  )
})

/** Runs a claimed job once. The claim is always released. An interrupted run counts as failed. */
export const run = (claim: Claim, settings: Settings) => runWork(claim, settings, performJob(claim, settings))

/** Continues the run of a claimed job that waited for answers, as {@link run} runs a job. */
export const continueRun = (claim: Claim, settings: Settings, state: ReadyState) =>
  runWork(claim, settings, performRest(claim, state, settings))
