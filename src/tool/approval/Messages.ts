/**
 * What the model is told of a call that was not allowed: why, and what to do instead.
 *
 * @since 0.1.0
 */

const noWayAround =
  "Do not retry it, rephrase it or reach the same result in another way. Tell the user what you wanted to do and why, or go on with what does not need it."

const because = (keys: ReadonlyArray<string>): string => keys.join("; ")

/** The floor. */
export const hardline = (key: string): string =>
  `BLOCKED (hardline): ${key}. This never runs, whatever is approved or configured. ${noWayAround}`

/** A glob of the operator. */
export const deniedByGlob = (glob: string): string =>
  `BLOCKED: the operator denies commands that match \`${glob}\` (approvals.deny). ${noWayAround}`

/** A person said no. */
export const denied = (keys: ReadonlyArray<string>, reason: string | undefined): string =>
  `BLOCKED: the user denied this (${because(keys)}).${reason === undefined || reason.trim() === "" ? "" : ` Reason: ${reason.trim()}`} ${noWayAround}`

/** Nobody said anything. */
export const timedOut = (keys: ReadonlyArray<string>): string =>
  `BLOCKED: nobody answered the approval request in time (${because(keys)}); silence is not consent. ${noWayAround}`

/** Nobody can be asked. */
export const unattended = (keys: ReadonlyArray<string>, who: string): string =>
  `BLOCKED: this needs an approval (${because(keys)}), and nobody can be asked here (${who}). Find another way that needs no approval, or leave it undone and say so.`

/** The judge said no; from the third denial in a row on, the model is told to stop. */
export const judged = (keys: ReadonlyArray<string>, inARow: number): string =>
  `BLOCKED: the approval check denied this (${because(keys)}). ` + (inARow < 3
    ? noWayAround
    : `This is denial ${inARow} in a row: STOP trying to run such commands, and report to the user what you could not do.`)
