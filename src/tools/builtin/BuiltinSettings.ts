/**
 * Settings of the built-in tools. A runtime fills them from its configuration; an application may provide others.
 *
 * **Example** (Shorter reads)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, FileTools, Runtime } from "hermes-effect"
 * import { BuiltinSettings } from "hermes-effect/tools"
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provideService(BuiltinSettings.FileLimits, { chars: 20_000, lines: 500, lineChars: 500 })
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [FileTools.toolset] })))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3 and §6.
 */
import * as Context from "effect/Context"
import type { Exceptions } from "./terminal/StartedProcess.ts"

/** Limits of one call of `read_file`. */
export interface FileLimits {
  /** Maximum number of characters of a read; a larger one is refused (`file_read_max_chars`). */
  readonly chars: number
  /** Maximum number of lines of a read (`tool_output.max_lines`). */
  readonly lines: number
  /** Maximum number of characters of a line; the rest of the line is cut (`tool_output.max_line_length`). */
  readonly lineChars: number
}

/** Limits of one `read_file` call, with the defaults of `hermes-product.md` §6. */
export const FileLimits = Context.Reference<FileLimits>("hermes-effect/tool/builtin/FileLimits", {
  defaultValue: () => ({ chars: 100_000, lines: 2_000, lineChars: 2_000 })
})

/** Settings of `terminal` and `process`. */
export interface TerminalSettings {
  /** Timeout of a foreground command in seconds if the model specifies none (`terminal.timeout`). */
  readonly timeoutSeconds: number
  /** Maximum number of characters of output in a result (`tool_output.max_bytes`). */
  readonly outputChars: number
  readonly environment: Exceptions
}

/** Settings of `terminal` and `process`, with the defaults of `hermes-product.md` §6. */
export const TerminalSettings = Context.Reference<TerminalSettings>("hermes-effect/tool/builtin/TerminalSettings", {
  defaultValue: () => ({ timeoutSeconds: 180, outputChars: 50_000, environment: { passThrough: [], reserved: [] } })
})

/** Settings of `execute_code` scripts. */
export interface CodeSettings {
  /** Working directory of a script: `project` uses the working directory of the call, `strict` an empty directory. */
  readonly mode: "project" | "strict"
  readonly timeoutSeconds: number
  readonly maxToolCalls: number
  readonly environment: Exceptions
}

/** Settings of `execute_code` scripts, with the defaults of `hermes-product.md` §6. */
export const CodeSettings = Context.Reference<CodeSettings>("hermes-effect/tool/CodeSettings", {
  defaultValue: () => ({
    mode: "project",
    timeoutSeconds: 300,
    maxToolCalls: 50,
    environment: { passThrough: [], reserved: [] }
  })
})

/**
 * True if commands in the text of a skill run when the skill is read (`skills.inline_shell`). They are handled like
 * commands of the model, including approvals.
 */
export const InlineShell = Context.Reference<boolean>("hermes-effect/tool/builtin/InlineShell", {
  defaultValue: () => false
})
