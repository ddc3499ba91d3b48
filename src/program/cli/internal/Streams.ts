/**
 * stdout and stderr of this process. A closed reader is not an error; its output is dropped. A full disk is an error:
 * it is reported in one line, and later output is dropped.
 */
import * as Effect from "effect/Effect"
import type { Service } from "../ProgramOutput.ts"
import { redactText } from "../../../base/domain/Redaction.ts"
import * as RedactionStream from "../../../base/domain/RedactionStream.ts"
import type { Registry } from "../../../base/domain/Secrets.ts"
import * as PathProblem from "../../../base/domain/PathProblem.ts"
import * as CurrentProcess from "../../../base/platform/CurrentProcess.ts"
import { guard, getStdinKind } from "../../../base/platform/StandardStreams.ts"
import * as ErrorLine from "../ErrorLine.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Paint from "../render/Paint.ts"
import * as Theme from "../render/Theme.ts"

/** Returns true for a broken pipe or a closed terminal. */
const isGone = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "EPIPE" || error.code === "EIO")

const describeReason = (error: unknown): string =>
  PathProblem.describeCode(error) ?? (error instanceof Error ? error.message : String(error))

interface Streams {
  readonly output: Service
  /** Writes a line to stderr synchronously. */
  readonly say: (text: string) => void
  /** Waits until all output is written. Returns false if some output could not be written. */
  readonly flushed: () => Promise<boolean>
}

const makeSink = (stream: NodeJS.WriteStream, write: (text: string) => void, theme: Theme.CurrentTheme) => ({
  write,
  // A terminal that cannot move its cursor receives lines, like a pipe.
  terminal: stream.isTTY === true && CurrentProcess.getProcessVariables()["TERM"] !== "dumb",
  paint: Paint.make({ ...Paint.detectCapabilities(stream.isTTY === true, CurrentProcess.getProcessVariables()), theme })
})

const waitForDrain = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => {
    if (stream.destroyed || stream.writableLength === 0) resolve()
    else stream.write("", () => resolve())
  })

/**
 * Creates the streams and redirects other output of the process. Secrets in the output of plugins and libraries are
 * masked.
 */
export const make = (secrets: Registry): Streams => {
  const standard = CurrentProcess.getStandardStreams()
  const { stderr, stdout } = standard
  // Bound before the guard is installed, so that the program's own output is not redirected.
  const write = stdout.write.bind(stdout)
  const writeAside = stderr.write.bind(stderr)
  const theme = Theme.makeCurrentTheme()
  const broken = new Set<"stdout" | "stderr">()
  const makeFailureHandler =
    (name: "stdout" | "stderr") =>
    (error?: Error | null): void => {
      if (error === undefined || error === null || isGone(error) || broken.has(name)) return
      broken.add(name)
      say(ErrorLine.render(`${name} cannot be written: ${describeReason(error)}`))
    }
  const writeOut = (text: string): void => {
    if (!stdout.destroyed && !broken.has("stdout")) write(text, makeFailureHandler("stdout"))
  }
  const say = (text: string): void => {
    if (!stderr.destroyed && !broken.has("stderr")) writeAside(text, makeFailureHandler("stderr"))
  }
  const readerGone = new Promise<void>((resolve) => {
    stdout.on("error", (error) => {
      if (isGone(error)) resolve()
    })
  })
  stdout.on("error", makeFailureHandler("stdout"))
  stderr.on("error", makeFailureHandler("stderr"))
  let screen: ((text: string) => void) | undefined
  let isGuarded = false
  /** The first guard determines where stdout is redirected. */
  const guardStreams = (stdoutTo: 1 | 2) =>
    Effect.asVoid(
      Effect.acquireRelease(
        Effect.sync(() => {
          if (isGuarded) return () => undefined
          isGuarded = true
          const lift = guard({ mask: (text) => redactText(text, secrets), stdoutTo, screen: () => screen })
          return () => {
            lift()
            isGuarded = false
          }
        }),
        (lift) => Effect.sync(lift)
      )
    )
  return {
    say,
    flushed: async () => {
      await Promise.all([waitForDrain(stdout), waitForDrain(stderr)])
      // A file stream reports a failed write one tick later.
      await new Promise((resolve) => setImmediate(resolve))
      return broken.size === 0
    },
    output: {
      out: (text) => Effect.sync(() => writeOut(SafeText.toPlainText(text))),
      err: (text) => Effect.sync(() => say(SafeText.toPlainText(text))),
      streams: {
        answer: makeSink(stdout, writeOut, theme),
        aside: makeSink(stderr, say, theme),
        size: () => {
          const { columns = 80, rows = 24 } = stderr.isTTY ? stderr : stdout
          return { columns, rows }
        }
      },
      readerGone: Effect.promise(() => readerGone),
      terminal: { input: standard.stdin.isTTY === true, piped: getStdinKind() },
      protect: guardStreams(2),
      masked: guardStreams(1),
      printOn: (show) =>
        Effect.asVoid(
          Effect.acquireRelease(
            Effect.sync(() => {
              const hidden = RedactionStream.make(secrets)
              screen = (text) => show(hidden.push(text))
              return hidden
            }),
            (hidden) =>
              Effect.sync(() => {
                screen = undefined
                show(hidden.end())
              })
          )
        ),
      onExit: (last) =>
        Effect.asVoid(
          Effect.acquireRelease(
            Effect.sync(() => CurrentProcess.listen("exit", (code) => CurrentProcess.setExitCode(last(code)))),
            (stop) => Effect.sync(stop)
          )
        )
    }
  }
}
