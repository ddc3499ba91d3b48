/**
 * Selects the tools of a child.
 *
 * **Details**
 *
 * A child has the toolsets that its task requests, with composite toolsets expanded, as far as the parent has them.
 * Without a request it has all of the parent's toolsets. A child never has tools that talk to the user, store memories
 * for the user or start further work; a child that may delegate gets the delegation tool back. Toolsets of MCP servers
 * are added to the requested ones unless the settings say otherwise.
 *
 * Source: `hermes-product.md` §3.3–3.5.
 */
import * as Effect from "effect/Effect"
import * as Digest from "../base/platform/Digest.ts"
import type { Task } from "../tools/Delegator.ts"
import type { Selection } from "../tools/ToolRegistry.ts"
import * as Toolsets from "../tools/Toolsets.ts"
import type { Family } from "./Child.ts"
import type { SubAgent } from "./RunInput.ts"
import { Services } from "./Services.ts"

/** Tools that a child never has. */
const withheld: ReadonlySet<string> = new Set(["clarify", "memory", "send_message", "execute_code", "cronjob", "Agent"])

/** Parent tools, request and settings from which the tools of a child are selected. */
interface ToolSelectionInput {
  readonly parent: Selection
  /** Names of all registered toolsets. */
  readonly registered: ReadonlyArray<string>
  readonly mayDelegate: boolean
  /** True if the toolsets of MCP servers stay available in addition to those that a task requests. */
  readonly keepMcp: boolean
}

const resolveToolsets = (
  toolsets: ReadonlyArray<string>,
  registered: ReadonlyArray<string>
): Toolsets.ResolvedToolsets => Toolsets.resolve({ toolsets, foreign: registered })

/**
 * Returns a sentence for the model that lists the requested toolsets that do not exist, or `undefined` if all exist.
 */
export const describeUnknownToolset = (
  { toolsets = [] }: Pick<Task, "toolsets">,
  registered: ReadonlyArray<string>
): string | undefined => {
  const [unknown] = resolveToolsets(toolsets, registered).unknown
  if (unknown === undefined) return undefined
  const meant =
    unknown.nearest === undefined
      ? "leave toolsets out to give the child all of yours"
      : `did you mean "${unknown.nearest}"?`
  return `there is no toolset "${unknown.name}": ${meant}`
}

/** Selects the tools of a child from the parent's tools. */
const selectTools = (
  task: Pick<Task, "toolsets">,
  { keepMcp, mayDelegate, parent, registered }: ToolSelectionInput
): Selection => {
  const asked = task.toolsets === undefined ? undefined : resolveToolsets(task.toolsets, registered).selection
  return {
    toolset: (name) =>
      (parent.toolset?.(name) ?? true) &&
      parent.ofRunAlone?.(name) !== true &&
      (asked === undefined ||
        (asked.toolset?.(name) ?? true) ||
        (keepMcp && name.startsWith("mcp-")) ||
        (mayDelegate && name === "delegation")),
    tool: (name) =>
      (parent.tool?.(name) ?? true) &&
      !withheld.has(name) &&
      (name === "delegate_task" ? mayDelegate : (asked?.tool?.(name) ?? true))
  }
}

/** Chooses the tools of a child, and returns the {@link Lineage} field `kind` of children with them. */
export const chooseTools = Effect.fnUntraced(function* (
  { mayDelegate, parent }: Family,
  task: Task,
  named: SubAgent | undefined,
  registered: ReadonlyArray<string>
): Effect.fn.Return<{ readonly tools: Selection; readonly kind: string }, never, Services> {
  const { registry, settings } = yield* Services
  const own = named?.tools === undefined ? undefined : Toolsets.choose(named.tools, yield* registry.list, []).selection
  const tools = selectTools(task, {
    parent: own ?? parent.tools,
    registered,
    mayDelegate: mayDelegate && task.role === "orchestrator",
    keepMcp: settings.delegation?.inheritMcpToolsets ?? true
  })
  const { names } = yield* registry.snapshot(tools)
  const above = parent.lineage?.kind ?? parent.conversationId
  return { tools, kind: `${above}:${Digest.toHex([task.agent ?? "", ...names].join("\n"), 12)}` }
})
