/** The runtime for code without Effect. */
export { createHermes, fromLayer, type Hermes, type HermesView } from "../promise/CreateHermes.ts"
export {
  type CallsOf,
  type HermesEvent,
  type HermesInput,
  type HermesOptions,
  type HermesResult,
  type HermesResumeInput,
  type HermesTools
} from "../promise/HermesOptions.ts"
export { type AnswerFile, type RunCall, type RunDetails, type StepUsage } from "../../base/domain/RunDetails.ts"
export * as ToolContent from "../../base/domain/ToolContent.ts"
export { HermesError, type Tag } from "../promise/HermesError.ts"
export { type HermesTool, tool, type ToolCall, type ToolOptions } from "../promise/StandardTool.ts"
export { type ToolAsk } from "../promise/PlainAsk.ts"
export { type HermesAgent, type HermesDelegation } from "../promise/PlainAgents.ts"
export { type RunScope } from "../promise/PlainContext.ts"
export { type HookLimits, type Listeners } from "../promise/PlainListeners.ts"
export { type HermesModel, type HermesModelName, type ModelChoice } from "../promise/PlainModels.ts"
export { type HermesMiddleware } from "../promise/PlainMiddleware.ts"
export { type PartialValueOf, type PlainOutput, type ValueOf } from "../promise/PlainOutput.ts"
export { type HermesFallback, type HermesRetry, type ModelFailure } from "../promise/PlainPolicies.ts"
export { type PlainData, type PlainMessage, type PlainPart, type PlainPrompt } from "../promise/PlainPrompt.ts"
export { type HermesMcp, mcp } from "../promise/PlainServers.ts"
export { type HermesSession } from "../promise/PlainSessions.ts"
export { type WatchInput } from "../promise/PlainStreams.ts"
export { type EventStream } from "../promise/StreamCursor.ts"
export { type McpHandler, mcpHandler, type McpServerOptions, serveMcp } from "../promise/PlainServer.ts"
