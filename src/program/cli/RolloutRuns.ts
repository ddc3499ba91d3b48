/**
 * Action of `hermes rl rollout`: runs an environment in a separate runtime. Sessions are not compacted, memory is off,
 * and the sessions are stored with the output instead of in the home directory.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Digest from "../../base/platform/Digest.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as Distributions from "../../research/batch/Distributions.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { RolloutEnvironment } from "../../research/rollout/RolloutEnvironment.ts"
import * as Outcome from "../../research/batch/Outcome.ts"
import type { GroupReport, Summary } from "../../research/rollout/RolloutRun.ts"
import * as EnvironmentCatalogue from "../../research/rollout/EnvironmentCatalogue.ts"
import * as Episodes from "../../research/rollout/Episodes.ts"
import * as EpisodeStore from "../../research/rollout/EpisodeStore.ts"
import * as RolloutCapture from "../../research/rollout/RolloutCapture.ts"
import * as RolloutRun from "../../research/rollout/RolloutRun.ts"
import * as RolloutSettings from "../../research/rollout/RolloutSettings.ts"
import * as ToolCallParser from "../../research/rollout/ToolCallParser.ts"
import * as TrainingOutput from "../../research/rollout/TrainingOutput.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { failed, type Failure, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { printLine, printNote, Output } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as SafeText from "./render/SafeText.ts"
import * as RunnerCommand from "./RunnerCommand.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"

/** Flags of `hermes rl rollout`. */
export interface RolloutFlags {
  readonly environment: string
  readonly groups: number | undefined
  readonly groupSize: number | undefined
  readonly concurrency: number | undefined
  readonly maxTurns: number | undefined
  readonly temperature: number | undefined
  readonly distribution: string | undefined
  readonly parser: string | undefined
  readonly failedReward: RolloutSettings.RolloutSettings["failedReward"] | undefined
  readonly evaluateEvery: number | undefined
  readonly weightsVersion: string | undefined
  readonly atropos: string | undefined
  readonly output: string | undefined
  readonly noTrajectories: boolean
  readonly cluster: boolean
  readonly script: string | undefined
}

const toUsageFailure = ({ message }: { readonly message: string }): Failure => makeUsageFailure(message)

/** Maximum number of unusable rows reported individually. */
const shownProblems = 10

/** Maximum sequence length announced to a trainer. */
const maxTokenLength = 32_768

const formatScore = (value: number): string => value.toFixed(2)

const formatGroup = ({ group, leftOut, metrics, number }: GroupReport): string => {
  const failed = group.members.flatMap(({ score }) => score.cause ?? [])
  const masked = metrics["rollouts/masked"] ?? 0
  return [
    `${String(number).padStart(3)}  reward ${formatScore(metrics["reward/mean"] ?? 0)} ± ` +
      `${formatScore(metrics["reward/std"] ?? 0)}`,
    RunnerCommand.formatCount(group.members.length, "rollout"),
    ...(failed.length === 0 ? [] : [`${failed.length} failed`]),
    ...(leftOut.length === masked
      ? [`${Math.round(metrics["tokens/trained"] ?? 0)} tokens each`]
      : [`${leftOut.length - masked} without tokens`])
  ].join(", ")
}

/** Describes failed rollouts: all count as 0 in the mean, and masked ones are not trained on. */
const describeFailed = ({ failed, failures, masked, meanScoredReward }: Summary): string => {
  if (failed === 0) return ""
  const kinds = RolloutRun.failureKinds
    .flatMap((kind) => (failures[kind] === 0 ? [] : [`${failures[kind]} ${Outcome.formatKind(kind)}`]))
    .join(", ")
  if (masked === 0) return ` (${failed} failed, worth 0: ${kinds})`
  const rest = meanScoredReward === undefined ? "" : `; mean reward without them ${formatScore(meanScoredReward)}`
  return ` (${failed} failed: ${kinds}; ${masked} masked${rest})`
}

const formatSummary = (summary: Summary, directory: string): string => {
  const { evaluation, groups, meanReward, rollouts, trainable } = summary
  return [
    `${RunnerCommand.formatCount(groups, "group")}, ` +
      `${RunnerCommand.formatCount(rollouts, "rollout")}${describeFailed(summary)}, ` +
      `mean reward ${meanReward === undefined ? "unknown" : formatScore(meanReward)}, ${trainable} can train`,
    ...(evaluation === undefined
      ? []
      : [`Evaluation: mean reward ${formatScore(evaluation["eval/reward/mean"] ?? 0)}`]),
    `Output: ${directory}`
  ].join("\n")
}

/** A run of an environment in a separate runtime. */
interface RolloutJob {
  readonly environment: RolloutEnvironment
  readonly directory: string
  readonly settings: Values
  readonly script: string | undefined
  readonly safeMode: boolean
  readonly atropos: string | undefined
  readonly savesTrajectories: boolean
  /** Submitter of rollouts to the runners of the cluster; `undefined` for rollouts of this process. */
  readonly remote?: RemoteRollouts | undefined
  /** Options of this implementation that are not part of the specified command line. */
  readonly options: Partial<Omit<RolloutRun.Options, "capture" | "directory" | "onScored">>
}

/** Rollouts on the runners of the cluster. */
type RemoteRollouts = Required<Pick<RolloutRun.Options, "delivered" | "elsewhere" | "makeUnique">>

/** Runs the rollouts of an environment and writes them to a directory. */
export const rollOut = Effect.fnUntraced(function* ({
  atropos,
  directory,
  environment,
  options,
  remote,
  safeMode,
  savesTrajectories,
  script,
  settings
}: RolloutJob) {
  const paths = yield* Path.Path
  const program = yield* Program
  if (remote === undefined) yield* RunnerRuntime.requireModel(settings, { script })
  yield* RunnerCommand.makeResultsDirectory(directory, "--output")
  const episodes = yield* Layer.build(
    Episodes.layer.pipe(Layer.provide(EpisodeStore.layerDirectory(paths.join(directory, "episodes"))))
  )
  const capture = yield* Effect.provide(RolloutCapture.make(), episodes)
  const { defaults } = RolloutSettings
  const groupSize = options.groupSize ?? defaults.groupSize
  const filed = TrainingOutput.layerFiles(directory, { trajectories: savesTrajectories })
  const sink =
    atropos === undefined
      ? filed
      : TrainingOutput.layerAtropos(atropos, {
          max_token_length: maxTokenLength,
          desired_name: environment.name,
          weight: 1,
          group_size: groupSize
        }).pipe(Layer.provide(filed))
  return yield* Effect.gen(function* () {
    const { model } =
      remote === undefined
        ? yield* Effect.flatMap(ModelRouter, ({ primary }) => primary)
        : { model: settings.model.default ?? "the model of the runners" }
    yield* printNote(
      `Rolling out ${environment.name} with ${model}, ${RunnerCommand.formatCount(groupSize, "rollout")} in a group`
    )
    return yield* RolloutRun.run(environment, {
      ...defaults,
      ...options,
      ...remote,
      groupSize,
      capture,
      unattended: settings.approvals.unattendedMode,
      directory: paths.join(directory, "work")
    })
  }).pipe(
    Effect.provide(Layer.merge(sink, TrainingOutput.layerMetrics(directory))),
    Effect.catchTags({
      EnvironmentError: (error) => Effect.fail(toUsageFailure(error)),
      RolloutRefused: ({ message }) => Effect.fail(makeWorkFailure(message)),
      OutputError: ({ message }) => Effect.fail(makeWorkFailure(message))
    }),
    Effect.provide(episodes),
    Effect.provide(
      program.layer(settings, {
        script,
        ignoreRules: true,
        safeMode,
        database: paths.join(directory, "sessions.db"),
        withoutChanges: true,
        // The runners have their own models.
        withoutModel: remote !== undefined,
        middleware: [capture.middleware]
      })
    )
  )
}, Effect.scoped)

/** Loads the settings of rollouts, overridden by the shared flags. */
export const rolloutSettings = RunnerRuntime.loadSettings(RunnerRuntime.rolloutFlags)

/** Checks the flags that need no other input. Returns the toolset distribution if a flag names it. */
const checkFlags = Effect.fnUntraced(function* (flags: RolloutFlags) {
  yield* RunnerCommand.checkCounts({
    groups: flags.groups,
    "group-size": flags.groupSize,
    concurrency: flags.concurrency,
    "max-agent-turns": flags.maxTurns
  })
  if (flags.temperature !== undefined && !(flags.temperature >= 0 && flags.temperature <= 2))
    return yield* makeUsageFailure("--temperature is a number from 0 to 2")
  if (flags.parser !== undefined && ToolCallParser.find(flags.parser) === undefined)
    return yield* makeUsageFailure(
      `unknown tool-call parser "${flags.parser}": pass one of ${ToolCallParser.names.join(", ")}`
    )
  const distribution = flags.distribution === undefined ? undefined : Distributions.find(flags.distribution)
  if (typeof distribution === "string") return yield* makeUsageFailure(`--distribution: ${distribution}`)
  return distribution
})

/** Creates the function that prints a line for each group, and warns once about rollouts without tokens. */
const makeGroupReporter = (output: Output["Service"]) => {
  let isWarned = false
  return (report: GroupReport) =>
    Effect.gen(function* () {
      yield* output.out(`${formatGroup(report)}\n`)
      const [cause] = report.group.members.flatMap(({ rolloutId, score }) =>
        score.cause === undefined ? [] : [`${rolloutId}: ${score.cause}`]
      )
      if (cause !== undefined) yield* printNote(`     ${SafeText.toLine(cause)}`)
      const [reason] = report.leftOut
      if (reason === undefined || isWarned) return
      isWarned = true
      yield* printNote(`Warning: ${SafeText.toLine(reason.reason)}`)
    }).pipe(Effect.provideService(Output, output))
}

const toRolloutOptions = (
  flags: RolloutFlags,
  toolsets: string | undefined,
  distribution: Exclude<ReturnType<typeof Distributions.find>, string> | undefined,
  onGroup: ReturnType<typeof makeGroupReporter>
): RolloutJob["options"] => {
  const { defaults } = RolloutSettings
  return {
    groups: flags.groups ?? 8,
    groupSize: flags.groupSize ?? defaults.groupSize,
    concurrency: flags.concurrency ?? defaults.concurrency,
    maxAgentTurns: flags.maxTurns ?? defaults.maxAgentTurns,
    sampling: { ...defaults.sampling, ...(flags.temperature === undefined ? {} : { temperature: flags.temperature }) },
    toolsets: toolsets === undefined ? defaults.toolsets : Flags.splitNames(toolsets),
    distribution,
    toolCallParser: flags.parser,
    weightsVersion: flags.weightsVersion,
    stepsPerEvaluation: flags.evaluateEvery ?? 0,
    failedReward: flags.failedReward ?? defaults.failedReward,
    onGroup
  }
}

/** Counts the groups that an earlier process delivered, from the metrics of the output. */
const countDelivered = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const text = yield* Effect.orElseSucceed(fs.readFileString(paths.join(directory, "metrics.jsonl")), () => "")
  return text
    .split("\n")
    .map((line) => Json.readFields(Json.parseOrKeep(line))["step"])
    .reduce<number>((most, step) => (typeof step === "number" ? Math.max(most, step) : most), 0)
})

/** Opens the submitter of rollouts. The same output has the same groups in every process. */
const openRemote = Effect.fnUntraced(function* (
  flags: RolloutFlags,
  { environment, form }: EnvironmentCatalogue.FoundEnvironment,
  directory: string,
  settings: Values
) {
  yield* RunnerCommand.checkRemoteFlags(flags)
  if (form === undefined)
    return yield* makeUsageFailure(
      `${flags.environment} is code of this machine: runners of --cluster take bundled environments and datasets`
    )
  const paths = yield* Path.Path
  const url = yield* ClusterSettings.requireDatabaseUrl(settings)
  yield* RunnerCommand.makeResultsDirectory(directory, "--output")
  yield* RunnerRuntime.hold(directory)
  const [{ makeRowSubmitter }, { kind, makeRolloutRunner }] = yield* Effect.promise(() =>
    Promise.all([import("./ClusterSubmission.ts"), import("./ClusterRollouts.ts")])
  )
  const submitter = yield* makeRowSubmitter({
    url,
    settings,
    agentFile: undefined,
    kind,
    batch: `rl ${environment.name}`,
    name: `rl-${environment.name.replaceAll(/[^\w.-]+/g, "-").slice(0, 60)}`,
    keyFile: paths.join(directory, "cluster.json"),
    isFresh: false,
    timeoutSeconds: undefined
  })
  const prefix = yield* Effect.mapError(submitter.prefix, ({ message }) => makeWorkFailure(message))
  const remote: RemoteRollouts = {
    delivered: yield* countDelivered(directory),
    elsewhere: makeRolloutRunner(submitter, form),
    makeUnique: (place) => Digest.toHex(`${prefix} ${place}`, 8)
  }
  return remote
})

/** Runs `hermes rl rollout`. */
export const runRollout = Effect.fn("hermes rl rollout")(
  function* (flags: RolloutFlags) {
    const distribution = yield* checkFlags(flags)
    const output = yield* Output
    yield* output.protect
    const shared = yield* hermes
    const found = yield* Effect.mapError(EnvironmentCatalogue.find(flags.environment), toUsageFailure)
    const { environment, problems } = found
    yield* RunnerCommand.printFirstWarnings(problems, shownProblems, (count) => `${count} more rows cannot be used`)
    const paths = yield* Path.Path
    const directory = paths.resolve(flags.output ?? paths.join("data", "rl", environment.name))
    const settings = yield* rolloutSettings
    const remote = flags.cluster ? yield* openRemote(flags, found, directory, settings) : undefined
    const work = rollOut({
      environment,
      directory,
      remote,
      settings,
      script: flags.script,
      safeMode: shared.safeMode,
      atropos: flags.atropos,
      savesTrajectories: !flags.noTrajectories,
      options: toRolloutOptions(flags, shared.toolsets, distribution, makeGroupReporter(output))
    })
    return yield* RunnerCommand.superviseWork(work, {
      display: undefined,
      describeInterruption: () =>
        `Interrupted: finished groups are in ${directory}` +
        `${flags.cluster ? `. ${RunnerCommand.continuesOnRunners}` : ""}`,
      conclude: (summary) =>
        Effect.andThen(
          printLine(formatSummary(summary, directory)),
          summary.rollouts > 0 && summary.failed === summary.rollouts
            ? Effect.fail(makeSilentFailure(failed))
            : Effect.void
        )
    })
  },
  Effect.scoped,
  Effect.provide(FolderTrust.layer),
  Effect.provide(CommandSettings.surroundings)
)
