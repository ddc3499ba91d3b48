/**
 * Adapts lifecycle middleware in plain functions: an object, a class instance, or a class or function that creates an
 * object for each run, with the methods of `Lifecycle` in either spelling.
 *
 * **Details**
 *
 * A method before or after a phase receives one frozen object with the fields of the phase and the ids of the run in
 * snake_case (`tool_name`, `tool_input`, `session_id`), and returns nothing, the fields that it changes
 * (`{ tool_input }`), or the result of `Middleware.withModifications`. `stream_part` receives parts of `PlainParts`.
 * `before_tool` may also return `{ deny: reason }` or `{ skip: result }`, and other phases an action of `LoopControl`
 * such as `{ action: "end", answer }`. `wrap_model_call` and `wrap_tool_call` are
 * the functions of `Plain` with that name. A class or function is called once for each run, with
 * `{ session_id, task_id, turn_id, platform, is_child }`.
 *
 * **Gotchas**
 *
 * If a returned object has a member that is not a field of any phase, the method counts as failed. Fields of another
 * phase are ignored.
 *
 * Source: `nexau.md` §1.1 to §1.3, §1.8 and §1.11.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import { findNearest } from "../base/domain/Similarity.ts"
import type { ToolArguments } from "./Kind.ts"
import * as Lifecycle from "./Lifecycle.ts"
import * as LifecycleResult from "./LifecycleResult.ts"
import * as LoopControl from "./LoopControl.ts"
import * as Middleware from "./Middleware.ts"
import * as Frozen from "./Frozen.ts"
import * as MiddlewareDefinition from "./MiddlewareDefinition.ts"
import * as Plain from "./Plain.ts"
import type { CallOf } from "./PlainCall.ts"
import * as PlainParts from "./PlainParts.ts"
import * as PlainReturn from "./PlainReturn.ts"

/** Copies the members of an object under snake_case names. Each member is copied when it is read. */
const defineSnakeCaseMembers = (target: object, source: object): void => {
  for (const key of Object.keys(source)) {
    if (key !== "run")
      Object.defineProperty(target, Lifecycle.toSnakeCase(key), {
        get: () => Reflect.get(source, key),
        enumerable: true,
        configurable: true
      })
  }
}

/** Returns the run data of a method, without the fields that only typed code can use. */
const pickRunFields = ({
  cwd,
  isChild,
  maxIterations,
  platform,
  sessionId,
  task,
  taskId,
  turnId
}: Lifecycle.RunFacts): object => ({ sessionId, taskId, turnId, platform, isChild, cwd, maxIterations, task })

/** Creates the single argument of a plain method. */
const toPlainInput = (input: object): object => {
  const target = {}
  const run: unknown = Reflect.get(input, "run")
  // The input of every phase contains the run.
  if (Predicate.isObject(run)) defineSnakeCaseMembers(target, pickRunFields(run as unknown as Lifecycle.RunFacts))
  defineSnakeCaseMembers(target, input)
  const annotations: unknown = Reflect.get(input, "annotations")
  if (Predicate.isObject(annotations))
    Object.defineProperty(target, "annotations", { value: Plain.toAnnotationFields(annotations), enumerable: true })
  return Object.freeze(target)
}

const fieldNames = new Map(
  LifecycleResult.fieldNames.flatMap(
    (name) =>
      [
        [name, name],
        [Lifecycle.toSnakeCase(name), name]
      ] as const
  )
)

/** Converts the result of a plain method to a typed method result. */
const toMethodResult = (value: unknown): unknown => {
  if (!Predicate.isObject(value) || Array.isArray(value) || Object.hasOwn(value, "_tag")) return value
  if (Object.hasOwn(value, "action")) return LoopControl.fromPlain(value)
  if (Object.hasOwn(value, "deny")) return Lifecycle.deny(String(value["deny"]))
  if (Object.hasOwn(value, "skip")) return Lifecycle.skip(value["skip"])
  return {
    _tag: "Modifications",
    fields: Object.fromEntries(
      Object.entries(value).map(([key, given]) => {
        const name = fieldNames.get(key)
        if (name === undefined) {
          const meant = findNearest(key, Array.from(fieldNames.keys()))
          throw new TypeError(
            `it returned the unknown field "${key}"${meant === undefined ? "" : `, did you mean ${meant}?`}`
          )
        }
        return [name, given]
      })
    )
  }
}

/**
 * Adapts the method that receives the parts of a streamed answer as dictionaries. `parts` in its result replace them.
 */
const adaptStreamPart =
  (method: (input: object) => unknown) =>
  (input: Lifecycle.StreamPartInput): Effect.Effect<unknown, unknown, unknown> =>
    Effect.suspend(() => {
      const parts = Frozen.accept(input.parts)
      const called = PlainReturn.callMiddleware(() =>
        method(toPlainInput({ run: input.run, parts: parts.map(PlainParts.toDictionary) }))
      )
      return Effect.mapError(called, ({ error }) => error).pipe(
        Effect.map((value) =>
          Predicate.isObject(value) && Array.isArray(value["parts"]) && !Object.hasOwn(value, "_tag")
            ? Lifecycle.withModifications({ parts: PlainParts.readAll(value["parts"], parts, input.parts) })
            : toMethodResult(value)
        )
      )
    })

const toLifecycleMethods = (name: string, given: object): Lifecycle.BoundMethods =>
  Object.fromEntries(
    Object.entries(Lifecycle.bind(name, given)).map(([key, method]): [string, unknown] => {
      const invokeMethod: Plain.Callback = (call) => method(call)
      if (key === "wrapModelCall") return [key, Plain.wrapModelCall({ name }, invokeMethod).run.wrap]
      if (key === "streamPart") return [key, adaptStreamPart((input) => method(input))]
      if (key === "wrapToolCall") return [key, Plain.wrapToolCall({ name }, invokeMethod).run.wrap]
      return [
        key,
        (input: object) =>
          Effect.mapError(
            Effect.map(
              PlainReturn.callMiddleware(() => method(toPlainInput(input))),
              toMethodResult
            ),
            ({ error }) => error
          )
      ]
    })
  )

const isFactory = (given: unknown): given is (run: unknown) => unknown => Predicate.isFunction(given)

/** Fields of the run for which a method is called. */
interface RunFields {
  readonly session_id: string
  readonly task_id: string
  readonly turn_id: string
  readonly platform: string
  readonly is_child: boolean
  /** Name of the side task, for the parts of its answer. */
  readonly task?: string
}

type Method<More> = (input: Readonly<RunFields & More>) => unknown

interface ConversationFields {
  /** Messages of the conversation, the system message first. */
  readonly messages: ReadonlyArray<Prompt.Message>
}

interface StepFields extends ConversationFields {
  /** From 0. */
  readonly current_iteration: number
  readonly max_iterations: number
}

type ToolCall = CallOf<"tool_request">

interface ToolFields {
  readonly tool_name: string
  readonly tool_call_id: string
  readonly annotations: ToolCall["annotations"]
  readonly tool_input: ToolArguments
  readonly parallel_execution_id: string
}

/** Plain methods under the contract's names. The camelCase names are also accepted. */
interface PlainMethods {
  readonly before_agent?: Method<ConversationFields>
  readonly after_agent?: Method<
    ConversationFields & { readonly agent_response: string; readonly stop_reason: Lifecycle.StopReason }
  >
  readonly before_model?: Method<StepFields & { readonly prompt_messages: ReadonlyArray<Prompt.Message> }>
  readonly after_model?: Method<
    StepFields & { readonly original_response: string; readonly parsed_response: Lifecycle.ParsedResponse }
  >
  readonly before_tool?: Method<ToolFields>
  readonly stream_part?: Method<{ readonly parts: ReadonlyArray<PlainParts.PartDictionary> }>
  readonly after_tool?: Method<
    ToolFields & { readonly tool_output: unknown; readonly llm_tool_output: unknown; readonly is_error: boolean }
  >
}

type Camel<Name extends string> = Name extends `${infer Word}_${infer Rest}`
  ? `${Word}${Capitalize<Camel<Rest>>}`
  : Name

type SpelledMethods = PlainMethods & { readonly [Name in keyof PlainMethods as Camel<Name>]: PlainMethods[Name] } & {
  readonly name?: string
  readonly wrap_model_call?: (call: CallOf<"wrap_model_call">) => unknown
  readonly wrapModelCall?: (call: CallOf<"wrap_model_call">) => unknown
  readonly wrap_tool_call?: (call: CallOf<"wrap_tool_call">) => unknown
  readonly wrapToolCall?: (call: CallOf<"wrap_tool_call">) => unknown
}

/** Methods, or a class or function that creates them for each run. */
export type PlainLifecycleSource =
  | SpelledMethods
  | (new (run: RunFields) => SpelledMethods)
  | ((run: RunFields) => SpelledMethods | PromiseLike<SpelledMethods>)

/** Returns the name stated by the methods or their options. */
export const findName = (given: unknown, options: unknown): string | undefined => {
  const named = [options, given].flatMap((value) =>
    Predicate.isObjectKeyword(value) ? [Reflect.get(value, "name")] : []
  )
  const name: unknown = named.find((value) => typeof value === "string" && value !== "")
  if (typeof name === "string") return name
  const maker: unknown = Predicate.isObject(given) ? given.constructor : undefined
  return Predicate.isFunction(maker) && maker !== Object ? maker.name : undefined
}

/** Creates lifecycle middleware from plain methods. Throws if there are no methods. */
export const make = (
  { name, onFailure = "open" }: Middleware.Registration,
  given: unknown
): Middleware.LifecycleMiddleware => {
  if (isFactory(given)) {
    return Middleware.lifecycleUndeclared({
      kind: "lifecycle",
      name,
      onFailure,
      shared: undefined,
      make: (run) => {
        const facts = toPlainInput({ run })
        return PlainReturn.callMiddleware(() =>
          MiddlewareDefinition.isClass(given) ? new given(facts) : given(facts)
        ).pipe(
          Effect.mapError(({ error }) => error),
          Effect.map((made) => {
            if (!Predicate.isObject(made)) throw new TypeError("it gave no object with methods")
            return toLifecycleMethods(name, made)
          })
        )
      }
    })
  }
  if (!Predicate.isObject(given))
    throw new TypeError("registerLifecycle takes an object with methods, a class or a function that makes one")
  const shared = toLifecycleMethods(name, given)
  if (Object.keys(shared).length === 0) {
    throw new TypeError(
      `registerLifecycle: "${name}" has none of the methods ` +
        `${Lifecycle.methodNames.map(Lifecycle.toSnakeCase).join(", ")}`
    )
  }
  return Middleware.lifecycleUndeclared({
    kind: "lifecycle",
    name,
    onFailure,
    shared,
    make: () => Effect.succeed(shared)
  })
}
