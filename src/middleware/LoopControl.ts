/**
 * Control of a run's loop: results of lifecycle methods that end the run, call the model again, or run tool calls.
 *
 * **Details**
 *
 * | result | plain form | phases |
 * | --- | --- | --- |
 * | {@link endWith} | `{ action: "end", answer }` | `beforeAgent`, `beforeModel`, `afterModel`, `afterTool` |
 * | {@link end} | `{ action: "end" }` | `afterModel`, `afterTool` |
 * | {@link goToModel}, {@link goToModelWith} | `{ action: "go_to_model", feedback }` | `afterModel` |
 * | {@link goToTools} | `{ action: "go_to_tools", calls }` | `beforeModel`, `afterModel` |
 *
 * `before*` methods after the one that returns such a result do not run. All `after*` methods run; the last result, of
 * the outermost method, applies. A run that middleware ends has the exit `ended_by_middleware`, and its calls that did
 * not run have an error as their result. Each step counts towards `maxIterations`, also a step that does not call the
 * model.
 *
 * Source: `nexau.md` §1.3 and §1.7.
 */
import * as Predicate from "effect/Predicate"
import { findNearest } from "../base/domain/Similarity.ts"
import * as Frozen from "./Frozen.ts"

/** Result of a method that ends the run with a text as its answer. */
export interface EndWith {
  readonly _tag: "EndWith"
  readonly answer: string
}

/** Result of a method that ends the run with the model's answer, or with the result of the tool. */
export interface EndNow {
  readonly _tag: "EndNow"
}

/** Result of a method that calls the model again. */
export interface GoToModel {
  readonly _tag: "GoToModel"
  /** Text of a user message that is stored before the model is called. */
  readonly feedback?: string | undefined
}

/** A tool call that middleware requests. */
export interface RequestedCall {
  readonly name: string
  readonly params: unknown
  /** Id of the call. Generated if absent. */
  readonly id?: string | undefined
}

/** Result of a method that runs tool calls. */
export interface GoToTools {
  readonly _tag: "GoToTools"
  readonly calls: ReadonlyArray<RequestedCall>
}

/** Result of a method that controls the loop. */
export type LoopControl = EndWith | EndNow | GoToModel | GoToTools

/** Request of an `after_tool` method to end the run. */
export interface EndRequest {
  /** Name of the middleware. */
  readonly by: string
  readonly text: string
  /** True if the text is not the result of the call. */
  readonly isNew: boolean
}

/** Ends the run with a text as its answer. The text must not be blank. */
export const endWith = (answer: string): EndWith => ({ _tag: "EndWith", answer })

/** Ends the run with the model's answer, whose calls do not run, or with the result of the tool. */
export const end: EndNow = { _tag: "EndNow" }

/** Calls the model again. The calls of its answer do not run. */
export const goToModel: GoToModel = { _tag: "GoToModel" }

/** Like {@link goToModel}, with a user message for the model, which is stored. */
export const goToModelWith = (feedback: string): GoToModel => ({ _tag: "GoToModel", feedback })

/** Runs tool calls: instead of calling the model, or in addition to the calls of its answer. */
export const goToTools = (calls: ReadonlyArray<RequestedCall>): GoToTools => ({ _tag: "GoToTools", calls })

/** Phases in which each result is allowed, by its tag. `Denied` and `Skipped` are results of `beforeTool`. */
const phases: ReadonlyMap<unknown, ReadonlyArray<string>> = new Map([
  ["EndWith", ["beforeAgent", "beforeModel", "afterModel", "afterTool"]],
  ["EndNow", ["afterModel", "afterTool"]],
  ["GoToModel", ["afterModel"]],
  ["GoToTools", ["beforeModel", "afterModel"]],
  ["Denied", ["beforeTool"]],
  ["Skipped", ["beforeTool"]]
])

const names: ReadonlyMap<unknown, string> = new Map([
  ["EndWith", "endWith"],
  ["EndNow", "end"],
  ["GoToModel", "goToModel"],
  ["GoToTools", "goToTools"],
  ["Denied", "deny"],
  ["Skipped", "skip"]
])

/** Throws a TypeError if a result is known by its tag and another phase than `phase` may return it. */
export const checkPhase = (phase: string, tag: unknown): void => {
  const allowed = phases.get(tag)
  if (allowed === undefined || allowed.includes(phase)) return
  throw new TypeError(`it returned ${names.get(tag)}, which only ${allowed.join(", ")} may return`)
}

const isFilledText = (value: unknown): value is string => typeof value === "string" && value.trim() !== ""

const readCall = (value: unknown): RequestedCall => {
  const id: unknown = Predicate.isObject(value) ? value["id"] : undefined
  if (
    !Predicate.isObject(value) ||
    !isFilledText(value["name"]) ||
    !Predicate.isObject(value["params"]) ||
    Array.isArray(value["params"]) ||
    (id !== undefined && !isFilledText(id))
  )
    throw new TypeError("it returned goToTools with a value that is not a call: use { name, params }")
  return { name: value["name"], params: Frozen.accept(value["params"]), id }
}

/**
 * Decodes a result that controls the loop. Returns `undefined` for any other value. Throws a TypeError for a result
 * whose values are wrong.
 */
export const readControl = (value: Readonly<Record<PropertyKey, unknown>>): LoopControl | undefined => {
  switch (value["_tag"]) {
    case "EndWith":
      if (isFilledText(value["answer"])) return endWith(value["answer"])
      throw new TypeError("it returned endWith without a text as the answer")
    case "EndNow":
      return end
    case "GoToModel": {
      const { feedback } = value
      if (feedback === undefined || feedback === null) return goToModel
      if (isFilledText(feedback)) return goToModelWith(feedback)
      throw new TypeError("it returned goToModelWith with a feedback that is not a text")
    }
    case "GoToTools": {
      const { calls } = value
      if (Array.isArray(calls) && calls.length > 0) return goToTools(calls.map(readCall))
      throw new TypeError("it returned goToTools without a list of calls")
    }
    default:
      return undefined
  }
}

/** Members of each plain result, besides `action`. */
const plainForms: ReadonlyMap<string, ReadonlyArray<string>> = new Map([
  ["end", ["answer"]],
  ["go_to_model", ["feedback"]],
  ["go_to_tools", ["calls"]]
])

const checkMembers = (action: string, members: ReadonlyArray<string>): void => {
  const known = plainForms.get(action)
  if (known === undefined) {
    const meant = findNearest(action, Array.from(plainForms.keys()))
    throw new TypeError(
      `it returned the unknown action ${JSON.stringify(action)}` +
        (meant === undefined ? `: use ${Array.from(plainForms.keys()).join(", ")}` : `, did you mean ${meant}?`)
    )
  }
  const odd = members.find((name) => name !== "action" && !known.includes(name))
  if (odd !== undefined)
    throw new TypeError(`it returned the action ${action} with the unknown field "${odd}": use ${known.join(", ")}`)
}

/** Converts the plain form of a result, an object with `action`. Its values are checked by {@link readControl}. */
export const fromPlain = (value: Readonly<Record<PropertyKey, unknown>>): object => {
  const action = String(value["action"]).replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  checkMembers(action, Object.keys(value))
  if (action === "go_to_model") return { _tag: "GoToModel", feedback: value["feedback"] }
  if (action === "go_to_tools") return { _tag: "GoToTools", calls: value["calls"] }
  return Object.hasOwn(value, "answer") ? { _tag: "EndWith", answer: value["answer"] } : end
}
