/**
 * Lines about a session, shown at its beginning, at its end, and by `/status`, `/sessions`, `/context` and `/usage`.
 *
 * Source: `hermes-product.md` §1.7 to §1.9.
 */
import type { ContextFill, ContextPart } from "../../../serve/host/ContextFill.ts"
import type { RouteStatus } from "../../../models/routing/ModelRouter.ts"
import type { Session } from "../../../store/SessionStore.ts"
import { formatPlace, type ListedSession } from "../SessionList.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Attribute, Paint } from "../render/Paint.ts"
import * as RouteText from "../render/RouteText.ts"
import * as ToolText from "../render/ToolText.ts"
import { formatQuantity, renderPairs, abbreviateCount } from "../render/UsageText.ts"
import * as Width from "../render/Width.ts"
import type { About } from "./Dialog.ts"
import { abbreviateHome } from "./StatusLine.ts"

/** Renders the lines shown at the beginning of a session. */
export const renderBanner = (about: About, id: string, { paint }: { readonly paint: Paint }): ReadonlyArray<string> => {
  const title = `hermes ${about.version}`
  return [
    `${paint.text(title, "bold")} ${paint.text(SafeText.toLine(`· ${about.model} by ${about.provider}`), "dim")}`,
    paint.text(SafeText.toLine(abbreviateHome(about.cwd, about.userHome)), "dim"),
    paint.text(SafeText.toLine(`session ${id} · /help for commands, Ctrl+D to exit`), "dim")
  ]
}

/** Formats an age in words: `5 min ago`. */
export const formatAgo = (millis: number): string => {
  const minutes = Math.floor(millis / 60_000)
  if (minutes < 1) return "just now"
  if (minutes < 60) return `${minutes} min ago`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} days ago`
}

const toRouteRow = (route: RouteStatus, index: number): readonly [string, string] => [
  index === 0 ? "Route" : `Fallback ${index}`,
  SafeText.toLine(RouteText.formatRoute(route))
]

/** Renders the lines of `/status`. Routes are included if there are several routes or keys. */
export const renderStatus = (
  about: About,
  current: {
    readonly id: string
    readonly cwd: string
    readonly prompts: number
    readonly title: string | undefined
    readonly tokens: number
  },
  known: Session | undefined,
  duration: number,
  verbosity: string,
  routes: ReadonlyArray<RouteStatus>
): ReadonlyArray<string> =>
  renderPairs([
    ["Session", SafeText.toLine(current.id)],
    ["Title", SafeText.toLine(known?.title ?? current.title ?? "none: /title NAME")],
    ["Model", SafeText.toLine(`${known?.model ?? about.model} by ${known?.provider ?? about.provider}`)],
    ...(routes.length < 2 && routes.every(({ keys }) => keys.length < 2) ? [] : routes.map(toRouteRow)),
    ["Directory", SafeText.toLine(abbreviateHome(current.cwd, about.userHome))],
    [
      "Messages",
      `${formatQuantity(known?.messageCount ?? 0, "message")}, ${current.prompts} by you, ${formatQuantity(
        known?.toolCallCount ?? 0,
        "tool call"
      )}`
    ],
    ["Tokens", abbreviateCount(current.tokens)],
    ["Time", ToolText.formatDuration(duration)],
    ["Tool lines", `${verbosity}: /verbose changes it`]
  ])

/** Renders the lines shown on leaving a session: the command that resumes it, and its statistics. */
export const renderFarewell = (
  session: Session,
  prompts: number,
  duration: number,
  resume: string
): ReadonlyArray<string> => [
  "Resume this session with:",
  `  ${resume}`,
  "",
  ...renderPairs([
    ["Session", SafeText.toLine(session.title === undefined ? session.id : `${session.id} (${session.title})`)],
    ["Time", ToolText.formatDuration(duration)],
    [
      "Messages",
      `${formatQuantity(session.messageCount, "message")}, ${prompts} by you, ` +
        `${formatQuantity(session.toolCallCount, "tool call")}`
    ]
  ])
]

/** Formats the line above the recap of a session. */
export const formatResumeLine = ({ id, title }: Session, exchanges: number, when: string): string =>
  `Resumed ${title === undefined ? id : `"${SafeText.toLine(title)}"`} · ` +
  `${formatQuantity(exchanges, "exchange")} · last used ${when}`

/** Width below which a session has two lines in a list, in columns. */
const narrowColumns = 72

/** Renders a list of sessions, newest first. */
export const renderSessions = (
  list: ReadonlyArray<ListedSession>,
  current: string,
  now: number,
  columns: number
): ReadonlyArray<string> =>
  list.flatMap((listed) => {
    const { session, topic } = listed
    const when = formatAgo(now - (session.endedAt ?? session.startedAt))
    const mark = session.id === current ? "*" : " "
    const id = SafeText.toLine(session.id)
    const place = listed.otherFolder === undefined && listed.branch === undefined ? "" : `  ${formatPlace(listed)}`
    const rows =
      columns < narrowColumns
        ? [`${mark} ${topic}`, `    ${id} · ${when}${place}`]
        : [`${mark} ${id}  ${Width.pad(when, 12)}  ${topic}${place}`]
    return rows.map((row) => Width.cut(row.trimEnd(), columns - 1))
  })

/** Sign and colour of each kind of context in the grid. */
const looks: Readonly<Record<ContextPart["kind"], readonly [string, Attribute]>> = {
  system: ["S", "magenta"],
  tools: ["T", "yellow"],
  user: ["U", "green"],
  agent: ["A", "cyan"],
  results: ["R", "blue"],
  other: ["O", "dim"]
}

const formatPercent = (part: number, whole: number): string => `${((part / whole) * 100).toFixed(1)}%`

/** Formats the fill of the context window in one line. */
export const formatContext = ({ tokens, window }: ContextFill): string =>
  window === undefined
    ? `about ${abbreviateCount(tokens)} tokens; the model's window is unknown`
    : `about ${abbreviateCount(tokens)} of ${abbreviateCount(window)} tokens (${formatPercent(tokens, window)})`

const cells = { rows: 5, columns: 20 }

/**
 * Renders one sign for each hundredth of the window, in the order of the parts. Every part that is not empty is
 * visible.
 */
const renderGrid = ({ parts, window }: ContextFill, paint: Paint): ReadonlyArray<string> => {
  if (window === undefined) return []
  const count = cells.rows * cells.columns
  const signs: Array<string> = []
  for (const kind of ["system", "tools", "user", "agent", "results", "other"] as const) {
    const tokens = parts.reduce((sum, part) => (part.kind === kind ? sum + part.tokens : sum), 0)
    const [sign, color] = looks[kind]
    const filled = tokens === 0 ? 0 : Math.max(1, Math.round((tokens / window) * count))
    for (let index = 0; index < filled && signs.length < count; index++) signs.push(paint.text(sign, color))
  }
  while (signs.length < count) signs.push(paint.text("·", "dim"))
  return [
    ...Array.from({ length: cells.rows }, (_, row) =>
      signs.slice(row * cells.columns, (row + 1) * cells.columns).join(" ")
    ),
    ""
  ]
}

/** Renders the lines of `/context`. */
export const renderContext = (fill: ContextFill, paint: Paint): ReadonlyArray<string> => {
  const { parts, tokens, window } = fill
  return [
    `Context: ${formatContext(fill)}`,
    "",
    ...renderGrid(fill, paint),
    ...renderPairs([
      ...parts.map(
        ({ kind, name, tokens: own }) =>
          [
            `${looks[kind][0]} ${name}`,
            `${abbreviateCount(own).padStart(7)}  ${formatPercent(own, window ?? Math.max(1, tokens))}`
          ] as const
      ),
      ...(window === undefined
        ? []
        : [
            [
              "· Free",
              `${abbreviateCount(Math.max(0, window - tokens)).padStart(7)}  ` +
                `${formatPercent(Math.max(0, window - tokens), window)}`
            ] as const
          ])
    ])
  ]
}
