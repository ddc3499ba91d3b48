/**
 * Output of a command: stdout contains only the answer, and stderr contains all other messages.
 *
 * A closed reader (`hermes … | head`) is not an error: later output is dropped, and the work continues to its end.
 * Any other failure (a full disk) is reported in one line, and the exit code is at least 1.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Paint from "./render/Paint.ts"
import * as SafeText from "./render/SafeText.ts"
import type { Streams } from "./render/Screen.ts"
import * as Width from "./render/Width.ts"
import * as Wrap from "./render/Wrap.ts"

/** The output streams of the program. */
export interface Service {
  /** Writes text to stdout without control sequences, so that output of a model or a tool cannot control a terminal. */
  readonly out: (text: string) => Effect.Effect<void>
  /** Writes text to stderr without control sequences. */
  readonly err: (text: string) => Effect.Effect<void>
  /** The same two streams without filtering, for a screen that draws on them and for a protocol. */
  readonly streams: Streams
  /** Returns when the reader of stdout is gone, which the next write notices. Absent if the reader cannot leave. */
  readonly readerGone?: Effect.Effect<void> | undefined
  readonly terminal: {
    /** True if stdin is interactive. */
    readonly input: boolean
    /**
     * Kind of a non-interactive stdin that may contain input; `undefined` for a terminal, a device or a closed stdin.
     */
    readonly piped?: "file" | "pipe" | "socket" | undefined
  }
  /**
   * Redirects all other stdout output in this process (from plugins and libraries) to stderr, without secrets, until
   * the scope closes. The program does this when it creates a runtime; a command that needs it earlier does it itself.
   */
  readonly protect: Effect.Effect<void, never, Scope.Scope>
  /**
   * Like {@link protect}, but text printed to stdout remains on stdout, because it is the answer of a plugin's command.
   */
  readonly masked: Effect.Effect<void, never, Scope.Scope>
  /**
   * Until the scope closes, shows the text that {@link protect} redirects on a screen instead of stderr. The text is
   * masked, and split at arbitrary positions.
   */
  readonly printOn: (show: (text: string) => void) => Effect.Effect<void, never, Scope.Scope>
  /**
   * Calls `last` if the process ends in the middle of the work, because of an unhandled signal or a plugin that ends
   * the process. Applies until the scope closes. `last` writes synchronously and returns the exit code.
   */
  readonly onExit: (last: (code: number) => number) => Effect.Effect<void, never, Scope.Scope>
}

/** The service of the program's output. A command never writes to `process.stdout` itself. */
export class Output extends Context.Service<Output, Service>()("hermes-effect/cli/Output") {}

/** Prints a line to stdout. */
export const printLine = (text: string): Effect.Effect<void, never, Output> => Output.use(({ out }) => out(`${text}\n`))

/**
 * Prints JSON to stdout: on a terminal with harmful characters escaped, otherwise unchanged, as in a file. `text` ends
 * with a line feed.
 */
export const printJson = (text: string): Effect.Effect<void, never, Output> =>
  Output.use(({ out, streams: { answer } }) =>
    answer.terminal ? out(SafeText.escapeJson(text)) : Effect.sync(() => answer.write(text))
  )

/** Prints a document to stdout: on a terminal without control sequences, otherwise unchanged, as in a file. */
export const printDocument = (text: string): Effect.Effect<void, never, Output> =>
  Output.use(({ out, streams: { answer } }) => (answer.terminal ? out(text) : Effect.sync(() => answer.write(text))))

/** Renders rows of cells as lines, with each column as wide as its widest cell. */
export const renderTable = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const measureColumn = (column: number): number => Math.max(...rows.map((row) => Width.measure(row[column] ?? "")))
  const widths = rows[0]?.map((_, column) => measureColumn(column)) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, column) => Width.pad(cell, widths[column] ?? 0))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

/** Formats text as lines for stderr. On a terminal, lines are wrapped between words. */
const wrapText = ({ streams: { aside, size } }: Service, text: string): string =>
  aside.terminal
    ? text
        .split("\n")
        .flatMap((line) => Wrap.wrapLines([{ text: line, style: Paint.plainStyle }], size().columns - 1, Paint.plain))
        .map((line) => `${line}\n`)
        .join("")
    : `${text}\n`

/** Prints a line to stderr. */
export const printNote = (text: string): Effect.Effect<void, never, Output> =>
  Output.use((output) => output.err(wrapText(output, text)))

/** Prints warnings to stderr, one line each. */
export const printWarnings = (warnings: ReadonlyArray<string>): Effect.Effect<void, never, Output> =>
  warnings.length === 0
    ? Effect.void
    : Output.use((output) => output.err(warnings.map((warning) => wrapText(output, `Warning: ${warning}`)).join("")))
