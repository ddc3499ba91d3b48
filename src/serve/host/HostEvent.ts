/**
 * Events and state of a live session. Every client receives the same events in the same order, and the state is the
 * result of all events so far.
 *
 * **Details**
 *
 * `RunEvents` contains several events of a turn. Only one turn runs at a time. Between its `TurnStarted` and
 * `TurnEnded`, only its own events and events about the queue, questions and settings occur.
 *
 * **Example** (Printing the text of every turn)
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
import type * as Approval from "../../tools/approval/ApprovalRequest.ts"
import type * as Clarifier from "../../tools/builtin/Clarifier.ts"

/** A permission mode of the agent. */
export type Mode = PermissionMode

/** The stored session that a live session currently uses. */
export interface SessionIdentity {
  readonly id: SessionId
  /** Working directory of the session's tools. Defaults to the agent's directory. */
  readonly cwd: string | undefined
  /** Earlier sessions of this conversation that were compacted, oldest first. This session continues them. */
  readonly earlier: ReadonlyArray<SessionId>
  /** Time at which the session was opened in this process. */
  readonly since: number
  /** Number of messages sent in this session so far, including messages sent by earlier processes. */
  readonly prompts: number
  /** Title that is set as soon as the session is stored. */
  readonly title: string | undefined
  /** Last message, used for a retry. */
  readonly lastPrompt: RunInput["prompt"] | undefined
}

/** A message for the agent. */
export interface Message {
  /** Stable id of the message, unique in this live session. */
  readonly id: string
  /**
   * `answers` continues a suspended run with the answers that its session has, and `questions` asks the user for them
   * first. Both have no prompt. `remote` began a turn of another process, which is followed here.
   */
  readonly origin: "client" | "plugin" | "background" | "answers" | "questions" | "remote"
  readonly prompt: RunInput["prompt"]
  /** Text that represents the message on a screen. */
  readonly shown: string
  /** Id of the text in the inbox of the session, if another process sent it. */
  readonly received?: string | undefined
}

/** Returns true for a message that continues a suspended run. */
export const isContinuation = ({ origin }: Pick<Message, "origin">): boolean =>
  origin === "answers" || origin === "questions"

/** A turn that is running. Turn ids count from 1. */
export interface Turn {
  readonly id: number
  readonly message: Message
  readonly sessionId: SessionId
  readonly startedAt: number
  /** True after a client asked the turn to stop. */
  readonly isStopping: boolean
  /** True if a hook may still replace the complete answer, so that its deltas are not final. */
  readonly isRewritten: boolean
  /** Id of the run, if the turn is one of another process. */
  readonly runId?: string | undefined
}

/** Modes in which an approved plan can be carried out. */
export const planModes = ["ask", "edits", "auto"] as const satisfies ReadonlyArray<Mode>

/** A plan that was presented in the mode `plan`. */
export interface PlanQuestion {
  /** The plan, which is the answer of the turn. */
  readonly plan: string
  /** Modes in which the plan can be carried out. */
  readonly modes: ReadonlyArray<(typeof planModes)[number]>
}

/**
 * An open question, without secrets. `id` is stable. The oldest question comes first. A question about a plan is asked
 * after its turn. The next turn, a change of mode or a change of session withdraws it.
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
 * An answer to a question of the same kind. A clarification is answered with choices as they were shown, or with free
 * text. A plan is carried out in the mode that the answer contains. The mode `plan`, or a mode that was not offered,
 * continues planning. The text of the answer becomes part of the next message.
 */
export type Answer =
  | { readonly _tag: "Approval"; readonly reply: Approval.Reply }
  | { readonly _tag: "Clarification"; readonly answers: ReadonlyArray<string> }
  | { readonly _tag: "Plan"; readonly mode: "plan" | (typeof planModes)[number]; readonly words?: string | undefined }

/** Settings of a live session. The mode applies from the next tool call, the other settings from the next turn. */
export interface LiveSettings {
  readonly mode: Mode
  /** The model route. `undefined` leaves the choice to the router. */
  readonly route: Route | undefined
  /** Reasoning effort of the model. Defaults to the agent's setting. */
  readonly effort: ReasoningEffort | undefined
}

/** State of a live session. Every change creates a new value. */
export interface State extends LiveSettings {
  readonly session: SessionIdentity
  readonly turn: Turn | undefined
  /** Messages that wait for the next turns. */
  readonly queue: ReadonlyArray<Message>
  /** Messages that wait to be delivered to the current turn (see `steer`). */
  readonly steering: ReadonlyArray<string>
  readonly questions: ReadonlyArray<OpenQuestion>
}

/** Reason for a change of the session. Only `titled` leaves the session id unchanged. */
export type SessionChange = "new" | "resumed" | "compacted" | "titled"

/** An event of a live session: an event of a turn, of the queue, of a question, or of the session itself. */
export type HostEvent =
  | { readonly _tag: "TurnStarted"; readonly turn: Turn }
  | { readonly _tag: "RunEvents"; readonly turn: number; readonly events: ReadonlyArray<RunEvent> }
  /** `turn.isStopping` is true if a client asked the turn to stop. */
  | { readonly _tag: "TurnEnded"; readonly turn: Turn; readonly exit: Exit.Exit<RunResult, AgentError> }
  /** Usage that background reviews and sub-agents report for turns that are already over. */
  | { readonly _tag: "UsageAfter"; readonly events: ReadonlyArray<UsageReported> }
  | { readonly _tag: "QueueChanged"; readonly queue: ReadonlyArray<Message>; readonly steering: ReadonlyArray<string> }
  /** The user stopped the work before a turn began with these messages. They are returned and not sent. */
  | { readonly _tag: "MessagesReturned"; readonly messages: ReadonlyArray<Message> }
  /** The model received these steering messages together with a tool result. */
  | { readonly _tag: "Steered"; readonly turn: number; readonly texts: ReadonlyArray<string> }
  | { readonly _tag: "QuestionAsked"; readonly question: OpenQuestion }
  /** `answer` is `undefined` if the question was withdrawn because its turn ended or it waited too long. */
  | { readonly _tag: "QuestionClosed"; readonly id: string; readonly answer: Answer | undefined }
  | {
      readonly _tag: "SessionChanged"
      readonly change: SessionChange
      readonly from: SessionId
      readonly session: SessionIdentity
    }
  | { readonly _tag: "SettingsChanged"; readonly settings: LiveSettings }
  /** A notice for the user that is not part of a turn, in one or more lines. */
  | { readonly _tag: "Notice"; readonly level: "info" | "error"; readonly message: string }
