/**
 * Adapts middleware that plugins on disk register as plain functions. A function receives one frozen object per call
 * with the contract's field names, and returns a value, a promise or an Effect.
 *
 * **Details**
 *
 * A plain function declares no failures, so a thrown value is classified by the state of the inner call. Before
 * `next_call` and after its success, it is a fault of the plugin. After a failure of `next_call`, it is a translation
 * (`TranslatedFailure`), but the rethrown inner failure passes through. An error with the
 * name `ExecutionBlocked` is a veto at any time, whatever its class.
 * Objects are immutable deep copies. If a function passes on or returns a copy, the original is used.
 *
 * Source: `hermes-contract.md` §1.2–1.7, `ARCHITECTURE.md` §5 and §6.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Response from "effect/ai/Response"
import * as Cost from "../base/domain/Cost.ts"
import * as Json from "../base/domain/Json.ts"
import type { ExecuteOptions, ModelRequest, ModelResponse } from "../base/domain/ModelCall.ts"
import * as Route from "../base/domain/Route.ts"
import type { ToolOutput } from "../base/domain/ToolOutput.ts"
import * as Usage from "../base/domain/Usage.ts"
import { observerVersion } from "../base/domain/Version.ts"
import * as Frozen from "./Frozen.ts"
import {
  type CallPurpose,
  type LlmContext,
  middlewareSchemaVersion,
  type ToolAnnotations,
  type ToolArguments,
  type ToolCallContext
} from "./Kind.ts"
import * as Middleware from "./Middleware.ts"
import type { Wrapper } from "./MiddlewareBoundary.ts"
import * as Pipeline from "./Pipeline.ts"
import * as PlainExecution from "./PlainExecution.ts"
import * as PlainParts from "./PlainParts.ts"
import * as PlainReturn from "./PlainReturn.ts"

/** The single argument of a plain function. */
export type Envelope = Readonly<Record<string, unknown>>

/** A plain middleware function of any kind. */
export type Callback = (call: Envelope) => unknown

const versions = { telemetry_schema_version: observerVersion, middleware_schema_version: middlewareSchemaVersion }

const toPurposeFields = ({ cost, runTurnId, task, usage }: CallPurpose): Record<string, unknown> => ({
  ...(task === undefined ? {} : { task, run_turn_id: runTurnId ?? "" }),
  ...(usage === undefined ? {} : { usage: Usage.toWire(usage) }),
  ...(cost === undefined ? {} : { cost })
})

const toLlmFields = (context: LlmContext): Record<string, unknown> => ({
  ...versions,
  session_id: context.sessionId,
  task_id: context.taskId,
  turn_id: context.turnId,
  api_request_id: context.apiRequestId,
  platform: context.platform,
  model: context.model,
  provider: context.provider,
  base_url: context.baseUrl ?? "",
  api_mode: context.apiMode,
  api_call_count: context.apiCallCount,
  retry_count: context.retryCount,
  ...toPurposeFields(context)
})

/** Returns the annotations of a tool under their wire names. */
export const toAnnotationFields = ({ destructive, idempotent, openWorld, readonly }: ToolAnnotations) =>
  Object.freeze({
    ...(readonly === undefined ? {} : { readonly }),
    ...(destructive === undefined ? {} : { destructive }),
    ...(idempotent === undefined ? {} : { idempotent }),
    ...(openWorld === undefined ? {} : { open_world: openWorld })
  })

const toToolFields = (context: ToolCallContext): Record<string, unknown> => ({
  ...versions,
  session_id: context.sessionId,
  task_id: context.taskId,
  turn_id: context.turnId,
  api_request_id: context.apiRequestId,
  tool_name: context.toolName,
  tool_call_id: context.toolCallId,
  annotations: toAnnotationFields(context.annotations)
})

const memoize = <A>(make: () => A): (() => A) => {
  let made: { readonly value: A } | undefined
  return () => (made ??= { value: make() }).value
}

/** Creates the argument of a call: its fields, and the payloads, each of which is copied when it is first read. */
const makeEnvelope = (fields: Record<string, unknown>, payloads: Readonly<Record<string, () => unknown>>): Envelope => {
  for (const [name, get] of Object.entries(payloads))
    Object.defineProperty(fields, name, { get: memoize(get), enumerable: true })
  return Object.freeze(fields)
}

const isMapping = (value: unknown): value is Readonly<Record<string, unknown>> =>
  Predicate.isObject(value) && !Array.isArray(value)

/**
 * Reads the replacement under `key`, and copies it so that the plugin cannot change it later. Throws if its shape is
 * invalid.
 */
const readReplacement = (
  value: unknown,
  key: "request" | "args"
): Pipeline.Answer<Readonly<Record<string, unknown>>> => {
  if (value === undefined || value === null) return Pipeline.unchanged
  const replacement: unknown = isMapping(value) && Object.hasOwn(value, key) ? value[key] : undefined
  if (!isMapping(value) || !isMapping(replacement)) {
    throw new TypeError(`it must return nothing or { ${key}: {…} }, got ${Json.toText(value).slice(0, 80)}`)
  }
  return Pipeline.replacePayload(Frozen.acceptRequest(replacement), Pipeline.toTraceEntry(value))
}

const rewriteWith = (callback: Callback, key: "request" | "args", call: Envelope) =>
  PlainReturn.callMiddleware(() => callback(call)).pipe(
    Effect.catch(({ error }) => Effect.die(error)),
    Effect.map((value) => readReplacement(value, key))
  )

/** Adapts an `llm_request` function. */
export const llmRequest = (options: Middleware.Registration, callback: Callback): Middleware.LlmRequest<unknown> =>
  Middleware.llmRequest({
    ...options,
    rewrite: (request, context) =>
      rewriteWith(
        callback,
        "request",
        makeEnvelope(toLlmFields(context), {
          original_request: () => Frozen.copy(context.originalRequest),
          middleware_trace: () => Frozen.copy(context.trace),
          request: () => Frozen.copy(request)
        })
      )
  })

/** Adapts a `tool_request` function. */
export const toolRequest = (options: Middleware.Registration, callback: Callback): Middleware.ToolRequest<unknown> =>
  Middleware.toolRequest({
    ...options,
    rewrite: (args, context) =>
      rewriteWith(
        callback,
        "args",
        makeEnvelope(toToolFields(context), {
          original_args: () => Frozen.copy(context.originalArgs),
          middleware_trace: () => Frozen.copy(context.trace),
          args: () => Frozen.copy(args)
        })
      )
  })

/** Reads the request or arguments that a plugin passed on. A copy is replaced by its original. */
const readPassedPayload =
  <Req extends Readonly<Record<string, unknown>>>(shown: () => Req) =>
  (payload: unknown): Req | undefined => {
    if (payload === undefined || payload === null || payload === shown()) return undefined
    if (!isMapping(payload))
      throw new TypeError(`next_call() takes an object, got ${Json.toText(payload).slice(0, 80)}`)
    // Both payload types are mappings of unknown values.
    return Frozen.acceptRequest(payload) as Req
  }

/** Reads the response body that a plugin returned. A body that cannot be decoded is a fault of the plugin. */
const readBody = (value: unknown, { apiMode, decode }: LlmContext): Effect.Effect<ModelResponse> =>
  Effect.catch(decode(value), ({ message }) =>
    Effect.die(new TypeError(`it returned ${Json.toText(value).slice(0, 80)}, no body of ${apiMode}: ${message}`))
  )

/**
 * Adapts an `llm_execution` function. `next_call` returns the raw body of the answer, and the function returns a raw
 * body (of the same `api_mode`). `next_call(request, { on_part })` observes the parts of a streamed answer; see
 * `PlainParts`.
 */
export const llmExecution = (options: Middleware.Registration, callback: Callback): Middleware.LlmExecution =>
  Middleware.llmExecutionUndeclared({
    ...options,
    wrap: (next, context) => (request) => {
      const shown = memoize((): ModelRequest => Frozen.copy(request))
      const bodies = new Map<unknown, ModelResponse>()
      return PlainExecution.run<ModelRequest, ExecuteOptions, ModelResponse>({
        kind: "llm_execution",
        name: options.name,
        next,
        request: readPassedPayload(shown),
        options: PlainParts.readOptions,
        show: (response) => {
          const body = Frozen.copy(response.raw)
          bodies.set(body, response)
          return body
        },
        read: (value) => {
          if (value === undefined || value === null) return Effect.succeed(undefined)
          const known = bodies.get(value)
          return known === undefined ? readBody(value, context) : Effect.succeed(known)
        },
        invoke: (nextCall) =>
          callback(
            makeEnvelope(
              { ...toLlmFields(context), next_call: nextCall },
              {
                original_request: () => Frozen.copy(context.originalRequest),
                middleware_trace: () => Frozen.copy(context.trace),
                request: shown
              }
            )
          )
      })
    }
  })

/** Creates the wrapper of a plain function around a tool call. */
const makeToolWrap =
  (
    kind: "tool_execution" | "wrap_tool_call",
    name: string,
    callback: Callback
  ): Wrapper<ToolArguments, undefined, ToolOutput, ToolCallContext>["wrap"] =>
  (next, context) =>
  (args) => {
    const shown = memoize((): ToolArguments => Frozen.copy(args))
    const below = new Map<unknown, ToolOutput>()
    return PlainExecution.run<ToolArguments, undefined, ToolOutput>({
      kind,
      name,
      next,
      request: readPassedPayload(shown),
      options: () => undefined,
      show: (output) => {
        const text = Json.toText(output.output)
        below.set(text, output)
        return text
      },
      read: (value) => {
        if (value === undefined || value === null) return Effect.succeed(undefined)
        return Effect.succeed(below.get(value) ?? { output: value, isFailure: false })
      },
      invoke: (nextCall) =>
        callback(
          makeEnvelope(
            { ...toToolFields(context), next_call: nextCall },
            {
              original_args: () => Frozen.copy(context.originalArgs),
              middleware_trace: () => Frozen.copy(context.trace),
              args: shown
            }
          )
        )
    })
  }

/** Adapts a `tool_execution` function. `next_call` returns the result as the text that the model reads. */
export const toolExecution = (options: Middleware.Registration, callback: Callback): Middleware.ToolExecution =>
  Middleware.toolExecutionUndeclared({ ...options, wrap: makeToolWrap("tool_execution", options.name, callback) })

/**
 * Adapts a `wrap_tool_call` function, like {@link toolExecution} but around the whole call. Its `next_call` may be
 * called again.
 */
export const wrapToolCall = (options: Middleware.Registration, callback: Callback): Middleware.WrapToolCall =>
  Middleware.wrapToolCallUndeclared({ ...options, wrap: makeToolWrap("wrap_tool_call", options.name, callback) })

/** Reads the parameters that a plugin passed on. Omitted members are unchanged. */
const readPassedParams =
  (params: Middleware.ModelCallParams, shown: () => unknown) =>
  (payload: unknown): Middleware.ModelCallParams | undefined => {
    if (payload === undefined || payload === null || payload === shown()) return undefined
    if (!isMapping(payload) || (payload["call"] !== undefined && !isMapping(payload["call"]))) {
      throw new TypeError(`next_call() takes { call, route }, got ${Json.toText(payload).slice(0, 80)}`)
    }
    // `call` is an object. An invalid route is rejected when it is opened.
    return { ...params, ...Frozen.acceptRequest(payload) } as Middleware.ModelCallParams
  }

/** Creates the answer of a wrapper that returns a string instead of calling the model. */
const makeTextAnswer = (text: string, name: string, { primary }: Middleware.CallContext) =>
  Effect.map(primary ?? Effect.succeed(undefined), (route): Middleware.ModelAnswer => ({
    response: {
      parts: [Response.makePart("text", { text })],
      finishReason: "stop",
      usage: Usage.toResponse({ input: 0, output: 0 }),
      model: undefined,
      id: undefined,
      raw: undefined
    },
    route:
      route === undefined
        ? { provider: name, model: name, apiMode: "chat_completions", baseUrl: undefined }
        : Route.toInfo(route),
    attempt: 0,
    cost: Cost.included
  }))

/**
 * Adapts a `wrap_model_call` function. `params` is `{ call, route }`, independent of the provider's API. `next_call`,
 * which may be called again, returns the answer `{ response, route, attempt }` and accepts `{ on_part }` as in
 * {@link llmExecution}. The function returns such an answer, or a string that replaces the model's answer.
 */
export const wrapModelCall = (options: Middleware.Registration, callback: Callback): Middleware.WrapModelCall =>
  Middleware.wrapModelCallUndeclared({
    ...options,
    wrap: (next, context) => (params) => {
      const shown = memoize(() => Frozen.copy(params))
      const answers = new Map<unknown, Middleware.ModelAnswer>()
      return PlainExecution.run<Middleware.ModelCallParams, ExecuteOptions, Middleware.ModelAnswer>({
        kind: "wrap_model_call",
        name: options.name,
        next,
        request: readPassedParams(params, shown),
        options: PlainParts.readOptions,
        show: (answer) => {
          const copy = Frozen.copy(answer)
          answers.set(copy, answer)
          return copy
        },
        read: (value) => {
          if (value === undefined || value === null) return Effect.succeed(undefined)
          if (typeof value === "string") return makeTextAnswer(value, options.name, context)
          const known = answers.get(value)
          if (known !== undefined) return Effect.succeed(known)
          if (
            !isMapping(value) ||
            !isMapping(value["response"]) ||
            !Array.isArray(value["response"]["parts"]) ||
            !isMapping(value["route"])
          ) {
            throw new TypeError(
              `it must return what next_call() gave, or a text, got ${Json.toText(value).slice(0, 80)}`
            )
          }
          // The value is derived from an inner answer, so its members are the members of an answer.
          return Effect.succeed(Frozen.accept(value) as unknown as Middleware.ModelAnswer)
        },
        invoke: (nextCall) =>
          callback(
            makeEnvelope(
              {
                ...versions,
                session_id: context.sessionId,
                task_id: context.taskId,
                turn_id: context.turnId,
                platform: context.platform,
                api_call_count: context.apiCallCount,
                ...toPurposeFields(context),
                next_call: nextCall
              },
              { params: shown }
            )
          )
      })
    }
  })
