/**
 * A question to a user who may allow a tool call, and the possible replies.
 *
 * Source: `hermes-llm.md` §19.7 (choices), `hermes-product.md` §1.10.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { redactText } from "../../base/domain/Redaction.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as VisibleText from "../../base/domain/VisibleText.ts"
import type { Ids } from "../../hooks/Correlation.ts"
import type { Target } from "./AllowList.ts"

/**
 * The port to a scanner of command lines: an external program that detects more hidden content in a command than rules
 * do.
 *
 * Source: `hermes-llm.md` §19.7 (flow) and §19.8.
 */
export interface Scanner {
  /** Finds concerns in a command; the list is empty for a harmless command. */
  readonly scan: (command: string) => Effect.Effect<ReadonlyArray<Concern>>
}

/** The content scanner of a runtime. The default finds no concerns. */
export const ContentScanner = Context.Reference<Scanner>("hermes-effect/tool/approval/ContentScanner", {
  defaultValue: () => ({ scan: () => Effect.succeed([]) })
})

/** Possible answers to a question. `always` is not always offered. */
export type Choice = "once" | "session" | "always" | "deny"

/** Outcome of a request. */
export type Outcome = Choice | "timeout"

/** One reason why an approval is needed. */
export interface Concern {
  /** The kind of danger, as a sentence for people. It does not determine the scope of an approval. */
  readonly key: string
  /** Target of an approval, if it is not the whole call. */
  readonly target?: Target | undefined
  /** Prefix of the command, if an approval may be granted for the prefix instead. */
  readonly prefix?: Target | undefined
  /** Difference that the call would make to a file, without secrets. */
  readonly preview?: string | undefined
  /** True if the concern may be approved permanently. A finding of a content scanner may not. */
  readonly permanent: boolean
  /** Advice on how to allow the call beforehand, shown with the refusal if no user can be asked. */
  readonly remedy?: string | undefined
  /** True if a matching rule of `permissions.allow` lifts the concern. */
  readonly isRuled?: boolean | undefined
}

/** A question as shown to the user, without secrets. */
export interface Question extends Pick<Ids, "session_id" | "turn_id" | "tool_call_id"> {
  readonly tool: string
  /** The command, or the call with its arguments. */
  readonly command: string
  /** Reason for the question, in one line. */
  readonly description: string
  readonly keys: ReadonlyArray<string>
  /** Ways for the user to allow the call beforehand. */
  readonly remedies?: ReadonlyArray<string> | undefined
  /** Difference that the call would make to files, if known. */
  readonly preview?: string | undefined
  /** Exact targets of an approval for the session or of a permanent approval; without secrets. */
  readonly targets: ReadonlyArray<Target>
  /** The prefix for which `session` and `always` may be granted instead of the targets, if offered. */
  readonly prefix: Target | undefined
  /** Rules that `always` writes instead of entries of the allow-list. */
  readonly rules?: OfferedRules | undefined
  readonly choices: ReadonlyArray<Choice>
}

/** Rules of `permissions.allow` that a permanent approval would write. */
export interface OfferedRules {
  /** File to which the rules are written. */
  readonly file: string
  /** Rules for exactly the targets of the question; `undefined` if no rules match only them. */
  readonly exact?: ReadonlyArray<string> | undefined
  /** Rules for the prefix of the question. */
  readonly prefix?: ReadonlyArray<string> | undefined
}

/** Maximum number of characters of a command in the label of an answer. */
const longestInLabel = 60

/** Formats a text as one line without secrets, with a mark for every hidden character. */
export const showLine = (text: string): string => VisibleText.showLine(redactText(text))

/**
 * Formats a target for the label of an answer. A long command that the question shows is shortened; parts that the
 * question does not show, such as the directory of the command, are never shortened.
 */
export const nameTarget = ({ text }: Target, command: string): string => {
  const isShown = command !== "" && text.length > longestInLabel && text.startsWith(command)
  return isShown
    ? TextCut.shorten(showLine(command), longestInLabel) + showLine(text.slice(command.length))
    : showLine(text)
}

/** An answer; a denial may say why, for the model. */
export interface Reply {
  readonly choice: Choice
  readonly reason?: string | undefined
  /** True grants `session` and `always` for the prefix of the question; ignored if no prefix was offered. */
  readonly prefix?: boolean | undefined
}

const choices: ReadonlyArray<string> = ["once", "session", "always", "deny"]

/** Parses an answer from outside. An unknown word counts as deny; a missing answer returns `undefined`. */
export const parseReply = (answer: unknown): Reply | undefined => {
  if (answer === undefined || answer === null) return undefined
  const word = typeof answer === "string" ? answer.trim().toLowerCase() : ""
  // The list contains only choices.
  return choices.includes(word) ? { choice: word as Choice } : { choice: "deny" }
}
