/**
 * Rollouts of `hermes rl rollout --cluster`: a runner rolls an item out, records the tokens of its model calls, and
 * computes the reward in the directory of the rollout. The submitting process stores the episode, and compares the
 * members of a group.
 *
 * A rollout whose runner dies begins again in a new session, because an episode with a gap cannot be used for training.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import { Exit } from "../../base/domain/RunEvent.ts"
import * as Digest from "../../base/platform/Digest.ts"
import * as BatchRow from "../../research/batch/BatchRow.ts"
import * as Outcome from "../../research/batch/Outcome.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import * as EnvironmentCatalogue from "../../research/rollout/EnvironmentCatalogue.ts"
import * as EpisodeStore from "../../research/rollout/EpisodeStore.ts"
import * as RolloutGroup from "../../research/rollout/RolloutGroup.ts"
import { RolloutSettings } from "../../research/rollout/RolloutSettings.ts"
import type { RowKind } from "./ClusterRows.ts"
import type { RowSubmitter } from "./ClusterSubmission.ts"

/** Kind of the requests for rollouts. */
export const kind = "rollout"

const version = 1

const Input = Schema.Struct({
  environment: EnvironmentCatalogue.EnvironmentForm,
  /** The item, in the form of its environment. */
  item: Schema.Record(Schema.String, Schema.Unknown),
  groupId: Schema.String,
  index: Schema.Int,
  /** Toolsets of the group. */
  toolsets: Schema.Array(Schema.String),
  settings: RolloutSettings
})
type Input = typeof Input.Type

/** Result of a rollout, in the fields of its row. */
const RolloutFields = Schema.Struct({
  entries: Schema.Array(Schema.Record(Schema.String, Schema.Unknown)),
  score: Schema.Struct({
    reward: Schema.optionalKey(Schema.Finite),
    components: Schema.optionalKey(Schema.Record(Schema.String, Schema.Finite)),
    cause: Schema.optionalKey(Schema.String)
  }),
  failure: Schema.optionalKey(Schema.Literals(Outcome.kinds)),
  steps: Schema.optionalKey(Schema.Int),
  exit: Schema.optionalKey(Exit)
})
const decodeFields = Schema.decodeUnknownEffect(RolloutFields)

/** Rollouts. */
export const rowKind: RowKind<Input> = {
  kind,
  versions: [version],
  getRuntime: () => ({ setup: "rollouts" }),
  decode: Schema.decodeUnknownEffect(Input),
  run: Effect.fnUntraced(function* (input, start) {
    const { groupId, index, item, settings, toolsets } = input
    const { opened, starts } = start
    const { rollouts } = opened
    if (rollouts === undefined) return yield* Effect.die(new Error("the runtime records no episodes"))
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const environment = EnvironmentCatalogue.fromForm(input.environment)
    if (environment === undefined)
      return yield* new BatchRow.RowRefused({ message: "this version does not have the environment of the rollout" })
    // The session of an earlier start has answers whose tokens are lost.
    const again = start.goesOn ? `-${Digest.toHex(`${start.id} ${starts}`, 6)}` : ""
    const { failure, rolloutId, run, score } = yield* RolloutGroup.runMember(
      environment,
      item,
      {
        ...settings,
        capture: rollouts.capture,
        unattended: opened.settings.approvals.unattendedMode,
        directory: paths.join(start.folder, "rollouts", "work")
      },
      { groupId, rolloutId: `${groupId}-${index}${again}`, toolsets }
    ).pipe(Effect.provideContext(rollouts.episodes))
    const path = EpisodeStore.makePath(paths, rollouts.directory, rolloutId)
    const text = yield* fs.readFileString(path)
    yield* Effect.ignore(fs.remove(path))
    const fields: typeof RolloutFields.Encoded = {
      entries: text.split("\n").map(Json.parseOrKeep).filter(Json.isFields),
      score,
      ...(failure === undefined ? {} : { failure }),
      ...(run === undefined ? {} : { steps: run.steps, exit: run.exit })
    }
    return RowPool.makeFinishedResult(fields)
  })
}

/** Creates the function that submits the rollouts of an environment. */
export const makeRolloutRunner =
  (
    { prefix, submit }: RowSubmitter,
    environment: EnvironmentCatalogue.EnvironmentForm
  ): NonNullable<RolloutGroup.Options["elsewhere"]> =>
  ({ groupId, index, item, settings, toolsets }) =>
    Effect.gen(function* () {
      const input: typeof Input.Encoded = { environment, item: { ...item }, groupId, index, toolsets, settings }
      const { fields } = yield* submit({
        name: `${groupId}.${index}`,
        attempt: 1,
        version,
        sessionId: `${yield* prefix}-${Digest.toHex(groupId, 12)}-${index}`,
        input
      })
      const { entries, exit, failure, score, steps } = yield* Effect.mapError(
        decodeFields(fields),
        ({ message }) => new Outcome.ReportedFailure({ message, kind: "infrastructure", isPassing: false })
      )
      return { score, failure, run: steps === undefined || exit === undefined ? undefined : { steps, exit }, entries }
    })
