/**
 * Runs the program of an MCP server. `UserPrograms` starts it with a filtered environment. Messages are lines of JSON,
 * and closing the scope terminates the program with all processes that it started.
 *
 * **Details**
 *
 * A message of more than {@link maxMessageBytes} is discarded while it arrives, and its request gets an error instead;
 * the connection remains open. Other output lines are tolerated, but the connection ends after {@link maxStrayLines}
 * such lines before the first message.
 *
 * Closing ends the program's input and waits briefly for it to exit. Then its process group receives SIGTERM, and
 * remaining processes receive SIGKILL.
 *
 * **Gotchas**
 *
 * The program receives only a few common variables and the variables in its own configuration, and no provider key.
 *
 * Source: `hermes-product.md` §2.4.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessHandle, ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Json from "../../base/domain/Json.ts"
import { applyForced } from "../../base/domain/CredentialNames.ts"
import { CallDirectory } from "../../base/domain/CallContext.ts"
import { UserPrograms } from "../../base/config/UserPrograms.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import * as StartedProcess from "../builtin/terminal/StartedProcess.ts"
import * as Framing from "./Framing.ts"
import { McpError, toOneLine, type Reason } from "./McpConnection.ts"
import type { Stdio } from "./ServerConfig.ts"

/** Maximum size of one message, in bytes. */
export const maxMessageBytes = 10 * 1024 * 1024

const maxStrayLines = 20
const stderrChars = 2000
const leaveAfter = "500 millis"

/** Listeners for the output of the program. */
interface Listener {
  readonly message: (message: unknown) => void
  readonly closed: (error: McpError) => void
}

/** Pipe to the running program of an MCP server. */
interface Pipe {
  readonly pid: number
  readonly send: (message: unknown) => void
}

const inherited = new RegExp(
  String.raw`^(?:PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|TZ|TMPDIR|TEMP|TMP|XDG_\w+|USERPROFILE|APPDATA|` +
    "LOCALAPPDATA|SYSTEMROOT|SYSTEMDRIVE|COMSPEC|PATHEXT)$",
  "i"
)

/** Builds the environment variables of a server's program. Pure. */
export const buildEnvironment = (
  own: Stdio["env"],
  environment: Readonly<Record<string, string | undefined>>
): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    // An exported shell function is code that the program's own shell would run.
    if (value !== undefined && inherited.test(name) && !value.startsWith("()")) out[name] = value
  }
  for (const [name, value] of Object.entries(applyForced(own))) out[name] = Redacted.value(value)
  return out
}

const toStartFailure = (server: string, command: string, error: PlatformError): McpError =>
  new McpError({
    server,
    reason: "start",
    message:
      error.reason._tag === "NotFound"
        ? `MCP server "${server}": program "${command}" not found: install it, or correct mcp_servers.${server}.command`
        : `MCP server "${server}" could not be started: ${toOneLine(error.message)}`,
    cause: error
  })

/** Reads the fields of a message that are needed to track open requests. */
const readId = (message: unknown): { readonly id: unknown; readonly isRequest: boolean } =>
  typeof message === "object" && message !== null && "id" in message
    ? { id: message.id, isRequest: "method" in message }
    : { id: undefined, isRequest: false }

const isMessage = (value: unknown): boolean => typeof value === "object" && value !== null && "jsonrpc" in value

const makeTooLargeError = (id: unknown): unknown => ({
  jsonrpc: "2.0",
  id,
  error: {
    code: -32603,
    message: `the answer is larger than ${maxMessageBytes / 1024 / 1024} MB and was not kept: request less`
  }
})

/** Creates the reader, which splits bytes into messages and stray lines. */
const makeReader = (listener: Pick<Listener, "message">, open: Set<unknown>, stray: (line: string) => void) => {
  const frame = Framing.make(maxMessageBytes)
  const handleMessage = (message: unknown): void => {
    const { id, isRequest } = readId(message)
    if (!isRequest) open.delete(id)
    listener.message(message)
  }
  return (chunk: Uint8Array): void => {
    for (const line of frame(chunk)) {
      if (line._tag === "TooLong") {
        const id = Framing.readAnsweredId(line)
        // If the request cannot be identified, all open requests fail, so that none of them waits forever.
        for (const lost of id !== undefined && open.has(id) ? [id] : [...open]) handleMessage(makeTooLargeError(lost))
        continue
      }
      const message = Option.getOrUndefined(Json.parse(line.text))
      if (isMessage(message)) handleMessage(message)
      else if (line.text.trim() !== "") stray(line.text)
    }
  }
}

/** Starts the process of a server. It ends with the scope. */
const startProgram = Effect.fnUntraced(function* (
  server: string,
  { args, command, cwd, env, sandbox }: Stdio,
  input: Queue.Queue<Uint8Array, Cause.Done>
): Effect.fn.Return<ChildProcessHandle, McpError, ChildProcessSpawner | FileSystem.FileSystem | Scope.Scope> {
  const setting = `mcp_servers.${server}`
  const { at, spawner } = yield* Effect.gen(function* () {
    const programs = yield* UserPrograms
    if (cwd === undefined) yield* programs.admit(setting, [command, ...args])
    return {
      at: cwd ?? (yield* programs.startDirectory),
      spawner: yield* programs.getSpawner(`${setting}.sandbox`, sandbox)
    }
  }).pipe(Effect.mapError(({ message }) => new McpError({ server, reason: "config", message })))
  const fs = yield* FileSystem.FileSystem
  // The user named the program. A program with a bare name is not taken from the working tree, where a command may have
  // put it.
  const environment = yield* TrustedPrograms.safeEnvironment
  const handle = yield* spawner
    .spawn(
      ChildProcess.make(command, args, {
        cwd: at,
        env: buildEnvironment(env, environment()),
        stdin: Stream.fromQueue(input),
        detached: true,
        killSignal: "SIGTERM",
        forceKillAfter: StartedProcess.forceKillAfter
      })
    )
    .pipe(
      Effect.provideService(CallDirectory, at),
      Effect.mapError((error) => toStartFailure(server, command, error))
    )
  const leave = Effect.andThen(Queue.end(input), Effect.timeoutOption(Effect.exit(handle.exitCode), leaveAfter))
  yield* Effect.addFinalizer(() =>
    Effect.provideService(StartedProcess.takeDown(handle, "SIGTERM", leave), FileSystem.FileSystem, fs)
  )
  return handle
})

/** A program that speaks the protocol, and its output so far. */
interface SpeakingProgram {
  readonly server: string
  readonly listener: Listener
  /** End of the error output. */
  errors: string
  /** Number of lines that are not messages. */
  strays: number
  hasSpoken: boolean
  isClosed: boolean
}

/** Reports the end of a connection, once. */
const reportClose = (program: SpeakingProgram, reason: Reason, what: string): void => {
  if (program.isClosed) return
  program.isClosed = true
  const { listener, server } = program
  const errors = program.errors.trim()
  const said = errors === "" ? "" : `: ${toOneLine(errors.slice(-400))}`
  listener.closed(new McpError({ server, reason, message: `MCP server "${server}" ${what}${said}` }))
}

const noteMessage = (program: SpeakingProgram, message: Parameters<Listener["message"]>[0]): void => {
  program.hasSpoken = true
  if (!program.isClosed) program.listener.message(message)
}

/** Notes a line that is not a message. A program that only sends such lines does not speak the protocol. */
const noteStray = (program: SpeakingProgram, line: string): void => {
  program.strays++
  if (!program.hasSpoken && program.strays >= maxStrayLines)
    reportClose(program, "protocol", `does not speak MCP; it said ${JSON.stringify(toOneLine(line))}`)
}

/** Reads the output of a program in the background. Reports its end. */
const followProgram = Effect.fnUntraced(function* (
  program: SpeakingProgram,
  { stderr, stdout }: ChildProcessHandle,
  requests: Set<unknown>
) {
  const decoder = new TextDecoder()
  const read = makeReader({ message: (message) => noteMessage(program, message) }, requests, (line) =>
    noteStray(program, line)
  )
  const errors = yield* Stream.runForEach(stderr, (chunk) =>
    Effect.sync(() => {
      program.errors = (program.errors + decoder.decode(chunk, { stream: true })).slice(-stderrChars)
    })
  ).pipe(Effect.ignore, Effect.forkScoped) // a broken pipe is an end like any other
  yield* Stream.runForEach(stdout, (chunk) => Effect.sync(() => read(chunk))).pipe(
    Effect.ignore,
    // Error output that the program wrote before it exited may still arrive.
    Effect.andThen(Effect.timeoutOption(Fiber.await(errors), leaveAfter)),
    Effect.andThen(Effect.sync(() => reportClose(program, "closed", "went away"))),
    Effect.forkScoped
  )
})

/** Starts the program in the scope. */
export const open = Effect.fnUntraced(function* (
  server: string,
  stdio: Stdio,
  listener: Listener
): Effect.fn.Return<Pipe, McpError, ChildProcessSpawner | FileSystem.FileSystem | Scope.Scope> {
  const input = yield* Queue.unbounded<Uint8Array, Cause.Done>()
  const handle = yield* startProgram(server, stdio, input)
  const requests = new Set<unknown>()
  yield* followProgram({ server, listener, errors: "", strays: 0, hasSpoken: false, isClosed: false }, handle, requests)
  const encoder = new TextEncoder()
  return {
    pid: handle.pid,
    send: (message) => {
      const { id, isRequest } = readId(message)
      if (isRequest) requests.add(id)
      Queue.offerUnsafe(input, encoder.encode(`${JSON.stringify(message)}\n`))
    }
  }
})
