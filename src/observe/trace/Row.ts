/** Rows of a timeline: one for each agent, message, model call, tool call, approval and mark of a run. */

/** Kind of event that a row shows. */
export type Kind = "agent" | "user" | "system" | "llm" | "tool" | "approval" | "mark"

/** A section of text in the details of a row, with a title. */
export interface Detail {
  readonly title: string
  readonly text: string
  /** Indexes of pool strings that follow the text, one for each message of a request. */
  readonly parts?: ReadonlyArray<number> | undefined
  /** True if the text is collapsed at first, because it is rarely read, such as tool definitions. */
  readonly folded?: boolean | undefined
}

/** One row. Times are in milliseconds since the epoch, or 0 if unknown; `cost` is in US dollars, or 0 if unknown. */
export interface Row {
  readonly id: number
  /** Id of the enclosing row, or -1 at the top level. */
  readonly parent: number
  readonly depth: number
  readonly kind: Kind
  /** Goal of an agent, model of a model call, or name of a tool. */
  readonly name: string
  /** Summary in one line, or the error of a failed row. */
  readonly text: string
  readonly start: number
  readonly end: number
  /** Lane of the row among siblings that run at the same time, counted from 0. */
  readonly lane: number
  /** Status: `ok`, `error`, `open`, …, or `exit 1` for a command with that exit code. */
  readonly status: string
  readonly model: string
  /** Side task, such as a title or a summary, to which a model call belongs. Empty for the agent's own steps. */
  readonly task: string
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number
  readonly cost: number
  readonly details: ReadonlyArray<Detail>
  /** Present if the row is copied context from another session or from an earlier part of this one. */
  readonly copied?: true
}

/** A row without its depth and lane. */
export type Draft = { -readonly [K in keyof Omit<Row, "depth" | "lane">]: Row[K] }

/** Creates a draft. Omitted fields are set to an empty value, zero or -1. */
export const makeDraft = (fields: Pick<Draft, "kind" | "name"> & Partial<Draft>): Draft => ({
  id: 0,
  parent: -1,
  text: "",
  start: 0,
  end: 0,
  status: "",
  model: "",
  task: "",
  promptTokens: 0,
  completionTokens: 0,
  cachedTokens: 0,
  cost: 0,
  details: [],
  ...fields
})

const failures: ReadonlySet<string> = new Set([
  "error",
  "failed",
  "blocked",
  "cancelled",
  "interrupted",
  "open",
  "deny",
  "timeout"
])

/** Tests whether a row failed. An exit code with a known meaning (`exit 1: no match`) is not a failure. */
export const isFailed = ({ status }: Pick<Row, "status">): boolean =>
  failures.has(status) || /^exit -?\d+$/u.test(status)

/** Maximum length of a summary, in characters. */
const longest = 200

/** Joins the lines of a string and truncates the result to the length of a summary. */
export const toOneLine = (text: string): string => {
  const line = text
    .slice(0, longest * 4)
    .replace(/\s+/gu, " ")
    .trim()
  return line.length > longest ? `${line.slice(0, longest)}…` : line
}

/**
 * Sorts drafts in tree order and assigns ids, depths and lanes. Each draft must come after its parent.
 *
 * **Details**
 *
 * The children of a row are distributed over lanes: a child that begins while others run gets the first free lane.
 */
export const arrangeRows = (drafts: ReadonlyArray<Draft>): ReadonlyArray<Row> => {
  const children = new Map<number, Array<Draft>>()
  for (const one of drafts) {
    const siblings = children.get(one.parent)
    if (siblings === undefined) children.set(one.parent, [one])
    else siblings.push(one)
  }
  const rows: Array<Row> = []
  const walk = (siblings: ReadonlyArray<Draft>, parent: number, depth: number): void => {
    const busy: Array<number> = []
    for (const one of siblings) {
      const free = one.start === 0 ? 0 : busy.findIndex((until) => until <= one.start)
      const lane = free === -1 ? busy.length : free
      busy[lane] = Math.max(one.end, one.start)
      const id = rows.length
      rows.push({ ...one, id, parent, depth, lane })
      walk(children.get(one.id) ?? [], id, depth + 1)
    }
  }
  walk(children.get(-1) ?? [], -1, 0)
  return rows
}
