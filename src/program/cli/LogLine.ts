/**
 * Log entries as lines for stderr: its level, its message, no secrets, no control sequences.
 */
import type { LogLevel } from "effect/LogLevel"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { getCurrentRegistry } from "../../base/domain/Secrets.ts"
import * as SafeText from "./render/SafeText.ts"

const words: Readonly<Partial<Record<LogLevel, string>>> = { Warn: "Warning", Fatal: "Error", Error: "Error" }

const formatPart = (part: unknown): string => (part instanceof Error ? part.message : Json.toText(part))

/** Ends with a line break. */
export const render = (level: LogLevel, message: unknown, secrets = getCurrentRegistry()): string => {
  const text = (Array.isArray(message) ? message : [message])
    .map(formatPart)
    .join(" ")
    .replaceAll(/(?<!\s)\s*\n\s*/g, " ")
  return `${words[level] ?? level}: ${Redaction.redactText(SafeText.toPlainText(text), secrets)}\n`
}
