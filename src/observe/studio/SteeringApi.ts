/**
 * Messages from the studio's page to a turn that another process runs, and the questions of that turn or of a suspended
 * run. The server and the page share these types.
 */
import type { RemoteAnswer } from "../../store/RemoteForms.ts"

/** A text for the model of the turn that runs. `busy` is `steer` by default: the next result of a tool has the text. */
export interface SteerRequest {
  readonly text: string
  readonly busy?: "queue" | "steer" | "interrupt" | undefined
}

/** Treatment of a text by the process of the turn: it begins a turn, waits for one, or comes with the next result. */
export interface Steered {
  readonly status: "queued" | "started" | "steering"
}

/** Result of a cancellation. `returned` has the texts that waited for a turn, and were taken back. */
export interface Cancelled {
  readonly stopped: boolean
  readonly returned: ReadonlyArray<string>
}

/**
 * Result of an answer. `continues` is absent for a question of a running turn. A suspended run continues with its
 * answers if a durable run waits for them, and otherwise when its session is opened.
 */
export interface Answered {
  readonly continues?: boolean | undefined
}

/** An answer to an open question, with the id of the question. */
export interface AnswerRequest {
  readonly question: string
  readonly answer: RemoteAnswer
}

/** An open question of the turn that runs in another process, or of a suspended run. */
export interface OpenQuestion {
  readonly id: string
  readonly title: string
  /** The command or the plan that the question is about. Empty for other questions. */
  readonly text: string
  readonly choices: ReadonlyArray<{ readonly label: string; readonly answer: RemoteAnswer }>
  /** Use of a typed text: no use, an answer, one of several answers, or a change to the plan. */
  readonly typed: "none" | "answer" | "several" | "plan"
}
