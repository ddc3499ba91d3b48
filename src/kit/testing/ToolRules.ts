/**
 * Rules for every toolset: definitions are accepted by each model API, arguments are checked, results are data of
 * limited size, and calls end when they are interrupted.
 *
 * **Details**
 *
 * The subject is a toolset with examples, which are the arguments of a successful call, for all tools that can be
 * called in a test.
 *
 * **Example** (The rules of a toolset)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Toolset } from "hermes-effect"
 * import { Conformance, ToolRules } from "hermes-effect/testing"
 *
 * const Double = Tool.make("double", {
 *   description: "Doubles a number",
 *   parameters: Schema.Struct({ n: Schema.Finite }),
 *   success: Schema.Finite
 * })
 * const toolkit = Toolkit.make(Double)
 * const toolset = Toolset.make("maths", toolkit, toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) }))
 *
 * const calls = [{ tool: "double", params: { n: 2 } }]
 * const subject = Layer.effect(ToolRules.Subject, ToolRules.bindSubject(toolset, calls))
 * const results = await Effect.runPromise(Conformance.runRules(ToolRules.rules, subject))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import { SessionId, TaskId, TurnId } from "../../base/domain/Ids.ts"
import { ToolFailed, type ToolOutput } from "../../base/domain/ToolOutput.ts"
import { ToolContext } from "../../tools/ToolContext.ts"
import type { BoundTool, Toolset } from "../../tools/Toolset.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"

/** Arguments of a successful call. */
export interface Example {
  readonly tool: string
  readonly params: unknown
}

/** Tools that are ready to be called, and example calls. */
export interface TestedTools {
  readonly tools: ReadonlyArray<BoundTool>
  readonly examples: ReadonlyArray<Example>
  /** Absolute working directory of the calls. */
  readonly cwd: string
}

/** The subject of the rules for toolsets. */
export class Subject extends Context.Service<Subject, TestedTools>()("hermes-effect/testing/ToolSubject") {}

/** Creates a subject from a toolset, bound until the scope closes. */
export const bindSubject = <E, R>(
  toolset: Toolset<E, R>,
  examples: ReadonlyArray<Example>,
  cwd = "/"
): Effect.Effect<TestedTools, E, R | Scope.Scope> => Effect.map(toolset.bind, (tools) => ({ tools, examples, cwd }))

const session = SessionId.make("tool-rules")

/** Calls a tool in the same way as a run, through hooks, middleware and approvals. */
const callTool = ({ cwd, tools }: TestedTools, tool: string, params: unknown): Effect.Effect<ToolOutput, ToolFailed> =>
  Effect.suspend(() => {
    const bound = tools.find((one) => one.definition.name === tool)
    if (bound === undefined)
      return Effect.die(
        new Check.RuleBroken({
          message: `an example calls ${tool}, which is not in the toolset`,
          actual: tool,
          expected: undefined
        })
      )
    return Effect.provideService(bound.run(params, "call_1"), ToolContext, {
      sessionId: session,
      turnId: TurnId.make("tool-rules:1"),
      taskId: TaskId.make(session),
      cwd
    })
  })

const all: ReadonlyArray<
  readonly [about: string, name: string, body: (tested: TestedTools) => Effect.Effect<void, unknown>]
> = [
  [
    "definitions",
    "have names that every model API takes, each once",
    ({ tools }) =>
      Effect.sync(() => {
        const names = tools.map(({ definition }) => definition.name)
        for (const name of names) Check.matches(name, /^[a-zA-Z][\w-]{0,63}$/)
        Check.equals(new Set(names).size, names.length, "a name should be there once")
        Check.holds(names.length > 0, "a toolset should have tools")
      })
  ],
  [
    "definitions",
    "say what a tool does",
    ({ tools }) =>
      Effect.sync(() => {
        for (const { definition } of tools)
          Check.holds(definition.description.trim().length > 3, `${definition.name} should have a description`)
      })
  ],
  [
    "definitions",
    "have an object schema that is JSON",
    ({ tools }) =>
      Effect.sync(() => {
        for (const { definition } of tools) {
          const schema: unknown = JSON.parse(JSON.stringify(definition.parameters))
          Check.hasFields(
            typeof schema === "object" && schema !== null ? schema : {},
            { type: "object" },
            definition.name
          )
        }
      })
  ],
  [
    "calls",
    "of the examples succeed with results that are JSON",
    (tested) =>
      Effect.forEach(
        tested.examples,
        ({ params, tool }) =>
          Effect.map(callTool(tested, tool, params), ({ isFailure, output }) => {
            Check.holds(!isFailure, `${tool} should succeed with its example`)
            Check.holds(
              output === undefined || JSON.stringify(output) !== undefined,
              `${tool} should give a result that is JSON`
            )
          }),
        { discard: true }
      )
  ],
  [
    "calls",
    "leave their arguments as they are",
    (tested) =>
      Effect.forEach(
        tested.examples,
        ({ params, tool }) => {
          const before = JSON.stringify(params)
          return Effect.map(Effect.exit(callTool(tested, tool, params)), () =>
            Check.equals(JSON.stringify(params), before, tool)
          )
        },
        { discard: true }
      )
  ],
  [
    "calls",
    "with arguments that do not fit are failures that a model can read, and never defects",
    (tested) =>
      Effect.forEach(
        tested.tools,
        ({ definition: { name, parameters } }) =>
          Effect.forEach([null, 7, "text", [1]], (params) =>
            Effect.map(Effect.exit(callTool(tested, name, params)), (exit) => {
              if (Exit.isSuccess(exit)) {
                // A tool without arguments has no invalid arguments to reject.
                Check.holds(
                  exit.value.isFailure ||
                    !("required" in parameters) ||
                    JSON.stringify(parameters["required"]) === "[]",
                  `${name} should refuse ${JSON.stringify(params)}`
                )
                return
              }
              const error = Exit.findErrorOption(exit)
              Check.holds(
                error._tag === "Some" && error.value instanceof ToolFailed,
                `${name} should fail with ToolFailed for ${JSON.stringify(params)}`
              )
            })
          ),
        { discard: true }
      )
  ],
  [
    "calls",
    "end when they are interrupted",
    (tested) =>
      Effect.forEach(
        tested.examples,
        ({ params, tool }) => Conformance.checkInterruptedEnd(tool, callTool(tested, tool, params), "1 millis"),
        { discard: true }
      )
  ]
]

/** The rules for toolsets. */
export const rules: ReadonlyArray<Conformance.Rule<Subject>> = all.map(([about, name, body]) =>
  Conformance.makeRule(about, name, Subject.use(body))
)
