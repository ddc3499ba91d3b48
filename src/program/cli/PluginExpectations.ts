/** Compares the outcome of a scenario with its expectations. Pure. */
import type { Scenario } from "./PluginScenario.ts"

type Expected = NonNullable<Scenario["expect"]>

/** A tool call of a run. */
interface ObservedCall {
  readonly name: string
  readonly status: string
  readonly result: string
}

/** Observations of a run. */
export interface Outcome {
  /** The final answer; `undefined` if the run failed. */
  readonly text: string | undefined
  readonly failure: string | undefined
  /** Names of the emitted hooks, in order. */
  readonly events: ReadonlyArray<string>
  readonly calls: ReadonlyArray<ObservedCall>
  /** Requests that reached the model, as JSON. */
  readonly requests: ReadonlyArray<string>
  readonly warnings: ReadonlyArray<string>
  /** Texts in which nothing absent may appear, by place. */
  readonly places: ReadonlyArray<readonly [place: string, text: string]>
}

/** A mismatch: its subject, and the lines of a difference. */
export interface Mismatch {
  readonly subject: string
  readonly lines: ReadonlyArray<string>
}

const maxLines = 12
const maxColumns = 300

const cutText = (text: string): string => (text.length > maxColumns ? `${text.slice(0, maxColumns)} …` : text)

const prefixLines = (sign: string, text: string): ReadonlyArray<string> => {
  const lines = text.split("\n")
  const shown = lines.slice(0, maxLines).map((line) => `${sign} ${cutText(line)}`)
  return lines.length > maxLines ? [...shown, `${sign} … ${lines.length - maxLines} more lines`] : shown
}

/** Returns the difference of two texts, without the lines that both begin and end with. */
const diffTexts = (expected: string, received: string): ReadonlyArray<string> => {
  const a = expected.split("\n")
  const b = received.split("\n")
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++
  const removed = a.slice(start, a.length - end)
  const added = b.slice(start, b.length - end)
  return [
    ...(removed.length === 0 ? [] : prefixLines("-", removed.join("\n"))),
    ...(added.length === 0 ? [] : prefixLines("+", added.join("\n")))
  ]
}

const cutAround = (text: string, at: number, length: number): string =>
  text.slice(Math.max(0, at - 40), at + length + 40).replaceAll(/\s+/g, " ")

const checkText = ({ contains = [], text }: Expected, outcome: Outcome): ReadonlyArray<Mismatch> => {
  const received = outcome.text ?? ""
  return [
    ...(text !== undefined && text !== outcome.text
      ? [{ subject: "the answer differs", lines: diffTexts(text, received) }]
      : []),
    ...contains
      .filter((part) => !received.includes(part))
      .map((part) => ({
        subject: "the answer does not contain",
        lines: [...prefixLines("-", part), ...prefixLines("+", received)]
      }))
  ]
}

const checkAbsent = ({ absent = [] }: Expected, { places }: Outcome): ReadonlyArray<Mismatch> =>
  absent.flatMap((text) =>
    places.flatMap(([place, content]) => {
      const at = content.indexOf(text)
      return at < 0
        ? []
        : [
            {
              subject: `"${text}" must not appear in ${place}`,
              lines: prefixLines("+", cutAround(content, at, text.length))
            }
          ]
    })
  )

/** Returns the expected names that are missing in the order of the received names. */
const findMissing = (expected: ReadonlyArray<string>, received: ReadonlyArray<string>): ReadonlyArray<string> => {
  let at = 0
  return expected.filter((name) => {
    const found = received.indexOf(name, at)
    if (found < 0) return true
    at = found + 1
    return false
  })
}

const checkEvents = ({ events = [] }: Expected, outcome: Outcome): ReadonlyArray<Mismatch> => {
  const missing = findMissing(events, outcome.events)
  return missing.length === 0
    ? []
    : [
        {
          subject: "hooks are missing, or in another order",
          lines: [`- ${events.join(", ")}`, `+ ${outcome.events.join(", ")}`]
        }
      ]
}

const formatCall = ({ name, status }: { readonly name: string; readonly status?: string }): string =>
  status === undefined ? name : `${name} (${status})`

const checkCalls = ({ blocked = [], tools }: Expected, { calls }: Outcome): ReadonlyArray<Mismatch> => {
  const lines = calls.map(formatCall).join(", ")
  const isSame =
    tools === undefined ||
    (tools.length === calls.length &&
      tools.every(({ name, status }, index) => {
        const call = calls[index]
        return call?.name === name && (status === undefined || call.status === status)
      }))
  return [
    ...(isSame
      ? []
      : [{ subject: "the tool calls differ", lines: [`- ${tools.map(formatCall).join(", ")}`, `+ ${lines}`] }]),
    ...(isSame && tools !== undefined
      ? tools.flatMap(({ absent = [], contains = [], name }, index) => {
          const result = calls[index]?.result ?? ""
          return [
            ...contains
              .filter((part) => !result.includes(part))
              .map((part) => ({
                subject: `the result of ${name} does not contain`,
                lines: [...prefixLines("-", part), ...prefixLines("+", result)]
              })),
            ...absent
              .filter((part) => result.includes(part))
              .map((part) => ({
                subject: `"${part}" must not appear in the result of ${name}`,
                lines: prefixLines("+", result)
              }))
          ]
        })
      : []),
    ...blocked
      .filter((name) => !calls.some((call) => call.name === name && call.status === "blocked"))
      .map((name) => ({ subject: "a call is not blocked", lines: [`- ${name} (blocked)`, `+ ${lines}`] }))
  ]
}

const checkRequests = ({ requests: expected = {} }: Expected, { requests }: Outcome): ReadonlyArray<Mismatch> => {
  const { absent = [], contains = [], count } = expected
  const all = requests.join("\n")
  return [
    ...(count !== undefined && count !== requests.length
      ? [{ subject: "the number of requests differs", lines: [`- ${count}`, `+ ${requests.length}`] }]
      : []),
    ...contains
      .filter((part) => !all.includes(part))
      .map((part) => ({ subject: "no request contains", lines: prefixLines("-", part) })),
    ...absent.flatMap((part) => {
      const at = all.indexOf(part)
      return at < 0
        ? []
        : [
            {
              subject: `"${part}" must not appear in a request`,
              lines: prefixLines("+", cutAround(all, at, part.length))
            }
          ]
    })
  ]
}

const checkFailure = ({ failure }: Expected, outcome: Outcome): ReadonlyArray<Mismatch> => {
  if (failure === undefined)
    return outcome.failure === undefined
      ? []
      : [{ subject: "the run failed", lines: prefixLines("+", outcome.failure) }]
  return outcome.failure?.includes(failure) === true
    ? []
    : [
        {
          subject: outcome.failure === undefined ? "the run did not fail" : "the run failed for another reason",
          lines: [...prefixLines("-", failure), ...prefixLines("+", outcome.failure ?? outcome.text ?? "")]
        }
      ]
}

const checkWarnings = ({ warnings: expected = [] }: Expected, { warnings }: Outcome): ReadonlyArray<Mismatch> => [
  ...expected
    .filter((part) => !warnings.some((warning) => warning.includes(part)))
    .map((part) => ({ subject: "a warning is missing", lines: prefixLines("-", part) })),
  ...warnings
    .filter((warning) => !expected.some((part) => warning.includes(part)))
    .map((warning) => ({ subject: "a warning was not expected", lines: prefixLines("+", warning) }))
]

/** Returns all mismatches between an outcome and the expectations of its scenario. */
export const compareOutcome = (expected: Expected, outcome: Outcome): ReadonlyArray<Mismatch> => [
  ...checkFailure(expected, outcome),
  ...checkText(expected, outcome),
  ...checkAbsent(expected, outcome),
  ...checkEvents(expected, outcome),
  ...checkCalls(expected, outcome),
  ...checkRequests(expected, outcome),
  ...checkWarnings(expected, outcome)
]
