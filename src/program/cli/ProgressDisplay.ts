/** Progress of many rows while they run: on a terminal a live line below the messages, otherwise an occasional line. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import type { Progress } from "../../research/batch/RowPool.ts"
import * as LogLine from "./LogLine.ts"
import { Output } from "./ProgramOutput.ts"
import * as BatchProgress from "./render/BatchProgress.ts"
import * as SafeText from "./render/SafeText.ts"
import * as Screen from "./render/Screen.ts"

/** Milliseconds between progress lines outside a terminal. */
const lineMillis = 10_000
const frameMillis = 250

/** The progress display of a run. */
export type Display = Effect.Success<ReturnType<typeof make>>

/**
 * Creates a display that shows progress as a live line on a terminal, and as occasional lines elsewhere. `rows` is the
 * noun printed for rows.
 */
export const make = Effect.fnUntraced(function* (rows?: string) {
  const { streams } = yield* Output
  const screen = Screen.make(streams)
  let last: Progress | undefined
  let isLive = true
  let toldAt = yield* Clock.currentTimeMillis
  const draw = Effect.sync(() =>
    screen.live(({ columns }) => ({
      lines: last === undefined || !isLive ? [] : [BatchProgress.renderBar(last, columns - 1, screen.asidePaint, rows)]
    }))
  )
  if (streams.aside.terminal) yield* Effect.forkScoped(Effect.repeat(draw, Schedule.spaced(frameMillis)))
  yield* Effect.addFinalizer(() => Effect.sync(() => screen.live(Screen.renderNothing)))
  const say = (text: string) => Effect.sync(() => screen.say(`${SafeText.toLine(text)}\n`))
  return {
    say,
    progress: (now: Progress) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        last = now
        if (streams.aside.terminal || at - toldAt < lineMillis) return Effect.void
        toldAt = at
        return say(BatchProgress.renderText(now, rows))
      }),
    last: () => last,
    /** Removes the live line. The last progress remains available. */
    clear: Effect.sync(() => {
      isLive = false
      screen.live(Screen.renderNothing)
    }),
    log: Logger.layer([
      Logger.make<unknown, void>(({ logLevel, message }) => screen.say(LogLine.render(logLevel, message)))
    ])
  }
})
