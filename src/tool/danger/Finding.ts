/**
 * What makes a command dangerous: the family that it belongs to and one sentence about it. An approval
 * holds for the command, never for the sentence.
 *
 * Source: `hermes-llm.md` §19.7 ("each pattern has a human description which is also its approval key").
 *
 * @since 0.1.0
 */

/** The families of dangerous commands. */
export const families = [
  "file destruction",
  "privilege",
  "disk",
  "exfiltration",
  "history rewriting",
  "process kill",
  "remote code",
  "encoded payload",
  "configuration tampering",
  "database",
  "service",
  "inline code",
  "container",
  "shutdown",
  "unreadable"
] as const

/** One of {@link families}. */
export type Family = typeof families[number]

/** How grave: `floor` never runs, whatever anybody allowed; `ask` runs when it is approved. */
export type Gravity = "floor" | "ask"

/** See the module. */
export interface Finding {
  readonly family: Family
  readonly gravity: Gravity
  /** Why, for people and for hooks (`pattern_key`). */
  readonly key: string
}

/** Something to ask about. */
export const ask = (family: Family, key: string): Finding => ({ family, gravity: "ask", key })

/** Something that never runs. */
export const floor = (family: Family, key: string): Finding => ({ family, gravity: "floor", key })
