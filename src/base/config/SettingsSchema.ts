/**
 * The Schema of all settings: `config.yaml`, environment and flags are decoded by it.
 *
 * **Details**
 *
 * Keys are snake_case in the file and camelCase here; `agent.max_turns` is `settings.agent.maxTurns`. Times are in
 * seconds unless the name contains another unit. A key without a default is absent if it is not set. Secrets are
 * `Redacted`. Each section is described at its definition: in `SettingSections`, or in this module for plugins and
 * hooks, display and storage.
 *
 * If the specifications contain several default values from different periods, the value from the period of the
 * documents applies, unless `ARCHITECTURE.md` §7 says otherwise.
 *
 * **Gotchas**
 *
 * Encoding masks every secret, so the encoded form is only for display. Use `Edit` to change the file.
 *
 * Source: `hermes-llm.md` §21, `hermes-product.md` §1.8 and §6, `hermes-contract.md` §2.8 and §3, `ARCHITECTURE.md` §8.
 */
import * as Schema from "effect/Schema"
import * as F from "./Fields.ts"
import { renamed } from "./internal/FileKeys.ts"
import { mcpServer, programSandbox } from "./ProgramSections.ts"
import * as Sections from "./SettingSections.ts"

/**
 * `plugins`: the list `disabled` takes precedence over `enabled`. `entries.<plugin>` contains the settings of a plugin
 * as written in the file.
 */
const plugins = F.optionalSection({
  enabled: F.withDefault(F.texts, []),
  disabled: F.withDefault(F.texts, []),
  /** npm packages that contain plugins. A package in this list is loaded only if `enabled` also names it. */
  packages: F.withDefault(F.texts, []),
  /** Deadline, in seconds, of a hook that can change the run; 0 disables the deadline. */
  hookCallbackTimeout: F.withDefault(F.number({ least: 0, most: 600 }), 30),
  /** Maximum number of characters of a request or response in a hook payload. */
  payloadMaxChars: F.withDefault(F.integer({ least: 1000 }), 50_000),
  entries: F.withDefault(F.record(F.record(F.anything)), {})
})

/** `hooks.<event>[]`: a program that is notified of an event. Times are in seconds. */
const shellHook = F.section({
  command: F.text,
  matcher: F.optional(F.text),
  timeout: F.withDefault(F.number({ least: 1, most: 300 }), 60),
  /** Sandbox of the program. */
  sandbox: F.withDefault(programSandbox, "full")
})

/** `middlewares[]`: the import of a middleware, with its parameters. A string sets only the import. */
const middleware = F.entry("import", { import: F.text, params: F.withDefault(F.record(F.anything), {}) })

/**
 * `quick_commands.<name>`: a slash command defined by the user, either a shell command or an alias of another slash
 * command.
 */
const quickCommand = F.openSection({
  type: F.withDefault(F.choice(["exec", "alias"]), "exec"),
  command: F.optional(F.command),
  target: F.optional(F.text)
})

/** A color, optionally preceded by text styles, as parsed by `program/cli/render/Theme`. */
const look = Schema.String.check(
  Schema.isPattern(
    /^\s*(?:default|(?:(?:bold|dim|italic|underline)\s+)*(?:bold|dim|italic|underline|(?:bright-)?(?:black|red|green|yellow|blue|magenta|cyan|white)|#[0-9a-f]{6}|1?\d?\d|2[0-4]\d|25[0-5]))\s*$/i,
    {
      expected:
        "a colour (red, bright-red, 0 to 255 or #rrggbb) with bold, dim, italic or underline before it, or default"
    }
  )
)

/** `display.themes.<name>`: a theme that changes some roles of another theme. */
const theme = F.section({
  base: F.withDefault(F.choice(["dark", "light", "high-contrast"]), "dark"),
  muted: F.optional(look),
  accent: F.optional(look),
  heading: F.optional(look),
  link: F.optional(look),
  success: F.optional(look),
  warning: F.optional(look),
  error: F.optional(look),
  added: F.optional(look),
  removed: F.optional(look),
  keyword: F.optional(look),
  string: F.optional(look),
  comment: F.optional(look),
  number: F.optional(look)
})

/**
 * `display`. The specification does not state the default of `busy_input_mode` (interrupt or queue). Queueing is the
 * default here, because it never discards work.
 */
const display = F.optionalSection({
  streaming: F.withDefault(F.flag, true),
  showReasoning: F.withDefault(F.flag, false),
  showCost: F.withDefault(F.flag, false),
  inlineDiffs: F.withDefault(F.markUnsupported(F.flag, { holds: [false] }), true),
  toolProgress: F.withDefault(F.choice(["off", "new", "all", "verbose"]), "all"),
  finalResponseMarkdown: F.withDefault(F.choice(["strip", "render", "raw"]), "render"),
  resumeDisplay: F.withDefault(F.choice(["full", "minimal"]), "full"),
  busyInputMode: F.withDefault(F.choice(["interrupt", "queue", "steer"]), "queue"),
  /**
   * Shows a status line below the prompt of a conversation: model, mode, context, tokens and cost, branch, background
   * work.
   */
  statusLine: F.withDefault(F.flag, true),
  /**
   * Signals that a turn longer than `notifyAfterSeconds` ended or that a question is waiting: by a bell, or by a
   * notification of the terminal.
   */
  notify: F.withDefault(F.choice(["off", "bell", "osc9", "osc777"]), "bell"),
  notifyAfterSeconds: F.withDefault(F.number({ least: 0 }), 10),
  /** Shows the folder and the state of the session in the title of the terminal window. */
  terminalTitle: F.withDefault(F.flag, true),
  /** Keys of the prompt of a conversation. */
  editingMode: F.withDefault(F.choice(["emacs", "vi"]), "emacs"),
  /** `auto` (chosen by the terminal's background), `dark`, `light`, `high-contrast`, or the name of one of `themes`. */
  theme: F.withDefault(F.text, "auto"),
  themes: F.withDefault(F.record(theme), {}),
  /** Maximum number of characters of a tool's arguments in its progress line; 0 shows as many as fit. */
  toolPreviewLength: F.withDefault(F.count, 0)
})

/** `sessions`: retention and limits of stored sessions. */
const sessions = F.optionalSection({
  /** Removes ended sessions older than `retentionDays`, with their run records, in the background at program start. */
  autoPrune: F.withDefault(F.flag, false),
  /** Age in days after which ended sessions are removed by `autoPrune` and by `hermes sessions prune`. */
  retentionDays: F.withDefault(F.positive, 90),
  /** Returns free space to the file system if a removal left at least a quarter of the file free. */
  vacuumAfterPrune: F.withDefault(F.flag, true),
  /** Minimum time between two removals by `autoPrune`, in hours. */
  minIntervalHours: F.withDefault(F.number({ least: 0 }), 24),
  maxResumeMessages: F.withDefault(F.markUnsupported(F.positive), 20_000),
  maxExportMessages: F.withDefault(F.markUnsupported(F.positive), 20_000)
})

/** `logging`: the log of the program. */
const logging = F.optionalSection({
  level: F.withDefault(F.markUnsupported(F.choice(["DEBUG", "INFO", "WARNING", "ERROR"])), "INFO"),
  maxSizeMb: F.withDefault(F.markUnsupported(F.number({ least: 0.1 })), 5),
  backupCount: F.withDefault(F.markUnsupported(F.count), 3)
})

/** `database`: the database of the sessions. */
const database = F.optionalSection({
  journalMode: F.withDefault(F.markUnsupported(F.choice(["wal", "delete"]), { holds: ["wal"] }), "wal")
})

const fields = {
  model: Sections.model,
  providers: F.withDefault(F.record(Sections.provider), {}),
  customProviders: F.withDefault(Schema.Array(Sections.customProvider), []),
  fallbackProviders: F.withDefault(Schema.Array(Sections.fallback), []),
  /** The older form of a chain with one fallback; used if `fallbackProviders` is empty. */
  fallbackModel: F.optional(Sections.fallback),
  credentialPoolStrategies: F.withDefault(F.record(Sections.poolStrategy), {}),
  providerRouting: Sections.providerRouting,
  /**
   * Settings of side tasks, by task. The tasks listed here are part of the configuration format but are not implemented
   * yet.
   */
  auxiliary: F.withDefault(F.recordWithout(Sections.auxiliary, ["summary", "skills_hub", "flush_memories"]), {}),
  bedrock: Sections.bedrock,
  network: Sections.network,

  agent: Sections.agent,
  delegation: Sections.delegation,
  toolLoopGuardrails: Sections.toolLoopGuardrails,
  compression: Sections.compression,
  context: Sections.context,
  promptCaching: Sections.promptCaching,
  memory: Sections.memory,
  skills: Sections.skills,
  /** Path of a JSON file with messages that are sent after the system prompt in every call. */
  prefillMessagesFile: F.optional(F.text),

  toolsets: F.withDefault(F.texts, ["hermes-cli"]),
  platformToolsets: F.withDefault(F.record(F.texts), {}),
  disabledToolsets: F.withDefault(F.texts, []),
  terminal: Sections.terminal,
  toolOutput: Sections.toolOutput,
  fileReadMaxChars: F.withDefault(F.positive, 100_000),
  codeExecution: Sections.codeExecution,
  mcpServers: F.withDefault(F.record(mcpServer), {}),
  cron: Sections.cron,
  store: Sections.store,
  cluster: Sections.cluster,
  server: Sections.server,
  tenants: F.withDefault(F.record(Sections.tenant), {}),

  approvals: Sections.approvals,
  questions: Sections.questions,
  /** Commands that were approved permanently. */
  commandAllowlist: F.withDefault(F.texts, []),
  permissions: Sections.permissions,
  security: Sections.security,

  plugins,
  /** Middleware that follows the middleware of plugins in the stack. The first is outermost. */
  middlewares: F.withDefault(Schema.Array(middleware), []),
  hooks: F.withDefault(F.record(Schema.Array(shellHook)), {}),
  hooksAutoAccept: F.withDefault(F.wordyFlag, false),
  quickCommands: F.withDefault(F.record(quickCommand), {}),
  display,
  sessions,
  logging,
  database
}

/** The Schema of all settings; its encoded side is the content of the file. */
export const SettingsSchema = Schema.Struct({
  ...fields,
  /** Keys of `<provider>.api_keys`, by provider. */
  credentials: F.withDefault(F.record(Sections.providerKeys), {}),
  /** Version of the layout of the file, for migrations. */
  configVersion: F.optional(F.markUnsupported(F.count, { holds: "any" }))
}).pipe(Schema.encodeKeys({ ...F.toFileKeys(fields), ...renamed }))
