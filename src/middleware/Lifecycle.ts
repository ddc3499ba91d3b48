/**
 * Lifecycle middleware: one record, or an object of a class, with a method for each phase of a run, all optional.
 *
 * **Details**
 *
 * | method | runs | may change |
 * | --- | --- | --- |
 * | `beforeAgent` | once, before the user's message is stored | `messages` |
 * | `afterAgent` | once, on every ending | `agentResponse` |
 * | `beforeModel` | before each step's model call | `messages` (stored), `promptMessages` (this call only), `compaction` |
 * | `afterModel` | after each step's answer, before its tools | `parsedResponse`, `messages`, `forceContinue` |
 * | `beforeTool` | before each tool call | `toolInput`; or {@link deny}, {@link skip} |
 * | `afterTool` | after each tool call | `toolOutput`, `llmToolOutput` |
 * | `streamPart` | for the parts of a streamed answer, before any wrapper of it | `parts`; an empty list cuts |
 * | `wrapModelCall`, `wrapToolCall` | around the whole call | see `Middleware.wrapModelCall`, `Middleware.wrapToolCall` |
 *
 * Each may be spelled in snake_case too (`before_agent`). A method returns {@link noChanges},
 * {@link withModifications}, nothing, or a promise or an Effect of one of these. A field that a phase does not use does
 * not compile. `before*` methods and `streamPart` run first to last, `after*` methods last to first, and the first
 * wrapper is outermost; each sees what the ones before it have changed.
 *
 * A method that fails or takes longer than 30 s is skipped with a warning; with `onFailure: "closed"` the call or the
 * run fails. `ExecutionBlocked` is a veto in every phase.
 *
 * **Gotchas**
 *
 * A record is shared by all runs at the same time. State of one run belongs in the methods that
 * `Middleware.lifecyclePerRun` makes for each run. Messages that `beforeAgent` or `beforeModel` removes are left out of
 * the run, but the session retains them; `afterModel` can only add messages.
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
import type { OnFailure, ToolArguments } from "./Kind.ts"
import type { StateKey } from "./StateKey.ts"
import type { ModelCallWrap, ToolWrap } from "./Middleware.ts"

/** The phases before and after something, in the order of a run, and the one while an answer streams. */
const phases = [
  "beforeAgent",
  "afterAgent",
  "beforeModel",
  "afterModel",
  "beforeTool",
  "afterTool",
  "streamPart"
] as const

/** One of {@link phases}. */
export type Phase = (typeof phases)[number]

/** Every method. */
export const methodNames = [...phases, "wrapModelCall", "wrapToolCall"] as const

/** Run that a method is called for. */
export interface RunFacts {
  readonly sessionId: SessionId
  readonly taskId: TaskId
  readonly turnId: TurnId
  readonly platform: string
  /** True for a run of a sub-agent. */
  readonly isChild: boolean
  /** Absolute working directory of the tools; absent for a tool call outside of a run. */
  readonly cwd?: string | undefined
  /** Model calls with tools at most; absent for a tool call outside of a run. */
  readonly maxIterations?: number | undefined
  /** Reports events to the observers of the run; absent when there are no observers. */
  readonly notify?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
}

interface ConversationInput {
  readonly run: RunFacts
  /** System message first. */
  readonly messages: ReadonlyArray<Prompt.Message>
}

/** Input of `beforeAgent`. */
export type BeforeAgentInput = ConversationInput

/** Reason of a run's end, in the words of the lifecycle document. */
export type StopReason =
  | "SUCCESS"
  | "MAX_ITERATIONS_REACHED"
  | "USER_INTERRUPTED"
  | "CONTEXT_TOKEN_LIMIT"
  | "STOP_TOOL_TRIGGERED"
  | "ERROR_OCCURRED"

/** Input of `afterAgent`. */
export interface AfterAgentInput extends ConversationInput {
  /** The final text; `Error: …` for a run that failed, whose changes are dropped. */
  readonly agentResponse: string
  readonly stopReason: StopReason
  /** Use of the run, its children included. */
  readonly usage: Usage
}

/** Input of `beforeModel`. */
export interface BeforeModelInput extends ConversationInput {
  /** Sent after the conversation in this call only, never stored. */
  readonly promptMessages: ReadonlyArray<Prompt.Message>
  /** Asked for by middleware before this one. */
  readonly compaction: ReadonlyArray<CompactionPlan>
  /** Tokens of the last request, as the provider counted them; absent before the first answer. */
  readonly promptTokens?: number | undefined
  /** Tokens that the model holds, where that is known. */
  readonly contextWindow: Effect.Effect<number | undefined>
  /** From 0. */
  readonly currentIteration: number
  readonly maxIterations: number
  /** Use of the run so far, its children included. */
  readonly usage: Usage
  /** Tokens that the run may still use; absent without a limit. */
  readonly tokensLeft?: number | undefined
}

/** A call of a tool that an answer asks for. */
export interface ParsedCall {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

/** An answer as `afterModel` may change it: its text, and the calls that are run. */
export interface ParsedResponse {
  readonly text: string
  readonly toolCalls: ReadonlyArray<ParsedCall>
}

/** Input of `afterModel`; `messages` ends before the answer. */
export interface AfterModelInput extends Omit<
  BeforeModelInput,
  "compaction" | "contextWindow" | "promptMessages" | "promptTokens" | "tokensLeft"
> {
  /** Text of the model. */
  readonly originalResponse: string
  readonly parsedResponse: ParsedResponse
  readonly modelResponse: ModelResponse
}

/** Input of `beforeTool`. */
export interface BeforeToolInput {
  readonly run: RunFacts
  readonly toolName: string
  readonly toolCallId: ToolCallId
  readonly toolInput: ToolArguments
  /** The same for all calls of one answer. */
  readonly parallelExecutionId: string
}

/** Input of `afterTool`. */
export interface AfterToolInput extends BeforeToolInput {
  /** Result of the tool. */
  readonly toolOutput: unknown
  /** Text for the model if it differs from the rendering of `toolOutput`; otherwise undefined. */
  readonly llmToolOutput: unknown
  readonly isError: boolean
}

/** Input of `streamPart`. */
export interface StreamPartInput {
  readonly run: RunFacts
  /** Parts that arrived at once, as the ones before left them. */
  readonly parts: ReadonlyArray<StreamPart>
}

/** Fields that a method may change; each replaces the whole value. */
export interface Fields {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly promptMessages: ReadonlyArray<Prompt.Message>
  /** Has the conversation of the run made smaller before the call, in this order; the stored session stays whole. */
  readonly compaction: ReadonlyArray<CompactionPlan>
  readonly parsedResponse: ParsedResponse
  /** Goes on with another model call where the answer asks for no tool; eight times in a row at most. */
  readonly forceContinue: boolean
  readonly toolInput: ToolArguments
  /** Rendered anew for the model, unless `llmToolOutput` was set. */
  readonly toolOutput: unknown
  readonly llmToolOutput: unknown
  readonly agentResponse: string
  readonly parts: ReadonlyArray<StreamPart>
}

/** No change. */
export interface NoChanges {
  readonly _tag: "NoChanges"
}

/** Changes of some fields. */
export interface Modifications<out Keys extends keyof Fields> {
  readonly _tag: "Modifications"
  readonly keys: ReadonlyArray<Keys>
  readonly fields: Readonly<Partial<Fields>>
}

/** A tool call that is not run: the model gets the reason as an error. */
export interface DeniedCall {
  readonly _tag: "Denied"
  readonly reason: string
}

/** A tool call that is not run: the model gets the result in its place. */
export interface SkippedCall {
  readonly _tag: "Skipped"
  readonly result: unknown
}

/** Leaves everything as it is. */
export const noChanges: NoChanges = { _tag: "NoChanges" }

type UnknownFields<F> = { readonly [P in Exclude<keyof F, keyof Fields>]: never }

/** Changes the named fields; a field that is undefined or null is left as it is. */
export const withModifications = <const F extends { readonly [P in keyof Fields]?: Fields[P] | undefined }>(
  fields: F & UnknownFields<F>
): Modifications<Extract<keyof F, keyof Fields>> => {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  return {
    _tag: "Modifications",
    // The keys are the keys of `fields`.
    keys: given.map(([key]) => key) as unknown as ReadonlyArray<Extract<keyof F, keyof Fields>>,
    fields: Object.fromEntries(given)
  }
}

/** Refuses a tool call. */
export const deny = (reason: string): DeniedCall => ({ _tag: "Denied", reason })

/** Answers a tool call in the tool's place. */
export const skip = (result: unknown): SkippedCall => ({ _tag: "Skipped", result })

/** Result of a method: at once, as a promise or as an Effect. */
type MethodAnswer<Keys extends keyof Fields, Needs, More = never> =
  | MethodResult<Keys, More>
  | PromiseLike<MethodResult<Keys, More>>
  | Effect.Effect<MethodResult<Keys, More>, unknown, Needs>

type MethodResult<Keys extends keyof Fields, More> = NoChanges | Modifications<Keys> | More | void

/** The methods; see the table above. `Caught` and `Fails` are the failure types of `wrapModelCall`. */
export interface Methods<Caught = never, Fails = never, Needs = never> {
  readonly beforeAgent?: ((input: BeforeAgentInput) => MethodAnswer<"messages", Needs>) | undefined
  readonly afterAgent?: ((input: AfterAgentInput) => MethodAnswer<"agentResponse", Needs>) | undefined
  readonly beforeModel?:
    | ((input: BeforeModelInput) => MethodAnswer<"messages" | "promptMessages" | "compaction", Needs>)
    | undefined
  readonly afterModel?:
    | ((input: AfterModelInput) => MethodAnswer<"parsedResponse" | "messages" | "forceContinue", Needs>)
    | undefined
  readonly beforeTool?:
    | ((input: BeforeToolInput) => MethodAnswer<"toolInput", Needs, DeniedCall | SkippedCall>)
    | undefined
  readonly afterTool?: ((input: AfterToolInput) => MethodAnswer<"toolOutput" | "llmToolOutput", Needs>) | undefined
  readonly streamPart?: ((input: StreamPartInput) => MethodAnswer<"parts", Needs>) | undefined
  readonly wrapModelCall?: ModelCallWrap<Caught, Fails, Needs> | undefined
  readonly wrapToolCall?: ToolWrap<never, unknown, Needs> | undefined
  readonly before_agent?: ((input: BeforeAgentInput) => MethodAnswer<"messages", Needs>) | undefined
  readonly after_agent?: ((input: AfterAgentInput) => MethodAnswer<"agentResponse", Needs>) | undefined
  readonly before_model?:
    | ((input: BeforeModelInput) => MethodAnswer<"messages" | "promptMessages" | "compaction", Needs>)
    | undefined
  readonly after_model?:
    | ((input: AfterModelInput) => MethodAnswer<"parsedResponse" | "messages" | "forceContinue", Needs>)
    | undefined
  readonly before_tool?:
    | ((input: BeforeToolInput) => MethodAnswer<"toolInput", Needs, DeniedCall | SkippedCall>)
    | undefined
  readonly after_tool?: ((input: AfterToolInput) => MethodAnswer<"toolOutput" | "llmToolOutput", Needs>) | undefined
  readonly stream_part?: ((input: StreamPartInput) => MethodAnswer<"parts", Needs>) | undefined
  readonly wrap_model_call?: ModelCallWrap<Caught, Fails, Needs> | undefined
  readonly wrap_tool_call?: ToolWrap<never, unknown, Needs> | undefined
}

/** A method without its types. */
type ErasedMethod = (...args: ReadonlyArray<unknown>) => unknown

/** Methods in one spelling, bound to the object that they belong to. */
export type BoundMethods = { readonly [K in (typeof methodNames)[number]]?: ErasedMethod }

/** Lifecycle middleware as a stack runs it. */
export interface Entry {
  readonly kind: "lifecycle"
  readonly name: string
  readonly onFailure: OnFailure
  /** State of a run that it stores under a {@link StateKey}. */
  readonly state?: ReadonlyArray<StateKey<unknown>> | undefined
  /**
   * Set when this middleware decides when to compact the conversation. The runtime then compacts only if a provider
   * refuses the conversation.
   */
  readonly compaction?: { readonly whenRefused: boolean } | undefined
  /** The methods, where all runs share them. */
  readonly shared: BoundMethods | undefined
  /** Makes the methods of one run. */
  readonly make: (run: RunFacts) => Effect.Effect<BoundMethods, unknown, unknown>
}

/** `beforeModel` as `before_model`. */
export const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/**
 * Reads the methods of a record or of an object of a class; throws where one has two spellings or is not a function.
 */
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
