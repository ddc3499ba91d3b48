/**
 * Settings of tools: the terminal, bounds of results, MCP servers, jobs; and safety settings: approvals, addresses,
 * redaction, the content scanner.
 *
 * Source: `hermes-product.md` §1.10, §2.3, §2.4 and §6, `hermes-llm.md` §19.
 */
import * as Schema from "effect/Schema"
import * as F from "./Fields.ts"

/** `terminal`: times are seconds. */
export const terminal = F.defaulted({
  backend: F.withDefault(
    F.unsupported(F.choice(["local", "docker", "singularity", "modal", "daytona", "ssh"]), {
      holds: ["local"],
      stops: true,
      remedy: "commands would run on this machine; set it to local to allow that"
    }),
    "local"
  ),
  timeout: F.withDefault(F.seconds, 180),
  lifetimeSeconds: F.withDefault(F.unsupported(F.seconds), 300),
  /** Variables of a credential family that commands get; those of providers, messengers and forges never. */
  envPassthrough: F.withDefault(F.texts, []),
  /** Seconds that a single-query run waits for background processes that will report. */
  oneshotCompletionWaitSeconds: F.withDefault(F.number({ least: 0 }), 600)
})

/** `tool_output`: bounds of what a tool prints. */
export const toolOutput = F.defaulted({
  maxBytes: F.withDefault(F.positive, 50_000),
  maxLines: F.withDefault(F.positive, 2000),
  maxLineLength: F.withDefault(F.positive, 2000)
})

/** `code_execution`. */
export const codeExecution = F.defaulted({
  mode: F.withDefault(F.choice(["project", "strict"]), "project"),
  timeout: F.withDefault(F.seconds, 300),
  maxToolCalls: F.withDefault(F.positive, 50)
})

/**
 * `mcp_servers.<name>`: `command` for a server that is started, `url` for one that runs. Values of `env` and `headers` are
 * taken for secrets.
 */
export const mcpServer = F.openSection({
  command: F.optional(F.text),
  args: F.withDefault(Schema.Array(F.argument), []),
  env: F.withDefault(F.mapOf(F.variable), {}),
  cwd: F.optional(F.text),
  url: F.optional(F.text),
  headers: F.withDefault(F.mapOf(F.variable), {}),
  enabled: F.withDefault(F.flag, true),
  timeout: F.withDefault(F.seconds, 120),
  connectTimeout: F.withDefault(F.seconds, 60),
  /** Seconds of silence before a server is pinged; 0 is never. */
  keepalive: F.withDefault(F.number({ least: 0 }), 180),
  /** Names or globs on the server's own tool names; `include` wins. */
  tools: F.withDefault(
    F.openSection({ include: F.optional(F.texts), exclude: F.optional(F.texts) }),
    {}
  ),
  supportsParallelToolCalls: F.withDefault(F.flag, false),
  /**
   * Tools that run without an approval, besides those that the server states to be read-only or not destructive:
   * `tools` are names or globs on the server's own tool names, `full` is all of them, `untrusted` is none but the read-only.
   */
  trust: F.optional(
    Schema.Union([F.choice(["full", "untrusted"]), F.openSection({ tools: F.withDefault(F.texts, []) })])
      .annotate({ expected: "full, untrusted, or tools: a list of tool names" })
  ),
  /** That the server wants a login (`hermes mcp login`), and what is known for it. */
  oauth: F.optional(Schema.Union([
    F.flag,
    F.openSection({
      clientId: F.optional(F.text),
      clientSecret: F.optional(F.secret),
      scope: F.optional(F.text),
      redirectPort: F.optional(F.integer({ least: 1 }))
    })
  ]).annotate({ expected: "true, or client_id, client_secret, scope and redirect_port" })),
  /** Lets the server ask a model in the middle of a call, which costs money. */
  sampling: F.withDefault(F.openSection({ enabled: F.withDefault(F.flag, false) }), {}),
  /** Lets the server ask the user in the middle of a call. */
  elicitation: F.withDefault(F.openSection({ enabled: F.withDefault(F.flag, true) }), {})
})

/** `cron`: scheduled jobs. Times are seconds. */
export const cron = F.defaulted({
  /** Jobs that run at once; without a limit when absent. */
  maxParallelJobs: F.optional(F.positive),
  /** Reports the reason that keeps a job from running once, instead of at each of its times. */
  preflight: F.withDefault(F.flag, true),
  /** Shows a result with the name of its job. */
  wrapResponse: F.withDefault(F.flag, true),
  /** Of new jobs, such as `Europe/Berlin`; the machine's when absent. */
  timezone: F.optional(F.text),
  /** Lets a job make further jobs. */
  jobsMaySchedule: F.withDefault(F.flag, false),
  scriptTimeoutSeconds: F.withDefault(F.seconds, 120),
  /** Seconds that a whole run may take. */
  runTimeoutSeconds: F.withDefault(F.seconds, 3600)
})

const unattended = F.choice(["deny", "approve"])

/** `approvals`: times are seconds, and silence is deny. */
export const approvals = F.defaulted({
  mode: F.withDefault(F.choice(["manual", "smart", "off"]), "manual"),
  timeout: F.withDefault(F.seconds, 60),
  /** For answers that come from elsewhere: a messenger, a page. */
  gatewayTimeout: F.withDefault(F.seconds, 300),
  cronMode: F.withDefault(unattended, "deny"),
  singleQueryMode: F.withDefault(unattended, "deny"),
  /** Answer where no one started the run at a terminal: the MCP server. */
  unattendedMode: F.withDefault(unattended, "deny"),
  /** Globs of commands that never run; nothing but an edit of this list lifts them. */
  deny: F.withDefault(F.texts, []),
  /** No slash command of this program destroys anything: a session that is left stays in the store. */
  destructiveSlashConfirm: F.withDefault(F.unsupported(F.flag, { holds: [false] }), true)
})

/** `security`. Secrets are redacted unless this says otherwise; the periods differ, and this is the safer one. */
export const security = F.defaulted({
  allowPrivateUrls: F.withDefault(F.wordyFlag, false),
  /** `ask` before web tools, curl and wget reach a host that nobody approved. */
  unknownHosts: F.withDefault(F.choice(["allow", "ask"]), "allow"),
  redactSecrets: F.withDefault(F.wordyFlag, true),
  /** Directories that file tools may write to; anywhere when empty. */
  writeSafeRoot: F.withDefault(F.paths, []),
  tirithEnabled: F.withDefault(F.flag, true),
  tirithPath: F.withDefault(F.text, "tirith"),
  tirithTimeout: F.withDefault(F.seconds, 5),
  tirithFailOpen: F.withDefault(F.flag, true)
})
