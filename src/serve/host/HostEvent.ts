/**
 * Events and state of a live session, as its clients see them. Every client receives the same events in the same order;
 * the state is the result of all events so far.
 *
 * **Details**
 *
 * `RunEvents` carries the events of a turn in batches. Between `TurnStarted` and `TurnEnded` of a turn, only events of
 * that turn, of the queue, of questions and of settings occur; there is one turn at a time.
 *
 * **Example** (The text of every turn)
 *
 * ```ts
 * import type { HostEvent } from "hermes-effect/host"
 *
 * const textOf = (event: HostEvent.HostEvent): string =>
 *   event._tag === "RunEvents" ? event.events.map((one) => one._tag === "TextDelta" ? one.text : "").join("") : ""
 *
 * console.log(textOf({ _tag: "RunEvents", turn: 1, events: [{ _tag: "TextDelta", text: "hello" }] }))
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §1.8.
 */
import type * as Exit from "effect/Exit"
import type { RunInput } from "../../agent/RunInput.ts"
import type { PermissionMode } from "../../base/config/PermissionMode.ts"
import type { AgentError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type { ReasoningEffort } from "../../base/domain/ModelCall.ts"
import type { Route } from "../../base/domain/Route.ts"
import type { RunEvent, RunResult, UsageReported } from "../../base/domain/RunEvent.ts"
import type * as Approval from "../../tools/approval/Question.ts"
import type * as Clarifier from "../../tools/builtin/Clarifier.ts"

/** Rights of the agent, from the narrowest on. */
export type Mode = PermissionMode

/** The session that a live session is in. */
export interface SessionIdentity {
  readonly id: SessionId
  /** Directory of its tools; the agent's when absent. */
  readonly cwd: string | undefined
  /** Compacted sessions of this conversation that this session continues, oldest first. */
  readonly earlier: ReadonlyArray<SessionId>
  /** Time at which it was opened here. */
  readonly since: number
  /** Messages that were sent, before and now. */
  readonly prompts: number
  /** Title to set as soon as the session is stored. */
  readonly title: string | undefined
  /** Last message, for a retry. */
  readonly lastPrompt: RunInput["prompt"] | undefined
}

/** A message for the agent. */
export interface Message {
  /** Stable, and unique in this live session. */
  readonly id: string
  readonly origin: "client" | "plugin" | "background"
  readonly prompt: RunInput["prompt"]
  /** The text that represents it on a screen. */
  readonly shown: string
}

/** A message at work. Turns count from 1. */
export interface Turn {
  readonly id: number
  readonly message: Message
  readonly sessionId: SessionId
  readonly startedAt: number
  /** True when it was asked to stop. */
  readonly isStopping: boolean
  /**
   * True if the text of the answer may still be replaced when it is complete, so that deltas show nothing for sure.
   */
  readonly isRewritten: boolean
}

/** Modes in which an approved plan is carried out. */
export const planModes = ["ask", "edits", "auto"] as const satisfies ReadonlyArray<Mode>

/** A plan that was presented in the mode `plan`. */
export interface PlanQuestion {
  /** The plan: the answer of the turn. */
  readonly plan: string
  /** Modes to carry it out in. */
  readonly modes: ReadonlyArray<(typeof planModes)[number]>
}

/**
 * An open question, without secrets. `id` is stable; the oldest question is first. A question about a plan is asked
 * after its turn and is withdrawn by the next turn, a change of mode or a change of session.
 */
export type OpenQuestion =
  | {
      readonly _tag: "Approval"
      readonly id: string
      readonly turn: number
      readonly askedAt: number
      readonly question: Approval.Question
    }
  | {
      readonly _tag: "Clarification"
      readonly id: string
      readonly turn: number
      readonly askedAt: number
      readonly question: Clarifier.Question
    }
  | {
      readonly _tag: "Plan"
      readonly id: string
      readonly turn: number
      readonly askedAt: number
      readonly question: PlanQuestion
    }

/**
 * An answer to a question of the same kind. Answers to a clarification are its choices as they were shown, or other
 * words. A plan is carried out in the mode of its answer; `plan`, or a mode that was not offered, continues planning.
 * The words of the answer are part of the next message.
 */
export type Answer =
  | { readonly _tag: "Approval"; readonly reply: Approval.Reply }
  | { readonly _tag: "Clarification"; readonly answers: ReadonlyArray<string> }
  | { readonly _tag: "Plan"; readonly mode: "plan" | (typeof planModes)[number]; readonly words?: string | undefined }

/** Settings of a live session; the mode holds from the next call of a tool on, the others from the next turn on. */
export interface LiveSettings {
  readonly mode: Mode
  /** The route to ask; the router's choice when absent. */
  readonly route: Route | undefined
  /** Reasoning effort of the model; the agent's when absent. */
  readonly effort: ReasoningEffort | undefined
}

/** State of a live session. Every change makes a new value. */
export interface State extends LiveSettings {
  readonly session: SessionIdentity
  readonly turn: Turn | undefined
  /** Messages for the next turns. */
  readonly queue: ReadonlyArray<Message>
  /** Texts on their way into the turn. */
  readonly steering: ReadonlyArray<string>
  readonly questions: ReadonlyArray<OpenQuestion>
}

/** Reason of a change of the session: `titled` alone leaves its id as it is. */
export type SessionChange = "new" | "resumed" | "compacted" | "titled"

/**
 * One event of a live session, as its readers get it: the union of events of turns, the queue, approvals and the
 * session itself.
 */
export type HostEvent =
  | { readonly _tag: "TurnStarted"; readonly turn: Turn }
  | { readonly _tag: "RunEvents"; readonly turn: number; readonly events: ReadonlyArray<RunEvent> }
  /** `isStopping` of the turn says that it was asked to stop. */
  | { readonly _tag: "TurnEnded"; readonly turn: Turn; readonly exit: Exit.Exit<RunResult, AgentError> }
  /** Reviews and children in the background spent this for turns that are over. */
  | { readonly _tag: "UsageAfter"; readonly events: ReadonlyArray<UsageReported> }
  | { readonly _tag: "QueueChanged"; readonly queue: ReadonlyArray<Message>; readonly steering: ReadonlyArray<string> }
  /**
   * These messages were taken back before a turn began with them: the user stopped the work, and none of them is sent.
   */
  | { readonly _tag: "MessagesReturned"; readonly messages: ReadonlyArray<Message> }
  /** The model received these texts with the result of a tool. */
  | { readonly _tag: "Steered"; readonly turn: number; readonly texts: ReadonlyArray<string> }
  | { readonly _tag: "QuestionAsked"; readonly question: OpenQuestion }
  /** Without an answer it was taken back: its turn ended, or it waited too long. */
  | { readonly _tag: "QuestionClosed"; readonly id: string; readonly answer: Answer | undefined }
  | {
      readonly _tag: "SessionChanged"
      readonly change: SessionChange
      readonly from: SessionId
      readonly session: SessionIdentity
    }
  | { readonly _tag: "SettingsChanged"; readonly settings: LiveSettings }
  /** Something that the user should know, and that is not part of a turn, in one or more lines. */
  | { readonly _tag: "Notice"; readonly level: "info" | "error"; readonly message: string }
