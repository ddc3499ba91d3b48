/**
 * An environment of rollouts: tasks for an agent, and the rewards for its work.
 *
 * **Details**
 *
 * `computeReward` and `prepare` get {@link RolloutTools}, which run tools in the directory and under the task id of the
 * rollout, so that they see the agent's work. A reward may list its components. Everything is an Effect with its own
 * requirements. A failing reward is 0, with the cause.
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

/** Result of a tool. */
export interface ToolAnswer {
  /** Parsed if the tool returns JSON. */
  readonly output: unknown
  readonly isFailure: boolean
}

/** Result of a command. */
export interface CommandAnswer {
  readonly output: string
  /** -1 if nothing was run. */
  readonly exitCode: number
  readonly error: string | undefined
}

/** Tools in the place of one rollout. Each call takes the road of a model's call: hooks, fences, approvals, sandbox. */
export interface RolloutTools {
  readonly rolloutId: string
  /** Absolute directory of the rollout. */
  readonly directory: string
  readonly call: (name: string, args: unknown) => Effect.Effect<ToolAnswer>
  readonly terminal: (
    command: string,
    options?: { readonly timeoutSeconds?: number | undefined }
  ) => Effect.Effect<CommandAnswer>
  readonly readFile: (path: string) => Effect.Effect<ToolAnswer>
  readonly writeFile: (path: string, content: string) => Effect.Effect<ToolAnswer>
}

/** Record of a rollout: its run, and its episode with everything that was sent and answered. */
export interface RolloutRecord {
  readonly rolloutId: string
  /** Final text. */
  readonly text: string
  readonly run: RunResult
  /** Model calls with tools. */
  readonly turns: number
  readonly messages: ReadonlyArray<Json.Fields>
  /** Reasoning of each answer; undefined for one without. */
  readonly reasoning: ReadonlyArray<string | undefined>
  readonly toolErrors: ReadonlyArray<{ readonly tool: string; readonly error: string }>
  readonly episode: Episode
}

/** A reward, with its parts. */
export type Reward =
  | number
  | { readonly reward: number; readonly components?: Readonly<Record<string, number>> | undefined }

/** Facts of an item that rollouts name it by. */
export interface AnyItem {
  /** Names the group of its rollouts; made when absent. */
  readonly id?: string | undefined
}

/** An environment. */
export interface RolloutEnvironment<Item extends AnyItem = AnyItem, R = never> {
  readonly name: string
  readonly description: string
  /** Toolsets of the agent; the run's choice when absent. */
  readonly toolsets: ReadonlyArray<string> | undefined
  /** Replaces the system prompt. */
  readonly systemPrompt: string | undefined
  /** Runs once, before the first item. */
  readonly setup: Effect.Effect<void, EnvironmentError, R>
  /** The next item; undefined when there is no more. */
  readonly nextItem: Effect.Effect<Item | undefined, EnvironmentError, R>
  readonly formatPrompt: (item: Item) => string
  /** Fills the directory of a rollout before its run. */
  readonly prepare: (item: Item, tools: RolloutTools) => Effect.Effect<void, EnvironmentError, R>
  readonly computeReward: (item: Item, result: RolloutRecord, tools: RolloutTools) => Effect.Effect<Reward, unknown, R>
  /** Items that an evaluation rolls out once each. */
  readonly evaluation: Effect.Effect<ReadonlyArray<Item>, EnvironmentError, R>
}

/** Makes an environment; `nextItem`, `formatPrompt` and `computeReward` are all that one needs. */
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
