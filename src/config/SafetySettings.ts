/**
 * Settings of what is allowed: approvals, addresses, redaction, the content scanner.
 *
 * Source: `hermes-llm.md` §19, `hermes-product.md` §1.10 and §6.
 *
 * @since 0.1.0
 */
import * as F from "./Fields.ts"

const unattended = F.choice(["deny", "approve"])

/** `approvals`: times are seconds, and silence is deny. */
export const approvals = F.defaulted({
  mode: F.withDefault(F.choice(["manual", "smart", "off"]), "manual"),
  timeout: F.withDefault(F.seconds, 60),
  /** For answers that come from elsewhere: a messenger, a page. */
  gatewayTimeout: F.withDefault(F.seconds, 300),
  cronMode: F.withDefault(unattended, "deny"),
  singleQueryMode: F.withDefault(unattended, "deny"),
  /** Where nobody started the run at a terminal: the MCP server. */
  unattendedMode: F.withDefault(unattended, "deny"),
  /** Globs of commands that never run; nothing but an edit of this list lifts them. */
  deny: F.withDefault(F.texts, []),
  /** No slash command of this program destroys anything: a session that is left stays in the store. */
  destructiveSlashConfirm: F.withDefault(F.unsupported(F.flag, { holds: [false] }), true)
})

/** `security`. Secrets are redacted unless this says otherwise; the periods differ, and this is the safer one. */
export const security = F.defaulted({
  allowPrivateUrls: F.withDefault(F.wordyFlag, false),
  redactSecrets: F.withDefault(F.wordyFlag, true),
  /** Where file tools may write; anywhere when empty. */
  writeSafeRoot: F.withDefault(F.paths, []),
  tirithEnabled: F.withDefault(F.flag, true),
  tirithPath: F.withDefault(F.text, "tirith"),
  tirithTimeout: F.withDefault(F.seconds, 5),
  tirithFailOpen: F.withDefault(F.flag, true)
})
