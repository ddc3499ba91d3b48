/**
 * Output of a command: stdout is the answer and nothing else, stderr is everything said about it.
 *
 * A closed reader (`hermes … | head`) is not an error: later output is dropped, and the work continues to its end. Any
 * other failure (a full disk) is reported in one line, and the exit code is at least 1.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Paint from "./render/Paint.ts"
import type { Streams } from "./render/Screen.ts"
import * as Wrap from "./render/Wrap.ts"

export interface Service {
  /**
   * Text to stdout, without control sequences: nothing that a model or a tool says drives a terminal or the next
   * program's.
   */
  readonly out: (text: string) => Effect.Effect<void>
  /** Text to stderr, the same. */
  readonly err: (text: string) => Effect.Effect<void>
  /** The same two streams as they are, for a screen that draws on them and for a protocol. */
  readonly streams: Streams
  readonly terminal: {
    /** True if stdin is interactive. */
    readonly input: boolean
    /** Kind of a non-interactive stdin that may contain input; absent for a terminal, a device or a closed stdin. */
    readonly piped?: "file" | "pipe" | "socket" | undefined
  }
  /**
   * As long as the scope lives, whatever else in this process prints to stdout goes to stderr, without secrets:
   * plugins, libraries. The program does it wherever it makes a runtime; a command that wants it earlier does it
   * itself.
   */
  readonly protect: Effect.Effect<void, never, Scope.Scope>
  /** The same, but what is printed to stdout stays there: it is the answer of a plugin's command. */
  readonly masked: Effect.Effect<void, never, Scope.Scope>
  /**
   * As long as the scope lives, what {@link protect} sends to stderr is given to a screen instead, masked, in pieces of
   * any cut.
   */
  readonly printOn: (show: (text: string) => void) => Effect.Effect<void, never, Scope.Scope>
  /**
   * As long as the scope lives, calls `last` when the process ends in the middle of the work: a signal that nothing
   * reacted to in time, a plugin that ends the process. It writes at once, and returns the exit code.
   */
  readonly onExit: (last: (code: number) => number) => Effect.Effect<void, never, Scope.Scope>
}

export class Output extends Context.Service<Output, Service>()("hermes-effect/cli/Output") {}

/** A line to stdout. */
export const printLine = (text: string): Effect.Effect<void, never, Output> => Output.use(({ out }) => out(`${text}\n`))

/** Lines of cells side by side, each column as wide as its widest cell. */
export const renderTable = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const measureColumn = (column: number): number => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  const widths = rows[0]?.map((_, column) => measureColumn(column)) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

/** A text as lines of stderr: on a terminal they are broken between words. */
const wrapText = ({ streams: { aside, size } }: Service, text: string): string =>
  aside.terminal
    ? text
        .split("\n")
        .flatMap((line) => Wrap.wrapLines([{ text: line, style: Paint.plainStyle }], size().columns - 1, Paint.plain))
        .map((line) => `${line}\n`)
        .join("")
    : `${text}\n`

/** A line to stderr. */
export const printNote = (text: string): Effect.Effect<void, never, Output> =>
  Output.use((output) => output.err(wrapText(output, text)))

/** Warnings to stderr, a line each. */
export const printWarnings = (warnings: ReadonlyArray<string>): Effect.Effect<void, never, Output> =>
  warnings.length === 0
    ? Effect.void
    : Output.use((output) => output.err(warnings.map((warning) => wrapText(output, `Warning: ${warning}`)).join("")))
