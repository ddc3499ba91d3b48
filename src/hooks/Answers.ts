/**
 * Rules that merge the answers of several listeners into one (`hermes-contract.md` §2.6). Every listener is called, in
 * order. An answer that is invalid for the hook is ignored. `PayloadTable` contains the rule of each hook.
 *
 * **Details**
 *
 * `read` validates the return value of one listener and may throw if the value throws (a getter, a proxy). It runs as
 * part of the listener, so that the listener is blamed. `merge` only receives validated answers.
 */
import * as Predicate from "effect/Predicate"
import * as Json from "../base/domain/Json.ts"

/** A directive that stops a tool call. */
export interface Block {
  readonly action: "block"
  readonly message: string
}

/** A directive that requires the user's approval of a tool call, even if another rule allows the call. */
export interface Approve {
  readonly action: "approve"
  readonly message?: string | undefined
  /** Key under which an approval is stored. Defaults to the tool's name. */
  readonly rule_key?: string | undefined
}

/** Validates and merges the answers of a hook. A listener may return `Returned`, and the emitter receives `A`. */
export interface Rule<Returned, A> {
  /** Returns the answer, or `undefined` if it is invalid. */
  readonly read: (answer: unknown) => A | undefined
  /** Merges one or more answers. */
  readonly merge: (answers: ReadonlyArray<A>) => A | undefined
  /** Phantom member with the type of a listener's answers. It is never set. */
  readonly accepts?: (answer: Returned) => void
}

const readField = (answer: object, name: string): unknown => Reflect.get(answer, name)

const toNonBlankText = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined

const readString = (answer: unknown): string | undefined => (typeof answer === "string" ? answer : undefined)

const takeFirst = <A>(answers: ReadonlyArray<A>): A | undefined => answers[0]

/** Merge rule that joins all contexts with a blank line between them. */
export const contexts: Rule<string | { readonly context: string }, string> = {
  read: (answer) => {
    if (!Predicate.isObject(answer)) return toNonBlankText(answer)
    const named = readField(answer, "context")
    return named ? Json.toText(named) : undefined
  },
  merge: (texts) => texts.join("\n\n")
}

/** Merge rule that selects the first directive. */
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

/** Merge rule that selects the first string, which may be empty. */
export const firstString: Rule<string, string> = { read: readString, merge: takeFirst }

/** Merge rule that selects the first string that is not empty. */
export const firstText: Rule<string, string> = {
  read: (answer) => (answer === "" ? undefined : readString(answer)),
  merge: takeFirst
}
