// The tools `terminal` and `process` in a temporary directory, called as the runtime calls them.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as TestClock from "effect/testing/TestClock"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import * as ProcessEvents from "../../src/tools/builtin/terminal/ProcessEvents.ts"
import * as ProcessRegistry from "../../src/tools/builtin/terminal/ProcessRegistry.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import { ToolContext } from "../../src/tools/ToolContext.ts"
import { eventually } from "./waiting.ts"

/** A JSON result, open to any question a test may ask. */
export interface Answer {
  readonly isFailure: boolean
  readonly body: Record<string, unknown>
  /** The JSON text that the model sees. */
  readonly text: string
}

export const nodeLayer = CommandEnvironment.layerLocal.pipe(Layer.provideMerge(NodeServices.layer))

export const session = (name: string): SessionId => SessionId.make(name)

/** Whether a process is there and not a zombie. */
export const isAlive = (pid: number): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.readFileString(`/proc/${pid}/stat`).pipe(
      Effect.map((stat) => !stat.slice(stat.lastIndexOf(")")).startsWith(") Z")),
      Effect.orElseSucceed(() => false)
    )
  )

/** Tools bound in the scope: its end is the end of the runtime. */
export const bench = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const dir = yield* fs.realPath(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-terminal-" }))
  const services = yield* Layer.build(Layer.fresh(ProcessRegistry.layer.pipe(Layer.provideMerge(ProcessEvents.layer))))
  const tools = yield* TerminalTools.toolset.bind.pipe(Effect.provideContext(services))
  const events = yield* Effect.provideContext(ProcessEvents.ProcessEvents, services)

  const call = Effect.fnUntraced(function* (
    name: "terminal" | "process",
    params: Record<string, unknown>,
    options: {
      readonly session?: string
      readonly cwd?: string
      readonly onProgress?: (output: unknown) => Effect.Effect<void>
    } = {}
  ) {
    const tool = tools.find((tool) => tool.tool.name === name)
    if (tool === undefined) return yield* Effect.die(`no tool ${name}`)
    const sessionId = session(options.session ?? "s1")
    const result = yield* tool
      .run(params, "call_1", options.onProgress)
      .pipe(
        Effect.provideService(ToolContext, {
          sessionId,
          turnId: TurnId.make("t1"),
          taskId: TaskId.make(sessionId),
          cwd: options.cwd ?? dir
        })
      )
    const text = JSON.stringify(result.output)
    const body: unknown = result.output
    return Predicate.isObject(body)
      ? ({ isFailure: result.isFailure, body: { ...body }, text } satisfies Answer)
      : yield* Effect.die(`${name} did not return an object: ${text}`)
  })

  const at = (name: string): string => path.join(dir, name)

  return {
    dir,
    at,
    call,
    events,
    definitions: tools.map(({ definition }) => definition),
    terminal: (command: string, params: Record<string, unknown> = {}) => call("terminal", { command, ...params }),
    /** Starts a background process and gives its id. */
    start: (command: string, params: Record<string, unknown> = {}) =>
      Effect.map(call("terminal", { command, background: true, ...params }), ({ body }) => String(body["session_id"])),
    process: (action: string, params: Record<string, unknown> = {}) => call("process", { action, ...params }),
    /** Runs a command under `TestClock` until it has printed `ready`, and then lets its time be over. */
    untilTimeout: Effect.fnUntraced(function* (command: string, ready: string, timeout: number) {
      let printed = ""
      const fiber = yield* call(
        "terminal",
        { command, timeout },
        {
          onProgress: (output) =>
            Effect.sync(() => {
              printed = JSON.stringify(output)
            })
        }
      ).pipe(Effect.forkChild)
      yield* eventually(
        `the command prints ${ready}`,
        Effect.map(TestClock.adjust("500 millis"), () => printed.includes(ready))
      )
      return { fiber, progress: printed }
    }),
    /** The pids that a command wrote into a file, once there are `count` of them. */
    pids: Effect.fnUntraced(function* (name: string, count: number) {
      let found: ReadonlyArray<number> = []
      yield* eventually(
        `${count} pids in ${name}`,
        fs.readFileString(at(name)).pipe(
          Effect.orElseSucceed(() => ""),
          Effect.map((text) => {
            found = text.endsWith("\n") ? text.trim().split("\n").map(Number) : []
            return found.length === count
          })
        )
      )
      return found
    }),
    exists: (name: string) => fs.exists(at(name)),
    put: (name: string, content: string) => fs.writeFileString(at(name), content)
  }
})
