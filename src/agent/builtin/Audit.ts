/**
 * Writes an entry before and after each model call and each tool call. If the first entry of a call cannot be written,
 * the call does not run: the middleware fails closed.
 *
 * **Details**
 *
 * Entries come in pairs with one `id`: `begin`, then `end` with its status, also for a call that fails or is
 * interrupted. Entries contain no conversation. A model call has the number of messages and the route that answered. A
 * tool call has its name and its final arguments, without secrets and cut at 2,000 characters.
 *
 * In settings files its name is `audit`, with `file_path`: each entry is appended to that file as a line of JSON with
 * snake_case keys. Only its owner can read a new file.
 *
 * **Gotchas**
 *
 * Put it first in the list to record the calls before other middleware changes or vetoes them. Put it last to record
 * the calls that really run. Use hooks (`Hooks.on`) to observe without delaying a run, and `RunRecord` for everything
 * that happened.
 *
 * **Example** (An entry for each call)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, FileTools, Runtime } from "hermes-effect"
 * import { Audit } from "hermes-effect/middleware"
 *
 * const audit = Audit.make({ write: (entry) => Effect.sync(() => console.log(entry.kind, entry.phase, entry.name)) })
 *
 * await Effect.runPromise(Effect.provide(
 *   Agent.run({ prompt: "Read the file package.json" }),
 *   Runtime.layer({ tools: [FileTools.toolset], middleware: [audit] })
 * ))
 * // => model_call begin model
 * // => model_call end offline
 * // => tool_call begin read_file
 * // => tool_call end read_file
 * // => model_call begin model
 * // => model_call end offline
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import * as Parameters from "./Parameters.ts"

/** An audit entry. Times are milliseconds since 1970. */
export interface Entry {
  readonly kind: "model_call" | "tool_call"
  readonly phase: "begin" | "end"
  /** Id that is the same in both entries of a call. */
  readonly id: string
  readonly at: number
  readonly sessionId: string
  readonly turnId: string
  /** Name of the tool. For a model call, `model` before the call and the model that answered after it. */
  readonly name: string
  /** Arguments of a tool as JSON, or `N messages` for a model call. */
  readonly input: string
  /** Name of the side task, for a model call that is not a step of the run. */
  readonly task?: string | undefined
  /** Status of the call, only in an `end` entry. */
  readonly status?: "ok" | "failed" | "interrupted" | undefined
  /** Failure of the call, in one line. */
  readonly error?: string | undefined
}

/** Options of the middleware. `R` is the services that `write` requires. */
export interface Options<R> {
  readonly write: (entry: Entry) => Effect.Effect<unknown, unknown, R>
}

const longest = 2_000

const oneLine = (text: string): string => Redaction.redactStart(text, longest).replaceAll(/\s+/g, " ")

/** Fields that are the same in both entries of a call. */
type Call = Pick<Entry, "kind" | "id" | "sessionId" | "turnId" | "input" | "task">

const auditCall = <A, E, R, R2>(
  write: (entry: Entry) => Effect.Effect<unknown, unknown, R2>,
  call: Call,
  name: string,
  run: Effect.Effect<A, E, R>,
  getName: (value: A) => string
): Effect.Effect<A, E, R | R2> => {
  // A failed write is a defect, because the middleware fails closed.
  const writeEntry = (more: Pick<Entry, "phase" | "name" | "status" | "error">) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) => Effect.orDie(write({ ...call, ...more, at })))
  return Effect.andThen(
    writeEntry({ phase: "begin", name }),
    Effect.onExit(run, (exit) =>
      Exit.isSuccess(exit)
        ? writeEntry({ phase: "end", name: getName(exit.value), status: "ok" })
        : Exit.hasInterrupts(exit)
          ? writeEntry({ phase: "end", name, status: "interrupted" })
          : writeEntry({
              phase: "end",
              name,
              status: "failed",
              error: oneLine(Faults.describeError(Exit.isFailure(exit) ? exit.cause : undefined))
            })
    )
  )
}

/** Creates the middleware. */
export const make = <R = never>({ write }: Options<R>): Middleware.LifecycleMiddleware<never, never, R> => {
  let calls = 0
  return Middleware.lifecycle({
    name: "Audit",
    onFailure: "closed",
    wrapModelCall:
      (next, { sessionId, task, turnId }) =>
      (params) =>
        auditCall(
          write,
          {
            kind: "model_call",
            id: `${turnId}:${++calls}`,
            sessionId,
            turnId,
            input: `${params.call.messages.length} messages`,
            ...(task === undefined ? {} : { task })
          },
          "model",
          next(params),
          ({ route }) => route.model
        ),
    wrapToolCall:
      (next, { sessionId, toolCallId, toolName, turnId }) =>
      (args) =>
        auditCall(
          write,
          {
            kind: "tool_call",
            id: toolCallId,
            sessionId,
            turnId,
            input: oneLine(Json.toText(Redaction.redactValue(args)))
          },
          toolName,
          next(args),
          () => toolName
        )
  })
}

const Params = Schema.Struct({ filePath: Schema.NonEmptyString })

/** Appends entries to a file. Its directory is created if it does not exist. */
const appendTo =
  (path: string) =>
  ({ sessionId, turnId, ...entry }: Entry): Effect.Effect<void, unknown> =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const paths = yield* Path.Path
      const line = `${JSON.stringify({ ...entry, session_id: sessionId, turn_id: turnId })}\n`
      const append = fs.writeFileString(path, line, { flag: "a", mode: 0o600 })
      yield* Effect.catchIf(
        append,
        ({ reason }) => reason._tag === "NotFound",
        () => Effect.andThen(fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 }), append)
      )
    }).pipe(Effect.provide(ChildProcesses.layerDefault()))

/** Creates the middleware from unvalidated parameters: `file_path`. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("audit", Params, parameters), ({ filePath }) => make({ write: appendTo(filePath) }))
