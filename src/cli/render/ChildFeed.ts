/**
 * Lines about sub-agents: a line when one begins and one when it ends, and a live line for each that works.
 *
 * Lines of children stand one step further in than those of the agent's own tools. With the verbosity `off` nothing is
 * shown, with `new` only children that did not complete.
 *
 * Source: `hermes-product.md` §3.5.
 */
import * as Redaction from "../../domain/Redaction.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import * as Usage from "../../domain/Usage.ts"
import * as SafeText from "./SafeText.ts"
import type { Attribute, Paint } from "./Paint.ts"
import type { Verbosity } from "./ToolFeed.ts"
import * as ToolText from "./ToolText.ts"
import * as Width from "./Width.ts"

/** Live lines at most. */
export const liveLines = 4

/** Columns of a line where there is no terminal that limits them. */
const wide = 160

type EventOf<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

/** The events that this is about. */
export type ChildEvent = EventOf<"SubagentStarted" | "SubagentProgress" | "SubagentFinished">

export interface ChildFeed {
  /** Takes an event, and answers with the lines that the feed gets. */
  readonly take: (event: ChildEvent, now: number, columns: number | undefined) => ReadonlyArray<string>
  /** The lines of the children that work, at most so many columns wide. */
  readonly live: (now: number, columns: number, frame: string) => ReadonlyArray<string>
}

interface Child {
  readonly goal: string
  readonly since: number
  at: string
}

const safe = (text: string): string => Redaction.redactText(SafeText.line(text))

const marks: Readonly<Record<string, readonly [mark: string, attribute: Attribute]>> = {
  completed: ["✓", "green"],
  partial: ["◐", "yellow"],
  interrupted: ["○", "dim"]
}

export const make = ({ verbosity }: { readonly verbosity: () => Verbosity }, paint: Paint): ChildFeed => {
  const children = new Map<string, Child>()
  const bar = `${paint.text("┊", "dim")}   `

  const line = (mark: string, attribute: Attribute, goal: string, facts: string, columns: number): string => {
    const room = Math.max(8, columns - Width.of(`┊   ${mark} ${facts}`))
    return `${bar}${paint.text(mark, attribute)} ${Width.cut(safe(goal), room)}${paint.text(facts, "dim")}`
  }

  const finished = (event: EventOf<"SubagentFinished">, columns: number): ReadonlyArray<string> => {
    children.delete(event.subagentId)
    const [mark, attribute] = marks[event.status] ?? ["✗", "red"]
    const status = event.status === "completed" ? "" : ` · ${event.status}`
    const tools = event.toolCount === 0 ? "" : ` · ${event.toolCount} ${event.toolCount === 1 ? "tool call" : "tool calls"}`
    const facts = `${status}${tools} · ${Usage.totalTokens(event.usage)} tokens · ${ToolText.duration(event.durationMillis)}`
    return [line(mark, attribute, event.goal, facts, columns)]
  }

  return {
    take: (event, now, columns) => {
      const shown = verbosity()
      switch (event._tag) {
        case "SubagentStarted":
          children.set(event.subagentId, { goal: event.goal, since: now, at: "" })
          return shown === "all" || shown === "verbose" ? [line("▸", "cyan", event.goal, "", columns ?? wide)] : []
        case "SubagentProgress": {
          const child = children.get(event.subagentId)
          if (child !== undefined) child.at = event.text
          return []
        }
        case "SubagentFinished": {
          const lines = finished(event, columns ?? wide)
          return shown === "off" || (shown === "new" && event.status === "completed") ? [] : lines
        }
      }
    },
    live: (now, columns, frame) => {
      if (verbosity() === "off") return []
      const working = Array.from(children.values())
      const lines = working.slice(0, liveLines).map(({ at, goal, since }) =>
        line(frame, "cyan", goal, `${at === "" ? "" : ` · ${safe(at)}`} · ${ToolText.elapsed(now - since)}`, columns))
      const more = working.length - lines.length
      return more > 0 ? [...lines, `${bar}${paint.text(`… and ${more} more`, "dim")}`] : lines
    }
  }
}
