/**
 * Checks options that programs without a type checker pass. An unknown name is rejected like a value of the wrong type.
 *
 * **Details**
 *
 * A table has a check for each option name of a type, so that a new option does not compile without one. `undefined` is
 * treated as absent.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import type { ReasoningEffort } from "../../base/domain/ModelCall.ts"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as AnswerFormat from "../../base/domain/AnswerFormat.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as Faults from "../../middleware/Faults.ts"
import { HermesError } from "./HermesError.ts"

/** Returns the problems of a value at a path; empty if it is valid. */
export type Check = (value: unknown, at: string) => ReadonlyArray<string>

/** Checks for all options of a type, by name. */
export type Checks<Options> = { readonly [Name in keyof Required<Options>]: Check }

/** Creates a check for a value of one kind. */
export const makeKindCheck =
  (expected: string, fits: (value: unknown) => boolean): Check =>
  (value, at) =>
    fits(value) ? [] : [`${at}: expected ${expected}`]

/** Check that accepts any value, which is checked when it is read. */
export const skipCheck: Check = () => []

/** Checks a text. */
export const text = makeKindCheck("a text", (value) => typeof value === "string")
/** Checks a boolean. */
export const flag = makeKindCheck("true or false", (value) => typeof value === "boolean")
/** Checks a function. */
export const callback = makeKindCheck("a function", (value) => typeof value === "function")
/** Checks a list of any values. */
export const list = makeKindCheck("a list", Array.isArray)
/** Checks a text that is not empty. */
export const name = makeKindCheck("a text that is not empty", (value) => typeof value === "string" && value !== "")
/** Checks a list of texts. */
export const names = makeKindCheck(
  "a list of texts",
  (value) => Array.isArray(value) && Array.from(value).every((one) => typeof one === "string")
)
/** Checks an object. */
export const fields = makeKindCheck("an object", Json.isFields)
/** Checks a whole number from 1 on. */
export const count = makeKindCheck(
  "a whole number, 1 or more",
  (value) => Number.isSafeInteger(value) && Number(value) >= 1
)
/** Checks a number from 0 on. */
export const amount = makeKindCheck("a number, 0 or more", (value) => typeof value === "number" && value >= 0)
/** Checks a finite number. */
export const number = makeKindCheck("a number", Number.isFinite)
/** Checks a number above 0, such as seconds. */
export const duration = makeKindCheck("a number, more than 0", (value) => typeof value === "number" && value > 0)

/** Checks a duration as Effect accepts it. */
export const time = makeKindCheck(
  'a time in milliseconds, or a text such as "5 minutes"',
  (value) =>
    (typeof value === "number" || typeof value === "string") &&
    Option.isSome(Duration.fromInput(value as Duration.Input))
)

/** Creates a check for one of several strings. */
export const makeChoiceCheck = <const Names extends ReadonlyArray<string>>(names: Names): Check =>
  makeKindCheck(`one of ${names.join(", ")}`, (value) => names.some((name) => name === value))

const efforts: { readonly [Effort in ReasoningEffort]: true } = {
  none: true,
  minimal: true,
  low: true,
  medium: true,
  high: true,
  xhigh: true
}

/** Check for a reasoning effort. */
export const effort = makeChoiceCheck(Object.keys(efforts))

/**
 * Creates a check for the members of an object, some of which are required. `what` is the noun for an unknown member.
 */
export const makeMembersCheck =
  (what: string, checks: Readonly<Record<string, Check>>, needed: ReadonlyArray<string> = []): Check =>
  (value, at) => {
    if (!Json.isFields(value)) return fields(value, at)
    const formatPlace = (name: string): string => (at === "" ? name : `${at}.${name}`)
    const absent = needed
      .filter((name) => value[name] === undefined)
      .flatMap((name) => checks[name]?.(undefined, formatPlace(name)) ?? [])
    const given = Object.entries(value).flatMap(([name, member]) => {
      const check = Object.hasOwn(checks, name) ? checks[name] : undefined
      if (check !== undefined) return member === undefined ? [] : check(member, formatPlace(name))
      const meant = findNearest(name, Object.keys(checks))
      return [`${formatPlace(name)}: no such ${what}${meant === undefined ? "" : `; did you mean ${meant}?`}`]
    })
    return [...absent, ...given]
  }

/** Maximum number of characters of a value in an error. */
const longestQuote = 80

/** Quotes a value of a program in an error. */
export const quoteValue = (value: unknown): string => {
  if (typeof value === "symbol" || typeof value === "function") return typeof value
  return TextCut.shorten(JSON.stringify(Json.toPlainData(value)) ?? "undefined", longestQuote)
}

/**
 * Reads values of a program, whose getters and proxies may throw. Throws a `HermesError` of one line that names what
 * was read.
 */
export const readPlainly = <A>(tag: "ConfigError" | "InvalidInput", what: string, read: () => A): A => {
  try {
    return read()
  } catch (error) {
    if (error instanceof HermesError) throw error
    const problem = AnswerFormat.shortenProblem(Faults.describeError(error))
    throw new HermesError(tag, `${what} cannot be read: ${problem}`, { cause: error })
  }
}

/** Throws an `InvalidInput` that lists the problems of an argument. */
export const requireArgument = (value: unknown, check: Check, name: string): void =>
  readPlainly("InvalidInput", name, () => {
    const problems = check(value, name)
    if (problems.length > 0) throw new HermesError("InvalidInput", problems.join("; "))
  })
