/**
 * An environment for rollouts. It supplies tasks for an agent and computes rewards for the agent's work.
 *
 * **Details**
 *
 * `computeReward` and `prepare` receive {@link RolloutTools}, which run tools in the rollout's directory and under its
 * task id, so that they can access the results of the agent's work. A reward may list its components. All members are
 * effects, which may require services. If computing a reward fails, the reward is 0, and the cause is recorded.
 *
 * **Example** (Sums, checked by their text)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RolloutEnvironment } from "hermes-effect/rollouts"
 *
 * let next = 0
 *
 * export const sums = RolloutEnvironment.make({
 *   name: "sums",
 *   description: "Adds two numbers",
 *   toolsets: [],
 *   nextItem: Effect.sync(() => next < 3 ? { id: `sum-${next}`, a: next, b: next++ } : undefined),
 *   formatPrompt: ({ a, b }) => `What is ${a} + ${b}? Answer with the number alone.`,
 *   computeReward: ({ a, b }, { text }) => Effect.succeed(text.trim() === String(a + b) ? 1 : 0)
 * })
 *
 * console.log(sums.name)
 * // => sums
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Json from "../../base/domain/Json.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import type { Episode } from "./Episode.ts"

/** Error raised when an environment cannot continue because data or services are missing. */
export class EnvironmentError extends Schema.TaggedError<EnvironmentError>("hermes-effect/runner/EnvironmentError")(
  "EnvironmentError",
  { message: Schema.String }
) {}

/** Result of a tool call. */
export interface ToolAnswer {
  /** Output of the tool, parsed if it is JSON. */
  readonly output: unknown
  readonly isFailure: boolean
}

/** Result of running a command. */
export interface CommandAnswer {
  readonly output: string
  /** Exit code, or -1 if no command was run. */
  readonly exitCode: number
  readonly error: string | undefined
}

/**
 * Runs tools in the directory of one rollout. A call is handled like a call from a model, with hooks, fences, approvals
 * and sandbox.
 */
export interface RolloutTools {
  readonly rolloutId: string
  /** Absolute path of the rollout's directory. */
  readonly directory: string
  readonly call: (name: string, args: unknown) => Effect.Effect<ToolAnswer>
  readonly terminal: (
    command: string,
    options?: { readonly timeoutSeconds?: number | undefined }
  ) => Effect.Effect<CommandAnswer>
  readonly readFile: (path: string) => Effect.Effect<ToolAnswer>
  readonly writeFile: (path: string, content: string) => Effect.Effect<ToolAnswer>
}

/** Record of a rollout, from which its reward is computed: its run, and its episode with all requests and answers. */
export interface RolloutRecord {
  readonly rolloutId: string
  /** Final text of the answer. */
  readonly text: string
  readonly run: RunResult
  /** Number of model calls with tools. */
  readonly turns: number
  readonly messages: ReadonlyArray<Json.Fields>
  /** Reasoning of each answer, or `undefined` for an answer without reasoning. */
  readonly reasoning: ReadonlyArray<string | undefined>
  readonly toolErrors: ReadonlyArray<{ readonly tool: string; readonly error: string }>
  readonly episode: Episode
}

/** A reward, optionally with its components. */
export type Reward =
  | number
  | { readonly reward: number; readonly components?: Readonly<Record<string, number>> | undefined }

/** Properties that every item of an environment may have. */
export interface AnyItem {
  /** Name of the group of rollouts for this item. Generated if absent. */
  readonly id?: string | undefined
}

/** A rollout environment. */
export interface RolloutEnvironment<Item extends AnyItem = AnyItem, R = never> {
  readonly name: string
  readonly description: string
  /** Toolsets of the agent. If `undefined`, the settings of the run apply. */
  readonly toolsets: ReadonlyArray<string> | undefined
  /** System prompt that replaces the agent's system prompt. If `undefined`, the agent's system prompt is used. */
  readonly systemPrompt: string | undefined
  /** Effect that runs once, before the first item. */
  readonly setup: Effect.Effect<void, EnvironmentError, R>
  /** Returns the next item, or `undefined` if there are no more. */
  readonly nextItem: Effect.Effect<Item | undefined, EnvironmentError, R>
  readonly formatPrompt: (item: Item) => string
  /** Prepares the directory of a rollout before its run. */
  readonly prepare: (item: Item, tools: RolloutTools) => Effect.Effect<void, EnvironmentError, R>
  readonly computeReward: (item: Item, result: RolloutRecord, tools: RolloutTools) => Effect.Effect<Reward, unknown, R>
  /** Items for evaluations. An evaluation rolls out each of them once. */
  readonly evaluation: Effect.Effect<ReadonlyArray<Item>, EnvironmentError, R>
}

/** Makes an environment. Only `nextItem`, `formatPrompt` and `computeReward` are required. */
export const make = <Item extends AnyItem, R = never>({
  description = "",
  evaluation = Effect.succeed([]),
  prepare = () => Effect.void,
  setup = Effect.void,
  systemPrompt,
  toolsets,
  ...own
}: Partial<RolloutEnvironment<Item, R>> &
  Pick<RolloutEnvironment<Item, R>, "computeReward" | "formatPrompt" | "name" | "nextItem">): RolloutEnvironment<
  Item,
  R
> => ({ description, evaluation, prepare, setup, systemPrompt, toolsets, ...own })
