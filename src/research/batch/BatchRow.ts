/**
 * Runs one row of a batch: runs the agent in a separate session and workspace, and builds the result row.
 *
 * **Details**
 *
 * Session and workspace are named after the row and the number of the attempt. An attempt that was interrupted by the
 * end of its process continues in its session. Calls that had begun are reported to the model as "may have happened"
 * and are not repeated. If the agent had already answered, only the result row is written. A row works in its `cwd`, or
 * in an empty directory that is removed when the row is finished. A row with a JSON Schema in `output_schema` ends in a
 * value, which its result row has as `value`.
 *
 * Source: `hermes-product.md` §5.1, `hermes-llm.md` §20.1.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import { Agent } from "../../agent/Agent.ts"
import { waitForSession } from "../../agent/BusySession.ts"
import type { Limits } from "../../agent/Budget.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import type { AgentError } from "../../base/domain/AgentError.ts"
import type { AnswerFormat as Format } from "../../base/domain/AnswerFormat.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { ownTree } from "../../places/WorkingTree.ts"
import * as StoredRuns from "../../observe/StoredRuns.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as Digest from "../../base/platform/Digest.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import type { Row } from "./Dataset.ts"
import * as Outcome from "./Outcome.ts"
import * as RowPool from "./RowPool.ts"
import * as RowRecord from "./RowRecord.ts"

/** Error raised when a row of the dataset cannot be run. No model call was made for it. */
export class RowRefused extends Schema.TaggedError<RowRefused>("hermes-effect/RowRefused")("RowRefused", {
  message: Schema.String
}) {}

type AnswerFormat = Format<unknown>

/** Failure of a row. */
export type RowError = AgentError | RowRefused

/** Settings that all rows share. */
export interface Options {
  /** Directory of the batch run. */
  readonly directory: string
  /** Name of the field with the prompt. */
  readonly promptField: string
  /** Returns the toolsets and single tools of a row, which are drawn at random or the same for all rows. */
  readonly getToolsets: (row: Row) => ReadonlyArray<string>
  readonly disabledToolsets: ReadonlyArray<string>
  readonly getRowBatch: (row: Row) => number
  readonly knownTools: ReadonlyArray<string>
  readonly ephemeralSystemPrompt: string | undefined
  readonly maxIterations: number | undefined
  /** Additional limits of the agent in a row. */
  readonly budget?: Limits | undefined
  /** Returns the seed for the model calls of a row. */
  readonly getSeed?: ((row: Row) => number) | undefined
  /** True if rows without reasoning in any answer are discarded. */
  readonly needsReasoning: boolean
  readonly withAtif: boolean
  /** True if the working directory of a finished row is retained. */
  readonly keepsWorkspaces: boolean
  /** Prepares the environment of a row before the first model call. */
  readonly prepare: (row: Row, workspace: string) => Effect.Effect<void, RowRefused>
  /** Prefix of session ids, for batch runs that share a store. Defaults to `batch`. */
  readonly sessionPrefix?: string | undefined
}

/** Reason given for a row that the reasoning filter discards. */
export const noReasoning = "no reasoning in any turn"

/** Returns the name of a row for ids and paths. */
export const formatRowName = ({ id }: Pick<Row, "id">): string =>
  /^[\w.-]{1,64}$/.test(id) && !id.startsWith(".") ? id : `row-${Digest.toHex(id, 16)}`

/** Returns the session id of an attempt at a row. */
export const makeRowSessionId = (row: Row, { number }: Pick<RowPool.Attempt, "number">, prefix = "batch"): SessionId =>
  SessionId.make(`${prefix}-${formatRowName(row)}-${number}`)

/**
 * Decides how a failure is handled. A problem with keys or settings affects all rows; a refused request affects only
 * one row.
 */
export const decideOnFailure = (error: unknown): RowPool.Decision => {
  if (error instanceof RowRefused) return "fail"
  if (error instanceof Outcome.ReportedFailure) return error.isPassing ? "retry" : "fail"
  if (AiError.isAiError(error)) {
    const { _tag: tag } = error.reason
    if (tag === "AuthenticationError" || tag === "QuotaExhaustedError") return "stop"
    return error.isRetryable ? "retry" : "fail"
  }
  if (typeof error !== "object" || error === null || !("_tag" in error)) return "retry"
  if (error._tag === "ConfigError" || error._tag === "SessionStoreError") return "stop"
  return error._tag === "InvalidInput" ||
    error._tag === "InvalidOutput" ||
    error._tag === "CompressionExhausted" ||
    error._tag === "ExecutionBlocked"
    ? "fail"
    : "retry"
}

/** Prepares the working directory of a row. */
const prepareWorkspace = Effect.fnUntraced(function* (
  row: Row,
  { goesOn, number }: RowPool.Attempt,
  { directory }: Options
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const cwd = row.fields["cwd"]
  if (typeof cwd === "string" && cwd !== "") {
    const path = paths.resolve(getWorkingDirectory(), cwd)
    const isThere = yield* Effect.orElseSucceed(
      Effect.map(fs.stat(path), ({ type }) => type === "Directory"),
      () => false
    )
    return isThere ? { path, isOwn: false } : yield* new RowRefused({ message: `cwd ${path} is not a directory` })
  }
  const path = paths.join(directory, "workspaces", `${formatRowName(row)}-${number}`)
  const make = fs.makeDirectory(path, { mode: 0o700 })
  const made = Effect.gen(function* () {
    yield* Effect.catch(make, (error) => {
      if (error.reason._tag === "NotFound") return fs.makeDirectory(path, { recursive: true, mode: 0o700 })
      // A process that died may have left the directory.
      if (error.reason._tag === "AlreadyExists")
        return goesOn ? Effect.void : Effect.andThen(fs.remove(path, { recursive: true, force: true }), make)
      return Effect.fail(error)
    })
    yield* fs.writeFileString(paths.join(path, ownTree), "")
  })
  yield* Effect.mapError(made, ({ message }) => new RowRefused({ message: `no workspace: ${message}` }))
  return { path, isOwn: true }
})

/** Field of a row with the JSON Schema of its value. */
const schemaField = "output_schema"

/** Reads the form of the value of a row. A row whose schema cannot be used is refused before any model call. */
const readOutput = ({ fields }: Row): Effect.Effect<AnswerFormat | undefined, RowRefused> => {
  const schema = fields[schemaField]
  if (schema === undefined || schema === null) return Effect.undefined
  return Effect.flatMap(
    Effect.promise(() => import("../../base/domain/JsonSchemaFormat.ts")),
    ({ readJsonSchema }) =>
      Result.match(readJsonSchema(schema), {
        onFailure: (problem) => Effect.fail(new RowRefused({ message: `${schemaField} ${problem}` })),
        onSuccess: Effect.succeed
      })
  )
}

/** Reads the value of the answer that a session already contains. */
const readStoredValue = (output: AnswerFormat, text: string): Effect.Effect<unknown, RowRefused> =>
  Effect.flatMap(
    Effect.promise(() => import("../../base/domain/AnswerFormat.ts")),
    ({ findJson }) =>
      Effect.mapError(
        output.decode(Option.getOrUndefined(Json.parse(findJson(text) ?? ""))),
        (problem) => new RowRefused({ message: `the stored answer does not fit ${schemaField}: ${problem}` })
      )
  )

/** Outcome of the run of a row. */
interface RowOutcome {
  /** Session that waits for answers, if the run does. */
  readonly suspendedIn?: string | undefined
  /** True if the session already contained the answer. */
  readonly isAnswered: boolean
  /** Value of the answer of a row with a schema. */
  readonly value: unknown
}

/** Runs the agent in the session of an attempt. If an earlier process already began the run, it is resumed. */
const runOrResume = Effect.fnUntraced(function* (
  input: RunInput & { readonly output: AnswerFormat | undefined; readonly sessionId: SessionId }
) {
  const agent = yield* Agent
  const store = yield* SessionStore
  const newest = yield* store.newest(input.sessionId)
  const messages = Option.isSome(yield* store.get(newest)) ? yield* store.messages(newest) : []
  const last = messages.at(-1)
  const isAnswered =
    last?.role === "assistant" &&
    Conversation.listOpenCalls(messages).length === 0 &&
    Conversation.readText(last).trim() !== ""
  const { output } = input
  if (isAnswered) {
    const value = output === undefined ? undefined : yield* readStoredValue(output, Conversation.readText(last))
    const outcome: RowOutcome = { isAnswered, value }
    return outcome
  }
  const expectedSession = { sessionId: newest, messages: messages.length }
  // If the session has no messages, it was created but its run has not begun.
  const run = agent.run({
    ...input,
    expectedSession,
    goesOn: messages.length > 0,
    openCalls: "run",
    onInterrupt: "leave"
  })
  const { exit, sessionId, value } = yield* Effect.catchIf(
    run,
    (error) => error._tag === "InvalidOutput" && error.exit === "suspended",
    // A run that waits has no value of the schema of its row yet.
    () => Effect.map(store.newest(newest), (id) => ({ exit: "suspended" as const, sessionId: id, value: undefined }))
  )
  const outcome: RowOutcome = { isAnswered: false, value }
  return exit === "suspended" ? { ...outcome, suspendedIn: sessionId } : outcome
})

/** Reads the record of a row from the sessions of an attempt. */
const readRowRecord = Effect.fnUntraced(function* (
  sessionId: SessionId,
  about: Omit<RowRecord.RowContext, "systemPrompt">
) {
  const store = yield* SessionStore
  const newest = Option.getOrUndefined(yield* store.get(yield* store.newest(sessionId)))
  const sessions = newest === undefined ? [] : yield* SessionChain.readChain(newest)
  const trees = yield* Effect.forEach(sessions, (session) =>
    Effect.map(StoredRuns.read(session), (tree): RowRecord.SessionTree => ({ sessionId: session.id, tree }))
  )
  return RowRecord.make(trees, { ...about, systemPrompt: Redaction.redactText(sessions[0]?.systemPrompt ?? "") })
})

/**
 * Makes a reporter of model usage. Usage is reported only after its step is stored, so that a limit cannot discard an
 * answer that has been paid for. `rest` reports the remaining usage of an interrupted run.
 */
export const makeUsageReporter = (tell: RowPool.UsageReporter) => {
  let tokens = 0
  let costUsd: number | undefined
  const rest = Effect.suspend(() => {
    const used = { tokens, costUsd }
    tokens = 0
    costUsd = undefined
    return used.tokens === 0 && used.costUsd === undefined ? Effect.void : tell(used)
  })
  const onEvent = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
    for (const event of events) {
      if (event._tag !== "UsageReported") continue
      tokens += Usage.countTotalTokens(event.usage)
      if (event.cost.usd !== null) costUsd = (costUsd ?? 0) + event.cost.usd
    }
    return events.some(({ _tag }) => _tag === "StepFinished") ? rest : Effect.void
  }
  return { onEvent, rest }
}

/** Runs one attempt at a row. `tell` receives the usage of each step. */
export const run = Effect.fnUntraced(function* (
  row: Row,
  attempt: RowPool.Attempt,
  options: Options,
  tell?: RowPool.UsageReporter
) {
  const fs = yield* FileSystem.FileSystem
  const registry = yield* ToolRegistry
  const agent = yield* Agent
  const prompt = Json.readString(row.fields[options.promptField]) ?? ""
  const output = yield* readOutput(row)
  const workspace = yield* prepareWorkspace(row, attempt, options)
  yield* options.prepare(row, workspace.path)
  const toolsets = options.getToolsets(row)
  const sets = yield* registry.list
  const { selection } = Toolsets.choose(toolsets, sets, options.disabledToolsets)
  const sessionId = makeRowSessionId(row, attempt, options.sessionPrefix)
  const told = tell === undefined ? undefined : makeUsageReporter(tell)
  const seed = options.getSeed?.(row)
  const input = {
    prompt,
    output,
    sessionId,
    source: "batch",
    platform: "batch",
    cwd: workspace.path,
    tools: selection,
    maxIterations: options.maxIterations,
    budget: options.budget,
    seed,
    ephemeralSystemPrompt: options.ephemeralSystemPrompt,
    streaming: false,
    readsText: false,
    onEvent: told?.onEvent
  }
  const { isAnswered, suspendedIn, value } = yield* waitForSession(() => runOrResume(input)).pipe(
    Effect.onError(() => told?.rest ?? Effect.void),
    Effect.ensuring(agent.finalize(sessionId, { reason: "session_boundary" }))
  )
  // The usage so far is reported; the workspace stays for the rest of the run.
  if (suspendedIn !== undefined) return RowPool.makeSuspendedResult(suspendedIn)
  const {
    costUsd,
    fields: recorded,
    hasReasoning,
    usage
  } = yield* readRowRecord(sessionId, {
    promptIndex: row.index,
    batch: options.getRowBatch(row),
    prompt,
    toolsets,
    knownTools: options.knownTools,
    at: yield* Clock.currentTimeMillis,
    attempt: attempt.number,
    isAnswered,
    seed,
    ephemeral: options.ephemeralSystemPrompt,
    withAtif: options.withAtif
  })
  if (workspace.isOwn && !options.keepsWorkspaces) {
    yield* Effect.catch(fs.remove(workspace.path, { recursive: true, force: true }), ({ message }) =>
      Effect.logWarning(`batch: the workspace of row ${row.index} stays: ${message}`)
    )
  }
  const fields = output === undefined ? recorded : { ...recorded, value: Redaction.redactValue(value) }
  const used = { costUsd, tokens: Usage.countTotalTokens(usage) }
  return options.needsReasoning && !hasReasoning
    ? RowPool.makeDiscardedResult(noReasoning, fields, used)
    : RowPool.makeFinishedResult(fields, used)
})
