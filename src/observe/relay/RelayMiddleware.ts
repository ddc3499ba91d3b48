/**
 * The two execution middlewares that pass provider calls and tool calls to the library. The call itself still runs in
 * this runtime; the library observes its beginning and end, and may reject or change it.
 *
 * **Details**
 *
 * The library receives redacted copies. A value that it returns unchanged is replaced by the original request, answer
 * or error. Changes by its components are applied one by one. A failed tool is reported as a result that describes the
 * failure, so that it appears in the library's trajectories.
 *
 * **Gotchas**
 *
 * The library receives the complete result of an executed tool. If the model receives different text (a part and the
 * name of a file, or a result that a listener changed), a mark `hermes.result.stored` contains that text (see `Spans`).
 *
 * If a guardrail of the library rejects a call, the call never runs (`ExecutionBlocked`). If the library fails in
 * another way before the call, the call runs anyway, as specified in the failure table of `ARCHITECTURE.md` §6.
 *
 * The `data` of a start event is the executed request. The NeMo Relay document shows the scheduling mode there, but the
 * request does not have such a field; the mode is in `metadata`.
 *
 * Source: the NeMo Relay document ("Adaptive Middleware Example"), `hermes-contract.md` §4.8.
 */
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { ExecutionBlocked, TranslatedFailure } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { type ContentPart, type ModelRequest, type ModelResponse, withParts } from "../../base/domain/ModelCall.ts"
import type { ToolOutput } from "../../base/domain/ToolOutput.ts"
import * as ApiPayload from "../../hooks/ApiPayload.ts"
import { Correlation } from "../../hooks/Correlation.ts"
import { copyWhole } from "../../hooks/Sanitizer.ts"
import { describeError } from "../../middleware/Faults.ts"
import type { CallIds, Kind, LlmContext, ToolArguments } from "../../middleware/Kind.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Reading from "../atif/Answer.ts"
import { toPlainText } from "../atif/Message.ts"
import { toFields, toItems, toNonEmptyText } from "../atif/Value.ts"
import * as Library from "./Library.ts"
import * as NativeCall from "./NativeCall.ts"
import type { Agent, Spans } from "./Spans.ts"

const toLibraryCall = (value: Schema.Json): Schema.Json => {
  const call = toFields(value)
  const { arguments: args, name: called } = { ...call, ...toFields(call["function"] ?? null) }
  return { id: call["id"] ?? null, name: called ?? "", arguments: args ?? "{}" }
}

/**
 * Returns the answer as JSON. Text and calls are at the top level, where conversion tools expect them. The same data is
 * also in `assistant_message`, as in the NeMo Relay document (`relay-atof-atif.md` §1.7 rule 6).
 */
const toLibraryAnswer = (response: ModelResponse): Schema.Json => {
  const { finish_reason, response: answer, response_model, usage } = ApiPayload.toAnswerFields(response)
  const shown = toFields(copyWhole({ finish_reason, answer, model: response_model, usage }))
  const message = toFields(toFields(shown["answer"])["assistant_message"])
  const calls = toItems(message["tool_calls"]).map(toLibraryCall)
  const reasoning = toNonEmptyText(message["reasoning_content"])
  const said = {
    content: message["content"] ?? "",
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
  return {
    ...said,
    assistant_message: { role: "assistant", ...said },
    finish_reason: shown["finish_reason"] ?? null,
    model: shown["model"] ?? null,
    usage: shown["usage"] ?? null
  }
}

const toParts = (value: unknown): ReadonlyArray<ContentPart> => {
  const { calls, message, reasoning } = Reading.readAnswer(value)
  const said = toPlainText(message)
  return [
    ...(reasoning === undefined ? [] : [Response.makePart("reasoning", { text: reasoning })]),
    ...(said === "" ? [] : [Response.makePart("text", { text: said })]),
    ...calls.map(({ args, id, name }, index) =>
      Response.makePart("tool-call", { id: id ?? `${name}:${index}`, name, params: args, providerExecuted: false })
    )
  ]
}

/**
 * Converts the answer returned by the library. `own` is the original answer. If it is `undefined`, the library answered
 * without executing the call, and its answer is a response body in the provider's protocol.
 */
const fromLibraryAnswer = (
  value: unknown,
  own: ModelResponse | undefined,
  context: LlmContext
): Effect.Effect<ModelResponse, unknown> => {
  if (own === undefined) return context.decode(value)
  const parts = toParts(value)
  const hasCalls = parts.some(({ type }) => type === "tool-call")
  return Effect.succeed(
    withParts(own, parts, hasCalls ? "tool-calls" : own.finishReason === "tool-calls" ? "stop" : own.finishReason)
  )
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

/**
 * Returns true if two JSON values are equal, regardless of key order. Lone surrogates, which the library replaces, do
 * not count as a difference.
 */
const isSameJson = (a: unknown, b: unknown): boolean => {
  if (a === b) return true
  if (typeof a === "string" && typeof b === "string") return a.toWellFormed() === b.toWellFormed()
  if (isList(a) && isList(b)) return a.length === b.length && a.every((one, index) => isSameJson(one, b[index]))
  if (!Json.isFields(a) || !Json.isFields(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isSameJson(a[key], b[key]))
  )
}

/** Applies changes to `original`: the differences between `shown`, which is a copy of `original`, and `given`. */
const applyChanges = (original: unknown, shown: unknown, given: Schema.Json): unknown => {
  if (isSameJson(shown, given)) return original
  if (
    isList(original) &&
    isList(shown) &&
    isList(given) &&
    original.length === shown.length &&
    shown.length === given.length
  ) {
    return given.map((one, index) => applyChanges(original[index], shown[index], one))
  }
  if (!Json.isFields(original) || !Json.isFields(shown) || !Json.isFields(given)) return given
  // Fields that a copy cannot contain (functions, `undefined`) were not in `shown` and are preserved.
  const unseen = Object.entries(original).filter(([key]) => !Object.hasOwn(shown, key) && !Object.hasOwn(given, key))
  return Object.fromEntries([
    ...unseen,
    ...Object.entries(given).map(([key, value]): [string, unknown] => [
      key,
      Object.hasOwn(original, key) && Object.hasOwn(shown, key) ? applyChanges(original[key], shown[key], value) : value
    ])
  ])
}

/** The library, and functions that connect the middleware to the feed. */
interface ExecutionPlace {
  readonly library: Library.Library
  /** Returns the agent of a run and the scheduling mode if the library currently executes calls of this kind. */
  readonly at: (
    kind: "llm" | "tool",
    ids: Pick<CallIds, "sessionId" | "turnId">
  ) => Effect.Effect<{ readonly agent: Agent; readonly mode: string } | undefined>
  readonly openSideTask: Spans["openSideTask"]
  /** Receives the library's id of a tool call that it executes. */
  readonly began: (ids: Pick<CallIds, "sessionId" | "turnId">, callId: string, uuid: string) => void
  /** Receives the result that the library received for a tool call. */
  readonly executed: (ids: Pick<CallIds, "sessionId" | "turnId">, callId: string, result: string) => void
}

const name = "observability/nemo_relay"

const toWireIds = ({ apiRequestId, sessionId, taskId, turnId }: CallIds) => ({
  session_id: sessionId,
  trajectory_id: sessionId,
  task_id: taskId,
  turn_id: turnId,
  api_request_id: apiRequestId
})

/** Converts a failure for the library. Only its kind and its message pass through the library. */
const toLibraryError = (cause: Cause.Cause<unknown>): Error => {
  const error = Cause.hasInterrupts(cause) ? new Error("interrupted") : Cause.squash(cause)
  const said = new Error(String(copyWhole(describeError(error))))
  if (error instanceof Error) said.name = error.name
  return said
}

/** Converts the failure of a model call for the library, with the type and the message that the record has. */
const toModelError = (cause: Cause.Cause<unknown>): Error => {
  const error = Cause.hasInterrupts(cause) ? undefined : Cause.squash(cause)
  if (!AiError.isAiError(error)) return toLibraryError(cause)
  const { message, type } = ApiPayload.toErrorFields(error)
  const said = new Error(String(copyWhole(message)))
  said.name = type
  return said
}

/** Converts the outcome of a call to an effect for the middleware chain. */
const settleOutcome = <A>(
  kind: Kind,
  outcome: NativeCall.Outcome<A, unknown>,
  given: (value: unknown, own: A | undefined) => Effect.Effect<A, unknown>
): Effect.Effect<A, unknown> => {
  switch (outcome._tag) {
    case "Own":
      return outcome.exit
    case "Given":
      return given(outcome.value, outcome.own)
    case "Refused":
      return Effect.fail(new ExecutionBlocked({ reason: outcome.reason, metadata: { checked_by: name } }))
    case "Broken":
      return Effect.die(outcome.error)
    case "Translated":
      return Effect.fail(
        new TranslatedFailure({
          kind,
          middleware: name,
          thrown: outcome.error,
          downstream: Cause.squash(outcome.cause)
        })
      )
  }
}

/** Starts a call of the library on a scope stack, and returns its promise. */
const runOnStack = <A>(library: Library.Library, stack: Library.ScopeStack, call: () => Promise<A>): Promise<A> => {
  let started: Promise<A> | undefined
  library.withScopeStack(stack, () => {
    started = call()
  })
  return started ?? Promise.reject(new Error("NeMo Relay did not start the call"))
}

// Applying the differences between two objects results in an object.
const toObjectOr = <A extends object>(value: unknown, otherwise: A): A =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as A) : otherwise

const makeLlmExecution = ({ at, library, openSideTask }: ExecutionPlace): Middleware.LlmExecution =>
  Middleware.llmExecutionUndeclared({
    name,
    wrap: (next, context) => (request) =>
      Effect.flatMap(Effect.all([at("llm", context), Correlation]), ([place, caller]) => {
        const execute = library.llmCallExecuteAsync?.bind(library)
        if (place === undefined || execute === undefined) return next(request)
        const shown = copyWhole(request)
        const { apiCallCount, apiMode, model, platform, provider, retryCount, task } = context
        const metadata = {
          ...toWireIds(context),
          platform,
          provider,
          model,
          api_mode: apiMode,
          api_call_count: apiCallCount,
          retry_count: retryCount,
          ...(task === undefined ? {} : { side_task: task }),
          mode: place.mode
        }
        const attributes = toFields(shown)["stream"] === true ? Library.streaming : null
        const callId = caller.session_id === context.sessionId ? toNonEmptyText(caller.tool_call_id) : undefined
        const side =
          task === undefined
            ? undefined
            : openSideTask(place.agent, {
                task,
                id: `${task}-${context.apiRequestId}`,
                turnId: context.runTurnId ?? context.turnId,
                callId
              })
        return Effect.flatMap(
          NativeCall.run({
            start: (answer: (given: Schema.Json) => Promise<Schema.Json>) =>
              runOnStack(library, side?.stack ?? place.agent.stack, () =>
                execute(
                  provider,
                  { headers: {}, content: shown },
                  (given) => answer(toFields(given)["content"] ?? shown),
                  null,
                  attributes,
                  null,
                  metadata,
                  model
                )
              ),
            execute: (given) => next(toObjectOr<ModelRequest>(applyChanges(request, shown, given), request)),
            told: (exit): Schema.Json | Error =>
              Exit.isSuccess(exit) ? toLibraryAnswer(exit.value) : toModelError(exit.cause),
            isSame: (answer: Schema.Json, value) => isSameJson(answer, value)
          }),
          (outcome) => settleOutcome("llm_execution", outcome, (value, own) => fromLibraryAnswer(value, own, context))
        ).pipe(Effect.ensuring(Effect.sync(() => side?.close())))
      })
  })

/** Converts the exit of a tool call to a result for the library. An expected failure is also a result. */
const toToolResult = (exit: Exit.Exit<ToolOutput, unknown>): Library.ToolResult | Error => {
  if (Exit.isSuccess(exit)) {
    const { isFailure, output } = exit.value
    return { result: Json.toText(copyWhole(output)), annotation: { status: isFailure ? "error" : "ok" } }
  }
  return Cause.hasFails(exit.cause) && !Cause.hasInterrupts(exit.cause)
    ? { result: toLibraryError(exit.cause).message, annotation: { status: "error" } }
    : toLibraryError(exit.cause)
}

const toToolOutput = (value: unknown, own: ToolOutput | undefined): ToolOutput => ({
  output: toFields(value)["result"] ?? null,
  isFailure: own?.isFailure ?? toFields(toFields(value)["annotation"])["status"] === "error"
})

const makeToolExecution = ({ at, began, executed, library }: ExecutionPlace): Middleware.ToolExecution =>
  Middleware.toolExecutionUndeclared({
    name,
    wrap: (next, context) => (args) =>
      Effect.flatMap(at("tool", context), (place) => {
        const execute = library.toolCallExecuteAsync?.bind(library)
        if (place === undefined || execute === undefined) return next(args)
        const shown = copyWhole(args)
        const metadata = { ...toWireIds(context), tool_call_id: context.toolCallId, mode: place.mode }
        // The library's id of a call is known only inside the callback that executes the call.
        const noteCall = (): void => {
          const uuid = library.capturePropagationContextWithRoot?.(place.agent.root).parentUuid
          if (uuid !== undefined) began(context, context.toolCallId, uuid)
        }
        return Effect.flatMap(
          NativeCall.run({
            start: (answer) =>
              runOnStack(library, place.agent.stack, () =>
                execute(
                  context.toolName,
                  shown,
                  (given) => {
                    noteCall()
                    return answer(given)
                  },
                  null,
                  null,
                  null,
                  metadata,
                  context.toolCallId
                )
              ),
            execute: (given) => next(toObjectOr<ToolArguments>(applyChanges(args, shown, given), args)),
            told: toToolResult,
            isSame: ({ result }, value) => isSameJson(result, toFields(value)["result"])
          }),
          (outcome) => {
            const ended =
              outcome._tag === "Own" ? toToolResult(outcome.exit) : outcome._tag === "Given" ? outcome.value : undefined
            const result = toNonEmptyText(toFields(ended)["result"])
            if (result !== undefined) executed(context, context.toolCallId, result)
            return settleOutcome("tool_execution", outcome, (value, own) => Effect.succeed(toToolOutput(value, own)))
          }
        )
      })
  })

/** Creates the two execution middlewares. */
export const make = (place: ExecutionPlace): ReadonlyArray<Middleware.LlmExecution | Middleware.ToolExecution> => [
  makeLlmExecution(place),
  makeToolExecution(place)
]
