/**
 * Options of `hermes batch run`: checks its flags and converts them to settings.
 *
 * Source: `hermes-product.md` §5.1.
 */
import * as Effect from "effect/Effect"
import type * as Path from "effect/Path"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type * as Config from "../../base/config/Config.ts"
import * as Json from "../../base/domain/Json.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import type * as Dataset from "../../research/batch/Dataset.ts"
import * as Distributions from "../../research/batch/Distributions.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import type { RunFlags } from "./BatchCommand.ts"
import { makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { renderTable } from "./ProgramOutput.ts"
import * as RunLimits from "./RunLimits.ts"
import * as RunnerCommand from "./RunnerCommand.ts"

/** Reads the required flags. */
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
        `${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} missing: ` +
          "hermes lab batch run --dataset_file=data.jsonl --batch_size=10 --run_name=first"
      )
    )
  }
  if (!/^[\w][\w.-]{0,99}$/.test(runName))
    return Effect.fail(
      makeUsageFailure(`--run-name "${runName}" is not a directory name: use letters, digits, ., - and _`)
    )
  return Effect.succeed({ batchSize, datasetFile, runName })
}

/** Checks all flags that can be checked without other input. */
export const checkFlags = Effect.fnUntraced(function* (flags: RunFlags) {
  const required = yield* readRequiredFlags(flags)
  yield* RunnerCommand.checkCounts({
    "batch-size": flags.batchSize,
    "num-workers": flags.numWorkers,
    "max-samples": flags.maxSamples,
    "max-turns": flags.maxTurns
  })
  yield* RunnerCommand.checkMinimum("retries", flags.retries, 0)
  yield* RunnerCommand.checkMinimum("log-prefix-chars", flags.logPrefixChars, 0)
  const limits = yield* RunLimits.read(flags)
  if (flags.script !== undefined && flags.replay !== undefined)
    return yield* makeUsageFailure("--script and --replay cannot be combined")
  const found = flags.distribution === undefined ? undefined : Distributions.find(flags.distribution)
  if (typeof found === "string") return yield* makeUsageFailure(found)
  return { ...required, limits }
})

/** Returns the container image named by a row. */
export const findRowImage = ({ fields }: Dataset.Row): string | undefined =>
  Json.readString(fields["image"]) ?? Json.readString(fields["docker_image"])

/** Fails if an option works only on this machine, but the rows are run by the runners of a cluster. */
export const checkClusterFlags = Effect.fnUntraced(function* (flags: RunFlags, { rows }: Dataset.Dataset) {
  yield* RunnerCommand.checkRemoteFlags(flags)
  const row = rows.find((one) => findRowImage(one) !== undefined)
  if (flags.image === undefined && row === undefined) return
  return yield* makeUsageFailure(
    `${flags.image !== undefined ? "--image" : `row ${row?.id}: image`}: rows of --cluster run on the machines of ` +
      "the runners: set terminal.docker_image there, or leave out --cluster"
  )
})

/** Converts the flags of this command to settings. */
export const toSettingsFlags = (flags: RunFlags, hasImages: boolean, paths: Path.Path): ReadonlyArray<Config.Flag> => {
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

/** Returns the tools named by an agent file, and the sub-agent tool if the file defines sub-agents. */
export const listAgentTools = (agentFile: AgentFile | undefined): ReadonlyArray<string> | undefined =>
  agentFile?.tools === undefined
    ? undefined
    : [...agentFile.tools, ...(agentFile.subAgents.length > 0 ? [Toolsets.ofSubAgents] : [])]

/** Returns true if an agent file limits the model calls of a run. */
export const hasTurns = (agentFile: AgentFile | undefined): boolean =>
  agentFile?.settings.some(({ key }) => key === "agent.max_turns") === true

/** Renders the distributions of toolsets as a table. */
export const formatDistributions = (): string =>
  renderTable(
    Object.entries(Distributions.table).map(([name, { description, toolsets }]) => [
      name,
      `${description}: ${Object.entries(toolsets)
        .map(([toolset, percentage]) => `${toolset} ${percentage}`)
        .join(", ")}`
    ])
  )
