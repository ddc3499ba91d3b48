/**
 * Selects the tools of its parent that a child may use. Pure.
 *
 * **Details**
 *
 * A child has the toolsets that its task asks for, compositions expanded, as far as the parent has them; all of the
 * parent's where it asks for none. Tools that talk to the user, remember for the user or spawn further work are never a
 * child's; delegation comes back to one that may delegate. The toolsets of MCP servers stay beside those that were asked
 * for, unless the settings say otherwise.
 *
 * Source: `hermes-product.md` §3.3.
 */
import type { Task } from "../tool/Delegator.ts"
import type { Selection } from "../tool/ToolRegistry.ts"
import * as Toolsets from "../tool/Toolsets.ts"

/** Tools that a child never has. */
const withheld: ReadonlySet<string> = new Set(["clarify", "memory", "send_message", "execute_code", "cronjob"])

/** Input of the selection. */
export interface ToolSelectionInput {
  readonly parent: Selection
  /** Names of all registered toolsets. */
  readonly registered: ReadonlyArray<string>
  readonly mayDelegate: boolean
  /** True when the toolsets of MCP servers stay beside those that a task asks for. */
  readonly keepMcp: boolean
}

const resolved = (toolsets: ReadonlyArray<string>, registered: ReadonlyArray<string>): Toolsets.Resolved =>
  Toolsets.resolve({ toolsets, foreign: registered })

/** Names among those that a task asks for which mean nothing, as a sentence for the model; undefined where all do. */
export const misnamed = (
  { toolsets = [] }: Pick<Task, "toolsets">,
  registered: ReadonlyArray<string>
): string | undefined => {
  const [unknown] = resolved(toolsets, registered).unknown
  if (unknown === undefined) return undefined
  const meant = unknown.nearest === undefined ? "leave toolsets out to give the child all of yours" : `did you mean "${unknown.nearest}"?`
  return `there is no toolset "${unknown.name}": ${meant}`
}

/** Selects the tools of a child from those of its parent. */
export const select = (task: Pick<Task, "toolsets">, { keepMcp, mayDelegate, parent, registered }: ToolSelectionInput): Selection => {
  const asked = task.toolsets === undefined ? undefined : resolved(task.toolsets, registered).selection
  return {
    toolset: (name) =>
      (parent.toolset?.(name) ?? true) &&
      (asked === undefined ||
        (asked.toolset?.(name) ?? true) ||
        (keepMcp && name.startsWith("mcp-")) ||
        (mayDelegate && name === "delegation")),
    tool: (name) =>
      (parent.tool?.(name) ?? true) &&
      !withheld.has(name) &&
      (name === "delegate_task" ? mayDelegate : asked?.tool?.(name) ?? true)
  }
}
