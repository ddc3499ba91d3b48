/**
 * Limits that a `hermes` inherits from the run that started it, as one variable of its environment. A started program
 * may tighten them but cannot loosen them.
 *
 * **Details**
 *
 * Every command and script that a tool starts receives {@link variable}. Settings are tightened after flags,
 * environment and files were read, so that no source of settings takes precedence. `--yolo` and `approvals.mode: off`
 * have no effect if the starting run asks, a call that needs an approval is denied if the run cannot ask a user, deny
 * globs are joined, allow entries have to be on both lists, secrets remain masked, and writes remain in the roots of
 * the starting run.
 *
 * A value that cannot be read counts as the strictest limits. Removing the variable from the environment of a command
 * changes the agent's own rules, so the command check asks about it; only a sandbox prevents it.
 */
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ConfigError } from "../domain/AgentError.ts"
import * as PermissionMode from "./PermissionMode.ts"
import type { Values } from "./Settings.ts"

/** Name of the variable. */
export const variable = "HERMES_LIMITS"

/** Maximum depth of nested `hermes` processes, the same as for children of a run. */
const maxDepth = 2

const LimitsSchema = Schema.Struct({
  /** Runs of other processes above: 1 for a program that the user's own started. */
  depth: Schema.Natural,
  mode: Schema.Literals(["manual", "smart", "off"]),
  /** Outcome of a call that needs an approval if no user can be asked. */
  unattended: Schema.Literals(["deny", "approve"]),
  /** Globs of commands that never run. */
  deny: Schema.Array(Schema.String),
  /** The allow list of the starting run. */
  allow: Schema.Array(Schema.String),
  /** Rules of `permissions`. */
  permissions: Schema.Struct({
    allow: Schema.Array(Schema.String),
    ask: Schema.Array(Schema.String),
    deny: Schema.Array(Schema.String)
  }),
  /** Directories that writes stay in without a question; absolute. */
  roots: Schema.Array(Schema.String),
  /** Absolute directories that writes are limited to; empty for no limit. */
  safeRoots: Schema.Array(Schema.String),
  redactSecrets: Schema.Boolean,
  unknownHosts: Schema.Literals(["allow", "ask"]),
  unknownCommands: Schema.Literals(["allow", "ask"]),
  acceptHooks: Schema.Boolean
})

/** Limits of one program. */
export type Limits = typeof LimitsSchema.Type

/** Limits of a program of which nothing is known. */
export const strictest: Limits = {
  depth: 1,
  mode: "manual",
  unattended: "deny",
  deny: [],
  allow: [],
  permissions: { allow: [], ask: [], deny: [] },
  roots: [],
  safeRoots: [],
  redactSecrets: true,
  unknownHosts: "ask",
  unknownCommands: "ask",
  acceptHooks: false
}

const text = Schema.fromJsonString(LimitsSchema)
const decodeText = Schema.decodeUnknownOption(text)
const encodeText = Schema.encodeSync(text)

/** The limits in an environment; undefined for a program that a user started. */
export const readLimits = (variables: Readonly<Record<string, string | undefined>>): Limits | undefined => {
  const given = variables[variable]
  return given === undefined ? undefined : Option.getOrElse(decodeText(given), () => strictest)
}

/** The value of the variable. */
export const encodeLimits = (limits: Limits): string => encodeText(limits)

const looseness: Readonly<Record<Limits["mode"], number>> = { manual: 0, smart: 1, off: 2 }

const isWithin = (path: string, roots: ReadonlyArray<string>): boolean =>
  roots.some((root) => path === root || path.startsWith(root.endsWith("/") ? root : `${root}/`))

/** Settings under limits, and a line for every one that they changed against what the user may have meant. */
export const tightenSettings = (
  values: Values,
  limits: Limits
): { readonly values: Values; readonly warnings: ReadonlyArray<string> } => {
  const { approvals, permissions, security } = values
  const isLooser = looseness[approvals.mode] > looseness[limits.mode]
  const tightenUnattended = <A extends "deny" | "approve">(own: A): A | "deny" =>
    limits.unattended === "deny" ? "deny" : own
  const safeRoots =
    limits.safeRoots.length === 0 || security.writeSafeRoot.length > 0 ? security.writeSafeRoot : limits.safeRoots
  const confined =
    limits.safeRoots.length === 0 ? safeRoots : safeRoots.filter((root) => isWithin(root, limits.safeRoots))
  return {
    values: {
      ...values,
      approvals: {
        ...approvals,
        mode: isLooser ? limits.mode : approvals.mode,
        ...(approvals.defaultMode === undefined
          ? {}
          : {
              defaultMode: PermissionMode.selectNarrower(
                approvals.defaultMode,
                PermissionMode.fromApprovals(limits.mode)
              )
            }),
        cronMode: tightenUnattended(approvals.cronMode),
        singleQueryMode: tightenUnattended(approvals.singleQueryMode),
        unattendedMode: tightenUnattended(approvals.unattendedMode),
        unknownCommands: limits.unknownCommands === "ask" ? "ask" : approvals.unknownCommands,
        deny: Array.from(new Set([...approvals.deny, ...limits.deny]))
      },
      commandAllowlist:
        limits.mode === "off"
          ? values.commandAllowlist
          : values.commandAllowlist.filter((entry) => limits.allow.includes(entry)),
      permissions: {
        allow:
          limits.mode === "off"
            ? permissions.allow
            : permissions.allow.filter((rule) => limits.permissions.allow.includes(rule)),
        ask: Array.from(new Set([...permissions.ask, ...limits.permissions.ask])),
        deny: Array.from(new Set([...permissions.deny, ...limits.permissions.deny]))
      },
      hooksAutoAccept: values.hooksAutoAccept && limits.acceptHooks,
      security: {
        ...security,
        redactSecrets: security.redactSecrets || limits.redactSecrets,
        unknownHosts: limits.unknownHosts === "ask" ? "ask" : security.unknownHosts,
        // Nothing in common leaves nothing: the roots of the starting run hold.
        writeSafeRoot: confined.length === 0 ? limits.safeRoots : confined
      }
    },
    warnings: isLooser
      ? [
          `approvals.mode: "${approvals.mode}" does not hold here; the run of hermes that started this one asks ` +
            `(${limits.mode})`
        ]
      : []
  }
}

/** Limits that a run with these settings hands on. The roots of a run's tree are added where a program is started. */
export const fromSettings = (
  { approvals, commandAllowlist, hooksAutoAccept, permissions, security }: Values,
  inherited: Limits | undefined
): Limits => ({
  depth: (inherited?.depth ?? 0) + 1,
  mode: PermissionMode.toApprovals(PermissionMode.fromSettings(approvals)),
  unattended: inherited?.unattended ?? "deny",
  deny: approvals.deny,
  allow: commandAllowlist,
  permissions: { allow: permissions.allow, ask: permissions.ask, deny: permissions.deny },
  roots: inherited?.roots ?? [],
  safeRoots: security.writeSafeRoot,
  redactSecrets: security.redactSecrets,
  unknownHosts: security.unknownHosts,
  unknownCommands: approvals.unknownCommands,
  acceptHooks: hooksAutoAccept
})

/** Returns the error of a run that is nested too deeply; `undefined` if it may start. */
export const findRefusal = (limits: Limits | undefined): ConfigError | undefined =>
  limits === undefined || limits.depth <= maxDepth
    ? undefined
    : new ConfigError({
        path: variable,
        message:
          `hermes was started by a run that hermes started itself, ${limits.depth} deep; ${maxDepth} is ` +
          "the limit. Do the work in this run."
      })

/** Limits of the programs that this runtime starts; the strictest by default. */
export const Current = Context.Reference<Limits>("hermes-effect/config/Inherited", { defaultValue: () => strictest })
