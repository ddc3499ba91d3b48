/**
 * The terminal of this process: stdin in raw mode, and stdout, or stderr if stdout is a file or a pipe.
 *
 * The terminal is restored on exit, also if the process ends by a signal or an error. Closing the terminal ends the
 * input; later output is dropped.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as CurrentProcess from "../../../../base/platform/CurrentProcess.ts"
import * as Paint from "../../render/Paint.ts"
import * as Theme from "../../render/Theme.ts"
import { pasteOff, pasteOn } from "../Keys.ts"
import type { Terminal, TerminalEvent } from "../TerminalDevice.ts"

const showCursor = "\u001b[?25h"
const alternateOn = "\u001b[?1049h"
const alternateOff = "\u001b[?1049l"

/** Writes directly to the two streams of the process, bypassing the redirection of plugin and library output. */
interface Writes {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
}

const makeProcessWrites = (): Writes => {
  const { stderr, stdout } = CurrentProcess.getStandardStreams()
  return { stdout: stdout.write.bind(stdout), stderr: stderr.write.bind(stderr) }
}

/** Acquires the terminal, and releases it when the scope closes. */
export const make = Effect.fnUntraced(function* (
  { isLinear = false, ...writes }: Writes & { readonly isLinear?: boolean | undefined } = makeProcessWrites()
): Effect.fn.Return<Terminal, never, Scope.Scope> {
  const { stderr, stdin, stdout } = CurrentProcess.getStandardStreams()
  const screen = stdout.isTTY || !stderr.isTTY ? stdout : stderr
  const events = yield* Queue.unbounded<TerminalEvent, Cause.Done>()
  const write = screen === stdout ? writes.stdout : writes.stderr

  const writeText = (text: string): void => {
    if (!screen.destroyed) write(text)
  }
  const takeTerminal = (): void => {
    stdin.setRawMode?.(true)
    if (!isLinear) writeText(pasteOn)
  }
  let isAlternate = false
  const switchAlternate = (isOn: boolean): void => {
    if (isOn !== isAlternate && !isLinear) writeText(isOn ? alternateOn : alternateOff)
    isAlternate = isOn
  }
  const releaseTerminal = (): void => {
    switchAlternate(false)
    if (!isLinear) writeText(pasteOff + showCursor)
    if (!stdin.destroyed) stdin.setRawMode?.(false)
  }

  const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  const onData = (chunk: Buffer): void => {
    const text = decoder.decode(chunk, { stream: true })
    if (text !== "") Queue.offerUnsafe(events, { _tag: "Input", text })
  }
  const onEnd = (): void => {
    Queue.endUnsafe(events)
  }
  const onResize = (): void => {
    Queue.offerUnsafe(events, { _tag: "Resized" })
  }
  const onContinue = (): void => {
    takeTerminal()
    Queue.offerUnsafe(events, { _tag: "Resumed" })
  }

  const listeners: ReadonlyArray<
    readonly [emitter: NodeJS.EventEmitter, event: string, listener: (chunk: Buffer) => void]
  > = [
    [stdin, "data", onData],
    [stdin, "end", onEnd],
    [stdin, "close", onEnd],
    // A disconnected terminal cannot be read; the error contains no additional information.
    [stdin, "error", onEnd],
    [screen, "error", onEnd],
    [screen, "resize", onResize]
  ]
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      takeTerminal()
      for (const [emitter, event, listener] of listeners) emitter.on(event, listener)
      // An earlier question paused stdin, and a paused stream does not resume when a listener is added.
      stdin.resume()
      return [CurrentProcess.listen("SIGCONT", onContinue), CurrentProcess.listen("exit", releaseTerminal)]
    }),
    (stops) =>
      Effect.sync(() => {
        for (const stop of stops) stop()
        for (const [emitter, event, listener] of listeners) emitter.off(event, listener)
        releaseTerminal()
        stdin.pause()
      })
  )

  return {
    write: writeText,
    // A terminal of unknown size reports 0.
    size: () => ({ columns: screen.columns || 80, rows: screen.rows || 24 }),
    paint: isLinear
      ? Paint.plain
      : Paint.make({
          ...Paint.detectCapabilities(screen.isTTY, CurrentProcess.getProcessVariables()),
          theme: Theme.makeCurrentTheme()
        }),
    events,
    isLinear,
    alternate: switchAlternate,
    lend: (work) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          // Another program now reads from the terminal.
          stdin.off("data", onData)
          stdin.pause()
          releaseTerminal()
        }),
        () => work,
        () =>
          Effect.sync(() => {
            takeTerminal()
            stdin.on("data", onData)
            stdin.resume()
            Queue.offerUnsafe(events, { _tag: "Resumed" })
          })
      ),
    suspend: Effect.sync(() => {
      releaseTerminal()
      // The signal is sent to the whole process group: a launcher that waits for this process must release the terminal
      // too.
      CurrentProcess.sendSignal(0, "SIGTSTP")
    })
  }
})
