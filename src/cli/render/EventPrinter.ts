/**
 * A run as a user sees it: the answer as it is written, one line for each tool call, what the run waits for. A projection
 * of its events; it changes nothing.
 *
 * Text, tools and notices are set apart by blank lines. The reasoning of the model is shown only when it is asked for, and a
 * retry by one line. What the run is at just now is in {@link Printer.view}, for live lines. Where the final text is not
 * what streamed by (a listener replaced it), it is shown at the end.
 *
 * Source: `hermes-product.md` §1.8, `ARCHITECTURE.md` §4 (views are projections of the events).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redaction from "../../domain/Redaction.ts"
import type { RunEvent, RunResult } from "../../domain/RunEvent.ts"
import * as Schedule from "../../tool/Schedule.ts"
import * as Markdown from "./Markdown.ts"
import * as Paint from "./Paint.ts"
import * as SafeText from "./SafeText.ts"
import type { Draft, Screen, Size } from "./Screen.ts"
import * as ToolFeed from "./ToolFeed.ts"
import * as ToolText from "./ToolText.ts"
import * as UsageText from "./UsageText.ts"
import * as Width from "./Width.ts"
import * as Wrap from "./Wrap.ts"

/** A delay of a run in words, the same in every view. */
const seconds = (millis: number): string => `${Math.max(1, Math.round(millis / 1000))} s`

/** A wait before another attempt. */
export const waiting = ({ attempt, maxAttempts, millis, reason }: ToolFeed.EventOf<"Waiting">): string =>
  `┊ ${reason}: retrying in ${seconds(millis)}, attempt ${attempt} of ${maxAttempts}`

/** A model that says nothing. */
export const silent = ({ waitedMillis }: ToolFeed.EventOf<"Heartbeat">): string =>
  `┊ no output from the model, ${seconds(waitedMillis)} into its answer; still waiting`

/** One piece of reasoning. Each call gives what can be written now. */
interface ReasoningText {
  readonly push: (piece: string) => string
  readonly end: () => string
}

const reasoningStyle: Paint.Style = { attributes: ["dim"] }

/** Sets the reasoning of a model apart from its answer: dim, behind a bar, in the lines that the terminal has room for. */
const reasoningText = (paint: Paint.Paint, columns: () => number | undefined): ReasoningText => {
  const harmless = SafeText.stream()
  const bar = `${paint.text("┊", "dim")} `
  let blanks = 0
  let begun = false
  let line: Wrap.Wrap | undefined

  const add = (text: string): string => {
    if (line === undefined) {
      const written = text.trimStart()
      if (written === "") return ""
      const gap = begun ? `${bar.trimEnd()}\n`.repeat(Math.min(1, blanks)) : ""
      begun = true
      blanks = 0
      line = Wrap.make({
        columns: columns() ?? Infinity,
        first: bar,
        rest: bar,
        indent: 2,
        longWords: "overflow"
      }, paint)
      return gap + line.add({ text: written, style: reasoningStyle })
    }
    return line.add({ text, style: reasoningStyle })
  }

  const endLine = (): string => {
    const open = line
    line = undefined
    if (open !== undefined) return `${open.end()}\n`
    blanks++
    return ""
  }

  const push = (text: string): string => {
    const [first = "", ...rest] = text.split("\n")
    let out = add(first)
    for (const part of rest) out += endLine() + add(part)
    return out
  }

  return {
    push: (piece) => push(harmless.push(piece)),
    end: () => push(harmless.end()) + (line === undefined ? "" : endLine())
  }
}

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
  readonly view: (size: Size, now: number) => ReadonlyArray<string>
}

/** Kind of the last output. */
type Kind = "nothing" | "text" | "reasoning" | "feed"

/** A pause in the text after which the spinner comes back. */
const pauseMillis = 1500

const frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

/** Interval at which live lines are drawn. */
export const frameMillis = 100

export const make = (screen: Screen, options: Options): Printer => {
  const feed = ToolFeed.make(options, screen.asidePaint)
  const children = ToolFeed.children(options, screen.asidePaint)
  let kind: Kind = "nothing"
  /** Loaded before the first text. */
  let markdown: Markdown.Make | undefined
  let text: Markdown.Renderer | undefined
  let reasoning: ReasoningText | undefined
  /** Answer text shown so far, as the model wrote it. */
  let said = ""
  /** Lines of the program's own that wait for the end of a text, which they would tear apart. */
  let notes: ReadonlyArray<string> = []
  let under: { readonly what: string; readonly since: number } | undefined
  let lastOutput = 0
  /** Time at which the open block was last drawn outside of a frame. */
  let drawnAt = -Infinity
  let over = false

  /** A blank line between things of different kinds, where both are seen. */
  const begin = (next: Kind): void => {
    if (kind === next) return
    const before = kind
    kind = next
    if (before === "nothing") return
    if (next === "text") screen.print(screen.joined || said.trim() !== "" ? "\n" : "")
    else if (screen.joined) screen.say("\n")
  }

  const printText = (piece: string): void => {
    if (piece === "") return
    begin("text")
    screen.print(piece)
  }

  const closeText = (): void => {
    const open = text
    const waiting = notes
    text = undefined
    notes = []
    if (open !== undefined) printText(open.end())
    say(waiting)
  }

  const closeReasoning = (): void => {
    const open = reasoning
    reasoning = undefined
    if (open !== undefined) screen.say(open.end())
  }

  const show = (delta: string): void => {
    closeReasoning()
    if (text === undefined) {
      if (markdown === undefined) return
      text = markdown({ mode: options.markdown, paint: screen.answerPaint, columns: screen.answerColumns })
      if (said !== "" && kind === "text") kind = "feed"
    }
    printText(text.push(delta))
    said += delta
  }

  const say = (lines: ReadonlyArray<string>): void => {
    if (lines.length === 0) return
    closeText()
    closeReasoning()
    begin("feed")
    screen.say(lines.map((line) => `${line}\n`).join(""))
  }

  const reason = (delta: string): void => {
    if (!options.showReasoning) return
    closeText()
    reasoning ??= reasoningText(screen.asidePaint, screen.asideColumns)
    const piece = reasoning.push(delta)
    if (piece === "") return
    begin("reasoning")
    screen.say(piece)
  }

  const aside = (line: string, attribute: "dim" | "yellow"): void => {
    const columns = screen.asideColumns()
    const all = Redaction.redactText(SafeText.line(line))
    const painted = screen.asidePaint.text(columns === undefined ? all : Width.cut(all, columns), attribute)
    // The text may go on: a connection that is lost in the middle of it is not the end of it.
    if (text === undefined) say([painted])
    else if (screen.joined) notes = [...notes, painted]
    else screen.say(`${painted}\n`)
  }

  const finish = (result: RunResult): void => {
    const squeezed = (value: string): string => value.replaceAll(/\s+/g, "")
    closeText()
    if (result.text.trim() !== "" && !squeezed(said).endsWith(squeezed(result.text))) {
      if (said !== "" && options.live) aside("The answer was changed:", "dim")
      show(result.text)
      closeText()
    }
    if (options.showCost && result.usage.requestCount > 0) say([screen.asidePaint.text(UsageText.line(result.usage, result.cost), "dim")])
  }

  const busy = (what: string, now: number): void => {
    if (under?.what !== what) under = { what, since: now }
  }

  const take = (event: RunEvent, now: number): void => {
    switch (event._tag) {
      case "StepStarted":
        closeText()
        return busy("waiting for the model", now)
      case "TextDelta":
        if (options.live) show(event.text)
        lastOutput = now
        return busy("writing", now)
      case "ReasoningDelta":
        reason(event.text)
        return busy("thinking", now)
      case "ToolInputStarted":
        // The text before is complete, and would be held while the arguments are written.
        closeText()
        feed.take(event, now, screen.asideColumns())
        return busy("writing", now)
      case "ToolsScheduled":
        return options.verbosity() === "verbose" ? aside(`┊ ${Schedule.explain(event.calls, event)}`, "dim") : undefined
      case "ToolInputDelta":
      case "ToolStarted":
      case "ToolProgress":
      case "ToolFinished":
        say(feed.take(event, now, screen.asideColumns()))
        return
      case "SubagentStarted":
      case "SubagentProgress":
      case "SubagentFinished":
        return say(children.take(event, now, screen.asideColumns()))
      case "Waiting":
        aside(waiting(event), "yellow")
        return busy("waiting to try again", now)
      case "Notice":
        return aside(`${event.level === "warning" ? "! " : ""}${event.message}`, event.level === "warning" ? "yellow" : "dim")
      case "RunFinished":
        finish(event)
        over = true
        return
      case "RunStarted":
        return busy("waiting for the model", now)
      case "UsageReported":
      case "StepFinished":
        return
    }
  }

  const atWork = (columns: number, now: number, frame: string): ReadonlyArray<string> => {
    if (under === undefined || now - lastOutput < pauseMillis) return []
    const paint = screen.asidePaint
    const time = ToolText.elapsed(now - under.since)
    const line = `${under.what} · ${time}${options.hint === "" ? "" : ` · ${options.hint}`}`
    return [`${paint.text("┊", "dim")} ${paint.text(frame, "cyan")} ${paint.text(Width.cut(line, columns - 5), "dim")}`]
  }

  /** Lines of the block that is still written, no more than there is room for. */
  const openBlock: Draft = ({ columns, rows }) => {
    const open = screen.answerColumns() === undefined ? "" : text?.open() ?? ""
    if (open === "") return []
    const lines = open.split("\n").slice(0, -1).map((line) =>
      Width.of(Paint.strip(line)) < columns ? line : Width.cut(Paint.strip(line), columns - 1))
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
          for (const event of events) take(event, now)
          if (text === undefined || now - drawnAt < frameMillis) return
          drawnAt = now
          screen.refresh()
        })
        const writes = markdown === undefined && events.some(({ _tag }) => _tag === "TextDelta" || _tag === "RunFinished")
        return writes ? Effect.andThen(load, printed) : printed
      }),
    note: (line) => {
      if (text === undefined) say([line])
      else notes = [...notes, line]
    },
    close: Effect.sync(() => {
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
      const lines = tools.length + below.length > 0 ? [...tools, ...below] : atWork(columns, now, frame)
      // The lines of the feed that follow will be set apart like this.
      const isApart = (kind === "text" && text === undefined) || (kind === "reasoning" && reasoning === undefined)
      return isApart && lines.length > 0 ? ["", ...lines] : lines
    }
  }
}
