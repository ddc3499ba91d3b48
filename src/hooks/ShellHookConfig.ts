/**
 * Decodes the `hooks:` block of `config.yaml`: the user's programs that run on events.
 *
 * **Details**
 *
 * ```yaml
 * hooks:
 *   pre_tool_call:
 *     - command: ~/.hermes/hooks/guard.sh --strict
 *       matcher: terminal|write_file
 *       timeout: 10
 *       sandbox: read-only
 * ```
 *
 * An invalid entry never stops the program: it is left out with a warning. `sandbox` accepts the values of an MCP
 * server's `sandbox` and defaults to `full`.
 *
 * Source: `hermes-contract.md` §3.7, `hermes-product.md` §6.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { type ProgramSandbox, programSandbox } from "../base/config/ProgramSections.ts"
import { findNearest } from "../base/domain/Similarity.ts"
import { type HookName, isHookName, names } from "./Payloads.ts"
import { table } from "./PayloadTable.ts"

/** A program that runs on one event. */
export interface ShellHook {
  readonly event: HookName
  readonly command: string
  /** Pattern of the tools for which the hook runs, as the user wrote it. Without a matcher it runs for all tools. */
  readonly matcher: string | undefined
  readonly timeoutSeconds: number
  /** Sandbox of the program. */
  readonly sandbox: ProgramSandbox
}

/** Decoded hooks, and one line for each invalid entry. */
interface DecodedHooks {
  readonly hooks: ReadonlyArray<ShellHook>
  readonly warnings: ReadonlyArray<string>
}

const readSandbox = Schema.decodeUnknownOption(programSandbox)

const defaultTimeout = 60
const longestTimeout = 300

const describeUnknownEvent = (event: string): string => {
  const meant = findNearest(event, names)
  return `hooks.${event}: no such event${meant === undefined ? "" : `, did you mean ${meant}?`}; the entry is skipped`
}

/** Decodes a parsed YAML value. The same program for the same event and matcher counts once. */
export const decode = (block: unknown): DecodedHooks => {
  const hooks = new Map<string, ShellHook>()
  const warnings: Array<string> = []

  const readTimeout = (path: string, value: unknown): number => {
    if (value === undefined) return defaultTimeout
    if (typeof value === "number" && Number.isInteger(value) && value >= 1) return Math.min(value, longestTimeout)
    warnings.push(`${path}.timeout: not a number of seconds of 1 or more; ${defaultTimeout} is used`)
    return defaultTimeout
  }

  const readMatcher = (path: string, event: HookName, value: unknown): string | undefined => {
    const matcher = typeof value === "string" ? value.trim() : ""
    if (value === undefined || value === null || value === "") return undefined
    if (!("matchesTools" in table[event])) {
      warnings.push(`${path}.matcher: ${event} is not about a tool; the matcher is ignored`)
      return undefined
    }
    if (matcher === "") warnings.push(`${path}.matcher: not the name or pattern of a tool; the matcher is ignored`)
    return matcher === "" ? undefined : matcher
  }

  const addHook = (path: string, event: HookName, entry: unknown): void => {
    const command = Predicate.isObject(entry) ? entry["command"] : undefined
    if (!Predicate.isObject(entry) || typeof command !== "string" || command.trim() === "") {
      warnings.push(`${path}: needs a \`command\`; the entry is skipped`)
      return
    }
    const sandbox = readSandbox(entry["sandbox"] ?? "full")
    if (Option.isNone(sandbox)) {
      warnings.push(
        `${path}.sandbox: expected full, workspace-write, read-only, or policy, network and hosts; the entry is skipped`
      )
      return
    }
    const hook: ShellHook = {
      event,
      command: command.trim(),
      matcher: readMatcher(path, event, entry["matcher"]),
      timeoutSeconds: readTimeout(path, entry["timeout"]),
      sandbox: sandbox.value
    }
    const key = JSON.stringify([hook.event, hook.matcher, hook.command])
    if (!hooks.has(key)) hooks.set(key, hook)
  }

  if (Predicate.isObject(block)) {
    for (const [event, entries] of Object.entries(block)) {
      if (!isHookName(event)) warnings.push(describeUnknownEvent(event))
      else if (!Array.isArray(entries)) warnings.push(`hooks.${event}: not a list; the entry is skipped`)
      else entries.forEach((entry, index) => addHook(`hooks.${event}[${index}]`, event, entry))
    }
  } else if (block !== undefined && block !== null) {
    warnings.push("hooks: not a mapping of events to lists; no shell hook is registered")
  }
  return { hooks: Array.from(hooks.values()), warnings }
}

/**
 * Returns a predicate that decides whether a hook receives events about a tool. The matcher is a regular expression for
 * the whole name, or the literal name if it is not a valid expression.
 */
export const makeToolMatcher = (hook: ShellHook): ((toolName: unknown) => boolean) => {
  const { matcher } = hook
  if (matcher === undefined) return () => true
  try {
    const pattern = new RegExp(`^(?:${matcher})$`)
    return (toolName) => typeof toolName === "string" && pattern.test(toolName)
  } catch {
    // An invalid regular expression is taken literally, according to the contract.
    return (toolName) => toolName === matcher
  }
}
