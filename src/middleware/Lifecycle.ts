/**
 * Lifecycle middleware: a record or a class instance with optional methods for the phases of a run.
 *
 * **Details**
 *
 * | method | runs | may change |
 * | --- | --- | --- |
 * | `beforeAgent` | once, before the user's message is stored | `messages` |
 * | `afterAgent` | once, however the run ends | `agentResponse` |
 * | `beforeModel` | before each step's model call | `messages` (stored), `promptMessages` (this call only), `compaction` |
 * | `afterModel` | after each step's answer, before its tools | `parsedResponse`, `messages`, `forceContinue` |
 * | `beforeTool` | before each tool call | `toolInput`; or {@link deny}, {@link skip} |
 * | `afterTool` | after each tool call | `toolOutput`, `llmToolOutput` |
 * | `streamPart` | for the parts of a streamed answer, before any wrapper of it | `parts`; an empty list removes them |
 * | `wrapModelCall`, `wrapToolCall` | around the whole call | see `Middleware.wrapModelCall`, `Middleware.wrapToolCall` |
 *
 * Each name may also be written in snake_case (`before_agent`). A method returns {@link noChanges},
 * {@link withModifications}, a result that controls the loop (`endWith`, `goToModel`, …; see `LoopControl`), nothing,
 * or a promise or an Effect of one of these. Returning a field or a result that a phase does not use is a type error.
 * `before*` methods and `streamPart` run first to last, `after*` methods last to first, and the first wrapper is
 * outermost; each method sees the changes of the methods before it.
 *
 * A method that fails or takes longer than 30 s is skipped with a warning; with `onFailure: "closed"` the call or the
 * run fails. `ExecutionBlocked` is a veto in every phase.
 *
 * **Gotchas**
 *
 * A record is shared by all runs at the same time. State of one run belongs in the methods that
 * `Middleware.lifecyclePerRun` creates for each run. Messages that `beforeAgent` or `beforeModel` removes are omitted
 * from the run, but the session retains them; `afterModel` can only add messages.
 *
 * Source: the lifecycle document, `nexau.md` §1, `ARCHITECTURE.md` §5 and §6.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import { ConfigError } from "../base/domain/AgentError.ts"
import type { CompactionPlan } from "../base/domain/CompactionPlan.ts"
import type { SessionId, TaskId, ToolCallId, TurnId } from "../base/domain/Ids.ts"
import type { ModelResponse, StreamPart } from "../base/domain/ModelCall.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import type { Usage } from "../base/domain/Usage.ts"
import type { OnFailure, ToolAnnotations, ToolArguments } from "./Kind.ts"
import type { EndNow, EndWith, GoToModel, GoToTools } from "./LoopControl.ts"
import type { StateKey } from "./StateKey.ts"
import type { ModelCallWrap, ToolWrap } from "./Middleware.ts"

/** Phases before and after an operation, in the order of a run, and the phase while an answer streams. */
const phases = [
  "beforeAgent",
  "afterAgent",
  "beforeModel",
  "afterModel",
  "beforeTool",
  "afterTool",
  "streamPart"
] as const

/** A phase in {@link phases}. */
export type Phase = (typeof phases)[number]

/** Names of all methods. */
export const methodNames = [...phases, "wrapModelCall", "wrapToolCall"] as const

/** Facts about the run for which a method is called. */
export interface RunFacts {
  readonly sessionId: SessionId
  readonly taskId: TaskId
  readonly turnId: TurnId
  readonly platform: string
  /** True if the run belongs to a sub-agent. */
  readonly isChild: boolean
  /** Name of the side task, for the parts of its answer. Absent for the run itself. */
  readonly task?: string | undefined
  /** Absolute working directory of the tools. Absent for a tool call outside of a run. */
  readonly cwd?: string | undefined
  /** Maximum number of model calls with tools. Absent for a tool call outside of a run. */
  readonly maxIterations?: number | undefined
  /** Reports events to the observers of the run. Absent if there are no observers. */
  readonly notify?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
}

interface ConversationInput {
  readonly run: RunFacts
  /** Messages of the conversation, the system message first. */
  readonly messages: ReadonlyArray<Prompt.Message>
}

/** Input of `beforeAgent`. */
export type BeforeAgentInput = ConversationInput

/** Reason for the end of a run, in the terms of the lifecycle document. */
export type StopReason =
  | "SUCCESS"
  | "MAX_ITERATIONS_REACHED"
  | "USER_INTERRUPTED"
  | "CONTEXT_TOKEN_LIMIT"
  | "STOP_TOOL_TRIGGERED"
  | "ERROR_OCCURRED"

/** Input of `afterAgent`. */
export interface AfterAgentInput extends ConversationInput {
  /** Final text, or `Error: …` for a failed run, whose changes are ignored. */
  readonly agentResponse: string
  readonly stopReason: StopReason
  /** Usage of the run, including its children. */
  readonly usage: Usage
}

/** Input of `beforeModel`. */
export interface BeforeModelInput extends ConversationInput {
  /** Messages that are sent after the conversation in this call only and never stored. */
  readonly promptMessages: ReadonlyArray<Prompt.Message>
  /** Compactions requested by earlier middleware. */
  readonly compaction: ReadonlyArray<CompactionPlan>
  /** Prompt tokens of the last request, as counted by the provider. Absent before the first answer. */
  readonly promptTokens?: number | undefined
  /** Context window of the model in tokens, if known. */
  readonly contextWindow: Effect.Effect<number | undefined>
  /** From 0. */
  readonly currentIteration: number
  readonly maxIterations: number
  /** Usage of the run so far, including its children. */
  readonly usage: Usage
  /** Number of tokens that the run may still use. Absent without a limit. */
  readonly tokensLeft?: number | undefined
}

/** A tool call in an answer. */
export interface ParsedCall {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

/** An answer that `afterModel` may change: its text, and the calls that are run. */
export interface ParsedResponse {
  readonly text: string
  readonly toolCalls: ReadonlyArray<ParsedCall>
}

/** Input of `afterModel`. `messages` does not include the answer. */
export interface AfterModelInput extends Omit<
  BeforeModelInput,
  "compaction" | "contextWindow" | "promptMessages" | "promptTokens" | "tokensLeft"
> {
  /** Original text from the model. */
  readonly originalResponse: string
  readonly parsedResponse: ParsedResponse
  readonly modelResponse: ModelResponse
}

/** Input of `beforeTool`. */
export interface BeforeToolInput {
  readonly run: RunFacts
  readonly toolName: string
  readonly toolCallId: ToolCallId
  /** Annotations of the tool. */
  readonly annotations: ToolAnnotations
  readonly toolInput: ToolArguments
  /** Id shared by all calls of one answer. */
  readonly parallelExecutionId: string
}

/** Input of `afterTool`. */
export interface AfterToolInput extends BeforeToolInput {
  /** Result of the tool. */
  readonly toolOutput: unknown
  /** Text for the model if it differs from the rendering of `toolOutput`, otherwise `undefined`. */
  readonly llmToolOutput: unknown
  readonly isError: boolean
}

/** Input of `streamPart`. */
export interface StreamPartInput {
  readonly run: RunFacts
  /** Parts that arrived together, after changes by earlier middleware. */
  readonly parts: ReadonlyArray<StreamPart>
}

/** Fields that a method may change. A new value replaces the whole field. */
export interface Fields {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly promptMessages: ReadonlyArray<Prompt.Message>
  /** Compactions of the run's conversation before the call, in this order. The stored session stays complete. */
  readonly compaction: ReadonlyArray<CompactionPlan>
  readonly parsedResponse: ParsedResponse
  /** True to continue with another model call although the answer calls no tool. Limited to eight consecutive times. */
  readonly forceContinue: boolean
  readonly toolInput: ToolArguments
  /** Result of the tool. It is rendered again for the model, unless `llmToolOutput` was set. */
  readonly toolOutput: unknown
  readonly llmToolOutput: unknown
  readonly agentResponse: string
  readonly parts: ReadonlyArray<StreamPart>
}

/** Result of a method that changes nothing. */
export interface NoChanges {
  readonly _tag: "NoChanges"
}

/** Result of a method that changes some fields. */
export interface Modifications<out Keys extends keyof Fields> {
  readonly _tag: "Modifications"
  readonly keys: ReadonlyArray<Keys>
  readonly fields: Readonly<Partial<Fields>>
}

/** A tool call that is not run. The model receives the reason as an error. */
export interface DeniedCall {
  readonly _tag: "Denied"
  readonly reason: string
}

/** A tool call that is not run. The model receives the given result instead. */
export interface SkippedCall {
  readonly _tag: "Skipped"
  readonly result: unknown
}

/** Leaves all fields unchanged. */
export const noChanges: NoChanges = { _tag: "NoChanges" }

type UnknownFields<F> = { readonly [P in Exclude<keyof F, keyof Fields>]: never }

/** Changes the given fields. A field that is undefined or null stays unchanged. */
export const withModifications = <const F extends { readonly [P in keyof Fields]?: Fields[P] | undefined }>(
  fields: F & UnknownFields<F>
): Modifications<Extract<keyof F, keyof Fields>> => {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  return {
    _tag: "Modifications",
    // `keys` are the keys of `fields`.
    keys: given.map(([key]) => key) as unknown as ReadonlyArray<Extract<keyof F, keyof Fields>>,
    fields: Object.fromEntries(given)
  }
}

/** Denies a tool call. */
export const deny = (reason: string): DeniedCall => ({ _tag: "Denied", reason })

/** Skips a tool call and uses the given result instead. */
export const skip = (result: unknown): SkippedCall => ({ _tag: "Skipped", result })

/** Result of a method, as a value, a promise or an Effect. */
type MethodAnswer<Keys extends keyof Fields, Needs, More = never> =
  | MethodResult<Keys, More>
  | PromiseLike<MethodResult<Keys, More>>
  | Effect.Effect<MethodResult<Keys, More>, unknown, Needs>

type MethodResult<Keys extends keyof Fields, More> = NoChanges | Modifications<Keys> | More | void

/** Results of `afterModel` that control the loop. */
type AfterModelControl = EndWith | EndNow | GoToModel | GoToTools

/**
 * Methods of lifecycle middleware; see the table above. `Caught` and `Fails` are the failure types of `wrapModelCall`.
 */
export interface Methods<Caught = never, Fails = never, Needs = never> {
  readonly beforeAgent?: ((input: BeforeAgentInput) => MethodAnswer<"messages", Needs, EndWith>) | undefined
  readonly afterAgent?: ((input: AfterAgentInput) => MethodAnswer<"agentResponse", Needs>) | undefined
  readonly beforeModel?:
    | ((
        input: BeforeModelInput
      ) => MethodAnswer<"messages" | "promptMessages" | "compaction", Needs, EndWith | GoToTools>)
    | undefined
  readonly afterModel?:
    | ((
        input: AfterModelInput
      ) => MethodAnswer<"parsedResponse" | "messages" | "forceContinue", Needs, AfterModelControl>)
    | undefined
  readonly beforeTool?:
    | ((input: BeforeToolInput) => MethodAnswer<"toolInput", Needs, DeniedCall | SkippedCall>)
    | undefined
  readonly afterTool?:
    | ((input: AfterToolInput) => MethodAnswer<"toolOutput" | "llmToolOutput", Needs, EndWith | EndNow>)
    | undefined
  readonly streamPart?: ((input: StreamPartInput) => MethodAnswer<"parts", Needs>) | undefined
  readonly wrapModelCall?: ModelCallWrap<Caught, Fails, Needs> | undefined
  readonly wrapToolCall?: ToolWrap<never, unknown, Needs> | undefined
  readonly before_agent?: ((input: BeforeAgentInput) => MethodAnswer<"messages", Needs, EndWith>) | undefined
  readonly after_agent?: ((input: AfterAgentInput) => MethodAnswer<"agentResponse", Needs>) | undefined
  readonly before_model?:
    | ((
        input: BeforeModelInput
      ) => MethodAnswer<"messages" | "promptMessages" | "compaction", Needs, EndWith | GoToTools>)
    | undefined
  readonly after_model?:
    | ((
        input: AfterModelInput
      ) => MethodAnswer<"parsedResponse" | "messages" | "forceContinue", Needs, AfterModelControl>)
    | undefined
  readonly before_tool?:
    | ((input: BeforeToolInput) => MethodAnswer<"toolInput", Needs, DeniedCall | SkippedCall>)
    | undefined
  readonly after_tool?:
    | ((input: AfterToolInput) => MethodAnswer<"toolOutput" | "llmToolOutput", Needs, EndWith | EndNow>)
    | undefined
  readonly stream_part?: ((input: StreamPartInput) => MethodAnswer<"parts", Needs>) | undefined
  readonly wrap_model_call?: ModelCallWrap<Caught, Fails, Needs> | undefined
  readonly wrap_tool_call?: ToolWrap<never, unknown, Needs> | undefined
}

/** A method with erased types. */
type ErasedMethod = (...args: ReadonlyArray<unknown>) => unknown

/** Methods by their camelCase names, bound to their object. */
export type BoundMethods = { readonly [K in (typeof methodNames)[number]]?: ErasedMethod }

/** Lifecycle middleware as the stack runs it. */
export interface Entry {
  readonly kind: "lifecycle"
  readonly name: string
  readonly onFailure: OnFailure
  /** Keys of the run state that this middleware stores; see {@link StateKey}. */
  readonly state?: ReadonlyArray<StateKey<unknown>> | undefined
  /**
   * Set when this middleware decides when to compact the conversation. The runtime then compacts the conversation only
   * if a provider rejects it.
   */
  readonly compaction?: { readonly whenRefused: boolean } | undefined
  /** Methods that all runs share. `undefined` if they are created for each run. */
  readonly shared: BoundMethods | undefined
  /** Creates the methods of one run. */
  readonly make: (run: RunFacts) => Effect.Effect<BoundMethods, unknown, unknown>
}

/** Converts a name such as `beforeModel` to `before_model`. */
export const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Reads the methods of a record or a class instance. Throws if a method has two spellings or is not a function. */
export const bind = (name: string, methods: object): BoundMethods => {
  const bound: Record<string, ErasedMethod> = {}
  for (const camel of methodNames) {
    const spelled = [camel, toSnakeCase(camel)].filter((key) => Predicate.isNotNullish(Reflect.get(methods, key)))
    const [key] = spelled
    if (key === undefined) continue
    if (spelled.length > 1) {
      throw new ConfigError({
        path: name,
        message: `lifecycle middleware "${name}" has both ${camel} and ${toSnakeCase(camel)}: keep one of them`
      })
    }
    const method: unknown = Reflect.get(methods, key)
    if (!Predicate.isFunction(method)) {
      throw new ConfigError({ path: name, message: `${key} of lifecycle middleware "${name}" is not a function` })
    }
    bound[camel] = (...args) => Reflect.apply(method, methods, args)
  }
  return bound
}
