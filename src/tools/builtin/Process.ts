/**
 * The tool `process`: lists, reads, waits for, sends input to and ends the background processes that `terminal`
 * started.
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import { RedactSecrets } from "../../base/domain/Redaction.ts"
import { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import { InputArguments, OwnApproval, Timeout } from "../Annotations.ts"
import { settlePlanted } from "../approval/PlantedRequests.ts"
import { handleWallStop } from "../approval/SandboxRequests.ts"
import { StopRequested, ToolContext } from "../ToolContext.ts"
import type { BackgroundProcess } from "./terminal/BackgroundProcess.ts"
import * as ExitMeaning from "./terminal/Guidance.ts"
import { ProcessRegistry } from "./terminal/ProcessRegistry.ts"
import { TerminalSettings } from "./BuiltinSettings.ts"

const maxWaitSeconds = 600
const defaultLines = 200
const previewChars = 1000
const waitOutputChars = 2000

/** Parameters of the tool. */
const Parameters = Schema.Struct({
  action: Schema.Literals(["list", "poll", "log", "wait", "kill", "write", "submit", "close"]).annotate({
    description:
      "poll: state, exit code and end of the output. log: lines of the output. wait: until it ends or the timeout " +
      "is over. kill: end it and all it started. write: data to its stdin. submit: data and a newline. close: end of " +
      "its stdin."
  }),
  session_id: Schema.optionalKey(
    Schema.NonEmptyString.annotate({
      description: "proc_… from terminal, or a unique prefix; for all actions but list"
    })
  ),
  data: Schema.optionalKey(Schema.String.annotate({ description: "Text for write and submit" })),
  timeout: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
      description: `wait: seconds, default 180, at most ${maxWaitSeconds}; the process runs on`
    })
  ),
  offset: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({
      description: "log: first line, from 0; default: the last lines"
    })
  ),
  limit: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({ description: `log: lines, default ${defaultLines}` })
  )
})

const Status = Schema.Literals(["running", "exited", "killed"])

/** One process, as shown by `list`. */
const Summary = Schema.Struct({
  session_id: Schema.String,
  command: Schema.String,
  cwd: Schema.String,
  pid: Schema.Int,
  status: Status,
  exit_code: Schema.optionalKey(Schema.Int),
  started_at: Schema.String,
  uptime_seconds: Schema.Int
})

/** Result for the model, with fields in this order. The action determines the fields that are present. */
const Result = Schema.Struct({
  processes: Schema.optionalKey(Schema.Array(Summary)),
  session_id: Schema.optionalKey(Schema.String),
  command: Schema.optionalKey(Schema.String),
  status: Schema.optionalKey(Schema.Literals([...Status.literals, "already_exited", "timeout", "interrupted", "ok"])),
  pid: Schema.optionalKey(Schema.Int),
  exit_code: Schema.optionalKey(Schema.Int),
  exit_code_meaning: Schema.optionalKey(Schema.String),
  uptime_seconds: Schema.optionalKey(Schema.Int),
  bytes_written: Schema.optionalKey(Schema.Int),
  output_preview: Schema.optionalKey(Schema.String),
  output: Schema.optionalKey(Schema.String),
  total_lines: Schema.optionalKey(Schema.Int),
  showing: Schema.optionalKey(Schema.String),
  note: Schema.optionalKey(Schema.String),
  /** Reason why a confined environment stopped the process, and whether it ran again outside the sandbox. */
  sandbox_note: Schema.optionalKey(Schema.String),
  set_aside: Schema.optionalKey(Schema.String)
})
/** See {@link Result}. */
type Result = typeof Result.Type

/** Refusal of an action. */
const Refusal = Schema.Struct({
  session_id: Schema.optionalKey(Schema.String),
  status: Schema.Literals(["not_found", "error"]),
  error: Schema.String
})
/** See {@link Refusal}. */
type Refusal = typeof Refusal.Type

const description =
  "Follows the background processes that terminal started in this session: poll for a quick look, log for the " +
  "whole output, wait when there is nothing else to do, kill for servers that are no longer needed; write, submit " +
  "and close for programs that ask for input. Do not poll in a loop: wait, or start with notify_on_complete."

/** The tool `process`. */
export const Process = Tool.make("process", {
  description,
  parameters: Parameters,
  success: Result,
  failure: Refusal,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(OwnApproval, true)
  .annotate(Tool.Idempotent, false)
  .annotate(InputArguments, ["data"])
  .annotate(Timeout, Duration.infinity)

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
