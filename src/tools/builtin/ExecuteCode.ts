/**
 * The toolset `code_execution`: runs a script that calls tools in a separate process, so that many small steps cost one
 * call.
 *
 * **Details**
 *
 * The script is JavaScript, TypeScript (types are stripped) or Python. Each tool that it may call is a function, and
 * its calls are handled like all other calls of the run. It cannot call itself, `delegate_task` or tools of MCP
 * servers. Its environment contains no credentials, and all processes that it starts are ended with it. Output is
 * limited to {@link stdoutBytes} and {@link stderrBytes}.
 *
 * **Gotchas**
 *
 * The process is not a sandbox: the script may do everything that commands may do here. Without a sandbox it needs
 * approval like a destructive call. If the sandbox blocks a script, the user is asked, and the whole script runs again
 * outside the sandbox. Each tool call that it makes is judged separately.
 *
 * **Example** (An agent that writes scripts)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, FileTools, Runtime } from "hermes-effect"
 * import { ExecuteCode } from "hermes-effect/tools/code"
 *
 * const runtime = Runtime.layer({ tools: [FileTools.toolset, ExecuteCode.toolset] })
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), runtime))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3, case 44.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as ChildProcess from "effect/process/ChildProcess"
import { type ChildProcessHandle, ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { RunsPrograms, Timeout } from "../Annotations.ts"
import * as ChangeRecording from "../ChangeRecording.ts"
import * as Ids from "../../base/domain/Ids.ts"
import { NestedCalls, StopRequested, ToolContext } from "../ToolContext.ts"
import { CommandEnvironment, HostRequests } from "../../places/CommandEnvironment.ts"
import { settlePlanted } from "../approval/PlantedRequests.ts"
import { handleWallStop } from "../approval/SandboxRequests.ts"
import * as Toolset from "../Toolset.ts"
import { CodeSettings } from "./BuiltinSettings.ts"
import * as ScriptBridge from "./ScriptBridge.ts"
import * as Problem from "./file/Problem.ts"
import * as StartedProcess from "./terminal/StartedProcess.ts"
import * as OutputText from "./terminal/OutputText.ts"

/** Maximum number of bytes of standard output for the model: the first and the last bytes. */
export const stdoutBytes = 50_000
/** Maximum number of bytes of standard error for the model. */
export const stderrBytes = 10_000

const drainFor = "500 millis"

const Language = Schema.Literals(["javascript", "typescript", "python"])

/** The tool `execute_code`. */
export const tool = Tool.make("execute_code", {
  description:
    "Runs a script that calls tools, for three or more calls with logic in between, or large outputs of which you " +
    `need little. It has the functions ${ScriptBridge.callable.join(", ")} with the arguments of the tools: ` +
    '`read_file({ path: "a.txt" })`, in Python also `read_file(path="a.txt")`. They return what the tool returns, ' +
    "and throw its errors. Print what you want to see. Limits: 300 s, 50 tool calls, 50 KB of output.",
  parameters: Schema.Struct({
    code: Schema.String,
    language: Schema.optionalKey(Language.annotate({ description: "Default: python" }))
  }),
  success: Schema.Struct({
    status: Schema.Literals(["success", "error", "timeout", "interrupted"]),
    output: Schema.String,
    tool_calls_made: Schema.Natural,
    duration_seconds: Schema.Finite,
    error: Schema.optionalKey(Schema.String),
    /** Reason why a confined environment stopped the script. */
    sandbox_note: Schema.optionalKey(Schema.String),
    set_aside: Schema.optionalKey(Schema.String)
  }),
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(RunsPrograms, true)
  .annotate(Timeout, Duration.infinity)

const files: Readonly<
  Record<typeof Language.Type, { readonly script: string; readonly prelude: string; readonly start: string }>
> = {
  javascript: { script: "script.mjs", prelude: "prelude.mjs", start: ScriptBridge.javascript },
  typescript: { script: "script.mts", prelude: "prelude.mjs", start: ScriptBridge.javascript },
  python: { script: "script.py", prelude: "prelude.py", start: ScriptBridge.python }
}

/** Returns the retained part of an output, with a note about the omitted bytes. */
const renderKeptOutput = (buffer: OutputText.OutputBuffer): string => {
  const { head, omitted, tail } = buffer.kept()
  const decodeText = (bytes: Uint8Array): string => OutputText.stripAnsi(OutputText.decode(bytes))
  return omitted === 0
    ? decodeText(head) + decodeText(tail)
    : `${decodeText(head)}\n[… ${omitted} bytes left out …]\n${decodeText(tail)}`
}

const makeBuffers = () => ({
  stdout: OutputText.make({ head: stdoutBytes * 0.4, tail: stdoutBytes * 0.6 }),
  stderr: OutputText.make({ head: stderrBytes * 0.4, tail: stderrBytes * 0.6 })
})

/** Reports the files that a script changes. */
const recordChanges = <A, E, R>(script: Effect.Effect<A, E, R>) =>
  Effect.flatMap(ToolContext, ({ cwd }) => ChangeRecording.observeCommand(cwd)(script))

/** Writes a script and its prelude to a temporary directory. Returns the command that runs it. */
const writeScript = Effect.fnUntraced(function* (code: string, language: typeof Language.Type, node: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { prelude, script, start } = files[language]
  const directory = yield* fs.makeTempDirectoryScoped({ prefix: "hermes-code-" })
  const [preludePath, scriptPath] = [path.join(directory, prelude), path.join(directory, script)]
  yield* fs.writeFileString(preludePath, start)
  yield* fs.writeFileString(scriptPath, code)
  return language === "python"
    ? { directory, command: "python3", args: [preludePath, scriptPath] }
    : { directory, command: node, args: ["--import", preludePath, scriptPath] }
})

/** Starts the process of a script. It ends with the scope, and so do the processes that it started. */
const startScript = Effect.fnUntraced(function* (
  { args, command, directory }: Effect.Success<ReturnType<typeof writeScript>>,
  language: typeof Language.Type,
  bridge: Effect.Success<ReturnType<typeof ScriptBridge.make>>
) {
  const spawner = yield* ChildProcessSpawner
  const settings = yield* CodeSettings
  const { cwd } = yield* ToolContext
  const mark = yield* Ids.makeHex(12)
  const {
    NODE_OPTIONS: _,
    PYTHONSTARTUP: __,
    ...environment
  } = yield* StartedProcess.inheritEnvironment(settings.environment, mark)
  const handle = yield* spawner
    .spawn(
      ChildProcess.make(command, args, {
        cwd: settings.mode === "strict" ? directory : cwd,
        env: { ...environment, NODE_NO_WARNINGS: "1", PYTHONUNBUFFERED: "1", PYTHONIOENCODING: "utf-8" },
        stdin: "ignore",
        detached: true,
        killSignal: "SIGKILL",
        forceKillAfter: StartedProcess.forceKillAfter,
        additionalFds: { fd3: { type: "output" }, fd4: { type: "input", stream: bridge.answers } }
      })
    )
    .pipe(
      Effect.mapError((error) =>
        error.reason._tag === "NotFound"
          ? new Problem.Problem({
              message: `${command} is not installed`,
              details: { hint: `write the script in ${language === "python" ? "JavaScript" : "Python"}` }
            })
          : error
      )
    )
  yield* Effect.addFinalizer(() =>
    Effect.andThen(StartedProcess.takeDown(handle, "SIGKILL"), StartedProcess.killMarked(mark))
  )
  yield* bridge.serve(handle.getOutputFd(3)).pipe(Effect.ignore, Effect.forkScoped) // broken by the script's end
  return handle
})

/** Waits for the end of a script, and collects its output. */
const awaitScript = Effect.fnUntraced(function* (handle: ChildProcessHandle, seconds: number) {
  const { stderr, stdout } = makeBuffers()
  const collect = (stream: typeof handle.stdout, buffer: OutputText.OutputBuffer) =>
    Stream.runForEach(stream, (chunk) => Effect.sync(() => buffer.push(chunk))).pipe(
      // The pipe broke: the output ends here, but the exit code is still available.
      Effect.ignore,
      Effect.forkScoped
    )
  const readers = [yield* collect(handle.stdout, stdout), yield* collect(handle.stderr, stderr)]
  // A process that was ended by a signal has no exit code.
  const ended = Effect.orElseSucceed(handle.exitCode, () => -1)
  const exit = yield* Effect.raceAllFirst<Effect.Effect<number | "timeout" | "interrupted">>([
    ended,
    Effect.as(Effect.sleep(seconds * 1000), "timeout"),
    Effect.as(yield* StopRequested, "interrupted")
  ])
  // Processes that the script started may still hold the pipes.
  yield* Effect.timeoutOption(Effect.forEach(readers, Fiber.await), drainFor)
  return { exit, output: renderKeptOutput(stdout), errors: renderKeptOutput(stderr).trim() }
})

/** Runs a script to completion. */
const runScript = Effect.fnUntraced(function* (
  { code, language = "python" }: typeof tool.parametersSchema.Type,
  node: string
) {
  if (code.trim() === "") return yield* Problem.fail("the code is empty")
  const settings = yield* CodeSettings
  const bridge = yield* ScriptBridge.make(yield* NestedCalls, settings.maxToolCalls)
  const script = yield* writeScript(code, language, node)
  const started = yield* Clock.currentTimeMillis
  const handle = yield* startScript(script, language, bridge)
  const { errors, exit, output } = yield* awaitScript(handle, settings.timeoutSeconds)
  const duration = (yield* Clock.currentTimeMillis) - started
  const common = { tool_calls_made: bridge.made(), duration_seconds: Math.round(duration / 10) / 100 }
  if (exit === "timeout")
    return { ...common, status: exit, output, error: `the script was ended after ${settings.timeoutSeconds} s` }
  if (exit === "interrupted") return { ...common, status: exit, output, error: "the user stopped the script" }
  if (exit === 0) return { ...common, status: "success" as const, output }
  return {
    ...common,
    status: "error" as const,
    output,
    error: errors === "" ? `the script ended with exit code ${exit}` : errors.replaceAll(script.directory, "")
  }
}, Effect.scoped)

const toolkit = Toolkit.make(tool)

type Needs = ChildProcessSpawner | FileSystem.FileSystem | Path.Path

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const environment = yield* CommandEnvironment
    const services = yield* Effect.context<Needs>()
    const { outside } = environment
    const around =
      outside === undefined
        ? services
        : services.pipe(
            Context.add(ChildProcessSpawner, outside.spawner),
            Context.add(FileSystem.FileSystem, outside.files)
          )
    const execute = Effect.fnUntraced(function* (params: typeof tool.parametersSchema.Type) {
      const ended = yield* recordChanges(runScript(params, environment.node)).pipe(Effect.provideContext(services))
      const result = { ...ended, ...(yield* settlePlanted(environment)) }
      if (result.status !== "error") return result
      const stopped = yield* handleWallStop(
        environment,
        `${result.error}\n${result.output}`,
        (yield* HostRequests)?.refused ?? []
      ).pipe(Effect.provideContext(services))
      if (stopped === undefined) return result
      const { reason, refusal } = stopped
      if (refusal !== undefined) return { ...result, sandbox_note: `${reason}. ${refusal}` }
      const again = yield* recordChanges(runScript(params, environment.node)).pipe(Effect.provideContext(around))
      return {
        ...again,
        sandbox_note: `${reason}: the script was approved to run again outside of it, and this is that result.`
      }
    }, Problem.mapToFailure)
    return { execute_code: execute }
  })
)

const unplaced: Toolset.Toolset<never, Needs | CommandEnvironment> = Toolset.make("code_execution", toolkit, handlers)

/** The toolset `code_execution`. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | Path.Path> = Toolset.inEnvironment(unplaced)
