/**
 * Runs one group of rollouts: several rollouts of the same item by the same agent. Each rollout works in a separate
 * directory, in which it is also scored.
 *
 * **Details**
 *
 * The tools are resolved once for the group, so that its members are comparable. A rollout is a run of the provided
 * agent in a new session. Its id is also the id of the session and of the task. Its directory is removed after the
 * reward is computed. If the rollout has no output, the reward is 0. If its run or the computation of its reward fails,
 * it has no reward by default, so that a broken verifier does not train the model (`failedReward`). In both cases the
 * cause is stored. When all members are scored, each member with a reward receives its advantage in the group.
 *
 * **Gotchas**
 *
 * Provide the runtime with `CompactionSettings` `"off"`. Otherwise a compacted conversation continues in another
 * session, and its rollout has failed.
 *
 * **Example** (The best member of a group)
 *
 * ```ts
 * import type { RolloutGroup } from "hermes-effect/rollouts"
 *
 * export const best = ({ members }: RolloutGroup.ScoredRollouts): string | undefined =>
 *   members.toSorted((a, b) => (b.score.reward ?? 0) - (a.score.reward ?? 0))[0]?.rolloutId
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import { Agent } from "../../agent/Agent.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { RunEvent, RunResult } from "../../base/domain/RunEvent.ts"
import type { RolloutRefused, RolloutScore } from "../../base/domain/RolloutPort.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import { type Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Distributions from "../batch/Distributions.ts"
import * as Outcome from "../batch/Outcome.ts"
import type { Episode } from "./Episode.ts"
import * as EpisodeExport from "./EpisodeExport.ts"
import { Episodes } from "./Episodes.ts"
import type { Capture } from "./RolloutCapture.ts"
import {
  type AnyItem,
  EnvironmentError,
  type Reward,
  type RolloutEnvironment,
  type RolloutRecord,
  type RolloutTools
} from "./RolloutEnvironment.ts"
import * as RolloutPlace from "./RolloutPlace.ts"
import type { RolloutSettings } from "./RolloutSettings.ts"

/** Settings of a group. */
export interface Options extends RolloutSettings {
  readonly capture: Capture
  /**
   * Directory in which each rollout has its own subdirectory. Defaults to the system's directory for temporary files.
   */
  readonly directory?: string | undefined
  /**
   * Distribution from which the toolsets of each group are drawn if the environment does not name toolsets (see
   * `Distributions`).
   */
  readonly distribution?: Distributions.Distribution | undefined
  /** Decision on tool calls of the agent that need an approval; no user can be asked. Defaults to `deny`. */
  readonly unattended?: "deny" | "approve" | undefined
  /** Called with each scored rollout. */
  readonly onScored?: ((rollout: ScoredRollout) => Effect.Effect<void>) | undefined
  /** If set, rollouts run in other processes instead of this one. */
  readonly elsewhere?: ((request: RolloutRequest) => Effect.Effect<RemoteRollout, Outcome.ReportedFailure>) | undefined
  /**
   * Returns the part of group ids that makes them unique, from the place of a group in its run. Defaults to random
   * text.
   */
  readonly makeUnique?: ((place: string) => string) | undefined
}

/** A rollout for another process. */
export interface RolloutRequest {
  readonly groupId: string
  /** Position in the group, counted from 0. */
  readonly index: number
  readonly item: AnyItem
  readonly toolsets: ReadonlyArray<string>
  readonly settings: RolloutSettings
}

/** Facts of the run of a rollout. */
export type RolloutRunFacts = Pick<RunResult, "exit" | "steps">

/** A rollout that another process scored. */
export interface RemoteRollout {
  /** Entries of its episode. */
  readonly entries: ReadonlyArray<Json.Fields>
  readonly score: MemberScore
  readonly failure: Outcome.Kind | undefined
  readonly run: RolloutRunFacts | undefined
}

/** Score of a rollout. Its reward is absent if the rollout failed and is masked. */
export type MemberScore = Partial<RolloutScore>

/** A rollout and its score. */
export interface ScoredRollout {
  readonly rolloutId: string
  readonly score: MemberScore
  /** Kind of the failure that is the cause of the score, or `undefined` if the reward was computed. */
  readonly failure: Outcome.Kind | undefined
  readonly episode: Episode
  /** Facts of the run, or `undefined` if the run failed. */
  readonly run: RolloutRunFacts | undefined
  readonly advantage: number | undefined
}

/** A group of rollouts that have all been scored. */
export interface ScoredRollouts {
  readonly groupId: string
  /** Names of the tools that all members had. */
  readonly tools: ReadonlyArray<string>
  readonly members: ReadonlyArray<ScoredRollout>
}

/** A score, and the kind of the failure that caused it. */
type JudgedScore = Pick<ScoredRollout, "failure" | "score">

/** Makes the score of a rollout that failed for a reason outside of its answers. */
const makeFailedScore = (
  { failedReward }: Pick<RolloutSettings, "failedReward">,
  failure: Outcome.Kind,
  cause: string
): JudgedScore => ({ failure, score: failedReward === "zero" ? { reward: 0, cause } : { cause } })

/** Returns the failed tool calls with their errors. */
const listFailedTools = (events: ReadonlyArray<RunEvent>): RolloutRecord["toolErrors"] =>
  events.flatMap((event) =>
    event._tag === "ToolFinished" && event.status !== "ok"
      ? [{ tool: event.name, error: event.output.slice(0, 2_000) }]
      : []
  )

const readReasoning = (message: Json.Fields): string | undefined =>
  Json.readString(message["reasoning_content"]) ?? Json.readString(message["reasoning"])

const makeRecord = (run: RunResult, episode: Episode, events: ReadonlyArray<RunEvent>): RolloutRecord => {
  const messages = episode.nodes.at(-1)?.messages ?? []
  return {
    rolloutId: episode.rollout_id,
    text: run.text,
    run,
    turns: run.steps,
    messages,
    reasoning: messages.filter(({ role }) => role === "assistant").map(readReasoning),
    toolErrors: listFailedTools(events),
    episode
  }
}

const toScore = (reward: Reward, options: Options): JudgedScore => {
  const score =
    typeof reward === "number"
      ? { reward }
      : { reward: reward.reward, ...(reward.components === undefined ? {} : { components: reward.components }) }
  return Number.isFinite(score.reward)
    ? { score, failure: undefined }
    : makeFailedScore(options, "infrastructure", `the reward is ${score.reward}, which is not a number`)
}

const readFirstLine = (cause: Cause.Cause<unknown>): string =>
  Redaction.redactText(Cause.pretty(cause).split("\n")[0] ?? "unknown failure").slice(0, 500)

/** Returns true if an answer contains text or tool calls. */
const isOutput = ({ content, role, tool_calls: calls }: Json.Fields): boolean =>
  role === "assistant" && (Json.readItems(calls).length > 0 || Json.toText(content ?? "").trim() !== "")

/** Scores a finished rollout. Failures become a score without a reward, or of 0. */
const scoreRollout = <Item extends AnyItem, R>(
  { environment, item, options }: Group<Item, R>,
  tools: RolloutTools,
  record: RolloutRecord
): Effect.Effect<JudgedScore, never, R> => {
  if (record.run.sessionId !== record.rolloutId)
    return Effect.succeed(
      makeFailedScore(options, "limit", "the conversation was compacted, so its tokens are no longer one sequence")
    )
  if (!record.messages.some(isOutput))
    return Effect.succeed({ failure: "model_failure", score: { reward: 0, cause: "no output" } })
  return environment.computeReward(item, record, tools).pipe(
    Effect.timeout(Duration.seconds(options.rewardTimeoutSeconds)),
    Effect.map((reward) => toScore(reward, options)),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.succeed(makeFailedScore(options, "infrastructure", `the reward failed: ${readFirstLine(cause)}`))
    )
  )
}

/** Values that the rollouts of an active group share. */
interface Group<Item extends AnyItem, R> {
  readonly environment: RolloutEnvironment<Item, R>
  readonly item: Item
  readonly options: Options
  readonly groupId: string
  /** Model that the router selects. */
  readonly model: string
  readonly selection: Selection
}

/** Opens the episode of a rollout. */
const openEpisode = Effect.fnUntraced(function* <Item extends AnyItem, R>(
  { environment, groupId, item, model, options }: Group<Item, R>,
  id: string
) {
  const episodes = yield* Episodes
  yield* episodes.open(
    {
      rollout_id: id,
      group_id: groupId,
      sampling: options.sampling,
      on_divergence: "branch",
      metadata: { environment: environment.name, ...(item.id === undefined ? {} : { item: item.id }) },
      ...(options.weightsVersion === undefined ? {} : { weights_version: options.weightsVersion }),
      ...(options.toolCallParser === undefined ? {} : { tool_call_parser: options.toolCallParser })
    },
    model
  )
})

/** Runs the agent on the item. Returns its exit and the events of its tools. */
const runAgent = Effect.fnUntraced(function* <Item extends AnyItem, R>(
  { environment, item, options, selection }: Group<Item, R>,
  id: string,
  cwd: string
) {
  const agent = yield* Agent
  const events: Array<RunEvent> = []
  const run = agent.run({
    prompt: environment.formatPrompt(item),
    sessionId: id,
    source: "rollout",
    platform: "rollout",
    systemPrompt: environment.systemPrompt,
    cwd,
    tools: selection,
    maxIterations: options.maxAgentTurns,
    streaming: false,
    readsText: false,
    onEvent: (more) => Effect.sync(() => void events.push(...more.filter(({ _tag }) => _tag === "ToolFinished")))
  })
  const exit = yield* options.capture
    .track(id, run)
    .pipe(Effect.provideService(InteractiveMode, makeUnattended("rollout", options.unattended ?? "deny")), Effect.exit)
  return { exit, events }
})

/** Rolls out the item once, and scores the result in its directory. */
const runRollout = Effect.fnUntraced(function* <Item extends AnyItem, R>(group: Group<Item, R>, id: string) {
  const { environment, item, options } = group
  const agent = yield* Agent
  const episodes = yield* Episodes
  const directory = yield* RolloutPlace.makeRolloutDirectory(options.directory, id)
  yield* openEpisode(group, id)
  const tools = RolloutPlace.makeRolloutTools(agent, id, directory)
  yield* Effect.addFinalizer(() => agent.finalize(id, { reason: "session_boundary" }))
  yield* environment.prepare(item, tools)
  const { events, exit } = yield* runAgent(group, id, directory)
  if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return yield* Effect.interrupt
  const { failure, score } = Exit.isFailure(exit)
    ? makeFailedScore(
        options,
        Outcome.classifyFailure(Cause.squash(exit.cause)),
        `the run failed: ${readFirstLine(exit.cause)}`
      )
    : yield* scoreRollout(group, tools, makeRecord(exit.value, yield* episodes.get(id), events))
  const ended = exit._tag === "Success" ? exit.value : undefined
  const episode = yield* episodes.finish(id, score, ended?.exit)
  const result: ScoredRollout = { rolloutId: id, score, failure, episode, run: ended, advantage: undefined }
  yield* options.onScored?.(result) ?? Effect.void
  return result
})

/** Has another process roll out the item once, and stores the episode. */
const requestRollout = Effect.fnUntraced(function* <Item extends AnyItem, R>(
  group: Group<Item, R>,
  elsewhere: NonNullable<Options["elsewhere"]>,
  toolsets: ReadonlyArray<string>,
  index: number
) {
  const { groupId, item, options } = group
  const episodes = yield* Episodes
  const settings = pickSettings(options)
  const exit = yield* Effect.exit(elsewhere({ groupId, index, item, toolsets, settings }))
  if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return yield* Effect.interrupt
  if (Exit.isSuccess(exit)) {
    const { entries, failure, run, score } = exit.value
    const episode = yield* episodes.adopt(entries)
    const result: ScoredRollout = { rolloutId: episode.rollout_id, score, failure, episode, run, advantage: undefined }
    yield* options.onScored?.(result) ?? Effect.void
    return result
  }
  // Its process has no episode of it.
  const id = `${groupId}-${index}-failed`
  const { failure, score } = makeFailedScore(
    options,
    Outcome.classifyFailure(Cause.squash(exit.cause)),
    `the run failed: ${readFirstLine(exit.cause)}`
  )
  const known = yield* Effect.option(episodes.get(id))
  if (Option.isNone(known)) {
    yield* openEpisode(group, id)
    yield* episodes.finish(id, score)
  }
  const episode = yield* episodes.get(id)
  const result: ScoredRollout = { rolloutId: id, score, failure, episode, run: undefined, advantage: undefined }
  yield* options.onScored?.(result) ?? Effect.void
  return result
})

/** Returns the settings of a group without the options of this process. */
const pickSettings = ({
  concurrency,
  evalHandling,
  failedReward,
  groupSize,
  maxAgentTurns,
  rewardTimeoutSeconds,
  sampling,
  stepsPerEvaluation,
  toolCallParser,
  toolsets,
  weightsVersion
}: Options): RolloutSettings => ({
  concurrency,
  evalHandling,
  failedReward,
  groupSize,
  maxAgentTurns,
  rewardTimeoutSeconds,
  sampling,
  stepsPerEvaluation,
  toolsets,
  ...(toolCallParser === undefined ? {} : { toolCallParser }),
  ...(weightsVersion === undefined ? {} : { weightsVersion })
})

/** Records the advantage of each member with a reward, if the group has several of them. */
const compareMembers = Effect.fnUntraced(function* (members: ReadonlyArray<ScoredRollout>) {
  const scored = members.flatMap(({ rolloutId, score: { reward } }) =>
    reward === undefined ? [] : [{ rolloutId, reward }]
  )
  if (scored.length < 2) return members
  const episodes = yield* Episodes
  const values = EpisodeExport.computeAdvantages(scored.map(({ reward }) => reward))
  const advantages = new Map(scored.map(({ rolloutId }, index) => [rolloutId, values[index] ?? 0]))
  return yield* Effect.forEach(members, (member) => {
    const advantage = advantages.get(member.rolloutId)
    return advantage === undefined
      ? Effect.succeed(member)
      : Effect.map(episodes.note(member.rolloutId, { advantage }), (episode): ScoredRollout => ({
          ...member,
          episode,
          advantage
        }))
  })
})

/** Place of a rollout in a group of another process. */
export interface MemberPlace {
  readonly groupId: string
  readonly rolloutId: string
  readonly toolsets: ReadonlyArray<string>
}

/** Runs one rollout of a group, and scores it in its directory. */
export const runMember = Effect.fn("RolloutGroup.runMember")(function* <Item extends AnyItem, R>(
  environment: RolloutEnvironment<Item, R>,
  item: Item,
  options: Options,
  { groupId, rolloutId, toolsets }: MemberPlace
): Effect.fn.Return<
  ScoredRollout,
  EnvironmentError | RolloutRefused,
  Agent | Episodes | ModelRouter | ToolRegistry | FileSystem.FileSystem | Path.Path | R
> {
  const { model } = yield* Effect.flatMap(ModelRouter, ({ primary }) => primary)
  const { selection } = yield* RolloutPlace.resolveTools(toolsets)
  return yield* Effect.scoped(runRollout({ environment, item, options, groupId, model, selection }, rolloutId))
})

/**
 * Runs the number of rollouts of one item that the settings specify, and scores each rollout in its directory. `place`
 * identifies the group in its run.
 */
export const run = Effect.fn("RolloutGroup.run")(function* <Item extends AnyItem, R>(
  environment: RolloutEnvironment<Item, R>,
  item: Item,
  options: Options,
  place = ""
): Effect.fn.Return<
  ScoredRollouts,
  EnvironmentError | RolloutRefused,
  Agent | Episodes | ModelRouter | ToolRegistry | FileSystem.FileSystem | Path.Path | R
> {
  const { concurrency, groupSize } = options
  const { model } = yield* Effect.flatMap(ModelRouter, ({ primary }) => primary)
  const { elsewhere } = options
  const unique = options.makeUnique?.(place) ?? (yield* Ids.makeHex(8))
  const groupId = RolloutPlace.makeGroupId(`${environment.name}-${item.id ?? "item"}`, unique)
  const drawn =
    options.distribution === undefined ? options.toolsets : Distributions.draw(options.distribution, "", groupId)
  const toolsets = environment.toolsets ?? drawn
  const { names, selection } = yield* RolloutPlace.resolveTools(toolsets)
  const group: Group<Item, R> = { environment, item, options, groupId, model, selection }
  const members = yield* Effect.forEach(
    Array.from({ length: groupSize }, (_, index) => index),
    (index) =>
      elsewhere === undefined
        ? Effect.scoped(runRollout(group, `${groupId}-${index}`))
        : requestRollout(group, elsewhere, toolsets, index),
    { concurrency }
  )
  return { groupId, tools: names, members: yield* compareMembers(members) }
})
