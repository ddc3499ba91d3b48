/** Rows of a timeline: one for each agent, message, model call, tool call, approval and mark of a run. */

/** Kind of event that a row shows. */
export type Kind = "agent" | "user" | "system" | "llm" | "tool" | "approval" | "mark"

/** A titled text of a row. */
export interface Detail {
  readonly title: string
  readonly text: string
  /** Indexes of pool texts that follow the text, one for each message of a request. */
  readonly parts?: ReadonlyArray<number> | undefined
  /** Shown closed at first: texts that are rarely read, such as definitions of tools. */
  readonly folded?: boolean | undefined
}

/** One row. Times are milliseconds since the epoch, 0 when unknown; `cost` is in US dollars, 0 when unknown. */
export interface Row {
  readonly id: number
  /** Id of the enclosing row; -1 at the top. */
  readonly parent: number
  readonly depth: number
  readonly kind: Kind
  /** Goal of an agent, model of a model call, tool of a tool call. */
  readonly name: string
  /** Summary in one line; the error of a row that failed. */
  readonly text: string
  readonly start: number
  readonly end: number
  /** Position among siblings that run at the same time, from 0. */
  readonly lane: number
  /** `ok`, `error`, `open`, …; `exit 1` of a command with that exit code. */
  readonly status: string
  readonly model: string
  /** Side task (a title, a summary) that a model call is of; empty of an agent's own steps. */
  readonly task: string
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number
  readonly cost: number
  readonly details: ReadonlyArray<Detail>
  /** Present where the row is copied context: it happened in another session or in an earlier part of this one. */
  readonly copied?: true
}

/** A row without its depth and lane. */
export type Draft = { -readonly [K in keyof Omit<Row, "depth" | "lane">]: Row[K] }

/** Creates a draft; fields that are not given are empty, zero or -1. */
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

/** Tests whether a row failed. An exit code with a meaning in its program (`exit 1: no match`) is not a failure. */
export const isFailed = ({ status }: Pick<Row, "status">): boolean =>
  failures.has(status) || /^exit -?\d+$/u.test(status)

/** Characters of a summary. */
const longest = 200

/** Joins the lines of a text and cuts it to the length of a summary. */
export const toOneLine = (text: string): string => {
  const line = text
    .slice(0, longest * 4)
    .replace(/\s+/gu, " ")
    .trim()
  return line.length > longest ? `${line.slice(0, longest)}…` : line
}

/**
 * Sorts drafts into the order of the tree and assigns ids, depths and lanes. Drafts must come after their parent.
 *
 * **Details**
 *
 * Lanes are assigned among the children of a row: a child that begins while others run gets the first free lane.
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
