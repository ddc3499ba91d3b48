/**
 * Judges a stream of events: every line by itself, then the pairs and the tree that the lines make together.
 *
 * Source: `relay-atof-atif.md` §1.5.
 */
import * as Atof from "./Atof.ts"
import type { Issue } from "./AtifCheck.ts"

const same = ["name", "category", "attributes", "parent_uuid"] as const

const pair = (start: Atof.ScopeEvent, end: Atof.ScopeEvent): ReadonlyArray<Issue> => {
  const issues: Array<Issue> = []
  if (Atof.micros(end.timestamp) <= Atof.micros(start.timestamp)) {
    issues.push({ severity: "error", path: end.uuid, message: `${end.name}: its end is not later than its start` })
  }
  for (const key of same) {
    if (JSON.stringify(start[key] ?? null) !== JSON.stringify(end[key] ?? null)) {
      issues.push({ severity: "error", path: end.uuid, message: `${end.name}: ${key} is not the same at both ends` })
    }
  }
  return issues
}

const attributes = (event: Atof.Event): ReadonlyArray<Issue> => {
  if (event.kind === "mark") return []
  const list = event.attributes ?? []
  const isSorted = list.every((flag, index) => index === 0 || String(list[index - 1]) < flag)
  return isSorted ? [] : [{ severity: "error", path: event.uuid, message: `${event.name}: attributes are sorted, and each is there once` }]
}

/** Judges a stream; no issue at all is a sound one. A scope without an end is a warning: its process may have been killed. */
export const check = ({ events, faults }: Atof.Stream): ReadonlyArray<Issue> => {
  const issues: Array<Issue> = faults.map(({ line, message }) => ({ severity: "error", path: `line ${line}`, message: message.replace(/^line \d+: /u, "") }))
  const scopes = new Set(events.flatMap((event) => event.kind === "scope" ? [event.uuid] : []))
  const open = new Map<string, Atof.ScopeEvent>()
  const closed = new Set<string>()
  const missing = new Set<string>()
  for (const event of events) {
    issues.push(...attributes(event))
    const parent = event.parent_uuid
    if (parent && !scopes.has(parent)) missing.add(parent)
    if (event.kind === "mark") continue
    const start = open.get(event.uuid)
    if (event.scope_category === "start") {
      if (start !== undefined || closed.has(event.uuid)) issues.push({ severity: "error", path: event.uuid, message: `${event.name}: it has two starts` })
      open.set(event.uuid, event)
    } else if (start === undefined) {
      const what = closed.has(event.uuid) ? "it has two ends" : "it has an end and no start before it"
      issues.push({ severity: "error", path: event.uuid, message: `${event.name}: ${what}` })
    } else {
      issues.push(...pair(start, event))
      open.delete(event.uuid)
      closed.add(event.uuid)
    }
  }
  for (const parent of missing) issues.push({ severity: "warning", path: parent, message: "events are in a scope that is not in the stream" })
  for (const { name, uuid } of open.values()) issues.push({ severity: "warning", path: uuid, message: `${name}: it has no end` })
  return issues.toSorted((a, b) => Number(a.severity === "warning") - Number(b.severity === "warning"))
}
