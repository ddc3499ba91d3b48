/**
 * The calls of a run in the types of a toolset: a union that is discriminated by the name of the tool.
 *
 * **Details**
 *
 * A run may have more tools than an application lists: tools of plugins and of MCP servers, and built-in tools. Its
 * calls therefore have untyped arguments and results until they are selected by a toolset.
 *
 * **Example** (Typed results)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Agent, Runtime, Scripted, Toolset } from "hermes-effect"
 * import { ToolsetCalls } from "hermes-effect/tools"
 *
 * const Weather = Tool.make("weather", {
 *   parameters: Schema.Struct({ city: Schema.String }),
 *   success: Schema.Struct({ celsius: Schema.Finite, at: Schema.DateFromString })
 * })
 * const toolkit = Toolkit.make(Weather)
 * const weather = Toolset.make(
 *   "weather",
 *   toolkit,
 *   toolkit.toLayer({ weather: () => Effect.succeed({ celsius: 4, at: new Date(0) }) })
 * )
 *
 * const model = Scripted.layer([
 *   Scripted.complete({ toolCalls: [{ name: "weather", params: { city: "Oslo" } }] }),
 *   Scripted.complete("4 degrees.")
 * ])
 * const program = Effect.gen(function* () {
 *   const { calls } = yield* Agent.run({ prompt: "How is the weather in Oslo?" })
 *   // As JSON: the time is a text.
 *   const [first] = ToolsetCalls.selectCalls(weather, calls)
 *   // As the handler returned it: the time is a date.
 *   const [decoded] = yield* ToolsetCalls.decodeCalls(weather, calls)
 *   return [first?.result?.celsius, decoded?.params.city, decoded?.result?.at.getTime()]
 * })
 *
 * const layer = Runtime.layer({ provider: model, tools: [weather] })
 * console.log(await Effect.runPromise(Effect.provide(program, layer)))
 * // => [ 4, 'Oslo', 0 ]
 * ```
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Tool from "effect/ai/Tool"
import type { JsonOf, RunCall } from "../base/domain/RunDetails.ts"
import type { ToolFinished } from "../base/domain/RunEvent.ts"
import type { Any } from "./Toolset.ts"

/** Tests for the tools of a toolset whose type is not known. */
type IsOpen<T extends Tool.Any> = 0 extends 1 & T["name"] ? true : false

type CallTo<T extends Tool.Any> = T extends Tool.Any
  ? RunCall<T["name"], JsonOf<Tool.ParametersEncoded<T>>, JsonOf<Tool.SuccessEncoded<T>>>
  : never

/** A call of one of the tools of a toolset, with arguments and result as JSON. */
export type CallOf<S extends Any> = IsOpen<S["tools"][number]> extends true ? RunCall : CallTo<S["tools"][number]>

type FinishedTo<T extends Tool.Any> = T extends Tool.Any
  ? typeof ToolFinished.Type & { readonly name: T["name"]; readonly result?: JsonOf<Tool.SuccessEncoded<T>> }
  : never

/** The event of the end of a call of one of the tools of a toolset. */
export type FinishedOf<S extends Any> =
  IsOpen<S["tools"][number]> extends true ? typeof ToolFinished.Type : FinishedTo<S["tools"][number]>

/** A successful call with decoded arguments and result. */
export interface DecodedCall<out Name extends string, out Params, out Result> {
  readonly id: string
  readonly name: Name
  readonly params: Params
  /** Absent if the model received another text than the result of the tool; see `RunDetails.SucceededCall`. */
  readonly result: Result | undefined
}

type DecodedTo<T extends Tool.Any> = T extends Tool.Any
  ? DecodedCall<T["name"], Tool.Parameters<T>, Tool.Success<T>>
  : never

/** A successful call of one of the tools of a toolset, decoded by its schemas. */
export type DecodedOf<S extends Any> =
  IsOpen<S["tools"][number]> extends true ? DecodedCall<string, unknown, unknown> : DecodedTo<S["tools"][number]>

const findTool = <T extends Tool.Any>({ tools }: Any<T>, name: string): T | undefined =>
  tools.find((tool) => tool.name === name)

/** Selects the calls of the tools of a toolset. */
export const selectCalls = <S extends Any>(toolset: S, calls: ReadonlyArray<RunCall>): ReadonlyArray<CallOf<S>> =>
  // The name of each selected call names its tool, whose schemas have checked the arguments and the result.
  calls.filter(({ name }) => findTool(toolset, name) !== undefined) as ReadonlyArray<RunCall> as ReadonlyArray<
    CallOf<S>
  >

/** Tests whether an event is the end of a call of a tool of a toolset. Its `result` then has the tool's type. */
export const isFinished = <S extends Any, Event extends { readonly _tag: string }>(
  toolset: S,
  event: Event
): event is Event & FinishedOf<S> =>
  event._tag === "ToolFinished" &&
  "name" in event &&
  typeof event.name === "string" &&
  findTool(toolset, event.name) !== undefined

/** Codecs of a tool for JSON, made once. */
const codecs = new WeakMap<Schema.Top, Schema.Top>()

const decodeJson = (schema: Schema.Top, json: unknown): Effect.Effect<unknown, Schema.SchemaError, unknown> => {
  const known = codecs.get(schema)
  const codec: Schema.Top = known ?? Schema.toCodecJson(schema)
  if (known === undefined) codecs.set(schema, codec)
  return Schema.decodeUnknownEffect(codec)(json)
}

/** Services that the schemas of the tools of a toolset need. */
type DecodingServices<S extends Any> =
  | Tool.ParametersDecodingServices<S["tools"][number]>
  | Tool.ResultDecodingServices<S["tools"][number]>

/**
 * Decodes the successful calls of the tools of a toolset. Fails if the arguments of a call do not fit, because
 * middleware replaced them before the tool ran.
 */
export const decodeCalls = <S extends Any>(
  toolset: S,
  calls: ReadonlyArray<RunCall>
): Effect.Effect<ReadonlyArray<DecodedOf<S>>, Schema.SchemaError, DecodingServices<S>> => {
  const decoded = Effect.forEach(
    calls.filter(({ status }) => status === "ok"),
    (call) => {
      const tool = findTool(toolset, call.name)
      if (tool === undefined) return Effect.succeed([])
      const { parametersSchema, successSchema } = tool
      return Effect.map(
        Effect.all([
          Schema.isSchema(parametersSchema) ? decodeJson(parametersSchema, call.params) : Effect.succeed(call.params),
          call.result === undefined ? Effect.undefined : decodeJson(successSchema, call.result)
        ]),
        ([params, result]) => [{ id: call.id, name: call.name, params, result }]
      )
    }
  )
  // The schemas of the tool with the name of the call made its values, and state their services.
  return Effect.map(decoded, (all) => all.flat()) as Effect.Effect<
    ReadonlyArray<unknown>,
    Schema.SchemaError,
    unknown
  > as Effect.Effect<ReadonlyArray<DecodedOf<S>>, Schema.SchemaError, DecodingServices<S>>
}
