// What a turn costs the exporters of files: what is new in it, however long its session is.
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import { Ids, Usage } from "../../src/index.ts"
import type { RecordEvent } from "../../src/kit/entry/observability.ts"
import * as RunRecorder from "../../src/base/domain/RunRecorder.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as GrowingBytes from "../../src/observe/GrowingBytes.ts"
import * as AtofRuns from "../../src/observe/atof/FromRuns.ts"
import * as AtifWriter from "../../src/observe/AtifWriter.ts"
import * as Draft from "../../src/observe/atif/Draft.ts"
import * as FromRuns from "../../src/observe/atif/FromRuns.ts"
import * as Attributes from "../../src/observe/otel/Attributes.ts"
import * as SignalEncoding from "../../src/observe/otlp/SignalEncoding.ts"
import * as SpanEncoding from "../../src/observe/otlp/SpanEncoding.ts"
import * as Observations from "../../src/observe/langfuse/Observations.ts"
import type { Span } from "../../src/observe/RunSpans.ts"
import * as RunTree from "../../src/observe/RunTree.ts"
import { live } from "./support/shownSpans.ts"

const sessionId = Ids.SessionId.make("s")
const tools = [
  { name: "look", description: "Looks at it. ".repeat(200), parameters: { type: "object", properties: {} } }
]

/**
 * Entries of the turns of one session, each of a question, a call and an answer, which differ by their numbers alone.
 */
const turns = (count: number): ReadonlyArray<ReadonlyArray<RecordEvent.Entry>> => {
  const history: Array<Prompt.Message> = []
  const system = Prompt.systemMessage({ content: "Be good. ".repeat(500) })
  let now = 1_780_000_000_000
  return Array.from({ length: count }, (_, index) => {
    const n = 1000 + index
    const entries: Array<RecordEvent.Entry> = []
    const turnId = Ids.TurnId.make(`t${n}`)
    const recorder = RunRecorder.make({
      sessionId,
      turnId,
      history,
      now: () => (now += 1000),
      hash: (text) => `${text.length}`,
      sink: (written) => Effect.sync(() => void entries.push(...written))
    })
    const append = (origin: RecordEvent.Origin, message: Prompt.Message): void => {
      recorder.appended(origin, history.length, [message])
      history.push(message)
    }
    const ask = (
      step: number,
      message: Prompt.AssistantMessage,
      answer: ReadonlyArray<RecordEvent.AnswerPart>
    ): void => {
      const offered = recorder.offered(tools)
      const messages = recorder.references([system, ...history])
      const apiRequestId = `t${n}:${step}`
      recorder.write({
        _tag: "AttemptStarted",
        apiRequestId,
        step,
        attempt: 0,
        route: { provider: "p", model: "m", apiMode: "chat_completions" },
        messages,
        ...(offered === undefined ? {} : { tools: offered }),
        parameters: {}
      })
      recorder.write({ _tag: "AttemptEnded", apiRequestId, status: "answered", answer })
      append("model", message)
    }
    const call = { id: `c${n}`, name: "look", params: { at: "there ".repeat(100) } }
    const text = `answer ${n} ${"words ".repeat(100)}`
    recorder.write({
      _tag: "RunStarted",
      version: 1,
      source: "library",
      platform: "library",
      provider: "p",
      model: "m",
      cwd: "/",
      resumed: index > 0
    })
    append(
      "user",
      Prompt.userMessage({ content: [Prompt.textPart({ text: `question ${n} ${"please ".repeat(100)}` })] })
    )
    ask(1, Prompt.assistantMessage({ content: [Prompt.toolCallPart({ ...call, providerExecuted: false })] }), [
      { type: "tool-call", ...call }
    ])
    recorder.write({
      _tag: "CallStarted",
      callId: call.id,
      name: "look",
      args: call.params,
      apiRequestId: `t${n}:1`,
      parallel: false
    })
    recorder.write({ _tag: "CallEnded", callId: call.id, name: "look", status: "ok", ran: true, durationMillis: 1 })
    append(
      "tool",
      Prompt.toolMessage({
        content: [
          Prompt.toolResultPart({
            id: call.id,
            name: "look",
            result: "seen ".repeat(100),
            isFailure: false,
            providerExecuted: false
          })
        ]
      })
    )
    ask(2, Prompt.assistantMessage({ content: [Prompt.textPart({ text })] }), [{ type: "text", text }])
    recorder.write({
      _tag: "RunEnded",
      exit: "text_response",
      text,
      steps: 2,
      usage: Usage.zero,
      cost: { usd: null, status: "unknown", source: "none" }
    })
    Effect.runSync(recorder.flush)
    return entries
  })
}

/** Characters of JSON that were made while `work` was done. */
const encoded = (work: () => void): number => {
  const real = JSON.stringify
  let chars = 0
  const spy = vi.spyOn(JSON, "stringify").mockImplementation((...args: Parameters<typeof real>) => {
    const text = real(...args)
    chars += String(text).length
    return text
  })
  try {
    work()
  } finally {
    spy.mockRestore()
  }
  return chars
}

/** Characters of text that were encoded in UTF-8 while `work` was done. */
const encodedBytes = (work: () => void): number => {
  const real = TextEncoder.prototype
  const [encode, encodeInto] = [real.encode, real.encodeInto]
  let chars = 0
  const spies = [
    vi.spyOn(real, "encode").mockImplementation(function (this: InstanceType<typeof TextEncoder>, text = "") {
      chars += text.length
      return encode.call(this, text)
    }),
    vi.spyOn(real, "encodeInto").mockImplementation(function (this: InstanceType<typeof TextEncoder>, text, into) {
      chars += text.length
      return encodeInto.call(this, text, into)
    })
  ]
  try {
    work()
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
  return chars
}

/** Counts that grow with the number of digits of a place, and with nothing else. */
const digits = 40

describe("files of exporters", () => {
  it("a turn encodes for the ATIF document what is new in it, and the document is that of the whole tree", () => {
    const tree = RunTree.make()
    const growing = FromRuns.makeGrowingTrajectory(tree, sessionId)
    const textOf = Draft.makeTrajectoryEncoder()
    let text = ""
    const chars = turns(200).map((entries) =>
      encoded(() => {
        for (const entry of entries) {
          tree.add(entry)
          growing.touch(entry)
        }
        const trajectory = growing.trajectory()
        if (trajectory !== undefined) text = textOf(trajectory)
      })
    )
    const whole = FromRuns.buildTrajectory(tree, sessionId)
    assert.isTrue(
      whole !== undefined && text === `${JSON.stringify(whole, null, 2)}\n` && text === AtifWriter.render(whole)
    )
    assert.strictEqual(whole?.steps.length, 1 + 200 * 3)
    assert.closeTo(chars[199] ?? 0, chars[19] ?? 0, digits)
    assert.isBelow(chars[199] ?? 0, 8_000)
  })

  it("a turn encodes for the ATOF stream what is new in it, and the line of a request is the whole request", () => {
    const stream = AtofRuns.make({ name: "a" })
    const events: Array<Atof.Event> = []
    const lines: Array<string> = []
    const chars = turns(200).map((entries) =>
      encoded(() => {
        for (const event of entries.flatMap(stream.add)) {
          events.push(event)
          const line = Atof.encode(event)
          if (line._tag === "Success") lines.push(line.success)
        }
      })
    )
    assert.isTrue(
      events.every((event, index) => lines[index] === JSON.stringify(event)) && lines.length === events.length
    )
    const last: { readonly data: { readonly messages: ReadonlyArray<object> } } = JSON.parse(
      lines.findLast((line) => line.includes('"message_refs"') && line.includes('"start"')) ?? ""
    )
    assert.strictEqual(last.data.messages.length, 1 + 199 * 4 + 3)
    assert.closeTo(chars[199] ?? 0, chars[19] ?? 0, digits)
    assert.isBelow(chars[199] ?? 0, 30_000)
  })

  it("a turn makes bytes for the ATOF file of what is new in it, and they are the line", () => {
    const stream = AtofRuns.make({ name: "a" })
    const chars = turns(200).map((entries) => {
      const events = entries.flatMap(stream.add)
      const parts: Array<Atof.Parts> = []
      const count = encodedBytes(() => {
        const bytes = GrowingBytes.make()
        for (const event of events) for (const part of Result.getOrThrow(Atof.encodeParts(event))) bytes.add(part)
      })
      for (const event of events) parts.push(Result.getOrThrow(Atof.encodeParts(event)))
      const lines = parts.map((line) => Buffer.concat(line.map((part) => Buffer.from(part))).toString("utf8"))
      assert.deepStrictEqual(
        lines,
        events.map((event) => JSON.stringify(event))
      )
      return count
    })
    assert.closeTo(chars[199] ?? 0, chars[19] ?? 0, digits)
    assert.isBelow(chars[199] ?? 0, 30_000)
  })

  it("a turn encodes for OpenTelemetry and Langfuse what is new in it, beside a bounded part of the conversation", () => {
    const lengths: Array<number> = []
    const settings = {
      environment: undefined,
      maxChars: 12_000,
      release: undefined,
      sampleRate: 1,
      tags: [],
      userId: undefined
    }
    const otel = Attributes.makeView({ agentName: "a", captureContent: true }, () => ({
      traceId: "0".repeat(32),
      parentSpanId: undefined,
      sampled: true
    }))
    const spans = [otel, Observations.makeView(settings)].map((view) =>
      live(view, { close: ({ attributes }) => void lengths.push(Object.values(attributes).join("").length) })
    )
    const sums = turns(200).map((entries) => {
      lengths.length = 0
      const chars = encoded(() => spans.forEach(({ add }) => add(entries)))
      return { chars, length: lengths.reduce((a, b) => a + b, 0) }
    })
    assert.closeTo(sums[199]?.chars ?? 0, sums[59]?.chars ?? 0, digits)
    assert.isBelow(sums[199]?.chars ?? 0, 30_000)
    assert.closeTo(sums[199]?.length ?? 0, sums[59]?.length ?? 0, 40_000)
  })

  it("a turn escapes for OTLP what is new in it: the messages that a span repeats were written once for all spans", () => {
    const resource = SignalEncoding.makeResource({})
    const settings = {
      environment: undefined,
      maxChars: 12_000,
      release: undefined,
      sampleRate: 1,
      tags: [],
      userId: undefined
    }
    const otel = Attributes.makeView({ agentName: "a", captureContent: true }, () => ({
      traceId: "0".repeat(32),
      parentSpanId: undefined,
      sampled: true
    }))
    const { add } = SpanEncoding.createJsonEncoding(resource, undefined)
    let sent = 0
    const encode = (span: Span): number => {
      const bytes = GrowingBytes.make()
      add(bytes, span)
      return bytes.length()
    }
    const spans = [otel, Observations.makeView(settings)].map((view) =>
      live(view, { close: (span) => void (sent += encode(span)) })
    )
    const sums = turns(200).map((entries) => {
      sent = 0
      return { chars: encoded(() => spans.forEach(({ add }) => add(entries))), sent }
    })
    assert.closeTo(sums[199]?.chars ?? 0, sums[59]?.chars ?? 0, 10 * digits)
    assert.isAbove(sums[199]?.sent ?? 0, 2 * (sums[199]?.chars ?? 0))
  })

  it("something that comes late to a run that is over is in the document", () => {
    const [first = [], second = []] = turns(2)
    const tree = RunTree.make()
    const growing = FromRuns.makeGrowingTrajectory(tree, sessionId)
    const add = (entry: RecordEvent.Entry): void => {
      tree.add(entry)
      growing.touch(entry)
    }
    first.forEach(add)
    const before = growing.trajectory()
    second.forEach(add)
    const { sessionId: id, turnId } = first[0] ?? assert.fail("there are entries")
    add({
      sessionId: id,
      turnId,
      at: 1_780_000_900_000,
      event: { _tag: "ContextRewritten", reason: "compaction", before: 9, after: 4 }
    })
    assert.deepStrictEqual(growing.trajectory(), FromRuns.buildTrajectory(tree, sessionId))
    assert.strictEqual((growing.trajectory()?.steps.length ?? 0) - (before?.steps.length ?? 0), 4)
  })
})
