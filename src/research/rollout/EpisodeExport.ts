/**
 * Exports episodes in the format that trainers expect: tokens, masks and log probabilities as lists of equal length,
 * with scores and messages. Fails with the reason if an episode cannot be used for training.
 *
 * **Details**
 *
 * `masks` contains −100 for every token of a prompt or a tool result, and the token's id for every sampled token.
 * `inference_logprobs` contains 1 for each token masked with −100. If an episode has several nodes, the last one is
 * exported. If the provider returned no token ids, the episode is refused here, because tokens are never invented. It
 * can still be used for evaluation or supervised fine-tuning.
 *
 * **Example** (Advantages in a group)
 *
 * ```ts
 * import { EpisodeExport } from "hermes-effect/rollouts"
 *
 * console.log(EpisodeExport.computeAdvantages([1, 0, 0, 1]))
 * // => [ 1, -1, -1, 1 ]
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Result from "effect/Result"
import type * as Json from "../../base/domain/Json.ts"
import { RolloutRefused, type RolloutView, type ScoredEpisode } from "../../base/domain/RolloutPort.ts"
import type { AnswerEntry, Episode, Node } from "./Episode.ts"

/** Mask value for tokens that are excluded from training. */
export const masked = -100

/** Placeholder log probability for tokens that are excluded from training. A real log probability is never positive. */
export const maskedLogprob = 1

/** Returns the reason why an episode cannot be used for training, or `undefined` if it can. */
export const findObstacle = ({ nodes }: Pick<Episode, "nodes">): string | undefined => {
  const node = nodes.at(-1)
  if (node === undefined) return "it has no answer"
  const answer = node.answers.find(({ prompt, tokens }) => prompt === undefined || tokens === undefined)
  if (answer === undefined) return undefined
  const problem = answer.problems.find((one) => one.includes("token ids")) ?? "token ids are missing"
  return (
    `${problem} (call ${answer.call + 1}): it can be used for evaluation and supervised fine-tuning, ` +
    "not for training on tokens"
  )
}

/**
 * Returns a value for each token of a node. `given` returns the values of the sampled tokens; every other token has the
 * value `other`.
 */
const expandOverTokens = (
  { answers }: Node,
  other: number,
  given: (answer: AnswerEntry) => ReadonlyArray<number>
): ReadonlyArray<number> => answers.flatMap((answer) => [...(answer.prompt ?? []).map(() => other), ...given(answer)])

/** Finds the lists of an episode whose length differs from the number of its tokens. */
const findUnevenLists = (episode: ScoredEpisode): ReadonlyArray<string> =>
  (["masks", "inference_logprobs", "advantages", "ref_logprobs"] as const).flatMap((name) => {
    const list = episode[name]
    return list === undefined || list.length === episode.tokens.length
      ? []
      : [`${name} has ${list.length} values for ${episode.tokens.length} tokens`]
  })

/**
 * Returns the problems of an exported episode, or an empty list if it is valid. The episode may have been exported by
 * another program.
 */
export const findProblems = (episode: ScoredEpisode): ReadonlyArray<string> => {
  const wrong = episode.masks.findIndex((mask, index) => mask !== masked && mask !== episode.tokens[index])
  return [
    ...(episode.tokens.length === 0 ? ["it has no tokens"] : []),
    ...findUnevenLists(episode),
    ...(wrong === -1 ? [] : [`the mask at token ${wrong} is neither ${masked} nor the token id`]),
    ...(episode.masks.every((mask) => mask === masked) ? ["no token of it is trained"] : []),
    ...(Number.isFinite(episode.score) ? [] : ["its score is not a number"])
  ]
}

const refuseExport = (id: string, why: string): Result.Result<never, RolloutRefused> =>
  Result.fail(
    new RolloutRefused({
      reason: "not_trainable",
      message: `The rollout ${id} cannot be exported for training: ${why}.`
    })
  )

/** Converts an episode to the format that trainers expect. */
export const toScoredEpisode = (episode: Episode): Result.Result<ScoredEpisode, RolloutRefused> => {
  const { rollout_id: id, finished, nodes } = episode
  const node = nodes.at(-1)
  const why = findObstacle(episode)
  if (node?.tokens === undefined || why !== undefined) return refuseExport(id, why ?? "token ids are missing")
  if (finished?.reward === undefined)
    return refuseExport(
      id,
      finished?.cause === undefined
        ? "it has no reward yet: finish it with a reward"
        : `its reward is masked: ${finished.cause}`
    )
  const hasLogprobs = node.answers.every(({ logprobs, tokens }) => logprobs?.length === tokens?.length)
  const last = node.answers.at(-1)
  const { advantage, reference } = episode
  const whole: ScoredEpisode = {
    rollout_id: id,
    group_id: episode.group_id,
    tokens: node.tokens,
    masks: expandOverTokens(node, masked, ({ tokens }) => tokens ?? []),
    score: finished.reward,
    messages: node.messages,
    ...(hasLogprobs
      ? { inference_logprobs: expandOverTokens(node, maskedLogprob, ({ logprobs }) => logprobs ?? []) }
      : {}),
    ...(advantage === undefined
      ? {}
      : { advantages: expandOverTokens(node, 0, ({ tokens }) => (tokens ?? []).map(() => advantage)) }),
    ...(reference === undefined ? {} : { ref_logprobs: reference }),
    generation_params: last?.sampling ?? {},
    overrides: {
      model: last?.model ?? episode.model,
      weights_version: episode.weights_version ?? null,
      stop_reason: last?.stop_reason ?? last?.finish_reason ?? null,
      nodes: nodes.length,
      ...(finished.components === undefined ? {} : { reward_components: finished.components }),
      ...(finished.cause === undefined ? {} : { reward_cause: finished.cause })
    }
  }
  const found = findProblems(whole)
  return found.length === 0 ? Result.succeed(whole) : refuseExport(id, found.join("; "))
}

/** Episodes of one group in the format of the Atropos API (`ScoredData`). */
export interface ScoredGroup {
  readonly tokens: ReadonlyArray<ReadonlyArray<number>>
  readonly masks: ReadonlyArray<ReadonlyArray<number>>
  readonly scores: ReadonlyArray<number>
  readonly messages: ReadonlyArray<ReadonlyArray<Json.Fields>>
  readonly inference_logprobs?: ReadonlyArray<ReadonlyArray<number>>
  readonly advantages?: ReadonlyArray<ReadonlyArray<number>>
  readonly ref_logprobs?: ReadonlyArray<ReadonlyArray<number>>
  readonly generation_params?: Json.Fields
  readonly overrides: ReadonlyArray<Json.Fields>
  readonly group_overrides: Json.Fields
}

/** Returns the values of all members, or `undefined` if a member has no value. */
const collectShared = <A>(
  members: ReadonlyArray<ScoredEpisode>,
  of: (member: ScoredEpisode) => ReadonlyArray<A> | undefined
): ReadonlyArray<ReadonlyArray<A>> | undefined => {
  const values = members.flatMap((member) => {
    const value = of(member)
    return value === undefined ? [] : [value]
  })
  return values.length === 0 || values.length < members.length ? undefined : values
}

/** Makes the group of episodes that were sampled for the same item. */
export const toGroup = (members: ReadonlyArray<ScoredEpisode>): ScoredGroup => {
  const logprobs = collectShared(members, ({ inference_logprobs }) => inference_logprobs)
  const advantages = collectShared(members, ({ advantages }) => advantages)
  const reference = collectShared(members, ({ ref_logprobs }) => ref_logprobs)
  const [first] = members
  return {
    tokens: members.map(({ tokens }) => tokens),
    masks: members.map(({ masks }) => masks),
    scores: members.map(({ score }) => score),
    messages: members.map(({ messages }) => messages),
    ...(logprobs === undefined ? {} : { inference_logprobs: logprobs }),
    ...(advantages === undefined ? {} : { advantages }),
    ...(reference === undefined ? {} : { ref_logprobs: reference }),
    ...(first === undefined ? {} : { generation_params: first.generation_params }),
    overrides: members.map(({ overrides, rollout_id }) => ({ rollout_id, ...overrides })),
    group_overrides: first === undefined ? {} : { group_id: first.group_id }
  }
}

/**
 * Computes the advantages in a group. An advantage is the reward minus the mean reward, divided by the standard
 * deviation. If all rewards are equal, every advantage is 0.
 */
export const computeAdvantages = (rewards: ReadonlyArray<number>): ReadonlyArray<number> => {
  const mean = rewards.reduce((sum, one) => sum + one, 0) / Math.max(1, rewards.length)
  const deviation = Math.sqrt(rewards.reduce((sum, one) => sum + (one - mean) ** 2, 0) / Math.max(1, rewards.length))
  return rewards.map((reward) => (deviation < 1e-8 ? 0 : (reward - mean) / deviation))
}

/**
 * Computes the advantage of each episode in its group and adds it to the episode. Existing advantages are preserved. An
 * episode receives no advantage if it is the only scored member of its group.
 */
export const addAdvantages = (episodes: ReadonlyArray<Episode>): ReadonlyArray<Episode> => {
  const groups = new Map<string, Array<Episode>>()
  for (const episode of episodes) {
    if (episode.finished?.reward !== undefined)
      groups.set(episode.group_id, [...(groups.get(episode.group_id) ?? []), episode])
  }
  const known = new Map(
    Array.from(groups.values())
      .filter(({ length }) => length > 1)
      .flatMap((members) => {
        const values = computeAdvantages(members.map(({ finished }) => finished?.reward ?? 0))
        return members.map(({ rollout_id: id }, index) => [id, values[index]] as const)
      })
  )
  return episodes.map((episode) => ({ ...episode, advantage: episode.advantage ?? known.get(episode.rollout_id) }))
}

/** Converts an episode for evaluation and supervised fine-tuning: messages and score, without tokens. */
export const toSupervised = ({ finished, group_id, metadata, model, nodes, rollout_id }: Episode): Json.Fields => ({
  rollout_id,
  group_id,
  model,
  messages: nodes.at(-1)?.messages ?? [],
  score: finished?.reward ?? null,
  components: finished?.components ?? {},
  metadata
})

/** Returns the state of an episode in the form that the server and the command line show. */
export const toView = (episode: Episode): RolloutView => {
  const node = episode.nodes.at(-1)
  return {
    rollout_id: episode.rollout_id,
    group_id: episode.group_id,
    status: episode.finished !== undefined ? "finished" : episode.open.size > 0 ? "busy" : "open",
    model: episode.model,
    weights_version: episode.weights_version ?? null,
    created_at: episode.at,
    calls: episode.calls,
    failed_calls: episode.failed,
    interrupted_calls: episode.interrupted,
    nodes: episode.nodes.length,
    tokens: node?.tokens?.length ?? 0,
    trained_tokens: node?.answers.reduce((sum, { tokens }) => sum + (tokens?.length ?? 0), 0) ?? 0,
    not_trainable: findObstacle(episode) ?? null,
    reward: episode.finished?.reward ?? null,
    components: episode.finished?.components ?? {}
  }
}
