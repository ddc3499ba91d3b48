/**
 * Limits of one call of `read_file`.
 *
 * **Example** (Shorter reads)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, FileLimits, Files, Runtime } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provideService(FileLimits.FileLimits, { chars: 20_000, lines: 500, lineChars: 500 })
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [Files.toolset] })))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3 and §6.
 */
import * as Context from "effect/Context"

/** See {@link FileLimits}. */
export interface Limits {
  /** Characters of a window; a larger one is refused (`file_read_max_chars`). */
  readonly chars: number
  /** Lines of a window (`tool_output.max_lines`). */
  readonly lines: number
  /** Characters of a line; the rest of it is cut (`tool_output.max_line_length`). */
  readonly lineChars: number
}

/** The limits of a runtime; the defaults are those of `hermes-product.md` §6. */
export const FileLimits = Context.Reference<Limits>("hermes-effect/tool/builtin/FileLimits", {
  defaultValue: () => ({ chars: 100_000, lines: 2_000, lineChars: 2_000 })
})
