/** Renders log entries as lines for stderr: the level and the message, without secrets and control sequences. */
import type { LogLevel } from "effect/LogLevel"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { getCurrentRegistry } from "../../base/domain/Secrets.ts"
import * as SafeText from "./render/SafeText.ts"

const words: Readonly<Partial<Record<LogLevel, string>>> = { Warn: "Warning", Fatal: "Error", Error: "Error" }

const formatPart = (part: unknown): string => (part instanceof Error ? part.message : Json.toText(part))

/** Renders a log entry, with a line break at the end. */
export const render = (level: LogLevel, message: unknown, secrets = getCurrentRegistry()): string => {
  const text = (Array.isArray(message) ? message : [message])
    .map(formatPart)
    .join(" ")
    .replaceAll(/(?<!\s)\s*\n\s*/g, " ")
  return `${words[level] ?? level}: ${Redaction.redactText(SafeText.toPlainText(text), secrets)}\n`
}
