/**
 * Turns of a row: several prompts that are sent one after another in one session, and the answers to them. Pure.
 */
import type * as Json from "../../base/domain/Json.ts"
import * as EvalStatistics from "./EvalStatistics.ts"
import type * as Scorer from "./Scorer.ts"

const isTexts = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string" && one.trim() !== "")

/** Returns the prompts of a row: the named field, or the field `turns`. A row without a prompt has an empty list. */
export const readTurns = (fields: Json.Fields, promptField: string): ReadonlyArray<string> => {
  const value = fields[promptField] ?? fields["turns"]
  if (typeof value === "string") return value.trim() === "" ? [] : [value]
  return isTexts(value) ? value : []
}

/** Returns the recorded answers of a row, or `undefined` for a row without a response. */
export const readResponses = ({ response }: Json.Fields): ReadonlyArray<string> | undefined =>
  typeof response === "string" ? [response] : isTexts(response) ? response : undefined

/** Joins the texts of turns. Each of several has its number. */
export const joinTurns = (texts: ReadonlyArray<string>): string =>
  texts.length < 2 ? (texts[0] ?? "") : texts.map((text, index) => `[${index + 1}] ${text}`).join("\n\n")

/** The answer to a turn, with its question and references. */
export interface AnsweredTurn {
  readonly question: string
  readonly answer: string
  readonly reference: Scorer.Reference
}

/** Returns the answered turns of an attempt. The question of a later turn has the conversation before it. */
export const listTurns = (
  prompts: ReadonlyArray<string>,
  answers: ReadonlyArray<string>,
  reference: Scorer.Reference
): ReadonlyArray<AnsweredTurn> =>
  answers.map((answer, index) => {
    const before = answers
      .slice(0, index)
      .flatMap((text, at) => [`Question ${at + 1}: ${prompts[at] ?? ""}`, `Answer ${at + 1}: ${text}`])
    const question = prompts[index] ?? ""
    const own = reference.references[index]
    const hasOwn = answers.length > 1 && reference.references.length === answers.length && own !== undefined
    return {
      answer,
      question: before.length === 0 ? question : [...before, `Question ${index + 1}: ${question}`].join("\n\n"),
      reference: hasOwn ? { ...reference, references: [own] } : reference
    }
  })

/** Combines the verdicts on the turns of an attempt. */
export const combineTurns = (verdicts: ReadonlyArray<Scorer.Verdict>): Scorer.Verdict => {
  const [only, ...others] = verdicts
  if (only !== undefined && others.length === 0) return only
  return {
    passed: verdicts.every(({ passed }) => passed),
    score: EvalStatistics.mean(verdicts.map(({ score }) => score)),
    detail: verdicts
      .flatMap(({ detail, passed }, index) =>
        passed && detail === "" ? [] : [`turn ${index + 1}: ${detail === "" ? "not passed" : detail}`]
      )
      .join("; "),
    ...(verdicts.some(({ isUndecided }) => isUndecided === true) ? { isUndecided: true } : {})
  }
}
