/**
 * Action of `hermes batch run`: creates one runtime for all rows, and shows the progress.
 *
 * The summary is on stdout, all messages are on stderr. After Ctrl+C, rows in flight are not written; they run again
 * with `--resume`.
 *
 * Source: `hermes-product.md` §5.1, `ARCHITECTURE.md` §6.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as Json from "../../base/domain/Json.ts"
import { fetchImage } from "../../places/ContainerEngine.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as BatchFiles from "../../research/batch/BatchFiles.ts"
import { RowRefused } from "../../research/batch/BatchRow.ts"
import * as BatchRun from "../../research/batch/BatchRun.ts"
import type * as Dataset from "../../research/batch/Dataset.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import type { RunFlags } from "./BatchCommand.ts"
import * as BatchOptions from "./BatchOptions.ts"
import * as BatchSummary from "./BatchSummary.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Output } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as ProgressDisplay from "./ProgressDisplay.ts"
import * as RunLimits from "./RunLimits.ts"
import * as RunnerCommand from "./RunnerCommand.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"
import * as SafeText from "./render/SafeText.ts"

/** A batch run, with all inputs named by its command line. */
interface BatchJob {
  readonly flags: RunFlags
  readonly shared: Effect.Success<typeof hermes>
  readonly runName: string
  readonly batchSize: number
  readonly limits: RunLimits.RunLimits
  readonly dataset: Dataset.Dataset
  readonly agentFile: AgentFile | undefined
  readonly settings: Values
  /** Absolute path of the results. */
  readonly directory: string
  /** Database of the cluster whose runners run the rows; `undefined` if the rows run on this machine. */
  readonly address: Effect.Success<ReturnType<typeof ClusterSettings.requireDatabaseUrl>> | undefined
  readonly display: ProgressDisplay.Display
}

/**
 * Creates the function that prepares the container images of rows. Two rows with different images cannot share a
 * directory.
 */
const makeRowImages = Effect.fnUntraced(function* (settings: Values) {
  const fs = yield* FileSystem.FileSystem
  const services = yield* Effect.context<Effect.Services<ReturnType<typeof fetchImage>>>()
  const ofTrees = new Map<string, string>()
  const fetched = new Map<string, Effect.Effect<void, RowRefused>>()
  const fetchImageOnce = Effect.fnUntraced(function* (image: string) {
    const known = fetched.get(image)
    if (known !== undefined) return yield* known
    const once = yield* Effect.cached(
      fetchImage(settings.terminal.dockerBinary, image).pipe(
        Effect.mapError(({ message }) => new RowRefused({ message })),
        Effect.provideContext(services)
      )
    )
    fetched.set(image, once)
    return yield* once
  })
  return {
    imageOf: (tree: string) => ofTrees.get(tree),
    prepare: Effect.fnUntraced(function* (row: Dataset.Row, workspace: string) {
      const image =
        BatchOptions.findRowImage(row) ??
        (settings.terminal.backend === "docker" ? settings.terminal.dockerImage : undefined)
      if (image === undefined) return
      yield* fetchImageOnce(image)
      const tree = yield* Effect.orElseSucceed(fs.realPath(workspace), () => workspace)
      const other = ofTrees.get(tree)
      if (other !== undefined && other !== image)
        return yield* new RowRefused({
          message:
            `${workspace} is the directory of a row with the image ${other}: use different directories for ` +
            "the rows"
        })
      ofTrees.set(tree, image)
    })
  }
})

const openSubmitter = Effect.fnUntraced(function* (
  { agentFile, directory, flags, runName, settings, shared }: BatchJob,
  url: NonNullable<BatchJob["address"]>
) {
  const paths = yield* Path.Path
  const [{ makeRowSubmitter }, { kind }] = yield* Effect.promise(() =>
    Promise.all([import("./ClusterSubmission.ts"), import("./ClusterBatch.ts")])
  )
  return yield* makeRowSubmitter({
    url,
    settings,
    agentFile,
    kind,
    batch: `batch ${runName}`,
    name: `batch-${runName}`,
    keyFile: paths.join(directory, BatchFiles.names.cluster),
    isFresh: shared.resume === undefined,
    timeoutSeconds: flags.rowTimeout
  })
})

const selectToolsets = ({ agentFile, flags, shared }: BatchJob): ReadonlyArray<string> | undefined => {
  if (shared.toolsets !== undefined) return Flags.splitNames(shared.toolsets)
  return flags.distribution === undefined ? BatchOptions.listAgentTools(agentFile) : undefined
}

/** Prints the beginning of a row's last answer, without its reasoning. */
const reportAnswer =
  ({ display, flags }: BatchJob) =>
  (row: Dataset.Row, fields: Json.Fields): Effect.Effect<void> => {
    const turns = Json.readItems(fields["conversations"])
    const answer = Json.readWord(Json.readFields(turns.at(-1))["value"]).replace(/^<think>[\s\S]*?<\/think>\s*/, "")
    return display.say(`${row.id}: ${SafeText.toLine(answer).slice(0, flags.logPrefixChars ?? 100)}`)
  }

const runRows = Effect.fnUntraced(function* (job: BatchJob, images: Effect.Success<ReturnType<typeof makeRowImages>>) {
  const { address, agentFile, display, flags, limits, settings, shared } = job
  const submitter = address === undefined ? undefined : yield* openSubmitter(job, address)
  const elsewhere =
    submitter === undefined
      ? undefined
      : (yield* Effect.promise(() => import("./ClusterBatch.ts"))).makeRowRunner(job.runName, submitter)
  const router = yield* ModelRouter
  const route = address === undefined ? yield* router.primary : undefined
  const { model, provider } = route ?? {
    model: settings.model.default ?? "its default",
    provider: settings.model.provider
  }
  return yield* BatchRun.run({
    directory: job.directory,
    runName: job.runName,
    dataset: job.dataset,
    promptField: flags.promptField ?? "prompt",
    batchSize: job.batchSize,
    workers: flags.numWorkers ?? 4,
    distribution: flags.distribution,
    toolsets: selectToolsets(job),
    disabledToolsets: settings.disabledToolsets,
    seed: flags.seed,
    resumes: shared.resume !== undefined,
    format: flags.format,
    needsReasoning: !flags.keepWithoutReasoning && !flags.reasoningDisabled,
    keepsWorkspaces: flags.keepWorkspaces,
    ephemeralSystemPrompt: flags.ephemeralSystemPrompt,
    maxIterations: flags.maxTurns ?? (BatchOptions.hasTurns(agentFile) ? settings.agent.maxTurns : 10),
    retries: flags.retries,
    // The time waiting for a runner does not count toward a row's limit. The runner applies the limit.
    rowTimeout: address === undefined ? limits.timeout : undefined,
    rowBudget: limits.budget,
    limits: limits.limits,
    model: `${provider}/${model}`,
    route,
    prepare: images.prepare,
    elsewhere,
    onProgress: RunLimits.watchProgress(limits, display),
    onNote: (text) => display.say(`Note: ${text}`),
    onAnswer: shared.verbose ? reportAnswer(job) : undefined
  }).pipe(
    // The rows in flight at a limit stop on their runners, too.
    Effect.tap(({ stopped }) => (stopped === undefined ? Effect.void : (submitter?.cancelOpen ?? Effect.void))),
    Effect.catchTags({
      BatchError: (error) =>
        Effect.fail(error.isInput ? makeUsageFailure(error.message) : makeWorkFailure(error.message)),
      JournalError: ({ message }) => Effect.fail(makeWorkFailure(message))
    })
  )
})

/** Runs the rows in one runtime. */
const runJob = Effect.fnUntraced(function* (job: BatchJob) {
  const { address, agentFile, directory, display, flags, settings, shared } = job
  const paths = yield* Path.Path
  const program = yield* Program
  const images = yield* makeRowImages(settings)
  return yield* runRows(job, images).pipe(
    Effect.provideService(InteractiveMode, makeUnattended("batch run", settings.approvals.unattendedMode)),
    Effect.provide(
      program.layer(settings, {
        agentFile,
        script: flags.script,
        replay: flags.replay,
        // The runners have their own models.
        withoutModel: address !== undefined,
        ignoreRules: true,
        safeMode: shared.safeMode,
        database: paths.join(directory, BatchFiles.names.database),
        withoutChanges: true,
        findImage: images.imageOf
      })
    ),
    Effect.provide(display.log)
  )
})

/** Runs the rows of a dataset. */
export const run = Effect.fn("hermes batch run")(
  function* (flags: RunFlags) {
    const output = yield* Output
    if (flags.listDistributions) return yield* output.out(`${BatchOptions.formatDistributions()}\n`)
    const { batchSize, datasetFile, limits, runName } = yield* BatchOptions.checkFlags(flags)
    yield* output.protect
    const paths = yield* Path.Path
    const dataset = yield* RunnerCommand.readDataset(datasetFile, {
      required: [flags.promptField ?? "prompt"],
      idField: flags.idField,
      limit: flags.maxSamples,
      split: flags.split
    })
    const hasImages = dataset.rows.some((row) => BatchOptions.findRowImage(row) !== undefined)
    const agentFile = yield* RunnerCommand.loadAgentFile(flags.agent)
    const settings = yield* RunnerRuntime.loadSettings(BatchOptions.toSettingsFlags(flags, hasImages, paths), agentFile)
    // The runners of a cluster have their own models.
    if (!flags.cluster) yield* RunnerRuntime.requireModel(settings, flags)
    const shownDirectory = paths.join(flags.outputDir ?? "data", runName)
    const directory = paths.resolve(getWorkingDirectory(), shownDirectory)
    yield* RunnerCommand.makeResultsDirectory(directory, "--output-dir")
    if (flags.cluster) yield* BatchOptions.checkClusterFlags(flags, dataset)
    const address = flags.cluster ? yield* ClusterSettings.requireDatabaseUrl(settings) : undefined
    const display = yield* ProgressDisplay.make()
    const shared = yield* hermes
    // Runners store the sessions of rows in their shared database.
    const sessions = address === undefined ? ` --batch ${shownDirectory}` : ""
    const job = { flags, shared, runName, batchSize, limits, dataset, agentFile, settings, directory, address, display }
    return yield* RunnerCommand.superviseWork(runJob(job), {
      display,
      describeInterruption: () => BatchSummary.describeInterruption(runName, display.last()),
      conclude: (report) =>
        Effect.andThen(
          output.out(`${BatchSummary.formatSummary(runName, shownDirectory, report, sessions)}\n`),
          RunnerCommand.checkOutcome(report)
        )
    })
  },
  Effect.scoped,
  Effect.provide(CommandSettings.surroundings)
)
