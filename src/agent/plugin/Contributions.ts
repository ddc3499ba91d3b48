/** Validates the contribution of a plugin on disk, whose code was not type-checked. */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { findNearest } from "../../base/domain/Similarity.ts"
import type { Contribution } from "./Plugin.ts"

type Mapping = Readonly<Record<string, unknown>>

const isNamed = (value: unknown): value is Mapping => Predicate.isObject(value) && typeof value["name"] === "string"

const isCommand = (value: unknown): boolean => isNamed(value) && Predicate.isFunction(value["run"])

const isListener = (value: unknown): boolean =>
  Predicate.isObject(value) && typeof value["event"] === "string" && Predicate.isFunction(value["handle"])

const isWrapperOrRewriter = (value: unknown): boolean =>
  Predicate.isObject(value) && ["wrap", "rewrite", "make"].some((key) => Predicate.isFunction(value[key]))

const middlewareKinds: ReadonlySet<unknown> = new Set([
  "llm_request",
  "tool_request",
  "llm_execution",
  "tool_execution",
  "wrap_model_call",
  "wrap_tool_call",
  "lifecycle"
])

/** Parts of a contribution, each with its name for warnings and its type guard. */
const parts: { readonly [K in keyof Contribution]-?: readonly [what: string, is: (value: unknown) => boolean] } = {
  tools: [
    "a toolset: see Toolset.make",
    (value) => isNamed(value) && Array.isArray(value["tools"]) && Effect.isEffect(value["bind"])
  ],
  hooks: [
    "a hook: see Hooks.on",
    (value) =>
      Predicate.isObject(value) &&
      typeof value["label"] === "string" &&
      Predicate.isObject(value["delivery"]) &&
      Array.isArray(value["listeners"]) &&
      value["listeners"].every(isListener)
  ],
  middleware: [
    "middleware: see Middleware.llmRequest",
    (value) => isNamed(value) && middlewareKinds.has(value["kind"]) && isWrapperOrRewriter(value["run"])
  ],
  providers: ["a provider source: { name, open }", (value) => isNamed(value) && Predicate.isFunction(value["open"])],
  memoryProviders: [
    "a memory provider: { name, prefetch }",
    (value) => isNamed(value) && Predicate.isFunction(value["prefetch"])
  ],
  contextEngines: [
    "a context engine: { name, compact }",
    (value) => isNamed(value) && Predicate.isFunction(value["compact"])
  ],
  commands: ["a command: { name, run }", isCommand],
  cliCommands: ["a command: { name, run }", isCommand]
}

const isPart = (key: string): key is keyof typeof parts => Object.hasOwn(parts, key)

/** The contribution with warnings about ignored parts, or the reason why it cannot be used. */
type ContributionResult =
  | {
      readonly _tag: "Contribution"
      readonly contribution: Contribution<unknown>
      readonly warnings: ReadonlyArray<string>
    }
  | { readonly _tag: "Wrong"; readonly message: string }

const rejectContribution = (message: string): ContributionResult => ({ _tag: "Wrong", message })

/** Validates the contribution that a plugin returned. */
export const readContribution = (value: unknown): ContributionResult => {
  if (!Predicate.isObject(value) || Array.isArray(value)) {
    return rejectContribution("its build gave no contribution: return { tools, hooks, middleware, … }")
  }
  const warnings: Array<string> = []
  for (const [key, given] of Object.entries(value)) {
    if (!isPart(key)) {
      const meant = findNearest(key, Object.keys(parts))
      warnings.push(
        `"${key}" is not part of a plugin and is ignored${meant === undefined ? "" : `, did you mean ${meant}?`}`
      )
      continue
    }
    if (given === undefined) continue
    const [what, is] = parts[key]
    if (!Array.isArray(given)) return rejectContribution(`${key} is not a list`)
    const index = given.findIndex((item) => !is(item))
    if (index >= 0) return rejectContribution(`${key}[${index}] is not ${what}`)
  }
  // The type of each part was checked. The content of a part is checked when it is used.
  return { _tag: "Contribution", contribution: value as Contribution<unknown>, warnings }
}
