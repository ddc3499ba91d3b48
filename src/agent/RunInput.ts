/**
 * Input of a run.
 */
import type * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { PromptCache, ReasoningEffort } from "../base/domain/ModelCall.ts"
import type * as RunContext from "../base/domain/RunContext.ts"
import type { Route } from "../base/domain/Route.ts"
import type { RunEvent, UsageReported } from "../base/domain/RunEvent.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import type { Enforcement } from "../tools/prompt/SystemPrompt.ts"
import type { Limits as ResultLimits } from "../tools/ResultText.ts"
import type { Settings as LoopGuardSettings } from "../tools/calls/LoopGuard.ts"
import type { Selection } from "../tools/ToolRegistry.ts"
import type { Limits } from "./Budget.ts"

/** One run. Only `prompt` is needed, and `context` where something of the runtime reads it. */
export type RunInput<R = never> = RunOptions & RunContext.ContextInput<R>

/** {@link RunInput} without what belongs to the application. */
export interface RunOptions {
  /** The user's message: text, or text and files. */
  readonly prompt: string | ReadonlyArray<Prompt.UserMessagePart>
  /** Continues this session; an id that the store does not know starts it. Absent: a new session. */
  readonly sessionId?: string | undefined
  /**
   * True to continue from the end of the stored session, which is a user message or tool results. `prompt` is then
   * reported to listeners as the subject of the run, and is neither stored nor sent.
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
   * model of each. `run` runs the calls that did not begin, and repeats begun calls of tools that permit it
   * (`Idempotent`); the model is informed of the others.
   */
  readonly openCalls?: "close" | "run" | undefined
  /**
   * Treatment of the session when the run is interrupted: `close` (the default) closes its open calls and stores the
   * text so far as its answer; `leave` leaves it as if the process had died, so that another run can continue it.
   */
  readonly onInterrupt?: "close" | "leave" | undefined
  /** Tag of a new session: who made it. `library` when absent. */
  readonly source?: string | undefined
  /**
   * Surface on which the user reads this run, for hooks and the prompt of a new session. Defaults to the agent's
   * surface.
   */
  readonly platform?: string | undefined
  /**
   * Conversation that a new session begins with, before `prompt`: messages of the user and of the agent, calls and
   * results of tools. It is stored with the session; one that is stored already has its own.
   */
  readonly history?: ReadonlyArray<Prompt.Message> | undefined
  /** System prompt of a new session, as it is. */
  readonly systemPrompt?: string | undefined
  /** Text added after the system prompt in the requests of this run; never stored. */
  readonly ephemeralSystemPrompt?: string | undefined
  /** Absolute working directory of the tools; the agent's when absent. */
  readonly cwd?: string | undefined
  /** Tools of this run; the agent's when absent. */
  readonly tools?: Selection | undefined
  /** Seed that its model calls ask for, on routes that take one. */
  readonly seed?: number | undefined
  /** Model calls with tools at most; the agent's when absent. */
  readonly maxIterations?: number | undefined
  /** Other limits of the run, its children included; each limit that is absent is the agent's. */
  readonly budget?: Limits | undefined
  /** The route to ask instead of the router's own choice. */
  readonly route?: Route | undefined
  /** Reasoning effort of the model; the agent's when absent. */
  readonly reasoningEffort?: ReasoningEffort | undefined
  /** True when answers come in pieces. `stream` asks for them, `run` does not, unless this says otherwise. */
  readonly streaming?: boolean | undefined
  /**
   * True if text is read while it streams and must not be replaced by other text. Defaults to true if `onEvent` is
   * given. If false, an answer that breaks off is requested again from its beginning.
   */
  readonly readsText?: boolean | undefined
  /** Told of events as they happen, in order; the run waits for it. */
  readonly onEvent?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
  /** Told what reviews and children in the background spend for the run when it is over. */
  readonly onUsageAfter?: ((events: ReadonlyArray<UsageReported>) => Effect.Effect<void>) | undefined
}

/** A named child agent. Absent fields have the defaults of any child. */
export interface SubAgent {
  readonly name: string
  readonly settings?:
    | Pick<AgentSettings, "identity" | "instructions" | "maxOutputTokens" | "reasoningEffort" | "temperature">
    | undefined
  /** The route that it asks; `parent` for its parent's also where other children have another one. */
  readonly route?: Route | "parent" | undefined
  readonly maxIterations?: number | undefined
  /** Names of toolsets and tools, which its parent need not have. */
  readonly tools?: ReadonlyArray<string> | undefined
  /** Inside of the parent's. */
  readonly middleware?: ReadonlyArray<Middleware.Contained> | undefined
}

/** Limits and rights of children of a run (`hermes-product.md` §3); each has a default. */
export interface DelegationSettings {
  /** 2 when absent: a grandchild never delegates. */
  readonly maxSpawnDepth?: number | undefined
  /** 3 when absent. */
  readonly maxConcurrentChildren?: number | undefined
  /** `delegate_task` calls of one message that are run; 1 when absent. */
  readonly maxCallsPerStep?: number | undefined
  /** Model calls of one child; 50 when absent. */
  readonly maxIterations?: number | undefined
  /** Without a limit when absent. */
  readonly childTimeoutMillis?: number | undefined
  /** True when what a child would have to be approved for is approved, instead of denied; a child never asks. */
  readonly autoApprove?: boolean | undefined
  /** The route that children ask; their parent's when absent. */
  readonly route?: Route | undefined
  /** Reasoning effort of children; as their parent when absent. */
  readonly reasoningEffort?: ReasoningEffort | undefined
  /** True (the default) if a child retains the toolsets of MCP servers in addition to those that its task requests. */
  readonly inheritMcpToolsets?: boolean | undefined
  /** Sub-agents that a task can name; see `SubAgents`, the tool for them. */
  readonly agents?: ReadonlyArray<SubAgent> | undefined
}

/** Distances of reviews of a conversation (`BackgroundReview`); 0 or absent is never. */
export interface ReviewSettings {
  /** Turns of the user between two reviews of the memory. */
  readonly memoryTurns?: number | undefined
  /** Steps of the loop between two reviews of the skills. */
  readonly skillSteps?: number | undefined
}

/** Settings of an agent; each has a default. */
export interface AgentSettings {
  /** Surface on which users talk to it, for hooks and prompts: `cli`, `library` (when absent), … */
  readonly platform?: string | undefined
  /** 90 when absent (`hermes-llm.md` §18.1). */
  readonly maxIterations?: number | undefined
  /** Other limits of one run; without limits when absent. */
  readonly budget?: Limits | undefined
  /** Absolute working directory of the tools; the process's when absent. */
  readonly cwd?: string | undefined
  /** Replaces the identity part of a new session's system prompt. */
  readonly identity?: string | undefined
  /** Instructions added to a new session's system prompt. */
  readonly instructions?: string | undefined
  /**
   * Models that are instructed, in new sessions, to use their tools instead of announcing actions: chosen by the
   * model's name (`auto`, the default), all, none, or those whose names contain one of these parts.
   */
  readonly toolUseEnforcement?: Enforcement | undefined
  /**
   * Time for which the prefix of a conversation stays in the prompt caches that want marks: five minutes (when absent),
   * an hour; `off` sends no marks.
   */
  readonly promptCache?: PromptCache["ttl"] | "off" | undefined
  /** True when the system prompt of a new session has the session's id; no when absent. */
  readonly passSessionId?: boolean | undefined
  /** Example messages between the system prompt and the conversation of each call; never stored. */
  readonly prefill?: ReadonlyArray<Prompt.Message> | undefined
  readonly tools?: Selection | undefined
  readonly maxOutputTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly reasoningEffort?: ReasoningEffort | undefined
  readonly delegation?: DelegationSettings | undefined
  /** Reviews of conversations after their turns, for memory and skills; none when absent. */
  readonly reviews?: ReviewSettings | undefined
  /** Thresholds at which a run that goes in circles is warned and halted. */
  readonly loopGuard?: LoopGuardSettings | undefined
  /**
   * Size limits of tool results for the model. By default they fit its window, with at most 100 000 characters for one
   * result and 200 000 for a step.
   */
  readonly resultLimits?: ResultLimits | undefined
}
