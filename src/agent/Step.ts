/**
 * One pass of the loop: one model call, and the tools that it asked for. No policy: what happened is the outcome.
 *
 * Source: `ARCHITECTURE.md` §4.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../domain/AgentError.ts"
import type { ContentPart, ModelCall, OnPart, StreamPart } from "../domain/Model.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import * as Usage from "../domain/Usage.ts"
import { makeApiRequestId } from "../hooks/Correlation.ts"
import type { Interceptors } from "../middleware/Interceptors.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import * as ModelCalls from "../routing/ModelCalls.ts"
import type { Service as ModelRouter } from "../routing/ModelRouter.ts"
import type { Service as SessionStore } from "../session/SessionStore.ts"
import * as ToolCalls from "../tool/ToolCalls.ts"
import type { ToolContext } from "../tool/ToolContext.ts"
import type { Service as ToolRegistry, Snapshot } from "../tool/ToolRegistry.ts"
import * as Outcome from "./Outcome.ts"
import type { AgentSettings } from "./RunInput.ts"
import { emit, type RunState } from "./RunState.ts"

/**
 * The services that a step works with. `E` is what the middleware of the stack can fail a model call with; it stands in
 * the type alone.
 */
export interface Services<out E = never> {
  readonly Error?: E
  readonly router: ModelRouter
  readonly registry: ToolRegistry
  readonly store: SessionStore
  readonly interceptors: Interceptors
  readonly settings: AgentSettings
}

/** The facts that a piece of an answer is to a user. */
const eventsOf = (parts: ReadonlyArray<StreamPart>): Array<RunEvent> => {
  const events: Array<RunEvent> = []
  for (const part of parts) {
    switch (part.type) {
      case "text-delta":
        events.push({ _tag: "TextDelta", text: part.delta })
        break
      case "reasoning-delta":
        events.push({ _tag: "ReasoningDelta", text: part.delta })
        break
      case "tool-params-start":
        events.push({ _tag: "ToolInputStarted", callId: part.id, name: part.name })
        break
      case "tool-params-delta":
        events.push({ _tag: "ToolInputDelta", callId: part.id, text: part.delta })
        break
    }
  }
  return events
}

/** Passes on what streams by, and remembers the text in case the answer never ends. */
const watch = (run: RunState): OnPart => (parts) => {
  for (const part of parts) {
    if (part.type === "text-delta") run.text += part.delta
  }
  if (run.emit === undefined) return Effect.succeed(parts)
  const events = eventsOf(parts)
  return events.length === 0 ? Effect.succeed(parts) : Effect.as(run.emit(events), parts)
}

const promptPart = (step: number) => (part: ContentPart, index: number): Prompt.AssistantMessagePart => {
  switch (part.type) {
    case "text":
      return Prompt.textPart({ text: part.text, options: part.metadata })
    case "reasoning":
      return Prompt.reasoningPart({ text: part.text, options: part.metadata })
    case "file":
      return Prompt.filePart({ mediaType: part.mediaType, data: part.data, options: part.metadata })
    case "tool-call":
      return Prompt.toolCallPart({
        // An answer without an id gets one that is the same whenever it is read again.
        id: part.id === "" ? `call_${step}_${index}` : part.id,
        name: part.name,
        params: part.params,
        providerExecuted: part.providerExecuted,
        options: part.metadata
      })
  }
}

/** Puts messages into the conversation and the store, at once. */
export const append = (
  { store }: Pick<Services, "store">,
  run: RunState,
  ...messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<void, SessionStoreError> => {
  run.messages.push(...messages)
  return store.append(run.sessionId, messages)
}

/** One question to the model, with or without tools, accounted for. */
export const ask = Effect.fnUntraced(function*<E>(
  services: Services<E>,
  run: RunState,
  call: Pick<ModelCall, "messages" | "tools" | "toolChoice">
): Effect.fn.Return<ModelAnswer, AiError.AiError | SessionStoreError | E> {
  const { settings } = services
  const question: ModelCall = {
    ...call,
    responseFormat: { type: "text" },
    stream: run.streaming,
    maxOutputTokens: settings.maxOutputTokens,
    temperature: settings.temperature,
    reasoningEffort: settings.reasoningEffort,
    sessionId: run.sessionId
  }
  run.text = ""
  run.textStored = false
  const answer = yield* ModelCalls.run<E>(services.router, services.interceptors, {
    call: question,
    context: {
      sessionId: run.sessionId,
      taskId: run.taskId,
      turnId: run.turnId,
      platform: run.platform,
      apiCallCount: run.steps
    },
    userMessage: run.userMessage,
    options: run.streaming ? { onPart: watch(run) } : undefined
  })
  run.route = answer.route
  run.attempt = answer.attempt
  const usage = Usage.fromResponse(answer.response.usage)
  run.usage = Usage.add(run.usage, usage)
  const { provider, model } = answer.route
  yield* services.store.recordUsage(run.sessionId, { provider, model, usage })
  if (run.emit !== undefined) {
    yield* run.emit([{ _tag: "UsageReported", step: run.steps, provider, model, usage }])
  }
  return answer
})

/** The text of an answer; shown now if none of it was streamed. */
export const showText = (run: RunState, parts: ReadonlyArray<ContentPart>): Effect.Effect<string> => {
  let text = ""
  for (const part of parts) {
    if (part.type === "text") text += part.text
  }
  const streamed = run.text !== ""
  run.text = text
  return streamed || text === "" ? Effect.succeed(text) : Effect.as(emit(run, { _tag: "TextDelta", text }), text)
}

const runTools = <E>(
  { interceptors, store }: Services<E>,
  run: RunState,
  calls: ReadonlyArray<Prompt.ToolCallPart>,
  tools: Snapshot
): Effect.Effect<ReadonlyArray<Prompt.ToolMessage>, SessionStoreError, ToolContext> => {
  for (const call of calls) run.open.set(call.id, call)
  return ToolCalls.run({
    calls,
    tools,
    interceptors,
    ids: {
      sessionId: run.sessionId,
      taskId: run.taskId,
      turnId: run.turnId,
      apiRequestId: makeApiRequestId(run.turnId, run.steps, run.attempt)
    },
    emit: run.emit,
    settled: (call, message) =>
      Effect.tap(store.append(run.sessionId, [message]), () => Effect.sync(() => run.open.delete(call.id)))
  })
}

/** See the module. */
export const step = Effect.fnUntraced(function*<E>(
  services: Services<E>,
  run: RunState
): Effect.fn.Return<Outcome.Outcome, AiError.AiError | SessionStoreError | E, ToolContext> {
  yield* emit(run, { _tag: "StepStarted", step: run.steps })
  const tools = yield* services.registry.snapshot(run.tools)
  const { response } = yield* ask(services, run, {
    messages: run.messages,
    tools: tools.definitions,
    toolChoice: "auto"
  })
  const text = yield* showText(run, response.parts)
  const content = response.parts.map(promptPart(run.steps))
  const calls = content.filter((part): part is Prompt.ToolCallPart => part.type === "tool-call" && !part.providerExecuted)
  const finished = emit(run, { _tag: "StepFinished", step: run.steps, finishReason: response.finishReason })

  if (response.finishReason === "length") {
    const kept = content.filter((part) => part.type !== "tool-call")
    if (text !== "") yield* append(services, run, Prompt.assistantMessage({ content: kept }))
    run.textStored = true
    return yield* Effect.as(finished, { _tag: "Truncated" as const, text, calls })
  }
  if (calls.length === 0 && response.finishReason === "pause") {
    if (content.length > 0) yield* append(services, run, Prompt.assistantMessage({ content }))
    run.textStored = true
    return yield* Effect.as(finished, { _tag: "Paused" as const, text })
  }
  if (calls.length === 0 && text === "") {
    return yield* Effect.as(
      finished,
      response.finishReason === "content-filter" ? { _tag: "Filtered" as const, text } : Outcome.empty
    )
  }
  yield* append(services, run, Prompt.assistantMessage({ content }))
  run.textStored = true
  if (calls.length === 0) {
    const outcome = response.finishReason === "content-filter" ? "Filtered" as const : "Finished" as const
    return yield* Effect.as(finished, { _tag: outcome, text })
  }
  const results = yield* runTools(services, run, calls, tools)
  run.messages.push(...results)
  return yield* Effect.as(finished, Outcome.continued)
})
