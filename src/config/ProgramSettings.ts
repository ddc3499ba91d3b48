/**
 * Settings of the program around the agent: plugins and hooks, what is shown, what is kept.
 *
 * Source: `hermes-product.md` §1.8 and §6, `hermes-contract.md` §2.8 and §3.
 */
import * as F from "./Fields.ts"

/** `plugins`: `disabled` wins over `enabled`. `entries.<plugin>` is the plugin's own, as it stands in the file. */
export const plugins = F.defaulted({
  enabled: F.withDefault(F.texts, []),
  disabled: F.withDefault(F.texts, []),
  /** npm packages that are plugins; being named here makes one known, `enabled` decides. */
  packages: F.withDefault(F.texts, []),
  /** Seconds for a hook that may change what happens; 0 turns the deadline off. */
  hookCallbackTimeout: F.withDefault(F.number({ least: 0, most: 600 }), 30),
  /** Characters of a request or response in a hook payload. */
  payloadMaxChars: F.withDefault(F.integer({ least: 1000 }), 50_000),
  entries: F.withDefault(F.mapOf(F.mapOf(F.anything)), {})
})

/** `hooks.<event>[]`: a program that is told of an event. Seconds. */
export const shellHook = F.section({
  command: F.text,
  matcher: F.optional(F.text),
  timeout: F.withDefault(F.number({ least: 1, most: 300 }), 60)
})

/** `quick_commands.<name>`: a slash command of the user's, a shell line or another name for one. */
export const quickCommand = F.openSection({
  type: F.withDefault(F.choice(["exec", "alias"]), "exec"),
  command: F.optional(F.command),
  target: F.optional(F.text)
})

/**
 * `display`. The specification leaves the default of `busy_input_mode` open (interrupt or queue); queueing never throws work
 * away.
 */
export const display = F.defaulted({
  streaming: F.withDefault(F.flag, true),
  showReasoning: F.withDefault(F.flag, false),
  showCost: F.withDefault(F.flag, false),
  inlineDiffs: F.withDefault(F.unsupported(F.flag, { holds: [false] }), true),
  toolProgress: F.withDefault(F.choice(["off", "new", "all", "verbose"]), "all"),
  finalResponseMarkdown: F.withDefault(F.choice(["strip", "render", "raw"]), "strip"),
  resumeDisplay: F.withDefault(F.choice(["full", "minimal"]), "full"),
  busyInputMode: F.withDefault(F.choice(["interrupt", "queue", "steer"]), "queue"),
  /** Characters of a tool's arguments in its progress line; 0 is all that fit. */
  toolPreviewLength: F.withDefault(F.count, 0)
})

/** `sessions`. */
export const sessions = F.defaulted({
  autoPrune: F.withDefault(F.unsupported(F.flag, { holds: [false] }), false),
  retentionDays: F.withDefault(F.unsupported(F.positive), 90),
  vacuumAfterPrune: F.withDefault(F.unsupported(F.flag), true),
  minIntervalHours: F.withDefault(F.unsupported(F.number({ least: 0 })), 24),
  maxResumeMessages: F.withDefault(F.unsupported(F.positive), 20_000),
  maxExportMessages: F.withDefault(F.unsupported(F.positive), 20_000)
})

/** `logging`. */
export const logging = F.defaulted({
  level: F.withDefault(F.unsupported(F.choice(["DEBUG", "INFO", "WARNING", "ERROR"])), "INFO"),
  maxSizeMb: F.withDefault(F.unsupported(F.number({ least: 0.1 })), 5),
  backupCount: F.withDefault(F.unsupported(F.count), 3)
})

/** `database`. */
export const database = F.defaulted({ journalMode: F.withDefault(F.unsupported(F.choice(["wal", "delete"]), { holds: ["wal"] }), "wal") })
