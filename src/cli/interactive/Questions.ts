/**
 * Questions that a tool puts to the user while the agent works, one after the other.
 *
 * **Details**
 *
 * An answer is the number of a choice, several numbers where several may be taken, or the user's own words. What was being
 * typed when the question came is there again afterwards. A question whose run is stopped is gone.
 *
 * @since 0.1.0
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Ask, Question } from "../../tool/builtin/clarify/Clarifier.ts"
import * as Neutral from "../render/Neutral.ts"
import type { Paint } from "../render/Paint.ts"
import * as Wrap from "../render/Wrap.ts"
import * as Editor from "./Editor.ts"

/** A question that waits for its answer. */
export interface Pending {
  readonly question: Question
  /** What is typed as its answer. */
  editor: Editor.State
  readonly answer: (answer: ReadonlyArray<string>) => Effect.Effect<void>
}

/** See the module. */
export interface Questions {
  readonly ask: Ask
  /** The question that is asked now. */
  readonly current: () => Pending | undefined
}

/** See the module. `onChange` is told when another question is asked, or none. */
export const make = (onChange: () => void): Questions => {
  let waiting: ReadonlyArray<Pending> = []
  const remove = (pending: Pending): void => {
    waiting = waiting.filter((other) => other !== pending)
    onChange()
  }
  const ask: Ask = Effect.fnUntraced(function*(question) {
    const answered = yield* Deferred.make<ReadonlyArray<string>>()
    const pending: Pending = {
      question,
      editor: Editor.empty,
      answer: (answer) => Deferred.succeed(answered, answer)
    }
    waiting = [...waiting, pending]
    onChange()
    return yield* Effect.ensuring(Deferred.await(answered), Effect.sync(() => remove(pending)))
  })
  return { ask, current: () => waiting[0] }
}

/** What a typed line answers; undefined when it says nothing. */
export const read = ({ choices, multiple }: Question, line: string): ReadonlyArray<string> | undefined => {
  const words = line.trim()
  if (words === "") return undefined
  const numbers = /^\d+(?:[\s,]+\d+)*$/.test(words) ? words.split(/[\s,]+/).map(Number) : []
  const chosen = numbers.map((number) => choices[number - 1]).filter((choice) => choice !== undefined)
  const isChoice = numbers.length > 0 && chosen.length === numbers.length && (multiple || numbers.length === 1)
  return isChoice ? [...new Set(chosen)] : [words]
}

/** The lines of a question. */
export const lines = ({ choices, multiple, question }: Question, columns: number, paint: Paint): ReadonlyArray<string> => {
  const room = Math.max(20, columns - 6)
  const broken = (text: string): ReadonlyArray<string> =>
    Wrap.lines([{ text: Neutral.line(text), style: { attributes: [] } }], room, paint)
  const [first = "", ...rest] = broken(question)
  const how = choices.length === 0
    ? "Answer in your own words."
    : `A number${multiple ? ", several with commas," : ""} or your own words.`
  return [
    `${paint.text("?", "bold", "yellow")} ${paint.text(first, "bold")}`,
    ...rest.map((line) => `  ${paint.text(line, "bold")}`),
    ...choices.flatMap((choice, index) => {
      const [head = "", ...tail] = broken(choice)
      return [`  ${paint.text(String(index + 1), "cyan")} ${head}`, ...tail.map((line) => `    ${line}`)]
    }),
    paint.text(`  ${how}`, "dim")
  ]
}
