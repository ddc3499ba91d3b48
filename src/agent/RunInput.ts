/**
 * Input of a run.
 */
import type * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type * as PromptCaching from "./PromptCaching.ts"
import type { PromptCache, ReasoningEffort } from "../base/domain/ModelCall.ts"
import type * as RunContext from "../base/domain/RunContext.ts"
import type { Route } from "../base/domain/Route.ts"
import type { DeepPartial, Output } from "../base/domain/AnswerFormat.ts"
import type { RunCall, RunDetails } from "../base/domain/RunDetails.ts"
import type * as Question from "../base/domain/Question.ts"
import type { RunEvent, RunResult, UsageReported, ValueDelta } from "../base/domain/RunEvent.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import type { Enforcement } from "../tools/prompt/SystemPrompt.ts"
import type { Limits as ResultLimits } from "../tools/ResultText.ts"
import type { Settings as LoopGuardSettings } from "../tools/calls/LoopGuard.ts"
import type { QuestionPolicy } from "../tools/CallQuestions.ts"
import type { Selection } from "../tools/ToolRegistry.ts"
import type { Limits } from "./Budget.ts"

/** Input of one run. Only `prompt` is required, and `context` if a part of the runtime reads it. */
export type RunInput<R = never> = RunOptions & RunContext.ContextInput<R>

/** Input of a run that continues a suspended session. */
export type ResumeInput<R = never> = ResumeOptions & RunContext.ContextInput<R>

/**
 * {@link ResumeInput} without the application's `context`. The tools, the permission mode, the budget that is left and
 * the working directory of the suspended run are stored: these options can narrow them, and only the directory can be
 * replaced. All other options come from here.
 */
export interface ResumeOptions extends Omit<
  RunOptions,
  "expectedSession" | "goesOn" | "history" | "openCalls" | "prompt" | "sessionId" | "source" | "systemPrompt"
> {
  readonly sessionId: string
  /**
   * Answers to open questions of the session: to all of them, some, or none. A call without an answer keeps waiting,
   * and the run is suspended again. Without answers, the session continues with those that it has.
   */
  readonly answers?: ReadonlyArray<Question.Answer> | undefined
  /**
   * Audience that answers. It can answer its own questions only, and the others are unknown to it. Without an audience,
   * the owner of the session answers.
   */
  readonly audience?: string | undefined
}

/** Form of the value in which a run ends. `A` is the type of the value, and `I` the type of its JSON. */
export interface OutputInput<A, I> {
  /**
   * Schema of the value in which the run ends, instead of the agent's. The model is asked for JSON of this form in the
   * way that its provider has for it, an answer that does not fit is sent back for correction twice at most, and the
   * result carries the decoded `value`. A run that ends without such a value fails with `InvalidOutput`.
   */
  readonly output?: Output<A, I> | undefined
}

/** {@link OutputInput} of a run that has a schema. */
export interface RequiredOutputInput<A, I> {
  /** See {@link OutputInput.output}. */
  readonly output: Output<A, I>
}

/** Input of a run without a schema. */
export interface NoOutputInput {
  readonly output?: undefined
}

/** Value of a run whose schema may be absent. The run then ends in the value of its agent, if it has one. */
export type OptionalValue<A, Value> = A | (unknown extends Value ? undefined : Value)

/** {@link RunOptions} with the form of a value of any type. */
export type StartOptions = RunOptions & OutputInput<unknown, unknown>

/**
 * Result of a run with its details. With an output schema whose type is known, `value` is the decoded answer. `Call` is
 * the type of its tool calls.
 */
export type ResultOf<A, Call = RunCall> = RunResult &
  RunDetails<Call> &
  (unknown extends A ? unknown : { readonly value: A })

/** Events of a run with an output schema: `I` is the type of the answer's JSON. */
export type EventOf<A, I> =
  | Exclude<RunEvent, RunResult | typeof ValueDelta.Type>
  | (unknown extends A ? typeof ValueDelta.Type : typeof ValueDelta.Type & { readonly value: DeepPartial<I> })
  | ResultOf<A>

/** {@link RunInput} without the application's `context`. */
export interface RunOptions {
  /** The user's message: text, or text and files. */
  readonly prompt: string | ReadonlyArray<Prompt.UserMessagePart>
  /**
   * Session to continue. If the store does not contain the id, a session with that id is started. If absent, a new
   * session is created.
   */
  readonly sessionId?: string | undefined
  /**
   * True to continue from the end of the stored session, which must be a user message or tool results. `prompt` is then
   * only reported to listeners as the subject of the run, and is neither stored nor sent.
   */
  readonly goesOn?: boolean | undefined
  /**
   * State of the session as the caller saw it: its newest continuation, and the number of its messages (0 for a session
   * that is not stored). The run acquires the session before it compares; if another run came in between, it fails with
   * `SessionBusy` and has no effect. If absent, the run continues from the stored state.
   */
  readonly expectedSession?: { readonly sessionId: string; readonly messages: number } | undefined
  /**
   * Treatment of the calls that the previous run left open because its process died. `close` (the default) informs the
   * model of each. `run` runs the calls that did not start, and repeats started calls of tools that permit it
   * (`Idempotent`). The model is informed of the other calls.
   */
  readonly openCalls?: "close" | "run" | undefined
  /**
   * Treatment of the session when the run is interrupted: `close` (the default) closes its open calls and stores the
   * text so far as its answer; `leave` leaves it as if the process had died, so that another run can continue it.
   */
  readonly onInterrupt?: "close" | "leave" | undefined
  /**
   * Treatment of questions that no user answers during the run: approvals, and questions of tools (`Ask`). Each absent
   * part defaults to the agent's.
   */
  readonly questions?: QuestionPolicy | undefined
  /** Origin of a new session. Defaults to `library`. */
  readonly source?: string | undefined
  /**
   * Surface on which the user reads this run, for hooks and the prompt of a new session. Defaults to the agent's
   * surface.
   */
  readonly platform?: string | undefined
  /**
   * Conversation that a new session begins with, before `prompt`: messages of the user and of the agent, calls and
   * results of tools. It is stored with the session, and ignored for a session that is already stored.
   */
  readonly history?: ReadonlyArray<Prompt.Message> | undefined
  /**
   * Tenant for which the run works. Its limits bound the run, its children and its side tasks; see `Tenants`. A run
   * with a tenant fails if the runtime has no `Tenants`.
   */
  readonly tenant?: string | undefined
  /** Exact system prompt of a new session. */
  readonly systemPrompt?: string | undefined
  /** Text added after the system prompt in the requests of this run; never stored. */
  readonly ephemeralSystemPrompt?: string | undefined
  /**
   * Absolute working directory of the tools. Defaults to the workspace of the tenant, if it has one, and to the agent's.
   * A directory outside of that workspace is refused.
   */
  readonly cwd?: string | undefined
  /** Tools of this run. Defaults to the agent's. */
  readonly tools?: Selection | undefined
  /** Names of the stop tools of this run; see {@link AgentSettings.stopTools}. Defaults to the agent's. */
  readonly stopTools?: ReadonlyArray<string> | undefined
  /**
   * Returns true if a tool result contains a message of the user that the model has not received yet. A stop tool then
   * does not end the run.
   */
  readonly hasUnreadMessage?: (() => boolean) | undefined
  /** Seed of the run's model calls, on routes that accept one. */
  readonly seed?: number | undefined
  /** Maximum number of model calls with tools. Defaults to the agent's. */
  readonly maxIterations?: number | undefined
  /** Other limits of the run, including its children. Each absent limit defaults to the agent's. */
  readonly budget?: Limits | undefined
  /** The route to ask instead of the router's own choice. */
  readonly route?: Route | undefined
  /** Reasoning effort of the model. Defaults to the agent's. */
  readonly reasoningEffort?: ReasoningEffort | undefined
  /** True if answers are streamed in parts. Defaults to true for `stream` and false for `run`. */
  readonly streaming?: boolean | undefined
  /**
   * True if text is read while it streams and must not be replaced by other text. Defaults to true if `onEvent` is
   * given. If false, an answer that breaks off is requested again from its beginning.
   */
  readonly readsText?: boolean | undefined
  /** Receives events in order as they happen. The run waits for it. */
  readonly onEvent?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /** Receives the usage of reviews and background children that is charged to the run after its end. */
  readonly onUsageAfter?: ((events: ReadonlyArray<UsageReported>) => Effect.Effect<void>) | undefined
}

/** A named child agent. Absent fields default to the settings for all children. */
export interface SubAgent {
  readonly name: string
  readonly settings?:
    | Pick<
        AgentSettings,
        "identity" | "instructions" | "maxOutputTokens" | "output" | "reasoningEffort" | "stopTools" | "temperature"
      >
    | undefined
  /** Route of the child. `parent` selects the parent's route even if other children use a different one. */
  readonly route?: Route | "parent" | undefined
  readonly maxIterations?: number | undefined
  /** Names of toolsets and tools. The parent does not have to have them. */
  readonly tools?: ReadonlyArray<string> | undefined
  /** Middleware of the child, inside the parent's. */
  readonly middleware?: ReadonlyArray<Middleware.Contained> | undefined
}

/** Limits and permissions of the children of a run (`hermes-product.md` §3). Each has a default. */
export interface DelegationSettings {
  /** Maximum delegation depth. Defaults to 2: a grandchild never delegates. */
  readonly maxSpawnDepth?: number | undefined
  /** Maximum number of children that run at the same time. Defaults to 3. */
  readonly maxConcurrentChildren?: number | undefined
  /** Maximum number of `delegate_task` calls of one message that are run. Defaults to 1. */
  readonly maxCallsPerStep?: number | undefined
  /** Maximum number of model calls of one child. Defaults to 50. */
  readonly maxIterations?: number | undefined
  /** Time limit of a child, in milliseconds. No limit applies if absent. */
  readonly childTimeoutMillis?: number | undefined
  /**
   * True if actions of a child that need approval are approved instead of denied. A child never asks a user who is
   * present; `questions: { unanswered: "suspend" }` of its parent suspends both.
   */
  readonly autoApprove?: boolean | undefined
  /** Route for the model calls of children. Defaults to the parent's. */
  readonly route?: Route | undefined
  /** Reasoning effort of children. Defaults to the parent's. */
  readonly reasoningEffort?: ReasoningEffort | undefined
  /** True (the default) if a child retains the toolsets of MCP servers in addition to those that its task requests. */
  readonly inheritMcpToolsets?: boolean | undefined
  /** Sub-agents that a task can name; see the `SubAgents` tool. */
  readonly agents?: ReadonlyArray<SubAgent> | undefined
}

/** Intervals between reviews of a conversation (`BackgroundReview`). With 0 or without a value, no reviews run. */
export interface ReviewSettings {
  /** Number of user turns between two reviews of the memory. */
  readonly memoryTurns?: number | undefined
  /** Number of loop steps between two reviews of the skills. */
  readonly skillSteps?: number | undefined
}

/** Settings of an agent; each has a default. */
export interface AgentSettings {
  /** Surface on which users talk to the agent, for hooks and prompts, such as `cli`. Defaults to `library`. */
  readonly platform?: string | undefined
  /** Maximum number of model calls with tools. Defaults to 90 (`hermes-llm.md` §18.1). */
  readonly maxIterations?: number | undefined
  /** Other limits of one run. No limits apply if absent. */
  readonly budget?: Limits | undefined
  /** Absolute working directory of the tools. Defaults to the process's. */
  readonly cwd?: string | undefined
  /** Replaces the identity part of a new session's system prompt. */
  readonly identity?: string | undefined
  /** Instructions added to a new session's system prompt. */
  readonly instructions?: string | undefined
  /**
   * Models that are instructed, in new sessions, to use their tools instead of announcing actions: chosen by the
   * model's name (`auto`, the default), all, none, or the models whose names contain one of these parts.
   */
  readonly toolUseEnforcement?: Enforcement | undefined
  /**
   * Lifetime of the conversation's prefix in the provider's prompt cache. The default is `auto`; see `PromptCaching`.
   */
  readonly promptCache?: PromptCaching.Lifetime | undefined
  /** `always` sends cache marks also on routes that are not known to support them. The default is `known`. */
  readonly promptCacheRoutes?: PromptCache["routes"]
  /**
   * True if context of one turn (of `pre_llm_call` hooks and of an external memory) is kept beside its message and sent
   * again in later turns, so that requests begin with the bytes of the requests before. Defaults to false: a later turn
   * sends the message without it.
   */
  readonly keepTurnContext?: boolean | undefined
  /** True if the system prompt of a new session contains the session's id. Defaults to false. */
  readonly passSessionId?: boolean | undefined
  /** Example messages between the system prompt and the conversation of each call; never stored. */
  readonly prefill?: ReadonlyArray<Prompt.Message> | undefined
  readonly tools?: Selection | undefined
  /**
   * Names of the tools whose successful call ends the run: its result is the text of the run, which ends with
   * `stop_tool_triggered` after all calls of the same answer. For `complete_task`, the text is its argument `result`. A
   * call that fails or is blocked does not end the run. A named sub-agent has its own list.
   */
  readonly stopTools?: ReadonlyArray<string> | undefined
  /** Schema of the value in which each run ends; see {@link OutputInput.output}. A named sub-agent has its own. */
  readonly output?: Output<unknown> | undefined
  /**
   * Treatment of questions that no user answers during a run. By default, an approval without an answer is a denial,
   * and a question of a tool suspends the run.
   */
  readonly questions?: QuestionPolicy | undefined
  readonly maxOutputTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly reasoningEffort?: ReasoningEffort | undefined
  readonly delegation?: DelegationSettings | undefined
  /** Reviews of conversations after their turns, for memory and skills. No reviews run if absent. */
  readonly reviews?: ReviewSettings | undefined
  /** Thresholds at which a run that repeats itself is warned and halted. */
  readonly loopGuard?: LoopGuardSettings | undefined
  /**
   * Size limits of tool results for the model. By default they fit its window, with at most 100 000 characters for one
   * result and 200 000 for a step.
   */
  readonly resultLimits?: ResultLimits | undefined
}
