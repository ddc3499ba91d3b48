/**
 * A run as a user sees it: the answer as it is written, one line for each tool call, and the current wait. A read-only
 * projection of its events.
 *
 * Text, tools and notices are set apart by blank lines. The reasoning of the model is shown only on request, and a
 * retry as one line. The current activity of the run is available from {@link Printer.view}, for live lines.
 *
 * Retracted text is erased if it is still on the terminal with no text below it; otherwise a line reports that the
 * answer was changed, and the new text follows. In a pipe, where text cannot be erased, the text of a step is written
 * when it is final.
 *
 * Source: `hermes-product.md` §1.8, `ARCHITECTURE.md` §4 (views are projections of the events).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileChange from "../../../base/domain/FileChange.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { RunEvent, RunResult } from "../../../base/domain/RunEvent.ts"
import * as ToolSchedule from "../../../tools/ToolSchedule.ts"
import * as DiffText from "./DiffText.ts"
import * as Markdown from "./Markdown.ts"
import * as Paint from "./Paint.ts"
import * as RunText from "./RunText.ts"
import * as SafeText from "./SafeText.ts"
import type * as Screen from "./Screen.ts"
import * as ToolFeed from "./ToolFeed.ts"
import * as ToolText from "./ToolText.ts"
import * as UsageText from "./UsageText.ts"
import * as Width from "./Width.ts"

/** Display options (`display` of the settings). */
export interface Options extends ToolFeed.Options {
  readonly markdown: Markdown.Mode
  readonly showReasoning: boolean
  readonly showCost: boolean
  /** False where the final text may still be replaced: it is shown at the end, and nothing before. */
  readonly live: boolean
  /** Hint beside the spinner. */
  readonly hint: string
}

export interface Printer {
  readonly events: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  /** A line of the program's own between the others: harmless, and no wider than the terminal. */
  readonly note: (line: string) => void
  /** Writes what is held, and ends the line. Nothing comes after it. */
  readonly close: Effect.Effect<void>
  /** Returns the live lines of the run. */
  readonly view: (size: Screen.Size, now: number) => ReadonlyArray<string>
}

/** Kind of the last output. */
type Kind = "nothing" | "text" | "reasoning" | "feed"

/** Place at which the text of a step begins, and the kind of output before it. */
interface StepPlace {
  readonly mark: Screen.Mark
  readonly kind: Kind
}

/** A pause in the text after which the spinner comes back. */
const pauseMillis = 1500

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

/** Lines of a file's difference, and files of one call, that are shown below it. */
const diffLines = 12
const verboseDiffLines = 200
const shownFiles = 5

/** Interval at which live lines are drawn. */
export const frameMillis = 100

export const make = (screen: Screen.Screen, options: Options): Printer => {
  const feed = ToolFeed.make(options, screen.asidePaint)
  const children = ToolFeed.makeChildFeed(options, screen.asidePaint)
  let kind: Kind = "nothing"
  /** Loaded before the first text. */
  let markdown: Markdown.Make | undefined
  let text: Markdown.Renderer | undefined
  let reasoning: RunText.ReasoningText | undefined
  /** Answer text shown so far, as the model wrote it. */
  let said = ""
  /** Text of the current step, held until it is final if written text cannot be erased. */
  let unsaid = ""
  let step = 0
  /** Length of the answer at the start of a step. */
  const starts = new Map<number, number>()
  /** By step; `undefined` if other output was written since. */
  const places = new Map<number, StepPlace | undefined>()
  /** Lines of the program's own that wait for the end of a text, which they would tear apart. */
  let notes: ReadonlyArray<string> = []
  let under: { readonly what: string; readonly since: number } | undefined
  let lastOutput = 0
  /** Time at which the open block was last drawn outside of a frame. */
  let drawnAt = -Infinity
  let over = false
  /** Changes of files by calls that are under way. */
  let changed: ReadonlyArray<FileChange.FileChanged> = []

  /** A blank line between things of different kinds, where both are seen. */
  const beginKind = (next: Kind): void => {
    if (kind === next) return
    const before = kind
    kind = next
    if (before === "nothing") return
    if (next === "text") screen.print(screen.joined || said.trim() !== "" ? "\n" : "")
    else if (screen.joined) screen.say("\n")
  }

  const printText = (piece: string): void => {
    if (piece === "") return
    beginKind("text")
    screen.print(piece)
  }

  const closeText = (): void => {
    const open = text
    const waiting = notes
    text = undefined
    notes = []
    if (open !== undefined) printText(open.end())
    printLines(waiting)
  }

  const closeReasoning = (): void => {
    const open = reasoning
    reasoning = undefined
    if (open !== undefined) screen.say(open.end())
  }

  const printDelta = (delta: string): void => {
    if (delta === "") return
    closeReasoning()
    if (!places.has(step)) {
      const mark = screen.mark()
      places.set(step, mark === undefined ? undefined : { mark, kind })
    }
    if (text === undefined) {
      if (markdown === undefined) return
      text = markdown({ mode: options.markdown, paint: screen.answerPaint, columns: screen.answerColumns })
      if (said !== "" && kind === "text") kind = "feed"
    }
    printText(text.push(delta))
    said += delta
  }

  /** Writes the text that was waiting to be final. */
  const printPending = (): void => {
    const text = unsaid
    unsaid = ""
    printDelta(text)
  }

  const printLines = (lines: ReadonlyArray<string>): void => {
    if (lines.length === 0) return
    closeText()
    closeReasoning()
    for (const id of places.keys()) places.set(id, undefined)
    beginKind("feed")
    screen.say(lines.map((line) => `${line}\n`).join(""))
  }

  const printReasoning = (delta: string): void => {
    if (!options.showReasoning) return
    closeText()
    reasoning ??= RunText.makeReasoningText(screen.asidePaint, screen.asideColumns)
    const piece = reasoning.push(delta)
    if (piece === "") return
    beginKind("reasoning")
    screen.say(piece)
  }

  const printAside = (line: string, attribute: "dim" | "yellow"): void => {
    const columns = screen.asideColumns()
    const all = Redaction.redactText(SafeText.toLine(line))
    const painted = screen.asidePaint.text(columns === undefined ? all : Width.cut(all, columns), attribute)
    // The text may go on: a connection that is lost in the middle of it is not the end of it.
    if (text === undefined && unsaid === "") printLines([painted])
    else if (screen.joined) notes = [...notes, painted]
    else screen.say(`${painted}\n`)
  }

  /** Takes back what a step and those after it have said; false where that cannot be. */
  const tryTakeBack = (place: StepPlace | undefined): boolean => {
    if (place === undefined) return false
    const open = text
    text = undefined
    if (!screen.takeBack(place.mark)) {
      text = open
      return false
    }
    kind = place.kind
    return true
  }

  const replaceText = (id: number, other: string): void => {
    const start = starts.get(id) ?? 0
    if (screen.answerColumns() === undefined && start >= said.length) {
      unsaid = other
      return
    }
    const waiting = notes
    notes = []
    const before = said
    said = said.slice(0, start)
    if (tryTakeBack(places.get(id))) {
      for (const later of places.keys()) if (later >= id) places.delete(later)
    } else if (before.slice(start).trim() !== "") {
      text = undefined
      screen.endLine()
      printAside(other === "" ? "The answer above was taken back." : "The answer was changed:", "dim")
    }
    printDelta(other)
    notes = [...waiting, ...notes]
    if (text === undefined) closeText()
  }

  const finishRun = (result: RunResult): void => {
    const removeWhitespace = (value: string): string => value.replaceAll(/\s+/g, "")
    printPending()
    closeText()
    if (result.text.trim() !== "" && !removeWhitespace(said).endsWith(removeWhitespace(result.text))) {
      if (said !== "" && options.live) printAside("The answer was changed:", "dim")
      printDelta(result.text)
      closeText()
    }
    if (options.showCost && result.usage.requestCount > 0)
      printLines([screen.asidePaint.text(UsageText.formatLine(result.usage, result.cost), "dim")])
  }

  /** Differences of the files that a call changed. */
  const renderChanges = (callId: string): ReadonlyArray<string> => {
    const own = changed.filter((change) => change.callId === callId)
    changed = changed.filter((change) => change.callId !== callId)
    const verbosity = options.verbosity()
    if (verbosity === "off" || own.length === 0) return []
    const room = {
      paint: screen.asidePaint,
      columns: screen.asideColumns(),
      most: verbosity === "verbose" ? verboseDiffLines : diffLines
    }
    const shown = own.slice(0, shownFiles)
    return [
      ...shown
        .flatMap((change) => DiffText.renderFile(change, FileChange.readFileName(change), room))
        .map((line) => `  ${line}`),
      ...(own.length > shown.length
        ? [
            screen.asidePaint.text(
              `  … ${own.length - shown.length} more files: /diff or hermes sessions diff shows all of them`,
              "dim"
            )
          ]
        : [])
    ]
  }

  const setActivity = (what: string, now: number): void => {
    if (under?.what !== what) under = { what, since: now }
  }

  const handleEvent = (event: RunEvent, now: number): void => {
    switch (event._tag) {
      case "StepStarted":
        printPending()
        closeText()
        step = event.step
        starts.set(step, said.length)
        return setActivity("waiting for the model", now)
      case "TextDelta":
        if (options.live && screen.answerColumns() === undefined) unsaid += event.text
        else if (options.live) printDelta(event.text)
        lastOutput = now
        return setActivity("writing", now)
      case "TextReplaced":
        if (options.live) replaceText(event.stepId, event.text)
        return
      case "ReasoningDelta":
        printReasoning(event.text)
        return setActivity("thinking", now)
      case "ToolInputStarted":
        // The text before is complete, and would be held while the arguments are written.
        closeText()
        feed.take(event, now, screen.asideColumns())
        return setActivity("writing", now)
      case "ToolsScheduled":
        printPending()
        return options.verbosity() === "verbose"
          ? printAside(`┊ ${ToolSchedule.explain(event.calls, event)}`, "dim")
          : undefined
      case "ToolInputDelta":
        return printLines(feed.take(event, now, screen.asideColumns()))
      case "ToolStarted":
      case "ToolProgress":
        printPending()
        printLines(feed.take(event, now, screen.asideColumns()))
        return
      case "ToolFinished":
        printPending()
        printLines([...feed.take(event, now, screen.asideColumns()), ...renderChanges(event.callId)])
        return
      case "FileChanged":
        // Below the line of its call.
        changed = [...changed, event]
        return
      case "SubagentStarted":
      case "SubagentProgress":
      case "SubagentFinished":
        return printLines(children.take(event, now, screen.asideColumns()))
      case "Waiting":
        printAside(RunText.describeWait(event), "yellow")
        return setActivity("waiting to try again", now)
      case "Notice":
        return printAside(
          `${event.level === "warning" ? "! " : ""}${event.message}`,
          event.level === "warning" ? "yellow" : "dim"
        )
      case "RunFinished":
        finishRun(event)
        over = true
        return
      case "RunStarted":
        return setActivity("waiting for the model", now)
      case "StepFinished":
        return printPending()
      case "UsageReported":
        return
    }
  }

  const renderActivity = (columns: number, now: number, frame: string): ReadonlyArray<string> => {
    if (under === undefined || now - lastOutput < pauseMillis) return []
    const paint = screen.asidePaint
    const time = ToolText.formatElapsed(now - under.since)
    const line = `${under.what} · ${time}${options.hint === "" ? "" : ` · ${options.hint}`}`
    return [`${paint.text("┊", "dim")} ${paint.text(frame, "cyan")} ${paint.text(Width.cut(line, columns - 5), "dim")}`]
  }

  /** Lines of the block that is still written, no more than there is room for. */
  const openBlock: Screen.Draft = ({ columns, rows }) => {
    const open = screen.answerColumns() === undefined ? "" : (text?.open() ?? "")
    if (open === "") return []
    const lines = open
      .split("\n")
      .slice(0, -1)
      .map((line) => (Width.measure(Paint.strip(line)) < columns ? line : Width.cut(Paint.strip(line), columns - 1)))
    const apart = kind !== "text" && kind !== "nothing" && (screen.joined || said.trim() !== "") ? [""] : []
    return [...apart, ...lines].slice(-rows)
  }

  screen.draft(openBlock)

  const load = Effect.map(Markdown.load(options.markdown), (make) => {
    markdown = make
  })

  return {
    events: (events) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const printed = Effect.sync(() => {
          for (const event of events) handleEvent(event, now)
          if (text === undefined || now - drawnAt < frameMillis) return
          drawnAt = now
          screen.refresh()
        })
        const writes =
          markdown === undefined &&
          events.some(({ _tag }) => _tag === "TextDelta" || _tag === "TextReplaced" || _tag === "RunFinished")
        return writes ? Effect.andThen(load, printed) : printed
      }),
    note: (line) => {
      if (text === undefined && unsaid === "") printLines([line])
      else notes = [...notes, line]
    },
    close: Effect.sync(() => {
      printPending()
      closeText()
      closeReasoning()
      screen.draft(undefined)
      screen.refresh()
    }),
    view: ({ columns }, now) => {
      if (over) return []
      const frame = frames[Math.floor(now / frameMillis) % frames.length] ?? ""
      const tools = feed.live(now, columns - 1, frame)
      const below = children.live(now, columns - 1, frame)
      const lines = tools.length + below.length > 0 ? [...tools, ...below] : renderActivity(columns, now, frame)
      // The lines of the feed that follow will be set apart like this.
      const isApart = (kind === "text" && text === undefined) || (kind === "reasoning" && reasoning === undefined)
      return isApart && lines.length > 0 ? ["", ...lines] : lines
    }
  }
}
