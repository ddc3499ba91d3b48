/**
 * A run as rows of a timeline: what happened, in what, when, and what it cost.
 *
 * @since 0.1.0
 */

/** What a row is of. */
export type Kind = "agent" | "user" | "system" | "llm" | "tool" | "approval" | "mark"

/** A part of what a row says: shown under its title, as text. */
export interface Detail {
  readonly title: string
  readonly text: string
  /** Texts of the pool that follow, a message each; see `View`. */
  readonly parts?: ReadonlyArray<number> | undefined
}

/** See the module. Times are milliseconds since the epoch; 0 is an unknown one. */
export interface Row {
  readonly id: number
  /** The row around it; -1 at the top. */
  readonly parent: number
  readonly depth: number
  readonly kind: Kind
  readonly name: string
  /** One line of what it says. */
  readonly text: string
  readonly start: number
  readonly end: number
  /** Among what runs at the same time: 0 is the first place. */
  readonly lane: number
  readonly status: string
  readonly model: string
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number
  readonly cost: number
  readonly details: ReadonlyArray<Detail>
}

/** A row before its place is known. */
export type Draft = { -readonly [K in keyof Omit<Row, "depth" | "lane">]: Row[K] }

/** A row that says only these. */
export const draft = (fields: Pick<Draft, "kind" | "name"> & Partial<Draft>): Draft => ({
  id: 0, parent: -1, text: "", start: 0, end: 0, status: "", model: "",
  promptTokens: 0, completionTokens: 0, cachedTokens: 0, cost: 0, details: [], ...fields
})

const longest = 200

/** A text in one line, cut where it is too long to be read in passing. */
export const oneLine = (text: string): string => {
  const line = text.slice(0, longest * 4).replace(/\s+/gu, " ").trim()
  return line.length > longest ? `${line.slice(0, longest)}…` : line
}

/**
 * Rows in the order of a tree, each with its depth and its lane. Rows must come after their parent.
 *
 * **Details**
 *
 * Lanes are given out among the children of a row: one that begins while another runs has the next free lane, so that what
 * is parallel is beside each other and what is not is in line.
 */
export const place = (drafts: ReadonlyArray<Draft>): ReadonlyArray<Row> => {
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
