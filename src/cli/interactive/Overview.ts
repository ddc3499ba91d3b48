/**
 * Lines about a session: at its beginning, at its end, and by `/status`.
 *
 * Source: `hermes-product.md` §1.7 and §1.8.
 */
import type { RouteStatus } from "../../routing/ModelRouter.ts"
import type { Session } from "../../session/SessionStore.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Paint } from "../render/Paint.ts"
import * as RouteText from "../render/RouteText.ts"
import * as ToolText from "../render/ToolText.ts"
import { counted, pairs, short } from "../render/UsageText.ts"
import * as Width from "../render/Width.ts"
import type { About } from "./Dialog.ts"

/** The lines that a session begins with. */
export const banner = (
  about: About,
  id: string,
  { columns, paint }: { readonly columns: number; readonly paint: Paint }
): ReadonlyArray<string> => {
  const line = (text: string): string => Width.cut(SafeText.line(text), columns - 1)
  const title = `hermes ${about.version}`
  return [
    `${paint.text(title, "bold")} ${paint.text(line(`· ${about.model} by ${about.provider}`), "dim")}`,
    paint.text(line(about.cwd), "dim"),
    paint.text(line(`session ${id} · /help for commands, Ctrl+D to exit`), "dim")
  ]
}

/** A time as it is spoken of: `5 min ago`. */
export const ago = (millis: number): string => {
  const minutes = Math.floor(millis / 60_000)
  if (minutes < 1) return "just now"
  if (minutes < 60) return `${minutes} min ago`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} days ago`
}

const routeRow = (route: RouteStatus, index: number): readonly [string, string] =>
  [index === 0 ? "Route" : `Fallback ${index}`, SafeText.line(RouteText.line(route))]

/** Lines of `/status`; of routes where there is more than one, or more than one key. */
export const status = (
  about: About,
  current: { readonly id: string; readonly cwd: string; readonly prompts: number; readonly title: string | undefined; readonly tokens: number },
  known: Session | undefined,
  duration: number,
  verbosity: string,
  routes: ReadonlyArray<RouteStatus>
): ReadonlyArray<string> =>
  pairs([
    ["Session", SafeText.line(current.id)],
    ["Title", SafeText.line(known?.title ?? current.title ?? "none: /title NAME")],
    ["Model", SafeText.line(`${known?.model ?? about.model} by ${known?.provider ?? about.provider}`)],
    ...(routes.length < 2 && routes.every(({ keys }) => keys.length < 2) ? [] : routes.map(routeRow)),
    ["Directory", SafeText.line(current.cwd)],
    [
      "Messages",
      `${counted(known?.messageCount ?? 0, "message")}, ${current.prompts} by you, ${
        counted(known?.toolCallCount ?? 0, "tool call")
      }`
    ],
    ["Tokens", short(current.tokens)],
    ["Time", ToolText.duration(duration)],
    ["Tool lines", `${verbosity}: /verbose changes it`]
  ])

/** Lines shown when a session is left: how to come back to it, and what there is of it. */
export const farewell = (
  session: Session,
  prompts: number,
  duration: number,
  resume: string
): ReadonlyArray<string> => [
  "Resume this session with:",
  `  ${resume}`,
  "",
  ...pairs([
    ["Session", SafeText.line(session.title === undefined ? session.id : `${session.id} (${session.title})`)],
    ["Time", ToolText.duration(duration)],
    [
      "Messages",
      `${counted(session.messageCount, "message")}, ${prompts} by you, ${counted(session.toolCallCount, "tool call")}`
    ]
  ])
]

/** The line over the recap of a session. */
export const resumed = ({ id, title }: Session, exchanges: number, when: string): string =>
  `Resumed ${title === undefined ? id : `"${SafeText.line(title)}"`} · ${counted(exchanges, "exchange")} · last used ${when}`

/** A list of sessions, the newest first. */
export const sessions = (
  list: ReadonlyArray<Session>,
  current: string,
  now: number,
  columns: number
): ReadonlyArray<string> =>
  list.map((session) => {
    const when = ago(now - (session.endedAt ?? session.startedAt))
    const mark = session.id === current ? "*" : " "
    const head = `${mark} ${SafeText.line(session.id)}  ${Width.pad(when, 12)}  ${Width.pad(counted(session.messageCount, "message"), 12)}`
    return Width.cut(`${head}  ${SafeText.line(session.title ?? "")}`.trimEnd(), columns - 1)
  })
