/**
 * Limits that a `hermes` process inherits from the run that started it, through an environment variable. The process
 * may tighten the limits but cannot loosen them.
 *
 * **Details**
 *
 * Every command and script that a tool starts receives {@link variable}. Settings are tightened after flags,
 * environment and files are read, so that no source of settings overrides the limits. If the starting run asks for
 * approvals, `--yolo` and `approvals.mode: off` have no effect. If it cannot ask a user, a call that needs an approval
 * is denied. Deny globs of both are combined, and only commands on both allow lists are allowed. Secrets remain masked,
 * and writes remain limited to the roots of the starting run.
 *
 * A value that cannot be read counts as the strictest limits. A command can remove the variable from its environment.
 * The command check asks for approval of such a command, but only a sandbox prevents it.
 */
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ConfigError } from "../domain/AgentError.ts"
import * as PermissionMode from "./PermissionMode.ts"
import type { Values } from "./Settings.ts"

/** Name of the environment variable that contains the limits. */
export const variable = "HERMES_LIMITS"

/** Maximum depth of nested `hermes` processes; equal to the maximum depth of child agents. */
const maxDepth = 2

const LimitsSchema = Schema.Struct({
  /** Number of runs of other processes above this one: 1 for a program started by a run that the user started. */
  depth: Schema.Natural,
  mode: Schema.Literals(["manual", "smart", "off"]),
  /** Decision on a call that needs an approval if no user can be asked. */
  unattended: Schema.Literals(["deny", "approve"]),
  /** Globs of commands that never run. */
  deny: Schema.Array(Schema.String),
  /** Command allow list of the starting run. */
  allow: Schema.Array(Schema.String),
  /** Rules of the setting `permissions`. */
  permissions: Schema.Struct({
    allow: Schema.Array(Schema.String),
    ask: Schema.Array(Schema.String),
    deny: Schema.Array(Schema.String)
  }),
  /** Absolute directories that may be written without approval. */
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

/** Limits of a program if the run that started it is unknown. */
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

/** Reads the limits from an environment. Returns `undefined` for a program that a user started. */
export const readLimits = (variables: Readonly<Record<string, string | undefined>>): Limits | undefined => {
  const given = variables[variable]
  return given === undefined ? undefined : Option.getOrElse(decodeText(given), () => strictest)
}

/** Encodes limits as the value of the variable. */
export const encodeLimits = (limits: Limits): string => encodeText(limits)

const looseness: Readonly<Record<Limits["mode"], number>> = { manual: 0, smart: 1, off: 2 }

const isWithin = (path: string, roots: ReadonlyArray<string>): boolean =>
  roots.some((root) => path === root || path.startsWith(root.endsWith("/") ? root : `${root}/`))

/** Applies limits to settings. Returns the settings, and a warning for each setting that the limits changed. */
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
        // If the two lists have no directory in common, the roots of the starting run apply.
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

/**
 * Returns the limits that a run with these settings passes to the programs it starts. The roots of the working tree are
 * added when a program is started.
 */
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

/** Returns the error for a run that is nested too deeply; `undefined` if the run may start. */
export const findRefusal = (limits: Limits | undefined): ConfigError | undefined =>
  limits === undefined || limits.depth <= maxDepth
    ? undefined
    : new ConfigError({
        path: variable,
        message:
          `hermes was started by a run that hermes started itself, ${limits.depth} deep; ${maxDepth} is ` +
          "the limit. Do the work in this run."
      })

/** Limits of the programs that this runtime starts; defaults to {@link strictest}. */
export const Current = Context.Reference<Limits>("hermes-effect/config/Inherited", { defaultValue: () => strictest })
