/**
 * Runs the program of a shell hook, started by `UserPrograms`: without a shell, in a separate process group, without
 * credentials in its environment, and never longer than its timeout. The program receives one JSON object on its
 * standard input, and may print one.
 *
 * **Details**
 *
 * Input: `hook_event_name`, `tool_name`, `tool_input`, `session_id`, `cwd`, and every other field of the event in
 * `extra`. Output of `pre_tool_call`: `{ "action": "block", "message": … }` or `{ "decision": "block", "reason": … }`;
 * of any other event: `{ "context": … }`. All other output is ignored.
 *
 * At the timeout, or when the run is interrupted, the process group is asked to stop and is killed a second later. The
 * same applies to processes that the program left running in its group. A process that leaves the group is not stopped.
 *
 * **Gotchas**
 *
 * Only the first megabyte of the output is retained. The rest is read and discarded, so that the program does not hang.
 *
 * Source: `hermes-contract.md` §3.7, `hermes-llm.md` §19.10.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as PlatformError from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Stream from "effect/Stream"
import { isSecretName } from "../base/domain/CredentialNames.ts"
import * as Json from "../base/domain/Json.ts"
import * as Redaction from "../base/domain/Redaction.ts"
import { CallDirectory } from "../base/domain/CallContext.ts"
import { UserPrograms } from "../base/config/UserPrograms.ts"
import { HiddenVariables } from "../base/platform/ProcessVariables.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import type { Block, HookName } from "./Payloads.ts"
import { type Row, table } from "./PayloadTable.ts"
import { observerVersion } from "../base/domain/Version.ts"
import type { ShellHook } from "./ShellHookConfig.ts"

/** Environment in which hook programs run. */
export interface Surroundings {
  readonly cwd: string
  /**
   * Environment of this program. Child programs do not receive its hidden variables or variables whose names suggest a
   * secret.
   */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Outcome of a program. */
export type ProgramOutcome =
  | {
      readonly _tag: "Exited"
      /** Exit code, absent if a signal ended the program. */
      readonly exitCode: number | undefined
      readonly stdout: string
      readonly stderr: string
      readonly millis: number
    }
  | { readonly _tag: "TimedOut"; readonly seconds: number }
  | { readonly _tag: "NotStarted"; readonly message: string }

/**
 * Splits a command line into words by the quoting rules of a POSIX shell, without variables, globs or operators.
 * Returns `undefined` if a quote is not closed.
 */
export const splitWords = (line: string): ReadonlyArray<string> | undefined => {
  const out: Array<string> = []
  let word: string | undefined
  let quote = ""
  for (let i = 0; i < line.length; i++) {
    const char = line.charAt(i)
    if (quote === "'") {
      if (char === "'") quote = ""
      else word += char
    } else if (char === "\\" && (quote === "" || /["\\$`]/.test(line.charAt(i + 1)))) {
      if (i + 1 === line.length) return undefined
      word = (word ?? "") + line.charAt(++i)
    } else if (quote === '"') {
      if (char === '"') quote = ""
      else word += char
    } else if (char === "'" || char === '"') {
      quote = char
      word ??= ""
    } else if (/\s/.test(char)) {
      if (word !== undefined) out.push(word)
      word = undefined
    } else {
      word = (word ?? "") + char
    }
  }
  if (quote !== "") return undefined
  if (word !== undefined) out.push(word)
  return out
}

/** Returns the words with a leading `~` replaced by the user's home directory. */
export const expandHome = (line: string, home: string | undefined): ReadonlyArray<string> | undefined =>
  splitWords(line)?.map((word) => (home !== undefined && /^~(?:\/|$)/.test(word) ? home + word.slice(1) : word))

const keptBytes = 1_048_576

/** Creates a collector whose partial output is available even if the stream never ends. */
const makeOutputCollector = (stream: Stream.Stream<Uint8Array, PlatformError.PlatformError>) => {
  const decoder = new TextDecoder()
  let text = ""
  let room = keptBytes
  return {
    text: () => text,
    run: Stream.runForEach(stream, (chunk) =>
      Effect.sync(() => {
        if (room > 0) text += decoder.decode(chunk.subarray(0, room), { stream: true })
        room -= chunk.length
      })
    )
  }
}

/** Selects the environment variables for a hook's program. */
const filterEnvironment = (
  environment: Readonly<Record<string, string | undefined>>,
  isHidden: (name: string) => boolean = () => false
): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined || Redaction.isSensitiveKey(name) || isSecretName(name) || isHidden(name)) continue
    out[name] = value
  }
  return out
}

/** Returns the program and its arguments, or `undefined` if the command cannot be parsed. */
export const parseCommand = (
  command: string,
  environment: Readonly<Record<string, string | undefined>>
): readonly [string, ...Array<string>] | undefined => {
  const [program, ...rest] = expandHome(command, environment["HOME"]) ?? []
  return program === undefined ? undefined : [program, ...rest]
}

/** Runs a hook on an input. Never fails: errors are part of the result. */
export const runProgram = (
  hook: ShellHook,
  input: string,
  { cwd, environment }: Surroundings
): Effect.Effect<ProgramOutcome, never, ChildProcessSpawner> =>
  Effect.gen(function* () {
    const argv = parseCommand(hook.command, environment)
    if (argv === undefined) return makeNotStarted("the command cannot be read: is a quote missing?")
    const [program, ...args] = argv
    const programs = yield* UserPrograms
    yield* programs.admit(`hooks.${hook.event}`, argv)
    const spawner = yield* programs.getSpawner(`hooks.${hook.event}.sandbox`, hook.sandbox)
    const started = yield* Clock.currentTimeMillis
    const handle = yield* spawner
      .spawn(
        ChildProcess.make(program, args, {
          cwd,
          // The user named the program. A bare name is not resolved in the working tree, where a command may have
          // placed a program.
          env: {
            ...filterEnvironment(environment, (yield* HiddenVariables).isHidden),
            PATH: yield* TrustedPrograms.safePath
          },
          stdin: Stream.make(new TextEncoder().encode(input)),
          forceKillAfter: "1 second"
        })
      )
      .pipe(Effect.provideService(CallDirectory, cwd))
    const stdout = makeOutputCollector(handle.stdout)
    const stderr = makeOutputCollector(handle.stderr)
    const reading = yield* Effect.forkScoped(Effect.all([stdout.run, stderr.run], { concurrency: 2, discard: true }))
    const exitCode = yield* Effect.option(handle.exitCode)
    // The output ends with the program, unless a process that it started still holds the stream open.
    yield* Effect.timeoutOption(Fiber.await(reading), "1 second")
    return {
      _tag: "Exited",
      exitCode: Option.getOrUndefined(exitCode),
      stdout: stdout.text(),
      stderr: stderr.text(),
      millis: (yield* Clock.currentTimeMillis) - started
    } as const
  }).pipe(
    Effect.catchTag(["ConfigError", "PlatformError"], (error) => Effect.succeed(makeNotStarted(error.message))),
    Effect.scoped,
    Effect.timeoutOption(`${hook.timeoutSeconds} seconds`),
    Effect.map(Option.getOrElse((): ProgramOutcome => ({ _tag: "TimedOut", seconds: hook.timeoutSeconds })))
  )

const makeNotStarted = (message: string): ProgramOutcome => ({ _tag: "NotStarted", message })

/** Default reason of a block. */
const defaultMessage = "Blocked by shell hook."

const readTextOr = <A>(value: unknown, other: A): string | A =>
  typeof value === "string" && value.trim() !== "" ? value : other

/** Formats the JSON text for the standard input. */
export const formatInput = (event: HookName, payload: object, cwd: string): string => {
  const { args, session_id, tool_name, ...extra }: Record<string, unknown> = { ...payload }
  return JSON.stringify({
    hook_event_name: event,
    tool_name: tool_name ?? null,
    tool_input: Predicate.isObject(args) ? args : null,
    session_id: readTextOr(session_id, readTextOr(extra["parent_session_id"], "")),
    cwd,
    extra
  })
}

/** Output of a hook: a directive, a context, or nothing. */
export type Directive = Block | { readonly context: string } | undefined

/** Parses the standard output. */
export const readDirective = (event: HookName, text: string): Directive => {
  const said = Option.getOrUndefined(Json.parse(text))
  if (!Predicate.isObject(said)) return undefined
  if (event !== "pre_tool_call") {
    const context = readTextOr(said["context"], undefined)
    return context === undefined ? undefined : { context }
  }
  if (said["action"] === "block") return { action: "block", message: readTextOr(said["message"], defaultMessage) }
  if (said["decision"] === "block") return { action: "block", message: readTextOr(said["reason"], defaultMessage) }
  return undefined
}

/** Creates a realistic sample event for trying out a hook. `overrides` replace fields of the sample. */
export const makeSampleEvent = (
  event: HookName,
  toolName: string,
  overrides: Readonly<Record<string, unknown>>
): Readonly<Record<string, unknown>> => {
  const row: Row = table[event]
  return {
    telemetry_schema_version: observerVersion,
    session_id: "test-session",
    task_id: "test-task",
    turn_id: "test-turn",
    ...(row.sample !== undefined && "tool_call_id" in row.sample ? { tool_name: toolName } : {}),
    ...row.sample,
    ...overrides
  }
}
