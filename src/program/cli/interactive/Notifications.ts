/**
 * Notifies a user who is not watching the terminal: a bell or a terminal notification when a long turn ends or a
 * question is open, and a window title that shows the state of the session.
 *
 * **Details**
 *
 * Sequences are OSC 9 (iTerm2, WezTerm, ConEmu, Windows Terminal, …) and OSC 777 (rxvt, foot, VTE); a terminal that
 * does not support them shows nothing. The previous title is pushed on the terminal's title stack and restored at the
 * end.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { HostEvent, OpenQuestion } from "../../../serve/host/HostEvent.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Width from "../render/Width.ts"
import * as ApprovalQuestion from "./ApprovalQuestion.ts"

/** Method of notification. */
export type Method = "off" | "bell" | "osc9" | "osc777"

/** Options of notifications. */
export interface NotifyOptions {
  readonly method: Method
  /** Duration of a turn, or of an open question, after which the user is notified. */
  readonly after: Duration.Duration
  /** Window title during the session; `undefined` leaves the title unchanged. */
  readonly title: string | undefined
}

/** Sends notifications for the events of a session. */
export interface Notifications {
  readonly follow: (event: HostEvent, now: number) => void
}

const bell = "\u0007"
const saveTitle = "\u001b[22;0t"
const restoreTitle = "\u001b[23;0t"
const longest = 120

/** Removes characters that end or start a control sequence. */
const toPlainText = (text: string): string =>
  Width.cut(SafeText.toLine(Redaction.redactText(SafeText.toPlainText(text))).replaceAll(";", ","), longest)

/** Creates the escape sequence of a notification. */
export const makeSequence = (method: Method, text: string): string => {
  switch (method) {
    case "off":
      return ""
    case "bell":
      return bell
    case "osc9":
      return `\u001b]9;hermes: ${toPlainText(text)}${bell}`
    case "osc777":
      return `\u001b]777;notify;hermes;${toPlainText(text)}${bell}`
  }
}

/** Creates the escape sequence that sets the window title. */
const makeTitleSequence = (text: string): string => `\u001b]2;${toPlainText(text)}${bell}`

/**
 * Formats the shortened text of a question. Returns `undefined` for a plan, which is reported at the end of its turn.
 */
const formatQuestion = (question: OpenQuestion): string | undefined => {
  if (question._tag === "Plan") return undefined
  return question._tag === "Approval" ? ApprovalQuestion.describeRequest(question.question) : question.question.question
}

/** Creates notifications that are sent until the scope closes. `write` writes to the terminal. */
export const make = Effect.fnUntraced(function* (
  { after, method, title }: NotifyOptions,
  write: (text: string) => void
): Effect.fn.Return<Notifications, never, Scope.Scope> {
  const patience = Duration.toMillis(after)
  /** Open questions that were not yet reported. */
  const waiting = new Map<string, { readonly text: string; readonly since: number }>()
  let isWorking = false
  const notify = (text: string): void => {
    if (method !== "off") write(makeSequence(method, text))
  }
  const setTitle = (state: string): void => {
    if (title !== undefined) write(makeTitleSequence(`${state}${title}`))
  }

  if (title !== undefined) {
    yield* Effect.acquireRelease(
      Effect.sync(() => write(saveTitle)),
      () => Effect.sync(() => write(restoreTitle))
    )
    setTitle("")
  }

  const overdue = Effect.map(Clock.currentTimeMillis, (now) => {
    for (const [id, { since, text }] of waiting) {
      if (now - since < patience) continue
      waiting.delete(id)
      notify(text)
    }
  })
  if (method !== "off") yield* Effect.forkScoped(Effect.schedule(overdue, Schedule.spaced("1 second")))

  return {
    follow: (event, now) => {
      switch (event._tag) {
        case "TurnStarted":
          isWorking = true
          return setTitle("working: ")
        case "QuestionAsked": {
          const text = formatQuestion(event.question)
          if (text !== undefined) waiting.set(event.question.id, { text, since: now })
          return setTitle("waiting for you: ")
        }
        case "QuestionClosed":
          waiting.delete(event.id)
          return setTitle(isWorking ? "working: " : "")
        case "TurnEnded": {
          isWorking = false
          waiting.clear()
          setTitle("")
          const { exit, turn } = event
          if (now - turn.startedAt >= patience && !turn.isStopping) {
            notify(
              exit._tag === "Success"
                ? exit.value.text.trim().split("\n", 1)[0] || "The turn is done."
                : "The turn failed."
            )
          }
          return
        }
        default:
          return
      }
    }
  }
})
