/**
 * The status line below the prompt: model and effort, mode, context, tokens and cost, branch and folder, background
 * work and open questions, and a warning before a message that pays for its whole prefix again. If the line is too
 * long, the least important parts are omitted first.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Cost from "../../../base/domain/Cost.ts"
import type { LiveStatus, StatusFacts } from "../../../serve/host/LiveStatus.ts"
import type { Paint, Attribute } from "../render/Paint.ts"
import * as SafeText from "../render/SafeText.ts"
import { abbreviateCount, formatDollars } from "../render/UsageText.ts"
import * as Width from "../render/Width.ts"

/** Settings of the status line. */
export interface StatusLine {
  readonly status: LiveStatus
  /**
   * Fraction of the context window, from 0 to 1, at which a conversation is compacted; `undefined` if it is compacted
   * only after a model rejects it.
   */
  readonly compactAt: number | undefined
  /** The user's home directory, which is written as `~`. */
  readonly home: string | undefined
}

/** A part of the line. The part with the lowest rank is omitted first. */
interface Segment {
  readonly text: string
  readonly rank: number
  readonly look: Attribute
}

/** Fraction of the compaction threshold above which the context is highlighted. */
const nearlyFull = 0.8

const separator = " · "

const makeContextSegments = (
  { contextTokens, window }: StatusFacts,
  compactAt: number | undefined
): ReadonlyArray<Segment> => {
  if (contextTokens === undefined) return []
  if (window === undefined) return [{ text: `${abbreviateCount(contextTokens)} context`, rank: 8, look: "dim" }]
  const isFull = contextTokens >= window * (compactAt ?? 1) * nearlyFull
  const percent = `${Math.round((contextTokens / window) * 100)}%`
  return [
    { text: `${percent} of ${abbreviateCount(window).replace(".0", "")}`, rank: 8, look: isFull ? "yellow" : "dim" },
    ...(compactAt === undefined
      ? []
      : [{ text: `compacts at ${Math.round(compactAt * 100)}%`, rank: 2, look: "dim" } satisfies Segment])
  ]
}

/** Writes a path with `~` for the user's home directory. */
export const abbreviateHome = (path: string, home: string | undefined): string =>
  home !== undefined && home !== "/" && (path === home || path.startsWith(`${home}/`))
    ? `~${path.slice(home.length)}`
    : path

const makeFolderSegments = ({ branch, cwd }: StatusFacts, home: string | undefined): ReadonlyArray<Segment> => [
  ...(branch === undefined ? [] : [{ text: SafeText.toLine(branch), rank: 3, look: "dim" } satisfies Segment]),
  ...(cwd === undefined
    ? []
    : [{ text: SafeText.toLine(abbreviateHome(cwd, home)), rank: 1, look: "dim" } satisfies Segment])
]

/** Formats the warning that the next message pays for its whole prefix again. */
const formatCacheLoss = ({ price, reason, tokens }: NonNullable<StatusFacts["cacheLoss"]>): string =>
  `${reason}: ${abbreviateCount(tokens)} tokens again${price === undefined ? "" : `, ~${formatDollars(price)}`}`

const makeSegments = (
  facts: StatusFacts,
  { compactAt, home }: Pick<StatusLine, "compactAt" | "home">
): ReadonlyArray<Segment> => {
  const { background, cacheLoss, cost, effort, mode, model, questions, tokens } = facts
  const price = Cost.formatTotal(cost)
  const makeSegment = (rank: number, text: string | undefined, look: Attribute = "dim"): ReadonlyArray<Segment> =>
    text === undefined ? [] : [{ rank, text, look }]
  return [
    ...makeSegment(10, questions === 0 ? undefined : `${questions} waiting`, "yellow"),
    ...makeSegment(9.5, cacheLoss === undefined ? undefined : formatCacheLoss(cacheLoss), "yellow"),
    ...makeSegment(9, model === undefined ? undefined : SafeText.toLine(model)),
    ...makeSegment(4, effort),
    ...makeSegment(7, mode, mode === "ask" ? "dim" : "cyan"),
    ...makeContextSegments(facts, compactAt),
    ...makeSegment(5, tokens === 0 ? undefined : `${abbreviateCount(tokens)} tokens`),
    ...makeSegment(6, tokens === 0 || price === "n/a" ? undefined : price),
    ...makeSegment(9, background === 0 ? undefined : `${background} in background`, "cyan"),
    ...makeFolderSegments(facts, home)
  ]
}

/** Renders the parts of the line that fit; returns no lines if there is no status line or if it is empty. */
export const renderLines = (line: StatusLine | undefined, columns: number, paint: Paint): ReadonlyArray<string> => {
  if (line === undefined) return []
  let segments = makeSegments(line.status.facts(), line)
  const measureWidth = (): number =>
    segments.reduce((sum, { text }) => sum + Width.measure(text), 0) + separator.length * (segments.length - 1)
  while (segments.length > 1 && measureWidth() > columns - 3) {
    const least = Math.min(...segments.map(({ rank }) => rank))
    const last = segments.findLastIndex(({ rank }) => rank === least)
    segments = segments.filter((_, index) => index !== last)
  }
  const painted = segments.map(({ look, text }) => paint.text(Width.cut(text, Math.max(1, columns - 3)), look))
  return painted.length === 0 ? [] : [`  ${painted.join(paint.text(separator, "dim"))}`]
}
