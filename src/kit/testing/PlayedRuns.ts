/**
 * Runs with a scripted model for the rules of middleware and hooks. Events, stored messages, requests and tool calls
 * are recorded.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../agent/Agent.ts"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import { Provider, type Service } from "../../models/provider/Provider.ts"
import * as Scripted from "../../models/provider/Scripted.ts"
import * as RetryPolicy from "../../models/routing/RetryPolicy.ts"
import * as SessionSearch from "../../store/SessionSearch.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import * as Toolset from "../../tools/Toolset.ts"
import { makeEventRecorder } from "./TestRun.ts"

/**
 * Parts of a runtime that a rule provides. Pass all of them to the runtime, including parts added in later versions.
 */
export interface Parts {
  readonly provider: Layer.Layer<Provider>
  readonly tools: ReadonlyArray<Toolset.Toolset>
  readonly retry: RetryPolicy.RetryPolicy
  /** Session store; `undefined` for the default. */
  readonly store?: Layer.Layer<SessionStore.SessionStore | SessionSearch.SessionSearch>
}

/** Creates a runtime from parts. */
export interface MakeRuntime {
  (parts: Parts): Layer.Layer<Agent.Agent, unknown>
}

const Note = Tool.make("note", {
  description: "Takes a note",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
})
const Refuse = Tool.make("refuse", {
  description: "Always fails",
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
})
const Break = Tool.make("break", { description: "Has a fault", success: Schema.String })
const toolkit = Toolkit.make(Note, Refuse, Break)

/** Creates a temporary model error. */
export const makeOverloadedError = () => new AiError.InternalProviderError({ description: "overloaded" })

/** Scripted turns of the model. */
const scripts = {
  answer: [Scripted.complete({ pieces: ["It ", "is ", "done."] })],
  tool: [Scripted.complete({ toolCalls: [{ name: "note", params: { text: "a" } }] }), Scripted.complete("Noted.")],
  "failed tool": [Scripted.complete({ toolCalls: [{ name: "refuse", params: {} }] }), Scripted.complete("It failed.")],
  "tool with a fault": [
    Scripted.complete({ toolCalls: [{ name: "break", params: {} }] }),
    Scripted.complete("It broke.")
  ],
  "unknown tool": [
    Scripted.complete({ toolCalls: [{ name: "nothing_like_it", params: {} }] }),
    Scripted.complete("I see.")
  ],
  "broken arguments": [
    Scripted.complete({ toolCalls: [{ name: "note", params: '{"text": ' }] }),
    Scripted.complete("I see."),
    Scripted.complete("I see.")
  ],
  "failed model": [Scripted.fail(makeOverloadedError())],
  "failed model in its text": [Scripted.fail(makeOverloadedError(), { pieces: ["It ", "is "] })],
  "model that fails once": [Scripted.fail(makeOverloadedError()), Scripted.complete("It is done.")],
  "silent model": [Scripted.hang({ pieces: ["It "] })]
} as const

/** Name of a script. */
export type Script = keyof typeof scripts

/** The result of a tool call as the model and the reader of events receive it. */
export interface ToolEnd {
  readonly status: string
  readonly output: string
}

/** The end of a run, with its record. */
export interface PlayedEnd {
  /** Exit of the result, or the tags of the failure. */
  readonly exit: string
  readonly failure: unknown
  readonly isDefect: boolean
  readonly isInterrupted: boolean
  readonly text: string
  /** Text of the last step, as received by a reader of the events. */
  readonly shown: string
  /** Number of requests to the model. */
  readonly requests: number
  /** Number of times that the tool `note` ran. */
  readonly notes: number
  readonly results: ReadonlyArray<ToolEnd>
  readonly warnings: ReadonlyArray<string>
}

const collectWarnings = (warnings: Array<string>) =>
  Logger.layer([
    Logger.make(({ logLevel, message }) => {
      if (logLevel === "Warn" || logLevel === "Error" || logLevel === "Fatal")
        warnings.push(Array.isArray(message) ? message.map(String).join(" ") : String(message))
    })
  ])

const readTag = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : String(error)

/** Returns the text of the last step, after all retractions. */
const readShownText = (events: ReadonlyArray<RunEvent>): string => {
  const steps = new Map<number, string>()
  let step = 0
  for (const event of events) {
    if (event._tag === "StepStarted") step = event.step
    if (event._tag === "TextDelta") steps.set(step, (steps.get(step) ?? "") + event.text)
    if (event._tag === "TextReplaced") steps.set(event.stepId, event.text)
  }
  return steps.get(step) ?? ""
}

/** Options of a played run. */
export interface PlayOptions {
  /** Maximum number of attempts of a model call. Defaults to 1. */
  readonly attempts?: number
  readonly store?: Parts["store"]
  /** Effect after which the run is interrupted. */
  readonly interruptedAt?: Effect.Effect<void>
}

/** Plays a script, and returns the end of the run with its record. */
export const play = (
  runtime: MakeRuntime,
  script: Script,
  { attempts = 1, interruptedAt, store }: PlayOptions = {}
): Effect.Effect<PlayedEnd> =>
  Effect.gen(function* () {
    const { provider } = yield* Scripted.make(scripts[script])
    let requests = 0
    const counting: Service = {
      ...provider,
      execute: (request, options) =>
        Effect.suspend(() => {
          requests++
          return provider.execute(request, options)
        })
    }
    const { all, events, onEvent } = makeEventRecorder()
    const warnings: Array<string> = []
    let notes = 0
    const handlers = toolkit.toLayer({
      note: () => Effect.sync(() => `noted ${++notes}`),
      refuse: () => Effect.fail("refused"),
      break: () => Effect.die(new Error("a fault"))
    })
    const layer = runtime({
      provider: Layer.succeed(Provider, counting),
      tools: [Toolset.make("notes", toolkit, handlers)],
      retry: RetryPolicy.make({ attempts }),
      ...(store === undefined ? {} : { store })
    })
    const fiber = yield* Agent.run({ prompt: "Do it.", onEvent, streaming: true }).pipe(
      Effect.provide(layer),
      Effect.provide(collectWarnings(warnings)),
      Effect.forkChild
    )
    if (interruptedAt !== undefined) {
      yield* Effect.raceFirst(interruptedAt, Effect.asVoid(Fiber.await(fiber)))
      yield* Fiber.interrupt(fiber)
    }
    const exit = yield* Fiber.await(fiber)
    const failures = Exit.isFailure(exit)
      ? exit.cause.reasons.flatMap((reason) => (reason._tag === "Fail" ? [reason.error] : []))
      : []
    return {
      exit: Exit.isSuccess(exit)
        ? exit.value.exit
        : exit.cause.reasons.map((reason) => (reason._tag === "Fail" ? readTag(reason.error) : reason._tag)).join(),
      failure: failures[0],
      isDefect: Exit.isFailure(exit) && Cause.hasDies(exit.cause),
      isInterrupted: Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause),
      text: Exit.isSuccess(exit) ? exit.value.text : "",
      shown: readShownText(all()),
      requests,
      notes,
      results: events("ToolFinished").map(({ output, status }) => ({ status, output })),
      warnings
    }
  })

/** Advances `TestClock` until an effect ends, yielding to the event loop in between. */
export const advanceClockUntilDone = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    while (fiber.pollUnsafe() === undefined) {
      yield* Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve)))
      yield* TestClock.adjust("30 seconds")
    }
    return yield* Fiber.join(fiber)
  })

/** Creates a store in memory whose operation with this name always fails, as on a full disk. */
export const makeFailingStore = (operation: "append" | "create" | "begin" | "messages"): NonNullable<Parts["store"]> =>
  Layer.effect(
    SessionStore.SessionStore,
    Effect.map(SessionStore.SessionStore, (inner) => {
      const failOperation = () =>
        Effect.fail(new SessionStoreError({ operation, message: "the disk is full: make room and try again" }))
      return SessionStore.SessionStore.of({ ...inner, [operation]: failOperation })
    })
  ).pipe(Layer.provideMerge(SessionStore.layerMemory))
