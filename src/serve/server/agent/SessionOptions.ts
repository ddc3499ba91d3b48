/**
 * Options that clients choose for a session, and the treatment of its questions: their readers, and their answers
 * without one.
 */
import type { PermissionMode } from "../../../base/config/PermissionMode.ts"
import type { AnswerFormat } from "../../../base/domain/AnswerFormat.ts"
import type { Question } from "../../../base/domain/Question.ts"
import type { RunEvent } from "../../../base/domain/RunEvent.ts"
import type * as Scope from "effect/Scope"
import type { Answer, HostEvent, LiveSettings } from "../../host/HostEvent.ts"
import type { QuestionPolicy } from "../../../tools/CallQuestions.ts"
import type { Selection } from "../../../tools/ToolRegistry.ts"

/** Options of the next turns of a session. */
export interface SessionInput {
  tools: Selection
  system: string | undefined
  output: AnswerFormat<unknown> | undefined
  questions: QuestionPolicy | undefined
  toolScope: Scope.Closeable | undefined
  offered: string
}

/** Settings that a client chose for a session. */
export interface ChosenSettings extends LiveSettings {
  readonly questions: QuestionPolicy | undefined
}

/** Settings of closed sessions, and the defaults of the server. */
interface SettingsMemory {
  readonly chosen: Map<string, ChosenSettings>
  readonly options: { readonly mode: PermissionMode; readonly questions?: QuestionPolicy | undefined }
}

/** Maximum number of closed sessions for which settings other than the defaults are remembered. */
const mostSettings = 10_000

/** Remembers the settings of a session that is closed, if they differ from the defaults. */
export const rememberSettings = ({ chosen, options }: SettingsMemory, id: string, settings: ChosenSettings): void => {
  const { effort, mode, questions, route } = settings
  chosen.delete(id)
  if (mode !== options.mode || route !== undefined || questions !== options.questions)
    chosen.set(id, { effort, mode, questions, route })
  const oldest = chosen.keys().next()
  if (chosen.size > mostSettings && oldest.done !== true) chosen.delete(oldest.value)
}

/** Answers that are given automatically if a session's events have no reader. */
export const unread: { readonly [Kind in Answer["_tag"]]: Extract<Answer, { readonly _tag: Kind }> } = {
  Approval: {
    _tag: "Approval",
    reply: { choice: "deny", reason: "Approvals are not available over this connection." }
  },
  Clarification: { _tag: "Clarification", answers: [] },
  Plan: { _tag: "Plan", mode: "plan" }
}

/** Returns the policy of the next turn. A suspending run waits for no user, unless its policy has a time. */
export const readPolicy = ({ questions }: Pick<SessionInput, "questions">): QuestionPolicy | undefined =>
  questions?.unanswered === "suspend" ? { wait: 0, ...questions } : questions

/** Tests whether a client may see and answer a question of its session. The owner of the server may see all of its. */
export const isQuestionSeenBy = (client: string | undefined, { audience }: Pick<Question, "audience">): boolean =>
  client === undefined || audience === undefined || audience === client

/** Removes the questions that a client may not see from an event of a run. */
export const hideFromEvent = (client: string | undefined, event: RunEvent): ReadonlyArray<RunEvent> => {
  if (event._tag === "QuestionAsked") return isQuestionSeenBy(client, event.question) ? [event] : []
  if (event._tag !== "RunFinished" || event.questions === undefined) return [event]
  return [{ ...event, questions: event.questions.filter((question) => isQuestionSeenBy(client, question)) }]
}

/** Removes the questions of other audiences from an event. */
export const hideQuestions = (client: string | undefined, event: HostEvent): HostEvent =>
  event._tag === "RunEvents" && event.events.some(({ _tag }) => _tag === "QuestionAsked" || _tag === "RunFinished")
    ? { ...event, events: event.events.flatMap((one) => hideFromEvent(client, one)) }
    : event

/** Renders the questions of a suspended turn as the end of its answer, for clients that know no questions. */
export const renderQuestions = (questions: ReadonlyArray<Question>): string =>
  questions.length === 0
    ? ""
    : ["The run waits for answers:", ...questions.map(({ id, title }) => `- ${title} (${id})`)].join("\n")
