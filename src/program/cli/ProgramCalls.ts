/**
 * Runs program commands inside a conversation and returns the output (for example, of
 * `hermes config get model.default`) as text. The commands cannot ask questions, and neither command nor output becomes
 * part of the conversation.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import type { ProgramServices } from "./CommandRunner.ts"
import { Output } from "./ProgramOutput.ts"
import * as Paint from "./render/Paint.ts"
import * as SafeText from "./render/SafeText.ts"

/** Result of a program command. */
export interface CalledProgram {
  readonly code: number
  /** All printed text, in order, as lines. */
  readonly text: string
}

/** Runs a command line as the program does, for example `config get model.default`. */
export type ProgramCall = (argv: ReadonlyArray<string>) => Effect.Effect<CalledProgram>

/** Splits an argument into words. Words in quotes are one word. */
export const splitWords = (argument: string): ReadonlyArray<string> =>
  Array.from(
    argument.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g),
    ([, double, single, bare]) => double ?? single ?? bare ?? ""
  )

/** Creates an output that captures the text written by a command. */
const makeCapturingOutput = (printed: { text: string }, columns: number) => {
  const write = (text: string): void => {
    printed.text += SafeText.sanitise(text)
  }
  const sink = { write, terminal: false, paint: Paint.plain }
  return Output.of({
    out: (text) => Effect.sync(() => write(text)),
    err: (text) => Effect.sync(() => write(text)),
    streams: { answer: sink, aside: sink, size: () => ({ columns, rows: 24 }) },
    terminal: { input: false },
    protect: Effect.void,
    masked: Effect.void,
    printOn: () => Effect.void,
    onExit: () => Effect.void
  })
}

/** Creates the function that runs program commands with the services of the calling program. */
export const make = Effect.gen(function* () {
  const context = yield* Effect.context<ProgramServices>()
  const { streams } = yield* Output
  const callProgram: ProgramCall = (argv) =>
    Effect.gen(function* () {
      const { execute } = yield* Effect.promise(() => import("./CommandRunner.ts"))
      const printed = { text: "" }
      return yield* execute(argv).pipe(
        Effect.provideService(Output, makeCapturingOutput(printed, streams.size().columns)),
        Effect.provideContext(context),
        Effect.map((code) => ({ code, text: printed.text.trimEnd() }))
      )
    })
  return callProgram
})
