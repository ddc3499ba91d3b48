/**
 * An environment for rollouts: tasks for an agent, and rewards for its work.
 *
 * **Details**
 *
 * `computeReward` and `prepare` receive {@link RolloutTools}, which run tools in the directory and under the task id of
 * the rollout, so that they see the agent's work. A reward may list its components. All members are effects, which may
 * require services. If computing a reward fails, the reward is 0, and the cause is recorded.
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

/** Error raised when an environment cannot continue because its data or its services are missing. */
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
 * Tools in the directory of one rollout. Each call is handled like a model's call: hooks, fences, approvals, sandbox.
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

/** Record of a rollout: its run, and its episode with all requests and answers. */
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

/** Properties of an item that rollouts use to name it. */
export interface AnyItem {
  /** Name for the group of the item's rollouts. Generated if absent. */
  readonly id?: string | undefined
}

/** A rollout environment. */
export interface RolloutEnvironment<Item extends AnyItem = AnyItem, R = never> {
  readonly name: string
  readonly description: string
  /** Toolsets of the agent. `undefined` leaves the choice to the run. */
  readonly toolsets: ReadonlyArray<string> | undefined
  /** System prompt that replaces the agent's. `undefined` leaves it unchanged. */
  readonly systemPrompt: string | undefined
  /** Effect that runs once, before the first item. */
  readonly setup: Effect.Effect<void, EnvironmentError, R>
  /** Returns the next item, or `undefined` if there are no more. */
  readonly nextItem: Effect.Effect<Item | undefined, EnvironmentError, R>
  readonly formatPrompt: (item: Item) => string
  /** Prepares the directory of a rollout before its run. */
  readonly prepare: (item: Item, tools: RolloutTools) => Effect.Effect<void, EnvironmentError, R>
  readonly computeReward: (item: Item, result: RolloutRecord, tools: RolloutTools) => Effect.Effect<Reward, unknown, R>
  /** Items that an evaluation rolls out, once each. */
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
