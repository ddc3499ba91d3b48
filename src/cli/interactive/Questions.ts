/**
 * Questions that a tool puts to the user while the agent works, one after the other.
 *
 * A question stands between the lines of the session, whole, however long it is; its choices are below until it is answered.
 * An answer is the number of a choice, several numbers where several may be taken, or the user's own words. What was being
 * typed when the question came is there again afterwards. A question whose run is stopped needs no answer any more.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Ask, Question } from "../../tool/builtin/Clarifier.ts"
import { redactText } from "../../domain/Redaction.ts"
import { Secrets } from "../../domain/Secrets.ts"
import * as SafeText from "../render/SafeText.ts"
import { type Paint, plainStyle } from "../render/Paint.ts"
import * as Wrap from "../render/Wrap.ts"
import * as Editor from "./Editor.ts"

/** A question that waits for its answer. */
export interface Pending {
  readonly question: Question
  /** The question and its choices as they are shown: without secrets. */
  readonly shown: Pick<Question, "question" | "choices">
  /** Line below the choices that says what may be typed. */
  readonly hint: string
  readonly askedAt: number
  /** Text typed as its answer. */
  editor: Editor.State
  readonly answer: (answer: ReadonlyArray<string>) => Effect.Effect<void>
}

export interface Questions {
  readonly ask: (question: Question, hint?: string) => ReturnType<Ask>
  /** The question that is asked now. */
  readonly current: () => Pending | undefined
}

/** `onChange` is told which question is asked from now on, if one is. */
export const make = (onChange: (question: Pending["shown"] | undefined) => void): Questions => {
  let waiting: ReadonlyArray<Pending> = []
  const change = (next: ReadonlyArray<Pending>): void => {
    const before = waiting[0]
    waiting = next
    if (waiting[0] !== before) onChange(waiting[0]?.shown)
  }
  const ask = Effect.fnUntraced(function*(question: Question, hint = hintOf(question)): Effect.fn.Return<ReadonlyArray<string>> {
    const answered = yield* Deferred.make<ReadonlyArray<string>>()
    const secrets = yield* Secrets
    const pending: Pending = {
      question,
      shown: {
        question: redactText(question.question, secrets),
        choices: question.choices.map((choice) => redactText(choice, secrets))
      },
      hint,
      askedAt: yield* Clock.currentTimeMillis,
      editor: Editor.empty,
      answer: (answer) => Deferred.succeed(answered, answer)
    }
    return yield* Effect.acquireUseRelease(
      Effect.sync(() => change([...waiting, pending])),
      () => Deferred.await(answered),
      () => Effect.sync(() => change(waiting.filter((other) => other !== pending)))
    )
  })
  return { ask, current: () => waiting[0] }
}

/** Numbers of choices, as a hint names them: `1–4`. */
export const numbers = (count: number): string => count === 1 ? "1" : `1–${count}`

const hintOf = ({ choices, multiple }: Question): string =>
  choices.length === 0
    ? "Type your answer"
    : `${numbers(choices.length)}${multiple ? ", several separated by commas" : ""}, or type your own answer`

/** Reads a typed line as an answer; undefined for an empty line. */
export const read = ({ choices, multiple }: Question, line: string): ReadonlyArray<string> | undefined => {
  const words = line.trim()
  if (words === "") return undefined
  const numbers = /^\d+(?:[\s,]+\d+)*$/.test(words) ? words.split(/[\s,]+/).map(Number) : []
  const chosen = numbers.map((number) => choices[number - 1]).filter((choice) => choice !== undefined)
  const isChoice = numbers.length > 0 && chosen.length === numbers.length && (multiple || numbers.length === 1)
  return isChoice ? [...new Set(chosen)] : [words]
}

/** Each line of a text behind a mark, broken where it must be. */
const behind = (mark: string, indent: number, text: string, columns: number, paint: Paint): ReadonlyArray<string> => {
  const room = Math.max(20, columns - indent - 1)
  const lines = SafeText.text(text).trim().split("\n").flatMap((line) =>
    Wrap.lines([{ text: line, style: plainStyle }], room, paint))
  return lines.map((line, index) => (index === 0 ? mark : " ".repeat(indent)) + line)
}

/** A question, as it stands between other lines. */
export const lines = ({ question }: Pick<Question, "question">, columns: number, paint: Paint): ReadonlyArray<string> =>
  behind(`${paint.text("?", "bold", "yellow")} `, 2, question, columns, paint)

/** Returns the choices of a question and the hint below them. */
export const choices = ({ hint, shown }: Pending, columns: number, paint: Paint): ReadonlyArray<string> => [
  ...shown.choices.flatMap((choice, index) =>
    behind(`  ${paint.text(String(index + 1), "cyan")} `, 4, SafeText.line(choice), columns, paint)),
  paint.text(`  ${hint}`, "dim")
]
