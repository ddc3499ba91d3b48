/**
 * Combines the answers of several listeners into one (`hermes-contract.md` §2.6). Every listener is asked, in order; what is
 * no answer for its hook is left out.
 *
 * **Details**
 *
 * `read` looks at what one listener returned and may throw when that throws (a getter, a proxy): it is run as part of
 * the listener, so that the listener is blamed. `merge` sees only what was read.
 */
import * as Predicate from "effect/Predicate"
import * as Json from "../domain/Json.ts"
import type { Approve, AskName, Block } from "./Payloads.ts"

/** Combined answer of a hook; undefined when nobody answered. */
export interface Answers {
  /** All contexts, joined by a blank line. */
  readonly pre_llm_call: string | undefined
  /** The first directive. */
  readonly pre_tool_call: Block | Approve | undefined
  /** The first text, which may be empty. */
  readonly transform_tool_result: string | undefined
  /** The first text, which may be empty. */
  readonly transform_terminal_output: string | undefined
  /** The first text that is not empty. */
  readonly transform_llm_output: string | undefined
}

interface Rule<A> {
  /** One answer, or undefined when it is none. */
  readonly read: (answer: unknown) => A | undefined
  /** At least one answer. */
  readonly merge: (answers: ReadonlyArray<A>) => A | undefined
}

const field = (answer: object, name: string): unknown => Reflect.get(answer, name)

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined

const context = (answer: unknown): string | undefined => {
  if (!Predicate.isObject(answer)) return text(answer)
  const named = field(answer, "context")
  return named ? Json.toText(named) : undefined
}

const directive = (answer: unknown): Block | Approve | undefined => {
  if (!Predicate.isObject(answer)) return undefined
  const action = field(answer, "action")
  if (action === "block") {
    const message = field(answer, "message")
    return typeof message === "string" && message !== "" ? { action, message } : undefined
  }
  if (action !== "approve") return undefined
  const message = text(field(answer, "message"))
  const rule = text(field(answer, "rule_key"))
  return {
    action,
    ...(message === undefined ? {} : { message }),
    ...(rule === undefined ? {} : { rule_key: rule })
  }
}

const first = <A>(answers: ReadonlyArray<A>): A | undefined => answers[0]

const string: Rule<string> = {
  read: (answer) => typeof answer === "string" ? answer : undefined,
  merge: first
}

/** One rule per hook that may answer. */
export const rules: { readonly [Name in AskName]: Rule<NonNullable<Answers[Name]>> } = {
  pre_llm_call: { read: context, merge: (texts) => texts.join("\n\n") },
  pre_tool_call: { read: directive, merge: first },
  transform_tool_result: string,
  transform_terminal_output: string,
  transform_llm_output: { read: (answer) => answer === "" ? undefined : string.read(answer), merge: first }
}

/** True when a hook's answers change the run. */
export const isAskName = (name: string): name is AskName => Object.hasOwn(rules, name)
