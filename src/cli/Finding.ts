/**
 * Findings of `hermes doctor`.
 */

export interface Finding {
  readonly level: "ok" | "warning" | "problem"
  readonly subject: string
  readonly text: string
}

const finding = (level: Finding["level"]) => (subject: string, text: string): Finding => ({ level, subject, text })

/** It is as it should be. */
export const ok = finding("ok")

/** It works, and could be better. */
export const warning = finding("warning")

/** It does not work. */
export const problem = finding("problem")

const marks: Readonly<Record<Finding["level"], string>> = { ok: "✓", warning: "!", problem: "✗" }

/** A finding as a line. */
export const render = ({ level, subject, text }: Finding): string => `${marks[level]} ${subject.padEnd(8)}  ${text}`
