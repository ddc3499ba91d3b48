/**
 * Modules that commands about rollouts load when they run, in one import.
 */
export * as EpisodeExport from "../runner/rollout/EpisodeExport.ts"
export * as Episodes from "../runner/rollout/Episodes.ts"
export * as EpisodeStore from "../runner/rollout/EpisodeStore.ts"
export * as RolloutModel from "../runner/rollout/RolloutModel.ts"
export * as ToolCallParser from "../runner/rollout/ToolCallParser.ts"

export * as HermesServer from "../server/HermesServer.ts"
export * as Atropos from "../runner/rollout/Atropos.ts"
export * as EnvironmentCatalogue from "../runner/rollout/EnvironmentCatalogue.ts"
export * as RolloutCapture from "../runner/rollout/RolloutCapture.ts"
export * as RolloutRun from "../runner/rollout/RolloutRun.ts"
export * as RolloutSettings from "../runner/rollout/RolloutSettings.ts"
export * as TokenCapture from "../runner/rollout/TokenCapture.ts"
export * as TrainingOutput from "../runner/rollout/TrainingOutput.ts"
export * as TrainingService from "../runner/rollout/TrainingService.ts"
export * as TrainingTools from "../runner/rollout/TrainingTools.ts"
