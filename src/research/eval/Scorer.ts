/**
 * Scorers that do not need a model. They compare an answer with the references of its row or pass it to a command.
 *
 * **Details**
 *
 * | scorer | an answer passes when it |
 * | --- | --- |
 * | `exact` | equals a reference without surrounding space; `exact:loose` ignores case, punctuation and articles |
 * | `contains` | contains a reference, ignoring case |
 * | `regex` | matches the row's `pattern` or the pattern after the colon; without either, the references are patterns |
 * | `number` | ends with a number that equals a reference, within a relative tolerance of 1e-6 or the tolerance after the colon |
 * | `command` | makes the command after the colon exit with code 0; the command finds `answer.txt`, `reference.txt` and `row.json` in its working directory |
 * | `judge` | is accepted by judge models (`JudgeScorer`) |
 *
 * A row may have several references; an answer has to match only one of them. A number is read from the last line that
 * contains one, after `####` if present; thousands separators and units are ignored. A pattern that backtracks for more
 * than a second comes to no verdict.
 *
 * **Example** (A number in a sentence)
 *
 * ```ts
 * import { Scorer } from "hermes-effect/evaluation"
 *
 * const row = { references: ["1250"], pattern: undefined }
 * console.log(Scorer.compare({ kind: "number" }, "So it costs $1,250.00.", row).passed)
 * // => true
 * ```
 */
import * as Result from "effect/Result"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import { runWithin } from "../../base/platform/TimeLimit.ts"

/** Kinds of scorers. */
export const kinds = ["exact", "contains", "regex", "number", "command", "judge"] as const
/** See {@link kinds}. */
export type Kind = (typeof kinds)[number]

/** A scorer. `option` is the text after the colon. */
export interface Spec {
  readonly kind: Kind
  readonly option?: string | undefined
}

/** A scorer that compares the answer with references. */
export interface Comparison extends Spec {
  readonly kind: Exclude<Kind, "command" | "judge">
}

/** The part of a row with which answers are compared. */
export interface Reference {
  readonly references: ReadonlyArray<string>
  /** Value of the row's `pattern` field. */
  readonly pattern: string | undefined
}

/** Verdict of a scorer. */
export interface Verdict {
  readonly passed: boolean
  /** From 0 to 1. */
  readonly score: number
  /** One-line reason, which may be empty. */
  readonly detail: string
  /** True if the scorer came to no verdict. The attempt then has no result, instead of one that did not pass. */
  readonly isUndecided?: boolean | undefined
}

/** Makes the verdict of a test that passes or fails. */
export const makeVerdict = (passed: boolean, detail = ""): Verdict => ({ passed, score: passed ? 1 : 0, detail })

/** Returns the name of a scorer in the form in which it was given. */
export const formatName = ({ kind, option }: Spec): string => (option === undefined ? kind : `${kind}:${option}`)

const isKind = (name: string): name is Kind => kinds.some((kind) => kind === name)

const compilePattern = (source: string): RegExp | undefined => {
  try {
    return new RegExp(source, "su")
  } catch {
    // The caller reports the invalid pattern.
    return undefined
  }
}

/** Returns the reason why the text after the colon of a scorer is invalid, or `undefined` if it is valid. */
const findOptionProblem = ({ kind, option }: Spec): string | undefined => {
  switch (kind) {
    case "exact":
      return option === undefined || option === "loose"
        ? undefined
        : `exact:${option} is unknown: exact:loose ignores case, punctuation and articles`
    case "regex":
      return option !== undefined && compilePattern(option) === undefined
        ? `regex:${option} is not a regular expression`
        : undefined
    case "number":
      return option !== undefined && !(Number(option) >= 0)
        ? `number:${option} is not a valid tolerance: use one such as number:0.01`
        : undefined
    case "command":
      return option === undefined ? "command needs a command line: --scorer 'command:python3 check.py'" : undefined
    default:
      return option === undefined ? undefined : `${kind} takes nothing behind a colon`
  }
}

/** Parses the specification of a scorer, such as `exact`, `number:0.01` or `command:./check.sh`. */
export const parse = (text: string): Result.Result<Spec, string> => {
  const colon = text.indexOf(":")
  const kind = (colon === -1 ? text : text.slice(0, colon)).trim()
  if (!isKind(kind)) {
    const meant = findNearest(kind, kinds)
    return Result.fail(
      `unknown scorer "${kind}": ${meant === undefined ? `there are ${kinds.join(", ")}` : `did you mean "${meant}"?`}`
    )
  }
  const spec: Spec = { kind, option: colon === -1 ? undefined : text.slice(colon + 1) }
  const problem = findOptionProblem(spec)
  return problem === undefined ? Result.succeed(spec) : Result.fail(problem)
}

const referenceFields = ["reference", "references", "expected", "expected_output", "target", "answer"]

/**
 * Reads the references of a row from the named field, or from one of the usual fields. The value is a string, a number,
 * or a list of strings and numbers.
 */
export const readReference = (fields: Json.Fields, field?: string): Reference => {
  const value =
    field === undefined
      ? referenceFields.map((name) => fields[name]).find((value) => value !== undefined)
      : fields[field]
  const list = Array.isArray(value) ? value : [value]
  return {
    references: list.flatMap((one) =>
      typeof one === "string" || typeof one === "number" || typeof one === "boolean" ? [String(one)] : []
    ),
    pattern: Json.readString(fields["pattern"])
  }
}

/** Formats the references of a row for display, one a line, or its pattern if there are no references. */
export const formatExpected = ({ pattern = "", references }: Reference): string =>
  references.length === 0 ? pattern : references.join("\n")

/** Returns true if a scorer requires a reference that the row does not have. */
export const isMissingReference = ({ kind, option }: Spec, { pattern, references }: Reference): boolean =>
  references.length === 0 &&
  (kind === "exact" ||
    kind === "contains" ||
    kind === "number" ||
    (kind === "regex" && option === undefined && pattern === undefined))

const normaliseLoosely = (text: string): string =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[\p{P}\p{S}]/gu, " ")
    .replaceAll(/\b(?:a|an|the)\b/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim()

const numberPattern = /[-+]?(?:\d{1,3}(?:[,_\u00a0\u202f ]\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+]?\.\d+/g

const findNumbers = (line: string): ReadonlyArray<string> => line.match(numberPattern) ?? []

/** Returns the last number in the text, or `undefined` if the text contains no number. */
export const readLastNumber = (text: string): number | undefined => {
  const [, marked] = /####\s*(.+)/.exec(text) ?? []
  const last = (marked ?? text).replaceAll("\u2212", "-").split("\n").flatMap(findNumbers).at(-1)
  return last === undefined ? undefined : Number(last.replaceAll(/[,_\u00a0\u202f ]/g, ""))
}

const isNear = (value: number, wanted: number, option: string | undefined): boolean =>
  Math.abs(value - wanted) <= (option === undefined ? 1e-6 * Math.max(1, Math.abs(wanted)) : Number(option))

const compareNumbers = (answer: string, references: ReadonlyArray<string>, option: string | undefined): Verdict => {
  const value = readLastNumber(answer)
  if (value === undefined) return makeVerdict(false, "the answer has no number")
  const wanted = references.flatMap((reference) => readLastNumber(reference) ?? [])
  return makeVerdict(
    wanted.some((one) => isNear(value, one, option)),
    `read ${value}`
  )
}

/** Time limit for the patterns of a row, in milliseconds. */
const patternMillis = 1000

const comparePatterns = (answer: string, { pattern, references }: Reference, option: string | undefined): Verdict => {
  const sources = option === undefined ? (pattern === undefined ? references : [pattern]) : [option]
  const patterns = sources.map((source) => ({ source, pattern: compilePattern(source) }))
  const broken = patterns.find((one) => one.pattern === undefined)
  if (broken !== undefined) return makeVerdict(false, `${broken.source} is not a regular expression`)
  const isMatch = runWithin(patternMillis, () => patterns.some((one) => one.pattern?.test(answer) === true))
  return isMatch === undefined
    ? {
        ...makeVerdict(false, `${sources.join(", ")} takes too long on this answer: it may backtrack without end`),
        isUndecided: true
      }
    : makeVerdict(isMatch)
}

/** Compares an answer with the references of its row. */
export const compare = ({ kind, option }: Comparison, answer: string, reference: Reference): Verdict => {
  const { references } = reference
  switch (kind) {
    case "exact": {
      const form = option === "loose" ? normaliseLoosely : (text: string) => text.normalize("NFC").trim()
      return makeVerdict(references.some((one) => form(one) === form(answer)))
    }
    case "contains":
      return makeVerdict(
        references.some((one) =>
          answer.normalize("NFC").toLowerCase().includes(one.normalize("NFC").trim().toLowerCase())
        )
      )
    case "number":
      return compareNumbers(answer, references, option)
    case "regex":
      return comparePatterns(answer, reference, option)
  }
}
