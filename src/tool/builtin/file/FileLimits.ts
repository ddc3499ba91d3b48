/**
 * How much of a file one call of `read_file` gives.
 *
 * Source: `hermes-product.md` §2.3 and §6.
 *
 * @since 0.1.0
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
