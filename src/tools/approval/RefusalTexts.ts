/** Messages for the model about a call that was not allowed: the reason and the alternatives. */
import type { Question } from "./ApprovalRequest.ts"

const noWayAround =
  "Do not retry it, rephrase it or reach the same result in another way. Tell the user what you wanted to do " +
  "and why, or go on with what does not need it."

const joinKeys = (keys: ReadonlyArray<string>): string => keys.join("; ")

/** Renders the message about a call that the hardline floor blocked. */
export const renderHardlineBlock = (key: string): string =>
  `BLOCKED (hardline): ${key}. This never runs, whatever is approved or configured. ${noWayAround}`

/** Renders the message about a command that a deny glob of the operator blocked. */
export const renderGlobDenial = (glob: string): string =>
  `BLOCKED: the operator denies commands that match \`${glob}\` (approvals.deny). ${noWayAround}`

/** Renders the message about a call that a rule of `permissions.deny` blocked. */
export const renderRuleDenial = (rule: string, source: string): string =>
  `BLOCKED: the rule \`${rule}\` (${source}) denies this. ${noWayAround}`

/** Renders the message about a call that a rule of `permissions.deny` blocked because the rule cannot be parsed. */
export const renderBrokenRuleDenial = (rule: string, source: string, problem: string): string =>
  `BLOCKED: the rule ${rule} (${source}) cannot be read (${problem}), so only reading is allowed until it is ` +
  `corrected. ${noWayAround}`

/** Renders the message about a call that may change something while the agent plans. */
export const renderPlanBlock = (tool: string, reasons: ReadonlyArray<string>): string =>
  `BLOCKED (plan mode): ${tool} may change something, and only reading is allowed while you plan. Do not look ` +
  "for another way to change it. Go on reading what you need, then present your plan as your answer: what you " +
  "will change, in which order, and how you will check it. The user approves it, or asks for another." +
  (reasons.length === 0 ? "" : ` (${joinKeys(reasons)})`)

/** Renders the message about a call that the user denied. */
export const renderUserDenial = (keys: ReadonlyArray<string>, reason: string | undefined): string =>
  "BLOCKED: the user denied this " +
  `(${joinKeys(keys)}).${reason === undefined || reason.trim() === "" ? "" : ` Reason: ${reason.trim()}`} ` +
  noWayAround

/** Renders the message about a call whose question was not answered. */
export const renderTimeoutDenial = (keys: ReadonlyArray<string>): string =>
  `BLOCKED: the approval request was not answered in time (${joinKeys(keys)}); silence is not consent. ${noWayAround}`

/** Renders the message about a call that needs an approval when no user can be asked. */
export const renderUnattendedDenial = (
  { keys, remedies = [] }: Pick<Question, "keys" | "remedies">,
  who: string
): string =>
  `BLOCKED: this needs an approval (${joinKeys(keys)}), and no user can be asked here (${who}). Find another ` +
  "way that needs no approval, or leave it undone and say so" +
  (remedies.length === 0 ? "." : `; the user decides: ${joinKeys(remedies)}.`)

/** Renders the message about a call that cannot be shown completely. */
export const renderUnshowableDenial = (reason: string): string =>
  `BLOCKED: this needs an approval, and cannot be shown to the user: ${reason}`

/** Renders the denial of a judge. From the third denial in a row, it instructs the model to stop. */
export const renderJudgeDenial = (keys: ReadonlyArray<string>, inARow: number): string =>
  `BLOCKED: the approval check denied this (${joinKeys(keys)}). ` +
  (inARow < 3
    ? noWayAround
    : `This is denial ${inARow} in a row: STOP trying to run such commands, and report to the user what you ` +
      "could not do.")
