/**
 * Tells a user who looks elsewhere: a bell or a notification of the terminal when a long turn ends or a question waits,
 * and a window title that says what the session is at.
 *
 * **Details**
 *
 * Sequences are OSC 9 (iTerm2, WezTerm, ConEmu, Windows Terminal, …) and OSC 777 (rxvt, foot, VTE); a terminal that
 * does not know them shows nothing. The title that was there before is put on the terminal's own stack and taken back
 * at the end.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { HostEvent, OpenQuestion } from "../../../serve/host/HostEvent.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Width from "../render/Width.ts"
import * as ApprovalQuestion from "./ApprovalQuestion.ts"

/** Way to notify. */
export type Method = "off" | "bell" | "osc9" | "osc777"

/** Settings of notifications. */
export interface NotifyOptions {
  readonly method: Method
  /** Time that a turn takes, or a question waits, before anybody is notified. */
  readonly after: Duration.Duration
  /** The name of the window while the session lasts; undefined leaves it as it is. */
  readonly title: string | undefined
}

/** Follows the events of a session. */
export interface Notifications {
  readonly follow: (event: HostEvent, now: number) => void
}

const bell = "\u0007"
const saveTitle = "\u001b[22;0t"
const restoreTitle = "\u001b[23;0t"
const longest = 120

/** A text that ends no sequence and begins none. */
const toPlainText = (text: string): string =>
  Width.cut(SafeText.toLine(Redaction.redactText(SafeText.toPlainText(text))).replaceAll(";", ","), longest)

/** Sequence of a notification. */
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

/** Sequence that sets the title of the window. */
const makeTitleSequence = (text: string): string => `\u001b]2;${toPlainText(text)}${bell}`

/** The question's text, shortened; `undefined` for a plan, which is reported by the end of its turn. */
const formatQuestion = (question: OpenQuestion): string | undefined => {
  if (question._tag === "Plan") return undefined
  return question._tag === "Approval" ? ApprovalQuestion.describeRequest(question.question) : question.question.question
}

/** Sends notifications while the scope is open; `write` writes to the terminal. */
export const make = Effect.fnUntraced(function* (
  { after, method, title }: NotifyOptions,
  write: (text: string) => void
): Effect.fn.Return<Notifications, never, Scope.Scope> {
  const patience = Duration.toMillis(after)
  /** Open questions that were not reported yet. */
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
  if (method !== "off")
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(Duration.seconds(1)), overdue)))

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
