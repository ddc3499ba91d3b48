/**
 * Doubles of the parts of an agent as Layers: middleware that records the calls that pass it, and tools with scripted
 * answers. Hooks have `Hooks.layerTest`, and models `Scripted.layer`.
 *
 * **Example** (The tools of an application, replaced)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, ModelRouter, Scripted, SessionStore } from "hermes-effect"
 * import { TestParts } from "hermes-effect/testing"
 *
 * const model = Scripted.layer([
 *   Scripted.complete({ toolCalls: [{ name: "weather", params: { city: "Oslo" } }] }),
 *   Scripted.complete("It is cold.")
 * ])
 *
 * const program = Effect.gen(function*() {
 *   const { text } = yield* Agent.run({ prompt: "Is it cold in Oslo?" })
 *   return [text, (yield* TestParts.ToolCalls).all().map(({ name, params }) => [name, params])]
 * })
 *
 * const agent = Agent.layer().pipe(
 *   Layer.provideMerge(TestParts.layerTools({ weather: { celsius: -4 } })),
 *   Layer.provide([ModelRouter.layer.pipe(Layer.provide(model)), SessionStore.layerMemory])
 * )
 *
 * console.log(JSON.stringify(await Effect.runPromise(Effect.provide(program, agent))))
 * // => ["It is cold.",[["weather",{"city":"Oslo"}]]]
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Tool from "effect/ai/Tool"
import type { ModelAnswer, ModelCallParams, ToolArguments } from "../../middleware/Middleware.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import { ToolFailed, type ToolOutput } from "../../base/domain/ToolOutput.ts"
import * as Annotations from "../../tools/Annotations.ts"
import * as ToolRegistry from "../../tools/ToolRegistry.ts"
import * as Toolset from "../../tools/Toolset.ts"

/** A model call that passed the middleware of a test, and its answer; absent for a failed call. */
export interface RecordedModelCall {
  readonly params: ModelCallParams
  readonly answer?: ModelAnswer | undefined
}

/** A tool call that passed the middleware of a test, and its output; absent for a failed call. */
export interface RecordedWrappedCall {
  readonly name: string
  readonly args: ToolArguments
  readonly output?: ToolOutput | undefined
}

/** Calls that passed the middleware of {@link layerMiddleware}, in the order of their ends. */
export class MiddlewareCalls extends Context.Service<
  MiddlewareCalls,
  { readonly models: () => ReadonlyArray<RecordedModelCall>; readonly tools: () => ReadonlyArray<RecordedWrappedCall> }
>()("hermes-effect/testing/MiddlewareCalls") {}

/**
 * Middleware of a test: it changes nothing, and {@link MiddlewareCalls} returns the calls that passed it. Its entries
 * are named `recorder of model calls` and `recorder of tool calls`; others can be added (`Middleware.layerAdd`).
 */
export const layerMiddleware: Layer.Layer<Middleware.Middlewares | MiddlewareCalls> = Layer.fresh(
  Layer.unwrap(
    Effect.sync(() => {
      const models: Array<RecordedModelCall> = []
      const tools: Array<RecordedWrappedCall> = []
      const list = Middleware.layer([
        Middleware.wrapModelCall({
          name: "recorder of model calls",
          wrap: (next) => (params) =>
            next(params).pipe(
              Effect.tap((answer) => Effect.sync(() => models.push({ params, answer }))),
              Effect.tapCause(() => Effect.sync(() => models.push({ params })))
            )
        }),
        Middleware.wrapToolCall({
          name: "recorder of tool calls",
          wrap:
            (next, { toolName: name }) =>
            (args) =>
              next(args).pipe(
                Effect.tap((output) => Effect.sync(() => tools.push({ name, args, output }))),
                Effect.tapCause(() => Effect.sync(() => tools.push({ name, args })))
              )
        })
      ])
      return Layer.merge(list, Layer.succeed(MiddlewareCalls, { models: () => [...models], tools: () => [...tools] }))
    })
  )
)

/** A call of a tool of {@link layerTools}. */
export interface RecordedToolCall {
  readonly name: string
  readonly params: unknown
}

/** Calls of the tools of {@link layerTools}, in the order of their starts. */
export class ToolCalls extends Context.Service<ToolCalls, { readonly all: () => ReadonlyArray<RecordedToolCall> }>()(
  "hermes-effect/testing/ToolCalls"
) {}

/** Answer of a tool: a value, or a function of its arguments. A thrown error is a failed call. */
export type ToolAnswer = string | number | boolean | null | object | ((params: unknown) => unknown)

/**
 * Tools of a test, in a toolset named `test`: each takes any arguments and returns its answer. They only read, so that
 * no call needs an approval. {@link ToolCalls} returns the calls.
 */
export const layerTools = (
  answers: Readonly<Record<string, ToolAnswer>>
): Layer.Layer<ToolRegistry.ToolRegistry | ToolCalls> =>
  Layer.unwrap(
    Effect.sync(() => {
      const calls: Array<RecordedToolCall> = []
      const bound = Object.entries(answers).map(([name, answer]): Toolset.BoundTool => {
        const description = `The tool ${name} of a test`
        const parameters = { type: "object" as const }
        const tool = Tool.dynamic(name, { description, parameters }).annotate(Tool.Readonly, true)
        return {
          toolset: "test",
          tool,
          definition: { name, description, parameters },
          facts: Annotations.readFacts(tool),
          run: (params) =>
            Effect.try({
              try: (): ToolOutput => {
                calls.push({ name, params })
                const output: unknown = typeof answer === "function" ? answer(params) : answer
                return { output: output ?? null, isFailure: false }
              },
              catch: (cause) => new ToolFailed({ tool: name, phase: "handler", message: String(cause), cause })
            })
        }
      })
      const toolset = Toolset.fromBound(
        "test",
        bound.map(({ tool }) => tool),
        Effect.succeed(bound)
      )
      return Layer.merge(ToolRegistry.layer([toolset]), Layer.succeed(ToolCalls, { all: () => [...calls] }))
    })
  )
