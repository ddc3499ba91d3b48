/**
 * Rules that merge the answers of several listeners into one (`hermes-contract.md` §2.6). Every listener is asked, in
 * order; an invalid answer for the hook is ignored. `PayloadTable` names the rule of each hook.
 *
 * **Details**
 *
 * `read` looks at what one listener returned and may throw when that throws (a getter, a proxy): it is run as part of
 * the listener, so that the listener is blamed. `merge` sees only what was read.
 */
import * as Predicate from "effect/Predicate"
import * as Json from "../base/domain/Json.ts"

/** A directive that stops a tool call. */
export interface Block {
  readonly action: "block"
  readonly message: string
}

/** A directive that sends a tool call to the user for approval, even if something else allows it. */
export interface Approve {
  readonly action: "approve"
  readonly message?: string | undefined
  /** Key under which an approval is remembered; the tool's name when absent. */
  readonly rule_key?: string | undefined
}

/** Reads and merges the answers of a hook: a listener may return `Returned`, the emitter gets `A`. */
export interface Rule<Returned, A> {
  /** Returns the answer, or undefined if it is invalid. */
  readonly read: (answer: unknown) => A | undefined
  /** At least one answer. */
  readonly merge: (answers: ReadonlyArray<A>) => A | undefined
  /** Carries the type of a listener's answers; never set. */
  readonly accepts?: (answer: Returned) => void
}

const readField = (answer: object, name: string): unknown => Reflect.get(answer, name)

const toNonBlankText = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined

const readString = (answer: unknown): string | undefined => (typeof answer === "string" ? answer : undefined)

const takeFirst = <A>(answers: ReadonlyArray<A>): A | undefined => answers[0]

/** All contexts, joined by a blank line. */
export const contexts: Rule<string | { readonly context: string }, string> = {
  read: (answer) => {
    if (!Predicate.isObject(answer)) return toNonBlankText(answer)
    const named = readField(answer, "context")
    return named ? Json.toText(named) : undefined
  },
  merge: (texts) => texts.join("\n\n")
}

/** The first directive. */
export const firstDirective: Rule<Block | Approve, Block | Approve> = {
  read: (answer) => {
    if (!Predicate.isObject(answer)) return undefined
    const action = readField(answer, "action")
    if (action === "block") {
      const message = readField(answer, "message")
      return typeof message === "string" && message !== "" ? { action, message } : undefined
    }
    if (action !== "approve") return undefined
    const message = toNonBlankText(readField(answer, "message"))
    const rule = toNonBlankText(readField(answer, "rule_key"))
    return { action, ...(message === undefined ? {} : { message }), ...(rule === undefined ? {} : { rule_key: rule }) }
  },
  merge: takeFirst
}

/** The first string, which may be empty. */
export const firstString: Rule<string, string> = { read: readString, merge: takeFirst }

/** The first string that is not empty. */
export const firstText: Rule<string, string> = {
  read: (answer) => (answer === "" ? undefined : readString(answer)),
  merge: takeFirst
}
