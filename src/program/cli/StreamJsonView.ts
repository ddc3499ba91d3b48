/**
 * `--format stream-json`: one JSON object per line on stdout, each with its `timestamp` in milliseconds.
 *
 * The lines are `system` (`init`), then `text`, `tool_use` and `tool_result` as they happen, and always one `result`
 * at the end. The `text` of the result is the concatenation of all deltas, including the text of steps that called
 * tools, separated by a blank line. If text that was shown is retracted, a line of the type `text_replaced` contains
 * the whole text so far as its `text`, which replaces all earlier deltas, and the `step_id` at which the difference
 * starts. A run that ended early has an `exit` (`partial_stream_recovery`, …) in addition to `exit_code` and `error`.
 * A call that was refused before it could run has a `tool_use` without `input`. The result contains the cost of the
 * run in addition to its `tokens`, as `estimated_cost_usd`, `cost_status` and `cost_source`. Each fallback is a line
 * of the type `fallback` (`from`, `to`, `reason`), and the `result` names the `model` and `provider` that answered.
 * Sub-agents are reported by lines of the type `subagent` (`start`, `progress`, `stop`), and a file changed by a call
 * is reported by a `file_change` line. A run that waits for answers has a `question` line for each question, and all
 * of them as `questions` of the result. The specification defines none of these three types.
 *
 * Source: `hermes-product.md` §1.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Cost from "../../base/domain/Cost.ts"
import type { Question } from "../../base/domain/Question.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as ToolView from "../../base/domain/ToolView.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { makeStreamedText } from "../../serve/host/StreamedText.ts"
import type * as ProgramOutput from "./ProgramOutput.ts"
import * as QuestionText from "./render/QuestionText.ts"
import * as SafeText from "./render/SafeText.ts"
import type { RunSummary, View } from "./View.ts"

/** Maximum number of characters of a tool's result in its line. */
const maxOutput = 5000

/** A line without its timestamp. */
type Fact = { readonly type: string } & Readonly<Record<string, unknown>>

const cutOutput = (output: string): string => TextCut.shorten(output, maxOutput)

/** Creates a line about a sub-agent. */
const makeSubagentFact = (
  subtype: "start" | "progress" | "stop",
  { subagentId }: { readonly subagentId: string }
): Fact => ({ type: "subagent", subtype, subagent_id: subagentId })

/** A question that the run waits for, and its command. */
const toQuestionFact = (question: Question) => ({
  id: question.id,
  kind: question.kind,
  ...(question.tool === undefined ? {} : { tool: question.tool }),
  ...(question.callId === undefined ? {} : { tool_call_id: question.callId }),
  title: question.title,
  ...(question.prompt === undefined ? {} : { prompt: question.prompt }),
  schema: question.schema,
  ...(question.expiresAt === undefined ? {} : { expires_at: question.expiresAt }),
  answer_with: QuestionText.formatAnswerCommand(question)
})

const toTextFacts = (piece: string): ReadonlyArray<Fact> => (piece === "" ? [] : [{ type: "text", text: piece }])

/** State of the view. */
interface WrittenFacts {
  readonly out: ProgramOutput.Service["out"]
  /** Calls whose start was written. */
  readonly started: Set<string>
  /** Text of the answer that was written. */
  shown: ReturnType<typeof makeStreamedText>
  /** Time of the first line. */
  startedAt: number | undefined
}

type EventOf<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

const toToolFacts = (event: EventOf<"ToolFinished">, isStarted: boolean): ReadonlyArray<Fact> => {
  const use = { type: "tool_use", name: event.name, tool_call_id: event.callId }
  return [
    ...(isStarted ? [] : [use]),
    {
      type: "tool_result",
      name: event.name,
      tool_call_id: event.callId,
      output: cutOutput(event.output),
      duration_ms: Math.round(event.durationMillis),
      is_error: event.status !== "ok",
      // The result as a user reads it: the same view as on the terminal.
      view: ToolView.toWire(ToolView.presentResult(event.name, event.status, event.output))
    }
  ]
}

const toFileFact = (event: EventOf<"FileChanged">): Fact => ({
  type: "file_change",
  tool_call_id: event.callId,
  path: event.path,
  change: event.before === undefined ? "created" : event.after === undefined ? "deleted" : "changed",
  by: event.by,
  added: event.added,
  removed: event.removed,
  diff: event.diff
})

const toSubagentResult = (event: EventOf<"SubagentFinished">): Fact => ({
  ...makeSubagentFact("stop", event),
  session_id: event.sessionId,
  status: event.status,
  tool_count: event.toolCount,
  tokens: { input: Usage.countPromptTokens(event.usage), output: event.usage.outputTokens },
  duration_ms: Math.round(event.durationMillis)
})

const toFacts = ({ shown, started }: WrittenFacts, event: RunEvent): ReadonlyArray<Fact> => {
  switch (event._tag) {
    case "StepStarted":
      shown.step(event.step)
      return []
    case "TextDelta":
      return toTextFacts(shown.delta(event.text))
    case "TextReplaced": {
      const text = shown.replace(event.stepId, event.text)
      return text === undefined ? [] : [{ type: "text_replaced", step_id: event.stepId, text }]
    }
    case "ToolStarted":
      started.add(event.callId)
      return [
        { type: "tool_use", name: event.name, tool_call_id: event.callId, input: Redaction.redactValue(event.params) }
      ]
    case "ToolFinished":
      return toToolFacts(event, started.delete(event.callId))
    case "QuestionAsked":
      return [{ type: "question", ...toQuestionFact(event.question) }]
    case "FileChanged":
      return [toFileFact(event)]
    case "RouteChanged":
      return [{ type: "fallback", from: event.from, to: event.to, reason: event.reason }]
    case "SubagentStarted":
      return [{ ...makeSubagentFact("start", event), session_id: event.sessionId, goal: event.goal }]
    case "SubagentProgress":
      return [{ ...makeSubagentFact("progress", event), text: event.text }]
    case "SubagentFinished":
      return [toSubagentResult(event)]
    default:
      return []
  }
}

const writeFacts = (written: WrittenFacts, facts: ReadonlyArray<Fact>): Effect.Effect<void> =>
  facts.length === 0
    ? Effect.void
    : Effect.flatMap(Clock.currentTimeMillis, (timestamp) => {
        written.startedAt ??= timestamp
        return written.out(
          facts.map(({ type, ...rest }) => `${SafeText.toJson({ type, timestamp, ...rest })}\n`).join("")
        )
      })

/** Describes the ending of a run. `text` is the whole answer that was written. */
const toResultFact = (
  { cost, error, exit, exitCode, questions, route, sessionId, usage }: RunSummary,
  text: string,
  duration: number
): Fact => ({
  type: "result",
  session_id: sessionId,
  exit_code: exitCode,
  ...(route === undefined ? {} : { model: route.model, provider: route.provider }),
  ...(exit === undefined ? {} : { exit }),
  ...(questions === undefined ? {} : { questions: questions.map(toQuestionFact) }),
  text,
  tokens: {
    input: usage.inputTokens,
    output: usage.outputTokens,
    total: Usage.countTotalTokens(usage),
    cache_read: usage.cacheReadTokens,
    cache_write: usage.cacheWriteTokens
  },
  ...Cost.toWire(cost),
  duration_ms: duration,
  ...(error === undefined ? {} : { error })
})

/** Creates the view that writes each event as one line of JSON. */
export const make = ({ out }: ProgramOutput.Service): View => {
  const written: WrittenFacts = { out, started: new Set(), shown: makeStreamedText(true), startedAt: undefined }
  return {
    prepare: ({ live }) => {
      written.shown = makeStreamedText(live)
    },
    begin: ({ model, sessionId }) =>
      writeFacts(written, [{ type: "system", subtype: "init", model, session_id: sessionId }]),
    events: (events) =>
      writeFacts(
        written,
        events.flatMap((event) => toFacts(written, event))
      ),
    end: (ending) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { shown, startedAt = now } = written
        const rest = toTextFacts(shown.rest(ending.text))
        return writeFacts(written, [...rest, toResultFact(ending, shown.all(), now - startedAt)])
      })
  }
}
