/**
 * A turn as shown on the terminal: the activity of the agent until it finishes or is stopped. The keyboard is read in
 * the meantime.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { RunEvent, RunResult } from "../../../base/domain/RunEvent.ts"
import type { HostEvent, Turn } from "../../../serve/host/HostEvent.ts"
import * as ErrorLine from "../ErrorLine.ts"
import type * as Block from "../render/Block.ts"
import * as BlockReducer from "../render/BlockReducer.ts"
import * as ExitText from "../render/ExitText.ts"
import * as Markdown from "../render/Markdown.ts"
import * as SafeText from "../render/SafeText.ts"
import type * as Screen from "../render/Screen.ts"
import * as BusyPrompt from "./BusyPrompt.ts"
import * as Dialog from "./Dialog.ts"
import * as PromptLine from "./PromptLine.ts"
import * as Questions from "./Questions.ts"

const describeRemedy = (exit: RunResult["exit"]): string => {
  switch (exit) {
    case "empty_response_exhausted":
    case "invalid_tool_calls":
      return "Type /retry to try again."
    case "content_filtered":
      return "Rephrase the prompt."
    case "guardrail_halt":
      return "Type how to continue."
    case "suspended":
      return "Answer its questions, or type a message to withdraw them."
    default:
      return 'Type "continue" to continue.'
  }
}

/** Describes why an answer is incomplete and how to continue, or returns `undefined` if it is complete. */
export const describeEnding = (result: ExitText.EndedRun): string | undefined => {
  if (result.exit === "interrupted_by_user") return "Stopped. The work so far is kept; type how to continue."
  const cause = ExitText.describeCause(result)
  return cause === undefined
    ? undefined
    : `${cause.charAt(0).toUpperCase()}${cause.slice(1)}. ${describeRemedy(result.exit)}`
}

/** The blocks of a turn on the screen, and its live lines. */
interface TurnBlocks {
  readonly events: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  readonly put: (block: Block.Block) => void
  readonly close: Effect.Effect<void>
  readonly view: (size: Screen.Size, now: number) => ReadonlyArray<string>
}

const isWriting = ({ _tag }: RunEvent): boolean =>
  _tag === "TextDelta" || _tag === "TextReplaced" || _tag === "RunFinished"

/** Creates blocks from the events of a turn, and prints them on the screen. */
const makeTurnBlocks = (dialog: Dialog.Dialog, isLive: boolean): TurnBlocks => {
  const {
    options: { display },
    screen
  } = dialog
  const options: BlockReducer.Options = { isLive, showCost: display.showCost }
  let state = BlockReducer.initial
  let isLoaded = false
  /** Time at which the open block was last drawn outside of a frame. */
  let drawnAt = -Infinity

  const applyStep = (step: BlockReducer.Step): void => {
    for (const change of step.changes) {
      if (change._tag === "Put") screen.put(change.block)
      else screen.takeBack(change.step, change.isChanged)
    }
    state = step.state
    if (state.open !== undefined) screen.write(state.open)
  }
  const load = Effect.map(Markdown.load(display.finalResponseMarkdown), (make) => {
    screen.setMarkdown(make)
    isLoaded = true
  })
  screen.beginTurn()
  return {
    events: (events) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const shown = Effect.sync(() => {
          for (const event of events) applyStep(BlockReducer.reduce(state, event, now, options))
          if (state.open === undefined || now - drawnAt < BlockReducer.frameMillis) return
          drawnAt = now
          screen.refresh()
        })
        return !isLoaded && events.some(isWriting) ? Effect.andThen(load, shown) : shown
      }),
    put: (block) => applyStep(BlockReducer.addNote(state, block)),
    close: Effect.sync(() => {
      applyStep(BlockReducer.close(state))
      screen.refresh()
    }),
    view: ({ columns }, now) => {
      // Nothing stands between an open question and its choices.
      if (dialog.asked !== undefined) return []
      const lines = BlockReducer.renderLive(state, now, {
        columns,
        paint: screen.asidePaint,
        previewLength: display.toolPreviewLength,
        verbosity: dialog.verbosity,
        hint: "Ctrl+C stops"
      })
      return lines.length > 0 && screen.isLiveApart() ? ["", ...lines] : lines
    }
  }
}

type Ended = Extract<HostEvent, { readonly _tag: "TurnEnded" }>

/** Shows the events of the turn until the turn ends. */
const showEvents = Effect.fnUntraced(function* (dialog: Dialog.Dialog, turn: Turn, printer: TurnBlocks) {
  const { asidePaint } = dialog.screen
  while (true) {
    const event = yield* dialog.reader.take
    switch (event._tag) {
      case "RunEvents":
        yield* printer.events(event.events)
        break
      case "TurnEnded":
        if (event.turn.id === turn.id) return event
        break
      case "Steered":
        for (const text of event.texts)
          Dialog.showNote(dialog, PromptLine.renderMark(asidePaint) + SafeText.toLine(text))
        break
      case "QuestionAsked":
      case "QuestionClosed":
        yield* Questions.followQuestion(dialog, event)
        break
      default:
        break
    }
  }
})

/** Renders the line about the end of a turn, if there is something to report. */
const renderLastLine = (
  { asidePaint }: Dialog.Dialog["screen"],
  { exit, turn: { isStopping } }: Ended
): string | undefined => {
  if (Exit.isFailure(exit) && !isStopping) {
    return asidePaint.text(SafeText.toLine(ErrorLine.render(ErrorLine.fromCause(exit.cause).line)), "red")
  }
  const said = describeEnding(Exit.isSuccess(exit) ? exit.value : { exit: "interrupted_by_user", steps: 0 })
  return said === undefined ? undefined : asidePaint.text(said, "yellow")
}

/** Shows a turn that has started. Returns the exit code if the user leaves the program. */
export const show = Effect.fnUntraced(function* (
  dialog: Dialog.Dialog,
  turn: Turn
): Effect.fn.Return<number | undefined, never, Dialog.SessionServices> {
  const { feed, live, screen } = dialog
  const printer = makeTurnBlocks(dialog, !turn.isRewritten)
  const before = feed.put
  feed.put = printer.put
  const worked = yield* BusyPrompt.runWork(dialog, {
    run: showEvents(dialog, turn, printer),
    stop: live.stop,
    view: printer.view
  }).pipe(
    Effect.ensuring(
      Effect.andThen(
        printer.close,
        Effect.sync(() => {
          feed.put = before
        })
      )
    )
  )
  if (worked._tag === "Leave") {
    Dialog.printLines(dialog, "")
    return worked.code
  }
  // If the live session is closed, its event stream ends without an event for the end of the turn.
  const line = Exit.isSuccess(worked.exit) ? renderLastLine(screen, worked.exit.value) : undefined
  if (line !== undefined) Dialog.showNote({ feed: printer }, line)
  Dialog.printLines(dialog, "")
  return undefined
})
