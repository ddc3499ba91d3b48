// CPU of the screen of a conversation: per event after 10, 2,000 and 4,000 blocks, of a change of the width, and of a
// step through all blocks. Prints a table; `npm run bench:screen`.
import * as Effect from "effect/Effect"
import * as TranscriptView from "../../src/program/cli/interactive/TranscriptView.ts"
import * as BlockReducer from "../../src/program/cli/render/BlockReducer.ts"
import * as Markdown from "../../src/program/cli/render/Markdown.ts"
import * as Paint from "../../src/program/cli/render/Paint.ts"
import * as Screen from "../../src/program/cli/render/Screen.ts"
import * as Transcript from "../../src/program/cli/render/Transcript.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"

const words = "The answer has **several** words and `some code`, so that it has to be broken in lines.\n\n".split(
  /(?<= )/
)

/** The events of one step: text in pieces, and a tool call. */
const exchange = (index: number): ReadonlyArray<RunEvent> => [
  { _tag: "StepStarted", step: index },
  ...words.map((text): RunEvent => ({ _tag: "TextDelta", text })),
  { _tag: "ToolStarted", callId: `c${index}`, name: "terminal", params: { command: `ls ${index}` } },
  {
    _tag: "ToolFinished",
    callId: `c${index}`,
    name: "terminal",
    status: "ok",
    output: "line\n".repeat(50),
    durationMillis: 5
  }
]

const make = await Effect.runPromise(Markdown.load("render"))

const setup = () => {
  let columns = 100
  let bytes = 0
  const sink: Screen.Sink = {
    write: (text) => {
      bytes += text.length
    },
    terminal: true,
    paint: Paint.make({ color: true, hyperlinks: false })
  }
  const transcript = Transcript.make(Screen.make({ answer: sink, aside: sink, size: () => ({ columns, rows: 40 }) }), {
    markdown: "render",
    showReasoning: false,
    previewLength: 0,
    verbosity: () => "all"
  })
  transcript.setMarkdown(make)
  let state = BlockReducer.initial
  let index = 0
  const take = (): number => {
    const events = exchange(++index)
    for (const event of events) {
      const next = BlockReducer.reduce(state, event, 0, { isLive: true, showCost: false })
      for (const one of next.changes) if (one._tag === "Put") transcript.put(one.block)
      state = next.state
      if (state.open !== undefined) transcript.write(state.open)
    }
    return events.length
  }
  const resize = (to: number): void => {
    columns = to
    transcript.redraw()
  }
  return { transcript, take, resize, bytes: () => bytes }
}

const micros = (work: () => void): number => {
  const before = process.cpuUsage()
  work()
  const { system, user } = process.cpuUsage(before)
  return user + system
}

const { resize, take, transcript } = setup()
for (let index = 0; index < 200; index++) take()
const own = setup()
const row = (name: string, value: number, unit = "µs"): void =>
  void process.stdout.write(`${name.padEnd(44)} ${value.toFixed(1).padStart(10)} ${unit}\n`)
const perEvent = (one: ReturnType<typeof setup>): number => {
  let events = 0
  const spent = micros(() => {
    for (let index = 0; index < 200; index++) events += one.take()
  })
  return spent / events
}
const fill = (one: ReturnType<typeof setup>, blocks: number): void => {
  while (one.transcript.blocks().length < blocks) one.take()
}
fill(own, 10)
const first = perEvent(own)
row("CPU per event, from 10 blocks on", first)
fill(own, 2000)
const late = perEvent(own)
row("CPU per event, from 2,000 blocks on", late)
fill(own, 4000)
row("CPU per event, from 4,000 blocks on", perEvent(own))
row("ratio, 2,000 to 10 blocks", late / first, "×")
fill(own, 2000)
const before = own.transcript.layouts.count()
row(
  "a change of the width, 2,000 blocks and more",
  micros(() => {
    for (let index = 0; index < 20; index++) own.resize(60 + index)
  }) / 20
)
row("blocks laid out by it", (own.transcript.layouts.count() - before) / 20, "")
resize(90)
const source = TranscriptView.makeSource(transcript)
let state = TranscriptView.moveToEnd(source, source.count - 1, 39)
let steps = 0
row(
  "a step through the view",
  micros(() => {
    for (; steps < source.count; steps++) {
      state = TranscriptView.pressKey(TranscriptView.makeSource(transcript), state, "up", 39) ?? state
      TranscriptView.renderWindow(source, state, 39, "> ")
    }
  }) / Math.max(1, steps)
)
