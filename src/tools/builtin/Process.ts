/**
 * The tool `process`: lists, reads, waits for, sends input to and ends the background processes that `terminal`
 * started.
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import { RedactSecrets } from "../../base/domain/Redaction.ts"
import { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import { settlePlanted } from "../approval/PlantedRequests.ts"
import { handleWallStop } from "../approval/SandboxRequests.ts"
import { StopRequested, ToolContext } from "../ToolContext.ts"
import type { BackgroundProcess } from "./terminal/BackgroundProcess.ts"
import * as ExitMeaning from "./terminal/Guidance.ts"
import { ProcessRegistry } from "./terminal/ProcessRegistry.ts"
import {
  defaultLines,
  maxWaitSeconds,
  type Parameters,
  type Refusal,
  type Result,
  type Status
} from "./terminal/ProcessTool.ts"
import { TerminalSettings } from "./BuiltinSettings.ts"

const previewChars = 1000
const waitOutputChars = 2000

const readStatus = (process: BackgroundProcess): typeof Status.Type => process.ended()?.reason ?? "running"

const describeExit = (process: BackgroundProcess) => {
  const ended = process.ended()
  if (ended === undefined) return {}
  const meaning = ExitMeaning.explainExit(ExitMeaning.parse(process.options.command), ended.exit)
  return { exit_code: ended.exit.code, ...(meaning === undefined ? {} : { exit_code_meaning: meaning }) }
}

const measureUptime = (process: BackgroundProcess): Effect.Effect<number> =>
  Effect.map(Clock.currentTimeMillis, (now) =>
    Math.max(0, Math.floor(((process.ended()?.endedAt ?? now) - process.startedAt) / 1000))
  )

const summarizeProcess = Effect.fnUntraced(function* (process: BackgroundProcess) {
  const ended = process.ended()
  return {
    session_id: process.id,
    command: process.options.command,
    cwd: process.options.cwd,
    pid: process.pid,
    status: readStatus(process),
    ...(ended === undefined ? {} : { exit_code: ended.exit.code }),
    started_at: DateTime.formatIso(DateTime.makeUnsafe(process.startedAt)),
    uptime_seconds: yield* measureUptime(process)
  }
})

const pollProcess = Effect.fnUntraced(function* (process: BackgroundProcess) {
  return {
    session_id: process.id,
    command: process.options.command,
    status: readStatus(process),
    pid: process.pid,
    ...describeExit(process),
    uptime_seconds: yield* measureUptime(process),
    output_preview: process.tail(previewChars, yield* RedactSecrets).trimEnd()
  }
})

const readLog = Effect.fnUntraced(function* (process: BackgroundProcess, params: typeof Parameters.Type) {
  const { outputChars } = yield* TerminalSettings
  const limit = params.limit ?? defaultLines
  const { first, lines } = process.lines(yield* RedactSecrets)
  const total = first + lines.length
  const from = Math.max(first, params.offset ?? total - limit)
  const shown = lines.slice(from - first, from - first + limit)
  const text = shown.join("\n")
  const notes = [
    ...(first > 0 && (params.offset ?? first) < first ? [`Lines before ${first} are no longer kept.`] : []),
    ...(text.length > outputChars ? [`Only the last ${outputChars} characters are shown: ask for fewer lines.`] : [])
  ]
  return {
    session_id: process.id,
    status: readStatus(process),
    ...describeExit(process),
    output: text.slice(Math.max(0, text.length - outputChars)).toWellFormed(),
    total_lines: total,
    showing: shown.length === 0 ? "no lines" : `lines ${from} to ${from + shown.length - 1}`,
    ...(notes.length === 0 ? {} : { note: notes.join(" ") })
  }
})

const waitForEnd = Effect.fnUntraced(function* (process: BackgroundProcess, timeout: number | undefined) {
  const settings = yield* TerminalSettings
  const stopRequested = yield* StopRequested
  const asked = timeout ?? settings.timeoutSeconds
  const seconds = Math.min(asked, maxWaitSeconds)
  const outcome = yield* Effect.raceAllFirst<Effect.Effect<"ended" | "timeout" | "interrupted">>([
    Effect.as(process.exit, "ended"),
    Effect.as(Effect.sleep(seconds * 1000), "timeout"),
    Effect.as(stopRequested, "interrupted")
  ])
  return {
    session_id: process.id,
    status: outcome === "ended" ? readStatus(process) : outcome,
    ...describeExit(process),
    output: process.tail(waitOutputChars, yield* RedactSecrets).trimEnd(),
    ...(outcome === "timeout"
      ? { note: `It still runs after ${seconds} s${asked > seconds ? `, the longest that wait waits` : ""}.` }
      : {})
  }
})

const killProcess = Effect.fnUntraced(function* (process: BackgroundProcess) {
  const before = process.ended()
  if (before !== undefined) {
    return { session_id: process.id, status: "already_exited" as const, exit_code: before.exit.code }
  }
  yield* process.kill
  return {
    session_id: process.id,
    status: readStatus(process),
    ...describeExit(process),
    output: process.tail(previewChars, yield* RedactSecrets).trimEnd()
  }
})

/** Number of characters at the end of an output that are searched for the sandbox's message. */
const explainedChars = 8000

/** Services of the runtime that the handler needs. */
interface ProcessServices {
  readonly registry: ProcessRegistry["Service"]
  readonly environment: CommandEnvironment["Service"]
  readonly path: Path.Path
  /** Notes about processes that the sandbox stopped. */
  readonly notes: WeakMap<BackgroundProcess, string>
}

/**
 * Asks once about a process that the sandbox stopped. If the user permits it, the process is started again outside the
 * sandbox.
 */
const handleStopAtWall = Effect.fnUntraced(function* (
  { environment, notes, path, registry }: ProcessServices,
  process: BackgroundProcess
) {
  const ended = process.ended()
  if (ended === undefined || ended.reason === "killed" || ended.exit.code === 0) return {}
  const known = notes.get(process)
  if (known !== undefined) return { sandbox_note: known }
  const { command, cwd } = process.options
  const stopped = yield* handleWallStop(
    environment,
    process.tail(explainedChars, false),
    process.refused,
    { command, cwd },
    { tool: "terminal", args: { command, workdir: cwd } }
  ).pipe(Effect.provideService(Path.Path, path))
  if (stopped === undefined) return {}
  const start = stopped.refusal === undefined ? registry.startOutside : undefined
  const approved = `${stopped.reason}: the command was approved to run again outside of it`
  const note =
    start === undefined
      ? `${stopped.reason}. ${stopped.refusal}`
      : yield* Effect.match(start(process.options), {
          onFailure: ({ message }) => `${approved}, and was not started: ${message}`,
          onSuccess: ({ id }) => `${approved}, and runs now as ${id}.`
        })
  notes.set(process, note)
  return { sandbox_note: note }
})

/** Adds notes about the sandbox to a report about a process. */
const withNotes = Effect.fnUntraced(function* <A extends object, E, R>(
  services: ProcessServices,
  process: BackgroundProcess,
  report: Effect.Effect<A, E, R>
) {
  return {
    ...(yield* report),
    ...(yield* settlePlanted(services.environment)),
    ...(yield* handleStopAtWall(services, process))
  }
})

/** Writes text to a process: as it is, or as a line. */
const writeInput = Effect.fnUntraced(function* (
  process: BackgroundProcess,
  { action, data }: typeof Parameters.Type,
  toRefusal: (error: { readonly message: string }) => Refusal
): Effect.fn.Return<Result, Refusal> {
  if (data === undefined && action === "write") {
    return yield* Effect.fail(toRefusal({ message: 'action "write" needs data: the text to write' }))
  }
  const text = action === "submit" ? `${data ?? ""}\n` : (data ?? "")
  yield* Effect.mapError(process.write(text), toRefusal)
  return { session_id: process.id, status: "ok", bytes_written: new TextEncoder().encode(text).length }
})

/** Runs an action on a process. */
const runAction = Effect.fnUntraced(function* (
  services: ProcessServices,
  process: BackgroundProcess,
  params: typeof Parameters.Type
): Effect.fn.Return<Result, Refusal, ToolContext> {
  const toRefusal = ({ message }: { readonly message: string }): Refusal => ({
    session_id: process.id,
    status: "error",
    error: message
  })
  switch (params.action) {
    case "poll":
      return yield* withNotes(services, process, pollProcess(process))
    case "log":
      return yield* withNotes(services, process, readLog(process, params))
    case "wait":
      return yield* withNotes(services, process, waitForEnd(process, params.timeout))
    case "kill":
      return yield* killProcess(process)
    case "close":
      yield* Effect.mapError(process.closeInput, toRefusal)
      return { session_id: process.id, status: "ok" }
    // `write` and `submit`. A list is not an action on one process.
    default:
      return yield* writeInput(process, params, toRefusal)
  }
})

/** Creates the tool's handler. */
export const handler = Effect.gen(function* () {
  const registry = yield* ProcessRegistry
  const services: ProcessServices = {
    registry,
    environment: yield* CommandEnvironment,
    path: yield* Path.Path,
    notes: new WeakMap()
  }
  return Effect.fnUntraced(function* (params: typeof Parameters.Type): Effect.fn.Return<Result, Refusal, ToolContext> {
    const { action, session_id } = params
    const { sessionId } = yield* ToolContext
    if (action === "list")
      return { processes: yield* Effect.forEach(yield* registry.list(sessionId), summarizeProcess) }
    if (session_id === undefined) {
      return yield* Effect.fail<Refusal>({
        status: "error",
        error: `action "${action}" needs session_id: see process(action="list")`
      })
    }
    const process = yield* registry
      .find(session_id, sessionId)
      .pipe(Effect.mapError((error): Refusal => ({ session_id, status: "not_found", error: error.message })))
    return yield* runAction(services, process, params)
  })
})
