/**
 * Modules that commands about rollouts load when they run, in one import.
 */
export * as EpisodeExport from "../runner/rollout/EpisodeExport.ts"
export * as Episodes from "../runner/rollout/Episodes.ts"
export * as EpisodeStore from "../runner/rollout/EpisodeStore.ts"
export * as RolloutModel from "../runner/rollout/RolloutModel.ts"
export * as ToolCallParser from "../runner/rollout/ToolCallParser.ts"

export * as HermesServer from "../server/HermesServer.ts"
