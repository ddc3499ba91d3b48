/**
 * The tool `terminal`, which runs a command line in a shell: in the foreground with its output as the result, or in the
 * background under an id that the tool `process` accepts.
 *
 * **Details**
 *
 * The result contains `output`, `exit_code` and `error`, in this order. A command with a nonzero exit code is still a
 * success of the tool. `error` is set, and the call fails, only if no command was run. A command that times out returns
 * its output so far and exit code 124. A command stopped by `StopRequested` returns exit code 130.
 *
 * Checks before a command runs (approvals, dangerous commands) and redaction of its output are not part of the handler:
 * they apply to every tool.
 *
 * **Example** (An agent with a shell)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, TerminalTools } from "hermes-effect"
 *
 * const program = Agent.run({
 *   prompt: "Use the terminal tool exactly once to run 'echo hello'. Then reply with exactly the command output."
 * })
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [TerminalTools.toolset] })))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3.
 */
import type * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import * as Toolset from "../Toolset.ts"
import { Process } from "./terminal/ProcessTool.ts"
import type { ProcessRegistry } from "./terminal/ProcessRegistry.ts"
import { Terminal } from "./terminal/TerminalTool.ts"

export { Parameters, Result, Terminal } from "./terminal/TerminalTool.ts"

/** Toolkit with both tools of the toolset. */
export const toolkit = Toolkit.make(Terminal, Process)

/** Services of the runtime that the handlers need. */
export type Services = CommandEnvironment | ProcessRegistry | ChildProcessSpawner | FileSystem.FileSystem | Path.Path

/** The handlers, which are loaded when the tools are bound. */
const loadHandlers = Effect.promise(() => import("./terminal/TerminalHandlers.ts"))

/** Provides the handlers of {@link toolkit}. */
export const layer: Layer.Layer<
  Tool.HandlersFor<{ readonly terminal: typeof Terminal; readonly process: typeof Process }>,
  never,
  Services
> = Layer.unwrap(Effect.map(loadHandlers, (handlers) => handlers.layer))

/** The toolset `terminal`: the tools `terminal` and `process`. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | ProcessRegistry | Path.Path> = Toolset.fromBound(
  "terminal",
  [Terminal, Process],
  Effect.flatMap(loadHandlers, (handlers) => handlers.toolset.bind)
)
