/** Builds the question about a call: its text, its choices, and the prefix and the rules that it offers. */
import * as VisibleText from "../../base/domain/VisibleText.ts"
import type { Ids } from "../../hooks/Correlation.ts"
import { formatEntry, type Target } from "./AllowList.ts"
import type { Bounds } from "./ApprovalBounds.ts"
import type { Choice, Concern, OfferedRules, Question } from "./ApprovalRequest.ts"
import * as ShownText from "./ShownText.ts"
import type { Request } from "./ApprovalFlow.ts"

/**
 * Returns true if a permanent approval, which is written to disk, may be offered: the text is shown unchanged and does
 * not contain a secret.
 */
const isKeepable = ({ text }: Target): boolean => ShownText.isShownWhole(text)

export const collectTargets = (concerns: ReadonlyArray<Concern>, whole: Target): ReadonlyArray<Target> =>
  Array.from(new Map(concerns.map(({ target = whole }) => [formatEntry(target), target])).values())

/** Returns the prefix that an approval may be granted for, if it covers every concern of the question. */
export const findCommonPrefix = (concerns: ReadonlyArray<Concern>): Target | undefined =>
  concerns.every(({ permanent, prefix, target }) => permanent && prefix !== undefined && target === undefined)
    ? concerns[0]?.prefix
    : undefined

const lasting: ReadonlyArray<Choice> = ["once", "session", "always", "deny"]

const passing: ReadonlyArray<Choice> = ["once", "session", "deny"]

/** CRLF line ends of a file do not count as hidden characters. */
const showPreview = (preview: string): string => VisibleText.showLines(preview.replaceAll("\r\n", "\n"))

const showTarget = ({ kind, text }: Target): Target => ({ kind, text: ShownText.showText(text) })

/** Everything that a question shows and offers. */
interface QuestionContent {
  readonly request: Request
  /** Text of the call for a user. */
  readonly shown: string
  readonly concerns: ReadonlyArray<Concern>
  readonly ids: Ids
  readonly rules: OfferedRules | undefined
  readonly bounds: Bounds
}

/** Builds the question about the concerns of a call. */
export const buildQuestion = ({
  bounds,
  concerns,
  ids,
  request: { target, tool },
  rules,
  shown
}: QuestionContent): Question => {
  const keys = concerns.map(({ key }) => VisibleText.showLine(key))
  const targets = collectTargets(concerns, target)
  const remedies = concerns.flatMap(({ remedy }) => remedy ?? [])
  const prefix = findCommonPrefix(concerns)
  const previews = [
    ...new Set(concerns.flatMap(({ preview }) => (preview === undefined ? [] : [showPreview(preview)])))
  ]
  return {
    session_id: ids.session_id,
    turn_id: ids.turn_id,
    tool_call_id: ids.tool_call_id,
    tool,
    command: shown,
    description: keys.join("; "),
    keys,
    ...(remedies.length === 0 ? {} : { remedies }),
    ...(previews.length === 0 ? {} : { preview: previews.join("") }),
    targets: targets.map(showTarget),
    prefix: prefix !== undefined && ShownText.isShownWhole(prefix.text) ? prefix : undefined,
    ...(rules === undefined ? {} : { rules }),
    choices: (concerns.every(({ permanent }) => permanent) && targets.every(isKeepable) ? lasting : passing).filter(
      (choice) => bounds.choices.includes(choice)
    )
  }
}
