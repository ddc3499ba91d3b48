/**
 * Classifies a text that a model ended of its own accord: some models announce what they will do and stop, and one
 * server reports an answer that it cut as a complete one.
 *
 * **Details**
 *
 * - `announcement`: a model of the Responses API says what it is going to look at in the user's files, before it ever called
 *   a tool. It is short, has words of intent and of action, and names something of a workspace.
 * - `cut off`: a GLM model behind Ollama stopped after tool results in the middle of a sentence.
 *
 * Both are guesses, and each costs a bounded number of questions when it is wrong.
 *
 * Source: `hermes-llm.md` §15.2 and §15.3.
 */
import type { RouteInfo } from "../domain/Route.ts"

/** Kinds of a text that a model ended of its own accord. */
export type AnswerKind = "answer" | "announcement" | "cut off"

/** Input of the classification. */
export interface AnswerInput {
  readonly text: string
  readonly route: RouteInfo
  /** Question of the user, as far as it is text. */
  readonly asked: string
  /** True when one of the newest messages is a tool's result. */
  readonly afterTools: boolean
  /** True when there is a tool's result anywhere in the conversation. */
  readonly anyResults: boolean
}

/** Characters of an announcement at most. */
const longestAnnouncement = 1_200

/** Characters of a text that can be called cut. */
const shortestCut = 20

const intent = /\b(?:i['’]ll|i will|i['’]m going to|i am going to|let me|let['’]s|next,? i|first,? i|i can (?:start|begin))\b/i
const action =
  /\b(?:look|check|inspect|examine|explore|search|scan|read|open|list|find|review|analy[sz]e|investigate|run|test|trace|go through)\b/i
const workspace = /\b(?:repo(?:sitory)?|codebase|code|project|workspace|director(?:y|ies)|folders?|files?|modules?|sources?|tests?|path)\b/i

const isAnnouncement = ({ anyResults, asked, route, text }: AnswerInput): boolean =>
  route.apiMode === "codex_responses" && !anyResults && text.length <= longestAnnouncement &&
  intent.test(text) && action.test(text) && (workspace.test(text) || workspace.test(asked))

const isOllama = ({ baseUrl = "", provider }: RouteInfo): boolean =>
  /ollama/i.test(provider) || /ollama|:11434\b/i.test(baseUrl)

/** Characters that end sentences, quotes, lists and code, in Latin and East Asian writing. */
const ending = /[.!?:;)"'\]}`*…。！？：；）」』】》”’]$/u

const isCutOff = ({ afterTools, route, text }: AnswerInput): boolean => {
  if (!afterTools || !/glm/i.test(route.model) || !isOllama(route)) return false
  const said = text.trim()
  return said.length >= shortestCut && /\s/.test(said) && !ending.test(said)
}

/** Classifies a text that a model ended of its own accord. */
export const of = (given: AnswerInput): AnswerKind =>
  isAnnouncement(given) ? "announcement" : isCutOff(given) ? "cut off" : "answer"
