/**
 * Decides whether the calls of one assistant message run in parallel or one after another. Pure.
 *
 * **Details**
 *
 * A batch runs in parallel only if all of its calls can safely run at the same time: calls of tools declared read-only,
 * and of tools whose path arguments do not overlap with the paths of a writing call. Otherwise the whole batch is
 * sequential. The decision is reported as the run event `ToolsScheduled` and shown with the tool lines when they are
 * `verbose`; {@link explain} summarizes it in one line.
 *
 * **Example** (Two calls that cannot run in parallel)
 *
 * ```ts
 * import * as Tool from "effect/ai/Tool"
 * import { Annotations } from "hermes-effect"
 * import { ToolSchedule } from "hermes-effect/tools"
 *
 * const facts = Annotations.readFacts(Tool.make("save").annotate(Annotations.PathArguments, ["path"]))
 * const calls = ["notes.md", "./notes.md"].map((path) => ({ name: "save", facts, params: { path } }))
 *
 * console.log(ToolSchedule.explain(calls.length, ToolSchedule.decide(calls, "/home/me")))
 * // => 2 calls one after another: save and save touch /home/me/notes.md
 * ```
 *
 * Source: `hermes-llm.md` §13.7, `hermes-product.md` §2.1.
 */
import * as Predicate from "effect/Predicate"
import type { ToolFacts } from "./Annotations.ts"

/** Maximum number of calls that run at the same time. */
export const maxConcurrency = 8

/** A call as the scheduler sees it. */
export interface Candidate {
  readonly name: string
  readonly facts: ToolFacts
  readonly params: unknown
}

/** Scheduling mode of a batch, with its reason. */
export interface Decision {
  readonly mode: "parallel" | "sequential"
  readonly reason: string
}

/**
 * Returns the components of an absolute, normalized path, without following symbolic links; `undefined` for a path that
 * cannot be resolved without the operating system (`~`).
 */
export const toPathComponents = (cwd: string, path: string): ReadonlyArray<string> | undefined => {
  if (path.trim() === "" || path.startsWith("~")) return undefined
  const out: Array<string> = []
  for (const component of (path.startsWith("/") ? path : `${cwd}/${path}`).split("/")) {
    if (component === "..") out.pop()
    else if (component !== "" && component !== ".") out.push(component)
  }
  return out
}

/** Returns true if the paths are equal or one is inside the other. */
export const isOverlapping = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): boolean => {
  const shared = Math.min(a.length, b.length)
  for (let i = 0; i < shared; i++) {
    if (a[i] !== b[i]) return false
  }
  return true
}

interface Claim {
  readonly name: string
  readonly path: ReadonlyArray<string>
  readonly writes: boolean
}

const decideSequential = (reason: string): Decision => ({ mode: "sequential", reason })

/** Decides whether the calls of one assistant message may run in parallel. */
export const decide = (calls: ReadonlyArray<Candidate>, cwd: string): Decision => {
  if (calls.length < 2) return decideSequential("a single call")
  const claims: Array<Claim> = []
  for (const { name, facts, params } of calls) {
    if (facts.interactive) return decideSequential(`${name} talks to the user`)
    const writes = facts.readonly !== true
    if (facts.pathArguments.length === 0) {
      if (writes) return decideSequential(`${name} was not stated to be read-only`)
      continue
    }
    for (const argument of facts.pathArguments) {
      const value =
        Predicate.isObject(params) && Object.hasOwn(params, argument) ? Reflect.get(params, argument) : undefined
      if (value === undefined && !writes) continue
      const path = Predicate.isString(value) ? toPathComponents(cwd, value) : undefined
      if (path === undefined) return decideSequential(`${name} has no ${argument} that can be compared`)
      const other = claims.find((claim) => (claim.writes || writes) && isOverlapping(claim.path, path))
      if (other !== undefined) return decideSequential(`${name} and ${other.name} touch /${path.join("/")}`)
      claims.push({ name, path, writes })
    }
  }
  return { mode: "parallel", reason: "every call is read-only or has paths of its own" }
}

/** Describes a decision in one line, for people. */
export const explain = (calls: number, { mode, reason }: Decision): string =>
  `${calls === 1 ? "1 call" : `${calls} calls`} ${mode === "parallel" ? "side by side" : "one after another"}: ` +
  reason
