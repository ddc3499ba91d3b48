/**
 * Decides how a run continues after an unusable answer: cut, paused, empty, or containing only calls that cannot be
 * attempted. Pure: takes the state so far and an outcome, and returns the next state and the action.
 *
 * **Details**
 *
 * Messages of an `Again` are sent and never stored: synthetic text does not reach the transcript. Every kind of retry
 * is bounded, and reaching a bound ends the run with exactly the text so far.
 *
 * - `announcement`: a model of the Responses API announces that it will look at the user's files, before it has called
 *   any tool. The text is short, contains words of intent and action, and names part of a workspace.
 * - `cut off`: a GLM model served by Ollama stopped in the middle of a sentence after tool results.
 *
 * A call that the model wrote as text is never executed. The model is asked again, twice at most.
 *
 * Announcements and cut sentences are heuristics, and a wrong one costs a bounded number of requests.
 *
 * Source: `hermes-llm.md` §13.3, §13.4 and §15.2–15.4, `ARCHITECTURE.md` §7.
 */
import * as Prompt from "effect/ai/Prompt"
import * as History from "../base/domain/History.ts"
import type { RouteInfo } from "../base/domain/Route.ts"
import type { Exit } from "../base/domain/RunEvent.ts"
import type { Outcome, SuspendedOutcome } from "./AnswerOutcome.ts"

/** Classification of text that the model ended by itself: an answer, an announcement, or text that breaks off. */
type AnswerKind = "answer" | "announcement" | "cut off"

/** Input of the classification. */
export interface AnswerInput {
  readonly text: string
  readonly route: RouteInfo
  /** Text of the user's question. */
  readonly asked: string
  /** True if one of the newest messages is a tool result. */
  readonly afterTools: boolean
  /** True if any message of the conversation is a tool result. */
  readonly anyResults: boolean
}

/** Maximum length of an announcement, in characters. */
const longestAnnouncement = 1_200

/** Minimum length of text that can be classified as cut, in characters. */
const shortestCut = 20

const intent =
  /\b(?:i['’]ll|i will|i['’]m going to|i am going to|let me|let['’]s|next,? i|first,? i|i can (?:start|begin))\b/i
const action =
  /\b(?:look|check|inspect|examine|explore|search|scan|read|open|list|find|review|analy[sz]e|investigate|run|test|trace|go through)\b/i
const workspace =
  /\b(?:repo(?:sitory)?|codebase|code|project|workspace|director(?:y|ies)|folders?|files?|modules?|sources?|tests?|path)\b/i

const isAnnouncement = ({ anyResults, asked, route, text }: AnswerInput): boolean =>
  route.apiMode === "codex_responses" &&
  !anyResults &&
  text.length <= longestAnnouncement &&
  intent.test(text) &&
  action.test(text) &&
  (workspace.test(text) || workspace.test(asked))

const isOllama = ({ baseUrl = "", provider }: RouteInfo): boolean =>
  /ollama/i.test(provider) || /ollama|:11434\b/i.test(baseUrl)

/** Characters that end sentences, quotes, lists and code, in Latin and East Asian writing. */
const ending = /[.!?:;)"'\]}`*…。！？：；）」』】》”’]$/u

const isCutOff = ({ afterTools, route, text }: AnswerInput): boolean => {
  if (!afterTools || !/glm/i.test(route.model) || !isOllama(route)) return false
  const said = text.trim()
  return said.length >= shortestCut && /\s/.test(said) && !ending.test(said)
}

/** Classifies text that the model ended by itself. */
export const classifyAnswer = (given: AnswerInput): AnswerKind =>
  isAnnouncement(given) ? "announcement" : isCutOff(given) ? "cut off" : "answer"

/** State of one answer across its attempts: the text so far and the retries already used. */
interface State {
  /** Text of this answer from earlier attempts. */
  readonly said: string
  readonly cuts: number
  readonly pauses: number
  readonly invalid: number
  readonly empties: number
  readonly thoughts: number
  readonly nudged: boolean
  readonly announcements: number
  readonly leaks: number
  /** Text of the last step if its only calls were housekeeping. It is the answer if no further text arrives. */
  readonly aside: string
}

/** State before the first step. */
export const initial: State = {
  said: "",
  cuts: 0,
  pauses: 0,
  invalid: 0,
  empties: 0,
  thoughts: 0,
  nudged: false,
  announcements: 0,
  leaks: 0,
  aside: ""
}

/** The next thing to do: ask again with more messages, or end the run. */
type Action =
  | {
      readonly _tag: "Again"
      readonly add: ReadonlyArray<Prompt.Message>
      readonly outputFactor: number
      readonly notice?: string
    }
  | {
      readonly _tag: "End"
      readonly exit: Exit
      readonly text: string
      /** Name of the stop tool or of the middleware that ended the run. */
      readonly by?: string
    }

/** Next state, and the action to take. */
interface Decision {
  readonly state: State
  readonly action: Action
}

/** Data about the run that a decision needs besides the outcome. */
export interface AnswerContext {
  /** True if one of the newest messages is a tool result. */
  readonly afterTools: boolean
  /** Classification of the text if the model ended it by itself. */
  readonly answer: AnswerKind
}

const limit = 3
const thoughtLimit = 2
const announcementLimit = 2

/** Tools whose use does not indicate progress on the task. */
const housekeeping: ReadonlySet<string> = new Set(["memory", "todo", "skill_manage", "session_search"])

const makeNudge = (text: string): Prompt.Message =>
  History.markOnce(Prompt.userMessage({ content: [Prompt.textPart({ text })] }))

const goOn = makeNudge(
  "Your answer was cut off by the output limit. Go on exactly where you stopped; do not repeat anything and do not comment on it."
)
const doIt = makeNudge("Do it now: call the tools that you need, and answer when it is done. Do not announce it again.")
const emptyAnswer = History.markOnce(Prompt.assistantMessage({ content: [Prompt.textPart({ text: "(empty)" })] }))
const useResults = makeNudge("Your last message was empty. Look at the tool results above and go on with the task.")

const emptyNotice = "The answer was empty: asking again"

const callTool = (tool: string): Prompt.Message =>
  makeNudge(
    `Your last message contained a call of ${tool} as text, so it was not executed. Call the tool with your tool ` +
      "interface, not in the text of your message."
  )

const decideRetry = (
  state: State,
  add: ReadonlyArray<Prompt.Message> = [],
  outputFactor = 1,
  notice?: string
): Decision => ({ state, action: { _tag: "Again", add, outputFactor, ...(notice === undefined ? {} : { notice }) } })

const decideEnd = (state: State, exit: Exit, text: string): Decision => ({ state, action: { _tag: "End", exit, text } })

const decideAfterTools = (state: State, outcome: Extract<Outcome, { readonly _tag: "Continue" }>): Decision => {
  if (outcome.invalid) {
    const invalid = state.invalid + 1
    if (invalid >= limit) return decideEnd(state, "invalid_tool_calls", state.said + outcome.text)
    return decideRetry({ ...initial, invalid })
  }
  const aside = outcome.tools.every((tool) => housekeeping.has(tool)) ? outcome.text : ""
  return decideRetry({ ...initial, aside })
}

const decideTruncated = (state: State, { cut, text }: Extract<Outcome, { readonly _tag: "Truncated" }>): Decision => {
  if (cut === "thinking") {
    return decideEnd(
      state,
      "output_truncated",
      "The whole output limit was used for thinking, and no answer is left. Lower the reasoning effort, or raise " +
        "model.max_tokens."
    )
  }
  const said = cut === "text" ? state.said + text : state.said
  const cuts = state.cuts + 1
  if (cuts >= limit) return decideEnd(state, "output_truncated", cut === "text" ? said : said + text)
  return cut === "text"
    ? decideRetry({ ...state, said, cuts }, [goOn], cuts + 1)
    : decideRetry(
        { ...state, said, cuts },
        [],
        cuts + 1,
        "A tool call was cut by the output limit: asking again with more room"
      )
}

const decideEmpty = (
  state: State,
  { reasoned }: Extract<Outcome, { readonly _tag: "Empty" }>,
  facts: AnswerContext
): Decision => {
  if (state.said !== "") return decideEnd(state, "output_truncated", state.said)
  if (state.aside !== "") return decideEnd(state, "text_response", state.aside)
  if (facts.afterTools && !state.nudged)
    return decideRetry({ ...state, nudged: true }, [emptyAnswer, useResults], 1, emptyNotice)
  if (reasoned && state.thoughts < thoughtLimit)
    return decideRetry(
      { ...state, thoughts: state.thoughts + 1 },
      [],
      1,
      "The model has only thought: asking for its answer"
    )
  if (state.empties < limit) return decideRetry({ ...state, empties: state.empties + 1 }, [], 1, emptyNotice)
  return decideEnd(state, "empty_response_exhausted", "(empty)")
}

const decideLeaked = (state: State, { text, tool }: Extract<Outcome, { readonly _tag: "Leaked" }>): Decision => {
  const leaks = state.leaks + 1
  if (leaks >= limit) return decideEnd(state, "invalid_tool_calls", state.said)
  const written = History.markOnce(Prompt.assistantMessage({ content: [Prompt.textPart({ text })] }))
  return decideRetry(
    { ...state, leaks },
    [written, callTool(tool)],
    1,
    `The model wrote a call of ${tool} as text: asking again`
  )
}

const decideFinished = (
  state: State,
  outcome: Extract<Outcome, { readonly _tag: "Finished" }>,
  facts: AnswerContext
): Decision => {
  if (facts.answer === "cut off") return decideTruncated(state, { _tag: "Truncated", text: outcome.text, cut: "text" })
  if (facts.answer === "announcement" && state.announcements < announcementLimit) {
    return decideRetry({ ...state, announcements: state.announcements + 1 }, [doIt])
  }
  return decideEnd(state, "text_response", state.said + outcome.text)
}

/** Returns the next state and the action for an outcome, based on the state so far. */
export const decide = (state: State, outcome: Exclude<Outcome, SuspendedOutcome>, facts: AnswerContext): Decision => {
  switch (outcome._tag) {
    case "Continue":
      return decideAfterTools(state, outcome)
    case "Finished":
      return decideFinished(state, outcome, facts)
    case "Truncated":
      return decideTruncated(state, outcome)
    case "Endless":
      return decideEnd(state, "output_truncated", state.said + outcome.text)
    case "BrokenOff":
      return decideEnd(state, "partial_stream_recovery", state.said + outcome.text)
    case "Paused":
      return state.pauses >= limit
        ? decideEnd(state, "output_truncated", state.said + outcome.text)
        : decideRetry({ ...state, said: state.said + outcome.text, pauses: state.pauses + 1 })
    case "Leaked":
      return decideLeaked(state, outcome)
    case "Empty":
      return decideEmpty(state, outcome, facts)
    case "Filtered":
      return decideEnd(state, "content_filtered", state.said + outcome.text)
    case "Halted":
      return decideEnd(state, "guardrail_halt", outcome.message)
    case "Ended":
      return { state, action: { ...outcome, _tag: "End" } }
  }
}
