/**
 * Action of `hermes batch run`: checks the command line, makes one runtime for all rows, and shows the progress.
 *
 * The summary is on stdout, everything said on the way on stderr. Ctrl+C ends it cleanly: rows in flight are not
 * written, and go on with `--resume`. The exit code is 1 when a row failed or rows are left, 2 when nothing can be run.
 *
 * Source: `hermes-product.md` §5.1, `ARCHITECTURE.md` §6.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import * as Config from "../../base/config/Config.ts"
import type { Values } from "../../base/config/Settings.ts"
import { fetchImage } from "../../places/Container.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as BatchFiles from "../../research/batch/BatchFiles.ts"
import { RowRefused } from "../../research/batch/BatchRow.ts"
import * as BatchRun from "../../research/batch/BatchRun.ts"
import * as Dataset from "../../research/batch/Dataset.ts"
import * as Distributions from "../../research/batch/Distributions.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import type { RunFlags } from "./BatchCommand.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { failed, type Failure, InterruptCode, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Output, renderTable } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as ProgressDisplay from "./ProgressDisplay.ts"
import * as BatchProgress from "./render/BatchProgress.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"
import * as SafeText from "./render/SafeText.ts"
import * as RunLimits from "./RunLimits.ts"

/** Flags without which nothing can be run. */
const readRequiredFlags = (flags: RunFlags) => {
  const { batchSize, datasetFile, runName } = flags
  const missing = [
    ...(datasetFile === undefined ? ["--dataset_file PATH"] : []),
    ...(batchSize === undefined ? ["--batch_size N"] : []),
    ...(runName === undefined ? ["--run_name NAME"] : [])
  ]
  if (datasetFile === undefined || batchSize === undefined || runName === undefined) {
    return Effect.fail(
      makeUsageFailure(
        `${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} missing: hermes batch run --dataset_file=data.jsonl --batch_size=10 --run_name=first`
      )
    )
  }
  if (!/^[\w][\w.-]{0,99}$/.test(runName))
    return Effect.fail(
      makeUsageFailure(`--run-name "${runName}" is not the name of a directory: use letters, digits, ., - and _`)
    )
  const least: ReadonlyArray<readonly [string, number | undefined, number]> = [
    ["--batch-size", batchSize, 1],
    ["--num-workers", flags.numWorkers, 1],
    ["--max-samples", flags.maxSamples, 1],
    ["--max-turns", flags.maxTurns, 1],
    ["--retries", flags.retries, 0],
    ["--log-prefix-chars", flags.logPrefixChars, 0]
  ]
  const wrong = least.find(([, value, most]) => value !== undefined && value < most)
  if (wrong !== undefined)
    return Effect.fail(makeUsageFailure(`${wrong[0]} ${wrong[1]} is too small: pass ${wrong[2]} or more`))
  return Effect.succeed({ batchSize, datasetFile, runName })
}

/** Converts the flags of this command to settings. */
const toSettingsFlags = (flags: RunFlags, hasImages: boolean, paths: Path.Path): ReadonlyArray<Config.Flag> => {
  const splitNames = (text: string | undefined) => (text === undefined ? undefined : Flags.splitNames(text))
  return [
    { name: "--max-tokens", key: "model.max_tokens", value: flags.maxTokens },
    { name: "--api-key", key: "model.api_key", value: flags.apiKey },
    {
      name: "--reasoning-effort",
      key: "agent.reasoning_effort",
      value: flags.reasoningDisabled ? "none" : flags.reasoningEffort
    },
    {
      name: "--prefill-messages-file",
      key: "prefill_messages_file",
      value:
        flags.prefillMessagesFile === undefined
          ? undefined
          : paths.resolve(getWorkingDirectory(), flags.prefillMessagesFile)
    },
    { name: "--providers-allowed", key: "provider_routing.only", value: splitNames(flags.providersAllowed) },
    { name: "--providers-ignored", key: "provider_routing.ignore", value: splitNames(flags.providersIgnored) },
    { name: "--providers-order", key: "provider_routing.order", value: splitNames(flags.providersOrder) },
    { name: "--provider-sort", key: "provider_routing.sort", value: flags.providerSort },
    { name: "--image", key: "terminal.docker_image", value: flags.image },
    {
      name: hasImages ? "--image" : "dataset",
      key: "terminal.backend",
      value: flags.image !== undefined || hasImages ? "docker" : undefined
    }
  ]
}

const findRowImage = ({ fields }: Dataset.Row): string | undefined =>
  Json.readString(fields["image"]) ?? Json.readString(fields["docker_image"])

/** Images of rows: fetched once each, and known by the tree that a container is started for. */
const makeRowImages = Effect.fnUntraced(function* (settings: () => Values | undefined) {
  const fs = yield* FileSystem.FileSystem
  const services = yield* Effect.context<Effect.Services<ReturnType<typeof fetchImage>>>()
  const ofTrees = new Map<string, string>()
  const fetched = new Map<string, Effect.Effect<void, RowRefused>>()
  const fetchImageOnce = Effect.fnUntraced(function* (image: string) {
    const known = fetched.get(image)
    if (known !== undefined) return yield* known
    const once = yield* Effect.cached(
      fetchImage(settings()?.terminal.dockerBinary, image).pipe(
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
        findRowImage(row) ?? (settings()?.terminal.backend === "docker" ? settings()?.terminal.dockerImage : undefined)
      if (image === undefined) return
      yield* fetchImageOnce(image)
      const tree = yield* Effect.orElseSucceed(fs.realPath(workspace), () => workspace)
      const other = ofTrees.get(tree)
      if (other !== undefined && other !== image)
        return yield* new RowRefused({
          message: `${workspace} is the directory of a row with the image ${other}: give the rows different directories`
        })
      ofTrees.set(tree, image)
    })
  }
})

const formatDistributions = (): string =>
  renderTable(
    Object.entries(Distributions.table).map(([name, { description, toolsets }]) => [
      name,
      `${description}: ${Object.entries(toolsets)
        .map(([toolset, percentage]) => `${toolset} ${percentage}`)
        .join(", ")}`
    ])
  )

const formatResumeHint = (runName: string): string => `Go on with the same command and --resume (run "${runName}").`

const formatCount = (number: number, one: string): string => `${number} ${one}${number === 1 ? "" : "s"}`

/** The summary of a run. */
const formatSummary = (runName: string, directory: string, report: BatchRun.Report): string => {
  const {
    before,
    costUsd,
    failed,
    failures,
    merged,
    millis,
    statistics: { rows },
    stopped,
    tokens,
    total
  } = report
  const left = total - before - report.finished - report.discarded - failed
  return [
    `${runName}: ${total - failed - left} of ${total} rows done in ${BatchProgress.formatTime(millis)}${before > 0 ? `, ${before} of them before` : ""}`,
    ...renderTable([
      [
        "  finished",
        `${rows.finished}${rows.gone === 0 ? "" : `, ${rows.gone} of them of rows that the dataset has no more, or changed`}`
      ],
      ...(rows.discarded === 0 ? [] : [["  discarded", `${rows.discarded} (no reasoning in any turn)`]]),
      ...(failed === 0 ? [] : [["  failed", String(failed)]]),
      ...(left === 0 ? [] : [["  not begun", String(left)]]),
      ["  tokens", tokens.toLocaleString("en-US")],
      ...(costUsd === undefined || costUsd === 0 ? [] : [["  cost", BatchProgress.formatDollars(costUsd)]])
    ]).split("\n"),
    `  ${directory}/${BatchFiles.names.trajectories}: ${formatCount(merged.written, "row")}${merged.withUnknownTools === 0 ? "" : `; ${merged.withUnknownTools} left out, which name unknown tools`}`,
    ...failures
      .slice(0, 5)
      .map(({ attempts, id, message }) => `Failed: row ${id} after ${formatCount(attempts, "attempt")}: ${message}`),
    ...(failures.length > 5 ? [`… and ${formatCount(failures.length - 5, "more row")}: see attempts.jsonl`] : []),
    ...(stopped === undefined ? [] : [`Stopped: ${stopped}`]),
    ...(failed > 0 || left > 0 ? [formatResumeHint(runName)] : [])
  ]
    .map(SafeText.toPlainText)
    .join("\n")
}

const toFailure = (error: BatchFiles.BatchError | Dataset.DatasetError): Failure =>
  error._tag === "BatchError" && !error.isInput ? makeWorkFailure(error.message) : makeUsageFailure(error.message)

/** Tools that an agent file names; with sub-agents, the tool for those. */
const listAgentTools = (agentFile: AgentFile | undefined): ReadonlyArray<string> | undefined =>
  agentFile?.tools === undefined
    ? undefined
    : [...agentFile.tools, ...(agentFile.subAgents.length > 0 ? [Toolsets.ofSubAgents] : [])]

const hasTurns = (agentFile: AgentFile | undefined): boolean =>
  agentFile?.settings.some(({ key }) => key === "agent.max_turns") === true

/** Runs a dataset. */
export const run = Effect.fn("hermes batch run")(
  function* (flags: RunFlags) {
    const output = yield* Output
    if (flags.listDistributions) return yield* output.out(`${formatDistributions()}\n`)
    const { batchSize, datasetFile, runName } = yield* readRequiredFlags(flags)
    const { budget, limits, timeout } = yield* RunLimits.read(flags)
    if (flags.script !== undefined && flags.replay !== undefined)
      return yield* makeUsageFailure("--script and --replay exclude each other: use one of them")
    const { distribution } = flags
    const found = distribution === undefined ? undefined : Distributions.find(distribution)
    if (typeof found === "string") return yield* makeUsageFailure(found)
    yield* output.protect
    const shared = yield* hermes
    const paths = yield* Path.Path
    const fs = yield* FileSystem.FileSystem
    const program = yield* Program
    const interruptCode = yield* InterruptCode
    const promptField = flags.promptField ?? "prompt"
    const dataset = yield* Effect.mapError(
      Dataset.read(datasetFile, {
        required: [promptField],
        idField: flags.idField,
        limit: flags.maxSamples,
        split: flags.split
      }),
      toFailure
    )
    const agentFile =
      flags.agent === undefined
        ? undefined
        : yield* Effect.flatMap(
            Effect.promise(() => import("./AgentChoice.ts")),
            ({ choose }) => choose(flags.agent ?? "", true)
          )
    const shown = yield* ProgressDisplay.make()
    for (const text of Dataset.renderProblems(dataset.problems)) yield* shown.say(`Warning: ${text}`)
    const options = Flags.toConfigOptions({ ...shared, agentFile })
    const { settings, warnings } = yield* Config.load({
      ...options,
      flags: [
        ...(options.flags ?? []),
        ...toSettingsFlags(
          flags,
          dataset.rows.some((row) => findRowImage(row) !== undefined),
          paths
        )
      ]
    })
    for (const warning of warnings) yield* shown.say(`Warning: ${warning}`)
    // The runners of a cluster have models of their own.
    if (!flags.cluster) yield* RunnerRuntime.requireModel(settings, flags)
    const directory = paths.join(flags.outputDir ?? "data", runName)
    const absolute = paths.resolve(getWorkingDirectory(), directory)
    yield* Effect.mapError(fs.makeDirectory(absolute, { recursive: true, mode: 0o700 }), ({ message }) =>
      makeUsageFailure(`--output-dir: ${message}`)
    )
    const environments = yield* makeRowImages(() => settings)
    if (flags.cluster) {
      const own = flags.script !== undefined ? "--script" : flags.replay !== undefined ? "--replay" : undefined
      if (own !== undefined)
        return yield* makeUsageFailure(
          `${own} answers on this machine, and rows of --cluster run on others: give it to \`hermes cluster runner\`, or leave out --cluster`
        )
      const withImage =
        flags.image !== undefined ? "--image" : dataset.rows.find((row) => findRowImage(row) !== undefined)?.id
      if (withImage !== undefined)
        return yield* makeUsageFailure(
          `${withImage === "--image" ? withImage : `row ${withImage}: image`}: rows of --cluster run where their runner runs: set terminal.docker_image of the runners, or leave out --cluster`
        )
    }
    const reportAnswer = (row: Dataset.Row, fields: Json.Fields) => {
      const turns = Json.readItems(fields["conversations"])
      const answer = Json.readWord(Json.readFields(turns.at(-1))["value"]).replace(/^<think>[\s\S]*?<\/think>\s*/, "")
      return shown.say(`${row.id}: ${SafeText.toLine(answer).slice(0, flags.logPrefixChars ?? 100)}`)
    }

    const address = flags.cluster ? yield* ClusterSettings.requireDatabaseUrl(settings) : undefined
    const work = Effect.gen(function* () {
      const elsewhere =
        address === undefined
          ? undefined
          : yield* Effect.flatMap(
              Effect.promise(() => import("./ClusterBatch.ts")),
              (cluster) =>
                Effect.mapError(
                  cluster.makeRowSubmitter(address, {
                    runName,
                    directory: absolute,
                    settings,
                    agentFile,
                    rowTimeout: flags.rowTimeout
                  }),
                  (error) =>
                    error._tag === "ClusterError"
                      ? ClusterSettings.toClusterFailure(error)
                      : makeUsageFailure(error.message)
                )
            )
      const router = yield* ModelRouter
      const route = address === undefined ? yield* router.primary : undefined
      const { model, provider } = route ?? {
        model: settings.model.default ?? "its default",
        provider: settings.model.provider
      }
      return yield* BatchRun.run({
        directory: absolute,
        runName,
        dataset,
        promptField,
        batchSize,
        workers: flags.numWorkers ?? 4,
        distribution,
        toolsets:
          shared.toolsets !== undefined
            ? Flags.splitNames(shared.toolsets)
            : flags.distribution === undefined
              ? listAgentTools(agentFile)
              : undefined,
        disabledToolsets: settings.disabledToolsets,
        seed: flags.seed,
        resumes: shared.resume !== undefined,
        format: flags.format,
        needsReasoning: !flags.keepWithoutReasoning && !flags.reasoningDisabled,
        keepsWorkspaces: flags.keepWorkspaces,
        ephemeralSystemPrompt: flags.ephemeralSystemPrompt,
        maxIterations: flags.maxTurns ?? (hasTurns(agentFile) ? settings.agent.maxTurns : 10),
        retries: flags.retries,
        // Waiting for a runner is not part of a row: the runner applies the limit.
        rowTimeout: address === undefined ? timeout : undefined,
        rowBudget: budget,
        limits,
        model: `${provider}/${model}`,
        route,
        prepare: environments.prepare,
        elsewhere,
        onProgress: RunLimits.watchProgress({ limits }, shown),
        onNote: (text) => shown.say(`Note: ${text}`),
        onAnswer: shared.verbose ? reportAnswer : undefined
      })
    }).pipe(
      Effect.catchTags({ BatchError: toFailure, JournalError: ({ message }) => makeWorkFailure(message) }),
      Effect.provideService(InteractiveMode, makeUnattended("batch run", settings.approvals.unattendedMode)),
      Effect.provide(
        program.layer(settings, {
          agentFile,
          script: flags.script,
          replay: flags.replay,
          // The runners have it.
          withoutModel: address !== undefined,
          ignoreRules: true,
          safeMode: shared.safeMode,
          database: paths.join(absolute, BatchFiles.names.database),
          withoutChanges: true,
          imageOf: environments.imageOf
        })
      ),
      Effect.provide(shown.log)
    )

    return yield* Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.exit(restore(work)), (exit) =>
        Effect.gen(function* () {
          if (Exit.isSuccess(exit)) {
            yield* shown.clear
            yield* output.out(`${formatSummary(runName, directory, exit.value)}\n`)
            const { failures, stopped } = exit.value
            return failures.length > 0 || stopped !== undefined ? yield* makeSilentFailure(failed) : undefined
          }
          yield* shown.clear
          const last = shown.last()
          if (Exit.hasInterrupts(exit)) {
            if (last !== undefined)
              yield* output.err(
                `Interrupted: ${BatchProgress.listFacts(last)[0] ?? ""} done, those in flight are not written.\n${formatResumeHint(runName)}\n`
              )
            return yield* makeSilentFailure(interruptCode())
          }
          return yield* Effect.failCause(exit.cause)
        })
      )
    )
  },
  Effect.scoped,
  Effect.provide(CommandSettings.surroundings)
)
