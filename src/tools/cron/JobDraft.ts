/**
 * Drafts of jobs, and their validation.
 *
 * **Details**
 *
 * Prompts and skill texts reach an unattended agent, so they are scanned for instructions that try to take it over or
 * exfiltrate secrets. A script is located below `scripts/` of the home directory and is named by its path relative to
 * that directory.
 *
 * Source: `hermes-product.md` §2.3 ("prompts are scanned") and §2.5.
 */
import * as Result from "effect/Result"
import type { Environment } from "../../base/config/Environment.ts"
import * as Injection from "../../base/domain/Injection.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as RouteStatement from "../../base/config/RouteStatement.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type { Job, Model } from "./Job.ts"
import * as JobSchedule from "./JobSchedule.ts"

/** Draft of a job. An absent field is left unchanged in an existing job and has no value in a new one. */
export interface Draft {
  readonly name?: string | undefined
  readonly prompt?: string | undefined
  readonly schedule?: string | undefined
  readonly times?: number | undefined
  readonly skills?: ReadonlyArray<string> | undefined
  readonly script?: string | undefined
  readonly noAgent?: boolean | undefined
  readonly workdir?: string | undefined
  readonly contextFrom?: ReadonlyArray<string> | undefined
  readonly toolsets?: ReadonlyArray<string> | undefined
  /** Tenant for which the job works. */
  readonly tenant?: string | undefined
  readonly timezone?: string | undefined
  readonly model?: Model | undefined
}

const maxPrompt = 20_000
const maxName = 100
const maxItems = 20

/** Returns the reason why a text may not be passed to an unattended agent; `undefined` if it may. */
export const findInjection = (what: string, text: string): string | undefined => {
  const found = Injection.scan(text, "memory")
  return found.length === 0
    ? undefined
    : `${what} looks like an injected instruction (${found.map(({ id }) => id).join(", ")}): say plainly what ` +
        "the job should do"
}

/** Removes control characters that a terminal could interpret from a name. */
const removeControls = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, " ").trim()

const makeTitle = ({ name, prompt = "", script, skills = [] }: Draft): string => {
  const given = removeControls(name ?? "")
  if (given !== "") return given
  const words = removeControls(prompt === "" ? (script ?? skills[0] ?? "") : prompt).replaceAll(/\s+/g, " ")
  return words.length > 50 ? TextCut.shorten(words, 49) : words
}

/** Returns true if a path is below `scripts/`. */
const isInside = (path: string): boolean =>
  path !== "" &&
  !path.startsWith("/") &&
  !path.startsWith("~") &&
  !path.includes("\0") &&
  !/^[A-Za-z]:|\\/.test(path) &&
  !path.split("/").some((part) => part === ".." || part === "")

const isSkill = (name: string): boolean => /^[A-Za-z0-9][\w.-]{0,63}$/.test(name)

/** Returns the problem of the given fields; `undefined` if they are valid. Only the draft itself is examined. */
const findProblem = (draft: Draft): string | undefined => {
  const { contextFrom = [], name = "", prompt = "", script, skills = [], times, toolsets, workdir } = draft
  if (name.length > maxName) return `the name is longer than ${maxName} characters: shorten it`
  if (prompt.length > maxPrompt)
    return `the prompt is longer than ${maxPrompt} characters: put the details into a file and name that`
  if (times !== undefined && !(Number.isInteger(times) && times > 0))
    return "repeat is a number of runs, 1 or more: leave it out for no end"
  if (skills.length > maxItems || contextFrom.length > maxItems)
    return `a job can have at most ${maxItems} skills and ${maxItems} other jobs`
  const strange = skills.find((skill) => !isSkill(skill))
  if (strange !== undefined) return `"${removeControls(strange)}" is no name of a skill`
  if (script !== undefined && !isInside(script)) {
    return (
      `"${removeControls(script)}": a script is named by its path below the scripts directory of the home ` +
      "directory, such as report.py"
    )
  }
  if (workdir !== undefined && !workdir.startsWith("/"))
    return `the working directory ${removeControls(workdir)} is not absolute`
  if (toolsets?.length === 0) return "the list of toolsets is empty: name some, or leave it out"
  return findInjection("the prompt", `${prompt}\n${name}`)
}

/** Returns the problem of a job without work; `undefined` if the job has work. */
const findMissingWork = ({
  no_agent,
  prompt,
  script,
  skills
}: Pick<Job, "no_agent" | "prompt" | "script" | "skills">): string | undefined => {
  if (no_agent && script === undefined) return "a job without an agent needs a script"
  return prompt.trim() === "" && skills.length === 0 && script === undefined
    ? "a job needs a prompt or a skill: say what it should do"
    : undefined
}

type Work = Omit<Job, keyof typeof fresh | "id" | "created_at" | "schedule" | "times" | "next_run_at">

/** Initial fields of every new job. */
const fresh = {
  state: "scheduled",
  runs: 0,
  missed: 0,
  failures: 0,
  last_run_at: null,
  last_status: null,
  last_error: null,
  last_output: null,
  last_session_id: null,
  running: null,
  alert: null
} as const satisfies Partial<Job>

const toWork = (draft: Draft): Work => ({
  name: makeTitle(draft),
  prompt: draft.prompt ?? "",
  skills: draft.skills ?? [],
  ...(draft.script === undefined ? {} : { script: draft.script }),
  no_agent: draft.noAgent ?? false,
  ...(draft.workdir === undefined ? {} : { workdir: draft.workdir }),
  context_from: draft.contextFrom ?? [],
  ...(draft.toolsets === undefined ? {} : { toolsets: draft.toolsets }),
  ...(draft.tenant === undefined ? {} : { tenant: draft.tenant }),
  model: draft.model ?? {}
})

const checkJob = (job: Job, draft: Draft): Result.Result<Job, string> => {
  const wrong = findProblem(draft) ?? findMissingWork(job)
  return wrong === undefined ? Result.succeed(job) : Result.fail(wrong)
}

const scheduleFirstRun = (written: string, reading: JobSchedule.Reading) =>
  Result.flatMap(JobSchedule.parse(written, reading), (schedule) => {
    const at = JobSchedule.findFirst(schedule, reading.now)
    return at === undefined
      ? Result.fail(`"${written}" never occurs: ${JobSchedule.forms}`)
      : Result.succeed({ schedule, next_run_at: JobSchedule.toIso(at) })
  })

/** Creates a job from a draft. */
export const create = (draft: Draft, id: string, reading: JobSchedule.Reading): Result.Result<Job, string> =>
  Result.gen(function* () {
    if (draft.schedule === undefined) return yield* Result.fail(`a job needs a schedule: ${JobSchedule.forms}`)
    const { next_run_at, schedule } = yield* scheduleFirstRun(draft.schedule, reading)
    const job: Job = {
      ...fresh,
      ...toWork(draft),
      id,
      schedule,
      times: draft.times ?? (schedule.kind === "once" ? 1 : null),
      created_at: JobSchedule.toIso(reading.now),
      next_run_at
    }
    return yield* checkJob(job, draft)
  })

/** Applies a draft to a job. A new schedule reactivates the job. */
export const change = (job: Job, draft: Draft, reading: JobSchedule.Reading): Result.Result<Job, string> =>
  Result.gen(function* () {
    const given = Object.fromEntries(Object.entries(toWork(draft)).filter(([key]) => isGiven(key, draft)))
    const worked: Job = { ...job, ...given, alert: null }
    const times = draft.times ?? job.times
    const rezoned = draft.timezone !== undefined && job.schedule.kind === "cron" ? job.schedule.expression : undefined
    const written = draft.schedule ?? rezoned
    if (written === undefined) return yield* checkJob({ ...worked, times }, draft)
    const { next_run_at, schedule } = yield* scheduleFirstRun(written, reading)
    const often =
      draft.times ?? (schedule.kind === "once" ? job.runs + 1 : job.schedule.kind === "once" ? null : job.times)
    const state = job.state === "completed" ? "scheduled" : job.state
    return yield* checkJob({ ...worked, schedule, next_run_at, times: often, state }, draft)
  })

const drafted: Readonly<Record<string, keyof Draft>> = {
  name: "name",
  prompt: "prompt",
  skills: "skills",
  script: "script",
  no_agent: "noAgent",
  workdir: "workdir",
  context_from: "contextFrom",
  toolsets: "toolsets",
  tenant: "tenant",
  model: "model"
}

const isGiven = (key: string, draft: Draft): boolean => {
  const name = drafted[key]
  return name !== undefined && draft[name] !== undefined
}

// The provider and model of a job. They are fixed when the job is created and override the settings when it runs. Pure.
//
// **Details**
//
// API keys are never stored. The key in the settings applies only to the provider named there. If the settings now name
// another provider, the job's provider uses the key from its own variable or pool.
//
// Source: `hermes-product.md` §2.5 ("provider and model are snapshotted at creation").

const dropUndefined = ({
  base_url,
  model,
  provider
}: { readonly [K in keyof Model]: Model[K] | undefined }): Model => ({
  ...(provider === undefined ? {} : { provider }),
  ...(model === undefined ? {} : { model }),
  ...(base_url === undefined ? {} : { base_url })
})

/** Returns the model currently named in the settings, or an empty record if no model is configured. */
export const readCurrentModel = (settings: Values, environment: Environment["Service"]): Model => {
  const { baseUrl, default: model, provider } = settings.model
  if (provider !== "auto") return dropUndefined({ provider, model, base_url: baseUrl })
  const route = ConfiguredRoutes.resolvePrimary({ settings, environment })
  return Result.isFailure(route) || route.success.provider === "offline"
    ? dropUndefined({ provider: undefined, model, base_url: baseUrl })
    : dropUndefined({ provider: route.success.provider, model: route.success.model, base_url: baseUrl })
}

/**
 * Applies the model of a job to the settings, as one source overrides another. Values for another provider or address
 * than the job's are dropped.
 */
export const applyModel = (settings: Values, environment: Environment["Service"], wanted: Model): Values => {
  const { default: model, ...own } = settings.model
  const current = readCurrentModel(settings, environment)
  const chosen = wanted.model ?? model
  const named = chosen === undefined ? {} : { default: chosen }
  const isSame =
    (wanted.provider === undefined || wanted.provider === current.provider) &&
    ((wanted.base_url === undefined && wanted.provider === undefined) || wanted.base_url === settings.model.baseUrl)
  if (isSame) return { ...settings, model: { ...settings.model, ...named } }
  // A job that names a provider but no address uses the provider's default address.
  const {
    apiKey: _,
    baseUrl: __,
    ...rest
  } = RouteStatement.merge(own, { provider: wanted.provider, baseUrl: wanted.base_url })
  return {
    ...settings,
    model: { ...rest, ...named, ...(wanted.base_url === undefined ? {} : { baseUrl: wanted.base_url }) },
    // The address now comes from the job, so no variable of another source applies to it.
    sources: undefined
  }
}
