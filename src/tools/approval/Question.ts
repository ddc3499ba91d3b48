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
  /** Finds concerns in a command; none when it is clean. */
  readonly scan: (command: string) => Effect.Effect<ReadonlyArray<Concern>>
}

/** The scanner of a runtime. The default finds nothing. */
export const ContentScanner = Context.Reference<Scanner>("hermes-effect/tool/approval/ContentScanner", {
  defaultValue: () => ({ scan: () => Effect.succeed([]) })
})

/** Choices of an answer. `always` is not always offered. */
export type Choice = "once" | "session" | "always" | "deny"

/** End of a request. */
export type Outcome = Choice | "timeout"

/** One thing that needs an approval. */
export interface Concern {
  /** The kind of danger, in a sentence for people. It says nothing about what an approval holds for. */
  readonly key: string
  /** Target of an approval, where that is not the whole call. */
  readonly target?: Target | undefined
  /** The prefix of the command, where an approval may be granted for that instead. */
  readonly prefix?: Target | undefined
  /** Difference that the call would make to a file, without secrets. */
  readonly preview?: string | undefined
  /** True when it may be approved for good; a finding of a content scanner may not. */
  readonly permanent: boolean
  /** The way to allow it beforehand, shown with the refusal when no user can be asked. */
  readonly remedy?: string | undefined
  /** True when a matching rule of `permissions.allow` lifts it. */
  readonly isRuled?: boolean | undefined
}

/** A question as it is shown, without secrets. */
export interface Question extends Pick<Ids, "session_id" | "turn_id" | "tool_call_id"> {
  readonly tool: string
  /** The command, or the call with its arguments. */
  readonly command: string
  /** Reason why it is asked, in one line. */
  readonly description: string
  readonly keys: ReadonlyArray<string>
  /** Ways in which the user allows it beforehand. */
  readonly remedies?: ReadonlyArray<string> | undefined
  /** Difference that the call would make to files, if known. */
  readonly preview?: string | undefined
  /** Targets of an approval for the session or for good, and nothing else; without secrets. */
  readonly targets: ReadonlyArray<Target>
  /** The prefix, if offered, that `session` and `always` may be granted for instead of the targets. */
  readonly prefix: Target | undefined
  /** Rules that `always` writes, in the place of entries of the allow-list. */
  readonly rules?: OfferedRules | undefined
  readonly choices: ReadonlyArray<Choice>
}

/** Rules of `permissions.allow` that an approval for good would write. */
export interface OfferedRules {
  /** File that they are written to. */
  readonly file: string
  /** For exactly the targets of the question; absent if no rules match only them. */
  readonly exact?: ReadonlyArray<string> | undefined
  /** For its prefix. */
  readonly prefix?: ReadonlyArray<string> | undefined
}

/** Characters of a command in the label of an answer. */
const longestInLabel = 60

/** Shows a text without secrets as one line, with a mark for every hidden character. */
export const showLine = (text: string): string => VisibleText.showLine(redactText(text))

/**
 * Names a target in the label of an answer. A long command that the question shows is shortened; parts that the
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

/** Reads an answer from outside: an unknown word is deny, no answer none. */
export const parseReply = (answer: unknown): Reply | undefined => {
  if (answer === undefined || answer === null) return undefined
  const word = typeof answer === "string" ? answer.trim().toLowerCase() : ""
  // The list holds nothing but choices.
  return choices.includes(word) ? { choice: word as Choice } : { choice: "deny" }
}
